/* SPDX-License-Identifier: Apache-2.0 */
/* Loaders: a data set in batches, each process its own. */
#ifndef ACCEL_LOADER_H
#define ACCEL_LOADER_H

#include <accel/base.h>
#include <accel/dataset.h>
#include <accel/state.h>
#include <accel/tensor.h>

ACCEL_BEGIN_DECLS

/** How to load; 0 is each field's default. */
struct accel_loader_options {
    size_t batch_size; /**< samples per process and step; 0: 1 */
    bool shuffle;      /**< a new order each epoch: the original's seedable sampler */
    bool drop_last;    /**< leave out an incomplete last batch */
    bool uneven;       /**< the original's even_batches=False: do not repeat samples to make the last round even */
    uint64_t seed;     /**< of the order; epoch e uses seed + e, equal on all processes */
};

/** Iterates over a data set in batches; after accel_prepare() over this process's share of them. */
struct accel_loader;

/** One batch; belongs to its loader, valid until the next call on it. */
struct accel_batch;

/**
 * Make a loader.
 *
 * @retval ACCEL_ERR_INVALID  no fields, no read function, a bad shape, or batch_size larger than any memory
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_loader_create (struct accel_loader **loader, const struct accel_dataset *dataset,
                     const struct accel_loader_options *options, struct accel_error *err);

/** Free @p loader and its batches.  Accepts NULL. */
ACCEL_API void accel_loader_destroy (struct accel_loader *loader);

/**
 * Go on to the next batch.  After the last one the loader is ready for another epoch, which it counts by itself.
 *
 * @param[out] batch  the batch; NULL at the end and on failure
 * @return true with a batch; false at the end of the epoch (err->code is ACCEL_OK) or on failure (it is not)
 */
ACCEL_API bool accel_loader_next (struct accel_loader *loader, const struct accel_batch **batch,
                                  struct accel_error *err);

/** Stop in the middle of an epoch; the next accel_loader_next() begins the following one. */
ACCEL_API void accel_loader_end (struct accel_loader *loader);

/** The epoch that the next (or running) pass belongs to; set it to repeat or resume an order. */
ACCEL_API void accel_loader_set_epoch (struct accel_loader *loader, uint64_t epoch);

/** @return batches of one epoch on this process. */
ACCEL_API size_t accel_loader_length (const struct accel_loader *loader);

/** @return whether the batch that accel_loader_next() returned last is the last of its epoch. */
ACCEL_API bool accel_loader_end_of_dataloader (const struct accel_loader *loader);

/** @return samples of the data set beyond the last full round of all processes; 0: none (the original's remainder). */
ACCEL_API size_t accel_loader_remainder (const struct accel_loader *loader);

/** @return samples in @p batch. */
ACCEL_API size_t accel_batch_size (const struct accel_batch *batch);

/** @return field @p name of @p batch: [samples, ...], contiguous host memory; NULL where there is no such field. */
ACCEL_API const DLTensor *accel_batch_tensor (const struct accel_batch *batch, const char *name);

/** @return the data set's index of each sample in @p batch: [samples]. */
ACCEL_API const int64_t *accel_batch_indices (const struct accel_batch *batch);

ACCEL_END_DECLS

#endif
