/* SPDX-License-Identifier: Apache-2.0 */
/* What other parts of the library ask of a struct accel. */
#ifndef LIB_STATE_PRIVATE_H
#define LIB_STATE_PRIVATE_H

#include <accel/loader.h>
#include <accel/state.h>

#include "lib/base/object.h"

/** The loader that is in the middle of an epoch, or NULL: what accel_gather_for_metrics() looks at. */
struct accel_loader *state_active_loader (const struct accel *acc);
void state_set_active_loader (struct accel *acc, struct accel_loader *loader);

/** The unevenness that accel_join_uneven_inputs() allows: NULL outside; else the steps made so far, to be counted. */
int64_t *state_join_steps (struct accel *acc);
void state_set_joining (struct accel *acc, bool joining);

#endif
