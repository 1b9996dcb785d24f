/* SPDX-License-Identifier: Apache-2.0 */
/* An optimizer's loops over all parameters, by several threads if there is enough to do.  Threads live for one step:
 * starting one costs some 20 us, a stretch of MIN_ELEMENTS of AdamW ten times that, and a pool would have to survive
 * fork() and wait somewhere between the steps.  OpenMP would be one more library to link. */
#include <config.h>

#include "lib/train/optimizer/optimizer_object.h"
#include "lib/train/sharding_offload.h"
#include "lib/train/stretches.h"
#include "util/threads.h"

enum { MIN_ELEMENTS = 1 << 18, MAX_SHARES = 256, LINE = 16 };

/* Elements begin to end - 1 of all that this process changes of parameters, one after the other, whatever their group:
 * so threads have equal shares, and a step over many groups costs no more than one over a single group. */
struct share {
    const struct accel_optimizer *optimizer;
    size_t begin, end;
};

/* Elements from to end - 1 of a parameter. */
static void
run_block (const struct accel_optimizer *optimizer, const struct optimizer_group *group, size_t index, size_t from,
             size_t end)
{
    const struct accel_model *model = optimizer->model;
    enum accel_dtype grad_dtype = model_grad_dtype (model, index);
    enum accel_dtype narrow_dtype = accel_dtype_from_dl (model->parameters[index].data->dtype);
    struct memory_update update = {
        .rule = group->rule,
        .numbers = &group->numbers,
        .grad = memory_at (model->parameters[index].grad->data, from, accel_dtype_bytes (grad_dtype)),
        .grad_dtype = grad_dtype,
        .factor = memory_read_factor (model->memory, model->device, model_pending (model)),
        .narrow_dtype = narrow_dtype,
        .count = end - from,
    };
    void *narrow = master_target (model, index);
    if (narrow)
        update.narrow = memory_at (narrow, from, accel_dtype_bytes (narrow_dtype));
    update.parameter = optimizer_gather_states (optimizer, index, from, update.state);
    model->memory->update (model->device, &update);
}

/* What is in files goes there block by block, so few pages are used at a time: one is written while the next one is
 * computed. */
static void
run_stretch (const struct accel_optimizer *optimizer, const struct optimizer_group *group, size_t index, size_t from,
             size_t end)
{
    size_t before = from;
    if (!offload_is_on (optimizer)) {
        run_block (optimizer, group, index, from, end);
        return;
    }
    for (size_t at = from, next; at < end; at = next) {
        next = end - at < OFFLOAD_BLOCK ? end : at + OFFLOAD_BLOCK;
        run_block (optimizer, group, index, at, next);
        offload_write (optimizer, index, at, next);
        offload_release (optimizer, index, before, at);
        before = at;
    }
    offload_release (optimizer, index, before, end);
}

static void
run_share (const struct share *share)
{
    const struct accel_model *model = share->optimizer->model;
    size_t first = 0;
    for (size_t i = 0; i < model->count && first < share->end; i++) {
        const struct optimizer_group *group = optimizer_group_at (share->optimizer, i);
        struct stretch own[STRETCHES];
        if (!group)
            continue;
        sharding_stretches (model, i, own);
        for (int s = 0; s < STRETCHES && first < share->end; s++) {
            size_t count = own[s].end - own[s].from;
            size_t from = share->begin > first ? share->begin - first : 0;
            size_t to = share->end - first < count ? share->end - first : count;
            first += count;
            if (from < to)
                run_stretch (share->optimizer, group, i, own[s].from + from, own[s].from + to);
        }
    }
}

static void *
thread_main (void *share)
{
    run_share (share);
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

void
optimizer_run (const struct accel_optimizer *optimizer)
{
    size_t elements = count_elements (optimizer), shares = elements / MIN_ELEMENTS;
    size_t most = optimizer->model->memory->threads ? optimizer->threads : 1;
    shares = shares < 1 ? 1 : shares > most ? most : shares;
    struct share all[MAX_SHARES];
    pthread_t threads[MAX_SHARES];
    bool started[MAX_SHARES] = { false };
    size_t each = (elements / shares + LINE) / LINE * LINE;
    for (size_t i = shares; i-- > 0;) {
        size_t begin = i * each < elements ? i * each : elements;
        size_t end = i + 1 < shares && begin + each < elements ? begin + each : elements;
        all[i] = (struct share){ optimizer, begin, end };
        started[i] = i && !thread_start (&threads[i], thread_main, &all[i]);
    }
    for (size_t i = 0; i < shares; i++)
        if (!started[i])
            run_share (&all[i]);
    for (size_t i = 0; i < shares; i++)
        if (started[i])
            pthread_join (threads[i], NULL);
}
