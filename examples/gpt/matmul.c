/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices; see matmul.h. */
#include "matmul.h"
#include "gpt.h"

#include <stdlib.h>
#ifdef _OPENMP
#include <omp.h>
#endif
#ifdef WITH_BLAS
#include <cblas.h>
#endif
#ifdef WITH_OPENBLAS
void openblas_set_num_threads (int count);
#endif
#ifdef WITH_DNNL
#include <dnnl.h>
#endif

static enum accel_dtype weight_dtype = ACCEL_FLOAT32, product_dtype = ACCEL_FLOAT32;

void *
allocate (size_t bytes)
{
    void *memory = malloc (bytes ? bytes : 1);
    if (!memory)
        die ("out of memory");
    return memory;
}

void *
scratch (int number, size_t bytes)
{
    static void *kept[SCRATCH_COUNT];
    static size_t sizes[SCRATCH_COUNT];
    if (sizes[number] < bytes) {
        free (kept[number]);
        kept[number] = allocate (bytes);
        sizes[number] = bytes;
    }
    return kept[number];
}

struct matrix
weights (const void *at, int columns)
{
    return (struct matrix){ at, columns, false, weight_dtype };
}

float
weight_at (const void *at, size_t index)
{
    union {
        uint32_t bits;
        float number;
    } value;
    if (weight_dtype == ACCEL_FLOAT32)
        return ((const float *) at)[index];
    value.bits = (uint32_t) ((const uint16_t *) at)[index] << 16;
    return value.number;
}

/* The same matrix, whose memory has this many elements, in the type of products. */
static struct matrix
convert (struct matrix m, size_t count, int number)
{
    enum { CHUNK = 4096 };
    if (m.dtype == product_dtype)
        return m;
    size_t from_bytes = accel_dtype_bytes (m.dtype), bytes = accel_dtype_bytes (product_dtype);
    char *to = scratch (number, count * bytes);
#pragma omp parallel for
    for (size_t i = 0; i < count; i += CHUNK) {
        struct accel_error err;
        accel_check (accel_convert ((const char *) m.at + i * from_bytes, m.dtype, to + i * bytes, product_dtype,
                                    count - i < CHUNK ? count - i : CHUNK, &err), &err);
    }
    return (struct matrix){ to, m.stride, m.transposed, product_dtype };
}

struct matrix
factor (const float *at, int rows, int columns)
{
    return convert (plain (at, columns), (size_t) rows * (size_t) columns, SCRATCH_FACTOR);
}

/* The same matrix without its first rows. */
static struct matrix
from_row (struct matrix m, int row)
{
    m.at = (const float *) m.at + (size_t) row * (m.transposed ? 1 : (size_t) m.stride);
    return m;
}

void
multiply (float *c, int stride, int rows, int columns, int depth, float scale, struct matrix a, struct matrix b,
          float beta)
{
#ifdef WITH_BLAS
    cblas_sgemm (CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans, b.transposed ? CblasTrans : CblasNoTrans,
                 rows, columns, depth, scale, a.at, a.stride, b.at, b.stride, beta, c, stride);
#else
    size_t a_row = a.transposed ? 1 : (size_t) a.stride, a_column = a.transposed ? (size_t) a.stride : 1;
    size_t b_row = b.transposed ? 1 : (size_t) b.stride, b_column = b.transposed ? (size_t) b.stride : 1;
    for (int i = 0; i < rows; i++) {
        float *to = c + (size_t) i * (size_t) stride;
        for (int j = 0; j < columns; j++)
            to[j] = beta == 0 ? 0 : beta * to[j];
        for (int k = 0; k < depth; k++) {
            float left = scale * ((const float *) a.at)[(size_t) i * a_row + (size_t) k * a_column];
            const float *right = (const float *) b.at + (size_t) k * b_row;
            for (int j = 0; j < columns; j++)
                to[j] += left * right[(size_t) j * b_column];
        }
    }
#endif
}

#ifdef WITH_DNNL
static void
expect (bool failed)
{
    if (failed)
        die ("oneDNN failed to multiply");
}

/* c = a b + beta c, by all threads.  oneDNN keeps the code that it generates for each shape. */
static void
multiply_bfloat16 (float *c, int rows, int columns, int depth, struct matrix a, struct matrix b, float beta)
{
    static dnnl_engine_t engine;
    static dnnl_stream_t stream;
    const struct matrix matrices[] = { a, b, plain (c, columns) };
    const dnnl_dims_t sizes[] = { { rows, depth }, { depth, columns }, { rows, columns } };
    dnnl_exec_arg_t arguments[] = { { DNNL_ARG_SRC, NULL }, { DNNL_ARG_WEIGHTS, NULL }, { DNNL_ARG_DST, NULL } };
    dnnl_memory_desc_t shapes[3];
    dnnl_post_ops_t sum;
    dnnl_primitive_attr_t attributes;
    dnnl_matmul_desc_t product;
    dnnl_primitive_desc_t implementation;
    dnnl_primitive_t primitive;
    expect (!engine && (dnnl_engine_create (&engine, dnnl_cpu, 0) || dnnl_stream_create (&stream, engine, 0)));
    for (int i = 0; i < 3; i++) {
        const struct matrix *m = &matrices[i];
        const dnnl_dims_t strides = { m->transposed ? 1 : m->stride, m->transposed ? m->stride : 1 };
        dnnl_data_type_t type = m->dtype == ACCEL_BFLOAT16 ? dnnl_bf16 : dnnl_f32;
        expect (dnnl_memory_desc_init_by_strides (&shapes[i], 2, sizes[i], type, strides)
                || dnnl_memory_create (&arguments[i].memory, &shapes[i], engine, (void *) m->at));
    }
    expect (dnnl_post_ops_create (&sum) || (beta != 0 && dnnl_post_ops_append_sum (sum, beta))
            || dnnl_primitive_attr_create (&attributes) || dnnl_primitive_attr_set_post_ops (attributes, sum)
            || dnnl_matmul_desc_init (&product, &shapes[0], &shapes[1], NULL, &shapes[2])
            || dnnl_primitive_desc_create (&implementation, &product, attributes, engine, NULL)
            || dnnl_primitive_create (&primitive, implementation)
            || dnnl_primitive_execute (primitive, stream, 3, arguments) || dnnl_stream_wait (stream));
    for (int i = 0; i < 3; i++)
        dnnl_memory_destroy (arguments[i].memory);
    dnnl_primitive_destroy (primitive);
    dnnl_primitive_desc_destroy (implementation);
    dnnl_primitive_attr_destroy (attributes);
    dnnl_post_ops_destroy (sum);
}

static bool
has_bfloat16 (void)
{
    return (dnnl_get_effective_cpu_isa () & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16;
}
#else
#define has_bfloat16() false
#define multiply_bfloat16(...) (void) 0
#endif

const char *
matmul_set_dtype (enum accel_dtype dtype)
{
#ifdef WITH_OPENBLAS
    openblas_set_num_threads (1); /* our threads divide a product; those of BLAS would compete with them */
#endif
    if (dtype != ACCEL_FLOAT32 && dtype != ACCEL_BFLOAT16)
        die ("mixed_precision: expected no or bf16");
    weight_dtype = dtype;
    product_dtype = has_bfloat16 () ? dtype : ACCEL_FLOAT32;
    return accel_dtype_name (product_dtype);
}

void
matmul (float *c, int rows, int columns, int depth, struct matrix a, struct matrix b, float beta)
{
    a = convert (a, (size_t) rows * (size_t) depth, SCRATCH_A);
    b = convert (b, (size_t) depth * (size_t) columns, SCRATCH_B);
    if (product_dtype == ACCEL_BFLOAT16) {
        multiply_bfloat16 (c, rows, columns, depth, a, b, beta);
        return;
    }
#pragma omp parallel
    {
#ifdef _OPENMP
        int threads = omp_get_num_threads (), own = omp_get_thread_num ();
#else
        int threads = 1, own = 0;
#endif
        int64_t whole = rows < columns ? columns : rows;
        int begin = (int) (whole * own / threads), count = (int) (whole * (own + 1) / threads) - begin;
        if (count && rows < columns)
            multiply (c + begin, columns, rows, count, depth, 1, a, transposed (from_row (transposed (b), begin)),
                      beta);
        else if (count)
            multiply (c + (size_t) begin * (size_t) columns, columns, count, columns, depth, 1, from_row (a, begin), b,
                      beta);
    }
}
