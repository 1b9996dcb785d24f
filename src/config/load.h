/* SPDX-License-Identifier: Apache-2.0 */
/* From a command line to settings: flags, then the configuration file, then the environment, then what follows from
 * these.  Precedence: flag > file > environment (if the row allows it) > default. */
#ifndef CONFIG_LOAD_H
#define CONFIG_LOAD_H

#include "config/values.h"
#include "util/fail.h"

/**
 * All that `accelerate launch` needs: flags, file, environment, checks; a program is required.
 *
 * @param[out] config  release it with config_release(), also after a failure
 * @param argc, argv   what follows the word `launch`; argv must outlive @p config
 * @return 0, or -1 with @p fail set (status 2 for the command line, 1 for the file)
 */
int config_load_launch (struct config *config, int argc, char **argv, struct fail *fail);

/** Begin a command that is not a launch: config_init(), the flags, and at most @p most words besides.
 *  @param[out] config  for config_release(), also after a failure */
int config_load_command (struct config *config, enum option_command command, int argc, char **argv, size_t most,
                         struct fail *fail);

/** Steps of the above for commands that need only some; in this order, after config_init() and before config_resolve().
 * @{ */
int config_load_flags (struct config *config, enum option_command command, int argc, char **argv, struct fail *fail);
int config_load_file (struct config *config, struct fail *fail); /* --config_file, or the default one if it exists */
void config_load_environment (struct config *config);
/** @} */

#endif
