/* SPDX-License-Identifier: Apache-2.0 */
/* Floats of 16 and 8 bits.  All are rounded to the nearest, ties to even; NaN stays NaN. */
#ifndef LIB_KERNELS_HALF_H
#define LIB_KERNELS_HALF_H

#include <accel/tensor.h>

/** As many floats as a buffer on the stack holds if they are converted piece by piece: 4 KiB, in any cache. */
enum { FLOATS_BLOCK = 1024 };

/**
 * Convert numbers of type @p dtype to float32 and back.
 *
 * @param dtype  float32, or a 16-bit or 8-bit float.  8-bit floats are the Open Compute Project's (OFP8, revision
 *               1.0): E4M3 has no infinity, its largest number is 448, and 0x7f is NaN; E5M2 has an infinity, and
 *               its largest number is 57344.  Numbers that are too large become infinite, or, like torch's, E4M3's
 *               largest
 * @{
 */
void floats_widen (float *target, const void *source, enum accel_dtype dtype, size_t count);
void floats_narrow (void *target, enum accel_dtype dtype, const float *source, size_t count);
/** @} */

#endif
