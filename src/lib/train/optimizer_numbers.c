/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of parameter groups: one table says which there are, which kinds of optimizers have them, and what they
 * may be.  Options, checks, public look-up and the comparison over ranks go through it. */
#include <config.h>

#include "lib/train/optimizer_object.h"

#include "lib/base/error.h"
#include "lib/base/option.h"
#include "lib/base/sized.h"
#include "lib/train/outliers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SGD = 1 << OPTIMIZER_SGD, ADAM = 1 << OPTIMIZER_ADAM, LION = 1 << OPTIMIZER_LION, OWN = 1 << OPTIMIZER_CUSTOM };

/* In the order of enum group_number. */
static const struct {
    const char *name;
    size_t offset; /* in struct accel_param_group */
    unsigned kinds;
    double limit; /* it is at least 0 and less; NAN: any finite number */
} numbers[] = {
    { "lr", offsetof (struct accel_param_group, lr), SGD | ADAM | LION | OWN, INFINITY },
    { "weight_decay", offsetof (struct accel_param_group, weight_decay), SGD | ADAM | LION | OWN, INFINITY },
    { "beta1", offsetof (struct accel_param_group, beta1), ADAM | LION | OWN, 1 },
    { "beta2", offsetof (struct accel_param_group, beta2), ADAM | LION | OWN, 1 },
    { "eps", offsetof (struct accel_param_group, eps), ADAM | OWN, INFINITY },
    { "momentum", offsetof (struct accel_param_group, momentum), SGD | OWN, INFINITY },
    { "dampening", offsetof (struct accel_param_group, dampening), SGD | OWN, NAN },
};

/* In the order of enum group_flag. */
static const struct {
    const char *name;
    size_t offset;
    unsigned kinds;
} flags[] = {
    { "nesterov", offsetof (struct accel_param_group, nesterov), SGD | OWN },
    { "amsgrad", offsetof (struct accel_param_group, amsgrad), ADAM | OWN },
    { "maximize", offsetof (struct accel_param_group, maximize), SGD | ADAM | OWN },
};

_Static_assert (sizeof numbers / sizeof *numbers == NUMBERS_OF_A_GROUP, "one row for each number");
_Static_assert (sizeof flags / sizeof *flags == FLAGS_OF_A_GROUP, "one row for each flag");

enum accel_status
optimizer_check (const char *function, const struct accel_optimizer *optimizer, struct accel_error *err)
{
    if (!optimizer)
        return accel_fail_null (err, function, "optimizer");
    if (object_is_gone (&optimizer->object))
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: the optimizer has been destroyed", function);
    if (object_is_gone (&optimizer->model->object))
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: the optimizer's model has been destroyed", function);
    return ACCEL_OK;
}

const char *
optimizer_kind_name (const struct accel_optimizer *optimizer)
{
    static const char *const names[] = { "SGD", "Adam", "Lion", "a custom optimizer" };
    return optimizer->kind == OPTIMIZER_ADAM && optimizer->decoupled ? "AdamW" : names[optimizer->kind];
}

const char *
group_number_name (size_t number)
{
    return numbers[number].name;
}

const char *
group_flag_name (size_t flag)
{
    return flags[flag].name;
}

static double
number_in (const struct accel_param_group *group, size_t i)
{
    double value;
    memcpy (&value, (const char *) group + numbers[i].offset, sizeof value);
    return value;
}

static enum accel_flag
flag_in (const struct accel_param_group *group, size_t i)
{
    enum accel_flag value;
    memcpy (&value, (const char *) group + flags[i].offset, sizeof value);
    return value;
}

/* "group 'x': " before what is wrong with its numbers. */
static enum accel_status
refuse (const char *group, struct accel_error *err, const char *text)
{
    return accel_fail (err, ACCEL_ERR_INVALID, "%s%.80s%s%s", group ? "group '" : "", group ? group : "",
                       group ? "': " : "", text);
}

static enum accel_status
check_number (const char *group, size_t i, double value, struct accel_error *err)
{
    char text[120];
    double limit = numbers[i].limit;
    if (isnan (limit) ? isfinite (value) : value >= 0 && value < limit)
        return ACCEL_OK;
    if (isnan (limit))
        snprintf (text, sizeof text, "%s is %g, but must be finite", numbers[i].name, value);
    else
        snprintf (text, sizeof text, "%s is %g, but must be at least 0%s", numbers[i].name, value,
                  isinf (limit) ? " and finite" : " and less than 1");
    return refuse (group, err, text);
}

/* A setting that this kind of optimizer does not have would be silently ignored. */
static enum accel_status
check_kind (const struct accel_optimizer *optimizer, const char *group, const char *name, unsigned kinds,
            struct accel_error *err)
{
    char text[120];
    if (kinds & 1U << optimizer->kind)
        return ACCEL_OK;
    snprintf (text, sizeof text, "%s has no %s", optimizer_kind_name (optimizer), name);
    return refuse (group, err, text);
}

enum accel_status
optimizer_take_numbers (const struct accel_optimizer *optimizer, const char *group,
                        const struct accel_param_group *given, struct group_numbers *result, struct accel_error *err)
{
    struct group_numbers made = *result;
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; !status && i < NUMBERS_OF_A_GROUP; i++) {
        double value = number_in (given, i);
        if (!option_is_given (value))
            continue;
        made.number[i] = option_or (value, 0);
        status = check_kind (optimizer, group, numbers[i].name, numbers[i].kinds, err);
        status = status ? status : check_number (group, i, made.number[i], err);
    }
    for (size_t i = 0; !status && i < FLAGS_OF_A_GROUP; i++) {
        enum accel_flag value = flag_in (given, i);
        if (value == ACCEL_FLAG_DEFAULT)
            continue;
        made.flag[i] = value == ACCEL_FLAG_YES;
        status = check_kind (optimizer, group, flags[i].name, flags[i].kinds, err);
        if (!status && value != ACCEL_FLAG_YES && value != ACCEL_FLAG_NO)
            status = refuse (group, err, "invalid value for an accel_flag");
    }
    if (!status && optimizer->kind == OPTIMIZER_SGD && made.flag[GROUP_NESTEROV]
        && (!made.number[GROUP_MOMENTUM] || made.number[GROUP_DAMPENING]))
        status = refuse (group, err, "Nesterov momentum needs a momentum and zero dampening");
    if (!status)
        *result = made;
    return status;
}

size_t
optimizer_states_of (const struct accel_optimizer *optimizer, const struct group_numbers *own)
{
    switch (optimizer->kind) {
    case OPTIMIZER_SGD:
        return own->number[GROUP_MOMENTUM] ? 1 : 0;
    case OPTIMIZER_ADAM:
        return own->flag[GROUP_AMSGRAD] ? 3 : 2;
    case OPTIMIZER_LION:
        return 1;
    default:
        return optimizer->custom.state_count;
    }
}

struct accel_param_group
optimizer_show_group (const struct optimizer_group *group)
{
    struct accel_param_group shown = {
        .name = group->name, .indices = group->indices, .index_count = group->count, .skip = group->skip,
    };
    for (size_t i = 0; i < NUMBERS_OF_A_GROUP; i++) {
        double value = isnan (group->own.number[i]) ? 0 : accel_exactly (group->own.number[i]);
        memcpy ((char *) &shown + numbers[i].offset, &value, sizeof value);
    }
    for (size_t i = 0; i < FLAGS_OF_A_GROUP; i++) {
        enum accel_flag value = group->own.flag[i] ? ACCEL_FLAG_YES : ACCEL_FLAG_NO;
        memcpy ((char *) &shown + flags[i].offset, &value, sizeof value);
    }
    return shown;
}

static enum accel_status
check_group (const char *function, const struct accel_optimizer *optimizer, size_t group, struct accel_error *err)
{
    enum accel_status status = optimizer_check (function, optimizer, err);
    if (!status && group >= optimizer->group_count)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: group %zu does not exist: the optimizer has %zu", function,
                           group, optimizer->group_count);
    return status;
}

/* Only what the kind has: what is shown can then be given back. */
enum accel_status
accel_optimizer_get_group_sized (size_t numbers_size, const struct accel_optimizer *optimizer, size_t group,
                                 struct accel_param_group *result, struct accel_error *err)
{
    enum accel_status status = check_group ("accel_optimizer_get_group", optimizer, group, err);
    if (!status && !result)
        return accel_fail_null (err, "accel_optimizer_get_group", "numbers");
    if (status)
        return status;
    struct accel_param_group shown = optimizer_show_group (&optimizer->groups[group]);
    for (size_t i = 0; i < NUMBERS_OF_A_GROUP; i++)
        if (!(numbers[i].kinds & 1U << optimizer->kind))
            memset ((char *) &shown + numbers[i].offset, 0, sizeof (double));
    for (size_t i = 0; i < FLAGS_OF_A_GROUP; i++)
        if (!(flags[i].kinds & 1U << optimizer->kind))
            memset ((char *) &shown + flags[i].offset, 0, sizeof (enum accel_flag));
    sized_write (result, numbers_size, &shown, sizeof shown);
    return ACCEL_OK;
}

enum accel_status
accel_optimizer_set_group_sized (size_t numbers_size, struct accel_optimizer *optimizer, size_t group,
                                 const struct accel_param_group *given, struct accel_error *err)
{
    struct accel_param_group room;
    enum accel_status status = check_group ("accel_optimizer_set_group", optimizer, group, err);
    if (!status && !given)
        return accel_fail_null (err, "accel_optimizer_set_group", "numbers");
    if (!status)
        given = SIZED (given, numbers_size, room, &status, err);
    if (status)
        return status;
    struct optimizer_group *its = &optimizer->groups[group];
    struct group_numbers own = its->own;
    status = optimizer_take_numbers (optimizer, its->name, given, &own, err);
    if (status)
        return status;
    if (!its->skip && optimizer_states_of (optimizer, &own) > its->state_count)
        return refuse (its->name, err,
                       optimizer->kind == OPTIMIZER_SGD ? "it was created without a momentum, which needs memory"
                                                        : "it was created without amsgrad, which needs memory");
    its->own = own;
    return ACCEL_OK;
}

enum accel_status
accel_optimizer_set_group_lr (struct accel_optimizer *optimizer, size_t group, double lr, struct accel_error *err)
{
    enum accel_status status = check_group (__func__, optimizer, group, err);
    if (!status)
        status = check_number (optimizer->groups[group].name, GROUP_LR, lr, err);
    if (!status)
        *optimizer_lr_of (optimizer, group) = lr;
    return status;
}

double
accel_optimizer_group_lr (const struct accel_optimizer *optimizer, size_t group)
{
    return optimizer && group < optimizer->group_count ? *optimizer_lr_of (optimizer, group) : 0;
}

double
accel_optimizer_lr (const struct accel_optimizer *optimizer)
{
    return accel_optimizer_group_lr (optimizer, 0);
}

void
accel_optimizer_set_lr (struct accel_optimizer *optimizer, double lr)
{
    for (size_t i = 0; optimizer && i < optimizer->group_count; i++)
        *optimizer_lr_of (optimizer, i) = lr;
}

double *
optimizer_momentum (const struct accel_optimizer *optimizer, size_t group)
{
    struct optimizer_group *its = &optimizer->groups[group];
    if (its->skip || optimizer->kind == OPTIMIZER_CUSTOM || !its->state_count)
        return NULL;
    return &its->own.number[optimizer->kind == OPTIMIZER_SGD ? GROUP_MOMENTUM : GROUP_BETA1];
}

/* The object is the first member. */
static void
note (const struct object *object, struct noted_numbers *noted)
{
    const struct accel_optimizer *optimizer = (const struct accel_optimizer *) (const void *) object;
    noted->what = optimizer_kind_name (optimizer);
    noted->sizes[0] = (struct noted_size){ "the number of groups", optimizer->group_count };
    noted->sizes[1] = (struct noted_size){ "the number of parameters", optimizer->model->count };
    numbers_add (noted, "the number of steps done", NULL, NULL, (double) optimizer->step);
    numbers_add (noted, "the position of its model in accel_prepare", NULL, NULL,
                 (double) optimizer->model->object.number);
    numbers_add (noted, "the number of states", NULL, NULL, (double) optimizer->state_count);
    for (size_t i = 0; i < optimizer->model->count; i++)
        numbers_add (noted, "the group", "parameter", optimizer->model->parameters[i].name,
                     (double) optimizer->group_of[i]);
    for (size_t g = 0; g < optimizer->group_count; g++) {
        const struct optimizer_group *group = &optimizer->groups[g];
        const char *kind = optimizer->group_count > 1 ? "group" : NULL;
        numbers_add (noted, "skip", kind, group->name, group->skip);
        for (size_t i = 0; i < NUMBERS_OF_A_GROUP; i++)
            numbers_add (noted, numbers[i].name, kind, group->name,
                         isnan (group->own.number[i]) ? 0 : group->own.number[i]);
        for (size_t i = 0; i < FLAGS_OF_A_GROUP; i++)
            numbers_add (noted, flags[i].name, kind, group->name, group->own.flag[i]);
        numbers_add_text (noted, "the name", "group", group->name, group->name);
    }
}

enum accel_status
optimizer_prepare (struct object *object, struct accel *acc, const struct comm_site *site, struct accel_error *err)
{
    outliers_prepare ((struct accel_optimizer *) (void *) object, acc);
    return compare_numbers (site, acc, object, note, err);
}
