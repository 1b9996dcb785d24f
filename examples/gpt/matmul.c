/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices; see matmul.h. */
#include "matmul.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#else
#define omp_get_num_threads() 1
#define omp_get_thread_num() 0
#endif
#ifdef WITH_BLAS
#include <cblas.h>
#endif
#ifdef WITH_OPENBLAS
char *openblas_get_corename (void);
void openblas_set_num_threads (int count);
#endif
#ifdef WITH_DNNL
#include <dnnl.h>
/* Beside dnnl_sgemm() in the library, with the same arguments, but not in the header. */
dnnl_status_t dnnl_gemm_bf16bf16f32 (char transa, char transb, dnnl_dim_t m, dnnl_dim_t n, dnnl_dim_t k, float alpha,
                                     const void *a, dnnl_dim_t lda, const void *b, dnnl_dim_t ldb, float beta,
                                     float *c, dnnl_dim_t ldc);
#endif

static enum accel_dtype weight_dtype = ACCEL_FLOAT32, product_dtype = ACCEL_FLOAT32;
#ifdef WITH_DNNL
static bool is_float32_dnnl; /* oneDNN multiplies float32 too */

static bool
has_instructions (dnnl_cpu_isa_t isa)
{
    return (dnnl_get_effective_cpu_isa () & isa) == isa;
}

/* Intel's instructions for vectors of bfloat16 take four times as long as those for float32, for twice as many numbers;
 * only its tiles, AMX, are faster. */
static bool
is_bfloat16_fast (void)
{
#if defined __x86_64__
    if (__builtin_cpu_is ("intel"))
        return has_instructions (dnnl_cpu_isa_avx512_core_amx);
#endif
    return has_instructions (dnnl_cpu_isa_avx512_core_bf16);
}
#endif

const char *
matmul_set_dtype (enum accel_dtype dtype)
{
    static char name[80];
    const char *library = NULL, *kernel = "";
#ifdef WITH_BLAS
    library = "BLAS";
#endif
#ifdef WITH_OPENBLAS
    openblas_set_num_threads (1); /* our threads divide a product; those of BLAS would compete with them */
    library = "OpenBLAS, kernel ";
    kernel = openblas_get_corename ();
#endif
    if (dtype != ACCEL_FLOAT32 && dtype != ACCEL_BFLOAT16)
        errx (EXIT_FAILURE, "mixed_precision: expected no or bf16");
    weight_dtype = dtype;
#ifdef WITH_DNNL
    /* OpenBLAS has one of these for a processor that is newer than itself.  They lack AVX, and are up to ten times as
     * slow as oneDNN. */
    bool is_old = !strcmp (kernel, "Prescott") || !strcmp (kernel, "Nehalem") || !strcmp (kernel, "Barcelona");
    product_dtype = is_bfloat16_fast () ? dtype : ACCEL_FLOAT32;
    is_float32_dnnl = !library || (is_old && has_instructions (dnnl_cpu_isa_avx2));
    if (is_float32_dnnl || product_dtype == ACCEL_BFLOAT16)
        library = "oneDNN", kernel = "";
#endif
    snprintf (name, sizeof name, "%s products by %s%s", accel_dtype_name (product_dtype),
              library ? library : "a loop", kernel);
    return name;
}

struct matrix
weights (const void *at, long rows, long columns)
{
    return (struct matrix){ at, rows, columns, columns, false, weight_dtype };
}

/* The same matrix in the type of products.  Memory is kept for the next call: fresh pages would take as long as a
 * product. */
enum { LEFT, RIGHT, FACTOR, COPIES };
static struct matrix
convert (struct matrix m, int copy)
{
    enum { CHUNK = 4096 };
    static char *kept[COPIES];
    static size_t sizes[COPIES];
    size_t from_bytes = accel_dtype_bytes (m.dtype), bytes = accel_dtype_bytes (product_dtype);
    size_t count = (size_t) (m.rows * m.columns);
    if (m.dtype == product_dtype)
        return m;
#pragma omp single
    if (sizes[copy] < count * bytes) {
        free (kept[copy]);
        sizes[copy] = count * bytes;
        if (!(kept[copy] = malloc (sizes[copy])))
            errx (EXIT_FAILURE, "out of memory");
    }
#pragma omp for
    for (size_t i = 0; i < count; i += CHUNK)
        accel_check (accel_convert ((const char *) m.at + i * from_bytes, m.dtype, kept[copy] + i * bytes,
                                    product_dtype, count - i < CHUNK ? count - i : CHUNK, NULL), NULL);
    m.at = kept[copy];
    m.dtype = product_dtype;
    return m;
}

struct matrix
factor (const float *at, long rows, long columns)
{
    return convert (matrix (at, rows, columns, columns), FACTOR);
}

/* This many rows and columns of a matrix, from these on. */
static struct matrix
part (struct matrix m, long row, long rows, long column, long columns)
{
    long index = m.transposed ? column * m.stride + row : row * m.stride + column;
    m.at = (const char *) m.at + index * (long) accel_dtype_bytes (m.dtype);
    m.rows = rows;
    m.columns = columns;
    return m;
}

void
multiply (float *c, long stride, float scale, struct matrix a, struct matrix b, float beta)
{
#ifdef WITH_DNNL
    char a_form = a.transposed ? 'T' : 'N', b_form = b.transposed ? 'T' : 'N';
    if (a.dtype == ACCEL_BFLOAT16 || is_float32_dnnl) {
        dnnl_status_t status = a.dtype == ACCEL_BFLOAT16
                                   ? dnnl_gemm_bf16bf16f32 (a_form, b_form, a.rows, b.columns, a.columns, scale, a.at,
                                                            a.stride, b.at, b.stride, beta, c, stride)
                                   : dnnl_sgemm (a_form, b_form, a.rows, b.columns, a.columns, scale, a.at, a.stride,
                                                 b.at, b.stride, beta, c, stride);
        if (status)
            errx (EXIT_FAILURE, "oneDNN failed to multiply");
        return;
    }
#endif
#ifdef WITH_BLAS
    cblas_sgemm (CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans, b.transposed ? CblasTrans : CblasNoTrans,
                 (int) a.rows, (int) b.columns, (int) a.columns, scale, a.at, (int) a.stride, b.at, (int) b.stride,
                 beta, c, (int) stride);
#else
    for (long i = 0; i < a.rows; i++, c += stride) {
        for (long j = 0; j < b.columns; j++)
            c[j] = beta == 0 ? 0 : beta * c[j];
        for (long k = 0; k < a.columns; k++) {
            float left = scale * *(const float *) part (a, i, 1, k, 1).at;
            const float *right = part (b, k, 1, 0, 1).at;
            for (long j = 0; j < b.columns; j++)
                c[j] += left * right[j * (b.transposed ? b.stride : 1)];
        }
    }
#endif
}

void
matmul (float *c, struct matrix a, struct matrix b, float beta)
{
    a = convert (a, LEFT);
    b = convert (b, RIGHT);
    bool by_rows = a.rows >= b.columns;
    long threads = omp_get_num_threads (), own = omp_get_thread_num (), whole = by_rows ? a.rows : b.columns;
    long begin = whole * own / threads, count = whole * (own + 1) / threads - begin;
    if (count && by_rows)
        multiply (c + begin * b.columns, b.columns, 1, part (a, begin, count, 0, a.columns), b, beta);
    else if (count)
        multiply (c + begin, b.columns, 1, a, part (b, 0, b.rows, begin, count), beta);
#pragma omp barrier
}
