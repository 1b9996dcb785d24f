/* SPDX-License-Identifier: Apache-2.0 */
/* What every object that others are built on begins with: the job, models, optimizers, schedulers, loaders and groups.
 * accel_prepare() tells them apart by it and refuses what is none, and what is built on another learns that it is gone.
 *
 * Destroying an object ends it: all that it has is freed.  The struct itself stays until whatever is built on it has
 * gone too, so that these can ask object_is_gone().  An object that a call is at work with, whose callback destroys it,
 * ends when that call does. */
#ifndef LIB_BASE_OBJECT_H
#define LIB_BASE_OBJECT_H

#include <accel/state.h>

#include <stdatomic.h>

enum object_kind {
    OBJECT_MODEL = 0x4d0de1,
    OBJECT_OPTIMIZER,
    OBJECT_LOADER,
    OBJECT_SCHEDULER,
    OBJECT_JOB, /* from here on: nothing for accel_prepare() */
    OBJECT_COMM,
};

struct object {
    uint64_t magic;      /* OBJECT_MAGIC ^ enum object_kind; 0 once it has ended */
    struct accel *owner; /* who prepared it; NULL: nobody yet */
    struct object *next; /* of those that the owner prepared, the latest first */
    int64_t number;      /* among these, 1 for the first; the same on all processes */
    void (*end) (struct object *object); /* free all but the struct, which begins with the object */
    atomic_uint holds;   /* the program's, until it has ended, and one of each object that is built on it */
    atomic_bool gone;    /* the program has destroyed it */
    unsigned pins;       /* calls that are at work with it */
};

#define OBJECT_MAGIC UINT64_C (0xacce1e7a7e000000)
#define OBJECT_INIT(kind, function) { .magic = OBJECT_MAGIC ^ (kind), .end = (function), .holds = 1 }

/** What the program calls: end @p object now, or when the calls that are at work with it do.  Accepts NULL. */
void object_destroy (struct object *object);

static inline bool
object_is_gone (const struct object *object)
{
    return atomic_load_explicit (&object->gone, memory_order_relaxed);
}

/** Keep the struct, for an object that is built on it; any thread.  Freed with the last of them.  @{ */
static inline void
object_hold (struct object *object)
{
    atomic_fetch_add_explicit (&object->holds, 1, memory_order_relaxed);
}

void object_let_go (struct object *object);
/** @} */

/** Put off the end of @p object while a call may run functions of the program that destroy it.  Accepts NULL.  @{ */
static inline void
object_pin (struct object *object)
{
    if (object)
        object->pins++;
}

void object_unpin (struct object *object);
/** @} */

/** @return the object that @p acc, which may be NULL, begins with. */
static inline struct object *
object_of_job (struct accel *acc)
{
    return (struct object *) (void *) acc;
}

#endif
