/* SPDX-License-Identifier: Apache-2.0 */
/* Learns to read handwritten digits: a network with one hidden layer, in plain C, on any number of processes.
 *
 *   accelerate launch --num_processes 2 examples/digits [--epochs N] [--batch_size N] [--lr X] ...; see --help
 *
 * To build it by hand: cc digits*.c -o digits $(pkg-config --cflags --libs libaccel) -lm
 *
 * --batch_size is that of all processes together, so the same seed gives the same training on 1, 2 or 4 of them.
 * This file has all calls of libaccel; begin with main(), train() and test().  digits_network.c has the network,
 * which would be the same without. */
#include "digits.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What checkpoints contain besides all that is prepared. */
struct progress {
    double loss; /* of the epoch so far: the sum over its batches, the mean over the processes */
    double accuracy, best;
    int64_t best_epoch;
};

/* All that training needs. */
struct training {
    struct options options;
    struct accel *acc;
    struct network network;
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    struct accel_scheduler *scheduler;
    struct accel_loader *train_loader, *test_loader;
    struct progress progress;
};

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
    accel_check (accel_dataset_open_csv (&digits, path, &options, &err), &err);
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

/* What weights are kept in; the optimizer has float32 masters of those that are smaller. */
static enum accel_dtype
weight_dtype (const struct accel *acc)
{
    return strcmp (accel_mixed_precision (acc), "fp8") ? accel_autocast (acc) : ACCEL_FLOAT8_E4M3FN;
}

/* Shapes only: the library finds the memory, for gradients where all processes can see it. */
static void
describe_layer (struct layer *layer, size_t index, int in, int out, enum accel_dtype dtype)
{
    const int64_t shape[] = { in, out };
    struct accel_error err;
    layer->in = in;
    layer->out = out;
    layer->index = index;
    layer->widened = calloc ((size_t) in * (size_t) out, sizeof *layer->widened);
    if (!layer->widened)
        die ("out of memory");
    accel_check (accel_tensor_init (&layer->weight, dtype, 2, shape, &err), &err);
    accel_check (accel_tensor_init (&layer->weight_grad, ACCEL_FLOAT32, 2, shape, &err), &err);
    accel_check (accel_tensor_init (&layer->bias, ACCEL_FLOAT32, 1, shape + 1, &err), &err);
    accel_check (accel_tensor_init (&layer->bias_grad, ACCEL_FLOAT32, 1, shape + 1, &err), &err);
}

static void
make_model (struct training *training, size_t samples)
{
    struct network *network = &training->network;
    struct layer *hidden = &network->hidden, *output = &network->output;
    struct accel_error err;
    enum accel_dtype dtype = weight_dtype (training->acc);
    describe_layer (hidden, 0, PIXELS, HIDDEN, dtype);
    describe_layer (output, 2, HIDDEN, CLASSES, dtype);
    const struct accel_parameter parameters[] = {
        { "hidden.weight", &hidden->weight.dl, &hidden->weight_grad.dl },
        { "hidden.bias", &hidden->bias.dl, &hidden->bias_grad.dl },
        { "output.weight", &output->weight.dl, &output->weight_grad.dl },
        { "output.bias", &output->bias.dl, &output->bias_grad.dl },
    };
    accel_check (accel_model_create (&training->model, parameters, 4, &err), &err);
    network->model = training->model;
    network_start (network, training->options.seed);
    network->activations = calloc (samples * HIDDEN, sizeof *network->activations);
    network->probabilities = calloc (samples * CLASSES, sizeof *network->probabilities);
    if (!network->activations || !network->probabilities)
        die ("out of memory");
}

/* Up to the highest learning rate and down to 0 at the end of training, or as asked. */
static void
make_scheduler (struct training *training)
{
    const struct options *options = &training->options;
    struct accel_error err;
    size_t each = accel_gradient_accumulation_steps (training->acc);
    size_t steps = (accel_loader_length (training->train_loader) + each - 1) / each;
    uint64_t total = (uint64_t) options->epochs * steps, warmup = (uint64_t) options->warmup;
    const struct accel_scheduler_options scheduler_options = {
        .schedule = !strcmp (options->lr_scheduler, "cosine")   ? ACCEL_SCHEDULE_COSINE
                    : !strcmp (options->lr_scheduler, "linear") ? ACCEL_SCHEDULE_LINEAR
                                                                : ACCEL_SCHEDULE_CONSTANT,
        .warmup_steps = warmup < total ? warmup : total,
        .total_steps = total ? total : 1,
        .split_batches = true,
    };
    accel_check (accel_scheduler_create (&training->scheduler, training->optimizer, &scheduler_options, &err), &err);
}

static enum accel_status
save_progress (void *user, struct accel_state_dict *state, struct accel_error *err)
{
    const struct progress *progress = user;
    (void) err;
    accel_state_dict_set_double (state, "loss", progress->loss);
    accel_state_dict_set_double (state, "accuracy", progress->accuracy);
    accel_state_dict_set_double (state, "best", progress->best);
    accel_state_dict_set_int64 (state, "best_epoch", progress->best_epoch);
    return ACCEL_OK;
}

static enum accel_status
load_progress (void *user, const struct accel_state_dict *state, struct accel_error *err)
{
    struct progress *progress = user;
    enum accel_status status = accel_state_dict_get_double (state, "loss", &progress->loss, err);
    if (!status)
        status = accel_state_dict_get_double (state, "accuracy", &progress->accuracy, err);
    if (!status)
        status = accel_state_dict_get_double (state, "best", &progress->best, err);
    return status ? status : accel_state_dict_get_int64 (state, "best_epoch", &progress->best_epoch, err);
}

/* Add what this process has of the epoch's loss to the mean over all, as a checkpoint has one for all. */
static void
settle_loss (struct training *training, double *sum)
{
    struct accel_error err;
    accel_check (accel_reduce_number (training->acc, sum, ACCEL_AVG, &err), &err);
    training->progress.loss += *sum;
    *sum = 0;
}

static bool
is_checkpoint_step (const struct training *training)
{
    long steps = training->options.checkpointing_steps;
    return steps > 0 && accel_sync_gradients (training->acc)
           && accel_optimizer_step_count (training->optimizer) % (uint64_t) steps == 0;
}

/* Continue from a checkpoint, if one was asked for.  @return whether there is one */
static bool
resume (struct training *training)
{
    const struct options *options = &training->options;
    struct accel *acc = training->acc;
    struct accel_error err;
    const struct accel_project_configuration project
        = { .project_dir = options->output_dir, .automatic_checkpoint_naming = options->output_dir };
    const struct accel_checkpoint_object object = { save_progress, load_progress, &training->progress };
    accel_check (accel_set_project_configuration (acc, &project, &err), &err);
    accel_check (accel_register_for_checkpointing (acc, &object, &err), &err);
    const char *from = options->resume_from_checkpoint ? options->resume_from_checkpoint : getenv ("ACCEL_RESUME_FROM");
    if (!from || !*from)
        return false;
    bool latest = !strcmp (from, "latest");
    enum accel_status status = accel_load_state (acc, latest ? NULL : from, &err);
    if (latest && status == ACCEL_ERR_NOT_FOUND)
        return false;
    accel_check (status, &err);
    accel_print (acc, "resuming from %s\n", accel_checkpoint_path (acc));
    return true;
}

/* @return the mean loss of the epoch over all processes */
static double
train (struct training *training)
{
    struct accel *acc = training->acc;
    struct accel_model *model = training->model;
    const struct accel_batch *batch;
    struct accel_error err;
    double sum = 0;
    while (accel_loader_next (training->train_loader, &batch, &err)) {
        accel_check (accel_accumulate (acc, &err, model), &err);
        float loss = network_forward (&training->network, batch);
        accel_check (accel_backward (acc, model, loss, network_backward, &training->network, &err), &err);
        if (accel_sync_gradients (acc))
            accel_check (accel_clip_grad_norm (model, training->options.max_grad_norm, NULL, NULL, &err), &err);
        accel_check (accel_optimizer_step (training->optimizer, &err), &err);
        accel_check (accel_scheduler_step (training->scheduler, &err), &err);
        accel_check (accel_optimizer_zero_grad (training->optimizer, &err), &err);
        sum += loss;
        if (is_checkpoint_step (training)) {
            settle_loss (training, &sum);
            accel_check (accel_save_state (acc, NULL, &err), &err);
        }
    }
    accel_check (err.code, &err);
    settle_loss (training, &sum);
    double loss = training->progress.loss / (double) accel_loader_length (training->train_loader);
    training->progress.loss = 0;
    return loss;
}

/* Each process reads its share of the test images; what all of them read is gathered, each image once.
 * @return the percentage that was read right */
static double
test (struct training *training)
{
    const struct accel_batch *batch;
    struct accel_tensor right, all = { 0 };
    struct accel_error err;
    size_t hits = 0, total = 0;
    uint8_t *flags = calloc ((size_t) training->options.batch_size, 1);
    if (!flags)
        die ("out of memory");
    while (accel_loader_next (training->test_loader, &batch, &err)) {
        network_forward (&training->network, batch);
        network_judge (&training->network, flags);
        const int64_t samples = (int64_t) accel_batch_size (batch);
        accel_check (accel_tensor_init (&right, ACCEL_UINT8, 1, &samples, &err), &err);
        right.dl.data = flags;
        accel_check (accel_gather_for_metrics (&all, training->acc, &right.dl, &err), &err);
        for (size_t i = 0; i < accel_tensor_count (&all.dl); i++)
            hits += ((uint8_t *) all.dl.data)[i];
        total += accel_tensor_count (&all.dl);
    }
    accel_check (err.code, &err);
    accel_tensor_release (&all);
    free (flags);
    return 100.0 * (double) hits / (double) total;
}

/* @return the last accuracy */
static double
train_and_test (struct training *training)
{
    const struct options *options = &training->options;
    struct progress *progress = &training->progress;
    struct accel_error err;
    if (!resume (training))
        progress->best = progress->accuracy = test (training);
    for (long epoch = (long) accel_loader_epoch (training->train_loader) + 1; epoch <= options->epochs; epoch++) {
        double loss = train (training);
        progress->accuracy = test (training);
        accel_print (training->acc, "epoch %3ld of %ld  loss %.7g  test accuracy %.2f %%\n", epoch, options->epochs,
                     loss, progress->accuracy);
        if (progress->accuracy > progress->best) {
            progress->best = progress->accuracy;
            progress->best_epoch = epoch;
        }
        /* One process decides, and all of them stop: any may raise the flag. */
        bool stop;
        if (accel_is_main_process (training->acc) && options->patience
            && epoch - progress->best_epoch >= options->patience)
            accel_set_trigger (training->acc);
        accel_check (accel_check_trigger (training->acc, &stop, &err), &err);
        if (stop) {
            accel_print (training->acc, "no improvement since epoch %lld: stopping\n",
                         (long long) progress->best_epoch);
            break;
        }
        if (options->checkpointing_steps == CHECKPOINT_EACH_EPOCH)
            accel_check (accel_save_state (training->acc, NULL, &err), &err);
    }
    if (options->output_dir)
        accel_check (accel_save_model (training->acc, training->model, options->output_dir, NULL, &err), &err);
    return progress->accuracy;
}

static double
seconds_since (const struct timespec *start)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return (double) (now.tv_sec - start->tv_sec) + (double) (now.tv_nsec - start->tv_nsec) / 1e9;
}

/* The order of all images, of which the first fifth is held out for the test: always the same. */
static int64_t *
make_order (size_t size)
{
    struct accel_generator *generator;
    struct accel_error err;
    int64_t *order = calloc (size + 1, sizeof *order);
    if (!order)
        die ("out of memory");
    accel_check (accel_generator_create (&generator, 0, &err), &err);
    accel_generator_permutation (generator, order, size);
    accel_generator_destroy (generator);
    return order;
}

int
main (int argc, char **argv)
{
    struct timespec start;
    struct training training = { .options = parse_options (argc, argv) };
    const struct options *options = &training.options;
    clock_gettime (CLOCK_MONOTONIC, &start);
    struct accel_dataset *digits = open_digits (options->data);

    struct accel_error err;
    struct accel_grad_scaler scaler = { .on_device = ACCEL_YES }; /* if there is one: kernels read the scale */
    struct accel_options open_options = {
        .cpu = network_is_on_host,
        .mixed_precision = options->mixed_precision,
        .grad_scaler = &scaler,
    };
    accel_check (accel_open (&training.acc, &open_options, &err), &err);
    struct accel *acc = training.acc;
    uint32_t passes = (uint32_t) options->gradient_accumulation_steps;
    if (passes)
        accel_check (accel_set_gradient_accumulation_steps (acc, passes, &err), &err);
    long processes = accel_num_processes (acc);
    if (options->batch_size % processes)
        die ("--batch_size %ld is the total of all %ld processes and must be a multiple of their number",
             options->batch_size, processes);

    int64_t *order = make_order (digits->size);
    size_t test_count = digits->size / 5, train_count = digits->size - test_count;
    if ((size_t) options->batch_size > train_count)
        die ("--batch_size %ld is greater than the number of training images, %zu", options->batch_size, train_count);
    struct part test_part = { digits, order }, train_part = { digits, order + test_count };
    struct accel_dataset train_set = dataset_of (&train_part, train_count);
    struct accel_dataset test_set = dataset_of (&test_part, test_count);
    struct accel_loader_options test_options
        = { .batch_size = (size_t) options->batch_size, .split_batches = true };
    struct accel_loader_options train_options = test_options;
    train_options.shuffle = train_options.drop_last = true;
    train_options.seed = (uint64_t) options->seed;
    accel_check (accel_loader_create (&training.train_loader, &train_set, &train_options, &err), &err);
    accel_check (accel_loader_create (&training.test_loader, &test_set, &test_options, &err), &err);

    make_model (&training, (size_t) options->batch_size);
    struct accel_optimizer_options adamw_options = { .lr = options->lr };
    accel_check (accel_optimizer_create (&training.optimizer, training.model, ACCEL_ADAMW, &adamw_options, &err), &err);
    make_scheduler (&training);
    accel_check (accel_prepare (acc, &err, training.model, training.optimizer, training.scheduler,
                                training.train_loader, training.test_loader), &err);
    training.network.loss_scale = accel_loss_scale_on_device (acc);

    double accuracy = train_and_test (&training);
    accel_print (acc, "%ld process%s: %.2f %% of %zu held-out digits classified correctly in %.2f s\n", processes,
                 processes == 1 ? "" : "es", accuracy, test_count, seconds_since (&start));

    accel_loader_destroy (training.test_loader);
    accel_loader_destroy (training.train_loader);
    accel_scheduler_destroy (training.scheduler);
    accel_optimizer_destroy (training.optimizer);
    accel_model_destroy (training.model);
    accel_close (acc);
    accel_dataset_close (digits);
    free (order);
    free (training.network.hidden.widened);
    free (training.network.output.widened);
    free (training.network.activations);
    free (training.network.probabilities);
    return 0;
}
