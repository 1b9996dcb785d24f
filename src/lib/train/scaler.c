/* SPDX-License-Identifier: Apache-2.0 */
/* GradScaler's arithmetic: the scale is a float32, which factors change in double. */
#include <config.h>

#include "lib/train/scaler.h"

#include "lib/base/error.h"
#include "lib/kernels/arithmetic.h"

#include <math.h>

enum accel_status
scaler_init (struct scaler *scaler, const struct accel_grad_scaler *options, struct accel_error *err)
{
    if (!(options->init_scale > 0) || !isfinite ((float) options->init_scale))
        return accel_fail (err, ACCEL_ERR_INVALID, "init_scale is %g, but must be greater than 0 and fit in a float32",
                           options->init_scale);
    if (!(options->growth_factor > 1) || !isfinite (options->growth_factor))
        return accel_fail (err, ACCEL_ERR_INVALID, "growth_factor is %g, but must be greater than 1",
                           options->growth_factor);
    if (!(options->backoff_factor < 1) || !(options->backoff_factor > 0))
        return accel_fail (err, ACCEL_ERR_INVALID, "backoff_factor is %g, but must be between 0 and 1",
                           options->backoff_factor);
    if (!options->growth_interval)
        return accel_fail (err, ACCEL_ERR_INVALID, "growth_interval is 0, but must be at least 1");
    *scaler = (struct scaler){ .options = *options, .scale = (float) options->init_scale };
    return ACCEL_OK;
}

float
scaler_scale (const struct scaler *scaler)
{
    return scaler->options.enabled == ACCEL_NO ? 1 : scaler->scale;
}

float
scaler_inverse (const struct scaler *scaler)
{
    return scaler->options.enabled == ACCEL_NO ? 1 : (float) (1.0 / (double) scaler->scale);
}

UNFUSED void
scaler_update (struct scaler *scaler, bool found_inf)
{
    if (scaler->options.enabled == ACCEL_NO)
        return;
    if (found_inf) {
        scaler->scale = (float) ((double) scaler->scale * scaler->options.backoff_factor);
        scaler->growth_tracker = 0;
    } else if (++scaler->growth_tracker == scaler->options.growth_interval) {
        float grown = (float) ((double) scaler->scale * scaler->options.growth_factor);
        if (isfinite (grown))
            scaler->scale = grown;
        scaler->growth_tracker = 0;
    }
}
