/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of global_batch.sh: a small network is trained on its shares of global batches, with each optimizer, way of
 * clipping and schedule.  Each rank also trains it on whole batches, alone, without prepare: the same to 1e-6.  All
 * ranks have the same bits.  Rank 0 prints a fingerprint of the parameters of each training, so that runs can be
 * compared. */
#include <config.h>

#include <accel/accel.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    INPUTS = 5, HIDDEN = 7, OUTPUTS = 3, BATCH = 24, STEPS = 25, TENSORS = 4,
    ELEMENTS = HIDDEN * INPUTS + HIDDEN + OUTPUTS * HIDDEN + OUTPUTS
};

static const struct {
    const char *name;
    double max_norm, p; /* max_norm 0: none; p -1: by value */
} clips[] = { { "none", 0, 0 }, { "norm 2", 0.3, 2 }, { "norm 1", 2, 1 }, { "norm inf", 0.1, INFINITY },
              { "value", 0.05, -1 } };

static double
falling (void *user, uint64_t step)
{
    (void) user;
    return 1 / (1 + 0.125 * (double) step);
}

static const struct {
    const char *name;
    struct accel_scheduler_options options;
} schedules[] = {
    { "constant", { .schedule = ACCEL_SCHEDULE_CONSTANT, .warmup_steps = 4 } },
    { "linear", { .schedule = ACCEL_SCHEDULE_LINEAR, .warmup_steps = 3, .total_steps = STEPS } },
    { "cosine", { .schedule = ACCEL_SCHEDULE_COSINE, .total_steps = STEPS } },
    { "restarts", { .schedule = ACCEL_SCHEDULE_COSINE_RESTARTS, .total_steps = STEPS, .cycles = 2 } },
    { "step", { .schedule = ACCEL_SCHEDULE_STEP, .step_size = 5, .gamma = 0.5 } },
    { "polynomial", { .schedule = ACCEL_SCHEDULE_POLYNOMIAL, .total_steps = STEPS, .power = 2 } },
    { "one-cycle", { .schedule = ACCEL_SCHEDULE_ONE_CYCLE, .total_steps = STEPS + 1, .max_lr = 0.01 } },
    { "lambda", { .schedule = ACCEL_SCHEDULE_LAMBDA, .lambda = falling } },
};

static const char *const optimizers[] = { "sgd", "nesterov", "adam", "adamw amsgrad", "lion" };

static enum accel_status
make_optimizer (size_t kind, struct accel_optimizer **optimizer, struct accel_model *model, struct accel_error *err)
{
    struct accel_optimizer_options sgd = { .lr = 0.1, .momentum = 0.5, .dampening = 0.2, .weight_decay = 0.01 };
    struct accel_optimizer_options nesterov = { .lr = 0.05, .momentum = 0.9, .nesterov = true };
    struct accel_optimizer_options adam = { .lr = 0.01, .eps = 1e-3 };
    struct accel_optimizer_options adamw = { .lr = 0.01, .eps = 1e-3, .weight_decay = 0.1, .amsgrad = true };
    struct accel_optimizer_options lion = { .lr = 0.002, .weight_decay = 0.05 };
    switch (kind) {
    case 0:
        return accel_optimizer_create (optimizer, model, ACCEL_SGD, &sgd, err);
    case 1:
        return accel_optimizer_create (optimizer, model, ACCEL_SGD, &nesterov, err);
    case 2:
        return accel_optimizer_create (optimizer, model, ACCEL_ADAM, &adam, err);
    case 3:
        return accel_optimizer_create (optimizer, model, ACCEL_ADAMW, &adamw, err);
    default:
        return accel_optimizer_create (optimizer, model, ACCEL_LION, &lion, err);
    }
}

static struct accel *acc;
static int rank, size;

static void
must (enum accel_status status, const char *what, const struct accel_error *err)
{
    if (!status)
        return;
    fprintf (stderr, "rank %d: %s: %s\n", rank, what, err->text);
    exit (1);
}

/* Two layers, tanh between them: what the loss is of, and what trains them. */
struct network {
    DLTensor data[TENSORS], grads[TENSORS];
    float values[ELEMENTS], own[ELEMENTS]; /* own: gradients of a network that is not prepared */
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    struct accel_scheduler *scheduler;
    int step, first, end; /* the samples of this process in each global batch */
};

static void
open_network (struct network *network, size_t kind, size_t schedule, bool alone)
{
    static int64_t shapes[TENSORS][2] = { { HIDDEN, INPUTS }, { HIDDEN }, { OUTPUTS, HIDDEN }, { OUTPUTS } };
    static const char *const names[] = { "first.weight", "first.bias", "second.weight", "second.bias" };
    struct accel_scheduler_options options = schedules[schedule].options;
    struct accel_parameter parameters[TENSORS];
    struct accel_generator *generator;
    struct accel_error err;
    size_t at = 0;
    memset (network, 0, sizeof *network);
    must (accel_generator_create (&generator, 5, &err), "generator", &err);
    for (int i = 0; i < ELEMENTS; i++)
        network->values[i] = accel_generator_uniform (generator) - 0.5F + (alone ? 0 : (float) rank);
    accel_generator_destroy (generator);
    for (int i = 0; i < TENSORS; i++) {
        network->data[i] = (DLTensor){ .data = network->values + at, .device = { kDLCPU, 0 }, .ndim = i % 2 ? 1 : 2,
                                       .dtype = accel_dtype_to_dl (ACCEL_FLOAT32), .shape = shapes[i] };
        network->grads[i] = network->data[i];
        network->grads[i].data = alone ? network->own + at : NULL;
        at += accel_tensor_count (&network->data[i]);
        parameters[i] = (struct accel_parameter){ names[i], &network->data[i], &network->grads[i] };
    }
    options.split_batches = true; /* a step is a step, as alone */
    must (accel_model_create (&network->model, parameters, TENSORS, &err), "model", &err);
    must (make_optimizer (kind, &network->optimizer, network->model, &err), "optimizer", &err);
    must (accel_scheduler_create (&network->scheduler, network->optimizer, &options, &err), "scheduler", &err);
    if (!alone)
        must (accel_prepare (acc, &err, network->scheduler, network->model, network->optimizer), "prepare", &err);
    network->first = alone ? 0 : BATCH / size * rank;
    network->end = alone ? BATCH : BATCH / size * (rank + 1);
}

static void
close_network (struct network *network)
{
    accel_scheduler_destroy (network->scheduler);
    accel_optimizer_destroy (network->optimizer);
    accel_model_destroy (network->model);
}

/* Numbers between -1 and 1 that are the same everywhere. */
static float
number (int step, int sample, int index)
{
    uint32_t word = (uint32_t) (step * 4096 + sample * 64 + index) * 2654435761U;
    word ^= word >> 15;
    word *= 2246822519U;
    return (float) (word >> 8) / 8388608 - 1;
}

/* Half the mean square of the distance to the targets; gradients are added in double and rounded once. */
static enum accel_status
backward (void *user, float scale, struct accel_error *err)
{
    struct network *network = user;
    const float *w1 = network->data[0].data, *b1 = network->data[1].data;
    const float *w2 = network->data[2].data, *b2 = network->data[3].data;
    double sums[ELEMENTS] = { 0 }, *g1 = sums, *gb1 = g1 + HIDDEN * INPUTS, *g2 = gb1 + HIDDEN;
    double *gb2 = g2 + OUTPUTS * HIDDEN;
    (void) err;
    for (int sample = network->first; sample < network->end; sample++) {
        double hidden[HIDDEN], back[HIDDEN] = { 0 };
        for (int j = 0; j < HIDDEN; j++) {
            hidden[j] = (double) b1[j];
            for (int k = 0; k < INPUTS; k++)
                hidden[j] += (double) w1[j * INPUTS + k] * (double) number (network->step, sample, k);
            hidden[j] = tanh (hidden[j]);
        }
        for (int i = 0; i < OUTPUTS; i++) {
            double error = (double) b2[i] - (double) number (0, 0, i + INPUTS)
                           - (double) number (network->step, sample, i);
            for (int j = 0; j < HIDDEN; j++)
                error += (double) w2[i * HIDDEN + j] * hidden[j];
            gb2[i] += error;
            for (int j = 0; j < HIDDEN; j++) {
                g2[i * HIDDEN + j] += error * hidden[j];
                back[j] += error * (double) w2[i * HIDDEN + j];
            }
        }
        for (int j = 0; j < HIDDEN; j++) {
            double error = back[j] * (1 - hidden[j] * hidden[j]);
            gb1[j] += error;
            for (int k = 0; k < INPUTS; k++)
                g1[j * INPUTS + k] += error * (double) number (network->step, sample, k);
        }
    }
    const double *sum = sums;
    for (int i = 0; i < TENSORS; i++)
        for (size_t j = 0; j < accel_tensor_count (&network->grads[i]); j++)
            ((float *) network->grads[i].data)[j] += scale * (float) (*sum++ / (network->end - network->first));
    return ACCEL_OK;
}

static void
train (struct network *network, size_t clip, bool alone)
{
    const struct accel_clip_options options = { .norm_type = accel_exactly (clips[clip].p),
                                                .error_if_nonfinite = true };
    struct accel_error err;
    for (network->step = 0; network->step < STEPS; network->step++) {
        must (alone ? backward (network, 1, &err) : accel_backward (acc, network->model, 0, backward, network, &err),
              "backward", &err);
        if (clips[clip].p < 0)
            must (accel_clip_grad_value (network->model, clips[clip].max_norm, &err), "clip", &err);
        else if (clips[clip].max_norm > 0)
            must (accel_clip_grad_norm (network->model, clips[clip].max_norm, NULL, &options, &err), "clip", &err);
        must (accel_optimizer_step (network->optimizer, &err), "optimizer", &err);
        must (accel_scheduler_step (network->scheduler, &err), "scheduler", &err);
        must (accel_optimizer_zero_grad (network->optimizer, &err), "zero_grad", &err);
    }
}

/* The largest difference, in units of the largest parameter of its tensor. */
static double
difference (const struct network *got, const struct network *wanted)
{
    double worst = 0;
    for (int i = 0; i < TENSORS; i++) {
        const float *a = got->data[i].data, *b = wanted->data[i].data;
        double most = 0, off = 0;
        for (size_t j = 0; j < accel_tensor_count (&got->data[i]); j++) {
            most = fmax (most, fabs ((double) b[j]));
            off = fmax (off, fabs ((double) a[j] - (double) b[j]));
        }
        worst = fmax (worst, off / most);
    }
    return worst;
}

static uint64_t
fingerprint (const struct network *network)
{
    uint64_t hash = UINT64_C (0xcbf29ce484222325);
    for (int i = 0; i < ELEMENTS; i++) {
        uint32_t word;
        memcpy (&word, &network->values[i], sizeof word);
        hash = (hash ^ word) * UINT64_C (0x100000001b3);
    }
    return hash;
}

static bool
check (size_t kind, size_t clip, size_t schedule, double *worst)
{
    static struct network shared, alone;
    struct accel_error err;
    uint64_t mine, all[64];
    open_network (&shared, kind, schedule, false);
    open_network (&alone, kind, schedule, true);
    train (&shared, clip, false);
    train (&alone, clip, true);
    double off = difference (&shared, &alone);
    mine = fingerprint (&shared);
    must (accel_comm_all_gather (accel_world (acc), &mine, all, 1, ACCEL_INT64, &err), "gather", &err);
    bool good = off <= 1e-6;
    for (int i = 0; i < size; i++)
        good = good && all[i] == mine;
    close_network (&shared);
    close_network (&alone);
    if (!good)
        fprintf (stderr, "rank %d: %s, clip %s, %s: %g from one process\n", rank, optimizers[kind], clips[clip].name,
                 schedules[schedule].name, off);
    if (!rank)
        printf ("%s, clip %s, %s: %016" PRIx64 "\n", optimizers[kind], clips[clip].name, schedules[schedule].name,
                mine);
    *worst = fmax (*worst, off);
    return good;
}

int
main (void)
{
    struct accel_error err;
    double worst = 0;
    int wrong = 0;
    must (accel_open (&acc, &(struct accel_options){ .timeout_ms = 200000 }, &err), "open", &err);
    rank = accel_process_index (acc);
    size = accel_num_processes (acc);
    for (size_t kind = 0; kind < sizeof optimizers / sizeof *optimizers; kind++)
        for (size_t clip = 0; clip < sizeof clips / sizeof *clips; clip++)
            for (size_t schedule = 0; schedule < sizeof schedules / sizeof *schedules; schedule++)
                wrong += !check (kind, clip, schedule, &worst);
    if (!rank)
        printf ("# at most %g from one process\n", worst);
    accel_close (acc);
    return wrong != 0;
}
