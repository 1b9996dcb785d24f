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
 * model lives.  Contiguous, host memory, the same shape, float32.  Where `data->data` is NULL accel_model_create()
 * allocates it, zeroed; where `grad->data` is NULL accel_prepare() puts it into memory that all ranks have mapped,
 * which is what makes averaging fast.  Both belong to the model.
 */
struct accel_parameter {
    const char *name; /**< unique in its model; copied */
    DLTensor *data;
    DLTensor *grad; /**< NULL: a parameter that is not trained */
};

/** Named parameters. */
struct accel_model;

/**
 * Describe a model.
 *
 * @param parameters  [count]; copied, but see struct accel_parameter
 * @retval ACCEL_ERR_INVALID      a name is missing or repeated, or a gradient's shape is not its parameter's
 * @retval ACCEL_ERR_UNSUPPORTED  a dtype other than float32, memory not on the host, or a strided tensor
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_model_create (struct accel_model **model, const struct accel_parameter *parameters, size_t count,
                    struct accel_error *err);

/** Free @p model and the memory it allocated.  Optimizers over it must be gone.  Accepts NULL. */
ACCEL_API void accel_model_destroy (struct accel_model *model);

/** @return the number of parameters (tensors, not elements). */
ACCEL_API size_t accel_model_parameter_count (const struct accel_model *model);

/** @return parameter @p index in the order of creation, or NULL; owned by the model. */
ACCEL_API const struct accel_parameter *accel_model_parameter (const struct accel_model *model, size_t index);

/** Changes parameters by their gradients. */
struct accel_optimizer;

/** torch.optim.SGD.  0 is each field's default there, but for lr, which must be given. */
struct accel_sgd {
    double lr;
    double momentum;
    double dampening;
    double weight_decay;
    bool nesterov;
    bool maximize;
};

/** torch.optim.AdamW.  0 means torch's default for lr (1e-3), beta1 (0.9), beta2 (0.999) and eps (1e-8). */
struct accel_adamw {
    double lr;
    double beta1;
    double beta2;
    double eps;
    double weight_decay; /**< as given: 0 is none; torch's own default is ACCEL_ADAMW_WEIGHT_DECAY */
    bool amsgrad;
    bool maximize;
};

#define ACCEL_ADAMW_WEIGHT_DECAY 0.01

/** Make an SGD optimizer over all trained parameters of @p model.  Invalid values: ACCEL_ERR_INVALID. */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_sgd_create (struct accel_optimizer **optimizer, struct accel_model *model, const struct accel_sgd *options,
                  struct accel_error *err);

/** Make an AdamW optimizer.  @param options  NULL: torch's defaults, weight decay included */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_adamw_create (struct accel_optimizer **optimizer, struct accel_model *model, const struct accel_adamw *options,
                    struct accel_error *err);

/** Free @p optimizer and its state.  Accepts NULL. */
ACCEL_API void accel_optimizer_destroy (struct accel_optimizer *optimizer);

/** Change the parameters by their gradients. */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_optimizer_step (struct accel_optimizer *optimizer, struct accel_error *err);

/** Set all gradients to zero. */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_optimizer_zero_grad (struct accel_optimizer *optimizer, struct accel_error *err);

/** @return the learning rate of the next step. */
ACCEL_API double accel_optimizer_lr (const struct accel_optimizer *optimizer);

/** Set the learning rate of the next step. */
ACCEL_API void accel_optimizer_set_lr (struct accel_optimizer *optimizer, double lr);

/**
 * Make models, optimizers, loaders and schedulers work over all processes; any number of them in any order.  NULLs are
 * passed over, and an object that is prepared already stays as it is.  Collective.
 *
 *   accel_prepare (acc, &err, model, optimizer, loader)
 *
 * Models: names, shapes, dtypes and which gradients have memory are compared over the ranks, parameters are copied from
 * rank 0, and gradients without memory get it.  Loaders: from now on each process sees its own batches.
 *
 * @param err  before the objects here, as C wants the variable part last; may be NULL
 * @retval ACCEL_ERR_INVALID  the ranks' models differ, `text` names the first parameter that does; or an object belongs
 *                            to another `acc`
 */
#define accel_prepare(acc, err, ...) accel_prepare_at (ACCEL_HERE, (acc), (err), __VA_ARGS__, ACCEL_PREPARE_END)
#define ACCEL_PREPARE_END accel_prepare_end_mark ()
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_prepare_at (const char *file, int line, struct accel *acc, struct accel_error *err, ...);

/** @return the address that ends the objects of accel_prepare(); the macro's business. */
ACCEL_API void *accel_prepare_end_mark (void);

/**
 * The program's backward pass: add the gradients of `scale` times its loss to the parameters' gradients.
 * On failure return a status and fill `err`.
 */
typedef enum accel_status (*accel_backward_function) (void *user, float scale, struct accel_error *err);

/**
 * Run the program's backward pass and average the gradients over all processes.  Collective.
 *
 * @param loss  this process's loss, for messages and for what later needs it
 * @retval ACCEL_ERR_CALLBACK  @p backward failed here; the peers get ACCEL_ERR_PEER with this rank and its message
 */
#define accel_backward(...) accel_backward_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_backward_at (const char *file, int line, struct accel *acc, struct accel_model *model, float loss,
                   accel_backward_function backward, void *user, struct accel_error *err);

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
 * most steps, and loaders do again what they were made for.  Collective.
 */
#define accel_join_end(...) accel_join_end_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_join_end_at (const char *file, int line, struct accel *acc, struct accel_error *err);

ACCEL_END_DECLS

#endif
