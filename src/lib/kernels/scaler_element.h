/* SPDX-License-Identifier: Apache-2.0 */
/* What torch's GradScaler (torch/amp/grad_scaler.py) does after a step: the scale is a float32, which factors change in
 * double.  The same bits on processors and GPUs. */
#ifndef LIB_KERNELS_SCALER_ELEMENT_H
#define LIB_KERNELS_SCALER_ELEMENT_H

#include "lib/kernels/bits.h"

#include <math.h>

/** What changes. */
struct scaler_values {
    float scale;
    uint32_t growth_tracker; /* steps since it changed */
    uint32_t found_inf;      /* on devices: in gradients since the last update */
};

/** How. */
struct scaler_factors {
    double growth, backoff;
    uint32_t interval;
};

/* What gradients are to be multiplied by. */
ELEMENT float
scaler_inverse_of (float scale)
{
    return (float) (1.0 / (double) scale);
}

ELEMENT_CALLED void
scaler_change (struct scaler_values *values, const struct scaler_factors *factors, int found_inf)
{
    if (found_inf) {
        values->scale = (float) ((double) values->scale * factors->backoff);
        values->growth_tracker = 0;
    } else if (++values->growth_tracker == factors->interval) {
        float grown = (float) ((double) values->scale * factors->growth);
        if (isfinite (grown))
            values->scale = grown;
        values->growth_tracker = 0;
    }
}

#endif
