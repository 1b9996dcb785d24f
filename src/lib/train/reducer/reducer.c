/* SPDX-License-Identifier: Apache-2.0 */
/* Averaging gradients.  All processes reduce the same buckets in the same order, whatever order their gradients come
 * in: a bucket that is complete waits for its turn, as in torch's reducer (torch/csrc/distributed/c10d/reducer.cpp).
 *
 * While the program computes, what is complete is reduced as work in flight (comm/work.h); what is left when the
 * program's pass ends is reduced by the program's own thread.  Reducing is work of the processor here, and no transfer
 * that something else does: if a process has one CPU there is nothing to gain, and all is left to the end.
 *
 * On a GPU, accel_grad_ready() itself starts what is complete: an event on the program's stream orders it, and the
 * engine's stream moves it while the program's goes on, however far the host is ahead.  At the end of the pass, the
 * program's stream waits for all of it, and the host for nothing. */
#include <config.h>

#include "lib/train/reducer/reducer_object.h"

#include "lib/base/error.h"
#include "lib/collectives/parallel.h"
#include "lib/comm/wait.h"
#include "lib/state/state_object.h"
#include "lib/train/accumulate.h"
#include "lib/train/packed_gradients.h"
#include "lib/train/precision.h"
#include "lib/train/reducer/join_round.h"
#include "lib/train/reducer/unused.h"
#include "lib/train/sharding_gradients.h"
#include "lib/train/sharding_layers.h"
#include "util/threads.h"

#include <stdlib.h>
#include <string.h>

/* Processes that may run everywhere share what is there; those that were bound have their CPUs for themselves. */
static bool
has_spare_cpu (int local_processes)
{
    int cpus = usable_processors ();
    return cpus > (cpus < sysconf (_SC_NPROCESSORS_ONLN) ? 1 : local_processes);
}

enum accel_status
reducer_create (struct accel_model *model, struct accel *acc, struct accel_error *err)
{
    struct reducer *reducer = model->reducer = calloc (1, sizeof *reducer);
    enum accel_overlap overlap = model->ddp.overlap;
    if (!reducer)
        goto error;
    reducer->comm = parallel_data_comm (acc);
    reducer->size = parallel_data_size (acc);
    if (reducer->size > 1)
        reducer->overlap = overlap == ACCEL_OVERLAP_ALWAYS
                           || (overlap == ACCEL_OVERLAP_AUTO && has_spare_cpu (accel_local_num_processes (acc)));
    reducer->ready = calloc (model->count, 1);
    reducer->used = calloc (model->count, 1);
    reducer->started = calloc (model->span_count + 1, sizeof (struct accel_work *));
    if (!reducer->ready || !reducer->used || !reducer->started)
        goto error;
    if (pthread_mutex_init (&reducer->lock, NULL))
        goto error;
    reducer->lock_made = true;
    enum accel_status status = unused_make (model, acc, err);
    if (!status && reducer->size > 1)
        status = hook_make (model, acc, err);
    return status || reducer->size == 1 ? status : power_sgd_make (model, acc, err);
error:
    return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory to average %zu gradients", model->count);
}

void
reducer_destroy (struct accel_model *model)
{
    struct reducer *reducer = model->reducer;
    if (!reducer)
        return;
    hook_free (model);
    power_sgd_free (model);
    if (reducer->lock_made)
        pthread_mutex_destroy (&reducer->lock);
    free (reducer->ready);
    free (reducer->used);
    unused_free (model);
    free (reducer->started);
    free (reducer);
    model->reducer = NULL;
}

/* The parts of a bucket that a rank has used, each stretch of neighbours at once. */
static enum accel_status
reduce_used (struct accel_model *model, size_t s, struct accel_error *err)
{
    const struct span *span = &model->spans[s];
    size_t bytes = accel_dtype_bytes (span->dtype);
    char *begin = NULL, *end = NULL;
    enum accel_status status = ACCEL_OK;
    FOR_GRADIENTS_OF (model, s, i) {
        char *data = model->parameters[i].grad->data, *after = data + span_room (span, model, i);
        if (status || !model->reducer->mask[i])
            continue;
        if (data != end && after != begin) {
            if (begin)
                status = hook_reduce (model, s, begin, (size_t) (end - begin) / bytes, err);
            begin = data;
            end = after;
        }
        begin = data < begin ? data : begin;
        end = after > end ? after : end;
    }
    if (begin && !status)
        status = hook_reduce (model, s, begin, (size_t) (end - begin) / bytes, err);
    return status;
}

/* Gradients that lie anywhere; of those that no rank has used the copies are averaged, and forgotten. */
static enum accel_status
reduce_copies (struct accel_model *model, size_t s, struct accel_error *err)
{
    const struct span *span = &model->spans[s];
    span_copy (model, s, model->reducer->mask, false);
    enum accel_status status = hook_reduce (model, s, span->data, span->count, err);
    if (!status)
        span_copy (model, s, model->reducer->mask, true);
    return status;
}

static enum accel_status
announce (struct accel_model *model, struct accel_error *err)
{
    struct reducer *reducer = model->reducer;
    if (reducer->announced)
        return ACCEL_OK;
    reducer->announced = true;
    return join_announce (model->object.owner, reducer->site, model, err);
}

static enum accel_status
reduce_span (struct accel_model *model, size_t s, struct accel_error *err)
{
    struct reducer *reducer = model->reducer;
    struct span *span = &model->spans[s];
    enum accel_status status = announce (model, err);
    if (!status && reducer->mask)
        status = unused_agree (model, s, err);
    if (status)
        return status;
    if (sharding_has_gradients (model))
        return sharding_reduce (model, s, err);
    if (power_sgd_is_due (model))
        return power_sgd_reduce (model, s, reducer->mask, err);
    if (span->scattered)
        return reduce_copies (model, s, err);
    return reducer->mask ? reduce_used (model, s, err) : hook_reduce (model, s, span->data, span->count, err);
}

/* Start bucket @s; gradients that lie anywhere are copied by the program's stream, before and afterwards. */
static enum accel_status
start_span (struct accel_model *model, size_t s, struct accel_error *err)
{
    if (power_sgd_is_due (model))
        return power_sgd_start (model, s, err);
    if (model->sharding.grads)
        return packed_start_bucket (model, s, err);
    if (model->spans[s].scattered)
        span_copy (model, s, NULL, false);
    return hook_start (model, s, err);
}

/* What is queued on the program's stream from now on comes after all that was started. */
static enum accel_status
order_started (struct accel_model *model, struct accel_error *err)
{
    struct reducer *reducer = model->reducer;
    struct accel_error first = { 0 }, why;
    if (reducer->is_ordered)
        power_sgd_join (model, &first);
    for (size_t s = 0; reducer->is_ordered && s <= model->span_count; s++) {
        struct accel_work *work = reducer->started[s];
        reducer->started[s] = NULL;
        if (!work)
            continue;
        if (work_finish (work, &why)) {
            first = first.code ? first : why;
            continue;
        }
        if (s == model->span_count) /* the marks */
            continue;
        hook_finish (model, s);
        if (model->spans[s].scattered)
            span_copy (model, s, NULL, true);
    }
    if (packed_finish_buckets (model, &why))
        first = first.code ? first : why;
    if (first.code && err)
        *err = first;
    return first.code;
}

/* Also after a bucket that could not be started: those before it are in flight, and the peers wait for it. */
static enum accel_status
finish_started (struct accel_model *model, enum accel_status status, struct accel_error *err)
{
    struct reducer *reducer = model->reducer;
    if (!status)
        return order_started (model, err);
    order_started (model, NULL);
    comm_give_up (reducer->comm, err ? err->text : "a bucket of gradients could not be started");
    return status;
}

/* The same for all that is left.  @live: this process has data; others have to remember what those do */
static enum accel_status
start_rest (struct accel_model *model, bool live, struct accel_error *err)
{
    struct reducer *reducer = model->reducer;
    bool sets_aside = reducer->mask && (live || power_sgd_is_due (model));
    enum accel_status status = sets_aside ? unused_set_aside (model, err) : ACCEL_OK;
    for (; reducer->next < model->span_count && !status; reducer->next++)
        status = start_span (model, reducer->next, err);
    if (!status)
        status = packed_pass_on_last (model, err);
    if (!status && reducer->mask)
        status = unused_start (model, err);
    status = finish_started (model, status, err);
    unused_end (model, !status);
    return status;
}

/* @live: this process has data */
static enum accel_status
reduce_rest (struct accel_model *model, bool live, struct accel_error *err)
{
    struct reducer *reducer = model->reducer;
    int root = 0;
    enum accel_status status = announce (model, err);
    if (reducer->is_ordered)
        status = status ? finish_started (model, status, err) : start_rest (model, live, err);
    for (; reducer->next < model->span_count && !status; reducer->next++)
        status = reduce_span (model, reducer->next, err);
    if (!status) {
        power_sgd_count (model);
        model->sharding.reduced = sharding_has_gradients (model);
    }
    if (!status && model->ddp.broadcast_buffers) {
        status = join_find_root (model->object.owner, reducer->site, live, &root, err);
        if (!status)
            status = model_broadcast_buffers (model, reducer->comm, reducer->site, root, err);
    }
    /* Passes that follow in the same step add to averages, which are alike on all ranks. */
    if (live && reducer->mask && accumulation_of (model->object.owner)->accumulating)
        unused_keep (model);
    else
        unused_forget (model);
    return status;
}

static bool
is_next_complete (const struct accel_model *model)
{
    size_t next = model->reducer->next;
    return next < model->span_count && !model->spans[next].pending;
}

/* Work of the communicator: a chain of collectives, for hooks compute between them. */
static void
reduce_complete (void *user)
{
    struct accel_model *model = user;
    struct reducer *reducer = model->reducer;
    struct accel_error cause;
    pthread_mutex_lock (&reducer->lock);
    while (!reducer->error.code && !reducer->stop && is_next_complete (model)) {
        pthread_mutex_unlock (&reducer->lock);
        enum accel_status status = reduce_span (model, reducer->next, &cause);
        pthread_mutex_lock (&reducer->lock);
        reducer->next++;
        if (status)
            reducer->error = cause;
    }
    reducer->busy = false;
    pthread_mutex_unlock (&reducer->lock);
}

/* Before the first, the host may have to hear from the others: none of the program's collectives is meant. */
static void
start_complete (struct accel_model *model)
{
    struct reducer *reducer = model->reducer;
    if (!is_next_complete (model))
        return;
    comm_reserve (reducer->comm, false); /* until the end of the report */
    announce (model, &reducer->error);
    for (; !reducer->error.code && is_next_complete (model); reducer->next++)
        start_span (model, reducer->next, &reducer->error);
}

/* Divided gradients take room until they are reduced: without a thread, that cannot wait for the end of the pass.  It
 * has to if ranks use other parameters, and layers are gathered in the pass: one rank would wait for an average, and
 * another for a layer. */
static void
reduce_here (struct accel_model *model)
{
    struct reducer *reducer = model->reducer;
    comm_reserve (reducer->comm, false); /* until the end of the report */
    for (; !reducer->error.code && is_next_complete (model); reducer->next++)
        reduce_span (model, reducer->next, &reducer->error);
}

/* Reducing what is left when the pass ends needs no thread.  Without one, all is reduced then. */
static void
overlap (struct accel_model *model)
{
    struct reducer *reducer = model->reducer;
    if (reducer->is_ordered && model->ddp.overlap != ACCEL_OVERLAP_NEVER)
        start_complete (model);
    if (sharding_has_gradients (model) && !reducer->is_ordered && !reducer->overlap
        && model->ddp.overlap != ACCEL_OVERLAP_NEVER && !(reducer->mask && sharding_has_layers (model)))
        reduce_here (model);
    if (reducer->is_ordered || reducer->busy || !reducer->overlap || !is_next_complete (model)
        || (!reducer->overlapped && reducer->next + 1 == model->span_count))
        return;
    reducer->overlap
        = work_start_function (reducer->comm, &reducer->work, reducer->there.device, reduce_complete, model);
    reducer->busy = reducer->overlapped = reducer->overlap;
}

/* Whether buckets are reduced on a device that orders them itself.  All ranks find the same, also those that overlap
 * nothing: what they tell each other about unused parameters depends on it. */
static bool
can_be_ordered (const struct accel_model *model)
{
    const struct reducer *reducer = model->reducer;
    if (model->sharding.grads)
        return true;
    return power_sgd_can_be_ordered (model) && !sharding_has_gradients (model) && reducer->size > 1
           && work_can_order (reducer->comm, &reducer->there);
}

void
reducer_begin (struct accel_model *model, const struct comm_site *site, bool reduces)
{
    struct reducer *reducer = model->reducer;
    memset (reducer->ready, 0, model->count);
    for (size_t s = 0; s < model->span_count; s++)
        model->spans[s].pending = model->spans[s].gradients;
    reducer->site = site;
    reducer->there = comm_site_on (site, model->device);
    reducer->reduces = reduces;
    reducer->is_ordered = reduces && can_be_ordered (model);
    reducer->checks = model->object.owner->check_gradients && !precision_scales (model->object.owner);
    reducer->announced = reducer->stop = reducer->overlapped = reducer->busy = false;
    reducer->reported = reducer->next = 0;
    reducer->error.code = ACCEL_OK;
    if (reduces && !reducer->is_ordered) /* for the thread that may average beside this one */
        unused_fetch (model, &reducer->error);
    if (reduces)
        power_sgd_begin (model);
    reducer->open = true;
    sharding_open_gradients (model, site, &reducer->error);
    packed_begin_pass (model, &reducer->error);
}

static enum accel_status
report (struct accel_model *model, size_t index, struct accel_error *err)
{
    struct reducer *reducer = model->reducer;
    const char *name = index < model->count ? model->parameters[index].name : "";
    if (index >= model->count)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_grad_ready: no parameter %zu in a model with %zu parameters",
                           index, model->count);
    if (!model_is_trained (model, index))
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_grad_ready: '%s' is not trained", name);
    if (reducer->ready[index])
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "accel_grad_ready: '%s' was already reported in this pass: averaging it may have started",
                           name);
    enum accel_status status = reducer->checks ? reducer_check_gradient (model, index, err) : ACCEL_OK;
    if (status)
        return status;
    reducer->ready[index] = reducer->used[index] = 1;
    reducer->reported++;
    if (!reducer->reduces)
        return ACCEL_OK;
    if (model->memory->stream) /* orders what this thread has queued before what the queue's thread will */
        model->memory->stream (model->device);
    ptrdiff_t s = model->span_of[index];
    if (s != NO_SPAN)
        model->spans[s].pending--;
    overlap (model);
    /* Whether something is in flight or not: programs must not depend on it. */
    comm_reserve (reducer->comm, true);
    if (reducer->error.code) /* of an average that was made here */
        *err = reducer->error;
    return reducer->error.code;
}

enum accel_status
accel_grad_ready (struct accel_model *model, size_t index, struct accel_error *err)
{
    struct reducer *reducer = model ? model->reducer : NULL;
    if (!reducer)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_grad_ready: the model is not prepared");
    pthread_mutex_lock (&reducer->lock);
    struct accel_error cause = reducer->error;
    enum accel_status status = cause.code;
    if (!status && !reducer->open)
        status = accel_fail (&cause, ACCEL_ERR_INVALID,
                             "accel_grad_ready: the model is not in a backward pass of accel_backward");
    else if (!status && (status = report (model, index, &cause)))
        reducer->error = cause;
    pthread_mutex_unlock (&reducer->lock);
    if (!status)
        sharding_expect_gradient (model, index);
    if (status && err)
        *err = cause;
    return status;
}

/* Note what this pass has used; a pass that reports nothing uses all. */
static enum accel_status
close_reports (struct accel_model *model, struct accel_error *err)
{
    struct reducer *reducer = model->reducer;
    if (!reducer->reported)
        memset (reducer->used, 1, model->count);
    enum accel_status status
        = reducer->checks && !reducer->reported ? reducer_check_gradients (model, err) : ACCEL_OK;
    if (status)
        return status;
    if (!reducer->reported || !reducer->reduces || model->ddp.find_unused_parameters)
        return ACCEL_OK;
    for (size_t i = 0; i < model->count; i++)
        if (model_is_trained (model, i) && !reducer->ready[i])
            return accel_fail (err, ACCEL_ERR_INVALID,
                               "the gradient of '%.100s' was not reported to accel_grad_ready on rank %d, but others "
                               "were: report it, or use find_unused_parameters",
                               model->parameters[i].name, accel_process_index (model->object.owner));
    return ACCEL_OK;
}

enum accel_status
reducer_end (struct accel_model *model, bool failed, struct accel_error *err)
{
    struct reducer *reducer = model->reducer;
    bool peers = reducer->reduces && reducer->size > 1;
    pthread_mutex_lock (&reducer->lock);
    reducer->open = false;
    reducer->stop = true;
    pthread_mutex_unlock (&reducer->lock);
    if (reducer->overlapped)
        work_wait_idle (reducer->comm);
    comm_reserve (reducer->comm, false);
    model->unstepped = true;
    if (!reducer->error.code && !failed)
        close_reports (model, &reducer->error);
    if (reducer->error.code) {
        order_started (model, NULL);
        if (err)
            *err = reducer->error;
        /* Gradients are checked in passes that are not averaged, too; in a row of tensor parallelism, others wait for
         * sums of the program. */
        if ((reducer->reduces || reducer->checks) && accel_num_processes (model->object.owner) > 1)
            comm_give_up (reducer->comm, reducer->error.text); /* does nothing if a peer failed */
        return reducer->error.code;
    }
    if (peers && !failed)
        return reduce_rest (model, true, err);
    order_started (model, NULL); /* without the others */
    return ACCEL_OK;
}

static void
clear_gradients (const struct accel_model *model)
{
    for (size_t s = 0; s < model->span_count; s++)
        if (!model->spans[s].scattered)
            model->memory->zero (model->device, model->spans[s].data,
                                 model->spans[s].count * accel_dtype_bytes (model->spans[s].dtype));
        else
            FOR_GRADIENTS_OF (model, s, i)
                model->memory->zero (model->device, model->parameters[i].grad->data, model_grad_bytes (model, i));
}

enum accel_status
reducer_shadow (struct accel_model *model, const struct comm_site *site, struct accel_error *err)
{
    clear_gradients (model);
    unused_forget (model);
    reducer_begin (model, site, true);
    model->reducer->open = false;
    model->reducer->announced = true; /* accel_join_end() has done so */
    enum accel_status status = reduce_rest (model, false, err);
    clear_gradients (model); /* the others' average is not for this process's next step */
    return status;
}
