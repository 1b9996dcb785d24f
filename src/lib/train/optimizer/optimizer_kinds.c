/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of optimizers.  Each is one row: what it has, what it remembers, and what its rule needs in a step; the
 * rule itself is in kernels/rules_element.h.  HACKING.md tells how to add one. */
#include <config.h>

#include "lib/train/optimizer/optimizer_object.h"

#include "lib/base/error.h"
#include "lib/base/option.h"
#include "lib/base/sized.h"
#include "lib/kernels/arithmetic.h"
#include "util/cleanup.h"

#include <math.h>

/* What all rules have.  @return the group's numbers */
static const double *
begin (struct optimizer_group *group)
{
    const double *own = group->own.number;
    struct rule_numbers *numbers = &group->numbers;
    *numbers = (struct rule_numbers){ .keep = 1 };
    group->pace = (struct rule_pace){ .lr = own[GROUP_LR] };
    numbers->sign = group->own.flag[GROUP_MAXIMIZE] ? -1 : 1;
    numbers->decay = (float) own[GROUP_WEIGHT_DECAY];
    numbers->beta1 = (float) own[GROUP_BETA1];
    numbers->weight1 = (float) (1.0 - own[GROUP_BETA1]);
    numbers->beta2 = (float) own[GROUP_BETA2];
    numbers->weight2 = (float) (1.0 - own[GROUP_BETA2]);
    numbers->eps = (float) own[GROUP_EPS];
    numbers->momentum = (float) own[GROUP_MOMENTUM];
    return own;
}

/* Weight decay shrinks the parameter, and the gradient stays as it is. */
UNFUSED static void
decouple (struct optimizer_group *group)
{
    const double *own = group->own.number;
    group->numbers.decay = 0;
    group->numbers.keep = (float) (1.0 - own[GROUP_LR] * own[GROUP_WEIGHT_DECAY]);
}

static const char *
check_sgd (const struct group_numbers *own)
{
    bool can = own->number[GROUP_MOMENTUM] != 0 && own->number[GROUP_DAMPENING] == 0;
    return can || !own->flag[GROUP_NESTEROV] ? NULL : "Nesterov momentum needs a momentum and zero dampening";
}

static enum rule
begin_sgd (struct optimizer_group *group)
{
    const double *own = begin (group);
    group->numbers.fresh = (float) (1.0 - own[GROUP_DAMPENING]);
    group->numbers.nesterov = group->own.flag[GROUP_NESTEROV];
    return group->states ? RULE_SGD_MOMENTUM : RULE_SGD;
}

static enum rule
begin_adam (struct optimizer_group *group)
{
    const double *own = begin (group);
    group->pace.beta1 = own[GROUP_BETA1];
    group->pace.beta2 = own[GROUP_BETA2];
    return group->own.flag[GROUP_AMSGRAD] ? RULE_AMSGRAD : RULE_ADAM;
}

static enum rule
begin_adamw (struct optimizer_group *group)
{
    enum rule rule = begin_adam (group);
    decouple (group);
    return rule;
}

static enum rule
begin_lion (struct optimizer_group *group)
{
    begin (group);
    decouple (group);
    return RULE_LION;
}

static enum rule
begin_adagrad (struct optimizer_group *group)
{
    group->pace.lr_decay = begin (group)[GROUP_LR_DECAY];
    return RULE_ADAGRAD;
}

static enum rule
begin_rmsprop (struct optimizer_group *group)
{
    static const enum rule rules[2][2] = { { RULE_RMSPROP, RULE_RMSPROP_MOMENTUM },
                                           { RULE_RMSPROP_CENTERED, RULE_RMSPROP_CENTERED_MOMENTUM } };
    const double *own = begin (group);
    group->numbers.beta2 = (float) own[GROUP_ALPHA];
    group->numbers.weight2 = (float) (1.0 - own[GROUP_ALPHA]);
    return rules[group->own.flag[GROUP_CENTERED]][own[GROUP_MOMENTUM] != 0];
}

/* ---- the table ---- */

#define ALL_HAVE (NUMBER_BIT (GROUP_LR) | NUMBER_BIT (GROUP_WEIGHT_DECAY))
#define BETAS (NUMBER_BIT (GROUP_BETA1) | NUMBER_BIT (GROUP_BETA2))

/* Rows are counted, so that one that is missing, wherever it is, does not compile. */
#define ROW(kind) (kind) + 0 * __COUNTER__
enum { COUNTED_BEFORE = __COUNTER__ };
static const struct optimizer_kind kinds[] = {
    [ROW (ACCEL_SGD)] = {
        .name = "SGD",
        .has = ALL_HAVE | NUMBER_BIT (GROUP_MOMENTUM) | NUMBER_BIT (GROUP_DAMPENING) | FLAG_BIT (GROUP_NESTEROV)
               | FLAG_BIT (GROUP_MAXIMIZE),
        .defaults = { [GROUP_LR] = NAN },
        .states = { { "momentum_buffer", .needs = NUMBER_BIT (GROUP_MOMENTUM) } },
        .cycled = GROUP_MOMENTUM,
        .check = check_sgd,
        .begin = begin_sgd,
    },
    [ROW (ACCEL_ADAM)] = {
        .name = "Adam",
        .has = ALL_HAVE | BETAS | NUMBER_BIT (GROUP_EPS) | FLAG_BIT (GROUP_AMSGRAD) | FLAG_BIT (GROUP_MAXIMIZE),
        .defaults = { [GROUP_LR] = 1e-3, [GROUP_BETA1] = 0.9, [GROUP_BETA2] = 0.999, [GROUP_EPS] = 1e-8 },
        .states = { { "exp_avg" }, { "exp_avg_sq" }, { "max_exp_avg_sq", .needs = FLAG_BIT (GROUP_AMSGRAD) } },
        .cycled = GROUP_BETA1,
        .needs_step = true,
        .begin = begin_adam,
    },
    [ROW (ACCEL_ADAMW)] = {
        .name = "AdamW",
        .has = ALL_HAVE | BETAS | NUMBER_BIT (GROUP_EPS) | FLAG_BIT (GROUP_AMSGRAD) | FLAG_BIT (GROUP_MAXIMIZE),
        .defaults = { [GROUP_LR] = 1e-3, [GROUP_BETA1] = 0.9, [GROUP_BETA2] = 0.999, [GROUP_EPS] = 1e-8,
                      [GROUP_WEIGHT_DECAY] = 0.01 },
        .states = { { "exp_avg" }, { "exp_avg_sq" }, { "max_exp_avg_sq", .needs = FLAG_BIT (GROUP_AMSGRAD) } },
        .cycled = GROUP_BETA1,
        .decoupled = true,
        .needs_step = true,
        .begin = begin_adamw,
    },
    [ROW (ACCEL_LION)] = {
        .name = "Lion",
        .has = ALL_HAVE | BETAS,
        .defaults = { [GROUP_LR] = 1e-4, [GROUP_BETA1] = 0.9, [GROUP_BETA2] = 0.99 },
        .states = { { "exp_avg" } },
        .cycled = GROUP_BETA1,
        .decoupled = true,
        .begin = begin_lion,
    },
    [ROW (ACCEL_ADAGRAD)] = {
        .name = "Adagrad",
        .has = ALL_HAVE | NUMBER_BIT (GROUP_EPS) | NUMBER_BIT (GROUP_LR_DECAY)
               | NUMBER_BIT (GROUP_INITIAL_ACCUMULATOR_VALUE) | FLAG_BIT (GROUP_MAXIMIZE),
        .defaults = { [GROUP_LR] = 1e-2, [GROUP_EPS] = 1e-10 },
        .states = { { "sum", .initial = GROUP_INITIAL_ACCUMULATOR_VALUE } },
        .needs_step = true,
        .begin = begin_adagrad,
    },
    [ROW (ACCEL_RMSPROP)] = {
        .name = "RMSprop",
        .has = ALL_HAVE | NUMBER_BIT (GROUP_EPS) | NUMBER_BIT (GROUP_MOMENTUM) | NUMBER_BIT (GROUP_ALPHA)
               | FLAG_BIT (GROUP_CENTERED) | FLAG_BIT (GROUP_MAXIMIZE),
        .defaults = { [GROUP_LR] = 1e-2, [GROUP_ALPHA] = 0.99, [GROUP_EPS] = 1e-8 },
        .states = { { "square_avg" }, { "grad_avg", .needs = FLAG_BIT (GROUP_CENTERED) },
                    { "momentum_buffer", .needs = NUMBER_BIT (GROUP_MOMENTUM) } },
        .cycled = GROUP_MOMENTUM,
        .begin = begin_rmsprop,
    },
};
_Static_assert (__COUNTER__ - COUNTED_BEFORE - 1 == ACCEL_OPTIMIZER_KINDS, "one row for each kind");
#undef ROW

/* ---- making one ---- */

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

/* Make an optimizer like @p like, whose own numbers are its kind's with what the program gave laid over them. */
static enum accel_status
create (struct accel_optimizer **optimizer, struct accel_model *model, struct accel_optimizer *like,
        const struct accel_param_group *options, struct given_groups given, struct accel_error *err)
{
    for (size_t i = 0; i < NUMBERS_OF_A_GROUP; i++)
        like->base.number[i] = like->kind->defaults[i];
    enum accel_status status;
    AUTO_FREE struct accel_param_group *resized
        = sized_array (given.function, "groups", given.groups, given.size, sizeof *resized, given.count, &status, err);
    if (resized)
        given.groups = resized;
    if (!status)
        status = optimizer_take_numbers (like, NULL, options, &like->base, err);
    return status ? status : optimizer_create (optimizer, model, like, given, err);
}

enum accel_status
accel_optimizer_create_sized (size_t options_size, size_t group_size, struct accel_optimizer **optimizer,
                              struct accel_model *model, enum accel_optimizer_kind kind,
                              const struct accel_optimizer_options *options, struct accel_error *err)
{
    static const struct accel_optimizer_options none;
    struct accel_optimizer_options room;
    enum accel_status status = check_place ("accel_optimizer_create", optimizer, model, err);
    if (!status && (unsigned) kind >= ACCEL_OPTIMIZER_KINDS)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_optimizer_create: there is no kind %d of optimizers",
                           (int) kind);
    if (!status)
        options = SIZED (options, options_size, room, &status, err);
    if (status)
        return status;
    options = options ? options : &none;
    const struct accel_param_group numbers = optimizer_numbers_in (options);
    status = flag_check (options->capturable, "capturable", err);
    if (status)
        return status;
    struct accel_optimizer like = { .kind = &kinds[kind], .threads = options->threads,
                                    .is_capturable = options->capturable == ACCEL_YES };
    return create (optimizer, model, &like, &numbers,
                   (struct given_groups){ options->groups, options->group_count, __func__, group_size }, err);
}

static enum accel_status
make_custom (struct accel_optimizer **optimizer, struct accel_model *model, size_t group_size,
             const struct accel_custom_optimizer *options, struct accel_error *err)
{
    if (!options->step)
        return accel_fail (err, ACCEL_ERR_INVALID, "a custom optimizer needs a step function");
    const struct accel_param_group numbers = { .lr = options->lr };
    struct accel_optimizer like = { .kind = &optimizer_custom, .custom = *options };
    const struct given_groups given = { options->groups, options->group_count, "accel_optimizer_create_custom",
                                        group_size };
    enum accel_status status = create (optimizer, model, &like, &numbers, given, err);
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
enum accel_status
accel_optimizer_create_custom_sized (size_t options_size, size_t group_size, struct accel_optimizer **optimizer,
                                     struct accel_model *model, const struct accel_custom_optimizer *options,
                                     struct accel_error *err)
{
    struct accel_custom_optimizer room;
    enum accel_status refused, status = check_place ("accel_optimizer_create_custom", optimizer, model, err);
    if (!options)
        return accel_fail_null (err, "accel_optimizer_create_custom", "options");
    if (!status && model->cuts)
        status = accel_fail (err, ACCEL_ERR_UNSUPPORTED, "accel_optimizer_create_custom: its states may have any "
                             "shape, so they could not be saved as wholes of parts, which the model's tensors are");
    const struct accel_custom_optimizer *known = SIZED (options, options_size, room, &refused, status ? NULL : err);
    if (refused && options_size > sizeof *options) /* all that we know is there */
        known = options;
    if (!status && !(status = refused)) {
        object_pin (&model->object);
        status = make_custom (optimizer, model, group_size, known, err);
        object_unpin (&model->object);
    }
    if (status && known && known->destroy)
        known->destroy (known->user);
    return status;
}
