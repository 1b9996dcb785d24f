/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of parameter groups: one table says which there are, which kinds of optimizers have them, and what they
 * may be.  Options, checks, public look-up and the comparison over ranks go through it. */
#include <config.h>

#include "lib/train/optimizer/optimizer_live.h"
#include "lib/train/sharding.h"

#include "lib/base/error.h"
#include "lib/base/option.h"
#include "lib/base/sized.h"
#include "lib/train/outliers.h"
#include "lib/train/sharding_offload.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The program gives them in two structs, which have them in the same order. */
#define PLACE(field)                                                                                                   \
    offsetof (struct accel_param_group, field)                                                                         \
        + 0 * sizeof (char[offsetof (struct accel_param_group, field) - offsetof (struct accel_param_group, lr)        \
                                   == offsetof (struct accel_optimizer_options, field)                                 \
                                          - offsetof (struct accel_optimizer_options, lr)                              \
                               ? 1 : -1])

/* In the order of enum group_number. */
static const struct {
    const char *name;
    size_t offset; /* in struct accel_param_group */
    double limit; /* it is at least 0 and less; NAN: any finite number */
} numbers[] = {
    { "lr", PLACE (lr), INFINITY },
    { "weight_decay", PLACE (weight_decay), INFINITY },
    { "beta1", PLACE (beta1), 1 },
    { "beta2", PLACE (beta2), 1 },
    { "eps", PLACE (eps), INFINITY },
    { "momentum", PLACE (momentum), INFINITY },
    { "dampening", PLACE (dampening), NAN },
    { "alpha", PLACE (alpha), INFINITY },
    { "lr_decay", PLACE (lr_decay), INFINITY },
    { "initial_accumulator_value", PLACE (initial_accumulator_value), INFINITY },
};

/* In the order of enum group_flag. */
static const struct {
    const char *name;
    size_t offset;
} flags[] = {
    { "nesterov", PLACE (nesterov) },
    { "amsgrad", PLACE (amsgrad) },
    { "centered", PLACE (centered) },
    { "maximize", PLACE (maximize) },
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

struct accel_param_group
optimizer_numbers_in (const struct accel_optimizer_options *options)
{
    struct accel_param_group result = { 0 };
    size_t begin = offsetof (struct accel_param_group, lr), end = offsetof (struct accel_param_group, min_ndim);
    memcpy ((char *) &result + begin, (const char *) options + offsetof (struct accel_optimizer_options, lr),
            end - begin);
    return result;
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
check_kind (const struct optimizer_kind *kind, const char *group, const char *name, unsigned setting,
            struct accel_error *err)
{
    char text[120];
    if (kind->has & setting)
        return ACCEL_OK;
    snprintf (text, sizeof text, "%s has no %s", kind->name, name);
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
        status = check_kind (optimizer->kind, group, numbers[i].name, NUMBER_BIT (i), err);
        status = status ? status : check_number (group, i, made.number[i], err);
    }
    for (size_t i = 0; !status && i < FLAGS_OF_A_GROUP; i++) {
        enum accel_flag value = flag_in (given, i);
        if (value == ACCEL_DEFAULT)
            continue;
        made.flag[i] = value == ACCEL_YES;
        status = check_kind (optimizer->kind, group, flags[i].name, FLAG_BIT (i), err);
        if (!status && value != ACCEL_YES && value != ACCEL_NO)
            status = refuse (group, err, "invalid value for an accel_flag");
    }
    const char *wrong = optimizer->kind->check && !status ? optimizer->kind->check (&made) : NULL;
    if (wrong)
        status = refuse (group, err, wrong);
    if (!status)
        *result = made;
    return status;
}

enum accel_status
optimizer_check_numbers (const struct optimizer_kind *kind, const struct optimizer_group *group,
                         const struct group_numbers *read, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; !status && i < NUMBERS_OF_A_GROUP; i++)
        if (kind->has & NUMBER_BIT (i))
            status = check_number (group->name, i, read->number[i], err);
    const char *wrong = kind->check && !status ? kind->check (read) : NULL;
    return wrong ? refuse (group->name, err, wrong) : status;
}

/* The numbers that are not 0, and the flags that are true. */
static unsigned
settings_of (const struct group_numbers *own)
{
    unsigned on = 0;
    for (unsigned i = 0; i < NUMBERS_OF_A_GROUP; i++)
        on |= own->number[i] != 0 ? NUMBER_BIT (i) : 0;
    for (unsigned i = 0; i < FLAGS_OF_A_GROUP; i++)
        on |= own->flag[i] ? FLAG_BIT (i) : 0;
    return on;
}

unsigned
optimizer_states_of (const struct optimizer_kind *kind, const struct group_numbers *own)
{
    unsigned states = 0, on = settings_of (own);
    for (unsigned i = 0; i < RULE_STATES && kind->states[i].name; i++)
        if (!(kind->states[i].needs & ~on))
            states |= 1U << i;
    return states;
}

const char *
optimizer_lacks_state (const struct accel_optimizer *optimizer, const struct optimizer_group *group,
                       const struct group_numbers *own)
{
    const struct optimizer_kind *kind = optimizer->kind;
    unsigned lacking = group->skip ? 0 : optimizer_states_of (kind, own) & ~group->states;
    for (unsigned i = 0; lacking && i < RULE_STATES; i++)
        for (unsigned j = 0; lacking >> i & 1 && j < NUMBERS_OF_A_GROUP + FLAGS_OF_A_GROUP; j++)
            if (kind->states[i].needs >> j & 1)
                return j < NUMBERS_OF_A_GROUP ? numbers[j].name : flags[j - NUMBERS_OF_A_GROUP].name;
    return NULL;
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
        enum accel_flag value = group->own.flag[i] ? ACCEL_YES : ACCEL_NO;
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
        if (!(optimizer->kind->has & NUMBER_BIT (i)))
            memset ((char *) &shown + numbers[i].offset, 0, sizeof (double));
    for (size_t i = 0; i < FLAGS_OF_A_GROUP; i++)
        if (!(optimizer->kind->has & FLAG_BIT (i)))
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
    const char *lacking = optimizer_lacks_state (optimizer, its, &own);
    if (lacking) {
        char text[120];
        snprintf (text, sizeof text, "it was created without %s, which needs memory", lacking);
        return refuse (its->name, err, text);
    }
    struct optimizer_group changed = *its;
    changed.own = own;
    if (optimizer->is_capturable && optimizer->live.steps && optimizer->kind->begin (&changed) != its->rule)
        return refuse (its->name, err,
                       "a capturable optimizer that has taken a step cannot switch amsgrad, centered or momentum on or "
                       "off, because graphs have the kernel of its rule");
    its->own = own;
    optimizer_live_renew (optimizer);
    return ACCEL_OK;
}

double
accel_optimizer_lr (const struct accel_optimizer *optimizer)
{
    return optimizer && optimizer->group_count ? *optimizer_lr_of (optimizer, 0) : 0;
}

enum accel_status
accel_optimizer_set_lr (struct accel_optimizer *optimizer, double lr, struct accel_error *err)
{
    enum accel_status status = check_group (__func__, optimizer, 0, err);
    if (!status)
        status = check_number (NULL, GROUP_LR, lr, err);
    for (size_t i = 0; !status && i < optimizer->group_count; i++)
        *optimizer_lr_of (optimizer, i) = lr;
    if (!status)
        optimizer_live_renew (optimizer);
    return status;
}

double *
optimizer_momentum (const struct accel_optimizer *optimizer, size_t group)
{
    struct optimizer_group *its = &optimizer->groups[group];
    unsigned number = optimizer->kind->cycled;
    if (its->skip || !number)
        return NULL;
    for (unsigned i = 0; i < RULE_STATES; i++) /* if its state is missing it has no effect */
        if (optimizer->kind->states[i].needs == NUMBER_BIT (number) && !(its->states >> i & 1))
            return NULL;
    return &its->own.number[number];
}

static void
note (const struct object *object, struct noted_numbers *noted)
{
    const struct accel_optimizer *optimizer = (const struct accel_optimizer *) (const void *) object;
    noted->what = optimizer->kind->name;
    noted->sizes[0] = (struct noted_size){ "the number of groups", optimizer->group_count };
    noted->sizes[1] = (struct noted_size){ "the number of parameters", optimizer->model->count };
    numbers_add (noted, "the number of steps done", NULL, NULL, (double) optimizer_steps (optimizer));
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
    struct accel_optimizer *optimizer = (struct accel_optimizer *) (void *) object;
    outliers_prepare (optimizer, acc);
    enum accel_status status = compare_numbers (site, acc, object, note, err);
    if (!status && optimizer->model->object.owner == acc)
        status = offload_begin (optimizer->model, acc, site, err);
    if (!status)
        sharding_discard (optimizer->model);
    return status;
}
