/* SPDX-License-Identifier: Apache-2.0 */
/* What nccl_script.c has around engine nccl: functions of NCCL whose answers the test decides, a clock that only sleeps
 * move, calls of CUDA and of the C library that fail on demand, and a lock of which each use is checked.  All that the
 * engine does is in `said`, in order. */
#ifndef TESTS_STANDIN_NCCL_SCRIPT_H
#define TESTS_STANDIN_NCCL_SCRIPT_H

#include "engines/nccl/nccl_private.h"
#define operation standin_operation /* another one than the engine's */
#include "tests/standin/cuda/standin.h"
#undef operation
#include "lib/base/error.h"
#include "tests/tap.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- what the engine does ---- */

static char said[8192];

__attribute__ ((format (printf, 1, 2))) static void
say (const char *format, ...)
{
    size_t length = strlen (said);
    va_list args;
    va_start (args, format);
    int more = vsnprintf (said + length, sizeof said - length, format, args);
    va_end (args);
    if (length + (size_t) more < sizeof said)
        return;
    printf ("Bail out! the engine goes on for ever: '%.200s'\n", said);
    exit (1);
}

/* The call of `name` that comes after `turn` - 1 others of it has that result; of CUDA, an error. */
static struct {
    const char *name;
    int turn, result;
} plan;

static void
let_fail (const char *name, int turn, int result)
{
    plan.name = name;
    plan.turn = turn;
    plan.result = result;
}

static int
planned (const char *name)
{
    return plan.name && !strcmp (plan.name, name) && !--plan.turn ? plan.result : 0;
}

/* ---- the lock ---- */

static _Thread_local int locks_held;
/* What another thread does as soon as this one lets go of the lock, which it has then. */
static _Thread_local void (*after_unlock) (void);

int __real_pthread_mutex_lock (pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock (pthread_mutex_t *mutex);
#pragma GCC visibility push(default) /* the linker has libraries call what is wrapped, too */
int __wrap_pthread_mutex_lock (pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock (pthread_mutex_t *mutex);

int
__wrap_pthread_mutex_lock (pthread_mutex_t *mutex)
{
    if (locks_held++)
        abort (); /* it would wait for itself */
    return __real_pthread_mutex_lock (mutex);
}

int
__wrap_pthread_mutex_unlock (pthread_mutex_t *mutex)
{
    void (*next) (void) = after_unlock;
    after_unlock = NULL;
    if (next)
        next ();
    if (--locks_held)
        abort ();
    return __real_pthread_mutex_unlock (mutex);
}

/* ---- time ---- */

static int64_t clock_us = 5000000, release_us; /* when what is stuck ends; 0: never */
static unsigned yields;
static bool has_threads; /* a thread passes calls on, whose pauses are of this machine's time */
static int paused_us;    /* the last one */
static bool is_stuck; /* no collective ends */
static unsigned pauses; /* and looks at the clock, since a job was opened */
enum { MOST_PAUSES = 1000000 };

static bool
is_held (void)
{
    return __atomic_load_n (&is_stuck, __ATOMIC_ACQUIRE);
}

static void
set_stuck (bool stuck)
{
    __atomic_store_n (&is_stuck, stuck, __ATOMIC_RELEASE);
}

/* A loop without an end lets the clock move or looks at it.  With threads, how often depends on the machine. */
static void
note_pause (void)
{
    if (has_threads || ++pauses <= MOST_PAUSES)
        return;
    printf ("Bail out! the engine waits for ever, after '%s'\n", said);
    exit (1);
}

int __wrap_clock_gettime (clockid_t id, struct timespec *now);
int __real_usleep (useconds_t us);
int __wrap_usleep (useconds_t us);
int __wrap_sched_yield (void);

int
__wrap_clock_gettime (clockid_t id, struct timespec *now)
{
    int64_t us = id == CLOCK_MONOTONIC ? clock_us : 0;
    note_pause ();
    *now = (struct timespec){ .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 + 999 };
    return 0;
}

int
__wrap_usleep (useconds_t us)
{
    if (has_threads) {
        __atomic_store_n (&paused_us, (int) us, __ATOMIC_RELEASE);
        return __real_usleep (1000);
    }
    note_pause ();
    clock_us += us;
    if (release_us && clock_us >= release_us)
        set_stuck (false);
    return 0;
}

int
__wrap_sched_yield (void)
{
    yields++;
    note_pause ();
    return 0;
}

/* ---- the C library ---- */

static int open_files; /* that are open */
static const char *boot_file; /* in place of a file that is opened */
static const char *lacking;   /* what NCCL lacks */

FILE *__real_fopen (const char *path, const char *mode);
FILE *__wrap_fopen (const char *path, const char *mode);
int __real_fclose (FILE *file);
int __wrap_fclose (FILE *file);
void *__real_dlopen (const char *name, int flags);
void *__wrap_dlopen (const char *name, int flags);
void *__real_dlsym (void *library, const char *name);
void *__wrap_dlsym (void *library, const char *name);
int __real_pthread_atfork (void (*prepare) (void), void (*parent) (void), void (*child) (void));
int __wrap_pthread_atfork (void (*prepare) (void), void (*parent) (void), void (*child) (void));
int __wrap_pthread_create (pthread_t *thread, const pthread_attr_t *attributes, void *(*run) (void *), void *user);

FILE *
__wrap_fopen (const char *path, const char *mode)
{
    FILE *file = __real_fopen (boot_file ? boot_file : path, mode);
    open_files += file != NULL;
    return file;
}

int
__wrap_fclose (FILE *file)
{
    open_files--;
    return __real_fclose (file);
}

static bool has_driver;
static int driver_event_query (cudaEvent_t event);

void *
__wrap_dlopen (const char *name, int flags)
{
    if (has_driver && !strcmp (name, "libcuda.so.1"))
        return __real_dlopen (NULL, RTLD_NOW);
    return __real_dlopen (planned ("dlopen") ? "libnothing-for-test.so" : name, flags);
}

void *
__wrap_dlsym (void *library, const char *name)
{
    if (has_driver && !strcmp (name, "cuEventQuery"))
        return (void *) (uintptr_t) driver_event_query;
    return lacking && !strcmp (name, lacking) ? NULL : __real_dlsym (library, name);
}

int
__wrap_pthread_atfork (void (*prepare) (void), void (*parent) (void), void (*child) (void))
{
    say ("atfork; ");
    return planned ("pthread_atfork") ? ENOMEM : __real_pthread_atfork (prepare, parent, child);
}

/* The threads that wait pass calls on, in an order that is the same each time. */
static int wakes; /* of a thread that would do it for them */

int __real_pthread_create (pthread_t *thread, const pthread_attr_t *attributes, void *(*run) (void *), void *user);

int
__wrap_pthread_create (pthread_t *thread, const pthread_attr_t *attributes, void *(*run) (void *), void *user)
{
    wakes++;
    return has_threads ? __real_pthread_create (thread, attributes, run, user) : EAGAIN;
}

/* ---- CUDA ---- */

static int events, streams; /* that exist; many more, with wrong flags */
static cudaStream_t filled, copied, awaited; /* the last ones */
static cudaStream_t recorded, delayed; /* the first of which an event was recorded, and the last that waits for one */

static enum standin_progress
await_release (void *unused)
{
    (void) unused;
    return is_held () ? STANDIN_STALLED : STANDIN_OVER;
}

/* Only what is stuck takes time. */
static void
await (cudaEvent_t event)
{
    if (!is_held ())
        cudaEventSynchronize (event);
}

#define CUDA_CALLS(X)                                                                              \
    X (cudaDeviceGetPCIBusId, (void) 0, (char *id, int size, int device), (id, size, device))      \
    X (cudaStreamCreateWithFlags, streams += flags == cudaStreamNonBlocking ? 1 : 99,              \
       (cudaStream_t *stream, unsigned flags), (stream, flags))                                    \
    X (cudaStreamDestroy, streams -= !!stream, (cudaStream_t stream), (stream))                              \
    X (cudaEventCreateWithFlags, events += flags == cudaEventDisableTiming ? 1 : 99,               \
       (cudaEvent_t *event, unsigned flags), (event, flags))                                       \
    X (cudaEventDestroy, events--, (cudaEvent_t event), (event))                                   \
    X (cudaEventRecord, recorded = recorded ? recorded : stream,                                   \
       (cudaEvent_t event, cudaStream_t stream), (event, stream))                                  \
    X (cudaEventQuery, await (event), (cudaEvent_t event), (event))                                \
    X (cudaStreamWaitEvent, (events += 99 * flags, delayed = stream),                              \
       (cudaStream_t stream, cudaEvent_t event, unsigned flags), (stream, event, flags))           \
    X (cudaMalloc, (void) 0, (void **memory, size_t bytes), (memory, bytes))                       \
    X (cudaMemsetAsync, filled = stream,                                                                  \
       (void *to, int byte, size_t bytes, cudaStream_t stream), (to, byte, bytes, stream))         \
    X (cudaMemcpyAsync, copied = stream,                                                                  \
       (void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream),  \
       (to, from, bytes, kind, stream))                                                            \
    X (cudaStreamSynchronize, awaited = stream, (cudaStream_t stream), (stream))                   \
    X (cudaDeviceSynchronize, say ("Wait; "), (void), ())                                          \
    X (cudaFree, say ("Free; "), (void *memory), (memory))
#define X(name, effect, parameters, arguments)                                   \
    cudaError_t __real_##name parameters;                                        \
    cudaError_t __wrap_##name parameters;                                        \
    cudaError_t __wrap_##name parameters                                         \
    {                                                                            \
        cudaError_t error = (cudaError_t) planned (#name);                       \
        if (!error)                                                              \
            effect;                                                              \
        return error ? call_fail (error) : __real_##name arguments;              \
    }
CUDA_CALLS (X)
#undef X

/* The runtime's last error stays. */
static int
driver_event_query (cudaEvent_t event)
{
    cudaError_t before = cudaGetLastError (), error = __wrap_cudaEventQuery (event);
    cudaGetLastError ();
    call_fail (before);
    return (int) error;
}

cudaError_t __real_cudaGetDeviceCount (int *count);
cudaError_t __wrap_cudaGetDeviceCount (int *count);

/* What it leaves after an error says nothing. */
cudaError_t
__wrap_cudaGetDeviceCount (int *count)
{
    cudaError_t error = (cudaError_t) planned ("cudaGetDeviceCount");
    *count = 3;
    return error ? call_fail (error) : __real_cudaGetDeviceCount (count);
}

/* ---- NCCL ---- */

static char made[32]; /* at which communicators are: the first one of a job is made */
static int made_count;
static int busy_for;  /* answers until NCCL has finished; -1: it never does */
static ncclResult_t async_error;
static const char *last_words = "";
static char *buffer; /* of the GPU, where all arrays are */

/* Without the lock, another thread could call NCCL, too. */
static void
begin_call (const char *name, ncclComm_t comm)
{
    if (locks_held != 1)
        say ("without the lock: ");
    say ("%s", name);
    if (comm)
        say (" @%d", (int) ((char *) comm - made));
}

/* @return the planned result; in turn, that it is in progress or done */
static ncclResult_t
answer (const char *name)
{
    static unsigned turns;
    int result = planned (name);
    return result ? (ncclResult_t) result : ++turns % 3 ? ncclInProgress : ncclSuccess;
}

static int
place (const void *address)
{
    return address ? (int) ((const char *) address - buffer) : -1;
}

/* Each communicator has a stream. */
static ncclResult_t
queue (const char *name, ncclComm_t comm, cudaStream_t stream)
{
    const struct communicator *owner = engine.comms;
    while (owner && owner->nccl_comm != comm)
        owner = owner->next;
    if (!owner || owner->stream != stream)
        say (" on a wrong stream");
    say ("; ");
    if (is_held () && stream)
        standin_poll (name, stream, await_release, NULL, 0);
    return answer (name);
}

static ncclResult_t
fake_GetVersion (int *version)
{
    *version = VERSION_LEAST;
    return ncclSuccess;
}

static ncclResult_t
fake_GetUniqueId (ncclUniqueId *id)
{
    say ("GetUniqueId; ");
    memset (id, 'i', sizeof *id);
    return (ncclResult_t) planned ("GetUniqueId");
}

static const char *
fake_GetErrorString (ncclResult_t result)
{
    return result == ncclSystemError ? "unhandled system error" : result == ncclRemoteError
        ? "remote error" : "an error";
}

static const char *
fake_GetLastError (ncclComm_t comm)
{
    return comm ? last_words : "words of no communicator";
}

static ncclComm_t
new_comm (void)
{
    return (ncclComm_t) (void *) &made[made_count++];
}

static void
check_config (const ncclConfig_t *config)
{
    if (config->magic != 0xcafebeef || config->blocking)
        say (" which blocks");
    say ("; ");
}

static ncclResult_t
fake_CommInitRankConfig (ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    begin_call ("Init", NULL);
    say (" %d of %d %c", rank, ranks, id.internal[NCCL_UNIQUE_ID_BYTES - 1]);
    check_config (config);
    int result = planned ("Init");
    if (!result)
        *comm = new_comm ();
    return result ? (ncclResult_t) result : ncclInProgress;
}

static ncclResult_t
fake_CommSplit (ncclComm_t comm, int colour, int key, ncclComm_t *child, ncclConfig_t *config)
{
    begin_call ("Split", comm);
    say (" %d %d", colour, key);
    check_config (config);
    ncclResult_t result = answer ("Split");
    *child = result && result != ncclInProgress ? NULL : new_comm ();
    return result;
}

static ncclResult_t
fake_CommGetAsyncError (ncclComm_t comm, ncclResult_t *state)
{
    if (locks_held != 1 || !comm)
        say ("without the lock: Ask; ");
    int result = planned ("Ask");
    if (result)
        return (ncclResult_t) result;
    *state = async_error ? async_error : busy_for ? ncclInProgress : ncclSuccess;
    busy_for -= busy_for > 0;
    return ncclSuccess;
}

#define FAKE_OF_COMM(name)                  \
    static ncclResult_t                     \
    fake_Comm##name (ncclComm_t comm)       \
    {                                       \
        begin_call (#name, comm);           \
        say ("; ");                         \
        int result = planned (#name);       \
        return (ncclResult_t) result;       \
    }
FAKE_OF_COMM (Finalize)
FAKE_OF_COMM (Destroy)
FAKE_OF_COMM (Abort)

static ncclResult_t
fake_CommRegister (const ncclComm_t comm, void *memory, size_t bytes, void **handle)
{
    begin_call ("Register", comm);
    say (" %zu; ", bytes);
    *handle = memory;
    return (ncclResult_t) planned ("Register");
}

static ncclResult_t
fake_CommDeregister (const ncclComm_t comm, void *handle)
{
    begin_call ("Deregister", comm);
    say ("%s; ", handle ? "" : " nothing");
    return ncclSuccess;
}

static ncclResult_t
fake_MemAlloc (void **memory, size_t bytes)
{
    say ("MemAlloc %zu; ", bytes);
    return planned ("MemAlloc") || __real_cudaMalloc (memory, bytes) ? ncclUnhandledCudaError : ncclSuccess;
}

static ncclResult_t
fake_MemFree (void *memory)
{
    say ("MemFree; ");
    return __real_cudaFree (memory) ? ncclUnhandledCudaError : ncclSuccess;
}

static ncclResult_t
fake_GroupStart (void)
{
    begin_call ("GroupStart; ", NULL);
    return (ncclResult_t) planned ("GroupStart");
}

static ncclResult_t
fake_GroupEnd (void)
{
    begin_call ("GroupEnd; ", NULL);
    return answer ("GroupEnd");
}

static ncclResult_t
fake_AllReduce (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                cudaStream_t stream)
{
    begin_call ("AllReduce", comm);
    say (" %d %d %zu %d %d", place (send), place (recv), count, (int) type, (int) op);
    return queue ("AllReduce", comm, stream);
}

static ncclResult_t
fake_ReduceScatter (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                    cudaStream_t stream)
{
    begin_call ("ReduceScatter", comm);
    say (" %d %d %zu %d %d", place (send), place (recv), count, (int) type, (int) op);
    return queue ("ReduceScatter", comm, stream);
}

static ncclResult_t
fake_AllGather (const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream)
{
    begin_call ("AllGather", comm);
    say (" %d %d %zu %d", place (send), place (recv), count, (int) type);
    return queue ("AllGather", comm, stream);
}

static ncclResult_t
fake_Broadcast (const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                cudaStream_t stream)
{
    begin_call ("Broadcast", comm);
    say (" %d %d %zu %d %d", place (send), place (recv), count, (int) type, root);
    return queue ("Broadcast", comm, stream);
}

static ncclResult_t
fake_Send (const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    begin_call ("Send", comm);
    say (" %d %zu %d %d", place (send), count, (int) type, peer);
    return queue ("Send", comm, stream);
}

static ncclResult_t
fake_Recv (void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    begin_call ("Recv", comm);
    say (" %d %zu %d %d", place (recv), count, (int) type, peer);
    return queue ("Recv", comm, stream);
}

/* All of them, and nothing left of what was before. */
static void
fake_nccl (void)
{
#define X(name) nccl.name = fake_##name;
    NCCL_NEEDED (X)
    NCCL_OPTIONAL (X)
#undef X
    plan.name = NULL;
    wakes = 0;
    release_us = 0;
    busy_for = 0;
    async_error = ncclSuccess;
    last_words = "";
    made_count = 0;
    set_stuck (false);
    *said = '\0';
}

/* ---- jobs ---- */

enum { RECV = 4096, BYTES = 8192, TIMEOUT_MS = 500 };

extern const struct accel_engine accel_engine;
static struct accel_error err;

/* What ranks tell each other, as in engines/nccl/nccl.c. */
struct hello {
    char id[NCCL_UNIQUE_ID_BYTES];
    char bus[32];
    uint64_t host;
    char words[80];
};

static struct accel_engine_job job;
static struct hello own;
static const struct hello *hellos; /* of all; NULL: each has another GPU */
static int64_t exchange_us;        /* how long it takes */
static const char *rounds;         /* what the last rank says of itself, while NCCL connects; at the end, it is gone */

static enum accel_status
say_hello (struct hello *all)
{
    for (int i = 0; i < job.world_size; i++) {
        all[i] = hellos ? hellos[i] : own;
        if (!hellos)
            all[i].bus[0] = (char) ('a' + i);
    }
    memset (all[0].id, 'i', sizeof all[0].id);
    return planned ("hello") ? accel_fail (&err, ACCEL_ERR_PEER, "no hello") : ACCEL_OK;
}

static enum accel_status
exchange (void *context, const void *mine, void *all, size_t bytes, struct accel_error *why)
{
    if (context != &job || locks_held || why != &err)
        say ("a wrong exchange; ");
    clock_us += exchange_us;
    if (malloc_usable_size (all) < bytes * (size_t) job.world_size || (bytes != 1 && bytes != sizeof own))
        say ("a wrong size; ");
    if (bytes == sizeof own) {
        memcpy (&own, mine, sizeof own);
        return say_hello (all);
    }
    say ("mine %d; ", *(const char *) mine);
    if (!*rounds)
        return accel_fail (&err, ACCEL_ERR_PEER, "rank 1 is gone");
    memset (all, 0, (size_t) job.world_size);
    ((char *) all)[job.world_size - 1] = (char) (*rounds++ - '0');
    ((char *) all)[job.rank] = *(const char *) mine;
    return ACCEL_OK;
}

static int looks, looks_until_failure;
static const struct accel_engine_call *looked_at;

static enum accel_status
look (void *context, const struct accel_engine_call *call, struct accel_error *why)
{
    if (context != &job || locks_held)
        say ("a wrong look; ");
    looked_at = call;
    return ++looks == looks_until_failure ? accel_fail (why, ACCEL_ERR_PEER, "rank %d is %%%% dead", 1) : ACCEL_OK;
}

static enum accel_status
timed_out (void *context, const struct accel_engine_call *call, struct accel_error *why)
{
    if (context != &job || locks_held || call != looked_at)
        say ("a wrong timeout; ");
    return accel_fail (why, ACCEL_ERR_TIMEOUT, "timed out, waiting for rank 1");
}

static const struct accel_engine_helpers helpers = {
    .size = sizeof helpers, .context = &job, .fail = accel_fail, .look = look, .timed_out = timed_out,
    .exchange = exchange,
};

static enum accel_status
try_to_open (void **transport, int rank, int size)
{
    job = (struct accel_engine_job){
        .size = sizeof job, .rank = rank, .world_size = size, .local_rank = 1, .timeout_ms = TIMEOUT_MS,
        .helpers = &helpers,
    };
    err = (struct accel_error){ .text = "" };
    looks = looks_until_failure = 0;
    pauses = 0;
    enum accel_status status = accel_engine.probe (&job, &err);
    return status ? status : accel_engine.open (transport, &job, &err);
}

/* A job of which what has been said so far is known. */
static struct communicator *
open_job (int rank, int size)
{
    void *transport = NULL;
    fake_nccl ();
    rounds = "0";
    hellos = NULL;
    if (try_to_open (&transport, rank, size)) {
        printf ("Bail out! %s\n", err.text);
        exit (1);
    }
    *said = '\0';
    return transport;
}

/* @param wanted  what was said at the end */
static void
close_job (void *transport, const char *wanted)
{
    set_stuck (false);
    *said = '\0';
    accel_engine.close (transport);
    if (strcmp (said, wanted) || events || streams || locks_held || engine.comms || cudaGetLastError ())
        ok (false, "closed: '%s', not '%s'; %d events, %d streams", said, wanted, events, streams);
}
#define IN_ORDER "Finalize @0; Destroy @0; "

static bool
is_error (enum accel_status status, const char *text, const char *name)
{
    bool good = status && status == err.code && !strcmp (err.text, text) && !locks_held;
    ok (good, "%s", name);
    if (!good)
        diag ("%d (%d): '%s', wanted '%s'", (int) status, (int) err.code, err.text, text);
    return good;
}

static struct accel_engine_call
call_of (enum accel_engine_kind kind, enum accel_dtype dtype, enum accel_op op, size_t count, size_t element_bytes,
         int root)
{
    return (struct accel_engine_call){
        .helpers = &helpers, .send = buffer, .recv = buffer + RECV, .count = count, .element_bytes = element_bytes,
        .kind = kind, .dtype = dtype, .op = op, .root = root, .device = { kDLCUDA, 1 }, .stream = (void *) 1,
    };
}

static struct accel_engine_call
sum (void)
{
    return call_of (ACCEL_ENGINE_ALL_REDUCE, ACCEL_FLOAT32, ACCEL_SUM, 3, 4, -1);
}

/* The engine counts whole milliseconds. */
static bool
is_ms (int64_t since_us, int ms)
{
    int64_t us = clock_us - since_us;
    return us > (ms - 1) * 1000 && us < (ms + 1) * 1000;
}

/* Let time pass, and look at a work that does not end.  @return whether it is over */
static bool
test_after (void *transport, void *work, int64_t ms)
{
    clock_us += ms * 1000;
    return accel_engine.test (transport, work);
}

#endif
