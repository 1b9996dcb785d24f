/* SPDX-License-Identifier: Apache-2.0 */
/* Resuming in another launch, with another number of ranks: "begin" writes down where the loaders are in the middle
 * of an epoch, and all of that epoch; "go" reads it, continues, and compares; "on" continues and writes it anew. */
#include <config.h>

#include "tests/conformance/loaders.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 256 };

/* What one kind of loader leaves to the next launch. */
struct note {
    struct accel_loader_state state, between; /* in the middle of the epoch, and after it */
    int begun_on;                             /* ranks */
    int64_t whole[MOST], next[MOST]; /* the epoch and the one after it */
    size_t whole_count, next_count, done;
};

struct kind {
    const char *name;
    struct accel_loader_options options;
    bool is_stream, has_generator, skips;
};

static const struct kind kinds[] = {
    { "sequential", { .batch_size = 3 }, false, false },
    { "seedable", { .batch_size = 2, .shuffle = true, .seed = 7, .workers = 2 }, false, false },
    { "split", { .batch_size = 12, .split_batches = true, .shuffle = true, .workers = 1 }, false, false },
    { "generator", { .batch_size = 3, .random_sampler = true }, false, true },
    { "random", { .batch_size = 3, .random_sampler = true }, false, false },
    { "dispatched-random", { .batch_size = 3, .random_sampler = true, .dispatch_batches = ACCEL_YES }, false,
      false },
    { "dispatched-generator",
      { .batch_size = 3, .random_sampler = true, .dispatch_batches = ACCEL_YES, .workers = 1 }, false, true },
    { "stream", { .batch_size = 2, .dispatch_batches = ACCEL_NO }, true, false },
    { "dispatched-stream", { .batch_size = 2, .dispatch_batches = ACCEL_YES, .workers = 1 }, true, false },
    { "dispatched-split",
      { .batch_size = 12, .split_batches = true, .dispatch_batches = ACCEL_YES, .workers = 1 }, true, false },
    { "skipping-stream", { .batch_size = 2, .dispatch_batches = ACCEL_NO, .workers = 1 }, true, false, true },
    { "dispatched-skipping", { .batch_size = 3, .workers = 1 }, true, false, true },
    { "dispatched", { .batch_size = 3, .dispatch_batches = ACCEL_YES }, false, false },
    { "dispatched-seedable",
      { .batch_size = 3, .dispatch_batches = ACCEL_YES, .shuffle = true, .seed = 3, .workers = 2 }, false,
      false },
};

static bool
exchange (const struct kind *kind, const char *folder, struct note *note, bool writes)
{
    char path[4096];
    snprintf (path, sizeof path, "%s/%s.state", folder, kind->name);
    FILE *file = fopen (path, writes ? "w" : "r");
    size_t done = 0;
    if (file) {
        done = writes ? fwrite (note, sizeof *note, 1, file) : fread (note, sizeof *note, 1, file);
        done -= fclose (file) != 0;
    }
    return check (done == 1, "%s: cannot be %s", path, writes ? "written" : "read");
}

static enum accel_status
skip_numbers (void *user, uint64_t count, struct accel_error *err)
{
    struct counter *counter = user;
    (void) err;
    counter->next += (int64_t) count < counter->end - counter->next ? (int64_t) count : counter->end - counter->next;
    return ACCEL_OK;
}

static bool
is_next (const int64_t *samples, size_t count, const int64_t *wanted, size_t wanted_count)
{
    return count == wanted_count && !memcmp (samples, wanted, count * sizeof *samples);
}

/* The state of this rank, which has to be every rank's. */
static void
note_state (const struct kind *kind, struct loading *loading, struct accel_loader_state *state)
{
    struct accel_loader_state first;
    struct accel_error err;
    check (!accel_loader_get_state (loading->loader, state, &err), "%s: %s", kind->name, err.text);
    first = *state;
    check (!accel_comm_broadcast (accel_world (acc), &first, sizeof first, ACCEL_UINT8, 0, &err), "%s", err.text);
    check (!memcmp (&first, state, sizeof first), "%s: the state is not rank 0's", kind->name);
}

/* One epoch in full, then two steps of the next one; the rest of it after the state was written down. */
static void
begin (const struct kind *kind, struct loading *loading, struct note *note)
{
    int64_t before[MOST];
    size_t count = 0;
    gather_samples (loading, SIZE_MAX, before, &count, MOST);
    check (gather_samples (loading, 2, note->whole, &note->whole_count, MOST) == 2, "%s: no two steps", kind->name);
    note_state (kind, loading, &note->state);
    note->done = note->whole_count;
    gather_samples (loading, SIZE_MAX, note->whole, &note->whole_count, MOST);
    note_state (kind, loading, &note->between);
    note->begun_on = size;
    gather_samples (loading, SIZE_MAX, note->next, &note->next_count, MOST);
    check (note->whole_count == count, "%s: epochs of %zu and %zu samples", kind->name, count, note->whole_count);
}

/* torch's RandomSampler takes its seed from the default generator on one process, which the program has to put back,
 * and draws from one of its own where there are several.  A run that is continued keeps to what it began with. */
static void
check_next_epoch (const struct kind *kind, struct loading *loading, const struct note *note, const char *what)
{
    int64_t next[MOST];
    size_t count = 0;
    gather_samples (loading, SIZE_MAX, next, &count, MOST);
    if (!strcmp (kind->name, "random") && note->begun_on == 1)
        return;
    if (!strcmp (kind->name, "dispatched-random")) /* from rank 0's default generator, which is the program's to keep */
        return;
    check (is_next (next, count, note->next, note->next_count), "%s: on %d ranks %s is another", kind->name, size,
           what);
}

static void
go_on (const struct kind *kind, struct loading *loading, struct note *note, bool stops)
{
    struct accel_error err;
    int64_t rest[MOST];
    size_t count = 0;
    if (!check (!accel_loader_set_state (loading->loader, &note->state, &err), "%s: %s", kind->name, err.text))
        return;
    gather_samples (loading, stops ? 2 : SIZE_MAX, rest, &count, MOST);
    check (is_next (rest, count, note->whole + note->done, stops ? count : note->whole_count - note->done),
           "%s: on %d ranks other samples come after the first %zu", kind->name, size, note->done);
    note->done += count;
    if (stops) {
        note_state (kind, loading, &note->state);
        return;
    }
    check_next_epoch (kind, loading, note, "the next epoch");
    if (check (!accel_loader_set_state (loading->loader, &note->between, &err), "%s: %s", kind->name, err.text))
        check_next_epoch (kind, loading, note, "the next epoch, begun once more,");
}

void
check_resume (const char *stage, const char *folder)
{
    static struct note note;
    struct accel_error err;
    bool begins = !strcmp (stage, "begin"), stops = !strcmp (stage, "on");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct loading loading;
        struct accel_generator *generator = NULL;
        struct accel_loader_options options = kinds[i].options;
        note = (struct note){ 0 };
        check (!accel_set_seed (NULL, 5 + (uint64_t) rank, false, &err), "seed: %s", err.text);
        if (kinds[i].has_generator)
            check (!accel_generator_create (&generator, 9 + (uint64_t) rank, &err), "generator: %s", err.text);
        options.generator = generator;
        bool ready = open_loading (&loading, kinds[i].is_stream, 53, &options);
        loading.stream.skip = kinds[i].skips ? skip_numbers : NULL;
        if (ready && begins)
            begin (&kinds[i], &loading, &note);
        else if (ready && exchange (&kinds[i], folder, &note, false))
            go_on (&kinds[i], &loading, &note, stops);
        check (!accel_wait_for_everyone (acc, &err), "%s", err.text);
        if (rank == 0 && (begins || stops))
            exchange (&kinds[i], folder, &note, true);
        accel_loader_destroy (loading.loader);
        accel_generator_destroy (generator);
    }
}
