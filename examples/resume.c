/* SPDX-License-Identifier: Apache-2.0 */
/* Trains on shuffled data, can be killed at any moment, and continues where it was, on any number of processes.
 *
 *   accelerate launch --num_processes 2 examples/resume [--project_dir DIR] [--log FILE] [--samples N] [--batch_size N]
 *                                                       [--total_batch_size N] [--epochs N] [--every N] [--seed N]
 *                                                       [--step_ms N] [--evaluate N]
 *
 * To build it by hand: cc resume.c -o resume $(pkg-config --cflags --libs libaccel)
 *
 * A step has total_batch_size samples, in as many passes as the number of processes needs: for 16, 2 processes with 4
 * samples each make 2 passes, and 1 process makes 4.  So the steps stay the same on any number of processes.
 *
 * Each sample that was used is a line in the log: its epoch, the sample, a random number and its loss, both with all
 * digits that tell their bits apart.  Every few steps the state is saved: the library saves the model, and where the
 * loader and the random numbers are; this program adds how long the log is.  If the program is started again, it cuts
 * the log back to that length, and the log becomes the same as that of a run that was never killed.
 *
 * With --evaluate N, all samples are evaluated after every N steps, which the state and the log do not show.
 *
 * SIGUSR1, to the launcher or to any process, asks for a checkpoint; SIGTERM and time limits ask for a last one.  All
 * processes then save, and end, after the same step. */
#include <accel/accel.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LOCK_TRIES = 1000, LOCK_PAUSE_MS = 10, WEIGHTS = 3, LINE = 96 };

__attribute__ ((format (printf, 1, 2), noreturn)) static void
die (const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start (args, format);
    vsnprintf (text, sizeof text, format, args);
    va_end (args);
    fprintf (stderr, "resume: %s\n", text);
    exit (EXIT_FAILURE);
}

static void
pause_ms (long ms)
{
    struct timespec time = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
    if (ms)
        nanosleep (&time, NULL);
}

/* ---- files ---- */

static void
write_all (int fd, const char *path, const void *bytes, size_t count)
{
    for (const char *next = bytes; count;) {
        ssize_t written = write (fd, next, count);
        if (written < 0 && errno != EINTR)
            die ("%s: %s", path, strerror (errno));
        next += written > 0 ? written : 0;
        count -= written > 0 ? (size_t) written : 0;
    }
}

/* Ranks of a run that was killed may not have ended yet: until then, they write to the log. */
static int
open_log (const char *path)
{
    int fd = open (path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0)
        die ("%s: %s", path, strerror (errno));
    for (int tries = 0; flock (fd, LOCK_EX | LOCK_NB); tries++) {
        if ((errno != EWOULDBLOCK && errno != EINTR) || tries == LOCK_TRIES)
            die ("%s: %s", path, errno == EWOULDBLOCK ? "another run is writing to it" : strerror (errno));
        pause_ms (LOCK_PAUSE_MS);
    }
    return fd;
}

/* ---- the state ---- */

/* What this program adds to the state; only rank 0 has the log. */
struct progress {
    int log; /* -1 on other ranks */
    const char *path;
};

/* Everything that the state says was logged must be on the disk before the state is. */
static enum accel_status
save_progress (void *user, struct accel_state_dict *state, struct accel_error *err)
{
    const struct progress *progress = user;
    struct stat info;
    (void) err;
    if (fsync (progress->log) || fstat (progress->log, &info))
        die ("%s: %s", progress->path, strerror (errno));
    accel_state_dict_set_int64 (state, "log_bytes", info.st_size);
    return ACCEL_OK;
}

static enum accel_status
load_progress (void *user, const struct accel_state_dict *state, struct accel_error *err)
{
    const struct progress *progress = user;
    int64_t log_bytes;
    struct stat info;
    enum accel_status status = accel_state_dict_get_int64 (state, "log_bytes", &log_bytes, err);
    if (status || progress->log < 0)
        return status;
    if (fstat (progress->log, &info) || info.st_size < log_bytes)
        die ("%s is shorter than the checkpoint records", progress->path);
    if (ftruncate (progress->log, log_bytes))
        die ("%s: %s", progress->path, strerror (errno));
    return ACCEL_OK;
}

/* From the checkpoint that `accelerate launch --resume` has found, otherwise from the newest of the project. */
static void
begin (struct accel *acc, struct progress *progress, const char *project_dir)
{
    struct accel_error err;
    const struct accel_project_configuration project
        = { .project_dir = project_dir, .automatic_checkpoint_naming = true, .total_limit = 2 };
    const struct accel_checkpoint_object object = { .save = save_progress, .load = load_progress, .user = progress };
    if (accel_is_main_process (acc))
        progress->log = open_log (progress->path);
    accel_check (accel_set_project_configuration (acc, &project, &err), &err);
    accel_check (accel_register_for_checkpointing (acc, &object, &err), &err);
    enum accel_status status = accel_load_state (acc, getenv ("ACCEL_RESUME_FROM"), &err);
    if (status != ACCEL_ERR_NOT_FOUND)
        accel_check (status, &err);
    if (status && progress->log >= 0 && ftruncate (progress->log, 0)) /* there is no checkpoint yet */
        die ("%s: %s", progress->path, strerror (errno));
}

/* ---- what the program was asked ---- */

struct options {
    long samples, batch_size, total_batch_size, epochs, every, seed, step_ms, evaluate;
    const char *project_dir, *log;
};

static long
parse_count (const char *name, const char *text, long min, long max)
{
    char *end;
    errno = 0;
    long value = strtol (text, &end, 10);
    if (end == text || *end || errno || value < min || value > max)
        die ("%s: '%s' is not a whole number from %ld to %ld", name, text, min, max);
    return value;
}

static struct options
parse_options (int argc, char **argv)
{
    struct options options = { .samples = 1008, .batch_size = 4, .total_batch_size = 16, .epochs = 3, .every = 5,
                               .project_dir = "resume", .log = "resume.log" };
    const struct {
        const char *name;
        long *value;
        long min, max;
    } counts[] = {
        { "--samples", &options.samples, 1, 1000000000 },
        { "--batch_size", &options.batch_size, 1, 1000000 },
        { "--total_batch_size", &options.total_batch_size, 1, 1000000 },
        { "--epochs", &options.epochs, 0, 1000000 },
        { "--every", &options.every, 1, 1000000 },
        { "--seed", &options.seed, 0, LONG_MAX },
        { "--step_ms", &options.step_ms, 0, 60000 },
        { "--evaluate", &options.evaluate, 0, 1000000 },
    };
    for (int i = 1; i < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        bool known = false;
        if (!strcmp (name, "--help")) {
            puts ("usage: resume [--project_dir DIR] [--log FILE] [--samples N] [--batch_size N] "
                  "[--total_batch_size N] [--epochs N] [--every N] [--seed N] [--step_ms N] [--evaluate N]");
            exit (EXIT_SUCCESS);
        }
        if (!value)
            die ("%s: missing value", name);
        for (size_t j = 0; j < sizeof counts / sizeof *counts; j++)
            if (!strcmp (name, counts[j].name)) {
                *counts[j].value = parse_count (name, value, counts[j].min, counts[j].max);
                known = true;
            }
        if (!strcmp (name, "--project_dir"))
            options.project_dir = value;
        else if (!strcmp (name, "--log"))
            options.log = value;
        else if (!known)
            die ("unknown option '%s'; see --help", name);
    }
    return options;
}

/* ---- training ---- */

/* Sample i is the number i. */
static enum accel_status
read_number (void *user, size_t index, void *const *into, struct accel_error *err)
{
    (void) user;
    (void) err;
    *(int64_t *) into[0] = (int64_t) index;
    return ACCEL_OK;
}

/* A linear model of what follows from that number. */
struct training {
    float weights[WEIGHTS];
    DLTensor data, grad; /* of the weights; accel_prepare() makes memory for the gradient */
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    struct accel_loader *loader;
    const struct accel_batch *batch; /* of this pass */
};

/* @return how far the model is off for @p sample, whose inputs are @p x. */
static double
error_of (const struct training *training, int64_t sample, double x[WEIGHTS])
{
    double error = -(double) (sample % 5) / 4;
    for (int i = 0; i < WEIGHTS; i++) {
        x[i] = (double) ((sample * 7 + i * 5) % 11) / 8 - 0.5;
        error += (double) training->weights[i] * x[i];
    }
    return error;
}

/* The gradient of each sample is a multiple of 1/1024, so that sums have no rounding errors, and the same bits in
 * whatever order processes and passes add them.  Other programs have the same steps but for these errors. */
static enum accel_status
backward (void *user, float scale, struct accel_error *err)
{
    struct training *training = user;
    const int64_t *samples = accel_batch_tensor (training->batch, "number")->data;
    size_t count = accel_batch_size (training->batch);
    float *gradient = training->grad.data;
    (void) err;
    for (size_t s = 0; s < count; s++) {
        double x[WEIGHTS], error = error_of (training, samples[s], x);
        for (int i = 0; i < WEIGHTS; i++)
            gradient[i] += (float) ((double) (int64_t) (error * x[i] * 1024) / 1024 * (double) scale / (double) count);
    }
    return ACCEL_OK;
}

/* The samples of all processes come in the order of the ranks, which is the loader's; those that were repeated to fill
 * up the last round are left out. */
static void
log_pass (struct accel *acc, const struct training *training, int log, const char *path)
{
    struct accel_error err;
    struct accel_tensor all = { 0 };
    accel_check (accel_gather_for_metrics (&all, acc, accel_batch_tensor (training->batch, "number"), &err), &err);
    size_t count = accel_tensor_count (&all.dl), used = 0, room = count * LINE + 1;
    char *lines = log < 0 ? NULL : malloc (room);
    if (log >= 0 && !lines)
        die ("out of memory");
    for (size_t i = 0; lines && i < count; i++) {
        int64_t sample = ((const int64_t *) all.dl.data)[i];
        double x[WEIGHTS], error = error_of (training, sample, x);
        used += (size_t) snprintf (lines + used, room - used, "%llu %lld %.9g %.17g\n",
                                   (unsigned long long) accel_loader_epoch (training->loader), (long long) sample,
                                   (double) accel_generator_uniform (accel_default_generator ()), error * error / 2);
    }
    if (lines)
        write_all (log, path, lines, used);
    free (lines);
    accel_tensor_release (&all);
}

/* One of the passes that make up a step. */
static void
train_pass (struct accel *acc, struct training *training)
{
    struct accel_error err;
    accel_check (accel_accumulate (acc, &err), &err);
    accel_check (accel_backward (acc, training->model, 0, backward, training, &err), &err);
    accel_check (accel_optimizer_step (training->optimizer, &err), &err);
    accel_check (accel_optimizer_zero_grad (training->optimizer, &err), &err);
}

/* The mean loss of all samples, a part of them on each process; each batch takes as long as a step. */
static void
evaluate (struct accel *acc, const struct training *training, const struct options *options, long steps)
{
    struct accel_error err;
    double loss = 0, x[WEIGHTS];
    int rank = accel_process_index (acc), processes = accel_num_processes (acc);
    accel_print (acc, "evaluating after step %ld\n", steps);
    for (int64_t sample = rank; sample < options->samples; sample += processes) {
        double error = error_of (training, sample, x);
        loss += error * error / 2;
        if (sample / processes % options->batch_size == 0)
            pause_ms (options->step_ms);
    }
    accel_check (accel_comm_all_reduce (accel_world (acc), &loss, &loss, 1, ACCEL_FLOAT64, ACCEL_SUM, &err), &err);
    accel_print (acc, "mean loss %.6f\n", loss / (double) options->samples);
}

static void
make_training (struct accel *acc, struct training *training, const struct accel_dataset *numbers,
               const struct options *options)
{
    static int64_t shape[] = { WEIGHTS };
    struct accel_error err;
    const struct accel_loader_options loader = { .batch_size = (size_t) options->batch_size, .shuffle = true,
                                                 .seed = (uint64_t) options->seed, .workers = 2 };
    training->data = (DLTensor){ .data = training->weights, .device = { kDLCPU, 0 }, .ndim = 1, .shape = shape,
                                 .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
    training->grad = training->data;
    training->grad.data = NULL;
    const struct accel_parameter parameter = { "weights", &training->data, &training->grad };
    accel_check (accel_model_create (&training->model, &parameter, 1, &err), &err);
    accel_check (accel_optimizer_create (&training->optimizer, training->model, ACCEL_SGD,
                                   &(struct accel_optimizer_options){ .lr = 0.0625, .momentum = 0.5 }, &err), &err);
    accel_check (accel_loader_create (&training->loader, numbers, &loader, &err), &err);
    accel_check (accel_prepare (acc, &err, training->model, training->optimizer, training->loader), &err);
}

static void
destroy_training (struct training *training)
{
    accel_loader_destroy (training->loader);
    accel_optimizer_destroy (training->optimizer);
    accel_model_destroy (training->model);
}

int
main (int argc, char **argv)
{
    struct options options = parse_options (argc, argv);
    struct training training = { .weights = { 0 } };
    struct accel *acc;
    struct accel_error err;
    const struct accel_options job = { .cpu = true, .total_batch_size = (size_t) options.total_batch_size,
                                       .catch_signals = 1 };
    accel_check (accel_open (&acc, &job, &err), &err);

    const struct accel_field fields[] = { { .name = "number", .dtype = ACCEL_INT64 } };
    const struct accel_dataset numbers
        = { .size = (size_t) options.samples, .fields = fields, .field_count = 1, .read = read_number };
    make_training (acc, &training, &numbers, &options);

    struct progress progress = { .log = -1, .path = options.log };
    accel_check (accel_set_seed (acc, (uint64_t) options.seed, false, &err), &err);
    begin (acc, &progress, options.project_dir);
    accel_print (acc, "%d process(es) x %ld x %u passes, from epoch %llu\n", accel_num_processes (acc),
                 options.batch_size, accel_gradient_accumulation_steps (acc),
                 (unsigned long long) accel_loader_epoch (training.loader));
    long steps = 0;
    bool ends = false;
    while (!ends && accel_loader_epoch (training.loader) < (uint64_t) options.epochs) {
        while (!ends && accel_loader_next (training.loader, &training.batch, &err)) {
            log_pass (acc, &training, progress.log, options.log);
            train_pass (acc, &training);
            pause_ms (options.step_ms);
            if (!accel_sync_gradients (acc)) /* in a step: the state can be continued by any number between two */
                continue;
            bool saves = ++steps % options.every == 0, is_asked;
            if (options.evaluate && steps % options.evaluate == 0)
                evaluate (acc, &training, &options, steps);
            accel_check (accel_should_save (acc, &is_asked, &err), &err);
            if (saves || is_asked)
                accel_check (accel_save_state (acc, NULL, &err), &err);
            accel_check (accel_should_stop (acc, &ends, &err), &err);
        }
        if (!ends)
            accel_check (err.code, &err);
    }
    if (ends)
        accel_print (acc, "saved, and ending as asked\n");
    else {
        if (steps)
            accel_check (accel_save_state (acc, NULL, &err), &err);
        accel_print (acc, "finished %ld epochs\n", options.epochs);
    }

    destroy_training (&training);
    accel_close (acc);
    return 0;
}
