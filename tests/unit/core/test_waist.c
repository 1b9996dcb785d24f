/* SPDX-License-Identifier: Apache-2.0 */
/* The waist of communication with an engine of the test's own: what the engine is asked, in which order, and what it is
 * not asked because it cannot do it.  The engine moves nothing, so each rank is tested alone. */
#include <config.h>

#include "lib/comm/coalesce.h"
#include "lib/comm/work.h"
#include "lib/engines/engine.h"
#include "lib/memory/memory.h"
#include "tests/unit/core/trial_engine.h"

#include <semaphore.h>

/* ---- threads ---- */

static int threads_made, threads_joined;
static bool may_sleep;
static void *watched; /* whether free() gets this */
static bool is_freed;

int __real_pthread_create (pthread_t *thread, const pthread_attr_t *attributes, void *(*begin) (void *), void *user);
int __wrap_pthread_create (pthread_t *thread, const pthread_attr_t *attributes, void *(*begin) (void *), void *user);
int
__wrap_pthread_create (pthread_t *thread, const pthread_attr_t *attributes, void *(*begin) (void *), void *user)
{
    threads_made++;
    return __real_pthread_create (thread, attributes, begin, user);
}

int __real_pthread_join (pthread_t thread, void **result);
int __wrap_pthread_join (pthread_t thread, void **result);
int
__wrap_pthread_join (pthread_t thread, void **result)
{
    right (threads_made > threads_joined, "joins a thread that was never made");
    threads_joined++;
    return __real_pthread_join (thread, result);
}

/* Nothing would wake a rank that has no other thread. */
int __real_pthread_cond_wait (pthread_cond_t *condition, pthread_mutex_t *mutex);
int __wrap_pthread_cond_wait (pthread_cond_t *condition, pthread_mutex_t *mutex);
int
__wrap_pthread_cond_wait (pthread_cond_t *condition, pthread_mutex_t *mutex)
{
    if (right (may_sleep, "waits for a thread that does not exist"))
        return __real_pthread_cond_wait (condition, mutex);
    _exit (1);
}

void __real_free (void *memory);
void __wrap_free (void *memory);
void
__wrap_free (void *memory)
{
    is_freed = is_freed || (memory && memory == watched);
    __real_free (memory);
}

/* ---- what the engine cannot do ---- */

static void
test_refused (struct accel *acc)
{
    struct accel_comm *world = accel_world (acc);
    float value[2] = { 1, 2 }, sums[4];
    struct accel_work *work;
    try_on (world, true);
    trial.kinds &= ~(ACCEL_ENGINE_BIT (ACCEL_ENGINE_BROADCAST) | ACCEL_ENGINE_BIT (ACCEL_ENGINE_ALL_TO_ALL));
    trial.reduces &= ~ACCEL_ENGINE_BIT (ACCEL_FLOAT32);
    rank_fails (accel_comm_broadcast (world, value, 1, ACCEL_FLOAT32, 0, &err), ACCEL_ERR_UNSUPPORTED, &err,
                "engine trial does not support broadcast");
    rank_fails (accel_comm_all_to_all_start (&work, world, value, sums, 1, ACCEL_FLOAT32, &err), ACCEL_ERR_UNSUPPORTED,
                &err, "engine trial does not support");
    rank_fails (accel_comm_all_reduce (world, value, sums, 1, ACCEL_FLOAT32, ACCEL_SUM, &err), ACCEL_ERR_UNSUPPORTED,
                &err, "engine trial cannot reduce float32");
    rank_fails (accel_comm_reduce_scatter (world, value, sums, 1, ACCEL_FLOAT32, ACCEL_SUM, &err),
                ACCEL_ERR_UNSUPPORTED, &err, "engine trial cannot reduce float32");
    trial.kinds |= ACCEL_ENGINE_BIT (ACCEL_ENGINE_BROADCAST);
    rank_fails (accel_comm_broadcast (world, value, 1, ACCEL_FLOAT32, 2, &err), ACCEL_ERR_INVALID, &err, "no rank 2");
    rank_fails (accel_comm_all_reduce (world, value, sums, 1, ACCEL_INT32, ACCEL_AVG, &err), ACCEL_ERR_INVALID, &err,
                "cannot average int32");
    rank_fails (accel_comm_all_gather (world, value, NULL, 1, ACCEL_FLOAT32, &err), ACCEL_ERR_INVALID, &err,
                "a buffer is NULL");
    asked (""); /* and from the first start on, calls are looked at with more care */
    rank_must (accel_comm_all_reduce (world, value, sums, 1, ACCEL_INT32, ACCEL_SUM, &err), &err);
    rank_must (accel_comm_all_gather (world, value, sums, 1, ACCEL_FLOAT32, &err), &err);
    rank_must (accel_comm_all_gather_start (&work, world, value, sums, 1, ACCEL_FLOAT32, &err), &err);
    rank_must (accel_work_wait (work, &err), &err);
    asked ("rrsw");
    rank_fails (accel_comm_send (world, value, 1, ACCEL_FLOAT32, accel_comm_rank (world), &err), ACCEL_ERR_INVALID,
                &err, "a rank cannot send to itself");
    right (strstr (err.text, "accel_comm_send at "), "another call is named: %s", err.text);
    work = (void *) journal;
    rank_fails (accel_comm_all_reduce_start (&work, world, value, sums, 1, (enum accel_dtype) 99, ACCEL_SUM, &err),
                ACCEL_ERR_INVALID, &err, "invalid element type");
    right (!work, "a start that failed leaves a work");
    asked ("");
}

/* What is true of the world holds for its groups. */
static void
test_group (struct accel *acc)
{
    struct accel_comm *world = accel_world (acc), *group;
    rank_must (accel_comm_split (&group, world, 0, 0, &err), &err);
    try_on (group, false);
    comm_reserve (world, true);
    rank_must (accel_comm_barrier (group, &err), &err);
    rank_fails (accel_comm_barrier (world, &err), ACCEL_ERR_INVALID, &err, "gradients of a backward pass");
    comm_reserve (world, false);
    asked ("r");
    struct accel_comm *gone;
    rank_must (accel_comm_split (&gone, world, 0, 0, &err), &err);
    try_on (gone, false);
    object_hold (&gone->object);
    accel_comm_destroy (gone);
    rank_fails (accel_comm_barrier (gone, &err), ACCEL_ERR_INVALID, &err, "the group has been destroyed");
    object_let_go (&gone->object);
    asked ("");
    comm_give_up (world, "it is tired");
    rank_fails (accel_comm_barrier (group, &err), ACCEL_ERR_PEER, &err, "this process gave up: it is tired");
    asked ("");
}

static int observed;

static void
observe (struct comm_observer *observer, const struct accel_engine_call *call, int64_t begin_ns)
{
    (void) observer, (void) call, (void) begin_ns;
    observed++;
}

static void
end_observer (struct comm_observer *observer)
{
    (void) observer;
}

static void
test_observer (struct accel *acc)
{
    static struct comm_observer observer = { .note = observe, .end = end_observer };
    struct accel_comm *world = accel_world (acc), *group;
    rank_must (accel_comm_split (&group, world, 0, 0, &err), &err);
    world->observer = &observer;
    try_on (group, false);
    rank_must (accel_comm_barrier (group, &err), &err);
    right (observed == 1, "the observer saw a call in a group %d times", observed);
    try_on (world, false);
    rank_must (accel_comm_barrier (world, &err), &err);
    right (observed == 2, "the observer saw a call %d times", observed);
    world->observer = NULL;
}

/* ---- what is in flight ---- */

static struct accel_work *
start (struct accel_comm *comm)
{
    struct accel_work *work;
    rank_must (accel_comm_barrier_start (&work, comm, &err), &err);
    return work;
}

static bool
is_done (struct accel_work *work)
{
    bool done = false;
    rank_must (accel_work_test (work, &done, &err), &err);
    return done;
}

static void
test_flight (struct accel *acc)
{
    struct accel_comm *world = accel_world (acc);
    try_on (world, true);
    struct accel_work *work = start (world);
    landed = false;
    right (!is_done (work), "what is in flight is over");
    landed = true;
    right (is_done (work), "what has landed is not over");
    uint64_t sequence = work->call.sequence;
    rank_must (accel_work_wait (work, &err), &err);
    asked ("sttw");
    const struct jobseg_record *record = &world->ledger->slot->ledger[(sequence - 1) % JOBSEG_LEDGER];
    right (record->sequence == sequence && record->done, "the record of what has landed stays open");
    work = start (world);
    rank_must (accel_comm_barrier (world, &err), &err);
    rank_must (accel_work_wait (work, &err), &err);
    asked ("swr");
    right (!threads_made, "%d threads for an engine that has calls in flight itself", threads_made);
}

/* The end of a group, and of the world, waits for what is in flight. */
static void
test_shutdown (struct accel *acc)
{
    struct accel_comm *world = accel_world (acc), *group;
    rank_must (accel_comm_split (&group, world, 0, 0, &err), &err);
    try_on (group, true);
    start (group);
    work_drain (world);
    asked ("sw");
    start (group);
    start (group);
    accel_comm_destroy (group);
    asked ("ssww");
    right (!threads_made, "%d threads for an engine that has calls in flight itself", threads_made);
}

static sem_t has_acted;

static void
act (void *user)
{
    struct comm_coalesced coalesced;
    comm_coalesce_begin (&coalesced, user);
    right (!coalesced.comm, "the library's thread starts calls, for which it would wait itself");
    comm_coalesce_end (&coalesced, ACCEL_OK, &err);
    note ('x');
    sem_post (&has_acted);
}

/* A function of the library runs when what was started before it has landed. */
static void
test_act (struct accel *acc)
{
    struct accel_comm *world = accel_world (acc);
    struct accel_work function, *work;
    may_sleep = true;
    try_on (world, true);
    work = start (world);
    sem_init (&has_acted, 0, 0);
    right (work_start_function (world, &function, (DLDevice){ 0 }, act, world), "there is no thread");
    while (sem_wait (&has_acted))
        continue;
    asked ("swx");
    rank_must (accel_work_wait (work, &err), &err);
    work_wait_idle (world);
    asked ("");
}

static void
begin_together (void *transport)
{
    (void) transport;
    note ('(');
}

static void
end_together (void *transport)
{
    (void) transport;
    note (')');
}

/* A group of starts reaches the engine at its end, as one; the library's own calls that belong together do, too. */
static void
test_groups_of_starts (struct accel *acc)
{
    struct accel_comm *world = accel_world (acc);
    const struct comm_site site = { .file = __FILE__, .line = __LINE__, .call = JOBSEG_CALL_BARRIER };
    struct accel_work *works[3];
    struct comm_coalesced coalesced;
    try_on (world, true);
    trial.coalesce_begin = begin_together;
    trial.coalesce_end = end_together;
    works[2] = start (world);
    rank_must (accel_group_begin (world, &err), &err);
    works[0] = start (world);
    works[1] = start (world);
    asked ("s");
    rank_must (accel_group_end (world, &err), &err);
    asked ("(ss)");
    for (int i = 0; i < 3; i++)
        rank_must (accel_work_wait (works[i], &err), &err);
    comm_coalesce_begin (&coalesced, world);
    for (int i = 0; i < 2; i++)
        rank_must (comm_barrier (world, comm_coalesce_site (&coalesced, &site), &err), &err);
    rank_must (comm_coalesce_end (&coalesced, ACCEL_OK, &err), &err);
    asked ("www(ss)ww");
    rank_must (accel_group_begin (world, &err), &err);
    rank_must (accel_group_end (world, &err), &err);
    asked ("");
    start_status = ACCEL_ERR_PEER;
    rank_must (accel_group_begin (world, &err), &err);
    works[0] = start (world);
    works[1] = start (world);
    rank_must (accel_group_end (world, &err), &err);
    asked ("(s)"); /* the second one finds the communicator broken */
    rank_fails (accel_work_wait (works[1], &err), ACCEL_ERR_PEER, &err, "the trial fails");
    rank_fails (accel_work_wait (works[0], &err), ACCEL_ERR_PEER, &err, "the trial fails");
}

static void
test_start_fails (struct accel *acc)
{
    struct accel_comm *world = accel_world (acc);
    try_on (world, true);
    start_status = ACCEL_ERR_PEER;
    struct accel_work *work = start (world);
    right (is_done (work), "what could not be started is not over");
    rank_fails (accel_work_wait (work, &err), ACCEL_ERR_PEER, &err, "the trial fails");
    asked ("s");
    rank_fails (accel_comm_barrier_start (&work, world, &err), ACCEL_ERR_PEER, &err, "the trial fails");
    asked ("");
}

static void
test_wait_fails (struct accel *acc)
{
    struct accel_comm *world = accel_world (acc);
    try_on (world, true);
    wait_status = ACCEL_ERR_PEER;
    struct accel_work *work = start (world);
    rank_fails (accel_work_wait (work, &err), ACCEL_ERR_PEER, &err, "the trial fails");
    asked ("sw");
}

static void
test_together_fails (struct accel *acc)
{
    struct accel_comm *world = accel_world (acc);
    const struct comm_site site = { .file = __FILE__, .line = __LINE__, .call = JOBSEG_CALL_BARRIER };
    struct comm_coalesced coalesced;
    try_on (world, true);
    wait_status = ACCEL_ERR_PEER;
    comm_coalesce_begin (&coalesced, world);
    enum accel_status status = comm_barrier (world, comm_coalesce_site (&coalesced, &site), &err);
    rank_must (status, &err);
    rank_fails (comm_coalesce_end (&coalesced, status, &err), ACCEL_ERR_PEER, &err, "the trial fails");
    asked ("sw");
}

/* ---- memory ---- */

static void
test_memory (struct accel *acc)
{
    struct accel_comm *world = accel_world (acc);
    const DLDevice host = { .device_type = kDLCPU };
    const struct accel_engine *real = world->links->engine;
    void *memory;
    try_on (world, false);
    try_memory ();
    rank_must (comm_alloc (world, host, &memory, 64, &err), &err);
    asked ("a");
    comm_free (world, host, memory);
    asked ("f");
    right (given_back == memory, "the engine gets other memory back");
    accel_free (acc, NULL);
    accel_free (NULL, NULL);
    asked ("");
    trial.alloc = NULL;
    trial.free = NULL;
    rank_must (comm_alloc (world, host, &memory, 64, &err), &err);
    watched = memory;
    comm_free (world, host, memory);
    right (is_freed, "memory that is not the engine's stays");
    watched = NULL;
    asked ("");
    world->links->engine = real;
}

/* ---- names ---- */

static void
test_names (void)
{
    static const struct {
        const char *names, *kind, *name; /* NULL: none */
    } named[] = {
        { "shm", "cpu", "shm" },
        { "shm", "cuda", NULL },
        { "cpu:shm,cuda:nccl", "cpu", "shm" },
        { "cpu:shm,cuda:nccl", "cuda", "nccl" },
        { "cuda:nccl,shm", "cpu", "shm" },
        { "cuda:nccl", "cpu", NULL },
        { "cuda_host:nccl", "cuda", NULL },
        { "cud:nccl", "cuda", NULL },
        { "", "cpu", NULL },
        { NULL, "cpu", NULL },
    };
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        char name[ENGINE_NAME_MOST + 1] = "";
        bool found = engine_named (named[i].names, named[i].kind, name);
        ok (found == !!named[i].name && (!found || !strcmp (name, named[i].name)), "'%s' for %s: %s",
            named[i].names ? named[i].names : "(none)", named[i].kind, found ? name : "none");
    }
    static const struct {
        const char *names;
        enum accel_status status;
        const char *words;
    } checked[] = {
        { "shm", ACCEL_OK, "" },
        { "cpu:shm,self", ACCEL_OK, "" },
        { "cpu:", ACCEL_ERR_INVALID, "engine 'cpu:': expected NAME, or KIND:NAME" },
        { "shm,,self", ACCEL_ERR_INVALID, "engine 'shm,,self': expected NAME" },
        { "cpu:shm,abacus:beads", ACCEL_ERR_UNSUPPORTED,
          "engine 'abacus:beads': this build has no code for abacus memory" },
        { ":shm", ACCEL_ERR_UNSUPPORTED, "engine ':shm'" },
        { "a23456789012345678901234567890123", ACCEL_ERR_INVALID, "expected NAME" },
    };
    for (size_t i = 0; i < sizeof checked / sizeof *checked; i++) {
        enum accel_status status = engine_check_names (checked[i].names, &err);
        ok (status == checked[i].status && (!status || strstr (err.text, checked[i].words)), "names '%s': %s",
            checked[i].names, status ? err.text : "good");
    }
}

int
main (void)
{
    setenv (ENV_TIMEOUT_MS, "300000", 1);
    test_names ();
    as_ranks (2, "calls that the engine cannot run", test_refused);
    as_ranks (2, "groups of a world that cannot be used", test_group);
    as_ranks (2, "an observer sees calls", test_observer);
    as_ranks (2, "calls in flight", test_flight);
    as_ranks (2, "communicators end with calls in flight", test_shutdown);
    as_ranks (2, "a function of the library and calls in flight", test_act);
    as_ranks (2, "groups of starts", test_groups_of_starts);
    as_ranks (2, "a call that cannot be started", test_start_fails);
    as_ranks (2, "a call in flight fails", test_wait_fails);
    as_ranks (2, "one of several calls fails", test_together_fails);
    as_ranks (2, "memory of the engine and of others", test_memory);
    return done_testing ();
}
