/* SPDX-License-Identifier: Apache-2.0 */
/* Products of row-major matrices: in float32 by BLAS, in bfloat16 by oneDNN. */
#ifndef GPT_MATMUL_H
#define GPT_MATMUL_H

#include <accel/accel.h>

/** A factor of a product. */
struct matrix {
    const void *at;
    int stride;             /* from one row to the next, in elements */
    bool transposed;        /* the transpose of what is in memory */
    enum accel_dtype dtype; /* float32 or bfloat16 */
};

static inline struct matrix
plain (const float *at, int stride)
{
    return (struct matrix){ at, stride, false, ACCEL_FLOAT32 };
}

static inline struct matrix
transposed (struct matrix m)
{
    return (struct matrix){ m.at, m.stride, !m.transposed, m.dtype };
}

/** Set the type of weights: float32 or bfloat16.  If oneDNN and the processor have bfloat16 products, all factors are
 * rounded to bfloat16, and sums are float32; else products are float32.  @return the type of products, as a word */
const char *matmul_set_dtype (enum accel_dtype dtype);

/** @return the weights at @p at, [any, columns] */
struct matrix weights (const void *at, int columns);

/** @return element @p index of the weights at @p at */
float weight_at (const void *at, size_t index);

/** @return the matrix at @p at, [rows, columns], as products need it; valid until the next call */
struct matrix factor (const float *at, int rows, int columns);

/** c [rows, columns] = a [rows, depth] b [depth, columns] + beta c, by all threads; without gaps between rows. */
void matmul (float *c, int rows, int columns, int depth, struct matrix a, struct matrix b, float beta);

/** c = scale a b + beta c, in float32, by the calling thread.  @param stride  of @p c */
void multiply (float *c, int stride, int rows, int columns, int depth, float scale, struct matrix a, struct matrix b,
               float beta);

/** @return memory, which scratch() keeps for the next call: fresh pages would take as long as a product. */
void *allocate (size_t bytes);
enum { SCRATCH_A, SCRATCH_B, SCRATCH_FACTOR, SCRATCH_LOGITS, SCRATCH_ROWS, SCRATCH_COUNT };
void *scratch (int number, size_t bytes);

#endif
