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
ELEMENT float
rule_lerp (float mean, float g, float weight)
{
    return weight < 0.5F ? mean + weight * (g - mean) : g - (g - mean) * (1 - weight);
}

ELEMENT float
rule_adam (struct rule_numbers n, float parameter, float grad, float *mean, float *square)
{
    float g = n.sign * grad + n.decay * parameter;
    float m = rule_lerp (*mean, g, n.weight1);
    float s = n.beta2 * *square + n.weight2 * g * g;
    *mean = m;
    *square = s;
    return parameter * n.keep + n.minus_size * m / (sqrtf (s) / n.root + n.eps);
}

ELEMENT float
rule_amsgrad (struct rule_numbers n, float parameter, float grad, float *mean, float *square, float *most)
{
    float g = n.sign * grad + n.decay * parameter;
    float m = rule_lerp (*mean, g, n.weight1);
    float s = n.beta2 * *square + n.weight2 * g * g;
    float top = s <= *most ? *most : s; /* NaN, once there, stays */
    top = *most != *most ? *most : top;
    *mean = m;
    *square = s;
    *most = top;
    return parameter * n.keep + n.minus_size * m / (sqrtf (top) / n.root + n.eps);
}

/* The sum grows by the squares; `minus_size` falls with lr_decay. */
ELEMENT float
rule_adagrad (struct rule_numbers n, float parameter, float grad, float *sum)
{
    float g = n.sign * grad + n.decay * parameter;
    float s = *sum + g * g;
    *sum = s;
    return parameter + n.minus_size * g / (sqrtf (s) + n.eps);
}

/* RMSprop's running mean of squares, whose weights are beta2 and weight2. */
ELEMENT float
rule_mean_square (struct rule_numbers n, float g, float *square)
{
    float s = n.beta2 * *square + n.weight2 * g * g;
    *square = s;
    return s;
}

/* The same less the square of the mean. */
ELEMENT float
rule_variance (struct rule_numbers n, float g, float *square, float *mean)
{
    float s = rule_mean_square (n, g, square), m = rule_lerp (*mean, g, n.weight2);
    *mean = m;
    return s - m * m;
}

ELEMENT float
rule_velocity (struct rule_numbers n, float g, float root, float *velocity)
{
    float v = n.momentum * *velocity + g / (root + n.eps);
    *velocity = v;
    return v;
}

ELEMENT float
rule_rmsprop (struct rule_numbers n, float parameter, float grad, float *square)
{
    float g = n.sign * grad + n.decay * parameter;
    return parameter + n.minus_size * g / (sqrtf (rule_mean_square (n, g, square)) + n.eps);
}

ELEMENT float
rule_rmsprop_momentum (struct rule_numbers n, float parameter, float grad, float *square, float *velocity)
{
    float g = n.sign * grad + n.decay * parameter;
    return parameter + n.minus_size * rule_velocity (n, g, sqrtf (rule_mean_square (n, g, square)), velocity);
}

ELEMENT float
rule_rmsprop_centered (struct rule_numbers n, float parameter, float grad, float *square, float *mean)
{
    float g = n.sign * grad + n.decay * parameter;
    return parameter + n.minus_size * g / (sqrtf (rule_variance (n, g, square, mean)) + n.eps);
}

ELEMENT float
rule_rmsprop_centered_momentum (struct rule_numbers n, float parameter, float grad, float *square, float *mean,
                                float *velocity)
{
    float g = n.sign * grad + n.decay * parameter;
    return parameter + n.minus_size * rule_velocity (n, g, sqrtf (rule_variance (n, g, square, mean)), velocity);
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
