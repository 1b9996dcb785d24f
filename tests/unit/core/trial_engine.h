/* SPDX-License-Identifier: Apache-2.0 */
/* An engine of the test's own for a communicator: it moves nothing, notes what it is asked, and fails when told to.
 * Ranks therefore never wait for each other in it. */
#ifndef TESTS_UNIT_TRIAL_ENGINE_H
#define TESTS_UNIT_TRIAL_ENGINE_H

#include "lib/base/error.h"
#include "lib/comm/comm_object.h"
#include "tests/ranks.h"

static struct accel_error err;
static struct accel_engine trial;
static char journal[64];                    /* a letter for each thing that the engine was asked */
static struct accel_engine_call trial_call; /* the latest */
static struct comm_form trial_form;         /* its form; all 0: none */
static bool landed = true;                  /* what test() says */
static enum accel_status run_status, start_status, wait_status;
static void *given_back; /* to free() */

static void
note (char what)
{
    size_t length = strlen (journal);
    if (length + 1 < sizeof journal)
        journal[length] = what;
}

/** What the engine has been asked since the last time. */
static void
asked (const char *what)
{
    right (!strcmp (journal, what), "the engine was asked '%s' instead of '%s'", journal, what);
    memset (journal, 0, sizeof journal);
}

static void
note_call (char what, const struct accel_engine_call *call)
{
    const struct comm_form *form = engine_site (call)->form;
    note (what);
    trial_call = *call;
    trial_form = form ? *form : (struct comm_form){ .tensor = NULL };
}

static enum accel_status
outcome (enum accel_status status, struct accel_error *why)
{
    return status ? accel_fail (why, status, "the trial fails") : ACCEL_OK;
}

static enum accel_status
trial_run (void *transport, const struct accel_engine_call *call, struct accel_error *why)
{
    (void) transport;
    note_call ('r', call);
    return outcome (run_status, why);
}

static enum accel_status
trial_start (void *transport, const struct accel_engine_call *call, void **work, struct accel_error *why)
{
    (void) transport;
    note_call ('s', call);
    *work = journal;
    return outcome (start_status, why);
}

static bool
trial_test (void *transport, void *work)
{
    (void) transport, (void) work;
    note ('t');
    return landed;
}

static enum accel_status
trial_wait (void *transport, void *work, struct accel_error *why)
{
    (void) transport, (void) work;
    note ('w');
    return outcome (wait_status, why);
}

static enum accel_status
trial_alloc (void *transport, void **memory, size_t bytes, struct accel_error *why)
{
    (void) transport, (void) why;
    note ('a');
    *memory = calloc (1, bytes);
    return ACCEL_OK;
}

static void
trial_free (void *transport, void *memory)
{
    (void) transport;
    note ('f');
    given_back = memory;
    free (memory);
}

/** Give @p comm the trial engine until it ends; memory and groups remain those of its own.
 *  @param starts  it has calls in flight itself */
static void
try_on (struct accel_comm *comm, bool starts)
{
    trial = *comm->links->engine;
    trial.name = "trial";
    trial.run = trial_run;
    trial.start = starts ? trial_start : NULL;
    trial.test = starts ? trial_test : NULL;
    trial.wait = starts ? trial_wait : NULL;
    trial.coalesce_begin = trial.coalesce_end = NULL;
    comm->links->engine = &trial;
}

/** From now on, it has memory of its own. */
__attribute__ ((unused)) static void
try_memory (void)
{
    trial.alloc = trial_alloc;
    trial.free = trial_free;
}

#endif
