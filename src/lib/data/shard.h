/* SPDX-License-Identifier: Apache-2.0 */
/* Which positions of an epoch's order are in which batch of which process: Accelerate's BatchSamplerShard
 * (accelerate, data_loader.py) as arithmetic.  Pure.
 *
 * Its split_batches=True, where processes take slices of a batch of B, is the same as dealing out batches of B / P; and
 * batches that vary in length are sharded like samples in batches of one.  So there is one arithmetic. */
#ifndef LIB_DATA_SHARD_H
#define LIB_DATA_SHARD_H

#include <stdbool.h>
#include <stddef.h>

struct shard {
    size_t samples;    /* of the epoch's order, which is the same on all processes */
    size_t batch_size; /* samples per process and step, >= 1 */
    size_t processes, process;
    size_t start;      /* position where the epoch begins; more than 0 if it continues after a restart */
    bool drop_last;
    bool even;         /* fill the last round up with the first samples */
};

/** @return batches of one epoch on this process. */
size_t shard_length (const struct shard *shard);

/** @return samples in batch @p batch, batch < shard_length(). */
size_t shard_batch_size (const struct shard *shard, size_t batch);

/** @return the position in the epoch's order of sample @p sample of batch @p batch. */
size_t shard_position (const struct shard *shard, size_t batch, size_t sample);

/** @return how many samples from @p sample on follow one another in the order; may go beyond the batch. */
size_t shard_run (const struct shard *shard, size_t batch, size_t sample);

/** @return samples beyond the last full round: how many of the last gathered round are not repetitions; 0: all. */
size_t shard_remainder (const struct shard *shard);

#endif
