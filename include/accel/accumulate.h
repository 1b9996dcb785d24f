/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient accumulation over several backward passes, passes without communication, and local SGD. */
#ifndef ACCEL_ACCUMULATE_H
#define ACCEL_ACCUMULATE_H

#include <accel/base.h>
#include <accel/state.h>
#include <accel/train.h>

ACCEL_BEGIN_DECLS

/**
 * @return num_steps: from the plugin, from the variable ACCELERATE_GRADIENT_ACCUMULATION_STEPS, as set since, or as
 *         total_batch_size needs it
 */
ACCEL_API uint32_t accel_gradient_accumulation_steps (const struct accel *acc);

/**
 * Set num_steps, effective from the next accel_accumulate().  ACCEL_ERR_INVALID: it is 0, is not what total_batch_size
 * needs, or changes between accel_load_state() and the first accel_accumulate().
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_set_gradient_accumulation_steps (struct accel *acc, uint32_t num_steps, struct accel_error *err);

/**
 * Begin the next of the `num_steps` backward passes that make up one step: call it for each batch, after
 * accel_loader_next().  Its decision holds until it is called again:
 *
 *   accel_accumulate (acc, &err);            all prepared models
 *   accel_accumulate (acc, &err, model);     this one; others are averaged in each pass
 *
 * In all passes but the last, accel_backward() adds to the gradients without communicating, and accel_optimizer_step(),
 * accel_optimizer_zero_grad() and accel_scheduler_step() do nothing for prepared objects.  The last batch of the
 * running loader (the innermost, if nested) ends the step early, and counting starts again.
 *
 * accel_backward() always divides the loss by `num_steps`: also in a step that ends early, and without this function.
 * accel_clip_grad_norm() and accel_clip_grad_value() clip in every pass: check accel_sync_gradients() first.
 *
 * Every process must call it; nothing is sent.
 *
 * @param err  before the models, because variable arguments come last in C; may be NULL
 * @retval ACCEL_ERR_INVALID  an object is not a model, or was not prepared with @p acc; nothing has changed
 */
#define accel_accumulate(acc, ...) accel_accumulate_models ((acc), __VA_ARGS__, ACCEL_PREPARE_END)

/** accel_accumulate() for callers not written in C: end the models with ACCEL_PREPARE_END. */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_accumulate_models (struct accel *acc, struct accel_error *err, ...);

/** @return whether this pass is the last of its step: gradients are averaged, optimizers step.  Initially true. */
ACCEL_API bool accel_sync_gradients (const struct accel *acc);

/** Override this until the next accel_accumulate(), for optimizers and schedulers but not for averaging. */
ACCEL_API void accel_set_sync_gradients (struct accel *acc, bool sync_gradients);

/**
 * Until accel_no_sync_end(), accel_backward() of @p model adds to the gradients without communicating; the next one
 * after that averages the sum.  May be nested.  Optimizers step as usual.
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_no_sync (struct accel *acc, struct accel_model *model, struct accel_error *err);

/** End the innermost accel_no_sync().  Without one: ACCEL_ERR_INVALID. */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_no_sync_end (struct accel *acc, struct accel_model *model, struct accel_error *err);

/** Make the next accel_backward() of @p model average in spite of accel_no_sync() or accel_accumulate(). */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_trigger_sync_in_backward (struct accel *acc, struct accel_model *model, struct accel_error *err);

/** Processes train independently for a while and then average their parameters: Accelerate's LocalSGD. */
struct accel_local_sgd;

/**
 * From now on, until accel_local_sgd_end(), gradients of @p model are not averaged.  With one process, or if @p enabled
 * is false, training is unaffected and the calls do nothing.  Nothing is sent.
 *
 * @param model            prepared with @p acc; once it or @p acc is gone, local SGD's calls fail with
 *                         ACCEL_ERR_INVALID
 * @param local_sgd_steps  steps from one averaging of the parameters to the next; 0: ACCEL_ERR_INVALID
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_local_sgd_begin (struct accel_local_sgd **local_sgd, struct accel *acc, struct accel_model *model,
                       uint32_t local_sgd_steps, bool enabled, struct accel_error *err);

/**
 * Count a step, and average the trained parameters in every `local_sgd_steps`th call.  Call it after
 * accel_optimizer_step().  Collective.
 */
#define accel_local_sgd_step(...) accel_local_sgd_step_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_local_sgd_step_at (const char *file, int line, struct accel_local_sgd *local_sgd, struct accel_error *err);

/**
 * Average the parameters, whatever the count, and free @p local_sgd, even on failure; gradients are averaged again.
 * Accepts NULL.  Collective.
 */
#define accel_local_sgd_end(...) accel_local_sgd_end_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_local_sgd_end_at (const char *file, int line, struct accel_local_sgd *local_sgd, struct accel_error *err);

/**
 * @return the norm for accel_clip_grad_norm() that the job was launched with: the variable ACCELERATE_GRADIENT_CLIPPING
 *         as it was at accel_open(), or INFINITY, which clips nothing, if it is not set; with --use_deepspeed, see
 *         accel_sharding(3)
 */
ACCEL_API double accel_gradient_clipping (const struct accel *acc);

/**
 * The end of training: stops running loaders, waits for a save of accel_save_state_start() and returns its failure,
 * writes a recording of accel_profile_start(), and waits for all processes.
 * Prepared objects stay usable, to be read, saved and destroyed; accel_close() leaves the job.  Collective.
 */
#define accel_end_training(...) accel_end_training_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_end_training_at (const char *file, int line, struct accel *acc, struct accel_error *err);

ACCEL_END_DECLS

#endif
