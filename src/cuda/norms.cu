/* SPDX-License-Identifier: Apache-2.0 */
/* Norms without pow(): the numbers of elements that are not 0, sums of magnitudes and squares, and the largest. */
#include "cuda/norms.h"

extern "C" void
cuda_norm (const void *values, enum accel_dtype dtype, size_t count, float factor, double p, float *result,
           void *scratch, void *stream)
{
    static_assert (CUDA_MOST_BLOCKS * sizeof (double) <= CUDA_SCRATCH, "scratch memory has a sum for each block");
    double *blocks = (double *) scratch;
    if (isinf (p))
        norm_launch<NORM_LARGEST> (values, dtype, count, factor, p, result, blocks, stream);
    else if (p == 2)
        norm_launch<NORM_TWO> (values, dtype, count, factor, p, result, blocks, stream);
    else if (p == 1)
        norm_launch<NORM_ONE> (values, dtype, count, factor, p, result, blocks, stream);
    else if (p == 0)
        norm_launch<NORM_ZERO> (values, dtype, count, factor, p, result, blocks, stream);
    else
        norm_of_power (values, dtype, count, factor, p, result, blocks, stream);
}
