/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions block by block, so that what is between two kernels stays in the first-level cache; see reduce.h. */
#include <config.h>

#include "lib/comm/reduce.h"

#include "lib/comm/kernels.h"

#include <pthread.h>
#include <string.h>

enum { BLOCK = 2048 }; /* elements */

static const struct kernels *kernels;
static pthread_once_t kernels_once = PTHREAD_ONCE_INIT;

static void
choose (void)
{
    kernels = kernels_choose ();
}

bool
reduce_is_defined (enum accel_dtype dtype, enum accel_op op)
{
    if (op != ACCEL_AVG)
        return true;
    return dtype == ACCEL_FLOAT32 || dtype == ACCEL_FLOAT64 || dtype == ACCEL_FLOAT16 || dtype == ACCEL_BFLOAT16;
}

static const void *
at (const void *array, size_t offset_bytes)
{
    return (const char *) array + offset_bytes;
}

/* 16-bit floats: every source is widened, the sum is narrowed once. */
static void
reduce_narrow (const struct reduction *r, const void *const *sources, size_t offset, void *into, size_t count)
{
    float sum[BLOCK], next[BLOCK];
    kernel_combine *combine = kernels->combine[ACCEL_FLOAT32][r->op == ACCEL_AVG ? ACCEL_SUM : r->op];
    kernel_widen *widen = kernels->widen[r->dtype];
    widen (sum, at (sources[0], offset), count);
    for (int s = 1; s < r->sources; s++) {
        widen (next, at (sources[s], offset), count);
        combine (sum, sum, next, count);
    }
    if (r->op == ACCEL_AVG)
        kernels->divide_f32 (sum, count, (float) r->sources);
    kernels->narrow[r->dtype] (into, sum, count);
}

static void
reduce_plain (const struct reduction *r, const void *const *sources, size_t offset, void *into, size_t count)
{
    kernel_combine *combine = kernels->combine[r->dtype][r->op == ACCEL_AVG ? ACCEL_SUM : r->op];
    const void *sum = at (sources[0], offset);
    for (int s = 1; s < r->sources; s++) {
        combine (into, sum, at (sources[s], offset), count);
        sum = into;
    }
    if (r->op == ACCEL_AVG && r->dtype == ACCEL_FLOAT32)
        kernels->divide_f32 (into, count, (float) r->sources);
    else if (r->op == ACCEL_AVG)
        kernels->divide_f64 (into, count, (double) r->sources);
}

/* One source: nothing to reduce, and nothing to round. */
static void
copy_one (const struct reduction *r, const void *source, void *const *targets, size_t count)
{
    for (int t = 0; t < r->targets; t++) {
        if (r->dtype == ACCEL_BOOL)
            kernels->to_bool (targets[t], source, count);
        else if (targets[t] != source)
            memcpy (targets[t], source, count * accel_dtype_bytes (r->dtype));
    }
}

/* The block is made in private memory first: a target may be a source that a later step still reads. */
void
reduce_run (const struct reduction *reduction, const void *const *sources, void *const *targets, size_t count)
{
    pthread_once (&kernels_once, choose);
    if (!count)
        return;
    if (reduction->sources == 1) {
        copy_one (reduction, sources[0], targets, count);
        return;
    }
    size_t bytes = accel_dtype_bytes (reduction->dtype);
    bool narrow = kernels->widen[reduction->dtype];
    double block[BLOCK];
    for (size_t done = 0; done < count; done += BLOCK) {
        size_t part = count - done < BLOCK ? count - done : BLOCK, offset = done * bytes;
        if (narrow)
            reduce_narrow (reduction, sources, offset, block, part);
        else
            reduce_plain (reduction, sources, offset, block, part);
        for (int t = 0; t < reduction->targets; t++)
            memcpy ((char *) targets[t] + offset, block, part * bytes);
    }
}
