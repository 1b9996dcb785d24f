/* SPDX-License-Identifier: Apache-2.0 */
/* The p-norm of an array in two kernels: each block sums its elements in double, and one block sums the blocks' sums.
 * Sums have a fixed order, so the result is always the same.  norms.cu has what is usual; power.cu has the rest, which
 * needs pow(). */
#ifndef CUDA_NORMS_H
#define CUDA_NORMS_H

#include "cuda/elements.h"
#include "cuda/portable.h"
#include "lib/kernels/floats_element.h"

enum norm_kind { NORM_ZERO, NORM_ONE, NORM_TWO, NORM_LARGEST, NORM_POWER };

template <enum norm_kind KIND> __device__ static inline double
norm_first (float value, double p)
{
    if (KIND == NORM_ZERO)
        return norm_term (value, 0);
    if (KIND == NORM_TWO)
        return norm_term (value, 2);
    if (KIND == NORM_POWER)
        return float_power (value, p);
    return norm_term (value, 1); /* of the largest, too */
}

/* NaN, once there, stays. */
template <enum norm_kind KIND> __device__ static inline double
norm_both (double a, double b)
{
    if (KIND != NORM_LARGEST)
        return a + b;
    return a != a || a > b ? a : b;
}

/* @return the sum of all threads, to thread 0 */
template <enum norm_kind KIND> __device__ static inline double
norm_of_block (double mine)
{
    SHARED (double, sums, [CUDA_BLOCK]);
    sums[threadIdx.x] = mine;
    for (unsigned half = CUDA_BLOCK / 2; half; half /= 2) {
        __syncthreads ();
        if (threadIdx.x < half)
            sums[threadIdx.x] = norm_both<KIND> (sums[threadIdx.x], sums[threadIdx.x + half]);
    }
    return sums[threadIdx.x];
}

/* @return the sum of a thread.  Packs have 8 elements of any type, which are loaded one by one if they are not aligned:
 * so the order depends on the number of elements only. */
template <enum norm_kind KIND> __device__ static inline double
norm_of_thread (struct team team, const void *values, enum accel_dtype dtype, size_t count, float factor, double p)
{
    constexpr unsigned N = 8, U = 2;
    double sum = 0;
    if constexpr (KIND == NORM_POWER) { /* pow() takes longer than memory */
        for_packs<1, 1> (team, count, false, [] (auto, size_t) {}, [&] (size_t i) {
            float value = element_load (values, dtype, i);
            sum += norm_first<KIND> (dtype != ACCEL_FLOAT32 && factor != 1 ? value * factor : value, p);
        });
        return sum;
    }
    with_float (dtype, [&] (auto f) {
        typedef typename decltype (f)::type type;
        constexpr unsigned M = PACKED<type> < N ? PACKED<type> : N; /* of an access */
        const type *from = (const type *) values;
        bool packed = is_packed (from, sizeof *from, M);
        auto add = [&] (type bits) {
            float value = f.widen (bits);
            if (sizeof bits < sizeof value && factor != 1)
                value *= factor;
            sum = norm_both<KIND> (sum, norm_first<KIND> (value, p));
        };
        for_packs<N, U> (team, count, true, [&] (auto some, size_t i) {
            pack<type, M> in[some.count][N / M];
            UNROLL for (unsigned u = 0; packed && u < some.count; u++)
                UNROLL for (unsigned m = 0; m < N / M; m++)
                    in[u][m] = pack_load<M> (from, i + u * PACK_STEP<N> + m * M);
            UNROLL for (unsigned u = 0; !packed && u < some.count; u++)
                UNROLL for (unsigned k = 0; k < N; k++)
                    in[u][k / M].at[k % M] = from[i + u * PACK_STEP<N> + k];
            UNROLL for (unsigned u = 0; u < some.count; u++)
                UNROLL for (unsigned k = 0; k < N; k++)
                    add (in[u][k / M].at[k % M]);
        }, [&] (size_t i) { add (from[i]); });
    });
    return sum;
}

template <enum norm_kind KIND> __global__ void
norm_kernel (const void *__restrict__ values, enum accel_dtype dtype, size_t count, float factor, double p,
             double *__restrict__ blocks)
{
    double sum = norm_of_block<KIND> (norm_of_thread<KIND> (WHOLE_GRID, values, dtype, count, factor, p));
    if (threadIdx.x == 0)
        blocks[blockIdx.x] = sum;
}

/* From the sums of the blocks; a single value has a norm of its own, from the value itself. */
template <enum norm_kind KIND> __global__ void
norm_end_kernel (const double *__restrict__ blocks, unsigned block_count, const void *__restrict__ values,
                 enum accel_dtype dtype, size_t count, float factor, double p, float *__restrict__ result)
{
    double sum = 0;
    for (unsigned i = threadIdx.x; i < block_count; i += CUDA_BLOCK)
        sum = norm_both<KIND> (sum, blocks[i]);
    sum = norm_of_block<KIND> (sum);
    if (threadIdx.x)
        return;
    if (count == 1) {
        float value = element_load (values, dtype, 0);
        *result = norm_of_one (dtype != ACCEL_FLOAT32 ? value * factor : value, p);
    } else {
        *result = KIND == NORM_TWO ? norm_of_sum (sum, 2) : KIND == NORM_POWER ? float_root (sum, p) : (float) sum;
    }
}

template <enum norm_kind KIND> static void
norm_launch (const void *values, enum accel_dtype dtype, size_t count, float factor, double p, float *result,
             double *blocks, void *stream)
{
    unsigned block_count = cuda_blocks (count);
    if (count)
        LAUNCH (norm_kernel<KIND>, block_count, stream, values, dtype, count, factor, p, blocks);
    LAUNCH (norm_end_kernel<KIND>, 1, stream, (const double *) blocks, block_count, values, dtype, count, factor, p,
            result);
}

/** Of any other p than 0, 1, 2 and infinity. */
void norm_of_power (const void *values, enum accel_dtype dtype, size_t count, float factor, double p, float *result,
                    double *blocks, void *stream);

#endif
