/* SPDX-License-Identifier: Apache-2.0 */
/* What sharding costs and saves; under accelerate launch, or mpirun with ACCEL_ENGINE=mpi:
 *
 *   bench_shard steps PARAMETERS STEPS   AdamW steps of one model in each of these ways, in turns
 *   bench_shard memory PARAMETERS WAY    what all processes together have in memory after some steps, and what the
 *               [TP]                     process that has most has at any time of a step; TP processes divide matrices
 *
 * WAY: none; optimizer, gradients, or parameters: the stages of ZeRO; shared, shared-gradients, and shared-parameters:
 * stages 1 to 3 with one copy of the parameters for all processes; hybrid: stage 3 in groups of 2 of 4 or more
 * processes; files: stage 1 with states in files of the present folder.
 *
 * A model has 8 matrices, or 32 where memory is measured, so that a layer is little.  A step uses them one after the
 * other, forwards and backwards, writes their gradients, which are in the library's memory, averages them, and is one
 * of AdamW. */
#include <config.h>

#include <accel/accel.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TENSORS_MOST = 32, WARM_UP = 3, WAYS = 9, GROUP = 2 };

static const struct {
    const char *name;
    enum accel_sharding strategy;
    bool shares;
    enum accel_offload offload;
} ways[WAYS] = { { "none", ACCEL_SHARDING_NONE, false, ACCEL_OFFLOAD_NONE },
                 { "optimizer", ACCEL_SHARDING_OPTIMIZER, false, ACCEL_OFFLOAD_NONE },
                 { "gradients", ACCEL_SHARDING_SHARD_GRAD_OP, false, ACCEL_OFFLOAD_NONE },
                 { "parameters", ACCEL_SHARDING_FULL_SHARD, false, ACCEL_OFFLOAD_NONE },
                 { "shared", ACCEL_SHARDING_OPTIMIZER, true, ACCEL_OFFLOAD_NONE },
                 { "shared-gradients", ACCEL_SHARDING_SHARD_GRAD_OP, true, ACCEL_OFFLOAD_NONE },
                 { "shared-parameters", ACCEL_SHARDING_FULL_SHARD, true, ACCEL_OFFLOAD_NONE },
                 { "files", ACCEL_SHARDING_OPTIMIZER, false, ACCEL_OFFLOAD_NVME },
                 { "hybrid", ACCEL_SHARDING_HYBRID_SHARD, false, ACCEL_OFFLOAD_NONE } };

static size_t tensors = 8;
static unsigned long tp = 1;
static bool looks;      /* at the memory, in all layers */
static double most_mib; /* of this process, at any of these times */
static struct accel_error err;

struct trained {
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    DLTensor data[TENSORS_MOST], grad[TENSORS_MOST];
    int64_t shape[2];
    double *times; /* [steps], ms */
};

static void
make (struct trained *trained, struct accel *acc, int64_t parameters, int way)
{
    static char names[TENSORS_MOST][16];
    struct accel_parameter all[TENSORS_MOST];
    const struct accel_sharding_options sharding = { .strategy = ways[way].strategy,
                                                     .share_parameters = ways[way].shares, .group_size = GROUP,
                                                     .offload_optimizer_device = ways[way].offload,
                                                     .offload_optimizer_nvme_path = "." };
    *trained = (struct trained){ .shape = { parameters / (int64_t) tensors / 256, 256 } };
    for (size_t i = 0; i < tensors; i++) {
        snprintf (names[i], sizeof *names, "layer%zu", i);
        trained->data[i] = trained->grad[i]
            = (DLTensor){ .device = { kDLCPU, 0 }, .dtype = accel_dtype_to_dl (ACCEL_FLOAT32), .ndim = 2,
                          .shape = trained->shape };
        all[i] = (struct accel_parameter){ names[i], &trained->data[i], &trained->grad[i] };
    }
    accel_check (accel_model_create (&trained->model, all, tensors, &err), &err);
    if (tp > 1)
        accel_check (accel_model_set_tensor_parallel (trained->model, acc, &(struct accel_partition){ .dim = 1 }, 1,
                                                      &err), &err);
    accel_check (accel_model_set_sharding (trained->model, &sharding, &err), &err);
    accel_check (accel_optimizer_create (&trained->optimizer, trained->model, ACCEL_ADAMW, NULL, &err), &err);
    accel_check (accel_prepare (acc, &err, trained->model, trained->optimizer), &err);
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
look (void)
{
    double mib = looks ? own_mib () : 0;
    most_mib = mib > most_mib ? mib : most_mib;
}

/* Reads the parameters and writes the gradients. */
static enum accel_status
backward (void *user, float scale, struct accel_error *error)
{
    const struct trained *trained = user;
    enum accel_status status = ACCEL_OK;
    for (size_t i = tensors; i-- > 0 && !status;) {
        const float *data = trained->data[i].data;
        float *grad = trained->grad[i].data;
        size_t count = accel_tensor_count (&trained->grad[i]);
        status = accel_layer_begin (trained->model, &i, 1, error);
        for (size_t j = 0; !status && j < count; j++)
            grad[j] = scale * (data[j] + (float) (j & 15) / 16 - 0.5F);
        look ();
        if (!status)
            status = accel_grad_ready (trained->model, i, error);
        if (!status)
            status = accel_layer_end (trained->model, &i, 1, error);
    }
    return status;
}

static void
forward (const struct trained *trained)
{
    for (size_t i = 0; i < tensors; i++) {
        accel_check (accel_layer_begin (trained->model, &i, 1, &err), &err);
        look ();
        accel_check (accel_layer_end (trained->model, &i, 1, &err), &err);
    }
}

static double
step (struct trained *trained, struct accel *acc)
{
    struct timespec begin, end;
    accel_check (accel_comm_barrier (accel_world (acc), &err), &err);
    clock_gettime (CLOCK_MONOTONIC, &begin);
    forward (trained);
    accel_check (accel_backward (acc, trained->model, 0, backward, trained, &err), &err);
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
    int count = accel_num_processes (acc) > GROUP ? WAYS : WAYS - 1; /* the last one has groups */
    double *ratios = calloc ((size_t) steps, sizeof *ratios);
    for (int i = 0; i < count; i++) {
        make (&all[i], acc, parameters, i);
        all[i].times = calloc ((size_t) steps, sizeof (double));
    }
    for (int s = -WARM_UP; s < steps; s++)
        for (int turn = 0; turn < count; turn++) {
            struct trained *now = &all[(turn + s + count) % count];
            double ms = step (now, acc);
            if (s >= 0)
                now->times[s] = ms;
        }
    for (int i = 0; i < count; i++) {
        for (int s = 0; s < steps; s++)
            ratios[s] = all[i].times[s] / all[0].times[s];
        qsort (ratios, (size_t) steps, sizeof *ratios, compare);
        double ratio = ratios[steps / 2], least = ratios[steps / 10], most = ratios[steps - 1 - steps / 10];
        memcpy (ratios, all[i].times, (size_t) steps * sizeof *ratios);
        qsort (ratios, (size_t) steps, sizeof *ratios, compare);
        if (accel_is_main_process (acc))
            printf ("%d processes, %lld parameters, %s: a step takes %.3f ms, at least %.3f, %.2f (%.2f to %.2f) times "
                    "that of none\n",
                    accel_num_processes (acc), (long long) parameters, ways[i].name, ratios[steps / 2], ratios[0],
                    ratio, least, most);
    }
    free (ratios);
    for (int i = 0; i < count; i++)
        end (&all[i]);
}

/* Bytes for each parameter of a process, by the paper on ZeRO: 4 of weights, 4 of gradients and 8 of states, whole or
 * divided.  In stage 3, a layer is whole for a while. */
static double
formula (int way, double processes)
{
    enum accel_sharding strategy = ways[way].strategy;
    double among = strategy == ACCEL_SHARDING_NONE ? 1 : strategy == ACCEL_SHARDING_HYBRID_SHARD ? GROUP : processes;
    bool gathers = strategy >= ACCEL_SHARDING_FULL_SHARD && !ways[way].shares;
    double weights = gathers || ways[way].shares ? 4 / among : 4;
    double gradients = strategy >= ACCEL_SHARDING_SHARD_GRAD_OP ? 4 / among : 4;
    double states = ways[way].offload == ACCEL_OFFLOAD_NVME ? 0 : 8 / among;
    return weights + gradients + states + gathers * 4 * (1 - 1 / among) / (double) tensors;
}

/* In the first step, pages that several processes have are not counted right: one reads them before the others do. */
static void
run_memory (struct accel *acc, int64_t parameters, int way)
{
    struct trained trained;
    tensors = TENSORS_MOST;
    double before = own_mib (), sum, each = 1048576 / (double) parameters, processes = accel_num_processes (acc);
    make (&trained, acc, parameters, way);
    for (int s = 0; s < WARM_UP; s++) {
        looks = s > 0;
        (void) step (&trained, acc);
    }
    sum = own_mib () - before;
    double peak = most_mib - before, wanted = formula (way, processes / (double) tp) / (double) tp;
    accel_check (accel_comm_all_reduce (accel_world (acc), &sum, &sum, 1, ACCEL_FLOAT64, ACCEL_SUM, &err), &err);
    accel_check (accel_comm_all_reduce (accel_world (acc), &peak, &peak, 1, ACCEL_FLOAT64, ACCEL_MAX, &err), &err);
    if (accel_is_main_process (acc))
        printf ("%d processes, %lld parameters, %s, tp %lu: %.0f MiB in all, %.1f bytes for each parameter; peak of a "
                "process %.0f MiB, %.2f bytes, %.2f times %.2f\n",
                accel_num_processes (acc), (long long) parameters, ways[way].name, tp, sum, sum * each, peak,
                peak * each, peak * each / wanted, wanted);
    end (&trained);
}

int
main (int argc, char **argv)
{
    struct accel *acc;
    int way = 0;
    while ((argc == 4 || argc == 5) && way < WAYS && strcmp (argv[3], ways[way].name))
        way++;
    if ((argc != 4 && argc != 5) || (way == WAYS && !strcmp (argv[1], "memory"))) {
        fprintf (stderr, "usage: bench_shard steps PARAMETERS STEPS | memory PARAMETERS none|optimizer|gradients|"
                         "parameters|shared|shared-gradients|shared-parameters|files|hybrid [TP]\n");
        return 2;
    }
    long long parameters = strtoll (argv[2], NULL, 10);
    tp = argc == 5 ? strtoul (argv[4], NULL, 10) : 1;
    accel_check (accel_open (&acc, &(struct accel_options){ .tp_size = tp }, &err), &err);
    if (!strcmp (argv[1], "steps"))
        run_steps (acc, parameters, (int) strtol (argv[3], NULL, 10));
    else
        run_memory (acc, parameters, way);
    accel_close (acc);
    return 0;
}
