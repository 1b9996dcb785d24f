/* SPDX-License-Identifier: Apache-2.0 */
/* Offloading to host memory and to files; see sharding_offload.h. */
#include <config.h>

#include "lib/train/sharding_offload.h"

#include <accel/utility.h>

#include "lib/base/error.h"
#include "lib/base/tensor.h"
#include "lib/kernels/dtypes.h"
#include "lib/state/state_object.h"
#include "lib/train/packed.h"
#include "lib/train/sharding_asked.h"
#include "lib/train/staging.h"
#include "util/memory_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 512 };

/* ---- what moves ---- */

/* With room for the stretches of each parameter, so many times. */
struct plan {
    struct memory_range *ranges;
    size_t count;
};

static bool
make_plan (struct plan *plan, const struct accel_model *model, size_t times)
{
    *plan = (struct plan){ calloc (model->count * times * STRETCHES + 1, sizeof *plan->ranges), 0 };
    return plan->ranges;
}

/* What this process has of @memory, whose elements are those of parameter @index. */
static void
add (struct plan *plan, const struct accel_model *model, size_t index, void *memory, size_t element_bytes)
{
    struct stretch own[STRETCHES];
    sharding_stretches (model, index, own);
    for (int s = 0; memory && s < STRETCHES; s++)
        plan->ranges[plan->count++] = (struct memory_range){ memory_at (memory, own[s].from, element_bytes),
                                                             (own[s].end - own[s].from) * element_bytes };
}

static int
move (struct memory_file **file, struct plan *plan, const char *folder, struct fail *fail)
{
    int result = plan->ranges ? memory_file_create (file, folder, plan->ranges, plan->count, fail) : fail_nomem (fail);
    free (plan->ranges);
    return result;
}

static int
move_states (struct accel_optimizer *optimizer, const char *folder, struct fail *fail)
{
    const struct accel_model *model = optimizer->model;
    struct plan plan;
    if (make_plan (&plan, model, optimizer->state_count))
        for (size_t i = 0; i < model->count; i++)
            for (size_t j = 0; optimizer_group_at (optimizer, i) && j < optimizer->state_count; j++)
                if (optimizer->state_tensors[i * optimizer->state_count + j])
                    add (&plan, model, i, optimizer_state_at (optimizer, i, j)->tensor.data, sizeof (float));
    return move (&optimizer->state_file, &plan, folder, fail);
}

static int
move_masters (struct accel_model *model, const char *folder, struct fail *fail)
{
    struct plan plan;
    if (make_plan (&plan, model, 1))
        for (size_t i = 0; i < model->count; i++)
            if (model->trained[i].data != model->parameters[i].data)
                add (&plan, model, i, model->trained[i].data->data, sizeof (float));
    return move (&model->sharding.masters_file, &plan, folder, fail);
}

static size_t
packed_bytes (const struct accel_model *model, size_t index)
{
    return packed_room (model, index) * tensor_element_bytes (model->parameters[index].data);
}

/* Of a model on a GPU. */
static void
add_packed (struct plan *plan, const struct accel_model *model)
{
    for (size_t i = 0; i < model->count; i++)
        if (packed_first (model, i) == i)
            plan->ranges[plan->count++] = (struct memory_range){ model->sharding.packed->own[i],
                                                                 packed_bytes (model, i) };
}

/* Of tied ones, the first; what is not divided is in use all the time. */
static int
move_parameters (struct accel_model *model, const char *folder, struct fail *fail)
{
    struct plan plan;
    bool is_made = make_plan (&plan, model, 1);
    if (is_made && model->sharding.packed)
        add_packed (&plan, model);
    else if (is_made)
        for (size_t i = 0; i < model->count; i++) {
            const DLTensor *data = model->parameters[i].data;
            size_t first = 0;
            while (model->parameters[first].data->data != data->data || !model_is_trained (model, first))
                if (++first >= i)
                    break;
            if (model_is_trained (model, i) && first >= i && sharding_chunk (model, i))
                add (&plan, model, i, data->data, tensor_element_bytes (data));
        }
    return move (&model->sharding.parameters_file, &plan, folder, fail);
}

void
offload_end_parameters (struct accel_model *model)
{
    memory_file_end (model->sharding.parameters_file, true);
    model->sharding.parameters_file = NULL;
}

void
offload_forget (struct accel_model *model)
{
    memory_file_end (model->sharding.masters_file, false);
    free (model->sharding.optimizer_path);
    free (model->sharding.param_path);
}

/* ---- beginning ---- */

static int
move_all (struct accel_model *model, bool states, bool parameters, struct fail *fail)
{
    const char *path = offload_folder (model, false), *param_path = offload_folder (model, true);
    int result = 0;
    if ((states && !path) || (parameters && !param_path))
        return fail_set (fail, FAIL_GENERAL, "offload_%s_device needs offload_%s_nvme_path, a folder",
                         states && !path ? "optimizer" : "param", states && !path ? "optimizer" : "param");
    if (states && !model->sharding.masters_file)
        result = move_masters (model, path, fail);
    for (struct accel_optimizer *of = model->optimizers; states && of && !result; of = of->beside)
        if (!of->state_file && !of->custom.step)
            result = move_states (of, path, fail);
    if (!result && parameters && !model->sharding.parameters_file)
        result = move_parameters (model, param_path, fail);
    return result;
}

/* All ranks have the error of one of them: what has moved may stay, as it works the same. */
static enum accel_status
agree (struct accel *acc, const struct comm_site *site, const char *why, struct accel_error *err)
{
    struct accel_comm *comm = accel_world (acc);
    int64_t worst = why ? accel_comm_rank (comm) : -1;
    char text[TEXT] = "";
    enum accel_status status = comm_all_reduce (comm, site, &worst, &worst, 1, ACCEL_INT64, ACCEL_MAX, err);
    if (status || worst < 0)
        return status;
    if (worst == accel_comm_rank (comm))
        snprintf (text, sizeof text, "%.*s", TEXT - 1, why);
    status = comm_broadcast (comm, site, text, sizeof text, ACCEL_UINT8, (int) worst, err);
    return status ? status : accel_fail (err, ACCEL_ERR_SYSTEM, "accel_prepare: rank %d: %s", (int) worst, text);
}

static bool
has_files (const struct accel_model *model)
{
    bool found = model->sharding.masters_file;
    for (const struct accel_optimizer *of = model->optimizers; of && !found; of = of->beside)
        found = of->state_file;
    return found;
}

/* Of a model that is to be on a GPU; NULL: states and masters can stay where they are. */
static const char *
why_not_staged (const struct accel_model *model)
{
    if (!model->memory->host || !memory_of (model->target)->copy_streams)
        return "only a model that accel_prepare puts on a GPU can be offloaded from there (device_placement)";
    if (model->cuts)
        return "a model on a GPU whose tensors are divided (tp_size) cannot be offloaded";
    if (model_has_tied (model, model->trained)) /* one would not have what the step of the other has written */
        return "a model on a GPU that trains the same memory twice cannot be offloaded";
    for (size_t i = 0; i < model->count; i++)
        if (model_is_trained (model, i) && dtype_is_scaled (accel_dtype_from_dl (model->parameters[i].data->dtype)))
            return "8-bit parameters on a GPU cannot be offloaded: their scales are found there";
    for (const struct accel_optimizer *of = model->optimizers; of; of = of->beside)
        if (of->custom.step)
            return "a model on a GPU with a custom optimizer cannot be offloaded";
    return NULL;
}

enum accel_status
offload_stay (struct accel_model *model, struct accel *acc, const struct comm_site *site, struct accel_error *err)
{
    bool is_asked = model->sharding.offload_optimizer > ACCEL_OFFLOAD_NONE || has_files (model);
    struct accel_error cause = { 0 };
    const char *why = NULL;
    if (memory_of (model->target)->host || model->sharding.states_at_home)
        return ACCEL_OK;
    if (!is_asked && offload_of_optimizers (model) <= ACCEL_OFFLOAD_NONE)
        return ACCEL_OK;
    why = why_not_staged (model);
    if (why && is_asked)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "accel_prepare: %s", why);
    if (why) {
        accel_logger_log (acc, ACCEL_LOG_WARNING, "offloading has no effect: %s", why);
        return ACCEL_OK;
    }
    enum accel_status status = staging_create (model, &cause);
    status = agree (acc, site, status ? cause.text : NULL, err);
    model->sharding.states_at_home = !status;
    if (status)
        staging_end (model);
    return status;
}

enum accel_status
offload_keep (struct accel_model *model, struct accel *acc, struct accel_error *err)
{
    enum accel_sharding strategy = sharding_wanted (model);
    bool is_asked = model->sharding.offload_param > ACCEL_OFFLOAD_NONE;
    bool can_be = memory_of (model->target)->copy_streams;
    if (memory_of (model->target)->host || model->sharding.packed
        || offload_of_parameters (model) <= ACCEL_OFFLOAD_NONE)
        return ACCEL_OK;
    if (is_asked && (!can_be || (strategy != ACCEL_SHARDING_FULL_SHARD && strategy != ACCEL_SHARDING_HYBRID_SHARD)))
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "accel_prepare: only divided parameters of a model on a GPU can "
                           "be offloaded: offload_param_device needs ACCEL_SHARDING_FULL_SHARD, or HYBRID_SHARD");
    model->sharding.params_at_home = can_be && sharding_has_parameters (model);
    if (!model->sharding.params_at_home)
        accel_logger_log (acc, ACCEL_LOG_WARNING, "offload_param_device has no effect: the parameters are not divided");
    return ACCEL_OK;
}

enum accel_status
offload_begin (struct accel_model *model, struct accel *acc, const struct comm_site *site, struct accel_error *err)
{
    enum accel_offload states = offload_of_optimizers (model), parameters = offload_of_parameters (model);
    struct fail fail = { 0 };
    bool is_on_host = memory_of (model->target)->host;
    if (is_on_host && (states == ACCEL_OFFLOAD_CPU || parameters == ACCEL_OFFLOAD_CPU))
        accel_logger_log (acc, ACCEL_LOG_INFO, "offloading to cpu: everything is in host memory already");
    bool moves_states = states == ACCEL_OFFLOAD_NVME && model_state_memory (model)->create_sparse;
    bool moves_parameters = parameters == ACCEL_OFFLOAD_NVME
                            && (is_on_host ? model->shared.is_alone : model->sharding.params_at_home);
    if (!moves_states && !moves_parameters)
        return ACCEL_OK;
    int result = move_all (model, moves_states, moves_parameters, &fail);
    return agree (acc, site, result ? fail.text : NULL, err);
}

/* ---- pages ---- */

typedef void (*page_function) (struct memory_file *file, const void *memory, size_t bytes);

static void
for_each (const struct accel_optimizer *optimizer, size_t index, size_t from, size_t end, page_function act)
{
    const struct accel_model *model = optimizer->model;
    const DLTensor *data = model->parameters[index].data, *trained = model->trained[index].data;
    size_t each = tensor_element_bytes (data);
    if (trained != data)
        act (model->sharding.masters_file, memory_at (trained->data, from, sizeof (float)),
             (end - from) * sizeof (float));
    if (model->sharding.parameters_file && !model->sharding.packed)
        act (model->sharding.parameters_file, memory_at (data->data, from, each), (end - from) * each);
    for (size_t j = 0; optimizer->state_file && j < optimizer->state_count; j++)
        if (optimizer->state_tensors[index * optimizer->state_count + j])
            act (optimizer->state_file,
                 memory_at (optimizer_state_at (optimizer, index, j)->tensor.data, from, sizeof (float)),
                 (end - from) * sizeof (float));
}

void
offload_write (const struct accel_optimizer *optimizer, size_t index, size_t from, size_t end)
{
    for_each (optimizer, index, from, end, memory_file_write);
}

void
offload_release (const struct accel_optimizer *optimizer, size_t index, size_t from, size_t end)
{
    for_each (optimizer, index, from, end, memory_file_release);
}

void
offload_release_parameter (const struct accel_model *model, size_t index)
{
    const DLTensor *data = model->parameters[index].data;
    if (model->sharding.packed)
        memory_file_release (model->sharding.parameters_file, model->sharding.packed->own[index],
                             packed_bytes (model, index));
    else
        memory_file_release (model->sharding.parameters_file, data->data,
                             accel_tensor_count (data) * tensor_element_bytes (data));
}

enum accel_status
offload_check (const struct accel_optimizer *optimizer, struct accel_error *err)
{
    const struct model_sharding *sharding = &optimizer->model->sharding;
    struct memory_file *files[] = { optimizer->state_file, sharding->masters_file, sharding->parameters_file };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (memory_file_error (files[i])) {
            accel_fail (err, ACCEL_ERR_SYSTEM, "cannot write what has been offloaded: %s",
                        strerror (memory_file_error (files[i])));
            if (err)
                err->sys_errno = memory_file_error (files[i]);
            return ACCEL_ERR_SYSTEM;
        }
    return ACCEL_OK;
}
