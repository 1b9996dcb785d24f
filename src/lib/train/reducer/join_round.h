/* SPDX-License-Identifier: Apache-2.0 */
/* accel_join_uneven_inputs(): before each average, all processes say whether they are still at work.  The idea is that
 * of torch's Join (torch/distributed/algorithms/join.py). */
#ifndef LIB_TRAIN_JOIN_ROUND_H
#define LIB_TRAIN_JOIN_ROUND_H

#include "lib/comm/comm_private.h"
#include "lib/state/part.h"
#include "lib/train/model_object.h"

extern const struct part_kind part_join;

/** @return the backward passes with data since accel_join_uneven_inputs(), to be counted; NULL: outside of it. */
int64_t *join_steps (const struct accel *acc);
void join_set (struct accel *acc, bool joining);

/** The ranks at work, and with which model; the same for all, for all take the same steps. */
struct join_round {
    int64_t live;
    int64_t number;
};

/** Meet the others.  Collective.  @param number  of the model that this process averages; 0: it has no data left */
enum accel_status join_meet (struct accel *acc, const struct comm_site *site, int64_t number,
                             struct join_round *round, struct accel_error *err);

/** Between accel_join_uneven_inputs() and its end: tell all that this process averages @p model's gradients. */
enum accel_status join_announce (struct accel *acc, const struct comm_site *site, const struct accel_model *model,
                                 struct accel_error *err);

/**
 * Whose buffers all get: rank 0's, or between those two calls the highest rank's that has data, as in torch.
 * Collective there.
 */
enum accel_status join_find_root (struct accel *acc, const struct comm_site *site, bool live, int *root,
                                  struct accel_error *err);

#endif
