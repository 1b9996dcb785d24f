/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled, not run, where NVIDIA's header is: cuBLAS has the functions that src/cuda/cublas_calls.h declares. */
#include "cuda/cublas_calls.h"

#include <cublas_v2.h>

_Static_assert (CUBLAS_PLAIN == (int) CUBLAS_OP_N && CUBLAS_TRANSPOSED == (int) CUBLAS_OP_T, "operations");
_Static_assert (CUBLAS_PEDANTIC == (int) CUBLAS_PEDANTIC_MATH, "arithmetic");
_Static_assert (CUBLAS_NO_ATOMICS == (int) CUBLAS_ATOMICS_NOT_ALLOWED, "atomics");
_Static_assert (sizeof (cublasStatus_t) == sizeof (int) && sizeof (cublasMath_t) == sizeof (int)
                    && sizeof (cublasOperation_t) == sizeof (int) && sizeof (cublasAtomicsMode_t) == sizeof (int)
                    && CUBLAS_STATUS_SUCCESS == 0,
                "enumerations");

/* Each member's parameters, passed on. */
static int
create (void **handle)
{
    return (int) cublasCreate_v2 ((cublasHandle_t *) handle);
}

static int
set_stream (void *handle, cudaStream_t stream)
{
    return (int) cublasSetStream_v2 (handle, stream);
}

static int
set_workspace (void *handle, void *workspace, size_t bytes)
{
    return (int) cublasSetWorkspace_v2 (handle, workspace, bytes);
}

static int
set_math_mode (void *handle, int mode)
{
    return (int) cublasSetMathMode (handle, (cublasMath_t) mode);
}

static int
set_atomics_mode (void *handle, int mode)
{
    return (int) cublasSetAtomicsMode (handle, (cublasAtomicsMode_t) mode);
}

static int
sgemm (void *handle, int operation_a, int operation_b, int m, int n, int k, const float *alpha, const float *a,
       int lda, const float *b, int ldb, const float *beta, float *c, int ldc)
{
    return (int) cublasSgemm_v2 (handle, (cublasOperation_t) operation_a, (cublasOperation_t) operation_b, m, n, k,
                                 alpha, a, lda, b, ldb, beta, c, ldc);
}

static const char *
status_name (int status)
{
    return cublasGetStatusName ((cublasStatus_t) status);
}

extern const struct cublas_calls checked;
const struct cublas_calls checked
    = { create, set_stream, set_workspace, set_math_mode, set_atomics_mode, sgemm, status_name };
