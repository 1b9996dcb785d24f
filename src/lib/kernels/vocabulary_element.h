/* SPDX-License-Identifier: Apache-2.0 */
/* The exponential and the logarithm of losses, of additions and multiplications only: so processors and GPUs compute
 * the same bits, which those of C libraries do not have.  After S. Moshier's Cephes, 1984 to 1992. */
#ifndef LIB_KERNELS_VOCABULARY_ELEMENT_H
#define LIB_KERNELS_VOCABULARY_ELEMENT_H

#include "lib/kernels/bits.h"

#include <math.h>

/* exp (x) of x <= 0, to 2 units in the last place; below -87, where it is next to the subnormal numbers, 0.  Of NaN and
 * positive numbers beyond 88, NaN or some number. */
ELEMENT float
vocabulary_exp (float x)
{
    if (x < -87.0F)
        return 0;
    float shifted = x * 1.44269504F + 12582912.0F; /* rounds, and leaves the integer in the low bits */
    float whole = shifted - 12582912.0F, rest = x - whole * 0.693359375F + whole * 2.12194440e-4F;
    float value = ((1.9875691500e-4F * rest + 1.3981999507e-3F) * rest + 8.3334519073e-3F) * rest + 4.1665795894e-2F;
    value = ((value * rest + 1.6666665459e-1F) * rest + 5.0000001201e-1F) * rest * rest + rest + 1.0F;
    return value * float_of ((bits_of (shifted) - 0x4b400000U + 127U) << 23);
}

/* log (x) of a normal x > 0, to 2 units in the last place; infinity and NaN stay. */
ELEMENT float
vocabulary_log (float x)
{
    int32_t exponent = (int32_t) (bits_of (x) - 0x3f3504f3U) >> 23; /* of x less the root of 1 / 2 */
    float rest = float_of (bits_of (x) - ((uint32_t) exponent << 23)) - 1.0F, whole = (float) exponent;
    float value = ((7.0376836292e-2F * rest - 1.1514610310e-1F) * rest + 1.1676998740e-1F) * rest - 1.2420140846e-1F;
    value = ((value * rest + 1.4249322787e-1F) * rest - 1.6668057665e-1F) * rest + 2.0000714765e-1F;
    value = ((value * rest - 2.4999993993e-1F) * rest + 3.3333331174e-1F) * rest * rest * rest;
    value = value - whole * 2.12194440e-4F - rest * rest * 0.5F;
    return x - x != 0 ? x : rest + value + whole * 0.693359375F;
}

/* What the gradients of a row are multiplied by, and its loss: 0 without a label; NaN for one that is no class. @{ */
ELEMENT float
vocabulary_scale (int32_t label, int64_t classes, float scale)
{
    return label < 0 ? 0 : label < classes ? scale : NAN;
}

ELEMENT float
vocabulary_loss (int32_t label, int64_t classes, float sum, float label_logit)
{
    return label < 0 ? 0 : label < classes ? vocabulary_log (sum) - label_logit : NAN;
}
/* @} */

/* What a row of another process's table is here: 0; NaN for a token that is in none. */
ELEMENT float
vocabulary_other (int32_t token, int64_t rows)
{
    return token >= 0 && token < rows ? 0 : NAN;
}

#endif
