/* SPDX-License-Identifier: Apache-2.0 */
/* The order of llm.c's DataLoader (github.com/karpathy/llm.c, llmc/dataloader.h and llmc/rand.h).  A step is a run of
 * processes * batch_size samples of one file, of which rank r has the r-th batch.  Shuffled, each rank draws from a
 * generator of its own, seeded with seed + rank: at the beginning of an epoch it permutes the files' order of the epoch
 * before, and at the beginning of a file it draws the order of its steps. */
#include <config.h>

#include "lib/data/llmc_order.h"

#include "lib/base/error.h"
#include "lib/data/generator.h"

#include <stdlib.h>

static size_t
steps_of (const struct llmc_order *order, size_t shard)
{
    return order->shards[shard] / order->batch_size / order->processes;
}

size_t
llmc_order_length (const struct llmc_order *order)
{
    size_t steps = 0;
    for (size_t i = 0; i < order->count; i++)
        steps += steps_of (order, i);
    return steps * order->batch_size * order->processes;
}

/* Fisher and Yates's shuffle, from the end, with a remainder for each draw. */
static void
permute (struct accel_generator *generator, size_t *values, size_t count)
{
    for (size_t i = count; i > 1; i--) {
        size_t other = accel_generator_next (generator) % i, kept = values[i - 1];
        values[i - 1] = values[other];
        values[other] = kept;
    }
}

/* What one rank reads. */
struct walk {
    const struct llmc_order *order;
    struct accel_generator generator;
    size_t *first; /* [count] the number of each file's first sample in the data set */
    size_t *files; /* [count] the files in the order in which they are read */
    size_t *steps; /* [the most of a file] */
};

/* One epoch of rank @p rank.  @param indices  of the whole epoch; NULL: only draw */
static void
walk_epoch (struct walk *walk, size_t rank, int64_t *indices)
{
    const struct llmc_order *order = walk->order;
    size_t round = order->batch_size * order->processes, at = rank * order->batch_size;
    if (order->shuffle)
        permute (&walk->generator, walk->files, order->count);
    for (size_t i = 0; i < order->count; i++) {
        size_t file = walk->files[i], steps = steps_of (order, file);
        for (size_t step = 0; step < steps; step++)
            walk->steps[step] = step;
        if (order->shuffle)
            permute (&walk->generator, walk->steps, steps);
        for (size_t step = 0; step < steps && indices; step++, at += round)
            for (size_t j = 0; j < order->batch_size; j++)
                indices[at + j]
                    = (int64_t) (walk->first[file] + walk->steps[step] * round + rank * order->batch_size + j);
    }
}

enum accel_status
llmc_order_draw (const struct llmc_order *order, uint64_t epoch, int64_t *indices, struct accel_error *err)
{
    size_t most = 1, first = 0;
    for (size_t i = 0; i < order->count; i++)
        most = steps_of (order, i) > most ? steps_of (order, i) : most;
    struct walk walk = {
        .order = order,
        .first = calloc (order->count, sizeof *walk.first),
        .files = calloc (order->count, sizeof *walk.files),
        .steps = calloc (most, sizeof *walk.steps),
    };
    bool enough = walk.first && walk.files && walk.steps;
    for (size_t i = 0; i < order->count && enough; first += order->shards[i++])
        walk.first[i] = first;
    for (size_t rank = 0; rank < order->processes && enough; rank++) {
        for (size_t i = 0; i < order->count; i++)
            walk.files[i] = i;
        generator_init (&walk.generator, order->seed + rank);
        for (uint64_t earlier = 0; earlier < epoch && order->shuffle; earlier++)
            walk_epoch (&walk, rank, NULL);
        walk_epoch (&walk, rank, indices);
    }
    free (walk.first);
    free (walk.files);
    free (walk.steps);
    return enough ? ACCEL_OK : accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for an order of %zu files",
                                           order->count);
}
