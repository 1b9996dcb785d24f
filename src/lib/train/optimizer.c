/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers: torch's formulas (torch/optim/sgd.py, adamw.py, the single-tensor forms) in its order of operations, so
 * that results agree to the last bits of float32. */
#include <config.h>

#include "lib/train/optimizer.h"

#include "lib/error.h"
#include "lib/state/state_private.h"
#include "lib/train/arithmetic.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

VECTORISED static void
sgd_rule (const struct accel_optimizer *optimizer, float *restrict parameter, const float *restrict grad,
          float *const *state, size_t count)
{
    const struct accel_sgd *sgd = &optimizer->sgd;
    float minus_lr = (float) -optimizer->lr, decay = (float) sgd->weight_decay, momentum = (float) sgd->momentum;
    float *restrict velocity = state[0];
    /* torch's first velocity is the gradient itself, not damped. */
    float fresh = optimizer->step == 1 ? 1.0F : (float) (1.0 - sgd->dampening);
    if (!sgd->momentum) {
        for (size_t i = 0; i < count; i++)
            parameter[i] += minus_lr * (grad[i] + decay * parameter[i]);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        float change = grad[i] + decay * parameter[i];
        velocity[i] = momentum * velocity[i] + fresh * change;
        parameter[i] += minus_lr * (sgd->nesterov ? change + momentum * velocity[i] : velocity[i]);
    }
}

VECTORISED static void
adamw_rule (const struct accel_optimizer *optimizer, float *restrict parameter, const float *restrict grad,
            float *const *state, size_t count)
{
    const struct accel_adamw *adamw = &optimizer->adamw;
    double step = (double) optimizer->step;
    float keep = (float) (1.0 - optimizer->lr * adamw->weight_decay);
    float weight1 = (float) (1.0 - adamw->beta1);
    float beta2 = (float) adamw->beta2, weight2 = (float) (1.0 - adamw->beta2);
    float minus_size = (float) -(optimizer->lr / (1.0 - pow (adamw->beta1, step)));
    float root = (float) sqrt (1.0 - pow (adamw->beta2, step)), eps = (float) adamw->eps;
    float *restrict mean = state[0], *restrict square = state[1];
    bool from_mean = weight1 < 0.5F;
    for (size_t i = 0; i < count; i++) {
        float g = grad[i];
        /* torch.lerp() counts from the nearer end. */
        float m = from_mean ? mean[i] + weight1 * (g - mean[i]) : g - (g - mean[i]) * (1 - weight1);
        float s = beta2 * square[i] + weight2 * g * g;
        mean[i] = m;
        square[i] = s;
        parameter[i] = parameter[i] * keep + minus_size * m / (sqrtf (s) / root + eps);
    }
}

static enum accel_status
check_number (const char *name, double value, double limit, struct accel_error *err)
{
    if (!(value >= 0) || !(value < limit))
        return accel_fail (err, ACCEL_ERR_INVALID, "%s is %g, it must be at least 0%s", name, value,
                           isinf (limit) ? "" : " and less than 1");
    return ACCEL_OK;
}

struct limit {
    const char *name;
    double value, limit;
};

static enum accel_status
check_numbers (const struct limit *limits, size_t count, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; !status && i < count; i++)
        status = check_number (limits[i].name, limits[i].value, limits[i].limit, err);
    return status;
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
    return ACCEL_OK;
}

static enum accel_status
create (struct accel_optimizer **optimizer, struct accel_model *model, const struct accel_optimizer *like,
        struct accel_error *err)
{
    struct accel_optimizer *made = malloc (sizeof *made);
    if (!made)
        goto error;
    *made = *like;
    made->object = (struct object) OBJECT_INIT (OBJECT_OPTIMIZER);
    made->model = model;
    for (size_t i = 0; i < model->count; i++)
        if (model_is_trained (model, i))
            made->elements += accel_tensor_count (model->parameters[i].data);
    /* One more element, so that nothing to train is no failed allocation. */
    if (made->state_count) {
        made->state_memory = calloc (made->elements + 1, (size_t) made->state_count * sizeof (float));
        if (!made->state_memory)
            goto error;
    }
    *optimizer = made;
    return ACCEL_OK;
error:
    free (made);
    return accel_fail (err, ACCEL_ERR_NOMEM, "no memory for an optimizer's state");
}

enum accel_status
accel_sgd_create (struct accel_optimizer **optimizer, struct accel_model *model, const struct accel_sgd *options,
                  struct accel_error *err)
{
    enum accel_status status = check_place (__func__, optimizer, model, err);
    if (status)
        return status;
    if (!options || !(options->lr > 0) || isinf (options->lr))
        return accel_fail (err, ACCEL_ERR_INVALID, "SGD needs a learning rate greater than 0 (options->lr)");
    const struct limit limits[] = {
        { "momentum", options->momentum, INFINITY },
        { "weight_decay", options->weight_decay, INFINITY },
    };
    status = check_numbers (limits, sizeof limits / sizeof *limits, err);
    if (status)
        return status;
    if (!isfinite (options->dampening) || (options->nesterov && (!options->momentum || options->dampening)))
        return accel_fail (err, ACCEL_ERR_INVALID, "Nesterov momentum needs a momentum and no dampening");
    struct accel_optimizer like = {
        .rule = sgd_rule,
        .state_count = options->momentum ? 1 : 0,
        .lr = options->lr,
        .sgd = *options,
    };
    return create (optimizer, model, &like, err);
}

enum accel_status
accel_adamw_create (struct accel_optimizer **optimizer, struct accel_model *model, const struct accel_adamw *options,
                    struct accel_error *err)
{
    enum accel_status status = check_place (__func__, optimizer, model, err);
    if (status)
        return status;
    struct accel_adamw chosen = { .weight_decay = ACCEL_ADAMW_WEIGHT_DECAY };
    if (options)
        chosen = *options;
    chosen.lr = chosen.lr ? chosen.lr : 1e-3;
    chosen.beta1 = chosen.beta1 ? chosen.beta1 : 0.9;
    chosen.beta2 = chosen.beta2 ? chosen.beta2 : 0.999;
    chosen.eps = chosen.eps ? chosen.eps : 1e-8;
    const struct limit limits[] = {
        { "lr", chosen.lr, INFINITY },   { "beta1", chosen.beta1, 1 }, { "beta2", chosen.beta2, 1 },
        { "eps", chosen.eps, INFINITY }, { "weight_decay", chosen.weight_decay, INFINITY },
    };
    status = check_numbers (limits, sizeof limits / sizeof *limits, err);
    if (status)
        return status;
    struct accel_optimizer like = { .rule = adamw_rule, .state_count = 2, .lr = chosen.lr, .adamw = chosen };
    return create (optimizer, model, &like, err);
}

void
accel_optimizer_destroy (struct accel_optimizer *optimizer)
{
    if (!optimizer)
        return;
    state_remove_prepared (&optimizer->object);
    free (optimizer->state_memory);
    free (optimizer);
}

enum accel_status
accel_optimizer_step (struct accel_optimizer *optimizer, struct accel_error *err)
{
    if (!optimizer)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: optimizer is NULL", __func__);
    const struct accel_model *model = optimizer->model;
    enum accel_status status = model_check_gradients (model, err);
    if (status)
        return status;
    optimizer->step++;
    float *at = optimizer->state_memory;
    for (size_t i = 0; i < model->count; i++) {
        if (!model_is_trained (model, i))
            continue;
        const struct accel_parameter *parameter = &model->parameters[i];
        size_t count = accel_tensor_count (parameter->data);
        float *state[OPTIMIZER_STATES] = { NULL };
        for (int j = 0; j < optimizer->state_count; j++)
            state[j] = at + (size_t) j * optimizer->elements;
        optimizer->rule (optimizer, parameter->data->data, parameter->grad->data, state, count);
        if (at)
            at += count;
    }
    return ACCEL_OK;
}

enum accel_status
accel_optimizer_zero_grad (struct accel_optimizer *optimizer, struct accel_error *err)
{
    if (!optimizer)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: optimizer is NULL", __func__);
    const struct accel_model *model = optimizer->model;
    enum accel_status status = model_check_gradients (model, err);
    for (size_t i = 0; !status && i < model->count; i++) {
        const DLTensor *grad = model->parameters[i].grad;
        if (grad && grad->data)
            memset (grad->data, 0, accel_tensor_count (grad) * sizeof (float));
    }
    return status;
}

double
accel_optimizer_lr (const struct accel_optimizer *optimizer)
{
    return optimizer->lr;
}

void
accel_optimizer_set_lr (struct accel_optimizer *optimizer, double lr)
{
    optimizer->lr = lr;
}

double *
optimizer_momentum (struct accel_optimizer *optimizer)
{
    if (optimizer->rule == sgd_rule)
        return optimizer->sgd.momentum ? &optimizer->sgd.momentum : NULL;
    return &optimizer->adamw.beta1;
}
