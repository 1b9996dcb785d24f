/* SPDX-License-Identifier: Apache-2.0 */
/* What orthogonalisation does alike on processors and GPUs: the order in which products of columns are added up, and
 * the numbers of a column that is drawn anew. */
#ifndef LIB_KERNELS_MATRIX_ELEMENT_H
#define LIB_KERNELS_MATRIX_ELEMENT_H

#include "lib/kernels/bits.h"

#include <stddef.h>

enum { MATRIX_STRETCHES = 128, MATRIX_STRETCH = 256 };

/* Rows are added up in stretches, one after the other within a stretch, and then the sums of stretches.  On a GPU,
 * blocks have a stretch each.
 * @return rows of each stretch but the last; at most MATRIX_STRETCHES of them are all @p rows */
ELEMENT size_t
matrix_stretch (size_t rows)
{
    size_t each = rows / MATRIX_STRETCHES + (rows % MATRIX_STRETCHES != 0);
    return each < MATRIX_STRETCH ? (size_t) MATRIX_STRETCH : each;
}

/* @return 64 bits, each of which depends on all of @number: the finalizer of splitmix64 */
ELEMENT uint64_t
matrix_mix (uint64_t number)
{
    number = (number ^ number >> 30) * UINT64_C (0xbf58476d1ce4e5b9);
    number = (number ^ number >> 27) * UINT64_C (0x94d049bb133111eb);
    return number ^ number >> 31;
}

/* @return a number in [-0.5, 0.5), of the seed and element @p at alone: threads draw theirs in any order */
ELEMENT float
matrix_drawn (uint64_t seed, size_t at)
{
    uint64_t bits = matrix_mix (seed + ((uint64_t) at + 1) * UINT64_C (0x9e3779b97f4a7c15));
    return (float) (int32_t) (bits >> 40) * 0x1p-24F - 0.5F;
}

#endif
