/* SPDX-License-Identifier: Apache-2.0 */
/* Divided gradients on a GPU; see packed_gradients.h. */
#include <config.h>

#include "lib/train/packed_gradients.h"

#include "lib/base/error.h"
#include "lib/comm/wait.h"
#include "lib/train/reducer/reducer_object.h"
#include "util/memory.h"

#include <stdlib.h>

static size_t
element_bytes (const struct accel_model *model, size_t index)
{
    return accel_dtype_bytes (model_grad_dtype (model, index));
}

static size_t
room_of (const struct accel_model *model, size_t index)
{
    return (packed_room (model, index) * element_bytes (model, index) + MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT
           * MEMORY_ALIGNMENT;
}

/* ---- beginning and end ---- */

const char *
packed_why_whole (const struct accel_model *model)
{
    if (model->ddp.comm_hook != ACCEL_COMM_HOOK_NONE)
        return "gradients on a GPU that are sent in fewer bits (comm_hook) cannot be divided";
    if (model->ddp.find_unused_parameters)
        return "gradients on a GPU cannot be divided with find_unused_parameters";
    for (size_t i = 0; i < model->count; i++)
        if (model_has_own_gradient (model, i))
            return "gradients on a GPU cannot be divided if they have memory of the program: leave grad->data NULL";
    return NULL;
}

static struct packed_gradients *
allocate (const struct accel_model *model)
{
    struct packed_gradients *made = calloc (1, sizeof *made);
    if (!made)
        return NULL;
    made->own = calloc (model->count + 1, sizeof *made->own);
    made->works = calloc (2 * model->count + 1, sizeof *made->works);
    made->buckets = calloc (model->span_count + 1, sizeof *made->buckets);
    for (size_t i = 0; i < model->count; i++)
        made->bytes += model->span_of[i] != NO_SPAN ? room_of (model, i) : 0;
    return made;
}

enum accel_status
packed_make_gradients (struct accel_model *model, struct accel_error *err)
{
    if (!model->sharding.divides_gradients)
        return ACCEL_OK;
    struct packed_gradients *made = model->sharding.grads = allocate (model);
    if (!made || !made->own || !made->works || !made->buckets)
        return accel_fail_nomem (err);
    if (model->unstepped && !model->sharding.reduced)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "accel_prepare: sums of gradients that have not been averaged "
                           "cannot be divided: take a step before accel_unwrap_model");
    char *at = made->memory = model->memory->create (model->device, made->bytes, true);
    if (!at)
        return memory_fail (model->device, err, "cannot allocate memory for a share of gradients (%zu bytes)",
                            made->bytes);
    for (size_t i = 0; i < model->count; i++) {
        if (model->span_of[i] == NO_SPAN)
            continue;
        made->own[i] = at;
        at += room_of (model, i);
        if (model->kept[i] && model->sharding.reduced) {
            (void) packed_copy (model, i, model->device, made->own[i], model->kept[i], element_bytes (model, i), false,
                                NULL);
            made->buckets[model->span_of[i]].has_average = true;
        }
        model->parameters[i].grad->data = NULL; /* no bucket is open, and `kept` ends with accel_prepare() */
    }
    return ACCEL_OK;
}

static void
point (const struct accel_model *model, size_t s, char *at)
{
    const struct span *span = &model->spans[s];
    for (size_t i = span->end; i-- > span->begin;) {
        if (model->span_of[i] != (ptrdiff_t) s)
            continue;
        model->parameters[i].grad->data = at;
        at += at ? span_room (span, model, i) : 0;
    }
}

static void
close_bucket (const struct accel_model *model, size_t s)
{
    model->memory->destroy (model->device, model->spans[s].data);
    model->spans[s].data = NULL;
    point (model, s, NULL);
}

void
packed_end_gradients (struct accel_model *model)
{
    struct packed_gradients *grads = model->sharding.grads;
    if (!grads)
        return;
    if (grads->works && grads->buckets)
        (void) packed_finish_buckets (model, NULL);
    for (size_t s = 0; s < model->span_count; s++)
        close_bucket (model, s);
    model->memory->destroy (model->device, grads->memory);
    free (grads->own);
    free (grads->works);
    free (grads->buckets);
    free (grads);
    model->sharding.grads = NULL;
}

enum accel_status
packed_keep_gradient (struct accel_model *model, size_t index, struct accel_error *err)
{
    return packed_copy (model, index, model->device, model->sharding.grads->own[index], model->kept[index],
                        element_bytes (model, index), true, err);
}

/* ---- whole gradients ---- */

/* N times an average is a sum, which may be too large for 16 bits: then all processes have the average.  The program
 * may write to what has been filled, or add to it. */
static enum accel_status
fill_chunk (struct accel_model *model, size_t index, void *whole, size_t chunk, struct accel_error *err)
{
    struct accel_comm *comm = sharding_comm (model, model->object.owner);
    enum accel_dtype dtype = model_grad_dtype (model, index);
    void *own = model->sharding.grads->own[index];
    void *to = memory_at (whole, chunk * (size_t) model->sharding.rank, accel_dtype_bytes (dtype));
    bool is_reserved = atomic_load_explicit (&comm->reserved, memory_order_relaxed);
    if (dtype != ACCEL_FLOAT16) {
        model->memory->copy (model->device, to, own, chunk * accel_dtype_bytes (dtype));
        model->memory->scale (model->device, to, dtype, chunk, (double) model->sharding.size);
        return ACCEL_OK;
    }
    comm_reserve (comm, false);
    enum accel_status status = comm_all_gather (comm, &model->reducer->there, own, whole, chunk, dtype, err);
    comm_reserve (comm, is_reserved);
    return status;
}

static enum accel_status
fill (struct accel_model *model, size_t s, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    FOR_GRADIENTS_OF (model, s, i) {
        size_t chunk = sharding_chunk (model, i), each = element_bytes (model, i);
        size_t rest = packed_room (model, i) - chunk;
        void *whole = model->parameters[i].grad->data;
        if (chunk && !status)
            status = fill_chunk (model, i, whole, chunk, err);
        if (rest)
            model->memory->copy (model->device, memory_at (whole, chunk * (size_t) model->sharding.size, each),
                                 memory_at (model->sharding.grads->own[i], chunk, each), rest * each);
    }
    return status;
}

static enum accel_status
open_bucket (struct accel_model *model, size_t s, struct accel_error *err)
{
    struct span *span = &model->spans[s];
    size_t bytes = span->count * accel_dtype_bytes (span->dtype);
    if (span->data)
        return ACCEL_OK;
    span->data = model->memory->create (model->device, bytes, true);
    if (!span->data)
        return memory_fail (model->device, err, "cannot allocate memory for a bucket of gradients (%zu bytes)", bytes);
    point (model, s, span->data);
    return model->sharding.grads->buckets[s].has_average ? fill (model, s, err) : ACCEL_OK;
}

/* In stage 3, a pass needs layers for the parameters, unless they have been summoned. */
static bool
knows_layers (const struct accel_model *model)
{
    const struct packed_parameters *packed = model->sharding.packed;
    return model->sharding.grads->may_have_layers && packed && !packed->summoned;
}

/* @return whether buckets that are opened, or closed, need not be 0 */
static bool
holds_any (const struct accel_model *model)
{
    bool holds = model->unstepped;
    for (size_t s = 0; s < model->span_count; s++)
        holds = holds || model->sharding.grads->buckets[s].has_average;
    return holds;
}

/* Before the first pass, a program may have called accel_layer_begin() for parameters only.  It gets all gradients
 * then; if there is no room for all, its layers have to open them. */
enum accel_status
packed_begin_pass (struct accel_model *model, struct accel_error *err)
{
    const struct packed_gradients *grads = model->sharding.grads;
    enum accel_status status = ACCEL_OK;
    struct accel_error cause;
    if (!grads || grads->has_layers || knows_layers (model))
        return ACCEL_OK;
    for (size_t s = 0; s < model->span_count && !status; s++)
        status = open_bucket (model, s, &cause);
    if (status == ACCEL_ERR_NOMEM && grads->may_have_layers && !holds_any (model)) {
        for (size_t s = 0; s < model->span_count; s++)
            close_bucket (model, s);
        return ACCEL_OK;
    }
    if (status && err)
        *err = cause;
    return status;
}

enum accel_status
packed_begin_gradients (struct accel_model *model, const size_t *parameters, size_t count, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    if (!model->sharding.grads)
        return ACCEL_OK;
    struct reducer *reducer = model->reducer;
    pthread_mutex_lock (&reducer->lock);
    model->sharding.grads->may_have_layers = true;
    model->sharding.grads->has_layers |= reducer->open;
    for (size_t i = 0; reducer->open && i < count && !status; i++) {
        ptrdiff_t s = model->span_of[parameters[i]];
        bool is_averaged = reducer->reduces && s != NO_SPAN && (size_t) s < reducer->next;
        if (s != NO_SPAN && !is_averaged)
            status = open_bucket (model, (size_t) s, err);
    }
    pthread_mutex_unlock (&reducer->lock);
    return status;
}

/* ---- averages ---- */

static enum accel_status
start_chunk (struct accel_model *model, size_t index, struct accel_comm *comm, struct accel_error *err)
{
    struct packed_gradients *grads = model->sharding.grads;
    struct comm_site there = model->reducer->there;
    size_t chunk = sharding_chunk (model, index);
    there.work = &grads->works[2 * index];
    return chunk ? comm_reduce_scatter (comm, &there, model->parameters[index].grad->data, grads->own[index], chunk,
                                        model_grad_dtype (model, index), ACCEL_AVG, err)
                 : ACCEL_OK;
}

/* What is not divided. */
static enum accel_status
start_rest (struct accel_model *model, size_t index, struct accel_comm *comm, struct accel_error *err)
{
    struct packed_gradients *grads = model->sharding.grads;
    struct comm_site there = model->reducer->there;
    enum accel_dtype dtype = model_grad_dtype (model, index);
    size_t chunk = sharding_chunk (model, index), each = accel_dtype_bytes (dtype), room = packed_room (model, index);
    there.work = &grads->works[2 * index + 1];
    return room > chunk ? comm_all_reduce (comm, &there,
                                           memory_at (model->parameters[index].grad->data,
                                                      chunk * (size_t) model->sharding.size, each),
                                           memory_at (grads->own[index], chunk, each), room - chunk, dtype, ACCEL_AVG,
                                           err)
                        : ACCEL_OK;
}

/* What the program queues from now on comes after the average of bucket @s. */
static enum accel_status
finish_bucket (struct accel_model *model, size_t s, struct accel_error *err)
{
    struct packed_gradients *grads = model->sharding.grads;
    struct packed_bucket *bucket = &grads->buckets[s];
    struct accel_error first = { 0 }, why = { 0 };
    if (!bucket->is_started)
        return ACCEL_OK;
    bucket->is_started = false;
    FOR_GRADIENTS_OF (model, s, i)
        for (size_t k = 2 * i; k < 2 * i + 2; k++) {
            struct accel_work *work = grads->works[k];
            grads->works[k] = NULL;
            if (work && work_finish (work, &why))
                first = first.code ? first : why;
        }
    bucket->has_average = true;
    close_bucket (model, s);
    if (first.code && err)
        *err = first;
    return first.code;
}

/* Of bucket @s, replicas average chunks: their group's averages, for which the program's stream waits first. */
static enum accel_status
pass_on_bucket (struct accel_model *model, size_t s, struct accel_error *err)
{
    struct packed_gradients *grads = model->sharding.grads;
    struct accel_comm *comm = model->sharding.replicas;
    struct comm_site there = model->reducer->there;
    enum accel_status status = finish_bucket (model, s, err);
    if (status || !comm)
        return status;
    grads->buckets[s].is_started = true;
    work_group_begin (comm);
    FOR_GRADIENTS_OF (model, s, i) {
        size_t chunk = sharding_chunk (model, i);
        there.work = &grads->works[2 * i];
        if (!status && chunk)
            status = comm_all_reduce (comm, &there, grads->own[i], grads->own[i], chunk, model_grad_dtype (model, i),
                                      ACCEL_AVG, err);
    }
    work_group_end (comm);
    return status;
}

enum accel_status
packed_start_bucket (struct accel_model *model, size_t s, struct accel_error *err)
{
    struct accel_comm *comm = sharding_comm (model, model->object.owner);
    /* All have the same bits of what is not divided, which two communicators of different shapes would not promise. */
    struct accel_comm *all = model->sharding.replicas ? model->reducer->comm : comm;
    enum accel_status status = open_bucket (model, s, err); /* unless a layer has */
    if (!status) {
        model->sharding.grads->buckets[s].is_started = true;
        work_group_begin (comm);
        FOR_GRADIENTS_OF (model, s, i) {
            if (!status)
                status = start_chunk (model, i, comm, err);
            if (!status && all == comm)
                status = start_rest (model, i, comm, err);
        }
        work_group_end (comm);
    }
    if (!status && all != comm) {
        work_group_begin (all);
        FOR_GRADIENTS_OF (model, s, i)
            if (!status)
                status = start_rest (model, i, all, err);
        work_group_end (all);
    }
    return status || !s ? status : pass_on_bucket (model, s - 1, err);
}

enum accel_status
packed_pass_on_last (struct accel_model *model, struct accel_error *err)
{
    return model->sharding.grads && model->span_count ? pass_on_bucket (model, model->span_count - 1, err) : ACCEL_OK;
}

enum accel_status
packed_finish_buckets (struct accel_model *model, struct accel_error *err)
{
    enum accel_status first = ACCEL_OK;
    for (size_t s = 0; model->sharding.grads && s < model->span_count; s++) {
        enum accel_status status = finish_bucket (model, s, first ? NULL : err);
        first = first ? first : status;
    }
    return first;
}

/* ---- zeros ---- */

void
packed_drop_gradients (struct accel_model *model)
{
    struct packed_gradients *grads = model->sharding.grads;
    for (size_t s = 0; s < model->span_count; s++) {
        close_bucket (model, s);
        grads->buckets[s].has_average = false;
    }
    model->memory->zero (model->device, grads->memory, grads->bytes);
}

void
packed_zero_gradients (struct accel_optimizer *optimizer, bool all)
{
    struct accel_model *model = optimizer->model;
    if (all)
        packed_drop_gradients (model);
    for (size_t i = 0; !all && i < model->count; i++) {
        if (!optimizer_group_at (optimizer, i) || model->span_of[i] == NO_SPAN)
            continue;
        model->memory->zero (model->device, model->sharding.grads->own[i],
                             packed_room (model, i) * element_bytes (model, i));
        if (model->parameters[i].grad->data)
            model->memory->zero (model->device, model->parameters[i].grad->data, model_grad_bytes (model, i));
    }
}

/* ---- norms ---- */

enum accel_status
packed_norms (struct accel_model *model, double p, float *parts, struct accel_error *err)
{
    const struct memory_list *list = model_gradients (model);
    size_t bytes = list->count * sizeof *parts;
    float *norms = model->memory->create (model->device, bytes, false);
    if (!norms)
        return memory_fail (model->device, err, "cannot allocate memory for norms of gradients");
    memory_list_norm (&model->lists[LIST_GRADIENTS], model->memory, model->device, model_pending (model), p, norms);
    enum accel_status status = model->memory->read (model->device, parts, norms, bytes, err);
    model->memory->destroy (model->device, norms);
    return status;
}
