/* SPDX-License-Identifier: Apache-2.0 */
/* Loaders: read a data set in batches, each process its own share. */
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

/**
 * One batch.  It belongs to its loader, is valid until the next call on the loader, and is empty after accel_close().
 *
 * If accel_device() is a GPU, the batches of a prepared loader are there, unless device_placement is ACCEL_NO.  The
 * next batch is read and copied while the program works with one, also without workers; if rank 0 reads for all, each
 * process copies its rows when it has them.  What the program has queued on accel_get_stream() before the next call on
 * the loader may still use the batch; work on other streams has to be over, or ordered before that stream.
 */
struct accel_batch;

/** Which threads read, if there are workers. */
enum accel_reader {
    /**
     * The workers; but if most of the first 32 batches take less than 50 us each to read, the workers end, and
     * accel_loader_next() reads from then on.  Otherwise, if there are more processors than workers, it reads a batch
     * of a data set itself whenever it would have to wait for one.
     */
    ACCEL_READER_AUTO,
    ACCEL_READER_THREADS, /**< the workers alone */
    ACCEL_READER_CALLER,  /**< accel_loader_next() alone, as if `workers` were 0 */
};

/**
 * Combine samples of different sizes into a batch, for example with padding: read samples @p indices and store them in
 * the fields of @p batch, whose shape and memory accel_batch_resize() sets.  With workers, several threads call it for
 * different batches at once.
 *
 * @param indices  [count]
 */
typedef enum accel_status (*accel_collate) (void *user, const int64_t *indices, size_t count, struct accel_batch *batch,
                                            struct accel_error *err);

/** How to load; 0 is each field's default. */
struct accel_loader_options {
    size_t batch_size;   /**< samples per process and step; 0: 1 */
    enum accel_flag split_batches; /**< batch_size is that of all processes together, and a multiple of their number;
                                        by default, what accel_options.split_batches says */
    bool drop_last;      /**< omit an incomplete last batch */
    enum accel_flag even_batches;     /**< repeat samples to make the last round even: yes unless ACCEL_NO */
    enum accel_flag dispatch_batches; /**< rank 0 reads for all, and sends each its rows; by default, for streams */

    bool shuffle;        /**< a new order each epoch, the same on all processes: Accelerate's seedable sampler */
    uint64_t seed;       /**< of that order; epoch e uses seed + e */
    bool random_sampler; /**< shuffle like torch's RandomSampler instead (Accelerate's use_seedable_sampler=False) */
    struct accel_generator *generator;         /**< torch's generator=; not owned.  NULL: the default one */
    struct accel_sampler *sampler;             /**< the order, instead of shuffle; not owned */
    const struct accel_batch_sampler *batch_sampler; /**< the batches, instead of all the above but drop_last */

    accel_collate collate; /**< must call accel_batch_resize() for each field of each batch */
    void *collate_user;   /**< its first argument */
    unsigned workers;     /**< threads that read ahead; 0: none, accel_loader_next() reads.  See `reader` */
    unsigned prefetch;    /**< batches that each thread reads ahead; 0: 2 */
    uint32_t timeout_ms;  /**< longest wait for such a thread; 0: 1800000, 30 minutes.  If set, only threads read;
                               a read by accel_loader_next() itself has no deadline */
    bool synchronize_rng; /**< epochs begin with rank 0's default generator: "torch" in Accelerate's rng_types */
    enum accel_reader reader; /**< which threads read, if there are workers */
    enum accel_flag device_placement; /**< copy batches to accel_device(): yes unless ACCEL_NO */
    bool non_blocking;    /**< batches on a GPU may still be on their way: only what is queued on accel_get_stream() may
                               use them; otherwise accel_loader_next() waits for the copy */
    bool restart_on_other_data; /**< if a checkpoint's position is in other data, or in another order, the epoch
                                         begins anew, with a warning; 0: accel_load_state() fails.  If batches are
                                         dispatched, all ranks need the data set for that */
};

/** Iterates over data in batches; after accel_prepare(), over this process's share of them. */
struct accel_loader;

/**
 * Make a loader.  A stream has its own order, so options that affect the order are refused.
 *
 * @retval ACCEL_ERR_INVALID  no fields, no function that reads, an invalid shape, contradictory options, or a
 *                            batch_size that overflows
 */
#define accel_loader_create(...)                                                                    \
    accel_loader_create_sized (sizeof (struct accel_dataset), sizeof (struct accel_loader_options), \
                               sizeof (struct accel_batch_sampler), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_loader_create_sized (size_t dataset_size, size_t options_size, size_t batches_size,
                           struct accel_loader **loader, const struct accel_dataset *dataset,
                           const struct accel_loader_options *options, struct accel_error *err);

/**
 * Free @p loader and its batches.  Waits for threads that are reading, but not longer than `timeout_ms`: a thread that
 * does not return is abandoned together with the memory it writes to, and the data set must then stay valid.  Accepts
 * NULL.
 */
ACCEL_API void accel_loader_destroy (struct accel_loader *loader);

/**
 * Get the next batch.  After the last one, the loader is ready for another epoch, which it counts automatically.
 *
 * Once prepared on several processes, every process must call it, because starting an epoch and dispatching batches are
 * collective.
 *
 * A read that failed can be retried, on any number of processes and whichever process reads: the next call tries again,
 * and if it succeeds, the epoch continues as if nothing had happened.  A failed pass over a stream is started again and
 * skips what was already delivered; without `start` this is impossible, and the stream keeps failing until the next
 * pass.
 *  - If batches are dispatched, every rank gets the same error from the same call, and all must call again.
 *  - If each process reads its own share, only the one that failed gets the error.  Its peers wait for it in their next
 *    collective.  If it does anything else before it has succeeded (another collective, accel_loader_destroy(),
 *    accel_close()), it gives up: it and its peers get ACCEL_ERR_PEER with the reason.  accel_loader_end(),
 *    accel_loader_set_epoch() and accel_loader_set_state() leave the failed pass, after which the process may continue.
 *  - There is no second attempt after ACCEL_ERR_TIMEOUT, or if dispatched batches do not match each other.
 *
 * @param[out] batch  the batch; NULL at the end and on failure
 * @return true with a batch; false at the end of the epoch (err->code is ACCEL_OK) or on failure (it is not)
 */
#define accel_loader_next(...) accel_loader_next_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API bool accel_loader_next_at (const char *file, int line, struct accel_loader *loader,
                                     const struct accel_batch **batch, struct accel_error *err);

/**
 * Stop in the middle of an epoch, or after a failure to begin one; the next accel_loader_next() begins the following
 * epoch.  Does nothing if no epoch is running.
 */
ACCEL_API void accel_loader_end (struct accel_loader *loader);

/**
 * Set the epoch of the next pass, to repeat or resume an order.  A running pass ends.  The batches to skip set by
 * accel_skip_first_batches() stay in effect; so does the position set by accel_loader_set_state(), if the epoch is the
 * same.
 */
ACCEL_API void accel_loader_set_epoch (struct accel_loader *loader, uint64_t epoch);

/**
 * @return the epoch of the running pass, otherwise of the next.  Each pass counts, even one without batches (no
 *         samples, too few with drop_last, or no share for this process with `uneven`), so all processes agree on it.
 */
ACCEL_API uint64_t accel_loader_epoch (const struct accel_loader *loader);

/** Begin the next pass after the first @p batches batches of this process; later passes are complete. */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_skip_first_batches (struct accel_loader *loader, size_t batches, struct accel_error *err);

/** The result of accel_loader_length() for a stream of unknown length. */
#define ACCEL_LENGTH_UNKNOWN SIZE_MAX

/** @return the number of batches in a complete epoch on this process. */
ACCEL_API size_t accel_loader_length (const struct accel_loader *loader);

/** @return the number of samples per step of all processes together. */
ACCEL_API size_t accel_loader_total_batch_size (const struct accel_loader *loader);

/** @return whether the batch that accel_loader_next() returned last is the last one of its epoch. */
ACCEL_API bool accel_loader_end_of_dataloader (const struct accel_loader *loader);

/**
 * @return how many samples of the last gathered round are not repetitions (Accelerate's remainder); 0: none is
 *         repeated.
 */
ACCEL_API size_t accel_loader_remainder (const struct accel_loader *loader);

/** Bit of accel_loader_state.has_generator: the epoch has begun, and has made the draws of its beginning. */
#define ACCEL_LOADER_STATE_BEGUN 4

/** The position of a loader: everything needed to resume.  Plain bytes that can be written to a file directly. */
struct accel_loader_state {
    uint32_t version;
    uint32_t has_generator; /**< 1: the order is drawn from `generator`; 2: its seed is; 0: neither; possibly with
                             *   ACCEL_LOADER_STATE_BEGUN */
    uint64_t epoch;
    uint64_t seed;
    uint64_t position; /**< samples of the epoch that all processes together have finished */
    uint8_t generator[ACCEL_GENERATOR_STATE_BYTES]; /**< its state when the epoch began */
    uint64_t checksum; /**< of all the above: detects a truncated or changed file */
};

/**
 * Record the position of @p loader: after the batch that accel_loader_next() returned last.  O(1), even if threads have
 * read ahead.  From the first batch on, it is the same on all processes that have taken the same number of steps.
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_loader_get_state (const struct accel_loader *loader, struct accel_loader_state *state, struct accel_error *err);

/**
 * Resume from @p state: the next accel_loader_next() returns the batch that would have come next.  Nothing is read
 * twice (except that samples of a stream without `skip` are read and dropped, and those of a stream's first round are
 * read again if they may have to fill the last).  On another number of processes, the order of samples continues at the
 * same place, in rounds of the new size.  Later epochs have the same orders too: a loader continues as the run was
 * begun, also if torch's orders depend on whether one process or several draw them.
 *
 * @retval ACCEL_ERR_FORMAT   not a valid state: damaged, or from another release
 * @retval ACCEL_ERR_INVALID  its seed differs; or, inside an epoch, its kind of order, number of samples or token files
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_loader_set_state (struct accel_loader *loader, const struct accel_loader_state *state, struct accel_error *err);

/** An evaluation during training: what it will put back. */
struct accel_evaluation;

/**
 * Begin an evaluation, which leaves no trace in training: accel_evaluate_end() puts everything back as it is now.
 *
 *   accel_evaluate_begin (&evaluation, acc, test_loader, &err);
 *   while (accel_loader_next (test_loader, &batch, &err))
 *       ...
 *   accel_evaluate_end (evaluation);
 *
 * That is:
 *  - the default generator;
 *  - of @p loader: its epoch (so every evaluation has the same order, if it is drawn from a seed), its generator, and
 *    the position at which its next pass begins; the first pass of the evaluation is a complete one;
 *  - gradient accumulation: the count of passes and `num_steps`, accel_sync_gradients(), accel_no_sync() and
 *    accel_trigger_sync_in_backward() of every prepared model;
 *  - the loss scale and accel_autocast_enable().
 *
 * Parameters, gradients and optimizers are not saved: an evaluation does not call accel_backward() or a step.  Nor are
 * other loaders, and generators of the program that do not belong to @p loader.  Evaluations may be nested; end the
 * inner one first.  Nothing is sent.
 *
 * @param acc     may be NULL: nothing of a job is saved
 * @param loader  may be NULL, for example to generate text
 * @retval ACCEL_ERR_INVALID  @p loader is in the middle of an epoch
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_evaluate_begin (struct accel_evaluation **evaluation, struct accel *acc, struct accel_loader *loader,
                      struct accel_error *err);

/**
 * End an evaluation, wherever it is: at the end of the pass, in the middle of it, or after a read that failed; ends the
 * pass if necessary.  Frees @p evaluation, also if @p acc or @p loader has gone in the meantime.  Accepts NULL,
 * preserves errno.
 */
ACCEL_API void accel_evaluate_end (struct accel_evaluation *evaluation);

/** @return the number of samples in @p batch. */
ACCEL_API size_t accel_batch_size (const struct accel_batch *batch);

/** @return field @p name of @p batch: [samples, ...], contiguous, on its `device`; NULL if there is no such field. */
ACCEL_API const DLTensor *accel_batch_tensor (const struct accel_batch *batch, const char *name);

/**
 * Get the elements of field @p name of @p batch: [samples, ...], contiguous.
 *
 * @param[out] data  the field's memory, valid as long as the batch; addresses on the GPU if the batch is there
 * @param dtype      the type that the program reads them as
 * @retval ACCEL_ERR_INVALID  no such field (`text` has the nearest name), or one of a different type
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_batch_data (const struct accel_batch *batch, const char *name, enum accel_dtype dtype, void **data,
                  struct accel_error *err);

/**
 * Make a tree from @p batch: a dict of its fields in the data set's order, for all functions that accept trees (map,
 * slice, pad, accel_send_to_device(), accel_tree_gather(), ...).
 *
 * @param[out] tree  its leaves use the batch's memory without copying: the tree, and everything that shares its memory,
 *                   is valid as long as the batch; accel_tree_copy() keeps one for longer.  Destroyed by the caller, at
 *                   any time
 * @retval ACCEL_ERR_INVALID  NULL
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_batch_tree (struct accel_tree **tree, const struct accel_batch *batch, struct accel_error *err);

/** @return the data set's index of each sample in @p batch, or for a stream its number within the pass: [samples]. */
ACCEL_API const int64_t *accel_batch_indices (const struct accel_batch *batch);

/**
 * For collate functions: set the shape of field @p name of @p batch, and get host memory for it, which is not cleared.
 *
 * @param shape  [ndim]; the first entry of a field with one row per sample is the number of samples
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_batch_resize (struct accel_batch *batch, const char *name, int ndim, const int64_t *shape, void **memory,
                    struct accel_error *err);

ACCEL_END_DECLS

#endif
