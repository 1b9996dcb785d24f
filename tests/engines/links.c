/* SPDX-License-Identifier: Apache-2.0 */
/* Two kinds of memory beside the host's, each with an engine of its own: which engine gets which call, and what is in
 * flight on an engine that moves on by itself (threaded/) beside one that does not. */
#include <config.h>

#include "lib/comm/links.h"
#include "lib/comm/work.h"
#include "tests/engines/standin_memory.h"
#include "tests/ranks.h"

#include <dirent.h>

enum { COUNT = 5000, LARGE = 1 << 20, REQUESTS = 4, PLACES = 3 };

static struct accel_error err;
static struct memory memory_second; /* a table of its own: no call may copy from one kind to the other */

static const struct place {
    DLDevice device;
    const struct memory *memory;
} places[PLACES] = {
    { { .device_type = kDLCPU }, &memory_host },
    { { .device_type = kDLExtDev, .device_id = 1 }, &memory_standin },
    { { .device_type = kDLVPI, .device_id = 1 }, &memory_second },
};
static const struct place *const host = &places[0], *const ext = &places[1], *const vpi = &places[2];

/* ---- one all-reduce ---- */

struct sum {
    const struct place *place;
    size_t count;
    void *buffer;
    struct accel_work *work;
};

/* Element i is @p from + rank + i. */
static struct sum
make (struct accel *acc, const struct place *place, size_t count, int64_t from)
{
    int64_t *values = malloc (count * sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = from + accel_process_index (acc) + (int64_t) i;
    struct sum sum = { .place = place, .count = count };
    sum.buffer = place->memory->create (place->device, count * sizeof *values, false);
    place->memory->write (place->device, sum.buffer, values, count * sizeof *values);
    free (values);
    return sum;
}

static void
reduce (struct accel_comm *comm, struct sum *sum, bool starts)
{
    struct comm_site site = { .file = __FILE__, .line = __LINE__, .call = JOBSEG_CALL_ALL_REDUCE };
    struct comm_site there = comm_site_on (&site, sum->place->device);
    if (starts)
        there.work = &sum->work;
    rank_must (comm_all_reduce (comm, &there, sum->buffer, sum->buffer, sum->count, ACCEL_INT64, ACCEL_SUM, &err),
               &err);
}

/* @param ranks  the sum of the ranks that took part, @p size of them */
static void
check (struct sum *sum, int64_t from, int size, int ranks, const char *what)
{
    int64_t *values = malloc (sum->count * sizeof *values);
    rank_must (sum->place->memory->read (sum->place->device, values, sum->buffer, sum->count * sizeof *values, &err),
               &err);
    for (size_t i = 0; i < sum->count; i++)
        if (!right (values[i] == (from + (int64_t) i) * size + ranks, "%s: element %zu is %lld", what, i,
                    (long long) values[i]))
            break;
    free (values);
    sum->place->memory->destroy (sum->place->device, sum->buffer);
}

static int
sum_of_ranks (int size)
{
    return size * (size - 1) / 2;
}

/* ---- which engine ---- */

static const char *
engine_of (const struct accel_comm *comm, const struct place *place)
{
    const struct comm_link *link = place == host ? comm->links : comm_link_for (comm, place->device);
    return link ? link->engine->name : "none";
}

static const struct choice {
    const char *engines, *chosen[PLACES];
    int links;
} choices[] = {
    { "cpu:shm,ext:polled,vpi:threaded", { "shm", "polled", "threaded" }, 2 },
    { "cpu:shm,ext:polled,vpi:polled", { "shm", "polled", "polled" }, 1 },
    { "threaded", { "threaded", "polled", "threaded" }, 1 }, /* it serves vpi, too; polled would be found first */
    { "cpu:threaded,vpi:polled", { "threaded", "polled", "polled" }, 1 },
    { "cpu:shm,vpi:threaded", { "shm", "polled", "threaded" }, 2 },
};
static const struct choice *choice;

static void
check_engines (const struct accel_comm *comm, const char *what)
{
    right (comm->link_count == 1 + choice->links, "%s: %d engines", what, comm->link_count);
    for (int i = 0; i < PLACES; i++)
        right (!strcmp (engine_of (comm, &places[i]), choice->chosen[i]), "%s: memory %d has engine %s", what, i,
               engine_of (comm, &places[i]));
}

/* Each engine refuses what is for another one. */
static void
each_kind (struct accel *acc)
{
    struct accel_comm *world = accel_world (acc), *group;
    int rank = accel_process_index (acc), size = accel_num_processes (acc);
    check_engines (world, "world");
    rank_must (accel_comm_split (&group, world, rank % 2, rank, &err), &err);
    check_engines (group, "group");
    int members = accel_comm_size (group), ranks = 0;
    for (int other = rank % 2; other < size; other += 2)
        ranks += other;
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < PLACES; i++) {
            struct sum all = make (acc, &places[i], COUNT, i), some = make (acc, &places[i], COUNT, 7);
            reduce (world, &all, false);
            reduce (group, &some, false);
            check (&all, i, size, sum_of_ranks (size), "world");
            check (&some, 7, members, ranks, "group");
        }
    accel_comm_destroy (group);
}

/* ---- in flight ---- */

static int
count_threads (void)
{
    DIR *tasks = opendir ("/proc/self/task");
    int count = 0;
    for (const struct dirent *entry; tasks && (entry = readdir (tasks));)
        count += entry->d_name[0] != '.';
    closedir (tasks);
    return count;
}

/* They are waited for from the last to the first, and polled before. */
static void
finish (struct sum *sums, int count, int size, const char *what)
{
    for (int i = count; i-- > 0;) {
        for (bool done = i % 2; !done; usleep (100))
            rank_must (accel_work_test (sums[i].work, &done, &err), &err);
        rank_must (accel_work_wait (sums[i].work, &err), &err);
        check (&sums[i], i, size, sum_of_ranks (size), what);
    }
}

/* An engine that moves on by itself has them all, and no thread is made. */
static void
all_fly (struct accel *acc)
{
    struct accel_comm *world = accel_world (acc);
    struct sum sums[REQUESTS];
    int threads = count_threads ();
    for (int i = 0; i < REQUESTS; i++) {
        sums[i] = make (acc, vpi, COUNT, i);
        reduce (world, &sums[i], true);
        right (sums[i].work->is_started && !strcmp (sums[i].work->link->engine->name, "threaded"),
               "work %d is not in flight", i);
    }
    right (count_threads () == threads, "there are %d threads, before there were %d", count_threads (), threads);
    finish (sums, REQUESTS, accel_num_processes (acc), "in flight");
    /* Work on other memory needs the thread; then the engine starts the next on this again. */
    for (int i = 0; i < REQUESTS; i++) {
        sums[i] = make (acc, i ? vpi : ext, COUNT, i);
        reduce (world, &sums[i], true);
    }
    right (!sums[0].work->is_started, "engine polled has work in flight");
    finish (sums, REQUESTS, accel_num_processes (acc), "after other work");
    sums[0] = make (acc, vpi, COUNT, 0);
    reduce (world, &sums[0], true);
    right (sums[0].work->is_started, "with nothing before it, a work is not in flight");
    right (count_threads () == threads + 1, "there are %d threads, before there were %d", count_threads (), threads);
    finish (sums, 1, accel_num_processes (acc), "alone");
}

/* Works of all kinds, started in any order, also between blocking calls, and waited for in the opposite order. */
static void
mixed (struct accel *acc)
{
    enum { MIXED = 9, ROUNDS = 6 };
    struct accel_comm *world = accel_world (acc);
    int size = accel_num_processes (acc);
    for (int round = 0; round < ROUNDS; round++) {
        struct sum sums[MIXED];
        for (int i = 0; i < MIXED; i++) {
            sums[i] = make (acc, &places[(i * (round + 1) + i / 3) % PLACES], i % 4 ? COUNT : LARGE / 16, i);
            reduce (world, &sums[i], true);
            if (i == round) {
                struct sum blocks = make (acc, &places[round % PLACES], COUNT, 3);
                bool starts = accel_process_index (acc) % 2; /* the same call in two ways */
                reduce (world, &blocks, starts);
                if (starts)
                    rank_must (accel_work_wait (blocks.work, &err), &err);
                check (&blocks, 3, size, sum_of_ranks (size), "a blocking call");
            }
        }
        finish (sums, MIXED, size, "mixed");
    }
}

/* Rank 0 waits in the host's engine for rank 1, which waits for a work of both. */
static void
beside_another_engine (struct accel *acc)
{
    struct accel_comm *world = accel_world (acc), *group;
    int rank = accel_process_index (acc);
    int64_t number = 0;
    rank_must (accel_comm_split (&group, world, 0, rank, &err), &err);
    struct sum sum = make (acc, vpi, LARGE, 0);
    reduce (world, &sum, true);
    if (rank)
        rank_must (accel_work_wait (sum.work, &err), &err);
    rank_must (accel_comm_broadcast (group, &number, 1, ACCEL_INT64, 1, &err), &err);
    if (!rank)
        rank_must (accel_work_wait (sum.work, &err), &err);
    check (&sum, 0, accel_num_processes (acc), sum_of_ranks (accel_num_processes (acc)), "large");
    accel_comm_destroy (group);
}

/* Rank 1 starts nothing before rank 0 has seen what it does with its own starts: a work on the device is in flight, one
 * on other memory is not begun before that is over, and those after it are in flight together. */
static void
in_order (struct accel *acc)
{
    enum { ORDERED = 4, MOMENT_US = 50000, PATIENCE_US = 60000000 };
    struct accel_comm *world = accel_world (acc), *group;
    struct sum sums[ORDERED];
    bool is_started = false;
    int rank = accel_process_index (acc);
    rank_must (accel_comm_split (&group, world, 0, rank, &err), &err);
    for (int i = 0; i < ORDERED; i++)
        sums[i] = make (acc, i == 1 ? ext : vpi, COUNT, i);
    for (int i = 0; i < ORDERED; i++) {
        if (rank == 1 && i != 1) /* the first, and then those after the one on other memory */
            rank_must (i < 3 ? accel_comm_barrier (group, &err) : ACCEL_OK, &err);
        if (rank == 0 && i == 2)
            usleep (MOMENT_US); /* the library's thread is in the engine by now, and a start does not wait for it */
        reduce (world, &sums[i], true);
    }
    if (rank == 0) {
        usleep (MOMENT_US);
        work_lock ();
        right (world->calls == sums[0].work->call.number, "a call was begun beside what is in flight");
        work_unlock ();
        rank_must (accel_comm_barrier (group, &err), &err);
        for (int waited = 0; !is_started && waited < PATIENCE_US; waited += 1000) {
            usleep (1000);
            work_lock ();
            is_started = sums[3].work->is_started;
            work_unlock ();
        }
        right (is_started, "a work waits until another one in the same engine is over");
        rank_must (accel_comm_barrier (group, &err), &err);
    }
    finish (sums, ORDERED, 2, "in order");
    accel_comm_destroy (group);
}

/* ---- what goes wrong ---- */

static void
other_device (struct accel *acc)
{
    struct sum sum = make (acc, accel_process_index (acc) == 1 ? ext : vpi, COUNT, 0);
    struct comm_site site = { .file = __FILE__, .line = __LINE__, .call = JOBSEG_CALL_ALL_REDUCE };
    struct comm_site there = comm_site_on (&site, sum.place->device);
    there.work = &sum.work;
    enum accel_status status = comm_all_reduce (accel_world (acc), &there, sum.buffer, sum.buffer, COUNT, ACCEL_INT64,
                                                ACCEL_SUM, &err);
    rank_must (status, &err);
    status = accel_work_wait (sum.work, &err);
    rank_fails (status, ACCEL_ERR_PEER, &err, "devices differ in accel_comm_all_reduce: ");
    rank_fails (status, ACCEL_ERR_PEER, &err, "vpi on rank ");
    rank_fails (status, ACCEL_ERR_PEER, &err, "ext on rank 1 at ");
}

/* Rank 1 leaves when the others have two works in flight, and a third waits for one on other memory. */
static void
leaves (struct accel *acc)
{
    struct sum sums[REQUESTS];
    struct accel_comm *world = accel_world (acc), *group;
    int rank = accel_process_index (acc);
    rank_must (accel_comm_split (&group, world, 0, rank, &err), &err);
    for (int i = 0; rank != 1 && i < REQUESTS; i++) {
        sums[i] = make (acc, i == 2 ? host : vpi, COUNT, i);
        reduce (world, &sums[i], true);
    }
    rank_must (accel_comm_barrier (group, &err), &err);
    accel_comm_destroy (group);
    for (int i = REQUESTS; rank != 1 && i-- > 0;)
        rank_fails (accel_work_wait (sums[i].work, &err), ACCEL_ERR_PEER, &err, "rank 1 ");
}

/* For links.sh: open in a launched rank, so that the engines tell what they have seen when they are closed. */
static int
open_only (void)
{
    struct accel *acc;
    enum accel_status status = accel_open (&acc, NULL, &err);
    if (status)
        fprintf (stderr, "%s\n", err.text);
    else
        accel_close (acc);
    return status != ACCEL_OK;
}

int
main (int argc, char **argv)
{
    (void) argv;
    memory_second = memory_standin;
    memory_register (kDLExtDev, &memory_standin);
    memory_register (kDLVPI, &memory_second);
    if (argc > 1)
        return open_only ();
    for (choice = choices; choice < choices + sizeof choices / sizeof *choices; choice++) {
        setenv ("ACCEL_ENGINE", choice->engines, 1);
        as_ranks (3, choice->engines, each_kind);
    }
    setenv ("ACCEL_ENGINE", choices[0].engines, 1);
    for (int size = 2; size <= 3; size++) {
        as_ranks (size, "works on an engine that moves on by itself", all_fly);
        as_ranks (size, "works on all engines", mixed);
        as_ranks (size, "a rank that waits in another engine", beside_another_engine);
    }
    as_ranks (2, "the order of works on two devices", in_order);
    setenv ("ACCEL_ENGINE", "cpu:threaded,ext:polled", 1);
    as_ranks (3, "works on all engines, of which the host's starts them itself, too", mixed);
    setenv ("THREADED_BOUND", "1", 1);
    as_ranks (3, "the same, and only the program's thread may call it", mixed);
    unsetenv ("THREADED_BOUND");
    setenv ("ACCEL_ENGINE", choices[0].engines, 1);
    setenv ("POLLED_BOUND", "1", 1);
    as_ranks (3, "works on all engines, one of which only the program's thread may call", mixed);
    unsetenv ("POLLED_BOUND");
    as_ranks (3, "works on different devices", other_device);
    as_ranks (3, "a rank leaves that others have works with", leaves);
    return done_testing ();
}
