/* SPDX-License-Identifier: Apache-2.0 */
/* What optimizers do to one element.  torch's formulas (torch/optim/sgd.py, adam.py, the single-tensor forms) in its
 * order of operations, so that results agree to the last bits of float32.  Square roots and divisions are exact in all
 * instruction sets and on GPUs, and nothing is fused: all give the same bits. */
#ifndef LIB_KERNELS_RULES_ELEMENT_H
#define LIB_KERNELS_RULES_ELEMENT_H

#include "lib/kernels/arithmetic.h"
#include "lib/kernels/bits.h"
#include "lib/kernels/rules.h"

#include <math.h>

/* ---- numbers of a step ---- */

/* Of callers that may contract: these are functions of their own. */
#ifdef __CUDACC__
#define ELEMENT_UNFUSED ELEMENT
#else
#define ELEMENT_UNFUSED UNFUSED static inline
#endif

/* A number of twice the bits, as the sum of two (Dekker, A floating-point technique for extending the available
 * precision, 1971). */
struct rule_pair {
    double high, low;
};

ELEMENT struct rule_pair
rule_product (struct rule_pair a, struct rule_pair b)
{
    const double splitter = 134217729.0; /* 2^27 + 1: halves have 26 bits, whose products are exact */
    double ca = splitter * a.high, cb = splitter * b.high;
    double ah = ca - (ca - a.high), bh = cb - (cb - b.high);
    double al = a.high - ah, bl = b.high - bh;
    double high = a.high * b.high;
    double low = ((ah * bh - high) + ah * bl + al * bh) + al * bl + (a.high * b.low + a.low * b.high);
    double sum = high + low;
    return (struct rule_pair){ sum, low - (sum - high) };
}

/* base^exponent for 0 <= base < 1, within 1 ulp of pow(), with the same bits on GPUs, whose pow() is another. */
ELEMENT_UNFUSED double
rule_power (double base, uint64_t exponent)
{
    struct rule_pair power = { 1, 0 }, square = { base, 0 };
    for (; exponent; exponent >>= 1) {
        if (exponent & 1)
            power = rule_product (power, square);
        square = rule_product (square, square);
    }
    return power.high;
}

/* Step @step, from 1 on, of numbers that do not depend on it yet. */
ELEMENT_UNFUSED void
rule_begin (struct rule_numbers *numbers, const struct rule_pace *pace, uint64_t step)
{
    double correction = 1.0 - rule_power (pace->beta1, step);
    numbers->minus_size = (float) -(pace->lr / (correction + (double) (step - 1) * pace->lr_decay));
    numbers->root = (float) sqrt (1.0 - rule_power (pace->beta2, step));
    if (step == 1) /* torch's first velocity is the gradient itself, not damped */
        numbers->fresh = 1;
}

/* ---- elements ---- */

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
