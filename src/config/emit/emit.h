/* SPDX-License-Identifier: Apache-2.0 */
/* The option table as text: help, man page, completion, JSON.  One function per form. */
#ifndef CONFIG_EMIT_EMIT_H
#define CONFIG_EMIT_EMIT_H

#include "config/table/options.h"
#include "util/fail.h"
#include "util/strbuf.h"

/** What these forms need to know of a subcommand. */
struct command_info {
    const char *name;
    enum option_command options; /* whose flags it has */
    const char *arguments;       /* after "accelerate NAME [options]", or NULL */
    const char *words;           /* first free word that completion offers, separated by blanks; "@files"; or NULL */
    const char *summary;         /* one line, lower case, no full stop */
    const char *text;            /* for --help, after the summary, or NULL; folded, and "word  text" from text on */
};

/** Whether @p row is a flag of @p command that help and manual show. */
static inline bool
emit_has_row (const struct option *row, enum option_command command)
{
    return (row->commands & command) && !(row->properties & (PROPERTY_NO_FLAG | PROPERTY_HIDDEN));
}

/** Whether completion offers it: keys of the file too, which are all flags of config; its manual need not list them. */
static inline bool
emit_completes_row (const struct option *row, enum option_command command)
{
    return option_is_flag_of (row, command) && !(row->properties & PROPERTY_HIDDEN);
}

/**
 * The groups that matter in the mode that a command line chooses, by its flags or by the file it names: bit 1 << GROUP.
 * A group with a flag on the command line matters too; what is wrong there is passed over.
 */
unsigned emit_chosen_groups (enum option_command command, int argc, char **argv);

/** Append lines of text, folded at blanks; one of the form "word  text", of a list, from the text on. */
void emit_folded (const char *text, int columns, struct strbuf *out);

/** `accelerate NAME --help`, @p columns wide; of groups that matter in some mode only, those in @p groups are shown. */
void emit_command_help (const struct command_info *info, unsigned groups, int columns, struct strbuf *out);

/** Items of an mdoc list for the flags of @p command, group by group, and of the variables they set. @{ */
void emit_man_options (enum option_command command, struct strbuf *out);
void emit_man_keys (struct strbuf *out);
void emit_man_environment (struct strbuf *out);
/** @} */

/** Items of an mdoc list, one for each command, and references to their pages for SEE ALSO. @{ */
void emit_man_commands (const struct command_info *const *commands, size_t count, struct strbuf *out);
void emit_man_command_pages (const struct command_info *const *commands, size_t count, struct strbuf *out);
/** @} */

/** The names of the command whose words are completed. */
#define EMIT_PROGRAMS                                                                                                  \
    "accelerate accelerate-launch accelerate-config accelerate-estimate-memory accelerate-merge-weights"

/** Completion scripts. @{ */
void emit_bash (const struct command_info *const *commands, size_t count, struct strbuf *out);
void emit_fish (const struct command_info *const *commands, size_t count, struct strbuf *out);
void emit_zsh (const struct command_info *const *commands, size_t count, struct strbuf *out);
/** @} */

/** The completion script of all commands for @p shell.  @return false if there is none */
bool emit_completion (const char *shell, struct strbuf *out);

/** The whole table. */
int emit_json (struct strbuf *out, struct fail *fail);

/** A JSON schema (draft 2020-12) of the configuration file. */
int emit_schema (struct strbuf *out, struct fail *fail);

#endif
