/* SPDX-License-Identifier: Apache-2.0 */
/* Products by cuBLAS; see cublas.h.  Its functions are declared here, because its headers may be missing if CUDA is
 * installed; tests/standin/cublas_types.c compares them with NVIDIA's. */
#include <config.h>

#include "cuda/cublas.h"

#include "cuda/cublas_calls.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

/* Of all GPUs. */
static struct cublas_calls calls;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char refusal[256]; /* guarded by the lock */

static void *
load_library (void)
{
#ifdef CUDART_VERSION
    static const int releases[] = { CUDART_VERSION / 1000, 13, 12 };
#else
    static const int releases[] = { 13, 12 };
#endif
    void *library = NULL;
    for (size_t i = 0; !library && i < sizeof releases / sizeof *releases; i++) {
        char name[32];
        snprintf (name, sizeof name, "libcublas.so.%d", releases[i]);
        library = dlopen (name, RTLD_NOW | RTLD_LOCAL);
        if (!library && !i)
            snprintf (refusal, sizeof refusal, "%s", dlerror ());
    }
    return library;
}

/* Stays loaded. */
static bool
load (void)
{
    static const struct {
        const char *name;
        size_t at;
    } functions[] = {
#define FUNCTION(name, member) { #name, offsetof (struct cublas_calls, member) }
        FUNCTION (cublasCreate_v2, create),
        FUNCTION (cublasSetStream_v2, set_stream),
        FUNCTION (cublasSetWorkspace_v2, set_workspace),
        FUNCTION (cublasSetMathMode, set_math_mode),
        FUNCTION (cublasSetAtomicsMode, set_atomics_mode),
        FUNCTION (cublasSgemm_v2, sgemm),
        FUNCTION (cublasGetStatusName, status_name),
#undef FUNCTION
    };
    if (calls.status_name)
        return true;
    void *library = load_library ();
    for (size_t i = 0; library && i < sizeof functions / sizeof *functions; i++) {
        void *symbol = dlsym (library, functions[i].name);
        *(void **) (void *) ((char *) &calls + functions[i].at) = symbol;
        if (!symbol) {
            snprintf (refusal, sizeof refusal, "%s", dlerror ());
            dlclose (library);
            calls = (struct cublas_calls){ .create = NULL };
            return false;
        }
    }
    return library != NULL;
}

/* In a function whose variable `status` is 0 so far, and `name` NULL. */
#define TRY(member, function, ...)                 \
    do {                                           \
        if (!status) {                             \
            name = #function;                      \
            status = calls.member (__VA_ARGS__);   \
        }                                          \
    } while (0)

static const char *
explain (struct cublas *cublas, const char *name, int status)
{
    snprintf (cublas->words, sizeof cublas->words, "%s: %s", name, calls.status_name (status));
    return cublas->words;
}

const char *
cublas_open (struct cublas *cublas)
{
    const char *name = NULL;
    int status = 0;
    void *handle = NULL;
    if (cublas->handle)
        return NULL;
    pthread_mutex_lock (&lock);
    bool is_loaded = load ();
    pthread_mutex_unlock (&lock);
    if (!is_loaded)
        return refusal;
    if (!cublas->workspace && cudaMalloc (&cublas->workspace, CUBLAS_WORKSPACE)) {
        cudaGetLastError ();
        cublas->workspace = NULL;
        return "too little memory on the GPU for its workspace";
    }
    TRY (create, cublasCreate_v2, &handle);
    TRY (set_math_mode, cublasSetMathMode, handle, CUBLAS_PEDANTIC);
    TRY (set_atomics_mode, cublasSetAtomicsMode, handle, CUBLAS_NO_ATOMICS);
    cudaGetLastError (); /* of what failed */
    if (status)
        return explain (cublas, name, status);
    cublas->handle = handle;
    return NULL;
}

/* To cuBLAS, which counts columns first, each of these arrays is the transposed matrix. */
const char *
cublas_multiply (struct cublas *cublas, bool transposed, float *result, const float *values, const float *right,
                 size_t n, size_t m, size_t rank, cudaStream_t stream)
{
    const float one = 1, none = 0;
    const char *name = NULL;
    int status = 0, columns = (int) rank, rows = (int) (transposed ? m : n), inner = (int) (transposed ? n : m);
    if (!cublas->has_stream || cublas->stream != stream) {
        TRY (set_stream, cublasSetStream_v2, cublas->handle, stream);
        /* Another stream has another workspace, unless it is set again. */
        TRY (set_workspace, cublasSetWorkspace_v2, cublas->handle, cublas->workspace, CUBLAS_WORKSPACE);
        cublas->stream = stream;
        cublas->has_stream = !status;
    }
    TRY (sgemm, cublasSgemm_v2, cublas->handle, CUBLAS_PLAIN, transposed ? CUBLAS_TRANSPOSED : CUBLAS_PLAIN, columns,
         rows, inner, &one, right, columns, values, (int) m, &none, result, columns);
    return status ? explain (cublas, name, status) : NULL;
}
