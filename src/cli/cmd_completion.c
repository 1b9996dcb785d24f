/* SPDX-License-Identifier: Apache-2.0 */
/* accelerate completion: the script that a shell reads to complete this command, for those who install from source
 * into a folder where their shell does not look. */
#include <config.h>

#include "cli/command.h"
#include "cli/print.h"
#include "config/load.h"

#define SHELLS "bash, zsh or fish"

int
cmd_completion (int argc, char **argv, struct fail *fail)
{
    AUTO_CONFIG struct config config = { 0 };
    AUTO_STRBUF struct strbuf out = { 0 };
    int status = config_load_command (&config, COMMAND_COMPLETION, argc, argv, 1, fail);
    if (!status && !config.words.count)
        status = fail_set (fail, FAIL_USAGE, "no shell given: accelerate completion SHELL; expected " SHELLS);
    if (!status && !emit_completion (config.words.items[0], &out))
        status = fail_set (fail, FAIL_USAGE, "no completion for '%s'; expected " SHELLS, config.words.items[0]);
    return status ? status : print_text (&out, fail);
}
