/* SPDX-License-Identifier: Apache-2.0 */
/* What loaders cost: time per index of a shuffled order, throughput next to a bare loop over the same reads, and memory
 * beyond the permutation.
 *
 *   bench_data index [SAMPLES [RUNS]]     bench_data read [ROUNDS]     bench_data memory [SAMPLES]
 *
 * In turns with another build (turns.h), "index" and "read" print a line for each case instead of a table: name, number
 * of threads or samples, and the microseconds of every epoch. */
#include <config.h>

#include <accel/accel.h>

#include "bench/turns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_RUNS = 101, INDEX_BATCH = 256, IMAGE_BYTES = 224 * 224 * 3, SMALL_BYTES = 16 };

static void
check (enum accel_status status, const struct accel_error *err)
{
    if (!status)
        return;
    fprintf (stderr, "bench_data: %s\n", err->text);
    exit (EXIT_FAILURE);
}

static double
read_clock (clockid_t clock)
{
    struct timespec time;
    clock_gettime (clock, &time);
    return (double) time.tv_sec + (double) time.tv_nsec / 1e9;
}

static double
now (void)
{
    return read_clock (CLOCK_MONOTONIC);
}

/* Of what computes and never waits: others that use the machine meanwhile do not count. */
static double
processor_time (void)
{
    return read_clock (CLOCK_PROCESS_CPUTIME_ID);
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

static size_t
number (const char *text, size_t otherwise)
{
    size_t value = text ? strtoull (text, NULL, 10) : otherwise;
    if (!value) {
        fprintf (stderr, "bench_data: '%s' is not a number greater than 0\n", text);
        exit (2);
    }
    return value;
}

static void
print_times (const char *name, size_t number_of, const double *seconds, size_t count)
{
    for (; *name; name++)
        putchar (*name == ' ' ? '_' : *name);
    printf (" %zu", number_of);
    for (size_t i = 0; i < count; i++)
        printf (" %.3f", seconds[i] * 1e6);
    putchar ('\n');
}

/* ---- indices, without data ---- */

static enum accel_status
read_nothing (void *user, const int64_t *indices, size_t count, void *const *into, struct accel_error *err)
{
    (void) user, (void) indices, (void) count, (void) into, (void) err;
    return ACCEL_OK;
}

static const struct accel_field nothing[] = { { .name = "nothing", .dtype = ACCEL_UINT8, .ndim = 1 } };

/* One epoch.  @return a sum over all its indices, so all must have been there */
static uint64_t
go_through (size_t samples, size_t batch_size, double *drawing, double *all)
{
    const struct accel_dataset dataset
        = { .size = samples, .fields = nothing, .field_count = 1, .read_many = read_nothing };
    const struct accel_loader_options options = { .batch_size = batch_size, .shuffle = true };
    const struct accel_batch *batch;
    struct accel_loader *loader;
    struct accel_error err;
    uint64_t sum = 0;
    double start = processor_time ();
    check (accel_loader_create (&loader, &dataset, &options, &err), &err);
    bool more = accel_loader_next (loader, &batch, &err);
    *drawing = processor_time () - start;
    for (; more; more = accel_loader_next (loader, &batch, &err)) {
        const int64_t *indices = accel_batch_indices (batch);
        for (size_t i = 0, count = accel_batch_size (batch); i < count; i++)
            sum += (uint64_t) indices[i];
    }
    *all = processor_time () - start;
    check (err.code, &err);
    accel_loader_destroy (loader);
    return sum;
}

static void
bench_index (size_t samples, size_t runs)
{
    double drawing[MOST_RUNS], all[MOST_RUNS];
    for (size_t run = 0; run < runs; run++) {
        turns_begin ();
        if (go_through (samples, INDEX_BATCH, &drawing[run], &all[run]) != (uint64_t) samples * (samples - 1) / 2) {
            fprintf (stderr, "bench_data: samples are missing\n");
            exit (EXIT_FAILURE);
        }
        turns_end ();
    }
    if (turns.shared) {
        print_times ("index", samples, all, runs);
        return;
    }
    double scale = 1e9 / (double) samples, total = median (all, runs) * scale, draw = median (drawing, runs) * scale;
    printf ("accel   %10zu samples, batches of %d: %8.2f ns of processor time per index (%.2f drawing the order), "
            "median of %zu\n", samples, INDEX_BATCH, total, draw, runs);
}

/* ---- reading ---- */

struct array {
    const char *bytes;
    size_t sample_bytes, count;
};

static enum accel_status
read_one (void *user, size_t index, void *const *into, struct accel_error *err)
{
    const struct array *array = user;
    (void) err;
    memcpy (into[0], array->bytes + index * array->sample_bytes, array->sample_bytes);
    return ACCEL_OK;
}

static enum accel_status
read_many (void *user, const int64_t *indices, size_t count, void *const *into, struct accel_error *err)
{
    const struct array *array = user;
    char *row = into[0];
    (void) err;
    for (size_t i = 0; i < count; i++, row += array->sample_bytes)
        memcpy (row, array->bytes + (size_t) indices[i] * array->sample_bytes, array->sample_bytes);
    return ACCEL_OK;
}

struct setting {
    const char *name;
    size_t sample_bytes, count, batch_size;
    bool many;
};

/* The same reads, through the same function pointers, in the same order, which is drawn first, into two buffers in
 * turns, as a loader without threads does.  @return seconds */
static double
bare_loop (const struct setting *setting, const struct accel_dataset *dataset, struct accel_sampler *sampler,
           int64_t *order, char *buffers[2])
{
    struct accel_error err;
    double start = now ();
    size_t turn = 0;
    check (accel_sampler_draw (sampler, order, &err), &err);
    for (size_t begin = 0; begin < setting->count; begin += setting->batch_size, turn++) {
        size_t left = setting->count - begin, count = left < setting->batch_size ? left : setting->batch_size;
        void *into[1] = { buffers[turn % 2] };
        if (setting->many)
            dataset->read_many (dataset->user, order + begin, count, into, NULL);
        for (size_t i = 0; i < count && !setting->many; i++) {
            into[0] = buffers[turn % 2] + i * setting->sample_bytes;
            dataset->read (dataset->user, (size_t) order[begin + i], into, NULL);
        }
    }
    return now () - start;
}

/* @return seconds of an epoch */
static double
loader_loop (struct accel_loader *loader)
{
    const struct accel_batch *batch;
    struct accel_error err;
    double start = now ();
    while (accel_loader_next (loader, &batch, &err))
        ;
    check (err.code, &err);
    return now () - start;
}

static struct accel_loader *
make_loader (const struct accel_dataset *dataset, const struct setting *setting, unsigned workers)
{
    struct accel_loader *loader;
    struct accel_error err;
    const struct accel_loader_options options
        = { .batch_size = setting->batch_size, .shuffle = true, .workers = workers };
    check (accel_loader_create (&loader, dataset, &options, &err), &err);
    return loader;
}

enum { LOADERS = 3 }; /* with 0, 1 and 2 threads */

static void
bench_setting (const struct setting *setting, size_t rounds)
{
    size_t bytes = setting->sample_bytes * setting->count, room = setting->sample_bytes * setting->batch_size;
    double bare[MOST_RUNS], times[LOADERS][MOST_RUNS], ratios[LOADERS][MOST_RUNS];
    char *memory = malloc (bytes), *buffers[2] = { aligned_alloc (64, room), aligned_alloc (64, room) };
    int64_t *order = malloc (setting->count * sizeof *order);
    if (!memory || !order || !buffers[0] || !buffers[1])
        exit (EXIT_FAILURE);
    memset (memory, 7, bytes);
    struct array array = { memory, setting->sample_bytes, setting->count };
    struct accel_field field
        = { .name = "bytes", .dtype = ACCEL_UINT8, .ndim = 1, .shape = { (int64_t) setting->sample_bytes } };
    struct accel_dataset dataset = { .size = setting->count, .fields = &field, .field_count = 1, .read = read_one,
                                     .read_many = setting->many ? read_many : NULL, .user = &array };
    struct accel_error err;
    struct accel_sampler *sampler;
    check (accel_sampler_create (&sampler, ACCEL_SAMPLER_SEEDABLE, setting->count, NULL, &err), &err);
    struct accel_loader *loaders[LOADERS];
    for (unsigned i = 0; i < LOADERS; i++)
        loaders[i] = make_loader (&dataset, setting, i);
    for (size_t round = 0; round <= rounds; round++) { /* the first one touches all memory, and is not counted */
        size_t slot = round ? round - 1 : 0;
        turns_begin ();
        accel_sampler_set_epoch (sampler, round);
        bare[slot] = bare_loop (setting, &dataset, sampler, order, buffers);
        for (size_t i = 0; i < LOADERS; i++) {
            times[i][slot] = loader_loop (loaders[i]);
            ratios[i][slot] = bare[slot] / times[i][slot];
        }
        turns_end ();
    }
    if (!turns.shared)
        printf ("%-34s %9.0f", setting->name, (double) bytes / median (bare, rounds) / 1e6);
    for (size_t i = 0; i < LOADERS; i++) {
        if (turns.shared)
            print_times (setting->name, i, times[i], rounds);
        else
            printf (" %9.1f %%%s", 100 * median (ratios[i], rounds), i + 1 < LOADERS ? "" : "\n");
        accel_loader_destroy (loaders[i]);
    }
    accel_sampler_destroy (sampler);
    free (memory);
    free (buffers[0]);
    free (buffers[1]);
    free (order);
}

static void
bench_read (size_t rounds)
{
    static const struct setting settings[] = {
        { "224x224x3 uint8, 32, read_many", IMAGE_BYTES, 2048, 32, true },
        { "224x224x3 uint8, 32, read", IMAGE_BYTES, 2048, 32, false },
        { "16 bytes, 256, read_many", SMALL_BYTES, 1 << 20, 256, true },
        { "16 bytes, 256, read", SMALL_BYTES, 1 << 20, 256, false },
        { "16 bytes, 4096, read_many", SMALL_BYTES, 1 << 20, 4096, true },
    };
    if (!turns.shared)
        printf ("%-34s %9s %11s %11s %11s   (medians of %zu rounds in turns)\n", "samples, batch size, how",
                "bare MB/s", "0 threads", "1 thread", "2 threads", rounds);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        bench_setting (&settings[i], rounds);
}

/* ---- memory ---- */

static long
peak_kib (void)
{
    struct rusage usage;
    getrusage (RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* In a separate process, because the peak of a process never falls. */
static void
bench_memory (size_t samples, size_t batch_size)
{
    fflush (stdout);
    pid_t child = fork ();
    if (!child) {
        double drawing, all;
        go_through (1000, 10, &drawing, &all); /* code and libraries are there then */
        long before = peak_kib ();
        go_through (samples, batch_size, &drawing, &all);
        double permutation = (double) samples * sizeof (int64_t) / 1024;
        printf ("%10zu samples, batches of %7zu: permutation %9.0f KiB, peak beyond it %7.0f KiB\n", samples,
                batch_size, permutation, (double) (peak_kib () - before) - permutation);
        exit (EXIT_SUCCESS);
    }
    int status;
    if (child < 0 || waitpid (child, &status, 0) != child || status)
        exit (EXIT_FAILURE);
}

int
main (int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "", *first = argc > 2 ? argv[2] : NULL;
    turns_open ();
    if (!strcmp (what, "index")) {
        size_t runs = number (argc > 3 ? argv[3] : NULL, 3);
        bench_index (number (first, 100000000), runs < MOST_RUNS ? runs : MOST_RUNS);
    } else if (!strcmp (what, "read")) {
        size_t rounds = number (first, 11);
        bench_read (rounds < MOST_RUNS ? rounds : MOST_RUNS);
    } else if (!strcmp (what, "memory")) {
        for (size_t samples = 1000000; samples <= number (first, 100000000); samples *= 10)
            bench_memory (samples, INDEX_BATCH);
        for (size_t batch_size = 4096; batch_size <= 1 << 20; batch_size *= 16)
            bench_memory (1000000, batch_size);
    } else {
        fprintf (stderr, "usage: bench_data index [SAMPLES [RUNS]] | read [ROUNDS] | memory [SAMPLES]\n");
        return 2;
    }
    return 0;
}
