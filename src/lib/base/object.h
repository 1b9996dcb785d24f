/* SPDX-License-Identifier: Apache-2.0 */
/* What every object that others are built on begins with: the job, models, optimizers, schedulers, loaders and groups.
 * A table of functions says what can be done with objects of a kind.  What is built on another object learns that it is
 * gone.
 *
 * Destroying an object ends it: all that it has is freed.  The struct itself stays until whatever is built on it has
 * gone too, so that these can ask object_is_gone().  An object that a call is at work with, whose callback destroys it,
 * ends when that call does. */
#ifndef LIB_BASE_OBJECT_H
#define LIB_BASE_OBJECT_H

#include <accel/state.h>

#include <stdatomic.h>

struct accel_state_dict;
struct comm_site;
struct object;

/** In which order a checkpoint loads objects: those that others are built on come first. */
enum object_floor { OBJECT_MODEL, OBJECT_OPTIMIZER, OBJECT_SCHEDULER, OBJECT_LOADER, OBJECT_FLOORS };

/**
 * What can be done with the objects of one kind, whose structs begin with a struct object.  A kind that can be prepared
 * is a part of the job as long as it is.
 */
struct object_kind {
    const char *name; /* static; objects of one kind have the same address here */
    /** Free all but the struct. */
    void (*end) (struct object *object);
    /** Compare @p object over the ranks and make it work for @p acc.  Collective.  NULL: it cannot be prepared. */
    enum accel_status (*prepare) (struct object *object, struct accel *acc, const struct comm_site *site,
                                  struct accel_error *err);
    /** accel_free_memory(): undo that, prepared_remove() included; or fail.  NULL: nothing else is to be undone. */
    enum accel_status (*release) (struct object *object, struct accel_error *err);
    /** accel_close(): forget what belongs to the job, whose list no longer has @p object.  NULL: there is nothing. */
    void (*let_go) (struct object *object);
    /** accel_end_training(): end what is running.  NULL: nothing runs. */
    void (*stop) (struct object *object);
    /**
     * accel_save_state(): say what is to be restored.  Rank 0 calls it, for all ranks.  NULL: nothing
     * is saved.  @{
     */
    void (*save) (const struct object *object, struct accel_state_dict *state);
    /** accel_load_state(): restore it.  Every rank calls it.  Not collective.  */
    enum accel_status (*load) (struct object *object, const struct accel_state_dict *state, struct accel_error *err);
    /** @} */
    const char *file;        /* what its files are called: "model"; NULL: nothing is saved */
    enum object_floor floor; /* of what is saved */
};

struct object {
    uint64_t magic;      /* OBJECT_MAGIC; 0 once it has ended */
    const struct object_kind *kind;
    struct accel *owner; /* the job that prepared it; NULL: none yet */
    struct object *next; /* of those that the owner prepared, the latest first */
    int64_t number;      /* among these, 1 for the first; the same on all processes */
    atomic_uint holds;   /* the program's, until it has ended, and one of each object that is built on it */
    atomic_bool gone;    /* the program has destroyed it */
    unsigned pins;       /* calls that are at work with it */
};

#define OBJECT_MAGIC UINT64_C (0xacce1e7a7e000000)
#define OBJECT_INIT(its_kind) { .magic = OBJECT_MAGIC, .kind = (its_kind), .holds = 1 }

/** @return whether @p object is of the kind whose name this is, and has not ended. */
static inline bool
object_is (const struct object *object, const char *kind)
{
    return object->magic == OBJECT_MAGIC && object->kind->name == kind;
}

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
