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
 * On a device, what different communicators launch is in the order of the program's calls, which is the same on all
 * ranks: kernels that wait for ranks in different orders could wait for ever.  So a start there first waits until what
 * was started before on other communicators, and is in a queue, has been launched.
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
#include <time.h>

enum {
    LOOK_MS = 20,              /* between two looks at what is detached */
    WAITERS_LOOK_NS = 1000000, /* between two looks at whether others still wait */
};

static _Thread_local const struct accel_comm *thread_comm; /* whose queue's thread this is */

/* ---- the thread ---- */

static void
perform (struct accel_work *work)
{
    if (work->function)
        work->function (work->user);
    else
        comm_execute (work->comm, &work->call, &work->error);
}

/* Whether @work launches something on a device, or may. */
static bool
launches (const struct accel_work *work)
{
    return !comm_is_for_host (&work->site) && (!work->function || work->comm->link_count > 1);
}

static void
note_launched (struct work_queue *queue, unsigned count)
{
    queue->launches -= count;
    if (count)
        pthread_cond_broadcast (&flight.launched);
}

/* Until all that was started before on other communicators than @comm is in their engines, and functions are over. */
static void
await_launches (const struct accel_comm *comm)
{
    const struct work_queue *queue = thread_comm ? NULL : flight.queues; /* a function does not wait for itself */
    while (queue)
        if (queue->comm != comm && queue->process == comm_forks && queue->launches) {
            pthread_cond_wait (&flight.launched, &work_mutex);
            queue = flight.queues;
        } else
            queue = queue->next;
}

/* Until nothing is in flight that @work cannot join. */
static void
await_turn (struct work_queue *queue, const struct accel_work *work, bool starts)
{
    while (queue->started > queue->detached && !(starts && flight_may_join (queue, work)))
        flight_finish_oldest (queue);
    while (starts && queue->in_engine)
        pthread_cond_wait (&queue->over, &work_mutex);
}

/* @work and those that it joins, one after the other.  A function may be started again, or its memory be gone, when it
 * has run; so may a call be that is over. */
static void
run_here (struct work_queue *queue, struct accel_work *work)
{
    for (struct accel_work *next = work; next; work = next) {
        bool is_call = !work->function;
        next = work->joins ? work->next : NULL;
        work_unlock ();
        perform (work);
        work_lock ();
        if (is_call)
            work->over = true;
        atomic_fetch_sub_explicit (&queue->comm->pending, 1, memory_order_release);
        pthread_cond_broadcast (&queue->over);
    }
}

/* @return the last of those that @work joins
 * @param[out] count  of them */
static struct accel_work *
find_last (struct accel_work *work, unsigned *count)
{
    for (*count = 1; work->joins; work = work->next)
        ++*count;
    return work;
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
    flight_reap (queue);
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
    unsigned count;
    thread_comm = queue->comm;
    work_lock ();
    while (queue->head || !queue->stop) {
        struct accel_work *work = queue->head;
        if (!work) {
            rest (queue);
            continue;
        }
        queue->head = find_last (work, &count)->next;
        if (!queue->head)
            queue->tail = &queue->head;
        bool starts = flight_can_start (work);
        unsigned launched = launches (work) ? count : 0;
        await_turn (queue, work, starts);
        if (starts)
            flight_start (queue, work);
        else
            run_here (queue, work);
        note_launched (queue, launched);
        if (!starts)
            continue;
        atomic_fetch_sub_explicit (&queue->comm->pending, count, memory_order_release);
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
    made->next = flight.queues;
    ledger_share (comm->ledger);
    flight.queues = made;
    comm->queue = made;
    return 0;
}

/* @work, and those that it joins.  @return 0 or the number of an error */
static int
enqueue (struct accel_work *work)
{
    int number = need_queue (work->comm);
    struct work_queue *queue = work->comm->queue;
    unsigned count;
    number = number ? number : need_thread (queue);
    if (number)
        return number;
    struct accel_work *last = find_last (work, &count);
    last->next = NULL;
    *queue->tail = work;
    queue->tail = &last->next;
    queue->launches += launches (work) ? count : 0;
    atomic_fetch_add_explicit (&queue->comm->pending, count, memory_order_relaxed);
    queue->wakes = true;
    return 0;
}

/* The thread that wakes may take the processor of this one, so this one must not hold the lock that it wants. */
static void
unlock_and_wake (const struct accel_comm *comm)
{
    struct work_queue *queue = comm->queue;
    bool wakes = queue && queue->wakes;
    if (wakes)
        queue->wakes = false;
    work_unlock ();
    if (wakes)
        pthread_cond_signal (&queue->wake);
}

/* ---- starts ---- */

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

/* @work, and those that it joins.  @return 0 or the number of an error */
static int
begin (struct accel_work *work)
{
    struct accel_comm *comm = work->comm;
    unsigned count;
    int number = need_queue (comm);
    if (number)
        return number;
    if (launches (work))
        await_launches (comm);
    bool may_start = flight_can_start (work);
    flight_reap (comm->queue);
    /* Only if the engine would start it: the queue's thread may be in the engine until other ranks have come. */
    while (may_start && comm->queue->in_engine && flight_is_first (comm->queue, work))
        pthread_cond_wait (&comm->queue->over, &work_mutex);
    if (!flight_is_first (comm->queue, work) && is_bound (comm->queue, work))
        flight_wait (comm->queue, true);
    if (may_start && flight_is_first (comm->queue, work)) {
        flight_start (comm->queue, work);
    } else if (has_one_thread (work->link)) {
        find_last (work, &count);
        atomic_fetch_add_explicit (&comm->pending, count, memory_order_relaxed);
        run_here (comm->queue, work);
    } else
        return enqueue (work);
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
    made->link = comm_link_for (comm, made->site.device);
    made->is_grouped = comm->has_group;
    int number = 0;
    if (comm->size == 1) {
        perform (made);
        made->over = true;
    } else if (!comm_is_for_host (&made->site)) {
        comm_stream_of (made->site.device, NULL);
    }
    work_lock ();
    flight_list (made);
    if (!made->over && !made->is_grouped)
        number = begin (made);
    if (number)
        flight_unlist (made);
    unlock_and_wake (comm);
    if (number) {
        free (made);
        return fail_to_start (call->site, number, err);
    }
    *work = made;
    return ACCEL_OK;
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
work_start_function (struct accel_comm *comm, struct accel_work *work, DLDevice device, void (*function) (void *user),
                     void *user)
{
    comm_raise_failure (comm, comm->deferred);
    if (any_has_one_thread (comm))
        return false;
    *work = (struct accel_work){ .comm = comm, .site.device = device, .function = function, .user = user };
    work_lock ();
    if (launches (work))
        await_launches (comm);
    int number = enqueue (work);
    unlock_and_wake (comm);
    return !number;
}

/* ---- groups of starts ---- */

void
work_group_begin (struct accel_comm *comm)
{
    comm->has_group = true;
}

/* Those of the group that have not begun, in the order of starts; neighbours for one engine join. */
static struct accel_work *
take_group (const struct accel_comm *comm)
{
    struct accel_work *first = NULL, *last = NULL;
    for (struct accel_work *work = flight.works; work; work = work->later) {
        if (work->comm != comm || !work->is_grouped || work->over)
            continue;
        work->next = NULL;
        if (last) {
            last->next = work;
            last->joins = last->link == work->link;
        } else
            first = work;
        last = work;
    }
    return first;
}

/* That they could not begin is their outcome. */
static void
fail_all (struct accel_work *work, int number)
{
    for (struct accel_work *next = work; next; work = next) {
        next = work->joins ? work->next : NULL;
        fail_to_start (&work->site, number, &work->error);
        work->over = true;
    }
}

/* Only at the end can the program wait for them, so none is gone before. */
void
work_group_end (struct accel_comm *comm)
{
    unsigned count;
    comm_stream_of (comm->device, NULL);
    work_lock ();
    comm->has_group = false;
    for (struct accel_work *work = take_group (comm), *next; work; work = next) {
        next = find_last (work, &count)->next;
        int number = begin (work);
        if (number)
            fail_all (work, number);
        unlock_and_wake (comm); /* the next one may wait for this one */
        work_lock ();
    }
    for (struct accel_work *work = flight.works; work; work = work->later)
        if (work->comm == comm)
            work->is_grouped = false;
    work_unlock ();
}

bool
work_need_thread (struct accel_comm *comm)
{
    return !need_thread (comm->queue);
}

bool
work_is_own_thread (const struct accel_comm *comm)
{
    return comm->queue && thread_comm == comm;
}

void
work_wait_idle (struct accel_comm *comm)
{
    if (!comm->queue || !atomic_load_explicit (&comm->pending, memory_order_acquire))
        return;
    work_lock ();
    flight_wait (comm->queue, false);
    work_unlock ();
}

/* Whether @part is @comm, or @comm is the world that it belongs to. */
static bool
belongs_to (const struct accel_comm *part, const struct accel_comm *comm)
{
    const struct accel_comm *top = part;
    while (top->parent)
        top = top->parent;
    return part == comm || top == comm;
}

/* The program's thread alone makes and ends queues of its communicators, so the list is the same after waiting. */
void
work_drain (struct accel_comm *world)
{
    work_lock ();
    for (struct work_queue *queue = flight.queues; queue; queue = queue->next)
        if (belongs_to (queue->comm, world))
            flight_wait (queue, true);
    work_unlock ();
}

static struct work_queue *
take_queue_of (struct accel_comm *comm)
{
    work_lock ();
    struct work_queue **at = &flight.queues;
    while (*at && !belongs_to ((*at)->comm, comm))
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

/* With the lock.  @return a communicator whose group is open, of @comm and what belongs to it; NULL: there is none */
static struct accel_comm *
find_group (const struct accel_comm *comm)
{
    const struct accel_work *work = flight.works;
    while (work && !(work->is_grouped && work->process == comm_forks && belongs_to (work->comm, comm)))
        work = work->later;
    return work ? work->comm : NULL;
}

static void
end_groups (const struct accel_comm *comm)
{
    struct accel_comm *open;
    do {
        work_lock ();
        open = find_group (comm);
        work_unlock ();
        if (open)
            work_group_end (open);
    } while (open);
}

/* With the lock.  @return whether a thread waits for work of @comm, or of what belongs to it */
static bool
has_waiter (const struct accel_comm *comm)
{
    const struct accel_work *work = flight.works;
    while (work && !(work->is_taken && work->process == comm_forks && belongs_to (work->comm, comm)))
        work = work->later;
    return work;
}

/* What they wait for is over: they only have to see it, and need the queue for that. */
static void
await_waiters (const struct accel_comm *comm)
{
    work_lock ();
    while (has_waiter (comm)) {
        work_unlock ();
        nanosleep (&(struct timespec){ .tv_nsec = WAITERS_LOOK_NS }, NULL);
        work_lock ();
    }
    work_unlock ();
}

void
work_end (struct accel_comm *comm)
{
    struct work_queue *queue;
    end_groups (comm);
    work_drain (comm);
    await_waiters (comm);
    while ((queue = take_queue_of (comm)))
        end_queue (queue);
    work_lock ();
    struct accel_work **at = &flight.works;
    while (*at) {
        struct accel_work *work = *at;
        if (work->comm == comm) {
            *at = work->later;
            free (work);
        } else
            at = &work->later;
    }
    flight.last_work = at;
    work_unlock ();
}

