/* SPDX-License-Identifier: Apache-2.0 */
/* Divided gradients; see sharding_gradients.h. */
#include <config.h>

#include "lib/train/sharding_gradients.h"

#include "lib/base/error.h"
#include "lib/comm/coalesce.h"
#include "lib/train/packed_gradients.h"
#include "lib/train/reducer/reducer_object.h"
#include "util/cleanup.h"
#include "util/memory.h"

#include <math.h>
#include <stdlib.h>

/* Whether gradient @index is in memory of the library's own. */
static bool
is_ours (const struct accel_model *model, size_t index)
{
    ptrdiff_t s = model->span_of ? model->span_of[index] : NO_SPAN;
    return s != NO_SPAN && model->spans[s].allocated;
}

static void *
gradient_at (const struct accel_model *model, size_t index, size_t element)
{
    return memory_at (model->parameters[index].grad->data, element,
                      accel_dtype_bytes (model_grad_dtype (model, index)));
}

static void
forget (const struct accel_model *model, size_t index, size_t from, size_t end)
{
    size_t bytes = (end - from) * accel_dtype_bytes (model_grad_dtype (model, index));
    if (bytes)
        memory_forget (gradient_at (model, index, from), bytes, is_ours (model, index));
}

static void
forget_others (const struct accel_model *model, size_t index)
{
    struct stretch own[STRETCHES];
    sharding_gradient_stretches (model, index, own);
    if (!own[0].from && own[0].end == own[1].from) /* it is not divided */
        return;
    forget (model, index, 0, own[0].from);
    forget (model, index, own[0].end, own[1].from);
}

void
sharding_expect_gradient (struct accel_model *model, size_t index)
{
    bool is_divided = sharding_has_gradients (model) && !model->sharding.grads;
    while (is_divided && index-- > 0)
        if (model_is_trained (model, index) && is_ours (model, index)) {
            struct stretch own[STRETCHES];
            sharding_gradient_stretches (model, index, own);
            sharding_populate_others (own, gradient_at (model, index, 0),
                                      accel_dtype_bytes (model_grad_dtype (model, index)));
            return;
        }
}

/* ---- averages ---- */

/* What all processes keep: neighbours are averaged together. */
struct kept {
    char *begin, *end;
};

static enum accel_status
average_kept (struct accel_model *model, size_t s, struct kept *kept, struct accel_error *err)
{
    size_t count = (size_t) (kept->end - kept->begin) / accel_dtype_bytes (model->spans[s].dtype);
    void *data = kept->begin;
    *kept = (struct kept){ 0 };
    return count ? hook_reduce (model, s, data, count, err) : ACCEL_OK;
}

static enum accel_status
add_kept (struct accel_model *model, size_t s, struct kept *kept, char *begin, char *end, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    if (begin == end)
        return ACCEL_OK;
    if (kept->begin && begin != kept->end && end != kept->begin)
        status = average_kept (model, s, kept, err);
    if (!kept->begin || begin < kept->begin)
        kept->begin = begin;
    if (end > kept->end)
        kept->end = end;
    return status;
}

/* Gradients of the program's own that are small, and reduced in a copy. */
static enum accel_status
average_copies (struct accel_model *model, size_t s, struct accel_error *err)
{
    span_copy (model, s, NULL, false);
    enum accel_status status = hook_reduce (model, s, model->spans[s].data, model->spans[s].count, err);
    if (!status)
        span_copy (model, s, NULL, true);
    return status;
}

static enum accel_status
average_parts (struct accel_model *model, size_t s, struct accel_error *err)
{
    const struct span *span = &model->spans[s];
    enum accel_status status = ACCEL_OK;
    struct kept kept = { 0 };
    FOR_GRADIENTS_OF (model, s, i) {
        size_t chunk = sharding_chunk (model, i);
        char *data = gradient_at (model, i, 0), *rest = gradient_at (model, i, chunk * (size_t) model->sharding.size);
        if (!status && chunk)
            status = hook_scatter (model, s, data, chunk, err);
        if (!status)
            status = add_kept (model, s, &kept, rest, data + span_room (span, model, i), err);
    }
    return status ? status : average_kept (model, s, &kept, err);
}

/* Gradients that no process has used are averaged, too: 0, or what they were. */
enum accel_status
sharding_reduce (struct accel_model *model, size_t s, struct accel_error *err)
{
    enum accel_status status
        = model->spans[s].scattered ? average_copies (model, s, err) : average_parts (model, s, err);
    if (!status)
        FOR_GRADIENTS_OF (model, s, i)
            forget_others (model, i);
    return status;
}

/* N times an average may be too large for 16 bits, so all processes get it. */
static enum accel_status
share_averages (struct accel_model *model, size_t index, const struct comm_site *site, struct accel_error *err)
{
    size_t chunk = sharding_chunk (model, index);
    return comm_all_gather (sharding_comm (model, model->object.owner), site,
                            gradient_at (model, index, chunk * (size_t) model->sharding.rank),
                            gradient_at (model, index, 0), chunk, model_grad_dtype (model, index), err);
}

/* Of N processes, one has the average of a chunk, and the others have 0: N times the average are the sum. */
void
sharding_open_gradients (struct accel_model *model, const struct comm_site *site, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    if (!sharding_has_gradients (model) || !model->sharding.reduced || model->sharding.grads)
        return;
    model->sharding.reduced = false;
    for (size_t i = 0; i < model->count && !status; i++) {
        size_t chunk = model_is_trained (model, i) ? sharding_chunk (model, i) : 0;
        enum accel_dtype dtype = chunk ? model_grad_dtype (model, i) : ACCEL_FLOAT32;
        if (dtype == ACCEL_FLOAT16)
            status = share_averages (model, i, site, err);
        else if (chunk)
            model->memory->scale (model->device, gradient_at (model, i, chunk * (size_t) model->sharding.rank), dtype,
                                  chunk, (double) model->sharding.size);
    }
}

enum accel_status
sharding_renew_gradients (struct accel_model *model, struct accel_error *err)
{
    if (model->sharding.grads)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED,
                           "accel_average_gradients: divided gradients on a GPU have memory in accel_backward only");
    if (model->sharding.reduced && model->unstepped)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED,
                           "accel_average_gradients: gradients have been averaged and divided since the last step, and "
                           "only accel_backward can add to them");
    model->sharding.reduced = false;
    return ACCEL_OK;
}

/* ---- norms ---- */

/* What the norm of a gradient is made of, in one process's stretch of it.
 * @param packed  the next norms of stretches that have been computed on a GPU; NULL: it is in host memory */
static double
norm_part (const struct accel_model *model, size_t index, struct stretch stretch, double p, const float **packed)
{
    float norm = 0;
    if (stretch.from == stretch.end)
        return 0;
    if (*packed)
        norm = *(*packed)++;
    else
        model->memory->norm (model->device, gradient_at (model, index, stretch.from), model_grad_dtype (model, index),
                             stretch.end - stretch.from,
                             memory_read_factor (model->memory, model->device, model_pending (model)), p, &norm);
    return isinf (p) || p == 0 || !isfinite (norm) ? (double) norm : pow ((double) norm, p);
}

/* What all processes have is counted by rank 0. */
static double
own_part (const struct accel_model *model, size_t index, double p, const float **packed)
{
    struct stretch own[STRETCHES];
    double sum = 0;
    sharding_gradient_stretches (model, index, own);
    for (int s = 0; s < STRETCHES; s++) {
        bool counts = (!s && sharding_chunk (model, index)) || !model->sharding.rank;
        double part = counts || *packed ? norm_part (model, index, own[s], p, packed) : 0;
        part = counts ? part : 0;
        sum = !isinf (p) ? sum + part : isnan (sum) || part <= sum ? sum : part;
    }
    return sum;
}

/* The largest of numbers, one of which may be NaN, as a sum of all processes' numbers. */
static enum accel_status
add_up (const struct accel_model *model, const struct comm_site *site, double *parts, size_t count, double p,
        struct accel_error *err)
{
    struct accel_comm *comm = sharding_comm (model, model->object.owner);
    AUTO_FREE double *marks = calloc (count + 1, sizeof *marks);
    if (!marks) {
        comm_give_up (comm, "cannot find norms of gradients");
        return comm_fail_in (site, accel_fail_nomem (err), err);
    }
    for (size_t i = 0; i < count; i++)
        marks[i] = parts[i] - parts[i]; /* 0, or NaN */
    enum accel_status status
        = comm_all_reduce (comm, site, parts, parts, count, ACCEL_FLOAT64, isinf (p) ? ACCEL_MAX : ACCEL_SUM, err);
    if (!status && isinf (p))
        status = comm_all_reduce (comm, site, marks, marks, count, ACCEL_FLOAT64, ACCEL_SUM, err);
    for (size_t i = 0; isinf (p) && i < count; i++)
        parts[i] = isnan (marks[i]) && !isinf (parts[i]) ? (double) NAN : parts[i];
    return status;
}

enum accel_status
sharding_norms (struct accel_model *model, const struct comm_site *site, double p, struct accel_error *err)
{
    AUTO_FREE double *parts = calloc (model->count + 1, sizeof *parts);
    AUTO_FREE float *norms = model->sharding.grads ? calloc (2 * model->count + 1, sizeof *norms) : NULL;
    const float *packed = norms;
    size_t count = 0;
    if (!model->object.owner)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "the gradients are divided among %d processes: prepare the model again",
                           model->sharding.size);
    enum accel_status status = ACCEL_OK;
    if (!parts || (model->sharding.grads && !norms))
        status = accel_fail_nomem (err);
    else if (norms)
        status = packed_norms (model, p, norms, err);
    if (status) {
        comm_give_up (sharding_comm (model, model->object.owner), "cannot find norms of gradients");
        return comm_fail_in (site, status, err);
    }
    for (size_t i = 0; i < model->count; i++)
        if (model_is_trained (model, i))
            parts[count++] = own_part (model, i, p, &packed);
    status = add_up (model, site, parts, count, p, err);
    for (size_t i = 0; i < count; i++)
        model->host_norms[i] = (float) (isinf (p) || p == 0 ? parts[i] : pow (parts[i], 1 / p));
    return status;
}

/* ---- zeros ---- */

void
sharding_zero_gradients (struct accel_optimizer *optimizer)
{
    struct accel_model *model = optimizer->model;
    bool has_all = true;
    for (size_t i = 0; i < model->count; i++)
        has_all = has_all && (!model_is_trained (model, i) || optimizer_group_at (optimizer, i));
    if (model->sharding.grads)
        packed_zero_gradients (optimizer, has_all);
    for (size_t i = 0; !model->sharding.grads && i < model->count; i++) {
        struct stretch own[STRETCHES];
        if (!optimizer_group_at (optimizer, i) || !model->parameters[i].grad->data)
            continue;
        sharding_gradient_stretches (model, i, own);
        for (int s = 0; s < STRETCHES; s++)
            model->memory->zero (model->device, gradient_at (model, i, own[s].from),
                                 (own[s].end - own[s].from) * accel_dtype_bytes (model_grad_dtype (model, i)));
        if (!model->sharding.reduced)
            forget_others (model, i);
    }
    if (has_all) /* zeros are sums as well as averages: the next pass need not open them */
        model->sharding.reduced = false;
}

void
sharding_drop_gradients (const struct accel_model *model)
{
    for (size_t i = 0; sharding_has_gradients (model) && !model->sharding.grads && i < model->count; i++)
        if (model_is_trained (model, i) && is_ours (model, i) && (!model->kept[i] || model->sharding.reduced))
            forget_others (model, i);
}

/* ---- saves ---- */

enum accel_status
sharding_complete_gradients (struct accel_model *model, const struct comm_site *site, struct accel_error *err)
{
    struct accel_comm *comm = sharding_comm (model, model->object.owner);
    enum accel_status status = ACCEL_OK;
    struct comm_coalesced coalesced;
    if (model->sharding.grads && model->unstepped)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED,
                           "divided gradients on a GPU cannot be saved: save after the step that they are for");
    if (!model->sharding.reduced || !model->unstepped)
        return ACCEL_OK;
    comm_coalesce_begin (&coalesced, comm);
    for (size_t i = 0; i < model->count && !status; i++) {
        size_t chunk = model_is_trained (model, i) ? sharding_chunk (model, i) : 0;
        if (chunk)
            status = share_averages (model, i, comm_coalesce_site (&coalesced, site), err);
    }
    return comm_coalesce_end (&coalesced, status, err);
}

void
sharding_divide_gradients (struct accel_model *model)
{
    bool is_divided = model->sharding.reduced && model->unstepped && !model->sharding.grads;
    for (size_t i = 0; is_divided && i < model->count; i++)
        if (model_is_trained (model, i))
            forget_others (model, i);
}
