/* SPDX-License-Identifier: Apache-2.0 */
/* Loaders with options at random, the same on all ranks: every sample comes as often as the options say. */
#include <config.h>

#include "tests/conformance/loaders.h"

#include <stdio.h>
#include <string.h>

enum { SAMPLES = 70 };

struct form {
    struct accel_loader_options options;
    size_t samples;
    bool is_stream, dispatched, leaves; /* leaves: an earlier epoch is left after its first batch */
    char name[256];
};

static unsigned
pick (struct accel_generator *generator, unsigned below)
{
    return accel_generator_next (generator) % below;
}

static void
draw_form (struct form *form, struct accel_generator *generator)
{
    *form = (struct form){ .samples = pick (generator, SAMPLES), .is_stream = !pick (generator, 3) };
    struct accel_loader_options *options = &form->options;
    options->split_batches = pick (generator, 2);
    options->batch_size = (1 + pick (generator, 7)) * (options->split_batches ? (size_t) size : 1);
    options->drop_last = pick (generator, 2);
    options->even_batches = pick (generator, 2) ? ACCEL_NO : ACCEL_DEFAULT;
    options->workers = pick (generator, 3) ? 0 : 1 + pick (generator, 3);
    options->prefetch = pick (generator, 3);
    options->dispatch_batches = (enum accel_flag) pick (generator, 3);
    options->synchronize_rng = pick (generator, 2);
    unsigned order = pick (generator, 3);
    options->shuffle = !form->is_stream && order > 0;
    options->random_sampler = !form->is_stream && order > 1;
    options->seed = form->is_stream ? 0 : pick (generator, 100);
    form->dispatched = size > 1 && options->dispatch_batches != ACCEL_NO
                       && (form->is_stream || options->dispatch_batches == ACCEL_YES);
    form->leaves = !pick (generator, 3);
    snprintf (form->name, sizeof form->name,
              "%s%s%s of %zu in %zu%s%s%s, order %u, %u workers", form->leaves ? "second " : "",
              form->dispatched ? "dispatched " : "",
              form->is_stream ? "stream" : "set", form->samples, options->batch_size,
              options->split_batches ? ", split" : "", options->drop_last ? ", drop_last" : "",
              options->even_batches ? ", uneven" : "", order, options->workers);
}

/* How many samples there are with and without repetitions, and how often the most repeated one comes at most. */
static void
expect (const struct form *form, int64_t *total, int64_t *distinct, int64_t *most)
{
    const struct accel_loader_options *options = &form->options;
    int64_t samples = (int64_t) form->samples, processes = size, front;
    int64_t round = (int64_t) options->batch_size * (options->split_batches ? 1 : processes), tail = samples % round;
    *distinct = options->drop_last ? samples - tail : samples;
    *total = *distinct;
    if (!options->drop_last && form->dispatched)
        *total = (samples + processes - 1) / processes * processes;
    else if (!options->drop_last && size > 1 && (form->is_stream || !options->even_batches) && tail)
        *total = samples - tail + round;
    front = form->dispatched ? processes : round;
    if (front > samples)
        front = samples;
    *most = 1 + (front ? (*total - *distinct + front - 1) / front : 0);
}

static void
check_steps (const struct form *form, int64_t steps)
{
    int64_t low = 0, high = 0;
    struct accel_error err;
    struct accel_comm *world = accel_world (acc);
    if (!check (!accel_comm_all_reduce (world, &steps, &low, 1, ACCEL_INT64, ACCEL_MIN, &err), "%s", err.text)
        || !check (!accel_comm_all_reduce (world, &steps, &high, 1, ACCEL_INT64, ACCEL_MAX, &err), "%s", err.text))
        return;
    bool may_differ = form->options.even_batches && !form->is_stream && !form->dispatched;
    check (high - low <= may_differ, "%s: between %lld and %lld steps", form->name, (long long) low, (long long) high);
}

static void
check_counts (const struct form *form, int64_t *counts)
{
    struct accel_error err;
    int64_t total, distinct, most, sum = 0, seen = 0, highest = 0;
    if (!check (!accel_comm_all_reduce (accel_world (acc), counts, counts, SAMPLES, ACCEL_INT64, ACCEL_SUM, &err), "%s",
                err.text))
        return;
    expect (form, &total, &distinct, &most);
    for (int i = 0; i < SAMPLES; i++) {
        sum += counts[i];
        seen += counts[i] > 0;
        highest = counts[i] > highest ? counts[i] : highest;
    }
    check (sum == total && seen == distinct && highest <= most,
           "%s: %lld samples, %lld of them different, one %lld times; wanted %lld, %lld, %lld", form->name,
           (long long) sum, (long long) seen, (long long) highest, (long long) total, (long long) distinct,
           (long long) most);
}

/* Every step gathered has each sample once. */
static void
check_metrics (struct loading *loading, const struct form *form)
{
    static int64_t samples[4 * SAMPLES];
    size_t count = 0, repeated = 0;
    unsigned seen[SAMPLES] = { 0 };
    int64_t total, distinct, most;
    expect (form, &total, &distinct, &most);
    gather_samples (loading, SIZE_MAX, samples, &count, 4 * SAMPLES);
    for (size_t i = 0; i < count; i++)
        repeated += ++seen[samples[i]] > 1;
    check ((int64_t) count == distinct && !repeated, "%s: gathered %zu samples, wanted %lld; %zu repeated", form->name,
           count, (long long) distinct, repeated);
}

static void
check_form (const struct form *form)
{
    struct loading loading;
    const struct accel_batch *batch;
    struct accel_error err = { 0 };
    int64_t counts[SAMPLES] = { 0 }, steps = 0;
    if (open_loading (&loading, form->is_stream, form->samples, &form->options)) {
        if (form->leaves && accel_loader_next (loading.loader, &batch, &err))
            accel_loader_end (loading.loader);
        for (; accel_loader_next (loading.loader, &batch, &err); steps++)
            for (size_t i = 0; i < accel_batch_size (batch); i++)
                counts[((int64_t *) accel_batch_tensor (batch, "x")->data)[i]]++;
        check (!err.code, "%s: %s", form->name, err.text);
        if (!form->is_stream)
            check (accel_loader_length (loading.loader) == (size_t) steps, "%s: %lld steps, length %zu", form->name,
                   (long long) steps, accel_loader_length (loading.loader));
        check_steps (form, steps);
        check_counts (form, counts);
        if (form->is_stream || form->dispatched || !form->options.even_batches)
            check_metrics (&loading, form);
    }
    accel_loader_destroy (loading.loader);
}

void
check_properties (uint64_t seed, int cases)
{
    struct accel_generator *generator;
    struct accel_error err;
    if (!check (!accel_generator_create (&generator, seed, &err), "generator: %s", err.text)
        || !check (!accel_set_seed (acc, seed, true, &err), "seed: %s", err.text))
        return;
    for (int i = 0; i < cases && !wrong; i++) {
        struct form form;
        draw_form (&form, generator);
        check_form (&form);
    }
    accel_generator_destroy (generator);
}
