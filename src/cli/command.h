/* SPDX-License-Identifier: Apache-2.0 */
/* Subcommands.  Each is one file, cmd_NAME.c, and one row in the table of main.c. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "config/emit.h"
#include "util/fail.h"

struct command {
    struct command_info info;
    /* Gets what follows the command's name; --help has been answered.  @return the exit status, or -1 with fail set */
    int (*run) (int argc, char **argv, struct fail *fail);
};

int cmd_config (int argc, char **argv, struct fail *fail);
int cmd_env (int argc, char **argv, struct fail *fail);
int cmd_launch (int argc, char **argv, struct fail *fail);
int cmd_test (int argc, char **argv, struct fail *fail);
int cmd_to_fsdp2 (int argc, char **argv, struct fail *fail);

#endif
