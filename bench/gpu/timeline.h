/* SPDX-License-Identifier: Apache-2.0 */
/* A training step of layers whose backward pass takes a given time and whose gradients are a bucket each, in the ways
 * in which programs run it, and how long it takes in the order of torch's DDP: there, a bucket is reduced behind its
 * own layer, on a stream of its own, one bucket after the other.  tests/standin/timeline.c runs it on clocks of the
 * stand-in and compares to the nanosecond, timeline.c here measures it.
 *
 * Include tests/must.h or bench/gpu/gpu.h before, for `err` and MUST. */
#ifndef BENCH_GPU_TIMELINE_H
#define BENCH_GPU_TIMELINE_H

#include "lib/train/model_object.h"

#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdio.h>

enum { TIMELINE_LAYERS = 24, TIMELINE_LATE = 3 }; /* the most layers; before which one rank 1 is late */

static const struct timeline_way {
    const char *name;
    enum accel_overlap overlap;
    enum accel_comm_hook hook;
    bool waits;   /* the host, for each layer */
    bool is_late; /* rank 1, before a layer */
    bool clips;
    bool finds_unused; /* rank 1 does not use the layer that comes last */
    bool joins;        /* between accel_join_uneven_inputs() and accel_join_end() */
} timeline_ways[] = {
    { .name = "all is queued at once" },
    { .name = "the host waits for each layer", .waits = true },
    { .name = "rank 1 is late", .is_late = true },
    { .name = "the host waits, and rank 1 is late", .waits = true, .is_late = true },
    { .name = "clipping and a step of AdamW behind it", .clips = true },
    { .name = "gradients are averaged in bfloat16", .hook = ACCEL_COMM_HOOK_BF16 },
    { .name = "PowerSGD, two all-reduces for each bucket", .hook = ACCEL_COMM_HOOK_POWER_SGD },
    { .name = "PowerSGD, and the host waits", .hook = ACCEL_COMM_HOOK_POWER_SGD, .waits = true },
    { .name = "find_unused_parameters, one more all-reduce", .finds_unused = true },
    { .name = "accel_join_uneven_inputs()", .joins = true },
    { .name = "accel_join_uneven_inputs(), and rank 1 is late", .joins = true, .is_late = true },
    { .name = "averages after the pass (ACCEL_OVERLAP_NEVER)", .overlap = ACCEL_OVERLAP_NEVER },
};
enum { TIMELINE_WAYS = sizeof timeline_ways / sizeof *timeline_ways };

/* Of each layer, of the all-reduce of its bucket, how late rank 1 is, and what comes after the pass. */
struct timeline_times {
    int64_t layer_ns, reduce_ns, late_ns, tail_ns;
};

struct timeline {
    struct accel *acc;
    const struct timeline_way *way;
    void (*spend) (cudaStream_t stream, int64_t ns); /* queues work that takes so long */
    int64_t (*now) (void);                           /* ns */
    struct timeline_times times;                     /* layer_ns and late_ns: for spend */
    size_t layers, elements;                         /* of each layer's one parameter */
    int64_t queued_ns;                               /* of the latest step: until the host had queued it */
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    struct accel_tensor data[TIMELINE_LAYERS], grad[TIMELINE_LAYERS];
};

/* The program's: libaccel's, too, unless it is told another one. */
static cudaStream_t const timeline_stream = (cudaStream_t) (uintptr_t) 1;

static inline enum accel_status
timeline_backward (void *user, float scale, struct accel_error *why)
{
    struct timeline *line = user;
    enum accel_status status = ACCEL_OK;
    (void) scale;
    for (size_t i = line->layers; !status && i-- > 0;) {
        if (line->way->is_late && accel_process_index (line->acc) == 1 && line->layers - 1 - i == TIMELINE_LATE)
            line->spend (timeline_stream, line->times.late_ns);
        line->spend (timeline_stream, line->times.layer_ns);
        if (line->way->waits && cudaStreamSynchronize (timeline_stream))
            return ACCEL_ERR_SYSTEM;
        if (!i && line->way->finds_unused && line->layers > 1 && accel_process_index (line->acc) == 1)
            continue;
        status = accel_grad_ready (line->model, i, why);
    }
    return status;
}

/* Its fields up to `elements` are set. */
static inline void
timeline_make (struct timeline *line)
{
    struct accel_parameter parameters[TIMELINE_LAYERS];
    char names[TIMELINE_LAYERS][32];
    int64_t shape[] = { 4, (int64_t) line->elements / 4 };
    DLDevice device = accel_device (line->acc);
    for (size_t i = 0; i < line->layers; i++) {
        struct accel_tensor *made[] = { &line->data[i], &line->grad[i] };
        for (int t = 0; t < 2; t++) {
            MUST (memory_allocate (made[t], ACCEL_FLOAT32, 2, shape, device, &err));
            memory_of (device)->zero (device, made[t]->dl.data, line->elements * sizeof (float));
            made[t]->dl.shape = made[t]->shape;
        }
        snprintf (names[i], sizeof names[i], "l%zu", i);
        parameters[i] = (struct accel_parameter){ names[i], &line->data[i].dl, &line->grad[i].dl };
    }
    const struct accel_ddp_options ddp = {
        .bucket_cap_mb = 1e-6,
        .overlap = line->way->overlap,
        .comm_hook = line->way->hook,
        .find_unused_parameters = line->way->finds_unused,
        .start_iter = ACCEL_NONE,
        .min_compression_rate = 0.1,
    };
    MUST (accel_model_create (&line->model, parameters, line->layers, &err));
    MUST (accel_model_set_ddp (line->model, &ddp, &err));
    MUST (accel_optimizer_create (&line->optimizer, line->model, ACCEL_ADAMW, NULL, &err));
    MUST (accel_prepare (line->acc, &err, line->model, line->optimizer));
    if (line->model->span_count != line->layers)
        must (ACCEL_ERR_INVALID, "a bucket for each layer");
    if (line->way->joins)
        MUST (accel_join_uneven_inputs (line->acc, ACCEL_DEFAULT, &err));
}

static inline void
timeline_end (struct timeline *line)
{
    if (line->way->joins)
        MUST (accel_join_end (line->acc, &err));
    accel_optimizer_destroy (line->optimizer);
    accel_model_destroy (line->model);
    for (size_t i = 0; i < line->layers; i++) {
        accel_tensor_release (&line->data[i]);
        accel_tensor_release (&line->grad[i]);
    }
}

/* @return ns from when the stream is idle to when it is idle again */
static inline int64_t
timeline_step (struct timeline *line)
{
    MUST (accel_wait_for_everyone (line->acc, &err));
    cudaDeviceSynchronize ();
    int64_t begin = line->now ();
    MUST (accel_backward (line->acc, line->model, 0, timeline_backward, line, &err));
    if (line->way->clips) {
        MUST (accel_clip_grad_norm (line->model, 1, NULL, NULL, &err));
        MUST (accel_optimizer_step (line->optimizer, &err));
    }
    line->queued_ns = line->now () - begin;
    cudaStreamSynchronize (timeline_stream);
    return line->now () - begin;
}

/* @return ns of a step in the order of DDP; or, if nothing overlaps, one after the other */
static inline int64_t
timeline_expect (const struct timeline_way *way, size_t layers, const struct timeline_times *times)
{
    int64_t computed = 0, reduced = 0, each = times->reduce_ns * (way->hook == ACCEL_COMM_HOOK_POWER_SGD ? 2 : 1);
    for (size_t i = 0; i < layers; i++) {
        computed += times->layer_ns + (way->is_late && i == TIMELINE_LATE ? times->late_ns : 0);
        reduced = (computed > reduced ? computed : reduced) + each;
    }
    if (way->overlap == ACCEL_OVERLAP_NEVER)
        reduced = computed + (int64_t) layers * each;
    if (way->finds_unused)
        reduced += times->reduce_ns;
    return reduced + (way->clips ? times->tail_ns : 0);
}

#endif
