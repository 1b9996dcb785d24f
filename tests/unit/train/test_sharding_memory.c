/* SPDX-License-Identifier: Apache-2.0 */
/* What training of N processes with one copy of the parameters has in memory, beside what one process has. */
#include <config.h>

#include "lib/train/reducer/reducer_object.h"
#include "lib/train/sharding.h"
#include "tests/ranks.h"

#include <string.h>

/* 20 million parameters of 4 bytes, and 16 bytes for each of them: more than a process has anyway, by far. */
enum { LAYERS = 40, ROWS = 512, COLUMNS = 1024, STEPS = 3 };

/* Float32 and AdamW have 4 bytes of weights, 4 of gradients and 8 of states for each parameter, and in stage 1 each
 * process has whole gradients: (4 + 4 N + 8) / 16 of one process.  From stage 2 on, they have what one has. */
static const struct row {
    enum accel_sharding strategy;
    int ranks;
    double least, most; /* times what one process has */
    bool is_long;       /* only in the long form */
} rows[] = {
    { ACCEL_SHARDING_OPTIMIZER, 2, 0.95 * 1.25, 1.05 * 1.25, false },
    { ACCEL_SHARDING_OPTIMIZER, 4, 0.95 * 1.75, 1.05 * 1.75, true },
    { ACCEL_SHARDING_SHARD_GRAD_OP, 2, 0.95, 1.15, true },
    { ACCEL_SHARDING_SHARD_GRAD_OP, 4, 0.95, 1.15, false },
    { ACCEL_SHARDING_FULL_SHARD, 2, 0.95, 1.15, true },
    { ACCEL_SHARDING_FULL_SHARD, 4, 0.95, 1.15, false },
};

static const struct row *row;
static double *used; /* kB of all processes, for the parent */
static struct accel_error err;

struct net {
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    DLTensor data[LAYERS], grad[LAYERS];
    double most; /* kB of this process */
};

/* What several processes have counts once for all of them.  @return kB, or 0 if the system does not count */
static double
proportional_kb (void)
{
    char line[256];
    double kb = 0;
    FILE *file = fopen ("/proc/self/smaps_rollup", "r");
    while (file && fgets (line, sizeof line, file))
        if (!strncmp (line, "Pss:", 4))
            kb = strtod (line + 4, NULL);
    if (file)
        fclose (file);
    return kb;
}

static void
look (struct net *net)
{
    double kb = proportional_kb ();
    net->most = kb > net->most ? kb : net->most;
}

static void
make (struct net *net, struct accel *acc)
{
    static int64_t shape[] = { ROWS, COLUMNS };
    static char names[LAYERS][16];
    struct accel_parameter parameters[LAYERS];
    const struct accel_sharding_options sharding = { .strategy = row->strategy, .share_parameters = true };
    const struct accel_ddp_options ddp = { .bucket_cap_mb = 2 };
    *net = (struct net){ 0 };
    for (int i = 0; i < LAYERS; i++) {
        snprintf (names[i], sizeof *names, "layer%d", i);
        net->data[i] = net->grad[i] = (DLTensor){ .device = { kDLCPU, 0 }, .ndim = 2, .shape = shape,
                                                  .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
        parameters[i] = (struct accel_parameter){ names[i], &net->data[i], &net->grad[i] };
    }
    rank_must (accel_model_create (&net->model, parameters, LAYERS, &err), &err);
    rank_must (accel_model_set_sharding (net->model, &sharding, &err), &err);
    rank_must (accel_model_set_ddp (net->model, &ddp, &err), &err);
    rank_must (accel_optimizer_create (&net->optimizer, net->model, ACCEL_ADAMW, NULL, &err), &err);
    for (int i = 0; i < LAYERS; i++)
        for (size_t j = 0; j < accel_tensor_count (&net->data[i]); j++)
            ((float *) net->data[i].data)[j] = (float) (j % 64) / 64;
    rank_must (accel_prepare (acc, &err, net->model, net->optimizer), &err);
}

/* Each layer reads its parameters and writes its gradients.  A thread that averages may be late, and gradients whole
 * meanwhile; without one, those before this layer's have been divided. */
static enum accel_status
backward (void *user, float scale, struct accel_error *error)
{
    struct net *net = user;
    for (size_t i = LAYERS; i-- > 0;) {
        const float *data = net->data[i].data;
        float *grad = net->grad[i].data;
        size_t count = accel_tensor_count (&net->grad[i]);
        rank_must (accel_layer_begin (net->model, &i, 1, error), error);
        for (size_t j = 0; j < count; j++)
            grad[j] = scale * (data[j] + 1);
        rank_must (accel_grad_ready (net->model, i, error), error);
        rank_must (accel_layer_end (net->model, &i, 1, error), error);
        if (i % 8 == 0 && !net->model->reducer->overlap)
            look (net);
    }
    return ACCEL_OK;
}

/* In the first step, pages of parameters that other processes have not read yet count as this process's. */
static void
train (struct accel *acc)
{
    struct net net;
    double before = proportional_kb ();
    make (&net, acc);
    for (int step = 0; step < STEPS; step++) {
        if (step == 1)
            net.most = 0;
        rank_must (accel_backward (acc, net.model, 0, backward, &net, &err), &err);
        rank_must (accel_optimizer_step (net.optimizer, &err), &err);
        look (&net);
    }
    double sum = net.most - before;
    rank_must (accel_comm_all_reduce (accel_world (acc), &sum, &sum, 1, ACCEL_FLOAT64, ACCEL_SUM, &err), &err);
    if (!accel_process_index (acc))
        *used = sum;
    accel_optimizer_destroy (net.optimizer);
    accel_model_destroy (net.model);
}

/* NULL: what is used can be seen. */
static const char *
why_not (void)
{
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    return "sanitizers have memory of their own";
#endif
    return proportional_kb () > 0 ? NULL : "/proc/self/smaps_rollup has no line Pss";
}

static void
compare (double one)
{
    *used = 0;
    as_ranks (row->ranks, "they train", train);
    ok (*used >= row->least * one && *used <= row->most * one,
        "stage %d, %d processes: %.3f times the memory of one; expected %.3f to %.3f",
        (int) row->strategy - ACCEL_SHARDING_NONE, row->ranks, *used / one, row->least, row->most);
}

int
main (void)
{
    static const struct row alone = { ACCEL_SHARDING_NONE, 1, 0, 0, false };
    const char *length = getenv ("TEST_LONG"), *why = why_not ();
    bool is_long = length && strcmp (length, "no") != 0;
    if (why) {
        skip ("%s", why);
        return done_testing ();
    }
    used = mmap (NULL, sizeof *used, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    row = &alone;
    as_ranks (1, "one process", train);
    double one = *used, formula = 16.0 * LAYERS * ROWS * COLUMNS / 1024;
    ok (one > 0.99 * formula && one < 1.05 * formula, "it has 16 bytes for each parameter: %.1f of %.1f MB", one / 1024,
        formula / 1024);
    for (row = rows; row < rows + sizeof rows / sizeof *rows; row++)
        if (is_long || !row->is_long)
            compare (one);
    return done_testing ();
}
