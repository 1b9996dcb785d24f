/* SPDX-License-Identifier: Apache-2.0 */
/* Where the default configuration file is. */
#ifndef CONFIG_PATHS_H
#define CONFIG_PATHS_H

#include "util/fail.h"

#include <stdbool.h>

/**
 * $HF_HOME, else $XDG_CACHE_HOME/huggingface, else ~/.cache/huggingface; then /accelerate/default_config.yaml.
 * @return 0 and the path, which the caller frees; whether it exists is not looked at
 */
int path_of_default_file (char **path, struct fail *fail);

/** Whether the configuration file @p path is JSON by its name. */
bool path_is_json (const char *path);

#endif
