/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts on waits, from ledgers and signs of life alone: the slots are made up, and no engine is asked. */
#include <config.h>

#include "tests/unit/core/watch_ledgers.h"

/* An earlier collective of the communicator, which is over. */
static void
come_before (int rank)
{
    struct jobseg_record *record = come (rank);
    record->number = NUMBER - 1;
    record->call = JOBSEG_CALL_BARRIER;
    record->kind = ACCEL_ENGINE_BARRIER;
    record->done = 1;
}

static void
message (int rank, enum accel_engine_kind kind, int other, uint32_t number)
{
    note (rank, (struct jobseg_record){
        .number = number, .comm = watch.comm, .kind = kind, .count = 4, .dtype = ACCEL_FLOAT32, .root = (int16_t) other,
        .call = kind == ACCEL_ENGINE_SEND ? JOBSEG_CALL_SEND : JOBSEG_CALL_RECV, .line = 10 + (unsigned) rank });
}

static struct jobseg_record *
latest (int rank)
{
    struct jobseg_slot *slot = slot_of (rank);
    return &slot->ledger[(atomic_load (&slot->ledger_count) - 1) % JOBSEG_LEDGER];
}

static void
fail_rank (int rank, const char *reason)
{
    struct jobseg_slot *slot = slot_of (rank);
    snprintf (slot->reason, sizeof slot->reason, "%s", reason);
    atomic_store (&slot->failed_generation, 1);
    atomic_store (&slot->state, JOBSEG_FAILED);
}

/* Another program of the same rank. */
static void
open_again (int rank)
{
    atomic_store (&slot_of (rank)->generation, 2);
    atomic_store (&slot_of (rank)->state, JOBSEG_JOINING);
}

/* ---- waiting for all: rank 0 has come ---- */

static void
all_come (void)
{
    for (int rank = 1; rank < RANKS; rank++)
        come (rank);
    latest (RANKS - 1)->call = JOBSEG_CALL_ALL_REDUCE_START; /* which matches */
}
static void
one_computes (void)
{
    come_before (1);
    come (2);
    come (3);
}
static void
one_is_killed (void)
{
    one_computes ();
    jobseg_mark_exit (&segment, 1, SIGKILL);
}
static void
one_exits_at_start (void)
{
    all_come ();
    atomic_store (&slot_of (1)->ledger_count, 0);
    jobseg_mark_exit (&segment, 1, 7 << 8);
}
static void
one_is_killed_inside (void)
{
    all_come ();
    jobseg_mark_exit (&segment, 1, SIGKILL);
}
static void
one_finishes_and_exits (void)
{
    all_come ();
    latest (1)->done = 1;
    jobseg_mark_exit (&segment, 1, 0);
}
static void
one_finishes_and_leaves (void)
{
    all_come ();
    latest (1)->done = 1;
    atomic_store (&slot_of (1)->state, JOBSEG_LEFT);
}
static void
one_leaves (void)
{
    one_computes ();
    atomic_store (&slot_of (1)->state, JOBSEG_LEFT);
}
static void
one_gives_up (void)
{
    one_computes ();
    fail_rank (1, "no data");
}
static void
despair_and_death (void)
{
    come (3);
    fail_rank (1, "rank 2 is gone");
    jobseg_mark_exit (&segment, 2, SIGKILL);
}
static void
one_opens_again (void)
{
    one_computes ();
    open_again (1);
}
static void
one_calls_in_another_program (void)
{
    one_opens_again ();
    come (1);
}
static void
one_finishes_and_opens_again (void)
{
    all_come ();
    latest (1)->done = 1;
    open_again (1);
    come (1);
}
static void
all_have_earlier_programs (void)
{
    all_come ();
    for (int rank = 1; rank < RANKS; rank++)
        latest (rank)->generation = 0;
}
static void
one_differs_and_opens_again (void)
{
    come (1)->count = 9;
    latest (1)->done = 1;
    open_again (1);
    come (1);
}
static void
overwritten_and_opened_again (void)
{
    one_computes ();
    open_again (1);
    for (int i = 0; i < JOBSEG_LEDGER; i++)
        come (1);
}
static void
one_gave_up_and_opens_again (void)
{
    one_gives_up ();
    open_again (1);
    come (1); /* of the next program */
}
static void
one_is_far_ahead (void)
{
    all_come ();
    latest (1)->done = 1;
    for (int i = 0; i < 3; i++) {
        struct jobseg_record *record = come (1);
        record->number = NUMBER + 1 + (uint32_t) i;
        record->call = JOBSEG_CALL_GATHER;
    }
    atomic_store (&slot_of (1)->state, JOBSEG_LEFT);
}
static void
notes_are_not_calls (void)
{
    one_computes ();
    note (1, (struct jobseg_record){ .call = JOBSEG_CALL_LOADER_NEXT, .count = 8, .root = -1 });
}
static void
groups_are_other_calls (void)
{
    one_computes ();
    come (1)->comm = GROUP;
}
static void
messages_are_other_calls (void)
{
    one_computes ();
    message (1, ACCEL_ENGINE_SEND, 2, NUMBER);
}

/* @rank has made enough other calls that its ring shows no other. */
static void
overwrite (int rank)
{
    for (int i = 0; i < JOBSEG_LEDGER; i++) {
        struct jobseg_record *record = come (rank);
        record->comm = GROUP;
        record->number = 1 + (uint32_t) i;
        record->done = 1;
    }
}
static void
overwritten (void)
{
    all_come ();
    overwrite (1);
}
static void
overwritten_and_killed (void)
{
    overwritten ();
    jobseg_mark_exit (&segment, 1, SIGKILL);
}
static void
overwritten_and_left (void)
{
    overwritten ();
    atomic_store (&slot_of (1)->state, JOBSEG_LEFT);
}
static void
overwritten_next (void)
{
    one_computes ();
    for (int i = 0; i < JOBSEG_LEDGER - 1; i++)
        come (1)->comm = GROUP; /* rank 1's earlier call is the record that it writes next */
    atomic_store (&slot_of (1)->state, JOBSEG_LEFT);
}

/* What one rank calls differently. */
#define OTHER(name, rank, change) static void name (void) { come (rank)->change; }
OTHER (other_kind, 1, kind = ACCEL_ENGINE_BARRIER)
OTHER (other_call, 1, call = JOBSEG_CALL_REDUCE)
OTHER (other_dtype, 1, dtype = ACCEL_INT32)
OTHER (other_count, 2, count = 5)
OTHER (other_op, 1, op = ACCEL_MAX)
OTHER (other_root, 1, root = 1)

static void
other_shape (void)
{
    come (1)->form = 3;
    slot_of (1)->forms[0] = (struct jobseg_form){ .ndim = 2, .shape = { 2, 3 } };
    slot_of (0)->forms[0] = (struct jobseg_form){ .ndim = 1, .shape = { 7 } }; /* of an older record */
}
static void
other_scale (void)
{
    come (1)->form = 3;
    slot_of (1)->forms[0] = (struct jobseg_form){ .argument = COMM_SCALE, .value = 0.1 };
    slot_of (0)->ledger[0].form = 5;
    slot_of (0)->forms[0] = (struct jobseg_form){ .argument = COMM_SCALE, .value = 0.5 };
}
static void
damaged_shape (void)
{
    other_shape ();
    slot_of (1)->forms[0].ndim = 255;
}
static void
dead_and_different (void)
{
    other_count ();
    jobseg_mark_exit (&segment, 1, SIGKILL);
}

#define IN "rank 0 is waiting for it in accel_comm_all_reduce at here.c:7"

static void
test_collectives (void)
{
    static const struct {
        const char *name;
        void (*happens) (void);
        const char *text; /* NULL: no verdict */
    } cases[] = {
        { "all have come", all_come, NULL },
        { "one computes", one_computes, NULL },
        { "one is killed", one_is_killed,
          "rank 1 was killed by signal 9 (SIGKILL), computing after accel_comm_barrier at one.c:11; " IN },
        { "one exits before its first call", one_exits_at_start,
          "rank 1 exited with status 7, computing, no collective yet; " IN },
        { "one is killed in the call", one_is_killed_inside,
          "rank 1 was killed by signal 9 (SIGKILL), in accel_comm_all_reduce at one.c:11; " IN },
        { "one has finished the call and exited", one_finishes_and_exits, NULL },
        { "one has finished the call and left", one_finishes_and_leaves, NULL },
        { "one has left", one_leaves, "rank 1 has left the job (accel_close); " IN },
        { "one has given up", one_gives_up, "rank 1 gave up: no data; " IN },
        { "the dead come before those who despair", despair_and_death,
          "rank 2 was killed by signal 9 (SIGKILL), computing, no collective yet; " IN },
        { "one has opened again", one_opens_again, "rank 1 has left the job and opened it again; " IN },
        { "one makes the same call in its next program", one_calls_in_another_program,
          "rank 1 has left the job and opened it again; " IN },
        { "one has finished the call and opened again", one_finishes_and_opens_again, NULL },
        { "calls of earlier programs are other calls", all_have_earlier_programs, NULL },
        { "one called something else and opened again", one_differs_and_opens_again,
          "counts differ in accel_comm_all_reduce: 4 on rank 0 at zero.c:10, 9 on rank 1 at one.c:11" },
        { "one has opened again, and overwritten its ring", overwritten_and_opened_again, NULL },
        { "one that gave up has opened again", one_gave_up_and_opens_again, "rank 1 gave up: no data; " IN },
        { "one is several calls ahead and has left", one_is_far_ahead, NULL },
        { "a note in the ledger is not a call", notes_are_not_calls, NULL },
        { "nor is a call of a group", groups_are_other_calls, NULL },
        { "nor a message", messages_are_other_calls, NULL },
        { "a ring that has been overwritten shows nothing", overwritten, NULL },
        { "but who is killed is missed", overwritten_and_killed,
          "rank 1 was killed by signal 9 (SIGKILL), computing after accel_comm_all_reduce at one.c:11; " IN },
        { "who has left may have come", overwritten_and_left, NULL },
        { "the record that is written next is not read", overwritten_next, NULL },
        { "another kind", other_kind,
          "rank 1 is waiting in accel_comm_all_reduce at one.c:11 while rank 0 is in accel_comm_all_reduce (float32 x "
          "4) at zero.c:10" },
        { "another call", other_call,
          "rank 1 is waiting in accel_reduce (float32 x 4) at one.c:11 while rank 0 is in accel_comm_all_reduce "
          "(float32 x 4) at zero.c:10" },
        { "another type", other_dtype,
          "element types differ in accel_comm_all_reduce: float32 on rank 0 at zero.c:10, int32 on rank 1 at "
          "one.c:11" },
        { "another count", other_count,
          "counts differ in accel_comm_all_reduce: 4 on rank 0 at zero.c:10, 5 on rank 2 at two.c:12" },
        { "another operation", other_op,
          "operations differ in accel_comm_all_reduce: sum on rank 0 at zero.c:10, max on rank 1 at one.c:11" },
        { "another root", other_root,
          "roots differ in accel_comm_all_reduce: -1 on rank 0 at zero.c:10, 1 on rank 1 at one.c:11" },
        { "another shape", other_shape,
          "shapes differ in accel_comm_all_reduce: [] on rank 0 at zero.c:10, [2, 3] on rank 1 at one.c:11" },
        { "another scale", other_scale,
          "scales differ in accel_comm_all_reduce: 0.5 on rank 0 at zero.c:10, 0.10000000000000001 on rank 1 at "
          "one.c:11" },
        { "a damaged shape", damaged_shape,
          "shapes differ in accel_comm_all_reduce: [] on rank 0 at zero.c:10, [2, 3, 0, 0, 0, 0, 0, 0] on rank 1 at "
          "one.c:11" },
        { "a difference comes before a death", dead_and_different,
          "counts differ in accel_comm_all_reduce: 4 on rank 0 at zero.c:10, 5 on rank 2 at two.c:12" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        open_job ();
        come (0);
        cases[i].happens ();
        struct accel_engine_call call = call_of (ACCEL_ENGINE_ALL_REDUCE, -1);
        enum accel_status status = watch_look (&watch, &call, &err);
        is_error (status, cases[i].text ? ACCEL_ERR_PEER : ACCEL_OK, cases[i].text, cases[i].name);
        close_job ();
    }
}

/* ---- messages between two ---- */

static void
nobody_does_anything (void)
{
}
static void
partner_is_killed (void)
{
    jobseg_mark_exit (&segment, 2, SIGKILL);
}
static void
partner_waits_for_all (void)
{
    come (2);
}
static void
partner_waited_for_all (void)
{
    come (2);
    calls = NUMBER; /* rank 0 has been there too, and rank 2 is about to return */
}
static void
partner_waits_in_a_group (void)
{
    come (2)->comm = GROUP;
}
static void
partner_sends_the_same (void)
{
    message (2, ACCEL_ENGINE_SEND, 0, 1);
}
static void
partner_sends_more (void)
{
    message (2, ACCEL_ENGINE_SEND, 0, 1);
    latest (2)->count = 5;
}
static void
partner_sends_integers (void)
{
    message (2, ACCEL_ENGINE_SEND, 0, 1);
    latest (2)->dtype = ACCEL_INT32;
}
static void
partner_sends_the_next (void)
{
    message (2, ACCEL_ENGINE_SEND, 0, 1);
    message (2, ACCEL_ENGINE_SEND, 0, 2);
    latest (2)->count = 5;
}
static void
partner_sends_to_another (void)
{
    message (2, ACCEL_ENGINE_SEND, 3, 1);
    latest (2)->count = 5;
}

static void
test_messages (void)
{
    static const struct {
        const char *name;
        enum accel_engine_kind kind;
        void (*happens) (void);
        const char *text;
    } cases[] = {
        { "a partner that computes", ACCEL_ENGINE_RECV, nobody_does_anything, NULL },
        { "a dead partner", ACCEL_ENGINE_RECV, partner_is_killed,
          "rank 2 was killed by signal 9 (SIGKILL); " IN },
        { "a dead receiver", ACCEL_ENGINE_SEND, partner_is_killed, "rank 2 was killed by signal 9 (SIGKILL); " IN },
        { "a partner that waits for all", ACCEL_ENGINE_RECV, partner_waits_for_all,
          "rank 2 is waiting for all ranks, in accel_comm_all_reduce at two.c:12, while " IN },
        { "a receiver that waits for all", ACCEL_ENGINE_SEND, partner_waits_for_all,
          "rank 2 is waiting for all ranks, in accel_comm_all_reduce at two.c:12, while " IN },
        { "a partner that returns from a call of all", ACCEL_ENGINE_RECV, partner_waited_for_all, NULL },
        { "a partner that waits for others", ACCEL_ENGINE_RECV, partner_waits_in_a_group, NULL },
        { "the message", ACCEL_ENGINE_RECV, partner_sends_the_same, NULL },
        { "a longer message", ACCEL_ENGINE_RECV, partner_sends_more,
          "rank 2 sends float32 x 5 in accel_comm_send at two.c:12, but rank 0 expects float32 x 4 in "
          "accel_comm_all_reduce at here.c:7" },
        { "a message of another type", ACCEL_ENGINE_RECV, partner_sends_integers,
          "rank 2 sends int32 x 4 in accel_comm_send at two.c:12, but rank 0 expects float32 x 4 in "
          "accel_comm_all_reduce at here.c:7" },
        { "the message after this", ACCEL_ENGINE_RECV, partner_sends_the_next, NULL },
        { "a message to another rank", ACCEL_ENGINE_RECV, partner_sends_to_another, NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        open_job ();
        calls = NUMBER - 1;
        message (0, cases[i].kind, 2, 1);
        cases[i].happens ();
        struct accel_engine_call call = call_of (cases[i].kind, 2);
        enum accel_status status = watch_look (&watch, &call, &err);
        is_error (status, cases[i].text ? ACCEL_ERR_PEER : ACCEL_OK, cases[i].text, cases[i].name);
        close_job ();
    }
}

/* All three have looked again, at a time later than any so far. */
static void
look_again (int from, uint64_t round)
{
    for (int rank = from; rank < 3; rank++)
        latest (rank)->looked_ns = (UINT64_C (1) << 60) + round;
}

static void
test_cycles (void)
{
    const char *text = "ranks are sending in a cycle and none is receiving: rank 0 in accel_comm_all_reduce at "
                       "here.c:7 to rank 1, which is in accel_comm_send at one.c:11";
    open_job ();
    message (0, ACCEL_ENGINE_SEND, 1, 1);
    message (1, ACCEL_ENGINE_SEND, 2, 1);
    struct accel_engine_call call = call_of (ACCEL_ENGINE_SEND, 1);
    is_error (watch_look (&watch, &call, &err), ACCEL_OK, "", "a chain of senders is not a cycle");
    message (2, ACCEL_ENGINE_SEND, 0, 1);
    is_error (watch_look (&watch, &call, &err), ACCEL_OK, "", "a cycle may be about to end");
    look_again (1, 1);
    is_error (watch_look (&watch, &call, &err), ACCEL_OK, "", "even if all looked once more");
    watch.cycle.since_ns = (UINT64_C (1) << 60) + 1;
    is_error (watch_look (&watch, &call, &err), ACCEL_OK, "", "no rank has looked since then");
    look_again (2, 2);
    is_error (watch_look (&watch, &call, &err), ACCEL_OK, "", "one has not");
    look_again (1, 2);
    is_error (watch_look (&watch, &call, &err), ACCEL_ERR_PEER, text, "all looked twice: a cycle");
    latest (2)->done = 1;
    message (2, ACCEL_ENGINE_SEND, 0, 2);
    look_again (1, 3);
    is_error (watch_look (&watch, &call, &err), ACCEL_OK, "", "another message is another cycle");
    latest (1)->done = 1;
    watch.cycle.rounds = 2;
    is_error (watch_look (&watch, &call, &err), ACCEL_OK, "", "a message that was received breaks the cycle");
    ok (latest (0)->looked_ns, "who looks is seen by the others");
    close_job ();
    open_job ();
    message (0, ACCEL_ENGINE_SEND, 1, 1);
    message (1, ACCEL_ENGINE_SEND, 2, 1);
    message (2, ACCEL_ENGINE_SEND, 1, 1);
    watch_look (&watch, &call, &err);
    watch.cycle.rounds = 2;
    is_error (watch_look (&watch, &call, &err), ACCEL_OK, "", "a cycle of others has its own ranks to name it");
    close_job ();
}

/* ---- what is left ---- */

#define TIMED_OUT "rank 0 timed out after 300 ms in accel_comm_all_reduce at here.c:7, waiting for "

static void
test_timed_out (void)
{
    open_job ();
    struct accel_engine_call call = call_of (ACCEL_ENGINE_ALL_REDUCE, -1), pair = call_of (ACCEL_ENGINE_RECV, 3);
    come (0);
    come (2);
    come_before (1);
    atomic_store (&slot_of (1)->heartbeat_ns, jobseg_now_ns () - UINT64_C (61200000000));
    message (3, ACCEL_ENGINE_SEND, 1, 1);
    atomic_store (&slot_of (3)->begun_ns, jobseg_now_ns () - UINT64_C (1520000000));
    is_error (watch_timed_out (&watch, &call, &err), ACCEL_ERR_TIMEOUT, TIMED_OUT "rank 1 (computing after "
              "accel_comm_barrier at one.c:11 for 61 s), rank 3 (in accel_comm_send at three.c:13 for 1.5 s)",
              "who is missing, what each does, and since when");
    is_error (watch_timed_out (&watch, &pair, &err), ACCEL_ERR_TIMEOUT, TIMED_OUT
              "rank 3 (in accel_comm_send at three.c:13 for 1.5 s)", "of a message the partner");
    come (1);
    come (3)->done = 1;
    is_error (watch_timed_out (&watch, &call, &err), ACCEL_ERR_TIMEOUT, TIMED_OUT "rank 1 (in accel_comm_all_reduce at "
              "one.c:11), rank 2 (in accel_comm_all_reduce at two.c:12)", "if all have come, who is in it");
    close_job ();
}

static void
test_blame (void)
{
    open_job ();
    struct accel_engine_call call = call_of (ACCEL_ENGINE_ALL_REDUCE, -1);
    is_error (watch_peer_failed (&watch, &call, -1, &err), ACCEL_ERR_PEER,
              "another rank gave up while rank 0 was in accel_comm_all_reduce at here.c:7", "it is unknown which");
    fail_rank (2, "no data");
    is_error (watch_peer_failed (&watch, &call, -1, &err), ACCEL_ERR_PEER,
              "rank 2 gave up: no data; meanwhile rank 0 was in accel_comm_all_reduce at here.c:7", "who gave up");
    open_again (2);
    is_error (watch_peer_failed (&watch, &call, -1, &err), ACCEL_ERR_PEER,
              "rank 2 gave up: no data; meanwhile rank 0 was in accel_comm_all_reduce at here.c:7",
              "who gave up and has opened again");
    is_error (watch_peer_failed (&watch, &call, 1, &err), ACCEL_ERR_PEER,
              "another rank gave up while rank 0 was in accel_comm_all_reduce at here.c:7", "not another one");
    close_job ();
}

/* Engines that compare on their own. */
static void
test_differ (void)
{
    open_job ();
    struct accel_engine_call call = call_of (ACCEL_ENGINE_ALL_REDUCE, -1);
    come (1)->count = 6;
    come (2)->count = 7;
    is_error (watch_mismatch (&watch, &call, 1, 2, &err), ACCEL_ERR_PEER,
              "counts differ in accel_comm_all_reduce: 6 on rank 1 at one.c:11, 7 on rank 2 at two.c:12",
              "two other ranks");
    overwrite (2);
    is_error (watch_mismatch (&watch, &call, 1, 2, &err), ACCEL_ERR_PEER,
              "ranks 1 and 2 do not call the same thing while rank 0 is in accel_comm_all_reduce at here.c:7",
              "a call that others have overwritten");
    close_job ();
    open_job ();
    call = call_of (ACCEL_ENGINE_SEND, 2);
    message (2, ACCEL_ENGINE_RECV, 0, 1);
    latest (2)->count = 5;
    is_error (watch_mismatch (&watch, &call, 0, 2, &err), ACCEL_ERR_PEER,
              "rank 0 sends float32 x 4 in accel_comm_all_reduce at here.c:7, but rank 2 expects float32 x 5 in "
              "accel_comm_recv at two.c:12", "the sender of a message is named as such");
    close_job ();
}

static int awaited; /* by the engine; ALL: it does not know */
enum { ALL = -1 };

static bool
awaits (void *transport, int rank)
{
    (void) transport;
    return awaited == ALL || rank == awaited;
}

static void
test_engine_knows (void)
{
    static const struct accel_engine engine = { .awaits = awaits };
    awaited = 3;
    open_job ();
    struct accel_engine_call call = call_of (ACCEL_ENGINE_ALL_REDUCE, -1);
    watch.engine = &engine;
    for (int rank = 0; rank < RANKS; rank++)
        come (rank);
    jobseg_mark_exit (&segment, 1, SIGKILL);
    is_error (watch_look (&watch, &call, &err), ACCEL_OK, "", "an engine knows that a dead rank has done its part");
    is_error (watch_timed_out (&watch, &call, &err), ACCEL_ERR_TIMEOUT,
              TIMED_OUT "rank 3 (in accel_comm_all_reduce at three.c:13)", "and whom it misses");
    open_again (3);
    is_error (watch_look (&watch, &call, &err), ACCEL_ERR_PEER, "rank 3 has left the job and opened it again; " IN,
              "one that opened again without doing its part is gone");
    close_job ();
    open_job ();
    watch.engine = &engine;
    awaited = 1;
    come (0);
    overwritten_and_left ();
    is_error (watch_look (&watch, &call, &err), ACCEL_ERR_PEER, "rank 1 has left the job (accel_close); " IN,
              "so is one that left, though its ring shows nothing: the engine knows");
    is_error (watch_timed_out (&watch, &call, &err), ACCEL_ERR_TIMEOUT, TIMED_OUT
              "rank 1 (has left the job (accel_close))", "it is missing when the time is out");
    watch_source_destroy (watch.source);
    watch.source = NULL;
    is_error (watch_timed_out (&watch, &call, &err), ACCEL_ERR_TIMEOUT, TIMED_OUT "rank 1", "also without ledgers");
    close_job ();
}

/* After an error of the network, NCCL's engine misses all. */
static void
test_engine_knows_nothing (void)
{
    static const struct accel_engine engine = { .awaits = awaits, .flags = ACCEL_ENGINE_ASYNC_PROGRESS };
    awaited = ALL;
    void (*const leaves[]) (void) = { one_finishes_and_leaves, overwritten_and_left, one_finishes_and_opens_again };
    for (size_t i = 0; i < sizeof leaves / sizeof *leaves; i++) {
        open_job ();
        watch.engine = &engine;
        come (0);
        leaves[i]();
        struct accel_engine_call call = call_of (ACCEL_ENGINE_ALL_REDUCE, -1);
        is_error (watch_look (&watch, &call, &err), ACCEL_OK, "", "who has done its part and left is not to blame");
        jobseg_mark_exit (&segment, 2, SIGKILL);
        is_error (watch_look (&watch, &call, &err), ACCEL_ERR_PEER,
                  "rank 2 was killed by signal 9 (SIGKILL), in accel_comm_all_reduce at two.c:12; " IN,
                  "the rank after it that was killed is");
        close_job ();
    }
    open_job ();
    watch.engine = &engine;
    watch.size = 2;
    come (0);
    overwritten_and_left ();
    struct accel_engine_call two = call_of (ACCEL_ENGINE_ALL_REDUCE, -1);
    is_error (watch_timed_out (&watch, &two, &err), ACCEL_ERR_TIMEOUT, TIMED_OUT "other ranks",
              "if no rank is missing, the time is out all the same");
    close_job ();
    open_job ();
    watch.engine = &engine;
    come (0);
    one_leaves ();
    struct accel_engine_call call = call_of (ACCEL_ENGINE_ALL_REDUCE, -1);
    is_error (watch_look (&watch, &call, &err), ACCEL_ERR_PEER, "rank 1 has left the job (accel_close); " IN,
              "and so is who has left before");
    partner_waits_for_all ();
    call = call_of (ACCEL_ENGINE_RECV, 2);
    is_error (watch_look (&watch, &call, &err), ACCEL_OK, "", "a message of a partner in a later call may still come");
    close_job ();
}

/* Ranks 3 and 1 of the world are 0 and 1 of the group, in which rank 3 waits. */
static void
test_group (void)
{
    int members[] = { 3, 1 };
    open_job ();
    watch_source_destroy (watch.source);
    watch.source = watch_source_create (&segment, 3, RANKS, 1);
    watch.members = members;
    watch.size = 2;
    watch.comm = GROUP;
    struct accel_engine_call call = call_of (ACCEL_ENGINE_ALL_REDUCE, -1);
    come (3);
    for (int rank = 0; rank < 3; rank++)
        come (rank)->comm = 0;
    is_error (watch_timed_out (&watch, &call, &err), ACCEL_ERR_TIMEOUT,
              "rank 3 timed out after 300 ms in accel_comm_all_reduce at here.c:7, waiting for rank 1 (in "
              "accel_comm_all_reduce at one.c:11)", "a rank that is in a call of the world is missing in its group");
    jobseg_mark_exit (&segment, 2, SIGKILL);
    is_error (watch_look (&watch, &call, &err), ACCEL_OK, "", "the dead of other groups are not missed");
    come (1)->root = 0;
    is_error (watch_look (&watch, &call, &err), ACCEL_ERR_PEER,
              "roots differ in accel_comm_all_reduce: -1 on rank 3 at three.c:13, 0 on rank 1 at one.c:11",
              "members have the world's names");
    close_job ();
}

static void
test_names (void)
{
    char path[101] = "", text[160], wanted[160];
    for (size_t i = 0; i < 100; i++)
        path[i] = (char) ('a' + i % 26);
    watch_describe_site (&(struct comm_site){ path, 3, JOBSEG_CALL_BARRIER, NULL }, text, sizeof text);
    snprintf (wanted, sizeof wanted, "accel_comm_barrier at %s:3", path + 100 - (JOBSEG_FILE_NAME - 1));
    is_text (text, wanted, "of a long path the end");
}

int
main (void)
{
    alarm (900);
    test_collectives ();
    test_messages ();
    test_cycles ();
    test_timed_out ();
    test_blame ();
    test_differ ();
    test_engine_knows ();
    test_engine_knows_nothing ();
    test_group ();
    test_names ();
    return done_testing ();
}
