/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices: in float32 by BLAS, in bfloat16 by oneDNN.  Matrices are row-major. */
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
    m.transposed = !m.transposed;
    return m;
}

/** @return the same matrix without its first rows; float32 */
struct matrix from_row (struct matrix m, int row);

/**
 * Set the type of weights: float32, or bfloat16.  If there is oneDNN, and the processor has instructions for it, factors
 * of bfloat16 weights are rounded to bfloat16, too, and sums are float32; else products are float32.
 *
 * @return the type of products, as a word
 */
const char *matmul_set_dtype (enum accel_dtype dtype);

/** @return the weights at @p at, [any, columns] */
struct matrix weights (const void *at, int columns);

/** @return element @p index of the weights at @p at */
float weight_at (const void *at, size_t index);

/** @return the matrix at @p at, [rows, columns], as products need it.  Valid until the next call */
struct matrix factor (const float *at, int rows, int columns);

/** c [rows, columns] = a [rows, depth] b [depth, columns] + beta c, by all threads; without gaps between rows. */
void matmul (float *c, int rows, int columns, int depth, struct matrix a, struct matrix b, float beta);

/** c = scale a b + beta c, in float32, by the calling thread.  @param stride  of @p c */
void multiply (float *c, int stride, int rows, int columns, int depth, float scale, struct matrix a, struct matrix b,
               float beta);

/** @return memory, or the process ends with a sentence */
void *allocate (size_t bytes);

/** @return memory that the next call with the same number may move: fresh pages would take as long as a product */
enum { SCRATCH_A, SCRATCH_B, SCRATCH_FACTOR, SCRATCH_LOGITS, SCRATCH_ROWS, SCRATCH_COUNT };
void *scratch (int number, size_t bytes);

#endif
