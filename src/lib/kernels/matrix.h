/* SPDX-License-Identifier: Apache-2.0 */
/* Small products of matrices in float32, row by row: what PowerSGD computes; and transposes. */
#ifndef LIB_KERNELS_MATRIX_H
#define LIB_KERNELS_MATRIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** P [n, rank] = M [n, m] Q [m, rank]. */
void matrix_multiply (float *p, const float *values, const float *q, size_t n, size_t m, size_t rank);

/** Q [m, rank] = M^T P. */
void matrix_multiply_transposed (float *q, const float *values, const float *p, size_t n, size_t m, size_t rank);

/** M = P Q^T.  @param error  [n, m] gets what M was less what it becomes, 0 if that is not finite; NULL: not kept */
void matrix_expand (float *values, float *error, const float *p, const float *q, size_t n, size_t m, size_t rank);

/** Make column @p j of [rows, rank] orthogonal to those before it, and of length 1.  What is left of one that lies in
 *  their space is only rounding errors: it becomes 0.  One that is not finite stays, for all to see.
 *  @param seed  of random numbers for a column that would be 0 or not finite: they take its place, and the same is done
 *               with them; NULL: nothing does */
void matrix_orthogonalise (float *columns, size_t rows, size_t rank, size_t j, const uint64_t *seed);

/** The transpose of [rows, columns].  @param to  [columns, rows], other memory; elements of any size */
void matrix_transpose (void *to, const void *from, size_t rows, size_t columns, size_t element_bytes);

#endif
