/* SPDX-License-Identifier: Apache-2.0 */
/* Subcommands.  Each is one file, cmd_NAME.c, and one row in config/table/rows_commands.h. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "config/emit/emit.h"
#include "util/fail.h"

struct command {
    struct command_info info;
    /* Gets what follows the command's name; --help has been answered.  @return the exit status, or -1 with fail set */
    int (*run) (int argc, char **argv, struct fail *fail);
};

#define COMMAND(NAME, function, ...) int cmd_##function (int argc, char **argv, struct fail *fail);
#include "config/table/rows_commands.h"
#undef COMMAND

#endif
