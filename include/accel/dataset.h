/* SPDX-License-Identifier: Apache-2.0 */
/* Data sets: samples by index, samples one after the other, and data sets that are there already. */
#ifndef ACCEL_DATASET_H
#define ACCEL_DATASET_H

#include <accel/base.h>
#include <accel/tensor.h>

ACCEL_BEGIN_DECLS

/** One part of a sample, such as its image or its label. */
struct accel_field {
    const char *name;
    enum accel_dtype dtype;
    int ndim;                      /**< 0 for a single number */
    int64_t shape[ACCEL_MAX_DIMS]; /**< of one sample, without the batch dimension; ndim < ACCEL_MAX_DIMS */
};

/**
 * A data set with random access.  The struct, its fields and `user` are read as long as a loader over it lives.
 *
 * `read` puts sample @p index into @p into: one address per field, for one sample each, contiguous.  `read_many`, which
 * may be NULL (then `read` is called for each), puts sample indices[i] into row i: one address per field, for @p count
 * samples each, contiguous.  Both may be called from other threads, at once for other memory.  On failure they return
 * a status and fill `err`; what they have written then is not looked at.
 */
struct accel_dataset {
    size_t size; /**< samples */
    const struct accel_field *fields;
    size_t field_count;
    enum accel_status (*read) (void *user, size_t index, void *const *into, struct accel_error *err);
    void *user;
    enum accel_status (*read_many) (void *user, const int64_t *indices, size_t count, void *const *into,
                                    struct accel_error *err);
};

/**
 * A data set that is read in its own order, one sample after the other.
 *
 * `start`, which may be NULL, goes back to the beginning, for the order of @p epoch; it is called before the first
 * `next` of each epoch.  `next` puts one sample into @p into, as a data set's `read` does, or sets *end to true (it is
 * false before the call) and writes nothing.  Neither is called by two threads at once.
 */
struct accel_stream {
    const struct accel_field *fields;
    size_t field_count;
    size_t size; /**< samples of one epoch; 0: not known */
    enum accel_status (*start) (void *user, uint64_t epoch, struct accel_error *err);
    enum accel_status (*next) (void *user, void *const *into, bool *end, struct accel_error *err);
    void *user;
};

ACCEL_END_DECLS

#endif
