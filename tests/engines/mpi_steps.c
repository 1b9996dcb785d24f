/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a program that brings engine mpi into states that only rare timing would; needs engine mpi.
 *
 * MPI_Init() of the program gives MPI one thread, so nothing moves while a rank is in no call.  Ranks do their steps in
 * a given order, told by files in the current folder, and some messages of MPI are held back.
 *
 *   mpi_steps forwarder   hosts of 2 and 2 ranks: the rank that reads for its host is late, and the other one is not
 *   mpi_steps others    the same, and the late one has a thread of the engine; what ranks give is too much for all
 *   mpi_steps read      the same hosts: a rank reads nothing while others are many calls ahead
 *   mpi_steps seen      hosts of 3 and 1 ranks: the same within one host
 *   mpi_steps taken     hosts of 2 and 2 ranks: a rank gives its part of a large sum, and takes nothing for a while
 *   mpi_steps numbers   hosts of 1 and 2 ranks: a rank starts a large sum before it sees that an earlier one can run
 *   mpi_steps overtaken hosts of 2 and 1 ranks: a message is held back, and a barrier that was started later is not
 *   mpi_steps halves    the same 3 ranks: a large sum of 16-bit floats
 *   mpi_steps carries   hosts of 2 and 1 ranks: a rank ends that carries a part of a large sum
 *   mpi_steps grouped   the same, and the sum is a group's
 *   mpi_steps abandoned  hosts of 1 and 1 ranks: a message that no rank receives fails, and no job can be opened again
 *   mpi_steps bundles   hosts of 1 and 2 ranks: many small sums, of which MPI copies none
 *   mpi_steps permuted  hosts of 1 and 3 ranks share no memory if ranks are in another order on their host
 *   mpi_steps machines  hosts of 2 and 1 ranks: nor do ranks of different machines, whatever they say of hosts
 *   mpi_steps replaced  the same: nor if the file is another one when the others open it
 *   mpi_steps report    what the module says of itself where MPI gives a lower level than was asked for */
#include <config.h>

#include "tests/engines/mpi_job.h"

#include <dirent.h>
#include <dlfcn.h>
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { MOST_RANKS = 8, SLOTS = 8, CALLS = 2 * SLOTS, LARGE = 1 << 20, NAP_US = 1000, NAPS = 60000 };

static int size;

/* ---- MPI, as the engine calls it ---- */

static int sent_to[MOST_RANKS], got_from[MOST_RANKS], got;
static bool holds;            /* messages do not come */
static const char *until;     /* before this file is there */
static int held;              /* how many times MPI was asked since */
static bool lowers, replaces;

/* The descriptor of the shared memory becomes that of another file. */
static void
replace_memory (void)
{
    char path[300], target[300];
    struct stat file;
    DIR *entries = opendir ("/proc/self/fd");
    int other = memfd_create ("other", MFD_CLOEXEC);
    replaces = false;
    for (struct dirent *entry; entries && (entry = readdir (entries));) {
        snprintf (path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        ssize_t length = readlink (path, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        int fd = atoi (entry->d_name);
        if (strstr (target, "memfd:accel-mpi"))
            must (!fstat (fd, &file) && !ftruncate (other, file.st_size) && dup2 (other, fd) == fd, "dup2");
    }
    must (entries && !closedir (entries), "/proc/self/fd");
}

int
MPI_Isend (const void *at, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
    if (replaces)
        replace_memory ();
    sent_to[to % MOST_RANKS]++;
    return PMPI_Isend (at, count, type, to, tag, comm, request);
}

int
MPI_Test (MPI_Request *request, int *done, MPI_Status *status)
{
    enum { MORE = 100 };
    held += holds && !(until && access (until, F_OK));
    holds = holds && held < MORE;
    *done = 0;
    int code = holds ? MPI_SUCCESS : PMPI_Test (request, done, status);
    got += *done;
    if (*done && status != MPI_STATUS_IGNORE && status->MPI_SOURCE >= 0)
        got_from[status->MPI_SOURCE % MOST_RANKS]++;
    return code;
}

int
MPI_Init_thread (int *argc, char ***argv, int wanted, int *level)
{
    int code = PMPI_Init_thread (argc, argv, wanted, level);
    *level = lowers ? MPI_THREAD_FUNNELED : *level;
    return code;
}

/* ---- steps ---- */

static bool moves_elsewhere;

/* A machine without a name is a machine of its own. */
ACCEL_API FILE *
fopen (const char *path, const char *mode)
{
    static FILE *(*next) (const char *path, const char *mode);
    if (!next)
        *(void **) &next = dlsym (RTLD_NEXT, "fopen");
    return moves_elsewhere && strstr (path, "boot_id") ? NULL : next (path, mode);
}

static void
say (const char *step)
{
    char name[64];
    snprintf (name, sizeof name, "%s.%d", step, rank);
    FILE *file = fopen (name, "w");
    must (file && !fclose (file), name);
}

static bool has_one_thread, lets_mpi_move;

/* @param work  NULL: this rank is in no call meanwhile */
static void
look (struct accel_work *work)
{
    bool is_over = false;
    int has_come = 0;
    if (lets_mpi_move)
        MPI_Iprobe (MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &has_come, MPI_STATUS_IGNORE);
    if (work)
        must (!accel_work_test (work, &is_over, &err), "test");
    usleep (NAP_US);
}

static void
await (const char *step, int of_rank)
{
    char name[64];
    snprintf (name, sizeof name, "%s.%d", step, of_rank);
    for (int i = 0; access (name, F_OK); i++) {
        must (i < NAPS, name);
        look (NULL);
    }
}

/* Until @count has grown to @enough, and what has come was looked at. */
static void
move_until (struct accel_work *work, const int *count, int enough, const char *what)
{
    for (int i = 0; *count < enough; i++) {
        must (i < NAPS, what);
        look (work);
    }
    look (work);
}

static void
move_for (struct accel_work *work, int naps)
{
    while (naps--)
        look (work);
}

/* All ranks are here, and what is sent and comes from now on is counted.  MPI may still have something to send. */
static void
begin_step (const char *step)
{
    got = 0;
    memset (got_from, 0, sizeof got_from);
    memset (sent_to, 0, sizeof sent_to);
    say (step);
    lets_mpi_move = has_one_thread;
    for (int i = 0; i < size; i++)
        await (step, i);
    lets_mpi_move = false;
}

static void
open_job (uint32_t timeout_ms)
{
    join_job (timeout_ms);
    size = accel_comm_size (world);
    must (size <= MOST_RANKS, "ranks");
    begin_step ("open");
}

struct sum {
    struct accel_work *work;
    float *values;
    const float *own;
    size_t count;
    int number;
};

static float
value_of (int of_rank, int number, size_t i)
{
    return (float) ((of_rank + 1) * (int) ((i + (size_t) number) % 1000));
}

static void
start_from (struct sum *sum, float *own)
{
    for (size_t i = 0; i < sum->count; i++)
        own[i] = value_of (rank, sum->number, i);
    must (!accel_comm_all_reduce_start (&sum->work, world, own, sum->values, sum->count, ACCEL_FLOAT32, ACCEL_SUM,
                                        &err), "start");
}

static void
start (struct sum *sum, int number, size_t count)
{
    *sum = (struct sum){ .values = malloc (count * sizeof (float)), .count = count, .number = number };
    must (sum->values, "malloc");
    start_from (sum, sum->values);
}

static void
end (struct sum *sum)
{
    must (!accel_work_wait (sum->work, &err), "wait");
    for (size_t i = 0; i < sum->count; i++)
        must (sum->values[i] == value_of (size * (size + 1) / 2 - 1, sum->number, i), "a wrong sum");
    free (sum->values);
}

/* ---- who reads for a host ---- */

/* Rank 3 reads what comes for its host, rank 2 has what was sent to itself.  Rank 1 is late, so rank 0 says to all
 * ranks that it has come. */
static void
meet_beside (bool is_late)
{
    const char *step = is_late ? "late" : "early", *begun = is_late ? "late-begun" : "begun",
               *told = is_late ? "late-told" : "told", *read = is_late ? "late-read" : "read",
               *over = is_late ? "late-over" : "over";
    struct sum first, second;
    begin_step (step);
    if (rank == 0)
        await (begun, 3);
    if (rank == 1)
        await (told, 2);
    start (&first, 1, 1);
    if (rank == 2) {
        move_until (first.work, &got_from[0], 2, "no message says that rank 0 has come");
        if (!is_late)
            await (read, 3);
        say (told);
    }
    start (&second, 2, 1);
    if (rank == 3) {
        say (begun);
        if (is_late)
            await (over, 2);
        else
            move_until (first.work, &got_from[0], 2, "no message says that rank 0 has come");
        say (read);
    }
    end (&first);
    end (&second);
    if (rank == 2)
        say (over);
    must (!accel_comm_barrier (world, &err), "barrier");
}

/* What ranks give is too much for a bundle to all, so it goes to rank 3, which MPI gives nothing.  As rank 2 does not
 * come, each tells it. */
static void
hear_from_each (void)
{
    enum { COUNT = 700 };
    struct sum sum;
    open_job (10000);
    holds = rank == 3;
    until = "heard.2";
    for (int i = 0; rank == 2 && i < 2; i++)
        await ("sent", i);
    if (rank < 2)
        await ("posted", 3);
    start (&sum, 1, COUNT);
    if (rank < 2) {
        move_until (sum.work, &sent_to[2], 1, "no message tells rank 2 who has come");
        say ("sent");
    }
    if (rank == 3)
        say ("posted");
    end (&sum);
    if (rank == 2)
        say ("heard");
}

static void
be_late_as_forwarder (void)
{
    open_job (5000);
    meet_beside (false);
    meet_beside (true);
}

static void
start_all (struct sum *sums)
{
    for (int i = 0; i < CALLS; i++)
        start (&sums[i], i, 1);
}

static void
end_all (struct sum *sums)
{
    for (int i = 0; i < CALLS; i++)
        end (&sums[i]);
}

/* Rank 2 has read as many messages of rank 0 as there are places, and none of rank 1, of which more come. */
static void
read_nothing (void)
{
    enum { LONG = 300 };
    struct sum sums[CALLS];
    open_job (20000);
    if (rank == 1)
        await ("idle", 2);
    start_all (sums);
    if (rank == 2) {
        move_until (sums[0].work, &got_from[0], SLOTS, "nothing comes from rank 0");
        say ("idle");
        await ("come", 3);
    }
    if (rank == 3) {
        move_until (sums[0].work, &got_from[1], SLOTS, "nothing comes from rank 1");
        move_for (sums[0].work, LONG);
        say ("come");
    }
    end_all (sums);
}

/* Rank 0 has read as many messages of rank 2 as there are places, and none of rank 1, which writes more. */
static void
see_nothing (void)
{
    enum { LONG = 300 };
    struct sum sums[CALLS];
    open_job (20000);
    if (rank == 0)
        await ("written", 2);
    if (rank == 1)
        await ("idle", 0);
    start_all (sums);
    if (rank == 2)
        say ("written");
    if (rank == 0) {
        look (sums[0].work);
        say ("idle");
        await ("written", 1);
    }
    if (rank == 1) {
        move_for (sums[0].work, LONG);
        say ("written");
    }
    end_all (sums);
}

/* ---- large sums ---- */

static void
come_last (int last)
{
    for (int i = 0; i < size && rank == last; i++)
        if (i != last)
            await ("come", i);
}

/* What ranks give is in shared memory, and needs no more steps; the results are not. */
static void
take_nothing (void)
{
    enum { LONG = 500 };
    struct sum sum = { .count = LARGE, .values = malloc (LARGE * sizeof (float)) };
    void *own = NULL;
    open_job (20000);
    must (sum.values && !accel_alloc (acc, LARGE * sizeof (float), &own, &err), "memory");
    come_last (1);
    start_from (&sum, own);
    say ("come");
    if (rank == 1) {
        move_until (sum.work, &got, 1, "the other host does not come");
        await ("far", 0);
    }
    if (rank == 0) {
        move_for (sum.work, LONG);
        say ("far");
    }
    end (&sum);
    accel_free (acc, own);
}

/* Rank 2 reads for rank 1, which finds that all have come to both sums when it starts the second one. */
static void
start_two (void)
{
    struct sum first, second;
    open_job (10000);
    if (rank != 1)
        await ("begun", 1);
    start (&first, 1, LARGE);
    if (rank == 1) {
        say ("begun");
        await ("read", 2);
    }
    start (&second, 2, LARGE);
    if (rank == 2) {
        move_until (first.work, &got_from[0], 2, "rank 0 does not come");
        say ("read");
    }
    end (&first);
    end (&second);
}

/* 16-bit types, for which libaccel has no helper there. */
static void
add_halves (void)
{
    enum { ONE = 0x3f80, THREE = 0x4040 };
    static uint16_t values[LARGE];
    open_job (10000);
    for (size_t i = 0; i < LARGE; i++)
        values[i] = ONE;
    must (!accel_comm_all_reduce (world, values, values, LARGE, ACCEL_BFLOAT16, ACCEL_SUM, &err), "sum");
    for (size_t i = 0; i < LARGE; i++)
        must (values[i] == THREE, "a wrong sum");
}

static void
leave_at_once (void)
{
    printf ("as expected\n");
    fflush (stdout);
    say ("left");
    for (int i = 0; i < size; i++)
        if (i != 1)
            await ("left", i);
    _exit (0);
}

static void
end_in (bool is_grouped)
{
    struct sum sum;
    open_job (6000);
    if (is_grouped)
        must (!accel_comm_split (&world, world, 0, rank, &err), "split");
    come_last (1);
    start (&sum, 1, LARGE);
    say ("come");
    if (rank == 1)
        raise (SIGKILL);
    enum accel_status status = accel_work_wait (sum.work, &err);
    must (status == ACCEL_ERR_PEER && strstr (err.text, "rank 1 ended (process"), "not who ended");
    leave_at_once ();
}

static void
end_while_carrying (void)
{
    end_in (false);
}

static void
end_in_a_group (void)
{
    end_in (true);
}

/* ---- messages ---- */

static void
be_overtaken (void)
{
    struct accel_work *work;
    open_job (10000);
    float value = rank == 1 ? 0 : 7;
    holds = rank == 1;
    until = "sent.0";
    if (rank == 0)
        must (!accel_comm_send (world, &value, 1, ACCEL_FLOAT32, 1, &err), "send");
    if (rank == 1)
        must (!accel_comm_recv (world, &value, 1, ACCEL_FLOAT32, 0, &err) && value == 7, "receive");
    must (!accel_comm_barrier_start (&work, world, &err), "start");
    if (rank == 0)
        say ("sent");
    must (!accel_work_wait (work, &err), "wait");
}

static void
leave_a_message (void)
{
    enum { TIMEOUT_MS = 1000 };
    static float values[LARGE];
    open_job (TIMEOUT_MS);
    if (rank == 0) {
        must (accel_comm_send (world, values, LARGE, ACCEL_FLOAT32, 1, &err) == ACCEL_ERR_TIMEOUT, "no timeout");
        accel_close (acc);
        enum accel_status status = accel_open (&acc, NULL, &err);
        must (status == ACCEL_ERR_UNSUPPORTED && strstr (err.text, "an earlier job of this process failed"),
              "the job is opened again");
        say ("refused");
    }
    await ("refused", 0);
    printf ("as expected\n");
    fflush (stdout);
    _exit (0);
}

static void
send_bundles (void)
{
    enum { COUNT = 300 }; /* more than MPI copies, if its limit is low */
    struct sum sums[CALLS];
    open_job (10000);
    if (rank)
        await ("sent", 0);
    for (int i = 0; i < CALLS; i++)
        start (&sums[i], i, COUNT);
    if (rank == 0)
        say ("sent");
    end_all (sums);
}

/* ---- who shares memory ---- */

static void
share_nothing (void)
{
    struct sum sum;
    char line[512];
    open_job (60000);
    FILE *maps = fopen ("/proc/self/maps", "r");
    must (maps, "/proc/self/maps");
    while (fgets (line, sizeof line, maps))
        must (!strstr (line, "memfd:accel-mpi") && !strstr (line, "memfd:other"), "shared memory");
    fclose (maps);
    start (&sum, 1, LARGE);
    end (&sum);
}

static bool
is_rank (const char *wanted)
{
    const char *text = getenv ("RANK");
    return text && !strcmp (text, wanted);
}

static void
change_places (void)
{
    if (is_rank ("2") || is_rank ("3"))
        setenv ("LOCAL_RANK", is_rank ("2") ? "2" : "1", 1);
    share_nothing ();
}

static void
be_elsewhere (void)
{
    moves_elsewhere = is_rank ("1");
    share_nothing ();
}

static void
find_another (void)
{
    replaces = is_rank ("0");
    share_nothing ();
}

static int
report (const char *module)
{
    char text[512] = "";
    void *library = dlopen (module, RTLD_NOW);
    int (*ask) (char *text, size_t bytes);
    must (library, "dlopen");
    *(void **) &ask = dlsym (library, "accel_engine_report");
    lowers = true;
    must (ask && !ask (text, sizeof text), "report");
    puts (text);
    return 0;
}

int
main (int argc, char **argv)
{
    static const struct {
        const char *how;
        void (*run) (void);
        bool has_threads; /* of the engine */
    } scenarios[] = {
        { "forwarder", be_late_as_forwarder, false }, { "others", hear_from_each, true },
        { "read", read_nothing, false },          { "seen", see_nothing, false },
        { "taken", take_nothing, false },         { "numbers", start_two, false },
        { "halves", add_halves, false },          { "carries", end_while_carrying, false },
        { "grouped", end_in_a_group, false },
        { "overtaken", be_overtaken, false },
        { "abandoned", leave_a_message, false },        { "bundles", send_bundles, false },
        { "permuted", change_places, false },     { "machines", be_elsewhere, false },
        { "replaced", find_another, false },
    };
    const char *how = argc > 1 ? argv[1] : "";
    size_t i = 0;
    if (!strcmp (how, "report") && argc > 2)
        return report (argv[2]);
    while (i < sizeof scenarios / sizeof *scenarios && strcmp (how, scenarios[i].how))
        i++;
    if (i == sizeof scenarios / sizeof *scenarios)
        return 2;
    has_one_thread = !scenarios[i].has_threads;
    if (has_one_thread)
        MPI_Init (NULL, NULL);
    scenarios[i].run ();
    accel_close (acc);
    printf ("as expected\n");
    if (has_one_thread)
        MPI_Finalize ();
    return 0;
}
