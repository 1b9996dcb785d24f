/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for cuBLAS: the calls that src/cuda/cublas.c makes, on the streams of the stand-in for the CUDA runtime.
 * Its sums go backwards in strides, so they have other bits than a loop, the same each time.  It is stricter: a product
 * without a stream, a workspace set after it, pedantic arithmetic or a ban on atomics is reported. */
#include <config.h>

#include "cuda/cublas_calls.h"
#include "tests/standin/cuda/standin.h"

#include <stdlib.h>

#define API __attribute__ ((visibility ("default")))

enum { MAGIC = 0xb1a5, STRIDE = 4, INVALID = 7, NOT_INITIALIZED = 1, NO_MEMORY = 3 };

struct blas {
    int magic, device;
    bool has_stream, has_workspace, is_pedantic, has_no_atomics;
    cudaStream_t stream;
};

/* A product, as it is when the stream comes to it. */
struct product {
    const float *a, *b;
    float *c;
    int m, n, k, lda, ldb, ldc;
    bool b_transposed;
    int64_t cost_ns;
};

int cublasCreate_v2 (void **handle);
int cublasSetStream_v2 (void *handle, cudaStream_t stream);
int cublasSetWorkspace_v2 (void *handle, void *workspace, size_t bytes);
int cublasSetMathMode (void *handle, int mode);
int cublasSetAtomicsMode (void *handle, int mode);
int cublasSgemm_v2 (void *handle, int operation_a, int operation_b, int m, int n, int k, const float *alpha,
                    const float *a, int lda, const float *b, int ldb, const float *beta, float *c, int ldc);
const char *cublasGetStatusName (int status);

API const char *
cublasGetStatusName (int status)
{
    switch (status) {
    case NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case NO_MEMORY: return "CUBLAS_STATUS_ALLOC_FAILED";
    case INVALID: return "CUBLAS_STATUS_INVALID_VALUE";
    case 13: return "CUBLAS_STATUS_EXECUTION_FAILED";
    default: return "unknown status";
    }
}

static struct blas *
blas_of (void *handle, const char *call)
{
    struct blas *blas = handle;
    int device;
    if (!blas || blas->magic != MAGIC)
        standin_report (NULL, NULL, "%s: not a handle", call);
    standin_device (&device, NULL, 0);
    if (device != blas->device)
        standin_report (NULL, NULL, "%s on device %d, but the handle is of device %d", call, device, blas->device);
    return blas;
}

API int
cublasCreate_v2 (void **handle)
{
    int status = standin_injected (__func__);
    struct blas *blas = status ? NULL : calloc (1, sizeof *blas);
    if (!blas)
        return status ? status : NO_MEMORY;
    blas->magic = MAGIC;
    standin_device (&blas->device, NULL, 0);
    *handle = blas;
    return 0;
}

API int
cublasSetStream_v2 (void *handle, cudaStream_t stream)
{
    struct blas *blas = blas_of (handle, __func__);
    int status = standin_injected (__func__);
    blas->stream = stream;
    blas->has_stream = true;
    blas->has_workspace = false; /* as NVIDIA says */
    return status;
}

API int
cublasSetWorkspace_v2 (void *handle, void *workspace, size_t bytes)
{
    struct blas *blas = blas_of (handle, __func__);
    int status = standin_injected (__func__);
    if ((uintptr_t) workspace % 256 || bytes < 16 << 10)
        return INVALID;
    standin_range (__func__, workspace, bytes, true, blas->stream);
    blas->has_workspace = true;
    return status;
}

API int
cublasSetMathMode (void *handle, int mode)
{
    blas_of (handle, __func__)->is_pedantic = mode == CUBLAS_PEDANTIC;
    return standin_injected (__func__);
}

API int
cublasSetAtomicsMode (void *handle, int mode)
{
    blas_of (handle, __func__)->has_no_atomics = mode == CUBLAS_NO_ATOMICS;
    return standin_injected (__func__);
}

static enum standin_progress
run (void *closure)
{
    struct product *p = closure;
    for (int j = 0; j < p->n; j++)
        for (int i = 0; i < p->m; i++) {
            float parts[STRIDE] = { 0 };
            for (int l = p->k; l-- > 0;) {
                size_t at = p->b_transposed ? (size_t) l * (size_t) p->ldb + (size_t) j
                                            : (size_t) j * (size_t) p->ldb + (size_t) l;
                parts[l % STRIDE] += p->a[(size_t) l * (size_t) p->lda + (size_t) i] * p->b[at];
            }
            p->c[(size_t) j * (size_t) p->ldc + (size_t) i] = (parts[0] + parts[1]) + (parts[2] + parts[3]);
        }
    standin_ended_ns (standin_began_ns () + p->cost_ns);
    free (p);
    return STANDIN_OVER;
}

/* Where a matrix of @rows x @columns is, columns first. */
static void *
matrix_at (const float *address, int rows, int columns, int leading, bool writes, const struct blas *blas)
{
    size_t floats = (size_t) (columns - 1) * (size_t) leading + (size_t) rows;
    return standin_range ("cublasSgemm_v2", address, floats * sizeof (float), writes, blas->stream);
}

API int
cublasSgemm_v2 (void *handle, int operation_a, int operation_b, int m, int n, int k, const float *alpha,
                const float *a, int lda, const float *b, int ldb, const float *beta, float *c, int ldc)
{
    const struct blas *blas = blas_of (handle, __func__);
    bool turned = operation_b == CUBLAS_TRANSPOSED;
    int status = standin_injected (__func__);
    if (status)
        return status;
    if (!blas->has_stream || !blas->has_workspace || !blas->is_pedantic || !blas->has_no_atomics)
        standin_report (NULL, NULL, "cublasSgemm_v2: the order of its sums is not fixed");
    if (operation_a != CUBLAS_PLAIN || *alpha != 1 || *beta != 0 || m < 1 || n < 1 || k < 1 || lda < m || ldc < m
        || ldb < (turned ? n : k))
        return INVALID;
    struct product *product = malloc (sizeof *product);
    if (!product)
        return NO_MEMORY;
    *product = (struct product){
        .a = matrix_at (a, m, k, lda, false, blas),
        .b = matrix_at (b, turned ? n : k, turned ? k : n, ldb, false, blas),
        .c = matrix_at (c, m, n, ldc, true, blas),
        .m = m, .n = n, .k = k, .lda = lda, .ldb = ldb, .ldc = ldc, .b_transposed = turned,
    };
    product->cost_ns = standin_kernel_ns (__func__, sizeof (float) * ((size_t) m * (size_t) k + (size_t) k * (size_t) n
                                                                     + (size_t) m * (size_t) n));
    standin_launch ();
    standin_poll (__func__, blas->stream, run, product, standin_host_ns (0));
    return 0;
}
