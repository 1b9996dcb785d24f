/* SPDX-License-Identifier: Apache-2.0 */
/* Sharding of optimizer states and masters; see sharding.h. */
#include <config.h>

#include "lib/train/sharding.h"

#include "lib/train/sharding_gradients.h"

#include "lib/train/reducer/join_round.h"
#include "lib/train/shared_parameters.h"

#include <accel/precision.h>
#include <accel/utility.h>

#include "lib/base/error.h"
#include "lib/base/sized.h"
#include "lib/base/tensor.h"
#include "lib/comm/coalesce.h"
#include "lib/kernels/dtypes.h"
#include "lib/state/state_object.h"
#include "util/envnames.h"
#include "util/memory.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- what is asked for ---- */

enum accel_status
accel_model_set_sharding_sized (size_t options_size, struct accel_model *model,
                                const struct accel_sharding_options *options, struct accel_error *err)
{
    if (!model || !options)
        return accel_fail_null (err, "accel_model_set_sharding", model ? "options" : "model");
    struct accel_sharding_options room;
    enum accel_status status;
    options = SIZED (options, options_size, room, &status, err);
    if (status)
        return status;
    if ((unsigned) options->strategy > ACCEL_SHARDING_SHARD_GRAD_OP)
        return accel_fail (err, ACCEL_ERR_INVALID, "invalid value for 'strategy'");
    if (model->object.owner || sharding_is_on (model))
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_model_set_sharding: the model %s",
                           model->object.owner ? "is already prepared" : "has been divided among processes");
    model->sharding.asked = options->strategy;
    model->sharding.min_num_params = options->min_num_params;
    model->sharding.shares = options->share_parameters;
    return ACCEL_OK;
}

enum accel_sharding
accel_model_sharding (const struct accel_model *model)
{
    return model && sharding_is_on (model) ? model->sharding.strategy : ACCEL_SHARDING_NONE;
}

static bool
is_true (const char *name)
{
    const char *text = getenv (name);
    return text && (!strcasecmp (text, "true") || !strcmp (text, "1"));
}

/* How much the launcher was asked to divide.  DeepSpeed's plugin has stage 2 unless it is told otherwise, and FSDP
 * divides everything. */
static enum accel_sharding
strategy_of_launcher (void)
{
    static const enum accel_sharding of_stages[] = { ACCEL_SHARDING_NONE, ACCEL_SHARDING_OPTIMIZER };
    const char *stage = getenv (ENV_ZERO_STAGE), *strategy = getenv (ENV_FSDP_STRATEGY);
    if (is_true (ENV_USE_DEEPSPEED)) {
        long number = stage && *stage ? strtol (stage, NULL, 10) : 2;
        return number < 0 || number > 1 ? ACCEL_SHARDING_SHARD_GRAD_OP : of_stages[number];
    }
    if (!is_true (ENV_USE_FSDP) || (strategy && (!strcmp (strategy, "NO_SHARD") || !strcmp (strategy, "3"))))
        return ACCEL_SHARDING_NONE;
    return ACCEL_SHARDING_SHARD_GRAD_OP;
}

static const char *
name_of_launcher (void)
{
    return is_true (ENV_USE_DEEPSPEED) ? "--use_deepspeed" : "--use_fsdp";
}

enum accel_sharding
sharding_wanted (const struct accel_model *model)
{
    return model->sharding.asked != ACCEL_SHARDING_DEFAULT ? model->sharding.asked : strategy_of_launcher ();
}

bool
sharding_is_asked (const struct accel_model *model)
{
    return model->memory->create_sparse && sharding_wanted (model) != ACCEL_SHARDING_NONE;
}

const char *
sharding_hint (const struct accel_model *model)
{
    bool by_launcher = model->sharding.asked == ACCEL_SHARDING_DEFAULT;
    return !by_launcher               ? ""
           : is_true (ENV_USE_DEEPSPEED) ? " (--use_deepspeed has sharded it: set ACCEL_SHARDING_NONE)"
                                         : " (--use_fsdp has sharded it: set ACCEL_SHARDING_NONE)";
}

/* ---- memory ---- */

/* Of @values of parameter @index, only this process's elements keep their pages. */
static void
discard_others (const struct accel_model *model, size_t index, float *values)
{
    struct stretch own[STRETCHES];
    if (!sharding_chunk (model, index) || !values)
        return;
    sharding_stretches (model, index, own);
    memory_discard_pages (values, own[0].from * sizeof *values);
    memory_discard_pages (values + own[0].end, (own[1].from - own[0].end) * sizeof *values);
}

static bool
has_master (const struct accel_model *model, size_t index)
{
    return model->trained[index].data != model->parameters[index].data;
}

void
sharding_discard_parameter (struct accel_optimizer *optimizer, size_t index)
{
    struct accel_model *model = optimizer->model;
    if (!sharding_is_on (model) || !optimizer_group_at (optimizer, index))
        return;
    for (size_t j = 0; j < optimizer->state_count; j++)
        if (optimizer->state_tensors[index * optimizer->state_count + j])
            discard_others (model, index, optimizer_state_at (optimizer, index, j)->tensor.data);
    if (has_master (model, index))
        discard_others (model, index, model->trained[index].data->data);
}

void
sharding_discard (struct accel_model *model)
{
    for (struct accel_optimizer *of = model->optimizers; sharding_is_on (model) && of; of = of->beside) {
        memory_use_small_pages (of->state_memory, of->state_bytes);
        for (size_t i = 0; i < model->count; i++)
            sharding_discard_parameter (of, i);
    }
}

/* ---- accel_prepare() ---- */

static const char *
why_not (const struct accel_model *model, const struct accel *acc)
{
    if (join_steps (acc))
        return "models cannot be sharded between accel_join_uneven_inputs and accel_join_end";
    if (!memory_of (model->target)->create_sparse)
        return "only models in host memory can be sharded, and this one is on a GPU";
    for (size_t i = 0; i < model->count; i++)
        if (model_is_trained (model, i) && dtype_is_scaled (accel_dtype_from_dl (model->parameters[i].data->dtype)))
            return "8-bit parameters cannot be sharded: the scale of each is that of all of its elements";
    if (sharding_wanted (model) >= ACCEL_SHARDING_SHARD_GRAD_OP && model->ddp.comm_hook == ACCEL_COMM_HOOK_POWER_SGD)
        return "PowerSGD averages whole gradients: only ACCEL_SHARDING_OPTIMIZER is possible";
    for (const struct accel_optimizer *of = model->optimizers; of; of = of->beside)
        if (of->custom.step)
            return "a model with a custom optimizer cannot be sharded: it changes whole parameters";
    return NULL;
}

/* What the launcher was asked for need not be what a program can do. */
static enum accel_status
begin_or_warn (struct accel_model *model, struct accel *acc, bool *is_wanted, struct accel_error *err)
{
    bool by_launcher = model->sharding.asked == ACCEL_SHARDING_DEFAULT;
    const char *why = *is_wanted ? why_not (model, acc) : NULL;
    if (why && !by_launcher)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "accel_prepare: %s", why);
    if (why)
        accel_logger_log (acc, ACCEL_LOG_WARNING, "%s has no effect: %s", name_of_launcher (), why);
    *is_wanted = *is_wanted && !why;
    return ACCEL_OK;
}

static enum accel_status
begin (struct accel_model *model, struct accel *acc, struct accel_error *err)
{
    int size = accel_num_processes (acc), rank = accel_process_index (acc);
    bool is_wanted = size > 1 && sharding_wanted (model) != ACCEL_SHARDING_NONE;
    if (sharding_is_on (model)) {
        model->widened = false; /* no process has whole masters, but all have the parameters */
        if (model->sharding.size != size || model->sharding.rank != rank)
            return accel_fail (err, ACCEL_ERR_INVALID,
                               "accel_prepare: the states of the model's optimizers are divided among %d processes, of "
                               "which this was rank %d", model->sharding.size, model->sharding.rank);
        return ACCEL_OK;
    }
    enum accel_status status = begin_or_warn (model, acc, &is_wanted, err);
    if (status || !is_wanted)
        return status;
    model->sharding.size = size;
    model->sharding.rank = rank;
    model->sharding.strategy = sharding_wanted (model);
    for (size_t i = 0; i < model->count; i++)
        if (has_master (model, i))
            memory_use_small_pages (model->trained[i].data->data,
                                    accel_tensor_count (model->trained[i].data) * sizeof (float));
    return ACCEL_OK;
}

enum accel_status
sharding_begin (struct accel_model *model, struct accel *acc, const struct comm_site *site, struct accel_error *err)
{
    enum accel_status status = begin (model, acc, err);
    if (status || !sharding_is_on (model) || !model->sharding.shares)
        return status;
    status = shared_begin (model, acc, site, err);
    if (!status && !shared_is_on (model) && model->sharding.has_shared) /* rank 0 has the states of what was whole */
        status = accel_fail (err, ACCEL_ERR_UNSUPPORTED,
                             "accel_prepare: the processes have shared the parameters before, and cannot now");
    model->sharding.has_shared |= shared_is_on (model);
    return status;
}

/* Masters as well, which may say more than the parameters; one after the other, so that few are whole at a time. */
enum accel_status
sharding_broadcast (struct accel_model *model, struct accel_comm *comm, const struct comm_site *site,
                    struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; i < model->count && !status; i++) {
        const DLTensor *from = model->parameters[i].data, *data = model->trained[i].data;
        size_t count = accel_tensor_count (data);
        enum accel_dtype dtype = accel_dtype_from_dl (from->dtype);
        if (has_master (model, i) && !model->widened && !accel_comm_rank (comm))
            model->memory->widen (model->device, data->data, from->data, dtype, count, 1);
        if (has_master (model, i) || !shared_is_on (model) || !model_is_trained (model, i))
            status = comm_broadcast (comm, site, data->data, count * tensor_element_bytes (data), ACCEL_UINT8, 0, err);
        if (!status && has_master (model, i)) {
            model->memory->narrow (model->device, from->data, dtype, data->data, count);
            discard_others (model, i, data->data);
        }
    }
    model->widened = !status;
    return status;
}

/* ---- steps ---- */

/* Parameters that are shared must not change while another process still reads them, or has a pass to go. */
enum accel_status
sharding_begin_step (const struct accel_optimizer *optimizer, const struct comm_site *site, struct accel_error *err)
{
    const struct accel_model *model = optimizer->model;
    if (!sharding_is_on (model))
        return ACCEL_OK;
    if (!model->object.owner)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_optimizer_step: the optimizer's states are divided among %d "
                           "processes: prepare the model again", model->sharding.size);
    if (optimizer->custom.step)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED,
                           "accel_optimizer_step: a custom optimizer sees whole parameters, but the model is sharded%s",
                           sharding_hint (model));
    return shared_is_on (model) ? comm_barrier (accel_world (model->object.owner), site, err) : ACCEL_OK;
}

enum accel_status
sharding_gather (struct accel_optimizer *optimizer, const struct comm_site *site, struct accel_error *err)
{
    const struct accel_model *model = optimizer->model;
    enum accel_status status = ACCEL_OK;
    struct comm_coalesced coalesced;
    if (!sharding_is_on (model))
        return ACCEL_OK;
    struct accel_comm *world = accel_world (model->object.owner);
    if (shared_is_on (model))
        return comm_barrier (world, site, err);
    comm_coalesce_begin (&coalesced, world);
    for (size_t i = 0; i < model->count && !status; i++) {
        size_t chunk = optimizer_group_at (optimizer, i) ? sharding_chunk (model, i) : 0;
        const DLTensor *data = model->parameters[i].data;
        enum accel_dtype dtype = accel_dtype_from_dl (data->dtype);
        const void *own = memory_at (data->data, chunk * (size_t) model->sharding.rank, accel_dtype_bytes (dtype));
        if (chunk)
            status = comm_all_gather (world, comm_coalesce_site (&coalesced, site), own, data->data, chunk, dtype, err);
    }
    return comm_coalesce_end (&coalesced, status, err);
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

/* Rank 0 gets the others' chunks of @values. */
static enum accel_status
collect (const struct accel_model *model, size_t index, float *values, const struct comm_site *site,
         struct accel_error *err)
{
    struct accel_comm *world = accel_world (model->object.owner);
    size_t chunk = sharding_chunk (model, index), rank = (size_t) model->sharding.rank;
    enum accel_status status = ACCEL_OK;
    if (!chunk || !values)
        return ACCEL_OK;
    if (rank)
        return comm_send (world, site, values + rank * chunk, chunk, ACCEL_FLOAT32, 0, err);
    for (int from = 1; from < model->sharding.size && !status; from++)
        status = comm_recv (world, site, values + (size_t) from * chunk, chunk, ACCEL_FLOAT32, from, err);
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
        for (size_t j = 0; j < optimizer->state_count && !status; j++)
            if (optimizer->state_tensors[i * optimizer->state_count + j])
                status = collect (model, i, optimizer_state_at (optimizer, i, j)->tensor.data, site, err);
        if (!status && has_master (model, i))
            status = collect (model, i, model->trained[i].data->data, site, err);
    }
    return status;
}

bool
sharding_has_averages (const struct accel *acc)
{
    bool found = false;
    for (const struct accel_model *model = model_first (acc); model && !found; model = model_next (model))
        found = model->sharding.reduced && model->unstepped;
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
        sharding_discard (model);
        if (sharding_has_gradients (model))
            sharding_divide_gradients (model);
    }
}
