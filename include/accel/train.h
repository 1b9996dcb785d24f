/* SPDX-License-Identifier: Apache-2.0 */
/* Training: models as named parameters, optimizers, prepare and backward. */
#ifndef ACCEL_TRAIN_H
#define ACCEL_TRAIN_H

#include <accel/base.h>
#include <accel/loader.h>
#include <accel/state.h>
#include <accel/tensor.h>

ACCEL_BEGIN_DECLS

/**
 * A named parameter and its gradient, both described by tensors of the program that stay where they are as long as the
 * model lives.  Contiguous, host memory, the same shape.  Trained parameters and gradients are float32, float16 or
 * bfloat16, parameters also float8_e4m3fn or float8_e5m2; those of fewer than 32 bits get float32 masters
 * (precision.h).  Where `data->data` is NULL accel_model_create() allocates it, zeroed; where `grad->data` is NULL
 * accel_prepare() puts it into memory that all ranks have mapped, which is what makes averaging fast.  Both belong to
 * the model.  Neither address may be changed between accel_prepare() and accel_unwrap_model().
 */
struct accel_parameter {
    const char *name; /**< unique in its model; copied */
    DLTensor *data;
    DLTensor *grad; /**< NULL: a buffer, or a parameter that is not trained; `data` may then be of any element type */
};

/** Named parameters. */
struct accel_model;

/**
 * Describe a model.
 *
 * @param parameters  [count]; copied, but see struct accel_parameter
 * @retval ACCEL_ERR_INVALID      a name is missing or repeated, or a gradient's shape is not its parameter's
 * @retval ACCEL_ERR_UNSUPPORTED  a dtype that is not trained, memory not on the host, or a strided tensor
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_model_create (struct accel_model **model, const struct accel_parameter *parameters, size_t count,
                    struct accel_error *err);

/** Free @p model and the memory it allocated.  Optimizers over it then fail with ACCEL_ERR_INVALID.  Accepts NULL. */
ACCEL_API void accel_model_destroy (struct accel_model *model);

/** @return the number of parameters (tensors, not elements). */
ACCEL_API size_t accel_model_parameter_count (const struct accel_model *model);

/** @return parameter @p index in the order of creation, or NULL; owned by the model. */
ACCEL_API const struct accel_parameter *accel_model_parameter (const struct accel_model *model, size_t index);

/** What happens to gradients on their way to the other processes: the original's DDPCommunicationHookType. */
enum accel_comm_hook {
    ACCEL_COMM_HOOK_NONE,
    ACCEL_COMM_HOOK_FP16, /**< rounded to float16, divided, added up: torch's fp16_compress_hook */
    ACCEL_COMM_HOOK_BF16, /**< the same with bfloat16 */
    ACCEL_COMM_HOOK_POWER_SGD, /**< matrices of low rank (T. Vogels et al., PowerSGD, NeurIPS 2019) */
};

/** Whether gradients are averaged while the backward pass goes on, by a thread of the library. */
enum accel_overlap {
    ACCEL_OVERLAP_AUTO, /**< where this process has more than one CPU to itself */
    ACCEL_OVERLAP_ALWAYS,
    ACCEL_OVERLAP_NEVER,
};

/** The original's DistributedDataParallelKwargs.  0 is each field's default (ACCEL_ZERO, for start_iter ACCEL_NONE, is
 * 0); but for `overlap` equal on all ranks. */
struct accel_ddp_options {
    double bucket_cap_mb; /**< MiB of gradients that are averaged at once; 0: 25.  The first bucket has 1 at most */
    bool find_unused_parameters; /**< a pass need not report all gradients to accel_grad_ready() */
    bool broadcast_buffers;      /**< copy rank 0's untrained tensors to all after each averaged pass (the original's
                                      default, which can tell buffers from frozen parameters) */
    enum accel_overlap overlap;
    enum accel_comm_hook comm_hook;
    /* torch's PowerSGDState, for ACCEL_COMM_HOOK_POWER_SGD. */
    unsigned matrix_approximation_rank; /**< 0: 1 */
    unsigned start_iter;                /**< averaged passes without compression before; 0: 1000 */
    double min_compression_rate;        /**< matrices that shrink by less stay whole; 0: 2 */
    bool no_error_feedback;             /**< use_error_feedback=False */
    bool no_warm_start;                 /**< warm_start=False */
};

/**
 * Say how the gradients of @p model are averaged; before accel_prepare().  Without this call all is default.
 *
 * @param options  copied
 * @retval ACCEL_ERR_INVALID  a value is none, or the model is prepared already
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_model_set_ddp (struct accel_model *model, const struct accel_ddp_options *options, struct accel_error *err);

/** Changes parameters by their gradients. */
struct accel_optimizer;

/** Yes or no in a parameter group, or what the optimizer's own options say. */
enum accel_flag {
    ACCEL_FLAG_DEFAULT,
    ACCEL_FLAG_YES,
    ACCEL_FLAG_NO,
};

/**
 * A parameter group: parameters of one model that an optimizer changes with numbers of their own, torch's
 * `param_groups`.  Give the groups to the optimizer in its options:
 *
 *   .weight_decay = 0.1,
 *   .groups = (struct accel_param_group[]){ { .match = "*.bias,ln_*", .weight_decay = ACCEL_ZERO } }, .group_count = 1
 *
 * `match`, `parameters` and `indices` choose the parameters, and may be combined.  A group without any of them takes
 * the parameters that no other group has chosen; there may be one such group, at any place.  Without it, these
 * parameters form one more group after the others, named "rest", with the optimizer's own numbers.  (In torch,
 * parameters in no group are not trained: say so with `.skip` in a group that takes the rest.)
 *
 * A number that is 0 is the one in the optimizer's options; ACCEL_ZERO is 0.
 */
struct accel_param_group {
    const char *name; /**< for messages, schedulers and look-up; NULL: `match`, or its position: "0" */
    const char *match; /**< names of parameters as fnmatch(3) patterns, separated by commas; `*` matches dots too */
    const char *const *parameters; /**< [parameter_count] names */
    size_t parameter_count;
    const size_t *indices; /**< [index_count] positions in the model */
    size_t index_count;
    bool skip; /**< leave these parameters to another optimizer: they are not changed, nothing is remembered of them */
    double lr;
    double weight_decay;
    double beta1;     /**< Adam, AdamW, Lion */
    double beta2;     /**< Adam, AdamW, Lion */
    double eps;       /**< Adam, AdamW */
    double momentum;  /**< SGD */
    double dampening; /**< SGD */
    enum accel_flag nesterov; /**< SGD */
    enum accel_flag amsgrad;  /**< Adam, AdamW */
    enum accel_flag maximize; /**< SGD, Adam, AdamW */
};

/** torch.optim.SGD.  0 is each field's default there, except for lr, which must be given (ACCEL_ZERO for 0), here or in
 * every group. */
struct accel_sgd {
    double lr;
    double momentum;
    double dampening;
    double weight_decay;
    bool nesterov;
    bool maximize;
    const struct accel_param_group *groups; /**< [group_count]; copied.  None: all parameters are one group, "all" */
    size_t group_count;
};

/** torch.optim.AdamW.  0 means torch's default for lr (1e-3), beta1 (0.9), beta2 (0.999) and eps (1e-8), where
 * ACCEL_ZERO is 0. */
struct accel_adamw {
    double lr;
    double beta1;
    double beta2;
    double eps;
    double weight_decay; /**< as given: 0 is none; torch's own default is ACCEL_ADAMW_WEIGHT_DECAY */
    bool amsgrad;
    bool maximize;
    const struct accel_param_group *groups; /**< [group_count]; copied */
    size_t group_count;
};

#define ACCEL_ADAMW_WEIGHT_DECAY 0.01

/**
 * Make an SGD optimizer over all trained parameters of @p model.
 *
 * @retval ACCEL_ERR_INVALID  a number out of range; a parameter in two groups; a pattern or a name that no trained
 *                            parameter has; a group without parameters; a number that this kind of optimizer has not
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_sgd_create (struct accel_optimizer **optimizer, struct accel_model *model, const struct accel_sgd *options,
                  struct accel_error *err);

/** Make an AdamW optimizer.  @param options  NULL: torch's defaults, weight decay included */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_adamw_create (struct accel_optimizer **optimizer, struct accel_model *model, const struct accel_adamw *options,
                    struct accel_error *err);

/** Free @p optimizer and its state.  Accepts NULL. */
ACCEL_API void accel_optimizer_destroy (struct accel_optimizer *optimizer);

/**
 * Change the parameters by their gradients; for those of fewer than 32 bits their masters, and then them.  Does nothing
 * while gradients are accumulated.
 *
 * Collective under fp16, after accel_prepare(): unscales the gradients, unless clipping has done it.  Where one is
 * infinite or NaN on some process, no process changes anything.  Then the scale of the next loss is decided.
 */
#define accel_optimizer_step(...) accel_optimizer_step_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_optimizer_step_at (const char *file, int line, struct accel_optimizer *optimizer, struct accel_error *err);

/**
 * Set the gradients of the optimizer's parameters to zero: all of its model's, except for groups with `skip`.  A prepared
 * optimizer does nothing while gradients are accumulated.
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_optimizer_zero_grad (struct accel_optimizer *optimizer, struct accel_error *err);

/** @return the learning rate of the next step; with several groups, that of the first. */
ACCEL_API double accel_optimizer_lr (const struct accel_optimizer *optimizer);

/** Set the learning rate of the next step, in all groups; accel_optimizer_set_group_lr() sets that of one. */
ACCEL_API void accel_optimizer_set_lr (struct accel_optimizer *optimizer, double lr);

/**
 * Make models, optimizers, loaders and schedulers work over all processes; any number of them in any order.  NULLs are
 * passed over, and an object that is prepared already stays as it is.  Collective.
 *
 *   accel_prepare (acc, &err, model, optimizer, loader)
 *
 * Models: names, shapes, dtypes and which gradients have memory are compared over the ranks, parameters are copied from
 * rank 0, and gradients without memory get it.  Loaders: data, fields, options and position are compared over the ranks
 * (but for workers, prefetch and timeout_ms, and for the number of samples where only rank 0 reads); from now on each
 * process sees its own batches.  Optimizers and schedulers: their kinds and numbers are compared over the ranks.
 *
 * @param err  before the objects here, as C wants the variable part last; may be NULL
 * @retval ACCEL_ERR_INVALID  the ranks' objects differ, `text` names the first difference; or an object belongs to
 *                            another `acc`.  Objects before the one that failed are prepared
 */
#define accel_prepare(acc, err, ...) accel_prepare_at (ACCEL_HERE, (acc), (err), __VA_ARGS__, ACCEL_PREPARE_END)
#define ACCEL_PREPARE_END accel_prepare_end_mark ()
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_prepare_at (const char *file, int line, struct accel *acc, struct accel_error *err, ...);

/** @return the address that ends the objects of accel_prepare(); the macro's business. */
ACCEL_API void *accel_prepare_end_mark (void);

/**
 * Undo accel_prepare() for @p model: gradients that it put into shared memory move, with what they are, into memory of
 * the model's own, and the model can be trained by itself, or be prepared again.  Optimizers over it go on.  A model
 * that is not prepared stays as it is.  Not collective, but all processes should do it.
 *
 * @retval ACCEL_ERR_INVALID  @p model belongs to another `acc`, or is in its backward pass
 * @retval ACCEL_ERR_NOMEM    nothing has changed
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_unwrap_model (struct accel *acc, struct accel_model *model, struct accel_error *err);

/**
 * Forget all that was prepared with @p acc: models as by accel_unwrap_model(), loaders go through all of their data
 * again, optimizers and schedulers work by themselves.  Nothing is destroyed.  Not collective, but all processes should
 * do it.
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_free_memory (struct accel *acc, struct accel_error *err);

/**
 * The program's backward pass: add the gradients of `scale` times its loss to the parameters' gradients.
 * On failure return a status and fill `err`.
 *
 * It may tell accel_grad_ready() of each gradient that is complete, in any order.
 */
typedef enum accel_status (*accel_backward_function) (void *user, float scale, struct accel_error *err);

/**
 * Within the program's backward pass: the gradient of parameter @p index is complete and will not be touched until
 * accel_backward() returns.  When all gradients of a bucket are, its average begins, while the pass goes on.  In which
 * order gradients come does not matter to the result.  From the first of these calls to the end of an averaged pass no
 * collective may be called: ACCEL_ERR_INVALID.
 *
 * A pass that reports none has them all averaged in the end; one that reports some has to report all, unless
 * `find_unused_parameters` allows otherwise.  Then those that were not reported count as zeros here; what no process
 * has reported stays as it is on all.
 *
 * May be called by any thread that the program's backward function waits for.
 *
 * @return what accel_backward() will return as well, if the pass goes on regardless: a gradient that is reported twice,
 *         or none; or a peer that failed
 */
ACCEL_API enum accel_status
accel_grad_ready (struct accel_model *model, size_t index, struct accel_error *err);

/**
 * Run the program's backward pass and average the gradients over all processes.  Collective.
 * While gradients are accumulated nothing is averaged: see accel_accumulate().
 *
 * @param loss  this process's loss, for messages and for what later needs it
 * @retval ACCEL_ERR_CALLBACK  @p backward failed here; the peers get ACCEL_ERR_PEER with this rank and its message
 */
#define accel_backward(...) accel_backward_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_backward_at (const char *file, int line, struct accel *acc, struct accel_model *model, float loss,
                   accel_backward_function backward, void *user, struct accel_error *err);

/**
 * @return what accel_backward() hands on as `scale`: accel_accumulation_scale() times accel_scaler_scale().  Multiply
 *         the loss by it where gradients are computed, and not where the loss is shown
 */
ACCEL_API float accel_loss_scale (const struct accel *acc);

/** @return 1 / num_steps of gradient accumulation: what turns the sum of the passes' gradients into their mean. */
ACCEL_API float accel_accumulation_scale (const struct accel *acc);

/** @return the scale of the loss under fp16, which steps and clipping take out of the gradients again; 1 elsewhere. */
ACCEL_API float accel_scaler_scale (const struct accel *acc);

/**
 * For programs whose backward pass is no function: call it behind each pass, whose gradients are those of
 * accel_loss_scale() times the loss.  Does what accel_backward() does behind one that reports none: averages over all
 * processes, or nothing while gradients are accumulated.  Collective.
 *
 * @retval ACCEL_ERR_INVALID  @p model is not prepared with @p acc, or in its backward pass
 */
#define accel_average_gradients(...) accel_average_gradients_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_average_gradients_at (const char *file, int line, struct accel *acc, struct accel_model *model,
                            struct accel_error *err);

/**
 * From now on, until accel_join_end(), processes may make different numbers of steps with prepared models: one that has
 * no data left calls accel_join_end(), where it takes part in the averaging of the others' gradients with gradients of
 * zero.  Averages are over all processes, those that have ended too, as torch's Join has it.  Every process must call
 * this; nothing is sent.
 *
 * Other collectives between these two calls still need every process.
 *
 * @param even  what prepared loaders do about their last round from their next pass on, but for dispatching ones
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_join_uneven_inputs (struct accel *acc, enum accel_join_even even, struct accel_error *err);

/**
 * Take part in the others' steps until none has data left.  Then all have the parameters of a process that made the
 * most steps, who had to wait has gradients of zero, and loaders do again what they were made for.  What optimizers
 * remember stays each process's own, as in torch.  Collective.
 */
#define accel_join_end(...) accel_join_end_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_join_end_at (const char *file, int line, struct accel *acc, struct accel_error *err);

ACCEL_END_DECLS

#endif
