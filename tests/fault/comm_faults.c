/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a job in which something goes wrong: comm_faults SCENARIO [VICTIM]
 *
 * The ranks make a few collectives; then rank VICTIM (1 if not given) does what the scenario is called, and the others
 * look at their error.  A rank that got the right one says "rank N: as expected" with the time it took
 * and the text, and exits with status 0; any other says what was wrong and exits with status 3.  The launcher's SIGTERM
 * is ignored, so that all have their say.
 *
 * A victim that others wait for in vain comes back once they have been told, however long that takes.  ACCEL_TIMEOUT_MS
 * replaces the timeout of such a scenario: the start of all ranks has to fit into it. */
#include <config.h>

#include "tests/fault/meet.h"

#include <accel/accel.h>

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { DEADLINE_S = 900, MANY = 1 << 20, LARGE = 1 << 20 };

struct job {
    struct accel *acc;
    struct accel_comm *comm;
    int rank, size, victim;
    float *large, *own; /* own: the same, where it is ours to free */
    char v[16]; /* "rank 1" */
};

typedef enum accel_status act (struct job *job, struct accel_error *err);

static double
now_ms (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec * 1e3 + (double) now.tv_nsec / 1e6;
}

static void
pause_ms (int ms)
{
    nanosleep (&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L }, NULL);
}

static void
wrong (const struct job *job, const char *format, ...) ACCEL_PRINTF (2, 3);
static void
wrong (const struct job *job, const char *format, ...)
{
    char text[1024];
    meet_come ("told", job->rank);
    va_list args;
    va_start (args, format);
    vsnprintf (text, sizeof text, format, args);
    va_end (args);
    printf ("rank %d: WRONG: %s\n", job->rank, text);
    exit (3);
}

/* ---- what victims do ---- */

static enum accel_status
act_exit (struct job *job, struct accel_error *err)
{
    (void) job, (void) err;
    _exit (7);
}

static enum accel_status
act_abort (struct job *job, struct accel_error *err)
{
    (void) job, (void) err;
    abort ();
}

static enum accel_status
act_die (struct job *job, struct accel_error *err)
{
    (void) job, (void) err;
    raise (SIGKILL);
    return ACCEL_OK;
}

static enum accel_status
act_late (struct job *job, struct accel_error *err)
{
    meet_wait ("told", job->size, job->victim);
    return accel_comm_barrier (job->comm, err);
}

/* What the others have: counts of 8 floats. */
static float few[9 * 64];

static enum accel_status
act_count (struct job *job, struct accel_error *err)
{
    return accel_comm_all_reduce (job->comm, few, few, 9, ACCEL_FLOAT32, ACCEL_SUM, err);
}

static enum accel_status
act_dtype (struct job *job, struct accel_error *err)
{
    return accel_comm_all_reduce (job->comm, few, few, 8, ACCEL_INT32, ACCEL_SUM, err);
}

static enum accel_status
act_op (struct job *job, struct accel_error *err)
{
    return accel_comm_all_reduce (job->comm, few, few, 8, ACCEL_FLOAT32, ACCEL_MAX, err);
}

static enum accel_status
act_reduce (struct job *job, struct accel_error *err)
{
    return accel_comm_all_reduce (job->comm, few, few, 8, ACCEL_FLOAT32, ACCEL_SUM, err);
}

/* The job has another timeout. */
static enum accel_status
act_reduce_soon (struct job *job, struct accel_error *err)
{
    enum accel_status status = accel_comm_set_timeout (job->comm, 1000, err);
    return status ? status : act_reduce (job, err);
}

static enum accel_status
act_gather (struct job *job, struct accel_error *err)
{
    return accel_comm_all_gather (job->comm, few, few + 8, 8, ACCEL_FLOAT32, err);
}

static enum accel_status
act_wait (struct job *job, struct accel_error *err)
{
    return accel_wait_for_everyone (job->acc, err);
}

static enum accel_status
act_barrier (struct job *job, struct accel_error *err)
{
    return accel_comm_barrier (job->comm, err);
}

static enum accel_status
act_root_0 (struct job *job, struct accel_error *err)
{
    return accel_comm_broadcast (job->comm, few, 8, ACCEL_FLOAT32, 0, err);
}

static enum accel_status
act_root_1 (struct job *job, struct accel_error *err)
{
    return accel_comm_broadcast (job->comm, few, 8, ACCEL_FLOAT32, 1, err);
}

static int
next_rank (const struct job *job)
{
    return (job->rank + 1) % job->size;
}

static enum accel_status
act_send_next (struct job *job, struct accel_error *err)
{
    return accel_comm_send (job->comm, few, 9, ACCEL_FLOAT32, next_rank (job), err);
}

static enum accel_status
act_send_victim (struct job *job, struct accel_error *err)
{
    return accel_comm_send (job->comm, few, 8, ACCEL_FLOAT32, job->victim, err);
}

static enum accel_status
act_recv_victim (struct job *job, struct accel_error *err)
{
    return accel_comm_recv (job->comm, few, 8, ACCEL_FLOAT32, job->victim, err);
}

/* All ranks in the opposite order, so that ranks of the group are not those of the world. */
static enum accel_status
act_group (struct job *job, struct accel_error *err)
{
    struct accel_comm *group;
    enum accel_status status = accel_comm_split (&group, job->comm, 0, -job->rank, err);
    if (status)
        return status;
    if (job->rank == job->victim)
        raise (SIGKILL);
    status = accel_comm_all_reduce (group, few, few, 8, ACCEL_FLOAT32, ACCEL_SUM, err);
    accel_comm_destroy (group);
    return status;
}

static enum accel_status
act_group_count (struct job *job, struct accel_error *err)
{
    struct accel_comm *group;
    size_t count = job->rank == job->victim ? 9 : 8;
    enum accel_status status = accel_comm_split (&group, job->comm, 0, -job->rank, err);
    if (!status)
        status = accel_comm_all_reduce (group, few, few, count, ACCEL_FLOAT32, ACCEL_SUM, err);
    accel_comm_destroy (group);
    return status;
}

static enum accel_status
act_small_and_large (struct job *job, struct accel_error *err)
{
    size_t count = job->rank == job->victim ? 16 : LARGE;
    return accel_comm_all_reduce (job->comm, job->large, job->large, count, ACCEL_FLOAT32, ACCEL_SUM, err);
}

/* The others disagree with the victim while the last rank computes for a long time. */
static enum accel_status
act_third (struct job *job, struct accel_error *err)
{
    if (job->rank != job->size - 1)
        return job->rank == job->victim ? accel_comm_barrier (job->comm, err) : act_reduce (job, err);
    pause_ms (1500);
    return act_reduce (job, err);
}

/* ---- what the others do ---- */

static enum accel_status
act_reduces (struct job *job, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (int i = 0; !status && i < MANY; i++)
        status = act_reduce (job, err);
    return status;
}

static enum accel_status
act_large (struct job *job, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (int i = 0; !status && i < MANY; i++)
        status = accel_comm_all_reduce (job->comm, job->large, job->large, LARGE, ACCEL_FLOAT32, ACCEL_MAX, err);
    return status;
}

/* The victim too, but something kills it meanwhile. */
static void
be_killed_soon (void)
{
    pid_t self = getpid ();
    if (!fork ()) {
        pause_ms (40);
        kill (self, SIGKILL);
        _exit (0);
    }
}

static enum accel_status
act_killed_in_large (struct job *job, struct accel_error *err)
{
    be_killed_soon ();
    return act_large (job, err);
}

static enum accel_status
act_send_large (struct job *job, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (int i = 0; !status && i < MANY; i++)
        status = accel_comm_send (job->comm, job->large, LARGE, ACCEL_FLOAT32, job->victim, err);
    return status;
}

static enum accel_status
act_killed_receiving (struct job *job, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    be_killed_soon ();
    for (int i = 0; !status && i < MANY; i++)
        status = accel_comm_recv (job->comm, job->large, LARGE, ACCEL_FLOAT32, (job->rank + 1 + i % 2) % job->size,
                                  err);
    return status;
}

/* Messages of trees and objects, and pieces of them, until the victim is killed. */
static enum accel_status
send_until_killed (struct job *job, bool tree, struct accel_error *err)
{
    static int64_t shape[] = { LARGE };
    DLTensor tensor = { .data = job->large, .device = { kDLCPU, 0 }, .ndim = 1, .shape = shape,
                        .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
    struct accel_object objects[] = { { job->large, LARGE }, { job->large, 1 } };
    struct accel_tree *leaf = NULL;
    enum accel_status status = accel_tree_borrow_tensor (&leaf, &tensor, err);
    for (int i = 0; !status && i < MANY; i++) {
        int to = job->rank == job->victim ? (job->rank + 1 + i % 2) % job->size : job->victim;
        status = tree ? accel_tree_send (job->acc, leaf, to, err)
                      : accel_send_object_list (job->acc, objects, 2, to, err);
    }
    accel_tree_destroy (leaf);
    return status;
}

static enum accel_status
recv_until_killed (struct job *job, bool tree, struct accel_error *err)
{
    struct accel_object_list list = { 0 };
    enum accel_status status = ACCEL_OK;
    for (int i = 0; !status && i < MANY; i++) {
        int from = job->rank == job->victim ? (job->rank + 1 + i % 2) % job->size : job->victim;
        struct accel_tree *came = NULL;
        status = tree ? accel_tree_recv (&came, job->acc, from, err)
                      : accel_recv_object_list (&list, job->acc, from, err);
        accel_tree_destroy (came);
    }
    accel_object_list_release (&list);
    return status;
}

static enum accel_status
act_tree_send (struct job *job, struct accel_error *err)
{
    if (job->rank == job->victim)
        be_killed_soon ();
    return send_until_killed (job, true, err);
}

static enum accel_status
act_tree_recv (struct job *job, struct accel_error *err)
{
    if (job->rank == job->victim)
        be_killed_soon ();
    return recv_until_killed (job, true, err);
}

static enum accel_status
act_objects_send (struct job *job, struct accel_error *err)
{
    if (job->rank == job->victim)
        be_killed_soon ();
    return send_until_killed (job, false, err);
}

static enum accel_status
act_objects_recv (struct job *job, struct accel_error *err)
{
    if (job->rank == job->victim)
        be_killed_soon ();
    return recv_until_killed (job, false, err);
}

static enum accel_status
act_objects_all (struct job *job, struct accel_error *err)
{
    struct accel_object_list list = { 0 };
    struct accel_object objects[8];
    enum accel_status status = ACCEL_OK;
    for (int r = 0; r < 8; r++)
        objects[r] = (struct accel_object){ job->large, LARGE };
    if (job->rank == job->victim)
        be_killed_soon ();
    for (int i = 0; !status && i < MANY; i++)
        status = accel_all_to_all_object (&list, job->acc, objects, err);
    accel_object_list_release (&list);
    return status;
}

/* Stopped until the others have got the error, then it continues: what they did since must not pass for a result. */
static enum accel_status
act_stopped_in_large (struct job *job, struct accel_error *err)
{
    pid_t self = getpid ();
    (void) meet_parent ();
    if (!fork ()) {
        alarm (DEADLINE_S);
        pause_ms (40);
        kill (self, SIGSTOP);
        meet_wait ("told", job->size, job->victim);
        kill (self, SIGCONT);
        _exit (0);
    }
    return act_large (job, err);
}

/* A child of the victim that exits or closes is not the victim. */
static enum accel_status
act_fork_and_exit (struct job *job, struct accel_error *err)
{
    if (!fork ()) {
        accel_close (job->acc);
        exit (0);
    }
    pause_ms (100);
    act_reduce (job, err);
    _exit (7);
}

/* ---- the same in flight ---- */

/* Two in flight, the second of which is waited for first: both get the same error, and so does a later start. */
static enum accel_status
started (struct job *job, float *buffer, size_t count, struct accel_error *err)
{
    struct accel_work *work[2];
    struct accel_error first;
    enum accel_status status
        = accel_comm_all_reduce_start (&work[0], job->comm, buffer, buffer, count, ACCEL_FLOAT32, ACCEL_MAX, err);
    if (!status)
        status = accel_comm_all_reduce_start (&work[1], job->comm, few, few, 1, ACCEL_FLOAT32, ACCEL_SUM, err);
    if (status)
        return status;
    enum accel_status second = accel_work_wait (work[1], err);
    status = accel_work_wait (work[0], &first);
    if (!status && !second)
        return ACCEL_OK;
    if (!second || (status && (second != status || strcmp (err->text, first.text))))
        wrong (job, "work after work that failed: %s", second ? err->text : "");
    if (accel_comm_barrier_start (&work[0], job->comm, &first) != second || strcmp (err->text, first.text) || work[0])
        wrong (job, "a start after work that failed: %s", first.text);
    return second;
}

static enum accel_status
act_start (struct job *job, struct accel_error *err)
{
    return started (job, few, 8, err);
}

static enum accel_status
act_start_count (struct job *job, struct accel_error *err)
{
    return started (job, few, 9, err);
}

static enum accel_status
act_start_large (struct job *job, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (int i = 0; !status && i < MANY; i++)
        status = started (job, job->large, LARGE, err);
    return status;
}

static enum accel_status
act_killed_in_start_large (struct job *job, struct accel_error *err)
{
    be_killed_soon ();
    return act_start_large (job, err);
}

static enum accel_status
act_start_and_exit (struct job *job, struct accel_error *err)
{
    struct accel_work *work;
    enum accel_status status = accel_comm_barrier_start (&work, job->comm, err);
    _exit (status ? 3 : 7);
}

/* The victim exchanges so many messages with the rank after it that its ledger shows no call of all any more. */
static enum accel_status
exchange_many (struct job *job, struct accel_error *err)
{
    enum { MESSAGES = 70 };
    bool is_victim = job->rank == job->victim;
    enum accel_status status = ACCEL_OK;
    int other = is_victim ? next_rank (job) : job->victim;
    if (!is_victim && job->rank != (job->victim + 1) % job->size)
        return ACCEL_OK;
    for (int i = 0; i < MESSAGES && !status; i++)
        status = i % 2 == is_victim ? accel_comm_send (job->comm, few, 8, ACCEL_FLOAT32, other, err)
                                    : accel_comm_recv (job->comm, few, 8, ACCEL_FLOAT32, other, err);
    return status;
}

/* In a group, whose thread is not that of the world. */
static enum accel_status
act_start_in_group (struct job *job, struct accel_error *err)
{
    struct accel_comm *group;
    struct accel_work *work;
    enum accel_status status = accel_comm_split (&group, job->comm, 0, -job->rank, err);
    if (!status)
        status = accel_comm_barrier_start (&work, group, err);
    if (!status && job->rank == job->victim)
        raise (SIGKILL);
    if (!status)
        status = accel_work_wait (work, err);
    if (!status) /* it came, and died then */
        status = accel_comm_barrier (group, err);
    accel_comm_destroy (group);
    return status;
}

/* While the others compute: what the victim has in flight ends nevertheless. */
static enum accel_status
act_give_up (struct job *job, struct accel_error *err)
{
    struct accel_work *work;
    enum accel_status status = accel_comm_barrier_start (&work, job->comm, err);
    if (status)
        return status;
    pause_ms (100); /* most likely, the thread of the work waits by now */
    accel_comm_abort (job->comm, "the user pressed q");
    status = accel_work_wait (work, err);
    if (!strstr (err->text, "the user pressed q"))
        wrong (job, "work after accel_comm_abort: %s", err->text);
    meet_come ("up", job->rank);
    return status;
}

/* The victim has come to the first barrier, but to no other. */
static enum accel_status
act_barriers_when_given_up (struct job *job, struct accel_error *err)
{
    struct accel_work *work;
    meet_come ("up", job->rank);
    meet_wait ("up", job->size, job->rank);
    enum accel_status status = accel_comm_barrier_start (&work, job->comm, err);
    if (!status)
        status = accel_work_wait (work, err);
    return status ? status : accel_comm_barrier (job->comm, err);
}

static const struct scenario {
    const char *name;
    act *victim; /* NULL: it closes */
    act *others;
    bool victim_returns; /* and gets the same error as the others */
    bool shared;         /* large buffers are of accel_alloc() */
    uint32_t timeout_ms;
    enum accel_status status;
    const char *words[4]; /* "%v" is the victim's name; of the first two one suffices where both are there */
    bool exchanges;       /* the victim and the rank after it, many messages, before it happens */
} scenarios[] = {
    { "exits", act_exit, act_reduces, false, false, 0, ACCEL_ERR_PEER,
      { "%v exited with status 7", "%v ended (process", "accel_comm_all_reduce", NULL } },
    { "aborts", act_abort, act_reduces, false, false, 0, ACCEL_ERR_PEER,
      { "%v was killed by signal 6 (SIGABRT)", "%v ended (process", "accel_comm_all_reduce", NULL } },
    { "killed", act_die, act_barrier, false, false, 0, ACCEL_ERR_PEER,
      { "%v was killed by signal 9 (SIGKILL)", "%v ended (process", "accel_comm_barrier", NULL } },
    { "killed-large", act_killed_in_large, act_large, false, false, 0, ACCEL_ERR_PEER,
      { "%v was killed by signal 9 (SIGKILL)", "%v ended (process", "accel_comm_all_reduce", NULL } },
    { "killed-large-shared", act_killed_in_large, act_large, false, true, 0, ACCEL_ERR_PEER,
      { "%v was killed by signal 9 (SIGKILL)", "%v ended (process", "accel_comm_all_reduce", NULL } },
    { "fork-exits", act_fork_and_exit, act_reduces, false, false, 0, ACCEL_ERR_PEER,
      { "%v exited with status 7", "%v ended (process", "accel_comm_all_reduce", NULL } },
    { "closes", NULL, act_barrier, false, false, 0, ACCEL_ERR_PEER,
      { "%v has left the job (accel_close)", NULL, "accel_comm_barrier", NULL } },
    { "messages-closes", NULL, act_barrier, false, false, 30000, ACCEL_ERR_PEER,
      { "%v has left the job (accel_close)", NULL, "accel_comm_barrier", NULL }, .exchanges = true },
    { "other-call", act_gather, act_reduce, true, false, 0, ACCEL_ERR_PEER,
      { "accel_comm_all_gather (float32 x 8)", NULL, "accel_comm_all_reduce (float32 x 8)", "%v" } },
    { "other-name", act_wait, act_barrier, true, false, 0, ACCEL_ERR_PEER,
      { "accel_wait_for_everyone", NULL, "accel_comm_barrier", "%v" } },
    { "other-count", act_count, act_reduce, true, false, 0, ACCEL_ERR_PEER,
      { "counts differ in accel_comm_all_reduce", NULL, "9 on %v", "8 on rank" } },
    { "other-dtype", act_dtype, act_reduce, true, false, 0, ACCEL_ERR_PEER,
      { "element types differ in accel_comm_all_reduce", NULL, "int32 on %v", "float32 on rank" } },
    { "other-op", act_op, act_reduce, true, false, 0, ACCEL_ERR_PEER,
      { "operations differ in accel_comm_all_reduce", NULL, "max on %v", "sum on rank" } },
    { "other-root", act_root_1, act_root_0, true, false, 0, ACCEL_ERR_PEER,
      { "roots differ in accel_comm_broadcast", NULL, "1 on %v", "0 on rank" } },
    { "other-size", act_small_and_large, act_small_and_large, true, false, 0, ACCEL_ERR_PEER,
      { "counts differ in accel_comm_all_reduce", NULL, "16 on %v", "1048576 on rank" } },
    { "other-size-shared", act_small_and_large, act_small_and_large, true, true, 0, ACCEL_ERR_PEER,
      { "counts differ in accel_comm_all_reduce", NULL, "16 on %v", "1048576 on rank" } },
    { "send-dies", act_die, act_send_victim, false, false, 0, ACCEL_ERR_PEER,
      { "%v was killed by signal 9 (SIGKILL)", "%v ended (process", "accel_comm_send", NULL } },
    { "recv-dies", act_exit, act_recv_victim, false, false, 0, ACCEL_ERR_PEER,
      { "%v exited with status 7", "%v ended (process", "accel_comm_recv", NULL } },
    { "recv-closes", NULL, act_recv_victim, false, false, 0, ACCEL_ERR_PEER,
      { "%v has left the job (accel_close)", NULL, "accel_comm_recv", NULL } },
    { "send-killed", act_killed_receiving, act_send_large, false, false, 0, ACCEL_ERR_PEER,
      { "%v was killed by signal 9 (SIGKILL)", "%v ended (process", "accel_comm_send", NULL } },
    { "send-killed-shared", act_killed_receiving, act_send_large, false, true, 0, ACCEL_ERR_PEER,
      { "%v was killed by signal 9 (SIGKILL)", "%v ended (process", "accel_comm_send", NULL } },
    { "tree-recv-dies", act_tree_recv, act_tree_send, false, false, 0, ACCEL_ERR_PEER,
      { "%v was killed by signal 9 (SIGKILL)", "%v ended (process", "accel_tree_send", NULL } },
    { "tree-send-dies", act_tree_send, act_tree_recv, false, false, 0, ACCEL_ERR_PEER,
      { "%v was killed by signal 9 (SIGKILL)", "%v ended (process", "accel_tree_recv", NULL } },
    { "tree-send-closes", NULL, act_tree_recv, false, false, 0, ACCEL_ERR_PEER,
      { "%v has left the job (accel_close)", NULL, "accel_tree_recv", NULL } },
    { "objects-recv-dies", act_objects_recv, act_objects_send, false, false, 0, ACCEL_ERR_PEER,
      { "%v was killed by signal 9 (SIGKILL)", "%v ended (process", "accel_send_object_list", NULL } },
    { "objects-send-dies", act_objects_send, act_objects_recv, false, false, 0, ACCEL_ERR_PEER,
      { "%v was killed by signal 9 (SIGKILL)", "%v ended (process", "accel_recv_object_list", NULL } },
    { "objects-all-dies", act_objects_all, act_objects_all, false, false, 0, ACCEL_ERR_PEER,
      { "%v was killed by signal 9 (SIGKILL)", "%v ended (process", "accel_all_to_all_object", NULL } },
    { "send-barrier", act_barrier, act_send_victim, true, false, 0, ACCEL_ERR_PEER,
      { "%v is waiting for all", NULL, "accel_comm_barrier", "accel_comm_send" } },
    { "recv-count", act_send_next, act_recv_victim, true, false, 0, ACCEL_ERR_PEER,
      { "%v sends float32 x 9", NULL, "expects float32 x 8 in accel_comm_recv", NULL } },
    { "send-circle", act_send_next, act_send_next, true, false, 0, ACCEL_ERR_PEER,
      { "sending in a cycle", NULL, "accel_comm_send", NULL } },
    { "recv-late", act_late, act_recv_victim, false, false, 1000, ACCEL_ERR_TIMEOUT,
      { "timed out after ", NULL, "%v (computing after accel_comm_all_reduce", "accel_comm_recv" } },
    { "group-dies", act_group, act_group, false, false, 0, ACCEL_ERR_PEER,
      { "%v was killed by signal 9 (SIGKILL)", "%v ended (process", "accel_comm_all_reduce", NULL } },
    { "group-count", act_group_count, act_group_count, true, false, 0, ACCEL_ERR_PEER,
      { "counts differ in accel_comm_all_reduce", NULL, "9 on %v", "8 on rank" } },
    { "third-computes", act_third, act_third, true, false, 0, ACCEL_ERR_PEER,
      { "accel_comm_barrier", NULL, "accel_comm_all_reduce", "%v" } },
    { "stopped", act_stopped_in_large, act_large, false, false, 1000, ACCEL_ERR_TIMEOUT,
      { "timed out after ", NULL, "%v (", "accel_comm_all_reduce" } },
    { "stopped-shared", act_stopped_in_large, act_large, false, true, 1000, ACCEL_ERR_TIMEOUT,
      { "timed out after ", NULL, "%v (", "accel_comm_all_reduce" } },
    { "work-exits", act_start_and_exit, act_start, false, false, 0, ACCEL_ERR_PEER,
      { "%v exited with status 7", "%v", "accel_comm_", NULL } },
    { "work-dies", act_die, act_start, false, false, 0, ACCEL_ERR_PEER,
      { "%v was killed by signal 9 (SIGKILL)", "%v ended (process", "accel_comm_all_reduce_start", NULL } },
    { "work-killed-large", act_killed_in_start_large, act_start_large, false, false, 0, ACCEL_ERR_PEER,
      { "%v was killed by signal 9 (SIGKILL)", "%v ended (process", "accel_comm_all_reduce_start", NULL } },
    { "work-killed-large-shared", act_killed_in_start_large, act_start_large, false, true, 0, ACCEL_ERR_PEER,
      { "%v was killed by signal 9 (SIGKILL)", "%v ended (process", "accel_comm_all_reduce_start", NULL } },
    { "work-group-dies", act_start_in_group, act_start_in_group, false, false, 0, ACCEL_ERR_PEER,
      { "%v was killed by signal 9 (SIGKILL)", "%v ended (process", "accel_comm_barrier", NULL } },
    { "work-closes", NULL, act_start, false, false, 0, ACCEL_ERR_PEER,
      { "%v has left the job (accel_close)", NULL, "accel_comm_all_reduce_start", NULL } },
    { "work-count", act_start_count, act_start, true, false, 0, ACCEL_ERR_PEER,
      { "counts differ in accel_comm_all_reduce_start", NULL, "9 on %v", "8 on rank" } },
    { "work-blocks", act_barrier, act_start, true, false, 0, ACCEL_ERR_PEER,
      { "accel_comm_barrier at", NULL, "accel_comm_all_reduce_start", "%v" } },
    { "work-aborted", act_give_up, act_barriers_when_given_up, false, false, 0, ACCEL_ERR_PEER,
      { "%v gave up: the user pressed q", NULL, "accel_comm_barrier", NULL } },
    { "work-late", act_late, act_start, false, false, 1000, ACCEL_ERR_TIMEOUT,
      { "timed out after ", NULL, "%v (computing after accel_comm_all_reduce", "accel_comm_all_reduce_start" } },
    { "late", act_late, act_reduce, false, false, 1000, ACCEL_ERR_TIMEOUT,
      { "timed out after ", NULL, "%v (computing after accel_comm_all_reduce", "timed out after" } },
    { "set-late", act_late, act_reduce_soon, false, false, 600000, ACCEL_ERR_TIMEOUT,
      { "timed out after 1000 ms", NULL, "%v (computing after accel_comm_all_reduce", NULL } },
};

static const struct scenario *
find (const char *name)
{
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        if (!strcmp (scenarios[i].name, name))
            return &scenarios[i];
    fprintf (stderr, "comm_faults: no scenario %s\n", name);
    exit (99);
}

/* Whether @text has @words, in which %v is the victim. */
static bool
has (const struct job *job, const char *text, const char *words)
{
    char wanted[256];
    const char *mark = strstr (words, "%v");
    if (mark)
        snprintf (wanted, sizeof wanted, "%.*s%s%s", (int) (mark - words), words, job->v, mark + 2);
    else
        snprintf (wanted, sizeof wanted, "%s", words);
    return strstr (text, wanted);
}

static void
check (struct job *job, const struct scenario *scenario, enum accel_status status, const struct accel_error *err,
       double took_ms)
{
    const char *const *words = scenario->words;
    struct accel_error later = { .code = ACCEL_OK };
    if (!status)
        wrong (job, "no error");
    /* Who comes to wait later than another may hear that the other gave up, before its own time is over. */
    bool second = scenario->status == ACCEL_ERR_TIMEOUT && status == ACCEL_ERR_PEER && strstr (err->text, "gave up: ");
    enum accel_status first = status;
    if ((status != scenario->status && !second) || err->code != status)
        wrong (job, "status %d: %s", (int) status, err->text);
    if (!has (job, err->text, words[0]) && !(words[1] && has (job, err->text, words[1])))
        wrong (job, "'%s' is not in '%s'", words[0], err->text);
    for (int i = 2; i < 4 && words[i]; i++)
        if (!has (job, err->text, words[i]))
            wrong (job, "'%s' is not in '%s'", words[i], err->text);
    if (!strstr (err->text, "comm_faults.c:"))
        wrong (job, "no line is named: %s", err->text);
    for (int i = 0; i < 3; i++) {
        int8_t number = 0;
        status = i ? accel_comm_all_reduce (job->comm, &number, &number, 1, ACCEL_INT8, ACCEL_SUM, &later)
                   : accel_comm_barrier (job->comm, &later);
        /* A call on a tree has put the place before the text. */
        if (status != first || later.code != status || !strstr (err->text, later.text))
            wrong (job, "a later call: status %d: %s", (int) status, later.text);
    }
    printf ("rank %d: as expected after %.1f ms: %s\n", job->rank, took_ms, err->text);
}

static void
open_job (struct job *job, uint32_t timeout_ms)
{
    struct accel_error err;
    if (getenv ("ACCEL_TIMEOUT_MS"))
        timeout_ms = 0;
    if (accel_open (&job->acc, &(struct accel_options){ .timeout_ms = timeout_ms }, &err))
        wrong (job, "%s", err.text);
    job->comm = accel_world (job->acc);
    job->rank = accel_comm_rank (job->comm);
    job->size = accel_comm_size (job->comm);
}

static void
get_memory (struct job *job, bool shared)
{
    void *memory = calloc (LARGE, sizeof (float));
    struct accel_error err;
    if (shared) {
        free (memory);
        if (accel_alloc (job->acc, LARGE * sizeof (float), &memory, &err))
            wrong (job, "%s", err.text);
    }
    job->large = memory;
    job->own = shared ? NULL : memory;
}

/* "open": say what accel_open() says.  "open-hold": and stay a member until there is a file "enough".  "open-exit",
 * "open-killed": the victim does not even come there. */
static int
try_open (const char *how, int victim)
{
    struct accel *acc = (void *) 1;
    struct accel_error err = { .code = ACCEL_OK };
    const char *rank = getenv ("RANK");
    bool ends = !strcmp (how, "open-killed") || !strcmp (how, "open-exit");
    int number = rank ? (int) strtol (rank, NULL, 10) : 0;
    if (ends && number != victim)
        meet_come ("open", number);
    if (ends && number == victim) {
        meet_wait ("open", 3, victim); /* the others have to be deaf to the launcher's SIGTERM by then */
        if (!strcmp (how, "open-killed"))
            raise (SIGKILL);
        _exit (7);
    }
    double begin = now_ms ();
    enum accel_status status = accel_open (&acc, NULL, &err);
    printf ("rank %s: status %d after %.1f ms: %s\n", rank ? rank : "?", (int) status, now_ms () - begin,
            status ? err.text : "open");
    if (status && (acc || err.code != status || strchr (err.text, '\n')))
        return 3;
    if (!strcmp (how, "open-hold"))
        while (access ("enough", F_OK))
            pause_ms (5);
    accel_close (acc);
    return status != ACCEL_OK;
}

int
main (int argc, char **argv)
{
    struct accel_error err = { .code = ACCEL_OK };
    struct job job = { .rank = -1, .victim = argc > 2 ? (int) strtol (argv[2], NULL, 10) : 1 };
    enum accel_status status = ACCEL_OK;
    setvbuf (stdout, NULL, _IOLBF, 0);
    signal (SIGTERM, SIG_IGN);
    alarm (DEADLINE_S);
    setrlimit (RLIMIT_CORE, &(struct rlimit){ 0 });
    if (argc < 2)
        return 99;
    if (!strncmp (argv[1], "open", 4))
        return try_open (argv[1], job.victim);
    const struct scenario *scenario = find (argv[1]);
    open_job (&job, scenario->timeout_ms);
    get_memory (&job, scenario->shared);
    snprintf (job.v, sizeof job.v, "rank %d", job.victim);
    for (int i = 0; !status && i < 3; i++)
        status = act_reduce (&job, &err);
    if (!status && scenario->exchanges)
        status = exchange_many (&job, &err);
    if (status)
        wrong (&job, "at first: %s", err.text);
    double begin = now_ms ();
    bool victim = job.rank == job.victim;
    if (victim && !scenario->victim) {
        accel_close (job.acc);
        free (job.own);
        return 0;
    }
    status = (victim ? scenario->victim : scenario->others) (&job, &err);
    if (!victim)
        meet_come ("told", job.rank);
    if (!victim || scenario->victim_returns)
        check (&job, scenario, status, &err, now_ms () - begin);
    else if (status != ACCEL_ERR_PEER)
        wrong (&job, "the victim: status %d: %s", (int) status, status ? err.text : "");
    else
        printf ("rank %d: the victim was told: %s\n", job.rank, err.text);
    accel_close (job.acc);
    free (job.own);
    return 0;
}
