/* SPDX-License-Identifier: Apache-2.0 */
/* Data sets: samples by index. */
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
 * `read` puts sample @p index into @p into: one address per field, for one sample each, contiguous.  It may be called
 * from other threads, for different indices at once.  On failure it returns a status and fills `err`.
 */
struct accel_dataset {
    size_t size; /**< samples */
    const struct accel_field *fields;
    size_t field_count;
    enum accel_status (*read) (void *user, size_t index, void *const *into, struct accel_error *err);
    void *user;
};

ACCEL_END_DECLS

#endif
