/* SPDX-License-Identifier: Apache-2.0 */
/* Mixed precision: the type to compute in, scaled losses, parameters of few bits with float32 masters, conversions. */
#ifndef ACCEL_PRECISION_H
#define ACCEL_PRECISION_H

#include <accel/base.h>
#include <accel/state.h>
#include <accel/tensor.h>
#include <accel/train.h>

ACCEL_BEGIN_DECLS

/** @return the type for matrix products here: float32, float16 for fp16, bfloat16 for bf16 and fp8. */
ACCEL_API enum accel_dtype accel_autocast (const struct accel *acc);

/**
 * Have accel_autocast() say float32 from now on, or again what the precision asks for.
 *
 * @return what was set before, to be given back at the end of a region; true at first
 */
ACCEL_API bool accel_autocast_enable (struct accel *acc, bool enabled);

/** How the scale of the losses changes under fp16: torch's GradScaler.  0 means its default, ACCEL_ZERO is refused. */
struct accel_grad_scaler {
    double init_scale;        /**< 65536 */
    double growth_factor;     /**< 2 */
    double backoff_factor;    /**< 0.5: after a step whose gradients were infinite or NaN, which is skipped */
    uint32_t growth_interval; /**< 2000: steps without one before the scale grows */
    bool disabled;            /**< no scaling: the original's enabled=False */
};

/** All that a scaler remembers: torch's state_dict(). */
struct accel_scaler_state {
    double growth_factor;
    double backoff_factor;
    uint32_t growth_interval;
    uint32_t growth_tracker; /**< steps since the scale changed */
    float scale;
};

/** Read the scaler's state.  @return false, and all 0: there is none; the precision is not fp16, or it is disabled. */
ACCEL_API bool accel_scaler_get_state (const struct accel *acc, struct accel_scaler_state *state);

/**
 * Go on from @p state, on every process.
 *
 * @retval ACCEL_ERR_INVALID  there is no scaler, or a number that torch refuses
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_scaler_set_state (struct accel *acc, const struct accel_scaler_state *state, struct accel_error *err);

/**
 * Under fp16, divide the gradients by the scale of the loss; else do nothing, nor while gradients are accumulated.
 * accel_clip_grad_norm(), accel_clip_grad_value() and accel_optimizer_step() do it where it has not been done.
 * Collective: all processes agree on whether a gradient is infinite or NaN.
 *
 * Gradients of 16 bits stay as they are in memory, where most would vanish; whoever reads them divides.
 *
 * @param optimizer  whose gradients; NULL: those of all prepared models
 * @retval ACCEL_ERR_INVALID  they have been unscaled since the last step, or belong to another `acc`
 */
#define accel_unscale_gradients(...) accel_unscale_gradients_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_unscale_gradients_at (const char *file, int line, struct accel *acc, struct accel_optimizer *optimizer,
                            struct accel_error *err);

/**
 * @return the float32 values that optimizers change of parameter @p index: its master, made by accel_model_create(), or
 *         for a float32 parameter its own tensor; NULL: there are none, for it is not trained, or no such parameter.
 *         May be written; follow it with accel_model_narrow()
 */
ACCEL_API DLTensor *accel_model_master (struct accel_model *model, size_t index);

/**
 * Set the masters from the parameters, after the program has changed these.  Until accel_prepare(),
 * accel_optimizer_step() or accel_model_master() is called for the first time, there is no need to.
 */
ACCEL_API void accel_model_widen (struct accel_model *model);

/** Set the parameters from their masters, rounded to the nearest, as each step of an optimizer does. */
ACCEL_API void accel_model_narrow (struct accel_model *model);

/**
 * @return what elements of parameter @p index are to be multiplied by to get its values.  1 but for 8-bit floats, which
 *         are scaled by a power of two each time they are set from their master, so that the largest magnitude just
 *         fits: 2^-floor (log2 (largest of the type / largest of the master)), at least 2^-126, and 1 where the
 *         largest is 0 or not finite
 */
ACCEL_API float accel_model_scale (const struct accel_model *model, size_t index);

/**
 * Convert float32, float16, bfloat16 and 8-bit floats into one another, to the nearest, ties to even.  NaN stays NaN;
 * what is too large becomes infinite, but in float8_e4m3fn, which has no infinity, 448: all as torch does it.
 *
 * @param from  [count] of @p from_dtype
 * @param to    [count] of @p to_dtype; must not overlap @p from
 * @retval ACCEL_ERR_UNSUPPORTED  a type that is none of these
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_convert (const void *from, enum accel_dtype from_dtype, void *to, enum accel_dtype to_dtype, size_t count,
               struct accel_error *err);

ACCEL_END_DECLS

#endif
