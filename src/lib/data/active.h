/* SPDX-License-Identifier: Apache-2.0 */
/* The loader that runs. */
#ifndef LIB_DATA_ACTIVE_H
#define LIB_DATA_ACTIVE_H

#include "lib/state/part.h"

#include <accel/loader.h>

extern const struct part_kind part_loaders;

/** The loader of @p acc that is in the middle of an epoch, the innermost of several; NULL: none is, or no job.  @{ */
struct accel_loader *loader_active (const struct accel *acc);
void loader_set_active (struct accel *acc, struct accel_loader *loader);
/** @} */

/** An optimizer of @p acc has made a step from a batch of the loader that runs, or was to make one and skipped it. */
void loader_note_step (const struct accel *acc);

/** From now on, call @p between when a loader that a step has used is asked for the next batch: that ends the body of
 *  the program's loop, so whatever belongs to the step was done.  Not collective if loaders are not. */
void loader_set_between (const struct accel *acc, void (*between) (const struct accel *acc));

/** @p loader is asked for the next batch. */
void loader_between (struct accel_loader *loader, const struct accel *acc);

#endif
