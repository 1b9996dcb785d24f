/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of precision.sh: `precision CHECK TYPE...`; says on standard error what is wrong and exits with 1. */
#include <config.h>

#include "tests/conformance/check.h"

#include <accel/accel.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WEIGHTS = 1500, BIAS = 7, COUNT = WEIGHTS + BIAS, SAMPLES = 12, STEPS = 20 };

static void
must (enum accel_status status, const struct accel_error *err)
{
    if (check (!status, "%s", err->text))
        return;
    exit (1);
}

static int64_t weights_shape[] = { WEIGHTS }, bias_shape[] = { BIAS };

/* Weights of a type of one's choice and a bias in float32; gradients in two types. */
struct net {
    DLTensor data[2], grads[2];
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    float weights[WEIGHTS], bias[BIAS], gradients[COUNT];
    float next[COUNT]; /* what backward() is to leave, unscaled */
};

static void
make_net (struct net *net, enum accel_dtype dtype, enum accel_dtype grad, bool own, const char *kind)
{
    struct accel_error err;
    memset (net, 0, sizeof *net);
    for (int i = 0; i < 2; i++) {
        net->data[i] = (DLTensor){ .data = i ? net->bias : net->weights, .device = { kDLCPU, 0 }, .ndim = 1,
                                   .dtype = accel_dtype_to_dl (i ? ACCEL_FLOAT32 : dtype),
                                   .shape = i ? bias_shape : weights_shape };
        net->grads[i] = net->data[i];
        net->grads[i].data = own ? net->gradients + (i ? WEIGHTS : 0) : NULL;
        net->grads[i].dtype = accel_dtype_to_dl (i ? ACCEL_FLOAT32 : grad);
    }
    struct accel_parameter parameters[] = { { "weights", &net->data[0], &net->grads[0] },
                                            { "bias", &net->data[1], &net->grads[1] } };
    must (accel_model_create (&net->model, parameters, 2, &err), &err);
    if (!strcmp (kind, "sgd"))
        must (accel_optimizer_create (&net->optimizer, net->model, ACCEL_SGD,
                                      &(struct accel_optimizer_options){ .lr = 0.01, .momentum = 0.9 }, &err),
              &err);
    else
        must (accel_optimizer_create (&net->optimizer, net->model, ACCEL_ADAMW, NULL, &err), &err);
}

static void
destroy_net (struct net *net)
{
    accel_optimizer_destroy (net->optimizer);
    accel_model_destroy (net->model);
}

static void
draw (float *values, size_t count, uint64_t seed, float offset)
{
    struct accel_generator *generator;
    if (accel_generator_create (&generator, seed, NULL))
        abort ();
    for (size_t i = 0; i < count; i++)
        values[i] = accel_generator_uniform (generator) + offset;
    accel_generator_destroy (generator);
}

static void
fill (struct net *net, uint64_t seed)
{
    float values[WEIGHTS];
    struct accel_error err;
    draw (values, WEIGHTS, seed, 0.5F);
    must (accel_convert (values, ACCEL_FLOAT32, net->data[0].data, accel_dtype_from_dl (net->data[0].dtype), WEIGHTS,
                         &err), &err);
    draw (net->bias, BIAS, seed + 1, 0.5F);
}

/* The mean gradient of samples begin to end - 1. */
static void
mean_of (float *mean, int step, int begin, int end)
{
    float one[COUNT];
    memset (mean, 0, COUNT * sizeof *mean);
    for (int sample = begin; sample < end; sample++) {
        draw (one, COUNT, (uint64_t) (1000 * step + sample), -0.4F);
        for (int i = 0; i < COUNT; i++)
            mean[i] += one[i] / (float) (end - begin);
    }
}

static enum accel_status
backward (void *user, float scale, struct accel_error *err)
{
    struct net *net = user;
    float scaled[COUNT];
    for (int i = 0; i < COUNT; i++)
        scaled[i] = net->next[i] * scale;
    memcpy (net->grads[1].data, scaled + WEIGHTS, BIAS * sizeof *scaled);
    return accel_convert (scaled, ACCEL_FLOAT32, net->grads[0].data, accel_dtype_from_dl (net->grads[0].dtype), WEIGHTS,
                          err);
}

/* The same bytes on all ranks? */
static void
same (const char *what, int step, const void *bytes, size_t length)
{
    struct accel_error err;
    unsigned char *all = malloc (length * (size_t) size);
    if (!all)
        abort ();
    must (accel_comm_all_gather (accel_world (acc), bytes, all, length, ACCEL_UINT8, &err), &err);
    for (int other = 0; other < size; other++)
        check (!memcmp (all + (size_t) other * length, bytes, length), "step %d: %s differs from rank %d's", step, what,
               other);
    free (all);
}

static void
same_everywhere (struct net *net, int step)
{
    struct accel_scaler_state state;
    uint8_t skipped = accel_optimizer_step_was_skipped (net->optimizer);
    accel_scaler_get_state (acc, &state);
    same ("whether the step was skipped", step, &skipped, 1);
    same ("the scale", step, &state.scale, sizeof state.scale);
    same ("the tracker", step, &state.growth_tracker, sizeof state.growth_tracker);
    same ("the master", step, accel_model_master (net->model, 0)->data, WEIGHTS * sizeof (float));
    same ("the weights", step, net->data[0].data,
          WEIGHTS * accel_dtype_bytes (accel_dtype_from_dl (net->data[0].dtype)));
    same ("the bias", step, net->bias, sizeof net->bias);
}

/* N processes, and this one alone with the global batch; rank 0 prints a checksum of the result. */
static void
check_batch (enum accel_dtype dtype, const char *kind)
{
    static struct net net, alone;
    struct accel_error err;
    float each = (float) SAMPLES / (float) size;
    make_net (&net, dtype, ACCEL_FLOAT32, false, kind);
    make_net (&alone, dtype, ACCEL_FLOAT32, true, kind);
    fill (&net, (uint64_t) rank * 10);
    fill (&alone, 0);
    must (accel_prepare (acc, &err, net.model, net.optimizer), &err);
    /* As prepared ones are: 8-bit parameters are scaled from the beginning. */
    accel_model_narrow (alone.model);
    for (int step = 0; step < STEPS; step++) {
        mean_of (net.next, step, (int) (each * (float) rank), (int) (each * (float) (rank + 1)));
        must (accel_backward (acc, net.model, 1, backward, &net, &err), &err);
        must (accel_optimizer_step (net.optimizer, &err), &err);
        mean_of (alone.gradients, step, 0, SAMPLES);
        must (accel_optimizer_step (alone.optimizer, &err), &err);
    }
    same_everywhere (&net, STEPS);
    const float *got = accel_model_master (net.model, 0)->data, *wanted = accel_model_master (alone.model, 0)->data;
    double worst = 0;
    uint64_t sum = 0;
    for (int i = 0; i < WEIGHTS; i++) {
        uint32_t bits;
        memcpy (&bits, &got[i], sizeof bits);
        sum = sum * UINT64_C (1099511628211) + bits;
        worst = fmax (worst, fabs ((double) got[i] - (double) wanted[i]) / fabs ((double) wanted[i]));
    }
    check (worst <= 1e-6, "%s, %s: %g from one process's", accel_dtype_name (dtype), kind, worst);
    accel_print (acc, "%016llx\n", (unsigned long long) sum);
    destroy_net (&net);
    destroy_net (&alone);
}

/* One rank, another each time, has an infinite gradient, or changes its own one after the average. */
static void
check_skip (void)
{
    static struct net net;
    struct accel_error err;
    make_net (&net, ACCEL_BFLOAT16, ACCEL_FLOAT32, false, "sgd");
    fill (&net, 0);
    must (accel_prepare (acc, &err, net.model, net.optimizer), &err);
    for (int step = 0; step < 2 * STEPS; step++) {
        bool before = step % 5 == 2, after = step % 7 == 3, mine = step % size == rank;
        mean_of (net.next, step, rank, rank + 1);
        if (before && mine)
            net.next[step] = step % 2 ? INFINITY : NAN;
        must (accel_backward (acc, net.model, 1, backward, &net, &err), &err);
        if (after && mine)
            ((float *) net.grads[1].data)[step % BIAS] = step % 2 ? -INFINITY : NAN;
        if (step % 3 == 0)
            must (accel_clip_grad_norm (net.model, 1, NULL, NULL, &err), &err);
        else if (step % 3 == 1)
            must (accel_unscale_gradients (acc, net.optimizer, &err), &err);
        must (accel_optimizer_step (net.optimizer, &err), &err);
        check (accel_optimizer_step_was_skipped (net.optimizer) == (before || after), "step %d: skipped or not", step);
        same_everywhere (&net, step);
    }
    destroy_net (&net);
}

/* What rank 0 has in its master is finer than the type, and is what all get; 16-bit gradients are averaged. */
static void
check_prepare (enum accel_dtype dtype)
{
    static struct net net;
    struct accel_error err;
    make_net (&net, dtype, ACCEL_FLOAT16, false, "sgd");
    fill (&net, (uint64_t) rank);
    float *master = accel_model_master (net.model, 0)->data;
    for (int i = 0; i < WEIGHTS; i++)
        master[i] = 1 + (float) (rank + 1) * 0x1p-20F * (float) i;
    must (accel_prepare (acc, &err, net.model, net.optimizer), &err);
    for (int i = 0; i < WEIGHTS; i++)
        if (!check (master[i] == 1 + 0x1p-20F * (float) i, "the master is not rank 0's"))
            break;
    same_everywhere (&net, 0);
    for (int i = 0; i < COUNT; i++)
        net.next[i] = (float) (i % 8 * size + rank) * 0x1p-16F;
    must (accel_backward (acc, net.model, 1, backward, &net, &err), &err);
    float back[WEIGHTS], mean = (float) (size - 1) / 2;
    must (accel_convert (net.grads[0].data, ACCEL_FLOAT16, back, ACCEL_FLOAT32, WEIGHTS, &err), &err);
    for (int i = 0; i < WEIGHTS; i++)
        if (!check (back[i] == (float) (i % 8 * size) + mean, "gradient %d is %g", i, (double) back[i]))
            break;
    must (accel_optimizer_step (net.optimizer, &err), &err);
    same_everywhere (&net, 1);
    destroy_net (&net);
}

/* Rank r makes r + 2 steps, of which the second is skipped; then all have the same scaler, and continue. */
static void
check_join (void)
{
    static struct net net;
    struct accel_error err;
    make_net (&net, ACCEL_FLOAT16, ACCEL_FLOAT32, false, "adamw");
    fill (&net, 3);
    must (accel_prepare (acc, &err, net.model, net.optimizer), &err);
    must (accel_join_uneven_inputs (acc, ACCEL_DEFAULT, &err), &err);
    for (int step = 0; step < rank + 2; step++) {
        mean_of (net.next, step, rank, rank + 1);
        if (step == 1 && rank == size - 1)
            net.next[3] = INFINITY;
        must (accel_backward (acc, net.model, 1, backward, &net, &err), &err);
        must (accel_optimizer_step (net.optimizer, &err), &err);
        check (accel_optimizer_step_was_skipped (net.optimizer) == (step == 1), "step %d: skipped or not", step);
    }
    must (accel_join_end (acc, &err), &err);
    struct accel_scaler_state state;
    check (accel_scaler_get_state (acc, &state) && state.growth_tracker == (uint32_t) size - 1, "the tracker is %u",
           state.growth_tracker);
    same ("the scale", 0, &state.scale, sizeof state.scale);
    same ("the master", 0, accel_model_master (net.model, 0)->data, WEIGHTS * sizeof (float));
    same ("the weights", 0, net.data[0].data, WEIGHTS * 2);
    destroy_net (&net);
}

static enum accel_dtype
dtype_of (const char *name)
{
    enum accel_dtype dtype = ACCEL_FLOAT32;
    while (dtype < ACCEL_DTYPE_COUNT && strcmp (name, accel_dtype_name (dtype)))
        dtype++;
    return dtype;
}

int
main (int argc, char **argv)
{
    struct accel_error err;
    const char *what = argc > 1 ? argv[1] : "";
    struct accel_options options = { .timeout_ms = 200000 };
    must (accel_open (&acc, &options, &err), &err);
    rank = accel_process_index (acc);
    size = accel_num_processes (acc);
    if (!strcmp (what, "skip"))
        check_skip ();
    else if (!strcmp (what, "join"))
        check_join ();
    for (int i = 2; i < argc; i++)
        if (!strcmp (what, "prepare")) {
            check_prepare (dtype_of (argv[i]));
        } else {
            check_batch (dtype_of (argv[i]), "sgd");
            check_batch (dtype_of (argv[i]), "adamw");
        }
    accel_close (acc);
    return wrong != 0;
}
