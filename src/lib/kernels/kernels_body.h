/* SPDX-License-Identifier: Apache-2.0 */
/* Included by each kernels_NAME.c, which defines
 *   KERNEL_TABLE   the table's name
 *   KERNEL_NAME    the same for people
 *   KERNEL_TARGET  the attribute of the instruction set
 *   KERNEL_F16C    defined if the processor converts float16 itself
 *   KERNEL_RARE    defined if newer processors have another variant
 *   KERNEL_REST    the table whose loops are used where this variant has none of its own, the base has all
 *   KERNEL_FEW     defined if only sums and averages of floats are worth loops of their own
 *   KERNEL_OVERLAP defined if chunks are always short, lines are taken over, and a copy is made on the way
 * Plain loops: the compiler makes vectors of them.  No multiplication is followed by an addition, so there is nothing
 * to contract, and all variants give the same bits. */
#include "lib/kernels/dtypes.h"
#include "lib/kernels/half_element.h"
#include "lib/kernels/kernels.h"
#include "util/memory.h"

#if defined __x86_64__
#include <immintrin.h>
#endif
#include <string.h>

/* -O3 unrolls loops of known length into straight code, which keeps a short chunk in registers; at the ends of all the
 * others it doubles the size and gains nothing.  (It also jams loops over sources, which are not vectors then.)
 * Neither that nor loops for short chunks are worth the room if few processors are left that run the variant. */
#ifdef __clang__
#define KERNEL __attribute__ ((KERNEL_TARGET))
#else
#define KERNEL __attribute__ ((optimize ("O2", "tree-vectorize", "vect-cost-model=dynamic"), KERNEL_TARGET))
#endif
#ifdef KERNEL_RARE
#define IN_REGISTERS 0
#else
#define IN_REGISTERS 1
#endif
#if defined __clang__ || defined KERNEL_RARE
#define KERNEL_TIGHT KERNEL
#else
#define KERNEL_TIGHT __attribute__ ((optimize ("O3", "no-loop-unroll-and-jam"), KERNEL_TARGET))
#endif

/* sum and sources never overlap, which the compiler does not see where it does not inline. */
#ifdef __clang__
#define INDEPENDENT _Pragma ("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma ("GCC ivdep")
#endif
#define ALWAYS __attribute__ ((always_inline))

#ifdef KERNEL_OVERLAP
enum { OVERLAPS = 1, VECTOR = 64 };
#else
enum { OVERLAPS = 0, VECTOR = 32 };
#endif
typedef unsigned char kernel_vector __attribute__ ((vector_size (VECTOR), aligned (1), may_alias));

/* A chunk of every source is read before any of a target is written, so that a target may be a source.  From and to
 * memory, and to the processor's own caches, it is SHORT, so that reading the next overlaps writing the last.  Into
 * another processor's cache it is LONG, and memcpy() writes it: string instructions take the lines over without reading
 * them.
 *
 * That is so on Zen 3.  On Cascade Lake chunks are best short everywhere, and what is slow is to read a line from the
 * other processor's cache (4.5 ns) and then to make it one's own to write it (another 3.8 ns).  Fetching it to be
 * written in the first place, AHEAD of its use, takes no longer than reading it does. */
enum { SHORT = KERNEL_CHUNK, LONG = 8192, AHEAD = 2048, LINE = 64 };

#ifdef KERNEL_REST
enum { FEW = 0 };
#else
enum { FEW = KERNEL_FEW_ELEMENTS };
#endif

KERNEL ALWAYS static inline void
copy_vectors (char *to, const char *from, size_t bytes)
{
    size_t i = 0;
    for (; bytes - i >= sizeof (kernel_vector); i += sizeof (kernel_vector)) {
        *(kernel_vector *) (void *) (to + i) = *(const kernel_vector *) (const void *) (from + i);
        __asm__ volatile ("" ::: "memory"); /* or the compiler makes a memcpy() of it */
    }
    if (i < bytes)
        memcpy (to + i, from + i, bytes - i);
}

#if defined __x86_64__
KERNEL ALWAYS static inline void
stream_vectors (char *to, const char *from, size_t bytes)
{
    size_t i = 0;
    for (; bytes - i >= sizeof (__m128i); i += sizeof (__m128i))
        _mm_stream_si128 ((__m128i *) (void *) (to + i), _mm_loadu_si128 ((const __m128i *) (const void *) (from + i)));
    if (i < bytes)
        memcpy (to + i, from + i, bytes - i);
}
#endif

KERNEL ALWAYS static inline void
put (const struct kernel_job *job, size_t offset, const void *chunk, size_t bytes)
{
#if defined __x86_64__
    if (job->stream) {
        for (int t = 0; t < job->target_count; t++)
            stream_vectors ((char *) job->targets[t] + offset, chunk, bytes);
        return;
    }
#endif
    for (int t = 0; t < job->target_count; t++)
        if (bytes > SHORT)
            memory_copy ((char *) job->targets[t] + offset, chunk, bytes);
        else
            copy_vectors ((char *) job->targets[t] + offset, chunk, bytes);
}

/* For chunks that are worth a call. */
KERNEL __attribute__ ((noinline)) static void
put_long (const struct kernel_job *job, size_t offset, const void *chunk, size_t bytes)
{
    put (job, offset, chunk, bytes);
}

/* A hint past the end of an array would take lines from the thread that works there. */
KERNEL ALWAYS static inline void
take_over (const struct kernel_job *job, size_t from, size_t to, size_t bytes)
{
    for (int s = job->take_from; OVERLAPS && to <= bytes && s < job->take_to; s++)
        for (size_t i = from; i < to; i += LINE)
            __builtin_prefetch ((const char *) job->sources[s] + i, 1);
}

/* After the reduction of the same chunk: the stage pieces that it reads and this writes are equal modulo a page, and
 * loads after such stores wait for them. */
KERNEL ALWAYS static inline void
copy_ahead (const struct kernel_job *job, size_t offset)
{
    if (OVERLAPS && offset < job->ahead_bytes)
        copy_vectors ((char *) job->ahead_to + offset, (const char *) job->ahead_from + offset, SHORT);
}

/* Weakly ordered stores come before whatever tells the peers that they are done. */
KERNEL ALWAYS static inline void
finish (const struct kernel_job *job)
{
#if defined __x86_64__
    if (job->stream)
        _mm_sfence ();
#else
    (void) job;
#endif
}

/* @expression: of x and y, each source after the other; @last: of x, at the end.  FEW elements, such as a loss or a
 * flag, are reduced one by one, by the base variant: preparing vectors takes longer.  */
#define REDUCE(name, type, expression, last)                                                                         \
    KERNEL ALWAYS static inline void name##_step (const struct kernel_job *job, type *sum, size_t at, size_t count)  \
    {                                                                                                                \
        const type *first = (const type *) job->sources[0] + at, *next = (const type *) job->sources[1] + at;        \
        for (size_t i = 0; i < count; i++) {                                                                         \
            type x = first[i], y = next[i];                                                                          \
            sum[i] = (type) (expression);                                                                            \
        }                                                                                                            \
        for (int s = 2; s < job->source_count; s++) {                                                                \
            next = (const type *) job->sources[s] + at;                                                              \
            INDEPENDENT                                                                                              \
            for (size_t i = 0; i < count; i++) {                                                                     \
                type x = sum[i], y = next[i];                                                                        \
                sum[i] = (type) (expression);                                                                        \
            }                                                                                                        \
        }                                                                                                            \
        for (size_t i = 0; i < count; i++) {                                                                         \
            type x = sum[i];                                                                                         \
            sum[i] = (type) (last);                                                                                  \
        }                                                                                                            \
    }                                                                                                                \
    KERNEL __attribute__ ((noinline)) static void name##_few (const struct kernel_job *job)                          \
    {                                                                                                                \
        type *target = (type *) job->targets[0];                                                                     \
        for (size_t i = 0; i < job->count; i++) {                                                                    \
            type x = ((const type *) job->sources[0])[i];                                                            \
            for (int s = 1; s < job->source_count; s++) {                                                            \
                type y = ((const type *) job->sources[s])[i];                                                        \
                x = (type) (expression);                                                                             \
            }                                                                                                        \
            target[i] = (type) (last);                                                                               \
        }                                                                                                            \
    }                                                                                                                \
    KERNEL __attribute__ ((noinline)) static void name##_long (const struct kernel_job *job, size_t at)              \
    {                                                                                                                \
        const size_t most = LONG / sizeof (type);                                                                    \
        type sum[LONG / sizeof (type)] __attribute__ ((aligned (64)));                                               \
        for (; at < job->count; at += most) {                                                                        \
            size_t count = job->count - at < most ? job->count - at : most;                                          \
            name##_step (job, sum, at, count);                                                                       \
            put_long (job, at * sizeof (type), sum, count * sizeof (type));                                          \
        }                                                                                                            \
    }                                                                                                                \
    KERNEL_TIGHT static void name (const struct kernel_job *job)                                                     \
    {                                                                                                                \
        const size_t most = SHORT / sizeof (type), bytes = job->count * sizeof (type);                               \
        type sum[SHORT / sizeof (type)];                                                                             \
        size_t at = 0;                                                                                               \
        if (FEW > 0 && sizeof (type) > 1 && job->count <= FEW && job->target_count == 1) {                           \
            name##_few (job);                                                                                        \
            return;                                                                                                  \
        }                                                                                                            \
        if (IN_REGISTERS && (OVERLAPS || job->short_chunks || job->count <= most)) {                                 \
            take_over (job, 0, AHEAD, bytes);                                                                        \
            for (; job->count - at >= most; at += most) {                                                            \
                size_t offset = at * sizeof (type);                                                                  \
                take_over (job, offset + AHEAD, offset + AHEAD + SHORT, bytes);                                      \
                name##_step (job, sum, at, most);                                                                    \
                put (job, offset, sum, SHORT);                                                                       \
                copy_ahead (job, offset);                                                                            \
            }                                                                                                        \
        }                                                                                                            \
        if (at < job->count)                                                                                         \
            name##_long (job, at);                                                                                   \
        finish (job);                                                                                                \
    }

/* A NaN on either side stays: x is kept if it is NaN, y is used if it is. */
REDUCE (sum_f32, float, x + y, x)
REDUCE (avg_f32, float, x + y, x / (float) job->source_count)
#ifndef KERNEL_FEW
REDUCE (min_f32, float, ((y < x) | (y != y)) ? y : x, x)
REDUCE (max_f32, float, ((y > x) | (y != y)) ? y : x, x)
#endif
REDUCE (sum_f64, double, x + y, x)
REDUCE (avg_f64, double, x + y, x / (double) job->source_count)
#ifndef KERNEL_FEW
REDUCE (min_f64, double, ((y < x) | (y != y)) ? y : x, x)
REDUCE (max_f64, double, ((y > x) | (y != y)) ? y : x, x)
/* Signed sums and products are made of unsigned ones, which wrap by definition. */
REDUCE (sum_32, uint32_t, x + y, x)
REDUCE (min_i32, int32_t, y < x ? y : x, x)
REDUCE (max_i32, int32_t, y > x ? y : x, x)
REDUCE (sum_64, uint64_t, x + y, x)
REDUCE (min_i64, int64_t, y < x ? y : x, x)
REDUCE (max_i64, int64_t, y > x ? y : x, x)
#endif
#ifndef KERNEL_REST
REDUCE (prod_f32, float, x *y, x)
REDUCE (prod_f64, double, x *y, x)
REDUCE (prod_32, uint32_t, x *y, x)
REDUCE (prod_64, uint64_t, x *y, x)
REDUCE (sum_8, uint8_t, x + y, x)
REDUCE (prod_8, uint8_t, (unsigned) x * y, x)
REDUCE (min_i8, int8_t, y < x ? y : x, x)
REDUCE (max_i8, int8_t, y > x ? y : x, x)
REDUCE (min_u8, uint8_t, y < x ? y : x, x)
REDUCE (max_u8, uint8_t, y > x ? y : x, x)
REDUCE (or_bool, uint8_t, (x | y) != 0, x)
REDUCE (and_bool, uint8_t, (x != 0) & (y != 0), x)
#endif

#ifdef KERNEL_OVERLAP
KERNEL static void
copy_by_vectors (void *to, const void *from, size_t bytes)
{
    copy_vectors (to, from, bytes);
}
#endif

KERNEL static void
to_bool (uint8_t *target, const uint8_t *source, size_t count)
{
    for (size_t i = 0; i < count; i++)
        target[i] = source[i] != 0;
}

KERNEL static void
divide_f32 (float *values, size_t count, float divisor)
{
    for (size_t i = 0; i < count; i++)
        values[i] /= divisor;
}

#define X(name, type, widened, narrowed, limit)                                       \
    KERNEL_TIGHT static void widen_##name (float *target, const void *source, size_t count) \
    {                                                                                 \
        const type *from = source;                                                    \
        for (size_t i = 0; i < count; i++)                                            \
            target[i] = widened (from[i]);                                            \
    }                                                                                 \
    KERNEL_TIGHT static void narrow_##name (void *target, const float *source, size_t count) \
    {                                                                                 \
        type *to = target;                                                            \
        for (size_t i = 0; i < count; i++)                                            \
            to[i] = narrowed (source[i]);                                             \
    }
NARROW_FLOATS (X)
#undef X

#ifdef KERNEL_F16C
KERNEL_TIGHT static void
widen_by_f16c (float *target, const void *source, size_t count)
{
    const uint16_t *from = source;
    size_t i = 0;
    for (; count - i >= 8; i += 8) {
        __m128i half = _mm_loadu_si128 ((const __m128i *) (const void *) (from + i));
        _mm256_storeu_ps (target + i, _mm256_cvtph_ps (half));
    }
    widen_FLOAT16 (target + i, from + i, count - i);
}

KERNEL_TIGHT static void
narrow_by_f16c (void *target, const float *source, size_t count)
{
    uint16_t *to = target;
    size_t i = 0;
    for (; count - i >= 8; i += 8) {
        __m128i half = _mm256_cvtps_ph (_mm256_loadu_ps (source + i), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128 ((__m128i *) (void *) (to + i), half);
    }
    narrow_FLOAT16 (to + i, source + i, count - i);
}
#define widen_FLOAT16 widen_by_f16c
#define narrow_FLOAT16 narrow_by_f16c
#endif

#ifdef KERNEL_REST
#define OF_BASE(kernel) NULL
#else
#define OF_BASE(kernel) kernel
#endif
#ifdef KERNEL_FEW
#define OF_MOST(kernel) NULL
#else
#define OF_MOST(kernel) kernel
#endif
#define ROW(sum_kernel, avg_kernel, min_kernel, max_kernel, prod_kernel)                                             \
    {                                                                                                                \
        [ACCEL_SUM] = sum_kernel, [ACCEL_AVG] = avg_kernel, [ACCEL_MIN] = OF_MOST (min_kernel),                      \
        [ACCEL_MAX] = OF_MOST (max_kernel), [ACCEL_PROD] = OF_BASE (prod_kernel)                                     \
    }

/* One for each type of DTYPES that is not reduced by way of float32. */
#define REDUCE_FLOAT32 ROW (sum_f32, avg_f32, min_f32, max_f32, prod_f32)
#define REDUCE_FLOAT64 ROW (sum_f64, avg_f64, min_f64, max_f64, prod_f64)
#define REDUCE_INT32 ROW (OF_MOST (sum_32), NULL, min_i32, max_i32, prod_32)
#define REDUCE_INT64 ROW (OF_MOST (sum_64), NULL, min_i64, max_i64, prod_64)
#ifdef KERNEL_REST
#define REDUCE_INT8 { NULL }
#define REDUCE_UINT8 { NULL }
#define REDUCE_BOOL { NULL }
#else
#define REDUCE_INT8 ROW (sum_8, NULL, min_i8, max_i8, prod_8)
#define REDUCE_UINT8 ROW (sum_8, NULL, min_u8, max_u8, prod_8)
#define REDUCE_BOOL ROW (or_bool, NULL, and_bool, or_bool, and_bool)
#endif

const struct kernels KERNEL_TABLE = {
    .name = KERNEL_NAME,
#define X(name, ...) [ACCEL_##name] = REDUCE_##name,
    .reduce = { WIDE_FLOATS (X) INTEGERS (X) },
#undef X
#ifdef KERNEL_REST
    .rest = &KERNEL_REST,
#endif
    .overlaps = OVERLAPS,
#ifdef KERNEL_OVERLAP
    .copy = copy_by_vectors,
#endif
#define X(name, ...) [ACCEL_##name] = widen_##name,
    .widen = { NARROW_FLOATS (X) },
#undef X
#define X(name, ...) [ACCEL_##name] = narrow_##name,
    .narrow = { NARROW_FLOATS (X) },
#undef X
    .divide_f32 = divide_f32,
    .to_bool = to_bool,
};
