/* SPDX-License-Identifier: Apache-2.0 */
/* Loss scaling for gradients that were computed in float16: torch's GradScaler (torch/amp/grad_scaler.py) without its
 * devices.  A scaler is plain memory; whether gradients were finite is for its user to agree on with the other ranks
 * before scaler_update(). */
#ifndef LIB_TRAIN_SCALER_H
#define LIB_TRAIN_SCALER_H

#include <accel/precision.h>

#define SCALER_DEFAULTS { 65536, 2, 0.5, 2000, false }

struct scaler {
    struct accel_grad_scaler options;
    float scale;
    uint32_t growth_tracker; /* steps since the scale changed */
};

/** Multiply values[count] by @p factor. */
void scaler_multiply (float *values, size_t count, float factor);

/** @return whether one of 16-bit floats, whose exponent is @p mask, is infinite or NaN. */
bool scaler_found_inf (const uint16_t *gradients, size_t count, uint16_t mask);

/** Set up @p scaler.  Numbers that torch asserts against, or that are not finite, are refused. */
enum accel_status scaler_init (struct scaler *scaler, const struct accel_grad_scaler *options, struct accel_error *err);

/** @return what the loss is to be multiplied by. */
float scaler_scale (const struct scaler *scaler);

/**
 * Divide gradients by the scale, or rather multiply by its reciprocal, which is rounded to float32.
 *
 * @return whether one of gradients[count] was infinite or NaN
 */
bool scaler_unscale (const struct scaler *scaler, float *gradients, size_t count);

/** After a step, taken unless @p found_inf: shrink the scale at once, or let it grow after growth_interval steps. */
void scaler_update (struct scaler *scaler, bool found_inf);

#endif
