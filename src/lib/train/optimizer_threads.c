/* SPDX-License-Identifier: Apache-2.0 */
/* An optimizer's loops over all parameters, by several threads where there is enough to do.  Threads live for one step:
 * starting one costs some 20 us, a stretch of MIN_ELEMENTS of AdamW ten times that, and a pool would have to survive
 * fork() and wait somewhere between the steps.  OpenMP would be one more library to link. */
#include <config.h>

#include "lib/train/optimizer.h"

#include <pthread.h>
#include <signal.h>

enum { MIN_ELEMENTS = 1 << 18, MAX_SHARES = 256, LINE = 16 };

/* Elements begin to end - 1 of all trained parameters, one behind the other. */
struct share {
    const struct accel_optimizer *optimizer;
    rule_loop *loop;
    const struct rule_numbers *numbers;
    size_t begin, end;
};

static void
run_share (const struct share *share)
{
    const struct accel_optimizer *optimizer = share->optimizer;
    const struct accel_model *model = optimizer->model;
    size_t first = 0;
    for (size_t i = 0; i < model->count && first < share->end; i++) {
        if (!model_is_trained (model, i))
            continue;
        const struct accel_parameter *parameter = &model->parameters[i];
        size_t count = accel_tensor_count (parameter->data);
        size_t from = share->begin > first ? share->begin - first : 0;
        size_t to = share->end - first < count ? share->end - first : count;
        first += count;
        if (from >= to)
            continue;
        float *state[RULE_STATES] = { NULL };
        for (size_t j = 0; j < optimizer->state_count; j++)
            state[j] = (float *) optimizer_state_at (optimizer, i, j)->tensor.data + from;
        share->loop (share->numbers, (float *) parameter->data->data + from,
                     (const float *) parameter->grad->data + from, state, to - from);
    }
}

static void *
thread_main (void *share)
{
    run_share (share);
    return NULL;
}

static size_t
count_elements (const struct accel_model *model)
{
    size_t elements = 0;
    for (size_t i = 0; i < model->count; i++)
        if (model_is_trained (model, i))
            elements += accel_tensor_count (model->parameters[i].data);
    return elements;
}

void
optimizer_run (const struct accel_optimizer *optimizer, rule_loop *loop, const struct rule_numbers *numbers)
{
    size_t elements = count_elements (optimizer->model), shares = elements / MIN_ELEMENTS;
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
        all[i] = (struct share){ optimizer, loop, numbers, begin, end };
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
