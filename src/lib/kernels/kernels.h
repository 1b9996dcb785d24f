/* SPDX-License-Identifier: Apache-2.0 */
/* The inner loops of reductions, compiled once per instruction set; see kernels_body.h. */
#ifndef LIB_KERNELS_KERNELS_H
#define LIB_KERNELS_KERNELS_H

#include <accel/comm.h>

#include <stdatomic.h>

/** Arrays to reduce, in the order of the sources.  A target may be a source but not overlap it otherwise. */
struct kernel_job {
    const void *const *sources; /* [source_count >= 2], each [count] */
    void *const *targets;       /* [target_count], each [count]; all get the result */
    int source_count;
    int target_count;
    size_t count;
    bool short_chunks; /* for targets in memory or in this processor's caches */
    bool stream; /* store past the caches; targets are aligned to 16 bytes then */
    /* The rest is for variants that overlap; others ignore it. */
    int take_from, take_to; /* the lines of these sources are fetched to be written by this processor next */
    void *ahead_to;         /* a copy to make on the way, in step with the reduction */
    const void *ahead_from;
    size_t ahead_bytes;     /* a multiple of KERNEL_CHUNK, and no more than the sources have */
};

enum {
    KERNEL_CHUNK = 256,      /* bytes of a short chunk */
    KERNEL_FEW_ELEMENTS = 8, /* for one target, the base variant is the fastest with so few */
};

typedef void kernel_reduce (const struct kernel_job *job);

/** Narrow floats to float32, and back with rounding to nearest even. */
typedef void kernel_widen (float *target, const void *source, size_t count);
typedef void kernel_narrow (void *target, const float *source, size_t count);

struct kernels {
    const char *name;
    kernel_reduce *reduce[ACCEL_DTYPE_COUNT][ACCEL_OP_COUNT]; /* NULL: not defined, or by way of float32, or rest's */
    const struct kernels *rest; /* what this variant shares with a slower one; may be NULL */
    bool overlaps; /* its own reductions take lines over and copy on the way: small pieces suit it best */
    void (*copy) (void *to, const void *from, size_t bytes); /* NULL: memory_copy() is faster */
    kernel_widen *widen[ACCEL_DTYPE_COUNT];
    kernel_narrow *narrow[ACCEL_DTYPE_COUNT];
    void (*divide_f32) (float *values, size_t count, float divisor);
    void (*to_bool) (uint8_t *target, const uint8_t *source, size_t count);
};

extern const struct kernels kernels_base;
#if defined __x86_64__
extern const struct kernels kernels_avx2;
extern const struct kernels kernels_avx512;
#endif

/** The variants that this processor runs, from the slowest on; NULL after the last.  Where ENV_INSTRUCTIONS names one,
 *  it is the last. */
const struct kernels *kernels_at (int level);

extern _Atomic (const struct kernels *) kernels_chosen; /* NULL until they are */
const struct kernels *kernels_choose (void);

/** @return the fastest of them. */
static inline const struct kernels *
kernels_best (void)
{
    const struct kernels *chosen = atomic_load_explicit (&kernels_chosen, memory_order_relaxed);
    return chosen ? chosen : kernels_choose ();
}

#endif
