/* SPDX-License-Identifier: Apache-2.0 */
/* Custom optimizers, the state of optimizers, and clipping. */
#ifndef ACCEL_OPTIMIZER_H
#define ACCEL_OPTIMIZER_H

#include <accel/base.h>
#include <accel/tensor.h>
#include <accel/train.h>

ACCEL_BEGIN_DECLS

/** One parameter in one step of a custom optimizer. */
struct accel_update {
    size_t index; /**< of the parameter in its model */
    const struct accel_parameter *parameter; /**< `data` is float32 (the master, if it has fewer bits);
                                              `grad` has its own type */
    DLTensor *const *states; /**< [state_count], in the order of their names; contiguous float32, host memory */
    float grad_scale; /**< factor for elements of `grad`: 1, except for 16-bit gradients in fp16 */
    double lr;               /**< of its group; set by accel_optimizer_set_lr() or a scheduler */
    uint64_t step;           /**< 1 in the first step, 0 in `init` */
    const struct accel_param_group *group; /**< its group's numbers, as from accel_optimizer_get_group() */
};

#define ACCEL_STATE_DIMS 8

/** A custom optimizer.  Callbacks that fail return a status and fill in `err`. */
struct accel_custom_optimizer {
    double lr;                       /**< required, here or in every group; ACCEL_ZERO for 0 */
    const char *const *state_names;  /**< [state_count]; copied.  The state of each parameter, initially zero */
    size_t state_count;
    /**
     * The shape of state @p state of @p parameter: set @p ndim and @p shape.  NULL: all states have their parameter's
     * shape.
     *
     * @param[out] shape  [ACCEL_STATE_DIMS]
     */
    enum accel_status (*shape) (void *user, const struct accel_parameter *parameter, size_t state, int *ndim,
                                int64_t *shape, struct accel_error *err);
    /** Initialize the states of one parameter, once, before the optimizer is returned.  NULL: they stay zero. */
    enum accel_status (*init) (void *user, const struct accel_update *update, struct accel_error *err);
    /** Update one parameter.  Called for each trained parameter in each step, in the order of the model. */
    enum accel_status (*step) (void *user, const struct accel_update *update, struct accel_error *err);
    void (*destroy) (void *user); /**< free @p user; called once, even if creation fails.  May be NULL */
    void *user;
    const struct accel_param_group *groups; /**< [group_count]; copied.  All of their numbers can be used */
    size_t group_count;
};

/**
 * Create a custom optimizer.
 *
 * @retval ACCEL_ERR_INVALID   no step function, no learning rate, a missing or duplicate name, or an invalid shape
 * @retval ACCEL_ERR_CALLBACK  `shape` or `init` failed
 */
#define accel_optimizer_create_custom(...)                                          \
    accel_optimizer_create_custom_sized (sizeof (struct accel_custom_optimizer),    \
                                         sizeof (struct accel_param_group), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_optimizer_create_custom_sized (size_t options_size, size_t group_size, struct accel_optimizer **optimizer,
                                     struct accel_model *model, const struct accel_custom_optimizer *options,
                                     struct accel_error *err);

/**
 * @return the name of state tensor @p state of those that @p optimizer keeps per parameter, torch's if torch has it
 *         ("exp_avg"); NULL if there are not so many.  Some groups may need fewer
 */
ACCEL_API const char *accel_optimizer_state_name (const struct accel_optimizer *optimizer, size_t state);

/**
 * @return the state tensor @p name of parameter @p parameter: contiguous float32 on the device of the model, which may
 *         be read and written between steps, and moves only with the model (accel_prepare()); NULL if there is none of
 *         that name, if its group does not need it, if the parameter is not trained, or if this process has only a part
 *         of it on a GPU (accel_model_set_sharding())
 */
ACCEL_API DLTensor *accel_optimizer_state_tensor (struct accel_optimizer *optimizer, size_t parameter,
                                                  const char *name);

/** Returned by accel_optimizer_find_group() if there is no group. */
#define ACCEL_NO_GROUP SIZE_MAX

/** @return the number of parameter groups, >= 1, including "rest" if it was added. */
ACCEL_API size_t accel_optimizer_group_count (const struct accel_optimizer *optimizer);

/** @return the position of the group named @p name, or ACCEL_NO_GROUP. */
ACCEL_API size_t accel_optimizer_find_group (const struct accel_optimizer *optimizer, const char *name);

/**
 * Get the current numbers of group @p group, and its parameters: `indices` (ascending) and `name` belong to
 * @p optimizer; `match` and `parameters` are NULL.  Numbers that are 0 are given as ACCEL_ZERO, and flags as YES or NO,
 * so that @p numbers can be passed to accel_optimizer_set_group().
 */
#define accel_optimizer_get_group(...) accel_optimizer_get_group_sized (sizeof (struct accel_param_group), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_optimizer_get_group_sized (size_t numbers_size, const struct accel_optimizer *optimizer, size_t group,
                                 struct accel_param_group *numbers, struct accel_error *err);

/**
 * Change the numbers of group @p group, starting with the next step.  Those that are 0, and flags that are
 * ACCEL_DEFAULT, are left unchanged.  A group keeps its name and its parameters: these fields are ignored.
 *
 * @retval ACCEL_ERR_INVALID  a number is out of range, or needs state that the group was created without (amsgrad, or a
 *                            momentum); nothing has changed
 */
#define accel_optimizer_set_group(...) accel_optimizer_set_group_sized (sizeof (struct accel_param_group), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_optimizer_set_group_sized (size_t numbers_size, struct accel_optimizer *optimizer, size_t group,
                                 const struct accel_param_group *numbers, struct accel_error *err);

/** @return whether the last step was skipped: gradients were infinite or NaN in fp16, or there was an outlier. */
ACCEL_API bool accel_optimizer_step_was_skipped (const struct accel_optimizer *optimizer);

/**
 * @return the number of steps taken; with the states and the groups' numbers, it is the complete state of an optimizer.
 */
ACCEL_API uint64_t accel_optimizer_step_count (const struct accel_optimizer *optimizer);

/** Continue as if @p steps steps had been taken. */
ACCEL_API void accel_optimizer_set_step_count (struct accel_optimizer *optimizer, uint64_t steps);

/** How norms are computed and shared; 0 is each field's default, and ACCEL_ZERO means 0. */
struct accel_clip_options {
    double norm_type; /**< p: 1 or more, or INFINITY for the largest magnitude; ACCEL_ZERO: how many are not 0; 0: 2 */
    bool error_if_nonfinite; /**< refuse a norm that is infinite or NaN; the message names the step and the first such
                                  gradient with its element and rank */
    /** More models under one common norm, such as a decoder beside its encoder: all different, and all prepared with
     *  the same `acc`, or none of them prepared. */
    struct accel_model *const *others;
    size_t other_count; /**< 0: the model alone */
};

/**
 * Scale all gradients of @p model so that their norm is at most @p max_norm: torch.nn.utils.clip_grad_norm_.  The norm
 * is the p-norm of the p-norms of the individual gradients.  Gradients that accel_backward() has averaged are the same
 * on all processes, so nothing is sent.  While gradients are accumulated, it clips what has been accumulated so far,
 * like Accelerate: clip only if accel_sync_gradients() is true.
 *
 * In fp16, collective after accel_prepare(): unscales the gradients first.  While gradients are accumulated, they stay
 * scaled and unchanged, and `norm` is the norm without the scale.  If several optimizers share the model, clip before
 * the first of them steps: after that step, clipping would unscale the gradients a second time.
 *
 * If the norm is infinite, finite gradients become 0 and infinite ones NaN; if it is NaN, all become NaN.
 *
 * @param[out] norm  before clipping; may be NULL
 * @param options    may be NULL
 * @retval ACCEL_ERR_INVALID  the norm was refused (gradients, except for unscaling, and `norm` are unchanged),
 *                            gradients have no memory, or a number is out of range
 */
#define accel_clip_grad_norm(...) \
    accel_clip_grad_norm_at (ACCEL_HERE, sizeof (struct accel_clip_options), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_clip_grad_norm_at (const char *file, int line, size_t options_size, struct accel_model *model, double max_norm,
                         float *norm, const struct accel_clip_options *options, struct accel_error *err);

/**
 * Limit each element of all gradients of @p model to [-clip_value, clip_value]; NaN stays NaN.  Collective in fp16,
 * like accel_clip_grad_norm(), and like it changes nothing in fp16 while gradients are accumulated.
 */
#define accel_clip_grad_value(...) accel_clip_grad_value_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_clip_grad_value_at (const char *file, int line, struct accel_model *model, double clip_value,
                          struct accel_error *err);

/** What accel_outlier_watch() watches, and what follows. */
enum accel_outlier {
    ACCEL_OUTLIER_LOSS,    /**< losses passed to accel_outlier_loss() */
    ACCEL_OUTLIER_NORM,    /**< norms of gradients that accel_clip_grad_norm() computes */
    ACCEL_OUTLIER_SKIPPED, /**< steps that were skipped, of each optimizer */
};

/** How outliers are found; 0 is each field's default, and ACCEL_ZERO means 0.  All must be equal on all ranks. */
struct accel_outlier_options {
    uint64_t window;    /**< a value is compared with so many before it: 2 to 2^20; 0: 128 */
    double loss_zscore; /**< an outlier is more standard deviations above the mean of the window than this; 0: 7 */
    double norm_zscore; /**< the same of norms; 0: 7 */
    bool skip_steps;    /**< after an outlier, each prepared optimizer skips its next step */
};

/**
 * From now on, find losses and norms of gradients that jump: llm.c's outlier detector.  Each outlier is counted and
 * logged as a warning with its step.  A value that is infinite or NaN is an outlier at once, the others only when the
 * window is full.  (In fp16, norms that are infinite or NaN do not count: the scaler skips their steps.)  Finite values
 * enter the window, also outliers.  Checkpoints contain the windows if this is called before they are saved and loaded.
 *
 * With skip_steps, accel_optimizer_step() changes nothing once, and accel_optimizer_step_was_skipped() is true, so a
 * prepared scheduler waits, too.  All ranks decide alike, because they decide on the same values.
 *
 * Not collective.  Calling it again begins with empty windows.
 *
 * @param options  may be NULL
 * @retval ACCEL_ERR_INVALID  a number is out of range
 */
#define accel_outlier_watch(...) accel_outlier_watch_sized (sizeof (struct accel_outlier_options), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_outlier_watch_sized (size_t options_size, struct accel *acc, const struct accel_outlier_options *options,
                           struct accel_error *err);

/**
 * The loss of this process in this step, or in one of its passes; the mean of all processes is what is looked at.  Call
 * it before accel_optimizer_step().  Collective; not while inputs are joined (accel_join_uneven_inputs()).
 *
 * @param[out] mean  of all processes, the same on all; may be NULL
 * @retval ACCEL_ERR_INVALID  accel_outlier_watch() has not been called
 */
#define accel_outlier_loss(...) accel_outlier_loss_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_outlier_loss_at (const char *file, int line, struct accel *acc, double loss, double *mean,
                       struct accel_error *err);

/**
 * Get what has been found so far.
 *
 * @param[out] count   how many outliers of @p kind there have been, or steps that were skipped; may be NULL
 * @param[out] zscore  how far the latest loss or norm was above the mean of the window before it, in standard
 *                     deviations; 0 if the window was not full; infinite or NaN if the value was; may be NULL
 */
ACCEL_API void accel_outlier_get (const struct accel *acc, enum accel_outlier kind, uint64_t *count, double *zscore);

ACCEL_END_DECLS

#endif
