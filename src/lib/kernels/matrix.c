/* SPDX-License-Identifier: Apache-2.0 */
/* PowerSGD's products, and transposes; see matrix.h. */
#include <config.h>

#include "lib/kernels/matrix.h"

#include "lib/kernels/arithmetic.h"
#include "lib/kernels/matrix_element.h"

#include <math.h>
#include <string.h>

/* Column j's product with column k, or length. */
static double
product (const float *columns, size_t rows, size_t rank, size_t j, size_t k)
{
    double sum = 0;
    size_t stretch = matrix_stretch (rows);
    for (size_t i = 0; i < rows;) {
        double part = 0;
        for (size_t end = rows - i < stretch ? rows : i + stretch; i < end; i++)
            part += (double) columns[i * rank + j] * (double) columns[i * rank + k];
        sum += part;
    }
    return sum;
}

/* @return whether the column is neither 0 nor full of NaN and infinity */
static bool
orthogonalise (float *columns, size_t rows, size_t rank, size_t j)
{
    double before = sqrt (product (columns, rows, rank, j, j));
    if (!isfinite (before))
        return false;
    for (int round = 0; round < 2; round++) /* the second takes away what rounding left */
        for (size_t k = 0; k < j; k++) {
            double part = product (columns, rows, rank, j, k);
            for (size_t i = 0; i < rows; i++)
                columns[i * rank + j] -= (float) (part * (double) columns[i * rank + k]);
        }
    double after = sqrt (product (columns, rows, rank, j, j));
    bool good = !(after <= before * 1e-6);
    for (size_t i = 0; i < rows; i++)
        columns[i * rank + j] = good ? (float) ((double) columns[i * rank + j] / after) : 0;
    return good && !isnan (after);
}

void
matrix_orthogonalise (float *columns, size_t rows, size_t rank, size_t j, const uint64_t *seed)
{
    if (orthogonalise (columns, rows, rank, j) || !seed)
        return;
    for (size_t i = 0; i < rows; i++)
        columns[i * rank + j] = matrix_drawn (*seed, i * rank + j);
    orthogonalise (columns, rows, rank, j);
}

UNFUSED void
matrix_multiply (float *p, const float *values, const float *q, size_t n, size_t m, size_t rank)
{
    for (size_t i = 0; i < n; i++, values += m)
        for (size_t k = 0; k < rank; k++) {
            float sum = 0;
            for (size_t j = 0; j < m; j++)
                sum += values[j] * q[j * rank + k];
            p[i * rank + k] = sum;
        }
}

UNFUSED void
matrix_multiply_transposed (float *q, const float *values, const float *p, size_t n, size_t m, size_t rank)
{
    memset (q, 0, m * rank * sizeof *q);
    for (size_t i = 0; i < n; i++, values += m)
        for (size_t j = 0; j < m; j++)
            for (size_t k = 0; k < rank; k++)
                q[j * rank + k] += values[j] * p[i * rank + k];
}

UNFUSED void
matrix_expand (float *values, float *error, const float *p, const float *q, size_t n, size_t m, size_t rank)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < m; j++) {
            size_t at = i * m + j;
            float sum = 0, before = values[at];
            for (size_t k = 0; k < rank; k++)
                sum += p[i * rank + k] * q[j * rank + k];
            values[at] = sum;
            if (error)
                error[at] = isfinite (before - sum) ? before - sum : 0;
        }
}

/* In squares: what is read of one, and what is written, fits into the nearest cache. */
void
matrix_transpose (void *to, const void *from, size_t rows, size_t columns, size_t element_bytes)
{
    enum { SIDE = 32 };
    for (size_t top = 0; top < rows; top += SIDE)
        for (size_t left = 0; left < columns; left += SIDE)
            for (size_t i = top; i < rows && i < top + SIDE; i++)
                for (size_t j = left; j < columns && j < left + SIDE; j++)
                    memcpy ((char *) to + (j * rows + i) * element_bytes,
                            (const char *) from + (i * columns + j) * element_bytes, element_bytes);
}
