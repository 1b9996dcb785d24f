/* SPDX-License-Identifier: Apache-2.0 */
/* How gradients are averaged: as they are, or in 16 bits as torch's fp16_compress_hook and bf16_compress_hook do
 * (torch/distributed/algorithms/ddp_comm_hooks/default_hooks.py): rounded, divided by the number of processes, rounded
 * again, added up, and widened. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/base/option.h"
#include "lib/base/sized.h"
#include "lib/train/reducer/reducer_object.h"

#include <math.h>

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

enum accel_status
hook_make (struct accel_model *model, struct accel *acc, struct accel_error *err)
{
    enum accel_dtype dtype = hook_dtype (model);
    size_t most = 0;
    for (size_t s = 0; s < model->span_count; s++)
        if (model->spans[s].dtype != dtype && model->spans[s].count > most)
            most = model->spans[s].count;
    if (dtype == ACCEL_DTYPE_COUNT || !most)
        return ACCEL_OK;
    void *memory;
    enum accel_status status = model_alloc (model, acc, &memory, most * sizeof (uint16_t), err);
    if (!status)
        model->reducer->half = memory;
    return status;
}

enum accel_status
hook_reduce (struct accel_model *model, enum accel_dtype dtype, void *data, size_t count, struct accel_error *err)
{
    struct reducer *reducer = model->reducer;
    enum accel_dtype hook = hook_dtype (model);
    if (hook == ACCEL_DTYPE_COUNT)
        return comm_all_reduce (reducer->comm, &reducer->there, data, data, count, dtype, ACCEL_AVG, err);
    void *sent = dtype == hook ? data : reducer->half;
    model->memory->convert (model->device, sent, hook, data, dtype, count, (float) reducer->size);
    enum accel_status status
        = comm_all_reduce (reducer->comm, &reducer->there, sent, sent, count, hook, ACCEL_SUM, err);
    if (!status && sent != data)
        model->memory->convert (model->device, data, dtype, sent, hook, count, 1);
    return status;
}
