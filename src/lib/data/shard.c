/* SPDX-License-Identifier: Apache-2.0 */
/* Accelerate's batch sampler shard as arithmetic; see shard.h. */
#include <config.h>

#include "lib/data/shard.h"

/* Samples of one round: a full batch for every process. */
static size_t
round_size (const struct shard *shard)
{
    return shard->batch_size * shard->processes;
}

/* Samples from the start on. */
static size_t
samples_left (const struct shard *shard)
{
    return shard->start < shard->samples ? shard->samples - shard->start : 0;
}

static size_t
full_rounds (const struct shard *shard)
{
    return samples_left (shard) / round_size (shard);
}

/* One process repeats nothing: Accelerate shards only if there are several. */
static bool
is_even (const struct shard *shard)
{
    return shard->even && shard->processes > 1;
}

/* Samples that are left for this process after the full rounds. */
static size_t
tail_size (const struct shard *shard)
{
    size_t tail = samples_left (shard) % round_size (shard);
    if (shard->drop_last || !tail)
        return 0;
    if (is_even (shard))
        return shard->batch_size;
    size_t before = shard->process * shard->batch_size;
    if (before >= tail)
        return 0;
    return tail - before < shard->batch_size ? tail - before : shard->batch_size;
}

size_t
shard_length (const struct shard *shard)
{
    return full_rounds (shard) + (tail_size (shard) > 0);
}

size_t
shard_batch_size (const struct shard *shard, size_t batch)
{
    return batch < full_rounds (shard) ? shard->batch_size : tail_size (shard);
}

/* As if the order had no end. */
static size_t
endless_position (const struct shard *shard, size_t batch, size_t sample)
{
    return shard->start + (batch * shard->processes + shard->process) * shard->batch_size + sample;
}

/* What is repeated: the epoch's front, also if it was entered later. */
static size_t
head_size (const struct shard *shard)
{
    return shard->samples < round_size (shard) ? shard->samples : round_size (shard);
}

size_t
shard_position (const struct shard *shard, size_t batch, size_t sample)
{
    size_t position = endless_position (shard, batch, sample);
    return position < shard->samples ? position : (position - shard->samples) % head_size (shard);
}

size_t
shard_run (const struct shard *shard, size_t batch, size_t sample)
{
    size_t position = endless_position (shard, batch, sample), head = head_size (shard);
    return position < shard->samples ? shard->samples - position : head - (position - shard->samples) % head;
}

size_t
shard_remainder (const struct shard *shard)
{
    return shard->drop_last ? 0 : samples_left (shard) % round_size (shard);
}
