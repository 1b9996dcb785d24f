/* SPDX-License-Identifier: Apache-2.0 */
/* accelerate config update, show, lint, get and set: what can be done with a configuration file without asking. */
#ifndef CLI_CONFIG_FILES_H
#define CLI_CONFIG_FILES_H

#include "config/values.h"

/** Read @p path and rewrite it: old keys under their new names, defaults filled in.  @return 0 or -1 */
int config_files_update (struct config *config, const char *path, struct fail *fail);

/** Print each key's effective value, and where it comes from: @p path where it exists, variables, defaults. */
int config_files_show (struct config *config, const char *path, struct fail *fail);

/** Read @p path where it exists, or must, and the environment: the settings in effect.  @return 0 or -1 */
int config_files_load (struct config *config, const char *path, struct fail *fail);

/** Print the value of the key that config->words name.  @return 0; 1: it has none; -1 with @p fail */
int config_files_get (struct config *config, const char *path, struct fail *fail);

/** Change the file; in config->words, keys and values alternate.  Writes nothing if launch would refuse it. */
int config_files_set (struct config *config, const char *path, struct fail *fail);

/** Print what is wrong with each of the files, a line each.  @return 0: nothing, 1: something, -1 with @p fail */
int config_files_lint (char **files, int count, struct fail *fail);

/** Print a JSON schema of configuration files; @p config and @p path do not matter. */
int config_files_schema (struct config *config, const char *path, struct fail *fail);

#endif
