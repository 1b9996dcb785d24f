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

#endif
