/* SPDX-License-Identifier: Apache-2.0 */
/* accel_prepare() of a model: it is compared over the ranks, starts from rank 0's parameters, and gets gradients in
 * memory that all ranks have mapped. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/base/option.h"
#include "lib/base/tensor.h"
#include "lib/collectives/verify.h"
#include "lib/comm/comm_private.h"
#include "lib/state/state_object.h"
#include "lib/train/accumulate.h"
#include "lib/train/model_device.h"
#include "lib/train/model_object.h"
#include "lib/train/packed_gradients.h"
#include "lib/train/precision.h"
#include "lib/train/reducer/reducer_object.h"
#include "lib/train/sharding.h"
#include "lib/train/sharding_gradients.h"
#include "lib/train/sharding_layers.h"
#include "lib/train/sharding_offload.h"
#include "lib/train/shared_parameters.h"
#include "lib/train/staging.h"
#include "lib/train/tensor_parallel.h"
#include "util/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DESCRIPTION_SIZE = 256 };

static void
describe (const struct accel_model *model, size_t index, char text[DESCRIPTION_SIZE])
{
    memset (text, 0, DESCRIPTION_SIZE);
    if (index >= model->count) {
        snprintf (text, DESCRIPTION_SIZE, "nothing");
        return;
    }
    const struct accel_parameter *parameter = &model->parameters[index];
    int at = snprintf (text, DESCRIPTION_SIZE, "'%.100s' [", parameter->name);
    for (int i = 0; i < parameter->data->ndim && at < DESCRIPTION_SIZE - 32; i++)
        at += snprintf (text + at, (size_t) (DESCRIPTION_SIZE - at), "%s%lld", i ? ", " : "",
                        (long long) parameter->data->shape[i]);
    enum accel_dtype dtype = accel_dtype_from_dl (parameter->data->dtype);
    at += snprintf (text + at, (size_t) (DESCRIPTION_SIZE - at), "] %s", accel_dtype_name (dtype));
    if (parameter->grad && model_grad_dtype (model, index) != dtype)
        at += snprintf (text + at, (size_t) (DESCRIPTION_SIZE - at), ", gradient %s",
                        accel_dtype_name (model_grad_dtype (model, index)));
    snprintf (text + at, (size_t) (DESCRIPTION_SIZE - at), "%s%s%s",
              !parameter->grad                         ? ", not trained"
              : model_has_own_gradient (model, index) ? ", with gradient memory"
                                                       : "",
              memory_of (model->target)->host ? "" : ", on ",
              memory_of (model->target)->host ? "" : tensor_device_name (model->target));
}

/* 64 bits are enough to notice a difference, which explain_difference() then looks at. */
static int64_t
fingerprint_parameter (const struct accel_model *model, size_t index)
{
    if (index >= model->count)
        return 0;
    const struct accel_parameter *parameter = &model->parameters[index];
    uint64_t hash = hash_bytes (HASH_START, parameter->name, strlen (parameter->name) + 1);
    hash = hash_bytes (hash, parameter->data->shape, (size_t) parameter->data->ndim * sizeof (int64_t));
    hash = hash_bytes (hash, &parameter->data->dtype, sizeof parameter->data->dtype);
    if (parameter->grad)
        hash = hash_bytes (hash, &parameter->grad->dtype, sizeof parameter->grad->dtype);
    hash = hash_bytes (hash, &memory_of (model->target)->host, sizeof (bool));
    if (model->cuts)
        hash = hash_bytes (hash_word (hash, model->cuts[index].blocks), &model->cuts[index].dim, sizeof (int));
    const char *kind = !parameter->grad ? "f" : model_has_own_gradient (model, index) ? "o" : "t";
    return (int64_t) hash_bytes (hash, kind, 1);
}

static int64_t
fingerprint_options (const struct accel_model *model)
{
    const struct accel_ddp_options *ddp = &model->ddp;
    bool is_ordered = !memory_of (model->target)->host && sharding_wanted (model) >= ACCEL_SHARDING_SHARD_GRAD_OP;
    const double values[] = {
        ddp->bucket_cap_mb, ddp->find_unused_parameters, ddp->broadcast_buffers, ddp->comm_hook,
        ddp->matrix_approximation_rank, ddp->start_iter, ddp->min_compression_rate,
        flag_or (ddp->use_error_feedback, true), flag_or (ddp->warm_start, true), ddp->use_cublas,
        sharding_wanted (model), (double) model->sharding.min_num_params, model->sharding.shares,
        (double) model->sharding.group_size, (double) model->sharding.prefetch_layers,
        (double) model->sharding.max_live_params, offload_of_optimizers (model), offload_of_parameters (model),
        is_ordered && ddp->overlap == ACCEL_OVERLAP_NEVER, /* averages come between layers, or after them */
        is_ordered && model->sharding.is_set,
    };
    return (int64_t) hash_bytes (HASH_START, values, sizeof values);
}

/* As accel_open() has found them, in options, variables, or a DeepSpeed file that each host has of its own.  What the
 * program sets later may differ. */
static void
describe_job (const struct accel *acc, char text[DESCRIPTION_SIZE])
{
    const struct accumulation *its = accumulation_of (acc);
    memset (text, 0, DESCRIPTION_SIZE);
    snprintf (text, DESCRIPTION_SIZE, "gradient_accumulation_steps %u, gradient_clipping %.9g, mixed_precision %s",
              its->opened, accel_gradient_clipping (acc), accel_mixed_precision (acc));
}

static int64_t
fingerprint_job (const struct accel *acc)
{
    char text[DESCRIPTION_SIZE];
    describe_job (acc, text);
    return (int64_t) hash_bytes (HASH_START, text, sizeof text);
}

/* All ranks have found the same difference; each says what both sides have.
 * @param index  of a parameter; SIZE_MAX: the job's settings differ */
static enum accel_status
explain_difference (struct accel *acc, const struct comm_site *site, const struct accel_model *model, size_t index,
                    int rank, struct accel_error *err)
{
    char mine[DESCRIPTION_SIZE], first[DESCRIPTION_SIZE], other[DESCRIPTION_SIZE];
    if (index == SIZE_MAX)
        describe_job (acc, mine);
    else
        describe (model, index, mine);
    enum accel_status status = comm_share_texts (accel_world (acc), site, mine, first, other, sizeof mine, rank, err);
    if (status)
        return status;
    if (index == SIZE_MAX)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "the ranks' settings differ: rank 0 has %.150s, but rank %d has %.150s: give all ranks the "
                           "same options, variables and DeepSpeed file", first, rank, other);
    return accel_fail (err, ACCEL_ERR_INVALID,
                       "the ranks' models differ at parameter %zu: rank 0 has %.150s, rank %d has %.150s", index, first,
                       rank, other);
}

/* For comm_agree(): GPUs, and processes, differ in how much memory is left. */
static const char *
what_fails (const struct accel_model *model)
{
    return memory_of (model->target)->host ? "the model cannot be prepared in the memory"
                                           : "the model cannot be placed on the GPU";
}

static enum accel_status
compare_models (struct accel *acc, const struct comm_site *site, const struct accel_model *model,
                struct accel_error *err)
{
    struct accel_comm *comm = accel_world (acc);
    int64_t most = (int64_t) model->count;
    enum accel_status status = comm_all_reduce (comm, site, &most, &most, 1, ACCEL_INT64, ACCEL_MAX, err);
    if (status)
        return status;
    size_t count = (size_t) most, index = count;
    int rank = 0;
    int64_t *mine = calloc (count + 2, sizeof *mine);
    if (!mine)
        status = accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory to compare %zu parameters", count);
    status = comm_agree (comm, site, status, what_fails (model), err);
    if (status) {
        free (mine);
        return status;
    }
    for (size_t i = 0; i < count; i++)
        mine[i] = fingerprint_parameter (model, i);
    mine[count] = fingerprint_options (model);
    mine[count + 1] = fingerprint_job (acc);
    status = comm_find_difference (comm, site, mine, count + 2, &index, &rank, err);
    free (mine);
    if (!status && index == count)
        status = accel_fail (err, ACCEL_ERR_INVALID,
                             "the model's accel_ddp_options or sharding on rank %d differ from those on rank 0", rank);
    else if (!status && index == count + 1)
        status = explain_difference (acc, site, model, SIZE_MAX, rank, err);
    else if (!status && index < count)
        status = explain_difference (acc, site, model, index, rank, err);
    return status;
}

/* What the parameters of rank 0 are, and where gradients are. */
static enum accel_status
fill (struct accel_model *model, struct accel *acc, const struct comm_site *site, struct accel_error *err)
{
    enum accel_status status = sharding_is_on (model) ? sharding_broadcast (model, acc, site, err)
                                                      : cut_broadcast (model, acc, site, err);
    if (!status)
        status = precision_broadcast (acc, site, 0, err);
    if ((status == ACCEL_ERR_NOMEM || status == ACCEL_ERR_SYSTEM) && accel_num_processes (acc) > 1)
        comm_give_up (accel_world (acc), "it cannot broadcast a model"); /* for which others are waiting */
    if (status)
        return status;
    model->object.owner = acc;
    status = model_make_spans (acc, model, site, err);
    if (!status)
        status = packed_make_gradients (model, err);
    if (!status)
        status = reducer_create (model, acc, err);
    bool is_on_host = memory_of (model->target)->host;
    if (is_on_host || sharding_has_parameters (model) || offload_of_optimizers (model) == ACCEL_OFFLOAD_NVME)
        status = comm_agree (accel_world (acc), site, status, what_fails (model), err); /* what follows is collective */
    if (!status)
        status = sharding_make_layers (model, acc, site, err);
    if (!status)
        status = offload_begin (model, acc, site, err);
    if (!is_on_host)
        status = comm_agree (accel_world (acc), site, status, what_fails (model), err);
    if (status) {
        model_release (model);
        model->object.owner = NULL;
    }
    return status;
}

enum accel_status
model_prepare (struct object *object, struct accel *acc, const struct comm_site *site, struct accel_error *err)
{
    struct accel_model *model = (struct accel_model *) (void *) object;
    struct accel_comm *comm = accel_world (acc);
    bool was_placed = model->placement != NULL, was_sharded = sharding_is_on (model);
    model->target = model_target (model, acc);
    enum accel_status status = model_check_place (model, err);
    if (!status)
        status = cut_check (model, acc, err);
    if (!status)
        status = compare_models (acc, site, model, err);
    if (!status)
        status = offload_stay (model, acc, site, err);
    if (!status)
        status = sharding_begin (model, acc, site, err); /* which decides what has to be on the device */
    if (!status)
        status = offload_keep (model, acc, err);
    if (!status) {
        if (!memory_is_same (model->target, model->device))
            status = model_place (model, acc, model->target, err);
        if (!memory_of (model->target)->host)
            status = comm_agree (comm, site, status, what_fails (model), err);
    }
    if (!status)
        status = fill (model, acc, site, err);
    if (status) {
        sharding_end (model);
        shared_end (model);
        if (model->placement && !was_placed)
            model_go_home (model);
        else
            model->widened = model->widened && !sharding_is_on (model);
        if (!model->placement) {
            staging_end (model);
            model->sharding.states_at_home = false;
        }
        model->sharding.size = was_sharded ? model->sharding.size : 0;
        return status;
    }
    sharding_drop_gradients (model);
    for (size_t i = 0; i < model->count; i++) { /* buckets have it now */
        model_home (model)->destroy (model->device, model->kept[i]);
        model->kept[i] = NULL;
    }
    model_settle (model);
    sharding_discard (model);
    return ACCEL_OK;
}
