/* SPDX-License-Identifier: Apache-2.0 */
/* Loss scaling for gradients that were computed in float16: torch's GradScaler (torch/amp/grad_scaler.py) without its
 * devices.  A scaler is plain memory; whether gradients were finite is for its user to agree on with the other ranks
 * before scaler_update(). */
#ifndef LIB_TRAIN_SCALER_H
#define LIB_TRAIN_SCALER_H

#include <accel/base.h>

/** How the scale changes. */
struct scaler_options {
    double init_scale;        /* 65536 */
    double growth_factor;     /* 2 */
    double backoff_factor;    /* 0.5 */
    uint32_t growth_interval; /* 2000: steps without infinity before the scale grows */
    bool disabled;            /* the scale is 1, and gradients stay as they are */
};

#define SCALER_DEFAULTS { 65536, 2, 0.5, 2000, false }

struct scaler {
    struct scaler_options options;
    float scale;
    uint32_t growth_tracker; /* steps since the scale changed */
};

/** Set up @p scaler.  Numbers that torch asserts against, or that are not finite, are refused. */
enum accel_status scaler_init (struct scaler *scaler, const struct scaler_options *options, struct accel_error *err);

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
