/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the example digits: the network and the options. */
#ifndef DIGITS_H
#define DIGITS_H

#include <accel/accel.h>

#include <limits.h>

enum { PIXELS = 64, HIDDEN = 128, CLASSES = 10 };

struct layer {
    int in, out;
    struct accel_tensor weight, bias; /* [in, out] and [out]; the weight in the precision of the options */
    struct accel_tensor weight_grad, bias_grad;
    size_t index;        /* of the weight in the model */
    const float *values; /* the weight as the latest batch saw it, in floats */
    float *widened;      /* memory for that, if the weight has fewer bits */
};

struct network {
    struct accel_model *model;
    struct layer hidden, output;
    /* Of the latest batch: what the backward pass needs. */
    size_t samples;
    const float *images;
    const int32_t *labels;
    float *activations;   /* [samples, HIDDEN] */
    float *probabilities; /* [samples, CLASSES] */
    const float *loss_scale; /* fp16 on a GPU: a float there, by which kernels multiply, too; NULL otherwise */
};

/* Whether it computes on the CPU, in host memory.  One with kernels for GPUs says false, and main() stays as it is. */
extern const bool network_is_on_host;

/* Initial parameters as in torch's linear layers: uniform within 1 / sqrt (inputs). */
void network_start (struct network *network, long seed);

/* @return the mean loss of the batch */
float network_forward (struct network *network, const struct accel_batch *batch);

/* The gradients of the mean loss of the latest batch, times @scale and `loss_scale`: what accel_backward() calls. */
enum accel_status network_backward (void *network, float scale, struct accel_error *err);

/* Note for each sample of the latest batch whether the likeliest class is the right one.  @param right  [samples] */
void network_judge (const struct network *network, uint8_t *right);

enum { CHECKPOINT_EACH_EPOCH = -1 };

struct options {
    long epochs, batch_size, seed;
    long gradient_accumulation_steps; /* 0: what the environment says */
    long warmup;                      /* in steps of the optimizer */
    long patience;                    /* epochs without a better accuracy before training stops; 0: it does not */
    double lr, max_grad_norm;
    const char *lr_scheduler;
    const char *output_dir;             /* NULL: nothing is saved */
    long checkpointing_steps;           /* 0: no checkpoints */
    const char *resume_from_checkpoint; /* NULL: what launch --resume says */
    const char *mixed_precision; /* NULL: what the environment says */
    char data[PATH_MAX];
};

struct options parse_options (int argc, char **argv);

__attribute__ ((format (printf, 1, 2), noreturn)) void die (const char *format, ...);

#endif
