/* SPDX-License-Identifier: Apache-2.0 */
/* An optimizer's loops over all parameters, by several threads if there is enough to do.  Threads live for one step:
 * starting one costs some 20 us, a stretch of MIN_ELEMENTS of AdamW ten times that, and a pool would have to survive
 * fork() and wait somewhere between the steps.  OpenMP would be one more library to link. */
#include <config.h>

#include "lib/base/tensor.h"
#include "lib/train/optimizer/optimizer_object.h"
#include "lib/train/packed.h"
#include "lib/train/packed_home.h"
#include "lib/train/sharding_offload.h"
#include "lib/train/staging.h"
#include "lib/train/stretches.h"
#include "util/threads.h"

enum { MIN_ELEMENTS = 1 << 18, MAX_SHARES = 256, LINE = 16 };

/* Elements begin to end - 1 of all that this process changes of parameters, one after the other, whatever their group:
 * so threads have equal shares, and a step over many groups costs no more than one over a single group. */
struct share {
    const struct accel_optimizer *optimizer;
    size_t begin, end;
    float factor; /* of 16-bit gradients */
    char *piece;  /* (staging.h) where gradients have come to, and parameters go back from; NULL: they are there */
    size_t origin; /* the first element in it */
};

/* Elements from to end - 1 of a parameter; of those that this process changes, its first has number @first, and @from
 * has @position. */
typedef void act_on_stretch (const struct share *share, size_t index, size_t from, size_t end, size_t first,
                             size_t position);

/* Whether an optimizer has more of a parameter than the step writes to it. */
static bool
has_master (const struct accel_model *model, size_t index)
{
    return model->trained[index].data != model->parameters[index].data;
}

/* Each parameter begins where it would if all elements had 32 bits, and is as dense as on the GPU. */
static void *
staged_gradient (const struct share *share, size_t index, size_t first, size_t position)
{
    size_t begin = first > share->origin ? first : share->origin;
    return share->piece + (begin - share->origin) * sizeof (float)
           + (position - begin) * accel_dtype_bytes (model_grad_dtype (share->optimizer->model, index));
}

static void *
staged_parameter (const struct share *share, size_t index, size_t first, size_t position)
{
    const struct accel_model *model = share->optimizer->model;
    size_t begin = first > share->origin ? first : share->origin;
    return share->piece + (model->sharding.staging->elements + begin - share->origin) * sizeof (float)
           + (position - begin) * tensor_element_bytes (model->parameters[index].data);
}

static void
run_block (const struct share *share, size_t index, size_t from, size_t end, size_t first, size_t position)
{
    const struct accel_optimizer *optimizer = share->optimizer;
    const struct accel_model *model = optimizer->model;
    const struct optimizer_group *group = optimizer_group_at (optimizer, index);
    enum accel_dtype grad_dtype = model_grad_dtype (model, index);
    enum accel_dtype narrow_dtype = accel_dtype_from_dl (model->parameters[index].data->dtype);
    struct memory_update update = {
        .rule = group->rule,
        .numbers = &group->numbers,
        .grad = packed_gradient (model, index, from),
        .grad_dtype = grad_dtype,
        .factor = share->factor,
        .narrow_dtype = narrow_dtype,
        .count = end - from,
    };
    update.narrow = master_target (model, index, from);
    update.parameter = optimizer_gather_states (optimizer, index, from, update.state);
    if (share->piece)
        update.grad = staged_gradient (share, index, first, position);
    if (share->piece && !packed_is_home (model, index)) { /* else the step writes to it where it is */
        void *parameter = staged_parameter (share, index, first, position);
        if (update.narrow)
            update.narrow = parameter;
        else
            update.parameter = parameter;
    }
    model_state_memory (model)->update (model_state_device (model), &update);
}

/* What is in files goes there block by block, so few pages are used at a time: one is written while the next one is
 * computed. */
static void
run_stretch (const struct share *share, size_t index, size_t from, size_t end, size_t first, size_t position)
{
    const struct accel_optimizer *optimizer = share->optimizer;
    size_t before = from;
    if (!offload_is_on (optimizer)) {
        run_block (share, index, from, end, first, position);
        return;
    }
    for (size_t at = from, next; at < end; at = next) {
        next = end - at < OFFLOAD_BLOCK ? end : at + OFFLOAD_BLOCK;
        run_block (share, index, at, next, first, position + at - from);
        offload_write (optimizer, index, at, next);
        offload_release (optimizer, index, before, at);
        before = at;
    }
    offload_release (optimizer, index, before, end);
}

static void
for_each_stretch (const struct share *share, act_on_stretch *act)
{
    const struct accel_model *model = share->optimizer->model;
    size_t first = 0;
    for (size_t i = 0; i < model->count && first < share->end; i++) {
        struct stretch own[STRETCHES];
        if (!optimizer_group_at (share->optimizer, i))
            continue;
        sharding_stretches (model, i, own);
        const size_t begin = first;
        for (int s = 0; s < STRETCHES && first < share->end; s++) {
            size_t count = own[s].end - own[s].from;
            size_t from = share->begin > first ? share->begin - first : 0;
            size_t to = share->end - first < count ? share->end - first : count;
            if (from < to)
                act (share, i, own[s].from + from, own[s].from + to, begin, first + from);
            first += count;
        }
    }
}

static void *
thread_main (void *share)
{
    for_each_stretch (share, run_stretch);
    return NULL;
}

static size_t
count_elements (const struct accel_optimizer *optimizer)
{
    const struct accel_model *model = optimizer->model;
    size_t elements = 0;
    for (size_t i = 0; i < model->count; i++) {
        struct stretch own[STRETCHES];
        sharding_stretches (model, i, own);
        for (int s = 0; s < STRETCHES && optimizer_group_at (optimizer, i); s++)
            elements += own[s].end - own[s].from;
    }
    return elements;
}

static void
run_threads (const struct share *whole)
{
    const struct accel_optimizer *optimizer = whole->optimizer;
    size_t elements = whole->end - whole->begin, shares = elements / MIN_ELEMENTS;
    size_t most = model_state_memory (optimizer->model)->threads ? optimizer->threads : 1;
    shares = shares < 1 ? 1 : shares > most ? most : shares;
    struct share all[MAX_SHARES];
    pthread_t threads[MAX_SHARES];
    bool started[MAX_SHARES] = { false };
    size_t each = (elements / shares + LINE) / LINE * LINE;
    for (size_t i = shares; i-- > 0;) {
        size_t begin = i * each < elements ? i * each : elements;
        size_t end = i + 1 < shares && begin + each < elements ? begin + each : elements;
        all[i] = *whole;
        all[i].begin = whole->begin + begin;
        all[i].end = whole->begin + end;
        started[i] = i && !thread_start (&threads[i], thread_main, &all[i]);
    }
    for (size_t i = 0; i < shares; i++)
        if (!started[i])
            for_each_stretch (&all[i], run_stretch);
    for (size_t i = 0; i < shares; i++)
        if (started[i])
            pthread_join (threads[i], NULL);
}

/* ---- from and to a GPU ---- */

static void
fetch (const struct share *share, size_t index, size_t from, size_t end, size_t first, size_t position)
{
    const struct accel_model *model = share->optimizer->model;
    const struct staging *staging = model->sharding.staging;
    size_t count = end - from, each = accel_dtype_bytes (model_grad_dtype (model, index));
    staging->copies->fetch (staging->stream, staged_gradient (share, index, first, position),
                            packed_gradient (model, index, from), count * each);
    if (!has_master (model, index) && !packed_is_home (model, index))
        staging->copies->fetch (staging->stream, staged_parameter (share, index, first, position),
                                packed_element (model, index, from), count * sizeof (float));
}

static void
give_back (const struct share *share, size_t index, size_t from, size_t end, size_t first, size_t position)
{
    const struct accel_model *model = share->optimizer->model;
    const struct staging *staging = model->sharding.staging;
    if (!packed_is_home (model, index))
        staging->copies->copy (staging->stream, packed_element (model, index, from),
                               staged_parameter (share, index, first, position),
                               (end - from) * tensor_element_bytes (model->parameters[index].data));
}

/* A piece comes behind what has gone back from the same memory, as the stream has both; the host waits for it while the
 * next one comes. */
static void
run_staged (const struct share *whole)
{
    const struct staging *staging = whole->optimizer->model->sharding.staging;
    size_t count = (whole->end + staging->elements - 1) / staging->elements;
    struct share pieces[STAGING_PIECES];
    staging->copies->begin (staging->stream);
    packed_home_wait (whole->optimizer->model);
    for (size_t k = 0; k <= count; k++) {
        unsigned slot = k % STAGING_PIECES, before = !slot;
        if (k < count) {
            pieces[slot] = *whole;
            pieces[slot].piece = staging->pieces[slot];
            pieces[slot].begin = pieces[slot].origin = k * staging->elements;
            pieces[slot].end = k + 1 < count ? pieces[slot].begin + staging->elements : whole->end;
            for_each_stretch (&pieces[slot], fetch);
            staging->copies->end (staging->stream, slot);
        }
        if (k) {
            staging->copies->wait (staging->stream, before);
            run_threads (&pieces[before]);
            for_each_stretch (&pieces[before], give_back);
        }
    }
    staging->copies->end (staging->stream, 0);
    staging->copies->follow (staging->stream, 0);
}

void
optimizer_run (const struct accel_optimizer *optimizer)
{
    const struct accel_model *model = optimizer->model;
    const struct share whole = { .optimizer = optimizer,
                                 .end = count_elements (optimizer),
                                 .factor = memory_read_factor (model->memory, model->device, model_pending (model)) };
    if (model->sharding.states_at_home)
        run_staged (&whole);
    else
        run_threads (&whole);
}
