/* SPDX-License-Identifier: Apache-2.0 */
/* Products of row-major matrices: in float32 by BLAS or oneDNN, in bfloat16 by oneDNN. */
#ifndef GPT_MATMUL_H
#define GPT_MATMUL_H

#include <accel/accel.h>

/** A factor of a product. */
struct matrix {
    const void *at;
    long rows, columns, stride; /* stride: from one row in memory to the next, in elements */
    bool transposed;            /* memory has the transpose */
    enum accel_dtype dtype;     /* float32 or bfloat16 */
};

static inline struct matrix
matrix (const float *at, long rows, long columns, long stride)
{
    return (struct matrix){ at, rows, columns, stride, false, ACCEL_FLOAT32 };
}

static inline struct matrix
transposed (struct matrix m)
{
    return (struct matrix){ m.at, m.columns, m.rows, m.stride, !m.transposed, m.dtype };
}

/** Set the type of weights: float32 or bfloat16.  If oneDNN multiplies bfloat16 faster than float32 on this processor,
 * all factors are rounded to bfloat16, and sums are float32; else products are float32, by BLAS, or by oneDNN if there
 * is no BLAS, or one that does not know the processor.  @return the type of products and who computes them, as words */
const char *matmul_set_dtype (enum accel_dtype dtype);

/** @return the weights at @p at, without gaps */
struct matrix weights (const void *at, long rows, long columns);

/** All threads of a team call these two together, and share the work; their matrices have no gaps between rows.  @{ */

/** @return the matrix as products need it, for one that is a factor of several; valid until the next call */
struct matrix factor (const float *at, long rows, long columns);

/** c = a b + beta c */
void matmul (float *c, struct matrix a, struct matrix b, float beta);

/** @} */

/** c = scale a b + beta c, by the calling thread.  @param stride  of @p c  @param scale  1 for bfloat16 */
void multiply (float *c, long stride, float scale, struct matrix a, struct matrix b, float beta);

#endif
