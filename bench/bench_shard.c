/* SPDX-License-Identifier: Apache-2.0 */
/* What sharding costs and saves; under accelerate launch:
 *
 *   bench_shard steps PARAMETERS STEPS             AdamW steps of one model without and with sharding, in turns
 *   bench_shard memory PARAMETERS none|optimizer   what all processes together have in memory after some steps
 *
 * A model has eight matrices.  A step is the average of its gradients, which are in the library's memory, and AdamW. */
#include <config.h>

#include <accel/accel.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TENSORS = 8, WARM_UP = 3 };

static struct accel_error err;

struct trained {
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    DLTensor data[TENSORS], grad[TENSORS];
    int64_t shape[2];
    double *times; /* [steps], ms */
};

static void
make (struct trained *trained, struct accel *acc, int64_t parameters, enum accel_sharding strategy)
{
    static const char *const names[TENSORS] = { "a", "b", "c", "d", "e", "f", "g", "h" };
    struct accel_parameter all[TENSORS];
    const struct accel_sharding_options sharding = { .strategy = strategy };
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
    struct trained both[2];
    double *ratios = calloc ((size_t) steps, sizeof *ratios);
    for (int i = 0; i < 2; i++) {
        make (&both[i], acc, parameters, i ? ACCEL_SHARDING_OPTIMIZER : ACCEL_SHARDING_NONE);
        both[i].times = calloc ((size_t) steps, sizeof (double));
    }
    for (int s = -WARM_UP; s < steps; s++)
        for (int turn = 0; turn < 2; turn++) {
            struct trained *now = &both[turn ^ (s & 1)];
            double ms = step (now, acc);
            if (s >= 0)
                now->times[s] = ms;
        }
    for (int s = 0; s < steps; s++)
        ratios[s] = both[1].times[s] / both[0].times[s];
    qsort (ratios, (size_t) steps, sizeof *ratios, compare);
    for (int i = 0; i < 2; i++)
        qsort (both[i].times, (size_t) steps, sizeof (double), compare);
    if (accel_is_main_process (acc))
        printf ("%d processes, %lld parameters: a step takes %.3f ms, sharded %.3f ms, ratio %.2f (%.2f to %.2f)\n",
                accel_num_processes (acc), (long long) parameters, both[0].times[steps / 2], both[1].times[steps / 2],
                ratios[steps / 2], ratios[steps / 10], ratios[steps - 1 - steps / 10]);
    free (ratios);
    end (&both[0]);
    end (&both[1]);
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
run_memory (struct accel *acc, int64_t parameters, enum accel_sharding strategy)
{
    struct trained trained;
    double before = own_mib (), mib;
    make (&trained, acc, parameters, strategy);
    for (int s = 0; s < WARM_UP; s++)
        (void) step (&trained, acc);
    mib = own_mib () - before;
    accel_check (accel_comm_all_reduce (accel_world (acc), &mib, &mib, 1, ACCEL_FLOAT64, ACCEL_SUM, &err), &err);
    if (accel_is_main_process (acc))
        printf ("%d processes, %lld parameters, %s: %.0f MiB in all, %.1f bytes for each parameter\n",
                accel_num_processes (acc), (long long) parameters, strategy == ACCEL_SHARDING_NONE ? "not sharded" : "sharded",
                mib, mib * 1048576 / (double) parameters);
    end (&trained);
}

int
main (int argc, char **argv)
{
    struct accel *acc;
    if (argc != 4) {
        fprintf (stderr, "usage: bench_shard steps PARAMETERS STEPS | memory PARAMETERS none|optimizer\n");
        return 2;
    }
    long long parameters = strtoll (argv[2], NULL, 10);
    accel_check (accel_open (&acc, NULL, &err), &err);
    if (!strcmp (argv[1], "steps"))
        run_steps (acc, parameters, (int) strtol (argv[3], NULL, 10));
    else
        run_memory (acc, parameters, strcmp (argv[3], "none") ? ACCEL_SHARDING_OPTIMIZER : ACCEL_SHARDING_NONE);
    accel_close (acc);
    return 0;
}
