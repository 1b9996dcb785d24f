/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions: the choice among the kernels, and 16-bit floats block by block, so that what is between two kernels stays
 * in the first-level cache; see reduce.h. */
#include <config.h>

#include "lib/kernels/reduce.h"

#include "lib/kernels/floats.h"
#include "lib/kernels/kernels.h"
#include "util/memory.h"

enum { BLOCK = 2048 }; /* elements */

static const void *
at (const void *array, size_t offset_bytes)
{
    return (const char *) array + offset_bytes;
}

/* The variant that has this loop itself. */
static const struct kernels *
find_variant (enum accel_dtype dtype, enum accel_op op)
{
    const struct kernels *variant = kernels_best ();
    while (!variant->reduce[dtype][op] && variant->rest)
        variant = variant->rest;
    return variant;
}

/* 16-bit floats, one block: every source is widened, the sum is narrowed once. */
static void
reduce_narrow (const struct reduction *r, const void *const *sources, size_t offset, void *into, size_t count)
{
    float sum[BLOCK], next[BLOCK];
    const void *pair[] = { sum, next };
    void *target[] = { sum };
    struct kernel_job job = {
        .sources = pair, .targets = target, .source_count = 2, .target_count = 1, .count = count,
    };
    enum accel_op op = r->op == ACCEL_AVG ? ACCEL_SUM : r->op;
    kernel_reduce *reduce = find_variant (ACCEL_FLOAT32, op)->reduce[ACCEL_FLOAT32][op];
    const struct kernels *kernels = kernels_best ();
    kernel_widen *widen = kernels->widen[r->dtype];
    widen (sum, at (sources[0], offset), count);
    for (int s = 1; s < r->sources; s++) {
        widen (next, at (sources[s], offset), count);
        reduce (&job);
    }
    if (r->op == ACCEL_AVG)
        kernels->divide_f32 (sum, count, (float) r->sources);
    kernels->narrow[r->dtype] (into, sum, count);
}

/* The block is made in private memory first: a target may be a source that a later step still reads. */
static void
reduce_by_float32 (const struct reduction *r, const void *const *sources, void *const *targets, size_t count)
{
    uint16_t block[BLOCK];
    for (size_t done = 0; done < count; done += BLOCK) {
        size_t part = count - done < BLOCK ? count - done : BLOCK, offset = done * sizeof *block;
        reduce_narrow (r, sources, offset, block, part);
        for (int t = 0; t < r->targets; t++)
            memory_copy ((char *) targets[t] + offset, block, part * sizeof *block);
    }
}

/* One source: nothing to reduce, and nothing to round. */
static void
copy_one (const struct reduction *r, const void *source, void *const *targets, size_t count)
{
    for (int t = 0; t < r->targets; t++) {
        if (r->dtype == ACCEL_BOOL)
            kernels_best ()->to_bool (targets[t], source, count);
        else if (targets[t] != source)
            memory_copy (targets[t], source, count * accel_dtype_bytes (r->dtype));
    }
}

/* A target that is a source lies in the caches, since it has just been read: going past them would only cost time.
 * Other large targets would be read into them first, only to be overwritten. */
static bool
may_stream (const struct reduction *r, const void *const *sources, void *const *targets)
{
    if (!r->beyond_caches)
        return false;
    for (int t = 0; t < r->targets; t++) {
        if ((uintptr_t) targets[t] % 16)
            return false;
        for (int s = 0; s < r->sources; s++)
            if (sources[s] == targets[t])
                return false;
    }
    return true;
}

/* Memory that other ranks wrote last and this one writes next: what the caller names, or all if the result goes back
 * to where it came from. */
static void
choose_taken (const struct reduction *r, const void *const *sources, void *const *targets, struct kernel_job *job)
{
    for (int s = 0; r->taken && s < r->sources; s++)
        if (sources[s] == r->taken) {
            job->take_from = s;
            job->take_to = s + 1;
        }
    bool back = r->targets == r->sources;
    for (int t = 0; back && t < r->targets; t++)
        back = sources[t] == targets[t];
    if (back)
        job->take_to = r->sources;
}

static void
reduce_directly (const struct reduction *r, const void *const *sources, void *const *targets, size_t count,
                 size_t *copied)
{
    bool few = count <= KERNEL_FEW_ELEMENTS && r->targets == 1;
    const struct kernels *variant = few ? &kernels_base : find_variant (r->dtype, r->op);
    struct kernel_job job = {
        .sources = sources, .targets = targets, .source_count = r->sources, .target_count = r->targets, .count = count,
        .short_chunks = r->beyond_caches || r->private_targets, .stream = may_stream (r, sources, targets),
    };
    if (variant->overlaps) {
        choose_taken (r, sources, targets, &job);
        job.ahead_to = r->ahead_to;
        job.ahead_from = r->ahead_from;
        job.ahead_bytes = *copied = r->ahead_bytes / KERNEL_CHUNK * KERNEL_CHUNK;
    }
    variant->reduce[r->dtype][r->op] (&job);
}

void
reduce_run (const struct reduction *reduction, const void *const *sources, void *const *targets, size_t count)
{
    size_t copied = 0;
    if (!count)
        return;
    if (reduction->sources == 1)
        copy_one (reduction, sources[0], targets, count);
    else if (kernels_best ()->widen[reduction->dtype])
        reduce_by_float32 (reduction, sources, targets, count);
    else
        reduce_directly (reduction, sources, targets, count, &copied);
    if (copied < reduction->ahead_bytes)
        reduce_copy ((char *) reduction->ahead_to + copied, (const char *) reduction->ahead_from + copied,
                     reduction->ahead_bytes - copied);
}

void
reduce_copy (void *to, const void *from, size_t bytes)
{
    const struct kernels *kernels = kernels_best ();
    (kernels->copy ? kernels->copy : memory_copy) (to, from, bytes);
}

bool
reduce_likes_small_pieces (void)
{
    return kernels_best ()->overlaps;
}

/* 16-bit floats are rounded once, from the product in float32. */
void
reduce_scale (void *data, enum accel_dtype dtype, size_t count, double scale)
{
    float block[BLOCK], factor = (float) scale;
    const struct kernels *kernels = kernels_best ();
    if (dtype == ACCEL_FLOAT64)
        for (size_t i = 0; i < count; i++)
            ((double *) data)[i] *= scale;
    else if (dtype == ACCEL_FLOAT32)
        floats_multiply (data, count, factor);
    else
        for (size_t done = 0; done < count; done += BLOCK) {
            size_t part = count - done < BLOCK ? count - done : BLOCK;
            uint16_t *here = (uint16_t *) data + done;
            kernels->widen[dtype] (block, here, part);
            floats_multiply (block, part, factor);
            kernels->narrow[dtype] (here, block, part);
        }
}
