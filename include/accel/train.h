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
 * A named parameter and its gradient.  Both are described by the program's tensors, which must stay in place as long as
 * the model lives: contiguous, the same shape, and all of a model on one device.  Trained parameters and gradients are
 * float32, float16 or bfloat16, parameters also float8_e4m3fn or float8_e5m2; those of fewer than 32 bits get float32
 * masters (precision.h).  If `data->data` is NULL, accel_model_create() allocates it, zeroed; if `grad->data` is NULL,
 * accel_prepare() allocates it, if it is not divided in memory that all ranks have mapped, which makes averaging fast.
 * Both then belong to the model.  Between accel_prepare() and accel_unwrap_model(), which may place the model on a GPU
 * and take it back, the program must not change `data->data`, `grad->data` or their devices.
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
 * @retval ACCEL_ERR_INVALID      a name is missing or duplicate, or a gradient and its parameter have different shapes
 * @retval ACCEL_ERR_UNSUPPORTED  a dtype that cannot be trained, tensors on several devices or on one that libaccel
 *                                has no code for, or a strided tensor
 */
#define accel_model_create(...) accel_model_create_sized (sizeof (struct accel_parameter), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_model_create_sized (size_t parameter_size, struct accel_model **model, const struct accel_parameter *parameters,
                          size_t count, struct accel_error *err);

/**
 * Free @p model and the memory it allocated.  Calls on its optimizers then fail with ACCEL_ERR_INVALID.  If
 * accel_prepare() has placed it on a GPU, the program's memory gets the values first, and its tensors point there
 * again.  Accepts NULL.
 */
ACCEL_API void accel_model_destroy (struct accel_model *model);

/** @return the number of parameters (tensors, not elements). */
ACCEL_API size_t accel_model_parameter_count (const struct accel_model *model);

/** @return parameter @p index in the order of creation, or NULL; owned by the model. */
ACCEL_API const struct accel_parameter *accel_model_parameter (const struct accel_model *model, size_t index);

/** A row of accel_model_initialize(). */
struct accel_initializer {
    const char *match; /**< parameter names as an fnmatch(3) pattern; `*` also matches dots; NULL: all */
    double mean;       /**< of a normal distribution */
    double std;        /**< its standard deviation; 0: each element is `mean`, and nothing is drawn */
};

/**
 * Give parameters their first values, before accel_prepare().  For each trained parameter, in the order of the model,
 * the first row that matches its name counts; a parameter that no row matches keeps its values.  Normal values are
 * those of accel_generator_fill_normal() in float32, then rounded to the parameter's type.
 *
 * @param rows       [count]
 * @param generator  equal on all ranks, if they are to have equal values before accel_prepare()
 * @retval ACCEL_ERR_INVALID  a row that matches no trained parameter, or has an invalid number; the model is prepared,
 *                            or has been sharded
 */
#define accel_model_initialize(...) accel_model_initialize_sized (sizeof (struct accel_initializer), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_model_initialize_sized (size_t row_size, struct accel_model *model, const struct accel_initializer *rows,
                              size_t count, struct accel_generator *generator, struct accel_error *err);

/** What is done to gradients before they are sent: Accelerate's DDPCommunicationHookType. */
enum accel_comm_hook {
    ACCEL_COMM_HOOK_NONE,
    ACCEL_COMM_HOOK_FP16, /**< round to float16, divide, add up: torch's fp16_compress_hook */
    ACCEL_COMM_HOOK_BF16, /**< the same with bfloat16 */
    ACCEL_COMM_HOOK_POWER_SGD, /**< low-rank matrices (T. Vogels et al., PowerSGD, NeurIPS 2019) */
};

/** Whether a thread of the library averages gradients while the backward pass is running. */
enum accel_overlap {
    ACCEL_OVERLAP_AUTO, /**< if this process has more than one CPU to itself, or its gradients are on a GPU */
    ACCEL_OVERLAP_ALWAYS,
    ACCEL_OVERLAP_NEVER,
};

/**
 * DistributedDataParallelKwargs of Hugging Face Accelerate.  0 is each field's default (ACCEL_ZERO, or ACCEL_NONE for
 * start_iter, means 0); all but `overlap` must be equal on all ranks.
 */
struct accel_ddp_options {
    double bucket_cap_mb; /**< MiB of gradients that are averaged together; 0: 25.  The first bucket has at most 1 */
    bool find_unused_parameters; /**< a pass need not report all gradients to accel_grad_ready() */
    bool broadcast_buffers;      /**< copy rank 0's untrained tensors to all after each averaged pass (Accelerate's
                                      default, because it can distinguish buffers from frozen parameters) */
    enum accel_overlap overlap;     /**< 0: ACCEL_OVERLAP_AUTO */
    enum accel_comm_hook comm_hook; /**< 0: ACCEL_COMM_HOOK_NONE */
    /* torch's PowerSGDState, for ACCEL_COMM_HOOK_POWER_SGD. */
    unsigned matrix_approximation_rank; /**< 0: 1 */
    unsigned start_iter;                /**< averaged passes before the first compressed one; 0: 1000 */
    double min_compression_rate;        /**< matrices that shrink by less are not compressed; 0: 2 */
    enum accel_flag use_error_feedback; /**< yes unless ACCEL_NO */
    enum accel_flag warm_start;         /**< yes unless ACCEL_NO */
    bool use_cublas; /**< on GPUs, PowerSGD multiplies by cuBLAS, whose sums have another order than the CPU's */
};

/**
 * Set how the gradients of @p model are averaged.  Call it before accel_prepare(); without it, everything has its
 * default.
 *
 * @param options  copied
 * @retval ACCEL_ERR_INVALID  an invalid value, or the model is already prepared
 */
#define accel_model_set_ddp(...) accel_model_set_ddp_sized (sizeof (struct accel_ddp_options), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_model_set_ddp_sized (size_t options_size, struct accel_model *model, const struct accel_ddp_options *options,
                           struct accel_error *err);

/** Updates parameters from their gradients. */
struct accel_optimizer;

/**
 * A parameter group: some parameters of a model, with their own learning rate, weight decay, etc.; torch's
 * `param_groups`.  Pass groups in the options of an optimizer:
 *
 *   .weight_decay = 0.1,
 *   .groups = (struct accel_param_group[]){
 *       { .match = "*.bias,ln_*", .weight_decay = ACCEL_ZERO },
 *   },
 *   .group_count = 1,
 *
 * `match`, `parameters` and `indices` select the parameters; they can be combined.  `min_ndim` leaves out those with
 * fewer dimensions; alone, it selects those with enough dimensions that no other group selects, an earlier `min_ndim`
 * included.  So weight decay for matrices only is
 *
 *   .weight_decay = ACCEL_ZERO,
 *   .groups = (struct accel_param_group[]){
 *       { .min_ndim = 2, .weight_decay = 0.1 },
 *   },
 *   .group_count = 1,
 *
 * A group with none of them gets all parameters that no other group selects; there can be one such group, in any
 * position.  If there is none, these parameters form an additional last group named "rest", with the numbers of the
 * optimizer's options.  (torch does not train parameters that are in no group.  To do the same, set `skip` in a group
 * that gets the rest.)
 *
 * A number that is 0 comes from the optimizer's options; use ACCEL_ZERO for 0.
 */
struct accel_param_group {
    const char *name;  /**< for messages, schedulers and look-up; NULL: `match`, or the group's position, such as "0" */
    const char *match; /**< parameter names as fnmatch(3) patterns, separated by commas; `*` also matches dots */
    const char *const *parameters; /**< [parameter_count] names */
    size_t parameter_count;
    const size_t *indices; /**< [index_count] positions in the model */
    size_t index_count;
    bool skip; /**< leave these parameters to another optimizer: do not update them, and keep no state for them */
    double lr;        /**< all */
    double weight_decay; /**< all */
    double beta1;     /**< Adam, AdamW, Lion */
    double beta2;     /**< Adam, AdamW, Lion */
    double eps;       /**< Adam, AdamW, Adagrad, RMSprop */
    double momentum;  /**< SGD, RMSprop */
    double dampening; /**< SGD */
    double alpha;     /**< RMSprop */
    double lr_decay;  /**< Adagrad */
    double initial_accumulator_value; /**< Adagrad */
    enum accel_flag nesterov; /**< SGD */
    enum accel_flag amsgrad;  /**< Adam, AdamW */
    enum accel_flag centered; /**< RMSprop */
    enum accel_flag maximize; /**< all but Lion */
    uint64_t min_ndim; /**< only parameters with at least so many dimensions; 0: any */
};

/** The optimizers of torch.optim with these names, and Lion (Chen et al., "Symbolic Discovery of Optimization
 *  Algorithms").  accel_optimizer_create_custom() makes others. */
enum accel_optimizer_kind {
    ACCEL_SGD,
    ACCEL_ADAM,
    ACCEL_ADAMW,
    ACCEL_LION,
    ACCEL_ADAGRAD,
    ACCEL_RMSPROP,
    ACCEL_OPTIMIZER_KINDS, /**< how many there are */
};

/**
 * What accel_optimizer_create() needs to know.  A field that is 0 has torch's default for this kind; ACCEL_ZERO means
 * 0.  A field that the kind does not have must stay 0.
 *
 *   kind     its numbers, with defaults other than 0
 *   SGD      lr (required), weight_decay, momentum, dampening
 *   Adam     lr 1e-3, weight_decay, beta1 0.9, beta2 0.999, eps 1e-8
 *   AdamW    lr 1e-3, weight_decay 0.01, beta1 0.9, beta2 0.999, eps 1e-8
 *   Lion     lr 1e-4, weight_decay, beta1 0.9, beta2 0.99
 *   Adagrad  lr 1e-2, weight_decay, eps 1e-10, lr_decay,
 *            initial_accumulator_value
 *   RMSprop  lr 1e-2, weight_decay, eps 1e-8, momentum, alpha 0.99
 *
 * Weight decay is decoupled from the gradient in AdamW and Lion, and added to it in the others.
 */
struct accel_optimizer_options {
    double lr; /**< SGD needs it, here or in every group */
    double weight_decay;
    double beta1;
    double beta2;
    double eps;
    double momentum;
    double dampening;
    double alpha;
    double lr_decay;
    double initial_accumulator_value;
    enum accel_flag nesterov; /**< SGD: false unless ACCEL_YES */
    enum accel_flag amsgrad;  /**< Adam, AdamW: the same */
    enum accel_flag centered; /**< RMSprop: the same */
    enum accel_flag maximize; /**< all but Lion: the same */
    const struct accel_param_group *groups; /**< [group_count]; copied.  None: all parameters form one group, "all" */
    size_t group_count;
    /**
     * ACCEL_YES, on a GPU: torch's `capturable`.  The number of steps and the groups' numbers are in device memory, so
     * that clipping, a step and zeroing gradients can be captured into a CUDA graph, after one step without.  What
     * accel_optimizer_set_lr(), accel_optimizer_set_group() or a scheduler changes holds for later launches of the
     * graph; the number of steps is read from the device.  See accel_device(3).
     */
    enum accel_flag capturable;
    unsigned threads; /**< of steps over many elements, with the caller's; smaller ones are the caller's alone.  Results
                           do not depend on it.  0: OMP_NUM_THREADS, which accelerate launch sets to this process's
                           share of the cores, or 1 */
};

/**
 * Make an optimizer over all trained parameters of @p model.
 *
 * @param options  NULL: all defaults
 * @retval ACCEL_ERR_INVALID  a number out of range, or one that this kind does not have; a parameter in two groups; a
 *                            pattern or name that matches no trained parameter; a group without parameters
 */
#define accel_optimizer_create(...)                                                                              \
    accel_optimizer_create_sized (sizeof (struct accel_optimizer_options), sizeof (struct accel_param_group),    \
                                  __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_optimizer_create_sized (size_t options_size, size_t group_size, struct accel_optimizer **optimizer,
                              struct accel_model *model, enum accel_optimizer_kind kind,
                              const struct accel_optimizer_options *options, struct accel_error *err);

/** Free @p optimizer and its state.  Accepts NULL. */
ACCEL_API void accel_optimizer_destroy (struct accel_optimizer *optimizer);

/**
 * Update the parameters from their gradients; for those of fewer than 32 bits, update their masters and then the
 * parameters.  Does nothing while gradients are accumulated.
 *
 * In fp16, collective after accel_prepare(): unscales the gradients, unless clipping has done so.  If one is infinite
 * or NaN on any process, no process changes anything.  Then the scale of the next loss is computed.
 */
#define accel_optimizer_step(...) accel_optimizer_step_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_optimizer_step_at (const char *file, int line, struct accel_optimizer *optimizer, struct accel_error *err);

/**
 * Set the gradients of the optimizer's parameters to zero: all gradients of the model, except those of groups with
 * `skip`.  A prepared optimizer does nothing while gradients are accumulated.
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_optimizer_zero_grad (struct accel_optimizer *optimizer, struct accel_error *err);

/** @return the learning rate of the next step; with several groups, that of the first. */
ACCEL_API double accel_optimizer_lr (const struct accel_optimizer *optimizer);

/**
 * Set the learning rate of the next step in all groups; accel_optimizer_set_group() sets it in one.
 *
 * @retval ACCEL_ERR_INVALID  @p lr is negative, infinite or NaN; nothing has changed
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_optimizer_set_lr (struct accel_optimizer *optimizer, double lr, struct accel_error *err);

/**
 * Make models, optimizers, loaders and schedulers work across all processes; any number of them in any order.  NULLs
 * are skipped, and objects that are already prepared are left unchanged.  Collective.
 *
 *   accel_prepare (acc, &err, model, optimizer, loader)
 *
 * Models: names, shapes, dtypes and which gradients have memory are compared between ranks, parameters are copied from
 * rank 0, and gradients without memory get it.  If accel_device() is a GPU, a model in host memory is placed there,
 * unless accel_options.device_placement is ACCEL_NO: `data` and `device` of its tensors change, and tensors that
 * share memory still do; masters and the states of its optimizers go with it.  The program's memory stays its own, must
 * stay valid and writable, and gets the values when the model goes back: in accel_unwrap_model(), accel_free_memory(),
 * accel_close() or accel_model_destroy().  Frozen parameters may be in read-only memory: only pages with values that
 * have changed are written.  Loaders: data, fields, options and position are compared between ranks
 * (except workers, prefetch and timeout_ms, and the number of samples if only rank 0 reads); from then on, each process
 * gets its own batches.  Optimizers and schedulers: their kinds and numbers are compared between ranks.
 *
 * @param err  before the objects, because variable arguments come last in C; may be NULL
 * @retval ACCEL_ERR_INVALID      the ranks' objects differ (`text` names the first difference), or an object belongs to
 *                                another `acc`.  Objects before the one that failed are prepared
 * @retval ACCEL_ERR_NOMEM        not enough memory, for example on the GPU of any rank: the model is where it was
 * @retval ACCEL_ERR_UNSUPPORTED  the model shares memory with another one that has been placed on a GPU
 */
#define accel_prepare(acc, err, ...) accel_prepare_at (ACCEL_HERE, (acc), (err), __VA_ARGS__, ACCEL_PREPARE_END)
#define ACCEL_PREPARE_END ((void *) UINTPTR_MAX) /* an address that no object has */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_prepare_at (const char *file, int line, struct accel *acc, struct accel_error *err, ...);

/**
 * Undo accel_prepare() for @p model: gradients that it put into shared memory move, with their values, to memory that
 * the model owns; a model that it placed on a GPU goes back to host memory; and the model can be trained on its own or
 * prepared again.  Its optimizers keep working.  A model that is not prepared is left unchanged.  Not collective, but
 * all processes should call it; collective if parameters are divided, which become whole: with
 * ACCEL_SHARDING_FULL_SHARD and ACCEL_SHARDING_HYBRID_SHARD on a GPU, and in host memory once accel_layer_begin() has
 * been called.
 *
 * @retval ACCEL_ERR_INVALID  @p model belongs to another `acc`, or is in its backward pass
 * @retval ACCEL_ERR_NOMEM    nothing has changed; but if parameters are divided, the job has failed, as others wait
 * @retval ACCEL_ERR_SYSTEM   the GPU has failed: the model is still there, and the program's memory may have some of
 *                            the values
 * @retval ACCEL_ERR_UNSUPPORTED  divided gradients on a GPU that have not been averaged, and would be lost
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_unwrap_model (struct accel *acc, struct accel_model *model, struct accel_error *err);

/**
 * Release everything that was prepared with @p acc: models as by accel_unwrap_model(); loaders go through all of their
 * data again; optimizers and schedulers work on their own.  Nothing is destroyed.  Collective as that is.
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_free_memory (struct accel *acc, struct accel_error *err);

/**
 * The program's backward pass: add the gradients of `scale` times its loss to the parameters' gradients.  On failure,
 * return a status and fill in `err`.
 *
 * It may call accel_grad_ready() for each gradient that is complete, in any order.
 */
typedef enum accel_status (*accel_backward_function) (void *user, float scale, struct accel_error *err);

/**
 * Called within the program's backward pass: the gradient of parameter @p index is complete and will not be touched
 * until accel_backward() returns.  When all gradients of a bucket are complete, they are averaged while the pass
 * continues: on a GPU behind what the program has queued on its stream by now, without a wait of the host; but between
 * accel_join_uneven_inputs() and its end, the call that completes the first bucket waits until the other processes
 * average as well.  The order of the calls does not affect the result.  From the first of these calls to the end of an
 * averaged pass, no collective may be called on the world: ACCEL_ERR_INVALID.  On groups (accel_comm_split()) the
 * program may call any, as tensor parallelism does.
 *
 * If a pass reports no gradients, all are averaged at its end.  If it reports some, it must report all, unless
 * `find_unused_parameters` is set.  Then those that were not reported count as zeros on this process; gradients that no
 * process has reported are left unchanged on all.
 *
 * May be called by any thread that the program's backward function waits for; but if gradients are divided
 * (accel_model_set_sharding()) and MPI has less than MPI_THREAD_SERIALIZED, only by the one that called accel_open().
 *
 * @return the status that accel_backward() will also return if the pass continues regardless: a gradient that is
 *         reported twice or does not exist, or a peer that failed
 */
ACCEL_API enum accel_status
accel_grad_ready (struct accel_model *model, size_t index, struct accel_error *err);

/**
 * Run the program's backward pass and average the gradients over all processes.  Collective.  While gradients are
 * accumulated, nothing is averaged: see accel_accumulate().
 *
 * @param loss  this process's loss, for messages and later use
 * @retval ACCEL_ERR_CALLBACK  @p backward failed here; the peers get ACCEL_ERR_PEER with this rank and its message
 */
#define accel_backward(...) accel_backward_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_backward_at (const char *file, int line, struct accel *acc, struct accel_model *model, float loss,
                   accel_backward_function backward, void *user, struct accel_error *err);

/**
 * @return the `scale` that accel_backward() passes on: 1 / num_steps of gradient accumulation, which makes the sum of
 *         the passes' gradients their mean, times the scale of the loss in fp16 (accel_scaler_get_state()), which
 *         clipping and steps take out of the gradients again.  Use it for gradients, not for a loss that is shown
 */
ACCEL_API float accel_loss_scale (const struct accel *acc);

/**
 * @return where the scale of the loss is on the device, a float, if accel_grad_scaler has `on_device` and the job
 *         scales losses on a GPU; NULL otherwise: accel_backward() passes all of the scale on.  Made by
 *         accel_prepare() and valid until accel_close(); written by accel_optimizer_step(), on the stream of
 *         accel_set_stream()
 */
ACCEL_API const float *accel_loss_scale_on_device (const struct accel *acc);

/**
 * For programs whose backward pass is not a function: call it after each pass, with gradients of accel_loss_scale()
 * times the loss.  Like accel_backward() after a pass without reports, it averages over all processes, or does nothing
 * while gradients are accumulated.  Collective.
 *
 * @retval ACCEL_ERR_INVALID  @p model is not prepared with @p acc, or is in its backward pass
 */
#define accel_average_gradients(...) accel_average_gradients_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_average_gradients_at (const char *file, int line, struct accel *acc, struct accel_model *model,
                            struct accel_error *err);

/**
 * From now on, until accel_join_end(), processes may take different numbers of steps with prepared models: a process
 * that has no data left calls accel_join_end(), where it contributes zero gradients to the others' averages.  Averages
 * are over all processes, including those that have finished, like in torch's Join.  Every process must call this;
 * nothing is sent.
 *
 * Other collectives between these two calls still need every process.
 *
 * @param even_batches  what prepared loaders, except those that dispatch, do with their last round from their next
 *                      pass on; ACCEL_DEFAULT: as each was made
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_join_uneven_inputs (struct accel *acc, enum accel_flag even_batches, struct accel_error *err);

/**
 * Take part in the others' steps until no process has data left.  Then all have the parameters of a process that took
 * the most steps, processes that had to wait have zero gradients, and loaders have their original settings again.  The
 * state of optimizers stays local to each process, as in torch.  Collective.
 */
#define accel_join_end(...) accel_join_end_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_join_end_at (const char *file, int line, struct accel *acc, struct accel_error *err);

ACCEL_END_DECLS

#endif
