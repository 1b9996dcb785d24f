/* SPDX-License-Identifier: Apache-2.0 */
/* Loaders: a data set in batches, each process its own. */
#ifndef ACCEL_LOADER_H
#define ACCEL_LOADER_H

#include <accel/base.h>
#include <accel/dataset.h>
#include <accel/random.h>
#include <accel/sampler.h>
#include <accel/state.h>
#include <accel/tensor.h>
#include <accel/tree.h>

ACCEL_BEGIN_DECLS

/** One batch; belongs to its loader, valid until the next call on it.  It is empty after accel_close(). */
struct accel_batch;

/** Who reads the data of several processes. */
enum accel_dispatch {
    ACCEL_DISPATCH_AUTO, /**< rank 0 for streams, everybody his own share for data sets */
    ACCEL_DISPATCH_NO,
    ACCEL_DISPATCH_YES,  /**< rank 0 reads for all, and sends each its rows */
};

/**
 * Make a batch of samples of unequal size, with padding, say: read samples @p indices and put them into the fields of
 * @p batch, whose shape and memory accel_batch_resize() sets.  Reading threads call it, for several batches at once.
 *
 * @param indices  [count]
 */
typedef enum accel_status (*accel_collate) (void *user, const int64_t *indices, size_t count, struct accel_batch *batch,
                                            struct accel_error *err);

/** How to load; 0 is each field's default. */
struct accel_loader_options {
    size_t batch_size;   /**< samples per process and step; 0: 1 */
    bool split_batches;  /**< batch_size counts all processes together, and is a multiple of their number */
    bool drop_last;      /**< leave out an incomplete last batch */
    bool uneven;         /**< the original's even_batches=False: do not repeat samples to make the last round even */
    enum accel_dispatch dispatch_batches;

    bool shuffle;        /**< a new order each epoch: the original's seedable sampler, the same on all processes */
    uint64_t seed;       /**< of that order; epoch e uses seed + e */
    bool random_sampler; /**< shuffle as torch's RandomSampler instead (the original's use_seedable_sampler=False) */
    struct accel_generator *generator;         /**< torch's generator=; not owned.  NULL: the default one */
    struct accel_sampler *sampler;             /**< the order, instead of shuffle; not owned */
    const struct accel_batch_sampler *batch_sampler; /**< the batches, instead of all of the above but drop_last */

    accel_collate collate; /**< has to call accel_batch_resize() for each field, in each batch */
    void *collate_user;
    unsigned workers;     /**< threads that read ahead; 0: none, accel_loader_next() reads.  With threads it does too as
                           *   long as that is measured to be faster, unless timeout_ms is given */
    unsigned prefetch;    /**< batches that each of them reads ahead; 0: 2 */
    uint32_t timeout_ms;  /**< longest wait for such a thread; 0: 1800000, 30 minutes.  Given, only they read */
    bool synchronize_rng; /**< the original's rng_types has "torch": epochs begin with rank 0's default generator */
};

/** Iterates over data in batches; after accel_prepare() over this process's share of them. */
struct accel_loader;

/**
 * Make a loader.
 *
 * @retval ACCEL_ERR_INVALID  no fields, no read function, a bad shape, contradicting options, or batch_size larger than
 *                            any memory
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_loader_create (struct accel_loader **loader, const struct accel_dataset *dataset,
                     const struct accel_loader_options *options, struct accel_error *err);

/** Make a loader over a stream, which has no order but its own: options about order are refused. */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_loader_create_stream (struct accel_loader **loader, const struct accel_stream *stream,
                            const struct accel_loader_options *options, struct accel_error *err);

/**
 * Free @p loader and its batches.  Waits for threads that are reading, but not longer than `timeout_ms`: a thread that
 * does not come back is left behind with the memory it writes to, and the data set has to stay for its sake.
 * Accepts NULL.
 */
ACCEL_API void accel_loader_destroy (struct accel_loader *loader);

/**
 * Go on to the next batch.  After the last one the loader is ready for another epoch, which it counts by itself.
 *
 * Once prepared on several processes: every process must call it, for beginnings of epochs and dispatched batches are
 * collective.
 *
 * A read that failed can be asked for again, on any number of processes and by whoever reads: the next call tries once
 * more, and on success all goes on as if nothing had happened.  A failed pass of a stream is started again, past what
 * was given out; a stream without `start` cannot be, and stays failed until the next pass.
 *  - Where batches are dispatched, every rank gets the same error at the same call, and all must call again.
 *  - Where each process reads its own share, only the one that failed gets the error.  Its peers wait for it in their
 *    next collective.  If it does anything else before it has succeeded (another collective, accel_loader_destroy(),
 *    accel_close()), it gives up: it and its peers get ACCEL_ERR_PEER with the reason.  accel_loader_end(),
 *    accel_loader_set_epoch() and accel_loader_set_state() leave the failed pass, after which it may go on.
 *  - After ACCEL_ERR_TIMEOUT, and where dispatched batches do not fit each other, there is no second attempt.
 *
 * @param[out] batch  the batch; NULL at the end and on failure
 * @return true with a batch; false at the end of the epoch (err->code is ACCEL_OK) or on failure (it is not)
 */
#define accel_loader_next(...) accel_loader_next_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API bool accel_loader_next_at (const char *file, int line, struct accel_loader *loader,
                                     const struct accel_batch **batch, struct accel_error *err);

/**
 * Stop in the middle of an epoch, or after a failure to begin one; the next accel_loader_next() begins the following
 * one.  Does nothing outside.
 */
ACCEL_API void accel_loader_end (struct accel_loader *loader);

/**
 * The epoch that the next (or running) pass belongs to; set it to repeat or resume an order.  A running pass ends.
 * What accel_skip_first_batches() said of the next one stays; what accel_loader_set_state() did, in the same epoch.
 */
ACCEL_API void accel_loader_set_epoch (struct accel_loader *loader, uint64_t epoch);

/**
 * @return the epoch of the running pass, or else of the next.  Each pass counts, also one without batches (no samples,
 *         too few with drop_last, or no share of this process's with `uneven`), so that all processes agree on it.
 */
ACCEL_API uint64_t accel_loader_epoch (const struct accel_loader *loader);

/** Begin the next pass behind its first @p batches batches (of this process); passes after it are whole again. */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_skip_first_batches (struct accel_loader *loader, size_t batches, struct accel_error *err);

/** What accel_loader_length() says of a stream whose length nobody knows. */
#define ACCEL_LENGTH_UNKNOWN SIZE_MAX

/** @return batches of one whole epoch on this process. */
ACCEL_API size_t accel_loader_length (const struct accel_loader *loader);

/** @return samples per step of all processes together. */
ACCEL_API size_t accel_loader_total_batch_size (const struct accel_loader *loader);

/** @return whether the batch that accel_loader_next() returned last is the last of its epoch. */
ACCEL_API bool accel_loader_end_of_dataloader (const struct accel_loader *loader);

/** @return how many samples of the last gathered round are no repetitions (the original's remainder); 0: all. */
ACCEL_API size_t accel_loader_remainder (const struct accel_loader *loader);

/** Bit of accel_loader_state.has_generator: the epoch has begun, and has drawn what epochs draw when they begin. */
#define ACCEL_LOADER_STATE_BEGUN 4

/** Where a loader stands: all that is needed to go on.  Plain bytes, to be written to a file as they are. */
struct accel_loader_state {
    uint32_t version;
    uint32_t has_generator; /**< 1: the order is drawn from `generator`; 2: its seed is; 0: neither; perhaps with
                             *   ACCEL_LOADER_STATE_BEGUN */
    uint64_t epoch;
    uint64_t seed;
    uint64_t position; /**< samples of the epoch that all processes together are done with */
    uint8_t generator[ACCEL_GENERATOR_STATE_BYTES]; /**< as it was when the epoch began */
    uint64_t checksum; /**< of all that is above: whether a file was cut short or changed */
};

/**
 * Note where @p loader stands: behind the batch that accel_loader_next() returned last.  O(1), also with threads that
 * have read ahead.  From the first batch on equal on all processes, where all have done equally many steps.
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_loader_get_state (const struct accel_loader *loader, struct accel_loader_state *state, struct accel_error *err);

/**
 * Go on from @p state: the next accel_loader_next() gives what would have come then.  Nothing is read again (but
 * samples of a stream that cannot skip are read and dropped, and of one that can those of the first round, where they
 * may have to fill up the last).  On another number of processes the order of samples goes on at the same place, in
 * rounds of the new size.  Later epochs have the same orders too, unless random_sampler draws them without a generator
 * of the program's, and one process goes on where several were, or the other way round: torch's orders differ there.
 *
 * @retval ACCEL_ERR_FORMAT   it is no state, a damaged one, or of another release
 * @retval ACCEL_ERR_INVALID  it is of another seed, of another kind of order, or of more samples than there are here
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_loader_set_state (struct accel_loader *loader, const struct accel_loader_state *state, struct accel_error *err);

/** What accel_join_uneven_inputs() does about the last round of loaders. */
enum accel_join_even {
    ACCEL_JOIN_AS_IS, /**< as each was made */
    ACCEL_JOIN_EVEN,
    ACCEL_JOIN_UNEVEN,
};

/** @return samples in @p batch. */
ACCEL_API size_t accel_batch_size (const struct accel_batch *batch);

/** @return field @p name of @p batch: [samples, ...], contiguous host memory; NULL where there is no such field. */
ACCEL_API const DLTensor *accel_batch_tensor (const struct accel_batch *batch, const char *name);

/**
 * @p batch as a tree: a dict of its fields in the data set's order, for all that works on trees (map, slice, pad,
 * accel_send_to_device(), accel_tree_gather(), ...).
 *
 * @param[out] tree  its leaves are the batch's memory, not copied: it, and what shares that memory with it, is valid as
 *                   long as the batch; accel_tree_copy() keeps one.  To be destroyed by the caller, at any time
 * @retval ACCEL_ERR_INVALID  NULL
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_batch_tree (struct accel_tree **tree, const struct accel_batch *batch, struct accel_error *err);

/** @return the data set's index of each sample in @p batch, of a stream its number in the pass: [samples]. */
ACCEL_API const int64_t *accel_batch_indices (const struct accel_batch *batch);

/**
 * For collate functions: give field @p name of @p batch the shape @p shape, and memory for it, which is not cleared.
 *
 * @param shape  [ndim]; of a field with a row per sample its first entry is the number of samples
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_batch_resize (struct accel_batch *batch, const char *name, int ndim, const int64_t *shape, void **memory,
                    struct accel_error *err);

ACCEL_END_DECLS

#endif
