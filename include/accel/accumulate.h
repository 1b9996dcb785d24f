/* SPDX-License-Identifier: Apache-2.0 */
/* Several backward passes for one step of the optimizer, passes that send nothing, and local SGD. */
#ifndef ACCEL_ACCUMULATE_H
#define ACCEL_ACCUMULATE_H

#include <accel/base.h>
#include <accel/state.h>
#include <accel/train.h>

ACCEL_BEGIN_DECLS

/** The original's GradientAccumulationPlugin.  0 is each field's default. */
struct accel_gradient_accumulation {
    uint32_t num_steps;      /**< backward passes for one step; 0: 1 */
    bool keep_scheduler;     /**< adjust_scheduler=False; changes nothing, as in the original, where it has no effect */
    bool without_dataloader; /**< sync_with_dataloader=False: counting goes on beyond the end of a loader */
    bool sync_each_batch;    /**< average in each backward pass, though optimizers wait: less memory, more time */
};

/** @return num_steps: of the plugin, of the variable ACCELERATE_GRADIENT_ACCUMULATION_STEPS, or as set since. */
ACCEL_API uint32_t accel_gradient_accumulation_steps (const struct accel *acc);

/** Set num_steps, for the next accel_accumulate() on.  0: ACCEL_ERR_INVALID. */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_set_gradient_accumulation_steps (struct accel *acc, uint32_t num_steps, struct accel_error *err);

/**
 * Begin the next of `num_steps` backward passes that make one step together: call it for each batch, behind
 * accel_loader_next().  What it decides holds until it is called again:
 *
 *   accel_accumulate (acc, &err);            all prepared models
 *   accel_accumulate (acc, &err, model);     this one; others are averaged in each pass
 *
 * In all passes but the last, accel_backward() only adds to gradients and sends nothing, and accel_optimizer_step(),
 * accel_optimizer_zero_grad() and accel_scheduler_step() do nothing to what is prepared.  The last batch of the loader
 * that is running (the inner one of several) ends the step early, and counting begins again.
 *
 * accel_backward() has the loss divided by `num_steps` always: in a step that ends early, and without this function.
 * accel_clip_grad_norm() and accel_clip_grad_value() clip in every pass: ask accel_sync_gradients() first.
 *
 * Every process calls it; nothing is sent.
 *
 * @param err  before the models here, as C wants the variable part last; may be NULL
 * @retval ACCEL_ERR_INVALID  an object is no model, or was not prepared with @p acc; nothing has changed
 */
#define accel_accumulate(acc, ...) accel_accumulate_models ((acc), __VA_ARGS__, ACCEL_PREPARE_END)

/** accel_accumulate() for callers that are no C: ends the models with accel_prepare_end_mark(). */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_accumulate_models (struct accel *acc, struct accel_error *err, ...);

/** @return whether this pass is the last of its step: gradients are averaged, optimizers step.  At first it is true. */
ACCEL_API bool accel_sync_gradients (const struct accel *acc);

/** Decide it yourself, until the next accel_accumulate(): for optimizers and schedulers, not for the averaging. */
ACCEL_API void accel_set_sync_gradients (struct accel *acc, bool sync_gradients);

/**
 * Until accel_no_sync_end(), accel_backward() of @p model only adds to gradients and sends nothing; the next one behind
 * it averages all that was added.  May be nested.  Optimizers step as they would.
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_no_sync (struct accel *acc, struct accel_model *model, struct accel_error *err);

/** End the innermost accel_no_sync().  Without one: ACCEL_ERR_INVALID. */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_no_sync_end (struct accel *acc, struct accel_model *model, struct accel_error *err);

/** Have the next accel_backward() of @p model average all the same, within accel_no_sync() or accel_accumulate(). */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_trigger_sync_in_backward (struct accel *acc, struct accel_model *model, struct accel_error *err);

/** Processes that train on their own for a while, and then average their parameters: the original's LocalSGD. */
struct accel_local_sgd;

/**
 * From now on, until accel_local_sgd_end(), gradients of @p model are not averaged.  Models of one process, and
 * @p enabled false, train as they would without; the calls do nothing then.  Nothing is sent.
 *
 * @param model            prepared with @p acc; once it or @p acc is gone, local SGD's calls fail with
 *                         ACCEL_ERR_INVALID
 * @param local_sgd_steps  from one averaging of the parameters to the next; 0: ACCEL_ERR_INVALID
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_local_sgd_begin (struct accel_local_sgd **local_sgd, struct accel *acc, struct accel_model *model,
                       uint32_t local_sgd_steps, bool enabled, struct accel_error *err);

/**
 * Count a step, and average the parameters that are trained in each `local_sgd_steps`th call.  Call it behind
 * accel_optimizer_step().  Collective.
 */
#define accel_local_sgd_step(...) accel_local_sgd_step_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_local_sgd_step_at (const char *file, int line, struct accel_local_sgd *local_sgd, struct accel_error *err);

/**
 * Average the parameters, whatever was counted, and free @p local_sgd, also on failure; gradients are averaged again.
 * Accepts NULL.  Collective.
 */
#define accel_local_sgd_end(...) accel_local_sgd_end_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_local_sgd_end_at (const char *file, int line, struct accel_local_sgd *local_sgd, struct accel_error *err);

/**
 * @return the norm that the job was launched to clip gradients to, to be given to accel_clip_grad_norm(): the variable
 *         ACCELERATE_GRADIENT_CLIPPING as it was at accel_open(); INFINITY, which clips nothing, where it says nothing
 */
ACCEL_API double accel_gradient_clipping (const struct accel *acc);

/**
 * The end of training: running loaders stop, a recording of accel_profile_start() is written, and all have come here.
 * What is prepared stays, to be read, saved and destroyed; accel_close() leaves the job.  Collective.
 */
#define accel_end_training(...) accel_end_training_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_end_training_at (const char *file, int line, struct accel *acc, struct accel_error *err);

ACCEL_END_DECLS

#endif
