/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs of engine nccl, with NCCL's answers, the other ranks and the time as nccl_script.h has them: how they load NCCL,
 * open, divide and end, how long they wait, and what they say and leave behind after each failure. */
#include <config.h>

#include "tests/standin/nccl_script.h"

#include <sys/wait.h>

/* ---- opening ---- */

static void
test_rounds (void)
{
    static const struct {
        const char *rounds, *address;
        int rank, busy_for;
        const char *plan, *text, *said;
        int plan_result, ms;
        enum accel_status status;
    } cases[] = {
        { "0", NULL, 0, 0, NULL, "", "Init 0 of 2 i; mine 0; ", 0, 0, ACCEL_OK },
        { "0", NULL, 1, 0, NULL, "", "Init 1 of 2 i; mine 0; ", 0, 0, ACCEL_OK },
        { "110", NULL, 0, 0, NULL, "", "Init 0 of 2 i; mine 0; mine 0; mine 0; ", 0, 0, ACCEL_OK },
        { "00", NULL, 0, 2001, NULL, "", "Init 0 of 2 i; mine 1; mine 0; ", 0, 100, ACCEL_OK },
        { "12", NULL, 0, 0, NULL, "accel_open: NCCL does not start on rank 1",
          "Init 0 of 2 i; mine 0; mine 0; Abort @0; ", 0, 0, ACCEL_ERR_PEER },
        { "1", NULL, 0, -1, NULL, "rank 1 is gone", "Init 0 of 2 i; mine 1; mine 1; Abort @0; ", 0, 200,
          ACCEL_ERR_PEER },
        { "1111111", NULL, 0, -1, NULL,
          "accel_open: engine nccl: timed out after 500 ms while NCCL was connecting the ranks",
          "Init 0 of 2 i; mine 1; mine 1; mine 1; mine 1; Abort @0; mine 2; ", 0, 500, ACCEL_ERR_TIMEOUT },
        { "1111111", "h:1", 0, -1, NULL,
          "accel_open: engine nccl: timed out after 500 ms while NCCL was connecting the ranks (NCCL_COMM_ID is h:1)",
          "Init 0 of 2 i; mine 1; mine 1; mine 1; mine 1; Abort @0; mine 2; ", 0, 500, ACCEL_ERR_TIMEOUT },
        { "0", "h:1", 0, 0, "Init",
          "accel_open: engine nccl: NCCL: ncclCommInitRankConfig: unhandled system error (NCCL_DEBUG=WARN says more) "
          "(NCCL_COMM_ID is h:1: it must be a free port of this host)",
          "Init 0 of 2 i; mine 2; ", 2, 0, ACCEL_ERR_SYSTEM },
        { "0", "h:1", 1, 0, "Init",
          "accel_open: engine nccl: NCCL: ncclCommInitRankConfig: unhandled system error (NCCL_DEBUG=WARN says more)",
          "Init 1 of 2 i; mine 2; ", 2, 0, ACCEL_ERR_SYSTEM },
        { "0", "h:1", 0, 0, "Init",
          "accel_open: engine nccl: NCCL: ncclCommInitRankConfig: an error (NCCL_DEBUG=WARN says more)",
          "Init 0 of 2 i; mine 2; ", 3, 0, ACCEL_ERR_SYSTEM },
        { "0", NULL, 0, 0, "Init",
          "accel_open: engine nccl: NCCL: ncclCommInitRankConfig: unhandled system error (NCCL_DEBUG=WARN says more)",
          "Init 0 of 2 i; mine 2; ", 2, 0, ACCEL_ERR_SYSTEM },
        { "0", NULL, 0, 0, "cudaStreamCreateWithFlags",
          "engine nccl: cuda:1: cudaStreamCreateWithFlags: out of memory (cudaErrorMemoryAllocation)", "", 2, 0,
          ACCEL_ERR_NOMEM },
        { "0", NULL, 0, 0, "cudaStreamCreateWithFlags",
          "engine nccl: cuda:1: cudaStreamCreateWithFlags: an illegal memory access was encountered "
          "(cudaErrorIllegalAddress)", "", 700, 0, ACCEL_ERR_SYSTEM },
        { "0", NULL, 0, 0, "hello", "no hello", "", 1, 0, ACCEL_ERR_PEER },
        { "0", NULL, 0, 0, "GetUniqueId", "accel_open: engine nccl: rank 0: ncclGetUniqueId: unhandled system error",
          "",
          2, 0, ACCEL_ERR_SYSTEM },
        { "0", "h:1", 0, 0, "GetUniqueId",
          "accel_open: engine nccl: rank 0: ncclGetUniqueId: an error (NCCL_COMM_ID: expected HOST:PORT)", "", 4, 0,
          ACCEL_ERR_SYSTEM },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        void *transport = &job;
        fake_nccl ();
        rounds = cases[i].rounds;
        busy_for = cases[i].busy_for;
        let_fail (cases[i].plan, 1, cases[i].plan_result);
        if (cases[i].address)
            setenv ("NCCL_COMM_ID", cases[i].address, true);
        int64_t before = clock_us;
        enum accel_status status = try_to_open (&transport, cases[i].rank, 2);
        long long us = clock_us - before;
        unsetenv ("NCCL_COMM_ID");
        const char *rest = strncmp (said, "GetUniqueId; ", 13) ? said : said + 13;
        bool good = status == cases[i].status && !strcmp (err.text, cases[i].text) && !strcmp (rest, cases[i].said)
                    && (rest != said) == !cases[i].rank && (cases[i].status ? !transport : transport != NULL)
                    && is_ms (before, cases[i].ms) && !locks_held && !cudaGetLastError ();
        if (!ok (good, "rounds %s: %s", cases[i].rounds, cases[i].text))
            diag ("%d: '%s', '%s', %lld us", (int) status, err.text, said, us);
        if (!status)
            close_job (transport, IN_ORDER);
        else if (events || streams || engine.comms)
            ok (false, "%d events and %d streams are left", events, streams);
    }
}

/* The exchange has its own deadline; a job of one rank has no need of it. */
static void
test_slow_exchange (void)
{
    void *transport = NULL;
    fake_nccl ();
    rounds = "10";
    exchange_us = 600000;
    ok (!try_to_open (&transport, 0, 40), "the other ranks may take their time: %s", err.text);
    exchange_us = 0;
    is_text (said, "GetUniqueId; Init 0 of 40 i; mine 0; mine 0; ", "until they are connected, too");
    close_job (transport, IN_ORDER);
    fake_nccl ();
    busy_for = 2001;
    int64_t before = clock_us;
    ok (!try_to_open (&transport, 0, 1) && is_ms (before, 100), "one rank waits for NCCL, too: %s", err.text);
    is_text (said, "GetUniqueId; Init 0 of 1 i; ", "and for nothing else");
    close_job (transport, IN_ORDER);
}

/* Which ranks have one GPU; those whose GPU is not known have others. */
static void
test_gpus (void)
{
    static const struct {
        struct hello hellos[4];
        const char *text;
    } cases[] = {
        { { { .bus = "a" }, { .bus = "b" }, { .bus = "c" }, { .bus = "d" } },
          "accel_open: NCCL does not start on rank 3" },
        { { { .bus = "" }, { .bus = "" }, { .bus = "c" }, { .bus = "" } },
          "accel_open: NCCL does not start on rank 3" },
        { { { .bus = "a" }, { .bus = "a", .host = 1 }, { .bus = "b" }, { .bus = "b", .host = 1 } },
          "accel_open: NCCL does not start on rank 3" },
        { { { .bus = "a" }, { .bus = "b" }, { .bus = "a" }, { .bus = "c" } },
          "NCCL needs a GPU for each rank, but ranks 0 and 2 have the same one: "
          "start no more than 3 there, or use --cpu" },
        { { { .bus = "a" }, { .bus = "a", .host = 1 }, { .bus = "b" }, { .bus = "b" } },
          "NCCL needs a GPU for each rank, but ranks 2 and 3 have the same one: "
          "start no more than 2 there, or use --cpu" },
        { { { .bus = "a" }, { .bus = "a", .host = 1 }, { .bus = "c" }, { .bus = "a", .host = 1 } },
          "NCCL needs a GPU for each rank, but ranks 1 and 3 have the same one: "
          "start no more than 1 there, or use --cpu" },
        { { { .bus = "a" }, { .bus = "a" }, { .bus = "b" }, { .bus = "c" } },
          "NCCL needs a GPU for each rank, but ranks 0 and 1 have the same one: "
          "start no more than 3 there, or use --cpu" },
        { { { .words = "some words" }, { .bus = "b" }, { .bus = "b" }, { .bus = "b" } },
          "accel_open: engine nccl: rank 0: some words" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        void *transport = NULL;
        fake_nccl ();
        rounds = "2";
        hellos = cases[i].hellos;
        is_error (try_to_open (&transport, 1, 4), cases[i].text, cases[i].text);
    }
    hellos = NULL;
    let_fail ("cudaDeviceGetPCIBusId", 1, 999);
    void *transport = NULL;
    rounds = "2";
    ok (try_to_open (&transport, 1, 3) && !*own.bus && !*own.id && !*own.words, "a GPU without a name: '%s'", own.bus);
}

/* The number of the machine, FNV-1a of what Linux says. */
static void
test_host (void)
{
    static const char *const files[] = { "/proc/sys/kernel/random/boot_id", "/dev/null", "/nowhere/at/all", "/proc" };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char text[64] = "";
        uint64_t wanted = UINT64_C (14695981039346656037);
        FILE *file = __real_fopen (files[i], "r");
        if (file && !fgets (text, sizeof text, file))
            *text = '\0';
        if (file)
            __real_fclose (file);
        for (const char *c = text; *c; c++)
            wanted = (wanted ^ (unsigned char) *c) * UINT64_C (1099511628211);
        boot_file = i ? files[i] : NULL;
        struct communicator *comm = open_job (0, 2);
        ok (own.host == wanted && !strcmp (own.bus, "0000:11:00.0") && own.id[0] == 'i' && own.id[127] == 'i'
                && !*own.words && !open_files,
            "what rank 0 says of itself, with %s: %s", files[i], own.bus);
        close_job (comm, IN_ORDER);
    }
    boot_file = NULL;
}

/* ---- ends ---- */

/* How long a job that is closed waits for NCCL, which is busy for ever; and what is left of it. */
static void
test_close (void)
{
    static const struct {
        const char *plan, *said;
        int busy_for, turn, ms, allocations;
        bool lacks_register;
    } cases[] = {
        { NULL, "Finalize @0; Destroy @0; ", 0, 0, 0, 0, false },
        { NULL, "Deregister @0; Deregister @0; Finalize @0; Destroy @0; ", 0, 0, 0, 2, false },
        { NULL, "Finalize @0; Destroy @0; ", 0, 0, 0, 1, true },
        { NULL, "Abort @0; ", -1, 0, 2000, 0, false },
        { NULL, "Abort @0; ", -1, 0, 4000, 1, false },
        { "Finalize", "Finalize @0; Abort @0; ", 0, 1, 0, 0, false },
        { "Destroy", "Finalize @0; Destroy @0; Abort @0; ", 0, 1, 0, 0, false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct communicator *comm = open_job (0, 2);
        void *memory;
        if (cases[i].lacks_register)
            nccl.CommRegister = NULL;
        for (int k = 0; k < cases[i].allocations; k++)
            accel_engine.alloc (comm, &memory, 16, &err);
        *said = '\0';
        comm->is_nccl_busy = cases[i].busy_for;
        busy_for = cases[i].busy_for;
        let_fail (cases[i].plan, cases[i].turn, 3);
        int64_t before = clock_us;
        accel_engine.close (comm);
        ok (!strcmp (said, cases[i].said) && is_ms (before, cases[i].ms) && !events && !streams && !engine.comms
                && !locks_held,
            "%s: %lld us, '%s'", cases[i].plan ? cases[i].plan : "closed", (long long) (clock_us - before), said);
    }
    struct communicator *comm = open_job (0, 2);
    let_fail ("Finalize", 2, 3);
    busy_for = 0;
    accel_engine.close (comm);
    ok (!strcmp (said, IN_ORDER), "a job that is closed is finalized once: %s", said);
}

/* While NCCL ends what it was doing. */
static void
test_finalize_busy (void)
{
    struct communicator *comm = open_job (0, 2);
    busy_for = 10;
    int64_t before = clock_us;
    accel_engine.close (comm);
    ok (!strcmp (said, IN_ORDER) && clock_us - before == 500, "the end is waited for: %lld us",
        (long long) (clock_us - before));
}

/* ---- groups of ranks ---- */

static void
test_splits (void)
{
    struct communicator *comm = open_job (1, 3);
    const int ranks[] = { 1, 2 };
    int64_t group_id = 99;
    void *group = NULL, *work;
    struct accel_engine_call call = sum ();
    ok (!accel_engine.make_group (comm, 2, &group_id, &err) && group_id == 1, "a group has the number of its rank");
    ok (!accel_engine.split (comm, -5, 5, &err) && !strcmp (said, "Split @0 -1 5; ") && !events,
        "a rank in no group: %s", said);
    *said = '\0';
    busy_for = -1;
    ok (!accel_engine.split (comm, 7, 2, &err) && !strcmp (said, "Split @0 7 2; "), "NCCL is busy with it: %s", said);
    ok (!accel_engine.join_group (comm, ranks, 2, 0, 7, &group, &err) && group, "a group that is not there yet");
    ok (!accel_engine.start (group, &call, &work, &err) && !strcmp (said, "Split @0 7 2; ")
        && !accel_engine.test (group, work),
        "its calls wait");
    ok (((struct communicator *) group)->size == 2 && ((struct communicator *) group)->rank == 2, "its size and rank");
    void *second = &job;
    is_error (accel_engine.join_group (comm, ranks, 2, 0, 7, &second, &err), "engine nccl: split() was not called",
              "it is joined once");
    ok (!second && err.code == ACCEL_ERR_INVALID, "and NULL otherwise");
    busy_for = 0;
    ok (!accel_engine.wait (group, work, &err), "they end when NCCL has made it");
    is_text (said, "Split @0 7 2; AllReduce @2 0 4096 3 7 0; ", "on the group's communicator");
    delayed = NULL;
    ok (!accel_engine.split (comm, -1, 0, &err) && !delayed, "a split comes after nothing on the GPU");
    set_stuck (true);
    accel_engine.start (group, &call, &work, &err);
    ok (!test_after (group, work, 0) && !test_after (group, work, 499) && test_after (group, work, 50),
        "it has the time of its parent");
    is_error (accel_engine.wait (group, work, &err), "timed out, waiting for rank 1", "no more");
    set_stuck (false);
    accel_engine.close (comm);
    ok (!strcmp (said + strlen (said) - strlen (IN_ORDER), IN_ORDER) && engine.comms == group, "its parent ends alone");
    close_job (group, "");
}

static void
test_failing_splits (void)
{
    static const struct {
        const char *plan, *text, *said, *at_end;
        int turn, result;
        enum accel_status status;
    } cases[] = {
        { "Split", "NCCL: ncclCommSplit: an error: x", "Split @0 0 0; Abort @0; ", "", 1, 3, ACCEL_ERR_SYSTEM },
        { "Ask", "NCCL: ncclCommGetAsyncError: an error: x", "Split @0 0 0; Abort @0; ", "Abort @1; ", 1, 3,
          ACCEL_ERR_SYSTEM },
        { "cudaStreamCreateWithFlags",
          "engine nccl: cuda:1: cudaStreamCreateWithFlags: out of memory (cudaErrorMemoryAllocation)", "", IN_ORDER, 1,
          2, ACCEL_ERR_NOMEM },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct communicator *comm = open_job (0, 2);
        last_words = "x";
        let_fail (cases[i].plan, cases[i].turn, cases[i].result);
        enum accel_status status = accel_engine.split (comm, 0, 0, &err);
        if (is_error (status, cases[i].text, cases[i].plan) && (status != cases[i].status || strcmp (said,
            cases[i].said)))
            ok (false, "%d: %s", (int) status, said);
        close_job (comm, cases[i].at_end);
    }
}

/* A group that NCCL never makes is lost with its parent, together with a group of it; one that was made is not. */
static void
test_lost_groups (void)
{
    struct communicator *comm = open_job (0, 2);
    const int ranks[] = { 0, 1 };
    void *groups[3], *work;
    struct accel_engine_call call = sum ();
    accel_engine.split (comm, 0, 0, &err);
    accel_engine.join_group (comm, ranks, 2, 0, 0, &groups[0], &err);
    accel_engine.run (groups[0], &call, &err);
    busy_for = -1;
    accel_engine.split (comm, 1, 0, &err);
    accel_engine.join_group (comm, ranks, 2, 0, 1, &groups[1], &err);
    accel_engine.split (groups[1], 2, 0, &err);
    accel_engine.join_group (groups[1], ranks, 2, 0, 2, &groups[2], &err);
    accel_engine.start (groups[2], &call, &work, &err);
    *said = '\0';
    accel_engine.give_up (comm, "late");
    is_text (said, "Abort @0; ", "only the parent is NCCL's to end");
    ok (accel_engine.test (groups[2], work), "the call of a group that will never be is over");
    is_error (accel_engine.wait (groups[2], work, &err), "this process gave up: late", "with the reason");
    is_error (accel_engine.run (groups[1], &call, &err), "this process gave up: late", "of the parent's");
    busy_for = 0;
    ok (!accel_engine.run (groups[0], &call, &err), "a group that is there goes on");
    for (int i = 2; i >= 0; i--)
        accel_engine.close (groups[i]);
    close_job (comm, "");
}

/* A group that has failed keeps its reason, and one that NCCL is still making has its parent's. */
static void
test_group_failures (void)
{
    struct communicator *comm = open_job (0, 2);
    const int ranks[] = { 0, 1 };
    void *groups[2], *work;
    struct accel_engine_call call = sum ();
    busy_for = -1;
    for (int64_t i = 0; i < 2; i++) {
        accel_engine.split (comm, i, 0, &err);
        accel_engine.join_group (comm, ranks, 2, 0, i, &groups[i], &err);
    }
    ok (wakes == 2, "a thread is to pass on what a group waits for: %d", wakes);
    void *memory;
    int64_t before = clock_us;
    *said = '\0';
    ok (!accel_engine.alloc (groups[1], &memory, 16, &err) && is_ms (before, 2000),
        "memory for a group that is not there");
    is_text (said, "MemAlloc 32; ", "is not registered");
    accel_engine.start (groups[1], &call, &work, &err);
    ok (wakes == 3, "and its calls");
    accel_engine.give_up (groups[0], "first");
    before = clock_us;
    void *more;
    ok (!accel_engine.alloc (groups[0], &more, 16, &err) && clock_us == before,
        "a group that is lost is not waited for");
    accel_engine.free (groups[0], more);
    async_error = ncclRemoteError;
    looks_until_failure = 2;
    is_error (accel_engine.wait (groups[1], work, &err), "rank 1 is %% dead",
              "a group that is not there has a network error");
    is_error (accel_engine.run (groups[0], &call, &err), "this process gave up: first",
              "one that has failed keeps its own");
    *said = '\0';
    accel_engine.free (groups[1], memory);
    is_text (said, "Wait; MemFree; ", "memory of it");
    accel_engine.close (groups[1]);
    accel_engine.close (groups[0]);
    close_job (comm, "");

    comm = open_job (0, 2);
    busy_for = -1;
    accel_engine.split (comm, 0, 0, &err);
    accel_engine.join_group (comm, ranks, 2, 0, 0, &groups[0], &err);
    async_error = ncclInternalError;
    accel_engine.close (groups[0]);
    is_error (accel_engine.run (comm, &call, &err), "NCCL: asynchronous error: an error (NCCL_DEBUG=WARN says more)",
              "an error while a group is closed is the one that is told");
    close_job (comm, "");
}

/* Groups are joined in any order. */
static void
test_order_of_groups (void)
{
    struct communicator *comm = open_job (0, 2);
    const int ranks[] = { 0, 1 };
    struct accel_engine_call call = sum ();
    void *groups[2];
    for (int64_t i = 0; i < 2; i++)
        accel_engine.split (comm, i, 0, &err);
    for (int64_t i = 0; i < 2; i++)
        accel_engine.join_group (comm, ranks, 2, 0, i, &groups[i], &err);
    *said = '\0';
    ok (!accel_engine.run (groups[0], &call, &err), "%s", err.text);
    is_text (said, "AllReduce @1 0 4096 3 7 0; ", "the group with that number");
    accel_engine.close (groups[1]);
    accel_engine.close (groups[0]);
    close_job (comm, IN_ORDER);
}

/* A group that NCCL is still making outlives its parent. */
static void
test_outlived (void)
{
    struct communicator *comm = open_job (0, 2);
    const int ranks[] = { 0, 1 };
    struct accel_engine_call call = sum ();
    void *group;
    busy_for = -1;
    accel_engine.split (comm, 0, 0, &err);
    accel_engine.join_group (comm, ranks, 2, 0, 0, &group, &err);
    accel_engine.close (comm);
    is_error (accel_engine.run (group, &call, &err), "the job was closed while NCCL was busy",
              "a group whose parent was closed");
    ok (err.code == ACCEL_ERR_PEER, "it is not to blame");
    close_job (group, "Abort @1; ");
}

/* Groups that were never joined end with their parent. */
static void
test_unjoined (void)
{
    struct communicator *comm = open_job (0, 2);
    accel_engine.split (comm, 0, 0, &err);
    accel_engine.split (comm, 1, 0, &err);
    close_job (comm, "Finalize @2; Destroy @2; Finalize @1; Destroy @1; " IN_ORDER);
    comm = open_job (0, 2);
    busy_for = -1;
    accel_engine.split (comm, 0, 0, &err);
    int64_t before = clock_us;
    accel_engine.close (comm);
    ok (is_ms (before, 2000) && !events && !streams && !engine.comms,
        "a group that NCCL is still making is waited for: %lld us", (long long) (clock_us - before));
    is_text (said, "Split @0 0 0; Abort @0; Abort @1; ", "then both end");
}

/* ---- the library ---- */

static void
forget_library (void)
{
    memset (&nccl, 0, sizeof nccl);
    *said = '\0';
    plan.name = NULL;
    err.text[0] = '\0';
}

static enum accel_status
probe (void)
{
    job = (struct accel_engine_job){ .size = sizeof job, .world_size = 1, .helpers = &helpers };
    return accel_engine.probe (&job, &err);
}

static void
test_library (void)
{
    static const char *const optional[][2] = { { "ncclMemAlloc", "ncclMemFree" }, { "ncclCommRegister",
        "ncclCommDeregister" } };
    static const char *const versions[][2] = {
        { "21799", "needs NCCL 2.18 or newer, but libnccl.so.2 is version 21799" }, { "21800", "" } };
    let_fail ("dlopen", 1, 1);
    enum accel_status status = probe ();
    ok (status == ACCEL_ERR_UNSUPPORTED && !strncmp (err.text, "finds no NCCL: libnothing-for-test.so: ", 39)
            && !*said && !engine.library,
        "no library: %s", err.text);
    let_fail ("pthread_atfork", 1, 1);
    ok (probe () == ACCEL_ERR_NOMEM && is_text (err.text, "out of memory", "no memory") && !nccl.GetVersion,
        "is tried again");
    forget_library ();
    ok (!probe () && nccl.GetVersion && !strcmp (said, "atfork; "), "a library: %s", said);
    ok (!probe () && !strcmp (said, "atfork; "), "is there once");
#define X(name)                                                                                             \
    forget_library ();                                                                                      \
    lacking = "nccl" #name;                                                                                 \
    is_error (probe (), "cannot use libnccl.so.2: it lacks nccl" #name "()", "nccl" #name " is needed");
    NCCL_NEEDED (X)
#undef X
    ok (err.code == ACCEL_ERR_UNSUPPORTED && !*said && !nccl.GetVersion, "what is not used is not kept");
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++) {
            forget_library ();
            lacking = optional[i][k];
            ok (!probe () && !nccl.MemAlloc == !i && !nccl.CommRegister == !!i, "without %s", lacking);
        }
    lacking = NULL;
    for (int i = 0; i < 2; i++) {
        forget_library ();
        setenv ("STANDIN_NCCL_VERSION", versions[i][0], true);
        status = probe ();
        ok (!status == !*versions[i][1] && !strcmp (err.text, versions[i][1]), "version %s: %s", versions[i][0],
            err.text);
    }
    unsetenv ("STANDIN_NCCL_VERSION");
    forget_library ();
    setenv ("STANDIN_FAIL", "ncclGetVersion:1:3", true);
    is_error (probe (), "cannot use libnccl.so.2: ncclGetVersion() fails", "a version that is not known");
    unsetenv ("STANDIN_FAIL");
    static const int counts[] = { 999, 100 };
    for (int i = 0; i < 2; i++) {
        forget_library ();
        let_fail ("cudaGetDeviceCount", 1, counts[i]);
        is_error (probe (), i ? "finds no GPU: no CUDA-capable device is detected" : "finds no GPU: unknown error",
                  "no GPU");
        ok (!cudaPeekAtLastError (), "which leaves no error");
    }
    call_fail (cudaErrorInvalidConfiguration);
    let_fail ("cudaGetDeviceCount", 1, 999);
    is_error (probe (), "finds no GPU: unknown error; before, the program's own CUDA work failed: invalid "
              "configuration argument", "the program's own error is told with it");
    ok (!cudaPeekAtLastError (), "once");
}

/* A child finds the lock free, whichever thread had it, and no thread that looks. */
#ifdef __SANITIZE_THREAD__
#define test_fork() skip ("fork() with a lock held: the thread sanitizer cannot follow it")
#else
static void *
hold_lock (void *is_held)
{
    __real_pthread_mutex_lock (&engine.lock);
    __atomic_store_n ((bool *) is_held, true, __ATOMIC_RELEASE);
    __real_usleep (100000);
    __real_pthread_mutex_unlock (&engine.lock);
    return NULL;
}

static void
test_fork (void)
{
    pthread_t thread;
    bool is_held = false;
    int status = -1;
    struct communicator searched = { .is_looked_at = true };
    engine.comms = &searched;
    if (__real_pthread_create (&thread, NULL, hold_lock, &is_held))
        abort ();
    while (!__atomic_load_n (&is_held, __ATOMIC_ACQUIRE))
        __real_usleep (100);
    pid_t child = fork ();
    if (!child)
        _exit (pthread_mutex_trylock (&engine.lock) || searched.is_looked_at);
    waitpid (child, &status, 0);
    pthread_join (thread, NULL);
    engine.comms = NULL;
    ok (!status && searched.is_looked_at && !pthread_mutex_trylock (&engine.lock) && !locks_held,
        "the lock is free in a child, and none looks: %d", status);
    __real_pthread_mutex_unlock (&engine.lock);
}
#endif

/* While NCCL is busy, the thread asks again after a pause. */
static void
await_pause (void)
{
    int us = 0;
    for (int i = 0; i < 10000 && !us; i++) {
        __real_usleep (1000);
        us = __atomic_load_n (&paused_us, __ATOMIC_ACQUIRE);
    }
    ok (us == 100, "a thread asks NCCL every %d us", us);
    pthread_mutex_lock (&engine.lock);
    engine.comms = NULL;
    pthread_mutex_unlock (&engine.lock);
}

/* The last job ends, and another one needs a thread before the thread of the first has ended: that one ends, and is the
 * one that is waited for. */
static void
test_threads (void)
{
    struct communicator busy = { .nccl_comm = (ncclComm_t) (void *) made, .is_nccl_busy = true };
    fake_nccl ();
    has_threads = true;
    busy_for = -1;
    pthread_mutex_lock (&engine.lock);
    engine.comms = &busy;
    progress_thread_wake ();
    pthread_t first = engine.progress.thread;
    pthread_mutex_unlock (&engine.lock);
    progress_thread_end ();
    ok (engine.progress.is_there, "a thread stays while there is a communicator");
    await_pause ();
    after_unlock = progress_thread_wake;
    progress_thread_end ();
    ok (wakes == 2 && engine.progress.is_there && !pthread_equal (first, engine.progress.thread),
        "a thread for a job that is opened while that of the last one ends: %d", wakes);
    progress_thread_end ();
    ok (!engine.progress.is_there, "which ends, too");
    has_threads = false;
}

int
main (void)
{
    setenv ("STANDIN_DEVICES", "2", true);
    test_library ();
    test_fork ();
    if (cudaSetDevice (1) || __real_cudaMalloc ((void **) &buffer, BYTES))
        return 1;
    test_rounds ();
    test_slow_exchange ();
    test_gpus ();
    test_host ();
    test_close ();
    test_finalize_busy ();
    test_splits ();
    test_failing_splits ();
    test_lost_groups ();
    test_group_failures ();
    test_order_of_groups ();
    test_outlived ();
    test_unjoined ();
    test_threads ();
    cudaFree (buffer);
    return done_testing ();
}
