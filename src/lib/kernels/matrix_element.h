/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which products of columns are added up, for processors and GPUs: rows in stretches, one after the other
 * within a stretch, and then the sums of stretches.  On a GPU, blocks have a stretch each. */
#ifndef LIB_KERNELS_MATRIX_ELEMENT_H
#define LIB_KERNELS_MATRIX_ELEMENT_H

#include "lib/kernels/bits.h"

#include <stddef.h>

enum { MATRIX_STRETCHES = 128, MATRIX_STRETCH = 256 };

/* @return rows of each stretch but the last; at most MATRIX_STRETCHES of them are all @p rows */
ELEMENT size_t
matrix_stretch (size_t rows)
{
    size_t each = rows / MATRIX_STRETCHES + (rows % MATRIX_STRETCHES != 0);
    return each < MATRIX_STRETCH ? (size_t) MATRIX_STRETCH : each;
}

#endif
