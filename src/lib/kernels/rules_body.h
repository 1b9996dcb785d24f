/* SPDX-License-Identifier: Apache-2.0 */
/* Included by each rules_NAME.c, which defines
 *   RULE_TABLE   the table's name
 *   RULE         attributes of every loop (instruction set, optimisation)
 * torch's formulas (torch/optim/sgd.py, adam.py, the single-tensor forms) in its order of operations, so that results
 * agree to the last bits of float32.  Square roots and divisions are exact in all instruction sets, and nothing is
 * fused: all variants give the same bits. */
#include "lib/kernels/rules.h"

#include <math.h>

RULE static void
sgd_loop (const struct rule_numbers *n, float *restrict parameter, const float *restrict grad, float *const *state,
          size_t count)
{
    (void) state;
    float sign = n->sign, decay = n->decay, minus_size = n->minus_size;
    for (size_t i = 0; i < count; i++)
        parameter[i] += minus_size * (sign * grad[i] + decay * parameter[i]);
}

RULE static void
sgd_momentum_loop (const struct rule_numbers *n, float *restrict parameter, const float *restrict grad,
                   float *const *state, size_t count)
{
    float sign = n->sign, decay = n->decay, minus_size = n->minus_size, momentum = n->momentum, fresh = n->fresh;
    float *restrict velocity = state[0];
    bool nesterov = n->nesterov;
    for (size_t i = 0; i < count; i++) {
        float change = sign * grad[i] + decay * parameter[i];
        float v = momentum * velocity[i] + fresh * change;
        velocity[i] = v;
        parameter[i] += minus_size * (nesterov ? change + momentum * v : v);
    }
}

RULE static void
adam_loop (const struct rule_numbers *n, float *restrict parameter, const float *restrict grad, float *const *state,
           size_t count)
{
    float sign = n->sign, decay = n->decay, keep = n->keep, minus_size = n->minus_size, weight1 = n->weight1;
    float beta2 = n->beta2, weight2 = n->weight2, root = n->root, eps = n->eps;
    float *restrict mean = state[0], *restrict square = state[1];
    bool from_mean = weight1 < 0.5F; /* torch.lerp() counts from the nearer end */
    for (size_t i = 0; i < count; i++) {
        float g = sign * grad[i] + decay * parameter[i];
        float m = from_mean ? mean[i] + weight1 * (g - mean[i]) : g - (g - mean[i]) * (1 - weight1);
        float s = beta2 * square[i] + weight2 * g * g;
        mean[i] = m;
        square[i] = s;
        parameter[i] = parameter[i] * keep + minus_size * m / (sqrtf (s) / root + eps);
    }
}

RULE static void
amsgrad_loop (const struct rule_numbers *n, float *restrict parameter, const float *restrict grad,
              float *const *state, size_t count)
{
    float sign = n->sign, decay = n->decay, keep = n->keep, minus_size = n->minus_size, weight1 = n->weight1;
    float beta2 = n->beta2, weight2 = n->weight2, root = n->root, eps = n->eps;
    float *restrict mean = state[0], *restrict square = state[1], *restrict most = state[2];
    bool from_mean = weight1 < 0.5F;
    for (size_t i = 0; i < count; i++) {
        float g = sign * grad[i] + decay * parameter[i];
        float m = from_mean ? mean[i] + weight1 * (g - mean[i]) : g - (g - mean[i]) * (1 - weight1);
        float s = beta2 * square[i] + weight2 * g * g;
        float top = s <= most[i] ? most[i] : s; /* NaN, once there, stays */
        top = most[i] != most[i] ? most[i] : top;
        mean[i] = m;
        square[i] = s;
        most[i] = top;
        parameter[i] = parameter[i] * keep + minus_size * m / (sqrtf (top) / root + eps);
    }
}

RULE static void
lion_loop (const struct rule_numbers *n, float *restrict parameter, const float *restrict grad, float *const *state,
           size_t count)
{
    float keep = n->keep, minus_size = n->minus_size, beta1 = n->beta1, weight1 = n->weight1, beta2 = n->beta2;
    float weight2 = n->weight2;
    float *restrict mean = state[0];
    for (size_t i = 0; i < count; i++) {
        float g = grad[i], blend = mean[i] * beta1 + weight1 * g;
        float direction = (float) (blend > 0) - (float) (blend < 0);
        mean[i] = mean[i] * beta2 + weight2 * g;
        parameter[i] = parameter[i] * keep + minus_size * direction;
    }
}

const struct rules RULE_TABLE = {
    .loops = {
        [RULE_SGD] = sgd_loop,
        [RULE_SGD_MOMENTUM] = sgd_momentum_loop,
        [RULE_ADAM] = adam_loop,
        [RULE_AMSGRAD] = amsgrad_loop,
        [RULE_LION] = lion_loop,
    },
};
