/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of struct accel. */
#ifndef LIB_STATE_OBJECT_H
#define LIB_STATE_OBJECT_H

#include "files/deepspeed.h"
#include "lib/base/identity.h"
#include "lib/base/object.h"
#include "util/jobseg.h"

#include <accel/tensor.h>

struct part;

/** A mode of mixed precision: a row of PRECISION_MAP (util/precisions.h). */
struct precision_mode {
    const char *name;
    enum accel_dtype computes_in;
    bool scales_losses;
};

/* Of options whose timeout_ms is 0: 30 minutes. */
enum { DEFAULT_TIMEOUT_MS = 1800000 };

struct accel {
    struct object object;
    struct identity identity;
    struct jobseg segment; /* the launcher's or our own; none if a process is alone */
    struct accel_comm *world;
    struct part *parts; /* what higher floors keep, the latest first */
    /* What the program and the environment say, as it is in effect. */
    struct deepspeed_file deepspeed;        /* what it decides is below, or parts have it */
    const struct precision_mode *precision; /* static */
    bool cpu; /* even if there is a GPU */
    DLDevice device;
    bool split_batches;
    bool device_placement;
    bool check_gradients; /* debugging: a gradient that is infinite or NaN is an error, unless losses are scaled */
    bool activation_checkpointing; /* FSDP_ACTIVATION_CHECKPOINTING, with ACCELERATE_USE_FSDP */
    bool debug; /* ACCELERATE_DEBUG_MODE: compare shapes before collectives on tensors */
    bool trigger; /* accel_set_trigger() */
};

/** Who a process without a job is, as after a failed accel_open(): alone. */
static inline struct identity
state_identity (const struct accel *acc)
{
    return acc ? acc->identity : (struct identity){ .world_size = 1, .local_world_size = 1 };
}

/** @return the mode with this name; the default if it is NULL, and NULL if there is none. */
const struct precision_mode *precision_mode_find (const char *name);

#endif
