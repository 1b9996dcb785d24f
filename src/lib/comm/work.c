/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives that do not block.
 *
 * On engines that block, a thread for each communicator, made by its first start, runs what was started.  It does so in
 * the order of the starts, which is the same on all ranks.  Without work it sleeps.  On engines with start(), the
 * engine has it in flight.  Then there is a thread only for functions of the library (work_start_function()), which
 * run beside nothing else, and for what is started after them.
 *
 * Everything that is in flight on a communicator is in one engine.  What is for another one waits in the thread's queue
 * until that is over, so a start never waits for other ranks; unless the program's thread alone may call an engine.
 *
 * On a device whose engine can order streams, no thread waits on the host: what the program queues after a blocking
 * call, or after accel_work_wait(), comes after the work, which is detached.  It stays in flight, for the thread
 * of the queue to look at in slices: so a hang there has its name, too.  Calls on other memory do not wait for it.
 *
 * Blocking calls on the same communicator run on the program's thread, when everything that was started before them is
 * over; calls on other communicators need not wait, so ranks that are in several groups cannot wait for each other in a
 * circle. */
#include <config.h>

#include "lib/comm/work.h"

#include "lib/base/error.h"
#include "lib/memory/memory.h"
#include "util/threads.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_MS = 20 }; /* between two looks at what is detached */

struct work_queue {
    struct accel_comm *comm;
    struct work_queue *next; /* of the process's */
    struct accel_work *head, **tail; /* for the thread */
    atomic_uint pending; /* queued, running or in flight */
    unsigned started;    /* in flight, those that are not detached all in this engine: */
    const struct comm_link *started_on;
    unsigned detached;   /* of those in flight */
    bool in_engine;      /* some thread is in the engine because of these */
    bool is_coalescing;  /* between coalesce_begin() and coalesce_end() of the engine */
    unsigned process;    /* the fork that made it */
    bool has_thread;
    bool stop;           /* end when the queue is empty */
    pthread_t thread;
    pthread_cond_t wake; /* for the thread: there is work, or `stop` */
    pthread_cond_t over; /* for those that wait: some work is, or no thread is in the engine */
};

/* Of all communicators of this process, because accel_work_wait() gets no communicator, and a work that the program has
 * waited for before must be found to be none.  With the queues, it is guarded by work_lock(). */
static struct {
    struct work_queue *queues;
    struct accel_work *works, **last_work; /* that the program has not waited for, in the order of starts */
} all = { .last_work = &all.works };

static _Thread_local const struct accel_comm *thread_comm; /* whose queue's thread this is */

/* ---- in flight; all with the lock, which they let go while they are in the engine ---- */

static bool
may_enter (const struct work_queue *queue)
{
    return !queue->in_engine && !queue->is_coalescing;
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

/* Of those that the program has not waited for. */
static void
unlist (const struct accel_work *work)
{
    struct accel_work **at = &all.works;
    while (*at && *at != work)
        at = &(*at)->later;
    if (!*at)
        return;
    *at = work->later;
    if (all.last_work == &work->later)
        all.last_work = at;
}

static void
note_finished (struct work_queue *queue, struct accel_work *work)
{
    work->over = true;
    queue->started--;
    atomic_fetch_sub_explicit (&queue->pending, 1, memory_order_release);
    if (!work->is_detached)
        return;
    queue->detached--;
    unlist (work);
    free (work);
}

/* Wait for @work, unless another thread does: then until that one has left. */
static void
finish_request (struct work_queue *queue, struct accel_work *work)
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
    struct accel_work *work = all.works;
    while (work
           && (work->comm != queue->comm || !work->is_started || work->over || work->is_detached != is_detached))
        work = work->later;
    return work;
}

/* What is not detached, if there is any. */
static void
finish_oldest (struct work_queue *queue)
{
    struct accel_work *work = find_oldest (queue, queue->started == queue->detached);
    if (work)
        finish_request (queue, work);
    else
        pthread_cond_wait (&queue->over, &work_mutex);
}

/* Whether nothing is in flight that somebody waits for, or only in the engine of @work. */
static bool
may_join (const struct work_queue *queue, const struct accel_work *work)
{
    return queue->started == queue->detached || queue->started_on == work->link;
}

/* Whether everything that was started before @work is in flight in the same engine. */
static bool
is_first (const struct work_queue *queue, const struct accel_work *work)
{
    return atomic_load_explicit (&queue->pending, memory_order_relaxed) == queue->started && may_join (queue, work);
}

/* No other thread may be in the engine. */
static void
start_request (struct work_queue *queue, struct accel_work *work)
{
    struct accel_comm *comm = work->comm;
    struct accel_error why = { 0 };
    work->is_started = true;
    queue->started++;
    queue->started_on = work->link;
    atomic_fetch_add_explicit (&queue->pending, 1, memory_order_relaxed);
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

/* ---- the thread ---- */

static bool
can_start (const struct accel_work *work)
{
    const struct comm_link *link = work->link;
    return link && link->engine->start
           && (link == work->comm->links || (link->engine->flags & ACCEL_ENGINE_ASYNC_PROGRESS));
}

static void
perform (struct accel_work *work)
{
    if (work->function)
        work->function (work->user);
    else
        comm_execute (work->comm, &work->call, &work->error);
}

/* Until nothing is in flight that @work cannot join. */
static void
await_turn (struct work_queue *queue, const struct accel_work *work, bool starts)
{
    while (queue->started > queue->detached && !(starts && may_join (queue, work)))
        finish_oldest (queue);
    while (starts && queue->in_engine)
        pthread_cond_wait (&queue->over, &work_mutex);
}

/* If another thread is in the engine, it is not over. */
static bool
is_finished (struct accel_work *work)
{
    struct accel_comm *comm = work->comm;
    if (!may_enter (comm->queue))
        return false;
    enter (comm->queue);
    bool over = work->link->engine->test (work->link->transport, work->request);
    leave (comm->queue);
    return over;
}

/* What is detached and over, the oldest first. */
static void
reap (struct work_queue *queue)
{
    struct accel_work *work;
    while (queue->detached && may_enter (queue) && (work = find_oldest (queue, true)) && is_finished (work)
           && work == find_oldest (queue, true) && may_enter (queue))
        finish_request (queue, work);
}

/* Until there is something to do. */
static void
rest (struct work_queue *queue)
{
    struct timespec until;
    if (!queue->detached) {
        pthread_cond_wait (&queue->wake, &work_mutex);
        return;
    }
    reap (queue);
    if (queue->head || queue->stop)
        return;
    clock_gettime (CLOCK_MONOTONIC, &until);
    until.tv_nsec += LOOK_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_cond_timedwait (&queue->wake, &work_mutex, &until);
}

static void *
serve (void *user)
{
    struct work_queue *queue = user;
    thread_comm = queue->comm;
    work_lock ();
    while (queue->head || !queue->stop) {
        struct accel_work *work = queue->head;
        if (!work) {
            rest (queue);
            continue;
        }
        queue->head = work->next;
        if (!queue->head)
            queue->tail = &queue->head;
        bool is_call = !work->function; /* a function may be started again, or its memory be gone, when it has run */
        bool starts = can_start (work);
        await_turn (queue, work, starts);
        if (starts)
            start_request (queue, work);
        else {
            work_unlock ();
            perform (work);
            work_lock ();
        }
        if (is_call && !starts)
            work->over = true;
        atomic_fetch_sub_explicit (&queue->pending, 1, memory_order_release);
        pthread_cond_broadcast (&queue->over);
    }
    work_unlock ();
    return NULL;
}

/* @return 0 or the number of an error */
static int
need_thread (struct work_queue *queue)
{
    int number = queue->has_thread ? 0 : thread_start (&queue->thread, serve, queue);
    queue->has_thread = !number;
    return number;
}

/* The queue of @comm.  @return 0 or the number of an error; ECHILD: it is the parent's */
static int
need_queue (struct accel_comm *comm)
{
    if (comm->queue)
        return comm->queue->process == comm_forks ? 0 : ECHILD;
    struct work_queue *made = calloc (1, sizeof *made);
    pthread_condattr_t steady;
    pthread_condattr_init (&steady);
    pthread_condattr_setclock (&steady, CLOCK_MONOTONIC);
    bool is_made = made && !pthread_cond_init (&made->wake, &steady) && !pthread_cond_init (&made->over, NULL);
    pthread_condattr_destroy (&steady);
    if (!is_made) {
        free (made);
        return ENOMEM;
    }
    made->comm = comm;
    made->tail = &made->head;
    made->process = comm_forks;
    made->next = all.queues;
    ledger_share (comm->ledger);
    all.queues = made;
    comm->queue = made;
    return 0;
}

/* @return 0 or the number of an error */
static int
enqueue (struct accel_work *work)
{
    int number = need_queue (work->comm);
    struct work_queue *queue = work->comm->queue;
    number = number ? number : need_thread (queue);
    if (number)
        return number;
    work->next = NULL;
    *queue->tail = work;
    queue->tail = &work->next;
    atomic_fetch_add_explicit (&queue->pending, 1, memory_order_relaxed);
    pthread_cond_signal (&queue->wake);
    return 0;
}

/* ---- starts ---- */

static void
remember (struct accel_work *work)
{
    work->process = comm_forks;
    *all.last_work = work;
    all.last_work = &work->later;
}

/* With the lock.  @param all  also for what is detached */
static void
wait_until_idle (struct work_queue *queue, bool is_all)
{
    while (queue->process == comm_forks
           && atomic_load_explicit (&queue->pending, memory_order_relaxed) > (is_all ? 0 : queue->detached))
        if (queue->started > (is_all ? 0 : queue->detached))
            finish_oldest (queue);
        else
            pthread_cond_wait (&queue->over, &work_mutex);
}

static bool
has_one_thread (const struct comm_link *link)
{
    return link->engine->has_one_thread && link->engine->has_one_thread (link->transport);
}

/* Whether only the program's thread may start @work, or finish what is in flight before it. */
static bool
is_bound (const struct work_queue *queue, const struct accel_work *work)
{
    return has_one_thread (work->link) || (queue->started && has_one_thread (queue->started_on));
}

static void
run_here (struct work_queue *queue, struct accel_work *work)
{
    atomic_fetch_add_explicit (&queue->pending, 1, memory_order_relaxed);
    work_unlock ();
    perform (work);
    work_lock ();
    work->over = true;
    atomic_fetch_sub_explicit (&queue->pending, 1, memory_order_release);
    pthread_cond_broadcast (&queue->over);
}

/* @return 0 or the number of an error */
static int
begin (struct accel_work *work)
{
    struct accel_comm *comm = work->comm;
    work->link = comm_link_for (comm, work->site.device);
    int number = need_queue (comm);
    bool may_start = !number && can_start (work);
    if (!number)
        reap (comm->queue);
    /* Only if the engine would start it: the queue's thread may be in the engine until other ranks have come. */
    while (may_start && comm->queue->in_engine && is_first (comm->queue, work))
        pthread_cond_wait (&comm->queue->over, &work_mutex);
    if (!number && !is_first (comm->queue, work) && is_bound (comm->queue, work))
        wait_until_idle (comm->queue, true);
    bool starts = may_start && is_first (comm->queue, work);
    bool stays = !number && !starts && has_one_thread (work->link);

    if (!number && !starts && !stays)
        number = enqueue (work);
    if (number)
        return number;
    remember (work);
    if (starts)
        start_request (comm->queue, work);
    else if (stays)
        run_here (comm->queue, work);
    return 0;
}

static enum accel_status
fail_to_start (const struct comm_site *site, int number, struct accel_error *err)
{
    if (number == ENOMEM)
        return comm_no_memory (site, err);
    if (number == ECHILD)
        return comm_refuse (site, "this process is a fork of the one that uses this communicator", err);
    comm_fail (site, ACCEL_ERR_SYSTEM, err, "cannot start a thread: %s", strerror (number));
    if (err)
        err->sys_errno = number;
    return ACCEL_ERR_SYSTEM;
}

/* What this thread has queued on @device comes before what the queue's thread will queue there: where each thread has a
 * stream, to ask for it orders them.  Without the lock, because the GPU may be busy. */
static void
order_streams (DLDevice device)
{
    const struct memory *memory = memory_of (device);
    if (memory && memory->stream)
        memory->stream (device);
}

/* A job of one process has no other to wait for, so its work is over at once. */
enum accel_status
work_start (struct accel_comm *comm, const struct accel_engine_call *call, struct accel_work **work,
            struct accel_error *err)
{
    struct accel_work *made = calloc (1, sizeof *made);
    if (!made)
        return comm_no_memory (call->site, err);
    made->comm = comm;
    made->site = *engine_site (call);
    made->call = *call;
    made->call.site = &made->site;
    int number = 0;
    if (comm->size == 1) {
        perform (made);
        made->over = true;
    } else if (!comm_is_for_host (&made->site)) {
        order_streams (made->site.device);
    }
    work_lock ();
    if (made->over)
        remember (made);
    else
        number = begin (made);
    work_unlock ();
    if (number) {
        free (made);
        return fail_to_start (call->site, number, err);
    }
    *work = made;
    return ACCEL_OK;
}

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
    struct accel_error why;
    while (!work->over && !may_enter (queue))
        pthread_cond_wait (&queue->over, &work_mutex);
    if (work->over)
        return;
    enter (queue);
    enum accel_status status = work->link->engine->order (work->link->transport, work->request, stream, &why);
    leave (queue);
    if (!work->over && !status && !need_thread (queue)) {
        work->is_detached = true;
        queue->detached++;
        pthread_cond_signal (&queue->wake);
    }
    while (!work->is_detached && !work->over)
        finish_request (queue, work);
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

/* What is done for @comm on another thread may call any of its engines. */
static bool
any_has_one_thread (const struct accel_comm *comm)
{
    bool any = false;
    for (int i = 0; i < comm->link_count; i++)
        any = any || has_one_thread (&comm->links[i]);
    return any;
}

bool
work_start_function (struct accel_comm *comm, struct accel_work *work, void (*function) (void *user), void *user)
{
    comm_raise_failure (comm, comm->deferred);
    if (any_has_one_thread (comm))
        return false;
    *work = (struct accel_work){ .comm = comm, .function = function, .user = user };
    work_lock ();
    int number = enqueue (work);
    work_unlock ();
    return !number;
}

/* A failure to make the queue shows again at the first start. */
void
work_coalesce_begin (struct accel_comm *comm)
{
    work_lock ();
    struct work_queue *queue = comm->links->engine->coalesce_begin && !need_queue (comm) ? comm->queue : NULL;
    const struct accel_work first = { .link = comm->links };
    while (queue && queue->in_engine)
        pthread_cond_wait (&queue->over, &work_mutex);
    if (queue && is_first (queue, &first)) {
        queue->is_coalescing = true;
        enter (queue);
        comm->links->engine->coalesce_begin (comm->links->transport);
        leave (queue);
    }
    work_unlock ();
}

void
work_coalesce_end (struct accel_comm *comm)
{
    work_lock ();
    struct work_queue *queue = comm->queue;
    if (queue && queue->is_coalescing) {
        enter (queue);
        comm->links->engine->coalesce_end (comm->links->transport);
        queue->is_coalescing = false;
        leave (queue);
    }
    work_unlock ();
}

bool
work_is_own_thread (const struct accel_comm *comm)
{
    return comm->queue && thread_comm == comm;
}

void
work_wait_idle (struct accel_comm *comm)
{
    if (!comm->queue || !atomic_load_explicit (&comm->queue->pending, memory_order_acquire))
        return;
    work_lock ();
    wait_until_idle (comm->queue, false);
    work_unlock ();
}

/* Whether @queue is that of @comm, or @comm is the world that it belongs to. */
static bool
belongs_to (const struct work_queue *queue, const struct accel_comm *comm)
{
    const struct accel_comm *top = queue->comm;
    while (top->parent)
        top = top->parent;
    return queue->comm == comm || top == comm;
}

/* The program's thread alone makes and ends queues of its communicators, so the list is the same after waiting. */
void
work_drain (struct accel_comm *world)
{
    work_lock ();
    for (struct work_queue *queue = all.queues; queue; queue = queue->next)
        if (belongs_to (queue, world))
            wait_until_idle (queue, true);
    work_unlock ();
}

static struct work_queue *
take_queue_of (struct accel_comm *comm)
{
    work_lock ();
    struct work_queue **at = &all.queues;
    while (*at && !belongs_to (*at, comm))
        at = &(*at)->next;
    struct work_queue *queue = *at;
    if (queue) {
        *at = queue->next;
        queue->stop = true;
        if (queue->process == comm_forks)
            pthread_cond_signal (&queue->wake);
    }
    work_unlock ();
    return queue;
}

/* Of a thread that stayed in the parent, the conditions still have their sleepers, so destroying them would wait. */
static void
end_queue (struct work_queue *queue)
{
    if (queue->process == comm_forks) {
        if (queue->has_thread)
            pthread_join (queue->thread, NULL);
        pthread_cond_destroy (&queue->wake);
        pthread_cond_destroy (&queue->over);
    }
    queue->comm->queue = NULL;
    free (queue);
}

void
work_end (struct accel_comm *comm)
{
    struct work_queue *queue;
    work_drain (comm);
    while ((queue = take_queue_of (comm)))
        end_queue (queue);
    work_lock ();
    struct accel_work **at = &all.works;
    while (*at) {
        struct accel_work *work = *at;
        if (work->comm == comm) {
            *at = work->later;
            free (work);
        } else
            at = &work->later;
    }
    all.last_work = at;
    work_unlock ();
}

/* ---- for the program ---- */

/* With the lock: whether the program may wait for @work. */
static enum accel_status
find (const struct accel_work *work, const char *call, struct accel_error *err)
{
    const struct accel_work *at = all.works;
    while (at && at != work)
        at = at->later;
    if (!work)
        return accel_fail_null (err, call, "work");
    if (!at || at->is_taken)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "%s: not a work: it was waited for before, or its communicator has ended", call);
    if (work->process != comm_forks)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: another process started this work, before fork()", call);
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
    unlist (work);
    if (status && err)
        *err = work->error;
    free (work);
    return status;
}

static void
finish (struct accel_work *work)
{
    while (!work->over)
        if (work->is_started)
            finish_request (work->comm->queue, work);
        else
            pthread_cond_wait (&work->comm->queue->over, &work_mutex);
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

/* @param[out] stays  nothing has happened to @work, because of an earlier error where it is */
static enum accel_status
wait_in_order (struct accel_work *work, bool *stays, struct accel_error *err)
{
    DLDevice device = { 0 };
    void *stream = NULL;
    *stays = false;
    work_lock ();
    enum accel_status status = find (work, "accel_work_wait", err);
    bool orders = !status && !work->over && can_order (work->link);
    if (orders)
        device = work->site.device;
    work_unlock ();
    if (orders) { /* without the lock, because the GPU may be busy; its stream may be one that cannot wait now */
        status = memory_check (device, err);
        *stays = status;
        stream = memory_of (device)->stream ? memory_of (device)->stream (device) : NULL;
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
        order_streams (device);
    return status;
}

enum accel_status
accel_work_wait (struct accel_work *work, struct accel_error *err)
{
    bool stays;
    return wait_in_order (work, &stays, err);
}

enum accel_status
work_finish (struct accel_work *work, struct accel_error *err)
{
    bool stays;
    enum accel_status status = wait_in_order (work, &stays, err);
    enum accel_status later = stays ? accel_work_synchronize (work, NULL) : ACCEL_OK;
    (void) later; /* the first of two errors counts */
    return status;
}

enum accel_status
accel_work_test (struct accel_work *work, bool *done, struct accel_error *err)
{
    if (!done)
        return accel_fail_null (err, __func__, "done");
    work_lock ();
    enum accel_status status = find (work, __func__, err);
    if (!status)
        *done = work->over || (work->is_started && is_finished (work));
    work_unlock ();
    return status;
}
