/* SPDX-License-Identifier: Apache-2.0 */
/* Work in flight (accel/work.h) at its edges, between ranks that this test forks: closing, forks, failing allocations
 * and threads, signals, the ledger. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/comm/execute.h"
#include "lib/comm/work.h"
#include "tests/allocators.h"
#include "tests/ranks.h"
#include "tests/samples.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

enum { LARGE = 200000 };

static struct accel_error err;
static bool no_threads;

int __real_pthread_create (pthread_t *thread, const pthread_attr_t *attributes, void *(*begin) (void *), void *user);
int __wrap_pthread_create (pthread_t *thread, const pthread_attr_t *attributes, void *(*begin) (void *), void *user);
int
__wrap_pthread_create (pthread_t *thread, const pthread_attr_t *attributes, void *(*begin) (void *), void *user)
{
    return no_threads ? EAGAIN : __real_pthread_create (thread, attributes, begin, user);
}

/* A group of all, whose calls meet while work of the world is in flight. */
static struct accel_comm *
make_group (struct accel *acc)
{
    struct accel_comm *group;
    rank_must (accel_comm_split (&group, accel_world (acc), 0, 0, &err), &err);
    return group;
}

/* ---- when work is over ---- */

/* Rank 0 starts early and computes on, the others come when it has looked. */
static void
test_done (struct accel *acc)
{
    struct accel_comm *world = accel_world (acc), *group = make_group (acc);
    struct accel_work *work;
    int64_t sum = 1;
    bool done = true, first = !accel_comm_rank (world);
    if (!first)
        rank_must (accel_comm_barrier (group, &err), &err);
    rank_must (accel_comm_all_reduce_start (&work, world, &sum, &sum, 1, ACCEL_INT64, ACCEL_SUM, &err), &err);
    if (first) {
        rank_must (accel_work_test (work, &done, &err), &err);
        right (!done || accel_comm_size (world) == 1, "the work is over before the others have come");
        rank_must (accel_comm_barrier (group, &err), &err);
    }
    rank_must (accel_comm_barrier (world, &err), &err); /* runs after it */
    rank_must (accel_work_test (work, &done, &err), &err);
    right (done && sum == accel_comm_size (world), "after a later call: %d, %lld", done, (long long) sum);
    rank_must (accel_work_wait (work, &err), &err);
    rank_fails (accel_work_test (work, &done, &err), ACCEL_ERR_INVALID, &err, "accel_work_test: not a work");
    accel_comm_destroy (group);
}

/* All collectives. */
static void
make_calls (struct accel_comm *comm, bool starts, int64_t *values, int64_t *gathered, int64_t *sums)
{
    struct accel_work *works[6];
    int n = 0, size = accel_comm_size (comm);
#define MAKE(name, ...)                                                                         \
    rank_must (starts ? accel_comm_##name##_start (&works[n++], comm, ##__VA_ARGS__, &err) \
                      : accel_comm_##name (comm, ##__VA_ARGS__, &err), &err)
    MAKE (barrier);
    MAKE (all_reduce, values, sums, 1, ACCEL_INT64, ACCEL_SUM);
    MAKE (all_gather, values, gathered, 1, ACCEL_INT64);
    MAKE (broadcast, values + size, 1, ACCEL_INT64, 0);
    MAKE (reduce_scatter, values, sums + 1, 1, ACCEL_INT64, ACCEL_SUM);
    MAKE (all_to_all, values, sums + 2, 1, ACCEL_INT64);
#undef MAKE
    while (n)
        rank_must (accel_work_wait (works[--n], &err), &err);
}

/* Ranks that start match those that block, whichever rank it is. */
static void
test_forms (struct accel *acc)
{
    struct accel_comm *world = accel_world (acc);
    int rank = accel_comm_rank (world), size = accel_comm_size (world);
    for (int starter = 0; starter < size; starter++) {
        int64_t values[4], gathered[3], sums[5];
        for (int i = 0; i < size; i++)
            values[i] = rank + 10 * i;
        values[size] = rank + 7;
        make_calls (world, rank == starter, values, gathered, sums);
        right (sums[0] == 3 && sums[1] == 3 + 30 * rank, "sums: %d, %d", (int) sums[0], (int) sums[1]);
        right (values[size] == 7 && gathered[2] == 2, "copies: %d, %d", (int) values[size], (int) gathered[2]);
        right (sums[4] == 2 + 10 * rank, "exchanged: %d", (int) sums[4]);
    }
}

/* A group is destroyed with work in flight, which is finished; so is the world's, by accel_close(). */
static void
test_close (struct accel *acc)
{
    static int64_t sums[LARGE], more[LARGE];
    struct accel_comm *group = make_group (acc), *other = make_group (acc);
    struct accel_work *work[3], *last;
    for (int i = 0; i < LARGE; i++)
        sums[i] = i;
    for (int i = 0; i < 3; i++)
        rank_must (accel_comm_all_reduce_start (&work[i], group, sums, sums, LARGE, ACCEL_INT64, ACCEL_SUM, &err),
                   &err);
    accel_comm_destroy (group);
    right (sums[5] == 5 * 8 && sums[LARGE - 1] == (LARGE - 1) * INT64_C (8), "destroyed: %lld", (long long) sums[5]);
    rank_fails (accel_work_wait (work[1], &err), ACCEL_ERR_INVALID, &err, "its communicator has ended");
    rank_must (accel_comm_all_reduce_start (&last, accel_world (acc), more, more, LARGE, ACCEL_INT64, ACCEL_SUM, &err),
               &err);
    for (int i = 0; i < 8; i++) /* longer than the world's own, whose memory they need */
        rank_must (accel_comm_all_reduce_start (&last, other, sums, sums, LARGE, ACCEL_INT64, ACCEL_SUM, &err), &err);
}

/* What another thread does on a communicator that this one destroys. */
struct other {
    struct accel_comm *comm;
    struct accel_work *work; /* NULL: a barrier */
    struct accel_error err;
    enum accel_status status;
};

static void *
wait_in_vain (void *user)
{
    struct other *other = user;
    other->status = other->work ? accel_work_wait (other->work, &other->err)
                                : accel_comm_barrier (other->comm, &other->err);
    return NULL;
}

static bool
waits (const struct other *other)
{
    work_lock ();
    bool does = other->work ? other->work->is_taken : atomic_load (&other->comm->inside) != NULL;
    work_unlock ();
    return does;
}

/* Rank 0 gives up a call that the others do not make, and destroys the group while its other threads are in it. */
static void
test_destroyed_in_use (struct accel *acc)
{
    struct accel_comm *group = make_group (acc), *second = make_group (acc);
    struct other others[] = { { .comm = group }, { .comm = second } };
    pthread_t threads[2];
    if (!accel_comm_rank (group)) {
        object_hold (&group->object); /* the struct stays */
        rank_must (accel_comm_barrier_start (&others[1].work, second, &err), &err);
        for (int i = 0; i < 2; i++) {
            right (!pthread_create (&threads[i], NULL, wait_in_vain, &others[i]), "no thread");
            while (!waits (&others[i]))
                sched_yield ();
        }
        rank_must (accel_comm_barrier (accel_world (acc), &err), &err);
        accel_comm_abort (group, "the test gives up");
        accel_comm_destroy (group);
        right (!atomic_load (&group->inside), "a group has ended with a thread inside");
        accel_comm_destroy (second);
        for (int i = 0; i < 2; i++) {
            pthread_join (threads[i], NULL);
            right (others[i].status == ACCEL_ERR_PEER, "thread %d: status %d: %s", i, (int) others[i].status,
                   others[i].err.text);
        }
        object_let_go (&group->object);
    } else { /* what ends here ends rank 0's work, which must have been waited for before */
        rank_must (accel_comm_barrier (accel_world (acc), &err), &err);
        accel_comm_destroy (group);
        accel_comm_destroy (second);
    }
}

/* ---- forks ---- */

static void
in_child (struct accel *acc, struct accel_work *work)
{
    struct accel_work *mine;
    bool done, good = accel_work_wait (work, &err) == ACCEL_ERR_INVALID && strstr (err.text, "before fork()");
    good = good && accel_work_test (work, &done, &err) == ACCEL_ERR_INVALID;
    good = good && accel_comm_barrier_start (&mine, accel_world (acc), &err) == ACCEL_ERR_INVALID;
    good = good && strstr (err.text, "is a fork") && !mine;
    work_drain (accel_world (acc)); /* nothing would wake it */
    accel_close (acc);
    _exit (good ? 0 : 9);
}

/* With work in flight and without: a child that closes waits for no thread. */
static void
test_fork (struct accel *acc)
{
    struct accel_comm *world = accel_world (acc), *group = make_group (acc);
    bool first = !accel_comm_rank (world);
    for (int flying = 0; flying < 2; flying++) {
        struct accel_work *work;
        int status = -1;
        if (flying && !first)
            rank_must (accel_comm_barrier (group, &err), &err);
        rank_must (accel_comm_barrier_start (&work, world, &err), &err);
        if (!flying) {
            rank_must (accel_comm_barrier (world, &err), &err);
            rank_must (accel_comm_barrier (group, &err), &err);
        }
        pid_t child = fork ();
        if (!child)
            in_child (acc, work);
        waitpid (child, &status, 0);
        right (!status, "flying %d: the child's status is %x", flying, (unsigned) status);
        if (flying && first)
            rank_must (accel_comm_barrier (group, &err), &err);
        rank_must (accel_work_wait (work, &err), &err);
    }
    accel_comm_destroy (group);
}

/* What is shared stays as it is, whatever a child of fork() calls; and it is not taken for its parent. */
static void
meddle (struct accel *acc, struct accel_comm *group, struct accel_loader *loader, int64_t *shared)
{
    const struct accel_batch *batch;
    void *memory;
    alarm (RANKS_DEADLINE_S);
    bool good = accel_comm_barrier (accel_world (acc), &err) == ACCEL_ERR_INVALID && strstr (err.text, "is a fork");
    good = good && accel_comm_barrier (group, &err) == ACCEL_ERR_INVALID && strstr (err.text, "is a fork");
    good = good && accel_alloc (acc, 8, &memory, &err) == ACCEL_ERR_INVALID && strstr (err.text, "is a fork");
    good = good && !accel_loader_next (loader, &batch, &err) && strstr (err.text, "is a fork");
    accel_free (acc, shared);
    accel_loader_destroy (loader);
    accel_comm_destroy (group);
    accel_close (acc);
    _exit (good ? 0 : 9);
}

static void
test_shared_memory (struct accel *acc)
{
    static const struct accel_field field = { "x", ACCEL_INT64, 0, { 0 } };
    static const struct accel_dataset numbers = { 100, &field, 1, sample_is_index, NULL, NULL };
    struct accel_comm *group = make_group (acc);
    struct accel_loader *loader;
    const struct accel_batch *batch;
    void *memory, *values = NULL;
    int status = -1;
    rank_must (accel_alloc (acc, sizeof (int64_t), &memory, &err), &err);
    int64_t *shared = memory;
    *shared = 7;
    rank_must (accel_loader_create (&loader, &numbers, &(struct accel_loader_options){ .batch_size = 3 }, &err), &err);
    rank_must (accel_prepare (acc, &err, loader), &err);
    right (accel_loader_next (loader, &batch, &err), "no batch: %s", err.text);
    rank_must (accel_batch_data (batch, "x", ACCEL_INT64, &values, &err), &err);
    pid_t child = fork ();
    if (!child)
        meddle (acc, group, loader, shared);
    waitpid (child, &status, 0);
    right (!status, "the child's status is %x", (unsigned) status);
    int64_t first = 3 * accel_comm_rank (group), last = ((int64_t *) values)[2];
    right (*shared == 7 && last == first + 2, "7 has become %lld, %lld %lld", (long long) *shared,
           (long long) first + 2, (long long) last);
    rank_must (accel_comm_barrier (group, &err), &err);
    rank_must (accel_comm_barrier (accel_world (acc), &err), &err);
    accel_free (acc, shared);
    accel_loader_destroy (loader);
    accel_comm_destroy (group);
}

/* A communicator of one process works in a child of fork(), too; what it calls, and whether that fails, is not what
 * peers and the launcher read of its parent. */
static void
use_alone (struct accel *acc, struct accel_comm *own, uint64_t note)
{
    static const struct comm_site site = { .file = "child.c", .line = 1, .call = JOBSEG_CALL_LOADER_NEXT };
    struct accel_comm *group = own;
    struct accel_work *work = NULL;
    int64_t sum = 3;
    alarm (RANKS_DEADLINE_S);
    comm_note_end (accel_world (acc), note);
    bool first = !accel_comm_rank (accel_world (acc)), good = first || !comm_note_begin (own, &site, 0);
    good = good && !accel_comm_barrier (own, &err);
    good = good && !accel_comm_all_reduce (own, &sum, &sum, 1, ACCEL_INT64, ACCEL_SUM, &err) && sum == 3;
    if (!own->parent) /* groups of others meet in memory that they share */
        good = good && !accel_comm_split (&group, own, 0, 0, &err);
    good = good && !accel_comm_barrier (group, &err);
    good = good && !accel_comm_all_reduce_start (&work, group, &sum, &sum, 1, ACCEL_INT64, ACCEL_SUM, &err);
    good = good && !accel_work_wait (work, &err) && !accel_comm_barrier (group, &err);
    accel_fail (&err, ACCEL_ERR_PEER, "a device failed");
    good = good && comm_break (own, &err, &err) == ACCEL_ERR_PEER;
    _exit (good ? 0 : 9);
}

static void
test_alone (struct accel *acc)
{
    static const struct comm_site site = { .file = "parent.c", .line = 1, .call = JOBSEG_CALL_LOADER_NEXT };
    struct accel_comm *world = accel_world (acc), *own;
    struct jobseg_slot *slot = world->ledger->slot;
    struct jobseg_record record = { 0 };
    int status = -1;
    rank_must (accel_comm_split (&own, world, accel_comm_rank (world), 0, &err), &err);
    uint64_t before = atomic_load (&slot->ledger_count), note = comm_note_begin (world, &site, 0);
    pid_t child = fork ();
    if (!child)
        use_alone (acc, accel_comm_size (world) > 1 ? own : world, note);
    waitpid (child, &status, 0);
    jobseg_latest (slot, &record);
    right (!status, "the child's status is %x", (unsigned) status);
    uint64_t after = atomic_load (&slot->ledger_count);
    right (note == before + 1 && after == note && !record.done, "the ledger has %llu records instead of %llu, done %d",
           (unsigned long long) after, (unsigned long long) note, record.done);
    right (atomic_load (&slot->state) == JOBSEG_READY, "the child has left for its parent");
    comm_note_end (world, note);
    rank_must (accel_comm_barrier (own, &err), &err);
    rank_must (accel_comm_barrier (world, &err), &err);
    accel_comm_destroy (own);
}

/* ---- groups ---- */

static int
count_segments (void)
{
    char line[256];
    int count = 0;
    FILE *maps = fopen ("/proc/self/maps", "r");
    while (maps && fgets (line, sizeof line, maps))
        count += strstr (line, "memfd:") != NULL;
    if (maps)
        fclose (maps);
    return count;
}

/* Where a group met is not mapped for ever. */
static void
test_reopened (struct accel *acc)
{
    int before = count_segments ();
    for (int i = 0; i < 3; i++) {
        accel_comm_destroy (make_group (acc));
        accel_close (acc);
        rank_must (accel_open (&acc, ranks_options, &err), &err);
    }
    int after = count_segments ();
    right (after == before, "%d mappings of segments, then %d", before, after);
    accel_close (acc);
    _exit (0);
}

/* ---- what is not to be had ---- */

static void
test_no_memory (struct accel *acc)
{
    struct accel_comm *world = accel_world (acc), *group = make_group (acc);
    struct accel_work *work = (void *) 1;
    enum accel_status status = ACCEL_ERR_NOMEM;
    int failed = -1;
    no_threads = true;
    rank_fails (accel_comm_barrier_start (&work, group, &err), ACCEL_ERR_SYSTEM, &err, "cannot start a thread: ");
    right (!work && err.sys_errno == EAGAIN, "without a thread: errno %d", err.sys_errno);
    no_threads = false;
    for (long calls = 0; status; calls++) {
        calls_left = calls;
        status = accel_comm_barrier_start (&work, world, &err);
        calls_left = -1;
        right (!status || (status == ACCEL_ERR_NOMEM && !work), "status %d: %s", (int) status, err.text);
        failed++;
    }
    right (failed == 2, "%d allocations failed", failed);
    rank_must (accel_work_wait (work, &err), &err);
    rank_must (accel_comm_barrier (world, &err), &err);
    accel_comm_destroy (group);
}

static volatile sig_atomic_t elsewhere;
static pthread_t main_thread;

static void
note_signal (int number)
{
    (void) number;
    elsewhere = elsewhere || !pthread_equal (pthread_self (), main_thread);
}

/* With the program's thread deaf, a signal to the process stays pending. */
static void
test_signals (struct accel *acc)
{
    struct accel_work *work;
    sigset_t set, before, pending;
    main_thread = pthread_self ();
    signal (SIGUSR1, note_signal);
    rank_must (accel_comm_barrier_start (&work, accel_world (acc), &err), &err);
    rank_must (accel_work_wait (work, &err), &err);
    sigemptyset (&set);
    sigaddset (&set, SIGUSR1);
    pthread_sigmask (SIG_BLOCK, &set, &before);
    right (!sigismember (&before, SIGUSR2), "a start leaves signals blocked");
    kill (getpid (), SIGUSR1);
    nanosleep (&(struct timespec){ .tv_nsec = 20000000 }, NULL); /* another thread would have taken it by then */
    sigpending (&pending);
    right (sigismember (&pending, SIGUSR1) && !elsewhere, "the library's thread took a signal");
    pthread_sigmask (SIG_SETMASK, &before, NULL);
}

/* ---- groups of starts ---- */

static void
test_group_rules (struct accel *acc)
{
    static const char open[] = "a group of calls is open on this communicator: call accel_group_end() first";
    struct accel_comm *world = accel_world (acc), *group = make_group (acc);
    struct accel_work *before, *work, *other;
    int64_t sum = 1, late = 1, size = accel_comm_size (world);
    bool done;
    rank_fails (accel_comm_set_stream (world, &sum, &err), ACCEL_ERR_UNSUPPORTED, &err, "cpu, which has no streams");
    rank_fails (accel_comm_set_stream (NULL, NULL, &err), ACCEL_ERR_INVALID, &err, "comm is NULL");
    rank_must (accel_comm_set_stream (world, NULL, &err), &err);
    rank_fails (accel_comm_set_timeout (NULL, 1, &err), ACCEL_ERR_INVALID, &err, "comm is NULL");
    rank_fails (accel_comm_set_timeout (group, 0, &err), ACCEL_ERR_INVALID, &err, "the timeout is 0");
    rank_must (accel_comm_set_timeout (group, 60000, &err), &err);
    rank_fails (accel_group_begin (NULL, &err), ACCEL_ERR_INVALID, &err, "accel_group_begin: comm is NULL");
    rank_fails (accel_group_end (world, &err), ACCEL_ERR_INVALID, &err, "accel_group_end: no group is open");
    rank_must (accel_comm_barrier_start (&before, world, &err), &err);
    rank_must (accel_group_begin (world, &err), &err);
    rank_fails (accel_group_begin (world, &err), ACCEL_ERR_INVALID, &err, "groups are not nested");
    rank_must (accel_comm_all_reduce_start (&work, world, &sum, &sum, 1, ACCEL_INT64, ACCEL_SUM, &err), &err);
    rank_fails (accel_comm_barrier (world, &err), ACCEL_ERR_INVALID, &err, open);
    rank_fails (accel_reduce_number (acc, &(double){ 1 }, ACCEL_SUM, &err), ACCEL_ERR_INVALID, &err, open);
    rank_fails (accel_comm_split (&(struct accel_comm *){ NULL }, world, 0, 0, &err), ACCEL_ERR_INVALID, &err, open);
    rank_fails (accel_work_wait (work, &err), ACCEL_ERR_INVALID, &err, "the work begins at the end of its group");
    rank_fails (accel_work_synchronize (work, &err), ACCEL_ERR_INVALID, &err, "call accel_group_end() first");
    rank_fails (accel_work_test (work, &done, &err), ACCEL_ERR_INVALID, &err, "call accel_group_end() first");
    rank_must (accel_comm_barrier_start (&other, group, &err), &err);
    rank_must (accel_work_wait (other, &err), &err);
    rank_must (accel_comm_barrier (group, &err), &err);
    rank_must (accel_work_wait (before, &err), &err);
    right (size == 1 || sum == 1, "a call of a group runs before its end");
    rank_must (accel_group_end (world, &err), &err);
    rank_fails (accel_group_end (world, &err), ACCEL_ERR_INVALID, &err, "no group is open");
    rank_must (accel_comm_all_reduce (world, &late, &late, 1, ACCEL_INT64, ACCEL_SUM, &err), &err);
    right (sum == size && late == size, "a blocking call does not come after a group: %d, %d", (int) sum, (int) late);
    rank_must (accel_work_wait (work, &err), &err);
    accel_comm_destroy (group);
}

/* With groups open on the world and on a part of it, of which nothing has begun. */
static void
test_open_group (struct accel *acc)
{
    struct accel_comm *world = accel_world (acc), *group = make_group (acc), *part = make_group (acc);
    static int64_t values[3];
    struct accel_comm *comms[] = { world, part, group };
    struct accel_work *works[3];
    for (int i = 0; i < 3; i++) {
        values[i] = 1;
        rank_must (accel_group_begin (comms[i], &err), &err);
        rank_must (accel_comm_all_reduce_start (&works[i], comms[i], &values[i], &values[i], 1, ACCEL_INT64, ACCEL_SUM,
                                                &err), &err);
    }
    int64_t size = accel_comm_size (world);
    accel_comm_destroy (group);
    right (values[2] == size, "a communicator ends without its group: %d", (int) values[2]);
    accel_close (acc);
    right (values[0] == size && values[1] == size, "a job ends without its groups: %d, %d", (int) values[0],
           (int) values[1]);
    rank_fails (accel_group_end (part, &err), ACCEL_ERR_INVALID, &err, "the job of this group has been closed");
    rank_fails (accel_group_begin (part, &err), ACCEL_ERR_INVALID, &err, "the job of this group has been closed");
    accel_comm_destroy (part);
    _exit (0); /* as_ranks() would close the job */
}

static void
test_group_fork (struct accel *acc)
{
    struct accel_comm *world = accel_world (acc);
    struct accel_work *work;
    rank_must (accel_group_begin (world, &err), &err);
    rank_must (accel_comm_barrier_start (&work, world, &err), &err);
    pid_t child = fork ();
    if (!child) {
        rank_fails (accel_group_end (world, &err), ACCEL_ERR_INVALID, &err, "this process is a fork");
        accel_close (acc);
        _exit (0);
    }
    int status = -1;
    waitpid (child, &status, 0);
    right (!status, "a child of fork() that ends a group: status %d", status);
    rank_must (accel_group_end (world, &err), &err);
    rank_must (accel_work_wait (work, &err), &err);
}

/* ---- what others learn ---- */

/* A later call takes the place of the record of work in flight, whose end is not that call's. */
static void
test_ledger (struct accel *acc)
{
    struct accel_comm *world = accel_world (acc), *group = make_group (acc);
    const struct comm_site site = { .file = "a.c", .line = 1, .call = JOBSEG_CALL_LOADER_NEXT };
    struct jobseg_slot *slot = world->ledger->slot;
    struct accel_work *work;
    struct jobseg_record record = { 0 };
    uint64_t note = 0;
    if (accel_comm_rank (world))
        rank_must (accel_comm_barrier (group, &err), &err);
    rank_must (accel_comm_barrier_start (&work, world, &err), &err);
    if (!accel_comm_rank (world)) {
        while (record.call != JOBSEG_CALL_BARRIER_START) {
            sched_yield ();
            work_lock ();
            jobseg_latest (slot, &record);
            work_unlock ();
        }
        while (note < record.sequence + JOBSEG_LEDGER) {
            comm_note_end (world, note);
            note = comm_note_begin (world, &site, 0);
        }
        rank_must (accel_comm_barrier (group, &err), &err);
    }
    rank_must (accel_work_wait (work, &err), &err);
    if (note) {
        const struct jobseg_record *mine = &slot->ledger[(note - 1) % JOBSEG_LEDGER];
        right (mine->sequence == note && !mine->done, "the note's record has %llu, done %d",
               (unsigned long long) mine->sequence, mine->done);
    }
    accel_comm_destroy (group);
}

int
main (void)
{
    setenv (ENV_TIMEOUT_MS, "300000", 1);
    as_ranks (1, "work of a process alone", test_done);
    as_ranks (3, "accel_work_test, and calls after work in flight", test_done);
    as_ranks (3, "one rank starts what the others block in", test_forms);
    as_ranks (2, "a communicator ends with work in flight", test_close);
    as_ranks (2, "a group ends with threads in its calls", test_destroyed_in_use);
    as_ranks (2, "a child of fork()", test_fork);
    as_ranks (2, "memory that a child of fork() shares", test_shared_memory);
    as_ranks (1, "a communicator of a process alone, in a child of fork()", test_alone);
    as_ranks (2, "a communicator of one process, in a child of fork()", test_alone);
    as_ranks (2, "jobs with groups, one after the other", test_reopened);
    as_ranks (2, "a start without memory, or without a thread", test_no_memory);
    as_ranks (2, "signals", test_signals);
    as_ranks (1, "groups of starts of a process alone", test_group_rules);
    as_ranks (2, "what an open group allows", test_group_rules);
    as_ranks (2, "ends with open groups", test_open_group);
    as_ranks (2, "a child of fork() with an open group", test_group_fork);
    as_ranks (2, "records of work and of other calls", test_ledger);
    return done_testing ();
}
