/* SPDX-License-Identifier: Apache-2.0 */
/* The network that bench_train and mpi_train train; see train.h. */
#include "bench/train.h"

#include <math.h>

static unsigned long long random_state;

static float
uniform (void)
{
    random_state = random_state * 6364136223846793005U + 1442695040888963407U;
    return (float) (random_state >> 40) / (1 << 23) - 1;
}

void
network_make (struct network *network, size_t parameters)
{
    static const int small[] = { 256, 256, 128, 10 }, medium[] = { 1024, 2048, 2048, 1800 };
    *network = (struct network){ .batch = parameters > 1000000 ? 2 : 32 };
    memcpy (network->width, parameters > 1000000 ? medium : small, sizeof network->width);
    for (int i = 0; i < LAYERS; i++) {
        network->count[2 * i + 1] = (size_t) network->width[i + 1];
        network->count[2 * i] = (size_t) network->width[i] * network->count[2 * i + 1];
        network->parameters += network->count[2 * i] + network->count[2 * i + 1];
    }
    for (int i = 0; i <= LAYERS; i++) {
        network->activation[i] = floats ((size_t) network->width[i]);
        network->back[i] = floats ((size_t) network->width[i]);
    }
    size_t in = (size_t) network->width[0], out = (size_t) network->width[LAYERS];
    network->inputs = floats (SAMPLES * in);
    network->targets = floats (SAMPLES * out);
    random_state = 1;
    for (size_t i = 0; i < SAMPLES * in; i++)
        network->inputs[i] = uniform ();
    for (size_t i = 0; i < SAMPLES * out; i++)
        network->targets[i] = network->inputs[i % (SAMPLES * in)] * 0.5F;
}

void
network_start (struct network *network)
{
    random_state = 2;
    for (int i = 0; i < TENSORS; i++)
        for (size_t j = 0; j < network->count[i]; j++)
            network->value[i][j] = uniform () / sqrtf ((float) network->width[i / 2]);
}

static void
forward (struct network *network)
{
    for (int layer = 0; layer < LAYERS; layer++) {
        int in = network->width[layer], out = network->width[layer + 1];
        const float *weight = network->value[2 * layer], *input = network->activation[layer];
        float *restrict output = network->activation[layer + 1];
        memcpy (output, network->value[2 * layer + 1], (size_t) out * sizeof *output);
        for (int i = 0; i < in; i++, weight += out)
            for (int j = 0; j < out; j++)
                output[j] += input[i] * weight[j];
        for (int j = 0; layer < LAYERS - 1 && j < out; j++)
            output[j] = output[j] > 0 ? output[j] : 0;
    }
}

/* From back[LAYERS], the loss's gradient by the outputs, to all gradients. */
static void
backward (struct network *network)
{
    for (int layer = LAYERS; layer-- > 0;) {
        int in = network->width[layer], out = network->width[layer + 1];
        const float *weight = network->value[2 * layer], *input = network->activation[layer];
        const float *restrict back = network->back[layer + 1];
        float *restrict weight_grad = network->grad[2 * layer], *restrict bias_grad = network->grad[2 * layer + 1];
        for (int j = 0; j < out; j++)
            bias_grad[j] += back[j];
        for (int i = 0; i < in; i++, weight += out, weight_grad += out) {
            float sums[8] = { 0 };
            for (int j = 0; j < out; j++)
                weight_grad[j] += input[i] * back[j];
            for (int j = 0; j + 8 <= out; j += 8)
                for (int k = 0; k < 8; k++)
                    sums[k] += weight[j + k] * back[j + k];
            for (int j = out / 8 * 8; j < out; j++)
                sums[0] += weight[j] * back[j];
            float sum = 0;
            for (int k = 0; k < 8; k++)
                sum += sums[k];
            network->back[layer][i] = input[i] > 0 ? sum : 0;
        }
    }
}

float
network_gradients (struct network *network, const float *inputs, const float *targets, int samples, float scale)
{
    size_t in = (size_t) network->width[0], out = (size_t) network->width[LAYERS];
    float loss = 0, each = 1 / (float) (samples * network->width[LAYERS]);
    for (int s = 0; s < samples; s++, inputs += in, targets += out) {
        memcpy (network->activation[0], inputs, in * sizeof *inputs);
        forward (network);
        for (size_t j = 0; j < out; j++) {
            float difference = network->activation[LAYERS][j] - targets[j];
            loss += difference * difference * each;
            network->back[LAYERS][j] = 2 * difference * each * scale;
        }
        backward (network);
    }
    return loss;
}

void
network_free (struct network *network)
{
    for (int i = 0; i <= LAYERS; i++) {
        free (network->activation[i]);
        free (network->back[i]);
    }
    free (network->inputs);
    free (network->targets);
}
