/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of optimizers: their options, the numbers of a step, and the program's own. */
#include <config.h>

#include "lib/train/optimizer.h"

#include "lib/error.h"
#include "lib/option.h"
#include "lib/train/arithmetic.h"

#include <math.h>

UNFUSED static rule_loop *
begin_sgd (const struct accel_optimizer *optimizer, struct rule_numbers *numbers)
{
    const struct accel_sgd *sgd = &optimizer->sgd;
    numbers->sign = sgd->maximize ? -1 : 1;
    numbers->decay = (float) sgd->weight_decay;
    numbers->minus_size = (float) -optimizer->lr;
    numbers->momentum = (float) sgd->momentum;
    /* torch's first velocity is the gradient itself, not damped. */
    numbers->fresh = optimizer->step == 1 ? 1.0F : (float) (1.0 - sgd->dampening);
    numbers->nesterov = sgd->nesterov;
    return optimizer->state_count ? optimizer->rules->sgd_momentum : optimizer->rules->sgd;
}

UNFUSED static rule_loop *
begin_adam (const struct accel_optimizer *optimizer, struct rule_numbers *numbers)
{
    const struct adam_numbers *adam = &optimizer->adam;
    double step = (double) optimizer->step;
    numbers->sign = adam->maximize ? -1 : 1;
    if (adam->decoupled)
        numbers->keep = (float) (1.0 - optimizer->lr * adam->weight_decay);
    else
        numbers->decay = (float) adam->weight_decay;
    numbers->weight1 = (float) (1.0 - adam->beta1);
    numbers->beta2 = (float) adam->beta2;
    numbers->weight2 = (float) (1.0 - adam->beta2);
    numbers->minus_size = (float) -(optimizer->lr / (1.0 - pow (adam->beta1, step)));
    numbers->root = (float) sqrt (1.0 - pow (adam->beta2, step));
    numbers->eps = (float) adam->eps;
    return adam->amsgrad ? optimizer->rules->amsgrad : optimizer->rules->adam;
}

UNFUSED static rule_loop *
begin_lion (const struct accel_optimizer *optimizer, struct rule_numbers *numbers)
{
    const struct accel_lion *lion = &optimizer->lion;
    numbers->keep = (float) (1.0 - optimizer->lr * lion->weight_decay);
    numbers->minus_size = (float) -optimizer->lr;
    numbers->beta1 = (float) lion->beta1;
    numbers->weight1 = (float) (1.0 - lion->beta1);
    numbers->beta2 = (float) lion->beta2;
    numbers->weight2 = (float) (1.0 - lion->beta2);
    return optimizer->rules->lion;
}

struct limit {
    const char *name;
    double value, limit;
};

static enum accel_status
check_numbers (const struct limit *limits, size_t count, struct accel_error *err)
{
    for (size_t i = 0; i < count; i++)
        if (!(limits[i].value >= 0) || !(limits[i].value < limits[i].limit))
            return accel_fail (err, ACCEL_ERR_INVALID, "%s is %g, but must be at least 0%s", limits[i].name,
                               limits[i].value, isinf (limits[i].limit) ? " and finite" : " and less than 1");
    return ACCEL_OK;
}

/* Whom to make an optimizer for, and where to put it. */
static enum accel_status
check_place (const char *function, struct accel_optimizer **optimizer, const struct accel_model *model,
             struct accel_error *err)
{
    if (optimizer)
        *optimizer = NULL;
    if (!optimizer || !model)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: %s is NULL", function, optimizer ? "model" : "optimizer");
    if (object_is_gone (&model->object))
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: the model has been destroyed", function);
    return ACCEL_OK;
}

enum accel_status
accel_sgd_create (struct accel_optimizer **optimizer, struct accel_model *model, const struct accel_sgd *options,
                  struct accel_error *err)
{
    static const char *const names[] = { "momentum_buffer" };
    enum accel_status status = check_place (__func__, optimizer, model, err);
    if (status)
        return status;
    if (!options || !option_is_given (options->lr))
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "SGD needs a learning rate (options->lr; ACCEL_ZERO for 0)");
    struct accel_sgd chosen = *options;
    chosen.lr = option_or (options->lr, 0);
    chosen.momentum = option_or (options->momentum, 0);
    chosen.dampening = option_or (options->dampening, 0);
    chosen.weight_decay = option_or (options->weight_decay, 0);
    const struct limit limits[] = {
        { "lr", chosen.lr, INFINITY },
        { "momentum", chosen.momentum, INFINITY },
        { "weight_decay", chosen.weight_decay, INFINITY },
    };
    status = check_numbers (limits, sizeof limits / sizeof *limits, err);
    if (status)
        return status;
    if (!isfinite (chosen.dampening) || (chosen.nesterov && (!chosen.momentum || chosen.dampening)))
        return accel_fail (err, ACCEL_ERR_INVALID, "Nesterov momentum needs a momentum and zero dampening");
    struct accel_optimizer like = { .kind = OPTIMIZER_SGD, .begin = begin_sgd, .lr = chosen.lr, .sgd = chosen };
    like.state_count = chosen.momentum ? 1 : 0;
    return optimizer_create (optimizer, model, &like, names, err);
}

static enum accel_status
create_adam (struct accel_optimizer **optimizer, struct accel_model *model, double lr, struct adam_numbers chosen,
             struct accel_error *err)
{
    static const char *const names[] = { "exp_avg", "exp_avg_sq", "max_exp_avg_sq" };
    lr = option_or (lr, 1e-3);
    chosen.beta1 = option_or (chosen.beta1, 0.9);
    chosen.beta2 = option_or (chosen.beta2, 0.999);
    chosen.eps = option_or (chosen.eps, 1e-8);
    chosen.weight_decay = option_or (chosen.weight_decay, 0);
    const struct limit limits[] = {
        { "lr", lr, INFINITY },          { "beta1", chosen.beta1, 1 }, { "beta2", chosen.beta2, 1 },
        { "eps", chosen.eps, INFINITY }, { "weight_decay", chosen.weight_decay, INFINITY },
    };
    enum accel_status status = check_numbers (limits, sizeof limits / sizeof *limits, err);
    if (status)
        return status;
    struct accel_optimizer like = { .kind = OPTIMIZER_ADAM, .begin = begin_adam, .lr = lr, .adam = chosen };
    like.state_count = chosen.amsgrad ? 3 : 2;
    return optimizer_create (optimizer, model, &like, names, err);
}

enum accel_status
accel_adamw_create (struct accel_optimizer **optimizer, struct accel_model *model, const struct accel_adamw *options,
                    struct accel_error *err)
{
    enum accel_status status = check_place (__func__, optimizer, model, err);
    if (status)
        return status;
    struct accel_adamw given = { .weight_decay = ACCEL_ADAMW_WEIGHT_DECAY };
    if (options)
        given = *options;
    struct adam_numbers numbers = { given.beta1, given.beta2, given.eps, given.weight_decay, true, given.amsgrad,
                                    given.maximize };
    return create_adam (optimizer, model, given.lr, numbers, err);
}

enum accel_status
accel_adam_create (struct accel_optimizer **optimizer, struct accel_model *model, const struct accel_adam *options,
                   struct accel_error *err)
{
    enum accel_status status = check_place (__func__, optimizer, model, err);
    if (status)
        return status;
    struct accel_adam given = { 0 };
    if (options)
        given = *options;
    struct adam_numbers numbers = { given.beta1, given.beta2, given.eps, given.weight_decay, false, given.amsgrad,
                                    given.maximize };
    return create_adam (optimizer, model, given.lr, numbers, err);
}

enum accel_status
accel_lion_create (struct accel_optimizer **optimizer, struct accel_model *model, const struct accel_lion *options,
                   struct accel_error *err)
{
    static const char *const names[] = { "exp_avg" };
    enum accel_status status = check_place (__func__, optimizer, model, err);
    if (status)
        return status;
    struct accel_lion chosen = { 0 };
    if (options)
        chosen = *options;
    chosen.lr = option_or (chosen.lr, 1e-4);
    chosen.beta1 = option_or (chosen.beta1, 0.9);
    chosen.beta2 = option_or (chosen.beta2, 0.99);
    chosen.weight_decay = option_or (chosen.weight_decay, 0);
    const struct limit limits[] = {
        { "lr", chosen.lr, INFINITY },
        { "beta1", chosen.beta1, 1 },
        { "beta2", chosen.beta2, 1 },
        { "weight_decay", chosen.weight_decay, INFINITY },
    };
    status = check_numbers (limits, sizeof limits / sizeof *limits, err);
    if (status)
        return status;
    struct accel_optimizer like = { .kind = OPTIMIZER_LION, .begin = begin_lion, .lr = chosen.lr, .lion = chosen };
    like.state_count = 1;
    return optimizer_create (optimizer, model, &like, names, err);
}

struct accel_update
optimizer_update (const struct accel_optimizer *optimizer, size_t index)
{
    return (struct accel_update){
        .index = index,
        .parameter = &optimizer->model->trained[index],
        .states = optimizer->state_tensors + index * optimizer->state_count,
        .grad_scale = model_grad_dtype (optimizer->model, index) == ACCEL_FLOAT32 ? 1 : optimizer->model->pending,
        .lr = optimizer->lr,
        .step = optimizer->step,
    };
}

/* Have @p callback see every trained parameter. */
static enum accel_status
for_each (const struct accel_optimizer *optimizer, const char *what,
          enum accel_status (*callback) (void *user, const struct accel_update *update, struct accel_error *err),
          struct accel_error *err)
{
    const struct accel_model *model = optimizer->model;
    for (size_t i = 0; callback && i < model->count; i++) {
        if (!model_is_trained (model, i))
            continue;
        struct accel_error cause = { 0 };
        struct accel_update update = optimizer_update (optimizer, i);
        enum accel_status status = callback (optimizer->custom.user, &update, &cause);
        bool model_gone = object_is_gone (&model->object);
        if (!status && (model_gone || object_is_gone (&optimizer->object)))
            status = accel_fail (&cause, ACCEL_ERR_CALLBACK, "the function destroyed its own %s",
                                 model_gone ? "model" : "optimizer");
        if (status)
            return accel_fail (err, ACCEL_ERR_CALLBACK, "%s of '%.100s': %s", what, model->parameters[i].name,
                               *cause.text ? cause.text : accel_status_string (status));
    }
    return ACCEL_OK;
}

enum accel_status
optimizer_step_custom (struct accel_optimizer *optimizer, struct accel_error *err)
{
    return for_each (optimizer, "the optimizer's step", optimizer->custom.step, err);
}

static enum accel_status
make_custom (struct accel_optimizer **optimizer, struct accel_model *model,
             const struct accel_custom_optimizer *options, struct accel_error *err)
{
    if (!options->step)
        return accel_fail (err, ACCEL_ERR_INVALID, "a custom optimizer needs a step function");
    if (!option_is_given (options->lr))
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "an optimizer needs a learning rate (options->lr; ACCEL_ZERO for 0)");
    const struct limit limit = { "lr", option_or (options->lr, 0), INFINITY };
    enum accel_status status = check_numbers (&limit, 1, err);
    if (status)
        return status;
    struct accel_optimizer like = { .kind = OPTIMIZER_CUSTOM, .lr = limit.value, .custom = *options };
    like.state_count = options->state_count;
    status = optimizer_create (optimizer, model, &like, options->state_names, err);
    if (status)
        return status;
    status = for_each (*optimizer, "the first state", options->init, err);
    if (status) {
        (*optimizer)->custom.destroy = NULL;
        accel_optimizer_destroy (*optimizer);
        *optimizer = NULL;
    }
    return status;
}

/* Its functions may destroy the model, which then ends with the call. */
static enum accel_status
create_custom (struct accel_optimizer **optimizer, struct accel_model *model,
               const struct accel_custom_optimizer *options, struct accel_error *err)
{
    object_pin (&model->object);
    enum accel_status status = make_custom (optimizer, model, options, err);
    object_unpin (&model->object);
    return status;
}

enum accel_status
accel_custom_create (struct accel_optimizer **optimizer, struct accel_model *model,
                     const struct accel_custom_optimizer *options, struct accel_error *err)
{
    enum accel_status status = check_place (__func__, optimizer, model, err);
    if (!options)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: options is NULL", __func__);
    if (!status)
        status = create_custom (optimizer, model, options, err);
    if (status && options->destroy)
        options->destroy (options->user);
    return status;
}
