/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of loader_faults.sh: `loader_faults SCENARIO` loads data that cannot be loaded, and exits with 0 where this
 * rank gets the error of the table, in time. */
#include <config.h>

#include "tests/allocators.h"

#include <accel/accel.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SAMPLES = 48, BATCH = 4, BAD = 29, EVERYBODY = -1, PATIENCE_MS = 150 };

enum flaw {
    READ, READ_MANY, HANG, NEXT, START, NEXT_HANGS, SKIP, COLLATE, COLLATE_ROWS, COLLATE_SHAPES, HIGH, NEGATIVE,
    SAMPLER, SAMPLER_START, BATCH_EMPTY, BATCH_HUGE, BATCH_SHORT, BATCH_FAILS, SHRINK, INDIVISIBLE, IGNORED,
    NO_MEMORY
};

static const struct scenario {
    const char *name;
    enum flaw flaw;
    int victim;             /* rank whose data are bad */
    bool dispatched;
    unsigned workers;
    enum accel_status code; /* what the victim gets; all, where it is rank 0 that dispatches */
    const char *text;       /* of the error of all ranks */
} scenarios[] = {
    { "read", READ, 1, false, 0, ACCEL_ERR_CALLBACK, "reading sample 29 failed: disk on fire" },
    { "read-0", READ, 0, false, 0, ACCEL_ERR_CALLBACK, "reading sample 36 failed: disk on fire" },
    { "read-workers", READ, 2, false, 3, ACCEL_ERR_CALLBACK, "failed: disk on fire" },
    { "read-many", READ_MANY, 1, false, 0, ACCEL_ERR_CALLBACK, "reading a batch from sample 4 failed: disk on fire" },
    { "read-everywhere", READ, EVERYBODY, false, 0, ACCEL_ERR_CALLBACK, "disk on fire" },
    { "dispatched-read", READ, 0, true, 0, ACCEL_ERR_CALLBACK, "reading sample 29 failed: disk on fire" },
    { "dispatched-workers", READ, 0, true, 2, ACCEL_ERR_CALLBACK, "reading sample 29 failed: disk on fire" },
    { "stream", NEXT, 2, false, 0, ACCEL_ERR_CALLBACK, "reading sample 29 of the stream failed: disk on fire" },
    { "stream-worker", NEXT, 0, false, 1, ACCEL_ERR_CALLBACK, "reading sample 29 of the stream failed: disk on fire" },
    { "stream-start", START, 1, false, 0, ACCEL_ERR_CALLBACK, "the stream could not start epoch 0: disk on fire" },
    { "dispatched-stream", NEXT, 0, true, 0, ACCEL_ERR_CALLBACK, "reading sample 29 of the stream failed: disk on" },
    { "dispatched-start", START, 0, true, 1, ACCEL_ERR_CALLBACK, "the stream could not start epoch 0: disk on fire" },
    { "stream-skip", SKIP, 1, false, 0, ACCEL_ERR_CALLBACK, "could not skip 12 samples from sample 12 on: disk" },
    { "dispatched-skip", SKIP, 0, true, 1, ACCEL_ERR_CALLBACK, "could not skip 21 samples from sample 3 on: disk" },
    { "collate", COLLATE, 1, false, 0, ACCEL_ERR_CALLBACK, "collating the batch from sample 28 failed: disk on fire" },
    { "collate-rows", COLLATE_ROWS, 2, false, 2, ACCEL_ERR_CALLBACK, "made 5 rows of field 'x' from 4 samples" },
    { "dispatched-rows", COLLATE_ROWS, 0, true, 0, ACCEL_ERR_CALLBACK, "made 5 rows of field 'x' from 4 samples" },
    { "dispatched-shapes", COLLATE_SHAPES, 0, true, 0, ACCEL_ERR_INVALID, "rows of different shapes in field 'x'" },
    { "dispatched-no-memory", NO_MEMORY, 1, true, 0, ACCEL_ERR_NOMEM, "memory for a batch of field 'x'" },
    { "index-high", HIGH, 1, false, 0, ACCEL_ERR_INVALID, "index 29 is 48, which is out of range" },
    { "index-negative", NEGATIVE, 1, false, 2, ACCEL_ERR_INVALID, "index 29 is -1, which is out of range" },
    { "dispatched-index", HIGH, 0, true, 0, ACCEL_ERR_INVALID, "index 29 is 48, which is out of range" },
    { "sampler", SAMPLER, 2, false, 0, ACCEL_ERR_CALLBACK, "disk on fire" },
    { "sampler-start", SAMPLER_START, EVERYBODY, false, 0, ACCEL_ERR_CALLBACK, "could not start a pass: disk on fire" },
    { "batch-empty", BATCH_EMPTY, 1, false, 0, ACCEL_ERR_INVALID, "has 0 samples; expected 1 to 4" },
    { "batch-huge", BATCH_HUGE, 1, false, 0, ACCEL_ERR_INVALID, "samples; expected 1 to 4" },
    { "batch-short", BATCH_SHORT, 0, true, 0, ACCEL_ERR_INVALID, "has 3 samples; all but the last must have 4" },
    { "batch-fails", BATCH_FAILS, 2, false, 0, ACCEL_ERR_CALLBACK, "failed at batch 7 of 12: disk on fire" },
    { "shrinks", SHRINK, 1, false, 0, ACCEL_ERR_INVALID, "had 48 samples when its loader was created, but has 40 now" },
    { "dispatched-shrinks", SHRINK, 0, true, 2, ACCEL_ERR_INVALID, "had 48 samples when its loader was created, but" },
    { "indivisible", INDIVISIBLE, EVERYBODY, false, 0, ACCEL_ERR_INVALID, "split_batches: batch_size 4 is not a" },
    { "ignored", IGNORED, 1, false, 0, ACCEL_ERR_PEER, "reading sample 29 failed: disk on fire" },
    { "hang", HANG, 1, false, 1, ACCEL_ERR_TIMEOUT, "has been reading sample 29" },
    { "dispatched-hang", HANG, 0, true, 2, ACCEL_ERR_TIMEOUT, "has been reading sample 29" },
    { "stream-hang", NEXT_HANGS, 1, false, 1, ACCEL_ERR_TIMEOUT, "has been reading sample 29" },
    { "dispatched-stream-hang", NEXT_HANGS, 0, true, 1, ACCEL_ERR_TIMEOUT, "has been reading sample 29" },
};

static const struct scenario *scenario;
static bool is_victim;
static int64_t position; /* of a stream, sampler or batch sampler */
static atomic_bool released;
static atomic_int returned;

static bool
has (enum flaw flaw)
{
    return is_victim && scenario->flaw == flaw;
}

static enum accel_status
burn (struct accel_error *err)
{
    snprintf (err->text, sizeof err->text, "disk on fire");
    return ACCEL_ERR_SYSTEM;
}

/* Until the loader and all else are gone. */
static void
hang (void)
{
    while (!atomic_load (&released))
        usleep (1000);
    atomic_fetch_add (&returned, 1);
}

/* Ranks have different shares: the victim fails at its share's first sample from 28 on. */
static bool
is_bad (int64_t index)
{
    return index == BAD || (!scenario->dispatched && index >= BAD - 1 && scenario->victim != 1);
}

static enum accel_status
read_number (void *user, size_t index, void *const *into, struct accel_error *err)
{
    (void) user;
    if ((has (READ) || has (IGNORED)) && is_bad ((int64_t) index))
        return burn (err);
    if (has (HANG) && index == BAD)
        hang ();
    *(int64_t *) into[0] = (int64_t) index;
    return ACCEL_OK;
}

static enum accel_status
read_numbers (void *user, const int64_t *indices, size_t count, void *const *into, struct accel_error *err)
{
    (void) user;
    memcpy (into[0], indices, count * sizeof *indices);
    return has (READ_MANY) ? burn (err) : ACCEL_OK;
}

static enum accel_status
start (void *user, uint64_t epoch, struct accel_error *err)
{
    (void) user, (void) epoch;
    position = 0;
    return has (START) || has (SAMPLER_START) ? burn (err) : ACCEL_OK;
}

static enum accel_status
next_number (void *user, void *const *into, bool *end, struct accel_error *err)
{
    (void) user;
    if (has (NEXT) && position == BAD)
        return burn (err);
    if (has (NEXT_HANGS) && position == BAD)
        hang ();
    *end = position == SAMPLES;
    if (!*end)
        *(int64_t *) into[0] = position++;
    return ACCEL_OK;
}

static enum accel_status
skip_numbers (void *user, uint64_t count, struct accel_error *err)
{
    (void) user;
    position += (int64_t) count;
    return has (SKIP) ? burn (err) : ACCEL_OK;
}

static enum accel_status
next_index (void *user, int64_t *index, struct accel_error *err)
{
    (void) user;
    *index = position++;
    if (*index == BAD && has (SAMPLER))
        return burn (err);
    if (*index == BAD && has (HIGH))
        *index = SAMPLES;
    else if (*index == BAD && has (NEGATIVE))
        *index = -1;
    return ACCEL_OK;
}

static enum accel_status
next_batch (void *user, int64_t *indices, size_t *count, struct accel_error *err)
{
    (void) user;
    bool bad = position / BATCH == BAD / BATCH;
    if (bad && has (BATCH_FAILS))
        return burn (err);
    *count = bad && has (BATCH_EMPTY) ? 0 : bad && has (BATCH_HUGE) ? SIZE_MAX : bad && has (BATCH_SHORT) ? 3 : BATCH;
    for (int i = 0; i < BATCH; i++)
        indices[i] = position++;
    return ACCEL_OK;
}

static enum accel_status
collate (void *user, const int64_t *indices, size_t count, struct accel_batch *batch, struct accel_error *err)
{
    int64_t shape[2] = { (int64_t) count, 1 };
    void *memory;
    (void) user;
    bool bad = indices[0] >= BAD / BATCH * BATCH;
    if (bad && has (COLLATE))
        return burn (err);
    shape[0] += bad && has (COLLATE_ROWS);
    shape[1] += bad && has (COLLATE_SHAPES);
    if (scenario->flaw == NO_MEMORY) /* each round is larger than that before */
        shape[1] += indices[0] / (3 * BATCH);
    enum accel_status status = accel_batch_resize (batch, "x", 2, shape, &memory, err);
    if (!status)
        memset (memory, 0, (size_t) (shape[0] * shape[1]) * sizeof (int64_t));
    return status;
}

static const struct accel_field field = { "x", ACCEL_INT64, 0, { 0 } };
static const struct accel_dataset stream = { .fields = &field, .field_count = 1,
                                             .start = start, .next = next_number, .skip = skip_numbers };
static const struct accel_sampler_calls calls = { SAMPLES, start, next_index, NULL };
static const struct accel_batch_sampler batches
    = { .length = SAMPLES / BATCH, .batch_size = BATCH, .start = start, .next = next_batch };
static struct accel_dataset dataset = { SAMPLES, &field, 1, read_number, NULL, NULL };

static enum accel_status
open_loader (struct accel_loader **loader, struct accel_sampler **sampler, struct accel_error *err)
{
    enum flaw flaw = scenario->flaw;
    struct accel_loader_options options = { .batch_size = BATCH, .workers = scenario->workers, .prefetch = 1,
                                            .split_batches = flaw == INDIVISIBLE };
    options.dispatch_batches = scenario->dispatched ? ACCEL_YES : ACCEL_NO;
    options.timeout_ms = flaw == HANG || flaw == NEXT_HANGS ? PATIENCE_MS : 0;
    if (flaw == NEXT || flaw == START || flaw == NEXT_HANGS || flaw == SKIP)
        return accel_loader_create (loader, &stream, &options, err);
    if (flaw == READ_MANY)
        dataset.read_many = read_numbers;
    if (flaw == COLLATE || flaw == COLLATE_ROWS || flaw == COLLATE_SHAPES || flaw == NO_MEMORY)
        options.collate = collate;
    if (flaw == BATCH_EMPTY || flaw == BATCH_HUGE || flaw == BATCH_SHORT || flaw == BATCH_FAILS) {
        options.batch_sampler = &batches;
        options.batch_size = 0;
    }
    if (flaw == HIGH || flaw == NEGATIVE || flaw == SAMPLER || flaw == SAMPLER_START) {
        enum accel_status status = accel_sampler_create_custom (sampler, &calls, err);
        if (status)
            return status;
        options.sampler = *sampler;
    }
    return accel_loader_create (loader, &dataset, &options, err);
}

/* The next batch; nothing can be allocated meanwhile where that is the flaw. */
static bool
next (struct accel_loader *loader, const struct accel_batch **batch, struct accel_error *err)
{
    calls_left = has (NO_MEMORY) ? 0 : -1;
    bool more = accel_loader_next (loader, batch, err);
    calls_left = -1;
    return more;
}

/* Epochs until a rank fails; each step ends with something collective, as steps do. */
static enum accel_status
go (struct accel *acc, struct accel_loader *loader, struct accel_error *err)
{
    const struct accel_batch *batch;
    enum accel_status status = accel_prepare (acc, err, loader);
    if (!status && scenario->flaw == SKIP)
        status = accel_skip_first_batches (loader, 2, err);
    for (int epoch = 0; !status && epoch < 3; epoch++) {
        while (!status && next (loader, &batch, err))
            status = accel_wait_for_everyone (acc, err);
        status = err->code;
        if (has (IGNORED)) /* as if that were the end of the epoch: no step without its batch is shared with peers */
            status = accel_wait_for_everyone (acc, err);
        if (has (SHRINK))
            dataset.size = 40;
    }
    return status;
}

static bool
is_as_expected (enum accel_status status, const struct accel_error *err)
{
    /* If all fail, one that is a little later may get the error of another rank first. */
    bool own = is_victim || (scenario->dispatched && scenario->victim == 0);
    bool peers = scenario->victim == EVERYBODY || !own;
    return status && status == err->code && strstr (err->text, scenario->text)
           && ((own && status == scenario->code) || (peers && status == ACCEL_ERR_PEER));
}

int
main (int argc, char **argv)
{
    struct accel *acc;
    struct accel_loader *loader = NULL;
    struct accel_sampler *sampler = NULL;
    struct accel_error err = { 0 }, again = { 0 };
    for (size_t i = 0; argc > 1 && i < sizeof scenarios / sizeof *scenarios; i++)
        if (!strcmp (argv[1], scenarios[i].name))
            scenario = &scenarios[i];
    if (argc > 1 && !strcmp (argv[1], "list"))
        for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
            puts (scenarios[i].name);
    if (!scenario)
        return argc < 2 || strcmp (argv[1], "list") != 0;
    if (accel_open (&acc, &(struct accel_options){ .timeout_ms = 200000 }, &err)) {
        fprintf (stderr, "open: %s\n", err.text);
        return 1;
    }
    int rank = accel_process_index (acc);
    is_victim = rank == scenario->victim || scenario->victim == EVERYBODY;
    bool good = !open_loader (&loader, &sampler, &err);
    if (good)
        good = is_as_expected (go (acc, loader, &err), &err);
    const struct accel_batch *batch;
    if (good && scenario->dispatched) /* another attempt gets the error again, and does not wait */
        good = !accel_loader_next (loader, &batch, &again) && again.code != ACCEL_OK;
    accel_loader_destroy (loader);
    accel_sampler_destroy (sampler);
    accel_close (acc);
    printf ("rank %d: %s: %s%s%s\n", rank, good ? "as expected" : "WRONG", err.text, *again.text ? " / " : "",
            again.text);
    if (has (HANG) || has (NEXT_HANGS)) { /* the thread has to find its memory */
        atomic_store (&released, true);
        for (int i = 0; i < 5000 && !atomic_load (&returned); i++)
            usleep (1000);
        usleep (20000);
    }
    return !good;
}
