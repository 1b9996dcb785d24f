/* SPDX-License-Identifier: Apache-2.0 */
/* More optimizers than train.h has, the program's own, what they remember, and clipping. */
#ifndef ACCEL_OPTIMIZER_H
#define ACCEL_OPTIMIZER_H

#include <accel/base.h>
#include <accel/tensor.h>
#include <accel/train.h>

ACCEL_BEGIN_DECLS

/** torch.optim.Adam.  0 means torch's default for lr (1e-3), beta1 (0.9), beta2 (0.999) and eps (1e-8), where
 * ACCEL_ZERO is 0. */
struct accel_adam {
    double lr;
    double beta1;
    double beta2;
    double eps;
    double weight_decay; /**< added to the gradient, times the parameter */
    bool amsgrad;
    bool maximize;
    const struct accel_param_group *groups; /**< [group_count]; copied */
    size_t group_count;
};

/** Lion (Chen et al., "Symbolic Discovery of Optimization Algorithms").  0 means lr 1e-4, beta1 0.9, beta2 0.99, where
 * ACCEL_ZERO is 0. */
struct accel_lion {
    double lr;
    double beta1;
    double beta2;
    double weight_decay; /**< decoupled, as AdamW's */
    const struct accel_param_group *groups; /**< [group_count]; copied */
    size_t group_count;
};

/** Make an Adam optimizer.  @param options  NULL: torch's defaults */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_adam_create (struct accel_optimizer **optimizer, struct accel_model *model, const struct accel_adam *options,
                   struct accel_error *err);

/** Make a Lion optimizer.  @param options  NULL: the defaults */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_lion_create (struct accel_optimizer **optimizer, struct accel_model *model, const struct accel_lion *options,
                   struct accel_error *err);

/** One parameter in one step of an optimizer of the program's own. */
struct accel_update {
    size_t index; /**< of the parameter in its model */
    const struct accel_parameter *parameter; /**< `data` is float32: the master, where it is of fewer bits;
                                              `grad` is of its own type */
    DLTensor *const *states; /**< [state_count], in the order of their names; contiguous float32, host memory */
    float grad_scale; /**< to multiply elements of `grad` by: 1, but for gradients of 16 bits under fp16 */
    double lr;               /**< of its group: what accel_optimizer_set_lr() or a scheduler set */
    uint64_t step;           /**< 1 in the first step, 0 in `init` */
    const struct accel_param_group *group; /**< the numbers of its group, as accel_optimizer_get_group() gives them */
};

#define ACCEL_STATE_DIMS 8

/** An optimizer of the program's own.  Callbacks that fail return a status and fill `err`. */
struct accel_custom_optimizer {
    double lr;                       /**< must be given, here or in every group; ACCEL_ZERO for 0 */
    const char *const *state_names;  /**< [state_count]; copied.  What is remembered of each parameter, zero at first */
    size_t state_count;
    /**
     * The shape of state @p state of @p parameter: set @p ndim and @p shape.  NULL: all have their parameter's.
     *
     * @param[out] shape  [ACCEL_STATE_DIMS]
     */
    enum accel_status (*shape) (void *user, const struct accel_parameter *parameter, size_t state, int *ndim,
                                int64_t *shape, struct accel_error *err);
    /** Set the states of one parameter, once, before accel_custom_create() returns.  NULL: they stay zero. */
    enum accel_status (*init) (void *user, const struct accel_update *update, struct accel_error *err);
    /** Change one parameter.  Called for each trained parameter in each step, in the order of the model. */
    enum accel_status (*step) (void *user, const struct accel_update *update, struct accel_error *err);
    void (*destroy) (void *user); /**< free @p user; called once, also where creation fails.  May be NULL */
    void *user;
    const struct accel_param_group *groups; /**< [group_count]; copied.  All of their numbers may be used */
    size_t group_count;
};

/**
 * Make an optimizer of the program's own.
 *
 * @retval ACCEL_ERR_INVALID   no step function, no learning rate, a name that is missing or there twice, or a bad shape
 * @retval ACCEL_ERR_CALLBACK  `shape` or `init` failed
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_custom_create (struct accel_optimizer **optimizer, struct accel_model *model,
                     const struct accel_custom_optimizer *options, struct accel_error *err);

/** @return how many tensors @p optimizer remembers of a parameter, at most: groups may need fewer. */
ACCEL_API size_t accel_optimizer_state_count (const struct accel_optimizer *optimizer);

/** @return the name of the tensor @p state, torch's where torch has one ("exp_avg"); NULL: there are not so many. */
ACCEL_API const char *accel_optimizer_state_name (const struct accel_optimizer *optimizer, size_t state);

/**
 * @return what @p optimizer remembers as @p name of parameter @p parameter: contiguous float32 in host memory, which
 *         may be read and written between steps and stays where it is; NULL: nothing of that name, or not trained
 */
ACCEL_API DLTensor *accel_optimizer_state_tensor (struct accel_optimizer *optimizer, size_t parameter,
                                                  const char *name);

/** @return the same by the parameter's name; NULL also where no parameter has that name. */
ACCEL_API DLTensor *accel_optimizer_state_by_name (struct accel_optimizer *optimizer, const char *parameter,
                                                   const char *name);

/** What accel_optimizer_find_group() and accel_optimizer_group_of() return where there is no group. */
#define ACCEL_NO_GROUP SIZE_MAX

/** @return the number of parameter groups, >= 1: those that were given, and "rest" if it was added. */
ACCEL_API size_t accel_optimizer_group_count (const struct accel_optimizer *optimizer);

/** @return the name of group @p group, unique in its optimizer and owned by it; NULL: there are not so many. */
ACCEL_API const char *accel_optimizer_group_name (const struct accel_optimizer *optimizer, size_t group);

/** @return the position of the group named @p name, or ACCEL_NO_GROUP. */
ACCEL_API size_t accel_optimizer_find_group (const struct accel_optimizer *optimizer, const char *name);

/** @return the group of parameter @p parameter of the model; ACCEL_NO_GROUP where it is not trained. */
ACCEL_API size_t accel_optimizer_group_of (const struct accel_optimizer *optimizer, size_t parameter);

/** @return the learning rate of group @p group in the next step; 0: there is no such group. */
ACCEL_API double accel_optimizer_group_lr (const struct accel_optimizer *optimizer, size_t group);

/**
 * Set the learning rate of one group.
 *
 * @retval ACCEL_ERR_INVALID  there is no such group
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_optimizer_set_group_lr (struct accel_optimizer *optimizer, size_t group, double lr, struct accel_error *err);

/**
 * Read the numbers that group @p group has now, and its parameters: `indices`, ascending, and `name` belong to
 * @p optimizer; `match` and `parameters` are NULL.  A number that is 0 is given as ACCEL_ZERO, and flags as YES or NO,
 * so that @p numbers can be handed to accel_optimizer_set_group() as it is.
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_optimizer_get_group (const struct accel_optimizer *optimizer, size_t group, struct accel_param_group *numbers,
                           struct accel_error *err);

/**
 * Change the numbers of group @p group from the next step on.  Those that are 0, and flags that are
 * ACCEL_FLAG_DEFAULT, stay as they are.  Its parameters and its name stay too; these fields are not read.
 *
 * @retval ACCEL_ERR_INVALID  a number is out of range, or needs tensors that the group was made without (amsgrad, or a
 *                            momentum); nothing has changed
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_optimizer_set_group (struct accel_optimizer *optimizer, size_t group, const struct accel_param_group *numbers,
                           struct accel_error *err);

/** @return whether the last step was skipped, for gradients that were infinite or NaN under fp16. */
ACCEL_API bool accel_optimizer_step_was_skipped (const struct accel_optimizer *optimizer);

/** @return the number of steps done; with the states and the groups' numbers it is all that an optimizer remembers. */
ACCEL_API uint64_t accel_optimizer_step_count (const struct accel_optimizer *optimizer);

/** Go on as if @p steps steps had been done. */
ACCEL_API void accel_optimizer_set_step_count (struct accel_optimizer *optimizer, uint64_t steps);

/**
 * Use up to @p threads threads, the caller's among them, in steps over many elements; smaller ones are done by the
 * caller alone.  Results are the same.  At first it is what OMP_NUM_THREADS says, which accelerate launch sets to this
 * process's share of the cores, or 1.  Callbacks of the program are always called by the caller's thread.
 */
ACCEL_API void accel_optimizer_set_threads (struct accel_optimizer *optimizer, unsigned threads);

/**
 * Scale all gradients of @p model so that their norm is at most @p max_norm: torch.nn.utils.clip_grad_norm_.  That norm
 * is the p-norm of the p-norms of the single gradients.  Gradients that accel_backward() has averaged are the same on
 * all processes: nothing is sent.  While gradients are accumulated it clips what there is, as the original does: clip
 * where accel_sync_gradients().
 *
 * Collective under fp16, after accel_prepare(): unscales the gradients first.  While gradients are accumulated they
 * stay scaled and as they are, `norm` is that without the scale.
 *
 * Where the norm is infinite, finite gradients become 0 and infinite ones NaN; where it is NaN, all become NaN.
 *
 * @param[out] norm          before clipping; may be NULL
 * @param norm_type          p: 1 or more, INFINITY for the largest magnitude, or 0 for the number of elements not 0
 * @param error_if_nonfinite refuse a norm that is infinite or NaN
 * @retval ACCEL_ERR_INVALID such a norm (gradients, but for unscaling, and `norm` are untouched), gradients without
 *                           memory, or bad numbers
 */
#define accel_clip_grad_norm(...) accel_clip_grad_norm_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_clip_grad_norm_at (const char *file, int line, struct accel_model *model, double max_norm, float *norm,
                         double norm_type, bool error_if_nonfinite, struct accel_error *err);

/**
 * The same for several models that have one norm together, such as an encoder and a decoder with an optimizer each.
 *
 * @param models  [count] different models, all of them prepared with the same `acc`, or none
 */
#define accel_clip_grad_norm_models(...) accel_clip_grad_norm_models_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_clip_grad_norm_models_at (const char *file, int line, struct accel_model *const *models, size_t count,
                                double max_norm, float *norm, double norm_type, bool error_if_nonfinite,
                                struct accel_error *err);

/**
 * Move each element of all gradients of @p model into [-clip_value, clip_value]; NaN stays.  Collective under fp16, as
 * accel_clip_grad_norm(), and as little done while gradients are accumulated.
 */
#define accel_clip_grad_value(...) accel_clip_grad_value_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_clip_grad_value_at (const char *file, int line, struct accel_model *model, double clip_value,
                          struct accel_error *err);

ACCEL_END_DECLS

#endif
