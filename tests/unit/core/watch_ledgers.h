/* SPDX-License-Identifier: Apache-2.0 */
/* A job of four ranks for tests of the watch: the slots and their ledgers are made up, and no engine is asked. */
#ifndef TESTS_UNIT_CORE_WATCH_LEDGERS_H
#define TESTS_UNIT_CORE_WATCH_LEDGERS_H

#include "lib/comm/watch/watch_object.h"
#include "tests/tap.h"
#include "util/fail.h"
#include "util/procfs.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum { RANKS = 4, TIMEOUT_MS = 300, NUMBER = 5, GROUP = 77 };

static struct jobseg segment = JOBSEG_NONE;
static struct watch watch;
static uint32_t calls;
static struct accel_error err;
static struct comm_site here = { "here.c", 7, JOBSEG_CALL_ALL_REDUCE, NULL };

static struct jobseg_slot *
slot_of (int rank)
{
    return jobseg_slot (&segment, rank);
}

static struct jobseg_record *
note (int rank, struct jobseg_record record)
{
    struct jobseg_slot *slot = slot_of (rank);
    record.sequence = atomic_load (&slot->ledger_count) + 1;
    record.generation = atomic_load (&slot->generation);
    slot->ledger[(record.sequence - 1) % JOBSEG_LEDGER] = record;
    atomic_store (&slot->ledger_count, record.sequence);
    return &slot->ledger[(record.sequence - 1) % JOBSEG_LEDGER];
}

/* The collective in which rank 0 waits, as @rank calls it. */
static struct jobseg_record *
come (int rank)
{
    return note (rank, (struct jobseg_record){
        .number = NUMBER, .comm = watch.comm, .kind = ACCEL_ENGINE_ALL_REDUCE, .call = JOBSEG_CALL_ALL_REDUCE,
        .count = 4,
        .dtype = ACCEL_FLOAT32, .root = -1, .line = 10 + (unsigned) rank });
}

static void
open_job (void)
{
    struct fail fail;
    static const char *const files[] = { "zero.c", "one.c", "two.c", "three.c" };
    if (jobseg_create (&segment, RANKS, RANKS, 0, "watch", &fail)) {
        printf ("Bail out! %s\n", fail.text);
        exit (99);
    }
    for (int rank = 0; rank < RANKS; rank++) {
        struct jobseg_slot *slot = slot_of (rank);
        snprintf (slot->files[0], sizeof slot->files[0], "%s", files[rank]);
        atomic_store (&slot->file_count, 1);
        atomic_store (&slot->generation, 1);
        atomic_store (&slot->pid, getpid ());
        atomic_store (&slot->pid_space, procfs_pid_space ());
        atomic_store (&slot->state, JOBSEG_READY);
    }
    watch = (struct watch){ .size = RANKS, .timeout_ms = TIMEOUT_MS, .generation = 1, .calls = &calls };
    watch_init (&watch);
    watch.source = watch_source_create (&segment, 0, RANKS, 1);
}

static void
close_job (void)
{
    watch_source_destroy (watch.source);
    jobseg_detach (&segment);
}

/* What rank 0 waits in. */
static struct accel_engine_call
call_of (enum accel_engine_kind kind, int root)
{
    bool pair = kind == ACCEL_ENGINE_SEND || kind == ACCEL_ENGINE_RECV;
    return (struct accel_engine_call){
        .site = &here, .kind = kind, .count = 4, .element_bytes = 4, .dtype = ACCEL_FLOAT32, .root = root,
        .number = pair ? 1 : NUMBER, .sequence = atomic_load (&slot_of (0)->ledger_count) };
}

static void
is_error (enum accel_status status, enum accel_status wanted, const char *text, const char *name)
{
    bool good = status == wanted && (!status || (err.code == status && !strcmp (err.text, text)));
    if (!ok (good, "%s", name))
        diag ("status %d: '%s', expected '%s'", (int) status, status ? err.text : "", text);
    memset (&err, 0, sizeof err);
}

#endif
