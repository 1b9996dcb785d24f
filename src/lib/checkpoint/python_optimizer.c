/* SPDX-License-Identifier: Apache-2.0 */
/* The states of PyTorch's optimizers and schedulers; see python_optimizer.h.  Parameters have no names there: the k-th
 * of a group is the k-th of that group here. */
#include <config.h>

#include "lib/checkpoint/python_optimizer.h"

#include "lib/base/error.h"
#include "lib/train/optimizer/optimizer_object.h"
#include "lib/train/scheduler/schedules.h"
#include "util/cleanup.h"

#include <string.h>

struct parameter_state {
    int64_t number;
    const struct pickle_value *dict;
};

/* What is read, and into what. */
struct reading {
    struct torch_archive *archive;
    struct accel_optimizer *optimizer;
    struct parameter_state *states; /* [count], by their numbers */
    size_t count;
    struct accel_state_dict *state;
    double step;   /* of the parameters so far; -1: none */
    bool has_none; /* no parameter has a state: there was no step yet, or none is needed */
};

bool
python_number (const struct pickle_value *value, double *number)
{
    if (!value || (value->type != PICKLE_INT && value->type != PICKLE_FLOAT && value->type != PICKLE_BOOL))
        return false;
    *number = value->type == PICKLE_FLOAT ? value->real : (double) value->integer;
    return true;
}

enum accel_status
python_add_tensor (struct accel_state_dict *state, const char *name, struct torch_archive *archive,
                   const struct pickle_value *value, struct accel_error *err)
{
    struct torch_tensor tensor;
    uint64_t begin = 0;
    enum accel_status status = torch_archive_find (archive, value, &tensor, &begin, err);
    if (status)
        return accel_fail_in (err, status, "'%.100s'", name);
    return state_dict_add_stored (state, name, tensor.dtype, (size_t) tensor.ndim, tensor.sizes, begin, err);
}

static enum accel_status
fail_format (const struct reading *reading, const char *what, struct accel_error *err)
{
    return accel_fail (err, ACCEL_ERR_FORMAT, "%s: %s", reading->archive->source.path, what);
}

/* ---- groups ---- */

static const struct pickle_value *
find_number (const struct pickle_value *group, size_t number)
{
    bool is_beta = number == GROUP_BETA1 || number == GROUP_BETA2;
    return pickle_find (group, is_beta ? "betas" : group_number_name (number));
}

/* PyTorch's groups do not say whose they are.  Each has all settings of its kind, and none of another's; maximize has
 * been there only since PyTorch 1.11, and momentum_decay is NAdam's. */
static bool
looks_like (const struct optimizer_kind *kind, const struct pickle_value *group)
{
    bool fits = !pickle_find (group, "momentum_decay");
    for (size_t i = 0; fits && i < NUMBERS_OF_A_GROUP; i++)
        fits = !(kind->has & NUMBER_BIT (i)) == !find_number (group, i);
    for (size_t i = 0; fits && i < FLAGS_OF_A_GROUP; i++)
        fits = i == GROUP_MAXIMIZE || !(kind->has & FLAG_BIT (i)) == !pickle_find (group, group_flag_name (i));
    const struct pickle_value *decoupled = pickle_find (group, "decoupled_weight_decay"); /* since PyTorch 2.6 */
    if (fits && decoupled && decoupled->type == PICKLE_BOOL)
        fits = decoupled->integer == kind->decoupled;
    return fits;
}

static enum accel_status
check_kind (const struct reading *reading, const struct pickle_value *group, struct accel_error *err)
{
    const struct optimizer_kind *kind = reading->optimizer->kind;
    if (looks_like (kind, group))
        return ACCEL_OK;
    return accel_fail (err, ACCEL_ERR_FORMAT, "%s: not the state of PyTorch's %s, but that is what the optimizer is",
                       reading->archive->source.path, kind->name);
}

/* A number of @group of PyTorch; if it has none, it stays as it is here. */
static enum accel_status
read_number (const struct reading *reading, const struct pickle_value *group, size_t number, double *value,
             struct accel_error *err)
{
    const struct pickle_value *found = find_number (group, number);
    if (found && found->type == PICKLE_TUPLE && found->count == 2)
        found = found->items[number == GROUP_BETA2];
    if (found && !python_number (found, value))
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "%s: '%s' of a group is not a number",
                           reading->archive->source.path, group_number_name (number));
    return ACCEL_OK;
}

/* @param python  NULL: the group is another optimizer's, and its numbers stay */
static enum accel_status
add_numbers (const struct reading *reading, struct optimizer_group *group, const struct pickle_value *python,
             struct accel_error *err)
{
    struct group_numbers read = group->own;
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; !status && i < NUMBERS_OF_A_GROUP; i++) {
        status = python ? read_number (reading, python, i, &read.number[i], err) : ACCEL_OK;
        state_dict_set_double (reading->state, read.number[i], "group.%s.%s", group->name, group_number_name (i));
    }
    for (size_t i = 0; i < FLAGS_OF_A_GROUP; i++) {
        const struct pickle_value *found = python ? pickle_find (python, group_flag_name (i)) : NULL;
        if (found && found->type == PICKLE_BOOL)
            read.flag[i] = found->integer;
        state_dict_set_bool (reading->state, read.flag[i], "group.%s.%s", group->name, group_flag_name (i));
    }
    if (!status && python)
        status = optimizer_check_numbers (reading->optimizer->kind, group, &read, err)
                     ? accel_fail_in (err, ACCEL_ERR_FORMAT, "%s", reading->archive->source.path) : ACCEL_OK;
    if (!status && reading->has_none) { /* then this is all that there is to restore */
        const char *lacking = optimizer_lacks_state (reading->optimizer, group, &read);
        if (lacking)
            return accel_fail (err, ACCEL_ERR_FORMAT, "%s: saved with %s, but the optimizer was created without",
                               reading->archive->source.path, lacking);
        group->own = read;
    }
    return status;
}

/* ---- parameters ---- */

static bool
has_tensors (const struct pickle_value *state)
{
    for (size_t i = 1; state && state->type == PICKLE_DICT && i < state->count; i += 2)
        if (torch_is_tensor (state->items[i]))
            return true;
    return false;
}

static int
compare_numbers_of_states (const void *a, const void *b)
{
    int64_t x = ((const struct parameter_state *) a)->number, y = ((const struct parameter_state *) b)->number;
    return (x > y) - (x < y);
}

static enum accel_status
list_states (struct reading *reading, struct accel_error *err)
{
    const struct pickle_value *all = pickle_find (reading->archive->pickle.root, "state");
    if (!all || all->type != PICKLE_DICT)
        return fail_format (reading, "not the state of an optimizer of PyTorch", err);
    reading->states = calloc (all->count + 1, sizeof *reading->states);
    if (!reading->states)
        return accel_fail_nomem (err);
    for (size_t i = 0; i + 1 < all->count; i += 2)
        if (all->items[i]->type == PICKLE_INT) {
            reading->has_none = reading->has_none && !has_tensors (all->items[i + 1]);
            reading->states[reading->count++]
                = (struct parameter_state){ all->items[i]->integer, all->items[i + 1] };
        }
    qsort (reading->states, reading->count, sizeof *reading->states, compare_numbers_of_states);
    return ACCEL_OK;
}

/* The state of a parameter by its number; NULL: it has none. */
static const struct pickle_value *
find_state (const struct reading *reading, const struct pickle_value *number)
{
    const struct parameter_state wanted = { .number = number->type == PICKLE_INT ? number->integer : -1 };
    const struct parameter_state *found
        = bsearch (&wanted, reading->states, reading->count, sizeof wanted, compare_numbers_of_states);
    return found ? found->dict : NULL;
}

/* PyTorch counts the steps of each parameter, in a tensor of one float32 or, formerly, a number.  SGD does not: after
 * the first step, their number makes no difference. */
static enum accel_status
read_step (struct reading *reading, const struct pickle_value *state, struct accel_error *err)
{
    const struct pickle_value *value = pickle_find (state, "step");
    struct torch_tensor tensor;
    uint64_t begin;
    float single;
    double step = 1;
    if (torch_is_tensor (value)) {
        enum accel_status status = torch_archive_find (reading->archive, value, &tensor, &begin, err);
        if (!status && (tensor.dtype != SAFETENSORS_F32 || tensor.reach < sizeof single))
            status = fail_format (reading, "'step' of a parameter is not a single float32 number", err);
        if (!status)
            status = source_read (&reading->archive->source, begin, &single, sizeof single, err);
        if (status)
            return status;
        step = (double) single;
    } else if (!python_number (value, &step) && reading->optimizer->kind->needs_step)
        return fail_format (reading, "'step' of a parameter is missing", err);
    if (!(step >= 0 && step < 0x1p53) || (reading->step >= 0 && step != reading->step))
        return fail_format (reading, "its parameters have taken different numbers of steps", err);
    reading->step = step;
    return ACCEL_OK;
}

static enum accel_status
add_parameter (struct reading *reading, size_t index,
               const struct pickle_value *state, struct accel_error *err)
{
    const char *name = reading->optimizer->model->parameters[index].name;
    if (!state)
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s: '%.100s' has no state, but other parameters have one",
                           reading->archive->source.path, name);
    enum accel_status status = read_step (reading, state, err);
    for (size_t i = 0; !status && i < reading->optimizer->state_count; i++) {
        const char *key = reading->optimizer->state_names[i];
        if (!accel_optimizer_state_tensor (reading->optimizer, index, key))
            continue;
        const struct pickle_value *value = pickle_find (state, key);
        AUTO_FREE char *full = NULL;
        if (asprintf (&full, "state.%s.%s", key, name) < 0)
            return full = NULL, accel_fail_nomem (err);
        status = torch_is_tensor (value) ? python_add_tensor (reading->state, full, reading->archive, value, err)
                                         : accel_fail (err, ACCEL_ERR_FORMAT, "%s: '%s' of '%.100s' is missing",
                                                       reading->archive->source.path, key, name);
    }
    return status;
}

/* Programs may give PyTorch's optimizer parameters that are not trained, which have no state. */
static enum accel_status
add_parameters (struct reading *reading, const struct optimizer_group *group, const struct pickle_value *python,
                struct accel_error *err)
{
    const struct pickle_value *numbers = pickle_find (python, "params");
    size_t with_state = 0, used = 0;
    if (!numbers || numbers->type != PICKLE_LIST)
        return fail_format (reading, "'params' of a group is missing", err);
    for (size_t i = 0; i < numbers->count; i++)
        with_state += has_tensors (find_state (reading, numbers->items[i]));
    bool all = numbers->count == group->count;
    if (!all && with_state != group->count)
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s: group '%.80s' has %zu parameters, but %zu in the file",
                           reading->archive->source.path, group->name, group->count, numbers->count);
    if (reading->has_none || (!with_state && !group->states))
        return ACCEL_OK;
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; !status && i < numbers->count; i++) {
        const struct pickle_value *state = find_state (reading, numbers->items[i]);
        if (all || has_tensors (state))
            status = add_parameter (reading, group->indices[used++], state, err);
    }
    return status;
}

/* ---- all of it ---- */

static enum accel_status
add_groups (struct reading *reading, const struct pickle_value *groups, struct accel_error *err)
{
    const struct accel_optimizer *optimizer = reading->optimizer;
    enum accel_status status = ACCEL_OK;
    size_t used = 0, wanted = 0;
    for (size_t i = 0; i < optimizer->group_count; i++)
        wanted += !optimizer->groups[i].skip;
    if (!groups || groups->type != PICKLE_LIST || groups->count != wanted)
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s: the optimizer has %zu parameter groups, but the file has %zu",
                           reading->archive->source.path, wanted,
                           groups && groups->type == PICKLE_LIST ? groups->count : 0);
    for (size_t i = 0; !status && i < optimizer->group_count; i++) {
        struct optimizer_group *group = &optimizer->groups[i];
        const struct pickle_value *python = group->skip ? NULL : groups->items[used++];
        status = python ? check_kind (reading, python, err) : ACCEL_OK;
        if (!status)
            status = add_numbers (reading, group, python, err);
        if (!status && python)
            status = add_parameters (reading, group, python, err);
    }
    return status;
}

enum accel_status
python_load_optimizer (struct torch_archive *archive, const struct checkpoint_item *item,
                       struct accel_error *err)
{
    struct accel_optimizer *optimizer = (struct accel_optimizer *) (void *) item->object;
    struct accel_state_dict state;
    struct reading reading = { .archive = archive, .optimizer = optimizer, .state = &state, .step = -1,
                               .has_none = true };
    state_dict_init (&state);
    enum accel_status status = list_states (&reading, err);
    if (!status)
        status = add_groups (&reading, pickle_find (archive->pickle.root, "param_groups"), err);
    if (!status && !reading.has_none) {
        accel_state_dict_set_text (&state, "kind", optimizer->kind->name);
        state_dict_add_uint64 (&state, "step", reading.step > 0 ? (uint64_t) reading.step : 0);
        status = state_dict_seal (&state, &archive->source, err);
        if (!status)
            status = checkpoint_item_load (item, &state, err);
    }
    state_dict_release (&state);
    free (reading.states);
    return status;
}

/* ---- schedulers ---- */

static bool
find_rate (const struct pickle_value *state, const char *key, size_t group, double *rate)
{
    const struct pickle_value *rates = pickle_find (state, key);
    return rates && rates->type == PICKLE_LIST && group < rates->count && python_number (rates->items[group], rate);
}

enum accel_status
python_load_scheduler (struct torch_archive *archive, const struct checkpoint_item *item,
                       struct accel_error *err)
{
    struct accel_scheduler *scheduler = (struct accel_scheduler *) (void *) item->object;
    const struct pickle_value *root = archive->pickle.root, *last = pickle_find (root, "last_epoch");
    size_t count = accel_scheduler_state_count (scheduler);
    AUTO_FREE struct accel_scheduler_state *records = calloc (count + 1, sizeof *records);
    if (!records)
        return accel_fail_nomem (err);
    if (scheduler->composition != COMPOSED_OF_ONE || pickle_find (root, "_schedulers"))
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "%s: sequences and chains of schedules are not loaded",
                           archive->source.path);
    if (!last || last->type != PICKLE_INT || last->integer < 0)
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s: not the state of a scheduler of PyTorch", archive->source.path);
    accel_scheduler_get_state (scheduler, records);
    for (size_t i = 0; i < count; i++) {
        records[i].step = (uint64_t) last->integer;
        if (!find_rate (root, "base_lrs", i, &records[i].base_lr) || !find_rate (root, "_last_lr", i, &records[i].lr))
            return accel_fail (err, ACCEL_ERR_FORMAT, "%s: no learning rates for group %zu",
                               archive->source.path, i);
    }
    enum accel_status status = accel_scheduler_set_state (scheduler, records, count, err);
    return status ? accel_fail_in (err, status, "%s", item->name) : ACCEL_OK;
}
