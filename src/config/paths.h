/* SPDX-License-Identifier: Apache-2.0 */
/* Where the default configuration file is, and the user's other files beside it. */
#ifndef CONFIG_PATHS_H
#define CONFIG_PATHS_H

#include "util/fail.h"

#include <stdbool.h>

/**
 * $HF_HOME, else $XDG_CACHE_HOME/huggingface, else ~/.cache/huggingface; then /accelerate/default_config.yaml.
 * @return 0 and the path, which the caller frees; whether it exists is not looked at
 */
int path_of_default_file (char **path, struct fail *fail);

/** The same folder's job_key, which the launchers of a job on several machines share. */
int path_of_job_key (char **path, struct fail *fail);

/** Whether the configuration file @p path is JSON by its name. */
bool path_is_json (const char *path);

#endif
