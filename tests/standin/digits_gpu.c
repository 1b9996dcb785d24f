/* SPDX-License-Identifier: Apache-2.0 */
/* The network of examples/digits for a GPU, in the place of digits_network.c: digits.c is the same for both.  Where a
 * program has kernels, this one computes on the host with copies. */
#include <config.h>

#include "examples/digits.h"

extern const bool host_is_on_host;
float host_forward (struct network *network, const struct accel_batch *batch);
enum accel_status host_backward (void *network, float scale, struct accel_error *err);
#define network_is_on_host host_is_on_host
#define network_forward host_forward
#define network_backward host_backward
#include "examples/digits_network.c"
#undef network_is_on_host
#undef network_forward
#undef network_backward

#include "lib/data/batch.h"
#include "lib/memory/memory.h"

#include <stdlib.h>

const bool network_is_on_host = false;

static struct network mirror;

static void
fetch (struct accel_tensor *mirrored, const struct accel_tensor *tensor)
{
    size_t bytes = accel_tensor_count (&tensor->dl) * (tensor->dl.dtype.bits / 8U);
    void *data = realloc (mirrored->dl.data, bytes);
    struct accel_error err;
    if (tensor->dl.device.device_type != kDLCUDA)
        die ("a tensor is not on the GPU");
    *mirrored = *tensor;
    mirrored->dl.data = data;
    accel_check (memory_of (tensor->dl.device)->read (tensor->dl.device, data, tensor->dl.data, bytes, &err), &err);
}

static void
fetch_layer (struct layer *mirrored, const struct layer *layer)
{
    fetch (&mirrored->weight, &layer->weight);
    fetch (&mirrored->bias, &layer->bias);
    mirrored->in = layer->in;
    mirrored->out = layer->out;
    mirrored->index = layer->index;
    mirrored->widened = layer->widened;
}

static void
fetch_gradients (struct layer *mirrored, const struct layer *layer)
{
    fetch (&mirrored->weight_grad, &layer->weight_grad);
    fetch (&mirrored->bias_grad, &layer->bias_grad);
}

static void
put (const struct accel_tensor *tensor, const struct accel_tensor *mirrored)
{
    memory_of (tensor->dl.device)->write (tensor->dl.device, tensor->dl.data, mirrored->dl.data,
                                          accel_tensor_count (&tensor->dl) * (tensor->dl.dtype.bits / 8U));
}

float
network_forward (struct network *network, const struct accel_batch *batch)
{
    static struct accel_tensor fields[2];
    struct accel_batch fetched = *batch;
    fetched.fields = fields;
    for (size_t i = 0; i < 2; i++)
        fetch (&fields[i], &batch->fields[i]);
    fetch_layer (&mirror.hidden, &network->hidden);
    fetch_layer (&mirror.output, &network->output);
    mirror.model = network->model;
    mirror.activations = network->activations;
    mirror.probabilities = network->probabilities;
    float loss = host_forward (&mirror, &fetched);
    network->samples = mirror.samples;
    network->labels = mirror.labels;
    return loss;
}

enum accel_status
network_backward (void *user, float scale, struct accel_error *err)
{
    struct network *network = user;
    fetch_gradients (&mirror.hidden, &network->hidden);
    fetch_gradients (&mirror.output, &network->output);
    float there = 1;
    const DLDevice device = network->hidden.weight.dl.device;
    enum accel_status status = network->loss_scale ? memory_of (device)->read (device, &there, network->loss_scale,
                                                                               sizeof there, err) : ACCEL_OK;
    if (!status)
        status = host_backward (&mirror, scale * there, err);
    put (&network->hidden.weight_grad, &mirror.hidden.weight_grad);
    put (&network->hidden.bias_grad, &mirror.hidden.bias_grad);
    put (&network->output.weight_grad, &mirror.output.weight_grad);
    put (&network->output.bias_grad, &mirror.output.bias_grad);
    return status;
}
