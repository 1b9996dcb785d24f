/* SPDX-License-Identifier: Apache-2.0 */
/* Engine "wheels": lanes, for host memory and one of the kinds of standin_memory.h, with a thread of its own that moves
 * on what has been started, as a GPU would.  So it may have works in flight while this process waits elsewhere.
 *
 * Compiled with BARROW, engine "barrow": for the other kind of memory, too, and without the thread.  Beside the host's
 * engine, it must never be asked to start anything.
 *
 * With WHEELS_BOUND or BARROW_BOUND in the environment, only the thread that opened it may call it. */
#include <accel/engine.h>

#include "../standin_stream.h"

/* The symbol of the module is our table; that of lanes gets another name. */
extern const struct accel_engine wheels_engine __asm__ (ACCEL_ENGINE_SYMBOL);
#undef ACCEL_ENGINE_SYMBOL
#define ACCEL_ENGINE_SYMBOL "lanes_table"

#include "../lanes/lanes.c"

#include <signal.h>

#ifdef BARROW
enum { ROLLS = 0, MODE = 0, TAG = 5, DEVICES = 1 << kDLVPI | 1 << kDLExtDev };
#define NAME "barrow"
#define BOUND "BARROW_BOUND"
#else
enum { ROLLS = 1, MODE = ACCEL_ENGINE_ASYNC_PROGRESS, TAG = 9, DEVICES = 1 << kDLVPI | 1 << kDLCPU };
#define NAME "wheels"
#define BOUND "WHEELS_BOUND"
#endif
enum { REST_US = 200, TAGS = 15 };

/* A call with the addresses where its memory really is. */
struct load {
    struct accel_engine_call call;
    void *flight;
};

static struct {
    pthread_t thread;
    int transports;
    bool quit; /* with the lock of lanes */
} mover;

/* Without looking why nothing comes: that is for those who wait. */
static void *
turn (void *unused)
{
    (void) unused;
    pthread_mutex_lock (&lock);
    while (!mover.quit) {
        bool moved = false;
        for (struct lanes *lanes = all; lanes; lanes = lanes->next)
            moved = (!lanes->grouping && progress (lanes)) || moved;
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
wheels_has_one_thread (void *transport)
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
roll (enum accel_status status)
{
    sigset_t every, before;
    opener = pthread_self ();
    if (status || !ROLLS || mover.transports++)
        return status;
    sigfillset (&every);
    pthread_sigmask (SIG_SETMASK, &every, &before);
    mover.quit = false;
    if (pthread_create (&mover.thread, NULL, turn, NULL))
        abort ();
    pthread_sigmask (SIG_SETMASK, &before, NULL);
    return ACCEL_OK;
}

static enum accel_status
wheels_open (void **transport, struct accel_engine_job *job, struct accel_error *err)
{
    return roll (lanes_open (transport, job, err));
}

/* A place has the mark of the engine that made it. */
static enum accel_status
wheels_make_group (void *transport, int size, int64_t *place, struct accel_error *err)
{
    enum accel_status status = pipes_make_group (transport, size, place, err);
    *place = (*place & ~(int64_t) TAGS) | TAG;
    return status;
}

static enum accel_status
wheels_join_group (void *transport, const int *ranks, int size, int rank, int64_t place, void **group,
                   struct accel_error *err)
{
    const struct lanes *lanes = transport;
    if ((place & TAGS) != TAG)
        return lanes->pipes->helpers->fail (err, ACCEL_ERR_INVALID, "engine " NAME " got the place of another engine");
    return roll (lanes_join_group (transport, ranks, size, rank, place, group, err));
}

static void
wheels_close (void *transport)
{
    if (ROLLS && !--mover.transports) {
        pthread_mutex_lock (&lock);
        mover.quit = true;
        pthread_mutex_unlock (&lock);
        pthread_join (mover.thread, NULL);
    }
    lanes_close (transport);
}

/* What is not in host memory is found through the stream. */
static void *
real (const struct accel_engine_call *call, const void *seen)
{
    bool is_host = call->device.device_type == kDLCPU;
    return is_host || !seen ? (void *) (uintptr_t) seen : standin_at (call->stream, seen);
}

static enum accel_status
wheels_start (void *transport, const struct accel_engine_call *call, void **work, struct accel_error *err)
{
    check_thread ();
    bool is_ours = (unsigned) call->device.device_type < 32 && (DEVICES >> call->device.device_type & 1);
    if (!is_ours || !call->stream != (call->device.device_type == kDLCPU))
        return call->helpers->fail (err, ACCEL_ERR_INVALID, "engine " NAME " got a call that is not for it");
    struct load *load = malloc (sizeof *load);
    if (!load)
        return call->helpers->fail (err, ACCEL_ERR_NOMEM, "engine " NAME ": no memory");
    load->call = *call;
    load->call.send = real (call, call->send);
    load->call.recv = real (call, call->recv);
    enum accel_status status = lanes_start (transport, &load->call, &load->flight, err);
    if (status)
        free (load);
    else
        *work = load;
    return status;
}

static bool
wheels_test (void *transport, void *work)
{
    const struct load *load = work;
    check_thread ();
    return lanes_test (transport, load->flight);
}

static enum accel_status
wheels_wait (void *transport, void *work, struct accel_error *err)
{
    struct load *load = work;
    check_thread ();
    while (ROLLS && !lanes_test (transport, load->flight))
        usleep (REST_US);
    enum accel_status status = lanes_wait (transport, load->flight, err);
    free (load);
    return status;
}

static enum accel_status
wheels_run (void *transport, const struct accel_engine_call *call, struct accel_error *err)
{
    void *work = NULL;
    enum accel_status status = wheels_start (transport, call, &work, err);
    return status ? status : wheels_wait (transport, work, err);
}

#ifdef BARROW
static enum accel_status
barrow_start (void *transport, const struct accel_engine_call *call, void **work, struct accel_error *err)
{
    (void) transport, (void) work;
    return call->helpers->fail (err, ACCEL_ERR_INVALID, "engine barrow got a start, but does not move on by itself");
}
#define wheels_start barrow_start
#endif

ACCEL_API const struct accel_engine wheels_engine = {
    .abi = ACCEL_ENGINE_ABI,
    .size = sizeof (struct accel_engine),
    .name = NAME,
    .kinds = ACCEL_ENGINE_BITS (ACCEL_ENGINE_KIND_COUNT),
    .reduces = ACCEL_ENGINE_BITS (ACCEL_DTYPE_COUNT),
    .devices = DEVICES,
    .flags = MODE,
    .open = wheels_open,
    .close = wheels_close,
    .give_up = lanes_give_up,
    .make_group = wheels_make_group,
    .join_group = wheels_join_group,
    .run = wheels_run,
    .awaits = lanes_awaits,
    .start = wheels_start,
    .test = wheels_test,
    .wait = wheels_wait,
    .group_begin = lanes_group_begin,
    .group_end = lanes_group_end,
    .has_one_thread = wheels_has_one_thread,
};
