/* SPDX-License-Identifier: Apache-2.0 */
/* Batches: memory for a number of samples of each field, filled in place. */
#ifndef LIB_DATA_BATCH_H
#define LIB_DATA_BATCH_H

#include <accel/loader.h>

struct memory;

/** Where the memory of batches comes from; 0: ordinary memory. */
struct batch_home {
    struct accel *acc;          /* accel_alloc()'s, which all ranks have mapped, as long as there is some */
    const struct memory *pins;  /* or pinned memory, for copies to `device` */
    DLDevice device;            /* the CPU, if they are not for another */
};

struct accel_batch {
    size_t size;     /* samples in it */
    size_t capacity; /* samples that there is room for */
    size_t field_count;
    const struct accel_field *descriptions; /* the data set's */
    struct accel_tensor *fields;            /* [field_count] */
    size_t *room_bytes;                     /* [field_count] of memory at fields[i].dl.data */
    size_t *sample_bytes;                   /* [field_count] of one sample as described */
    void **into;                            /* [field_count]: where the current sample goes */
    int64_t *indices;                       /* [capacity] */
    const int64_t *listed;                  /* [size]: `indices`, or a piece of the loader's order */
    struct batch_home home;
    bool *resized;     /* [field_count]: accel_batch_resize() was called since batch_expect_resize() */
};

/**
 * Check the description of a field: name, type, shape.
 *
 * @param[out] sample  of this shape, without memory
 * @param before       [index] the fields before it, whose names must be others
 */
enum accel_status batch_check_field (struct accel_tensor *sample, const struct accel_field *field,
                                     const struct accel_field *before, size_t index, struct accel_error *err);

/** Check @p count fields. */
enum accel_status batch_check_fields (const struct accel_field *fields, size_t count, struct accel_error *err);

/** Make room for @p capacity samples.  @param home  NULL: ordinary memory */
enum accel_status batch_init (struct accel_batch *batch, const struct accel_field *fields, size_t count,
                              size_t capacity, const struct batch_home *home, struct accel_error *err);

void batch_release (struct accel_batch *batch);

/** Point `into` at row @p row. */
void batch_aim (struct accel_batch *batch, size_t row);

/** Copy row @p from of @p source, which has the same fields, to row @p row. */
void batch_copy_row (struct accel_batch *batch, size_t row, const struct accel_batch *source, size_t from);

/** A collate function is about to be called: it has to call accel_batch_resize() for every field. */
void batch_expect_resize (struct accel_batch *batch);

/** It has @p size samples now: set the fields' shapes. */
void batch_set_size (struct accel_batch *batch, size_t size);

#endif
