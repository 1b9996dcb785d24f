/* SPDX-License-Identifier: Apache-2.0 */
/* Engine "threaded": async, for host memory and one of the kinds of standin_memory.h, with a thread of its own that
 * moves on what has been started, as a GPU would.  So it may have works in flight while this process waits elsewhere.
 *
 * Compiled with POLLED, engine "polled": for the other kind of memory, too, and without the thread.  Beside the host's
 * engine, it must never be asked to start anything.
 *
 * With THREADED_BOUND or POLLED_BOUND in the environment, only the thread that opened it may call it. */
#include <accel/engine.h>

#include "../standin_stream.h"

/* The symbol of the module is our table; that of async gets another name. */
extern const struct accel_engine threaded_engine __asm__ (ACCEL_ENGINE_SYMBOL);
#undef ACCEL_ENGINE_SYMBOL
#define ACCEL_ENGINE_SYMBOL "async_table"

#include "../async/async.c"

#include <signal.h>

#ifdef POLLED
enum { HAS_THREAD = 0, MODE = 0, TAG = 5, DEVICES = 1 << kDLVPI | 1 << kDLExtDev };
#define NAME "polled"
#define BOUND "POLLED_BOUND"
#else
enum { HAS_THREAD = 1, MODE = ACCEL_ENGINE_ASYNC_PROGRESS, TAG = 9, DEVICES = 1 << kDLVPI | 1 << kDLCPU };
#define NAME "threaded"
#define BOUND "THREADED_BOUND"
#endif
enum { REST_US = 200, TAGS = 15 };

/* A call with the addresses where its memory really is. */
struct mapped_call {
    struct accel_engine_call call;
    void *request;
};

static struct {
    pthread_t thread;
    int transports;
    bool quit; /* with the lock of async */
} progress_thread;

/* Without looking why nothing comes: that is for those who wait. */
static void *
run (void *unused)
{
    (void) unused;
    pthread_mutex_lock (&lock);
    while (!progress_thread.quit) {
        bool moved = false;
        for (struct async *async = all; async; async = async->next)
            moved = (!async->is_coalescing && progress (async)) || moved;
        pthread_mutex_unlock (&lock);
        if (!moved)
            usleep (REST_US);
        pthread_mutex_lock (&lock);
    }
    pthread_mutex_unlock (&lock);
    return NULL;
}

static pthread_t opener;

static bool
threaded_has_one_thread (void *transport)
{
    (void) transport;
    return getenv (BOUND);
}

static void
check_thread (void)
{
    if (getenv (BOUND) && !pthread_equal (opener, pthread_self ()))
        abort ();
}

static enum accel_status
begin_thread (enum accel_status status)
{
    sigset_t every, before;
    opener = pthread_self ();
    if (status || !HAS_THREAD || progress_thread.transports++)
        return status;
    sigfillset (&every);
    pthread_sigmask (SIG_SETMASK, &every, &before);
    progress_thread.quit = false;
    if (pthread_create (&progress_thread.thread, NULL, run, NULL))
        abort ();
    pthread_sigmask (SIG_SETMASK, &before, NULL);
    return ACCEL_OK;
}

static enum accel_status
threaded_open (void **transport, struct accel_engine_job *job, struct accel_error *err)
{
    return begin_thread (async_open (transport, job, err));
}

/* A group_id has the mark of the engine that made it. */
static enum accel_status
threaded_make_group (void *transport, int size, int64_t *group_id, struct accel_error *err)
{
    enum accel_status status = pipes_make_group (transport, size, group_id, err);
    *group_id = (*group_id & ~(int64_t) TAGS) | TAG;
    return status;
}

static enum accel_status
threaded_join_group (void *transport, const int *ranks, int size, int rank, int64_t group_id, void **group,
                   struct accel_error *err)
{
    const struct async *async = transport;
    if ((group_id & TAGS) != TAG)
        return async->pipes->helpers->fail (err, ACCEL_ERR_INVALID, "engine " NAME " got the id of another engine");
    return begin_thread (async_join_group (transport, ranks, size, rank, group_id, group, err));
}

static void
threaded_close (void *transport)
{
    if (HAS_THREAD && !--progress_thread.transports) {
        pthread_mutex_lock (&lock);
        progress_thread.quit = true;
        pthread_mutex_unlock (&lock);
        pthread_join (progress_thread.thread, NULL);
    }
    async_close (transport);
}

/* What is not in host memory is found through the stream. */
static void *
real (const struct accel_engine_call *call, const void *seen)
{
    bool is_host = call->device.device_type == kDLCPU;
    return is_host || !seen ? (void *) (uintptr_t) seen : standin_at (call->stream, seen);
}

static enum accel_status
threaded_start (void *transport, const struct accel_engine_call *call, void **work, struct accel_error *err)
{
    check_thread ();
    bool is_ours = (unsigned) call->device.device_type < 32 && (DEVICES >> call->device.device_type & 1);
    if (!is_ours || !call->stream != (call->device.device_type == kDLCPU))
        return call->helpers->fail (err, ACCEL_ERR_INVALID, "engine " NAME " got a call that is not for it");
    struct mapped_call *mapped = malloc (sizeof *mapped);
    if (!mapped)
        return call->helpers->fail (err, ACCEL_ERR_NOMEM, "engine " NAME ": no memory");
    mapped->call = *call;
    mapped->call.send = real (call, call->send);
    mapped->call.recv = real (call, call->recv);
    enum accel_status status = async_start (transport, &mapped->call, &mapped->request, err);
    if (status)
        free (mapped);
    else
        *work = mapped;
    return status;
}

static bool
threaded_test (void *transport, void *work)
{
    const struct mapped_call *mapped = work;
    check_thread ();
    return async_test (transport, mapped->request);
}

static enum accel_status
threaded_wait (void *transport, void *work, struct accel_error *err)
{
    struct mapped_call *mapped = work;
    check_thread ();
    while (HAS_THREAD && !async_test (transport, mapped->request))
        usleep (REST_US);
    enum accel_status status = async_wait (transport, mapped->request, err);
    free (mapped);
    return status;
}

static enum accel_status
threaded_run (void *transport, const struct accel_engine_call *call, struct accel_error *err)
{
    void *work = NULL;
    enum accel_status status = threaded_start (transport, call, &work, err);
    return status ? status : threaded_wait (transport, work, err);
}

#ifdef POLLED
static enum accel_status
polled_start (void *transport, const struct accel_engine_call *call, void **work, struct accel_error *err)
{
    (void) transport, (void) work;
    return call->helpers->fail (err, ACCEL_ERR_INVALID, "engine polled got a start, but does not move on by itself");
}
#define threaded_start polled_start
#endif

ACCEL_API const struct accel_engine threaded_engine = {
    .abi = ACCEL_ENGINE_ABI,
    .size = sizeof (struct accel_engine),
    .name = NAME,
    .kinds = ACCEL_ENGINE_BITS (ACCEL_ENGINE_KIND_COUNT),
    .reduces = ACCEL_ENGINE_BITS (ACCEL_DTYPE_COUNT),
    .devices = DEVICES,
    .flags = MODE,
    .open = threaded_open,
    .close = threaded_close,
    .give_up = async_give_up,
    .make_group = threaded_make_group,
    .join_group = threaded_join_group,
    .run = threaded_run,
    .awaits = async_awaits,
    .start = threaded_start,
    .test = threaded_test,
    .wait = threaded_wait,
    .coalesce_begin = async_coalesce_begin,
    .coalesce_end = async_coalesce_end,
    .has_one_thread = threaded_has_one_thread,
};
