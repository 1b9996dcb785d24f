/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of accumulate.sh: `accumulate CHECK`; says on standard error what is wrong and exits with 1.  Each rank also
 * computes the whole job alone, in double: a linear model with squared errors, plain SGD. */
#include <config.h>

#include "tests/conformance/check.h"
#include "tests/samples.h"

#include <accel/accel.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WEIGHTS = 5, BATCH = 3, MOST_RANKS = 8 };

#define RATE 0.125
#define TOLERANCE 1e-6

static double
input (size_t sample, int i)
{
    return (double) ((sample * 7 + (size_t) i * 5) % 11) / 8 - 0.5;
}

static double
target (size_t sample)
{
    return (double) (sample % 5) / 2;
}

/* Add the gradient of @p scale times the mean loss over [first, end) at @p weights. */
static void
add_gradient (const double *weights, size_t first, size_t end, double scale, double *grad)
{
    for (size_t s = first; s < end; s++) {
        double error = -target (s);
        for (int i = 0; i < WEIGHTS; i++)
            error += weights[i] * input (s, i);
        for (int i = 0; i < WEIGHTS; i++)
            grad[i] += scale * error * input (s, i) / (double) (end - first);
    }
}

static void
step_alone (double *weights, double *grad)
{
    for (int i = 0; i < WEIGHTS; i++) {
        weights[i] -= RATE * grad[i];
        grad[i] = 0;
    }
}

struct net {
    DLTensor data, grad;
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    size_t first, end; /* the batch at hand */
};

static int64_t shape[] = { WEIGHTS };

static bool
make_net (struct net *net)
{
    struct accel_error err;
    struct accel_parameter parameter = { "w", &net->data, &net->grad };
    struct accel_optimizer_options sgd = { .lr = RATE };
    *net = (struct net){ 0 };
    net->data = (DLTensor){ .device = { kDLCPU, 0 }, .ndim = 1, .shape = shape,
                            .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
    net->grad = net->data;
    return check (!accel_model_create (&net->model, &parameter, 1, &err), "create: %s", err.text)
           && check (!accel_optimizer_create (&net->optimizer, net->model, ACCEL_SGD, &sgd, &err), "create: %s",
                     err.text)
           && check (!accel_prepare (acc, &err, net->model, net->optimizer), "prepare: %s", err.text);
}

static void
destroy_net (struct net *net)
{
    accel_optimizer_destroy (net->optimizer);
    accel_model_destroy (net->model);
}

static enum accel_status
backward (void *user, float scale, struct accel_error *err)
{
    struct net *net = user;
    double weights[WEIGHTS], grad[WEIGHTS] = { 0 };
    (void) err;
    for (int i = 0; i < WEIGHTS; i++)
        weights[i] = (double) ((float *) net->data.data)[i];
    add_gradient (weights, net->first, net->end, (double) scale, grad);
    for (int i = 0; i < WEIGHTS; i++)
        ((float *) net->grad.data)[i] += (float) grad[i];
    return ACCEL_OK;
}

static void
compare (const DLTensor *tensor, const double *wanted, const char *what, unsigned pass)
{
    const float *got = tensor->data;
    double off = 0, norm = 0;
    for (int i = 0; i < WEIGHTS; i++) {
        off += ((double) got[i] - wanted[i]) * ((double) got[i] - wanted[i]);
        norm += wanted[i] * wanted[i];
    }
    check (sqrt (off) <= TOLERANCE * sqrt (norm), "pass %u: %s: off by %g of %g", pass, what, sqrt (off),
           sqrt (norm));
}

/* The library calls the pass, or the program does. */
static void
one_backward (struct net *net, bool own)
{
    struct accel_error err = { 0 };
    if (own)
        check (!backward (net, accel_loss_scale (acc), &err)
                   && !accel_average_gradients (acc, net->model, &err), "average: %s", err.text);
    else
        check (!accel_backward (acc, net->model, 0, backward, net, &err), "backward: %s", err.text);
}

static void
one_pass (struct net *net, bool clears)
{
    struct accel_error err;
    check (!accel_backward (acc, net->model, 0, backward, net, &err), "backward: %s", err.text);
    check (!accel_optimizer_step (net->optimizer, &err), "step: %s", err.text);
    check (!clears || !accel_optimizer_zero_grad (net->optimizer, &err), "zero_grad: %s", err.text);
}

static bool
make_loader (struct accel_loader **loader, struct accel_dataset *dataset, size_t samples)
{
    static const struct accel_field field = { "x", ACCEL_INT64, 0, { 0 } };
    struct accel_loader_options options = { .batch_size = BATCH };
    struct accel_error err;
    *dataset = (struct accel_dataset){ samples, &field, 1, sample_is_index, NULL };
    return check (!accel_loader_create (loader, dataset, &options, &err), "loader: %s", err.text)
           && check (!accel_prepare (acc, &err, *loader), "prepare: %s", err.text);
}

static void
take (struct net *net, const struct accel_batch *batch)
{
    net->first = (size_t) accel_batch_indices (batch)[0];
    net->end = net->first + accel_batch_size (batch);
}

/* The last step of an epoch is short of passes; with `each`, gradients are averages in every pass. */
static void
train_even (struct net *net, struct accel_loader *loader, unsigned num_steps, bool each)
{
    double weights[WEIGHTS] = { 0 }, grad[WEIGHTS] = { 0 }, own[WEIGHTS] = { 0 };
    size_t all = (size_t) size * BATCH;
    const struct accel_batch *batch;
    struct accel_error err = { 0 };
    for (unsigned epoch = 0; epoch < 3; epoch++) {
        for (unsigned pass = 1; accel_loader_next (loader, &batch, &err); pass++) {
            bool ends = pass % num_steps == 0 || accel_loader_end_of_dataloader (loader);
            size_t round = (pass - 1) * all;
            take (net, batch);
            add_gradient (weights, net->first, net->end, 1.0 / num_steps, own);
            add_gradient (weights, round, round + all, 1.0 / num_steps, grad);
            check (!accel_accumulate (acc, &err, net->model), "accumulate: %s", err.text);
            check (accel_sync_gradients (acc) == ends, "pass %u: sync_gradients", pass);
            one_backward (net, pass % 2);
            compare (&net->grad, ends || each ? grad : own, "gradients", pass);
            check (!accel_optimizer_step (net->optimizer, &err), "step: %s", err.text);
            check (!accel_optimizer_zero_grad (net->optimizer, &err), "zero_grad: %s", err.text);
            if (ends) {
                step_alone (weights, grad);
                memset (own, 0, sizeof own);
            }
            compare (&net->data, weights, "parameters", pass);
        }
        check (!err.code, "loader: %s", err.text);
    }
}

static void
check_even (bool each)
{
    static const unsigned steps[] = { 1, 2, 3, 4 };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct net net;
        struct accel_dataset dataset;
        struct accel_loader *loader = NULL;
        struct accel_error err;
        size_t passes = 3 * steps[i] + 1;
        check (!accel_set_gradient_accumulation_steps (acc, steps[i], &err), "%s", err.text);
        if (make_net (&net) && make_loader (&loader, &dataset, passes * (size_t) size * BATCH))
            train_even (&net, loader, steps[i], each);
        accel_loader_destroy (loader);
        destroy_net (&net);
    }
}

/* Two passes that send nothing, and a third one that averages all three. */
static void
check_no_sync (bool trigger)
{
    struct net net;
    struct accel_error err;
    if (!make_net (&net))
        return;
    double weights[WEIGHTS] = { 0 }, own[WEIGHTS] = { 0 }, all[WEIGHTS] = { 0 };
    check (!accel_no_sync (acc, net.model, &err), "no_sync: %s", err.text);
    for (unsigned pass = 0; pass < 3; pass++) {
        bool averages = pass == 2;
        if (averages && trigger)
            check (!accel_trigger_sync_in_backward (acc, net.model, &err), "trigger: %s", err.text);
        else if (averages)
            check (!accel_no_sync_end (acc, net.model, &err), "no_sync_end: %s", err.text);
        for (int other = 0; other < size; other++) {
            size_t first = ((size_t) pass * 13 + (size_t) other) * BATCH;
            add_gradient (weights, first, first + BATCH, 1.0 / size, all);
            if (other == rank) {
                net.first = first;
                net.end = first + BATCH;
                add_gradient (weights, first, first + BATCH, 1, own);
            }
        }
        check (!accel_backward (acc, net.model, 0, backward, &net, &err), "backward: %s", err.text);
        compare (&net.grad, averages ? all : own, "gradients", pass);
    }
    destroy_net (&net);
}

static void
check_local_sgd (bool enabled)
{
    enum { EVERY = 3, STEPS = 8 };
    double weights[MOST_RANKS][WEIGHTS] = { 0 }, mean[WEIGHTS] = { 0 };
    struct accel_local_sgd *local_sgd;
    struct net net;
    struct accel_error err;
    bool local = enabled && size > 1;
    if (!make_net (&net)
        || !check (!accel_local_sgd_begin (&local_sgd, acc, net.model, EVERY, enabled, &err), "%s", err.text))
        return;
    for (unsigned pass = 1; pass <= STEPS; pass++) {
        double shared[WEIGHTS] = { 0 };
        for (int other = 0; other < size; other++) {
            size_t first = ((size_t) pass * 17 + (size_t) other) * BATCH;
            double own[WEIGHTS] = { 0 };
            if (other == rank) {
                net.first = first;
                net.end = first + BATCH;
            }
            add_gradient (local ? weights[other] : mean, first, first + BATCH, local ? 1 : 1.0 / size,
                          local ? own : shared);
            step_alone (weights[other], own);
        }
        one_pass (&net, true);
        check (!accel_local_sgd_step (local_sgd, &err), "step: %s", err.text);
        step_alone (mean, shared);
        bool averages = local && (pass % EVERY == 0 || pass == STEPS);
        if (pass == STEPS)
            check (!accel_local_sgd_end (local_sgd, &err), "end: %s", err.text);
        for (int i = 0; averages && i < WEIGHTS; i++) {
            mean[i] = 0;
            for (int other = 0; other < size; other++)
                mean[i] += weights[other][i] / size;
            for (int other = 0; other < size; other++)
                weights[other][i] = mean[i];
        }
        compare (&net.data, local ? weights[rank] : mean, "parameters", pass);
    }
    destroy_net (&net);
}

/* Batch b is rank b % size's; @return how many of `batches` are rank @p other's. */
static unsigned
share (unsigned batches, int other)
{
    return batches / (unsigned) size + ((unsigned) other < batches % (unsigned) size);
}

/* The job alone: all that are still at work average in their rounds, whatever passes these consist of. */
static void
join_alone (unsigned batches, unsigned num_steps, double *weights)
{
    unsigned rounds = (share (batches, 0) + num_steps - 1) / num_steps;
    for (unsigned round = 0; round < rounds; round++) {
        double grad[WEIGHTS] = { 0 };
        for (int other = 0; other < size; other++)
            for (unsigned pass = round * num_steps; pass < (round + 1) * num_steps; pass++) {
                size_t first = ((size_t) pass * (size_t) size + (size_t) other) * BATCH;
                if (pass < share (batches, other))
                    add_gradient (weights, first, first + BATCH, 1.0 / num_steps / size, grad);
            }
        step_alone (weights, grad);
    }
}

static void
check_join (void)
{
    for (unsigned num_steps = 1; num_steps <= 3; num_steps++)
        for (unsigned batches = (unsigned) size; batches <= 5 * (unsigned) size; batches++) {
            double weights[WEIGHTS] = { 0 };
            struct net net;
            struct accel_dataset dataset;
            struct accel_loader *loader = NULL;
            const struct accel_batch *batch;
            struct accel_error err;
            check (!accel_set_gradient_accumulation_steps (acc, num_steps, &err), "%s", err.text);
            if (!make_net (&net) || !make_loader (&loader, &dataset, (size_t) batches * BATCH))
                return;
            check (!accel_join_uneven_inputs (acc, ACCEL_NO, &err), "join: %s", err.text);
            while (accel_loader_next (loader, &batch, &err)) {
                take (&net, batch);
                check (!accel_accumulate (acc, &err), "accumulate: %s", err.text);
                one_pass (&net, true);
            }
            check (!err.code, "loader: %s", err.text);
            check (!accel_join_end (acc, &err), "join_end: %s", err.text);
            join_alone (batches, num_steps, weights);
            compare (&net.data, weights, "parameters", batches);
            accel_loader_destroy (loader);
            destroy_net (&net);
        }
}

int
main (int argc, char **argv)
{
    struct accel_error err;
    const char *what = argc > 1 ? argv[1] : "";
    bool each = !strcmp (what, "each");
    struct accel_gradient_accumulation plugin = { .sync_each_batch = each };
    if (accel_open (&acc, &(struct accel_options){ .gradient_accumulation_plugin = &plugin }, &err)) {
        fprintf (stderr, "%s\n", err.text);
        return 1;
    }
    rank = accel_process_index (acc);
    size = accel_num_processes (acc);
    if (!strcmp (what, "even") || each)
        check_even (each);
    else if (!strcmp (what, "no_sync"))
        check_no_sync (false), check_no_sync (true);
    else if (!strcmp (what, "local_sgd"))
        check_local_sgd (true), check_local_sgd (false);
    else if (!strcmp (what, "join"))
        check_join ();
    else
        check (false, "no check '%s'", what);
    check (wrong || !accel_end_training (acc, &err), "end_training: %s", err.text);
    accel_close (acc);
    return wrong > 0;
}
