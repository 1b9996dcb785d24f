/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which llm.c's trainer reads its token files; see accel_sampler_create_llmc(). */
#ifndef LIB_DATA_LLMC_ORDER_H
#define LIB_DATA_LLMC_ORDER_H

#include <accel/base.h>

enum { LLMC_DEFAULT_SEED = 42 };

struct llmc_order {
    size_t *shards; /* [count] samples of each file, in the data set's order */
    size_t count;
    size_t batch_size, processes; /* samples of one process and step; processes */
    bool shuffle;
    uint64_t seed;
};

/** @return samples of one epoch: whole steps of all processes. */
size_t llmc_order_length (const struct llmc_order *order);

/** @param[out] indices  [llmc_order_length()] */
enum accel_status llmc_order_draw (const struct llmc_order *order, uint64_t epoch, int64_t *indices,
                                   struct accel_error *err);

#endif
