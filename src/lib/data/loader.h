/* SPDX-License-Identifier: Apache-2.0 */
/* The loader's side of accel_prepare(). */
#ifndef LIB_DATA_LOADER_H
#define LIB_DATA_LOADER_H

#include "lib/base/object.h"
#include "lib/comm/comm_private.h"

#include <accel/loader.h>

/** The name of the kind. */
extern const char kind_of_loader[];

/** Give @p loader to @p acc: from now on it yields this process's share.  Collective: compares it with the peers'. */
enum accel_status loader_prepare (struct accel_loader *loader, struct accel *acc, const struct comm_site *site,
                                  struct accel_error *err);

/** Take it back: all of the data again, from the next pass on. */
enum accel_status loader_release (struct accel_loader *loader, struct accel_error *err);

/** The same by numbers; without @p acc nothing is agreed on, or sent. */
enum accel_status loader_share (struct accel_loader *loader, struct accel *acc, size_t processes, size_t process,
                                struct accel_error *err);

/** The number of a prepared loader, from 1 on in the order of accel_prepare(), and the loader that has it; 0: none. @{
 */
uint64_t loader_number (const struct accel *acc, const struct accel_loader *loader);
struct accel_loader *loader_at (const struct accel *acc, uint64_t number);
/** @} */

/** @return whether a batch of all processes together, and not of each, is as large as the options say. */
bool loader_splits_batches (const struct accel_loader *loader);

/** Override, or leave again, the loader's own choice of even or uneven batches, from the next pass on. */
void loader_set_join (struct accel_loader *loader, enum accel_flag even);

#endif
