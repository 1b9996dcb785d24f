/* SPDX-License-Identifier: Apache-2.0 */
/* Floats of 16 and 8 bits.  All are rounded to the nearest, ties to even; NaN stays NaN. */
#ifndef LIB_KERNELS_HALF_H
#define LIB_KERNELS_HALF_H

#include <accel/tensor.h>

/** As many floats as a buffer on the stack holds where they are converted piece by piece: 4 KiB, in any cache. */
enum { FLOATS_BLOCK = 1024 };

/** By type, which is float32 or one of 16 or 8 bits; saturate as below.  @{ */
void floats_widen (float *target, const void *source, enum accel_dtype dtype, size_t count);
void floats_narrow (void *target, enum accel_dtype dtype, const float *source, size_t count, bool saturate);
/** @} */

/** IEEE binary16: 5 bits of exponent, 10 of mantissa; what is too large becomes infinite.  @{ */
void half_from_floats (uint16_t *target, const float *source, size_t count);
void half_to_floats (float *target, const uint16_t *source, size_t count);
/** @} */

/** bfloat16: the upper half of a float32.  @{ */
void bfloat16_from_floats (uint16_t *target, const float *source, size_t count);
void bfloat16_to_floats (float *target, const uint16_t *source, size_t count);
/** @} */

/**
 * The 8-bit floats of the Open Compute Project (OFP8, revision 1.0).  E4M3 has no infinity, 448 is its largest, 0x7f
 * NaN; E5M2 has, 57344 is its largest.
 *
 * @param saturate  what is too large, infinity too, becomes the largest number.  Else it becomes NaN (E4M3) or infinite
 *                  (E5M2).  torch 2.15's float8_e4m3fn saturates, its float8_e5m2 does not.
 * @{
 */
void e4m3_from_floats (uint8_t *target, const float *source, size_t count, bool saturate);
void e4m3_to_floats (float *target, const uint8_t *source, size_t count);
void e5m2_from_floats (uint8_t *target, const float *source, size_t count, bool saturate);
void e5m2_to_floats (float *target, const uint8_t *source, size_t count);
/** @} */

#endif
