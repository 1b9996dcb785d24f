/* SPDX-License-Identifier: Apache-2.0 */
/* GradScaler: its options, and its arithmetic on the host. */
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
    *scaler = (struct scaler){ .options = *options, .now.scale = (float) options->init_scale };
    return ACCEL_OK;
}

float
scaler_scale (const struct scaler *scaler)
{
    return scaler->options.enabled == ACCEL_NO ? 1 : scaler->now.scale;
}

struct scaler_factors
scaler_factors_of (const struct scaler *scaler)
{
    const struct accel_grad_scaler *options = &scaler->options;
    return (struct scaler_factors){ options->growth_factor, options->backoff_factor, options->growth_interval };
}

UNFUSED void
scaler_update (struct scaler *scaler, bool found_inf)
{
    const struct scaler_factors factors = scaler_factors_of (scaler);
    if (scaler->options.enabled != ACCEL_NO)
        scaler_change (&scaler->now, &factors, found_inf);
}
