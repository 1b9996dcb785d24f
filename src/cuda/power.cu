/* SPDX-License-Identifier: Apache-2.0 */
/* Norms with pow(), which is NVIDIA's on a card: results may differ from the processor's in the last bit. */
#include "cuda/norms.h"

void
norm_of_power (const void *values, enum accel_dtype dtype, size_t count, float factor, double p, float *result,
               double *blocks, void *stream)
{
    norm_launch<NORM_POWER> (values, dtype, count, factor, p, result, blocks, stream);
}
