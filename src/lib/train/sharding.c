/* SPDX-License-Identifier: Apache-2.0 */
/* Sharding of optimizer states and masters; see sharding.h. */
#include <config.h>

#include "lib/train/sharding.h"

#include "lib/train/sharding_gradients.h"
#include "lib/train/sharding_groups.h"
#include "lib/train/sharding_layers.h"
#include "lib/train/sharding_offload.h"

#include "lib/train/packed.h"
#include "lib/train/packed_collectives.h"
#include "lib/train/packed_gradients.h"
#include "lib/train/reducer/join_round.h"
#include "lib/train/shared_parameters.h"
#include "lib/train/tensor_parallel.h"

#include <accel/precision.h>
#include <accel/utility.h>

#include "lib/base/error.h"
#include "lib/base/sized.h"
#include "lib/base/tensor.h"
#include "lib/comm/coalesce.h"
#include "lib/comm/comm_private.h"
#include "lib/kernels/dtypes.h"
#include "lib/state/state_object.h"
#include "util/envnames.h"
#include "util/memory.h"
#include "util/memory_file.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- memory ---- */

static bool
has_master (const struct accel_model *model, size_t index)
{
    return model->trained[index].data != model->parameters[index].data;
}

void
sharding_discard_parameter (struct accel_optimizer *optimizer, size_t index)
{
    struct accel_model *model = optimizer->model;
    if (!optimizer_group_at (optimizer, index))
        return;
    if (offload_is_on (optimizer))
        offload_release (optimizer, index, 0, accel_tensor_count (model->parameters[index].data));
    for (size_t j = 0; sharding_is_on (model) && j < optimizer->state_count && !optimizer->custom.step; j++)
        if (optimizer->state_tensors[index * optimizer->state_count + j])
            sharding_discard_others (model, index, optimizer_state_at (optimizer, index, j)->tensor.data,
                                     sizeof (float));
    if (sharding_is_on (model) && has_master (model, index))
        sharding_discard_others (model, index, model->trained[index].data->data, sizeof (float));
}

void
sharding_discard (struct accel_model *model)
{
    for (struct accel_optimizer *of = model->optimizers; of; of = of->beside) {
        if (sharding_is_on (model) && model_state_memory (model)->host)
            memory_use_small_pages (of->state_memory, of->state_bytes);
        for (size_t i = 0; i < model->count; i++)
            sharding_discard_parameter (of, i);
    }
}

/* ---- accel_prepare() ---- */

static const char why_not_joined[] = "models cannot be sharded between accel_join_uneven_inputs and accel_join_end";

static bool
divides_parameters (enum accel_sharding strategy)
{
    return strategy == ACCEL_SHARDING_FULL_SHARD || strategy == ACCEL_SHARDING_HYBRID_SHARD;
}

/* It would have to be whole where the parameter is not. */
static bool
has_frozen_alias (const struct accel_model *model)
{
    bool found = false;
    for (size_t i = 0; i < model->count; i++)
        for (size_t j = 0; !model_is_trained (model, i) && j < model->count && !found; j++)
            found = model_is_trained (model, j) && model->parameters[j].data->data == model->parameters[i].data->data;
    return found;
}

/* On a GPU, addresses of gradients stay, and what is behind them cannot be given back. */
static const char *
why_not_on_device (const struct accel_model *model, enum accel_sharding strategy)
{
    if (memory_of (model->target)->host)
        return NULL;
    if (!model->memory->host && (!model->placement || !sharding_is_on (model) || divides_parameters (strategy)))
        return "this model is on a GPU already: only models that accel_prepare puts there can be sharded "
               "(device_placement)";
    if (strategy > ACCEL_SHARDING_OPTIMIZER && !divides_parameters (strategy) && packed_why_whole (model))
        return packed_why_whole (model);
    if (divides_parameters (strategy) && has_frozen_alias (model))
        return "parameters on a GPU cannot be divided if a tensor that is not trained has the same memory";
    return NULL;
}

static const char *
why_not (const struct accel_model *model, const struct accel *acc, enum accel_sharding strategy)
{
    if (join_steps (acc))
        return why_not_joined;
    const char *why = why_not_on_device (model, strategy);
    if (why)
        return why;
    for (size_t i = 0; i < model->count; i++)
        if (model_is_trained (model, i) && dtype_is_scaled (accel_dtype_from_dl (model->parameters[i].data->dtype)))
            return "8-bit parameters cannot be sharded: the scale of each is that of all of its elements";
    if (strategy >= ACCEL_SHARDING_SHARD_GRAD_OP && model->ddp.comm_hook == ACCEL_COMM_HOOK_POWER_SGD)
        return "PowerSGD averages whole gradients: only ACCEL_SHARDING_OPTIMIZER is possible";
    if (divides_parameters (strategy) && shared_overlaps (model))
        return "parameters cannot be divided if other tensors overlap them";
    for (const struct accel_optimizer *of = model->optimizers; of; of = of->beside)
        if (of->custom.step)
            return "a model with a custom optimizer cannot be sharded: it changes whole parameters";
    return NULL;
}

/* What the launcher was asked for need not be what a program can do. */
static enum accel_status
begin_or_warn (struct accel_model *model, struct accel *acc, const struct group_plan *plan,
               enum accel_sharding strategy, bool *is_wanted, struct accel_error *err)
{
    bool by_launcher = model->sharding.asked == ACCEL_SHARDING_DEFAULT;
    const char *why = !*is_wanted ? NULL : plan->why_not ? plan->why_not : why_not (model, acc, strategy);
    if (why && !by_launcher)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "accel_prepare: %s", why);
    if (why)
        accel_logger_log (acc, ACCEL_LOG_WARNING, "%s has no effect: %s", sharding_launcher_option (), why);
    *is_wanted = *is_wanted && !why;
    return ACCEL_OK;
}

static void
warn_of_stage_1 (const struct accel *acc, const char *why)
{
    accel_logger_log (acc, ACCEL_LOG_WARNING, "%s divides only the states of optimizers, as stage 1 of ZeRO: %s",
                      sharding_launcher_option (), why);
}

/* On a GPU, addresses change with more than stage 1: of what the launcher was asked for, it works with any program. */
static enum accel_sharding
choose_strategy (const struct accel_model *model, const struct accel *acc)
{
    enum accel_sharding wanted = sharding_wanted (model);
    const char *why = "the model is on a GPU, where addresses change with more: a program that follows them calls "
                      "accel_model_set_sharding, also with ACCEL_SHARDING_DEFAULT";
    if (model->sharding.asked != ACCEL_SHARDING_DEFAULT || wanted <= ACCEL_SHARDING_OPTIMIZER
        || memory_of (model->target)->host || parallel_data_size (acc) == 1)
        return wanted;
    if (model->sharding.is_set)
        why = why_not (model, acc, wanted);
    if (!why || why_not (model, acc, ACCEL_SHARDING_OPTIMIZER)) /* then nothing is divided, with a warning */
        return wanted;
    warn_of_stage_1 (acc, why);
    return ACCEL_SHARDING_OPTIMIZER;
}

static enum accel_status
begin (struct accel_model *model, struct accel *acc, const struct comm_site *site, struct accel_error *err)
{
    struct group_plan plan;
    enum accel_sharding strategy = sharding_is_on (model) ? model->sharding.strategy : choose_strategy (model, acc);
    enum accel_status status = sharding_plan_groups (model, strategy, acc, site, &plan, err);
    bool has_no_groups = !status && plan.why_not && !sharding_is_on (model) && !memory_of (model->target)->host
                         && model->sharding.asked == ACCEL_SHARDING_DEFAULT;
    if (has_no_groups && !why_not (model, acc, ACCEL_SHARDING_OPTIMIZER)) {
        warn_of_stage_1 (acc, plan.why_not);
        strategy = ACCEL_SHARDING_OPTIMIZER;
        status = sharding_plan_groups (model, strategy, acc, site, &plan, err);
    }
    bool is_wanted = (plan.size > 1 || plan.why_not) && strategy != ACCEL_SHARDING_NONE;
    if (status)
        return status;
    if (sharding_is_on (model)) {
        model->widened = false; /* no process has whole masters, but all have the parameters */
        model->sharding.replica = plan.replica;
        const char *why = join_steps (acc) ? why_not_joined : why_not_on_device (model, strategy);
        if (why)
            return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "accel_prepare: %s", why);
        if (plan.why_not || model->sharding.size != plan.size || model->sharding.rank != plan.rank)
            return accel_fail (err, ACCEL_ERR_INVALID,
                               "accel_prepare: the states of the model's optimizers are divided among %d processes, of "
                               "which this was rank %d", model->sharding.size, model->sharding.rank);
        return ACCEL_OK;
    }
    status = begin_or_warn (model, acc, &plan, strategy, &is_wanted, err);
    if (status || !is_wanted)
        return status;
    model->sharding.size = plan.size;
    model->sharding.rank = plan.rank;
    model->sharding.replica = plan.replica;
    model->sharding.strategy = strategy;
    for (size_t i = 0; i < model->count; i++)
        if (has_master (model, i))
            memory_use_small_pages (model->trained[i].data->data,
                                    accel_tensor_count (model->trained[i].data) * sizeof (float));
    return ACCEL_OK;
}

/* Of the parameters that @optimizer changes, or of all (NULL). */
static enum accel_status
gather_parameters (const struct accel_model *model, const struct accel_optimizer *optimizer, struct accel_comm *comm,
                   const struct comm_site *site, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    struct comm_coalesced coalesced;
    struct comm_site there = comm_site_on (site, model->device);
    comm_coalesce_begin (&coalesced, comm);
    for (size_t i = 0; i < model->count && !status; i++) {
        bool is_asked = optimizer ? optimizer_group_at (optimizer, i) != NULL : model_is_trained (model, i);
        size_t chunk = is_asked ? sharding_chunk (model, i) : 0;
        const DLTensor *data = model->parameters[i].data;
        enum accel_dtype dtype = accel_dtype_from_dl (data->dtype);
        const void *own = memory_at (data->data, chunk * (size_t) model->sharding.rank, accel_dtype_bytes (dtype));
        if (chunk)
            status = comm_all_gather (comm, comm_coalesce_site (&coalesced, &there), own, data->data, chunk, dtype,
                                      err);
    }
    return comm_coalesce_end (&coalesced, status, err);
}

/* What the last accel_close() has left of parameters. */
static enum accel_status
gather_partial (struct accel_model *model, struct accel *acc, const struct comm_site *site, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    if (model->sharding.is_partial)
        status = gather_parameters (model, NULL, sharding_comm (model, acc), site, err);
    model->sharding.is_partial = model->sharding.is_partial && status;
    return status;
}

/* Of what the launcher was asked for. */
static void
warn_of_lost (const struct accel_model *model, const struct accel *acc)
{
    const char *option = sharding_not_followed (model);
    if (option)
        accel_logger_log (acc, ACCEL_LOG_WARNING, "%s has no effect: it changes addresses, and a program that follows "
                          "them calls accel_model_set_sharding", option);
    if (!memory_of (model->target)->host || !sharding_has_parameters (model)
        || offload_of_parameters (model) != ACCEL_OFFLOAD_NVME)
        return;
    if (model->sharding.shares)
        accel_logger_log (acc, ACCEL_LOG_WARNING, "offload_param_device has no effect: the program has set "
                          "share_parameters, and shared parameters are in memory");
    else if (model->sharding.launched.shares)
        accel_logger_log (acc, ACCEL_LOG_WARNING, "--share_parameters has no effect: parameters are in a file "
                          "(offload_param_device)");
}

enum accel_status
sharding_begin (struct accel_model *model, struct accel *acc, const struct comm_site *site, struct accel_error *err)
{
    bool is_on_host = memory_of (model->target)->host;
    enum accel_status status = begin (model, acc, site, err);
    if (!status && sharding_is_on (model))
        status = sharding_make_groups (model, acc, site, err);
    model->sharding.divides_gradients = !status && !is_on_host && sharding_is_on (model)
                                        && model->sharding.strategy > ACCEL_SHARDING_OPTIMIZER
                                        && !packed_why_whole (model);
    if (!status && sharding_is_on (model) && !is_on_host)
        status = gather_partial (model, acc, site, err);
    if (status || !sharding_is_on (model))
        return status;
    warn_of_lost (model, acc);
    if (sharding_has_parameters (model) && !model->sharding.shares && is_on_host
        && offload_of_parameters (model) == ACCEL_OFFLOAD_NVME) {
        status = shared_begin_alone (model, err);
        if (status)
            comm_give_up (accel_world (acc), "cannot allocate memory for the parameters of a model");
        return status;
    }
    if (!model->sharding.shares)
        return ACCEL_OK;
    if (is_on_host)
        status = shared_begin (model, acc, site, err);
    if (!status && !shared_is_on (model) && model->sharding.has_shared) /* rank 0 has the states of what was whole */
        status = accel_fail (err, ACCEL_ERR_UNSUPPORTED,
                             "accel_prepare: the processes have shared the parameters before, and cannot now");
    model->sharding.has_shared |= shared_is_on (model);
    return status;
}

void
sharding_end (struct accel_model *model)
{
    sharding_end_layers (model);
    offload_end_parameters (model);
    sharding_end_groups (model);
}

/* Each group has its own copy of shared parameters, which its first process fills. */
static enum accel_status
broadcast_shared (const struct accel_model *model, struct accel *acc, const struct comm_site *site,
                  struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    struct accel_comm *tensors = parallel_data_rank (acc) ? NULL : parallel_tensor_comm (acc);
    if (!shared_is_on (model) || (!model->sharding.replicas && !parallel_tensor_comm (acc)))
        return ACCEL_OK;
    for (size_t i = 0; i < model->count && !status && !model->sharding.rank; i++) {
        const DLTensor *data = model->parameters[i].data;
        size_t bytes = accel_tensor_count (data) * tensor_element_bytes (data);
        if (!model_is_trained (model, i))
            continue;
        if (tensors && !cut_has (model, i))
            status = comm_broadcast (tensors, site, data->data, bytes, ACCEL_UINT8, 0, err);
        if (!status && model->sharding.replicas)
            status = comm_broadcast (model->sharding.replicas, site, data->data, bytes, ACCEL_UINT8, 0, err);
    }
    return status ? status : comm_barrier (sharding_comm (model, acc), site, err);
}

/* Masters as well, which may say more than the parameters; one after the other, so that few are whole at a time. */
enum accel_status
sharding_broadcast (struct accel_model *model, struct accel *acc, const struct comm_site *site,
                    struct accel_error *err)
{
    if (!model->memory->host)
        return packed_broadcast (model, acc, site, err);
    enum accel_status status = broadcast_shared (model, acc, site, err);
    if (!status)
        status = gather_partial (model, acc, site, err);
    for (size_t i = 0; i < model->count && !status; i++) {
        const DLTensor *from = model->parameters[i].data, *data = model->trained[i].data;
        struct accel_comm *comm = cut_comm (model, i, acc);
        size_t count = accel_tensor_count (data);
        enum accel_dtype dtype = accel_dtype_from_dl (from->dtype);
        if (has_master (model, i) && !model->widened && !accel_comm_rank (comm))
            model->memory->widen (model->device, data->data, from->data, dtype, count, 1);
        if (has_master (model, i) || !shared_is_on (model) || !model_is_trained (model, i))
            status = comm_broadcast (comm, site, data->data, count * tensor_element_bytes (data), ACCEL_UINT8, 0, err);
        if (!status && has_master (model, i)) {
            model->memory->narrow (model->device, from->data, dtype, data->data, count);
            sharding_discard_others (model, i, data->data, sizeof (float));
        }
    }
    model->widened = !status;
    return status;
}

/* ---- steps ---- */

/* Parameters must not change while another process still reads them, or has a pass to go. */
enum accel_status
sharding_begin_step (const struct accel_optimizer *optimizer, const struct comm_site *site, struct accel_error *err)
{
    struct accel_model *model = optimizer->model;
    if (!sharding_is_on (model))
        return ACCEL_OK;
    if (!model->object.owner)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_optimizer_step: the optimizer's states are divided among %d "
                           "processes: prepare the model again", model->sharding.size);
    if (optimizer->custom.step)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED,
                           "accel_optimizer_step: a custom optimizer sees whole parameters, but the model is sharded%s",
                           sharding_hint (model));
    sharding_close_order (model);
    return shared_is_on (model) ? comm_barrier (sharding_comm (model, model->object.owner), site, err) : ACCEL_OK;
}

enum accel_status
sharding_gather (struct accel_optimizer *optimizer, const struct comm_site *site, struct accel_error *err)
{
    struct accel_model *model = optimizer->model;
    if (!sharding_is_on (model))
        return ACCEL_OK;
    if (sharding_has_layers (model))
        return sharding_step_layers (model, site, err);
    struct accel_comm *comm = sharding_comm (model, model->object.owner);
    enum accel_status status;
    if (packed_gather (optimizer, comm, site, &status, err))
        return status;
    return shared_is_on (model) ? comm_barrier (comm, site, err)
                                : gather_parameters (model, optimizer, comm, site, err);
}

/* ---- checkpoints ---- */

struct accel_model *
sharding_first (const struct accel *acc)
{
    struct accel_model *model = model_first (acc);
    while (model && !sharding_is_on (model))
        model = model_next (model);
    return model;
}

/* Rank 0 gets the others' chunks of @tensor, which is divided as parameter @index is. */
static enum accel_status
collect (struct accel_model *model, size_t index, DLTensor *tensor, const struct comm_site *site,
         struct accel_error *err)
{
    bool is_parameter = tensor == model->parameters[index].data; /* which rank 0 may have on the host: it is tied */
    if (is_parameter ? !model->memory->host : packed_is_on (model))
        return packed_collect (model, index, tensor, site, err);
    struct accel_comm *comm = sharding_comm (model, model->object.owner);
    size_t chunk = sharding_chunk (model, index), rank = (size_t) model->sharding.rank;
    enum accel_dtype dtype = accel_dtype_from_dl (tensor->dtype);
    size_t bytes = chunk * accel_dtype_bytes (dtype);
    enum accel_status status = ACCEL_OK;
    if (!chunk || !tensor->data || model->sharding.replica)
        return ACCEL_OK;
    if (rank)
        return comm_send (comm, site, memory_at (tensor->data, rank, bytes), chunk, dtype, 0, err);
    for (int from = 1; from < model->sharding.size && !status; from++)
        status = comm_recv (comm, site, memory_at (tensor->data, (size_t) from, bytes), chunk, dtype, from, err);
    return status;
}

enum accel_status
sharding_collect_parameters (struct accel_model *model, const struct comm_site *site, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    sharding_settle_layers (model);
    for (size_t i = 0; sharding_has_layers (model) && i < model->count && !status; i++)
        if (model_is_trained (model, i))
            status = collect (model, i, model->parameters[i].data, site, err);
    return status;
}

static enum accel_status
collect_optimizer (struct accel_optimizer *optimizer, const struct comm_site *site, struct accel_error *err)
{
    struct accel_model *model = optimizer->model;
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; i < model->count && !status; i++) {
        if (!optimizer_group_at (optimizer, i))
            continue;
        for (size_t j = 0; j < optimizer->state_count && !optimizer->custom.step && !status; j++)
            if (optimizer->state_tensors[i * optimizer->state_count + j])
                status = collect (model, i, &optimizer_state_at (optimizer, i, j)->tensor, site, err);
        if (!status && optimizer_master_at (optimizer, i))
            status = collect (model, i, model->trained[i].data, site, err);
    }
    return status;
}

bool
sharding_has_averages (const struct accel *acc)
{
    bool found = false;
    for (const struct accel_model *model = model_first (acc); model && !found; model = model_next (model))
        found = (model->sharding.reduced || model->sharding.grads) && model->unstepped;
    return found;
}

enum accel_status
sharding_complete (struct accel *acc, const struct comm_site *site, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (struct accel_model *model = model_first (acc); model && !status; model = model_next (model))
        status = sharding_complete_gradients (model, site, err);
    return status;
}

enum accel_status
sharding_collect (struct accel *acc, const struct comm_site *site, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (struct accel_model *model = model_first (acc); model && !status; model = model_next (model)) {
        if (sharding_is_on (model))
            masters_need (model);
        status = sharding_collect_parameters (model, site, err);
        for (struct accel_optimizer *of = model->optimizers; sharding_is_on (model) && of && !status; of = of->beside)
            if (of->object.owner == acc)
                status = collect_optimizer (of, site, err);
    }
    return status ? status : sharding_complete (acc, site, err);
}

void
sharding_end_collect (struct accel *acc)
{
    for (struct accel_model *model = model_first (acc); model; model = model_next (model)) {
        packed_end_collect (model);
        sharding_discard (model);
        sharding_discard_layers (model);
        if (sharding_has_gradients (model))
            sharding_divide_gradients (model);
    }
}

enum accel_status
sharding_collect_masters (struct accel_model *model, const struct comm_site *site, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    masters_need (model);
    for (size_t i = 0; i < model->count && !status; i++)
        if (has_master (model, i))
            status = collect (model, i, model->trained[i].data, site, err);
    return status;
}

void
sharding_end_collect_masters (struct accel_model *model)
{
    packed_end_collect (model);
    for (size_t i = 0; i < model->count; i++) {
        const DLTensor *master = model->trained[i].data;
        if (!has_master (model, i))
            continue;
        sharding_discard_others (model, i, master->data, sizeof (float));
        memory_file_release (model->sharding.masters_file, master->data, accel_tensor_count (master) * sizeof (float));
    }
}
