/* SPDX-License-Identifier: Apache-2.0 */
/* Mixed precision in one process: 200 steps of scaler, clipping and optimizer against torch's, copies of few bits to
 * the bit, and what 16-bit gradients, accumulation, several models and bad arguments come to. */
#include <config.h>

#include "tests/allocators.h"
#include "tests/golden/golden.h"
#include "tests/tap.h"
#include "util/precisions.h"

#include <accel/accel.h>

#include <math.h>

enum { COUNT = 37, TENSORS = 3, STEPS = 200 };

static int64_t shapes[] = { 5, 5, 11, 0 };
static const int firsts[] = { 0, 25, 36, COUNT };

/* 37 parameters of torch's golden runs, and their gradients, in types of one's choice. */
struct net {
    struct accel *acc;
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    DLTensor data[TENSORS], grads[TENSORS];
    uint32_t values[COUNT], gradients[COUNT];
    float drawn[COUNT]; /* the next gradients, unscaled */
    float scale;        /* that backward() was given */
    const char *event;
};

static void
must (enum accel_status status, const struct accel_error *err)
{
    if (!status)
        return;
    printf ("Bail out! %s\n", err->text);
    exit (99);
}

static struct accel *
open_with (const char *precision, const struct accel_grad_scaler *scaler)
{
    struct accel *acc;
    struct accel_error err;
    struct accel_options options = { .mixed_precision = precision, .grad_scaler = scaler };
    must (accel_open (&acc, &options, &err), &err);
    return acc;
}

static void
make_net (struct net *net, const char *precision, const struct accel_grad_scaler *scaler, enum accel_dtype data,
          enum accel_dtype grad)
{
    static const int shape[] = { 0, 2, 3 }, ndim[] = { 2, 1, 0 };
    static const char *const names[] = { "a", "b", "c" };
    struct accel_parameter parameters[TENSORS];
    struct accel_error err;
    *net = (struct net){ .acc = open_with (precision, scaler), .event = "f" };
    for (int i = 0; i < TENSORS; i++) {
        size_t at = (size_t) firsts[i];
        net->data[i] = (DLTensor){ .data = (char *) net->values + at * accel_dtype_bytes (data), .ndim = ndim[i],
                                   .device = { kDLCPU, 0 }, .dtype = accel_dtype_to_dl (data),
                                   .shape = shapes + shape[i] };
        net->grads[i] = net->data[i];
        net->grads[i].data = (char *) net->gradients + at * accel_dtype_bytes (grad);
        net->grads[i].dtype = accel_dtype_to_dl (grad);
        parameters[i] = (struct accel_parameter){ names[i], &net->data[i], &net->grads[i] };
    }
    must (accel_model_create (&net->model, parameters, TENSORS, &err), &err);
}

static void
make_optimizer (struct net *net, const char *kind)
{
    struct accel_error err;
    if (!strcmp (kind, "sgd"))
        must (accel_optimizer_create (&net->optimizer, net->model, ACCEL_SGD,
                                      &(struct accel_optimizer_options){ .lr = 0.05, .momentum = 0.9 }, &err),
              &err);
    else
        must (accel_optimizer_create (&net->optimizer, net->model, ACCEL_ADAMW,
                                  &(struct accel_optimizer_options){ .lr = 0.01, .weight_decay = 0.1 }, &err), &err);
}

static void
destroy_net (struct net *net)
{
    accel_optimizer_destroy (net->optimizer);
    accel_model_destroy (net->model);
    accel_close (net->acc);
}

static enum accel_status
backward (void *user, float scale, struct accel_error *err)
{
    struct net *net = user;
    float scaled[COUNT];
    net->scale = scale;
    for (int i = 0; i < COUNT; i++)
        scaled[i] = net->drawn[i] * scale;
    if (*net->event != 'f')
        scaled[25] = *net->event == 'i' ? INFINITY : NAN;
    return accel_convert (scaled, ACCEL_FLOAT32, net->gradients, accel_dtype_from_dl (net->grads[0].dtype), COUNT, err);
}

static void
draw (struct accel_generator *generator, float *values, float factor, float offset)
{
    for (int i = 0; i < COUNT; i++)
        values[i] = accel_generator_uniform (generator) * factor + offset;
}

static struct accel_generator *
begin_net (struct net *net, uint64_t seed)
{
    struct accel_generator *generator;
    struct accel_error err;
    float first[COUNT];
    must (accel_generator_create (&generator, seed, &err), &err);
    draw (generator, first, 1, 0.5F);
    must (accel_convert (first, ACCEL_FLOAT32, net->values, accel_dtype_from_dl (net->data[0].dtype), COUNT, &err),
          &err);
    return generator;
}

/* The largest distance of the masters from torch's, in units of the last place. */
static double
distance (struct net *net, struct golden *golden)
{
    double worst = 0;
    for (int tensor = 0; tensor < TENSORS; tensor++) {
        const float *values = accel_model_master (net->model, (size_t) tensor)->data;
        for (int i = firsts[tensor]; i < firsts[tensor + 1]; i++) {
            uint32_t bits = golden_bits (golden);
            float wanted, size, got = values[i - firsts[tensor]];
            memcpy (&wanted, &bits, sizeof wanted);
            size = fabsf (wanted);
            worst = fmax (worst, fabs ((double) got - (double) wanted)
                                     / ((double) nextafterf (size, INFINITY) - (double) size));
        }
    }
    return worst;
}

static bool
scaled_step (struct net *net, double clip, struct golden *golden)
{
    struct accel_error err;
    struct accel_scaler_state state;
    bool good = net->scale == 0 || accel_scaler_get_state (net->acc, &state);
    if (clip > 0) {
        must (backward (net, accel_loss_scale (net->acc), &err), &err);
        must (accel_average_gradients (net->acc, net->model, &err), &err);
    } else
        must (accel_backward (net->acc, net->model, 1, backward, net, &err), &err);
    if (clip > 0)
        must (accel_clip_grad_norm (net->model, clip, NULL, NULL, &err), &err);
    must (accel_optimizer_step (net->optimizer, &err), &err);
    good = accel_scaler_get_state (net->acc, &state) && good;
    good = accel_optimizer_step_was_skipped (net->optimizer) == (*golden_word (golden) == 's') && good;
    uint32_t bits = golden_bits (golden);
    good = !memcmp (&bits, &state.scale, sizeof bits) && good;
    return state.growth_tracker == golden_number (golden) && good;
}

static void
test_scaled (struct golden *golden)
{
    struct net net;
    struct accel_error err;
    char kind[8], event[8];
    int wrong = 0;
    snprintf (kind, sizeof kind, "%s", golden_word (golden));
    double clip = golden_double (golden);
    struct accel_grad_scaler options = { .init_scale = golden_double (golden) };
    options.growth_factor = golden_double (golden);
    options.backoff_factor = golden_double (golden);
    options.growth_interval = (uint32_t) golden_number (golden);
    make_net (&net, "fp16", &options, ACCEL_FLOAT32, ACCEL_FLOAT32);
    struct accel_generator *generator = begin_net (&net, golden_number (golden));
    make_optimizer (&net, kind);
    must (accel_prepare (net.acc, &err, net.model, net.optimizer), &err);
    for (int step = 0; step < STEPS; step++) {
        snprintf (event, sizeof event, "%s", golden_word (golden));
        net.event = event;
        draw (generator, net.drawn, 2, -1);
        if (!scaled_step (&net, clip, golden) && !wrong++)
            diag ("step %d", step);
    }
    double worst = distance (&net, golden);
    ok (!wrong && worst <= 2, "%s, clipped to %g, scale %g times %g after %u, times %g: %d steps, %g ulp from torch's",
        kind, clip, options.init_scale, options.growth_factor, options.growth_interval, options.backoff_factor, STEPS,
        worst);
    accel_generator_destroy (generator);
    destroy_net (&net);
}

static uint64_t
checksum (const struct net *net)
{
    uint64_t total = 0, prime = UINT64_C (1099511628211);
    size_t bytes = accel_dtype_bytes (accel_dtype_from_dl (net->data[0].dtype));
    for (int tensor = 0; tensor < TENSORS; tensor++) {
        for (int i = firsts[tensor]; i < firsts[tensor + 1]; i++)
            total = total * prime + 1
                    + (bytes == 1 ? ((const uint8_t *) net->values)[i] : ((const uint16_t *) net->values)[i]);
        int exponent;
        frexpf (accel_model_scale (net->model, (size_t) tensor), &exponent);
        total = total * prime + 1 + (uint64_t) (exponent + 1000);
    }
    return total;
}

static void
test_copies (struct golden *golden)
{
    struct net net;
    struct accel_error err;
    char kind[8], name[32];
    enum accel_dtype dtype = ACCEL_FLOAT32;
    int wrong = 0;
    snprintf (kind, sizeof kind, "%s", golden_word (golden));
    snprintf (name, sizeof name, "%s", golden_word (golden));
    while (strcmp (name, accel_dtype_name (dtype)))
        dtype++;
    make_net (&net, "bf16", NULL, dtype, dtype == ACCEL_FLOAT16 ? ACCEL_FLOAT16 : ACCEL_BFLOAT16);
    struct accel_generator *generator = begin_net (&net, golden_number (golden));
    make_optimizer (&net, kind);
    must (accel_prepare (net.acc, &err, net.model, net.optimizer), &err);
    for (int step = 0; step < STEPS; step++) {
        draw (generator, net.drawn, 2, -1);
        must (accel_backward (net.acc, net.model, 1, backward, &net, &err), &err);
        must (accel_optimizer_step (net.optimizer, &err), &err);
        uint64_t wanted = strtoull (golden_word (golden), NULL, 10);
        if (checksum (&net) != wanted && !wrong++)
            diag ("step %d: the copies differ", step);
    }
    double worst = distance (&net, golden);
    ok (!wrong && worst <= 0, "%s with copies in %s: %d steps to the bit", kind, name, STEPS);
    accel_generator_destroy (generator);
    destroy_net (&net);
}

/* Two nets take the same steps, with gradients in float32 and in @dtype; @clip: by norm, by value, or 0. */
static void
test_narrow_gradients (enum accel_dtype dtype, int clip)
{
    struct net nets[2];
    struct accel_generator *generators[2];
    struct accel_error err;
    bool good = true;
    for (int i = 0; i < 2; i++) {
        make_net (&nets[i], "fp16", &(struct accel_grad_scaler){ .growth_interval = 4 }, ACCEL_FLOAT32,
                  i ? dtype : ACCEL_FLOAT32);
        generators[i] = begin_net (&nets[i], 5);
        make_optimizer (&nets[i], "sgd");
        must (accel_prepare (nets[i].acc, &err, nets[i].model, nets[i].optimizer), &err);
    }
    for (int step = 0; step < 40; step++) {
        for (int i = 0; i < 2; i++) {
            uint16_t narrow[COUNT];
            draw (generators[i], nets[i].drawn, 0x1p-13F, -0x1p-14F);
            /* What the 16 bits hold after scaling, which is by a power of two: the same for both. */
            for (int j = 0; j < COUNT; j++)
                nets[i].drawn[j] *= 0x1p13F;
            must (accel_convert (nets[i].drawn, ACCEL_FLOAT32, narrow, dtype, COUNT, &err), &err);
            must (accel_convert (narrow, dtype, nets[i].drawn, ACCEL_FLOAT32, COUNT, &err), &err);
            for (int j = 0; j < COUNT; j++)
                nets[i].drawn[j] *= 0x1p-13F;
            nets[i].event = step % 7 == 3 ? "i" : step % 11 == 5 ? "n" : "f";
            must (accel_backward (nets[i].acc, nets[i].model, 1, backward, &nets[i], &err), &err);
            if (clip == 1)
                must (accel_clip_grad_norm (nets[i].model, 0.00015, NULL, NULL, &err), &err);
            else if (clip == 2)
                must (accel_clip_grad_value (nets[i].model, 0x1p-15, &err), &err);
            must (accel_optimizer_step (nets[i].optimizer, &err), &err);
        }
        good = good && !memcmp (nets[0].values, nets[1].values, sizeof nets[0].values)
               && accel_optimizer_step_was_skipped (nets[0].optimizer)
                      == accel_optimizer_step_was_skipped (nets[1].optimizer);
    }
    ok (good, "scaled gradients in %s, %s", accel_dtype_name (dtype),
        clip == 0 ? "not clipped" : clip == 1 ? "clipped by norm" : "clipped by value");
    for (int i = 0; i < 2; i++) {
        accel_generator_destroy (generators[i]);
        destroy_net (&nets[i]);
    }
}

static void
test_accumulating (void)
{
    struct net net;
    struct accel_error err;
    struct accel_scaler_state state;
    float first[COUNT], gradient, norm;
    make_net (&net, "fp16", NULL, ACCEL_FLOAT32, ACCEL_FLOAT32);
    accel_generator_destroy (begin_net (&net, 1));
    memcpy (first, net.values, sizeof first);
    make_optimizer (&net, "sgd");
    must (accel_prepare (net.acc, &err, net.model, net.optimizer), &err);
    for (int i = 0; i < COUNT; i++)
        net.drawn[i] = 1;
    accel_set_sync_gradients (net.acc, false);
    must (accel_backward (net.acc, net.model, 1, backward, &net, &err), &err);
    must (accel_unscale_gradients (net.acc, NULL, &err), &err);
    must (accel_clip_grad_norm (net.model, 1, &norm, &(struct accel_clip_options){ .norm_type = INFINITY },
                                &err), &err);
    must (accel_clip_grad_value (net.model, 1, &err), &err);
    must (accel_optimizer_step (net.optimizer, &err), &err);
    memcpy (&gradient, net.gradients, sizeof gradient);
    ok (norm == 1 && gradient == 65536, "while accumulating gradients stay scaled; their norm is returned");
    ok (!memcmp (first, net.values, sizeof first) && accel_scaler_get_state (net.acc, &state) && !state.growth_tracker,
        "no step, and none is counted");
    accel_set_sync_gradients (net.acc, true);
    must (accel_unscale_gradients (net.acc, net.optimizer, &err), &err);
    memcpy (&gradient, net.gradients, sizeof gradient);
    ok (gradient == 1, "unscaled");
    ok (accel_unscale_gradients (net.acc, NULL, &err) == ACCEL_ERR_INVALID && strstr (err.text, "already"), "twice: %s",
        err.text);
    must (accel_clip_grad_value (net.model, 0.5, &err), &err);
    memcpy (&gradient, net.gradients, sizeof gradient);
    ok (gradient == 0.5F, "clipping does not unscale again");
    must (accel_optimizer_step (net.optimizer, &err), &err);
    ok (accel_scaler_get_state (net.acc, &state) && state.growth_tracker == 1 && state.scale == 65536, "one good step");
    destroy_net (&net);
}

/* The scale changes with the first's step; the second's gradients have the old one. */
static void
test_two_models (void)
{
    struct net net, other;
    struct accel_error err;
    struct accel_scaler_state state;
    float gradient;
    make_net (&net, "fp16", NULL, ACCEL_FLOAT32, ACCEL_FLOAT32);
    make_net (&other, "fp16", NULL, ACCEL_FLOAT32, ACCEL_FLOAT32);
    accel_close (other.acc);
    other.acc = NULL;
    make_optimizer (&net, "sgd");
    make_optimizer (&other, "sgd");
    must (accel_prepare (net.acc, &err, net.model, net.optimizer, other.model, other.optimizer), &err);
    net.event = "i";
    other.drawn[0] = 1;
    must (accel_backward (net.acc, net.model, 1, backward, &net, &err), &err);
    must (accel_backward (net.acc, other.model, 1, backward, &other, &err), &err);
    must (accel_optimizer_step (net.optimizer, &err), &err);
    must (accel_optimizer_step (other.optimizer, &err), &err);
    memcpy (&gradient, other.gradients, sizeof gradient);
    ok (accel_optimizer_step_was_skipped (net.optimizer) && !accel_optimizer_step_was_skipped (other.optimizer)
            && gradient == 1,
        "one of two optimizers is skipped; the other's gradients have the scale of their loss");
    ok (accel_scaler_get_state (net.acc, &state) && state.scale == 32768 && state.growth_tracker == 1,
        "each step changes the scale");
    accel_optimizer_destroy (other.optimizer);
    accel_model_destroy (other.model);
    destroy_net (&net);
}

static void
test_masters (void)
{
    struct net net;
    struct accel_error err;
    float back[COUNT], values[COUNT];
    make_net (&net, NULL, NULL, ACCEL_FLOAT8_E4M3FN, ACCEL_FLOAT32);
    memset (net.values, 0, sizeof net.values);
    DLTensor *master = accel_model_master (net.model, 0);
    ok (master && accel_dtype_from_dl (master->dtype) == ACCEL_FLOAT32 && *(float *) master->data == 0
            && accel_model_scale (net.model, 0) == 1,
        "masters are made with the model");
    for (int i = 0; i < 25; i++)
        values[i] = ((float *) master->data)[i] = (float) (i - 12) * 0x1.1p-20F;
    accel_model_narrow (net.model);
    must (accel_convert (net.values, ACCEL_FLOAT8_E4M3FN, back, ACCEL_FLOAT32, 25, &err), &err);
    float scale = accel_model_scale (net.model, 0), worst = 0;
    for (int i = 0; i < 25; i++)
        worst = fmaxf (worst, fabsf (back[i] * scale - values[i]));
    ok (scale < 1 && fabsf (back[24]) > 224 && worst <= 12 * 0x1.1p-20F / 16, "8 bits: the largest just fits, scale %a",
        (double) scale);
    float before = accel_model_scale (net.model, 0);
    accel_model_widen (net.model);
    memcpy (values, master->data, 25 * sizeof *values);
    accel_model_narrow (net.model);
    accel_model_widen (net.model);
    ok (!memcmp (values, master->data, 25 * sizeof *values) && before == accel_model_scale (net.model, 0),
        "there and back loses nothing more");
    ((float *) master->data)[3] = NAN;
    accel_model_narrow (net.model);
    ok (accel_model_scale (net.model, 0) == 1 && (((uint8_t *) net.values)[3] & 0x7f) == 0x7f, "NaN: scale 1");
    for (int i = 0; i < 25; i++)
        ((float *) master->data)[i] = i == 3 ? 0x1p-135F : 0;
    accel_model_narrow (net.model);
    ok (accel_model_scale (net.model, 0) == 0x1p-126F && ((uint8_t *) net.values)[3], "the smallest scale");
    memset (master->data, 0, 25 * sizeof (float));
    accel_model_narrow (net.model);
    ok (accel_model_scale (net.model, 0) == 1 && !((uint8_t *) net.values)[3], "zeros: scale 1");
    ok (!accel_model_master (net.model, TENSORS) && accel_model_scale (net.model, TENSORS) == 1, "no such parameter");
    destroy_net (&net);
}

static enum accel_status
note_scale (void *user, const struct accel_update *update, struct accel_error *err)
{
    (void) err;
    *(float *) user = update->grad_scale;
    return ACCEL_OK;
}

/* Optimizers of the program's own learn what unscaling and clipping have left to do. */
static void
test_own_optimizer (void)
{
    for (int narrow = 0; narrow < 2; narrow++) {
        struct net net;
        struct accel_error err;
        float scale = 0;
        make_net (&net, "fp16", NULL, ACCEL_FLOAT32, narrow ? ACCEL_FLOAT16 : ACCEL_FLOAT32);
        accel_generator_destroy (begin_net (&net, 3));
        struct accel_custom_optimizer options = { .lr = 1, .init = note_scale, .step = note_scale, .user = &scale };
        must (accel_optimizer_create_custom (&net.optimizer, net.model, &options, &err), &err);
        ok (scale == 1, "in the beginning nothing");
        must (accel_prepare (net.acc, &err, net.model, net.optimizer), &err);
        net.drawn[30] = 0x1p-4F;
        must (accel_backward (net.acc, net.model, 1, backward, &net, &err), &err);
        must (accel_clip_grad_norm (net.model, 0x1p-6, NULL, NULL, &err), &err);
        must (accel_optimizer_step (net.optimizer, &err), &err);
        float wanted = narrow ? 0x1p-18F : 1;
        ok (fabsf (scale / wanted - 1) < 1e-4F, "%d bits: gradients times %a", narrow ? 16 : 32, (double) scale);
        destroy_net (&net);
    }
}

/* Under fp16, then by itself: what was to be done to earlier gradients is not done to later ones. */
static void
test_left_behind (void)
{
    struct net net;
    struct accel_error err;
    float first[COUNT], ones[COUNT], now[COUNT];
    for (int steps = 0; steps < 2; steps++) {
        make_net (&net, "fp16", NULL, ACCEL_FLOAT32, ACCEL_FLOAT16);
        accel_generator_destroy (begin_net (&net, 3));
        make_optimizer (&net, "adamw");
        must (accel_prepare (net.acc, &err, net.model, net.optimizer), &err);
        must (accel_backward (net.acc, net.model, 1, backward, &net, &err), &err);
        must (accel_clip_grad_norm (net.model, 1, NULL, NULL, &err), &err);
        must (accel_unwrap_model (net.acc, net.model, &err), &err);
        if (steps)
            must (accel_optimizer_step (net.optimizer, &err), &err);
        must (accel_optimizer_zero_grad (net.optimizer, &err), &err);
        memcpy (first, net.values, sizeof first);
        for (int i = 0; i < COUNT; i++)
            ones[i] = 1;
        must (accel_convert (ones, ACCEL_FLOAT32, net.gradients, ACCEL_FLOAT16, COUNT, &err), &err);
        must (accel_optimizer_step (net.optimizer, &err), &err);
        memcpy (now, net.values, sizeof now);
        const float *square = accel_optimizer_state_tensor (net.optimizer, 0, "exp_avg_sq")->data;
        ok (fabsf (*square - 0.001F) < 1e-6F && now[0] < first[0], "by itself: gradients are not scaled, %g",
            (double) *square);
        destroy_net (&net);
    }
    make_net (&net, "fp16", NULL, ACCEL_FLOAT32, ACCEL_FLOAT32);
    accel_generator_destroy (begin_net (&net, 3));
    make_optimizer (&net, "adamw");
    must (accel_prepare (net.acc, &err, net.model, net.optimizer), &err);
    net.event = "i";
    must (accel_backward (net.acc, net.model, 1, backward, &net, &err), &err);
    must (accel_optimizer_step (net.optimizer, &err), &err);
    ok (accel_optimizer_step_was_skipped (net.optimizer), "skipped");
    must (accel_free_memory (net.acc, &err), &err);
    must (accel_optimizer_zero_grad (net.optimizer, &err), &err);
    must (accel_optimizer_step (net.optimizer, &err), &err);
    ok (!accel_optimizer_step_was_skipped (net.optimizer), "by itself: a step is a step");
    destroy_net (&net);
}

/* Gradients that a program has scaled itself, with accel_loss_scale(), after a step that was skipped: they are divided
 * by the scale of now, not by that of the last backward pass. */
static void
test_scaled_by_hand (void)
{
    struct net net;
    struct accel_error err;
    make_net (&net, "fp16", NULL, ACCEL_FLOAT32, ACCEL_FLOAT32);
    accel_generator_destroy (begin_net (&net, 3));
    make_optimizer (&net, "sgd");
    must (accel_prepare (net.acc, &err, net.model, net.optimizer), &err);
    net.event = "i";
    must (accel_backward (net.acc, net.model, 1, backward, &net, &err), &err);
    must (accel_optimizer_step (net.optimizer, &err), &err);
    float *values = net.data[0].data, *grads = net.grads[0].data, before = values[0];
    float scale = accel_loss_scale (net.acc);
    for (int i = 0; i < COUNT; i++)
        ((float *) (void *) net.gradients)[i] = scale;
    must (accel_optimizer_step (net.optimizer, &err), &err);
    ok (scale < net.scale && *grads == 1 && fabsf (before - values[0] - 0.05F) < 1e-6F,
        "gradients scaled by hand are unscaled by the scale of now, %g", (double) *grads);
    destroy_net (&net);
}

/* Enough elements for several threads, in memory of the library. */
static void
test_threads (void)
{
    enum { MANY = (1 << 19) + 77 };
    static uint16_t results[2][MANY];
    static float gradients[MANY];
    static int64_t shape[] = { MANY };
    for (int i = 0; i < MANY; i++)
        gradients[i] = (float) (i % 1000 - 500) / 1000;
    for (unsigned threads = 1; threads <= 2; threads++) {
        struct accel_model *model;
        struct accel_optimizer *optimizer;
        struct accel_error err;
        DLTensor data = { .device = { kDLCPU, 0 }, .ndim = 1, .dtype = accel_dtype_to_dl (ACCEL_BFLOAT16),
                          .shape = shape };
        DLTensor grad = data;
        grad.data = gradients;
        grad.dtype = accel_dtype_to_dl (ACCEL_FLOAT32);
        must (accel_model_create (&model, &(struct accel_parameter){ "w", &data, &grad }, 1, &err), &err);
        must (accel_optimizer_create (&optimizer, model, ACCEL_ADAMW,
                                      &(struct accel_optimizer_options){ .threads = threads }, &err), &err);
        for (int step = 0; step < 3; step++)
            must (accel_optimizer_step (optimizer, &err), &err);
        memcpy (results[threads - 1], data.data, sizeof results[0]);
        accel_optimizer_destroy (optimizer);
        accel_model_destroy (model);
    }
    ok (results[0][0] && !memcmp (results[0], results[1], sizeof results[0]), "two threads give the copies of one");
}

static void
refused (enum accel_status status, const char *word, const struct accel_error *err)
{
    ok (status && err->code == status && strstr (err->text, word), "refused: %s", err->text);
}

static void
test_arguments (void)
{
    static const struct accel_grad_scaler bad[] = { { .init_scale = -1 }, { .growth_factor = 0.5 },
                                                    { .backoff_factor = 2 }, { .backoff_factor = NAN } };
    struct accel_error err;
    struct accel *acc;
    struct accel_scaler_state state, good;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct accel_options options = { .mixed_precision = "fp16", .grad_scaler = &bad[i] };
        refused (accel_open (&acc, &options, &err), "_", &err);
    }
    refused (accel_open (&acc, &(struct accel_options){ .mixed_precision = "fp32" }, &err), "fp32", &err);
    struct net net;
    make_net (&net, "fp16", NULL, ACCEL_FLOAT32, ACCEL_FLOAT32);
    make_optimizer (&net, "sgd");
    ok (accel_scaler_get_state (net.acc, &good) && good.scale == 65536 && good.growth_factor == 2, "torch's defaults");
    state = good, state.scale = 0;
    refused (accel_scaler_set_state (net.acc, &state, &err), "the scale is", &err);
    state = good, state.growth_tracker = 2000;
    refused (accel_scaler_set_state (net.acc, &state, &err), "growth_tracker", &err);
    refused (accel_scaler_set_state (net.acc, NULL, &err), "state is NULL", &err);
    refused (accel_scaler_set_state (NULL, &state, &err), "acc is NULL", &err);
    refused (accel_unscale_gradients (NULL, NULL, &err), "acc is NULL", &err);
    refused (accel_unscale_gradients (net.acc, net.optimizer, &err), "not prepared", &err);
    state = good, state.scale = 8, state.growth_tracker = 1999;
    ok (!accel_scaler_set_state (net.acc, &state, &err) && !accel_unscale_gradients (net.acc, NULL, &err), "a state");
    ok (accel_scaler_get_state (net.acc, &good) && good.scale == 8 && good.growth_tracker == 1999,
        "which is read again");
    refused (accel_convert (NULL, ACCEL_FLOAT32, &state, ACCEL_FLOAT16, 1, &err), "from is NULL", &err);
    refused (accel_convert (&state, ACCEL_FLOAT32, NULL, ACCEL_FLOAT16, 1, &err), "to is NULL", &err);
    refused (accel_convert (&state, ACCEL_FLOAT64, &good, ACCEL_FLOAT16, 1, &err), "float64", &err);
    refused (accel_convert (&state, ACCEL_FLOAT16, &good, ACCEL_DTYPE_COUNT, 1, &err), "?", &err);
    ok (!accel_convert (NULL, ACCEL_FLOAT16, NULL, ACCEL_FLOAT8_E5M2, 0, &err), "nothing is converted");
    destroy_net (&net);
    acc = open_with ("fp16", &(struct accel_grad_scaler){ .enabled = ACCEL_NO });
    ok (!accel_scaler_get_state (acc, &state), "a disabled scaler has no state");
    refused (accel_scaler_set_state (acc, &good, &err), "disabled", &err);
    accel_close (acc);
}

static void
test_autocast (void)
{
    static const struct {
        const char *precision;
        enum accel_dtype dtype;
    } cases[] = { { NULL, ACCEL_FLOAT32 }, { "no", ACCEL_FLOAT32 }, { "fp16", ACCEL_FLOAT16 },
                  { "bf16", ACCEL_BFLOAT16 }, { "fp8", ACCEL_BFLOAT16 } };
#define X(...) +1
    ok (sizeof cases / sizeof *cases == 1 PRECISION_MAP (X), "a case for every mode");
#undef X
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct accel *acc = open_with (cases[i].precision, NULL);
        enum accel_dtype dtype = accel_autocast (acc);
        bool outer = accel_autocast_enable (acc, false), inner = accel_autocast_enable (acc, false);
        enum accel_dtype within = accel_autocast (acc);
        accel_autocast_enable (acc, inner);
        enum accel_dtype still = accel_autocast (acc);
        accel_autocast_enable (acc, outer);
        ok (dtype == cases[i].dtype && outer && !inner && within == ACCEL_FLOAT32 && still == ACCEL_FLOAT32
                && accel_autocast (acc) == dtype,
            "autocast under %s: %s", cases[i].precision ? cases[i].precision : "nothing", accel_dtype_name (dtype));
        accel_close (acc);
    }
    ok (accel_autocast (NULL) == ACCEL_FLOAT32 && accel_autocast_enable (NULL, false), "without a job");
    setenv ("ACCELERATE_MIXED_PRECISION", "fp16", 1);
    struct accel *acc = open_with ("bf16", NULL), *by_variable = open_with (NULL, NULL);
    ok (accel_autocast (acc) == ACCEL_BFLOAT16 && accel_autocast (by_variable) == ACCEL_FLOAT16,
        "the option comes before the variable");
    accel_close (acc);
    accel_close (by_variable);
    unsetenv ("ACCELERATE_MIXED_PRECISION");
}

/* All conversions by way of float32 are those of half.h, for more than a block. */
static void
test_convert (void)
{
    enum { MANY = 2500 };
    static const enum accel_dtype dtypes[]
        = { ACCEL_FLOAT32, ACCEL_FLOAT16, ACCEL_BFLOAT16, ACCEL_FLOAT8_E4M3FN, ACCEL_FLOAT8_E5M2 };
    static float values[MANY], back[MANY];
    static uint32_t from[MANY], to[MANY];
    struct accel_error err;
    bool good = true;
    for (int i = 0; i < MANY; i++)
        values[i] = (float) (i % 15 - 7) / 4; /* all types hold these */
    for (int i = 0; i < 25; i++) {
        must (accel_convert (values, ACCEL_FLOAT32, from, dtypes[i / 5], MANY, &err), &err);
        must (accel_convert (from, dtypes[i / 5], to, dtypes[i % 5], MANY, &err), &err);
        must (accel_convert (to, dtypes[i % 5], back, ACCEL_FLOAT32, MANY, &err), &err);
        good = good && !memcmp (values, back, sizeof values);
    }
    ok (good, "conversions between all types");
}

static void
test_no_memory (void)
{
    struct net net;
    struct accel_error err;
    make_net (&net, "fp16", NULL, ACCEL_FLOAT16, ACCEL_BFLOAT16);
    struct accel_parameter parameters[TENSORS];
    for (int i = 0; i < TENSORS; i++)
        parameters[i] = *accel_model_parameter (net.model, (size_t) i);
    bool good = true, reached = true;
    long failed = 0;
    for (; good && reached; failed++) {
        struct accel_model *model = NULL;
        calls_left = failed;
        enum accel_status status = accel_model_create (&model, parameters, TENSORS, &err);
        reached = calls_left < 0;
        calls_left = -1;
        good = reached ? status == ACCEL_ERR_NOMEM && !model : !status;
        accel_model_destroy (model);
    }
    ok (good && failed > 8, "each of %ld allocations of a model with masters fails once", failed - 1);
    destroy_net (&net);
}

/* A model that could not be prepared for want of memory is as before, and can be prepared when there is some. */
static void
test_prepare_again (void)
{
    struct accel_error err;
    bool good = true, reached = true;
    long failed = 0;
    for (; good && reached; failed++) {
        struct net net;
        make_net (&net, "fp16", NULL, ACCEL_FLOAT16, ACCEL_FLOAT16);
        accel_generator_destroy (begin_net (&net, 3));
        calls_left = failed;
        enum accel_status status = accel_prepare (net.acc, &err, net.model);
        reached = calls_left < 0;
        calls_left = -1;
        good = reached ? status == ACCEL_ERR_NOMEM && !accel_prepare (net.acc, &err, net.model) : !status;
        good = good && !accel_backward (net.acc, net.model, 1, backward, &net, &err);
        destroy_net (&net);
    }
    ok (good && failed > 8, "each of %ld allocations of accel_prepare fails once, and then it succeeds", failed - 1);
}

int
main (void)
{
    struct golden golden;
    unsetenv ("ACCELERATE_MIXED_PRECISION");
    golden_find (&golden, "precision.txt");
    while (golden_next (&golden))
        if (!strcmp (golden_word (&golden), "scaler"))
            test_scaled (&golden);
        else
            test_copies (&golden);
    for (int clip = 0; clip < 3; clip++) {
        test_narrow_gradients (ACCEL_FLOAT16, clip);
        test_narrow_gradients (ACCEL_BFLOAT16, clip);
    }
    test_accumulating ();
    test_two_models ();
    test_own_optimizer ();
    test_left_behind ();
    test_scaled_by_hand ();
    test_masters ();
    test_threads ();
    test_arguments ();
    test_autocast ();
    test_convert ();
    test_no_memory ();
    test_prepare_again ();
    return done_testing ();
}
