/* SPDX-License-Identifier: Apache-2.0 */
/* Into which buckets a model's gradients go.  They are collected from the last parameter to the first, the order in
 * which backward passes produce them; the first bucket is small so that its reduction can begin early.  Sizes and rules
 * are those of torch's reducer (torch/csrc/distributed/c10d/reducer.cpp): a bucket is closed by the gradient that fills
 * it, each element type has its own, and all are reduced in the order in which they were opened. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/base/tensor.h"
#include "lib/collectives/verify.h"
#include "lib/train/stretches.h"
#include "util/memory.h"

#include <stdlib.h>

enum { FIRST_BUCKET_BYTES = 1 << 20, MIB = 1 << 20 };

/* Gradients of the program's own that have no neighbours and are no larger are copied together: to reduce each by
 * itself takes longer. */
enum { SCATTERED_BYTES = 32 << 10 };

/* What can be open at a time: a bucket of our memory for each type, one for copies, and a stretch of the program's. */
enum { COPIES = ACCEL_DTYPE_COUNT, OWN = 2 * ACCEL_DTYPE_COUNT, KINDS };

struct packing {
    struct accel_model *model;
    const unsigned char *joined; /* [count] */
    ptrdiff_t open[KINDS];       /* span, or NO_SPAN */
    double limit[KINDS];         /* bytes */
    double filled[KINDS];        /* of them, in what is open */
};

/* Mark the program's own gradients that lie right before the next one (in one big array, say). */
static void
mark_joined (const struct accel_model *model, unsigned char *joined)
{
    size_t next = model->count;
    for (size_t i = model->count; i-- > 0;) {
        if (!model_has_own_gradient (model, i))
            continue;
        const char *data = model->parameters[i].grad->data;
        joined[i] = next < model->count && data + model_grad_bytes (model, i) == model->parameters[next].grad->data
                    && model_grad_dtype (model, i) == model_grad_dtype (model, next);
        next = i;
    }
}

/* In memory of ours each gradient begins a cache line, for loops over it are slower elsewhere; what lies between two of
 * them is 0 and stays so. */
size_t
span_room (const struct span *span, const struct accel_model *model, size_t index)
{
    size_t bytes = model_grad_bytes (model, index);
    bool ours = span->allocated || span->scattered;
    return ours ? (bytes + MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT : bytes;
}

/* Whether no gradient of the program's lies right before or after this one. */
static bool
is_alone (const struct packing *packing, size_t index)
{
    size_t before = index;
    while (before-- > 0 && !model_has_own_gradient (packing->model, before))
        ;
    return !packing->joined[index] && (before == SIZE_MAX || !packing->joined[before]);
}

static void
pack (struct packing *packing, size_t index, double cap)
{
    struct accel_model *model = packing->model;
    const DLTensor *grad = model->parameters[index].grad;
    bool own = model_has_own_gradient (model, index);
    enum accel_dtype dtype = model_grad_dtype (model, index);
    bool scattered = own && is_alone (packing, index) && model_grad_bytes (model, index) <= SCATTERED_BYTES;
    int kind = scattered ? COPIES + (int) dtype : own ? OWN : (int) dtype;
    ptrdiff_t *open = &packing->open[kind];
    if (*open == NO_SPAN || (kind == OWN && !packing->joined[index])) {
        *open = (ptrdiff_t) model->span_count++;
        model->spans[*open]
            = (struct span){ .dtype = dtype, .allocated = !own, .scattered = scattered, .end = index + 1 };
        packing->filled[kind] = 0;
    }
    struct span *span = &model->spans[*open];
    model->span_of[index] = *open;
    span->begin = index;
    span->count += span_room (span, model, index) / accel_dtype_bytes (dtype);
    span->gradients++;
    if (kind == OWN)
        span->data = grad->data; /* its lowest address so far */
    packing->filled[kind] += (double) model_grad_bytes (model, index);
    if (packing->filled[kind] >= packing->limit[kind]) {
        *open = NO_SPAN;
        packing->limit[kind] = cap;
    }
}

/* What gradient @p index held when its model was released. */
static void
give_back (const struct accel_model *model, size_t index, void *at)
{
    size_t bytes = model_grad_bytes (model, index);
    if (model->placement) /* it is still at home */
        model->memory->write (model->device, at, model->kept[index], bytes);
    else
        model->memory->copy (model->device, at, model->kept[index], bytes);
}

/* Gradients of bucket @p s move to @p memory with what they hold already, or nowhere if that is NULL.
 * @return the bytes of all */
static size_t
move (struct accel_model *model, size_t s, char *memory)
{
    const struct span *span = &model->spans[s];
    size_t at = 0;
    for (size_t i = span->end; i-- > span->begin;) {
        if (model->span_of[i] != (ptrdiff_t) s)
            continue;
        if (span->is_private && model_grad_bytes (model, i) >= MEMORY_HUGE_PAGE)
            at = (at + MEMORY_HUGE_PAGE - 1) / MEMORY_HUGE_PAGE * MEMORY_HUGE_PAGE;
        if (memory && span->is_private)
            sharding_use_gradient_pages (model, i, memory + at);
        if (memory && model->kept[i])
            give_back (model, i, memory + at);
        if (memory)
            model->parameters[i].grad->data = memory + at;
        at += span_room (span, model, i);
    }
    return at;
}

/* What pages are given back of with each bucket is private: shared memory has no huge pages, and two processes or more
 * would fault for each of the small ones. */
static enum accel_status
allocate_private (struct accel_model *model, size_t s, struct accel_error *err)
{
    struct span *span = &model->spans[s];
    span->is_private = true;
    span->data = model->memory->create_sparse (model->device, move (model, s, NULL));
    if (!span->data)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for %zu gradients", span->gradients);
    move (model, s, span->data);
    return ACCEL_OK;
}

/* Memory of bucket @p s that all ranks have mapped. */
static enum accel_status
allocate (struct accel *acc, struct accel_model *model, size_t s, struct accel_error *err)
{
    struct span *span = &model->spans[s];
    if (!span->scattered && sharding_has_gradients (model) && model->memory->host)
        return allocate_private (model, s, err);
    enum accel_status status
        = model_alloc (model, acc, &span->data, span->count * accel_dtype_bytes (span->dtype), err);
    if (!status && !span->scattered)
        move (model, s, span->data);
    return status;
}

/* Where memory lies is each process's own affair, but all have to reduce the same spans: only neighbours on every rank
 * count. */
enum accel_status
model_make_spans (struct accel *acc, struct accel_model *model, const struct comm_site *site, struct accel_error *err)
{
    size_t count = model->count;
    unsigned char *joined = calloc (count, 1);
    model->spans = calloc (count, sizeof *model->spans);
    model->span_of = calloc (count, sizeof *model->span_of);
    bool good = joined && model->spans && model->span_of;
    enum accel_status status
        = good ? ACCEL_OK : accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for %zu gradients", count);
    status = comm_agree (accel_world (acc), site, status, "gradients do not fit into the memory", err);
    if (status) {
        free (joined);
        return status;
    }
    mark_joined (model, joined);
    status
        = comm_all_reduce (accel_world (acc), site, joined, joined, count, ACCEL_UINT8, ACCEL_MIN, err);
    struct packing packing = { .model = model, .joined = joined };
    double cap = model->ddp.bucket_cap_mb * MIB;
    for (int i = 0; i < KINDS; i++) {
        packing.open[i] = NO_SPAN;
        packing.limit[i] = cap < FIRST_BUCKET_BYTES ? cap : FIRST_BUCKET_BYTES;
    }
    for (size_t i = count; i-- > 0;) {
        model->span_of[i] = NO_SPAN;
        if (!status && model_is_trained (model, i) && accel_tensor_count (model->parameters[i].grad))
            pack (&packing, i, cap);
    }
    free (joined);
    for (size_t s = 0; s < model->span_count && !status; s++)
        if ((model->spans[s].allocated || model->spans[s].scattered) && !model->sharding.divides_gradients)
            status = allocate (acc, model, s, err);
    return status;
}

void
span_copy (const struct accel_model *model, size_t s, const unsigned char *mask, bool out)
{
    const struct span *span = &model->spans[s];
    char *at = span->data;
    FOR_GRADIENTS_OF (model, s, i) {
        void *grad = model->parameters[i].grad->data;
        if (!mask || mask[i])
            model->memory->copy (model->device, out ? grad : at, out ? at : grad, model_grad_bytes (model, i));
        at += span_room (span, model, i);
    }
}
