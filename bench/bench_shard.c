/* SPDX-License-Identifier: Apache-2.0 */
/* What sharding costs and saves; under accelerate launch:
 *
 *   bench_shard steps PARAMETERS STEPS   AdamW steps of one model in each of these ways, in turns
 *   bench_shard memory PARAMETERS WAY    what all processes together have in memory after some steps
 *
 * WAY: none; optimizer, whose states are divided; or shared, for which there is one copy of the parameters, too.
 *
 * A model has eight matrices.  A step is the average of its gradients, which are in the library's memory, and AdamW. */
#include <config.h>

#include <accel/accel.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TENSORS = 8, WARM_UP = 3, WAYS = 3 };

static const char *const ways[WAYS] = { "none", "optimizer", "shared" };

static struct accel_error err;

struct trained {
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    DLTensor data[TENSORS], grad[TENSORS];
    int64_t shape[2];
    double *times; /* [steps], ms */
};

static void
make (struct trained *trained, struct accel *acc, int64_t parameters, int way)
{
    static const char *const names[TENSORS] = { "a", "b", "c", "d", "e", "f", "g", "h" };
    struct accel_parameter all[TENSORS];
    const struct accel_sharding_options sharding = { .strategy = way ? ACCEL_SHARDING_OPTIMIZER : ACCEL_SHARDING_NONE,
                                                     .share_parameters = way == 2 };
    *trained = (struct trained){ .shape = { parameters / TENSORS / 256, 256 } };
    for (int i = 0; i < TENSORS; i++) {
        trained->data[i] = trained->grad[i]
            = (DLTensor){ .device = { kDLCPU, 0 }, .dtype = accel_dtype_to_dl (ACCEL_FLOAT32), .ndim = 2,
                          .shape = trained->shape };
        all[i] = (struct accel_parameter){ names[i], &trained->data[i], &trained->grad[i] };
    }
    accel_check (accel_model_create (&trained->model, all, TENSORS, &err), &err);
    accel_check (accel_model_set_sharding (trained->model, &sharding, &err), &err);
    accel_check (accel_optimizer_create (&trained->optimizer, trained->model, ACCEL_ADAMW, NULL, &err), &err);
    accel_check (accel_prepare (acc, &err, trained->model, trained->optimizer), &err);
    for (int i = 0; i < TENSORS; i++)
        for (size_t j = 0; j < accel_tensor_count (&trained->grad[i]); j++)
            ((float *) trained->grad[i].data)[j] = (float) (j % 17) / 16 - 0.5F;
}

static double
step (const struct trained *trained, struct accel *acc)
{
    struct timespec begin, end;
    accel_check (accel_comm_barrier (accel_world (acc), &err), &err);
    clock_gettime (CLOCK_MONOTONIC, &begin);
    accel_check (accel_average_gradients (acc, trained->model, &err), &err);
    accel_check (accel_optimizer_step (trained->optimizer, &err), &err);
    accel_check (accel_comm_barrier (accel_world (acc), &err), &err);
    clock_gettime (CLOCK_MONOTONIC, &end);
    return (double) (end.tv_sec - begin.tv_sec) * 1e3 + (double) (end.tv_nsec - begin.tv_nsec) / 1e6;
}

static void
end (struct trained *trained)
{
    accel_optimizer_destroy (trained->optimizer);
    accel_model_destroy (trained->model);
    free (trained->times);
}

static int
compare (const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

static void
run_steps (struct accel *acc, int64_t parameters, int steps)
{
    struct trained all[WAYS];
    double *ratios = calloc ((size_t) steps, sizeof *ratios);
    for (int i = 0; i < WAYS; i++) {
        make (&all[i], acc, parameters, i);
        all[i].times = calloc ((size_t) steps, sizeof (double));
    }
    for (int s = -WARM_UP; s < steps; s++)
        for (int turn = 0; turn < WAYS; turn++) {
            struct trained *now = &all[(turn + s + WAYS) % WAYS];
            double ms = step (now, acc);
            if (s >= 0)
                now->times[s] = ms;
        }
    for (int i = 0; i < WAYS; i++) {
        for (int s = 0; s < steps; s++)
            ratios[s] = all[i].times[s] / all[0].times[s];
        qsort (ratios, (size_t) steps, sizeof *ratios, compare);
        double ratio = ratios[steps / 2], least = ratios[steps / 10], most = ratios[steps - 1 - steps / 10];
        memcpy (ratios, all[i].times, (size_t) steps * sizeof *ratios);
        qsort (ratios, (size_t) steps, sizeof *ratios, compare);
        if (accel_is_main_process (acc))
            printf ("%d processes, %lld parameters, %s: a step takes %.3f ms, %.2f (%.2f to %.2f) times that of none\n",
                    accel_num_processes (acc), (long long) parameters, ways[i], ratios[steps / 2], ratio, least, most);
    }
    free (ratios);
    for (int i = 0; i < WAYS; i++)
        end (&all[i]);
}

/* Memory that processes share counts once for all of them. */
static double
own_mib (void)
{
    char line[256];
    double kib = 0;
    FILE *file = fopen ("/proc/self/smaps_rollup", "r");
    while (file && fgets (line, sizeof line, file))
        if (!strncmp (line, "Pss:", 4))
            kib = strtod (line + 4, NULL);
    if (file)
        fclose (file);
    return kib / 1024;
}

static void
run_memory (struct accel *acc, int64_t parameters, int way)
{
    struct trained trained;
    double before = own_mib (), mib;
    make (&trained, acc, parameters, way);
    for (int s = 0; s < WARM_UP; s++)
        (void) step (&trained, acc);
    mib = own_mib () - before;
    accel_check (accel_comm_all_reduce (accel_world (acc), &mib, &mib, 1, ACCEL_FLOAT64, ACCEL_SUM, &err), &err);
    if (accel_is_main_process (acc))
        printf ("%d processes, %lld parameters, %s: %.0f MiB in all, %.1f bytes for each parameter\n",
                accel_num_processes (acc), (long long) parameters, ways[way], mib, mib * 1048576 / (double) parameters);
    end (&trained);
}

int
main (int argc, char **argv)
{
    struct accel *acc;
    int way = 0;
    while (argc == 4 && way < WAYS && strcmp (argv[3], ways[way]))
        way++;
    if (argc != 4 || (way == WAYS && !strcmp (argv[1], "memory"))) {
        fprintf (stderr, "usage: bench_shard steps PARAMETERS STEPS | memory PARAMETERS none|optimizer|shared\n");
        return 2;
    }
    long long parameters = strtoll (argv[2], NULL, 10);
    accel_check (accel_open (&acc, NULL, &err), &err);
    if (!strcmp (argv[1], "steps"))
        run_steps (acc, parameters, (int) strtol (argv[3], NULL, 10));
    else
        run_memory (acc, parameters, way);
    accel_close (acc);
    return 0;
}
