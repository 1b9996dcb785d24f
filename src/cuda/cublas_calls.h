/* SPDX-License-Identifier: Apache-2.0 */
/* What is used of cuBLAS, as its headers declare it; enumerations are int there, too. */
#ifndef CUDA_CUBLAS_CALLS_H
#define CUDA_CUBLAS_CALLS_H

#include <cuda_runtime_api.h>
#include <stddef.h>

/** Values of its enumerations, and the bytes of a workspace: a multiple of 256, at an address that is one. */
enum {
    CUBLAS_PLAIN = 0,
    CUBLAS_TRANSPOSED = 1,
    CUBLAS_PEDANTIC = 2,
    CUBLAS_NO_ATOMICS = 0,
    CUBLAS_WORKSPACE = 8 << 20
};

/** Each returns a status, 0 if all is well. */
struct cublas_calls {
    int (*create) (void **handle);
    int (*set_stream) (void *handle, cudaStream_t stream);
    int (*set_workspace) (void *handle, void *workspace, size_t bytes);
    int (*set_math_mode) (void *handle, int mode);
    int (*set_atomics_mode) (void *handle, int mode);
    int (*sgemm) (void *handle, int operation_a, int operation_b, int m, int n, int k, const float *alpha,
                  const float *a, int lda, const float *b, int ldb, const float *beta, float *c, int ldc);
    const char *(*status_name) (int status);
};

#endif
