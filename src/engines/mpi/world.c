/* SPDX-License-Identifier: Apache-2.0 */
/* MPI in this process: who started it, whether it fits the job, and how it ends. */
#include <config.h>

#include "engines/mpi/communicators.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum {
    PROTOCOL = 7,
    FAILED_LEAVE_MS = 5000, /* for MPI_Finalize() after a failure */
    LEAVE_MS = 10000,       /* the same, once all ranks are known to call it */
    QUIET_MS = 60,          /* for the slowest rank to leave a barrier after the first one */
    POLL_NS = 200000,
    HOUR_MS = 3600000,
    EXIT_MS = 200,
};

/* What ranks say of themselves before anything else. */
struct hello {
    uint32_t protocol, control_bytes;
    int32_t rank, size;
    uint64_t token; /* rank 0's is the session */
    struct host_info whereabouts;
};

int64_t
now_ns (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t
now_ms (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC_COARSE, &now); /* every few ms, in a fifth of the time */
    return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

bool
world_check (int code, const char *call)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (code == MPI_SUCCESS)
        return true;
    if (*mpi.world.error)
        return false;
    MPI_Error_string (code, text, &length);
    snprintf (mpi.world.error, sizeof mpi.world.error, "%s: %.200s", call, text);
    return false;
}

bool
world_may_have_threads (void)
{
    return mpi.world.level >= (mpi.world.is_ours ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE);
}

/* A thread of the engine gets a moment to give the lock back.  One that holds it for ever blocks that thread too. */
static void
stop_threads (void)
{
    struct timespec until;
    atomic_store (&mpi.world.is_over, true);
    clock_gettime (CLOCK_REALTIME, &until);
    until.tv_nsec += EXIT_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    if (!pthread_mutex_timedlock (&mpi.world.lock, &until))
        pthread_mutex_unlock (&mpi.world.lock);
}

/* A program that started MPI itself may end it without accel_close(). */
static int
note_finalize (MPI_Comm comm, int key, void *value, void *extra)
{
    (void) comm, (void) key, (void) value, (void) extra;
    stop_threads ();
    return MPI_SUCCESS;
}

/* What MPI does when a process exits must not meet a thread. */
static void
stop_at_exit (void)
{
    if (mpi.world.watched == getpid ())
        stop_threads ();
}

bool
world_watch_end (void)
{
    int key = MPI_KEYVAL_INVALID;
    if (mpi.world.watched)
        return true;
    if (atexit (stop_at_exit)
        || MPI_Comm_create_keyval (MPI_COMM_NULL_COPY_FN, note_finalize, &key, NULL) != MPI_SUCCESS
        || MPI_Comm_set_attr (MPI_COMM_SELF, key, NULL) != MPI_SUCCESS)
        return false;
    mpi.world.watched = getpid ();
    return true;
}

/* Open MPI has a function for that, which is not in its headers.  @return what was set before */
static bool
set_yielding (bool yields)
{
    struct world *world = &mpi.world;
    if (!world->has_looked_for_yielding)
        *(void **) &world->set_yielding = dlsym (RTLD_DEFAULT, "opal_progress_set_yield_when_idle");
    world->has_looked_for_yielding = true;
    return world->set_yielding && world->set_yielding (yields);
}

bool
world_yields_when_idle (void)
{
    bool shares = set_yielding (false);
    if (shares)
        set_yielding (true);
    return shares;
}

void
world_suspend_yield (bool keeps)
{
    if (keeps && !mpi.world.polling_depth++)
        mpi.world.was_yielding = set_yielding (false);
    else if (!keeps && !--mpi.world.polling_depth)
        set_yielding (mpi.world.was_yielding);
}

bool
world_may_call (void)
{
    return mpi.world.level >= MPI_THREAD_SERIALIZED || pthread_equal (mpi.world.opener, pthread_self ());
}

const char *
world_level_name (int level)
{
    return level >= MPI_THREAD_MULTIPLE     ? "MPI_THREAD_MULTIPLE"
           : level >= MPI_THREAD_SERIALIZED ? "MPI_THREAD_SERIALIZED"
           : level >= MPI_THREAD_FUNNELED   ? "MPI_THREAD_FUNNELED"
                                            : "MPI_THREAD_SINGLE";
}


/* ---- beginning and end ---- */

static bool
is_any_set (const char *const *names)
{
    while (*names && !getenv (*names))
        names++;
    return *names;
}

/* MPI_Init() in a process that mpirun did not start makes it a job of its own, so each rank would be rank 0 of 1; or,
 * in Open MPI, it ends the process if it knows that srun has started it. */
enum accel_status
world_probe (const struct accel_engine_job *job, struct accel_error *err)
{
    static const char *const pmix[] = { "PMIX_RANK", "PMIX_NAMESPACE", "OMPI_COMM_WORLD_RANK", NULL };
    static const char *const pmi[] = { "PMI_RANK", "PMI_FD", "PMI_PORT", "PMI_CONTROL_PORT", "MPIRUN_RANK", NULL };
    int is_running = 0;
    if (job->world_size == 1 || (MPI_Initialized (&is_running) == MPI_SUCCESS && is_running) || is_any_set (pmix))
        return ACCEL_OK;
    if (!is_any_set (pmi))
        return job->helpers->fail (err, ACCEL_ERR_UNSUPPORTED,
                                   "cannot connect ranks that MPI did not start (PMIX_RANK, PMI_RANK and others are "
                                   "not set): start the program with 'accelerate launch --mpi yes', with 'mpirun -n "
                                   "%d PROGRAM' or with 'srun --mpi=pmix'",
                                   job->world_size);
#ifdef OPEN_MPI
    return job->helpers->fail (err, ACCEL_ERR_UNSUPPORTED,
                               "cannot connect ranks that were started through PMI-1 or PMI-2 (PMI_RANK or PMI_FD is "
                               "set, but not PMIX_RANK), because it was built with Open MPI, which needs PMIx: start "
                               "the program with Open MPI's mpirun, or with 'srun --mpi=pmix'");
#else
    return ACCEL_OK;
#endif
}

/* A rank that never ends would keep the others here for ever. */
static void *
watch_leaving (void *user)
{
    (void) user;
    for (int64_t left; (left = atomic_load (&mpi.final.deadline_ms) - now_ms ()) > 0;)
        nanosleep (&(struct timespec){ .tv_sec = left < 1000 ? 0 : 1, .tv_nsec = left < 1000 ? left * 1000000 : 0 },
                   NULL);
    if (!atomic_load (&mpi.final.is_over))
        _exit (mpi.final.status);
    return NULL;
}

/* MPICH 4.0 over UCX and TCP: a rank that is in MPI_Finalize() waits for an answer from each other one, and gives none
 * after it has got all.  One that gives answers before it asks for its own, because it is still busy in another call of
 * MPI, hangs.  So the ranks meet, and then do nothing until all have left the barrier. */
static void
leave_together (void)
{
#ifdef MPICH_VERSION
    MPI_Request request = MPI_REQUEST_NULL;
    int done = 0;
    if (!mpi.final.has_hosts || !mpi.world.has_comm || mpi.world.is_stuck || *mpi.world.error
        || !world_check (MPI_Ibarrier (mpi.world.comm, &request), "MPI_Ibarrier"))
        return;
    while (world_check (MPI_Test (&request, &done, MPI_STATUS_IGNORE), "MPI_Test") && !done)
        nanosleep (&(struct timespec){ .tv_nsec = POLL_NS }, NULL);
    atomic_store (&mpi.final.deadline_ms, now_ms () + LEAVE_MS);
    nanosleep (&(struct timespec){ .tv_nsec = QUIET_MS * 1000000L }, NULL);
#endif
}

static void
set_init (bool *what)
{
    pthread_mutex_lock (&mpi.init.lock);
    *what = true;
    pthread_cond_broadcast (&mpi.init.changed);
    pthread_mutex_unlock (&mpi.init.lock);
}

/* @return whether @what was set before the deadline */
static bool
await_init (const bool *what, int64_t deadline)
{
    const struct timespec until = { .tv_sec = deadline / 1000, .tv_nsec = deadline % 1000 * 1000000 };
    pthread_mutex_lock (&mpi.init.lock);
    while (!*what && pthread_cond_timedwait (&mpi.init.changed, &mpi.init.lock, &until) != ETIMEDOUT)
        ;
    bool is_set = *what;
    pthread_mutex_unlock (&mpi.init.lock);
    return is_set;
}

static void *
run_mpi (void *user)
{
    (void) user;
    mpi.init.code = MPI_Init_thread (NULL, NULL, MPI_THREAD_SERIALIZED, &mpi.world.level);
    set_init (&mpi.init.has_begun);
    if (mpi.init.code != MPI_SUCCESS)
        return NULL;
    while (!await_init (&mpi.init.must_end, now_ms () + HOUR_MS))
        ;
    leave_together ();
    MPI_Finalize ();
    set_init (&mpi.init.is_over);
    return NULL;
}

/* mpirun ends a job of which a process has called MPI_Init() but not MPI_Finalize().  That is right for one that has
 * failed, or has not called accel_close(): the others may be waiting for it.  What MPI does when a process exits must
 * not meet a thread that is still in MPI_Init(). */
static void
finish (int status, void *user)
{
    int is_over = 0;
    pthread_t watcher;
    (void) user;
    if (mpi.final.pid != getpid ())
        return;
    bool is_inside = !await_init (&mpi.init.has_begun, 0);
    if (!is_inside && (status || mpi.world.session || MPI_Finalized (&is_over) != MPI_SUCCESS || is_over))
        return;
    fflush (NULL);
    if (is_inside)
        _exit (status);
    mpi.final.status = status;
    bool has_failed = mpi.world.is_stuck || *mpi.world.error;
    mpi.final.deadline_ms = now_ms () + (has_failed ? FAILED_LEAVE_MS : mpi.final.timeout_ms);
    if (pthread_create (&watcher, NULL, watch_leaving, NULL))
        return;
    pthread_detach (watcher);
    set_init (&mpi.init.must_end);
    while (!await_init (&mpi.init.is_over, now_ms () + HOUR_MS))
        ;
    atomic_store (&mpi.final.is_over, true);
}

bool
world_start_thread (pthread_t *thread, void *(*run) (void *user))
{
    sigset_t all, before;
    sigfillset (&all);
    pthread_sigmask (SIG_SETMASK, &all, &before);
    bool is_started = !pthread_create (thread, NULL, run, NULL);
    pthread_sigmask (SIG_SETMASK, &before, NULL);
    return is_started;
}

static bool
start_init_thread (void)
{
    pthread_condattr_t attributes;
    pthread_t thread;
    pthread_condattr_init (&attributes);
    pthread_condattr_setclock (&attributes, CLOCK_MONOTONIC);
    pthread_cond_init (&mpi.init.changed, &attributes);
    pthread_condattr_destroy (&attributes);
    return world_start_thread (&thread, run_mpi) && !pthread_detach (thread);
}

/* Open MPI's plug-ins take MPI's symbols from the program, but a module is loaded for itself alone. */
void
world_export_symbols (void)
{
    Dl_info info;
    void *symbol = dlsym (RTLD_DEFAULT, "MPI_Init_thread");
    if (!symbol && dladdr ((void *) (uintptr_t) &MPI_Init_thread, &info) && info.dli_fname)
        dlopen (info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

/* "0", "0-1" */
static void
add_ranks (char *text, size_t size, int first, int end)
{
    size_t length = strlen (text);
    const char *comma = length ? ", " : "";
    if (first + 1 == end)
        snprintf (text + length, size - length, "%s%d", comma, first);
    else if (first < end)
        snprintf (text + length, size - length, "%s%d-%d", comma, first, end - 1);
}

/* The ranks of one host have met before, so some of another host have not come. */
static enum accel_status
fail_to_begin (const struct accel_engine_job *job, struct accel_error *err)
{
    int first = job->rank - job->local_rank;
    char others[64] = "", where[96] = "other ranks";
    mpi.world.is_stuck = true;
    add_ranks (others, sizeof others, 0, first);
    add_ranks (others, sizeof others, first + job->local_world_size, job->world_size);
    if (*others)
        snprintf (where, sizeof where, "ranks of other hosts (%s)", others);
    return job->helpers->fail (err, ACCEL_ERR_TIMEOUT,
                               "accel_open: rank %d timed out after %u ms in MPI_Init_thread(), waiting for %s to call "
                               "accel_open()", job->rank, job->timeout_ms, where);
}

/* The program has started MPI, or we have, for an earlier job. */
static enum accel_status
join_mpi (const struct accel_engine_job *job, struct accel_error *err)
{
    int is_main = 0;
    MPI_Query_thread (&mpi.world.level);
    if (mpi.final.pid || mpi.world.level >= MPI_THREAD_SERIALIZED
        || (MPI_Is_thread_main (&is_main) == MPI_SUCCESS && is_main))
        return ACCEL_OK;
    return job->helpers->fail (err, ACCEL_ERR_UNSUPPORTED,
                               "accel_open: engine mpi: MPI was initialized with %s: call accel_open() on the thread "
                               "that called MPI_Init()", world_level_name (mpi.world.level));
}

static enum accel_status
start_mpi (const struct accel_engine_job *job, struct accel_error *err)
{
    int is_running = 0, is_over = 0;
    MPI_Initialized (&is_running);
    MPI_Finalized (&is_over);
    if (is_over)
        return job->helpers->fail (err, ACCEL_ERR_INVALID,
                                   "accel_open: engine mpi: the program has called MPI_Finalize() before");
    if (is_running)
        return join_mpi (job, err);
    world_export_symbols ();
    if (!start_init_thread ())
        return job->helpers->fail (err, ACCEL_ERR_SYSTEM, "accel_open: engine mpi: cannot start a thread");
    bool has_begun = await_init (&mpi.init.has_begun, now_ms () + job->timeout_ms);
    if (has_begun && mpi.init.code != MPI_SUCCESS) {
        mpi.world.is_stuck = true;
        return job->helpers->fail (err, ACCEL_ERR_SYSTEM, "accel_open: engine mpi: MPI_Init_thread() failed");
    }
    mpi.final.pid = getpid ();
    mpi.world.is_ours = true;
    on_exit (finish, NULL); /* now, so that it runs before what MPI has registered */
    return has_begun ? ACCEL_OK : fail_to_begin (job, err);
}

/* ---- meeting ---- */

enum accel_status
world_fail (const struct accel_engine_helpers *helpers, struct accel_error *err)
{
    mpi.world.is_stuck = true;
    return helpers->fail (err, ACCEL_ERR_SYSTEM, "engine mpi: %s", mpi.world.error);
}

/* MPI cannot wait with a deadline. */
static enum accel_status
await (MPI_Request *requests, int count, const struct accel_engine_job *job, struct accel_error *err)
{
    int64_t deadline = now_ms () + job->timeout_ms;
    int done = 0;
    while (world_check (MPI_Testall (count, requests, &done, MPI_STATUSES_IGNORE), "MPI_Testall") && !done) {
        if (now_ms () >= deadline) {
            mpi.world.is_stuck = true;
            return job->helpers->fail (err, ACCEL_ERR_TIMEOUT,
                                       "accel_open: rank %d timed out after %u ms, waiting for other ranks to call "
                                       "accel_open()",
                                       job->rank, job->timeout_ms);
        }
        sched_yield ();
        nanosleep (&(struct timespec){ .tv_nsec = POLL_NS }, NULL);
    }
    return done ? ACCEL_OK : world_fail (job->helpers, err);
}

static enum accel_status
check_size (const struct accel_engine_job *job, struct accel_error *err)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int size = 0, length = 0;
    MPI_Comm_size (MPI_COMM_WORLD, &size);
    if (size == job->world_size)
        return ACCEL_OK;
    MPI_Get_library_version (version, &length);
    version[strcspn (version, ",\n")] = '\0';
    return job->helpers->fail (err, ACCEL_ERR_INVALID,
                               "accel_open: engine mpi: MPI connects %d process%s, but this job has %d: %s was not "
                               "started by its own mpirun, or srun has no PMI that it knows (srun --mpi=list)",
                               size, size == 1 ? "" : "es", job->world_size, version);
}

/* MPI_Comm_dup() would wait for the other ranks without a deadline. */
static enum accel_status
duplicate (const struct accel_engine_job *job, struct accel_error *err)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int *most = NULL, has_most = 0;
    if (mpi.world.has_comm)
        return ACCEL_OK;
    if (!world_check (MPI_Comm_idup (MPI_COMM_WORLD, &mpi.world.comm, &request), "MPI_Comm_idup"))
        return world_fail (job->helpers, err);
    enum accel_status status = await (&request, 1, job, err);
    if (status)
        return status;
    mpi.world.has_comm = true;
    MPI_Comm_set_errhandler (mpi.world.comm, MPI_ERRORS_RETURN);
    MPI_Comm_get_attr (MPI_COMM_WORLD, MPI_TAG_UB, (void *) &most, &has_most);
    mpi.world.last_tag = has_most ? *most - 1 : 32766;
    mpi.world.next_tag = TAG_FIRST;
    return ACCEL_OK;
}

/* Errors on the way to our own communicator must not end the program either. */
static enum accel_status
duplicate_safely (const struct accel_engine_job *job, struct accel_error *err)
{
    MPI_Errhandler before;
    if (MPI_Comm_get_errhandler (MPI_COMM_WORLD, &before) != MPI_SUCCESS)
        return duplicate (job, err);
    MPI_Comm_set_errhandler (MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    enum accel_status status = duplicate (job, err);
    MPI_Comm_set_errhandler (MPI_COMM_WORLD, before);
    MPI_Errhandler_free (&before);
    return status;
}


/* The variables that name ranks may be other ones than MPI's. */
static enum accel_status
check_hellos (const struct accel_engine_job *job, const struct hello *all, int *peers, struct accel_error *err)
{
    for (int i = 0; i < job->world_size; i++)
        peers[i] = -1;
    for (int i = 0; i < job->world_size; i++) {
        const struct hello *hello = &all[i];
        if (hello->protocol != PROTOCOL || hello->control_bytes != CONTROL_BYTES)
            return job->helpers->fail (err, ACCEL_ERR_INVALID,
                                       "accel_open: engine mpi: process %d of MPI has another release of libaccel", i);
        if (hello->size != job->world_size || hello->rank < 0 || hello->rank >= job->world_size)
            return job->helpers->fail (err, ACCEL_ERR_INVALID,
                                       "accel_open: engine mpi: process %d of MPI is rank %d of %d, but this one is "
                                       "rank %d of %d",
                                       i, hello->rank, hello->size, job->rank, job->world_size);
        if (peers[hello->rank] >= 0)
            return job->helpers->fail (err, ACCEL_ERR_INVALID,
                                       "accel_open: engine mpi: processes %d and %d of MPI are both rank %d",
                                       peers[hello->rank], i, hello->rank);
        peers[hello->rank] = i;
    }
    mpi.world.session = all[peers[0]].token;
    return ACCEL_OK;
}

/* From each to each, so that all connections are made: MPI makes them at the first message, and needs both sides. */
static enum accel_status
say_hello (const struct accel_engine_job *job, struct hello *all, MPI_Request *requests, int *peers,
           struct accel_error *err)
{
    struct hello *own = &all[job->world_size]; /* MPI may still send it after a timeout */
    *own = (struct hello){ .protocol = PROTOCOL, .control_bytes = CONTROL_BYTES, .rank = job->rank,
                           .size = job->world_size };
    host_prepare (job, &own->whereabouts);
    own->whereabouts.has_threads = world_may_have_threads ();
    bool good = getrandom (&own->token, sizeof own->token, 0) == sizeof own->token;
    own->token |= 1;
    for (int i = 0; good && i < job->world_size; i++)
        good = world_check (MPI_Irecv (&all[i], (int) sizeof *own, MPI_BYTE, i, TAG_HELLO, mpi.world.comm,
                                       &requests[2 * i]), "MPI_Irecv")
               && world_check (MPI_Isend (own, (int) sizeof *own, MPI_BYTE, i, TAG_HELLO, mpi.world.comm,
                                          &requests[2 * i + 1]), "MPI_Isend");
    if (!good)
        return world_fail (job->helpers, err);
    enum accel_status status = await (requests, 2 * job->world_size, job, err);
    return status ? status : check_hellos (job, all, peers, err);
}

/* Find the ranks of this host.  All ranks can share memory with theirs, or none does. */
static enum accel_status
find_hosts (const struct accel_engine_job *job, const struct hello *all, const int *peers, struct accel_error *err)
{
    struct host_info *whereabouts = calloc ((size_t) job->world_size, sizeof *whereabouts);
    MPI_Request request = MPI_REQUEST_NULL;
    for (int i = 0; whereabouts && i < job->world_size; i++)
        whereabouts[i] = all[peers[i]].whereabouts;
    mpi.world.can_share = whereabouts && host_attach (job, whereabouts, peers);
    free (whereabouts);
    if (!world_check (MPI_Iallreduce (&mpi.world.can_share, &mpi.world.all_can_share, 1, MPI_INT, MPI_MIN,
                                      mpi.world.comm, &request), "MPI_Iallreduce"))
        return world_fail (job->helpers, err);
    enum accel_status status = await (&request, 1, job, err);
    if (!status && mpi.world.all_can_share)
        host_settle ();
    else
        host_unshare (); /* a job that failed is closed by engine_open() */
    return status;
}

/* Of what all ranks have said, so that they agree; each one's own variables need not. */
static bool
are_several_hosts (const struct hello *all, int size)
{
    for (int i = 0; i < size; i++)
        if (all[i].whereabouts.size < size)
            return true;
    return false;
}

static enum accel_status
meet (const struct accel_engine_job *job, int *peers, struct accel_error *err)
{
    size_t size = (size_t) job->world_size;
    struct hello *all = calloc (size + 1, sizeof *all); /* the last one is this rank's */
    MPI_Request *requests = calloc (2 * size, sizeof *requests);
    enum accel_status status
        = all && requests ? say_hello (job, all, requests, peers, err)
                          : job->helpers->fail (err, ACCEL_ERR_NOMEM, "accel_open: engine mpi: out of memory");
    mpi.final.has_hosts = !status && are_several_hosts (all, job->world_size);
    if (mpi.final.has_hosts)
        status = find_hosts (job, all, peers, err);
    if (!mpi.world.is_stuck) { /* otherwise MPI still has them */
        free (all);
        free (requests);
    }
    return status;
}

enum accel_status
world_open (const struct accel_engine_job *job, int *peers, struct accel_error *err)
{
    if (mpi.world.session)
        return job->helpers->fail (err, ACCEL_ERR_INVALID, "accel_open: this process has already joined its job");
    if (mpi.world.is_stuck)
        return job->helpers->fail (err, ACCEL_ERR_UNSUPPORTED,
                                   "accel_open: engine mpi: an earlier job of this process failed, and MPI cannot be "
                                   "used again: start the program again");
    mpi.final.timeout_ms = job->timeout_ms;
    mpi.world.opener = pthread_self ();
    enum accel_status status = start_mpi (job, err);
    if (!status)
        status = check_size (job, err);
    if (!status)
        status = duplicate_safely (job, err);
    if (!status)
        status = meet (job, peers, err);
    return status;
}
