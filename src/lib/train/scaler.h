/* SPDX-License-Identifier: Apache-2.0 */
/* Loss scaling for gradients that were computed in float16: torch's GradScaler (torch/amp/grad_scaler.py) without its
 * devices.  A scaler is plain memory; whether gradients were finite is for its user to agree on with the other ranks
 * before scaler_update(). */
#ifndef LIB_TRAIN_SCALER_H
#define LIB_TRAIN_SCALER_H

#include <accel/precision.h>

#include "lib/kernels/scaler_element.h"

#define SCALER_DEFAULTS { 65536, 2, 0.5, 2000, ACCEL_DEFAULT, ACCEL_DEFAULT }

struct scaler {
    struct accel_grad_scaler options;
    struct scaler_values now;
};

/** Set up @p scaler.  Numbers that torch asserts against, or that are not finite, are refused. */
enum accel_status scaler_init (struct scaler *scaler, const struct accel_grad_scaler *options, struct accel_error *err);

/** @return what the loss is to be multiplied by. */
float scaler_scale (const struct scaler *scaler);

/** @return how its scale changes. */
struct scaler_factors scaler_factors_of (const struct scaler *scaler);

/** After a step, taken unless @p found_inf: shrink the scale at once, or let it grow after growth_interval steps. */
void scaler_update (struct scaler *scaler, bool found_inf);

#endif
