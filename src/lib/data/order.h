/* SPDX-License-Identifier: Apache-2.0 */
/* The order of one epoch, the same on all processes: samples one after the other, and where batches were made by the
 * program, where each of them ends. */
#ifndef LIB_DATA_ORDER_H
#define LIB_DATA_ORDER_H

#include <accel/sampler.h>

/** All zero is an empty one. */
struct order {
    size_t samples;
    int64_t *indices;  /* [samples]; NULL: 0, 1, 2, ... */
    size_t batches;    /* of the program's making; 0 without a batch sampler */
    size_t *ends;      /* [batches]: the position after each batch's last sample; NULL without a batch sampler */
    size_t capacity;   /* entries that `indices` has room for */
};

/** Make the order of an epoch over @p size samples from @p sampler.  Indices that are not samples are an error. */
enum accel_status order_draw (struct order *order, struct accel_sampler *sampler, size_t size, struct accel_error *err);

/** The same from batches of the program's. */
enum accel_status order_draw_batches (struct order *order, const struct accel_batch_sampler *sampler, uint64_t epoch,
                                      size_t size, struct accel_error *err);

void order_release (struct order *order);

#endif
