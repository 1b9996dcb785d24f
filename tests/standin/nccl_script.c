/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of engine nccl, with NCCL's answers, the other ranks and the time as nccl_script.h has them: what they ask NCCL
 * for, how long they wait, and what they say and leave behind after each failure.  nccl_jobs.c has the rest. */
#include <config.h>

#include "tests/standin/nccl_script.h"

/* ---- calls ---- */

#define FLOATS(kind, op, root) ACCEL_ENGINE_##kind, ACCEL_FLOAT32, ACCEL_##op, 3, 4, root
#define BOOLS(op) ACCEL_ENGINE_ALL_REDUCE, ACCEL_BOOL, ACCEL_##op, 5, 1, -1
#define SUMS(dtype, bytes) ACCEL_ENGINE_REDUCE_SCATTER, ACCEL_##dtype, ACCEL_SUM, 2, bytes, -1

static const struct {
    enum accel_engine_kind kind;
    enum accel_dtype dtype;
    enum accel_op op;
    size_t count, element_bytes;
    int root;
    const char *said;
} calls[] = {
    { FLOATS (ALL_REDUCE, SUM, -1), "AllReduce @0 0 4096 3 7 0; " },
    { FLOATS (ALL_REDUCE, PROD, -1), "AllReduce @0 0 4096 3 7 1; " },
    { FLOATS (ALL_REDUCE, MAX, -1), "AllReduce @0 0 4096 3 7 2; " },
    { FLOATS (ALL_REDUCE, MIN, -1), "AllReduce @0 0 4096 3 7 3; " },
    { FLOATS (ALL_REDUCE, AVG, -1), "AllReduce @0 0 4096 3 7 4; " },
    { BOOLS (SUM), "AllReduce @0 0 4096 5 1 2; " },
    { BOOLS (PROD), "AllReduce @0 0 4096 5 1 3; " },
    { BOOLS (MAX), "AllReduce @0 0 4096 5 1 2; " },
    { SUMS (FLOAT64, 8), "ReduceScatter @0 0 4096 2 8 0; " },
    { SUMS (FLOAT16, 2), "ReduceScatter @0 0 4096 2 6 0; " },
    { SUMS (BFLOAT16, 2), "ReduceScatter @0 0 4096 2 9 0; " },
    { SUMS (INT8, 1), "ReduceScatter @0 0 4096 2 0 0; " },
    { SUMS (UINT8, 1), "ReduceScatter @0 0 4096 2 1 0; " },
    { SUMS (INT32, 4), "ReduceScatter @0 0 4096 2 2 0; " },
    { SUMS (INT64, 8), "ReduceScatter @0 0 4096 2 4 0; " },
    { FLOATS (ALL_GATHER, SUM, -1), "AllGather @0 0 4096 12 1; " },
    { FLOATS (BROADCAST, SUM, 1), "Broadcast @0 4096 4096 12 1 1; " },
    { FLOATS (SEND, SUM, 2), "Send @0 0 12 1 2; " },
    { FLOATS (RECV, SUM, 2), "Recv @0 4096 12 1 2; " },
    { FLOATS (ALL_TO_ALL, SUM, -1),
      "GroupStart; Send @0 24 12 1 2; Recv @0 4096 12 1 0; Send @0 0 12 1 0; Recv @0 4120 12 1 2; GroupEnd; " },
    { ACCEL_ENGINE_ALL_REDUCE, ACCEL_FLOAT32, ACCEL_SUM, 0, 4, -1, "" },
};
enum { CALLS = sizeof calls / sizeof *calls, ALL_TO_ALL = CALLS - 2 };

static struct accel_engine_call
call_at (int i)
{
    return call_of (calls[i].kind, calls[i].dtype, calls[i].op, calls[i].count, calls[i].element_bytes, calls[i].root);
}

/* As rank 1 of 3. */
static void
test_calls (void)
{
    void *transport = open_job (1, 3);
    unsigned char bytes[36] = { 0 };
    for (int i = 0; i < CALLS; i++) {
        const struct accel_engine_call call = call_at (i);
        for (int turn = 0; turn < 3; turn++) { /* NCCL's answers differ */
            *said = '\0';
            enum accel_status status = accel_engine.run (transport, &call, &err);
            if (status || strcmp (said, calls[i].said))
                break;
        }
        ok (!strcmp (said, calls[i].said) && !*err.text, "call %d: '%s': %s", i, said, err.text);
    }
    cudaMemsetAsync (buffer, 1, RECV, (cudaStream_t) 1);
    cudaMemsetAsync (buffer + RECV, 2, RECV, (cudaStream_t) 1);
    const struct accel_engine_call call = call_at (ALL_TO_ALL);
    accel_engine.run (transport, &call, &err);
    ok (copied == ((struct communicator *) transport)->stream, "on the stream of the call,");
    cudaMemcpyAsync (bytes, buffer + RECV, sizeof bytes, cudaMemcpyDeviceToHost, (cudaStream_t) 1);
    cudaStreamSynchronize ((cudaStream_t) 1);
    ok (bytes[11] == 2 && bytes[12] == 1 && bytes[23] == 1 && bytes[24] == 2, "what stays on the rank is copied");
    ok (events == 2, "events are used again: %d", events);
    cudaStream_t stream;
    struct accel_engine_call queued = call_at (0);
    cudaStreamCreateWithFlags (&stream, cudaStreamNonBlocking);
    queued.stream = stream;
    recorded = NULL;
    ok (!accel_engine.run (transport, &queued, &err) && recorded == stream, "a call comes after its stream");
    cudaStreamDestroy (stream);
    close_job (transport, IN_ORDER);
}

/* What one call says when a function fails.  The job is aborted at once, and nothing is begun after that. */
static void
test_failing_calls (void)
{
    static const struct {
        const char *name, *words;
        int call, turn, result;
        const char *text, *said;
        int looks;
    } cases[] = {
        { "AllReduce", "", 0, 1, 3, "NCCL: ncclAllReduce: an error (NCCL_DEBUG=WARN says more)",
          "AllReduce @0 0 4096 3 7 0; Abort @0; ", 0 },
        { "AllReduce", "a b", 0, 1, 3, "NCCL: ncclAllReduce: an error: a b", "AllReduce @0 0 4096 3 7 0; Abort @0; ",
          0 },
        { "AllReduce", "", 0, 1, 2, "NCCL: ncclAllReduce: unhandled system error (NCCL_DEBUG=WARN says more)",
          "AllReduce @0 0 4096 3 7 0; Abort @0; ", 100 },
        { "AllReduce", "", 0, 1, 6, "NCCL: ncclAllReduce: remote error (NCCL_DEBUG=WARN says more)",
          "AllReduce @0 0 4096 3 7 0; Abort @0; ", 100 },
        { "ReduceScatter", "x", 8, 1, 1, "NCCL: ncclReduceScatter: an error: x",
          "ReduceScatter @0 0 4096 2 8 0; Abort @0; ", 0 },
        { "AllGather", "x", 15, 1, 1, "NCCL: ncclAllGather: an error: x", "AllGather @0 0 4096 12 1; Abort @0; ", 0 },
        { "Broadcast", "x", 16, 1, 1, "NCCL: ncclBroadcast: an error: x", "Broadcast @0 4096 4096 12 1 1; Abort @0; ",
          0 },
        { "Send", "x", 17, 1, 1, "NCCL: ncclSend: an error: x", "Send @0 0 12 1 2; Abort @0; ", 0 },
        { "Recv", "x", 18, 1, 1, "NCCL: ncclRecv: an error: x", "Recv @0 4096 12 1 2; Abort @0; ", 0 },
        { "GroupStart", "x", ALL_TO_ALL, 1, 1, "NCCL: ncclGroupEnd: an error: x", "GroupStart; Abort @0; ", 0 },
        { "Send", "x", ALL_TO_ALL, 1, 4, "NCCL: ncclGroupEnd: an error: x",
          "GroupStart; Send @0 24 12 1 2; GroupEnd; Abort @0; ", 0 },
        { "Recv", "x", ALL_TO_ALL, 1, 4, "NCCL: ncclGroupEnd: an error: x",
          "GroupStart; Send @0 24 12 1 2; Recv @0 4096 12 1 0; GroupEnd; Abort @0; ", 0 },
        { "GroupEnd", "x", ALL_TO_ALL, 1, 4, "NCCL: ncclGroupEnd: an error: x",
          "GroupStart; Send @0 24 12 1 2; Recv @0 4096 12 1 0; Send @0 0 12 1 0; Recv @0 4120 12 1 2; "
          "GroupEnd; Abort @0; ",
          0 },
        { "cudaMemcpyAsync", "x", ALL_TO_ALL, 1, 700, "NCCL: ncclGroupEnd: an error: x", "Abort @0; ", 0 },
        { "Ask", "x", 0, 1, 4, "NCCL: ncclCommGetAsyncError: an error: x", "AllReduce @0 0 4096 3 7 0; Abort @0; ", 0 },
        { "cudaEventCreateWithFlags", "", 0, 1, 2,
          "cuda:1: cudaEventCreateWithFlags: out of memory (cudaErrorMemoryAllocation)", "Abort @0; ", 0 },
        { "cudaEventCreateWithFlags", "", 0, 2, 700,
          "cuda:1: cudaEventCreateWithFlags: an illegal memory access was encountered (cudaErrorIllegalAddress)",
          "Abort @0; ", 0 },
        { "cudaEventRecord", "", 0, 1, 700,
          "cuda:1: cudaEventRecord: an illegal memory access was encountered (cudaErrorIllegalAddress)", "Abort @0; ",
              0 },
        { "cudaStreamWaitEvent", "", 0, 1, 2,
          "cuda:1: cudaStreamWaitEvent: out of memory (cudaErrorMemoryAllocation)", "Abort @0; ", 0 },
        { "cudaEventRecord", "", 0, 2, 700,
          "cuda:1: cudaEventRecord: an illegal memory access was encountered (cudaErrorIllegalAddress)",
          "AllReduce @0 0 4096 3 7 0; Abort @0; ", 0 },
        { "cudaEventQuery", "", 0, 1, 700,
          "cuda:1: a collective: an illegal memory access was encountered (cudaErrorIllegalAddress)",
          "AllReduce @0 0 4096 3 7 0; Abort @0; ", 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        void *transport = open_job (1, 3), *work = transport;
        const struct accel_engine_call call = call_at (cases[i].call);
        char first[ACCEL_ERROR_TEXT_SIZE];
        last_words = cases[i].words;
        let_fail (cases[i].name, cases[i].turn, cases[i].result);
        int64_t before = clock_us;
        enum accel_status status = accel_engine.run (transport, &call, &err), wanted = ACCEL_ERR_SYSTEM;
        if (!strncmp (cases[i].name, "cuda", 4) && cases[i].result == 2)
            wanted = ACCEL_ERR_NOMEM;
        bool good = status == wanted && !strcmp (said, cases[i].said) && looks == cases[i].looks
                    && clock_us - before == looks * 10000 && !wakes;
        if (!is_error (status, cases[i].text, cases[i].name) || !good)
            ok (false, "%s: '%s', '%s', %d looks", cases[i].name, said, err.text, looks);
        memcpy (first, err.text, sizeof first);
        status = accel_engine.start (transport, &call, &work, &err);
        if (status != wanted || work || strcmp (first, err.text) || strcmp (said, cases[i].said))
            ok (false, "after %s: '%s'", cases[i].name, err.text);
        close_job (transport, "");
    }
}

/* The first failure is the one that is told. */
static void
test_first_failure (void)
{
    struct communicator *comm = open_job (0, 2);
    struct accel_engine_call call = sum ();
    char words[251], text[ACCEL_ERROR_TEXT_SIZE];
    accel_engine.give_up (comm, "first");
    accel_engine.give_up (comm, "second");
    is_error (accel_engine.run (comm, &call, &err), "this process gave up: first", "the first failure");
    is_text (said, "Abort @0; ", "the one that ends all");
    close_job (comm, "");

    comm = open_job (0, 2);
    memset (words, 'w', sizeof words - 1);
    words[250] = '\0';
    last_words = words;
    let_fail ("AllReduce", 1, 3);
    snprintf (text, sizeof text, "NCCL: ncclAllReduce: an error: %.200s", words);
    is_error (accel_engine.run (comm, &call, &err), text, "NCCL's words are cut");
    close_job (comm, "");

    comm = open_job (0, 2);
    nccl.GetLastError = NULL;
    let_fail ("AllReduce", 1, 3);
    is_error (accel_engine.run (comm, &call, &err), "NCCL: ncclAllReduce: an error (NCCL_DEBUG=WARN says more)",
              "an NCCL that has none");
    close_job (comm, "");
}

/* What NCCL has queued is waited for, for a second at most, if the GPU takes an event for it. */
static void
test_aborted (void)
{
    static const struct {
        const char *plan;
        int turn, ms;
    } cases[] = { { NULL, 0, 1000 }, { "cudaEventCreateWithFlags", 1, 0 }, { "cudaEventRecord", 1, 0 } };
    struct accel_engine_call call = sum ();
    void *work;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct communicator *comm = open_job (0, 2);
        set_stuck (true);
        accel_engine.start (comm, &call, &work, &err);
        let_fail (cases[i].plan, cases[i].turn, 700);
        int64_t before = clock_us;
        accel_engine.give_up (comm, "late");
        ok (clock_us - before == cases[i].ms * 1000, "aborted: %lld us", (long long) (clock_us - before));
        close_job (comm, "");
    }
}

/* ---- groups of calls ---- */

static void
test_coalesced (void)
{
    static const struct {
        const char *name;
        int turn, result;
        const char *text, *said;
    } cases[] = {
        { NULL, 0, 0, "",
          "GroupStart; AllReduce @0 0 4096 3 7 0; Broadcast @0 4096 4096 12 1 1; AllReduce @0 0 4096 3 7 2; "
          "GroupEnd; " },
        { "GroupStart", 1, 4, "NCCL: ncclGroupStart: an error: x", "GroupStart; Abort @0; " },
        { "AllReduce", 1, 4, "NCCL: ncclAllReduce: an error: x",
          "GroupStart; AllReduce @0 0 4096 3 7 0; GroupEnd; Abort @0; " },
        { "Broadcast", 1, 4, "NCCL: ncclBroadcast: an error: x",
          "GroupStart; AllReduce @0 0 4096 3 7 0; Broadcast @0 4096 4096 12 1 1; GroupEnd; Abort @0; " },
        { "GroupEnd", 1, 4, "NCCL: ncclGroupEnd: an error: x",
          "GroupStart; AllReduce @0 0 4096 3 7 0; Broadcast @0 4096 4096 12 1 1; AllReduce @0 0 4096 3 7 2; GroupEnd; "
          "Abort @0; " },
    };
    static const int parts[] = { 0, 16, 2 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        void *transport = open_job (1, 3), *works[3];
        struct accel_engine_call three[3];
        enum accel_status statuses[3] = { ACCEL_OK };
        last_words = "x";
        accel_engine.coalesce_begin (transport);
        for (int k = 0; k < 3; k++) {
            three[k] = call_at (parts[k]);
            statuses[k] = accel_engine.start (transport, &three[k], &works[k], &err);
        }
        ok (!*said && !statuses[0] && !statuses[1] && !statuses[2], "nothing begins before the end of a group");
        if (cases[i].name)
            let_fail (cases[i].name, cases[i].turn, cases[i].result);
        accel_engine.coalesce_end (transport);
        for (int k = 2; k >= 0; k--) {
            enum accel_status status = accel_engine.wait (transport, works[k], &err);
            if (status != (cases[i].name ? ACCEL_ERR_SYSTEM : ACCEL_OK) || strcmp (err.text, cases[i].text))
                ok (false, "work %d: %s", k, err.text);
        }
        is_text (said, cases[i].said, cases[i].name ? cases[i].name : "a group of three");
        if (!cases[i].name) {
            ok (!wakes, "which is over wakes no thread");
            accel_engine.run (transport, &three[0], &err);
            accel_engine.coalesce_begin (transport);
            accel_engine.coalesce_end (transport);
            accel_engine.run (transport, &three[1], &err);
            ok (!strcmp (said + strlen (cases[i].said), "AllReduce @0 0 4096 3 7 0; Broadcast @0 4096 4096 12 1 1; "),
                "calls after it are not of a group, nor after an empty one: %s", said);
        }
        close_job (transport, cases[i].name ? "" : IN_ORDER);
    }
}

/* What was started before a group goes on within it. */
static void
test_before_group (void)
{
    struct communicator *comm = open_job (1, 3);
    struct accel_engine_call three[] = { call_at (0), call_at (16), call_at (2) };
    void *works[3];
    busy_for = -1;
    for (int k = 0; k < 2; k++)
        accel_engine.start (comm, &three[k], &works[k], &err);
    ok (!strcmp (said, "AllReduce @0 0 4096 3 7 0; ") && wakes == 2, "while NCCL is busy, a thread is asked for: %d",
        wakes);
    accel_engine.coalesce_begin (comm);
    busy_for = 0;
    accel_engine.start (comm, &three[2], &works[2], &err);
    is_text (said, "AllReduce @0 0 4096 3 7 0; Broadcast @0 4096 4096 12 1 1; ", "calls from before a group");
    busy_for = -1;
    accel_engine.coalesce_end (comm);
    ok (wakes == 3, "a group that goes on wakes a thread: %d", wakes);
    busy_for = 0;
    for (int k = 0; k < 3; k++)
        accel_engine.wait (comm, works[k], &err);
    ok (wakes == 3 && !*err.text, "what is done does not");
    close_job (comm, IN_ORDER);
}

/* ---- time ---- */

/* Two works that are stuck; the older one is what others wait for. */
static struct accel_engine_call stuck_calls[2];
static void *stuck_works[2];

static struct communicator *
open_stuck (void)
{
    struct communicator *comm = open_job (0, 2);
    set_stuck (true);
    for (int i = 0; i < 2; i++) {
        stuck_calls[i] = sum ();
        accel_engine.start (comm, &stuck_calls[i], &stuck_works[i], &err);
    }
    return comm;
}

static void
test_looks (void)
{
    struct communicator *comm = open_stuck ();
    void *work = stuck_works[1];
    clock_us += 1000000 - clock_us % 1000000;
    ok (!test_after (comm, work, 0) && !test_after (comm, work, 49) && !looks, "no look within 50 ms");
    clock_us += 999;
    ok (!accel_engine.test (comm, work) && !looks, "also if one nanosecond is missing");
    ok (!test_after (comm, work, 1) && looks == 1 && looked_at == &stuck_calls[0], "one after 50, at the oldest call");
    ok (!test_after (comm, work, 49) && looks == 1 && !test_after (comm, work, 1) && looks == 2, "and after 100");
    ok (!test_after (comm, work, 1001) && looks == 3, "the program was away for more than a second");
    ok (!test_after (comm, work, 350) && !test_after (comm, work, 49) && looks == 4, "which does not count");
    int64_t before = clock_us;
    bool over = test_after (comm, work, 1);
    ok (over && is_ms (before, 1 + 300 + 1000), "500 ms have passed: %lld us of grace, and until the GPU ends",
        (long long) (clock_us - before));
    set_stuck (false);
    is_error (accel_engine.wait (comm, work, &err), "timed out, waiting for rank 1", "the time is over");
    is_error (accel_engine.wait (comm, stuck_works[0], &err), "timed out, waiting for rank 1", "for both");
    ok (err.code == ACCEL_ERR_TIMEOUT, "it is a timeout");
    close_job (comm, "");
    comm = open_stuck ();
    ok (!test_after (comm, stuck_works[0], 0) && test_after (comm, stuck_works[0], 1000),
        "a second between two looks is not away");
    close_job (comm, "");
    comm = open_stuck ();
    looks_until_failure = 1;
    ok (!test_after (comm, stuck_works[0], 0) && test_after (comm, stuck_works[0], 500),
        "a look after the time is over");
    is_error (accel_engine.wait (comm, stuck_works[0], &err), "rank 1 is %% dead", "is worth more than that");
    is_text (said, "AllReduce @0 0 4096 3 7 0; AllReduce @0 0 4096 3 7 0; Abort @0; ", "both without the lock");
    close_job (comm, "");
}

/* A call that is over holds no process up, waited for or not. */
static void
test_oldest (void)
{
    struct communicator *comm = open_job (0, 2);
    struct accel_engine_call first = sum (), second = sum ();
    void *works[2];
    accel_engine.start (comm, &first, &works[0], &err);
    cudaStreamSynchronize (comm->stream);
    ok (accel_engine.test (comm, works[0]) && !accel_engine.awaits (comm, 1), "no rank is awaited");
    set_stuck (true);
    accel_engine.start (comm, &second, &works[1], &err);
    ok (!test_after (comm, works[1], 0) && !test_after (comm, works[1], 50) && looked_at == &second
            && accel_engine.awaits (comm, 1),
        "the oldest call that is not over is looked at");
    set_stuck (false);
    accel_engine.wait (comm, works[1], &err);
    accel_engine.wait (comm, works[0], &err);
    accel_engine.start (comm, &first, &works[0], &err);
    let_fail ("cudaEventQuery", 1, cudaErrorNotReady);
    ok (accel_engine.test (comm, works[0]), "there may be none any more");
    accel_engine.wait (comm, works[0], &err);
    busy_for = -1;
    accel_engine.split (comm, -1, 0, &err);
    accel_engine.start (comm, &first, &works[0], &err);
    clock_us += 60000;
    looks = 0;
    ok (!test_after (comm, works[0], 0) && !looks && !test_after (comm, works[0], 50) && looks && looked_at == &first,
        "a split is no call, and the time of a call begins anew");
    busy_for = 0;
    accel_engine.wait (comm, works[0], &err);
    close_job (comm, IN_ORDER);
}

static void
test_grace (void)
{
    struct communicator *comm = open_stuck ();
    looks_until_failure = 2;
    ok (!test_after (comm, stuck_works[0], 0) && !test_after (comm, stuck_works[0], 50), "the other rank is there");
    int64_t before = clock_us;
    bool over = test_after (comm, stuck_works[0], 50);
    ok (over && is_ms (before, 50 + 300 + 1000) && looks == 2,
        "a call that does not end has 300 ms of grace: %lld us", (long long) (clock_us - before));
    is_text (said, "AllReduce @0 0 4096 3 7 0; AllReduce @0 0 4096 3 7 0; Abort @0; ", "then it is aborted");
    is_error (accel_engine.wait (comm, stuck_works[0], &err), "rank 1 is %% dead", "with the words of the look");
    ok (err.code == ACCEL_ERR_PEER, "and its status");
    close_job (comm, "");

    comm = open_stuck ();
    looks_until_failure = 1;
    err.text[0] = '\0';
    test_after (comm, stuck_works[0], 0);
    before = clock_us;
    release_us = clock_us + 150000;
    ok (test_after (comm, stuck_works[0], 50) && clock_us == release_us && !accel_engine.wait (comm, stuck_works[0],
        &err)
            && !accel_engine.wait (comm, stuck_works[1], &err) && !*err.text,
        "a call that ends is over without an error: %s", err.text);
    close_job (comm, IN_ORDER);
}

/* Whoever waits lets others compute, then sleeps. */
static void
test_pauses (void)
{
    struct communicator *comm = open_job (0, 2);
    struct accel_engine_call call = sum ();
    void *work;
    set_stuck (true);
    accel_engine.start (comm, &call, &work, &err);
    yields = 0;
    looks_until_failure = 2;
    int64_t before = clock_us;
    is_error (accel_engine.wait (comm, work, &err), "rank 1 is %% dead", "a wait has the error of a look");
    ok (yields == 50 && is_ms (before, 100 + 300 + 1000), "it yields %u times, and sleeps: %lld us", yields,
        (long long) (clock_us - before));
    close_job (comm, "");
}

/* An order comes after a call, which NCCL has to have queued for it. */
static void
test_order (void)
{
    struct communicator *comm = open_job (0, 2);
    struct accel_engine_call call = sum ();
    cudaStream_t stream;
    void *work;
    cudaStreamCreateWithFlags (&stream, cudaStreamNonBlocking);
    busy_for = 1 + 3 * (50 + 22); /* a start asks once, and each turn of a wait three times */
    accel_engine.start (comm, &call, &work, &err);
    strcpy (err.text, "as before");
    yields = 0;
    int64_t before = clock_us;
    enum accel_status status = accel_engine.order (comm, work, stream, &err);
    ok (!status && yields == 50 && clock_us - before == 3480 && delayed == stream,
        "an order waits until NCCL has queued the call: %lld us",
        (long long) (clock_us - before));
    accel_engine.wait (comm, work, &err);
    set_stuck (true);
    accel_engine.start (comm, &call, &work, &err);
    before = clock_us;
    ok (!accel_engine.order (comm, work, stream, &err) && clock_us == before && !strcmp (err.text, "as before"),
        "and not for its end");
    set_stuck (false);
    let_fail ("cudaStreamWaitEvent", 1, 700);
    is_error (accel_engine.order (comm, work, stream, &err),
              "cuda:1: cudaStreamWaitEvent: an illegal memory access was encountered (cudaErrorIllegalAddress)",
              "an error of the order");
    ok (!cudaPeekAtLastError () && !accel_engine.wait (comm, work, &err), "is not one of the call");
    cudaStreamDestroy (stream);
    accel_engine.start (comm, &call, &work, &err);
    accel_engine.give_up (comm, "it is late");
    is_error (accel_engine.order (comm, work, (void *) 1, &err), "this process gave up: it is late", "of a lost job");
    accel_engine.wait (comm, work, &err);
    close_job (comm, "");
}

/* An error that the program has not looked at yet stays, or is told with the one of ours that replaces it. */
static void
test_own_error (void)
{
    static const char words[] = "cuda:1: %s: an illegal memory access was encountered (cudaErrorIllegalAddress); "
                                "before, the program's own CUDA work failed: invalid configuration argument";
    char wanted[300];
    void *work;
    has_driver = true;
    struct communicator *comm = open_job (0, 2);
    struct accel_engine_call call = sum ();
    set_stuck (true);
    accel_engine.start (comm, &call, &work, &err);
    call_fail (cudaErrorInvalidConfiguration);
    bool is_over = accel_engine.test (comm, work);
    ok (!is_over && cudaPeekAtLastError () == cudaErrorInvalidConfiguration,
        "a look at a call leaves the program's error");
    set_stuck (false);
    enum accel_status status = accel_engine.wait (comm, work, &err);
    ok (!status && cudaPeekAtLastError () == cudaErrorInvalidConfiguration, "so does waiting");
    accel_engine.start (comm, &call, &work, &err);
    let_fail ("cudaStreamWaitEvent", 1, 700);
    snprintf (wanted, sizeof wanted, words, "cudaStreamWaitEvent");
    is_error (accel_engine.order (comm, work, (void *) 1, &err), wanted, "it is told with an error of an order");
    accel_engine.wait (comm, work, &err);
    call_fail (cudaErrorInvalidConfiguration);
    let_fail ("cudaEventRecord", 1, 700);
    snprintf (wanted, sizeof wanted, words, "cudaEventRecord");
    is_error (accel_engine.start (comm, &call, &work, &err), wanted, "and of a start");
    call_fail (cudaErrorInvalidConfiguration);
    let_fail ("cudaMemsetAsync", 1, 700);
    nccl.MemAlloc = NULL;
    is_error (accel_engine.alloc (comm, &work, 16, &err),
              "accel_alloc: cannot allocate 16 bytes on cuda:1: an illegal memory access was encountered; before, the "
              "program's own CUDA work failed: invalid configuration argument", "and of an allocation");
    cudaGetLastError ();
    close_job (comm, "");
    has_driver = false;
    engine.event_query = NULL;
}

/* An error of the network's: the cause may be known a little later. */
static void
test_cause (void)
{
    struct communicator *comm = open_job (0, 2);
    struct accel_engine_call call = sum ();
    void *work;
    busy_for = -1;
    accel_engine.start (comm, &call, &work, &err);
    async_error = ncclRemoteError;
    looks_until_failure = 4;
    int64_t before = clock_us;
    is_error (accel_engine.wait (comm, work, &err), "rank 1 is %% dead", "the cause of a network error");
    ok (looks == 4 && looked_at == &call && is_ms (before, 40), "is looked for every 10 ms: %lld us",
        (long long) (clock_us - before));
    ok (accel_engine.awaits (comm, 1) && !accel_engine.awaits (comm, 0), "any other rank may be the reason");
    looks = 0;
    looks_until_failure = 1;
    is_error (accel_engine.start (comm, &call, &work, &err), "rank 1 is %% dead", "also for the next call");
    is_error (accel_engine.split (comm, 0, 0, &err),
              "NCCL: asynchronous error: remote error (NCCL_DEBUG=WARN says more)",
              "the error itself");
    is_text (said, "AllReduce @0 0 4096 3 7 0; Abort @0; ", "of the call");
    close_job (comm, "");
}

/* ---- memory ---- */

static void
test_allocations (void)
{
    static const struct {
        size_t bytes;
        const char *plan, *said, *freed;
        int result;
        bool lacks_alloc;
    } cases[] = {
        { 0, NULL, "MemAlloc 16; Register @0 16; ", "Deregister @0; Wait; MemFree; ", 0, false },
        { 15, NULL, "MemAlloc 16; Register @0 16; ", "Deregister @0; Wait; MemFree; ", 0, false },
        { 16, NULL, "MemAlloc 32; Register @0 32; ", "Deregister @0; Wait; MemFree; ", 0, false },
        { 100, NULL, "MemAlloc 112; Register @0 112; ", "Deregister @0; Wait; MemFree; ", 0, false },
        { 100, "MemAlloc", "MemAlloc 112; Register @0 112; ", "Deregister @0; Free; ", 1, false },
        { 100, "Register", "MemAlloc 112; Register @0 112; ", "Wait; MemFree; ", 3, false },
        { 100, NULL, "Register @0 112; ", "Deregister @0; Free; ", 0, true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct communicator *comm = open_job (0, 2);
        void *memory = NULL;
        filled = awaited = NULL;
        if (cases[i].lacks_alloc)
            nccl.MemAlloc = NULL;
        let_fail (cases[i].plan, 1, cases[i].result);
        enum accel_status status = accel_engine.alloc (comm, &memory, cases[i].bytes, &err);
        ok (!status && memory && !strcmp (said, cases[i].said) && filled == (void *) 1 && awaited == (void *) 1,
            "%zu bytes: '%s'", cases[i].bytes, said);
        *said = '\0';
        int64_t before = clock_us;
        accel_engine.free (comm, memory);
        ok (!strcmp (said, cases[i].freed) && clock_us == before, "and their end: '%s'", said);
        close_job (comm, IN_ORDER);
    }
}

static void
test_failing_allocations (void)
{
    static const struct {
        const char *plan, *text, *said;
        int result;
        bool lacks_alloc;
        enum accel_status status;
    } cases[] = {
        { "cudaMemsetAsync",
          "accel_alloc: cannot allocate 100 bytes on cuda:1: an illegal memory access was encountered",
          "MemAlloc 112; Wait; MemFree; ", 700, false, ACCEL_ERR_SYSTEM },
        { "cudaStreamSynchronize", "accel_alloc: cannot allocate 100 bytes on cuda:1: unknown error",
          "MemAlloc 112; Wait; MemFree; ", 999, false, ACCEL_ERR_SYSTEM },
        { "cudaMemsetAsync", "accel_alloc: cannot allocate 100 bytes on cuda:1: out of memory", "Free; ", 2, true,
          ACCEL_ERR_NOMEM },
        { "cudaMalloc", "accel_alloc: cannot allocate 100 bytes on cuda:1: out of memory", "", 2, true,
          ACCEL_ERR_NOMEM },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct communicator *comm = open_job (0, 2);
        void *memory = comm;
        if (cases[i].lacks_alloc)
            nccl.MemAlloc = NULL;
        let_fail (cases[i].plan, 1, cases[i].result);
        enum accel_status status = accel_engine.alloc (comm, &memory, 100, &err);
        is_error (status, cases[i].text, cases[i].plan);
        if (status != cases[i].status || memory || strcmp (said, cases[i].said))
            ok (false, "%d: '%s'", (int) status, said);
        close_job (comm, IN_ORDER);
    }
}

/* Memory is not given back while a call may use it, but for two seconds at most. */
static void
test_free_in_use (void)
{
    struct communicator *comm = open_job (0, 2);
    void *memory, *work;
    struct accel_engine_call call = sum ();
    accel_engine.alloc (comm, &memory, 16, &err);
    set_stuck (true);
    busy_for = -1;
    accel_engine.start (comm, &call, &work, &err);
    *said = '\0';
    int64_t before = clock_us;
    comm->buffers->is_from_nccl = false;
    set_stuck (true);
    busy_for = -1;
    pthread_mutex_lock (&engine.lock);
    struct buffer *kept = comm->buffers;
    comm->buffers = NULL; /* cudaFree() would wait for the call */
    pthread_mutex_unlock (&engine.lock);
    accel_engine.free (comm, memory);
    ok (is_ms (before, 2000), "a call that does not end: %lld us",
        (long long) (clock_us - before));
    kept->is_from_nccl = true;
    comm->buffers = kept;
    set_stuck (false);
    accel_engine.give_up (comm, "late");
    before = clock_us;
    *said = '\0';
    accel_engine.free (comm, memory);
    ok (clock_us == before && !strcmp (said, "Wait; MemFree; "), "nothing is waited for after a failure: %s", said);
    accel_engine.wait (comm, work, &err);
    close_job (comm, "");
}

/* While NCCL ends what it was doing. */
static void
test_free_busy (void)
{
    struct communicator *comm = open_job (0, 2);
    void *memory;
    accel_engine.alloc (comm, &memory, 16, &err);
    comm->is_nccl_busy = true;
    busy_for = 10;
    *said = '\0';
    int64_t before = clock_us;
    accel_engine.free (comm, memory);
    ok (clock_us - before == 500 && !strcmp (said, "Deregister @0; Wait; MemFree; "),
        "freed when NCCL has time: %s", said);
    close_job (comm, IN_ORDER);
}

static void
test_other_gpu (void)
{
    struct communicator *comm = open_job (0, 2);
    struct accel_engine_call call = sum ();
    void *work;
    call.device.device_id = 3;
    is_error (accel_engine.start (comm, &call, &work, &err),
              "the tensor is on cuda:3, but the GPU of this rank is cuda:1, the one that accel_device() returns",
              "a tensor of another GPU");
    ok (err.code == ACCEL_ERR_INVALID && !*said, "is not valid");
    close_job (comm, IN_ORDER);
}

int
main (void)
{
    setenv ("STANDIN_DEVICES", "2", true);
    if (cudaSetDevice (1) || __real_cudaMalloc ((void **) &buffer, BYTES))
        return 1;
    test_calls ();
    test_failing_calls ();
    test_first_failure ();
    test_aborted ();
    test_coalesced ();
    test_before_group ();
    test_looks ();
    test_oldest ();
    test_grace ();
    test_pauses ();
    test_order ();
    test_own_error ();
    test_cause ();
    test_allocations ();
    test_failing_allocations ();
    test_free_in_use ();
    test_free_busy ();
    test_other_gpu ();
    cudaFree (buffer);
    return done_testing ();
}
