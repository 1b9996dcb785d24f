/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a program that uses MPI itself, or more elements than an int can count; needs engine mpi.
 *
 *   mpi_program init         MPI_Init() comes before accel_open(): one thread may communicate
 *   mpi_program serialized   the same with MPI_Init_thread()
 *   mpi_program strays       after MPI_Init(), other threads open the job, and wait for a call
 *   mpi_program finalized    accel_open() comes after MPI_Finalize()
 *   mpi_program large        more than 2^31 elements
 *   mpi_program many         thousands of calls, which leave no memory behind
 *   mpi_program message      100 MiB, more than MPI gets at once, and their sum
 *   mpi_program alone        a large sum moves on while rank 1 computes
 *   mpi_program ahead        rank 0 starts many small sums, rank 1 of its host pauses among them, other hosts are late
 *   mpi_program tests        rank 1 does not come; rank 0 tests its work now and then until the time is out
 *   mpi_program after        barriers after pauses take one message from each host to each rank of the other one
 *   mpi_program forks        children of rank 0 take memory while the engine moves a barrier on
 *   mpi_program ended        rank 0 calls MPI_Finalize() with a barrier in flight, in vain
 *   mpi_program waits        short waits, all of which together exceed the timeout
 *   mpi_program broken WHAT  MPI_Irecv() of data fails on the last rank: of a broadcast, or a sum
 *   mpi_program elsewhere    ranks 1 and 2 fail in a group; rank 0 waits for rank 1 in another one
 *   mpi_program absent       rank 1 never opens the job
 *   mpi_program freed        accel_free() gives memory back in a way that MPI hears of
 *   mpi_program limited      with a limit on address space, there is some left for the program
 *   mpi_program hears        rank 3 ends while rank 2, of the same host, computes
 *
 * What is wrong is one line on standard error and exit status 1. */
#include <config.h>

#include <accel/accel.h>

#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WINDOW = 32 << 20, WINDOWS = 65 };

static void
must (bool good, const char *what, const struct accel_error *err)
{
    if (good)
        return;
    fprintf (stderr, "%s: %s\n", what, err->text);
    _exit (1);
}

/* ---- MPI of the program ---- */

struct barrier {
    struct accel_comm *comm;
    struct accel_error err;
    enum accel_status status;
};

static void *
meet_elsewhere (void *user)
{
    struct barrier *barrier = user;
    barrier->status = accel_comm_barrier (barrier->comm, &barrier->err);
    return NULL;
}

/* A pass of which a thread of the library averages the first gradients, if one may. */
struct pass {
    struct accel_model *model;
    float grads[2][2];
    float rank;
};

static enum accel_status
backward (void *user, float scale, struct accel_error *err)
{
    struct pass *pass = user;
    for (size_t i = 2; i-- > 0;) {
        for (int j = 0; j < 2; j++)
            pass->grads[i][j] = scale * (pass->rank + (float) i);
        enum accel_status status = accel_grad_ready (pass->model, i, err);
        if (status)
            return status;
        usleep (100000); /* a thread that should not be there has time to communicate */
    }
    return ACCEL_OK;
}

static void
train (struct accel *acc)
{
    struct accel_error err = { 0 };
    struct accel_comm *world = accel_world (acc);
    struct pass pass = { .rank = (float) accel_comm_rank (world) };
    float data[2][2] = { { 0 } }, mean = ((float) accel_comm_size (world) - 1) / 2;
    int64_t shape[] = { 2 };
    DLTensor tensors[4];
    struct accel_parameter parameters[2];
    for (int i = 0; i < 4; i++)
        tensors[i] = (DLTensor){ .data = i < 2 ? data[i] : pass.grads[i - 2], .device = { kDLCPU, 0 }, .ndim = 1,
                                 .dtype = { kDLFloat, 32, 1 }, .shape = shape };
    for (int i = 0; i < 2; i++)
        parameters[i] = (struct accel_parameter){ i ? "b" : "a", &tensors[i], &tensors[2 + i] };
    const struct accel_ddp_options options = { .bucket_cap_mb = 1e-6, .overlap = ACCEL_OVERLAP_ALWAYS };
    must (!accel_model_create (&pass.model, parameters, 2, &err), "accel_model_create", &err);
    must (!accel_model_set_ddp (pass.model, &options, &err), "accel_model_set_ddp", &err);
    must (!accel_prepare (acc, &err, pass.model), "accel_prepare", &err);
    must (!accel_backward (acc, pass.model, 1, backward, &pass, &err), "accel_backward", &err);
    for (int i = 0; i < 2; i++)
        must (pass.grads[i][1] == mean + (float) i, "the averaged gradients", &err);
    accel_model_destroy (pass.model);
}

/* A collective of the program between two of ours, of which another thread calls the second. */
static void
share (bool has_one_thread)
{
    struct accel_error err = { 0 };
    struct accel *acc;
    struct barrier barrier = { 0 };
    pthread_t thread;
    float one = 1, sum = 0;
    int ours = 1, theirs = 0;
    must (!accel_open (&acc, NULL, &err), "accel_open", &err);
    struct accel_comm *world = accel_world (acc);
    float size = (float) accel_comm_size (world);
    must (!accel_comm_all_reduce (world, &one, &sum, 1, ACCEL_FLOAT32, ACCEL_SUM, &err) && sum == size, "sum", &err);
    MPI_Allreduce (&ours, &theirs, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    must ((float) theirs == size, "MPI_Allreduce", &err);
    train (acc);
    barrier.comm = world;
    must (!pthread_create (&thread, NULL, meet_elsewhere, &barrier) && !pthread_join (thread, NULL), "thread", &err);
    if (has_one_thread)
        must (barrier.status == ACCEL_ERR_UNSUPPORTED
                  && strstr (barrier.err.text, "MPI was initialized with MPI_THREAD_"),
              "another thread is not refused", &barrier.err);
    else
        must (!barrier.status, "another thread", &barrier.err);
    if (accel_comm_rank (world) == 0)
        printf ("%s, %g ranks\n", accel_comm_engine (world), (double) size);
    accel_close (acc);
}

static void
with_mpi_of_the_program (int level)
{
    int provided = 0, is_over = 0;
    MPI_Init_thread (NULL, NULL, level, &provided);
    share (provided < MPI_THREAD_SERIALIZED);
    MPI_Finalized (&is_over);
    must (!is_over, "accel_close() has finalized MPI", &(struct accel_error){ 0 });
    MPI_Finalize ();
}

static void *
open_elsewhere (void *user)
{
    struct barrier *barrier = user;
    struct accel *acc;
    barrier->status = accel_open (&acc, NULL, &barrier->err);
    return NULL;
}

static void *
wait_elsewhere (void *user)
{
    struct accel_error err = { 0 };
    must (accel_work_wait (user, &err) == ACCEL_ERR_UNSUPPORTED
              && strstr (err.text, "MPI was initialized with MPI_THREAD_"),
          "another thread may wait", &err);
    return NULL;
}

static void
refuse_strays (void)
{
    static const char reason[] = "call accel_open() on the thread that called MPI_Init()";
    struct accel_error err = { 0 };
    struct accel *acc;
    struct accel_work *work;
    struct barrier barrier = { 0 };
    pthread_t thread;
    int rank = 0;
    MPI_Init (NULL, NULL);
    must (!pthread_create (&thread, NULL, open_elsewhere, &barrier) && !pthread_join (thread, NULL), "thread", &err);
    must (barrier.status == ACCEL_ERR_UNSUPPORTED && strstr (barrier.err.text, reason), "another thread may open",
          &barrier.err);
    must (!accel_open (&acc, NULL, &err), "accel_open", &err);
    MPI_Comm_rank (MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        must (!accel_comm_barrier_start (&work, accel_world (acc), &err), "start", &err);
        must (!pthread_create (&thread, NULL, wait_elsewhere, work) && !pthread_join (thread, NULL), "thread", &err);
    }
    puts ("as expected");
    fflush (stdout);
    _exit (0); /* the job has failed */
}

static void
open_too_late (void)
{
    struct accel_error err = { 0 };
    struct accel *acc;
    MPI_Init (NULL, NULL);
    MPI_Finalize ();
    must (accel_open (&acc, NULL, &err) && strstr (err.text, "has called MPI_Finalize() before"), "not refused", &err);
    puts ("refused");
}

/* ---- large counts ---- */

/* More memory than there is: one window of it again and again, but for the last. */
static signed char *
map (signed char fill, signed char last)
{
    int fds[2] = { memfd_create ("many", 0), memfd_create ("last", 0) };
    char *at = mmap (NULL, (size_t) WINDOW * WINDOWS, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < WINDOWS && at != MAP_FAILED; i++) {
        int fd = fds[i + 1 == WINDOWS], rights = PROT_READ | PROT_WRITE;
        must (!ftruncate (fd, WINDOW)
                  && mmap (at + i * WINDOW, WINDOW, rights, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED,
              "mmap", &(struct accel_error){ 0 });
    }
    must (at != MAP_FAILED, "mmap", &(struct accel_error){ 0 });
    memset (at, fill, WINDOW);
    memset (at + (size_t) (WINDOWS - 1) * WINDOW, last, WINDOW);
    return (signed char *) at;
}

static bool
is (const signed char *at, signed char fill, signed char last, size_t count)
{
    bool good = true;
    for (size_t i = 0; i < WINDOW; i++)
        good = good && at[i] == fill;
    for (size_t i = (size_t) (WINDOWS - 1) * WINDOW; i < count; i++)
        good = good && at[i] == last;
    return good;
}

static void
large (void)
{
    struct accel_error err = { 0 };
    struct accel *acc;
    must (!accel_open (&acc, NULL, &err), "accel_open", &err);
    struct accel_comm *world = accel_world (acc);
    int rank = accel_comm_rank (world), size = accel_comm_size (world);
    size_t count = (size_t) WINDOW * WINDOWS - 3;
    signed char *a = rank ? map (0, 0) : map (3, 5), *b = map (0, 0);
    must (!accel_comm_broadcast (world, a, count, ACCEL_INT8, 0, &err) && is (a, 3, 5, count), "broadcast", &err);
    must (!accel_comm_all_reduce (world, a, b, count, ACCEL_INT8, ACCEL_SUM, &err)
              && is (b, (signed char) (3 * size), (signed char) (5 * size), count), "all_reduce", &err);
    if (rank == 0)
        printf ("%zu elements\n", count);
    accel_close (acc);
}

/* ---- many calls ---- */

static long
pages_in_use (void)
{
    long size = 0, resident = 0;
    FILE *file = fopen ("/proc/self/statm", "r");
    if (file && fscanf (file, "%ld %ld", &size, &resident) != 2)
        resident = 0;
    if (file)
        fclose (file);
    return resident;
}

/* Some at once, because ranks that wait for each other are slow on a busy machine. */
static void
meet_in_flight (struct accel_comm *world, int batches)
{
    enum { BATCH = 16 };
    struct accel_error err = { 0 };
    struct accel_work *works[BATCH];
    for (int i = 0; i < batches; i++) {
        for (int j = 0; j < BATCH; j++)
            must (!accel_comm_barrier_start (&works[j], world, &err), "barrier", &err);
        for (int j = 0; j < BATCH; j++)
            must (!accel_work_wait (works[j], &err), "wait", &err);
    }
}

/* MPI keeps the memory of as many messages as were ever on their way, which are more whenever ranks drift apart on a
 * busy machine.  Of a call, nothing is kept: at the end, rounds of calls add no page; 32 bytes a call would be 12. */
static void
many (void)
{
    enum { ROUNDS = 60, BATCHES = 100, WITHOUT = 3 };
    struct accel_error err = { 0 };
    struct accel *acc;
    must (!accel_open (&acc, NULL, &err), "accel_open", &err);
    for (int i = 0, without = 0; without < WITHOUT; i++) {
        int64_t before = pages_in_use (), more, most;
        meet_in_flight (accel_world (acc), BATCHES);
        more = pages_in_use () - before;
        must (before > 0, "/proc/self/statm", &err);
        must (!accel_comm_all_reduce (accel_world (acc), &more, &most, 1, ACCEL_INT64, ACCEL_MAX, &err), "sum", &err);
        without += most <= 0;
        snprintf (err.text, sizeof err.text, "%lld pages in the latest round", (long long) most);
        must (i < ROUNDS, "each round of calls takes more memory", &err);
    }
    accel_close (acc);
}

/* ---- a message that MPI gets in parts ---- */

static void
send_long (void)
{
    enum { BYTES = (100 << 20) + 4 };
    struct accel_error err = { 0 };
    struct accel *acc;
    must (!accel_open (&acc, NULL, &err), "accel_open", &err);
    struct accel_comm *world = accel_world (acc);
    size_t count = BYTES / sizeof (uint32_t);
    uint32_t *numbers = calloc (count, sizeof *numbers);
    must (numbers, "calloc", &err);
    for (size_t i = 0; i < count && accel_comm_rank (world) == 0; i++)
        numbers[i] = (uint32_t) i;
    must (!accel_comm_broadcast (world, numbers, count, ACCEL_INT32, 0, &err), "broadcast", &err);
    for (size_t i = 0; i < count; i++)
        must (numbers[i] == (uint32_t) i, "broadcast", &err);
    must (!accel_comm_all_reduce (world, numbers, numbers, count, ACCEL_INT32, ACCEL_SUM, &err), "all_reduce", &err);
    for (size_t i = 0; i < count; i++)
        must (numbers[i] == (uint32_t) accel_comm_size (world) * (uint32_t) i, "all_reduce", &err);
    free (numbers);
    accel_close (acc);
}

/* ---- memory of accel_alloc() ---- */

static const char *given; /* by MADV_REMOVE, at last */
static size_t given_bytes;

/* The engine calls this one, as it would that of an MPI that remembers which pages a network adapter knows. */
__attribute__ ((visibility ("default"))) int
madvise (void *at, size_t bytes, int advice)
{
    if (advice == MADV_REMOVE) {
        given = at;
        given_bytes = bytes;
    }
    return (int) syscall (SYS_madvise, at, bytes, advice);
}

static void
free_shared (void)
{
    enum { BYTES = 1 << 20 };
    struct accel_error err = { 0 };
    struct accel *acc;
    void *memory, *again;
    must (!accel_open (&acc, NULL, &err), "accel_open", &err);
    must (!accel_alloc (acc, BYTES, &memory, &err), "accel_alloc", &err);
    memset (memory, 1, BYTES);
    given = NULL;
    accel_free (acc, memory);
    bool is_shared = accel_local_num_processes (acc) > 1;
    must (!is_shared || (given == memory && given_bytes >= BYTES), "not by madvise()", &err);
    must (!accel_alloc (acc, BYTES, &again, &err), "accel_alloc", &err);
    must (!is_shared || (again == memory && !*(char *) again), "not given back", &err);
    accel_free (acc, again);
    printf ("as expected\n");
    accel_close (acc);
}

/* Of 5 GiB, the memory of a host with two ranks would take 4, if it took what it can get. */
static void
limit_space (void)
{
    const struct rlimit limit = { (rlim_t) 5 << 30, (rlim_t) 5 << 30 };
    const size_t bytes = (size_t) 3 << 29;
    struct accel_error err = { 0 };
    struct accel *acc;
    void *memory;
    must (!setrlimit (RLIMIT_AS, &limit), "setrlimit", &err);
    must (!accel_open (&acc, NULL, &err), "accel_open", &err);
    must (!accel_alloc (acc, 1 << 20, &memory, &err), "accel_alloc", &err);
    void *own = mmap (NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    must (own != MAP_FAILED, "no address space is left", &err);
    accel_free (acc, memory);
    printf ("as expected\n");
    accel_close (acc);
}

/* ---- ranks that stop in a call ---- */

/* Rank 1 is in no call of the library until rank 0 has the sum. */
static void
compute_meanwhile (void)
{
    enum { COUNT = 2 << 20, TRIES = 2000 };
    struct accel_error err = { 0 };
    struct accel *acc;
    struct accel_work *work;
    void *values;
    must (!accel_open (&acc, NULL, &err), "accel_open", &err);
    struct accel_comm *world = accel_world (acc);
    must (!accel_alloc (acc, COUNT * sizeof (float), &values, &err), "accel_alloc", &err);
    must (!accel_comm_all_reduce_start (&work, world, values, values, COUNT, ACCEL_FLOAT32, ACCEL_SUM, &err), "start",
          &err);
    for (int i = 0; accel_comm_rank (world) == 1 && access ("done", F_OK); i++) {
        must (i < TRIES, "the sum does not move on while rank 1 computes", &err);
        usleep (10000);
    }
    must (!accel_work_wait (work, &err), "wait", &err);
    if (accel_comm_rank (world) == 0)
        must (fopen ("done", "w"), "the file done", &err);
    accel_free (acc, values);
    accel_close (acc);
}

/* Only pauses that meet the looks of the engine at the worst moment do harm; each round has other ones. */
static void
run_ahead (void)
{
    enum { TIMEOUT_MS = 6000, ROUNDS = 6, COUNT = 24, FIRST = 8, PAUSE_US = 75000, LATE_US = 150000, SHIFT_US = 13000 };
    struct accel_error err = { 0 };
    struct accel *acc;
    struct accel_work *works[COUNT];
    float values[COUNT];
    must (!accel_open (&acc, &(struct accel_options){ .timeout_ms = TIMEOUT_MS }, &err), "accel_open", &err);
    struct accel_comm *world = accel_world (acc);
    int rank = accel_comm_rank (world), size = accel_comm_size (world);
    for (unsigned round = 0; round < ROUNDS; round++) {
        must (!accel_comm_barrier (world, &err), "barrier", &err);
        usleep (round * SHIFT_US + (rank > 1 ? LATE_US : 1000u * (unsigned) rank));
        for (int i = 0; i < COUNT; i++) {
            if (rank == 1 && i == FIRST)
                usleep (PAUSE_US);
            values[i] = (float) (rank + i);
            must (!accel_comm_all_reduce_start (&works[i], world, &values[i], &values[i], 1, ACCEL_FLOAT32, ACCEL_SUM,
                                                &err), "start", &err);
        }
        for (int i = 0; i < COUNT; i++)
            must (!accel_work_wait (works[i], &err) && values[i] == (float) (size * i + size * (size - 1) / 2), "sum",
                  &err);
    }
    printf ("as expected\n");
    accel_close (acc);
}

/* Each test looks, whatever the thread of the engine does in between. */
static void
test_often (void)
{
    enum { TIMEOUT_MS = 3000, NAP_MS = 60, TESTS = TIMEOUT_MS / NAP_MS + 5, NAPS = 1000 };
    struct accel_error err = { 0 };
    struct accel *acc;
    struct accel_work *work;
    bool is_over = false;
    must (!accel_open (&acc, &(struct accel_options){ .timeout_ms = TIMEOUT_MS }, &err), "accel_open", &err);
    struct accel_comm *world = accel_world (acc);
    for (int i = 0; accel_comm_rank (world) == 1 && access ("over", F_OK); i++) {
        must (i < NAPS, "the time is not out", &err);
        usleep (NAP_MS * 1000);
    }
    must (accel_comm_rank (world) == 1 || !accel_comm_barrier_start (&work, world, &err), "start", &err);
    for (int i = 0; accel_comm_rank (world) == 0 && !is_over; i++) {
        must (i < TESTS, "tests do not see that the time is out", &err);
        usleep (NAP_MS * 1000);
        must (!accel_work_test (work, &is_over, &err), "test", &err);
    }
    if (accel_comm_rank (world) == 0)
        must (accel_work_wait (work, &err) == ACCEL_ERR_TIMEOUT && fopen ("over", "w"), "no timeout", &err);
    printf ("as expected\n");
    accel_close (acc);
}

/* The engine calls this one, too. */
static int sent;

int
MPI_Isend (const void *at, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
    sent++;
    return PMPI_Isend (at, count, type, to, tag, comm, request);
}

/* @return messages of all ranks */
static int
count_messages (struct accel_comm *world, int rounds)
{
    enum { PAUSE_US = 70000 };
    struct accel_error err = { 0 };
    must (!accel_comm_barrier (world, &err), "barrier", &err);
    int32_t count = sent;
    for (int i = 0; i < rounds; i++) {
        usleep (PAUSE_US);
        must (!accel_comm_barrier (world, &err), "barrier", &err);
    }
    count = sent - count;
    must (!accel_comm_all_reduce (world, &count, &count, 1, ACCEL_INT32, ACCEL_SUM, &err), "sum", &err);
    return count;
}

/* Of two hosts of two ranks.  On a busy machine, a rank may be late now and then, and each sends its own. */
static void
meet_after_pauses (void)
{
    enum { TRIES = 3, ROUNDS = 10, MESSAGES = 4, MOST = ROUNDS * MESSAGES + 5 };
    struct accel_error err = { 0 };
    struct accel *acc;
    int count = MOST + 1;
    must (!accel_open (&acc, NULL, &err), "accel_open", &err);
    for (int i = 0; i < TRIES && count > MOST; i++)
        count = count_messages (accel_world (acc), ROUNDS);
    snprintf (err.text, sizeof err.text, "%d messages", count);
    must (count >= ROUNDS * MESSAGES && count <= MOST, "not one from each host to each rank", &err);
    printf ("as expected\n");
    accel_close (acc);
}

/* The engine calls this one, too.  While it `dwells`, a thread of the engine nearly always has the lock. */
static bool dwells;
static atomic_bool is_late;
static pthread_t main_thread;

int
MPI_Test (MPI_Request *request, int *done, MPI_Status *status)
{
    enum { DWELL_US = 5000 };
    int is_over = 0;
    PMPI_Finalized (&is_over);
    if (is_over)
        atomic_store (&is_late, true);
    if (dwells && !pthread_equal (pthread_self (), main_thread))
        usleep (DWELL_US);
    return is_over ? MPI_ERR_OTHER : PMPI_Test (request, done, status);
}

static void
take_memory_in_a_child (struct accel *acc)
{
    enum { CHILD_S = 5 };
    struct accel_error err = { 0 };
    int status = -1;
    void *memory;
    pid_t child = fork ();
    if (!child) {
        alarm (CHILD_S);
        status = accel_alloc (acc, 1, &memory, &err) != ACCEL_OK;
        if (!status)
            accel_free (acc, memory);
        _exit (status);
    }
    must (child > 0 && waitpid (child, &status, 0) == child && !status, "a child cannot take memory", &err);
}

/* Rank 2 computes until all children are done. */
static void
fork_often (void)
{
    enum { CHILDREN = 10, NAPS = 3000, NAP_US = 10000 };
    struct accel_error err = { 0 };
    struct accel *acc;
    struct accel_work *work;
    must (!accel_open (&acc, NULL, &err), "accel_open", &err);
    struct accel_comm *world = accel_world (acc);
    int rank = accel_comm_rank (world);
    main_thread = pthread_self ();
    for (int i = 0; rank == 2 && access ("forked", F_OK); i++) {
        must (i < NAPS, "no children", &err);
        usleep (NAP_US);
    }
    must (!accel_comm_barrier_start (&work, world, &err), "start", &err);
    dwells = true;
    for (int i = 0; rank == 0 && i < CHILDREN; i++)
        take_memory_in_a_child (acc);
    dwells = false;
    must (rank || fopen ("forked", "w"), "the file forked", &err);
    must (!accel_work_wait (work, &err), "wait", &err);
    printf ("as expected\n");
    accel_close (acc);
}

static void
end_mpi_first (void)
{
    enum { NAP_US = 50000 };
    struct accel_error err = { 0 };
    struct accel *acc;
    struct accel_work *work;
    int level = MPI_THREAD_SINGLE;
    MPI_Init_thread (NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    must (!accel_open (&acc, NULL, &err), "accel_open", &err);
    struct accel_comm *world = accel_world (acc);
    must (accel_comm_rank (world) || level < MPI_THREAD_SERIALIZED || !accel_comm_barrier_start (&work, world, &err),
          "start", &err);
    usleep (NAP_US);
    MPI_Finalize ();
    usleep (NAP_US);
    must (!atomic_load (&is_late), "a thread calls MPI after MPI_Finalize()", &err);
    printf ("as expected\n");
    _exit (0);
}

static void
wait_often (void)
{
    enum { TIMEOUT_MS = 3000, NAP_MS = 200, NAPS = 18 };
    struct accel_error err = { 0 };
    struct accel *acc;
    must (!accel_open (&acc, &(struct accel_options){ .timeout_ms = TIMEOUT_MS }, &err), "accel_open", &err);
    struct accel_comm *world = accel_world (acc);
    for (int i = 0; i < NAPS; i++) {
        if (accel_comm_rank (world) == 0)
            usleep (NAP_MS * 1000);
        must (!accel_comm_barrier (world, &err), "barrier", &err);
    }
    accel_close (acc);
}

/* The engine calls this one, too. */
static bool breaks;

int
MPI_Irecv (void *at, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request)
{
    enum { CONTROL_MOST = 4000, TAG_CONTROL = 2 };
    bool is_data = count > CONTROL_MOST && tag != TAG_CONTROL;
    return breaks && is_data ? MPI_ERR_OTHER : PMPI_Irecv (at, count, type, from, tag, comm, request);
}

/* The rank that cannot leave MPI ends last: mpirun ends all others then. */
static void
end_in_turn (const char *what, int rank, int size)
{
    char name[64];
    for (int i = 0, naps = 1500; rank == size - 1 && i < rank && naps; naps--) {
        snprintf (name, sizeof name, "%s.%d", what, i);
        i += !access (name, F_OK) || usleep (20000);
    }
    must (snprintf (name, sizeof name, "%s.%d", what, rank) > 0 && fopen (name, "w"), name, &(struct accel_error){ 0 });
}

static void
break_in (const char *what)
{
    enum { TIMEOUT_MS = 5000, COUNT = 1 << 19 };
    struct accel_error err = { 0 };
    struct accel *acc;
    must (!accel_open (&acc, &(struct accel_options){ .timeout_ms = TIMEOUT_MS }, &err), "accel_open", &err);
    struct accel_comm *world = accel_world (acc);
    int rank = accel_comm_rank (world), size = accel_comm_size (world);
    bool sums = !strcmp (what, "sum");
    static float own[COUNT], got[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        own[i] = 1;
    must (!accel_comm_barrier (world, &err), "barrier", &err);
    breaks = rank == size - 1;
    enum accel_status status
        = sums ? accel_comm_all_reduce (world, own, got, COUNT, ACCEL_FLOAT32, ACCEL_SUM, &err)
               : accel_comm_broadcast (world, rank ? got : own, COUNT, ACCEL_FLOAT32, 0, &err);
    must (!breaks || (status == ACCEL_ERR_SYSTEM && strstr (err.text, "MPI_Irecv")), "not what MPI said", &err);
    for (size_t i = 0; i < COUNT && !status && (sums || rank); i++)
        must (got[i] == (sums ? (float) size : 1), "wrong data", &err);
    must (printf ("as expected\n") > 0 && !fflush (stdout), "printf", &err);
    end_in_turn (what, rank, size);
    accel_close (acc);
}

static void
fail_elsewhere (void)
{
    struct accel_error err = { 0 };
    struct accel *acc;
    struct accel_comm *first, *second;
    float values[2] = { 0 };
    must (!accel_open (&acc, &(struct accel_options){ .timeout_ms = 20000 }, &err), "accel_open", &err);
    struct accel_comm *world = accel_world (acc);
    int rank = accel_comm_rank (world);
    must (!accel_comm_split (&first, world, rank < 2 ? 0 : -1, rank, &err), "accel_comm_split", &err);
    must (!accel_comm_split (&second, world, rank > 0 ? 0 : -1, rank, &err), "accel_comm_split", &err);
    enum accel_status status = accel_comm_all_reduce (rank ? second : first, values, values, rank == 1 ? 2 : 1,
                                                      ACCEL_FLOAT32, ACCEL_SUM, &err);
    must (status && !strstr (err.text, "timed out") && (rank || strstr (err.text, " gave up: ")),
          "not who gave up", &err);
    printf ("as expected\n");
    accel_comm_destroy (first);
    accel_comm_destroy (second);
    accel_close (acc);
}

/* Rank 2 computes until the ranks of the other host have heard of rank 3, which happens once. */
static void
hear_of_the_dead (void)
{
    static const char *const heard[] = { "heard.0", "heard.1" };
    enum { NAP_US = 10000, NAPS = 3000, REST_US = 300000 };
    struct accel_error err = { 0 };
    struct accel *acc;
    must (!accel_open (&acc, &(struct accel_options){ .timeout_ms = 20000 }, &err), "accel_open", &err);
    struct accel_comm *world = accel_world (acc);
    int rank = accel_comm_rank (world);
    must (!accel_comm_barrier (world, &err), "barrier", &err);
    if (rank == 3)
        raise (SIGKILL);
    for (int i = 0; rank == 2 && i < NAPS && (access (heard[0], F_OK) || access (heard[1], F_OK)); i++)
        usleep (NAP_US);
    int before = sent;
    usleep (rank == 2 ? REST_US : 0);
    must (sent == before, "told again", &err);
    enum accel_status status = accel_comm_barrier (world, &err);
    must (status == ACCEL_ERR_PEER && strstr (err.text, "rank 3 ended (process"), "not who ended", &err);
    FILE *file = rank < 2 ? fopen (heard[rank], "w") : NULL;
    must (rank == 2 || (file && !fclose (file)), "a file", &err);
    printf ("as expected\n");
    accel_close (acc);
}

static void
say_wrong (void)
{
    puts ("WRONG: exit() continues beside a thread in MPI_Init()");
}

/* The other one ends when mpirun, or the launcher, does not find it any more. */
static void
wait_in_vain (void)
{
    const char *text = getenv ("RANK");
    struct accel_error err = { 0 };
    struct accel *acc;
    if (text && !strcmp (text, "1"))
        for (;;)
            pause ();
    atexit (say_wrong);
    enum accel_status status = accel_open (&acc, &(struct accel_options){ .timeout_ms = 1500 }, &err);
    printf ("%s: %s\n", status == ACCEL_ERR_TIMEOUT ? "timeout" : "WRONG", err.text);
    status = accel_open (&acc, &(struct accel_options){ .timeout_ms = 1500 }, &err);
    printf ("%s: %s\n", status == ACCEL_ERR_UNSUPPORTED ? "again" : "WRONG", err.text);
    exit (3);
}

int
main (int argc, char **argv)
{
    static const struct {
        const char *how;
        void (*run) (void);
    } scenarios[] = {
        { "finalized", open_too_late }, { "large", large }, { "many", many }, { "message", send_long },
        { "alone", compute_meanwhile }, { "ahead", run_ahead },
        { "tests", test_often }, { "after", meet_after_pauses }, { "forks", fork_often }, { "ended", end_mpi_first },
        { "waits", wait_often }, { "elsewhere", fail_elsewhere }, { "absent", wait_in_vain },
        { "strays", refuse_strays }, { "freed", free_shared }, { "limited", limit_space },
        { "hears", hear_of_the_dead },
    };
    const char *how = argc > 1 ? argv[1] : "";
    size_t i = 0;
    setvbuf (stdout, NULL, _IOLBF, 0);
    while (i < sizeof scenarios / sizeof *scenarios && strcmp (how, scenarios[i].how))
        i++;
    if (i < sizeof scenarios / sizeof *scenarios)
        scenarios[i].run ();
    else if (!strcmp (how, "init"))
        with_mpi_of_the_program (MPI_THREAD_SINGLE);
    else if (!strcmp (how, "serialized"))
        with_mpi_of_the_program (MPI_THREAD_SERIALIZED);
    else if (!strcmp (how, "broken"))
        break_in (argc > 2 ? argv[2] : "");
    else
        return 2;
    return 0;
}
