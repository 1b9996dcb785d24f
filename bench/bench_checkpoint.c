/* SPDX-License-Identifier: Apache-2.0 */
/* Saving a model, and the state of a job that has nothing else, beside pwrite() and fsync() of the same bytes, in
 * turns: one file, and several that ranks write at the same time; and the memory that this needs.  Then how long an
 * asynchronous save blocks a step, beside memcpy() of the same bytes, in turns; and the time from opening a file to its
 * first tensor.
 *
 *   accelerate launch --cpu --num_processes N bench_checkpoint FOLDER [MIB [ROUNDS]] */
#include <config.h>

#include <accel/accel.h>

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { TENSORS = 16, PIECE = 8 << 20, MOST_ROUNDS = 100, WAYS = 4, SHARDS = 4, OPENS = 21 };
enum { WARM, LATER, NEW, FIRST, RESERVE, RESERVED, WHOLE, COPIES };

static const char *const names[TENSORS] = { "t00", "t01", "t02", "t03", "t04", "t05", "t06", "t07",
                                            "t08", "t09", "t10", "t11", "t12", "t13", "t14", "t15" };
static const char *const ways[WAYS] = { "pwrite and fsync, one file", "accel_save_model, one file",
                                        "accel_save_model, 4 files", "accel_save_state" };
static const char *const copies[COPIES]
    = { [WARM] = "memcpy to pages of an earlier copy",
        [LATER] = "accel_save_state_start, later ones",
        [NEW] = "memcpy to new pages",
        [FIRST] = "accel_save_state_start, the first",
        [RESERVE] = "accel_save_state_reserve",
        [RESERVED] = "accel_save_state_start after it",
        [WHOLE] = "until a later one is on disk" };
static struct accel *acc;
static struct accel_model *model;
static struct accel_tensor tensors[TENSORS];
static struct accel_error err;
static size_t tensor_bytes;
static char path[4096];

static void
must (enum accel_status status)
{
    accel_check_at (NULL, 0, status, &err);
}

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
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static void
make_model (void)
{
    struct accel_parameter parameters[TENSORS];
    for (size_t i = 0; i < TENSORS; i++) {
        must (accel_tensor_init (&tensors[i], ACCEL_FLOAT32, 1, (int64_t[]){ (int64_t) (tensor_bytes / 4) }, &err));
        tensors[i].dl.data = malloc (tensor_bytes);
        if (!tensors[i].dl.data)
            exit (EXIT_FAILURE);
        for (size_t j = 0; j < tensor_bytes / 4; j++)
            ((float *) tensors[i].dl.data)[j] = (float) (i + j % 1000);
        parameters[i] = (struct accel_parameter){ names[i], &tensors[i].dl, NULL };
    }
    must (accel_model_create (&model, parameters, TENSORS, &err));
    must (accel_prepare (acc, &err, model));
}

static void
write_plain (void)
{
    char file[4200];
    snprintf (file, sizeof file, "%s/plain", path);
    int fd = open (file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool good = fd >= 0;
    for (size_t i = 0; i < TENSORS && good; i++)
        for (size_t at = 0; at < tensor_bytes && good; at += PIECE) {
            size_t some = tensor_bytes - at < PIECE ? tensor_bytes - at : PIECE;
            off_t offset = (off_t) (i * tensor_bytes + at);
            good = pwrite (fd, (char *) tensors[i].dl.data + at, some, offset) == (ssize_t) some;
        }
    if (!good || fsync (fd) || close (fd)) {
        perror (file);
        exit (EXIT_FAILURE);
    }
}

static int
remove_one (const char *name, const struct stat *info, int kind, struct FTW *ftw)
{
    (void) info, (void) kind, (void) ftw;
    return remove (name);
}

static const char *
state_folder (void)
{
    static char folder[4200];
    snprintf (folder, sizeof folder, "%s/state", path);
    return folder;
}

static void
remove_all (void)
{
    char file[4300];
    nftw (state_folder (), remove_one, 8, FTW_DEPTH | FTW_PHYS);
    snprintf (file, sizeof file, "%s/plain", path);
    unlink (file);
    snprintf (file, sizeof file, "%s/model.safetensors", path);
    unlink (file);
    for (int i = 1; i <= SHARDS; i++) {
        snprintf (file, sizeof file, "%s/model-%05d-of-%05d.safetensors", path, i, SHARDS);
        unlink (file);
    }
    snprintf (file, sizeof file, "%s/model.safetensors.index.json", path);
    unlink (file);
    sync ();
}

static double
measure (int way)
{
    struct accel_save_model_options options = { .max_shard_bytes = TENSORS * tensor_bytes };
    if (way == 2)
        options.max_shard_bytes /= SHARDS;
    if (accel_is_main_process (acc))
        remove_all ();
    must (accel_wait_for_everyone (acc, &err));
    double begin = now ();
    if (way == 3)
        must (accel_save_state (acc, state_folder (), &err));
    else if (way)
        must (accel_save_model (acc, model, path, &options, &err));
    else if (accel_is_main_process (acc))
        write_plain ();
    must (accel_wait_for_everyone (acc, &err));
    return now () - begin;
}

/* What a step would wait for, on the slowest rank; then the time until the save is on disk. */
static double
measure_start (double *whole)
{
    if (accel_is_main_process (acc))
        remove_all ();
    must (accel_wait_for_everyone (acc, &err));
    double begin = now ();
    must (accel_save_state_start (acc, state_folder (), &err));
    double blocked = now () - begin;
    must (accel_save_state_wait (acc, &err));
    *whole = now () - begin;
    return blocked;
}

/* The library copies on rank 0 only, so it alone copies here. */
static double
measure_memcpy (char **copy)
{
    if (!*copy && !(*copy = malloc (TENSORS * tensor_bytes)))
        exit (EXIT_FAILURE);
    must (accel_wait_for_everyone (acc, &err));
    double begin = now ();
    for (size_t i = 0; i < TENSORS && accel_is_main_process (acc); i++)
        memcpy (*copy + i * tensor_bytes, tensors[i].dl.data, tensor_bytes);
    must (accel_wait_for_everyone (acc, &err));
    return now () - begin;
}

/* accel_free_memory() frees the copy: the next save is a first one. */
static void
forget_copy (void)
{
    must (accel_free_memory (acc, &err));
    must (accel_prepare (acc, &err, model));
}

static double
measure_reserve (void)
{
    must (accel_wait_for_everyone (acc, &err));
    double begin = now ();
    must (accel_save_state_reserve (acc, &err));
    must (accel_wait_for_everyone (acc, &err));
    return now () - begin;
}

/* What comes first in a round gets other pages from the kernel than what comes next, so they take turns. */
static void
measure_copies (double times[COPIES][MOST_ROUNDS], size_t round)
{
    double whole;
    char *copy = NULL;
    bool memcpy_first = round % 2 == 0;
    forget_copy ();
    if (memcpy_first)
        times[NEW][round] = measure_memcpy (&copy);
    times[FIRST][round] = measure_start (&whole);
    if (!memcpy_first)
        times[NEW][round] = measure_memcpy (&copy);
    times[WARM][round] = measure_memcpy (&copy);
    times[LATER][round] = measure_start (&times[WHOLE][round]);
    forget_copy ();
    times[RESERVE][round] = measure_reserve ();
    times[RESERVED][round] = measure_start (&whole);
    free (copy);
}

static double
measure_open (void)
{
    char file[4200];
    double times[OPENS];
    snprintf (file, sizeof file, "%s/model.safetensors", path);
    for (int i = 0; i < OPENS; i++) {
        struct accel_safetensors *opened;
        DLTensor view;
        double begin = now ();
        must (accel_safetensors_open (&opened, file, NULL, &err));
        must (accel_safetensors_view (opened, 0, &view, &err));
        volatile float first = *(float *) view.data;
        (void) first;
        times[i] = now () - begin;
        accel_safetensors_close (opened);
    }
    return median (times, OPENS);
}

static long
peak_kib (void)
{
    struct rusage usage;
    getrusage (RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

static void
report_copies (size_t rounds)
{
    static double times[COPIES][MOST_ROUNDS];
    static const int pairs[][2] = { { LATER, WARM }, { RESERVED, WARM }, { FIRST, NEW }, { FIRST, WARM } };
    for (size_t round = 0; round < rounds; round++)
        measure_copies (times, round);
    for (int i = 0; i < COPIES; i++)
        accel_print (acc, "%-36s %7.1f ms\n", copies[i], 1e3 * median (times[i], rounds));
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        accel_print (acc, "%s: %.2f times %s\n", copies[pairs[i][0]],
                     median (times[pairs[i][0]], rounds) / median (times[pairs[i][1]], rounds), copies[pairs[i][1]]);
}

int
main (int argc, char **argv)
{
    static double times[WAYS][MOST_ROUNDS];
    size_t mib = argc > 2 ? strtoul (argv[2], NULL, 10) : 1024, rounds = argc > 3 ? strtoul (argv[3], NULL, 10) : 5;
    if (argc < 2 || !mib || !rounds || rounds > MOST_ROUNDS) {
        fprintf (stderr, "usage: bench_checkpoint FOLDER [MIB [ROUNDS]]\n");
        return 2;
    }
    snprintf (path, sizeof path, "%s", argv[1]);
    tensor_bytes = (mib << 20) / TENSORS;
    must (accel_open (&acc, &(struct accel_options){ .cpu = true }, &err));
    make_model ();
    long before = peak_kib ();
    for (size_t round = 0; round < rounds; round++)
        for (int turn = 0; turn < WAYS; turn++) {
            int way = round % 2 ? WAYS - 1 - turn : turn; /* every second round in the opposite order */
            times[way][round] = measure (way);
        }
    accel_print (acc, "%zu MiB, %d ranks, medians of %zu rounds in turns\n", mib, accel_num_processes (acc), rounds);
    double plain = median (times[0], rounds);
    for (int way = 0; way < WAYS; way++)
        accel_print (acc, "%-28s %6.3f s  %6.2f GiB/s  %4.0f %%\n", ways[way], median (times[way], rounds),
                     (double) mib / 1024 / median (times[way], rounds), 100 * plain / median (times[way], rounds));
    accel_print (acc, "memory for saving: %.1f MiB\n", (double) (peak_kib () - before) / 1024);
    report_copies (rounds);
    measure (1);
    accel_print (acc, "open to first tensor: %.3f ms\n", 1e3 * measure_open ());
    must (accel_wait_for_everyone (acc, &err));
    if (accel_is_main_process (acc))
        remove_all ();
    accel_model_destroy (model);
    accel_close (acc);
    return 0;
}
