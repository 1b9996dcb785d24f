/* SPDX-License-Identifier: Apache-2.0 */
/* Loaders of one process, rule by rule: samplers of the program, what is skipped, states, what is drawn from which
 * generator, what one epoch leaves to the next, how far streams are read ahead, and which threads read. */
#include <config.h>

#include "lib/data/loader.h"
#include "lib/data/loader_object.h"
#include "lib/data/sampler.h"
#include "tests/samples.h"
#include "tests/tap.h"
#include "tests/unit/data/huge_allocations.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static const struct accel_field field = { "x", ACCEL_INT64, 0, { 0 } };
static const struct accel_dataset set = { 10, &field, 1, sample_is_index, NULL, NULL };

static struct accel_loader *
make (const struct accel_loader_options *options)
{
    struct accel_loader *loader;
    struct accel_error err;
    if (!accel_loader_create (&loader, &set, options, &err))
        return loader;
    printf ("Bail out! %s\n", err.text);
    exit (99);
}

/* One epoch's indices, or the error. */
static void
print_epoch (struct accel_loader *loader, char *text, size_t size)
{
    const struct accel_batch *batch;
    struct accel_error err;
    size_t at = 0;
    snprintf (text, size, "-");
    for (size_t count = 0; accel_loader_next (loader, &batch, &err); count++)
        for (size_t i = 0; i < accel_batch_size (batch) && at + 24 < size; i++)
            at += (size_t) snprintf (text + at, size - at, "%s%lld", i ? "," : count ? "|" : "",
                                     (long long) accel_batch_indices (batch)[i]);
    if (err.code)
        snprintf (text, size, "%.100s", err.text);
}

/* The first index of the next batch; -1: there is none. */
static long long
first_index (struct accel_loader *loader)
{
    const struct accel_batch *batch;
    return accel_loader_next (loader, &batch, NULL) ? (long long) *accel_batch_indices (batch) : -1;
}

/* ---- batch samplers and samplers ---- */

struct sizes {
    size_t sizes[3], at;
};

static enum accel_status
start_sizes (void *user, uint64_t epoch, struct accel_error *err)
{
    (void) epoch, (void) err;
    ((struct sizes *) user)->at = 0;
    return ACCEL_OK;
}

static enum accel_status
next_size (void *user, int64_t *indices, size_t *count, struct accel_error *err)
{
    struct sizes *sizes = user;
    (void) err;
    *count = sizes->sizes[sizes->at++];
    for (size_t i = 0; i < *count && i < 4; i++)
        indices[i] = (int64_t) i;
    return ACCEL_OK;
}

static void
test_batch_sizes (void)
{
    static const struct {
        size_t batch_size, most, sizes[3];
        const char *text;
    } rows[] = {
        { 4, 0, { 4, 4, 4 }, "0,1,2,3|0,1,2,3|0,1,2,3" },
        { 4, 0, { 4, 4, 1 }, "0,1,2,3|0,1,2,3|0" },
        { 4, 0, { 4, 3, 4 }, "batch 1 of the program's batch sampler has 3 samples; all but the last must have 4" },
        { 4, 0, { 4, 5, 4 }, "batch 1 of the program's batch sampler has 5 samples; expected 1 to 4" },
        { 4, 0, { 4, 4, 0 }, "batch 2 of the program's batch sampler has 0 samples; expected 1 to 4" },
        { 0, 4, { 1, 4, 2 }, "0|0,1,2,3|0,1" },
        { 0, 4, { 1, 4, 5 }, "batch 2 of the program's batch sampler has 5 samples; expected 1 to 4" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sizes sizes = { { rows[i].sizes[0], rows[i].sizes[1], rows[i].sizes[2] }, 0 };
        const struct accel_batch_sampler batches = { .length = 3, .batch_size = rows[i].batch_size,
                                                     .most = rows[i].most, .start = start_sizes, .next = next_size,
                                                     .user = &sizes };
        struct accel_loader *loader = make (&(struct accel_loader_options){ .batch_sampler = &batches });
        char got[256];
        print_epoch (loader, got, sizeof got);
        is_text (got, rows[i].text, rows[i].text);
        accel_loader_destroy (loader);
    }
}

/* Three batches for two processes: the last is repeated, or dropped if the batch sampler has drop_last. */
static void
test_shared_batches (void)
{
    static const struct {
        size_t batch_size, most;
        bool drop_last;
        size_t length, remainder;
        const char *text;
    } rows[] = {
        { 4, 0, false, 2, 4, "0,1,2,3|0,1,2,3" },
        { 4, 0, true, 1, 0, "0,1,2,3" },
        { 0, 4, false, 2, 0, "0,1,2,3|0,1,2,3" },
        { 0, 4, true, 1, 0, "0,1,2,3" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sizes sizes = { { 4, 4, 4 }, 0 };
        const struct accel_batch_sampler batches
            = { .length = 3, .batch_size = rows[i].batch_size, .most = rows[i].most, .drop_last = rows[i].drop_last,
                .start = start_sizes, .next = next_size, .user = &sizes };
        struct accel_loader *loader = make (&(struct accel_loader_options){ .batch_sampler = &batches });
        struct accel_error err = { 0 };
        char got[256] = "";
        if (!loader_share (loader, NULL, 2, 1, &err))
            print_epoch (loader, got, sizeof got);
        ok (!strcmp (got, rows[i].text) && accel_loader_length (loader) == rows[i].length
                && accel_loader_remainder (loader) == rows[i].remainder,
            "batches of %s 4%s, the second process: %zu of them, remainder %zu: %s", rows[i].most ? "at most" : "",
            rows[i].drop_last ? ", drop_last" : "", accel_loader_length (loader), accel_loader_remainder (loader), got);
        accel_loader_destroy (loader);
    }
}

static enum accel_status
refuse_start (void *user, uint64_t epoch, struct accel_error *err)
{
    (void) user, (void) epoch;
    snprintf (err->text, sizeof err->text, "no order today");
    return ACCEL_ERR_SYSTEM;
}

static enum accel_status
next_index (void *user, int64_t *index, struct accel_error *err)
{
    (void) err;
    *index = ++*(int64_t *) user;
    return ACCEL_OK;
}

static void
test_samplers (void)
{
    int64_t at = 0;
    const struct accel_sampler_calls refusing = { .length = 2, .start = refuse_start, .next = next_index, .user = &at };
    const struct accel_sampler_calls beyond = { .length = 10, .next = next_index, .user = &at };
    struct accel_sampler *samplers[3];
    struct accel_error err;
    static const char *const texts[] = {
        "the program's sampler could not start a pass: no order today",
        "the sampler's index 9 is 10, which is out of range: the data set has 10 samples",
        "the sampler covers 11 samples, but the data set has 10",
    };
    ok (!accel_sampler_create_custom (&samplers[0], &refusing, &err)
            && !accel_sampler_create_custom (&samplers[1], &beyond, &err)
            && !accel_sampler_create (&samplers[2], ACCEL_SAMPLER_SEQUENTIAL, 11, NULL, &err), "three bad samplers");
    for (int i = 0; i < 3; i++) {
        struct accel_loader_options options = { .batch_size = 2, .sampler = samplers[i] };
        struct accel_loader *loader = make (&options), *none = (void *) &set;
        char got[256];
        print_epoch (loader, got, sizeof got);
        is_text (got, texts[i], texts[i]);
        accel_loader_destroy (loader);
        options.shuffle = i & 1;
        options.random_sampler = !options.shuffle;
        ok (accel_loader_create (&none, &set, &options, &err) == ACCEL_ERR_INVALID && !none
                && strstr (err.text, "sampler cannot be combined with shuffle"), "beside another order: %s", err.text);
        accel_sampler_destroy (samplers[i]);
    }
}

/* ---- positions and states ---- */

static void
test_skips (void)
{
    static const size_t beyond[] = { SIZE_MAX, SIZE_MAX / 4, (size_t) PTRDIFF_MAX / 4 + 1 };
    struct accel_loader *loader = make (&(struct accel_loader_options){ .batch_size = 4 });
    struct accel_loader_state state;
    struct accel_error err = { 0 };
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++)
        ok (accel_skip_first_batches (loader, beyond[i], &err) == ACCEL_ERR_INVALID
                && strstr (err.text, "too many"), "%s", err.text);
    ok (!accel_skip_first_batches (loader, 1, &err) && accel_loader_length (loader) == 3,
        "an epoch has its length, whatever is skipped");
    ok (first_index (loader) == 4 && accel_loader_length (loader) == 3, "also in its middle");
    ok (accel_skip_first_batches (loader, 1, &err) == ACCEL_ERR_INVALID && strstr (err.text, "in the middle"), "%s",
        err.text);
    ok (first_index (loader) == 8 && first_index (loader) == -1, "which continues as if nothing had been called");
    ok (first_index (loader) == 0, "and so does the next");
    accel_loader_end (loader);
    ok (!accel_skip_first_batches (loader, 100, &err) && !accel_loader_get_state (loader, &state, &err)
            && state.position == 10 && !accel_loader_set_state (loader, &state, &err) && first_index (loader) == -1,
        "more is skipped than there is: the state is at the end");
    accel_loader_destroy (loader);
}

/* What is skipped in an epoch of one's own choice has nothing to do with an earlier state. */
static void
test_skips_after_states (void)
{
    for (int steps = 0; steps < 3; steps++) {
        struct accel_loader *loader = make (&(struct accel_loader_options){ .batch_size = 4 });
        struct accel_loader_state state;
        struct accel_error err;
        char got[64];
        for (int i = 0; i < steps; i++)
            first_index (loader);
        ok (!accel_loader_get_state (loader, &state, &err) && !accel_loader_set_state (loader, &state, &err),
            "a state after %d batches", steps);
        if (steps)
            print_epoch (loader, got, sizeof got);
        ok (!accel_skip_first_batches (loader, 1, &err), "a batch is skipped");
        accel_loader_set_epoch (loader, 7);
        ok (first_index (loader) == 4 && accel_loader_epoch (loader) == 7, "of any epoch");
        accel_loader_destroy (loader);
    }
}

/* As accel_loader_get_state() makes it. */
static void
channel (struct accel_loader_state *state)
{
    uint64_t hash = UINT64_C (0xcbf29ce484222325);
    for (size_t i = 0; i < offsetof (struct accel_loader_state, checksum); i++)
        hash = (hash ^ ((const unsigned char *) state)[i]) * UINT64_C (0x100000001b3);
    state->checksum = hash;
}

/* A restored loader that has not begun stands where its state says, whoever's generator it will draw from. */
static void
test_states (void)
{
    for (int own = 0; own < 2; own++) {
        struct accel_loader_options options = { .batch_size = 4, .random_sampler = true };
        struct accel_generator *generator = NULL;
        struct accel_loader_state state, again, bad;
        struct accel_error err = { 0 };
        if (own)
            ok (!accel_generator_create (&generator, 3, &err), "a generator");
        options.generator = generator;
        struct accel_loader *loader = make (&options);
        first_index (loader);
        ok (!accel_loader_get_state (loader, &state, &err), "a state");
        accel_loader_end (loader);
        first_index (loader);
        ok (!accel_loader_set_state (loader, &state, &err) && !accel_loader_get_state (loader, &again, &err)
                && !memcmp (&state, &again, sizeof state), "set, it is what is got");
        bad = state;
        channel (&bad);
        ok (bad.checksum == state.checksum, "its checksum is known here");
        memset (bad.generator, 0xff, sizeof bad.generator);
        channel (&bad);
        ok (accel_loader_set_state (loader, &bad, &err) == ACCEL_ERR_FORMAT && strstr (err.text, "generator state"),
            "%s", err.text);
        bad = state;
        bad.position = 11;
        channel (&bad);
        ok (accel_loader_set_state (loader, &bad, &err) == ACCEL_ERR_INVALID && strstr (err.text, "is 11 samples into"),
            "%s", err.text);
        accel_loader_destroy (loader);
        accel_generator_destroy (generator);
    }
}

/* ---- generators ---- */

static bool
draws_from_default (struct accel_loader *loader, bool shares)
{
    uint8_t before[ACCEL_GENERATOR_STATE_BYTES], after[ACCEL_GENERATOR_STATE_BYTES];
    struct accel_error err;
    accel_generator_get_state (accel_default_generator (), before);
    if (shares ? loader_share (loader, NULL, 2, 0, &err) != ACCEL_OK : first_index (loader) < 0)
        return false;
    accel_generator_get_state (accel_default_generator (), after);
    return memcmp (before, after, sizeof before);
}

/* torch's loaders draw the workers' seed from the loader's generator, but Accelerate's dispatcher has none; and it is
 * a sharded sampler which gets a generator of its own. */
static void
test_generators (void)
{
    struct accel_generator *generator;
    struct accel_error err;
    ok (!accel_generator_create (&generator, 3, &err), "a generator");
    for (int dispatches = 0; dispatches < 2; dispatches++) {
        struct accel_loader_options options = { .batch_size = 2, .random_sampler = true, .generator = generator };
        const char *what = dispatches ? "a loader that dispatches" : "a loader";
        options.dispatch_batches = dispatches ? ACCEL_YES : ACCEL_NO;
        struct accel_loader *loader = make (&options);
        ok (draws_from_default (loader, false) == dispatches, "%s with a generator begins an epoch", what);
        accel_loader_destroy (loader);
        options.generator = NULL;
        loader = make (&options);
        ok (draws_from_default (loader, true) == !dispatches, "%s without one is sharded", what);
        accel_loader_destroy (loader);
    }
    accel_generator_destroy (generator);
}

/* A sampler of the program outlives the generator that its loader gave it. */
static void
test_given_generator (void)
{
    for (int released = 0; released < 2; released++) {
        struct accel_sampler *sampler;
        struct accel_error err = { 0 };
        ok (!accel_sampler_create (&sampler, ACCEL_SAMPLER_RANDOM, 10, NULL, &err), "a sampler");
        struct accel_loader *loader = make (&(struct accel_loader_options){ .batch_size = 2, .sampler = sampler });
        ok (!loader_share (loader, NULL, 2, 0, &err) && !sampler_wants_generator (sampler),
            "for two processes its loader makes a generator: %s", err.text);
        if (released)
            ok (!loader_release (loader, &err), "released: %s", err.text);
        else
            accel_loader_destroy (loader);
        ok (sampler_wants_generator (sampler), "which takes it along");
        if (released)
            accel_loader_destroy (loader);
        accel_sampler_destroy (sampler);
    }
}

/* The state of several processes' order, on one: the epochs after it are theirs. */
static void
test_other_processes (void)
{
    const struct accel_loader_options options = { .batch_size = 2, .random_sampler = true };
    struct accel_loader *shared = make (&options), *alone = make (&options);
    struct accel_loader_state state;
    struct accel_error err;
    char rest[128], got[128], wanted[128];
    ok (!loader_share (shared, NULL, 2, 0, &err) && first_index (shared) >= 0
            && !accel_loader_get_state (shared, &state, &err) && !accel_loader_set_state (alone, &state, &err),
        "a state of two processes, for one");
    print_epoch (alone, rest, sizeof rest);
    print_epoch (shared, wanted, sizeof wanted);
    ok (!accel_set_seed (NULL, 7, false, &err), "other numbers in the default generator");
    print_epoch (alone, got, sizeof got);
    print_epoch (shared, wanted, sizeof wanted);
    ok (strlen (rest) == 11 && strlen (got) == 19, "the rest of an epoch, %s, and another one", rest);
    got[strcspn (got, "|")] = wanted[strcspn (wanted, "|")] = '\0';
    is_text (got, wanted, "which begins with the batch of process 0");
    accel_loader_destroy (shared);
    accel_loader_destroy (alone);
}

/* ---- dispatching, and streams ---- */

static enum accel_status
collate (void *user, const int64_t *indices, size_t count, struct accel_batch *batch, struct accel_error *err)
{
    const int *ndim = user;
    int64_t shape[1] = { (int64_t) count };
    void *memory;
    enum accel_status status = accel_batch_resize (batch, "x", *ndim, shape, &memory, err);
    if (!status)
        memcpy (memory, indices, (*ndim ? count : 1) * sizeof *indices);
    return status;
}

/* A batch that can never be sent ends its epoch, and no other. */
static void
test_failed_epoch (void)
{
    int ndim = 0;
    struct accel_loader *loader = make (&(struct accel_loader_options){
        .batch_size = 5, .dispatch_batches = ACCEL_YES, .collate = collate, .collate_user = &ndim });
    char got[256];
    for (int i = 0; i < 2; i++) {
        print_epoch (loader, got, sizeof got);
        is_text (got, "field 'x' has no rows to dispatch", "one number for five samples");
    }
    accel_loader_end (loader);
    ndim = 1;
    print_epoch (loader, got, sizeof got);
    is_text (got, "0,1,2,3,4|5,6,7,8,9", "the next epoch knows nothing of it");
    accel_loader_destroy (loader);
}

static enum accel_status
next_sample (void *user, void *const *into, bool *end, struct accel_error *err)
{
    int64_t *at = user;
    (void) err;
    *end = *at == 5;
    if (!*end)
        *(int64_t *) into[0] = (*at)++;
    return ACCEL_OK;
}

/* Without `start`, a stream that has ended goes back to its beginning by itself. */
static enum accel_status
next_in_circles (void *user, void *const *into, bool *end, struct accel_error *err)
{
    int64_t *at = user;
    enum accel_status status = next_sample (user, into, end, err);
    *at = *end ? 0 : *at;
    return status;
}

/* A stream that has said that it is at its end is not asked again in that epoch, wherever in a round that was. */
static void
test_stream_in_circles (void)
{
    static const struct {
        struct accel_loader_options options;
        size_t processes, process;
        const char *wanted;
    } rows[] = {
        { { .batch_size = 2 }, 1, 0, "0,1|2,3|4" },
        { { .batch_size = 2, .workers = 2 }, 1, 0, "0,1|2,3|4" },
        { { .batch_size = 2, .drop_last = true }, 1, 0, "0,1|2,3" },
        { { .batch_size = 2, .dispatch_batches = ACCEL_YES }, 1, 0, "0,1|2,3|4" },
        { { .batch_size = 5 }, 1, 0, "0,1,2,3,4" },
        { { .batch_size = 7 }, 1, 0, "0,1,2,3,4" },
        { { .batch_size = 2, .dispatch_batches = ACCEL_NO }, 2, 0, "0,1|4,0" },
        { { .batch_size = 2, .dispatch_batches = ACCEL_NO }, 2, 1, "2,3|1,2" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t at = 0;
        struct accel_dataset stream = { .fields = &field, .field_count = 1, .next = next_in_circles, .user = &at };
        struct accel_loader *loader;
        struct accel_error err;
        char got[256];
        ok (!accel_loader_create (&loader, &stream, &rows[i].options, &err)
                && !loader_share (loader, NULL, rows[i].processes, rows[i].process, &err), "a stream in circles");
        for (int epoch = 0; epoch < 2; epoch++) {
            const struct accel_batch *batch;
            size_t length = 0, batches = 0;
            for (; batches < 9 && accel_loader_next (loader, &batch, &err); batches++)
                for (size_t row = 0; row < accel_batch_size (batch); row++)
                    length += (size_t) snprintf (got + length, sizeof got - length, "%s%lld",
                                                 row ? "," : batches ? "|" : "",
                                                 (long long) ((int64_t *) batch->fields[0].dl.data)[row]);
            is_text (got, rows[i].wanted, "each pass is one round of it");
        }
        accel_loader_destroy (loader);
    }
}

/* One thread reads a stream, as far ahead as that many workers would. */
static void
test_reading_ahead (void)
{
    static const struct {
        unsigned workers, prefetch;
        size_t threads, ahead;
    } rows[] = { { 0, 3, 0, 1 }, { 1, 0, 1, 2 }, { 1, 3, 1, 3 }, { 4, 0, 1, 8 }, { 3, 5, 1, 15 } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t at = 0;
        struct accel_dataset stream = { .fields = &field, .field_count = 1, .next = next_sample, .user = &at };
        struct accel_loader_options options = { .workers = rows[i].workers, .prefetch = rows[i].prefetch };
        struct accel_loader *loader;
        struct accel_error err;
        if (!ok (!accel_loader_create (&loader, &stream, &options, &err), "a stream"))
            return;
        size_t threads = loader->reader->thread_count, ahead = loader->reader->slot_count - 1;
        ok (threads == rows[i].threads && ahead == rows[i].ahead,
            "%u workers, prefetch %u: %zu threads read %zu batches ahead", rows[i].workers, rows[i].prefetch, threads,
            ahead);
        accel_loader_destroy (loader);
    }
}

/* ---- which threads read ---- */

enum { WATCHED_SAMPLES = 200 };

struct watched {
    pthread_t caller;
    useconds_t takes_us;
    atomic_long by_caller, by_threads;
    int64_t at; /* of a stream */
};

static enum accel_status
read_watched (void *user, size_t index, void *const *into, struct accel_error *err)
{
    struct watched *watched = user;
    atomic_fetch_add (pthread_equal (pthread_self (), watched->caller) ? &watched->by_caller : &watched->by_threads, 1);
    if (watched->takes_us)
        usleep (watched->takes_us);
    return sample_is_index (NULL, index, into, err);
}

static enum accel_status
next_watched (void *user, void *const *into, bool *end, struct accel_error *err)
{
    struct watched *watched = user;
    *end = watched->at == WATCHED_SAMPLES;
    return *end ? ACCEL_OK : read_watched (user, (size_t) watched->at++, into, err);
}

/* Read all of it once.  @return who did: the caller, workers, or both; NULL: it failed
 * @param helps  there are more processors than workers */
static const char *
who_reads (const struct accel_loader_options *options, useconds_t takes_us, bool helps, bool streams)
{
    struct watched watched = { .caller = pthread_self (), .takes_us = takes_us };
    const struct accel_dataset data = { WATCHED_SAMPLES, &field, 1, read_watched, &watched, NULL };
    const struct accel_dataset stream = { .fields = &field, .field_count = 1, .next = next_watched, .user = &watched };
    const struct accel_batch *batch;
    struct accel_loader *loader;
    struct accel_error err;
    long batches = 0;
    if (accel_loader_create (&loader, streams ? &stream : &data, options, &err))
        return NULL;
    loader->reader->helps = helps;
    for (; accel_loader_next (loader, &batch, &err) && *accel_batch_indices (batch) == batches; batches++)
        ;
    accel_loader_destroy (loader);
    long callers = watched.by_caller, workers = watched.by_threads;
    if (batches != WATCHED_SAMPLES || callers + workers != WATCHED_SAMPLES)
        return NULL;
    return callers && workers ? "both" : callers ? "caller" : "workers";
}

static void
test_reader (bool streams)
{
    enum { TRIES = 60 }; /* a busy machine may make cheap reads seem slow */
    static const struct {
        struct accel_loader_options options;
        useconds_t takes_us;
        const char *who, *name;
        bool helps;
    } rows[] = {
        { { .workers = 0 }, 0, "caller", "no workers" },
        { { .workers = 2 }, 0, "both", "cheap reads" },
        { { .workers = 2 }, 300, "workers", "reads of 300 us" },
        { { .workers = 2, .timeout_ms = 1000000 }, 0, "workers", "cheap reads that may not hang" },
        { { .workers = 2, .reader = ACCEL_READER_THREADS }, 0, "workers", "cheap reads, threads" },
        { { .workers = 2, .reader = ACCEL_READER_CALLER }, 0, "caller", "cheap reads, caller" },
        { { .workers = 2, .reader = ACCEL_READER_CALLER }, 300, "caller", "reads of 300 us, caller" },
        { { .workers = 1 }, 300, "both", "reads of 300 us and a processor more", true },
        { { .workers = 1, .reader = ACCEL_READER_THREADS }, 300, "workers", "the same, threads", true },
        { { .workers = 1, .timeout_ms = 1000000 }, 300, "workers", "the same, reads that may not hang", true },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *wanted = streams && rows[i].helps ? "workers" : rows[i].who;
        const char *who = who_reads (&rows[i].options, rows[i].takes_us, rows[i].helps, streams);
        for (int try = 1; try < TRIES && who && !strcmp (wanted, "both") && strcmp (who, "both"); try++)
            who = who_reads (&rows[i].options, rows[i].takes_us, rows[i].helps, streams);
        if (ok (who, "%s: %s: all of it is read once, in order", streams ? "a stream" : "a data set", rows[i].name))
            is_text (who, wanted, wanted);
    }
}

/* A stream that could not be sharded is as it was: not dispatched, as several processes' are. */
static void
test_failed_share (void)
{
    struct accel_loader_state states[2];
    for (int shared = 0; shared < 2; shared++) {
        int64_t at = 0;
        struct accel_dataset stream = { .fields = &field, .field_count = 1, .next = next_sample, .user = &at };
        struct accel_loader_options options = { .batch_size = 2 };
        struct accel_loader *loader;
        struct accel_error err;
        ok (!accel_loader_create (&loader, &stream, &options, &err), "a stream");
        if (shared)
            ok (loader_share (loader, NULL, (size_t) 1 << 58, 0, &err), "for 2^58 processes: %s", err.text);
        ok (first_index (loader) == 0 && first_index (loader) == 2 && first_index (loader) == 4
                && accel_loader_end_of_dataloader (loader) && !accel_loader_get_state (loader, &states[shared], &err),
            "its three batches");
        accel_loader_destroy (loader);
    }
    ok (!memcmp (&states[0], &states[1], sizeof *states), "after them it is at %llu, and %llu",
        (unsigned long long) states[0].position, (unsigned long long) states[1].position);
}

/* ---- a data set that hangs ---- */

static atomic_int calls;
static atomic_bool let_go;

static enum accel_status
hang_first (void *user, size_t index, void *const *into, struct accel_error *err)
{
    if (!atomic_fetch_add (&calls, 1))
        while (!atomic_load (&let_go))
            usleep (1000);
    return sample_is_index (user, index, into, err);
}

/* Whether memory of this size is where @p place was. */
static bool
is_given_again (uintptr_t place, size_t bytes)
{
    void *memory[16];
    bool found = false;
    for (int i = 0; i < 16; i++)
        memory[i] = malloc (bytes);
    for (int i = 0; i < 16; i++) {
        found = found || (uintptr_t) memory[i] == place;
        free (memory[i]);
    }
    return found;
}

/* What a thread that hangs may come back to stays as it is: the loader and its order; and it reads no more. */
static void
test_hanging (void)
{
    static const struct accel_dataset hanging = { 10, &field, 1, hang_first, NULL, NULL };
    static struct reader *kept; /* for leak detectors: it is meant to stay */
    const struct accel_loader_options options
        = { .batch_size = 4, .workers = 1, .timeout_ms = 50, .random_sampler = true };
    uint8_t before[ACCEL_GENERATOR_STATE_BYTES], after[ACCEL_GENERATOR_STATE_BYTES];
    struct accel_loader *loader;
    const struct accel_batch *batch;
    struct accel_error err;
    ok (!accel_loader_create (&loader, &hanging, &options, &err) && !accel_loader_next (loader, &batch, &err)
            && err.code == ACCEL_ERR_TIMEOUT, "a read hangs: %s", err.text);
    for (int i = 0; i < 900000 && !atomic_load (&calls); i++) /* its thread may not have come to it yet */
        usleep (1000);
    accel_loader_end (loader);
    accel_generator_get_state (accel_default_generator (), before);
    ok (!accel_loader_next (loader, &batch, &err) && err.code == ACCEL_ERR_TIMEOUT, "in the next epoch: %s", err.text);
    accel_generator_get_state (accel_default_generator (), after);
    ok (!memcmp (before, after, sizeof before), "for which no order was drawn");
    kept = loader->reader;
    ok (loader_share (loader, NULL, 1, 0, &err) == ACCEL_ERR_TIMEOUT, "sharded anew: %s", err.text);
    uintptr_t place = (uintptr_t) loader, order = (uintptr_t) loader->order.indices;
    size_t bytes = loader->order.capacity * sizeof *loader->order.indices;
    accel_loader_destroy (loader);
    ok (!is_given_again (place, sizeof *loader) && !is_given_again (order, bytes), "destroyed, but not freed");
    atomic_store (&let_go, true);
    usleep (50000);
    ok (calls == 1 && kept, "a late read is the thread's last: %d", calls);
}

int
main (void)
{
    test_hanging ();
    test_batch_sizes ();
    test_shared_batches ();
    test_samplers ();
    test_skips ();
    test_skips_after_states ();
    test_states ();
    test_generators ();
    test_given_generator ();
    test_other_processes ();
    test_failed_epoch ();
    test_stream_in_circles ();
    test_reading_ahead ();
    test_failed_share ();
    test_reader (false);
    test_reader (true);
    return done_testing ();
}
