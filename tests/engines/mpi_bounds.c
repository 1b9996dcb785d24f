/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a program that looks at what engine mpi takes of a process, and gives back; needs engine mpi.
 *
 *   mpi_bounds early       rank 0 gives up before rank 1, which waits for the same call
 *   mpi_bounds asleep      rank 1 starts a large transfer, and is stopped
 *   mpi_bounds full        files have a limit: accel_alloc() has more than fits into the memory of the host
 *   mpi_bounds crowded     the same: a group has large calls, but one of its ranks has no memory left for them
 *   mpi_bounds unshared    one host cannot share memory, so that of the other one goes, too
 *   mpi_bounds threads     the engine's thread ends with the job
 *   mpi_bounds serialized  after MPI_Init_thread() of the program, the engine has no thread
 *   mpi_bounds divided     the same, and another thread reports a gradient that is divided
 *   mpi_bounds mixed       rank 2, on a host with rank 1, waits for it in MPI's own words, with a broadcast in flight
 *   mpi_bounds freed       rank 0 gives up, and frees its buffer, before rank 1 has read it
 *   mpi_bounds unsent      rank 1 has its part of a broadcast before rank 2 has got what rank 1 says of it */
#include <config.h>

#include "tests/engines/mpi_job.h"

#include <dirent.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* Before the job is open. */
static bool
is_first (void)
{
    const char *text = getenv ("RANK");
    return text && !strcmp (text, "0");
}

/* Rank 2 does not come before rank 1 has heard that rank 0 has given up. */
static void
give_up_first (void)
{
    enum { NAP_US = 10000, NAPS = 10000, SHORT_MS = 4000, LONG_MS = 60000 };
    join_job (is_first () ? SHORT_MS : LONG_MS);
    for (int i = 0; rank == 2 && i < NAPS && access ("early", F_OK); i++)
        usleep (NAP_US);
    enum accel_status status = rank == 2 ? ACCEL_OK : accel_comm_barrier (world, &err);
    must (rank != 0 || status == ACCEL_ERR_TIMEOUT, "rank 0 does not give up");
    must (rank != 1 || (status == ACCEL_ERR_PEER && strstr (err.text, "rank 0 gave up: ")), "not who gave up");
    FILE *file = rank == 1 ? fopen ("early", "w") : NULL;
    must (rank != 1 || (file && !fclose (file)), "a file");
}

/* Rank 1 is stopped for longer than the timeout.  On a busy machine, the transfer may be over before it is: once
 * more. */
static void
sleep_in_transfer (void)
{
    enum { TIMEOUT_MS = 1500, NAP_S = 3, TRIES = 5, COUNT = 8 << 20 };
    enum accel_status status = ACCEL_OK;
    struct accel_work *work;
    join_job (TIMEOUT_MS);
    float *own = calloc (COUNT, sizeof *own), *all = calloc ((size_t) accel_comm_size (world) * COUNT, sizeof *all);
    must (own && all, "calloc");
    for (int i = 0; !status && i < TRIES; i++) {
        if (rank == 1 && !fork ()) {
            sleep (NAP_S);
            kill (getppid (), SIGCONT);
            _exit (0);
        }
        must (!accel_comm_all_gather_start (&work, world, own, all, COUNT, ACCEL_FLOAT32, &err), "start");
        if (rank == 1)
            raise (SIGSTOP);
        status = accel_work_wait (work, &err);
    }
    must (rank == 1 || (status && strstr (err.text, "waiting for rank 1")), "the rank that sleeps is not named");
}

/* ---- memory ---- */

static void
limit_files (rlim_t bytes)
{
    const struct rlimit limit = { bytes, bytes };
    must (!setrlimit (RLIMIT_FSIZE, &limit), "setrlimit");
}

static bool
is_filled (const unsigned char *at, size_t bytes, unsigned char value)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != value)
            return false;
    return true;
}

/* The arenas of two ranks have 64 MiB each, as little as there can be. */
static void
fill_arena (void)
{
    enum { BYTES = 24 << 20, COUNT = 4 };
    void *all[COUNT];
    limit_files ((rlim_t) 200 << 20);
    join_job (0);
    for (int i = 0; i < COUNT; i++) {
        must (!accel_alloc (acc, BYTES, &all[i], &err), "accel_alloc");
        memset (all[i], 10 * rank + i + 1, BYTES);
    }
    must (!accel_comm_barrier (world, &err), "barrier");
    for (int i = 0; i < COUNT; i++) {
        must (is_filled (all[i], BYTES, (unsigned char) (10 * rank + i + 1)), "memory is given twice");
        accel_free (acc, all[i]);
    }
}

/* @return where there is room in the arena */
static void *
find_room (void)
{
    enum { BYTES = 2 << 20 };
    void *memory;
    must (!accel_alloc (acc, BYTES, &memory, &err), "accel_alloc");
    accel_free (acc, memory);
    return memory;
}

/* Rank 0 has no room for counters and a stage, so the calls go from rank to rank. */
static void
crowd_group (void)
{
    enum { FULL = 62 << 20, COUNT = 100000 };
    struct accel_comm *group;
    void *memory, *room;
    int64_t *values = NULL;
    limit_files ((rlim_t) 200 << 20);
    join_job (0);
    must (rank || !accel_alloc (acc, FULL, &memory, &err), "accel_alloc");
    must (!accel_alloc (acc, COUNT * sizeof *values, (void **) &values, &err), "accel_alloc");
    memset (values, 0, COUNT * sizeof *values);
    room = find_room ();
    must (!accel_comm_split (&group, world, 0, rank, &err), "split");
    must (!accel_comm_all_reduce (group, values, values, COUNT, ACCEL_INT64, ACCEL_SUM, &err), "sum");
    must (rank != 1 || find_room () != room, "a group has no memory");
    accel_comm_destroy (group);
    must (rank != 1 || find_room () == room, "a group leaves its memory behind");
    must (!accel_comm_split (&group, world, 0, rank, &err), "split");
    int64_t size = accel_comm_size (group);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < COUNT; i++)
            values[i] = rank + i;
        must (!accel_comm_all_reduce (group, values, values, COUNT, ACCEL_INT64, ACCEL_SUM, &err), "sum");
        must (!accel_comm_broadcast (group, values, COUNT / 2, ACCEL_INT64, 1, &err), "broadcast");
        for (int i = 0; i < COUNT; i++)
            must (values[i] == size * (size - 1) / 2 + size * i, "a wrong sum");
        if (!rank && !round)
            accel_free (acc, memory);
    }
    accel_free (acc, values);
    accel_comm_destroy (group);
}

static int
count_in (const char *folder, const char *words)
{
    char path[512], target[512];
    int count = 0;
    DIR *entries = opendir (folder);
    must (entries, folder);
    for (struct dirent *entry; (entry = readdir (entries));) {
        snprintf (path, sizeof path, "%s/%s", folder, entry->d_name);
        ssize_t length = *words ? readlink (path, target, sizeof target - 1) : 0;
        target[length > 0 ? length : 0] = '\0';
        count += strstr (target, words) && entry->d_name[0] != '.';
    }
    closedir (entries);
    return count;
}

static void
unshare_memory (void)
{
    if (is_first ())
        limit_files (20 << 20); /* more than MPI has of its own */
    join_job (0);
    must (!count_in ("/proc/self/fd", "memfd:accel-mpi"), "the memory is still open");
}

/* ---- threads ---- */

static int
count_threads (void)
{
    return count_in ("/proc/self/task", "");
}

/* @return threads of rank 0 that there are only while it waits for rank 1 */
static int
count_more_threads (void)
{
    enum { LATE_US = 300000 };
    struct accel_work *work;
    int before = count_threads ();
    usleep (rank ? LATE_US : 0);
    must (!accel_comm_barrier_start (&work, world, &err), "start");
    int more = count_threads () - before;
    must (!accel_work_wait (work, &err), "wait");
    return rank ? 0 : more;
}

static void
end_thread (void)
{
    join_job (0);
    int before = count_threads (), more = count_more_threads ();
    must (more == !rank, "not one thread");
    accel_close (acc);
    must (rank || count_threads () <= before, "the thread is still there");
}

static void
have_no_thread (void)
{
    int provided = 0;
    MPI_Init_thread (NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
    join_job (0);
    must (provided == MPI_THREAD_MULTIPLE || !count_more_threads (), "a thread beside those of the program");
    accel_close (acc);
    MPI_Finalize ();
}

/* No thread of the engine passes on for rank 2 what comes for both. */
static void
wait_in_mpi (void)
{
    enum { COUNT = 8000, TIMEOUT_MS = 5000 };
    struct accel_work *work;
    unsigned char values[COUNT], word = 0;
    MPI_Init (NULL, NULL);
    join_job (TIMEOUT_MS);
    memset (values, rank ? 0 : 7, sizeof values);
    must (!accel_comm_broadcast_start (&work, world, values, COUNT, ACCEL_UINT8, 0, &err), "start");
    if (rank == 2)
        MPI_Recv (&word, 1, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    must (!accel_work_wait (work, &err) && is_filled (values, COUNT, 7), "broadcast");
    if (rank == 1)
        MPI_Send (&word, 1, MPI_BYTE, 2, 0, MPI_COMM_WORLD);
    accel_close (acc);
    MPI_Finalize ();
}

/* Rank 1 starts a broadcast, but sees to it only when rank 0 has waited in vain. */
static void
read_late (void)
{
    enum { BYTES = 256 << 10, NAP_US = 10000, NAPS = 10000, SHORT_MS = 2500, LONG_MS = 60000 };
    struct accel_work *work;
    void *values;
    MPI_Init (NULL, NULL);
    join_job (is_first () ? SHORT_MS : LONG_MS);
    must (!accel_alloc (acc, BYTES, &values, &err), "accel_alloc");
    memset (values, rank ? 0 : 7, BYTES);
    must (!accel_comm_broadcast_start (&work, world, values, BYTES, ACCEL_UINT8, 0, &err), "start");
    for (int i = 0; rank == 1 && i < NAPS && access ("freed", F_OK); i++)
        usleep (NAP_US);
    enum accel_status status = accel_work_wait (work, &err);
    must (rank != 0 || status == ACCEL_ERR_TIMEOUT, "rank 0 does not give up");
    must (rank != 1 || status, is_filled (values, BYTES, 7) ? "not late" : "memory that was freed is broadcast");
    must (rank != 1 || (status == ACCEL_ERR_PEER && strstr (err.text, "rank 0 gave up: ")), "not who gave up");
    accel_free (acc, values);
    FILE *file = rank == 0 ? fopen ("freed", "w") : NULL;
    must (rank != 0 || (file && !fclose (file)), "a file");
}

/* ---- what MPI still has ---- */

/* The engine calls these two: no message is sent before its receiver takes it. */
static bool holds;

int
MPI_Isend (const void *at, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
    return (holds ? PMPI_Issend : PMPI_Isend) (at, count, type, to, tag, comm, request);
}

int
MPI_Testall (int count, MPI_Request *requests, int *done, MPI_Status *statuses)
{
    *done = 0;
    return holds ? MPI_SUCCESS : PMPI_Testall (count, requests, done, statuses);
}

static void
stop_for (unsigned ms)
{
    pid_t pid = fork ();
    if (!pid) {
        usleep (ms * 1000);
        kill (getppid (), SIGCONT);
        _exit (0);
    }
    raise (SIGSTOP);
    waitpid (pid, NULL, 0);
}

/* A call that is over although MPI still has a message of it would make the job one that has failed. */
static void
send_all (void)
{
    enum { BYTES = 256 << 10, BARRIERS = 16, NAP_US = 2000, LATE_US = 100000, STOP_MS = 500 };
    void *values;
    struct accel_work *work;
    join_job (0);
    must (!accel_alloc (acc, BYTES, &values, &err), "accel_alloc");
    memset (values, rank ? 0 : 7, BYTES);
    for (int i = 0; i < BARRIERS; i++) { /* rank 1 sends what its host says, until there are no more bundles */
        usleep (rank == 1 ? NAP_US : 0);
        must (!accel_comm_barrier (world, &err), "barrier");
    }
    holds = rank == 1;
    usleep (rank == 2 ? 0 : (rank + 1) * LATE_US);
    must (!accel_comm_broadcast_start (&work, world, values, BYTES, ACCEL_UINT8, 0, &err), "start");
    if (rank == 2)
        stop_for (STOP_MS);
    must (!accel_work_wait (work, &err) && is_filled (values, BYTES, 7), "broadcast");
    holds = false;
    accel_free (acc, values);
    accel_close (acc);
    join_job (0);
    accel_close (acc);
}

static struct accel_model *divided;

static void *
report_first (void *user)
{
    struct accel_error *why = user;
    must (accel_grad_ready (divided, 0, why) == ACCEL_ERR_UNSUPPORTED
              && strstr (why->text, "only the thread that called accel_open() may communicate"),
          "another thread may report");
    return NULL;
}

static enum accel_status
backward_elsewhere (void *user, float scale, struct accel_error *why)
{
    pthread_t thread;
    (void) user, (void) scale;
    must (!pthread_create (&thread, NULL, report_first, why) && !pthread_join (thread, NULL), "thread");
    return ACCEL_ERR_UNSUPPORTED;
}

/* Without a thread of the library, the one that reports the last gradient of a bucket averages it. */
static void
report_elsewhere (void)
{
    static int64_t shape[] = { 9000 };
    const struct accel_sharding_options sharding = { .strategy = ACCEL_SHARDING_SHARD_GRAD_OP };
    DLTensor data = { .device = { kDLCPU, 0 }, .ndim = 1, .shape = shape, .dtype = { kDLFloat, 32, 1 } }, grad = data;
    struct accel_parameter parameter = { "w", &data, &grad };
    MPI_Init (NULL, NULL);
    join_job (60000);
    must (!accel_model_create (&divided, &parameter, 1, &err), "model");
    must (!accel_model_set_sharding (divided, &sharding, &err), "sharding");
    must (!accel_prepare (acc, &err, divided), "prepare");
    must (accel_backward (acc, divided, 0, backward_elsewhere, NULL, &err), "the pass went well");
    must (strstr (err.text, "only the thread that called accel_open() may communicate"), "not why");
    accel_model_destroy (divided);
}

int
main (int argc, char **argv)
{
    static const struct {
        const char *how;
        void (*run) (void);
        bool closes;
    } scenarios[] = {
        { "early", give_up_first, false }, { "asleep", sleep_in_transfer, false },
        { "full", fill_arena, false }, { "crowded", crowd_group, false },
        { "unshared", unshare_memory, false },
        { "divided", report_elsewhere, false },
        { "threads", end_thread, true },   { "serialized", have_no_thread, true }, { "mixed", wait_in_mpi, true },
        { "freed", read_late, false },
        { "unsent", send_all, true },
    };
    const char *how = argc > 1 ? argv[1] : "";
    size_t i = 0;
    setvbuf (stdout, NULL, _IOLBF, 0);
    while (i < sizeof scenarios / sizeof *scenarios && strcmp (how, scenarios[i].how))
        i++;
    if (i == sizeof scenarios / sizeof *scenarios)
        return 2;
    scenarios[i].run ();
    printf ("as expected\n");
    if (!scenarios[i].closes)
        accel_close (acc);
    if (scenarios[i].run == read_late || scenarios[i].run == report_elsewhere)
        MPI_Finalize ();
    return 0;
}
