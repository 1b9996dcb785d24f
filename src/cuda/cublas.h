/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices by cuBLAS, which is loaded when a program asks for it.  Its sums have an order of their own: the
 * same in each run on one kind of GPU, because there are no atomics, one fixed workspace, and float32 throughout. */
#ifndef CUDA_CUBLAS_H
#define CUDA_CUBLAS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>

/** One for each GPU. */
struct cublas {
    void *handle;    /* NULL: not opened */
    void *workspace; /* on the GPU */
    cudaStream_t stream;
    bool has_stream;
    char words[96]; /* what failed */
};

/** Load cuBLAS and make a handle on the present device, unless there is one.  Not for two threads at once on one GPU.
 *  @return NULL, or why it cannot be used, which stays until the next call */
const char *cublas_open (struct cublas *cublas);

/** p [n, rank] = values [n, m] * q [m, rank]; @p transposed: q [m, rank] = transposed values * p, with @p right p and
 *  @p result q.  Sizes are above 0 and at most INT_MAX.
 *  @return NULL, or what failed */
const char *cublas_multiply (struct cublas *cublas, bool transposed, float *result, const float *values,
                             const float *right, size_t n, size_t m, size_t rank, cudaStream_t stream);

#endif
