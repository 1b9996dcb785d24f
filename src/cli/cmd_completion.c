/* SPDX-License-Identifier: Apache-2.0 */
/* accelerate completion: the script that a shell reads to complete this command, for those who install from source
 * into a folder where their shell does not look. */
#include <config.h>

#include "cli/command.h"
#include "cli/words.h"
#include "util/cleanup.h"

#include <stdio.h>

#define SHELLS "bash, zsh or fish"

int
cmd_completion (int argc, char **argv, struct fail *fail)
{
    struct config config = { 0 };
    AUTO_STRLIST struct strlist words = { 0 };
    AUTO_STRBUF struct strbuf out = { 0 };
    int status = words_read (&config, COMMAND_COMPLETION, argc, argv, &words, fail);
    config_release (&config);
    if (status)
        return status;
    if (!words.count)
        return fail_set (fail, FAIL_USAGE, "no shell given: accelerate completion SHELL; expected " SHELLS);
    if (words.count > 1)
        return fail_set (fail, FAIL_USAGE, "unexpected argument '%s'", words.items[1]);
    if (!emit_completion (words.items[0], &out))
        return fail_set (fail, FAIL_USAGE, "no completion for '%s'; expected " SHELLS, words.items[0]);
    if (out.failed)
        return fail_nomem (fail);
    fputs (out.text, stdout);
    return 0;
}
