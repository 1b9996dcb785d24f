/* SPDX-License-Identifier: Apache-2.0 */
/* How long a step takes on the clocks of the stand-in, where a layer's backward pass and a bucket's all-reduce take
 * 20 ms each: what the order of torch's DDP takes.  There, a bucket is reduced behind its own layer, on a stream of its
 * own, one bucket after the other.
 * usage: timeline [table], as each of several ranks */
#include <config.h>

#include "lib/train/model_object.h"
#include "tests/must.h"
#include "tests/standin/cuda/standin.h"
#include "tests/tap.h"

#include <stdlib.h>

enum { LAYERS = 24, ELEMENTS = 16, STEPS = 3, LATE = 3 };
static const int64_t LAYER_NS = 20000000, REDUCE_NS = 20000000, LATE_NS = 70000000;
static cudaStream_t const legacy = (cudaStream_t) (uintptr_t) 1;

static const struct way {
    const char *name;
    enum accel_overlap overlap;
    bool waits;   /* the host, for each layer */
    bool is_late; /* rank 1, before a layer */
    bool clips;
} ways[] = {
    { .name = "all is queued at once" },
    { .name = "the host waits for each layer", .waits = true },
    { .name = "rank 1 is late", .is_late = true },
    { .name = "the host waits, and rank 1 is late", .waits = true, .is_late = true },
    { .name = "clipping and a step of AdamW behind it", .clips = true },
    { .name = "averages after the pass (ACCEL_OVERLAP_NEVER)", .overlap = ACCEL_OVERLAP_NEVER },
};

struct run {
    struct accel *acc;
    const struct way *way;
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    struct accel_tensor data[LAYERS], grad[LAYERS];
    size_t layers;
};

static enum accel_status
backward (void *user, float scale, struct accel_error *why)
{
    struct run *run = user;
    enum accel_status status = ACCEL_OK;
    (void) scale;
    for (size_t i = run->layers; !status && i-- > 0;) {
        if (run->way->is_late && accel_process_index (run->acc) == 1 && run->layers - 1 - i == LATE)
            standin_spend (legacy, LATE_NS);
        standin_spend (legacy, LAYER_NS);
        if (run->way->waits && cudaStreamSynchronize (legacy))
            return ACCEL_ERR_SYSTEM;
        status = accel_grad_ready (run->model, i, why);
    }
    return status;
}

static void
make (struct run *run, struct accel *acc, const struct way *way, size_t layers)
{
    struct accel_parameter parameters[LAYERS];
    char names[LAYERS][32];
    int64_t shape[] = { ELEMENTS };
    DLDevice device = accel_device (acc);
    *run = (struct run){ .acc = acc, .way = way, .layers = layers };
    for (size_t i = 0; i < layers; i++) {
        struct accel_tensor *made[] = { &run->data[i], &run->grad[i] };
        for (int t = 0; t < 2; t++) {
            MUST (memory_allocate (made[t], ACCEL_FLOAT32, 1, shape, device, &err));
            memory_of (device)->zero (device, made[t]->dl.data, ELEMENTS * sizeof (float));
            made[t]->dl.shape = made[t]->shape;
        }
        snprintf (names[i], sizeof names[i], "l%zu", i);
        parameters[i] = (struct accel_parameter){ names[i], &run->data[i].dl, &run->grad[i].dl };
    }
    const struct accel_ddp_options ddp = { .bucket_cap_mb = 1e-6, .overlap = way->overlap };
    MUST (accel_model_create (&run->model, parameters, layers, &err));
    MUST (accel_model_set_ddp (run->model, &ddp, &err));
    MUST (accel_optimizer_create (&run->optimizer, run->model, ACCEL_ADAMW, NULL, &err));
    MUST (accel_prepare (acc, &err, run->model, run->optimizer));
    if (run->model->span_count != layers)
        must (ACCEL_ERR_INVALID, "a bucket for each layer");
}

/* From when the stream is idle to when it is idle again. */
static int64_t
time_step (struct run *run)
{
    MUST (accel_wait_for_everyone (run->acc, &err));
    cudaDeviceSynchronize ();
    int64_t begin = standin_host_ns (0);
    MUST (accel_backward (run->acc, run->model, 0, backward, run, &err));
    if (run->way->clips) {
        MUST (accel_clip_grad_norm (run->model, 1, NULL, NULL, &err));
        MUST (accel_optimizer_step (run->optimizer, &err));
    }
    cudaStreamSynchronize (legacy);
    return standin_host_ns (0) - begin;
}

/* The order of DDP; or, if nothing overlaps, one after the other. */
static int64_t
expect (const struct way *way, size_t layers)
{
    int64_t computed = 0, reduced = 0;
    for (size_t i = 0; i < layers; i++) {
        computed += LAYER_NS + (way->is_late && i == LATE ? LATE_NS : 0);
        reduced = (computed > reduced ? computed : reduced) + REDUCE_NS;
    }
    return way->overlap == ACCEL_OVERLAP_NEVER ? computed + (int64_t) layers * REDUCE_NS : reduced;
}

static void
finish (struct run *run)
{
    accel_optimizer_destroy (run->optimizer);
    accel_model_destroy (run->model);
    for (size_t i = 0; i < run->layers; i++) {
        accel_tensor_release (&run->data[i]);
        accel_tensor_release (&run->grad[i]);
    }
}

int
main (int argc, char **argv)
{
    static const size_t layers[] = { 1, 8, LAYERS };
    struct accel *acc;
    struct run run;
    (void) argv;
    setenv ("STANDIN_NCCL_NS", "20000000", true); /* REDUCE_NS */
    MUST (accel_open (&acc, NULL, &err));
    cudaSetDevice (accel_device (acc).device_id);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
        for (size_t l = 0; l < sizeof layers / sizeof *layers; l++) {
            int64_t took = 0, wanted = expect (&ways[w], layers[l]);
            make (&run, acc, &ways[w], layers[l]);
            time_step (&run); /* NCCL connects */
            for (int step = 0; step < STEPS; step++) {
                int64_t now = time_step (&run);
                took = step && took != wanted ? took : now;
            }
            finish (&run);
            if (argc > 1)
                printf ("%s, %zu layers: %.0f ms, %.0f\n", ways[w].name, layers[l], (double) took / 1e6,
                        (double) wanted / 1e6);
            else
                ok (took == wanted, "%s, %zu layers: %.3f ms, not %.3f", ways[w].name, layers[l], (double) took / 1e6,
                    (double) wanted / 1e6);
        }
    accel_close (acc);
    return argc > 1 ? 0 : done_testing ();
}
