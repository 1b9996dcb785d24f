/* SPDX-License-Identifier: Apache-2.0 */
/* What the launcher was asked for, as its variables say. */
#ifndef LIB_STATE_LAUNCHED_H
#define LIB_STATE_LAUNCHED_H

#include "files/deepspeed.h"

/** @return whether @p variable of the environment says true, as the launcher writes it: an option that was not given
 *          leaves it empty, or unset. */
bool launched_is_on (const char *variable);

/** Read the file of --deepspeed_config_file with --use_deepspeed, if there is one; see deepspeed_read(). */
__attribute__ ((cold)) enum accel_status launched_deepspeed (struct deepspeed_file *file, struct accel_error *err);

#endif
