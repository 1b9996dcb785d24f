/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of struct accel. */
#ifndef LIB_STATE_OBJECT_H
#define LIB_STATE_OBJECT_H

#include <accel/accumulate.h>

#include "lib/base/identity.h"
#include "lib/state/state_private.h"
#include "lib/train/scaler.h"
#include "util/jobseg.h"

#include <sys/types.h>

struct accel {
    struct object object;
    struct identity identity;
    struct jobseg segment; /* the launcher's or our own; none where a process is alone */
    struct accel_comm *world;
    struct accel_loader *active_loader;
    struct object *prepared; /* the latest first */
    int64_t prepared_count;  /* so far */
    bool joining;            /* between accel_join_uneven_inputs() and accel_join_end() */
    int64_t join_steps;      /* backward passes since then in which this process had data */
    const char *mixed_precision; /* static */
    bool split_batches;
    struct scaler scaler;
    bool scaling;      /* the precision is fp16, and the scaler is not disabled */
    bool autocast_off; /* accel_autocast_enable() */
    bool trigger;
    bool accumulating; /* gradients stay as they are in this step: the original's `not sync_gradients` */
    struct accel_gradient_accumulation accumulation;
    uint64_t micro_step; /* backward passes since the end of a loader */
    double gradient_clipping; /* 0: none */
    bool check_gradients; /* debugging: a gradient that is infinite or NaN is an error, unless losses are scaled */
    bool debug; /* ACCELERATE_DEBUG_MODE: compare shapes before collectives on tensors */
};

/** Who a process without a job is, as after a failed accel_open(): alone. */
static inline struct identity
state_identity (const struct accel *acc)
{
    return acc ? acc->identity : (struct identity){ .world_size = 1, .local_world_size = 1 };
}

#endif
