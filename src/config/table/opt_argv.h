/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines, one item after another, by the rows of the option table. */
#ifndef CONFIG_TABLE_OPT_ARGV_H
#define CONFIG_TABLE_OPT_ARGV_H

#include "config/table/options.h"
#include "util/fail.h"

enum argv_item {
    ARGV_BAD = -1,
    ARGV_END,
    ARGV_OPTION,     /* `row` and `value` */
    ARGV_HELP,       /* -h or --help */
    ARGV_HELP_ALL,   /* --help-all */
    ARGV_POSITIONAL, /* `value`; argv[at] follows it */
};

/** Start with `command`, `argc` and `argv`, the rest zero. */
struct argv_scan {
    enum option_command command;
    int argc;
    char **argv;
    int at;              /* the next word */
    const char *cluster; /* what is left of combined short flags: "m" of -qm */
    bool takes_more;     /* `row` has PROPERTY_WORDS and got a word: the next ones are its, too */
    bool literal;        /* after "--": only free words */
    const struct option *row;
    const char *value;
};

enum argv_item argv_next (struct argv_scan *scan, struct fail *fail);

/** ARGV_HELP or ARGV_HELP_ALL if that is asked for before the program (launch) or anywhere (other commands), else
 * ARGV_END. */
enum argv_item argv_wants_help (enum option_command command, int argc, char **argv);

#endif
