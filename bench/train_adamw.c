/* SPDX-License-Identifier: Apache-2.0 */
/* AdamW as one writes it in C.  Compiled several times: ADAMW is the function's name. */
#include "bench/train.h"

#include <math.h>

void
ADAMW (float *restrict value, const float *restrict grad, float *restrict mean, float *restrict square, size_t count,
       float rate, int step)
{
    const float beta1 = 0.9F, beta2 = 0.999F, eps = 1e-8F, decay = 0.01F;
    float correction1 = 1 - powf (beta1, (float) step), correction2 = 1 - powf (beta2, (float) step);
    for (size_t i = 0; i < count; i++) {
        float m = beta1 * mean[i] + (1 - beta1) * grad[i];
        float v = beta2 * square[i] + (1 - beta2) * grad[i] * grad[i];
        mean[i] = m;
        square[i] = v;
        value[i] -= rate * ((m / correction1) / (sqrtf (v / correction2) + eps) + decay * value[i]);
    }
}
