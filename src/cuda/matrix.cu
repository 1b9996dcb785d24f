/* SPDX-License-Identifier: Apache-2.0 */
/* PowerSGD's products, and copies between strides.  Each element of a product is one thread's, which adds in the
 * processor's order, so the bits are the same. */
#include "cuda/elements.h"
#include "cuda/portable.h"
#include "lib/kernels/floats_element.h"
#include "lib/kernels/matrix_element.h"

enum { ONE_BLOCK_STRETCHES = 4 /* that one block adds up sooner than several do in as many launches as they need */ };

/* A thread goes along a row, of which it has packs in flight. */
__global__ void
multiply_kernel (float *__restrict__ p, const float *__restrict__ values, const float *__restrict__ q, size_t n,
                 size_t m, size_t rank)
{
    constexpr unsigned N = PACKED<float>, U = 8; /* a line of the cache */
    size_t packed = is_packed (values, sizeof *values, N) && m % N == 0 ? m / (N * U) * (N * U) : 0;
    FOR_EACH (at, n * rank) {
        size_t i = at / rank, k = at % rank;
        const float *row = values + i * m;
        float sum = 0;
        for (size_t j = 0; j < packed; j += N * U) {
            pack<float, N> some[U];
            UNROLL for (unsigned u = 0; u < U; u++)
                some[u] = pack_load<N> (row, j + u * N);
            UNROLL for (unsigned u = 0; u < N * U; u++)
                sum += some[u / N].at[u % N] * q[(j + u) * rank + k];
        }
        for (size_t j = packed; j < m; j++)
            sum += row[j] * q[j * rank + k];
        p[at] = sum;
    }
}

/* Threads next to each other have rows of the result next to each other, and read values next to each other, of several
 * rows before they use the first. */
__global__ void
multiply_transposed_kernel (float *__restrict__ q, const float *__restrict__ values, const float *__restrict__ p,
                            size_t n, size_t m, size_t rank)
{
    constexpr unsigned U = 16;
    FOR_EACH (at, m * rank) {
        size_t k = at / m, j = at % m, i = 0;
        float sum = 0;
        for (; i + U <= n; i += U) {
            float some[U];
            UNROLL for (unsigned u = 0; u < U; u++)
                some[u] = values[(i + u) * m + j];
            UNROLL for (unsigned u = 0; u < U; u++)
                sum += some[u] * p[(i + u) * rank + k];
        }
        for (; i < n; i++)
            sum += values[i * m + j] * p[i * rank + k];
        q[j * rank + k] = sum;
    }
}

/* Elements at @at and after it, COUNT in one row. */
template <unsigned COUNT> __device__ static inline void
expand_row (float *values, float *error, const float *p, const float *q, size_t m, size_t rank, size_t at)
{
    size_t i = at / m, j = at % m;
    pack<float, COUNT> sum = {}, left = {}, before = pack_load<COUNT> (values, at);
    for (size_t k = 0; k < rank; k++) {
        float each = p[i * rank + k];
        UNROLL for (unsigned u = 0; u < COUNT; u++)
            sum.at[u] += each * q[(j + u) * rank + k];
    }
    UNROLL for (unsigned u = 0; u < COUNT; u++)
        left.at[u] = float_is_nonfinite (before.at[u] - sum.at[u]) ? 0 : before.at[u] - sum.at[u];
    pack_store (values, at, sum);
    if (error)
        pack_store (error, at, left);
}

__global__ void
expand_kernel (float *__restrict__ values, float *__restrict__ error, const float *__restrict__ p,
               const float *__restrict__ q, size_t n, size_t m, size_t rank)
{
    constexpr unsigned N = PACKED<float>;
    bool packed = m % N == 0 && is_packed (values, sizeof *values, N) && is_packed (error, sizeof *error, N);
    for_packs<N, 1> (
        WHOLE_GRID, n * m, packed, [&] (auto, size_t i) { expand_row<N> (values, error, p, q, m, rank, i); },
        [&] (size_t i) { expand_row<1> (values, error, p, q, m, rank, i); });
}

/* The product of columns @j and @k in the processor's order, of rows from @first to @end: all threads multiply, and
 * thread 0 adds up.  @return to thread 0 */
__device__ static inline double
stretch_product (const float *columns, size_t first, size_t end, size_t rank, size_t j, size_t k)
{
    SHARED (double, parts, [CUDA_BLOCK]);
    double sum = 0;
    for (size_t at = first; at < end; at += CUDA_BLOCK) {
        size_t i = at + threadIdx.x;
        __syncthreads ();
        parts[threadIdx.x] = i < end ? (double) columns[i * rank + j] * (double) columns[i * rank + k] : 0;
        __syncthreads ();
        for (size_t t = 0; threadIdx.x == 0 && t < CUDA_BLOCK && at + t < end; t++)
            sum += parts[t];
    }
    return sum;
}

/* The number of thread 0, to all. */
__device__ static inline double
told (double number)
{
    SHARED (double, place, [1]);
    __syncthreads ();
    if (threadIdx.x == 0)
        place[0] = number;
    __syncthreads ();
    return place[0];
}

__device__ static inline bool
is_finite_product (double sum)
{
    return sum <= 1.7976931348623157e308; /* infinite or NaN: not, for all threads */
}

__device__ static inline void
subtract_column (float *columns, size_t first, size_t end, size_t rank, size_t j, size_t k, double part)
{
    for (size_t i = first + threadIdx.x; i < end; i += CUDA_BLOCK)
        columns[i * rank + j] -= (float) (part * (double) columns[i * rank + k]);
    __syncthreads ();
}

/* @return whether the column is neither 0 nor full of NaN and infinity */
__device__ static inline bool
finish_column (float *columns, size_t first, size_t end, size_t rank, size_t j, double before, double after)
{
    bool keeps = !(after <= before * 1e-6);
    for (size_t i = first + threadIdx.x; i < end; i += CUDA_BLOCK)
        columns[i * rank + j] = keeps ? (float) ((double) columns[i * rank + j] / after) : 0;
    return keeps && after == after;
}

/* One block for all stretches. */
__device__ static inline double
column_product (const float *columns, size_t rows, size_t rank, size_t j, size_t k)
{
    size_t stretch = matrix_stretch (rows);
    double sum = 0;
    for (size_t first = 0; first < rows; first += stretch)
        sum += stretch_product (columns, first, first + stretch < rows ? first + stretch : rows, rank, j, k);
    return told (sum);
}

__device__ static inline bool
orthogonalise_once (float *columns, size_t rows, size_t rank, size_t j)
{
    double before = column_product (columns, rows, rank, j, j);
    if (!is_finite_product (before))
        return false;
    for (size_t step = 0; step < 2 * j; step++)
        subtract_column (columns, 0, rows, rank, j, step % j, column_product (columns, rows, rank, j, step % j));
    return finish_column (columns, 0, rows, rank, j, sqrt (before), sqrt (column_product (columns, rows, rank, j, j)));
}

/* @param good  what steps by many blocks have come to: draw the column anew unless it is; NULL: none were made */
__global__ void
orthogonalise_kernel (float *__restrict__ columns, size_t rows, size_t rank, size_t j, bool draws, uint64_t seed,
                      const unsigned *__restrict__ good)
{
    if (good && *good)
        return;
    for (unsigned turn = good != NULL; turn < 2; turn++) {
        for (size_t i = threadIdx.x; turn && i < rows; i += CUDA_BLOCK)
            columns[i * rank + j] = matrix_drawn (seed, i * rank + j);
        __syncthreads ();
        if (orthogonalise_once (columns, rows, rank, j) || !draws)
            return;
    }
}

/* The same by many blocks, of which each has the rows of a stretch: launches number 0 to 2 j + 2, of which each adds up
 * the products that the one before has left for each stretch, changes the column, and leaves products for the next.
 * @param sums  [3][MATRIX_STRETCHES]: products of launches with an even number, of those with an odd one, and the
 *              column's with itself before */
__global__ void
orthogonalise_step_kernel (float *__restrict__ columns, size_t rows, size_t rank, size_t j, size_t number,
                           double *__restrict__ sums, unsigned *__restrict__ good)
{
    SHARED (double, parts, [MATRIX_STRETCHES]);
    double *own = sums + number % 2 * MATRIX_STRETCHES, *before = sums + 2 * MATRIX_STRETCHES, total = 0;
    const double *others = sums + (number + 1) % 2 * MATRIX_STRETCHES;
    size_t stretch = matrix_stretch (rows), first = blockIdx.x * stretch;
    size_t end = first + stretch < rows ? first + stretch : rows;
    for (unsigned b = threadIdx.x; number && b < gridDim.x; b += CUDA_BLOCK)
        parts[b] = others[b];
    __syncthreads ();
    for (unsigned b = 0; number && threadIdx.x == 0 && b < gridDim.x; b++)
        total += parts[b];
    total = told (total);
    double length = number == 1 ? total : number ? *before : 0;
    if (!is_finite_product (length)) {
        if (threadIdx.x == 0 && !blockIdx.x)
            *good = false;
    } else if (number == 2 * j + 2) {
        bool is_good = finish_column (columns, first, end, rank, j, sqrt (length), sqrt (total));
        if (threadIdx.x == 0 && !blockIdx.x)
            *good = is_good;
        return;
    } else if (number > 1) {
        subtract_column (columns, first, end, rank, j, (number - 2) % j, total);
    }
    double sum = stretch_product (columns, first, end, rank, j, number && number <= 2 * j ? (number - 1) % j : j);
    if (threadIdx.x == 0)
        own[blockIdx.x] = sum;
    if (threadIdx.x == 0 && !blockIdx.x && number == 1)
        *before = total;
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

/* A column is hardly ever drawn anew, so one block does it. */
extern "C" void
cuda_orthogonalise (float *columns, size_t rows, size_t rank, size_t j, const uint64_t *seed, void *scratch,
                    void *stream)
{
    static_assert (3 * MATRIX_STRETCHES * sizeof (double) + sizeof (unsigned) <= CUDA_SCRATCH, "there is room for all");
    size_t stretch = matrix_stretch (rows), blocks = (rows + stretch - 1) / stretch;
    double *sums = (double *) scratch;
    unsigned *good = blocks > ONE_BLOCK_STRETCHES ? (unsigned *) (sums + 3 * MATRIX_STRETCHES) : NULL;
    bool draws = seed != NULL;
    for (size_t number = 0; good && number < 2 * j + 3; number++)
        LAUNCH (orthogonalise_step_kernel, (unsigned) blocks, stream, columns, rows, rank, j, number, sums, good);
    if (draws || !good)
        LAUNCH (orthogonalise_kernel, 1, stream, columns, rows, rank, j, draws, draws ? *seed : 0, good);
}
