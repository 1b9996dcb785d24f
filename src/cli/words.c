/* SPDX-License-Identifier: Apache-2.0 */
/* Flags and free words; see words.h. */
#include <config.h>

#include "cli/words.h"

#include "config/table/opt_argv.h"

int
words_read (struct config *config, enum option_command command, int argc, char **argv, struct strlist *words,
            struct fail *fail)
{
    struct argv_scan scan = { .command = command, .argc = argc, .argv = argv };
    enum argv_item item;
    if (config_init (config, fail))
        return -1;
    while ((item = argv_next (&scan, fail)) != ARGV_END) {
        if (item == ARGV_BAD)
            return -1;
        if (item == ARGV_POSITIONAL)
            strlist_add (words, scan.value);
        if (item == ARGV_OPTION
            && config_set (config, scan.row, scan.value, (struct origin){ ORIGIN_FLAG, 0 }, fail))
            return fail_prefix (fail, "--%s", scan.row->key);
    }
    return words->failed ? fail_nomem (fail) : 0;
}
