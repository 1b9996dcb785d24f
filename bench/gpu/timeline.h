/* SPDX-License-Identifier: Apache-2.0 */
/* A training step of layers whose backward pass takes a given time, in the ways in which programs run it, and how long
 * it takes in the order of torch's DDP: there, buckets are filled in the order of the backward pass, and each is
 * reduced behind its last layer, on a stream of its own, one bucket after the other.  tests/standin/timeline.c runs it
 * on clocks of the stand-in and compares to the nanosecond, timeline.c here measures it.
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
    bool sums;         /* behind each layer, over another communicator of the same ranks: tensor parallelism */
} timeline_ways[] = {
    { .name = "all is queued at once" },
    { .name = "the host waits for each layer", .waits = true },
    { .name = "rank 1 is late", .is_late = true },
    { .name = "the host waits, and rank 1 is late", .waits = true, .is_late = true },
    { .name = "clipping and a step of AdamW behind it", .clips = true },
    { .name = "gradients are averaged in bfloat16", .hook = ACCEL_COMM_HOOK_BF16 },
    { .name = "PowerSGD, two all-reduces for each bucket", .hook = ACCEL_COMM_HOOK_POWER_SGD },
    { .name = "PowerSGD, and the host waits", .hook = ACCEL_COMM_HOOK_POWER_SGD, .waits = true },
    { .name = "PowerSGD, clipping and a step of AdamW", .hook = ACCEL_COMM_HOOK_POWER_SGD, .clips = true },
    { .name = "find_unused_parameters, one more all-reduce", .finds_unused = true },
    { .name = "find_unused_parameters, and the host waits", .finds_unused = true, .waits = true },
    { .name = "find_unused_parameters, and rank 1 is late", .finds_unused = true, .is_late = true },
    { .name = "accel_join_uneven_inputs()", .joins = true },
    { .name = "accel_join_uneven_inputs(), and the host waits", .joins = true, .waits = true },
    { .name = "accel_join_uneven_inputs(), and rank 1 is late", .joins = true, .is_late = true },
    { .name = "sums over another communicator, which each layer waits for", .sums = true },
    { .name = "averages after the pass (ACCEL_OVERLAP_NEVER)", .overlap = ACCEL_OVERLAP_NEVER },
};
enum { TIMELINE_WAYS = sizeof timeline_ways / sizeof *timeline_ways };

/* Of each layer, of the all-reduces of a bucket of one layer, of each further layer in it, of the one that tells which
 * parameters were used or of a layer's sums, how late rank 1 is, and what comes after the pass. */
struct timeline_times {
    int64_t layer_ns, reduce_ns, more_ns, used_ns, late_ns, tail_ns;
};

struct timeline {
    struct accel *acc;
    const struct timeline_way *way;
    void (*spend) (cudaStream_t stream, int64_t ns); /* queues work that takes so long */
    int64_t (*now) (void);                           /* ns */
    struct timeline_times times;                     /* layer_ns and late_ns: for spend */
    size_t layers, elements;                         /* of each layer's one parameter */
    size_t together;                                 /* so many layers fill a bucket */
    bool apart;                                      /* gradients are no neighbours in memory: buckets are copies */
    bool is_kept;                                    /* NCCL keeps the order of launches, and runs them side by side */
    int64_t queued_ns;                               /* of the latest step: until the host had queued it */
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    struct accel_tensor data[TIMELINE_LAYERS], grad[TIMELINE_LAYERS], grads; /* all of them, unless they are apart */
    struct accel_comm *row;
    struct accel_tensor sums;
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
        if (!status && line->row)
            status = accel_comm_all_reduce (line->row, line->sums.dl.data, line->sums.dl.data, line->elements,
                                            ACCEL_FLOAT32, ACCEL_SUM, why);
    }
    return status;
}

/* @return whether a bucket whose first gradient is that of layer @p first of the pass is full with layer @p i.  The
 * first one has 1 MiB at most, unless one layer has more. */
static inline bool
timeline_closes (const struct timeline *line, size_t first, size_t i)
{
    const size_t bytes = line->elements * sizeof (float), most = (size_t) 1 << 20;
    size_t limit = line->together * bytes;
    if (!first && limit > most)
        limit = most;
    return i + 1 == line->layers || (i + 1 - first) * bytes >= limit;
}

static inline size_t
timeline_buckets (const struct timeline *line)
{
    size_t buckets = 0;
    for (size_t i = 0, first = 0; i < line->layers; i++)
        if (timeline_closes (line, first, i)) {
            buckets++;
            first = i + 1;
        }
    return buckets;
}

/* With zeros. */
static inline void
timeline_tensor (struct timeline *line, struct accel_tensor *tensor, size_t layers)
{
    const int64_t shape[] = { 4, (int64_t) (layers * line->elements / 4) };
    DLDevice device = accel_device (line->acc);
    MUST (memory_allocate (tensor, ACCEL_FLOAT32, 2, shape, device, &err));
    memory_of (device)->zero (device, tensor->dl.data, layers * line->elements * sizeof (float));
}

static inline void
timeline_tensors (struct timeline *line)
{
    if (!line->apart)
        timeline_tensor (line, &line->grads, line->layers);
    for (size_t i = 0; i < line->layers; i++) {
        timeline_tensor (line, &line->data[i], 1);
        if (line->apart) {
            timeline_tensor (line, &line->grad[i], 1);
            continue;
        }
        MUST (accel_tensor_init (&line->grad[i], ACCEL_FLOAT32, 2, line->data[i].shape, &err));
        line->grad[i].dl.device = accel_device (line->acc);
        line->grad[i].dl.data = (float *) line->grads.dl.data + i * line->elements;
    }
}

/* Its fields up to `apart` are set. */
static inline void
timeline_make (struct timeline *line)
{
    struct accel_parameter parameters[TIMELINE_LAYERS];
    char names[TIMELINE_LAYERS][32];
    timeline_tensors (line);
    for (size_t i = 0; i < line->layers; i++) {
        snprintf (names[i], sizeof names[i], "l%zu", i);
        parameters[i] = (struct accel_parameter){ names[i], &line->data[i].dl, &line->grad[i].dl };
    }
    const struct accel_ddp_options ddp = {
        .bucket_cap_mb = (double) (line->together * line->elements * sizeof (float)) / (1 << 20),
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
    if (line->model->span_count != timeline_buckets (line))
        must (ACCEL_ERR_INVALID, "buckets of as many layers as were asked for");
    if (line->way->joins)
        MUST (accel_join_uneven_inputs (line->acc, ACCEL_DEFAULT, &err));
    if (line->way->sums) {
        MUST (accel_comm_split (&line->row, accel_world (line->acc), 0, accel_process_index (line->acc), &err));
        timeline_tensor (line, &line->sums, 1);
    }
}

static inline void
timeline_end (struct timeline *line)
{
    if (line->way->joins)
        MUST (accel_join_end (line->acc, &err));
    accel_comm_destroy (line->row);
    accel_tensor_release (&line->sums);
    accel_optimizer_destroy (line->optimizer);
    accel_model_destroy (line->model);
    for (size_t i = 0; i < line->layers; i++) {
        accel_tensor_release (&line->data[i]);
        if (line->apart)
            accel_tensor_release (&line->grad[i]);
    }
    if (!line->apart)
        accel_tensor_release (&line->grads);
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

/* @return ns of a step in the order of DDP, where bucket b is reduced at
 *     reduced (b) = max (reduced (b - 1), computed (last layer of b)) + reduce (b);
 * or, if nothing overlaps, of one after the other.  A layer's sums come behind the bucket that it has filled, unless
 * NCCL keeps the order, and the next layer behind them. */
static inline int64_t
timeline_expect (const struct timeline *line, const struct timeline_times *times)
{
    const struct timeline_way *way = line->way;
    int64_t computed = 0, reduced = 0, all = 0;
    for (size_t i = 0, first = 0; i < line->layers; i++) {
        computed += times->layer_ns + (way->is_late && i == TIMELINE_LATE ? times->late_ns : 0);
        if (timeline_closes (line, first, i)) {
            int64_t reduce = times->reduce_ns + (int64_t) (i - first) * times->more_ns;
            reduced = (computed > reduced ? computed : reduced) + reduce;
            all += reduce;
            first = i + 1;
        }
        if (way->sums)
            computed = (line->is_kept || computed > reduced ? computed : reduced) + times->used_ns;
    }
    if (reduced < computed)
        reduced = computed;
    if (way->overlap == ACCEL_OVERLAP_NEVER)
        reduced = computed + all;
    return reduced + (way->finds_unused ? times->used_ns : 0) + (way->clips ? times->tail_ns : 0);
}

#endif
