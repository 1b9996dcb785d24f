/* SPDX-License-Identifier: Apache-2.0 */
/* Learns to read handwritten digits: a network with one hidden layer, in plain C, on any number of processes.
 *
 *   accelerate launch --num_processes 2 examples/digits [--epochs N] [--batch_size N] [--lr X] [--seed N] [--data FILE]
 *
 * Built by hand: cc digits.c -o digits $(pkg-config --cflags --libs libaccel) -lm
 *
 * --batch_size is that of all processes together, so the same seed gives the same training on 1, 2 or 4 of them.
 * What has to do with accelerate is in main() and below; what is above would be the same without it. */
#include <accel/accel.h>

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PIXELS = 64, HIDDEN = 128, CLASSES = 10 };

__attribute__ ((format (printf, 1, 2), noreturn)) static void
die (const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start (args, format);
    vsnprintf (text, sizeof text, format, args);
    va_end (args);
    fprintf (stderr, "digits: %s\n", text); /* in one piece: other processes may write too */
    exit (EXIT_FAILURE);
}

/* ---- the network ---- */

struct layer {
    int in, out;
    struct accel_tensor weight, bias; /* [in, out] and [out] */
    struct accel_tensor weight_grad, bias_grad;
};

struct network {
    struct layer hidden, output;
    /* Of the latest batch: what the backward pass needs. */
    size_t samples;
    const float *images;
    const int32_t *labels;
    float *activations;   /* [samples, HIDDEN] */
    float *probabilities; /* [samples, CLASSES] */
};

static void
layer_forward (const struct layer *layer, const float *input, float *output)
{
    const float *weight = layer->weight.dl.data;
    memcpy (output, layer->bias.dl.data, (size_t) layer->out * sizeof *output);
    for (int i = 0; i < layer->in; i++, weight += layer->out)
        for (int j = 0; j < layer->out; j++)
            output[j] += input[i] * weight[j];
}

/* Add the gradients of one sample, given the loss's gradient by the output; put that by the input into @input_grad. */
static void
layer_backward (const struct layer *layer, const float *input, const float *output_grad, float *input_grad)
{
    const float *weight = layer->weight.dl.data;
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

/* @return the mean loss of the batch */
static float
forward (struct network *network, const struct accel_batch *batch)
{
    double loss = 0;
    network->samples = accel_batch_size (batch);
    network->images = accel_batch_tensor (batch, "image")->data;
    network->labels = accel_batch_tensor (batch, "label")->data;
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

/* The gradients of the mean loss, times @scale: what accel_backward() calls. */
static enum accel_status
backward (void *user, float scale, struct accel_error *err)
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

/* Note for each sample of the latest batch whether the likeliest class is the right one.  @param right  [samples] */
static void
judge (const struct network *network, uint8_t *right)
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

/* ---- what the program was asked ---- */

struct options {
    long epochs, batch_size, seed;
    double lr;
    char data[PATH_MAX];
};

static long
parse_count (const char *name, const char *text, long min, long max)
{
    char *end;
    errno = 0;
    long value = strtol (text, &end, 10);
    if (end == text || *end || errno || value < min || value > max)
        die ("%s: '%s' is no whole number of %ld to %ld", name, text, min, max);
    return value;
}

static double
parse_rate (const char *name, const char *text)
{
    char *end;
    double value = strtod (text, &end);
    if (end == text || *end || !(value > 0 && value < 1e6))
        die ("%s: '%s' is no learning rate", name, text);
    return value;
}

/* data/digits.csv beside the program (a copy anywhere), else that of the source tree. */
static void
find_data (char path[PATH_MAX])
{
    ssize_t length = readlink ("/proc/self/exe", path, PATH_MAX - 32);
    path[length > 0 ? length : 0] = '\0';
    char *slash = strrchr (path, '/');
    strcpy (slash ? slash + 1 : path, "data/digits.csv");
#ifdef EXAMPLE_DATA
    if (access (path, R_OK))
        snprintf (path, PATH_MAX, "%s/digits.csv", EXAMPLE_DATA);
#endif
}

static struct options
parse_options (int argc, char **argv)
{
    struct options options = { .epochs = 30, .batch_size = 64, .lr = 2e-3 };
    find_data (options.data);
    for (int i = 1; i < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (!strcmp (name, "--help")) {
            puts ("usage: digits [--epochs N] [--batch_size N] [--lr X] [--seed N] [--data FILE]");
            exit (EXIT_SUCCESS);
        }
        if (!value)
            die ("%s: a value is missing", name);
        if (!strcmp (name, "--epochs"))
            options.epochs = parse_count (name, value, 0, 1000000);
        else if (!strcmp (name, "--batch_size"))
            options.batch_size = parse_count (name, value, 1, INT_MAX);
        else if (!strcmp (name, "--seed"))
            options.seed = parse_count (name, value, 0, LONG_MAX);
        else if (!strcmp (name, "--lr"))
            options.lr = parse_rate (name, value);
        else if (!strcmp (name, "--data"))
            snprintf (options.data, sizeof options.data, "%s", value);
        else
            die ("unknown option '%s': there are --epochs, --batch_size, --lr, --seed and --data", name);
    }
    return options;
}

/* ---- training with accelerate ---- */

static void
check (enum accel_status status, const struct accel_error *err)
{
    if (status)
        die ("%s: %s", accel_status_string (status), err->text);
}

/* A row of the file: 64 pixels of 0 to 16, which become 0 to 1, and the digit. */
static struct accel_dataset *
open_digits (const char *path)
{
    static const struct accel_csv_field fields[] = {
        { .field = { "image", ACCEL_FLOAT32, 1, { PIXELS } }, .scale = 1.0 / 16, .max = 16 },
        { .field = { "label", ACCEL_INT32, 0, { 0 } }, .max = CLASSES - 1 },
    };
    const struct accel_csv_options options = { .fields = fields, .field_count = 2 };
    struct accel_dataset *digits;
    struct accel_error err;
    check (accel_dataset_open_csv (&digits, path, &options, &err), &err);
    return digits;
}

/* A part of the digits, in an order that is the same on all processes. */
struct part {
    const struct accel_dataset *digits;
    const int64_t *order;
};

static enum accel_status
read_sample (void *user, size_t index, void *const *into, struct accel_error *err)
{
    const struct part *part = user;
    return part->digits->read (part->digits->user, (size_t) part->order[index], into, err);
}

static struct accel_dataset
dataset_of (struct part *part, size_t size)
{
    return (struct accel_dataset){
        .size = size,
        .fields = part->digits->fields,
        .field_count = part->digits->field_count,
        .read = read_sample,
        .user = part,
    };
}

/* Shapes only: the library finds the memory, for gradients where all processes can see it. */
static void
describe_layer (struct layer *layer, int in, int out)
{
    const int64_t shape[] = { in, out };
    struct accel_error err;
    layer->in = in;
    layer->out = out;
    check (accel_tensor_init (&layer->weight, ACCEL_FLOAT32, 2, shape, &err), &err);
    check (accel_tensor_init (&layer->weight_grad, ACCEL_FLOAT32, 2, shape, &err), &err);
    check (accel_tensor_init (&layer->bias, ACCEL_FLOAT32, 1, shape + 1, &err), &err);
    check (accel_tensor_init (&layer->bias_grad, ACCEL_FLOAT32, 1, shape + 1, &err), &err);
}

/* As torch's linear layers begin: uniform within 1 / sqrt (inputs). */
static void
start_layer (struct layer *layer, struct accel_generator *generator)
{
    float bound = 1 / sqrtf ((float) layer->in), *weight = layer->weight.dl.data, *bias = layer->bias.dl.data;
    for (int i = 0; i < layer->in * layer->out; i++)
        weight[i] = (2 * accel_generator_uniform (generator) - 1) * bound;
    for (int i = 0; i < layer->out; i++)
        bias[i] = (2 * accel_generator_uniform (generator) - 1) * bound;
}

static struct accel_model *
make_model (struct network *network, size_t batch_size, long seed)
{
    struct layer *hidden = &network->hidden, *output = &network->output;
    struct accel_error err;
    describe_layer (hidden, PIXELS, HIDDEN);
    describe_layer (output, HIDDEN, CLASSES);
    const struct accel_parameter parameters[] = {
        { "hidden.weight", &hidden->weight.dl, &hidden->weight_grad.dl },
        { "hidden.bias", &hidden->bias.dl, &hidden->bias_grad.dl },
        { "output.weight", &output->weight.dl, &output->weight_grad.dl },
        { "output.bias", &output->bias.dl, &output->bias_grad.dl },
    };
    struct accel_model *model;
    struct accel_generator *generator;
    check (accel_model_create (&model, parameters, 4, &err), &err);
    check (accel_generator_create (&generator, (uint64_t) seed, &err), &err);
    start_layer (hidden, generator);
    start_layer (output, generator);
    accel_generator_destroy (generator);
    network->activations = calloc (batch_size * HIDDEN, sizeof *network->activations);
    network->probabilities = calloc (batch_size * CLASSES, sizeof *network->probabilities);
    if (!network->activations || !network->probabilities)
        die ("out of memory");
    return model;
}

/* @return the mean loss of the epoch over all processes */
static double
train (struct accel *acc, struct network *network, struct accel_model *model, struct accel_optimizer *optimizer,
       struct accel_loader *loader)
{
    const struct accel_batch *batch;
    struct accel_error err;
    double sum = 0;
    while (accel_loader_next (loader, &batch, &err)) {
        float loss = forward (network, batch);
        check (accel_backward (acc, model, loss, backward, network, &err), &err);
        check (accel_optimizer_step (optimizer, &err), &err);
        check (accel_optimizer_zero_grad (optimizer, &err), &err);
        sum += loss;
    }
    check (err.code, &err);
    sum /= (double) accel_loader_length (loader);
    check (accel_comm_all_reduce (accel_world (acc), &sum, &sum, 1, ACCEL_FLOAT64, ACCEL_AVG, &err), &err);
    return sum;
}

/* @return the percentage of the test images that the network reads right */
static double
test (struct accel *acc, struct network *network, struct accel_loader *loader, size_t batch_size)
{
    const struct accel_batch *batch;
    struct accel_tensor right, all = { 0 };
    struct accel_error err;
    size_t hits = 0, total = 0;
    uint8_t *flags = calloc (batch_size, 1);
    while (accel_loader_next (loader, &batch, &err)) {
        forward (network, batch);
        judge (network, flags);
        check (accel_tensor_init (&right, ACCEL_UINT8, 1, (int64_t[]){ (int64_t) network->samples }, &err), &err);
        right.dl.data = flags;
        check (accel_gather_for_metrics (acc, &right.dl, &all, &err), &err);
        for (size_t i = 0; i < accel_tensor_count (&all.dl); i++)
            hits += ((uint8_t *) all.dl.data)[i];
        total += accel_tensor_count (&all.dl);
    }
    check (err.code, &err);
    accel_tensor_release (&all);
    free (flags);
    return 100.0 * (double) hits / (double) total;
}

static double
seconds_since (const struct timespec *start)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return (double) (now.tv_sec - start->tv_sec) + (double) (now.tv_nsec - start->tv_nsec) / 1e9;
}

int
main (int argc, char **argv)
{
    struct timespec start;
    struct options options = parse_options (argc, argv);
    clock_gettime (CLOCK_MONOTONIC, &start);
    struct accel_dataset *digits = open_digits (options.data);

    struct accel *acc;
    struct accel_error err;
    check (accel_open (&acc, NULL, &err), &err);
    size_t processes = (size_t) accel_num_processes (acc), batch_size = (size_t) options.batch_size / processes;
    if (batch_size * processes != (size_t) options.batch_size)
        die ("--batch_size %ld is for all %zu processes together and must be a multiple of their number",
             options.batch_size, processes);

    /* A fifth is held out for the test, always the same one. */
    struct accel_generator *generator;
    check (accel_generator_create (&generator, 0, &err), &err);
    int64_t *order = calloc (digits->size + 1, sizeof *order);
    if (!order)
        die ("out of memory");
    accel_generator_permutation (generator, order, digits->size);
    accel_generator_destroy (generator);
    size_t test_count = digits->size / 5, train_count = digits->size - test_count;
    if ((size_t) options.batch_size > train_count)
        die ("--batch_size %ld is more than the %zu images of the training part", options.batch_size, train_count);
    struct part test_part = { digits, order }, train_part = { digits, order + test_count };
    struct accel_dataset train_set = dataset_of (&train_part, train_count);
    struct accel_dataset test_set = dataset_of (&test_part, test_count);

    struct network network = { 0 };
    struct accel_model *model = make_model (&network, batch_size, options.seed);
    struct accel_optimizer *optimizer;
    struct accel_loader *train_loader, *test_loader;
    struct accel_loader_options train_options
        = { .batch_size = batch_size, .shuffle = true, .drop_last = true, .seed = (uint64_t) options.seed };
    struct accel_loader_options test_options = { .batch_size = batch_size };
    struct accel_adamw adamw_options = { .lr = options.lr, .weight_decay = ACCEL_ADAMW_WEIGHT_DECAY };
    check (accel_adamw_create (&optimizer, model, &adamw_options, &err), &err);
    check (accel_loader_create (&train_loader, &train_set, &train_options, &err), &err);
    check (accel_loader_create (&test_loader, &test_set, &test_options, &err), &err);
    check (accel_prepare (acc, &err, model, optimizer, train_loader, test_loader), &err);

    double accuracy = test (acc, &network, test_loader, batch_size);
    for (long epoch = 1; epoch <= options.epochs; epoch++) {
        double loss = train (acc, &network, model, optimizer, train_loader);
        accuracy = test (acc, &network, test_loader, batch_size);
        accel_print (acc, "epoch %3ld of %ld  loss %.7g  test accuracy %.2f %%\n", epoch, options.epochs, loss,
                     accuracy);
    }
    accel_print (acc, "%zu process%s: %.2f %% of %zu held-out digits read right, after %.2f s\n", processes,
                 processes == 1 ? "" : "es", accuracy, test_count, seconds_since (&start));

    accel_loader_destroy (test_loader);
    accel_loader_destroy (train_loader);
    accel_optimizer_destroy (optimizer);
    accel_model_destroy (model);
    accel_close (acc);
    accel_dataset_close (digits);
    free (order);
    free (network.activations);
    free (network.probabilities);
    return 0;
}
