/* SPDX-License-Identifier: Apache-2.0 */
/* Batches on the device that the process computes on.  A prepared loader copies each there: while the program works
 * with one batch, the next is on its way, on a stream of its own.  Where rank 0 reads for all, batches are sent between
 * hosts, and each rank copies its own when it has it. */
#ifndef LIB_DATA_DEVICE_BATCHES_H
#define LIB_DATA_DEVICE_BATCHES_H

#include "lib/data/loader_object.h"

/** @return whether batches of @p loader, prepared by @p acc, are to be on accel_device(). */
bool device_batches_is_wanted (const struct accel_loader *loader, const struct accel *acc);

/** Make loader->device_batches, before the source of the loader makes its memory. */
enum accel_status device_batches_init (struct accel_loader *loader, struct accel *acc, struct accel_error *err);

/** Wait for copies, and free it; accepts a loader without. */
void device_batches_release (struct accel_loader *loader);

/** As `next` of a source, of a loader with placing: what that returns, copied. */
enum accel_status device_batches_next (struct accel_loader *loader, const struct comm_site *site, struct handed *handed,
                                       struct accel_error *err);

/** The pass is over: what is on its way arrives, and is dropped. */
void device_batches_stop (struct accel_loader *loader);

#endif
