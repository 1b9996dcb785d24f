/* SPDX-License-Identifier: Apache-2.0 */
/* One result for all ranks. */
#ifndef LIB_CHECKPOINT_AGREE_H
#define LIB_CHECKPOINT_AGREE_H

#include "lib/comm/comm_private.h"

/**
 * Agree on how a step has ended: if it failed on any rank, all return the failure of the lowest such rank, on others
 * with "rank N: " before its text.  Collective.
 *
 * @param status  this rank's result
 * @param err     this rank's failure; becomes the common one.  Not NULL
 */
enum accel_status checkpoint_agree (struct accel *acc, const struct comm_site *site, enum accel_status status,
                                    struct accel_error *err);

/** A call about checkpoints begins.  @return for checkpoint_leave() */
uint64_t checkpoint_enter (struct accel *acc, const struct comm_site *site);

/**
 * It ends; what it made is removed if it failed.  After a failure on all ranks, the launcher learns which of them was
 * the cause, and all wait until all have come here: the end of the first makes the launcher end the others.
 *
 * @param own  the failure of @p status, which @p err gets with the place of the call; @p err may be NULL
 * @return @p status
 */
enum accel_status checkpoint_leave (struct accel *acc, const struct comm_site *site, uint64_t entered,
                                    enum accel_status status, const struct accel_error *own, struct accel_error *err);

#endif
