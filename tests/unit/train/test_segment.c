/* SPDX-License-Identifier: Apache-2.0 */
/* Activation checkpointing: a net with dropout has the bits that it has without, and pages for one segment only. */
#include <config.h>

#include "tests/tap.h"

#include <accel/segment.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LAYERS = 4, SIZE = 1 << 16, BYTES = SIZE * sizeof (float), STEPS = 3, SEED = 7, MORE = 3 };

/* y = mask * (weight * x + x); the activations are the mask and mask * x. */
struct layer {
    struct accel_generator *generator;
    const float *input;
    float *output;  /* [SIZE] */
    float *mask, *product; /* [SIZE], one after the other in memory of whole pages */
    float weight, grad;
    int calls;
    int fails_at; /* call; 0: none */
    struct accel_segment *inner;
};

static struct accel_error err;

static void *
make_pages (size_t bytes)
{
    void *pages = mmap (NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        exit (99);
    (void) madvise (pages, bytes, MADV_NOHUGEPAGE);
    return pages;
}

static size_t
resident (void *memory, size_t bytes)
{
    size_t page = (size_t) sysconf (_SC_PAGESIZE), pages = bytes / page, count = 0;
    unsigned char *marks = calloc (pages + 1, 1);
    if (!marks || mincore (memory, bytes, marks))
        exit (99);
    for (size_t i = 0; i < pages; i++)
        count += marks[i] & 1;
    free (marks);
    return count * page;
}

static enum accel_status
forward (void *user, struct accel_error *why)
{
    struct layer *layer = user;
    if (++layer->calls == layer->fails_at) {
        accel_generator_next (layer->generator);
        (void) snprintf (why->text, sizeof why->text, "layer out of order");
        return ACCEL_ERR_SYSTEM;
    }
    if (layer->inner && accel_segment_forward (layer->inner, why))
        return ACCEL_ERR_INVALID;
    for (int i = 0; i < SIZE; i++) {
        layer->mask[i] = accel_generator_uniform (layer->generator) < 0.25F ? 0 : 1 / 0.75F;
        layer->product[i] = layer->mask[i] * layer->input[i];
        layer->output[i] = layer->weight * layer->product[i] + layer->product[i];
    }
    return ACCEL_OK;
}

/* @grad, [SIZE]: of the output, and then of the input. */
static void
backward (struct layer *layer, float *grad)
{
    for (int i = 0; i < SIZE; i++) {
        layer->grad += grad[i] * layer->product[i];
        grad[i] *= layer->mask[i] * (layer->weight + 1);
    }
}

struct net {
    struct layer layers[LAYERS];
    struct accel_segment *segments[LAYERS]; /* NULL: without */
    float *memory;
};

static void
make (struct net *net, struct accel_generator *generator, bool has_segments)
{
    *net = (struct net){ .memory = calloc (LAYERS + 1, BYTES) };
    if (!net->memory)
        exit (99);
    for (int i = 0; i < SIZE; i++)
        net->memory[i] = (float) (i % 32) / 32;
    for (int i = 0; i < LAYERS; i++) {
        struct layer *layer = &net->layers[i];
        *layer = (struct layer){ .generator = generator, .input = net->memory + (size_t) i * SIZE, .weight = 0.5F,
                                 .output = net->memory + (size_t) (i + 1) * SIZE, .mask = make_pages (2 * BYTES) };
        layer->product = layer->mask + SIZE;
        const struct accel_segment_options options
            = { .forward = forward, .user = layer,
                .generator = generator == accel_default_generator () ? NULL : generator,
                .activations = layer->mask, .activation_bytes = 2 * BYTES };
        if (has_segments && accel_segment_create (&net->segments[i], &options, &err))
            exit (99);
    }
}

static void
end (struct net *net)
{
    for (int i = 0; i < LAYERS; i++) {
        accel_segment_destroy (net->segments[i]);
        munmap (net->layers[i].mask, 2 * BYTES);
    }
    free (net->memory);
}

static size_t
all_pages (const struct net *net)
{
    size_t bytes = 0;
    for (int i = 0; i < LAYERS; i++)
        bytes += resident (net->layers[i].mask, 2 * BYTES);
    return bytes;
}

/* @return whether all calls succeed, and pages are there only for one layer */
static bool
train (struct net *net)
{
    static float grad[SIZE];
    bool good = true, has_segments = net->segments[0];
    for (int i = 0; i < LAYERS && good; i++)
        good = !(has_segments ? accel_segment_forward (net->segments[i], &err) : forward (&net->layers[i], &err));
    good = good && (!has_segments || !all_pages (net));
    for (int i = 0; i < SIZE; i++)
        grad[i] = net->layers[LAYERS - 1].output[i] / SIZE;
    for (int i = LAYERS; i-- > 0 && good;) {
        good = !has_segments || !accel_segment_recompute (net->segments[i], &err);
        good = good && all_pages (net) == (has_segments ? 1 : LAYERS) * 2 * (size_t) BYTES;
        backward (&net->layers[i], grad);
        accel_segment_end (net->segments[i]);
    }
    for (int i = 0; i < LAYERS; i++)
        net->layers[i].weight -= 0.1F * net->layers[i].grad;
    return good && (!has_segments || !all_pages (net));
}

/* The same steps with segments and without, and what is drawn after them. */
static void
compare (struct accel_generator *generator, const char *name)
{
    struct net plain, checkpointed;
    uint32_t next[2];
    bool good = true, same = true;
    make (&plain, generator, false);
    make (&checkpointed, generator, true);
    accel_generator_seed (generator, SEED);
    for (int i = 0; i < STEPS; i++)
        good &= train (&plain);
    next[0] = accel_generator_next (generator);
    accel_generator_seed (generator, SEED);
    for (int i = 0; i < STEPS; i++)
        good &= train (&checkpointed);
    next[1] = accel_generator_next (generator);
    for (int i = 0; i < LAYERS; i++)
        same &= !memcmp (&plain.layers[i].weight, &checkpointed.layers[i].weight, sizeof (float))
                && checkpointed.layers[i].calls == 2 * STEPS && plain.layers[i].weight != 0.5F;
    ok (good, "%s: pages of one segment at a time", name);
    ok (same && next[0] == next[1], "%s: the bits of training without segments", name);
    end (&plain);
    end (&checkpointed);
}

static bool
is_error (enum accel_status status, enum accel_status wanted, const char *text)
{
    bool good = status == wanted && strstr (err.text, text);
    if (!good)
        diag ("status %d: %s", (int) status, err.text);
    return good;
}

/* Without the state, other numbers are drawn. */
static void
test_without_state (struct accel_generator *generator)
{
    struct net net;
    struct accel_segment *segment;
    make (&net, generator, false);
    const struct accel_segment_options options
        = { .forward = forward, .user = net.layers, .generator = generator, .preserve_rng_state = ACCEL_NO };
    static float before[SIZE];
    ok (!accel_segment_create (&segment, &options, &err) && !accel_segment_forward (segment, &err), "without state");
    memcpy (before, net.layers->mask, BYTES);
    ok (!accel_segment_recompute (segment, &err) && memcmp (before, net.layers->mask, BYTES),
        "without state: the program's memory stays, with other numbers");
    accel_segment_destroy (segment);
    end (&net);
}

static void
test_errors (struct accel_generator *generator)
{
    struct accel_segment_options options = { .activation_bytes = 1 };
    struct accel_segment *segment;
    struct net net;
    uint8_t before[ACCEL_GENERATOR_STATE_BYTES], after[sizeof before];
    ok (is_error (accel_segment_create (&segment, &options, &err), ACCEL_ERR_INVALID, "forward is NULL")
            && is_error (accel_segment_create (&segment, NULL, &err), ACCEL_ERR_INVALID, "options is NULL")
            && is_error (accel_segment_create (NULL, &options, &err), ACCEL_ERR_INVALID, "segment is NULL"),
        "what is required");
    options.forward = forward;
    ok (is_error (accel_segment_create (&segment, &options, &err), ACCEL_ERR_INVALID, "activations is NULL"),
        "bytes without memory");
    options = (struct accel_segment_options){ .forward = forward, .preserve_rng_state = (enum accel_flag) 9 };
    ok (is_error (accel_segment_create (&segment, &options, &err), ACCEL_ERR_INVALID, "preserve_rng_state"), "a flag");
    ok (is_error (accel_segment_forward (NULL, &err), ACCEL_ERR_INVALID, "segment is NULL")
            && is_error (accel_segment_recompute (NULL, &err), ACCEL_ERR_INVALID, "segment is NULL"), "no segment");
    accel_segment_end (NULL);
    accel_segment_destroy (NULL);
    make (&net, generator, true);
    ok (is_error (accel_segment_recompute (net.segments[0], &err), ACCEL_ERR_INVALID, "accel_segment_forward"),
        "nothing to compute again");
    net.layers[0].fails_at = 2;
    ok (!accel_segment_forward (net.segments[0], &err), "forward");
    accel_generator_get_state (generator, before);
    ok (is_error (accel_segment_recompute (net.segments[0], &err), ACCEL_ERR_CALLBACK,
                  "accel_segment_recompute: layer out of order"), "a failure has the program's words");
    accel_generator_get_state (generator, after);
    ok (!memcmp (before, after, sizeof before), "and the generator is where it was");
    net.layers[0].fails_at = 3;
    ok (is_error (accel_segment_forward (net.segments[0], &err), ACCEL_ERR_CALLBACK, "accel_segment_forward: layer out")
            && is_error (accel_segment_recompute (net.segments[0], &err), ACCEL_ERR_INVALID, "accel_segment_forward"),
        "after a failure, nothing can be computed again");
    end (&net);
}

/* Layer 0 is a segment in that of layer 1. */
static void
test_nested (struct accel_generator *generator)
{
    static float before[2][SIZE];
    struct net net;
    make (&net, generator, true);
    net.layers[1].inner = net.segments[0];
    ok (!accel_segment_forward (net.segments[1], &err), "a segment in a segment");
    memcpy (before[0], net.layers[0].output, BYTES);
    memcpy (before[1], net.layers[1].output, BYTES);
    for (int i = 0; i < MORE; i++)
        (void) accel_generator_next (generator);
    ok (!accel_segment_recompute (net.segments[1], &err) && !accel_segment_recompute (net.segments[0], &err)
            && !memcmp (before[0], net.layers[0].output, BYTES) && !memcmp (before[1], net.layers[1].output, BYTES),
        "both compute the same again");
    ok (net.layers[0].calls == 3 && net.layers[1].calls == 2, "as often as needed");
    end (&net);
}

int
main (void)
{
    struct accel_generator *own;
    uint32_t next;
    if (accel_generator_create (&own, SEED, &err))
        return 99;
    compare (accel_default_generator (), "the default generator");
    accel_generator_seed (accel_default_generator (), SEED);
    next = accel_generator_next (accel_default_generator ());
    accel_generator_seed (accel_default_generator (), SEED);
    compare (own, "a generator of the program's");
    ok (accel_generator_next (accel_default_generator ()) == next, "the default one is left alone");
    test_without_state (own);
    test_errors (own);
    test_nested (own);
    accel_generator_destroy (own);
    return done_testing ();
}
