/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks without a launcher say of a long wait, where no rank can be named. */
#include <config.h>

#include "tests/unit/core/watch_ledgers.h"

static char said[2 * ACCEL_ERROR_TEXT_SIZE];

static void
say (void *context, const char *text)
{
    (void) context;
    snprintf (said, sizeof said, "%s", text);
}

/* What earlier calls leave there is no name. */
static __attribute__ ((noinline)) void
fill_stack (void)
{
    char text[8 * ACCEL_ERROR_TEXT_SIZE];
    memset (text, 'x', sizeof text);
    __asm__ volatile ("" ::"r"(text) : "memory");
}

/* The second look comes after that time. */
static void
look_until_said (const struct accel_engine_call *call)
{
    watch.warning = (struct watch_warning){ .say = say, .after_ms = 1 };
    *said = '\0';
    for (int i = 0; i < 2; i++) {
        fill_stack ();
        is_error (watch_look (&watch, call, &err), ACCEL_OK, "", "a wait");
        usleep (3000);
    }
}

static void
test_nothing_known (void)
{
    open_job ();
    struct accel_engine_call call = call_of (ACCEL_ENGINE_ALL_REDUCE, -1);
    come (0);
    for (int rank = 1; rank < RANKS; rank++)
        atomic_store (&slot_of (rank)->progress.step_ns, jobseg_now_ns () + UINT64_C (3600000000000));
    look_until_said (&call);
    is_text (said, "", "no warning of ranks that make progress elsewhere");
    watch_source_destroy (watch.source);
    watch.source = NULL;
    look_until_said (&call);
    ok (strstr (said, " at here.c:7, for other ranks"), "a warning without names where none are known");
    close_job ();
}

int
main (void)
{
    alarm (300);
    test_nothing_known ();
    return done_testing ();
}
