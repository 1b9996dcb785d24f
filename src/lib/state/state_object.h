/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of struct accel. */
#ifndef LIB_STATE_OBJECT_H
#define LIB_STATE_OBJECT_H

#include "lib/base/identity.h"
#include "lib/base/object.h"
#include "util/jobseg.h"

struct part;

/* Of options whose timeout_ms is 0: 30 minutes. */
enum { DEFAULT_TIMEOUT_MS = 1800000 };

struct accel {
    struct object object;
    struct identity identity;
    struct jobseg segment; /* the launcher's or our own; none where a process is alone */
    struct accel_comm *world;
    struct part *parts; /* what higher floors keep, the latest first */
    /* What the program and the environment say, as it is in effect. */
    const char *mixed_precision; /* static */
    bool cpu; /* even if there is a GPU */
    DLDevice device;
    bool split_batches;
    bool without_device_placement;
    bool check_gradients; /* debugging: a gradient that is infinite or NaN is an error, unless losses are scaled */
    bool debug; /* ACCELERATE_DEBUG_MODE: compare shapes before collectives on tensors */
    bool trigger; /* accel_set_trigger() */
};

/** Who a process without a job is, as after a failed accel_open(): alone. */
static inline struct identity
state_identity (const struct accel *acc)
{
    return acc ? acc->identity : (struct identity){ .world_size = 1, .local_world_size = 1 };
}

#endif
