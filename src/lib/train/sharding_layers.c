/* SPDX-License-Identifier: Apache-2.0 */
/* Divided parameters; see sharding_layers.h.
 *
 * Parameters are gathered one by one, in an order that is the same on all ranks: they are queued by
 * accel_layer_begin().  If there is a thread, it empties the queue, so that layers that come next, as in the steps
 * before, are gathered while the program computes; otherwise the program's thread does, and gathers nothing ahead.
 * Gradients are reduced meanwhile, in an order of their own, so parameters have a communicator to themselves.
 *
 * On a GPU, what is queued is started at once, and runs on the engine's stream.  The program's stream waits for a layer
 * when it begins, and the host for nothing: memory comes from a pool, and goes back there, in the order of streams. */
#include <config.h>

#include "lib/train/sharding_layers.h"

#include "lib/base/error.h"
#include "lib/base/tensor.h"
#include "lib/train/packed_collectives.h"
#include "lib/train/packed_gradients.h"
#include "lib/train/packed_parameters.h"
#include "lib/train/reducer/reducer_object.h"
#include "lib/train/shared_parameters.h"
#include "lib/train/sharding_offload.h"
#include "util/array.h"
#include "util/memory.h"

#include <accel/group.h>

#include <stdlib.h>
#include <string.h>

enum {
    PREFETCH = 1,       /* layers */
    NOTED_MOST = 65536, /* parameters of layers in an order: without a step, there is none */
};

/* Tensors that lie in the same memory have one of these. */
struct use {
    unsigned uses;  /* layers that have begun, and not ended */
    bool is_wanted; /* by a layer that comes next */
    bool is_queued, is_whole;
    struct accel_work *work; /* on a GPU: it is whole for what comes after this; NULL: it is */
};

/* What a call of accel_layer_begin() was given. */
struct layer {
    size_t begin, count; /* in `indices` */
};

/* The calls of a step, as of the latest one that was noted. */
struct order {
    struct layer *layers;
    size_t count;
    size_t *indices;
    size_t index_count;
    bool is_complete;
    size_t next; /* the layer that is expected */
};

struct sharding_layers {
    struct accel_comm *comm;
    bool is_used; /* accel_layer_begin() has been called */
    unsigned summoned;
    struct order order;
    size_t depth; /* layers that are gathered ahead; 0: there is no thread */
    struct accel_work work;
    pthread_mutex_t lock;
    pthread_cond_t gathered;
    bool lock_made;
    /* From here on: with the lock. */
    size_t *first;    /* [count]: the parameter whose `uses` count; SIZE_MAX: it is not divided */
    struct use *uses; /* [count] */
    size_t *queue;    /* [count]: a ring */
    size_t head, queued;
    size_t elements;  /* of those that are whole, or will be */
    bool is_busy;     /* the thread sees what is queued */
    struct comm_site site;
    struct accel_error error; /* the first */
};

/* ---- parameters ---- */

static size_t
elements_of (const struct accel_model *model, size_t index)
{
    return accel_tensor_count (model->parameters[index].data);
}

/* What the program's stream does from now on comes after a parameter that was started. */
static void
follow_start (const struct accel_model *model, size_t index)
{
    struct sharding_layers *layers = model->sharding.layers;
    struct accel_work *work = layers->uses[index].work;
    struct accel_error cause;
    layers->uses[index].work = NULL;
    if (packed_join (model, work, &cause) && !layers->error.code)
        layers->error = cause;
}

static void
discard (const struct accel_model *model, size_t index)
{
    if (model->sharding.packed) {
        follow_start (model, index);
        packed_close (model, index);
        offload_release_parameter (model, index);
        return;
    }
    const DLTensor *data = model->parameters[index].data;
    sharding_discard_others (model, index, data->data, tensor_element_bytes (data));
    offload_release_parameter (model, index);
}

static void
enqueue (struct accel_model *model, size_t index)
{
    struct sharding_layers *layers = model->sharding.layers;
    struct use *use = &layers->uses[index];
    if (use->is_queued || use->is_whole)
        return;
    use->is_queued = true;
    layers->queue[(layers->head + layers->queued++) % model->count] = index;
    layers->elements += elements_of (model, index);
}

/* Give back what no layer uses, nor will soon.  What is on its way is waited for: all ranks have to give back the same,
 * as they gather it again together. */
static void
sweep (struct accel_model *model)
{
    struct sharding_layers *layers = model->sharding.layers;
    for (size_t i = 0; layers->is_used && i < model->count; i++) {
        struct use *use = &layers->uses[i];
        if (use->uses || use->is_wanted)
            continue;
        while (use->is_queued && layers->is_busy)
            pthread_cond_wait (&layers->gathered, &layers->lock);
        if (!use->is_whole)
            continue;
        use->is_whole = false;
        layers->elements -= elements_of (model, i);
        discard (model, i);
    }
}

/* ---- gathering ---- */

static enum accel_status
gather (struct accel_model *model, size_t index, const struct comm_site *site, struct accel_error *err)
{
    const DLTensor *data = model->parameters[index].data;
    size_t chunk = sharding_chunk (model, index);
    const void *from = memory_at (data->data, chunk * (size_t) model->sharding.rank, tensor_element_bytes (data));
    struct stretch own[STRETCHES];
    sharding_stretches (model, index, own);
    sharding_populate_others (own, data->data, tensor_element_bytes (data));
    return comm_all_gather (model->sharding.layers->comm, site, from, data->data, chunk,
                            accel_dtype_from_dl (data->dtype), err);
}

/* Until nothing is queued. */
static void
serve (void *user)
{
    struct accel_model *model = user;
    struct sharding_layers *layers = model->sharding.layers;
    struct accel_error cause;
    pthread_mutex_lock (&layers->lock);
    while (layers->queued && !layers->error.code) {
        size_t index = layers->queue[layers->head];
        struct comm_site site = layers->site;
        pthread_mutex_unlock (&layers->lock);
        enum accel_status status = gather (model, index, &site, &cause);
        pthread_mutex_lock (&layers->lock);
        layers->head = (layers->head + 1) % model->count;
        layers->queued--;
        layers->uses[index].is_queued = false;
        layers->uses[index].is_whole = !status;
        if (status)
            layers->error = cause;
        pthread_cond_broadcast (&layers->gathered);
    }
    layers->is_busy = false;
    pthread_cond_broadcast (&layers->gathered);
    pthread_mutex_unlock (&layers->lock);
}

/* On a GPU: the first @count that are queued, which come together. */
static void
start_packed (struct accel_model *model, const struct comm_site *site, size_t count)
{
    struct sharding_layers *layers = model->sharding.layers;
    struct accel_work *works[PACKED_GATHERED_MOST];
    size_t indices[PACKED_GATHERED_MOST];
    struct accel_error cause;
    while (count && !layers->error.code) {
        size_t some = count < PACKED_GATHERED_MOST ? count : PACKED_GATHERED_MOST;
        for (size_t i = 0; i < some; i++)
            indices[i] = layers->queue[(layers->head + i) % model->count];
        if (packed_start (model, layers->comm, site, indices, some, works, &cause))
            layers->error = cause;
        for (size_t i = 0; i < some; i++) {
            struct use *use = &layers->uses[indices[i]];
            use->work = works[i];
            use->is_queued = false;
            use->is_whole = true;
        }
        layers->head = (layers->head + some) % model->count;
        layers->queued -= some;
        count -= some;
    }
}

/* See to it that what is queued is gathered.  With the lock, which is released meanwhile if there is no thread.
 * @param first  so many will not be waited for together with the others */
static void
start (struct accel_model *model, const struct comm_site *site, size_t first)
{
    struct sharding_layers *layers = model->sharding.layers;
    if (model->sharding.packed) {
        start_packed (model, site, first);
        start_packed (model, site, layers->queued);
        return;
    }
    layers->site = *site;
    if (!layers->queued || layers->is_busy)
        return;
    layers->is_busy = true;
    if (layers->depth && work_start_function (layers->comm, &layers->work, site->device, serve, model))
        return;
    pthread_mutex_unlock (&layers->lock);
    serve (model);
    pthread_mutex_lock (&layers->lock);
}

static enum accel_status
result_of (const struct sharding_layers *layers, struct accel_error *err)
{
    if (layers->error.code && err)
        *err = layers->error;
    return layers->error.code;
}

/* With the lock. */
static enum accel_status
await_all (struct accel_model *model, struct accel_error *err)
{
    struct sharding_layers *layers = model->sharding.layers;
    while (layers->is_busy)
        pthread_cond_wait (&layers->gathered, &layers->lock);
    for (size_t i = 0; model->sharding.packed && i < model->count; i++)
        follow_start (model, i);
    if (model->sharding.packed && layers->error.code) /* whole ones may be older than what is packed */
        model->sharding.packed->summoned = 0;
    return result_of (layers, err);
}

static bool
is_whole (const struct sharding_layers *layers, const size_t *parameters, size_t count)
{
    bool whole = true;
    for (size_t i = 0; i < count; i++) {
        size_t first = layers->first[parameters[i]];
        whole = whole && (first == SIZE_MAX || layers->uses[first].is_whole);
    }
    return whole;
}

/* ---- the order ---- */

static bool
is_layer (const struct sharding_layers *layers, size_t number, const size_t *parameters, size_t count)
{
    const struct layer *layer = &layers->order.layers[number];
    return layer->count == count
           && !memcmp (layers->order.indices + layer->begin, parameters, count * sizeof *parameters);
}

static enum accel_status
note (struct order *order, const size_t *parameters, size_t count, struct accel_error *err)
{
    if (order->index_count >= NOTED_MOST || order->count >= NOTED_MOST)
        order->index_count = order->count = 0;
    for (size_t i = 0; i < count; i++) {
        if (!array_room (&order->indices, order->index_count, sizeof *order->indices))
            return accel_fail_nomem (err);
        order->indices[order->index_count++] = parameters[i];
    }
    if (!array_room (&order->layers, order->count, sizeof *order->layers))
        return accel_fail_nomem (err);
    order->layers[order->count++] = (struct layer){ order->index_count - count, count };
    return ACCEL_OK;
}

/* Find the layer in what is left of the step.  Where it is not, nothing more is expected. */
static enum accel_status
follow (struct sharding_layers *layers, const size_t *parameters, size_t count, struct accel_error *err)
{
    struct order *order = &layers->order;
    size_t at = order->next;
    if (!order->is_complete)
        return note (order, parameters, count, err);
    while (at < order->count && !is_layer (layers, at, parameters, count))
        at++;
    order->next = at < order->count ? at + 1 : at;
    return ACCEL_OK;
}

static size_t
missing_elements (const struct accel_model *model, const struct layer *layer)
{
    const struct sharding_layers *layers = model->sharding.layers;
    size_t elements = 0;
    for (size_t i = 0; i < layer->count; i++) {
        size_t first = layers->first[layers->order.indices[layer->begin + i]];
        if (first != SIZE_MAX && !layers->uses[first].is_whole && !layers->uses[first].is_queued)
            elements += elements_of (model, first);
    }
    return elements;
}

/* Queue the layers that come next. */
static void
look_ahead (struct accel_model *model)
{
    struct sharding_layers *layers = model->sharding.layers;
    const struct order *order = &layers->order;
    size_t most = model->sharding.max_live_params;
    for (size_t i = 0; i < model->count; i++)
        layers->uses[i].is_wanted = false;
    for (size_t n = order->next; order->is_complete && n < order->count && n - order->next < layers->depth; n++) {
        const struct layer *layer = &order->layers[n];
        if (most && layers->elements + missing_elements (model, layer) > most)
            return;
        for (size_t i = 0; i < layer->count; i++) {
            size_t first = layers->first[order->indices[layer->begin + i]];
            if (first == SIZE_MAX)
                continue;
            layers->uses[first].is_wanted = true;
            enqueue (model, first);
        }
    }
}

/* ---- layers ---- */

/* For all divided parameters if @parameters is NULL. */
static void
use (struct accel_model *model, const size_t *parameters, size_t count)
{
    struct sharding_layers *layers = model->sharding.layers;
    for (size_t i = 0; i < count; i++) {
        size_t first = layers->first[parameters ? parameters[i] : i];
        if (first == SIZE_MAX || (!parameters && first != i))
            continue;
        layers->uses[first].uses++;
        enqueue (model, first);
    }
}

static enum accel_status
begin_layer (struct accel_model *model, const size_t *parameters, size_t count, const struct comm_site *site,
             struct accel_error *err)
{
    struct sharding_layers *layers = model->sharding.layers;
    enum accel_status status = model->sharding.packed ? memory_check (model->device, err) : ACCEL_OK;
    if (status) /* also if a stream is being captured: nothing has been done */
        return status;
    pthread_mutex_lock (&layers->lock);
    layers->is_used = true;
    status = follow (layers, parameters, count, err);
    if (!status) {
        use (model, parameters, count);
        size_t first = layers->queued;
        look_ahead (model);
        sweep (model);
        start (model, site, first);
        while (layers->is_busy && !is_whole (layers, parameters, count))
            pthread_cond_wait (&layers->gathered, &layers->lock);
        for (size_t i = 0; i < count; i++)
            if (layers->first[parameters[i]] != SIZE_MAX)
                follow_start (model, layers->first[parameters[i]]);
        status = result_of (layers, err);
    }
    pthread_mutex_unlock (&layers->lock);
    return status;
}

static enum accel_status
check (const char *function, const struct accel_model *model, const size_t *parameters, size_t count,
       struct accel_error *err)
{
    if (!model || (count && !parameters))
        return accel_fail_null (err, function, model ? "parameters" : "model");
    for (size_t i = 0; i < count; i++)
        if (parameters[i] >= model->count)
            return accel_fail (err, ACCEL_ERR_INVALID, "%s: no parameter %zu in a model with %zu parameters", function,
                               parameters[i], model->count);
    return ACCEL_OK;
}

enum accel_status
accel_layer_begin_at (const char *file, int line, struct accel_model *model, const size_t *parameters, size_t count,
                      struct accel_error *err)
{
    enum accel_status status = check ("accel_layer_begin", model, parameters, count, err);
    if (!status && model->sharding.layers)
        status = begin_layer (model, parameters, count, SITE (LAYER_BEGIN), err);
    return status ? status : packed_begin_gradients (model, parameters, count, err);
}

enum accel_status
accel_layer_end (struct accel_model *model, const size_t *parameters, size_t count, struct accel_error *err)
{
    enum accel_status status = check (__func__, model, parameters, count, err);
    struct sharding_layers *layers = status ? NULL : model->sharding.layers;
    if (!layers)
        return status;
    pthread_mutex_lock (&layers->lock);
    for (size_t i = 0; i < count && !status; i++) {
        size_t first = layers->first[parameters[i]];
        if (first != SIZE_MAX && !layers->uses[first].uses)
            status = accel_fail (err, ACCEL_ERR_INVALID, "%s: '%.100s' is in no layer that has begun", __func__,
                                 model->parameters[parameters[i]].name);
        else if (first != SIZE_MAX)
            layers->uses[first].uses--;
    }
    sweep (model);
    pthread_mutex_unlock (&layers->lock);
    return status;
}

static void
note_summons (struct accel_model *model, unsigned summoned)
{
    struct sharding_layers *layers = model->sharding.layers;
    layers->summoned = summoned;
    if (model->sharding.packed) /* what could not be gathered must not become what is packed */
        model->sharding.packed->summoned = layers->error.code ? 0 : summoned;
}

enum accel_status
sharding_summon (struct accel_model *model, const struct comm_site *site, struct accel_error *err)
{
    struct sharding_layers *layers = model->sharding.layers;
    enum accel_status status = layers && model->sharding.packed ? memory_check (model->device, err) : ACCEL_OK;
    if (status || !layers)
        return status;
    pthread_mutex_lock (&layers->lock);
    use (model, NULL, model->count);
    start (model, site, 0);
    status = await_all (model, err);
    note_summons (model, layers->summoned + 1);
    pthread_mutex_unlock (&layers->lock);
    return status;
}

void
sharding_dismiss (struct accel_model *model)
{
    struct sharding_layers *layers = model->sharding.layers;
    if (!layers || !layers->summoned)
        return;
    pthread_mutex_lock (&layers->lock);
    packed_note_written (model);
    note_summons (model, layers->summoned - 1);
    for (size_t i = 0; i < model->count; i++)
        if (layers->first[i] == i)
            layers->uses[i].uses--;
    sweep (model);
    pthread_mutex_unlock (&layers->lock);
}

enum accel_status
accel_summon_full_params_at (const char *file, int line, struct accel_model *model, struct accel_error *err)
{
    return model ? sharding_summon (model, SITE (SUMMON_FULL_PARAMS), err)
                 : accel_fail_null (err, "accel_summon_full_params", "model");
}

enum accel_status
accel_summon_full_params_end (struct accel_model *model, struct accel_error *err)
{
    if (!model)
        return accel_fail_null (err, __func__, "model");
    if (model->sharding.layers && !model->sharding.layers->summoned)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: accel_summon_full_params has not been called", __func__);
    sharding_dismiss (model);
    return ACCEL_OK;
}

/* ---- what changes parameters ---- */

bool
sharding_has_layers (const struct accel_model *model)
{
    return model->sharding.layers && model->sharding.layers->is_used;
}

/* Nothing is gathered ahead any more, and only what is in use is whole. */
static void
settle (struct accel_model *model, bool has_written)
{
    struct sharding_layers *layers = model->sharding.layers;
    if (!layers)
        return;
    pthread_mutex_lock (&layers->lock);
    (void) await_all (model, NULL); /* what follows has the error */
    if (has_written)
        packed_note_written (model);
    for (size_t i = 0; i < model->count; i++)
        layers->uses[i].is_wanted = false;
    sweep (model);
    pthread_mutex_unlock (&layers->lock);
}

void
sharding_settle_layers (struct accel_model *model)
{
    settle (model, true);
}

/* An order that was not followed to its end is that of an evaluation, or of other passes: the next step is noted. */
void
sharding_close_order (struct accel_model *model)
{
    struct order *order = model->sharding.layers ? &model->sharding.layers->order : NULL;
    sharding_settle_layers (model);
    if (!order)
        return;
    if (order->is_complete && order->next && order->next < order->count)
        order->index_count = order->count = 0;
    order->is_complete = order->count > 0;
    order->next = 0;
}

enum accel_status
sharding_step_layers (struct accel_model *model, const struct comm_site *site, struct accel_error *err)
{
    struct sharding_layers *layers = model->sharding.layers;
    settle (model, false); /* what has been summoned is older */
    pthread_mutex_lock (&layers->lock);
    for (size_t i = 0; i < model->count; i++)
        if (layers->uses[i].is_whole) { /* in use */
            layers->uses[i].is_whole = false;
            layers->elements -= elements_of (model, i);
            enqueue (model, i);
        }
    start (model, site, 0);
    enum accel_status status = await_all (model, err);
    pthread_mutex_unlock (&layers->lock);
    return status;
}

void
sharding_discard_layer (const struct accel_model *model, size_t index, bool is_written)
{
    const struct sharding_layers *layers = model->sharding.layers;
    size_t first = layers ? layers->first[index] : SIZE_MAX;
    if (is_written && first != SIZE_MAX && model->sharding.packed && model->parameters[first].data->data)
        packed_keep (model, first);
    if (first != SIZE_MAX && !layers->uses[first].is_whole)
        discard (model, first);
}

enum accel_status
sharding_open_layer (struct accel_model *model, size_t index, struct accel_error *err)
{
    size_t first = packed_first (model, index);
    return first == SIZE_MAX ? ACCEL_OK : packed_open (model, first, err);
}

void
sharding_discard_layers (const struct accel_model *model)
{
    for (size_t i = 0; model->sharding.layers && i < model->count; i++)
        sharding_discard_layer (model, i, false);
}

/* ---- beginning and end ---- */

static void
use_pages (const struct accel_model *model, size_t index)
{
    const DLTensor *data = model->parameters[index].data;
    struct stretch own[STRETCHES];
    sharding_stretches (model, index, own);
    sharding_use_pages (own, data->data, tensor_element_bytes (data));
}

static enum accel_status
fill (struct accel_model *model, struct sharding_layers *layers, struct accel_error *err)
{
    layers->first = calloc (model->count + 1, sizeof *layers->first);
    layers->uses = calloc (model->count + 1, sizeof *layers->uses);
    layers->queue = calloc (model->count + 1, sizeof *layers->queue);
    if (!layers->first || !layers->uses || !layers->queue || pthread_mutex_init (&layers->lock, NULL))
        return accel_fail_nomem (err);
    layers->lock_made = true;
    if (pthread_cond_init (&layers->gathered, NULL))
        return accel_fail_nomem (err);
    layers->is_used = model->sharding.packed;
    for (size_t i = 0; i < model->count; i++) {
        layers->first[i] = model->sharding.packed ? packed_first (model, i) : sharding_find_first (model, i);
        if (layers->first[i] != i || model->sharding.packed)
            continue;
        layers->uses[i].is_whole = true;
        layers->elements += elements_of (model, i);
        use_pages (model, i);
    }
    return ACCEL_OK;
}

/* All ranks gather the same layers ahead, or none. */
static enum accel_status
agree_on_depth (struct accel_model *model, const struct comm_site *site, struct accel_error *err)
{
    struct sharding_layers *layers = model->sharding.layers;
    uint64_t asked = model->sharding.prefetch_layers;
    bool overlaps = model->sharding.packed ? model->ddp.overlap != ACCEL_OVERLAP_NEVER : model->reducer->overlap;
    int64_t depth = !overlaps || asked == ACCEL_NONE ? 0 : asked ? (int64_t) asked : PREFETCH;
    enum accel_status status = comm_all_reduce (layers->comm, site, &depth, &depth, 1, ACCEL_INT64, ACCEL_MIN, err);
    layers->depth = status ? 0 : (size_t) depth;
    return status;
}

enum accel_status
sharding_make_layers (struct accel_model *model, struct accel *acc, const struct comm_site *site,
                      struct accel_error *err)
{
    if (!sharding_has_parameters (model) || shared_is_on (model))
        return ACCEL_OK;
    struct sharding_layers *layers = model->sharding.layers = calloc (1, sizeof *layers);
    enum accel_status status = layers ? fill (model, layers, err) : accel_fail_nomem (err);
    if (!status)
        status = accel_comm_split_at (site->file, site->line, &layers->comm, parallel_data_comm (acc),
                                      model->sharding.replica, 0, err);
    if (status == ACCEL_ERR_NOMEM)
        comm_give_up (accel_world (acc), "cannot allocate memory for the layers of a model");
    return status ? status : agree_on_depth (model, site, err);
}

void
sharding_end_layers (struct accel_model *model)
{
    struct sharding_layers *layers = model->sharding.layers;
    if (!layers)
        return;
    if (layers->lock_made) {
        sharding_settle_layers (model);
        for (size_t i = 0; layers->is_used && i < model->count; i++)
            if (layers->first[i] == i && model->sharding.packed)
                discard (model, i);
            else
                model->sharding.is_partial |= layers->first[i] == i && !layers->uses[i].is_whole;
    }
    accel_comm_destroy (layers->comm); /* and the thread ends */
    if (layers->lock_made) {
        pthread_cond_destroy (&layers->gathered);
        pthread_mutex_destroy (&layers->lock);
    }
    free (layers->first);
    free (layers->uses);
    free (layers->queue);
    free (layers->order.layers);
    free (layers->order.indices);
    free (layers);
    model->sharding.layers = NULL;
}
