/* SPDX-License-Identifier: Apache-2.0 */
/* The loader, for the files that make it up: loader.c (its life), pass.c (an epoch), map.c and stream.c (where batches
 * come from), dispatch.c (one process reads for all), resume.c (its state). */
#ifndef LIB_DATA_LOADER_OBJECT_H
#define LIB_DATA_LOADER_OBJECT_H

#include "lib/base/object.h"
#include "lib/comm/comm_private.h"
#include "lib/data/generator.h"
#include "lib/data/order.h"
#include "lib/data/reader.h"
#include "lib/data/shard.h"

#include <accel/loader.h>

/** One pass through a stream, by one process. */
struct stream_cursor {
    size_t group;     /* samples of one round */
    size_t begin;     /* first of them that is this process's */
    size_t own;       /* how many are */
    bool pad;         /* fill the last round up with the first samples */
    size_t keep;      /* how many of the first samples are remembered for that, or for the dispatcher */
    struct accel_batch first;
    struct accel_batch scratch; /* of one sample, for what is others' */
    size_t taken;     /* samples read in this pass */
    size_t tail;      /* samples of an incomplete last round; 0: none so far */
};

/** What is drawn from a generator: no order, the order, or the seed of one that draws it. */
enum epoch_source { EPOCH_FIXED, EPOCH_DRAWN, EPOCH_SEEDED, EPOCH_SOURCES };

/** One process reads and sends, all take their rows. */
struct dispatcher {
    struct accel_batch rounds[2]; /* rank 0 reads one ahead; others use the first */
    size_t rows[2];
    size_t current;        /* which one the batch that was given out is in */
    size_t filling_parts;  /* rank 0: batches, and rows, of the round that is being put together; */
    size_t filling_rows;   /* where reading fails the next attempt goes on from here */
    bool read_over;        /* rank 0: nothing comes behind the round read last */
    bool not_begun;        /* rank 0: the pass could not begin; the next round is to try again */
    struct accel_error failure; /* rank 0: why the pass could not begin or can never go on; sent instead of a round */
    struct accel_batch first; /* the first rows of the epoch, to fill the last round up with */
    struct accel_batch view;  /* this process's rows of a round */
    int64_t *header;
    size_t capacity;       /* rows of a round */
    bool draws_on;         /* rank 0's order is drawn from a generator that goes on from epoch to epoch, */
    uint8_t next_state[ACCEL_GENERATOR_STATE_BYTES]; /* which will be in this state when the next one begins */
};

struct accel_loader {
    struct object object;
    const struct accel_dataset *dataset; /* or */
    const struct accel_stream *stream;
    struct {
        struct accel_dataset dataset;
        struct accel_stream stream;
        struct accel_batch_sampler batches;
    } room; /* for those of the program that are shorter than ours; see base/sized.h */
    struct accel_loader_options options; /* split_batches and drop_last as they are in effect */
    bool split_given; /* split_batches as the program gave it */
    size_t samples;     /* of the data set when the loader was made */
    const struct accel_field *fields;
    size_t field_count;

    size_t processes, process;
    bool dispatching;
    struct shard shard; /* of samples, or of the program's batches where these vary */
    size_t row_capacity; /* samples of the largest batch that is read at once */

    struct accel_sampler *sampler;    /* the program's, or ours; NULL for streams and batch samplers */
    bool owns_sampler;
    struct accel_generator *persistent; /* made for a RandomSampler that is shared by several processes */
    struct order order;

    uint64_t epoch;
    size_t next;        /* batches given out in this pass */
    size_t start;       /* where the next pass begins: samples of the order, or the program's batches */
    bool running;       /* between the first batch and the end */
    bool at_end;        /* the batch given out last was the epoch's last */
    size_t stream_remainder; /* of streams and dispatched ones, known when the last batch is */
    bool agreed;        /* what is collective at the beginning of a pass is done: it may be tried again without */
    bool interrupted;   /* reading the stream failed: it has to be started again to go on */
    bool restored;      /* the next pass draws its order from `epoch_state` */
    enum epoch_source epoch_source;
    bool resumed;       /* where the next pass begins was in a state */
    bool base_seed_drawn; /* the next pass is the rest of one that began elsewhere, and drew its base seed there */
    uint8_t epoch_state[ACCEL_GENERATOR_STATE_BYTES]; /* of the generator when the epoch began */

    struct reader *reader;
    _Atomic bool abandoned; /* a reading thread did not come back: what it uses is never freed, and it reads no more */
    struct stream_cursor cursor;
    struct dispatcher dispatcher;
    enum accel_join_even join_even; /* accel_join_uneven_inputs()'s word in place of `uneven`, from the next pass on */
    struct accel_batch given;   /* what the program has: the latest batch; empty once its memory is gone */
    struct accel_loader *outer; /* whose loop we run in, if any */
};

/** Whether this process reads data itself. */
static inline bool
loader_reads (const struct accel_loader *loader)
{
    return !loader->dispatching || loader->process == 0;
}

/** Whether the last round of the next pass is filled up. */
bool loader_is_even (const struct accel_loader *loader);

/** Tell the sampler, which may be that of other loaders too, how this one deals out samples. */
void loader_shape_sampler (const struct accel_loader *loader);

/** Longest wait for a reading thread. */
uint32_t loader_timeout (const struct accel_loader *loader);

/** Fill one batch from the data set, for the reader.  @param user  the loader */
enum accel_status map_fill (void *user, size_t number, struct accel_batch *batch, bool *end, _Atomic int64_t *progress,
                            struct accel_error *err);

/** Read the samples at positions 0 .. @p count - 1 of the order, or what there is of them. */
enum accel_status map_read_first (struct accel_loader *loader, struct accel_batch *batch, size_t count,
                                  struct accel_error *err);

/** Make the cursor's memory; start a pass behind @p start samples; fill one batch. @{ */
enum accel_status stream_init (struct accel_loader *loader, struct accel_error *err);
void stream_release (struct accel_loader *loader);
enum accel_status stream_start (struct accel_loader *loader, size_t start, struct accel_error *err);
enum accel_status stream_fill (void *user, size_t number, struct accel_batch *batch, bool *end,
                               _Atomic int64_t *progress, struct accel_error *err);
/** @} */

/** The dispatcher's memory; the start of a pass, at which nothing is sent; the next batch, collective. @{ */
enum accel_status dispatch_init (struct accel_loader *loader, struct accel_error *err);
void dispatch_release (struct accel_loader *loader);
enum accel_status dispatch_start (struct accel_loader *loader, struct accel_error *err);
enum accel_status dispatch_next (struct accel_loader *loader, const struct comm_site *site,
                                 struct accel_batch **batch, bool *is_last, struct accel_error *err);
/** @} */

/** The generator that the orders of @p loader are drawn from, going on from epoch to epoch; NULL: there is none. */
struct accel_generator *loader_order_generator (const struct accel_loader *loader);

/** The reader's next batch.  After a failure it is read once more, and of a stream from its start if need be. */
enum accel_status pass_read (struct accel_loader *loader, struct accel_batch **batch, bool *is_last,
                             struct accel_error *err);

/** Start reading on a process that does; a failed attempt leaves the generators as they were. */
enum accel_status pass_begin_reading (struct accel_loader *loader, struct accel_error *err);

/** Begin a pass: agree on random numbers, draw the order, set the reader going. */
enum accel_status pass_begin (struct accel_loader *loader, const struct comm_site *site, struct accel_error *err);

/** End it, wherever it is. */
void pass_end (struct accel_loader *loader);

/** Memory and threads; made when the first pass begins, and anew after accel_prepare(). @{ */
enum accel_status pass_init (struct accel_loader *loader, struct accel_error *err);
void pass_release (struct accel_loader *loader);
/** @} */

#endif
