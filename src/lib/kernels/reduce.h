/* SPDX-License-Identifier: Apache-2.0 */
/* Reducing arrays element by element, in the order of the sources; 16-bit floats in float32, rounded once at the end.
 *
 * The result depends on the inputs and their order only: not on the count, the alignment or the processor, so ranks may
 * split the work as they like.  NaN wins in min and max, like torch; integers wrap; booleans become 0 or 1. */
#ifndef LIB_KERNELS_REDUCE_H
#define LIB_KERNELS_REDUCE_H

#include "lib/kernels/dtypes.h"

#include <accel/comm.h>

struct reduction {
    enum accel_dtype dtype;
    enum accel_op op;
    int sources; /* >= 1, also what an average divides by */
    int targets; /* >= 1, all get the result */
    bool private_targets; /* only this rank works on them: their lines are in no other processor's cache */
    bool beyond_caches; /* what all ranks read and write is more than the processor's caches hold */
    const void *taken;  /* a source that only this rank reads, and whose memory it will write next; or NULL */
    /* Bytes to copy, no more than a source has: while the reduction runs, if that is faster.  Nothing that is
     * written overlaps what is read. */
    void *ahead_to;
    const void *ahead_from;
    size_t ahead_bytes;
};

/**
 * @param sources  [sources], each [count]
 * @param targets  [targets], each [count]; one may be equal to a source, but not overlap it otherwise
 */
void reduce_run (const struct reduction *reduction, const void *const *sources, void *const *targets, size_t count);

/** memory_copy(), by the kernels' vectors if they are faster than the C library's string instructions. */
void reduce_copy (void *to, const void *from, size_t bytes);

/** @return whether this processor copies ahead while it reduces, and so likes small pieces: ones that leave room for
 *  several in its second-level cache.  Others like large pieces, which cost fewer steps. */
bool reduce_likes_small_pieces (void);

/** @return whether @p op is defined for @p dtype: averages are for floats only. */
static inline bool
reduce_is_defined (enum accel_dtype dtype, enum accel_op op)
{
    return !dtype_is_scaled (dtype) && (op != ACCEL_AVG || dtype_is_float (dtype));
}

/** Multiply floats of any type, where they are. */
void reduce_scale (void *data, enum accel_dtype dtype, size_t count, double scale);

#endif
