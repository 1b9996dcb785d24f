/* SPDX-License-Identifier: Apache-2.0 */
/* A program to be watched: it trains for ever, or for some steps.
 *
 *   watched [steps=N] [ms=N] [slow=RANK] [log=FIRST_STEP] [total=N] [quiet=1]
 *
 * A step takes `ms`, ten times as long on rank `slow`.  With `log`, each rank logs its loss and a learning rate at
 * steps from FIRST_STEP on; otherwise the steps are the optimizer's.  `total` is the print_steps of its trackers.
 * Rank 0 says when the first step is done. */
#include <accel/accel.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct net {
    float weight, gradient;
    struct accel_tensor weights, gradients;
    struct accel_model *model;
    struct accel_optimizer *optimizer;
};

static struct accel_error err;

static long
argument (char **words, const char *name, long otherwise)
{
    size_t length = strlen (name);
    for (; *words; words++)
        if (!strncmp (*words, name, length) && (*words)[length] == '=')
            return strtol (*words + length + 1, NULL, 10);
    return otherwise;
}

static enum accel_status
backward (void *user, float scale, struct accel_error *ignored)
{
    struct net *net = user;
    (void) ignored;
    *(float *) net->gradients.dl.data += scale * net->weight;
    return ACCEL_OK;
}

static void
make (struct net *net, struct accel *acc)
{
    const int64_t shape[] = { 1 };
    accel_check (accel_tensor_init (&net->weights, ACCEL_FLOAT32, 1, shape, &err), &err);
    accel_check (accel_tensor_init (&net->gradients, ACCEL_FLOAT32, 1, shape, &err), &err);
    const struct accel_parameter parameter = { "weight", &net->weights.dl, &net->gradients.dl };
    const struct accel_optimizer_options options = { .lr = 0.1 };
    accel_check (accel_model_create (&net->model, &parameter, 1, &err), &err);
    accel_check (accel_optimizer_create (&net->optimizer, net->model, ACCEL_SGD, &options, &err), &err);
    accel_check (accel_prepare (acc, &err, net->model, net->optimizer), &err);
}

static void
compute (long ms)
{
    nanosleep (&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 }, NULL);
}

int
main (int argc, char **argv)
{
    struct net net = { .weight = 1 };
    struct accel *acc;
    (void) argc;
    long steps = argument (argv, "steps", 1L << 40), ms = argument (argv, "ms", 10), log = argument (argv, "log", -1);
    accel_check (accel_open (&acc, NULL, &err), &err);
    bool is_slow = accel_process_index (acc) == argument (argv, "slow", -1);
    make (&net, acc);
    const struct accel_tracker_options tracking = { .print_steps = (uint64_t) argument (argv, "total", 0) };
    if (tracking.print_steps)
        accel_check (accel_init_trackers (acc, "watched", NULL, 0, &tracking, &err), &err);
    for (long step = 0; step < steps; step++) {
        compute (is_slow ? 10 * ms : ms);
        accel_check (accel_backward (acc, net.model, 0, backward, &net, &err), &err);
        accel_check (accel_optimizer_step (net.optimizer, &err), &err);
        accel_check (accel_optimizer_zero_grad (net.optimizer, &err), &err);
        struct accel_value values[] = { { .key = "loss", .number = 1 + accel_process_index (acc) },
                                        { .key = "note", .kind = ACCEL_TEXT, .text = "not a number" },
                                        { .key = "lr\033[31m", .number = 0.25 / (double) (step + 1) } };
        if (log >= 0)
            accel_check (accel_log (acc, values, 3, log + step, &err), &err);
        if (!step && !argument (argv, "quiet", 0))
            accel_print (acc, "begun\n");
    }
    accel_optimizer_destroy (net.optimizer);
    accel_model_destroy (net.model);
    accel_tensor_release (&net.weights);
    accel_tensor_release (&net.gradients);
    accel_close (acc);
    return 0;
}
