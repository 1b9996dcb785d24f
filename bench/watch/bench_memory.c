/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints in memory: what they add to a step, beside steps without a save in the same run, and the time from
 * SIGKILL of a rank to the end of the next step that is made.
 *
 *   accelerate launch --cpu --num_processes N --max_restarts 1 --memory_checkpoint_every K bench_memory FILE MIB STEPS
 *
 * The parameters have MIB, the state three times as much (AdamW).  K is 10, say; FILE passes a time on. */
#include <config.h>

#include <accel/accel.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { MOST_STEPS = 10000, TENSORS = 8 };

static struct accel_error err;

static void
must (enum accel_status status)
{
    accel_check_at (NULL, 0, status, &err);
}

/* The same clock in all processes. */
static double
now (void)
{
    struct timespec time;
    clock_gettime (CLOCK_MONOTONIC, &time);
    return (double) time.tv_sec + (double) time.tv_nsec / 1e9;
}

static int
compare (const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

static double
median (double *values, size_t count)
{
    qsort (values, count, sizeof *values, compare);
    return count ? values[count / 2] : 0;
}

struct network {
    struct accel_tensor data[TENSORS], grads[TENSORS];
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    struct accel_loader *loader;
};

static enum accel_status
read_number (void *user, size_t index, void *const *into, struct accel_error *error)
{
    (void) user, (void) error;
    *(int64_t *) into[0] = (int64_t) index;
    return ACCEL_OK;
}

static enum accel_status
backward (void *user, float scale, struct accel_error *error)
{
    struct network *network = user;
    (void) error;
    for (int i = 0; i < TENSORS; i++)
        for (int64_t j = 0; j < network->grads[i].dl.shape[0]; j++)
            ((float *) network->grads[i].dl.data)[j] += scale;
    return ACCEL_OK;
}

static void
make_network (struct network *network, struct accel *acc, int64_t elements, const struct accel_dataset *numbers)
{
    static const char *const names[TENSORS] = { "t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7" };
    struct accel_parameter parameters[TENSORS];
    for (int i = 0; i < TENSORS; i++) {
        must (accel_tensor_init (&network->data[i], ACCEL_FLOAT32, 1, &elements, &err));
        must (accel_tensor_init (&network->grads[i], ACCEL_FLOAT32, 1, &elements, &err));
        network->data[i].dl.data = calloc ((size_t) elements, sizeof (float));
        if (!network->data[i].dl.data)
            exit (EXIT_FAILURE);
        parameters[i] = (struct accel_parameter){ names[i], &network->data[i].dl, &network->grads[i].dl };
    }
    must (accel_model_create (&network->model, parameters, TENSORS, &err));
    must (accel_optimizer_create (&network->optimizer, network->model, ACCEL_ADAMW, NULL, &err));
    must (accel_loader_create (&network->loader, numbers, &(struct accel_loader_options){ .batch_size = 1 }, &err));
    must (accel_prepare (acc, &err, network->model, network->optimizer, network->loader));
}

static void
report (struct accel *acc, const double *times, size_t steps, size_t every, double size)
{
    static double with[MOST_STEPS], without[MOST_STEPS];
    size_t counts[2] = { 0, 0 };
    for (size_t i = 3 * every + 1; i < steps; i++) /* the first saves get pages */
        if (i % every == 0)
            with[counts[0]++] = times[i];
        else
            without[counts[1]++] = times[i];
    double saving = median (with, counts[0]), plain = median (without, counts[1]);
    accel_print (acc, "%.2f MiB, %d ranks: a step takes %.3f ms, with a save %.3f ms; the save %.3f ms, %.2f %% of %zu "
                 "steps\n", size, accel_num_processes (acc), 1e3 * plain, 1e3 * saving, 1e3 * (saving - plain),
                 100 * (saving - plain) / (plain * (double) every), every);
}

static void
note_time (const char *file)
{
    FILE *out = fopen (file, "w");
    if (!out || fprintf (out, "%.9f\n", now ()) < 0 || fclose (out))
        exit (EXIT_FAILURE);
}

static double
read_time (const char *file)
{
    double time = 0;
    FILE *in = fopen (file, "r");
    if (!in || fscanf (in, "%lf", &time) != 1 || fclose (in))
        exit (EXIT_FAILURE);
    return time;
}

int
main (int argc, char **argv)
{
    static double times[MOST_STEPS];
    static struct network network;
    struct accel *acc;
    const struct accel_batch *batch;
    const char *text = getenv ("ACCELERATE_MEMORY_CHECKPOINT_EVERY"), *restarts = getenv ("TORCHELASTIC_RESTART_COUNT");
    double size = argc > 2 ? strtod (argv[2], NULL) : 0;
    size_t steps = argc > 3 ? strtoul (argv[3], NULL, 10) : 0, every = text ? strtoul (text, NULL, 10) : 0;
    if (!steps || steps > MOST_STEPS || !every || size <= 0) {
        fprintf (stderr, "usage: bench_memory FILE MIB STEPS, with --memory_checkpoint_every and --max_restarts 1\n");
        return 2;
    }
    bool again = restarts && *restarts == '1';
    double started = now ();
    const struct accel_field fields[] = { { .name = "number", .dtype = ACCEL_INT64 } };
    const struct accel_dataset numbers
        = { .size = 10 * MOST_STEPS, .fields = fields, .field_count = 1, .read = read_number };
    must (accel_open (&acc, &(struct accel_options){ .cpu = true }, &err));
    double opened = now ();
    make_network (&network, acc, (int64_t) (size * (1 << 20) / sizeof (float) / TENSORS), &numbers);
    double made = now ();
    if (again)
        must (accel_load_state (acc, NULL, &err));
    double loaded = now ();
    size_t done = (size_t) accel_optimizer_step_count (network.optimizer);
    double begin = now ();
    for (size_t i = 0; accel_loader_next (network.loader, &batch, &err) && i < steps; i++) {
        must (accel_backward (acc, network.model, 0, backward, &network, &err));
        must (accel_optimizer_step (network.optimizer, &err));
        must (accel_optimizer_zero_grad (network.optimizer, &err));
        times[i] = now () - begin; /* with the save before it */
        begin += times[i];
        if (again) {
            double killed = read_time (argv[1]), end = now ();
            accel_print (acc, "%.1f ms from SIGKILL to the end of step %zu: until main() %.1f, accel_open %.1f, until "
                         "all is made %.1f, accel_load_state %.1f, the step %.1f; %zu steps are made again\n",
                         1e3 * (end - killed), done + 1, 1e3 * (started - killed), 1e3 * (opened - started),
                         1e3 * (made - opened), 1e3 * (loaded - made), 1e3 * (end - loaded), steps - done);
            break;
        }
    }
    if (!again)
        report (acc, times, steps, every, size);
    must (accel_wait_for_everyone (acc, &err));
    if (!again && accel_process_index (acc) == accel_num_processes (acc) - 1) {
        note_time (argv[1]);
        kill (getpid (), SIGKILL);
    }
    must (accel_wait_for_everyone (acc, &err));
    accel_close (acc);
    return 0;
}
