/* SPDX-License-Identifier: Apache-2.0 */
/* Offloading to files; see sharding_offload.h. */
#include <config.h>

#include "lib/train/sharding_offload.h"

#include <accel/utility.h>

#include "lib/base/error.h"
#include "lib/base/tensor.h"
#include "lib/state/state_object.h"
#include "lib/train/sharding_asked.h"
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

/* Of tied ones, the first; what is not divided is in use all the time. */
static int
move_parameters (struct accel_model *model, const char *folder, struct fail *fail)
{
    struct plan plan;
    if (make_plan (&plan, model, 1))
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

enum accel_status
offload_begin (struct accel_model *model, struct accel *acc, const struct comm_site *site, struct accel_error *err)
{
    enum accel_offload states = offload_of_optimizers (model), parameters = offload_of_parameters (model);
    struct fail fail = { 0 };
    bool may = model->memory->create_sparse && memory_of (model->target)->create_sparse;
    if (!may && (model->sharding.offload_optimizer > ACCEL_OFFLOAD_NONE
                 || model->sharding.offload_param > ACCEL_OFFLOAD_NONE || has_files (model)))
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED,
                           "accel_prepare: only models in host memory can be offloaded, and this one is on a GPU");
    if (may && (states == ACCEL_OFFLOAD_CPU || parameters == ACCEL_OFFLOAD_CPU))
        accel_logger_log (acc, ACCEL_LOG_INFO, "offloading to cpu: everything is in host memory already");
    bool moves_states = may && states == ACCEL_OFFLOAD_NVME;
    bool moves_parameters = may && parameters == ACCEL_OFFLOAD_NVME && model->shared.is_alone;
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
