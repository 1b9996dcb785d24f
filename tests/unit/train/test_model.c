/* SPDX-License-Identifier: Apache-2.0 */
/* Models, and prepare and backward in one process: what is refused, who owns which memory, in which order things go. */
#include <config.h>

#include "tests/tap.h"

#include <accel/accel.h>

#include <math.h>
#include <stdlib.h>

static struct accel *acc;
static int64_t shape_6[] = { 6 }, shape_2x3[] = { 2, 3 }, shape_3x2[] = { 3, 2 }, shape_0[] = { 4, 0 };
static int64_t strides_rows[] = { 3, 1 }, strides_columns[] = { 1, 2 }, shape_negative[] = { -1 };
static int64_t strides_of_none[] = { 1, 1 }, shape_huge[] = { INT64_C (1) << 32, INT64_C (1) << 32 };

static DLTensor
make_tensor (int ndim, int64_t *shape)
{
    return (DLTensor){ .device = { kDLCPU, 0 }, .ndim = ndim, .dtype = accel_dtype_to_dl (ACCEL_FLOAT32),
                       .shape = shape };
}

/* A model of a 2x3 parameter, a vector of 6 without a gradient, and a number. */
struct example {
    DLTensor data[3], grads[3];
    struct accel_parameter parameters[3];
    struct accel_model *model;
};

static void
make_example (struct example *example)
{
    static const char *const names[] = { "weight", "running", "scale" };
    struct accel_error err;
    *example = (struct example){
        .data = { make_tensor (2, shape_2x3), make_tensor (1, shape_6), make_tensor (0, NULL) },
    };
    memcpy (example->grads, example->data, sizeof example->data);
    for (int i = 0; i < 3; i++)
        example->parameters[i]
            = (struct accel_parameter){ names[i], &example->data[i], i == 1 ? NULL : &example->grads[i] };
    if (accel_model_create (&example->model, example->parameters, 3, &err)) {
        printf ("Bail out! %s\n", err.text);
        exit (99);
    }
}

static void
test_refusals (void)
{
    DLTensor good = make_tensor (2, shape_2x3), turned = make_tensor (2, shape_3x2), flat = make_tensor (1, shape_6);
    DLTensor number = make_tensor (0, NULL), shapeless = make_tensor (2, NULL);
    DLTensor negative = make_tensor (1, shape_negative), odd = make_tensor (-1, shape_6);
    DLTensor wide = good, whole = good, vector = good, columns = good, shifted = good, remote = good;
    DLTensor nibbles = good, tiny = good, huge = make_tensor (2, shape_huge);
    tiny.dtype = accel_dtype_to_dl (ACCEL_FLOAT8_E4M3FN);
    nibbles.dtype.bits = 4;
    wide.dtype = accel_dtype_to_dl (ACCEL_FLOAT64);
    whole.dtype = accel_dtype_to_dl (ACCEL_INT32);
    vector.dtype.lanes = 4;
    columns.strides = strides_columns;
    shifted.byte_offset = 4;
    remote.device.device_type = kDLCUDA;
    struct {
        const char *why;
        struct accel_parameter parameters[2];
        size_t count;
        enum accel_status status;
        const char *word;
    } cases[] = {
        { "no parameters", { { 0 } }, 0, ACCEL_ERR_INVALID, "at least one" },
        { "no name", { { "a", &good, NULL }, { NULL, &good, NULL } }, 2, ACCEL_ERR_INVALID, "parameter 1" },
        { "empty name", { { "", &good, NULL } }, 1, ACCEL_ERR_INVALID, "parameter 0" },
        { "the same name twice", { { "a", &good, NULL }, { "a", &flat, NULL } }, 2, ACCEL_ERR_INVALID, "'a'" },
        { "no tensor", { { "a", NULL, &good } }, 1, ACCEL_ERR_INVALID, "'a'" },
        { "no shape", { { "a", &shapeless, NULL } }, 1, ACCEL_ERR_INVALID, "no shape" },
        { "negative size", { { "a", &negative, NULL } }, 1, ACCEL_ERR_INVALID, "negative" },
        { "negative ndim", { { "a", &odd, NULL } }, 1, ACCEL_ERR_INVALID, "'a'" },
        { "gradient of another shape", { { "a", &good, &turned } }, 1, ACCEL_ERR_INVALID, "shape" },
        { "gradient of other dimensions", { { "a", &good, &flat } }, 1, ACCEL_ERR_INVALID, "shape" },
        { "gradient without dimensions", { { "a", &good, &number } }, 1, ACCEL_ERR_INVALID, "shape" },
        { "its own gradient", { { "a", &good, &good } }, 1, ACCEL_ERR_INVALID, "own gradient" },
        { "float64", { { "a", &wide, &good } }, 1, ACCEL_ERR_UNSUPPORTED, "float64" },
        { "int32", { { "a", &whole, &good } }, 1, ACCEL_ERR_UNSUPPORTED, "int32" },
        { "four lanes", { { "a", &vector, &good } }, 1, ACCEL_ERR_UNSUPPORTED, "float32" },
        { "gradient in float64", { { "a", &good, &wide } }, 1, ACCEL_ERR_UNSUPPORTED, "gradient" },
        { "gradient in float8", { { "a", &good, &tiny } }, 1, ACCEL_ERR_UNSUPPORTED, "gradient" },
        { "no whole bytes", { { "a", &nibbles, NULL } }, 1, ACCEL_ERR_UNSUPPORTED, "bytes" },
        { "column-major", { { "a", &columns, NULL } }, 1, ACCEL_ERR_UNSUPPORTED, "contiguous" },
        { "byte_offset", { { "a", &shifted, NULL } }, 1, ACCEL_ERR_UNSUPPORTED, "contiguous" },
        { "too many elements", { { "a", &huge, NULL } }, 1, ACCEL_ERR_INVALID, "size overflows" },
        { "on a device", { { "a", &remote, NULL } }, 1, ACCEL_ERR_UNSUPPORTED, "on cuda:0, but" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct accel_model *model = (void *) &good;
        struct accel_error err = { 0 };
        enum accel_status status = accel_model_create (&model, cases[i].parameters, cases[i].count, &err);
        ok (status == cases[i].status && err.code == status && !model && strstr (err.text, cases[i].word), "%s: %s",
            cases[i].why, err.text);
    }
    ok (!good.data && !flat.data, "no memory was left in the program's tensors");
}

static void
test_memory (void)
{
    struct example example;
    float own[6] = { 1, 2, 3, 4, 5, 6 };
    DLTensor data = make_tensor (2, shape_2x3), empty = make_tensor (2, shape_0), none = make_tensor (2, shape_0);
    make_example (&example);
    const float *weight = example.data[0].data;
    bool zero = weight != NULL;
    for (int i = 0; zero && i < 6; i++)
        zero = weight[i] == 0;
    ok (zero && example.data[1].data && example.data[2].data, "parameters without memory get it, zeroed");
    ok (!example.grads[0].data && !example.grads[2].data, "gradients do not yet");
    ok (accel_model_parameter_count (example.model) == 3 && !accel_model_parameter (example.model, 3), "the count");
    is_text (accel_model_parameter (example.model, 2)->name, "scale", "a parameter by its index");
    ok (accel_model_parameter (example.model, 2)->data == &example.data[2], "with the program's tensor");
    accel_model_destroy (example.model);
    ok (!example.data[0].data && !example.data[1].data && !example.data[2].data, "destroy: tensors forget our memory");

    char name[] = "own";
    struct accel_parameter parameters[] = { { name, &data, NULL }, { "empty", &empty, &none } };
    struct accel_model *model;
    struct accel_error err = { 0 };
    data.data = own;
    data.strides = strides_rows;
    empty.strides = strides_of_none; /* as PyTorch has them */
    ok (!accel_model_create (&model, parameters, 2, &err), "own memory, contiguous strides, no elements %s", err.text);
    name[0] = 'X';
    is_text (accel_model_parameter (model, 0)->name, "own", "names are copied");
    struct accel_optimizer *optimizer = NULL;
    const struct accel_optimizer_options sgd = { .lr = 1 };
    ok (!accel_optimizer_create (&optimizer, model, ACCEL_SGD, &sgd, &err)
            && !accel_optimizer_zero_grad (optimizer, &err) && !none.data,
        "a gradient without elements needs no memory %s", err.text);
    accel_optimizer_destroy (optimizer);
    ok (!accel_prepare (acc, &err, model), "prepare with nothing to train %s", err.text);
    accel_model_destroy (model);
    ok (data.data == own && own[5] == 6 && !empty.data && !none.data, "destroy: the program's memory stays its own");
    ok (accel_model_create (NULL, parameters, 1, &err) == ACCEL_ERR_INVALID, "no place: %s", err.text);
    ok (accel_model_create (&model, NULL, 1, &err) == ACCEL_ERR_INVALID && !model, "no array: %s", err.text);
    accel_model_destroy (NULL);
}

static void
test_prepare (void)
{
    struct example example;
    struct accel_optimizer *optimizer;
    struct accel_error err = { 0 };
    make_example (&example);
    ok (!accel_optimizer_create (&optimizer, example.model, ACCEL_ADAMW, NULL, &err), "an optimizer before prepare");
    ok (accel_optimizer_step (optimizer, &err) == ACCEL_ERR_INVALID && strstr (err.text, "'weight'")
            && strstr (err.text, "accel_prepare"),
        "a step before prepare: %s", err.text);
    ok (accel_optimizer_zero_grad (optimizer, &err) == ACCEL_ERR_INVALID, "zero_grad before prepare: %s", err.text);
    ok (!accel_prepare (acc, &err, NULL, optimizer, example.model, NULL), "prepare, with NULLs in between");
    const float *grad = example.grads[0].data, *scale = example.grads[2].data;
    ok (grad && scale && grad[0] == 0 && grad[5] == 0 && *scale == 0, "gradients have memory, zeroed");
    ok (!accel_prepare (acc, &err, optimizer, example.model) && example.grads[0].data == grad, "prepare once more");
    ok (!accel_prepare (acc, NULL, example.model, example.model), "twice at once, without an error object");
    ok (!accel_prepare (acc, &err, NULL), "nothing at all");
    ok (!accel_optimizer_step (optimizer, &err), "a step after prepare");
    accel_optimizer_destroy (optimizer);
    accel_model_destroy (example.model);
    ok (!example.grads[0].data && !example.grads[2].data && !example.data[0].data, "destroy: everything is forgotten");

    make_example (&example);
    ok (!accel_prepare (acc, &err, example.model) && example.grads[2].data, "the same tensors in another model");
    accel_model_destroy (example.model);
}

static void
test_own_gradients (void)
{
    struct example example;
    float own[7] = { 1, 2, 3, 4, 5, 6, 7 };
    make_example (&example);
    example.grads[0].data = own;
    ok (!accel_prepare (acc, NULL, example.model) && example.grads[0].data == own && example.grads[2].data,
        "a gradient of the program's own stays, the other gets memory");
    ok (own[0] == 1 && own[5] == 6, "and its values");
    accel_model_destroy (example.model);
    ok (example.grads[0].data == own && !example.grads[2].data, "destroy forgets only the other");
}

static void
test_strangers (void)
{
    struct example example;
    struct accel *other = NULL;
    struct accel_error err = { 0 };
    uint64_t stranger[8] = { 1, 2, 3 };
    make_example (&example);
    ok (accel_prepare (acc, &err, acc) == ACCEL_ERR_INVALID && strstr (err.text, "object 1")
            && accel_prepare (acc, &err, accel_world (acc)) == ACCEL_ERR_INVALID,
        "neither the job nor its communicator can be prepared");
    ok (accel_prepare (acc, &err, example.model, stranger) == ACCEL_ERR_INVALID && strstr (err.text, "object 2"),
        "an invalid object: %s", err.text);
    ok (accel_prepare (NULL, &err, example.model) == ACCEL_ERR_INVALID, "no acc: %s", err.text);
    if (accel_open (&other, NULL, &err)) {
        skip ("a second struct accel: %s", err.text);
    } else {
        ok (accel_prepare (other, &err, example.model) == ACCEL_ERR_INVALID && strstr (err.text, "another"),
            "a model of another struct accel: %s", err.text);
        struct example moved;
        struct accel_optimizer *sgd = NULL;
        make_example (&moved);
        ok (!accel_optimizer_create (&sgd, moved.model, ACCEL_SGD, &(struct accel_optimizer_options){ .lr = 0.1 }, &err)
                && !accel_prepare (other, &err, moved.model, sgd) && !accel_free_memory (other, &err)
                && !accel_prepare (acc, &err, moved.model, sgd),
            "what one struct accel has released, another can prepare%s", err.text);
        accel_optimizer_destroy (sgd);
        accel_model_destroy (moved.model);
        accel_close (other);
    }
    accel_model_destroy (example.model);
}

struct pass {
    float *grad;
    enum accel_status status;
    const char *text;
    float scale;
};

static enum accel_status
backward (void *user, float scale, struct accel_error *err)
{
    struct pass *pass = user;
    pass->scale = scale;
    if (pass->grad)
        pass->grad[3] += 2 * scale;
    if (pass->status && pass->text)
        snprintf (err->text, sizeof err->text, "%s", pass->text);
    return pass->status;
}

static void
test_backward (void)
{
    struct example example;
    struct accel_error err = { 0 };
    struct pass pass = { 0 };
    make_example (&example);
    ok (accel_backward (acc, example.model, 1, backward, &pass, &err) == ACCEL_ERR_INVALID && pass.scale == 0,
        "before prepare: %s", err.text);
    if (accel_prepare (acc, &err, example.model))
        ok (false, "prepare: %s", err.text);
    pass.grad = example.grads[0].data;
    ok (!accel_backward (acc, example.model, 1, backward, &pass, &err) && pass.scale == 1 && pass.grad[3] == 2, "once");
    ok (!accel_backward (acc, example.model, 1, backward, &pass, &err) && pass.grad[3] == 4, "gradients add up");
    ok (accel_backward (acc, example.model, 1, NULL, &pass, &err) == ACCEL_ERR_INVALID, "no function: %s", err.text);
    ok (accel_backward (acc, NULL, 1, backward, &pass, &err) == ACCEL_ERR_INVALID, "no model: %s", err.text);
    ok (accel_backward (NULL, example.model, 1, backward, &pass, &err) == ACCEL_ERR_INVALID, "no acc: %s", err.text);
    ok (!accel_average_gradients (acc, example.model, &err) && pass.grad[3] == 4, "a process alone averages nothing");
    accel_model_destroy (example.model);
}

/* By itself, as a failed backward pass is the end of the communicator. */
static void
test_failing_backward (void)
{
    struct example example;
    struct accel_error err = { 0 };
    struct pass pass = { .status = ACCEL_ERR_NOMEM, .text = "no room\nfor activations" };
    make_example (&example);
    if (accel_prepare (acc, &err, example.model))
        ok (false, "prepare: %s", err.text);
    ok (accel_backward (acc, example.model, 0.5F, backward, &pass, &err) == ACCEL_ERR_CALLBACK
            && err.code == ACCEL_ERR_CALLBACK && strstr (err.text, "rank 0") && strstr (err.text, "0.5")
            && strstr (err.text, "no room for activations"),
        "it fails: %s", err.text);
    pass.text = NULL;
    ok (accel_backward (acc, example.model, 1, backward, &pass, &err) == ACCEL_ERR_CALLBACK
            && strstr (err.text, accel_status_string (ACCEL_ERR_NOMEM)),
        "and says nothing: %s", err.text);
    ok (accel_backward (acc, example.model, 1, backward, &pass, NULL) == ACCEL_ERR_CALLBACK, "without an error object");
    accel_model_destroy (example.model);
}

static enum accel_status
read_sample (void *user, size_t index, void *const *into, struct accel_error *err)
{
    (void) user, (void) err;
    *(float *) into[0] = (float) index;
    return ACCEL_OK;
}

/* Gather a batch's values; how many rows come back. */
static int64_t
gathered (const struct accel_batch *batch)
{
    struct accel_tensor out = { 0 };
    int64_t rows = accel_gather_for_metrics (&out, acc, accel_batch_tensor (batch, "x"), NULL) ? -1 : out.shape[0];
    accel_tensor_release (&out);
    return rows;
}

/* Loops in loops, left and destroyed in an order that is not theirs. */
static void
test_loaders (void)
{
    static const struct accel_field field = { "x", ACCEL_FLOAT32, 0, { 0 } };
    struct accel_dataset small = { 3, &field, 1, read_sample, NULL }, large = small;
    struct accel_loader_options options = { .batch_size = 2 };
    struct accel_loader *outer, *inner;
    const struct accel_batch *batch, *other;
    struct accel_error err;
    large.size = 8;
    if (accel_loader_create (&outer, &large, &options, &err) || accel_loader_create (&inner, &small, &options, &err)
        || accel_prepare (acc, &err, outer, inner)) {
        ok (false, "loaders: %s", err.text);
        return;
    }
    ok (accel_loader_next (outer, &batch, NULL) && gathered (batch) == 2, "the outer loop");
    ok (accel_loader_next (inner, &other, NULL) && accel_loader_next (inner, &other, NULL) && gathered (other) == 1
            && gathered (batch) == 1,
        "at the end of the inner one its remainder counts");
    ok (!accel_loader_next (inner, &other, NULL) && gathered (batch) == 2, "after it the outer one's");
    ok (accel_loader_next (inner, &other, NULL), "the inner loop again");
    ok (accel_prepare (acc, &err, outer) == ACCEL_OK, "already prepared: also in the middle of an epoch");
    accel_loader_destroy (outer);
    ok (gathered (other) == 2, "the outer one is gone");
    accel_loader_end (inner);
    ok (accel_loader_next (inner, &other, NULL) && gathered (other) == 2, "the inner one loops alone");
    accel_loader_destroy (inner);
    float row[4] = { 0 };
    struct accel_tensor out = { 0 };
    DLTensor rows = make_tensor (1, (int64_t[]){ 4 });
    rows.data = row;
    ok (!accel_gather_for_metrics (&out, acc, &rows, &err) && out.shape[0] == 4, "no loader is left to ask");
    accel_tensor_release (&out);

    if (accel_loader_create (&outer, &large, &options, &err))
        return;
    ok (accel_loader_next (outer, &batch, NULL), "a loader that was never prepared");
    ok (accel_prepare (acc, &err, outer) == ACCEL_ERR_INVALID, "cannot be in the middle of an epoch: %s", err.text);
    accel_loader_end (outer);
    ok (accel_prepare (acc, &err, outer) == ACCEL_OK, "but after it");
    accel_loader_destroy (outer);
}

/* What is prepared may outlive its struct accel, and goes in any order. */
static void
test_close (void)
{
    static const struct accel_field field = { "x", ACCEL_FLOAT32, 0, { 0 } };
    struct accel_dataset dataset = { 4, &field, 1, read_sample, NULL };
    struct accel_loader_options options = { .batch_size = 1 };
    for (int order = 0; order < 3; order++) {
        struct example example;
        struct accel *other;
        struct accel_optimizer *optimizer;
        struct accel_scheduler *scheduler;
        struct accel_loader *loader;
        const struct accel_batch *batch;
        struct accel_error err = { 0 };
        make_example (&example);
        if (!ok (!accel_open (&other, NULL, &err) && !accel_optimizer_create (&optimizer, example.model, ACCEL_ADAMW,
                                                                              NULL, &err)
                     && !accel_scheduler_create (&scheduler, optimizer, &(struct accel_scheduler_options){ 0 }, &err)
                     && !accel_loader_create (&loader, &dataset, &options, &err)
                     && !accel_prepare (other, &err, loader, scheduler, optimizer, example.model)
                     && accel_loader_next (loader, &batch, &err),
                 "order %d %s", order, err.text))
            return;
        if (order == 1) /* also what others are made of goes first */
            accel_model_destroy (example.model);
        accel_close (other);
        ok (order == 1 || (!example.grads[0].data && example.data[0].data), "closed: no gradients");
        if (order != 1)
            ok (accel_optimizer_step (optimizer, &err) == ACCEL_ERR_INVALID
                    && accel_backward (acc, example.model, 1, backward, NULL, &err) == ACCEL_ERR_INVALID,
                "of no job: %s", err.text);
        if (order == 2) {
            ok (!accel_prepare (acc, &err, example.model, optimizer, scheduler, loader)
                    && accel_loader_next (loader, &batch, &err) && !accel_optimizer_step (optimizer, &err),
                "prepared with another one %s", err.text);
            accel_model_destroy (example.model);
        }
        accel_optimizer_destroy (optimizer);
        accel_scheduler_destroy (scheduler);
        accel_loader_destroy (loader);
        if (!order)
            accel_model_destroy (example.model);
    }
}

/* NULL is refused by what can fail, and nothing to what cannot. */
static void
test_nothing (void)
{
    struct accel_error err = { 0 };
    struct accel_scaler_state scaler = { .scale = 1 };
    struct {
        const char *name;
        enum accel_status status;
    } calls[] = {
        { "open", accel_open (NULL, NULL, &err) },
        { "set_ddp", accel_model_set_ddp (NULL, NULL, &err) },
        { "sgd", accel_optimizer_create (NULL, NULL, ACCEL_SGD, NULL, &err) },
        { "adam", accel_optimizer_create (NULL, NULL, ACCEL_ADAM, NULL, &err) },
        { "adamw", accel_optimizer_create (NULL, NULL, ACCEL_ADAMW, NULL, &err) },
        { "lion", accel_optimizer_create (NULL, NULL, ACCEL_LION, NULL, &err) },
        { "custom", accel_optimizer_create_custom (NULL, NULL, NULL, &err) },
        { "step", accel_optimizer_step (NULL, &err) },
        { "zero_grad", accel_optimizer_zero_grad (NULL, &err) },
        { "prepare", accel_prepare (NULL, &err, NULL) },
        { "unwrap", accel_unwrap_model (NULL, NULL, &err) },
        { "free_memory", accel_free_memory (NULL, &err) },
        { "grad_ready", accel_grad_ready (NULL, 0, &err) },
        { "backward", accel_backward (NULL, NULL, 0, NULL, NULL, &err) },
        { "average", accel_average_gradients (NULL, NULL, &err) },
        { "join", accel_join_uneven_inputs (NULL, ACCEL_DEFAULT, &err) },
        { "join_end", accel_join_end (NULL, &err) },
        { "set_steps", accel_set_gradient_accumulation_steps (NULL, 1, &err) },
        { "accumulate", accel_accumulate (NULL, &err) },
        { "no_sync", accel_no_sync (NULL, NULL, &err) },
        { "no_sync_end", accel_no_sync_end (NULL, NULL, &err) },
        { "trigger", accel_trigger_sync_in_backward (NULL, NULL, &err) },
        { "local_sgd_begin", accel_local_sgd_begin (NULL, NULL, NULL, 1, true, &err) },
        { "local_sgd_step", accel_local_sgd_step (NULL, &err) },
        { "clip_grad_norm", accel_clip_grad_norm (NULL, 1, NULL, NULL, &err) },
        { "clip_grad_value", accel_clip_grad_value (NULL, 1, &err) },
        { "scaler_set_state", accel_scaler_set_state (NULL, NULL, &err) },
        { "unscale", accel_unscale_gradients (NULL, NULL, &err) },
        { "convert", accel_convert (NULL, ACCEL_FLOAT32, NULL, ACCEL_FLOAT16, 1, &err) },
        { "scheduler_create", accel_scheduler_create (NULL, NULL, NULL, &err) },
        { "scheduler_step", accel_scheduler_step (NULL, &err) },
        { "scheduler_set_state", accel_scheduler_set_state (NULL, NULL, 1, &err) },
        { "end_training", accel_end_training (NULL, &err) },
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        ok (calls[i].status == ACCEL_ERR_INVALID, "NULL: %s", calls[i].name);
    ok (!accel_local_sgd_end (NULL, &err), "nothing to end");
    accel_model_widen (NULL);
    accel_model_narrow (NULL);
    accel_optimizer_set_step_count (NULL, 1);
    accel_set_sync_gradients (NULL, false);
    accel_scheduler_get_state (NULL, NULL);
    ok (!accel_scheduler_state_count (NULL) && !accel_scaler_get_state (NULL, NULL)
            && !accel_scaler_get_state (NULL, &scaler)
            && scaler.scale == 0,
        "states of nothing");
    ok (!accel_model_parameter_count (NULL) && !accel_model_parameter (NULL, 0) && !accel_model_master (NULL, 0)
            && accel_model_scale (NULL, 0) == 1,
        "no model");
    ok (accel_optimizer_lr (NULL) == 0 && !accel_optimizer_state_name (NULL, 0)
            && !accel_optimizer_state_tensor (NULL, 0, "momentum_buffer") && !accel_optimizer_step_count (NULL)
            && !accel_optimizer_step_was_skipped (NULL) && accel_scheduler_lr (NULL) == 0,
        "no optimizer");
    ok (accel_gradient_accumulation_steps (NULL) == 1 && accel_sync_gradients (NULL)
            && accel_autocast_enable (NULL, true) && accel_autocast (NULL) == ACCEL_FLOAT32
            && isinf (accel_gradient_clipping (NULL)) && accel_loss_scale (NULL) == 1,
        "no job");
}

static void
refuse_values (const char *words, struct accel_model *model, struct accel_initializer row)
{
    struct accel_error err;
    const struct accel_initializer rows[] = { { .mean = 3 }, row };
    ok (accel_model_initialize (model, rows, 2, accel_default_generator (), &err) == ACCEL_ERR_INVALID
            && strstr (err.text, words), "refused: %s", err.text);
}

/* A matrix of 16 bits, a vector, and a buffer. */
static void
test_initialize (void)
{
    struct example example;
    struct accel_generator *generator = accel_default_generator ();
    struct accel_error err;
    float drawn[6], number = 7;
    uint16_t rounded[6];
    const struct accel_initializer rows[] = { { "*e", -2, 0 }, { "[sw]*", 1, 0.5 } };
    make_example (&example);
    accel_model_destroy (example.model);
    example.data[0].dtype = accel_dtype_to_dl (ACCEL_BFLOAT16);
    example.data[0].data = example.data[1].data = NULL;
    example.data[2].data = &number;
    accel_generator_seed (generator, 5);
    ok (!accel_generator_fill_normal (generator, drawn, 6, ACCEL_FLOAT32, 1, 0.5, &err)
            && !accel_convert (drawn, ACCEL_FLOAT32, rounded, ACCEL_BFLOAT16, 6, NULL)
            && !accel_model_create (&example.model, example.parameters, 3, &err), "a model of 16 bits");
    accel_generator_seed (generator, 5);
    ok (!accel_model_initialize (example.model, rows, 2, generator, &err)
            && !memcmp (accel_model_master (example.model, 0)->data, drawn, sizeof drawn)
            && !memcmp (example.data[0].data, rounded, sizeof rounded), "normal values, and rounded: %s", err.text);
    ok (number == -2 && ((float *) example.data[1].data)[5] == 0, "the first row counts; buffers are left out");
    refuse_values ("row 1: 'running' matches no trained", example.model, (struct accel_initializer){ "running", 0, 1 });
    refuse_values ("row 1: invalid mean nan", example.model, (struct accel_initializer){ "*", NAN, 1 });
    refuse_values ("std -1", example.model, (struct accel_initializer){ "*", 0, -1 });
    refuse_values ("std inf", example.model, (struct accel_initializer){ "*", 0, INFINITY });
    ok (number == -2, "refused rows change nothing");
    ok (!accel_prepare (acc, &err, example.model), "prepared");
    refuse_values ("already prepared", example.model, (struct accel_initializer){ "*", 0, 1 });
    ok (accel_model_initialize (NULL, rows, 2, generator, &err) == ACCEL_ERR_INVALID
            && accel_model_initialize (example.model, NULL, 2, generator, &err) == ACCEL_ERR_INVALID
            && accel_model_initialize (example.model, rows, 2, NULL, &err) == ACCEL_ERR_INVALID, "NULL: %s", err.text);
    accel_model_destroy (example.model);
}

int
main (void)
{
    struct accel_error err;
    static const char *const names[] = { "RANK", "WORLD_SIZE", "LOCAL_RANK", "ACCEL_ENGINE",
                                         "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv (names[i]);
    if (accel_open (&acc, NULL, &err)) {
        printf ("Bail out! %s\n", err.text);
        return 99;
    }
    test_refusals ();
    test_memory ();
    test_initialize ();
    test_prepare ();
    test_own_gradients ();
    test_strangers ();
    test_backward ();
    test_loaders ();
    test_nothing ();
    test_close ();
    test_failing_backward ();
    accel_close (acc);
    return done_testing ();
}
