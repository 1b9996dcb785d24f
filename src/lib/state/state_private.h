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

/** The objects that @p acc has prepared: note one that is new, forget one that goes away, the first of the list. @{ */
void state_add_prepared (struct accel *acc, struct object *object);
void state_remove_prepared (struct object *object);
struct object *state_prepared (const struct accel *acc);
/** @} */

/** Have nothing point to @p acc any more, which goes away: gradients in its memory are gone. */
void state_let_go (struct accel *acc);

/** The unevenness that accel_join_uneven_inputs() allows: NULL outside; else the steps made so far, to be counted. */
int64_t *state_join_steps (struct accel *acc);
void state_set_joining (struct accel *acc, bool joining);

#endif
