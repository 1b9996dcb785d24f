/* SPDX-License-Identifier: Apache-2.0 */
/* Saves that are in flight. */
#ifndef LIB_CHECKPOINT_SAVE_START_H
#define LIB_CHECKPOINT_SAVE_START_H

#include "lib/comm/comm_private.h"

/**
 * Let the save in flight, if there is one, come to its end: before anything else is saved or loaded.  Collective.
 *
 * @param err  not NULL; the failure of that save, which is thereby reported
 */
enum accel_status save_finish (struct accel *acc, const struct comm_site *site, struct accel_error *err);

#endif
