/* SPDX-License-Identifier: Apache-2.0 */
/* The loader, for the files that make it up.  From the top down: loader.c (its life), resume.c, loader_backup.c (where
 * it is), the sources map.c, stream.c and dispatch.c (where batches come from), pass.c (one epoch), share.c
 * (which part is this process's) and drawing.c (the order, and random numbers).  Those below the sources call them
 * through their tables only. */
#ifndef LIB_DATA_LOADER_OBJECT_H
#define LIB_DATA_LOADER_OBJECT_H

#include "lib/base/object.h"
#include "lib/comm/comm_private.h"
#include "lib/data/generator.h"
#include "lib/data/order.h"
#include "lib/data/reader.h"
#include "lib/data/shard.h"

#include <accel/loader.h>

/** A batch on its way to the program. */
struct handed {
    struct accel_batch *batch; /* NULL: the pass is over */
    bool is_last;              /* no other follows */
    size_t remainder;          /* of the last: what accel_loader_remainder() returns */
};

/**
 * Where the batches of a loader come from.  There are three: a data set (map.c) and a stream (stream.c), which this
 * process reads itself, and the dispatcher (dispatch.c), whose rank 0 reads one of these two for all.
 */
struct loader_source {
    const char *name;    /* of the kind of data; NULL: that of what is dispatched */
    bool is_dispatched;  /* if several processes share it, unless the program says otherwise */

    /** Deal out batches of @p size samples: set the numbers of loader->share, and where the base seed is drawn. */
    void (*deal) (struct accel_loader *loader, size_t size);

    /**
     * Make the reader and other memory; free it but for the reader.
     *
     * @param acc  whose memory batches are in, if the program gets them as they were read; NULL: ordinary memory
     */
    enum accel_status (*init) (struct accel_loader *loader, struct accel *acc, struct accel_error *err);
    void (*release) (struct accel_loader *loader); /* may be NULL */

    /** Begin a pass at loader->position.start. */
    enum accel_status (*begin) (struct accel_loader *loader, struct accel_error *err);

    /**
     * Get the next batch; after a failure, try again.
     *
     * @param site  of what is collective; not used by those that read
     */
    enum accel_status (*next) (struct accel_loader *loader, const struct comm_site *site, struct handed *handed,
                               struct accel_error *err);

    /** What accel_loader_length() and accel_loader_remainder() return. @{ */
    size_t (*length) (const struct accel_loader *loader);
    size_t (*remainder) (const struct accel_loader *loader);
    /** @} */

    /** Samples of the epoch that all processes together have finished. */
    size_t (*position) (const struct accel_loader *loader);

    /** The last position that this process knows to exist; SIZE_MAX: it knows of no end. */
    size_t (*end) (const struct accel_loader *loader);

    /** The rest is for those that read.  Samples of an epoch, or batches that vary; ACCEL_LENGTH_UNKNOWN. */
    size_t (*samples) (const struct accel_loader *loader);

    /** Read the first @p count samples of the epoch, or as many as there are, into @p batch. */
    enum accel_status (*read_first) (struct accel_loader *loader, struct accel_batch *batch, size_t count,
                                     struct accel_error *err);

    /** For the reader; see struct reader_source. @{ */
    enum accel_status (*fill) (void *loader, size_t number, struct accel_batch *batch, bool *end,
                               _Atomic int64_t *progress, struct accel_error *err);
    bool is_serial;
    /** @} */
};

/** What part of the data this process gets. */
struct share {
    size_t processes, process;
    bool reads;          /* this process reads data itself */
    enum accel_flag split_given;   /* split_batches as the program gave it */
    size_t row_capacity; /* samples of the largest batch that is read at once */
    size_t round;        /* samples of all processes per step */
    struct shard shard;  /* of samples, or of the program's batches where these vary */
    enum accel_flag join_even; /* accel_join_uneven_inputs()'s word instead of even_batches, from the next pass on */
};

/** What orders are drawn from. */
struct drawing {
    struct accel_sampler *sampler;      /* the program's, or ours; NULL for streams and batch samplers */
    bool owns_sampler;
    struct accel_generator *persistent; /* made for a RandomSampler that is shared by several processes */
    bool seeds; /* not that: the run was begun by one process, which seeds each order from its default generator */
    struct accel_generator agreed; /* rank 0's default generator, for that */
    struct accel_generator *base_seed;  /* torch's base seed is drawn from it; NULL: from the default generator */
};

/** What is drawn from a generator: no order, the order, or the seed of one that draws it. */
enum epoch_source { EPOCH_FIXED, EPOCH_DRAWN, EPOCH_SEEDED, EPOCH_SOURCES };

/** Where a loader is between two passes: what an evaluation puts back, and a state records. */
struct position {
    uint64_t epoch;
    size_t start;       /* where the next pass begins: samples of the order, or the program's batches */
    size_t remainder;   /* of the last pass over a stream, or a dispatched one; known when its last batch is */
    bool resumed;       /* `start` was in a state */
    uint64_t order;     /* what traits_order() has to be for it; 0: not known */
    bool restored;      /* the next pass draws its order from `epoch_state` */
    bool base_seed_drawn; /* the next pass is the rest of one that began elsewhere, and drew its base seed there */
    enum epoch_source epoch_source;
    uint8_t epoch_state[ACCEL_GENERATOR_STATE_BYTES]; /* of the generator when the epoch began */
    bool draws_on;      /* rank 0's order is drawn from a generator that continues from epoch to epoch, */
    uint8_t next_state[ACCEL_GENERATOR_STATE_BYTES]; /* which will be in this state when the next one begins */
};

/** The pass that is running. */
struct pass {
    size_t next;      /* batches given out */
    bool running;     /* between the first batch and the end */
    bool at_end;      /* the batch given out last was the epoch's last */
    bool agreed;      /* what is collective at its beginning is done: it may be tried again without */
    struct accel_batch given;   /* what the program has: the latest batch; empty once its memory is gone */
    struct accel_loader *outer; /* whose loop we run in, if any */
};

struct accel_loader {
    struct object object;
    const struct loader_source *source; /* whom accel_loader_next() asks: `data`, or the dispatcher */
    const struct loader_source *data;   /* what is read: map or stream */
    const struct loader_source *made;   /* whose memory there is; NULL: none */
    const struct accel_dataset *dataset; /* or */
    const struct accel_dataset *stream;  /* with `next` */
    struct {
        struct accel_dataset dataset;
        struct accel_batch_sampler batches;
    } room; /* for those of the program that are shorter than ours; see base/sized.h */
    const struct accel_field *fields;
    size_t field_count;
    size_t samples; /* of the data when the loader was made */
    uint32_t traits; /* traits_compute() */
    struct accel_loader_options options; /* split_batches and drop_last as they are in effect */
    struct share share;
    struct drawing drawing;
    struct order order;
    struct position position;
    struct pass pass;
    struct reader *reader;
    _Atomic bool abandoned; /* a reading thread did not come back: what it uses is never freed, and it reads no more */
    struct device_batches *device_batches; /* device_batches.c's; NULL: batches stay in host memory */
    struct stream_cursor *cursor;  /* stream.c's */
    struct dispatcher *dispatcher; /* dispatch.c's */
};

/** resume.c: what checkpoints have of a loader.  @{ */
void loader_save (const struct object *object, struct accel_state_dict *state);
enum accel_status loader_load (struct object *object, const struct accel_state_dict *state, struct accel_error *err);
/** @} */

/** traits.c: what a position depends on.  @{ */

/** Save the texts, and what traits_order() says of the epoch that is running or is to be continued. */
void traits_save (const struct accel_loader *loader, struct accel_state_dict *state);

/** @retval ACCEL_ERR_INVALID  the loader of @p state had other data, or another order; the text says what and how */
enum accel_status traits_check (const struct accel_loader *loader, const struct accel_state_dict *state,
                                struct accel_error *err);

/** @return loader->traits for its share: a hash of the texts, in 24 bits; not 0. */
uint32_t traits_compute (const struct accel_loader *loader);

/** @return a hash of some places of the order that was drawn; 0: this process has none. */
uint64_t traits_order (const struct accel_loader *loader);
/** @} */

/** share.c @{ */

/** Whether processes deal the data out among themselves, so that each reads, and fails to read, its own share. */
bool share_is_dealt (const struct accel_loader *loader);

/** Whether others read along, a share of their own or, in a row of tensor parallelism, the same: orders are agreed on,
 * and who has no batch leaves others waiting. */
bool share_has_peers (const struct accel_loader *loader);

/** Whether the last round of the next pass is filled up. */
bool share_is_even (const struct accel_loader *loader);

/** Whether several processes get this loader's batches from rank 0. */
bool share_is_dispatched (const struct accel_loader *loader, size_t processes);

/** `deal` of those that read themselves. */
void share_deal (struct accel_loader *loader, size_t size);

/** Let `split_batches` be what the loader says, or if it says nothing, the job. */
void share_choose_split (struct accel_loader *loader, const struct accel *acc);

/** Give the loader the share of process @p process of @p processes. */
enum accel_status share_set (struct accel_loader *loader, size_t processes, size_t process, struct accel_error *err);

/** @return the rounds of all processes that @p samples make, with the incomplete one unless it is dropped. */
size_t share_count_rounds (const struct accel_loader *loader, size_t samples);
/** @} */

/** drawing.c @{ */

/** Tell the sampler, which may be that of other loaders too, how this one deals out samples. */
void drawing_shape_sampler (const struct accel_loader *loader);

/** The generator that draws the orders of @p loader and continues from epoch to epoch; NULL: there is none. */
struct accel_generator *drawing_generator (const struct accel_loader *loader);

/** A RandomSampler that several processes share draws from one generator: make it if it is missing. */
enum accel_status drawing_make_persistent (struct accel_loader *loader, struct accel_error *err);

/** Take it away from the sampler, and free it. */
void drawing_drop_persistent (struct accel_loader *loader);

/**
 * Draw orders as the run does that is continued, with whatever number of processes it began: from a generator that goes
 * on from epoch to epoch (EPOCH_DRAWN), or seeding each from the default one (EPOCH_SEEDED).  The program's own
 * generator stays.
 */
enum accel_status drawing_continue (struct accel_loader *loader, enum epoch_source source, struct accel_error *err);

/** @return whether orders are seeded from the default generator. */
bool drawing_seeds (const struct accel_loader *loader);

/** Agree on random numbers, collectively, as Accelerate does at the beginning of an epoch. */
enum accel_status drawing_agree (struct accel_loader *loader, const struct comm_site *site, struct accel_error *err);

/** Draw the number that torch's loaders draw for their workers, unless that is done. */
void drawing_draw_base_seed (const struct accel_loader *loader);

/** Make the order of the epoch of a data set, base seed included. */
enum accel_status drawing_make_order (struct accel_loader *loader, struct accel_error *err);

/** Call @p begin; a failure leaves the generators as they were. */
enum accel_status drawing_try (struct accel_loader *loader,
                               enum accel_status (*begin) (struct accel_loader *loader, struct accel_error *err),
                               struct accel_error *err);
/** @} */

/** pass.c @{ */

/** Longest wait for a reading thread. */
uint32_t pass_timeout (const struct accel_loader *loader);

/** Make the reader.  @param acc  as for `init` */
enum accel_status pass_make_reader (struct accel_loader *loader, struct accel *acc, struct accel_error *err);

/** Whether a thread of the last pass still reads: neither the order nor the program's stream may change under it. */
enum accel_status pass_check_idle (const struct accel_loader *loader, struct accel_error *err);

/** Let the reader begin at batch @p first of @p length; SIZE_MAX: only reading tells. */
void pass_read (struct accel_loader *loader, size_t first, size_t length);

/** Memory and threads; made with the loader, and anew after accel_prepare(). @{ */
enum accel_status pass_init (struct accel_loader *loader, struct accel_error *err);
void pass_release (struct accel_loader *loader);
/** @} */

/** Begin a pass: agree on random numbers, draw the order, set the reader going. */
enum accel_status pass_begin (struct accel_loader *loader, const struct comm_site *site, struct accel_error *err);

/** End it, wherever it is. */
void pass_end (struct accel_loader *loader);
/** @} */

/** The sources.  @{ */
extern const struct loader_source loader_map;      /* a data set, of which each process reads its own share */
extern const struct loader_source loader_stream;   /* each process reads all of it, and keeps its own share */
extern const struct loader_source loader_dispatch; /* rank 0 reads one of these two for all */
/** @} */

/**
 * Compare @p loader with those that the other ranks of @p comm prepare in the same call.  Collective.
 *
 * @retval ACCEL_ERR_INVALID  they differ; on every rank, and the text says in what, on which two ranks, and how
 */
enum accel_status loader_compare (const struct accel_loader *loader, struct accel_comm *comm,
                                  const struct comm_site *site, struct accel_error *err);

#endif
