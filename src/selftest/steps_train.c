/* SPDX-License-Identifier: Apache-2.0 */
/* Steps: loaders give every sample to one rank, and a step of training on many is one with the mean gradient. */
#include <config.h>

#include "selftest/selftest.h"

#include <stdlib.h>
#include <string.h>

enum { BATCH = 4, PARAMETERS = 6 };

static enum accel_status
read_sample (void *user, size_t index, void *const *into, struct accel_error *err)
{
    (void) user;
    (void) err;
    float value = (float) index;
    memcpy (into[0], &value, sizeof value);
    return ACCEL_OK;
}

/* The batch's samples are those that its indices name. */
static void
check_batch (struct self *self, const struct accel_batch *batch)
{
    const DLTensor *tensor = accel_batch_tensor (batch, "value");
    if (!tensor) {
        wrong (self, "accel_batch_tensor: no such field");
        return;
    }
    expect (self, "accel_batch_size", tensor->shape[0], (long long) accel_batch_size (batch));
    void *data;
    if (!CALL (self, accel_batch_data (batch, "value", ACCEL_FLOAT32, &data, &self->err)))
        return;
    for (size_t i = 0; i < accel_batch_size (batch); i++)
        expect (self, "a sample", accel_batch_indices (batch)[i], (long long) ((const float *) data)[i]);
}

/* The whole batch as a tree, gathered for metrics: as many rows as of its field alone. */
static void
check_batch_tree (struct self *self, const struct accel_batch *batch, int64_t gathered)
{
    struct accel_tree *tree, *all = NULL;
    size_t rows = 0;
    if (!CALL (self, accel_batch_tree (&tree, batch, &self->err)))
        return;
    if (CALL (self, accel_tree_gather_for_metrics (&all, self->acc, tree, &self->err))
        && CALL (self, accel_tree_find_batch_size (all, &rows, &self->err)))
        expect (self, "rows of accel_tree_gather_for_metrics", (long long) gathered, (long long) rows);
    accel_tree_destroy (all);
    accel_tree_destroy (tree);
}

/* One epoch: gathered for metrics, each sample comes once; without shuffling in the order of the data set. */
static void
run_epoch (struct self *self, struct accel_loader *loader, size_t size, bool shuffled, bool *seen)
{
    const struct accel_batch *batch;
    const DLTensor *values;
    struct accel_tensor out = { 0 };
    size_t total = 0, rounds = 0;
    memset (seen, 0, size);
    while (!*self->why && accel_loader_next (loader, &batch, &self->err)) {
        rounds++;
        check_batch (self, batch);
        values = accel_batch_tensor (batch, "value");
        if (*self->why || !CALL (self, accel_gather_for_metrics (&out, self->acc, values, &self->err)))
            break;
        check_batch_tree (self, batch, out.dl.shape[0]);
        expect (self, "accel_loader_end_of_dataloader", rounds == accel_loader_length (loader),
                accel_loader_end_of_dataloader (loader));
        for (int64_t i = 0; i < out.dl.shape[0] && !*self->why; i++, total++) {
            size_t sample = (size_t) ((const float *) out.dl.data)[i];
            if (sample >= size || seen[sample])
                wrong (self, "sample %zu came twice or does not exist", sample);
            else if (!shuffled)
                expect (self, "the sample at its position", (long long) total, (long long) sample);
            if (sample < size)
                seen[sample] = true;
        }
    }
    accel_tensor_release (&out);
    if (self->err.code)
        wrong (self, "accel_loader_next: %s", self->err.text);
    expect (self, "samples of an epoch", (long long) size, (long long) total);
    expect (self, "accel_loader_length", (long long) rounds, (long long) accel_loader_length (loader));
}

static void
run_loader (struct self *self, bool shuffle)
{
    static const struct accel_field field = { .name = "value", .dtype = ACCEL_FLOAT32 };
    struct accel_dataset dataset = { (size_t) self->size * BATCH * 2 + 3, &field, 1, read_sample, NULL };
    struct accel_loader_options options = { .batch_size = BATCH, .shuffle = shuffle, .seed = 7 };
    struct accel_loader *loader;
    const struct accel_batch *batch;
    bool *seen = calloc (dataset.size, sizeof *seen);
    if (!seen || !CALL (self, accel_loader_create (&loader, &dataset, &options, &self->err))) {
        wrong (self, "out of memory");
        free (seen);
        return;
    }
    if (CALL (self, accel_prepare (self->acc, &self->err, loader))) {
        expect (self, "accel_loader_remainder", 3, (long long) accel_loader_remainder (loader));
        run_epoch (self, loader, dataset.size, shuffle, seen);
        if (!*self->why && accel_loader_next (loader, &batch, &self->err)) {
            accel_loader_end (loader);
            accel_loader_set_epoch (loader, 5);
            run_epoch (self, loader, dataset.size, shuffle, seen);
        }
    }
    accel_loader_destroy (loader);
    free (seen);
}

static void
check_loader (struct self *self)
{
    run_loader (self, false);
    if (!*self->why)
        run_loader (self, true);
}

/* A model whose gradient is known. */
struct net {
    struct self *self;
    struct accel_tensor data, grad;
    struct accel_model *model;
};

static enum accel_status
backward (void *user, float scale, struct accel_error *err)
{
    (void) err;
    struct net *net = user;
    float *grad = net->grad.dl.data;
    for (int i = 0; i < PARAMETERS; i++)
        grad[i] += scale * (float) (net->self->rank + i);
    return ACCEL_OK;
}

/* What the mean over the ranks is. */
static double
mean_gradient (const struct self *self, int i)
{
    return (self->size - 1) / 2.0 + i;
}

/* Every rank begins with other numbers; afterwards all have those of rank 0.  Whatever the configuration says of
 * accumulation, a pass is a step here. */
static bool
make_net (struct self *self, struct net *net)
{
    static const int64_t shape[] = { PARAMETERS };
    *net = (struct net){ .self = self };
    if (!CALL (self, accel_set_gradient_accumulation_steps (self->acc, 1, &self->err))
        || !CALL (self, accel_tensor_init (&net->data, ACCEL_FLOAT32, 1, shape, &self->err))
        || !CALL (self, accel_tensor_init (&net->grad, ACCEL_FLOAT32, 1, shape, &self->err)))
        return false;
    struct accel_parameter parameter = { "weight", &net->data.dl, &net->grad.dl };
    if (!CALL (self, accel_model_create (&net->model, &parameter, 1, &self->err)))
        return false;
    expect (self, "accel_model_parameter_count", 1, (long long) accel_model_parameter_count (net->model));
    expect_text (self, "accel_model_parameter", "weight", accel_model_parameter (net->model, 0)->name);
    const struct accel_initializer first = { "weight", .mean = 1 + self->rank };
    struct accel_generator *generator;
    if (!CALL (self, accel_generator_create (&generator, 7, &self->err)))
        return false;
    CALL (self, accel_model_initialize (net->model, &first, 1, generator, &self->err));
    accel_generator_destroy (generator);
    return !*self->why;
}

static void
run_steps_of (struct self *self, struct net *net, struct accel_optimizer *optimizer, double lr, bool adam)
{
    const float *data = net->data.dl.data, *grad = net->grad.dl.data;
    if (!CALL (self, accel_prepare (self->acc, &self->err, net->model, optimizer)))
        return;
    data = net->data.dl.data;
    grad = net->grad.dl.data;
    for (int i = 0; i < PARAMETERS; i++)
        expect_near (self, "a parameter after accel_prepare", 1, (double) data[i], 0);
    CALL (self, accel_optimizer_set_lr (optimizer, lr, &self->err));
    expect_near (self, "accel_optimizer_lr", lr, accel_optimizer_lr (optimizer), 0);
    if (*self->why || !CALL (self, accel_backward (self->acc, net->model, 0.5F, backward, net, &self->err))
        || !CALL (self, accel_unscale_gradients (self->acc, optimizer, &self->err)))
        return;
    for (int i = 0; i < PARAMETERS; i++)
        expect_near (self, "a mean gradient", mean_gradient (self, i), (double) grad[i], 1e-4);
    if (!CALL (self, accel_optimizer_step (optimizer, &self->err)))
        return;
    for (int i = 0; i < PARAMETERS; i++) {
        double mean = mean_gradient (self, i); /* the first step of AdamW has the size of lr */
        double step = adam ? lr * (mean > 0) : lr * mean;
        expect_near (self, "a parameter after a step", 1 - step, (double) data[i], 1e-4);
    }
    CALL (self, accel_optimizer_zero_grad (optimizer, &self->err));
    for (int i = 0; i < PARAMETERS; i++)
        expect_near (self, "a gradient set to zero", 0, (double) grad[i], 0);
}

static void
run_training (struct self *self, bool adam)
{
    struct net net;
    struct accel_optimizer *optimizer = NULL;
    enum accel_optimizer_kind kind = adam ? ACCEL_ADAMW : ACCEL_SGD;
    struct accel_optimizer_options options = { .lr = 1, .weight_decay = ACCEL_ZERO };
    if (make_net (self, &net)
        && CALL (self, accel_optimizer_create (&optimizer, net.model, kind, &options, &self->err)))
        run_steps_of (self, &net, optimizer, 0.25, adam);
    accel_optimizer_destroy (optimizer);
    accel_model_destroy (net.model);
}

static void
check_sgd (struct self *self)
{
    run_training (self, false);
}

static void
check_adamw (struct self *self)
{
    run_training (self, true);
}

static enum accel_status
backward_reporting (void *user, float scale, struct accel_error *err)
{
    struct net *net = user;
    enum accel_status status = backward (user, scale, err);
    return status ? status : accel_grad_ready (net->model, 0, err);
}

/* Gradients are averaged while the pass runs, and survive the end of sharing. */
static void
check_ready (struct self *self)
{
    struct net net;
    struct accel_ddp_options options = { .bucket_cap_mb = 1, .overlap = ACCEL_OVERLAP_ALWAYS };
    if (make_net (self, &net) && CALL (self, accel_model_set_ddp (net.model, &options, &self->err))
        && CALL (self, accel_prepare (self->acc, &self->err, net.model))
        && CALL (self, accel_backward (self->acc, net.model, 0.5F, backward_reporting, &net, &self->err))
        && CALL (self, accel_unwrap_model (self->acc, net.model, &self->err))
        && CALL (self, accel_prepare (self->acc, &self->err, net.model))
        && CALL (self, accel_free_memory (self->acc, &self->err)))
        for (int i = 0; i < PARAMETERS; i++)
            expect_near (self, "an accumulated mean gradient", mean_gradient (self, i),
                         (double) ((float *) net.grad.dl.data)[i], 1e-4);
    accel_model_destroy (net.model);
}

/* Each process updates its share of the elements, and gets the others. */
static void
check_sharding (struct self *self)
{
    enum { EACH = 1024 };
    struct accel_tensor data = { 0 }, grad = { 0 };
    struct accel_model *model = NULL;
    struct accel_optimizer *optimizer = NULL;
    const int64_t shape[] = { (int64_t) EACH * self->size + 1 };
    const struct accel_parameter parameter = { "weight", &data.dl, &grad.dl };
    const struct accel_sharding_options sharding = { .strategy = ACCEL_SHARDING_FULL_SHARD };
    const size_t layer[] = { 0 };
    const struct accel_optimizer_options options = { .lr = 1 };
    if (CALL (self, accel_tensor_init (&data, ACCEL_FLOAT32, 1, shape, &self->err))
        && CALL (self, accel_tensor_init (&grad, ACCEL_FLOAT32, 1, shape, &self->err))
        && CALL (self, accel_model_create (&model, &parameter, 1, &self->err))
        && CALL (self, accel_model_set_sharding (model, &sharding, &self->err))
        && CALL (self, accel_optimizer_create (&optimizer, model, ACCEL_SGD, &options, &self->err))
        && CALL (self, accel_prepare (self->acc, &self->err, model, optimizer))) {
        expect (self, "accel_model_sharding", self->size > 1 ? ACCEL_SHARDING_FULL_SHARD : ACCEL_SHARDING_NONE,
                (long long) accel_model_sharding (model));
        for (int64_t i = 0; i < shape[0]; i++)
            ((float *) grad.dl.data)[i] = (float) self->rank;
        if (CALL (self, accel_layer_begin (model, layer, 1, &self->err))
            && CALL (self, accel_layer_end (model, layer, 1, &self->err))
            && CALL (self, accel_average_gradients (self->acc, model, &self->err))
            && CALL (self, accel_optimizer_step (optimizer, &self->err))
            && CALL (self, accel_summon_full_params (model, &self->err)))
            for (int64_t i = 0; i < shape[0] && !*self->why; i++)
                expect_near (self, "an element of a sharded step", (1 - self->size) / 2.0,
                             (double) ((float *) data.dl.data)[i], 1e-4);
    }
    accel_optimizer_destroy (optimizer);
    accel_model_destroy (model);
    accel_tensor_release (&data);
    accel_tensor_release (&grad);
}

/* The first rank makes one step, the second two, all others none. */
static void
check_join (struct self *self)
{
    struct net net;
    if (make_net (self, &net) && CALL (self, accel_prepare (self->acc, &self->err, net.model))
        && CALL (self, accel_join_uneven_inputs (self->acc, ACCEL_DEFAULT, &self->err))) {
        int steps = self->rank == 0 ? 1 : self->rank == 1 ? 2 : 0;
        float *grad = net.grad.dl.data;
        for (int step = 0; step < steps && !*self->why; step++) {
            memset (grad, 0, PARAMETERS * sizeof *grad);
            if (step == 0) {
                CALL (self, accel_backward (self->acc, net.model, 0.5F, backward, &net, &self->err));
            } else {
                CALL (self, backward (&net, accel_loss_scale (self->acc), &self->err));
                CALL (self, accel_average_gradients (self->acc, net.model, &self->err));
            }
        }
        CALL (self, accel_join_end (self->acc, &self->err));
    }
    accel_model_destroy (net.model);
}

static enum accel_status
own_step (void *user, const struct accel_update *update, struct accel_error *err)
{
    (void) user;
    (void) err;
    float *data = update->parameter->data->data, *sum = update->states[0]->data;
    const float *grad = update->parameter->grad->data;
    for (size_t i = 0; i < PARAMETERS; i++) {
        sum[i] += grad[i];
        data[i] -= (float) update->lr * sum[i];
    }
    return ACCEL_OK;
}

/* A step with clipped gradients by each kind: only its direction is known, and what it remembers. */
static void
run_clipped (struct self *self, struct net *net, struct accel_optimizer *optimizer, const char *name)
{
    float norm = 0;
    const float *data, *grad;
    if (!CALL (self, accel_prepare (self->acc, &self->err, net->model, optimizer))
        || !CALL (self, accel_backward (self->acc, net->model, 0.5F, backward, net, &self->err))
        || !CALL (self, accel_clip_grad_value (net->model, 4, &self->err))
        || !CALL (self, accel_clip_grad_norm (net->model, 1, &norm,
                                              &(struct accel_clip_options){ .error_if_nonfinite = true }, &self->err))
        || !CALL (self, accel_optimizer_step (optimizer, &self->err)))
        return;
    data = net->data.dl.data;
    grad = net->grad.dl.data;
    double squares = 0, clipped = 0;
    for (int i = 0; i < PARAMETERS; i++) {
        double mean = mean_gradient (self, i) > 4 ? 4 : mean_gradient (self, i);
        squares += mean * mean;
        clipped += (double) grad[i] * (double) grad[i];
        if (mean > 0 && !(data[i] < 1))
            wrong (self, "%s: parameter %d did not move against its gradient", name, i);
    }
    expect_near (self, "accel_clip_grad_norm, squared", squares, (double) norm * (double) norm, 1e-3);
    expect_near (self, "the norm of clipped gradients", 1, clipped, 1e-4);
    expect_text (self, "accel_optimizer_state_name", name, accel_optimizer_state_name (optimizer, 0));
    if (!accel_optimizer_state_tensor (optimizer, 0, name))
        wrong (self, "accel_optimizer_state_tensor: no %s", name);
    expect (self, "accel_optimizer_step_count", 1, (long long) accel_optimizer_step_count (optimizer));
    accel_optimizer_set_step_count (optimizer, 7);
    expect (self, "accel_optimizer_set_step_count", 7, (long long) accel_optimizer_step_count (optimizer));
}

static void
check_optimizers (struct self *self)
{
    static const char *const states[] = { "sum" };
    struct accel_custom_optimizer own = { .lr = 0.1, .state_names = states, .state_count = 1, .step = own_step };
    const struct accel_optimizer_options two = { .threads = 2 };
    for (int kind = 0; kind < 3 && !*self->why; kind++) {
        struct net net;
        struct accel_optimizer *optimizer = NULL;
        if (make_net (self, &net)
            && (kind == 0   ? CALL (self, accel_optimizer_create (&optimizer, net.model, ACCEL_ADAM, &two, &self->err))
                : kind == 1 ? CALL (self, accel_optimizer_create (&optimizer, net.model, ACCEL_LION, &two, &self->err))
                            : CALL (self, accel_optimizer_create_custom (&optimizer, net.model, &own, &self->err))))
            run_clipped (self, &net, optimizer, kind < 2 ? "exp_avg" : "sum");
        accel_optimizer_destroy (optimizer);
        accel_model_destroy (net.model);
    }
}

/* Prepared, a scheduler goes as many steps on as there are processes. */
static void
check_scheduler (struct self *self)
{
    struct net net;
    struct accel_optimizer *optimizer = NULL;
    struct accel_scheduler *scheduler = NULL;
    struct accel_scheduler_state state;
    struct accel_optimizer_options sgd = { .lr = 0.5 };
    struct accel_scheduler_options options
        = { .schedule = ACCEL_SCHEDULE_LINEAR, .total_steps = (uint64_t) self->size * 4 };
    if (make_net (self, &net)
        && CALL (self, accel_optimizer_create (&optimizer, net.model, ACCEL_SGD, &sgd, &self->err))
        && CALL (self, accel_scheduler_create (&scheduler, optimizer, &options, &self->err))
        && CALL (self, accel_prepare (self->acc, &self->err, net.model, optimizer, scheduler))
        && CALL (self, accel_scheduler_step (scheduler, &self->err))) {
        expect_near (self, "accel_scheduler_lr", 0.375, accel_scheduler_lr (scheduler), 1e-12);
        expect_near (self, "the optimizer's learning rate", 0.375, accel_optimizer_lr (optimizer), 1e-12);
        accel_scheduler_get_state (scheduler, &state);
        expect (self, "steps of a scheduler", self->size, (long long) state.step);
        CALL (self, accel_scheduler_set_state (scheduler, &state, 1, &self->err));
    }
    accel_scheduler_destroy (scheduler);
    accel_optimizer_destroy (optimizer);
    accel_model_destroy (net.model);
}

/* Two passes for a step: the first adds up here, the second averages; then three that are averaged by hand. */
static void
accumulate (struct self *self, struct net *net, struct accel_optimizer *optimizer)
{
    const float *grad = net->grad.dl.data, *data = net->data.dl.data;
    expect (self, "accel_gradient_accumulation_steps", 2, accel_gradient_accumulation_steps (self->acc));
    struct accel_scaler_state scaler;
    double scale = accel_scaler_get_state (self->acc, &scaler) ? (double) scaler.scale : 1;
    expect_near (self, "accel_loss_scale", 0.5 * scale, (double) accel_loss_scale (self->acc), 0);
    bool is_there = accel_loss_scale_on_device (self->acc);
    expect (self, "whether the scale is on the device", false, is_there);
    for (int pass = 1; pass <= 2 && !*self->why; pass++) {
        if (!CALL (self, accel_accumulate (self->acc, &self->err, net->model))
            || !CALL (self, accel_backward (self->acc, net->model, 0.5F, backward, net, &self->err))
            || !CALL (self, accel_optimizer_step (optimizer, &self->err)))
            return;
        expect (self, "accel_sync_gradients", pass == 2, accel_sync_gradients (self->acc));
        expect (self, "accel_optimizer_step_was_skipped", false, accel_optimizer_step_was_skipped (optimizer));
        for (int i = 0; i < PARAMETERS; i++) {
            double wanted = pass == 2 ? mean_gradient (self, i) : (self->rank + i) / 2.0;
            expect_near (self, "an accumulated gradient", wanted, (double) grad[i], 1e-4);
            expect_near (self, "a parameter while accumulating", pass == 2 ? 1 - wanted : 1, (double) data[i], 1e-4);
        }
    }
    CALL (self, accel_optimizer_zero_grad (optimizer, &self->err));
    for (int pass = 1; pass <= 3 && !*self->why; pass++) {
        if (!CALL (self, accel_no_sync (self->acc, net->model, &self->err))
            || (pass == 3 && !CALL (self, accel_trigger_sync_in_backward (self->acc, net->model, &self->err)))
            || !CALL (self, accel_backward (self->acc, net->model, 0.5F, backward, net, &self->err))
            || !CALL (self, accel_no_sync_end (self->acc, net->model, &self->err)))
            return;
        for (int i = 0; i < PARAMETERS; i++)
            expect_near (self, "a gradient inside accel_no_sync",
                         pass / 2.0 * (pass == 3 ? mean_gradient (self, i) : self->rank + i), (double) grad[i], 1e-4);
    }
}

static void
check_accumulate (struct self *self)
{
    struct net net;
    struct accel_optimizer *optimizer = NULL;
    struct accel_optimizer_options sgd = { .lr = 1 };
    if (make_net (self, &net)
        && CALL (self, accel_optimizer_create (&optimizer, net.model, ACCEL_SGD, &sgd, &self->err))
        && CALL (self, accel_prepare (self->acc, &self->err, net.model, optimizer))
        && CALL (self, accel_set_gradient_accumulation_steps (self->acc, 2, &self->err)))
        accumulate (self, &net, optimizer);
    accel_set_sync_gradients (self->acc, true);
    if (!(accel_gradient_clipping (self->acc) > 0))
        wrong (self, "accel_gradient_clipping: not greater than 0");
    accel_optimizer_destroy (optimizer);
    accel_model_destroy (net.model);
}

/* Three steps, parameters averaged after the second and at the end, which makes no difference to their mean. */
static void
check_local_sgd (struct self *self)
{
    struct net net;
    struct accel_optimizer *optimizer = NULL;
    struct accel_local_sgd *local_sgd = NULL;
    struct accel_optimizer_options sgd = { .lr = 0.25 };
    if (make_net (self, &net)
        && CALL (self, accel_optimizer_create (&optimizer, net.model, ACCEL_SGD, &sgd, &self->err))
        && CALL (self, accel_prepare (self->acc, &self->err, net.model, optimizer))
        && CALL (self, accel_local_sgd_begin (&local_sgd, self->acc, net.model, 2, true, &self->err))) {
        float *grad = net.grad.dl.data;
        for (int step = 0; step < 3 && !*self->why; step++) {
            memset (grad, 0, PARAMETERS * sizeof *grad);
            if (CALL (self, accel_backward (self->acc, net.model, 0.5F, backward, &net, &self->err))
                && CALL (self, accel_optimizer_step (optimizer, &self->err)))
                CALL (self, accel_local_sgd_step (local_sgd, &self->err));
        }
        CALL (self, accel_local_sgd_end (local_sgd, &self->err));
        for (int i = 0; i < PARAMETERS && !*self->why; i++)
            expect_near (self, "a parameter after local SGD", 1 - 0.75 * mean_gradient (self, i),
                         (double) ((const float *) net.data.dl.data)[i], 1e-4);
    }
    if (!*self->why)
        CALL (self, accel_end_training (self->acc, &self->err));
    accel_optimizer_destroy (optimizer);
    accel_model_destroy (net.model);
}

static void
check_scaler (struct self *self)
{
    struct accel_scaler_state state;
    bool before = accel_autocast_enable (self->acc, false);
    expect (self, "accel_autocast_enable", true, before);
    expect (self, "accel_autocast", ACCEL_FLOAT32, accel_autocast (self->acc));
    accel_autocast_enable (self->acc, before);
    bool scaled = accel_autocast (self->acc) == ACCEL_FLOAT16;
    expect (self, "accel_scaler_get_state", scaled, accel_scaler_get_state (self->acc, &state));
    if (scaled)
        CALL (self, accel_scaler_set_state (self->acc, &state, &self->err));
    else
        expect (self, "accel_scaler_set_state", ACCEL_ERR_INVALID,
                accel_scaler_set_state (self->acc, &state, &self->err));
}

/* A parameter in bfloat16, whose master is what SGD changes: 1 - 2^-10 is not a bfloat16. */
static void
check_masters (struct self *self)
{
    struct net net = { .self = self };
    static const int64_t shape[] = { PARAMETERS };
    struct accel_optimizer *optimizer = NULL;
    struct accel_optimizer_options sgd = { .lr = 0x1p-10 };
    float ones[PARAMETERS], back[PARAMETERS];
    for (int i = 0; i < PARAMETERS; i++)
        ones[i] = 1;
    check_scaler (self);
    struct accel_parameter parameter = { "weight", &net.data.dl, &net.grad.dl };
    if (*self->why || !CALL (self, accel_tensor_init (&net.data, ACCEL_BFLOAT16, 1, shape, &self->err))
        || !CALL (self, accel_tensor_init (&net.grad, ACCEL_FLOAT32, 1, shape, &self->err))
        || !CALL (self, accel_model_create (&net.model, &parameter, 1, &self->err)))
        return;
    void *data = net.data.dl.data;
    if (CALL (self, accel_optimizer_create (&optimizer, net.model, ACCEL_SGD, &sgd, &self->err))
        && CALL (self, accel_prepare (self->acc, &self->err, net.model, optimizer))
        && CALL (self, accel_convert (ones, ACCEL_FLOAT32, data, ACCEL_BFLOAT16, PARAMETERS, &self->err))) {
        accel_model_widen (net.model);
        memcpy (net.grad.dl.data, ones, sizeof ones);
        if (CALL (self, accel_optimizer_step (optimizer, &self->err))
            && CALL (self, accel_convert (data, ACCEL_BFLOAT16, back, ACCEL_FLOAT32, PARAMETERS, &self->err))) {
            bool scaled = accel_autocast (self->acc) == ACCEL_FLOAT16;
            const float *master = accel_model_master (net.model, 0)->data;
            expect (self, "accel_optimizer_step_was_skipped", false, accel_optimizer_step_was_skipped (optimizer));
            expect_near (self, "accel_model_master", scaled ? 1 : 1 - 0x1p-10, (double) master[0], scaled ? 1e-6 : 0);
            expect_near (self, "a parameter in bfloat16", 1, (double) back[0], 0);
            accel_model_narrow (net.model);
            expect_near (self, "accel_model_scale", 1, (double) accel_model_scale (net.model, 0), 0);
        }
    }
    accel_optimizer_destroy (optimizer);
    accel_model_destroy (net.model);
}

/* The mean loss of ranks whose losses differ; nothing is an outlier while the window fills. */
static void
check_outliers (struct self *self)
{
    double mean = 0;
    if (!CALL (self, accel_outlier_watch (self->acc, NULL, &self->err))
        || !CALL (self, accel_outlier_loss (self->acc, self->rank, &mean, &self->err)))
        return;
    expect_near (self, "accel_outlier_loss", (self->size - 1) / 2.0, mean, 1e-12);
    uint64_t count = 1;
    double zscore = 1;
    accel_outlier_get (self->acc, ACCEL_OUTLIER_LOSS, &count, &zscore);
    expect (self, "accel_outlier_get", 0, (long long) count);
    expect_near (self, "accel_outlier_get", 0, zscore, 0);
}

const struct step train_steps[] = {
    { "data loaders", check_loader },
    { "training with SGD", check_sgd },
    { "training with AdamW", check_adamw },
    { "gradients when ready", check_ready },
    { "sharded training", check_sharding },
    { "uneven inputs", check_join },
    { "other optimizers, clipping", check_optimizers },
    { "learning rates", check_scheduler },
    { "gradient accumulation", check_accumulate },
    { "masters and scaler", check_masters },
    { "local SGD", check_local_sgd },
    { "outliers", check_outliers },
    { NULL, NULL },
};
