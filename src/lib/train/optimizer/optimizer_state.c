/* SPDX-License-Identifier: Apache-2.0 */
/* What checkpoints have of an optimizer: its steps, the numbers of its groups, its states, and the float32 masters of
 * the parameters that it changes. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/state/state_dict.h"
#include "lib/train/optimizer/optimizer_live.h"
#include "lib/train/packed.h"
#include "lib/train/sharding.h"
#include "lib/train/tensor_parallel.h"

#include <stdio.h>
#include <string.h>

static void
save_group (const struct optimizer_group *group, struct accel_state_dict *state)
{
    for (size_t i = 0; i < NUMBERS_OF_A_GROUP; i++)
        state_dict_set_double (state, group->own.number[i], "group.%s.%s", group->name, group_number_name (i));
    for (size_t i = 0; i < FLAGS_OF_A_GROUP; i++)
        state_dict_set_bool (state, group->own.flag[i], "group.%s.%s", group->name, group_flag_name (i));
}

/* Whether @tensor is divided as parameter @index is: states of a custom optimizer have any shape. */
static bool
is_divided (const struct accel_optimizer *optimizer, size_t index, const DLTensor *tensor)
{
    return !optimizer->custom.step || tensor == optimizer->model->trained[index].data;
}

/* @param prefix, what  "state." and "exp_avg", or "" and "master" */
static void
save_tensor (const struct accel_optimizer *optimizer, size_t index, const DLTensor *tensor, const char *prefix,
             const char *what, struct accel_state_dict *state)
{
    const struct accel_model *model = optimizer->model;
    const char *name = model->parameters[index].name;
    bool is_master = tensor == model->trained[index].data, divided = is_divided (optimizer, index, tensor);
    struct stretch own[STRETCHES];
    int count = 1;
    if (state->in_shares)
        count = sharding_saved (model, index, divided, accel_tensor_count (tensor), own);
    for (int i = 0; i < count; i++) {
        DLTensor placed = *tensor;
        if (state->in_shares && divided)
            placed = packed_tensor (model, index, tensor, own[i].from);
        if (state->in_shares)
            state_dict_set_stretch (state, &placed, own[i].from, own[i].end, "%s%s.%s", prefix, what, name);
        else
            state_dict_set_tensor (state, tensor, "%s%s.%s", prefix, what, name);
        if (is_master)
            state_dict_mark_trained (state);
    }
}

void
optimizer_save (const struct object *object, struct accel_state_dict *state)
{
    const struct accel_optimizer *optimizer = (const struct accel_optimizer *) (const void *) object;
    const struct accel_model *model = optimizer->model;
    accel_state_dict_set_text (state, "kind", optimizer->kind->name);
    state_dict_add_uint64 (state, "step", optimizer_steps (optimizer));
    for (size_t i = 0; i < optimizer->group_count; i++)
        save_group (&optimizer->groups[i], state);
    for (size_t i = 0; i < model->count; i++) {
        for (size_t j = 0; j < optimizer->state_count; j++)
            if (optimizer->state_tensors[i * optimizer->state_count + j])
                save_tensor (optimizer, i, &optimizer_state_at (optimizer, i, j)->tensor, "state.",
                             optimizer->state_names[j], state);
        if (model->widened && optimizer_master_at (optimizer, i))
            save_tensor (optimizer, i, optimizer_master_at (optimizer, i), "", "master", state);
    }
}

/* What the saved numbers need more memory for than the optimizer was created with. */
static enum accel_status
check_states (const struct accel_optimizer *optimizer, const struct optimizer_group *group,
              const struct group_numbers *saved, struct accel_error *err)
{
    const char *needs = optimizer_lacks_state (optimizer, group, saved);
    if (!needs)
        return ACCEL_OK;
    return accel_fail (err, ACCEL_ERR_FORMAT,
                       "group '%.80s' was saved with %s, but the optimizer was created without: set .%s in its options",
                       group->name, needs, needs);
}

static enum accel_status
load_group (const struct accel_optimizer *optimizer, struct optimizer_group *group,
            const struct accel_state_dict *state, struct accel_error *err)
{
    struct group_numbers read = group->own;
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; !status && i < NUMBERS_OF_A_GROUP; i++)
        status = state_dict_get_double (state, &read.number[i], err, "group.%s.%s", group->name,
                                        group_number_name (i));
    for (size_t i = 0; !status && i < FLAGS_OF_A_GROUP; i++)
        status = state_dict_get_bool (state, &read.flag[i], err, "group.%s.%s", group->name, group_flag_name (i));
    if (!status)
        status = check_states (optimizer, group, &read, err);
    if (!status)
        group->own = read;
    return status;
}

/* This process's elements of its part of a tensor that is cut. */
static enum accel_status
load_part (const struct accel_model *model, size_t index, const DLTensor *tensor, const char *prefix, const char *what,
           const struct accel_state_dict *state, struct accel_error *err)
{
    const char *name = model->parameters[index].name;
    size_t each = tensor_element_bytes (tensor), bytes = accel_tensor_count (tensor) * each;
    const struct memory *memory = model_state_memory (model);
    struct stretch own[STRETCHES];
    struct whole whole = { 0 };
    DLTensor part = *tensor;
    part.data = memory->create (tensor->device, bytes, false);
    if (!part.data)
        return memory_fail (tensor->device, err, "cannot allocate %zu bytes for a part of '%.100s'", bytes, name);
    enum accel_status status = whole_begin (&whole, model, index, &part, err);
    if (!status)
        status = state_dict_get_tensor (state, &whole.tensor, err, "%s%s.%s", prefix, what, name);
    status = whole_end (&whole, status, err);
    sharding_stretches (model, index, own);
    for (int i = 0; i < STRETCHES && !status; i++) {
        DLTensor placed = packed_tensor (model, index, tensor, own[i].from);
        memory->copy (tensor->device, memory_at (placed.data, own[i].from, each),
                      memory_at (part.data, own[i].from, each), (own[i].end - own[i].from) * each);
    }
    status = status ? status : memory_check (tensor->device, err); /* before the memory goes */
    memory->destroy (tensor->device, part.data);
    return status;
}

/* What this process has of it. */
static enum accel_status
load_tensor (const struct accel_optimizer *optimizer, size_t index, DLTensor *tensor, const char *prefix,
             const char *what, const struct accel_state_dict *state, struct accel_error *err)
{
    const struct accel_model *model = optimizer->model;
    const char *name = model->parameters[index].name;
    struct stretch own[STRETCHES];
    enum accel_status status = ACCEL_OK;
    if (!is_divided (optimizer, index, tensor) || !sharding_chunk (model, index)) {
        struct whole whole;
        status = whole_begin (&whole, model, index, tensor, err);
        if (!status)
            status = state_dict_get_tensor (state, &whole.tensor, err, "%s%s.%s", prefix, what, name);
        return whole_end (&whole, status, err);
    }
    if (cut_has (model, index))
        return load_part (model, index, tensor, prefix, what, state, err);
    sharding_stretches (model, index, own);
    for (int i = 0; i < STRETCHES && !status; i++) {
        DLTensor placed = packed_tensor (model, index, tensor, own[i].from);
        status = state_dict_get_stretch (state, &placed, own[i].from, own[i].end, err, "%s%s.%s", prefix, what, name);
    }
    return status;
}

/* Parameters that had masters when they were saved get these; others have been widened from the parameters. */
static enum accel_status
load_master (struct accel_optimizer *optimizer, size_t index, const struct accel_state_dict *state,
             struct accel_error *err)
{
    DLTensor *master = optimizer_master_at (optimizer, index);
    const char *name = optimizer->model->parameters[index].name;
    char known[512];
    if (!master)
        return ACCEL_OK;
    bool fits = (size_t) snprintf (known, sizeof known, "master.%s", name) < sizeof known;
    if (fits && !accel_state_dict_has (state, known))
        return ACCEL_OK;
    return load_tensor (optimizer, index, master, "", "master", state, err);
}

static enum accel_status
check_kind (const struct accel_optimizer *optimizer, const struct accel_state_dict *state, struct accel_error *err)
{
    const char *kind, *wanted = optimizer->kind->name;
    enum accel_status status = accel_state_dict_get_text (state, "kind", &kind, err);
    if (!status && strcmp (kind, wanted))
        return accel_fail (err, ACCEL_ERR_FORMAT, "the state is that of %.60s, but the optimizer is %s", kind, wanted);
    return status;
}

enum accel_status
optimizer_load (struct object *object, const struct accel_state_dict *state, struct accel_error *err)
{
    struct accel_optimizer *optimizer = (struct accel_optimizer *) (void *) object;
    struct accel_model *model = optimizer->model;
    uint64_t step = 0;
    enum accel_status status = check_kind (optimizer, state, err);
    if (!status)
        status = state_dict_read_uint64 (state, "step", &step, err);
    for (size_t i = 0; !status && i < optimizer->group_count; i++)
        status = load_group (optimizer, &optimizer->groups[i], state, err);
    masters_need (model);
    for (size_t i = 0; !status && i < model->count; i++) {
        for (size_t j = 0; !status && j < optimizer->state_count; j++)
            if (optimizer->state_tensors[i * optimizer->state_count + j])
                status = load_tensor (optimizer, i, &optimizer_state_at (optimizer, i, j)->tensor, "state.",
                                      optimizer->state_names[j], state, err);
        if (!status)
            status = load_master (optimizer, i, state, err);
        sharding_discard_parameter (optimizer, i);
    }
    if (!status)
        optimizer_set_steps (optimizer, step);
    optimizer_live_renew (optimizer);
    return status;
}
