/* SPDX-License-Identifier: Apache-2.0 */
/* What sharded.c trains: the scenes, a model of them that is sharded or not, and its steps. */
#ifndef TESTS_STANDIN_SHARDED_NET_H
#define TESTS_STANDIN_SHARDED_NET_H

#include "lib/memory/memory.h"
#include "lib/train/staging.h"
#include "tests/must.h"
#include "tests/tap.h"

#include <accel/accel.h>
#include <accel/sharding.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMETERS = 5, STEPS = 4, MOST = 12000, PIECE = 1000 };

/* Chunks with a rest, without one, and what is not divided: small, or not trained. */
static const struct {
    const char *name;
    int64_t shape[2];
    bool is_trained;
} kinds[PARAMETERS] = {
    { "w0", { 33, 97 }, true }, { "b0", { 97, 1 }, true },      { "w1", { 5, 2047 }, true },
    { "w2", { 64, 96 }, true }, { "buffer", { 3, 1001 }, false },
};

/* How both models are trained. */
struct scene {
    const char *name;
    enum accel_dtype dtype; /* 0: float32 */
    const char *precision;  /* NULL: no */
    bool is_live;           /* the scaler is on the GPU */
    bool is_capturable;     /* and so are the optimizer's steps */
    bool skips;             /* the first two steps, whose gradients are infinite */
    enum accel_optimizer_kind kind;
    struct accel_optimizer_options options;
    struct accel_ddp_options ddp;
    double clip;       /* the largest norm; 0: any */
    bool asks_no_norm; /* so the GPU clips by itself */
    int passes;        /* of a step; 0: 1 */
    bool has_groups;   /* w1 and w2 have an optimizer of their own, which is made after the first step */
    uint64_t least;    /* parameters with fewer elements are not divided */
    bool moves;        /* back to the host and to the GPU again, after each step */
    bool writes_masters; /* the program has, so they say more than parameters do */
};

#define ADAMW .kind = ACCEL_ADAMW, .options = { .lr = 0.01, .weight_decay = 0.01 }
static const struct scene scenes[] = {
    { "AdamW", ADAMW },
    { "Adagrad, whose states begin with a number", .kind = ACCEL_ADAGRAD,
      .options = { .lr = 0.1, .initial_accumulator_value = 0.5 } },
    { "bfloat16", ADAMW, .dtype = ACCEL_BFLOAT16 },
    { "bfloat16, masters of the program's", ADAMW, .dtype = ACCEL_BFLOAT16, .writes_masters = true },
    { "fp16, skipped steps", ADAMW, .precision = "fp16", .skips = true },
    { "fp16 on the GPU, skipped steps, clipped", ADAMW, .precision = "fp16", .is_live = true, .is_capturable = true,
      .skips = true, .clip = 3, .asks_no_norm = true },
    { "clipped", ADAMW, .clip = 3 },
    { "sent in 16 bits", ADAMW, .ddp = { .comm_hook = ACCEL_COMM_HOOK_BF16 } },
    { "accumulated", ADAMW, .passes = 3, .clip = 3 },
    { "two optimizers, one of which comes late", .kind = ACCEL_SGD, .options = { .lr = 0.1, .momentum = 0.9 },
      .has_groups = true },
    { "small ones are whole", ADAMW, .least = 7000 },
    { "to the host and back", ADAMW, .dtype = ACCEL_BFLOAT16, .moves = true },
};

static const struct scene eight_bits = { "8 bits", ADAMW, .dtype = ACCEL_FLOAT8_E4M3FN, .writes_masters = true };
static const struct scene *scene = &scenes[0];
static enum accel_sharding strategy = ACCEL_SHARDING_OPTIMIZER;
static enum accel_offload offload = ACCEL_OFFLOAD_NONE, offload_param = ACCEL_OFFLOAD_NONE; /* of the sharded one */
static bool is_coarse; /* gradients: in any order and number of sums, averages have the same bits */

static bool
set_strategy (const char *word)
{
    static const struct {
        const char *word;
        enum accel_sharding strategy;
    } words[] = { { "layers", ACCEL_SHARDING_FULL_SHARD },
                  { "gradients", ACCEL_SHARDING_SHARD_GRAD_OP },
                  { "hybrid", ACCEL_SHARDING_HYBRID_SHARD },
                  { "hybrid2", ACCEL_SHARDING_HYBRID_SHARD_ZERO2 },
                  { "whole", ACCEL_SHARDING_NONE } };
    bool found = false;
    for (size_t i = 0; i < sizeof words / sizeof *words && !found; i++)
        if ((found = !strcmp (word, words[i].word)))
            strategy = words[i].strategy;
    is_coarse = is_coarse || strategy >= ACCEL_SHARDING_HYBRID_SHARD || !strcmp (word, "coarse");
    offload = !strcmp (word, "cpu") ? ACCEL_OFFLOAD_CPU : !strcmp (word, "nvme") ? ACCEL_OFFLOAD_NVME : offload;
    if (!strcmp (word, "params") || !strcmp (word, "file"))
        offload_param = !strcmp (word, "file") ? ACCEL_OFFLOAD_NVME : ACCEL_OFFLOAD_CPU;
    return found;
}

static bool
has_layers (void)
{
    return strategy != ACCEL_SHARDING_SHARD_GRAD_OP && strategy != ACCEL_SHARDING_HYBRID_SHARD_ZERO2;
}

static uint64_t group_size = 2;
static bool by_launcher, is_silent; /* it chooses; the program says nothing of sharding */
static float values[MOST], before[MOST];

struct net {
    struct accel *acc;
    struct accel_model *model;
    struct accel_optimizer *optimizer, *late;
    struct accel_tensor data[PARAMETERS], grads[PARAMETERS];
    int step, pass;
    double loss;
};

static enum accel_dtype
dtype_of_scene (void)
{
    return scene->dtype ? scene->dtype : ACCEL_FLOAT32;
}

/* Elements of a tensor, wherever it is. */
static size_t
get (const DLTensor *tensor, float *into)
{
    static char bytes[MOST * sizeof (float)];
    size_t count = accel_tensor_count (tensor);
    MUST (memory_of (tensor->device)->read (tensor->device, bytes, tensor->data, count * tensor->dtype.bits / 8, &err));
    MUST (accel_convert (bytes, accel_dtype_from_dl (tensor->dtype), into, ACCEL_FLOAT32, count, &err));
    return count;
}

static void
put (const DLTensor *tensor, const float *from)
{
    static char bytes[MOST * sizeof (float)];
    size_t count = accel_tensor_count (tensor);
    MUST (accel_convert (from, ACCEL_FLOAT32, bytes, accel_dtype_from_dl (tensor->dtype), count, &err));
    memory_of (tensor->device)->write (tensor->device, tensor->data, bytes, count * tensor->dtype.bits / 8);
}

static void
fill (struct net *net)
{
    for (int i = 0; i < PARAMETERS; i++) {
        size_t count = accel_tensor_count (&net->data[i].dl);
        for (size_t j = 0; j < count; j++)
            values[j] = accel_process_index (net->acc) ? 0 : (float) ((j * 31 + (size_t) i) % 64) / 64 - 0.5F;
        put (&net->data[i].dl, values);
        DLTensor *master = scene->writes_masters ? accel_model_master (net->model, (size_t) i) : NULL;
        for (size_t j = 0; master && j < count; j++)
            ((float *) master->data)[j] += 0.3F / (float) (j + 1);
    }
}

static void
create (struct net *net, struct accel *acc, bool is_sharded)
{
    const struct accel_sharding_options sharding
        = { .strategy = !is_sharded ? ACCEL_SHARDING_NONE : by_launcher ? ACCEL_SHARDING_DEFAULT : strategy,
            .min_num_params = scene->least, .group_size = group_size,
            .offload_optimizer_device = is_sharded ? offload : ACCEL_OFFLOAD_NONE, .offload_optimizer_nvme_path = ".",
            .offload_param_device = is_sharded ? offload_param : ACCEL_OFFLOAD_NONE, .offload_param_nvme_path = "." };
    const struct accel_param_group groups[] = { { .match = "w1,w2", .skip = true }, { .match = "w0,b0" } };
    enum accel_dtype of_grads = scene == &eight_bits ? ACCEL_FLOAT32 : dtype_of_scene ();
    struct accel_optimizer_options options = scene->options;
    struct accel_parameter parameters[PARAMETERS];
    *net = (struct net){ .acc = acc };
    for (int i = 0; i < PARAMETERS; i++) {
        MUST (accel_tensor_init (&net->data[i], dtype_of_scene (), 2, kinds[i].shape, &err));
        MUST (accel_tensor_init (&net->grads[i], of_grads, 2, kinds[i].shape, &err));
        parameters[i] = (struct accel_parameter){ kinds[i].name, &net->data[i].dl,
                                                  kinds[i].is_trained ? &net->grads[i].dl : NULL };
    }
    MUST (accel_model_create (&net->model, parameters, PARAMETERS, &err));
    if (!is_sharded || !is_silent)
        MUST (accel_model_set_sharding (net->model, &sharding, &err));
    MUST (accel_model_set_ddp (net->model, &scene->ddp, &err));
    options.capturable = scene->is_capturable ? ACCEL_YES : ACCEL_DEFAULT;
    options.groups = groups;
    options.group_count = scene->has_groups ? 2 : 0;
    MUST (accel_optimizer_create (&net->optimizer, net->model, scene->kind, &options, &err));
    fill (net);
}

static void
prepare (struct net *net, bool is_sharded, bool is_on_gpu)
{
    bool is_alone = accel_num_processes (net->acc) == 1;
    MUST (accel_prepare (net->acc, &err, net->model, net->optimizer));
    if (accel_model_sharding (net->model) != (is_sharded && !is_alone ? strategy : ACCEL_SHARDING_NONE)
        || (net->data[0].dl.device.device_type == kDLCUDA) != is_on_gpu)
        must (ACCEL_ERR_INVALID, "the model is not sharded, or not on a GPU");
    if (net->model->sharding.staging) /* so that they are many */
        net->model->sharding.staging->elements = PIECE;
}

static void
end (struct net *net)
{
    accel_optimizer_destroy (net->optimizer);
    accel_optimizer_destroy (net->late);
    accel_model_destroy (net->model);
}

/* ---- training ---- */

static float
input (const struct net *net, int parameter, size_t element)
{
    size_t rank = (size_t) accel_process_index (net->acc);
    return (float) ((element * 7 + rank * 5 + (size_t) (net->step * 3 + net->pass * 11 + parameter)) % 32) / 16 - 1;
}

/* Of `values`. */
static float
gradient (const struct net *net, int parameter, size_t element)
{
    float exact = 0.25F * values[element] + input (net, parameter, element);
    return is_coarse ? roundf (16 * exact) / 16 : exact;
}

/* The elements of a parameter, as a layer has them.  Outside of layers, what is divided has no address. */
static size_t
get_layer (struct net *net, size_t parameter, float *into)
{
    if (!has_layers ()) /* as a program without them */
        return get (&net->data[parameter].dl, into);
    MUST (accel_layer_begin (net->model, &parameter, 1, &err));
    size_t count = get (&net->data[parameter].dl, into);
    MUST (accel_layer_end (net->model, &parameter, 1, &err));
    return count;
}

static enum accel_status
backward (void *user, float scale, struct accel_error *error)
{
    struct net *net = user;
    enum accel_status status = ACCEL_OK;
    (void) scale;
    scale = accel_loss_scale (net->acc);
    for (int i = PARAMETERS; i-- > 0 && !status;) {
        if (!kinds[i].is_trained)
            continue;
        size_t count = get_layer (net, (size_t) i, values);
        get (&net->grads[i].dl, before);
        for (size_t j = 0; j < count; j++)
            before[j] += scale * gradient (net, i, j);
        if (scene->skips && net->step < 2)
            before[0] = INFINITY;
        put (&net->grads[i].dl, before);
        status = accel_grad_ready (net->model, (size_t) i, error);
    }
    return status;
}

static void
clip (struct net *net)
{
    float norm;
    if (scene->clip > 0 && scene->asks_no_norm)
        MUST (accel_clip_grad_norm (net->model, scene->clip, NULL, NULL, &err));
    else if (scene->clip > 0) {
        MUST (accel_clip_grad_norm (net->model, scene->clip, &norm, NULL, &err));
        net->loss += (double) norm;
    }
}

static void
need_late (struct net *net)
{
    const struct accel_optimizer_options options = { .lr = 0.1, .initial_accumulator_value = 0.25,
                                                     .groups = (struct accel_param_group[]){ { .match = "w1,w2" },
                                                                             { .match = "w0,b0", .skip = true } },
                                                     .group_count = 2 };
    if (!scene->has_groups || net->late)
        return;
    MUST (accel_optimizer_create (&net->late, net->model, ACCEL_ADAGRAD, &options, &err));
    MUST (accel_prepare (net->acc, &err, net->late));
}

static void
train (struct net *net)
{
    int passes = scene->passes ? scene->passes : 1;
    net->loss = 0;
    for (net->pass = 0; net->pass < passes; net->pass++) {
        bool is_held = net->pass + 1 < passes;
        for (int i = 0; i < PARAMETERS; i++) {
            size_t count = get_layer (net, (size_t) i, values);
            for (size_t j = 0; j < count; j++)
                net->loss += (double) values[j] * (double) input (net, i, j);
        }
        if (is_held)
            MUST (accel_no_sync (net->acc, net->model, &err));
        accel_set_sync_gradients (net->acc, !is_held);
        MUST (accel_backward (net->acc, net->model, 1, backward, net, &err));
        if (is_held)
            MUST (accel_no_sync_end (net->acc, net->model, &err));
    }
    clip (net);
    MUST (accel_optimizer_step (net->optimizer, &err));
    if (net->late)
        MUST (accel_optimizer_step (net->late, &err));
    need_late (net);
    MUST (accel_optimizer_zero_grad (net->optimizer, &err));
    if (net->late)
        MUST (accel_optimizer_zero_grad (net->late, &err));
    net->step++;
}

static struct accel *
open_job (bool is_on_host)
{
    const struct accel_grad_scaler scaler = { .on_device = scene->is_live ? ACCEL_YES : ACCEL_NO };
    const struct accel_options options = { .mixed_precision = scene->precision, .grad_scaler = &scaler,
                                           .device_placement = is_on_host ? ACCEL_NO : ACCEL_DEFAULT };
    struct accel *acc;
    MUST (accel_open (&acc, &options, &err));
    if (accel_device (acc).device_type != kDLCUDA)
        must (ACCEL_ERR_SYSTEM, "there is no GPU");
    return acc;
}

/* Of divided gradients, each rank has a part of the norm, and these are added up. */
static bool
is_near (double a, double b)
{
    bool may_differ = scene->clip > 0 && strategy >= ACCEL_SHARDING_SHARD_GRAD_OP;
    return a == b || (may_differ && fabs (a - b) <= 1e-6 * fabs (a) + 1e-6);
}

static bool
is_same (const struct net *a, const struct net *b)
{
    bool same = true;
    MUST (accel_summon_full_params (b->model, &err));
    for (int i = 0; i < PARAMETERS && same; i++) {
        size_t count = get (&a->data[i].dl, values);
        get (&b->data[i].dl, before);
        for (size_t j = 0; j < count && same; j++)
            same = is_near ((double) values[j], (double) before[j]);
    }
    MUST (accel_summon_full_params_end (b->model, &err));
    return same;
}

static void
move (struct net *net, bool is_sharded)
{
    MUST (accel_unwrap_model (net->acc, net->model, &err));
    prepare (net, is_sharded, true);
}

/* What the sharded one has of states can be asked for where it has all of them, or they are in host memory. */
static void
check_states (const struct net *net, const char *state)
{
    bool is_alone = accel_num_processes (net->acc) == 1;
    const DLTensor *large = accel_optimizer_state_tensor (net->optimizer, 2, state);
    const DLTensor *small = accel_optimizer_state_tensor (net->optimizer, 1, state);
    bool is_on_gpu = offload == ACCEL_OFFLOAD_NONE, is_whole = is_alone || strategy == ACCEL_SHARDING_NONE;
    ok (!large == !(is_whole || !is_on_gpu) && small && (small->device.device_type == kDLCUDA) == is_on_gpu,
        "accel_optimizer_state_tensor() has those states that are whole");
}

#endif
