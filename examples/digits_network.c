/* SPDX-License-Identifier: Apache-2.0 */
/* The network of the example digits: plain C, which would be the same without accelerate. */
#include "digits.h"

#include <math.h>
#include <string.h>

const bool network_is_on_host = true;

/* Weights of 16 or 8 bits are computed with in floats, as processors without arithmetic for them do. */
static void
layer_load (const struct network *network, struct layer *layer)
{
    enum accel_dtype dtype = accel_dtype_from_dl (layer->weight.dl.dtype);
    struct accel_error err;
    layer->values = layer->weight.dl.data;
    if (dtype == ACCEL_FLOAT32)
        return;
    size_t count = (size_t) layer->in * (size_t) layer->out;
    accel_check (accel_convert (layer->values, dtype, layer->widened, ACCEL_FLOAT32, count, &err), &err);
    float scale = accel_model_scale (network->model, layer->index);
    for (size_t i = 0; scale != 1 && i < count; i++)
        layer->widened[i] *= scale;
    layer->values = layer->widened;
}

static void
layer_forward (const struct layer *layer, const float *input, float *output)
{
    const float *weight = layer->values;
    memcpy (output, layer->bias.dl.data, (size_t) layer->out * sizeof *output);
    for (int i = 0; i < layer->in; i++, weight += layer->out)
        for (int j = 0; j < layer->out; j++)
            output[j] += input[i] * weight[j];
}

/* Add the gradients of one sample, given the loss's gradient by the output; put that by the input into @input_grad. */
static void
layer_backward (const struct layer *layer, const float *input, const float *output_grad, float *input_grad)
{
    const float *weight = layer->values;
    float *weight_grad = layer->weight_grad.dl.data, *bias_grad = layer->bias_grad.dl.data;
    for (int j = 0; j < layer->out; j++)
        bias_grad[j] += output_grad[j];
    for (int i = 0; i < layer->in; i++, weight += layer->out, weight_grad += layer->out) {
        float sum = 0;
        for (int j = 0; j < layer->out; j++) {
            weight_grad[j] += input[i] * output_grad[j];
            sum += weight[j] * output_grad[j];
        }
        if (input_grad)
            input_grad[i] = sum;
    }
}

/* Logits become probabilities.  @return the cross entropy */
static double
softmax (float logits[CLASSES], int32_t label)
{
    float largest = logits[0];
    double sum = 0;
    for (int j = 1; j < CLASSES; j++)
        largest = fmaxf (largest, logits[j]);
    double loss = largest - logits[label];
    for (int j = 0; j < CLASSES; j++)
        sum += logits[j] = expf (logits[j] - largest);
    for (int j = 0; j < CLASSES; j++)
        logits[j] = (float) (logits[j] / sum);
    return loss + log (sum);
}

float
network_forward (struct network *network, const struct accel_batch *batch)
{
    double loss = 0;
    network->samples = accel_batch_size (batch);
    network->images = accel_batch_tensor (batch, "image")->data;
    network->labels = accel_batch_tensor (batch, "label")->data;
    layer_load (network, &network->hidden);
    layer_load (network, &network->output);
    for (size_t s = 0; s < network->samples; s++) {
        float *activations = network->activations + s * HIDDEN, *logits = network->probabilities + s * CLASSES;
        layer_forward (&network->hidden, network->images + s * PIXELS, activations);
        for (int i = 0; i < HIDDEN; i++)
            activations[i] = fmaxf (activations[i], 0);
        layer_forward (&network->output, activations, logits);
        loss += softmax (logits, network->labels[s]);
    }
    return (float) (loss / (double) network->samples);
}

enum accel_status
network_backward (void *user, float scale, struct accel_error *err)
{
    struct network *network = user;
    float logits_grad[CLASSES], activations_grad[HIDDEN];
    (void) err;
    for (size_t s = 0; s < network->samples; s++) {
        const float *activations = network->activations + s * HIDDEN;
        for (int j = 0; j < CLASSES; j++) {
            float wanted = j == network->labels[s];
            logits_grad[j] = (network->probabilities[s * CLASSES + (size_t) j] - wanted) * scale
                             / (float) network->samples;
        }
        layer_backward (&network->output, activations, logits_grad, activations_grad);
        for (int i = 0; i < HIDDEN; i++)
            activations_grad[i] = activations[i] > 0 ? activations_grad[i] : 0;
        layer_backward (&network->hidden, network->images + s * PIXELS, activations_grad, NULL);
    }
    return ACCEL_OK;
}

void
network_judge (const struct network *network, uint8_t *right)
{
    for (size_t s = 0; s < network->samples; s++) {
        const float *probabilities = network->probabilities + s * CLASSES;
        int best = 0;
        for (int j = 1; j < CLASSES; j++)
            if (probabilities[j] > probabilities[best])
                best = j;
        right[s] = best == network->labels[s];
    }
}

static void
start_layer (const struct network *network, struct layer *layer, struct accel_generator *generator)
{
    float bound = 1 / sqrtf ((float) layer->in), *bias = layer->bias.dl.data;
    float *weight = accel_model_master (network->model, layer->index)->data;
    for (int i = 0; i < layer->in * layer->out; i++)
        weight[i] = (2 * accel_generator_uniform (generator) - 1) * bound;
    for (int i = 0; i < layer->out; i++)
        bias[i] = (2 * accel_generator_uniform (generator) - 1) * bound;
}

void
network_start (struct network *network, long seed)
{
    struct accel_generator *generator;
    struct accel_error err;
    accel_check (accel_generator_create (&generator, (uint64_t) seed, &err), &err);
    start_layer (network, &network->hidden, generator);
    start_layer (network, &network->output, generator);
    accel_model_narrow (network->model);
    accel_generator_destroy (generator);
}
