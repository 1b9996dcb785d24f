/* SPDX-License-Identifier: Apache-2.0 */
/* What a step of training does to whole arrays of floats: float32, and where noted also 16-bit floats, which are
 * computed in float32 block by block and rounded once. */
#ifndef LIB_KERNELS_FLOATS_H
#define LIB_KERNELS_FLOATS_H

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

/** Multiply float32 values by @p factor. */
void floats_multiply (float *values, size_t count, float factor);

/** Add source[count] to target[count]. */
void floats_add (float *target, const float *source, size_t count);

/** Move values of float32 or 16 bits into [-limit, limit]; NaN stays. */
void floats_clamp (void *values, enum accel_dtype dtype, size_t count, float limit);

/** Multiply float32 values by @p factor; look at 16-bit floats only.
 *  @return whether a value is infinite or NaN; of float32, before the multiplication */
bool floats_unscale (void *values, enum accel_dtype dtype, size_t count, float factor);

/** @return the index of the first value of float32 or 16 bits that is infinite or NaN, which goes to @p value;
 *  SIZE_MAX: all are finite */
size_t floats_find_nonfinite (const void *values, enum accel_dtype dtype, size_t count, float *value);

/** @return "NaN", "infinite" or "-infinite", of a value that is. */
static inline const char *
nonfinite_name (float value)
{
    return value != value ? "NaN" : value > 0 ? "infinite" : "-infinite";
}

/** Change the type of an array of floats of 32, 16 or 8 bits; with a divisor other than 1, divide in the new type.
 *  @p to may be @p from. */
void floats_convert (void *to, enum accel_dtype to_dtype, const void *from, enum accel_dtype from_dtype, size_t count,
                     float divisor);

/** Write an 8-bit array.  @return the power of two that its elements are to be multiplied by */
float floats_narrow_scaled (void *target, enum accel_dtype dtype, const float *source, size_t count);

/** @return the p-norm of values of float32 or 16 bits; see norms.c.  @param factor  of 16-bit values before all else */
float floats_norm (const void *values, enum accel_dtype dtype, size_t count, float factor, double p);

#endif
