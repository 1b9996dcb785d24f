/* SPDX-License-Identifier: Apache-2.0 */
/* An optimizer's loops over all parameters, by several threads where there is enough to do.  Threads live for one step:
 * starting one costs some 20 us, a stretch of MIN_ELEMENTS of AdamW ten times that, and a pool would have to survive
 * fork() and wait somewhere between the steps.  OpenMP would be one more library to link. */
#include <config.h>

#include "lib/kernels/half.h"
#include "lib/train/optimizer_object.h"

#include <pthread.h>
#include <signal.h>

enum { MIN_ELEMENTS = 1 << 18, MAX_SHARES = 256, LINE = 16 };

/* Elements begin to end - 1 of all parameters that the optimizer changes, one after the other, whatever their group: so
 * threads have equal shares, and a step over many groups costs no more than one over a single group. */
struct share {
    const struct accel_optimizer *optimizer;
    size_t begin, end;
};

/* Elements from to end - 1 of a parameter; in blocks where they, or the gradients, are converted from and to others. */
static void
run_stretch (const struct accel_optimizer *optimizer, const struct optimizer_group *group, size_t index, size_t from,
             size_t end)
{
    struct accel_model *model = optimizer->model;
    float block[FLOATS_BLOCK], *state[RULE_STATES] = { NULL };
    size_t most = model_in_blocks (model, index) ? FLOATS_BLOCK : end - from;
    for (size_t at = from; at < end; at += most) {
        size_t count = end - at < most ? end - at : most;
        for (size_t j = 0; j < group->state_count; j++)
            state[j] = (float *) optimizer_state_at (optimizer, index, j)->tensor.data + at;
        group->loop (&group->rule, (float *) model->trained[index].data->data + at,
                     model_gradient (model, index, at, count, block), state, count);
        master_narrow (model, index, at, count);
    }
}

static void
run_share (const struct share *share)
{
    const struct accel_model *model = share->optimizer->model;
    size_t first = 0;
    for (size_t i = 0; i < model->count && first < share->end; i++) {
        const struct optimizer_group *group = optimizer_group_at (share->optimizer, i);
        if (!group)
            continue;
        size_t count = accel_tensor_count (model->parameters[i].data);
        size_t from = share->begin > first ? share->begin - first : 0;
        size_t to = share->end - first < count ? share->end - first : count;
        first += count;
        if (from < to)
            run_stretch (share->optimizer, group, i, from, to);
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
    for (size_t i = 0; i < model->count; i++)
        if (optimizer_group_at (optimizer, i))
            elements += accel_tensor_count (model->parameters[i].data);
    return elements;
}

void
optimizer_run (const struct accel_optimizer *optimizer)
{
    size_t elements = count_elements (optimizer), shares = elements / MIN_ELEMENTS;
    shares = shares < 1 ? 1 : shares > optimizer->threads ? optimizer->threads : shares;
    struct share all[MAX_SHARES];
    pthread_t threads[MAX_SHARES];
    bool started[MAX_SHARES] = { false };
    sigset_t every, before;
    size_t each = (elements / shares + LINE) / LINE * LINE;
    /* Signals are for the program's threads. */
    sigfillset (&every);
    if (shares > 1)
        pthread_sigmask (SIG_SETMASK, &every, &before);
    for (size_t i = shares; i-- > 0;) {
        size_t begin = i * each < elements ? i * each : elements;
        size_t end = i + 1 < shares && begin + each < elements ? begin + each : elements;
        all[i] = (struct share){ optimizer, begin, end };
        started[i] = i && !pthread_create (&threads[i], NULL, thread_main, &all[i]);
    }
    if (shares > 1)
        pthread_sigmask (SIG_SETMASK, &before, NULL);
    for (size_t i = 0; i < shares; i++)
        if (!started[i])
            run_share (&all[i]);
    for (size_t i = 0; i < shares; i++)
        if (started[i])
            pthread_join (threads[i], NULL);
}
