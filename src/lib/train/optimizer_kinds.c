/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of optimizers: their options, the numbers of a step, and the program's own. */
#include <config.h>

#include "lib/train/optimizer_object.h"

#include "lib/base/error.h"
#include "lib/base/option.h"
#include "lib/base/sized.h"
#include "lib/kernels/arithmetic.h"
#include "util/cleanup.h"

#include <math.h>

UNFUSED static enum rule
begin_sgd (const struct accel_optimizer *optimizer, const struct optimizer_group *group, struct rule_numbers *numbers)
{
    const double *own = group->own.number;
    numbers->sign = group->own.flag[GROUP_MAXIMIZE] ? -1 : 1;
    numbers->decay = (float) own[GROUP_WEIGHT_DECAY];
    numbers->minus_size = (float) -own[GROUP_LR];
    numbers->momentum = (float) own[GROUP_MOMENTUM];
    /* torch's first velocity is the gradient itself, not damped. */
    numbers->fresh = optimizer->step == 1 ? 1.0F : (float) (1.0 - own[GROUP_DAMPENING]);
    numbers->nesterov = group->own.flag[GROUP_NESTEROV];
    return group->state_count ? RULE_SGD_MOMENTUM : RULE_SGD;
}

UNFUSED static enum rule
begin_adam (const struct accel_optimizer *optimizer, const struct optimizer_group *group, struct rule_numbers *numbers)
{
    const double *own = group->own.number;
    double step = (double) optimizer->step;
    numbers->sign = group->own.flag[GROUP_MAXIMIZE] ? -1 : 1;
    if (optimizer->decoupled)
        numbers->keep = (float) (1.0 - own[GROUP_LR] * own[GROUP_WEIGHT_DECAY]);
    else
        numbers->decay = (float) own[GROUP_WEIGHT_DECAY];
    numbers->weight1 = (float) (1.0 - own[GROUP_BETA1]);
    numbers->beta2 = (float) own[GROUP_BETA2];
    numbers->weight2 = (float) (1.0 - own[GROUP_BETA2]);
    numbers->minus_size = (float) -(own[GROUP_LR] / (1.0 - pow (own[GROUP_BETA1], step)));
    numbers->root = (float) sqrt (1.0 - pow (own[GROUP_BETA2], step));
    numbers->eps = (float) own[GROUP_EPS];
    return group->own.flag[GROUP_AMSGRAD] ? RULE_AMSGRAD : RULE_ADAM;
}

UNFUSED static enum rule
begin_lion (const struct accel_optimizer *optimizer, const struct optimizer_group *group, struct rule_numbers *numbers)
{
    (void) optimizer;
    const double *own = group->own.number;
    numbers->keep = (float) (1.0 - own[GROUP_LR] * own[GROUP_WEIGHT_DECAY]);
    numbers->minus_size = (float) -own[GROUP_LR];
    numbers->beta1 = (float) own[GROUP_BETA1];
    numbers->weight1 = (float) (1.0 - own[GROUP_BETA1]);
    numbers->beta2 = (float) own[GROUP_BETA2];
    numbers->weight2 = (float) (1.0 - own[GROUP_BETA2]);
    return RULE_LION;
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

static const struct group_numbers no_numbers = { .number = { [GROUP_LR] = NAN } };

static enum accel_flag
flag_of (bool set)
{
    return set ? ACCEL_FLAG_YES : ACCEL_FLAG_NO;
}

/* Make an optimizer like @p like, whose own numbers are @p defaults with what the program gave laid over them. */
static enum accel_status
create (struct accel_optimizer **optimizer, struct accel_model *model, struct accel_optimizer *like,
        const struct accel_param_group *defaults, const struct accel_param_group *options, const char *const *names,
        struct given_groups given, struct accel_error *err)
{
    like->base = no_numbers;
    enum accel_status status;
    AUTO_FREE struct accel_param_group *resized
        = sized_array (given.function, "groups", given.groups, given.size, sizeof *resized, given.count, &status, err);
    if (resized)
        given.groups = resized;
    if (!status && defaults)
        status = optimizer_take_numbers (like, NULL, defaults, &like->base, err);
    if (!status)
        status = optimizer_take_numbers (like, NULL, options, &like->base, err);
    return status ? status : optimizer_create (optimizer, model, like, names, given, err);
}

enum accel_status
accel_sgd_create_sized (size_t options_size, size_t group_size, struct accel_optimizer **optimizer,
                        struct accel_model *model, const struct accel_sgd *options, struct accel_error *err)
{
    static const char *const names[] = { "momentum_buffer" };
    struct accel_sgd room;
    enum accel_status status = check_place ("accel_sgd_create", optimizer, model, err);
    if (!status)
        options = SIZED (options, options_size, room, &status, err);
    if (status)
        return status;
    struct accel_sgd given = { 0 };
    if (options)
        given = *options;
    const struct accel_param_group numbers = {
        .lr = given.lr, .momentum = given.momentum, .dampening = given.dampening, .weight_decay = given.weight_decay,
        .nesterov = flag_of (given.nesterov), .maximize = flag_of (given.maximize),
    };
    struct accel_optimizer like = { .kind = OPTIMIZER_SGD, .begin = begin_sgd };
    return create (optimizer, model, &like, NULL, &numbers, names,
                   (struct given_groups){ given.groups, given.group_count, __func__, group_size }, err);
}

static enum accel_status
create_adam (struct accel_optimizer **optimizer, struct accel_model *model, bool decoupled,
             const struct accel_param_group *options, struct given_groups given, struct accel_error *err)
{
    static const char *const names[] = { "exp_avg", "exp_avg_sq", "max_exp_avg_sq" };
    static const struct accel_param_group defaults = { .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8 };
    struct accel_optimizer like = { .kind = OPTIMIZER_ADAM, .begin = begin_adam, .decoupled = decoupled };
    return create (optimizer, model, &like, &defaults, options, names, given, err);
}

enum accel_status
accel_adamw_create_sized (size_t options_size, size_t group_size, struct accel_optimizer **optimizer,
                          struct accel_model *model, const struct accel_adamw *options, struct accel_error *err)
{
    struct accel_adamw room;
    enum accel_status status = check_place ("accel_adamw_create", optimizer, model, err);
    if (!status)
        options = SIZED (options, options_size, room, &status, err);
    if (status)
        return status;
    struct accel_adamw given = { .weight_decay = ACCEL_ADAMW_WEIGHT_DECAY };
    if (options)
        given = *options;
    const struct accel_param_group numbers = {
        .lr = given.lr, .beta1 = given.beta1, .beta2 = given.beta2, .eps = given.eps,
        .weight_decay = given.weight_decay, .amsgrad = flag_of (given.amsgrad), .maximize = flag_of (given.maximize),
    };
    return create_adam (optimizer, model, true, &numbers,
                        (struct given_groups){ given.groups, given.group_count, __func__, group_size }, err);
}

enum accel_status
accel_adam_create_sized (size_t options_size, size_t group_size, struct accel_optimizer **optimizer,
                         struct accel_model *model, const struct accel_adam *options, struct accel_error *err)
{
    struct accel_adam room;
    enum accel_status status = check_place ("accel_adam_create", optimizer, model, err);
    if (!status)
        options = SIZED (options, options_size, room, &status, err);
    if (status)
        return status;
    struct accel_adam given = { 0 };
    if (options)
        given = *options;
    const struct accel_param_group numbers = {
        .lr = given.lr, .beta1 = given.beta1, .beta2 = given.beta2, .eps = given.eps,
        .weight_decay = given.weight_decay, .amsgrad = flag_of (given.amsgrad), .maximize = flag_of (given.maximize),
    };
    return create_adam (optimizer, model, false, &numbers,
                        (struct given_groups){ given.groups, given.group_count, __func__, group_size }, err);
}

enum accel_status
accel_lion_create_sized (size_t options_size, size_t group_size, struct accel_optimizer **optimizer,
                         struct accel_model *model, const struct accel_lion *options, struct accel_error *err)
{
    static const char *const names[] = { "exp_avg" };
    static const struct accel_param_group defaults = { .lr = 1e-4, .beta1 = 0.9, .beta2 = 0.99 };
    struct accel_lion room;
    enum accel_status status = check_place ("accel_lion_create", optimizer, model, err);
    if (!status)
        options = SIZED (options, options_size, room, &status, err);
    if (status)
        return status;
    struct accel_lion given = { 0 };
    if (options)
        given = *options;
    const struct accel_param_group numbers = {
        .lr = given.lr, .beta1 = given.beta1, .beta2 = given.beta2, .weight_decay = given.weight_decay,
    };
    struct accel_optimizer like = { .kind = OPTIMIZER_LION, .begin = begin_lion };
    return create (optimizer, model, &like, &defaults, &numbers, names,
                   (struct given_groups){ given.groups, given.group_count, __func__, group_size }, err);
}

static enum accel_status
make_custom (struct accel_optimizer **optimizer, struct accel_model *model, size_t group_size,
             const struct accel_custom_optimizer *options, struct accel_error *err)
{
    if (!options->step)
        return accel_fail (err, ACCEL_ERR_INVALID, "a custom optimizer needs a step function");
    const struct accel_param_group numbers = { .lr = options->lr };
    struct accel_optimizer like = { .kind = OPTIMIZER_CUSTOM, .custom = *options };
    const struct given_groups given = { options->groups, options->group_count, "accel_custom_create", group_size };
    enum accel_status status
        = create (optimizer, model, &like, NULL, &numbers, options->state_names, given, err);
    if (status)
        return status;
    status = optimizer_for_each (*optimizer, "the first state", options->init, err);
    if (status) {
        (*optimizer)->custom.destroy = NULL;
        accel_optimizer_destroy (*optimizer);
        *optimizer = NULL;
    }
    return status;
}

/* Its functions may destroy the model, which then ends with the call. */
static enum accel_status
create_custom (struct accel_optimizer **optimizer, struct accel_model *model, size_t group_size,
               const struct accel_custom_optimizer *options, struct accel_error *err)
{
    object_pin (&model->object);
    enum accel_status status = make_custom (optimizer, model, group_size, options, err);
    object_unpin (&model->object);
    return status;
}

enum accel_status
accel_custom_create_sized (size_t options_size, size_t group_size, struct accel_optimizer **optimizer,
                           struct accel_model *model, const struct accel_custom_optimizer *options,
                           struct accel_error *err)
{
    struct accel_custom_optimizer room;
    enum accel_status refused, status = check_place ("accel_custom_create", optimizer, model, err);
    if (!options)
        return accel_fail_null (err, "accel_custom_create", "options");
    const struct accel_custom_optimizer *known = SIZED (options, options_size, room, &refused, status ? NULL : err);
    if (refused && options_size > sizeof *options) /* all that we know is there */
        known = options;
    if (!status && !(status = refused))
        status = create_custom (optimizer, model, group_size, known, err);
    if (status && known && known->destroy)
        known->destroy (known->user);
    return status;
}
