/* SPDX-License-Identifier: Apache-2.0 */
/* Loaders on any number of processes, one process after the other, against what PyTorch with the original gives:
 * orders, shards, streams (tests/golden/data.txt).  And resuming: from every batch, on any number of processes. */
#include <config.h>

#include "lib/data/loader.h"
#include "lib/data/shard.h"
#include "tests/golden/loader_cases.h"
#include "tests/samples.h"
#include "tests/tap.h"

enum { EPOCHS = 3, TEXT_SIZE = 32768 };

static const struct accel_field fields[] = { { "x", ACCEL_INT64, 0, { 0 } } };
static struct accel_dataset set = { .fields = fields, .field_count = 1, .read = sample_is_index };

static void
must (enum accel_status status, const struct accel_error *err)
{
    if (!status)
        return;
    printf ("Bail out! %s\n", err->text);
    exit (99);
}

/* Append one epoch; what is in the batches is checked too. */
static void
add_epoch (struct accel_loader *loader, char *text, size_t *at)
{
    const struct accel_batch *batch;
    struct accel_error err;
    size_t before = *at;
    for (size_t count = 0; accel_loader_next (loader, &batch, &err); count++) {
        const int64_t *values = accel_batch_tensor (batch, "x")->data;
        for (size_t i = 0; i < accel_batch_size (batch) && *at + 64 < TEXT_SIZE; i++)
            *at += (size_t) snprintf (text + *at, TEXT_SIZE - *at, "%s%lld", i ? "," : count ? "|" : "",
                                      (long long) values[i]);
        if (memcmp (values, accel_batch_indices (batch), accel_batch_size (batch) * sizeof *values))
            *at += (size_t) snprintf (text + *at, TEXT_SIZE - *at, "(other indices)");
    }
    if (err.code)
        *at += (size_t) snprintf (text + *at, TEXT_SIZE - *at, "!%.200s", err.text);
    else if (*at == before)
        *at += (size_t) snprintf (text + *at, TEXT_SIZE - *at, "-");
}

/* EPOCHS epochs; where the text ends. */
static size_t
add_epochs (struct accel_loader *loader, char *text)
{
    size_t at = 0;
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        if (epoch)
            text[at++] = ';';
        add_epoch (loader, text, &at);
    }
    return at;
}

/* As make_loader_goldens.py's loader_of(). */
static void
make_order (const struct loader_case *test, struct accel_loader_options *options, struct accel_sampler **sampler,
            struct accel_generator **generator)
{
    struct accel_error err;
    enum accel_status status = ACCEL_OK;
    struct accel_sampler_options random = { .num_samples = test->samples };
    must (accel_set_seed (NULL, test->seed, false, &err), &err);
    options->seed = test->seed;
    options->shuffle = !strcmp (test->order, "seedable");
    options->random_sampler = !strcmp (test->order, "random") || !strcmp (test->order, "generator");
    if (!strcmp (test->order, "generator")) {
        status = accel_generator_create (generator, test->seed + 1, &err);
        options->generator = *generator;
    } else if (!strcmp (test->order, "replacement")) {
        random = (struct accel_sampler_options){ .replacement = true, .num_samples = test->samples + 3 };
        status = accel_sampler_create (sampler, ACCEL_SAMPLER_RANDOM, test->samples, &random, &err);
    } else if (!strcmp (test->order, "more")) {
        random.num_samples = 2 * test->samples + 1;
        status = accel_sampler_create (sampler, ACCEL_SAMPLER_RANDOM, test->samples, &random, &err);
    } else if (!strcmp (test->order, "weighted")) {
        double weights[64];
        for (size_t i = 0; i < test->samples; i++)
            weights[i] = 1.0 + (double) (i % 5);
        random.replacement = true;
        random.weights = weights;
        status = accel_sampler_create (sampler, ACCEL_SAMPLER_WEIGHTED, test->samples, &random, &err);
    } else if (!strcmp (test->order, "subset")) {
        int64_t indices[64];
        size_t count = 0;
        for (size_t i = 0; i < test->samples; i += 2)
            indices[count++] = (int64_t) i;
        status = accel_sampler_create (sampler, ACCEL_SAMPLER_SUBSET, count,
                                       &(struct accel_sampler_options){ .indices = indices }, &err);
    }
    must (status, &err);
    options->sampler = *sampler;
}

static void
run_map (const struct loader_case *test, size_t process, char *text)
{
    struct accel_loader *loader;
    struct accel_sampler *sampler = NULL;
    struct accel_generator *generator = NULL;
    struct accel_error err;
    struct accel_loader_options options = { .batch_size = test->batch_size,
                                            .split_batches = test->split && test->processes == 1,
                                            .drop_last = test->drop_last,
                                            .even_batches = test->even ? ACCEL_YES : ACCEL_NO,
                                            .workers = test->number % 5 == 4 ? (unsigned) test->number % 3 + 1 : 0 };
    make_order (test, &options, &sampler, &generator);
    options.split_batches = test->split;
    set.size = test->samples;
    must (accel_loader_create (&loader, &set, &options, &err), &err);
    must (loader_share (loader, NULL, test->processes, process, &err), &err);
    size_t at = add_epochs (loader, text);
    if (!options.sampler)
        snprintf (text + at, TEXT_SIZE - at, " %zu", accel_loader_remainder (loader));
    accel_loader_destroy (loader);
    accel_sampler_destroy (sampler);
    accel_generator_destroy (generator);
}

/* Without a loader. */
static void
run_shard (const struct loader_case *test, size_t process, char *text)
{
    struct shard shard = { .samples = test->samples,
                           .batch_size = test->batch_size,
                           .processes = test->processes,
                           .process = process,
                           .drop_last = test->drop_last,
                           .even = test->even };
    size_t at = (size_t) snprintf (text, TEXT_SIZE, "%s", shard_length (&shard) ? "" : "-");
    for (size_t batch = 0; batch < shard_length (&shard); batch++)
        for (size_t i = 0; i < shard_batch_size (&shard, batch); i++)
            at += (size_t) snprintf (text + at, TEXT_SIZE - at, "%s%zu", i ? "," : batch ? "|" : "",
                                     shard_position (&shard, batch, i));
    snprintf (text + at, TEXT_SIZE - at, " %zu", shard_remainder (&shard));
}

/* Batches of 1, 2, 3, 1, 2, 3 ... samples. */
struct varying {
    size_t batch;
    int64_t next;
};

static enum accel_status
start_varying (void *user, uint64_t epoch, struct accel_error *err)
{
    (void) epoch;
    (void) err;
    *(struct varying *) user = (struct varying){ 0, 0 };
    return ACCEL_OK;
}

static enum accel_status
next_varying (void *user, int64_t *indices, size_t *count, struct accel_error *err)
{
    struct varying *varying = user;
    (void) err;
    *count = 1 + varying->batch++ % 3;
    for (size_t i = 0; i < *count; i++)
        indices[i] = varying->next++;
    return ACCEL_OK;
}

static void
run_varying (const struct loader_case *test, size_t process, char *text)
{
    struct varying varying;
    struct accel_loader *loader;
    struct accel_error err;
    struct accel_batch_sampler batches
        = { .most = 3, .start = start_varying, .next = next_varying, .user = &varying, .length = test->samples };
    struct accel_loader_options options = { .batch_sampler = &batches,
                                            .even_batches = test->even ? ACCEL_YES : ACCEL_NO };
    set.size = 3 * batches.length;
    must (accel_loader_create (&loader, &set, &options, &err), &err);
    must (loader_share (loader, NULL, test->processes, process, &err), &err);
    add_epochs (loader, text);
    accel_loader_destroy (loader);
}

struct counter {
    int64_t next, end, reads, skipped;
    bool lies, fails;
};

static enum accel_status
start_counter (void *user, uint64_t epoch, struct accel_error *err)
{
    (void) epoch;
    (void) err;
    ((struct counter *) user)->next = 0;
    return ACCEL_OK;
}

static enum accel_status
next_counter (void *user, void *const *into, bool *end, struct accel_error *err)
{
    struct counter *counter = user;
    (void) err;
    counter->reads++;
    if (counter->next == counter->end)
        *end = true;
    else
        memcpy (into[0], &(int64_t){ counter->next++ }, sizeof (int64_t));
    return ACCEL_OK;
}

static enum accel_status
skip_counter (void *user, uint64_t count, struct accel_error *err)
{
    struct counter *counter = user;
    int64_t left = counter->end - counter->next, wanted = counter->lies ? left : (int64_t) count;
    if (counter->fails) {
        snprintf (err->text, sizeof err->text, "no way past it");
        return ACCEL_ERR_SYSTEM;
    }
    counter->skipped += wanted;
    counter->next += wanted < left ? wanted : left;
    return ACCEL_OK;
}

static void
run_stream (const struct loader_case *test, size_t process, char *text)
{
    struct counter counter = { .end = (int64_t) test->samples };
    struct accel_dataset stream = { .fields = fields, .field_count = 1,
                                    .start = start_counter, .next = next_counter, .user = &counter };
    struct accel_loader *loader;
    struct accel_error err;
    struct accel_loader_options options = { .batch_size = test->batch_size,
                                            .dispatch_batches = ACCEL_NO,
                                            .split_batches = test->split ? ACCEL_YES : ACCEL_DEFAULT,
                                            .drop_last = test->drop_last,
                                            .workers = (unsigned) test->number % 3 };
    must (accel_loader_create (&loader, &stream, &options, &err), &err);
    must (loader_share (loader, NULL, test->processes, process, &err), &err);
    add_epochs (loader, text);
    accel_loader_destroy (loader);
}

static void
run_distributed (const struct loader_case *test, size_t process, char *text)
{
    struct accel_sampler *sampler;
    struct accel_error err;
    int64_t indices[64];
    size_t at = 0;
    struct accel_sampler_options options = { .replicas = test->processes,
                                             .rank = process,
                                             .shuffle = test->shuffle ? ACCEL_YES : ACCEL_NO,
                                             .drop_last = test->drop_last,
                                             .seed = test->seed };
    must (accel_sampler_create (&sampler, ACCEL_SAMPLER_DISTRIBUTED, test->samples, &options, &err), &err);
    accel_sampler_set_epoch (sampler, test->epoch);
    must (accel_sampler_draw (sampler, indices, &err), &err);
    snprintf (text, TEXT_SIZE, "-");
    for (size_t i = 0; i < accel_sampler_length (sampler); i++)
        at += (size_t) snprintf (text + at, TEXT_SIZE - at, "%s%lld", i ? "," : "", (long long) indices[i]);
    accel_sampler_destroy (sampler);
}

static const struct kind {
    const char *name;
    void (*run) (const struct loader_case *test, size_t process, char *text);
} kinds[] = {
    { "map", run_map },
    { "shard", run_shard },
    { "varying", run_varying },
    { "stream", run_stream },
    { "distributed", run_distributed },
};

static uint64_t
run_cases (const struct kind *kind, const struct loader_line *line, size_t process, FILE *report)
{
    static char text[TEXT_SIZE];
    uint64_t total = 0;
    for (size_t number = 0; number < line->cases; number++) {
        if (loader_case_failed (line, number))
            continue;
        struct loader_case test = pick_loader_case (line, number);
        kind->run (&test, process, text);
        total = golden_text_checksum (total, text);
        print_loader_case (report, &test, process, text);
    }
    return total;
}

static void
compare_line (const struct kind *kind, const struct loader_line *line, struct golden *golden)
{
    for (size_t process = 0; process < line->processes; process++) {
        char *text = NULL;
        size_t size;
        FILE *report = open_memstream (&text, &size);
        bool same = run_cases (kind, line, process, report) == golden_bits_64 (golden);
        fclose (report);
        ok (same, "process %zu: %s %s %zu %zu", process, line->kind, line->order, line->processes, line->cases);
        fputs (same ? "" : text, stdout);
        free (text);
    }
}

static void
test_goldens (void)
{
    struct golden golden;
    golden_find (&golden, "data.txt");
    while (golden_next (&golden)) {
        struct loader_line line = read_loader_line (&golden);
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
            if (!strcmp (line.kind, kinds[i].name))
                compare_line (&kinds[i], &line, &golden);
    }
}

/* Batches of one epoch, of all processes in turns: the order in which samples are used up. */
struct epoch {
    int64_t samples[512];
    size_t count;
    struct accel_loader_state states[256]; /* after each round */
    uint8_t generator[ACCEL_GENERATOR_STATE_BYTES]; /* the default one's, which a program keeps beside them */
    size_t rounds;
};

static void
add_batch (struct epoch *epoch, const struct accel_batch *batch)
{
    for (size_t i = 0; i < accel_batch_size (batch) && epoch->count < 512; i++)
        epoch->samples[epoch->count++] = accel_batch_indices (batch)[i];
}

/* Step all processes' loaders together; if @p stop_after is not 0 only that many rounds. */
static void
run_together (struct accel_loader **loaders, size_t processes, size_t stop_after, struct epoch *epoch)
{
    bool more = true, ended[8] = { false };
    epoch->count = epoch->rounds = 0;
    while (more && (!stop_after || epoch->rounds < stop_after)) {
        more = false;
        for (size_t process = 0; process < processes; process++) {
            const struct accel_batch *batch;
            struct accel_error err;
            if (ended[process])
                continue;
            if (accel_loader_next (loaders[process], &batch, &err)) {
                add_batch (epoch, batch);
                more = true;
                continue;
            }
            must (err.code, &err);
            ended[process] = true;
        }
        accel_generator_get_state (accel_default_generator (), epoch->generator);
        if (more)
            must (accel_loader_get_state (loaders[0], &epoch->states[epoch->rounds++], NULL), NULL);
    }
}

struct resumed {
    const char *order;
    size_t samples, batch_size, processes, others;
    bool drop_last, uneven, stream;
    unsigned workers;
    bool skips;
};

static struct accel_dataset counted = { .fields = fields, .field_count = 1,
                                        .start = start_counter, .next = next_counter };

static void
open_loaders (const struct resumed *test, size_t processes, struct accel_loader **loaders, struct counter *counters,
              struct accel_dataset *streams, struct accel_generator **generators)
{
    struct accel_error err;
    for (size_t process = 0; process < processes; process++) {
        struct accel_loader_options options
            = { .batch_size = test->batch_size, .drop_last = test->drop_last,
                .even_batches = test->uneven ? ACCEL_NO : ACCEL_YES,
                .workers = test->workers, .shuffle = !strcmp (test->order, "seedable"), .seed = 5 };
        generators[process] = NULL;
        if (!strcmp (test->order, "generator") || !strcmp (test->order, "random")) {
            options.random_sampler = true;
            must (accel_set_seed (NULL, 11, false, &err), &err);
        }
        if (!strcmp (test->order, "generator")) {
            must (accel_generator_create (&generators[process], 4, &err), &err);
            options.generator = generators[process];
        }
        if (test->stream) {
            options.seed = 0;
            options.shuffle = false;
            options.dispatch_batches = ACCEL_NO;
            counters[process] = (struct counter){ .end = (int64_t) test->samples };
            streams[process] = counted;
            streams[process].skip = test->skips ? skip_counter : NULL;
            streams[process].user = &counters[process];
            must (accel_loader_create (&loaders[process], &streams[process], &options, &err), &err);
        } else
            must (accel_loader_create (&loaders[process], &set, &options, &err), &err);
        must (loader_share (loaders[process], NULL, processes, process, &err), &err);
    }
}

static void
close_loaders (struct accel_loader **loaders, struct accel_generator **generators, size_t processes)
{
    for (size_t process = 0; process < processes; process++) {
        accel_loader_destroy (loaders[process]);
        accel_generator_destroy (generators[process]);
    }
}

/* Every sample that is left comes next, in the order of the uninterrupted run, and the epoch after it is the same. */
static bool
goes_on (const struct resumed *test, size_t processes, const struct epoch *whole, const struct epoch *after,
         size_t round)
{
    struct accel_loader *loaders[8];
    struct accel_generator *generators[8];
    struct counter counters[8];
    struct accel_dataset streams[8];
    static struct epoch rest, next;
    struct accel_error err;
    open_loaders (test, processes, loaders, counters, streams, generators);
    for (size_t process = 0; process < processes; process++)
        must (accel_loader_set_state (loaders[process], &whole->states[round], &err), &err);
    must (accel_generator_set_state (accel_default_generator (), whole->generator, ACCEL_GENERATOR_STATE_BYTES, &err),
          &err);
    run_together (loaders, processes, 0, &rest);
    run_together (loaders, processes, 0, &next);
    close_loaders (loaders, generators, processes);
    size_t done = (round + 1) * test->batch_size * test->processes;
    if (processes == test->processes)
        return rest.count == (whole->count > done ? whole->count - done : 0)
               && !memcmp (rest.samples, whole->samples + done, rest.count * sizeof *rest.samples)
               && next.count == after->count
               && !memcmp (next.samples, after->samples, next.count * sizeof *next.samples);
    size_t left = test->samples > done ? test->samples - done : 0;
    size_t compared = rest.count < left ? rest.count : left;
    return (test->drop_last || compared == left)
           && !memcmp (rest.samples, whole->samples + done, compared * sizeof *rest.samples);
}

static void
test_resume (void)
{
    static const struct resumed tests[] = {
        { "sequential", 23, 3, 2, 3, false, false, false, 0 }, { "seedable", 40, 3, 3, 2, false, false, false, 0 },
        { "seedable", 40, 3, 3, 1, true, false, false, 2 },    { "seedable", 37, 4, 1, 4, false, true, false, 3 },
        { "generator", 40, 2, 1, 1, false, false, false, 0 },  { "generator", 33, 2, 3, 2, false, false, false, 2 },
        { "random", 25, 4, 1, 1, false, false, false, 0 },     { "sequential", 23, 3, 2, 3, false, false, true, 0 },
        { "sequential", 26, 2, 4, 1, false, false, true, 1 },  { "sequential", 26, 3, 1, 2, true, false, true, 0 },
        { "sequential", 23, 3, 2, 3, false, false, true, 0, true },
        { "sequential", 26, 2, 4, 1, false, false, true, 1, true },
        { "sequential", 26, 3, 1, 2, true, false, true, 2, true },
    };
    static struct epoch whole, after;
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        struct accel_loader *loaders[8];
        struct accel_generator *generators[8];
        struct counter counters[8];
        struct accel_dataset streams[8];
        bool same = true, other = true;
        set.size = tests[i].samples;
        open_loaders (&tests[i], tests[i].processes, loaders, counters, streams, generators);
        run_together (loaders, tests[i].processes, 0, &whole); /* an epoch before, so that it is not the first */
        run_together (loaders, tests[i].processes, 0, &whole);
        run_together (loaders, tests[i].processes, 0, &after);
        close_loaders (loaders, generators, tests[i].processes);
        for (size_t round = 0; round < whole.rounds; round++) {
            same = same && goes_on (&tests[i], tests[i].processes, &whole, &after, round);
            other = other && goes_on (&tests[i], tests[i].others, &whole, &after, round);
        }
        ok (same, "%s%s, %zu samples, %zu processes, %u workers: resumed after each of %zu rounds",
            tests[i].skips ? "a stream that skips, " : tests[i].stream ? "a stream, " : "", tests[i].order,
            tests[i].samples, tests[i].processes, tests[i].workers, whole.rounds);
        ok (other, "the same on %zu processes", tests[i].others);
    }
}

/* What every step of a rank leaves behind: its state, the default generator, and the sample it begins with. */
struct steps {
    struct accel_loader_state states[64];
    uint8_t generators[64][ACCEL_GENERATOR_STATE_BYTES];
    int64_t samples[64];
    size_t count;
};

/* Up to @p most steps, ends of epochs among them, as -1. */
static void
walk (struct accel_loader *loader, size_t most, struct steps *steps)
{
    struct accel_error err;
    const struct accel_batch *batch;
    for (steps->count = 0; steps->count < most; steps->count++) {
        bool more = accel_loader_next (loader, &batch, &err);
        must (err.code, &err);
        (void) accel_generator_next (accel_default_generator ()); /* as programs do */
        steps->samples[steps->count] = more ? accel_batch_indices (batch)[0] : -1;
        must (accel_loader_get_state (loader, &steps->states[steps->count], &err), &err);
        accel_generator_get_state (accel_default_generator (), steps->generators[steps->count]);
    }
}

/* Continued from its state after any step, between epochs too, a run gives the same samples, and leaves the default
 * generator in the same state after each step: nothing is drawn twice, and nothing left out. */
static void
test_draws (void)
{
    static const struct resumed tests[] = {
        { "sequential", 14, 3, 1, 0 }, { "sequential", 14, 3, 2, 0 }, { "seedable", 14, 3, 1, 0 },
        { "generator", 14, 3, 1, 0 },  { "generator", 14, 3, 2, 0 },  { "random", 14, 3, 1, 0 },
        { "random", 14, 3, 2, 0 },     { "random", 14, 3, 1, 0, .workers = 2 },
        { "sequential", 14, 3, 1, 0, .stream = true }, { "sequential", 14, 3, 2, 0, .stream = true, .skips = true },
    };
    static struct steps whole, rest;
    struct accel_error err;
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        struct accel_loader *loaders[8];
        struct accel_generator *generators[8];
        struct counter counters[8];
        struct accel_dataset streams[8];
        size_t length = 20, good = 0;
        set.size = tests[i].samples;
        open_loaders (&tests[i], tests[i].processes, loaders, counters, streams, generators);
        walk (loaders[0], length, &whole);
        close_loaders (loaders, generators, tests[i].processes);
        for (size_t at = 0; at < length - 1; at++) {
            open_loaders (&tests[i], tests[i].processes, loaders, counters, streams, generators);
            must (accel_generator_set_state (accel_default_generator (), whole.generators[at],
                                             ACCEL_GENERATOR_STATE_BYTES, &err), &err);
            must (accel_loader_set_state (loaders[0], &whole.states[at], &err), &err);
            /* After an epoch's last batch its end is still to come: from the state it is an epoch without batches. */
            walk (loaders[0], length - 1 - at, &rest);
            close_loaders (loaders, generators, tests[i].processes);
            size_t same = 0;
            while (same < rest.count && rest.samples[same] == whole.samples[at + 1 + same]
                   && !memcmp (rest.generators[same], whole.generators[at + 1 + same], sizeof rest.generators[same]))
                same++;
            good += same == rest.count;
        }
        ok (good == length - 1, "%s%s, %zu processes, %u workers: continues the same way after %zu of %zu steps",
            tests[i].stream ? "a stream, " : "", tests[i].order, tests[i].processes, tests[i].workers, good,
            length - 1);
    }
}

/* A state that was taken before anything was read, and one of the release that did not say whether it had begun. */
static void
test_draws_of_skipped (void)
{
    struct accel_error err;
    struct accel_loader *loader;
    struct accel_loader_state state;
    uint8_t generators[2][ACCEL_GENERATOR_STATE_BYTES];
    const struct accel_batch *batch;
    set.size = 20;
    for (int i = 0; i < 2; i++) {
        must (accel_loader_create (&loader, &set, &(struct accel_loader_options){ .batch_size = 4 }, &err), &err);
        must (accel_skip_first_batches (loader, 2, &err), &err);
        must (accel_loader_get_state (loader, &state, &err), &err);
        if (i)
            must (accel_loader_set_state (loader, &state, &err), &err);
        must (accel_set_seed (NULL, 3, false, &err), &err);
        ok (accel_loader_next (loader, &batch, &err) && accel_batch_indices (batch)[0] == 8, "after 2 batches");
        accel_generator_get_state (accel_default_generator (), generators[i]);
        accel_loader_destroy (loader);
    }
    ok (!memcmp (generators[0], generators[1], sizeof *generators),
        "batches that are to be skipped, from a state: the epoch begins as it would have");
}

/* Streams that can skip: what is read again is the first round at most, and only where it may fill up the last. */
static const struct {
    size_t processes, batches, end;
    bool drop_last, lies;
    int64_t skipped, reads;
    const char *order;
} skips[] = {
    { 1, 3, 20, false, false, 12, 9, "12,13,14,15|16,17,18,19" },
    { 1, 5, 20, false, false, 20, 1, "-" },
    { 1, 9, 20, false, false, 36, 1, "-" },
    { 1, 0, 8, false, false, 0, 9, "0,1,2,3|4,5,6,7" },
    { 2, 1, 18, false, false, 0, 19, "12,13,14,15|2,3,4,5" },
    { 2, 2, 18, false, false, 8, 11, "2,3,4,5" },
    { 2, 2, 22, false, false, 8, 15, "20,21,0,1" },
    { 2, 2, 26, true, false, 16, 11, "20,21,22,23" },
    { 2, 9, 5, false, false, 0, 6, "-" },   /* it ends before there is anything to skip */
    { 2, 3, 30, false, true, 22, 9, "-" }, /* past its end, whatever the stream reports */
};

static void
test_stream_skips (unsigned workers)
{
    for (size_t i = 0; i < sizeof skips / sizeof *skips; i++) {
        struct counter counter = { .end = (int64_t) skips[i].end, .lies = skips[i].lies };
        struct accel_dataset stream = { .fields = fields, .field_count = 1,
                                        .start = start_counter, .next = next_counter, .user = &counter,
                                        .skip = skip_counter };
        struct accel_loader_options options = { .batch_size = 4, .drop_last = skips[i].drop_last, .workers = workers,
                                                .dispatch_batches = ACCEL_NO };
        struct accel_loader *loader;
        struct accel_error err;
        char got[256], whole[256], again[256];
        size_t at = 0;
        must (accel_loader_create (&loader, &stream, &options, &err), &err);
        must (loader_share (loader, NULL, skips[i].processes, skips[i].processes - 1, &err), &err);
        must (accel_skip_first_batches (loader, skips[i].batches, &err), &err);
        add_epoch (loader, got, &at);
        is_text (got, skips[i].order, "a stream that skips");
        ok (counter.skipped == skips[i].skipped && counter.reads == skips[i].reads, "%zu batches of a stream of %zu: "
            "%lld skipped, %lld asked for", skips[i].batches, skips[i].end, (long long) counter.skipped,
            (long long) counter.reads);
        counter.lies = false;
        at = 0;
        add_epoch (loader, whole, &at);
        counter.fails = true;
        must (accel_skip_first_batches (loader, skips[i].batches, &err), &err);
        const struct accel_batch *batch;
        err = (struct accel_error){ 0 };
        bool more = accel_loader_next (loader, &batch, &err), tried = skips[i].skipped > 0;
        ok (more ? !tried : tried == (err.code == ACCEL_ERR_CALLBACK) && tried == !!strstr (err.text, "no way past"),
            "where it fails: %s", err.text);
        if (tried && !skips[i].lies) {
            counter.fails = false;
            at = 0;
            add_epoch (loader, again, &at);
            is_text (again, got, "the next call tries again");
        }
        accel_loader_destroy (loader);
    }
}

static void
test_skip (void)
{
    struct accel_loader *loader;
    struct accel_error err;
    char whole[256], rest[256];
    for (size_t skipped = 0; skipped < 5; skipped++) {
        size_t at = 0;
        set.size = 30;
        must (accel_loader_create (&loader, &set, &(struct accel_loader_options){ .batch_size = 4 }, &err), &err);
        must (loader_share (loader, NULL, 2, 1, &err), &err);
        add_epoch (loader, whole, &at);
        at = 0;
        must (accel_skip_first_batches (loader, skipped, &err), &err);
        add_epoch (loader, rest, &at);
        const char *tail = whole;
        for (size_t i = 0; i < skipped && tail; i++)
            tail = strchr (tail, '|') ? strchr (tail, '|') + 1 : NULL;
        is_text (rest, tail ? tail : "-", "the first batches skipped");
        at = 0;
        add_epoch (loader, rest, &at);
        is_text (rest, whole, "and the next epoch is whole");
        accel_loader_destroy (loader);
    }
}

int
main (void)
{
    test_goldens ();
    test_resume ();
    test_draws ();
    test_draws_of_skipped ();
    test_skip ();
    test_stream_skips (0);
    test_stream_skips (1);
    return done_testing ();
}
