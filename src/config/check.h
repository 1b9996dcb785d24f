/* SPDX-License-Identifier: Apache-2.0 */
/* Rules over several settings, as a table: what cannot be combined. */
#ifndef CONFIG_CHECK_H
#define CONFIG_CHECK_H

#include "config/values.h"
#include "util/fail.h"

/** Refuse settings that contradict each other; run it when all is known. */
int config_check (const struct config *config, struct fail *fail);

/** What is wrong with dynamo_backend in the file: refuse it if it takes effect, after config_resolve(). @{ */
int config_check_deferred (const struct config *config, struct fail *fail);
bool config_ignores_deferred (const struct config *config);
/** @} */

/** Refuse files that the ranks will read and that do not exist.  For a job that is really started. */
int config_check_files (const struct config *config, struct fail *fail);

#endif
