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

#endif
