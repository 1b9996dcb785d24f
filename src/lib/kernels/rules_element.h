/* SPDX-License-Identifier: Apache-2.0 */
/* What optimizers do to one element.  torch's formulas (torch/optim/sgd.py, adam.py, the single-tensor forms) in its
 * order of operations, so that results agree to the last bits of float32.  Square roots and divisions are exact in all
 * instruction sets and on GPUs, and nothing is fused: all give the same bits. */
#ifndef LIB_KERNELS_RULES_ELEMENT_H
#define LIB_KERNELS_RULES_ELEMENT_H

#include "lib/kernels/bits.h"
#include "lib/kernels/rules.h"

#include <math.h>

/* Each @return the new parameter; states are changed where they are. */

ELEMENT float
rule_sgd (struct rule_numbers n, float parameter, float grad)
{
    return parameter + n.minus_size * (n.sign * grad + n.decay * parameter);
}

ELEMENT float
rule_sgd_momentum (struct rule_numbers n, float parameter, float grad, float *velocity)
{
    float change = n.sign * grad + n.decay * parameter;
    float v = n.momentum * *velocity + n.fresh * change;
    *velocity = v;
    return parameter + n.minus_size * (n.nesterov ? change + n.momentum * v : v);
}

/* torch.lerp() counts from the nearer end. */
ELEMENT bool
rule_is_from_mean (struct rule_numbers n)
{
    return n.weight1 < 0.5F;
}

ELEMENT float
rule_lerp (float mean, float g, float weight, bool from_mean)
{
    return from_mean ? mean + weight * (g - mean) : g - (g - mean) * (1 - weight);
}

ELEMENT float
rule_adam (struct rule_numbers n, bool from_mean, float parameter, float grad, float *mean, float *square)
{
    float g = n.sign * grad + n.decay * parameter;
    float m = rule_lerp (*mean, g, n.weight1, from_mean);
    float s = n.beta2 * *square + n.weight2 * g * g;
    *mean = m;
    *square = s;
    return parameter * n.keep + n.minus_size * m / (sqrtf (s) / n.root + n.eps);
}

ELEMENT float
rule_amsgrad (struct rule_numbers n, bool from_mean, float parameter, float grad, float *mean, float *square,
              float *most)
{
    float g = n.sign * grad + n.decay * parameter;
    float m = rule_lerp (*mean, g, n.weight1, from_mean);
    float s = n.beta2 * *square + n.weight2 * g * g;
    float top = s <= *most ? *most : s; /* NaN, once there, stays */
    top = *most != *most ? *most : top;
    *mean = m;
    *square = s;
    *most = top;
    return parameter * n.keep + n.minus_size * m / (sqrtf (top) / n.root + n.eps);
}

ELEMENT float
rule_lion (struct rule_numbers n, float parameter, float grad, float *mean)
{
    float blend = *mean * n.beta1 + n.weight1 * grad;
    float direction = (float) (blend > 0) - (float) (blend < 0);
    *mean = *mean * n.beta2 + n.weight2 * grad;
    return parameter * n.keep + n.minus_size * direction;
}

#endif
