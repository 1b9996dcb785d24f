/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of ranks that compute on GPUs: tensors go there and back, and collectives and training give there what they
 * give on the host.  A rank without a GPU leaves them out, and so do all others. */
#include <config.h>

#include "selftest/selftest.h"

#include <stdlib.h>
#include <string.h>

enum { ELEMENTS = 1000, WEIGHTS = 300, PASSES = 3 };

bool
device_is_everywhere (struct self *self)
{
    int32_t mine = accel_device (self->acc).device_type == kDLCUDA, all = 0;
    return CALL (self, accel_comm_all_reduce (self->world, &mine, &all, 1, ACCEL_INT32, ACCEL_MIN, &self->err)) && all;
}

/* ---- tensors ---- */

/* @return the tensor's copy on @to, a tree that the caller destroys; NULL: that went wrong */
static struct accel_tree *
send (struct self *self, const DLTensor *tensor, DLDevice to)
{
    struct accel_tree *leaf = NULL, *sent = NULL;
    if (CALL (self, accel_tree_borrow_tensor (&leaf, tensor, &self->err)))
        CALL (self, accel_send_to_device (&sent, leaf, to, NULL, &self->err));
    accel_tree_destroy (leaf);
    return sent;
}

/* Bring @tensor to the host.  @param to  as many bytes as it has */
static bool
fetch (struct self *self, const DLTensor *tensor, void *to, size_t bytes)
{
    struct accel_tree *back = send (self, tensor, (DLDevice){ .device_type = kDLCPU });
    if (back)
        memcpy (to, accel_tree_tensor (back)->data, bytes);
    accel_tree_destroy (back);
    return back;
}

/* A tensor of @count small numbers in @values, which the caller owns. */
static bool
describe (struct self *self, struct accel_tensor *tensor, enum accel_dtype dtype, void *values, size_t count)
{
    const int64_t shape[] = { (int64_t) count };
    if (!CALL (self, accel_tensor_init (tensor, dtype, 1, shape, &self->err)))
        return false;
    tensor->dl.data = values;
    return true;
}

static void
round_trip (struct self *self, enum accel_dtype dtype)
{
    char values[ELEMENTS * 8], got[sizeof values] = { 0 };
    struct accel_tensor tensor;
    DLDevice device = accel_device (self->acc);
    for (size_t i = 0; i < ELEMENTS; i++)
        put_value (dtype, values, i, (double) (i % 16));
    if (!describe (self, &tensor, dtype, values, ELEMENTS))
        return;
    struct accel_tree *there = send (self, &tensor.dl, device);
    if (!there)
        return;
    const DLTensor *sent = accel_tree_tensor (there);
    expect (self, "the kind of device of a tensor that was sent", kDLCUDA, (long long) sent->device.device_type);
    expect (self, "the device of a tensor that was sent", device.device_id, sent->device.device_id);
    if (fetch (self, sent, got, ELEMENTS * accel_dtype_bytes (dtype)))
        for (size_t i = 0; i < ELEMENTS && !*self->why; i++)
            expect_near (self, "an element that came back", (double) (i % 16), get_value (dtype, got, i), 0);
    accel_tree_destroy (there);
}

static void
check_round_trip (struct self *self)
{
    static const enum accel_dtype dtypes[]
        = { ACCEL_FLOAT32, ACCEL_FLOAT16, ACCEL_BFLOAT16, ACCEL_FLOAT64, ACCEL_INT32, ACCEL_INT64, ACCEL_UINT8 };
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes && !*self->why; i++)
        round_trip (self, dtypes[i]);
}

/* ---- collectives ---- */

static double
value_of (int rank, size_t i)
{
    return (double) ((size_t) rank * 3 + i % 5);
}

/* Of sums, which are the same on all ranks, on the stream that is the device's, too. */
static bool
take_largest (struct self *self, void *values)
{
    void *stream = accel_get_stream (accel_device (self->acc));
    return CALL (self, accel_comm_set_stream (self->world, stream, &self->err))
           && CALL (self, accel_comm_all_reduce (self->world, values, values, ELEMENTS, ACCEL_FLOAT32, ACCEL_MAX,
                                                 &self->err))
           && CALL (self, accel_comm_set_stream (self->world, NULL, &self->err));
}

static void
check_reduce (struct self *self)
{
    struct accel_tensor tensor;
    float values[ELEMENTS], got[ELEMENTS] = { 0 };
    for (size_t i = 0; i < ELEMENTS; i++)
        values[i] = (float) value_of (self->rank, i);
    struct accel_tree *there
        = describe (self, &tensor, ACCEL_FLOAT32, values, ELEMENTS) ? send (self, &tensor.dl, accel_device (self->acc))
                                                                    : NULL;
    if (!there)
        return;
    DLTensor sent = *accel_tree_tensor (there);
    if (CALL (self, accel_reduce (self->acc, &sent, ACCEL_SUM, 1, &self->err)) && take_largest (self, sent.data)
        && fetch (self, &sent, got, sizeof got))
        for (size_t i = 0; i < ELEMENTS && !*self->why; i++) {
            double sum = 0;
            for (int rank = 0; rank < self->size; rank++)
                sum += value_of (rank, i);
            expect_near (self, "an element of a sum on the GPU", sum, (double) got[i], 0);
        }
    accel_tree_destroy (there);
}

static void
check_gather (struct self *self)
{
    struct accel_tensor tensor, all = { 0 };
    int32_t mine[3] = { self->rank, self->rank + 1, -self->rank };
    struct accel_tree *there
        = describe (self, &tensor, ACCEL_INT32, mine, 3) ? send (self, &tensor.dl, accel_device (self->acc)) : NULL;
    int32_t *got = calloc ((size_t) self->size, sizeof mine);
    if (!got)
        wrong (self, "out of memory");
    if (there && got && CALL (self, accel_gather (&all, self->acc, accel_tree_tensor (there), &self->err))
        && expect (self, "elements gathered on the GPU", 3 * self->size, (long long) accel_tensor_count (&all.dl))
        && fetch (self, &all.dl, got, (size_t) self->size * sizeof mine))
        for (int rank = 0; rank < self->size; rank++) {
            expect (self, "an element gathered on the GPU", rank + 1, got[3 * rank + 1]);
            expect (self, "an element gathered on the GPU", -rank, got[3 * rank + 2]);
        }
    accel_tensor_release (&all);
    accel_tree_destroy (there);
    free (got);
}

/* ---- training ---- */

/* Two equal models, on the host and on the GPU.  What their gradients are, the program has written before the backward
 * pass: they are not zeroed, so each pass has those that clipping left. */
struct twin {
    struct accel_tree *trees[2]; /* the parameter and its gradient on the GPU */
    DLTensor tensors[2];
    struct accel_model *model;
    struct accel_optimizer *optimizer;
};

static enum accel_status
written_before (void *user, float scale, struct accel_error *err)
{
    (void) user, (void) scale, (void) err;
    return ACCEL_OK;
}

static bool
make_twin (struct self *self, struct twin *twin, const struct accel_tensor host[2], bool gpu)
{
    const struct accel_optimizer_options adamw = { .lr = 0.1, .weight_decay = 0.01 };
    for (int i = 0; i < 2; i++) {
        twin->tensors[i] = host[i].dl;
        if (!gpu)
            continue;
        twin->trees[i] = send (self, &host[i].dl, accel_device (self->acc));
        if (!twin->trees[i])
            return false;
        twin->tensors[i] = *accel_tree_tensor (twin->trees[i]);
    }
    struct accel_parameter parameter = { "weight", &twin->tensors[0], &twin->tensors[1] };
    return CALL (self, accel_model_create (&twin->model, &parameter, 1, &self->err))
           && CALL (self, accel_optimizer_create (&twin->optimizer, twin->model, ACCEL_ADAMW, &adamw, &self->err))
           && CALL (self, accel_prepare (self->acc, &self->err, twin->model, twin->optimizer));
}

static bool
train_twin (struct self *self, struct twin *twin, float *norm)
{
    for (int pass = 0; pass < PASSES; pass++)
        if (!CALL (self, accel_backward (self->acc, twin->model, 0, written_before, NULL, &self->err))
            || !CALL (self, accel_clip_grad_norm (twin->model, 1, norm, NULL, &self->err))
            || !CALL (self, accel_optimizer_step (twin->optimizer, &self->err)))
            return false;
    return true;
}

static void
check_training (struct self *self)
{
    float values[2][WEIGHTS], got[WEIGHTS], norms[2] = { 0 };
    struct accel_tensor host[2];
    struct twin twins[2] = { { .model = NULL }, { .model = NULL } };
    for (int i = 0; i < WEIGHTS; i++) {
        values[0][i] = (float) (i % 7) / 8;
        values[1][i] = (float) (i % 11 + self->rank) / 16;
    }
    if (CALL (self, accel_set_gradient_accumulation_steps (self->acc, 1, &self->err))
        && describe (self, &host[0], ACCEL_FLOAT32, values[0], WEIGHTS)
        && describe (self, &host[1], ACCEL_FLOAT32, values[1], WEIGHTS)
        && make_twin (self, &twins[1], host, true) && make_twin (self, &twins[0], host, false)
        && train_twin (self, &twins[0], &norms[0]) && train_twin (self, &twins[1], &norms[1])
        && fetch (self, &twins[1].tensors[0], got, sizeof got)) {
        expect_near (self, "a norm on the GPU", (double) norms[0], (double) norms[1], 1e-5);
        for (int i = 0; i < WEIGHTS && !*self->why; i++)
            expect_near (self, "a parameter on the GPU", (double) values[0][i], (double) got[i], 1e-5);
        expect (self, "whether a parameter has changed", 1, got[WEIGHTS - 1] < (float) ((WEIGHTS - 1) % 7) / 8);
    }
    for (int i = 0; i < 2; i++) {
        accel_optimizer_destroy (twins[i].optimizer);
        accel_model_destroy (twins[i].model);
        accel_tree_destroy (twins[i].trees[0]);
        accel_tree_destroy (twins[i].trees[1]);
    }
}

const struct step device_steps[] = {
    { "GPU: tensors", check_round_trip },
    { "GPU: reduce", check_reduce },
    { "GPU: gather", check_gather },
    { "GPU: training", check_training },
    { NULL, NULL },
};
