/* SPDX-License-Identifier: Apache-2.0 */
/* PowerSGD's products, and copies between strides.  Each element of a product is one thread's, which adds in the
 * processor's order, so the bits are the same. */
#include "cuda/elements.h"
#include "cuda/portable.h"
#include "lib/kernels/floats_element.h"

__global__ void
multiply_kernel (float *__restrict__ p, const float *__restrict__ values, const float *__restrict__ q, size_t n,
                 size_t m, size_t rank)
{
    FOR_EACH (at, n * rank) {
        size_t i = at / rank, k = at % rank;
        float sum = 0;
        for (size_t j = 0; j < m; j++)
            sum += values[i * m + j] * q[j * rank + k];
        p[at] = sum;
    }
}

/* Threads next to each other have rows of the result next to each other, and read values next to each other. */
__global__ void
multiply_transposed_kernel (float *__restrict__ q, const float *__restrict__ values, const float *__restrict__ p,
                            size_t n, size_t m, size_t rank)
{
    FOR_EACH (at, m * rank) {
        size_t k = at / m, j = at % m;
        float sum = 0;
        for (size_t i = 0; i < n; i++)
            sum += values[i * m + j] * p[i * rank + k];
        q[j * rank + k] = sum;
    }
}

__global__ void
expand_kernel (float *__restrict__ values, float *__restrict__ error, const float *__restrict__ p,
               const float *__restrict__ q, size_t n, size_t m, size_t rank)
{
    FOR_EACH (at, n * m) {
        size_t i = at / m, j = at % m;
        float sum = 0, before = values[at];
        for (size_t k = 0; k < rank; k++)
            sum += p[i * rank + k] * q[j * rank + k];
        values[at] = sum;
        if (error)
            error[at] = float_is_nonfinite (before - sum) ? 0 : before - sum;
    }
}

/* Products of columns in the processor's order: all threads multiply, and thread 0 adds up.  @return to all threads */
__device__ static inline double
column_product (const float *columns, size_t rows, size_t rank, size_t j, size_t k)
{
    SHARED (double, parts, [CUDA_BLOCK]);
    SHARED (double, total, [1]);
    if (threadIdx.x == 0)
        total[0] = 0;
    for (size_t at = 0; at < rows; at += CUDA_BLOCK) {
        size_t i = at + threadIdx.x;
        __syncthreads ();
        parts[threadIdx.x] = i < rows ? (double) columns[i * rank + j] * (double) columns[i * rank + k] : 0;
        __syncthreads ();
        if (threadIdx.x == 0)
            for (size_t t = 0; t < CUDA_BLOCK && at + t < rows; t++)
                total[0] += parts[t];
    }
    __syncthreads ();
    double result = total[0];
    __syncthreads ();
    return result;
}

/* One block. */
__global__ void
orthogonalise_kernel (float *__restrict__ columns, size_t rows, size_t rank, size_t j, unsigned *__restrict__ good)
{
    double before = sqrt (column_product (columns, rows, rank, j, j));
    if (!(before <= 1.7976931348623157e308)) { /* infinite or NaN, for all threads */
        if (threadIdx.x == 0)
            *good = 0;
        return;
    }
    for (int round = 0; round < 2; round++)
        for (size_t k = 0; k < j; k++) {
            double part = column_product (columns, rows, rank, j, k);
            for (size_t i = threadIdx.x; i < rows; i += CUDA_BLOCK)
                columns[i * rank + j] -= (float) (part * (double) columns[i * rank + k]);
            __syncthreads ();
        }
    double after = sqrt (column_product (columns, rows, rank, j, j));
    bool keeps = !(after <= before * 1e-6);
    for (size_t i = threadIdx.x; i < rows; i += CUDA_BLOCK)
        columns[i * rank + j] = keeps ? (float) ((double) columns[i * rank + j] / after) : 0;
    if (threadIdx.x == 0)
        *good = keeps && after == after;
}

template <class T> __global__ void
layout_kernel (T *to, const T *from, struct cuda_layout layout, size_t count)
{
    FOR_EACH (at, count) {
        size_t rest = at;
        int64_t into = 0, out = 0;
        for (int d = layout.ndim; d-- > 0;) {
            int64_t here = (int64_t) (rest % (size_t) layout.shape[d]);
            rest /= (size_t) layout.shape[d];
            into += here * layout.to[d];
            out += here * layout.from[d];
        }
        to[into] = from[out];
    }
}

extern "C" void
cuda_copy_layout (void *to, const void *from, const struct cuda_layout *layout, size_t element_bytes, void *stream)
{
    size_t count = 1;
    for (int d = 0; d < layout->ndim; d++)
        count *= (size_t) layout->shape[d];
    if (!count)
        return;
    if (element_bytes == 1)
        LAUNCH (layout_kernel<uint8_t>, cuda_blocks (count), stream, (uint8_t *) to, (const uint8_t *) from, *layout,
                count);
    else if (element_bytes == 2)
        LAUNCH (layout_kernel<uint16_t>, cuda_blocks (count), stream, (uint16_t *) to, (const uint16_t *) from,
                *layout, count);
    else if (element_bytes == 4)
        LAUNCH (layout_kernel<uint32_t>, cuda_blocks (count), stream, (uint32_t *) to, (const uint32_t *) from,
                *layout, count);
    else
        LAUNCH (layout_kernel<uint64_t>, cuda_blocks (count), stream, (uint64_t *) to, (const uint64_t *) from,
                *layout, count);
}

extern "C" void
cuda_multiply (float *p, const float *values, const float *q, size_t n, size_t m, size_t rank, void *stream)
{
    if (n * rank > 0)
        LAUNCH (multiply_kernel, cuda_blocks (n * rank), stream, p, values, q, n, m, rank);
}

extern "C" void
cuda_multiply_transposed (float *q, const float *values, const float *p, size_t n, size_t m, size_t rank, void *stream)
{
    if (m * rank > 0)
        LAUNCH (multiply_transposed_kernel, cuda_blocks (m * rank), stream, q, values, p, n, m, rank);
}

extern "C" void
cuda_expand (float *values, float *error, const float *p, const float *q, size_t n, size_t m, size_t rank,
             void *stream)
{
    if (n * m > 0)
        LAUNCH (expand_kernel, cuda_blocks (n * m), stream, values, error, p, q, n, m, rank);
}

extern "C" void
cuda_orthogonalise (float *columns, size_t rows, size_t rank, size_t j, unsigned *good, void *stream)
{
    LAUNCH (orthogonalise_kernel, 1, stream, columns, rows, rank, j, good);
}
