/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of utility.sh: `utility CHECK [ARGUMENT]`; says on standard error what is wrong and exits with 1. */
#include <config.h>

#include "tests/conformance/check.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct accel_error err;
static const char *argument;

struct tries {
    size_t sizes[64], count, fits;
    int only_rank; /* where memory is short; -1: everywhere */
    enum accel_status other;
};

static enum accel_status
attempt (size_t batch_size, void *user, struct accel_error *why)
{
    struct tries *tries = user;
    (void) why;
    tries->sizes[tries->count++ % 64] = batch_size;
    if (tries->only_rank >= 0 && tries->only_rank != rank)
        return ACCEL_OK;
    return batch_size > tries->fits ? tries->other ? tries->other : ACCEL_ERR_NOMEM : ACCEL_OK;
}

/* The sizes are the original's; memory that is short on one rank makes all try less. */
static void
check_batch (void)
{
    static const size_t originals[] = { 128, 115, 103, 92, 82, 73, 65, 58, 52, 46, 41, 36, 32, 28, 25, 22,
                                        19,  17,  15,  13, 11, 9,  8,  7,  6,  5,  4,  3,  2,  1 };
    const size_t all = sizeof originals / sizeof *originals;
    struct tries tries = { .fits = 0, .only_rank = size - 1 };
    size_t found = 0;
    enum accel_status status = accel_find_executable_batch_size (acc, &found, attempt, &tries, &err);
    check (status == ACCEL_ERR_NOMEM && strstr (err.text, "no batch size from"), "nothing fits: %d %s", status,
           err.text);
    check (!found && tries.count == all && !memcmp (tries.sizes, originals, sizeof originals), "sizes are others");
    tries = (struct tries){ .fits = 60, .only_rank = size - 1 };
    status = accel_find_executable_batch_size (acc, &found, attempt, &tries, &err);
    check (!status && found == 58, "found %zu: %s", found, err.text);
    tries = (struct tries){ .fits = 60, .only_rank = size - 1, .other = ACCEL_ERR_FORMAT };
    found = 128;
    status = accel_find_executable_batch_size (acc, &found, attempt, &tries, &err);
    check (status == (rank == size - 1 ? ACCEL_ERR_FORMAT : ACCEL_ERR_CALLBACK), "another failure: %d", status);
    check (found == 128 && tries.count == 1, "another failure is not tried again");
    tries = (struct tries){ .fits = (size_t) (rank + 10), .only_rank = -1 };
    found = 11;
    status = accel_find_executable_batch_size (NULL, &found, attempt, &tries, &err);
    check (!status && found == (rank ? 11 : 9), "alone: %zu", found);
    status = accel_find_executable_batch_size (acc, NULL, attempt, &tries, &err);
    check (status == ACCEL_ERR_INVALID, "NULL is refused");
}

static void
check_log (void)
{
    accel_logger_log (acc, ACCEL_LOG_WARNING, "once %d", 1);
    accel_logger_log (acc, ACCEL_LOG_INFO, "hidden");
    accel_logger_log (acc, ACCEL_LOG_ERROR | ACCEL_LOG_EVERYWHERE, "everybody");
    for (int i = 0; i < 3; i++)
        accel_logger_log (acc, ACCEL_LOG_WARNING | ACCEL_LOG_ONCE, "again %s", "and again");
    check (!accel_logger_log_in_order (acc, &err, ACCEL_LOG_CRITICAL, "in turn"), "%s", err.text);
    accel_set_log_level (ACCEL_LOG_DEBUG);
    check (accel_set_log_level (0) == ACCEL_LOG_DEBUG, "the level is what was set");
    accel_logger_log (acc, ACCEL_LOG_DEBUG, "shown");
    /* levels may differ */
    accel_set_log_level (rank ? ACCEL_LOG_CRITICAL : ACCEL_LOG_INFO);
    check (!accel_logger_log_in_order (acc, &err, ACCEL_LOG_INFO, "some"), "%s", err.text);
}

static void
check_progress (void)
{
    struct accel_progress *progress;
    const uint64_t total = strcmp (argument, "unknown") ? 50 : 0;
    if (!check (!accel_progress_create (&progress, acc, total, "two\nlines", &err), "%s", err.text))
        return;
    for (int i = 0; i < 50; i++)
        accel_progress_update (progress, 1);
    accel_progress_close (progress);
    accel_progress_update (NULL, 1);
    accel_progress_close (NULL);
}

static void
rest (long milliseconds)
{
    nanosleep (&(struct timespec){ .tv_nsec = milliseconds * 1000000 }, NULL);
}

/* Three steps, in each of which the highest rank comes late to one of the collectives. */
static void
train (void)
{
    float number = 1;
    for (int step = 0; step < 3; step++) {
        accel_profile_begin (acc, "compute \"it\"\n");
        accel_profile_begin (acc, "inner");
        if (rank == size - 1)
            rest (20);
        accel_profile_end (acc);
        check (!accel_comm_all_reduce (accel_world (acc), &number, &number, 1, ACCEL_FLOAT32, ACCEL_SUM, &err), "%s",
               err.text);
        accel_profile_end (acc);
        check (!accel_wait_for_everyone (acc, &err), "%s", err.text);
        accel_profile_step (acc);
    }
}

static void
check_profile (void)
{
    const struct accel_profile_options options = { .path = argument };
    accel_profile_begin (acc, "nothing is recorded");
    accel_profile_end (acc);
    accel_profile_step (acc);
    check (accel_profile_stop (acc, &err) == ACCEL_ERR_INVALID, "stopped before it began");
    if (!check (!accel_profile_start (acc, &options, &err), "%s", err.text))
        return;
    check (accel_profile_start (acc, &options, &err) == ACCEL_ERR_INVALID, "started twice");
    train ();
    for (int i = 0; i < 40; i++)
        accel_profile_begin (acc, "deep"); /* left open */
    enum accel_status status = accel_profile_stop (acc, &err);
    check (!status, "%s", err.text);
    check (accel_profile_stop (acc, &err) == ACCEL_ERR_INVALID, "stopped twice");
}

/* A buffer for two events, and far more of them; many names. */
static void
check_bounded (void)
{
    const struct accel_profile_options options = { .path = argument, .max_events = rank ? 1000 : 2 };
    char name[16];
    if (!check (!accel_profile_start (acc, &options, &err), "%s", err.text))
        return;
    for (int i = 0; i < 300; i++) {
        snprintf (name, sizeof name, "name %d", i);
        accel_profile_begin (acc, name);
        accel_profile_end (acc);
    }
    train ();
    check (!accel_profile_stop (acc, &err), "%s", err.text);
}

/* The file cannot be written: all ranks get the error, and the job continues. */
static void
check_unwritable (void)
{
    const struct accel_profile_options options = { .path = "missing/trace.json" };
    if (!check (!accel_profile_start (acc, &options, &err), "%s", err.text))
        return;
    train ();
    enum accel_status status = accel_profile_stop (acc, &err);
    check (status == ACCEL_ERR_SYSTEM && strstr (err.text, "missing/trace.json"), "%d %s", status, err.text);
    check (!accel_wait_for_everyone (acc, &err), "%s", err.text);
    if (check (!accel_profile_start (acc, NULL, &err), "%s", err.text))
        train (); /* and closed while it records */
}

static enum accel_status
read_slowly (void *user, size_t index, void *const *into, struct accel_error *why)
{
    (void) user, (void) why;
    *(int64_t *) into[0] = (int64_t) index;
    nanosleep (&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    return ACCEL_OK;
}

/* Nothing but reading; the second time in a span of the program, which is about data, too. */
static void
load (enum accel_flag dispatches)
{
    const struct accel_field field = { .name = "x", .dtype = ACCEL_INT64 };
    const struct accel_dataset dataset = { .size = 40, .read = read_slowly, .fields = &field, .field_count = 1 };
    const struct accel_loader_options options = { .batch_size = 2, .dispatch_batches = dispatches };
    const struct accel_profile_options record = { .path = argument };
    const struct accel_batch *batch;
    struct accel_loader *loader;
    if (!check (!accel_loader_create (&loader, &dataset, &options, &err) && !accel_prepare (acc, &err, loader)
                    && !accel_profile_start (acc, &record, &err), "%s", err.text))
        return;
    while (accel_loader_next (loader, &batch, &err))
        ;
    for (bool more = true; more;) {
        accel_profile_begin (acc, "load batch");
        more = accel_loader_next (loader, &batch, &err);
        accel_profile_end (acc);
    }
    check (!err.code && !accel_profile_stop (acc, &err), "%s", err.text);
    accel_loader_destroy (loader);
}

static void
check_loading (void)
{
    load (ACCEL_NO);
}

static void
check_dispatching (void)
{
    load (ACCEL_YES);
}

int
main (int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run) (void);
    } checks[] = {
        { "batch", check_batch },     { "log", check_log },         { "progress", check_progress },
        { "profile", check_profile }, { "bounded", check_bounded }, { "unwritable", check_unwritable },
        { "loading", check_loading }, { "dispatching", check_dispatching },
    };
    if (accel_open (&acc, NULL, &err)) {
        fprintf (stderr, "%s\n", err.text);
        return 1;
    }
    rank = accel_process_index (acc), size = accel_num_processes (acc);
    argument = argc > 2 ? argv[2] : "";
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        if (argc > 1 && !strcmp (argv[1], checks[i].name))
            checks[i].run ();
    accel_close (acc);
    return wrong != 0;
}
