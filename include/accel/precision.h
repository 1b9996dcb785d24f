/* SPDX-License-Identifier: Apache-2.0 */
/* Mixed precision: the type to compute in, loss scaling, low-precision parameters with float32 masters, conversions. */
#ifndef ACCEL_PRECISION_H
#define ACCEL_PRECISION_H

#include <accel/base.h>
#include <accel/state.h>
#include <accel/tensor.h>
#include <accel/train.h>

ACCEL_BEGIN_DECLS

/** @return the type for matrix products: float32; float16 for fp16; bfloat16 for bf16 and fp8. */
ACCEL_API enum accel_dtype accel_autocast (const struct accel *acc);

/**
 * Make accel_autocast() return float32 from now on, or again the type of the precision.
 *
 * @return the previous setting, to be restored at the end of a region; initially true
 */
ACCEL_API bool accel_autocast_enable (struct accel *acc, bool enabled);

/** The complete state of a scaler: torch's state_dict(). */
struct accel_scaler_state {
    double growth_factor;
    double backoff_factor;
    uint32_t growth_interval;
    uint32_t growth_tracker; /**< steps since the scale changed */
    float scale;
};

/**
 * Read the scaler's state.  @return false, with all fields 0, if there is no scaler: the precision is not fp16, or
 * scaling is disabled.
 */
ACCEL_API bool accel_scaler_get_state (const struct accel *acc, struct accel_scaler_state *state);

/**
 * Continue from @p state, on every process.
 *
 * @retval ACCEL_ERR_INVALID  there is no scaler, or torch would refuse a number
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_scaler_set_state (struct accel *acc, const struct accel_scaler_state *state, struct accel_error *err);

/**
 * In fp16, divide the gradients by the loss scale; otherwise, and while gradients are accumulated, do nothing.
 * accel_clip_grad_norm(), accel_clip_grad_value() and accel_optimizer_step() do this if it has not been done.
 * Collective: all processes agree on whether a gradient is infinite or NaN.
 *
 * 16-bit gradients are left scaled in memory, where most would otherwise vanish; their readers divide them.
 *
 * @param optimizer  whose gradients; NULL: those of all prepared models
 * @retval ACCEL_ERR_INVALID  they have been unscaled since the last step, or belong to another `acc`
 */
#define accel_unscale_gradients(...) accel_unscale_gradients_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_unscale_gradients_at (const char *file, int line, struct accel *acc, struct accel_optimizer *optimizer,
                            struct accel_error *err);

/**
 * @return the float32 values of parameter @p index that optimizers change: its master, made by accel_model_create(), or
 *         for a float32 parameter its own tensor; NULL if it is not trained or does not exist.  Current after each
 *         step, so a program that evaluates in float32 reads it and converts nothing.  May be written; call
 *         accel_model_narrow() afterwards
 */
ACCEL_API DLTensor *accel_model_master (struct accel_model *model, size_t index);

/**
 * Set the masters from the parameters, after the program has changed them.  Not needed before the first call of
 * accel_prepare(), accel_optimizer_step() or accel_model_master().
 */
ACCEL_API void accel_model_widen (struct accel_model *model);

/** Set the parameters from their masters, rounded to nearest, as each step of an optimizer does. */
ACCEL_API void accel_model_narrow (struct accel_model *model);

/**
 * @return the factor by which elements of parameter @p index must be multiplied to get its values.  1 except for 8-bit
 *         floats.  These are scaled by a power of two each time they are set from their master, so that the largest
 *         magnitude just fits: 2^-floor (log2 (largest of the type / largest of the master)), at least 2^-126, and 1 if
 *         the largest is 0 or not finite
 */
ACCEL_API float accel_model_scale (const struct accel_model *model, size_t index);

/**
 * Convert between float32, float16, bfloat16 and 8-bit floats, rounding to nearest, ties to even.  NaN stays NaN.
 * Values that are too large become infinite, or 448 in float8_e4m3fn, which has no infinity; all as in torch.
 *
 * @param from  host memory: [count] of @p from_dtype
 * @param to    host memory: [count] of @p to_dtype; must not overlap @p from
 * @retval ACCEL_ERR_UNSUPPORTED  another type
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_convert (const void *from, enum accel_dtype from_dtype, void *to, enum accel_dtype to_dtype, size_t count,
               struct accel_error *err);

ACCEL_END_DECLS

#endif
