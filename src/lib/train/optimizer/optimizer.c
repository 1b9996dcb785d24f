/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers: what all kinds have in common, and the states they remember. */
#include <config.h>

#include "lib/train/optimizer/optimizer_live.h"

#include "lib/base/error.h"
#include "lib/base/tensor.h"
#include "lib/comm/execute.h"
#include "lib/comm/progress.h"
#include "lib/data/active.h"
#include "lib/kernels/arithmetic.h"
#include "lib/kernels/rules_element.h"
#include "lib/state/state_object.h"
#include "lib/train/accumulate.h"
#include "lib/train/outliers.h"
#include "lib/train/packed.h"
#include "lib/train/packed_home.h"
#include "lib/train/precision.h"
#include "lib/train/sharding.h"
#include "lib/train/sharding_gradients.h"
#include "lib/train/sharding_offload.h"
#include "util/memory.h"
#include "util/memory_file.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A loop over a parameter and its states takes longer if all begin at the same place of a page: AdamW by 10 % on
 * Cascade Lake, where loads wait for stores that are equal to them modulo a page.  Large states are STAGGERed. */
enum { MAX_THREADS = 256, PAGE = 4096, STAGGER = 1088, STAGGERED_BYTES = 256 << 10 };

/* Divided parameters on a GPU may have no address now. */
static bool
has_tied (const struct accel_model *model)
{
    bool is_found = model_has_tied (model, model->parameters);
    for (size_t i = 0; i < model->count && !is_found; i++)
        is_found = packed_first (model, i) != SIZE_MAX && packed_first (model, i) != i;
    return is_found;
}

/* Without @given, what accelerate launch and OpenMP's programs go by.  Two threads would change tied parameters at the
 * same time; one does so in their order. */
static unsigned
threads_or_default (unsigned given, const struct accel_model *model)
{
    const char *text = getenv ("OMP_NUM_THREADS");
    long threads = given ? (long) given : text ? strtol (text, NULL, 10) : 1;
    if (threads <= 1 || has_tied (model))
        return 1;
    return threads > MAX_THREADS ? MAX_THREADS : (unsigned) threads;
}

/* @p names: [count] */
static enum accel_status
copy_names (struct accel_optimizer *optimizer, const char *const *names, size_t count, struct accel_error *err)
{
    optimizer->state_names = calloc (count + 1, sizeof *optimizer->state_names);
    for (size_t i = 0; optimizer->state_names && i < count; i++) {
        if (!names || !names[i] || !*names[i])
            return accel_fail (err, ACCEL_ERR_INVALID, "state %zu of the optimizer has no name", i);
        for (size_t j = 0; j < i; j++)
            if (!strcmp (names[i], names[j]))
                return accel_fail (err, ACCEL_ERR_INVALID, "two states of the optimizer are named '%.100s'", names[i]);
        optimizer->state_names[i] = strdup (names[i]);
        if (!optimizer->state_names[i])
            break;
        optimizer->state_count++;
    }
    if (optimizer->state_count < count || !optimizer->state_names)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for an optimizer's state");
    return ACCEL_OK;
}

/* All states of a custom optimizer; otherwise those of the kind's that a group needs. */
static enum accel_status
name_states (struct accel_optimizer *optimizer, struct accel_error *err)
{
    const char *names[RULE_STATES];
    unsigned needed = 0;
    size_t count = 0;
    if (optimizer->custom.step)
        return copy_names (optimizer, optimizer->custom.state_names, optimizer->custom.state_count, err);
    for (size_t i = 0; i < optimizer->group_count; i++)
        needed |= optimizer->groups[i].states;
    for (unsigned i = 0; i < RULE_STATES; i++)
        if (needed >> i & 1) {
            optimizer->kind_states[count] = i;
            names[count++] = optimizer->kind->states[i].name;
        }
    return copy_names (optimizer, names, count, err);
}

/* Describe one state; @p elements grows by what it needs, whole cache lines. */
static enum accel_status
describe_state (struct accel_optimizer *optimizer, size_t parameter, size_t index, size_t *elements,
                struct accel_error *err)
{
    const struct accel_parameter *of = &optimizer->model->trained[parameter];
    struct optimizer_state *state = optimizer_state_at (optimizer, parameter, index);
    state->tensor = *of->data;
    state->tensor.device = model_state_device (optimizer->model);
    if (optimizer->custom.shape) {
        struct accel_error cause = { 0 };
        int ndim = 0;
        enum accel_status status
            = optimizer->custom.shape (optimizer->custom.user, of, index, &ndim, state->shape, &cause);
        if (!status && object_is_gone (&optimizer->model->object))
            status = accel_fail (&cause, ACCEL_ERR_CALLBACK, "the function destroyed its own model");
        if (status)
            return accel_fail (err, ACCEL_ERR_CALLBACK, "shape of state '%s' of parameter '%.100s': %s",
                               optimizer->state_names[index], of->name,
                               *cause.text ? cause.text : accel_status_string (status));
        bool good = ndim >= 0 && ndim <= ACCEL_STATE_DIMS;
        for (int i = 0; good && i < ndim; i++)
            good = state->shape[i] >= 0 && state->shape[i] <= INT32_MAX;
        if (!good)
            return accel_fail (err, ACCEL_ERR_INVALID, "invalid shape for state '%s' of parameter '%.100s'",
                               optimizer->state_names[index], of->name);
        state->tensor.ndim = ndim;
        state->tensor.shape = state->shape;
    }
    state->tensor.strides = NULL;
    state->tensor.byte_offset = 0;
    size_t count = accel_tensor_count (&state->tensor), line = MEMORY_ALIGNMENT / sizeof (float);
    if (count > PTRDIFF_MAX / sizeof (float) - *elements - 2 * line)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for an optimizer's state");
    *elements += (count + line - 1) / line * line;
    if (count * sizeof (float) >= STAGGERED_BYTES)
        *elements += PAGE / sizeof (float);
    return ACCEL_OK;
}

/* Where in the memory from @p memory on state @p index of @p parameter begins. */
static char *
place_state (char *memory, const DLTensor *parameter, size_t index, size_t bytes)
{
    uintptr_t wanted = (uintptr_t) parameter->data + (index + 1) * STAGGER;
    size_t gap = (wanted - (uintptr_t) memory) % PAGE / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT;
    return bytes < STAGGERED_BYTES ? memory : memory + gap;
}

static bool
has_state (const struct accel_optimizer *optimizer, size_t parameter, size_t state)
{
    const struct optimizer_group *group = optimizer_group_at (optimizer, parameter);
    if (!group || optimizer->custom.step)
        return group;
    return group->states >> optimizer->kind_states[state] & 1;
}

/* Adagrad's sums begin as a number of the program's. */
static enum accel_status
give_initial (void *user, size_t at, void *bytes, size_t length, struct accel_error *err)
{
    (void) at, (void) err;
    for (size_t i = 0; i < length / sizeof (float); i++)
        ((float *) bytes)[i] = *(const float *) user;
    return ACCEL_OK;
}

static enum accel_status
fill_state (const struct accel_optimizer *optimizer, size_t parameter, size_t state, struct accel_error *err)
{
    if (optimizer->custom.step)
        return ACCEL_OK;
    unsigned number = optimizer->kind->states[optimizer->kind_states[state]].initial;
    float initial = (float) optimizer_group_at (optimizer, parameter)->own.number[number];
    if (!number || initial == 0)
        return ACCEL_OK;
    DLTensor filled = optimizer_state_at (optimizer, parameter, state)->tensor;
    int64_t elements = (int64_t) packed_room (optimizer->model, parameter);
    if (packed_is_on (optimizer->model)) {
        filled.ndim = 1;
        filled.shape = &elements;
    }
    return memory_write_pieces (&filled, give_initial, &initial, err);
}

static void *
allocate_states (const struct accel_optimizer *optimizer)
{
    const struct accel_model *model = optimizer->model;
    const struct memory *memory = model_state_memory (model);
    DLDevice device = model_state_device (model);
    if (packed_is_on (model))
        return memory->create (device, packed_state_bytes (optimizer), true);
    return sharding_is_asked (model) ? memory->create_sparse (device, optimizer->state_bytes)
                                     : memory->create (device, optimizer->state_bytes, true);
}

static void
place_states (const struct accel_optimizer *optimizer)
{
    const struct accel_model *model = optimizer->model;
    char *memory = optimizer->state_memory;
    if (packed_is_on (model)) {
        packed_place_states (optimizer, memory, true);
        return;
    }
    for (size_t i = 0; i < model->count; i++)
        for (size_t j = 0; j < optimizer->state_count; j++) {
            DLTensor *tensor = optimizer->state_tensors[i * optimizer->state_count + j];
            if (!tensor)
                continue;
            size_t bytes = accel_tensor_count (tensor) * sizeof (float);
            memory = place_state (memory, model->trained[i].data, j, bytes);
            tensor->data = memory;
            memory += (bytes + MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT;
        }
}

static enum accel_status
make_states (struct accel_optimizer *optimizer, struct accel_error *err)
{
    const struct accel_model *model = optimizer->model;
    size_t elements = 0, count = model->count * optimizer->state_count;
    enum accel_status status = ACCEL_OK;
    optimizer->states = calloc (count + 1, sizeof *optimizer->states);
    optimizer->state_tensors = calloc (count + 1, sizeof *optimizer->state_tensors);
    if (!optimizer->states || !optimizer->state_tensors)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for an optimizer's state");
    for (size_t i = 0; i < model->count; i++)
        for (size_t j = 0; !status && j < optimizer->state_count; j++)
            if (has_state (optimizer, i, j)) {
                DLTensor *tensor = &optimizer_state_at (optimizer, i, j)->tensor;
                optimizer->state_tensors[i * optimizer->state_count + j] = tensor;
                status = describe_state (optimizer, i, j, &elements, err);
            }
    if (status)
        return status;
    optimizer->state_bytes = elements * sizeof (float);
    optimizer->state_memory = allocate_states (optimizer);
    if (!optimizer->state_memory)
        return memory_fail (model_state_device (model), err, "cannot allocate memory for an optimizer's state");
    place_states (optimizer);
    for (size_t i = 0; i < model->count; i++)
        for (size_t j = 0; !status && j < optimizer->state_count; j++)
            if (has_state (optimizer, i, j))
                status = fill_state (optimizer, i, j, err);
    return status;
}

static void
leave_model (const struct accel_optimizer *optimizer)
{
    for (struct accel_optimizer **at = &optimizer->model->optimizers; *at; at = &(*at)->beside)
        if (*at == optimizer) {
            *at = optimizer->beside;
            return;
        }
}

static void
end_optimizer (struct object *object)
{
    struct accel_optimizer *optimizer = (struct accel_optimizer *) (void *) object;
    prepared_remove (&optimizer->object);
    if (optimizer->custom.destroy)
        optimizer->custom.destroy (optimizer->custom.user);
    leave_model (optimizer); /* last, because the program's function may have the model moved, with all states */
    for (size_t i = 0; optimizer->state_names && i < optimizer->state_count; i++)
        free (optimizer->state_names[i]);
    free (optimizer->state_names);
    free (optimizer->states);
    free (optimizer->state_tensors);
    memory_file_end (optimizer->state_file, false);
    model_state_memory (optimizer->model)->destroy (model_state_device (optimizer->model), optimizer->state_memory);
    optimizer_live_drop (optimizer);
    optimizer_lists_destroy (optimizer);
    optimizer->state_count = 0;
    optimizer_free_groups (optimizer);
    object_let_go (&optimizer->model->object);
}

static const struct object_kind kind_optimizer
    = { .name = "optimizer", .end = end_optimizer, .prepare = optimizer_prepare,
        .save = optimizer_save, .load = optimizer_load, .file = "optimizer", .floor = OBJECT_OPTIMIZER };

enum accel_status
optimizer_create (struct accel_optimizer **optimizer, struct accel_model *model, const struct accel_optimizer *like,
                  struct given_groups given, struct accel_error *err)
{
    struct accel_optimizer *made = malloc (sizeof *made);
    if (!made)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for an optimizer");
    *made = *like;
    made->object = (struct object) OBJECT_INIT (&kind_optimizer);
    made->model = model;
    object_hold (&model->object);
    made->threads = threads_or_default (like->threads, model);
    enum accel_status status = optimizer_make_groups (made, given, err);
    if (!status)
        status = optimizer_lists_create (made, err);
    if (!status)
        status = name_states (made, err);
    if (!status)
        status = make_states (made, err);
    if (status) {
        made->custom.destroy = NULL; /* the caller still owns it, as after any other failure */
        accel_optimizer_destroy (made);
        return status;
    }
    made->beside = model->optimizers;
    model->optimizers = made;
    *optimizer = made;
    return ACCEL_OK;
}

void
accel_optimizer_destroy (struct accel_optimizer *optimizer)
{
    object_destroy (optimizer ? &optimizer->object : NULL);
}

UNFUSED static void
run (struct accel_optimizer *optimizer)
{
    for (size_t i = 0; i < optimizer->group_count; i++) {
        struct optimizer_group *group = &optimizer->groups[i];
        group->rule = optimizer->kind->begin (group);
        rule_begin (&group->numbers, &group->pace, optimizer->step);
    }
    if (optimizer->model->sharding.states_at_home || !optimizer_run_list (optimizer, NULL))
        optimizer_run (optimizer);
}

/* If the host has waited for a step on a GPU, it knows whether sums of gradients were aborted meanwhile. */
static enum accel_status
check_sums (const struct accel_model *model, struct accel_error *err)
{
    struct comm_observer *observer;
    bool has_waited = model->sharding.states_at_home || model->sharding.params_at_home;
    return has_waited && model->object.owner
               ? comm_check_broken (sharding_comm (model, model->object.owner), &observer, err)
               : ACCEL_OK;
}

/* @param found  on the device: whether nothing is to be changed; NULL: the host knows that it is */
static enum accel_status
change_parameters (struct accel_optimizer *optimizer, const uint8_t *found, struct accel_error *err)
{
    bool is_live;
    masters_need (optimizer->model);
    enum accel_status status = optimizer_live_begin (optimizer, &is_live, err);
    if (status)
        return status;
    if (!optimizer->custom.step)
        status = packed_home_lend (optimizer->model, err);
    if (status)
        return status;
    if (!is_live)
        optimizer->step++;
    if (optimizer->custom.step) {
        status = optimizer_for_each (optimizer, "the optimizer's step", optimizer->custom.step, err);
        accel_model_narrow (optimizer->model);
        return status;
    }
    if (is_live)
        status = optimizer_live_step (optimizer, found, err);
    else
        run (optimizer);
    packed_home_take_back (optimizer->model);
    if (!status)
        status = check_sums (optimizer->model, err);
    masters_narrow_scaled (optimizer->model);
    return status ? status : offload_check (optimizer, err);
}

static enum accel_status
step (struct accel_optimizer *optimizer, const struct comm_site *site, struct accel_error *err)
{
    bool skip = false;
    const uint8_t *found = NULL;
    struct accel_model *model = optimizer->model;
    const struct accel *acc = model->object.owner;
    MAY_BE_CAPTURED (model, optimizer->is_capturable);
    if (accumulate_waits (&optimizer->object) || (precision_scales (acc) && accumulation_of (acc)->accumulating))
        return permit.is_capturing ? accel_fail (err, ACCEL_ERR_INVALID, "accel_optimizer_step: gradients are being "
                                                 "accumulated, so there is no step that a CUDA graph could have")
                                   : ACCEL_OK;
    enum accel_status status = memory_check (model->device, err); /* before anything changes */
    if (status)
        return comm_fail_in (site, status, err);
    if (model->sharding.states_at_home && (permit.is_capturing || optimizer->custom.step))
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "accel_optimizer_step: %s: the host takes part in a step of a "
                           "model with offload_optimizer_device",
                           permit.is_capturing ? "no CUDA graph can have it" : "a custom optimizer cannot change it");
    if (permit.is_capturing && sharding_is_on (model))
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "accel_optimizer_step: the model is sharded%s: all processes "
                           "take part in a step, so no CUDA graph can have it", sharding_hint (model));
    status = sharding_begin_step (optimizer, site, err);
    if (status)
        return status;
    precision_share (model, optimizer->stepped_by);
    status = precision_unscale (model, site, err);
    if (!status)
        status = precision_found (model, optimizer->custom.step || model->sharding.states_at_home, &skip, &found, err);
    skip = (!permit.is_capturing && outliers_skip (optimizer)) || skip;
    uint64_t before = optimizer->step;
    if (!status && !skip)
        status = change_parameters (optimizer, found, err);
    if (status && sharding_is_on (model)) /* the others wait in what follows */
        return comm_fail_in (site, status, err);
    if (!status && !skip)
        status = sharding_gather (optimizer, site, err);
    if (!status && !skip && acc && !permit.is_capturing)
        progress_count_step (acc->world, optimizer, optimizer->step > before ? optimizer->step : 0);
    if (!status && (status = memory_check (model->device, err)))
        comm_fail_in (site, status, err);
    if (!status) {
        optimizer->stepped_by = model->scale.unscalings;
        precision_update (model);
        optimizer->step_was_skipped = skip;
        model->unstepped = false;
        if (acc)
            loader_note_step (acc);
    }
    return capture_result (&permit, status);
}

/* A custom optimizer's function may destroy the optimizer, its model or the job: they end when the step does. */
enum accel_status
accel_optimizer_step_at (const char *file, int line, struct accel_optimizer *optimizer, struct accel_error *err)
{
    struct comm_site site = { file, line, JOBSEG_CALL_OPTIMIZER_STEP };
    enum accel_status status = optimizer_check ("accel_optimizer_step", optimizer, err);
    if (status)
        return status;
    struct object *model = &optimizer->model->object, *job = object_of_job (model->owner);
    object_pin (job);
    object_pin (model);
    object_pin (&optimizer->object);
    status = step (optimizer, &site, err);
    object_unpin (&optimizer->object);
    object_unpin (model);
    object_unpin (job);
    return status;
}

bool
accel_optimizer_step_was_skipped (const struct accel_optimizer *optimizer)
{
    return optimizer && optimizer_skipped (optimizer);
}

enum accel_status
accel_optimizer_zero_grad (struct accel_optimizer *optimizer, struct accel_error *err)
{
    enum accel_status status = optimizer_check (__func__, optimizer, err);
    if (status || accumulate_waits (&optimizer->object))
        return status;
    struct accel_model *model = optimizer->model;
    MAY_BE_CAPTURED (model, model_is_capturable (model));
    model->unstepped = false;
    status = model_check_gradients (model, err);
    if (!model->object.owner)
        model_forget_scale (model); /* of what it was prepared with before */
    if (status)
        return status;
    if (sharding_has_gradients (model))
        sharding_zero_gradients (optimizer);
    else
        memory_list_zero (optimizer_gradients (optimizer), model->memory, model->device);
    if ((status = memory_check (model->device, err)))
        accel_fail_in (err, status, __func__);
    return capture_result (&permit, status);
}

const char *
accel_optimizer_state_name (const struct accel_optimizer *optimizer, size_t state)
{
    return optimizer && state < optimizer->state_count ? optimizer->state_names[state] : NULL;
}

/* What is packed has not the shape of the parameter. */
static bool
is_in_parts (const struct accel_optimizer *optimizer, size_t parameter)
{
    return !optimizer->custom.step && packed_is_on (optimizer->model) && sharding_chunk (optimizer->model, parameter);
}

DLTensor *
accel_optimizer_state_tensor (struct accel_optimizer *optimizer, size_t parameter, const char *name)
{
    if (optimizer && name && parameter < optimizer->model->count) /* 0 if the model is gone */
        for (size_t i = 0; i < optimizer->state_count; i++)
            if (!strcmp (name, optimizer->state_names[i]))
                return is_in_parts (optimizer, parameter)
                           ? NULL
                           : optimizer->state_tensors[parameter * optimizer->state_count + i];
    return NULL;
}

uint64_t
accel_optimizer_step_count (const struct accel_optimizer *optimizer)
{
    return optimizer ? optimizer_steps (optimizer) : 0;
}

void
accel_optimizer_set_step_count (struct accel_optimizer *optimizer, uint64_t steps)
{
    if (optimizer)
        optimizer_set_steps (optimizer, steps);
}
