/* SPDX-License-Identifier: Apache-2.0 */
/* What is in flight in engines; see flight.h. */
#include <config.h>

#include "lib/comm/flight.h"

#include <stdlib.h>

struct flight flight = { .last_work = &flight.works, .launched = PTHREAD_COND_INITIALIZER };

static bool
may_enter (const struct work_queue *queue)
{
    return !queue->in_engine;
}

static void
enter (struct work_queue *queue)
{
    queue->in_engine = true;
    work_unlock ();
}

static void
leave (struct work_queue *queue)
{
    work_lock ();
    queue->in_engine = false;
    pthread_cond_broadcast (&queue->over);
}

void
flight_list (struct accel_work *work)
{
    work->process = comm_forks;
    *flight.last_work = work;
    flight.last_work = &work->later;
}

void
flight_unlist (const struct accel_work *work)
{
    struct accel_work **at = &flight.works;
    while (*at && *at != work)
        at = &(*at)->later;
    if (!*at)
        return;
    *at = work->later;
    if (flight.last_work == &work->later)
        flight.last_work = at;
}

static void
note_finished (struct work_queue *queue, struct accel_work *work)
{
    work->over = true;
    queue->started--;
    atomic_fetch_sub_explicit (&queue->comm->pending, 1, memory_order_release);
    if (!work->is_detached)
        return;
    queue->detached--;
    flight_unlist (work);
    free (work);
}

void
flight_finish (struct work_queue *queue, struct accel_work *work)
{
    struct accel_comm *comm = work->comm;
    struct accel_error why = { 0 };
    if (!may_enter (queue)) {
        pthread_cond_wait (&queue->over, &work_mutex);
        return;
    }
    enter (queue);
    enum accel_status status = work->link->engine->wait (work->link->transport, work->request, &why);
    comm_conclude (comm, &work->call, work->begin_ns, status, &why, &work->error);
    leave (queue);
    note_finished (queue, work);
}

/* @return NULL: there is none, only functions of the library */
static struct accel_work *
find_oldest (const struct work_queue *queue, bool is_detached)
{
    struct accel_work *work = flight.works;
    while (work
           && (work->comm != queue->comm || !work->is_started || work->over || work->is_detached != is_detached))
        work = work->later;
    return work;
}

void
flight_finish_oldest (struct work_queue *queue)
{
    struct accel_work *work = find_oldest (queue, queue->started == queue->detached);
    if (work)
        flight_finish (queue, work);
    else
        pthread_cond_wait (&queue->over, &work_mutex);
}

void
flight_wait (struct work_queue *queue, bool is_all)
{
    while (queue->process == comm_forks
           && atomic_load_explicit (&queue->comm->pending, memory_order_relaxed) > (is_all ? 0 : queue->detached))
        if (queue->started > (is_all ? 0 : queue->detached))
            flight_finish_oldest (queue);
        else
            pthread_cond_wait (&queue->over, &work_mutex);
}

bool
flight_may_join (const struct work_queue *queue, const struct accel_work *work)
{
    return queue->started == queue->detached || queue->started_on == work->link;
}

bool
flight_is_first (const struct work_queue *queue, const struct accel_work *work)
{
    return atomic_load_explicit (&queue->comm->pending, memory_order_relaxed) == queue->started
           && flight_may_join (queue, work);
}

bool
flight_can_start (const struct accel_work *work)
{
    const struct comm_link *link = work->link;
    return link && link->engine->start
           && (link == work->comm->links || (link->engine->flags & ACCEL_ENGINE_ASYNC_PROGRESS));
}

static void
start_request (struct work_queue *queue, struct accel_work *work)
{
    struct accel_comm *comm = work->comm;
    struct accel_error why = { 0 };
    work->is_started = true;
    queue->started++;
    queue->started_on = work->link;
    atomic_fetch_add_explicit (&queue->comm->pending, 1, memory_order_relaxed);
    enter (queue);
    enum accel_status status = comm_begin (comm, &work->call, &work->begin_ns, &work->error);
    bool has_begun = !status;
    if (has_begun && !comm_is_for_host (&work->site))
        comm_set_device (&work->call);
    if (has_begun)
        status = work->link->engine->start (work->link->transport, &work->call, &work->request, &why);
    if (has_begun && status)
        comm_conclude (comm, &work->call, work->begin_ns, status, &why, &work->error);
    leave (queue);
    if (status)
        note_finished (queue, work);
}

/* Of those that have been started, each may be over and gone before the next one is. */
void
flight_start (struct work_queue *queue, struct accel_work *work)
{
    const struct comm_link *link = work->link;
    bool joins = work->joins;
    bool coalesces = joins && link->engine->coalesce_begin;
    if (coalesces) {
        enter (queue);
        link->engine->coalesce_begin (link->transport);
        leave (queue);
    }
    for (struct accel_work *next = work; next; work = next) {
        next = work->joins ? work->next : NULL;
        start_request (queue, work);
    }
    if (coalesces) {
        enter (queue);
        link->engine->coalesce_end (link->transport);
        leave (queue);
    }
}

bool
flight_is_over (struct accel_work *work)
{
    struct accel_comm *comm = work->comm;
    if (!may_enter (comm->queue))
        return false;
    enter (comm->queue);
    bool over = work->link->engine->test (work->link->transport, work->request);
    leave (comm->queue);
    return over;
}

void
flight_reap (struct work_queue *queue)
{
    struct accel_work *work;
    while (queue->detached && may_enter (queue) && (work = find_oldest (queue, true)) && flight_is_over (work)
           && work == find_oldest (queue, true) && may_enter (queue))
        flight_finish (queue, work);
}

bool
flight_order (struct work_queue *queue, struct accel_work *work, void *stream)
{
    struct accel_error why;
    while (!work->over && !may_enter (queue))
        pthread_cond_wait (&queue->over, &work_mutex);
    if (work->over)
        return true;
    enter (queue);
    enum accel_status status = work->link->engine->order (work->link->transport, work->request, stream, &why);
    leave (queue);
    return !status;
}
