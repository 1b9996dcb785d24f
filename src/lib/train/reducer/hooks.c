/* SPDX-License-Identifier: Apache-2.0 */
/* How gradients are averaged: as they are, or in 16 bits as torch's fp16_compress_hook and bf16_compress_hook do
 * (torch/distributed/algorithms/ddp_comm_hooks/default_hooks.py): rounded, divided by the number of processes, rounded
 * again, added up, and widened. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/base/option.h"
#include "lib/base/sized.h"
#include "lib/train/reducer/reducer_object.h"
#include "lib/train/stretches.h"

#include <math.h>
#include <stdlib.h>

void
model_set_defaults (struct accel_ddp_options *ddp)
{
    ddp->bucket_cap_mb = option_or (ddp->bucket_cap_mb, 25);
    ddp->matrix_approximation_rank = option_count_or (ddp->matrix_approximation_rank, 1);
    ddp->start_iter = option_count_or (ddp->start_iter, 1000);
    ddp->min_compression_rate = option_or (ddp->min_compression_rate, 2);
}

enum accel_status
accel_model_set_ddp_sized (size_t options_size, struct accel_model *model, const struct accel_ddp_options *options,
                           struct accel_error *err)
{
    if (!model || !options)
        return accel_fail_null (err, "accel_model_set_ddp", model ? "options" : "model");
    if (model->object.owner)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_model_set_ddp: the model is already prepared");
    struct accel_ddp_options room;
    enum accel_status status;
    options = SIZED (options, options_size, room, &status, err);
    if (status)
        return status;
    if (!(options->bucket_cap_mb >= 0) || isinf (options->bucket_cap_mb))
        return accel_fail (err, ACCEL_ERR_INVALID, "bucket_cap_mb is %g, but must be a size in MiB",
                           options->bucket_cap_mb);
    if ((unsigned) options->overlap > ACCEL_OVERLAP_NEVER)
        return accel_fail (err, ACCEL_ERR_INVALID, "invalid value for 'overlap'");
    if ((unsigned) options->comm_hook > ACCEL_COMM_HOOK_POWER_SGD)
        return accel_fail (err, ACCEL_ERR_INVALID, "invalid value for 'comm_hook'");
    if (!(options->min_compression_rate >= 0) || isinf (options->min_compression_rate))
        return accel_fail (err, ACCEL_ERR_INVALID, "min_compression_rate is %g, but must be at least 0 and finite",
                           options->min_compression_rate);
    status = flag_check (options->use_error_feedback, "use_error_feedback", err);
    if (!status)
        status = flag_check (options->warm_start, "warm_start", err);
    if (status)
        return status;
    if (options->matrix_approximation_rank == ACCEL_NONE)
        return accel_fail (err, ACCEL_ERR_INVALID, "matrix_approximation_rank is 0, but must be at least 1");
    model->ddp = *options;
    model_set_defaults (&model->ddp);
    return ACCEL_OK;
}

static enum accel_dtype
hook_dtype (const struct accel_model *model)
{
    return model->ddp.comm_hook == ACCEL_COMM_HOOK_FP16   ? ACCEL_FLOAT16
           : model->ddp.comm_hook == ACCEL_COMM_HOOK_BF16 ? ACCEL_BFLOAT16
                                                          : ACCEL_DTYPE_COUNT;
}

/* On the host, buckets are compressed one after the other; on a device, several are in flight. */
enum accel_status
hook_make (struct accel_model *model, struct accel *acc, struct accel_error *err)
{
    struct reducer *reducer = model->reducer;
    enum accel_dtype dtype = hook_dtype (model);
    size_t most = 0;
    enum accel_status status = ACCEL_OK;
    reducer->halves = calloc (model->span_count + 1, sizeof *reducer->halves);
    if (!reducer->halves)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory to compress gradients");
    for (size_t s = 0; !status && dtype != ACCEL_DTYPE_COUNT && s < model->span_count; s++) {
        size_t count = model->spans[s].dtype != dtype ? model->spans[s].count : 0;
        most = count > most ? count : most;
        if (count && !model->memory->host)
            status = model_alloc (model, acc, &reducer->halves[s], count * sizeof (uint16_t), err);
    }
    if (most && model->memory->host)
        status = model_alloc (model, acc, &reducer->halves[0], most * sizeof (uint16_t), err);
    return status;
}

void
hook_free (struct accel_model *model)
{
    struct reducer *reducer = model->reducer;
    for (size_t s = 0; reducer->halves && s < model->span_count; s++)
        model_free (model, reducer->halves[s]);
    free (reducer->halves);
}

/* Where a stretch of bucket @s becomes 16 bits. */
static void *
half_of (const struct accel_model *model, size_t s, void *data)
{
    if (model->spans[s].dtype == hook_dtype (model))
        return data;
    return model->reducer->halves[model->memory->host ? 0 : s];
}

enum accel_status
hook_reduce (struct accel_model *model, size_t s, void *data, size_t count, struct accel_error *err)
{
    struct reducer *reducer = model->reducer;
    enum accel_dtype hook = hook_dtype (model), dtype = model->spans[s].dtype;
    if (hook == ACCEL_DTYPE_COUNT)
        return comm_all_reduce (reducer->comm, &reducer->there, data, data, count, dtype, ACCEL_AVG, err);
    void *sent = half_of (model, s, data);
    model->memory->convert (model->device, sent, hook, data, dtype, count, (float) reducer->size);
    enum accel_status status
        = comm_all_reduce (reducer->comm, &reducer->there, sent, sent, count, hook, ACCEL_SUM, err);
    if (!status && sent != data)
        model->memory->convert (model->device, data, dtype, sent, hook, count, 1);
    return status;
}

enum accel_status
hook_scatter (struct accel_model *model, size_t s, void *data, size_t chunk, struct accel_error *err)
{
    struct reducer *reducer = model->reducer;
    enum accel_dtype hook = hook_dtype (model), dtype = model->spans[s].dtype;
    bool is_plain = hook == ACCEL_DTYPE_COUNT;
    enum accel_dtype sent_as = is_plain ? dtype : hook;
    size_t before = chunk * (size_t) model->sharding.rank;
    void *sent = is_plain ? data : half_of (model, s, data);
    void *own = memory_at (sent, before, accel_dtype_bytes (sent_as));
    if (!is_plain)
        model->memory->convert (model->device, sent, hook, data, dtype, chunk * (size_t) model->sharding.size,
                                (float) reducer->size);
    enum accel_op op = is_plain ? ACCEL_AVG : ACCEL_SUM;
    enum accel_status status = comm_reduce_scatter (sharding_comm (model, model->object.owner), &reducer->there, sent,
                                                    own, chunk, sent_as, op, err);
    if (!status && model->sharding.replicas)
        status = comm_all_reduce (model->sharding.replicas, &reducer->there, own, own, chunk, sent_as, op, err);
    if (!status && sent != data)
        model->memory->convert (model->device, memory_at (data, before, accel_dtype_bytes (dtype)), dtype, own, hook,
                                chunk, 1);
    return status;
}

enum accel_status
hook_start (struct accel_model *model, size_t s, struct accel_error *err)
{
    struct reducer *reducer = model->reducer;
    const struct span *span = &model->spans[s];
    enum accel_dtype hook = hook_dtype (model);
    bool is_plain = hook == ACCEL_DTYPE_COUNT;
    void *sent = is_plain ? span->data : half_of (model, s, span->data);
    if (!is_plain)
        model->memory->convert (model->device, sent, hook, span->data, span->dtype, span->count,
                                (float) reducer->size);
    return comm_start_all_reduce (reducer->comm, &reducer->there, sent, span->count, is_plain ? span->dtype : hook,
                                  is_plain ? ACCEL_AVG : ACCEL_SUM, &reducer->started[s], err);
}

void
hook_finish (struct accel_model *model, size_t s)
{
    const struct span *span = &model->spans[s];
    enum accel_dtype hook = hook_dtype (model);
    if (hook != ACCEL_DTYPE_COUNT && span->dtype != hook)
        model->memory->convert (model->device, span->data, span->dtype, half_of (model, s, span->data), hook,
                                span->count, 1);
}
