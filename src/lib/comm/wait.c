/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for what was started: on the host, or in the order of a device (work.c). */
#include <config.h>

#include "lib/comm/wait.h"

#include "lib/base/error.h"
#include "lib/comm/progress.h"
#include "lib/memory/memory.h"

#include <stdlib.h>

/* ---- order on a device ---- */

static bool
can_order (const struct comm_link *link)
{
    return link && link->engine->order && link->engine->start && (link->engine->flags & ACCEL_ENGINE_ASYNC_PROGRESS);
}

/* With the lock, which it lets go: what this thread queues on @stream from now on comes after @work, which is detached,
 * or over. */
static void
detach (struct work_queue *queue, struct accel_work *work, void *stream)
{
    bool is_ordered = flight_order (queue, work, stream);
    if (!work->over && is_ordered && work_need_thread (work->comm)) {
        work->is_detached = true;
        queue->detached++;
        pthread_cond_signal (&queue->wake);
    }
    while (!work->is_detached && !work->over)
        flight_finish (queue, work);
}

bool
work_can_order (const struct accel_comm *comm, const struct comm_site *site)
{
    return !comm_is_for_host (site) && comm->size > 1 && can_order (comm_link_for (comm, site->device));
}

enum accel_status
work_run (struct accel_comm *comm, const struct accel_engine_call *call, struct accel_error *err)
{
    struct accel_work *work;
    enum accel_status status = work_start (comm, call, &work, err);
    return status ? status : work_finish (work, err);
}

/* ---- for the program ---- */

/* With the lock: whether the program may wait for @work. */
static enum accel_status
find (const struct accel_work *work, const char *call, struct accel_error *err)
{
    const struct accel_work *at = flight.works;
    while (at && at != work)
        at = at->later;
    if (!work)
        return accel_fail_null (err, call, "work");
    if (!at || at->is_taken)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "%s: not a work: it was waited for before, or its communicator has ended", call);
    if (work->process != comm_forks)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: another process started this work, before fork()", call);
    if (work->is_grouped)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "%s: the work begins at the end of its group: call accel_group_end() first", call);
    return ACCEL_OK;
}

/* With the lock: from now on, the caller alone waits for @work. */
static enum accel_status
take (struct accel_work *work, const char *call, struct accel_error *err)
{
    enum accel_status status = find (work, call, err);
    if (!status)
        work->is_taken = true;
    return status;
}

/* With the lock: take @work, which is over, from the list.  @return its outcome */
static enum accel_status
conclude (struct accel_work *work, struct accel_error *err)
{
    enum accel_status status = work->error.code;
    flight_unlist (work);
    if (status && err)
        *err = work->error;
    free (work);
    return status;
}

static void
finish (struct accel_work *work)
{
    uint64_t begin_ns = jobseg_now_ns ();
    while (!work->over)
        if (work->is_started)
            flight_finish (work->comm->queue, work);
        else
            pthread_cond_wait (&work->comm->queue->over, &work_mutex);
    if (!work_is_own_thread (work->comm))
        progress_note_wait (work->comm, begin_ns);
}

enum accel_status
accel_work_synchronize (struct accel_work *work, struct accel_error *err)
{
    work_lock ();
    enum accel_status status = take (work, __func__, err);
    if (!status) {
        finish (work);
        status = conclude (work, err);
    }
    work_unlock ();
    return status;
}

/* On the stream that the call was for; @on_device: on the device's, whichever that was.
 * @param[out] stays  nothing has happened to @work, because of an earlier error where it is */
static enum accel_status
wait_in_order (struct accel_work *work, bool on_device, bool *stays, struct accel_error *err)
{
    DLDevice device = { 0 };
    void *stream = NULL;
    *stays = false;
    work_lock ();
    enum accel_status status = find (work, "accel_work_wait", err);
    bool orders = !status && !work->over && can_order (work->link);
    if (orders) {
        device = work->site.device;
        stream = on_device ? NULL : work->site.stream;
    }
    work_unlock ();
    if (orders) { /* without the lock, because the GPU may be busy; its stream may be one that cannot wait now */
        status = comm_check_stream (device, stream, err);
        *stays = status;
        stream = comm_stream_of (device, stream);
    }
    if (status)
        return status;
    work_lock ();
    status = take (work, "accel_work_wait", err);
    while (!status && orders && !work->over && !work->is_started)
        pthread_cond_wait (&work->comm->queue->over, &work_mutex);
    if (!status && orders)
        detach (work->comm->queue, work, stream);
    else if (!status)
        finish (work);
    if (!status && !work->is_detached)
        status = conclude (work, err);
    work_unlock ();
    if (orders)
        comm_stream_of (device, NULL); /* where each thread has a stream, what others queue comes after this one's */
    return status;
}

enum accel_status
accel_work_wait (struct accel_work *work, struct accel_error *err)
{
    bool stays;
    return wait_in_order (work, false, &stays, err);
}

static enum accel_status
finish_on (struct accel_work *work, bool on_device, struct accel_error *err)
{
    bool stays;
    enum accel_status status = wait_in_order (work, on_device, &stays, err);
    enum accel_status later = stays ? accel_work_synchronize (work, NULL) : ACCEL_OK;
    (void) later; /* the first of two errors counts */
    return status;
}

enum accel_status
work_finish (struct accel_work *work, struct accel_error *err)
{
    return finish_on (work, false, err);
}

enum accel_status
work_join (struct accel_work *work, struct accel_error *err)
{
    return finish_on (work, true, err);
}

enum accel_status
accel_work_test (struct accel_work *work, bool *done, struct accel_error *err)
{
    if (!done)
        return accel_fail_null (err, __func__, "done");
    work_lock ();
    enum accel_status status = find (work, __func__, err);
    if (!status)
        *done = work->over || (work->is_started && flight_is_over (work));
    work_unlock ();
    return status;
}
