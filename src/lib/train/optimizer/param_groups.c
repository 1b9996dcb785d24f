/* SPDX-License-Identifier: Apache-2.0 */
/* Which parameter belongs to which group: patterns, names and positions, resolved once when an optimizer is made. */
#include <config.h>

#include "lib/train/optimizer/optimizer_object.h"

#include "lib/base/error.h"
#include "util/cleanup.h"
#include "util/suggest.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 32, CANDIDATE_SIZE = 80 };

/* A group while it is being made, for messages: its position, and what the program said. */
struct chosen {
    struct accel_optimizer *optimizer;
    size_t group;
    const struct accel_param_group *given;
};

static const char *
name_of (const struct chosen *chosen)
{
    return chosen->optimizer->groups[chosen->group].name;
}

static bool
has_dimensions (const struct accel_optimizer *optimizer, size_t index, uint64_t min_ndim)
{
    return (uint64_t) optimizer->model->parameters[index].data->ndim >= min_ndim;
}

static enum accel_status
choose (const struct chosen *chosen, size_t index, struct accel_error *err)
{
    struct accel_optimizer *optimizer = chosen->optimizer;
    ptrdiff_t before = optimizer->group_of[index];
    if (!has_dimensions (optimizer, index, chosen->given->min_ndim))
        return ACCEL_OK;
    if (before != NO_GROUP_YET && before != (ptrdiff_t) chosen->group)
        return accel_fail (err, ACCEL_ERR_INVALID, "parameter '%.100s' is in two groups, '%.80s' and '%.80s'",
                           optimizer->model->parameters[index].name, optimizer->groups[before].name, name_of (chosen));
    optimizer->group_of[index] = (ptrdiff_t) chosen->group;
    return ACCEL_OK;
}

/* A suggestion among texts that are made one by one, and kept here. */
struct candidate {
    struct suggest suggest;
    char best[CANDIDATE_SIZE];
};

static void
consider (struct candidate *candidate, const char *text)
{
    struct suggest one = { .wanted = candidate->suggest.wanted };
    suggest_consider (&one, text);
    if (!one.best || (candidate->suggest.best && one.distance >= candidate->suggest.distance))
        return;
    snprintf (candidate->best, sizeof candidate->best, "%s", text);
    candidate->suggest.best = candidate->best;
    candidate->suggest.distance = one.distance;
}

/* What could have been meant: names, and for patterns also "*.end" and "begin.*" of names with dots. */
static const char *
suggest_parameter (const struct accel_model *model, const char *wanted, char *space, size_t size)
{
    struct candidate candidate = { .suggest.wanted = wanted };
    char text[CANDIDATE_SIZE];
    bool pattern = strpbrk (wanted, "*?[") != NULL;
    for (size_t i = 0; i < model->count; i++) {
        const char *name = model->parameters[i].name;
        if (!model_is_trained (model, i) || strlen (name) >= CANDIDATE_SIZE - 2)
            continue;
        consider (&candidate, name);
        for (const char *dot = strchr (name, '.'); pattern && dot; dot = strchr (dot + 1, '.')) {
            snprintf (text, sizeof text, "*%s", dot);
            consider (&candidate, text);
            snprintf (text, sizeof text, "%.*s.*", (int) (dot - name), name);
            consider (&candidate, text);
        }
    }
    return suggest_text (&candidate.suggest, "", space, size);
}

/* No trained parameter is called, or matches, @wanted. */
static enum accel_status
refuse_name (const struct chosen *chosen, const char *what, const char *wanted, bool untrained, struct accel_error *err)
{
    char space[CANDIDATE_SIZE + 40];
    if (untrained)
        return accel_fail (err, ACCEL_ERR_INVALID, "group '%.80s': no parameter that %s '%.100s' is trained: it has no "
                           "gradient", name_of (chosen), what, wanted);
    return accel_fail (err, ACCEL_ERR_INVALID, "group '%.80s': no parameter %s '%.100s'%s", name_of (chosen), what,
                       wanted, suggest_parameter (chosen->optimizer->model, wanted, space, sizeof space));
}

/* Choose all that @p text matches, a pattern or a name. */
static enum accel_status
choose_matches (const struct chosen *chosen, const char *what, const char *text, bool pattern, struct accel_error *err)
{
    const struct accel_model *model = chosen->optimizer->model;
    bool found = false, untrained = false;
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; !status && i < model->count; i++) {
        const char *name = model->parameters[i].name;
        if (pattern ? fnmatch (text, name, 0) : strcmp (text, name))
            continue;
        if (!model_is_trained (model, i)) {
            untrained = true;
            continue;
        }
        found = true;
        status = choose (chosen, i, err);
    }
    return status || found ? status : refuse_name (chosen, what, text, untrained, err);
}

/* Patterns between commas, with blanks around them; "\," is a comma of a name. */
static enum accel_status
choose_patterns (const struct chosen *chosen, struct accel_error *err)
{
    AUTO_FREE char *text = strdup (chosen->given->match);
    if (!text)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a parameter group");
    enum accel_status status = ACCEL_OK;
    for (char *next = text, *pattern; !status && (pattern = next);) {
        char *end = pattern;
        while (*end && *end != ',')
            end += *end == '\\' && end[1] ? 2 : 1;
        next = *end ? end + 1 : NULL;
        while (end > pattern && end[-1] == ' ')
            end--;
        *end = '\0';
        pattern += strspn (pattern, " ");
        if (!*pattern)
            return accel_fail (err, ACCEL_ERR_INVALID, "group '%.80s': `match` contains an empty pattern",
                               name_of (chosen));
        status = choose_matches (chosen, "matches", pattern, true, err);
    }
    return status;
}

static enum accel_status
choose_indices (const struct chosen *chosen, struct accel_error *err)
{
    const struct accel_param_group *given = chosen->given;
    const struct accel_model *model = chosen->optimizer->model;
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; !status && i < given->index_count; i++) {
        size_t index = given->indices[i];
        if (index >= model->count)
            return accel_fail (err, ACCEL_ERR_INVALID, "group '%.80s': parameter %zu does not exist: the model has %zu",
                               name_of (chosen), index, model->count);
        if (!model_is_trained (model, index))
            return refuse_name (chosen, "is named", model->parameters[index].name, true, err);
        status = choose (chosen, index, err);
    }
    return status;
}

static bool
names_any (const struct accel_param_group *given)
{
    return given->match || given->parameters || given->indices || given->parameter_count || given->index_count;
}

static bool
takes_the_rest (const struct accel_param_group *given)
{
    return !names_any (given) && !given->min_ndim;
}

static enum accel_status
choose_given (const struct chosen *chosen, struct accel_error *err)
{
    const struct accel_param_group *given = chosen->given;
    if ((given->parameter_count && !given->parameters) || (given->index_count && !given->indices))
        return accel_fail (err, ACCEL_ERR_INVALID, "group '%.80s': %s is NULL", name_of (chosen),
                           given->parameter_count && !given->parameters ? "parameters" : "indices");
    enum accel_status status = given->match ? choose_patterns (chosen, err) : ACCEL_OK;
    for (size_t i = 0; !status && given->parameters && i < given->parameter_count; i++)
        if (!given->parameters[i])
            status = accel_fail (err, ACCEL_ERR_INVALID, "group '%.80s': name %zu is NULL", name_of (chosen), i);
        else
            status = choose_matches (chosen, "is named", given->parameters[i], false, err);
    return status ? status : choose_indices (chosen, err);
}

/* Give @group what no other group has chosen, of at least @min_ndim dimensions.  @return the number of parameters */
static size_t
choose_rest (struct accel_optimizer *optimizer, size_t group, uint64_t min_ndim)
{
    size_t count = 0;
    for (size_t i = 0; i < optimizer->model->count; i++)
        if (optimizer->group_of[i] == NO_GROUP_YET && model_is_trained (optimizer->model, i)
            && has_dimensions (optimizer, i, min_ndim)) {
            optimizer->group_of[i] = (ptrdiff_t) group;
            count++;
        }
    return count;
}

/* A name of its own, or what it matches, or its place. */
static enum accel_status
name_group (struct accel_optimizer *optimizer, const struct accel_param_group *given, struct accel_error *err)
{
    char text[NAME_SIZE];
    size_t group = optimizer->group_count;
    const char *name = given->name ? given->name : given->match;
    snprintf (text, sizeof text, "%zu", group);
    if (given->name && !*given->name)
        return accel_fail (err, ACCEL_ERR_INVALID, "the name of group %zu is empty", group);
    name = name ? name : takes_the_rest (given) ? "rest" : text;
    if (accel_optimizer_find_group (optimizer, name) != ACCEL_NO_GROUP)
        return accel_fail (err, ACCEL_ERR_INVALID, "two groups are named '%.80s'", name);
    optimizer->groups[group].name = strdup (name);
    if (!optimizer->groups[group].name)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a parameter group");
    optimizer->group_count++;
    return ACCEL_OK;
}

/* What the group is called, and its numbers. */
static enum accel_status
begin_group (struct accel_optimizer *optimizer, const struct accel_param_group *given, struct accel_error *err)
{
    enum accel_status status = name_group (optimizer, given, err);
    if (status)
        return status;
    struct optimizer_group *group = &optimizer->groups[optimizer->group_count - 1];
    group->own = optimizer->base;
    group->skip = given->skip;
    return optimizer_take_numbers (optimizer, group->name, given, &group->own, err);
}

static enum accel_status
choose_all (struct accel_optimizer *optimizer, struct given_groups given, struct accel_error *err)
{
    size_t rest = ACCEL_NO_GROUP;
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; !status && i < given.count; i++) {
        struct chosen chosen = { optimizer, i, &given.groups[i] };
        if (takes_the_rest (chosen.given) && rest != ACCEL_NO_GROUP)
            return accel_fail (err, ACCEL_ERR_INVALID, "groups %zu and %zu both choose no parameters: only one group "
                               "can take the rest", rest, i);
        status = begin_group (optimizer, chosen.given, err);
        if (takes_the_rest (chosen.given))
            rest = i;
        else if (!status && names_any (chosen.given))
            status = choose_given (&chosen, err);
    }
    if (status)
        return status;
    for (size_t i = 0; i < given.count; i++)
        if (given.groups[i].min_ndim && !names_any (&given.groups[i]))
            choose_rest (optimizer, i, given.groups[i].min_ndim);
    if (rest != ACCEL_NO_GROUP)
        choose_rest (optimizer, rest, 0);
    else if (choose_rest (optimizer, given.count, 0) || !given.count)
        status = begin_group (optimizer, &(struct accel_param_group){ .name = given.count ? "rest" : "all" }, err);
    return status;
}

/* Lists of parameters by group, and what follows from the numbers. */
static enum accel_status
finish_group (struct accel_optimizer *optimizer, size_t number, struct accel_error *err)
{
    struct optimizer_group *group = &optimizer->groups[number];
    size_t count = optimizer->model->count;
    bool alone = optimizer->group_count == 1;
    group->indices = calloc (count + 1, sizeof *group->indices);
    if (!group->indices)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a parameter group");
    for (size_t i = 0; i < count; i++)
        if (optimizer->group_of[i] == (ptrdiff_t) number)
            group->indices[group->count++] = i;
    if (!group->count && !alone)
        return accel_fail (err, ACCEL_ERR_INVALID, "group '%.80s' has no parameters", group->name);
    if (group->skip)
        return ACCEL_OK;
    if (isnan (group->own.number[GROUP_LR]))
        return alone ? accel_fail (err, ACCEL_ERR_INVALID,
                                   "%s needs a learning rate (options->lr; ACCEL_ZERO for 0)",
                                   optimizer->kind->name)
                     : accel_fail (err, ACCEL_ERR_INVALID, "group '%.80s' needs a learning rate: its own or the "
                                   "options' (lr; ACCEL_ZERO for 0)", group->name);
    group->states = optimizer_states_of (optimizer->kind, &group->own);
    return ACCEL_OK;
}

enum accel_status
optimizer_make_groups (struct accel_optimizer *optimizer, struct given_groups given, struct accel_error *err)
{
    size_t count = optimizer->model->count;
    if (given.count && !given.groups)
        return accel_fail (err, ACCEL_ERR_INVALID, "an optimizer's options: groups is NULL, but group_count is %zu",
                           given.count);
    optimizer->groups = given.count < SIZE_MAX / sizeof *optimizer->groups
                            ? calloc (given.count + 1, sizeof *optimizer->groups) : NULL;
    optimizer->group_of = calloc (count, sizeof *optimizer->group_of);
    if (!optimizer->groups || !optimizer->group_of)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for %zu parameter groups", given.count);
    for (size_t i = 0; i < count; i++)
        optimizer->group_of[i] = NO_GROUP_YET;
    enum accel_status status = choose_all (optimizer, given, err);
    for (size_t i = 0; !status && i < optimizer->group_count; i++)
        status = finish_group (optimizer, i, err);
    return status;
}

void
optimizer_free_groups (struct accel_optimizer *optimizer)
{
    for (size_t i = 0; i < optimizer->group_count; i++) {
        free (optimizer->groups[i].name);
        free (optimizer->groups[i].indices);
    }
    free (optimizer->groups);
    free (optimizer->group_of);
    optimizer->groups = NULL;
    optimizer->group_of = NULL;
    optimizer->group_count = 0;
}

size_t
accel_optimizer_group_count (const struct accel_optimizer *optimizer)
{
    return optimizer ? optimizer->group_count : 0;
}

size_t
accel_optimizer_find_group (const struct accel_optimizer *optimizer, const char *name)
{
    for (size_t i = 0; optimizer && name && i < optimizer->group_count; i++)
        if (!strcmp (name, optimizer->groups[i].name))
            return i;
    return ACCEL_NO_GROUP;
}
