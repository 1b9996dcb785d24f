/* SPDX-License-Identifier: Apache-2.0 */
/* Sharded models that accel_prepare() puts on GPUs: a model and one that is not sharded are trained side by side, and
 * have the same losses and bits.  Ranks as the environment says.
 *
 *   sharded scenes                      in each of the scenes below
 *   sharded refused                     what cannot be sharded on a GPU, or be done with a model that is
 *   sharded launched                    what --use_fsdp divides
 *   sharded run FROM TO WORD...         load the state in folder FROM, and the parameters have its values; train, and
 *                                       save to TO; "-" is neither.  Words: STEPS (0), "sharded", "host", "shares",
 *                                       "async"
 *   sharded fits [sharded]              whether there is enough memory for accel_prepare() */
#include <config.h>

#include "lib/memory/memory.h"
#include "tests/must.h"
#include "tests/standin/cuda/standin.h"
#include "tests/tap.h"

#include <accel/accel.h>
#include <accel/sharding.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMETERS = 5, STEPS = 4, MOST = 12000 };

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

static const struct scene *scene = &scenes[0];
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
        = { .strategy = is_sharded ? ACCEL_SHARDING_OPTIMIZER : ACCEL_SHARDING_NONE, .min_num_params = scene->least };
    const struct accel_param_group groups[] = { { .match = "w1,w2", .skip = true }, { .match = "w0,b0" } };
    struct accel_optimizer_options options = scene->options;
    struct accel_parameter parameters[PARAMETERS];
    *net = (struct net){ .acc = acc };
    for (int i = 0; i < PARAMETERS; i++) {
        MUST (accel_tensor_init (&net->data[i], dtype_of_scene (), 2, kinds[i].shape, &err));
        MUST (accel_tensor_init (&net->grads[i], dtype_of_scene (), 2, kinds[i].shape, &err));
        parameters[i] = (struct accel_parameter){ kinds[i].name, &net->data[i].dl,
                                                  kinds[i].is_trained ? &net->grads[i].dl : NULL };
    }
    MUST (accel_model_create (&net->model, parameters, PARAMETERS, &err));
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
    if (accel_model_sharding (net->model)
            != (is_sharded && !is_alone ? ACCEL_SHARDING_OPTIMIZER : ACCEL_SHARDING_NONE)
        || (net->data[0].dl.device.device_type == kDLCUDA) != is_on_gpu)
        must (ACCEL_ERR_INVALID, "the model is not sharded, or not on a GPU");
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
        size_t count = get (&net->data[i].dl, values);
        get (&net->grads[i].dl, before);
        for (size_t j = 0; j < count; j++)
            before[j] += scale * (0.25F * values[j] + input (net, i, j));
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
            size_t count = get (&net->data[i].dl, values);
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

static bool
is_same (const struct net *a, const struct net *b)
{
    for (int i = 0; i < PARAMETERS; i++) {
        size_t bytes = get (&a->data[i].dl, values) * sizeof *values;
        get (&b->data[i].dl, before);
        if (memcmp (values, before, bytes))
            return false;
    }
    return true;
}

static void
move (struct net *net, bool is_sharded)
{
    MUST (accel_unwrap_model (net->acc, net->model, &err));
    prepare (net, is_sharded, true);
}

/* What the sharded one has of the states of @parameter can be asked for where it has all of them. */
static void
check_states (const struct net *net, const char *state)
{
    bool is_alone = accel_num_processes (net->acc) == 1;
    const DLTensor *large = accel_optimizer_state_tensor (net->optimizer, 2, state);
    const DLTensor *small = accel_optimizer_state_tensor (net->optimizer, 1, state);
    ok (!large == !is_alone && small && small->device.device_type == kDLCUDA,
        "accel_optimizer_state_tensor() has those states that are whole");
}

static void
play (void)
{
    struct net plain, sharded;
    struct accel *acc = open_job (false);
    bool good = true;
    create (&plain, acc, false);
    create (&sharded, acc, true);
    prepare (&plain, false, true);
    prepare (&sharded, true, true);
    for (int i = 0; i < STEPS && good; i++) {
        train (&plain);
        train (&sharded);
        good = plain.loss == sharded.loss && isfinite (plain.loss);
        if (!good)
            diag ("step %d: the loss is %.9g, but %.9g without sharding", i, sharded.loss, plain.loss);
        if (scene->moves) {
            move (&plain, false);
            move (&sharded, true);
            accel_model_widen (plain.model); /* those of the sharded one begin anew */
            accel_model_widen (sharded.model);
        }
    }
    ok (good && is_same (&plain, &sharded), "the losses and bits of training without sharding: %s", scene->name);
    if (scene == scenes)
        check_states (&sharded, "exp_avg");
    end (&sharded);
    end (&plain);
    accel_close (acc);
}

/* ---- checkpoints ---- */

static void
run (const char *from, const char *to, int count, char **words)
{
    int steps = 0;
    bool is_sharded = false, is_on_host = false, is_async = false;
    struct accel_project_configuration project = { .state_dict_type = ACCEL_STATE_DICT_FULL };
    struct net net;
    scene = &scenes[2];
    for (int i = 0; i < count; i++) {
        is_sharded = is_sharded || !strcmp (words[i], "sharded");
        is_on_host = is_on_host || !strcmp (words[i], "host");
        is_async = is_async || !strcmp (words[i], "async");
        if (!strcmp (words[i], "shares"))
            project.state_dict_type = ACCEL_STATE_DICT_SHARDED;
        steps = strtol (words[i], NULL, 10) ? (int) strtol (words[i], NULL, 10) : steps;
    }
    struct accel *acc = open_job (is_on_host);
    MUST (accel_set_project_configuration (acc, &project, &err));
    create (&net, acc, is_sharded);
    prepare (&net, is_sharded, !is_on_host);
    if (strcmp (from, "-"))
        MUST (accel_load_state (acc, from, &err));
    net.step = (int) accel_optimizer_step_count (net.optimizer);
    for (int i = 0; i < steps; i++)
        train (&net);
    if (strcmp (to, "-"))
        MUST (is_async ? accel_save_state_start (acc, to, &err) : accel_save_state (acc, to, &err));
    if (is_async) /* what is saved is what was there */
        train (&net);
    if (is_async)
        MUST (accel_save_state_wait (acc, &err));
    const struct accel_save_model_options masters = { .precision = ACCEL_SAVE_MASTERS };
    char folder[4096];
    snprintf (folder, sizeof folder, "%s.masters", to);
    if (strcmp (to, "-") && !is_async)
        MUST (accel_save_model (acc, net.model, folder, &masters, &err));
    train (&net); /* also after a save */
    end (&net);
    accel_close (acc);
    ok (true, "saved");
}

/* ---- memory, and what is refused ---- */

/* A model of one large parameter, and its optimizer. */
struct large {
    struct accel_tensor data, grad;
    struct accel_model *model;
    struct accel_optimizer *optimizer;
};

static enum accel_status
prepare_large (struct large *large, struct accel *acc, const struct accel_sharding_options *sharding,
               enum accel_optimizer_kind kind, const struct accel_optimizer_options *options)
{
    const int64_t count = 400000;
    MUST (accel_tensor_init (&large->data, ACCEL_FLOAT32, 1, &count, &err));
    MUST (accel_tensor_init (&large->grad, ACCEL_FLOAT32, 1, &count, &err));
    const struct accel_parameter parameter = { "w", &large->data.dl, &large->grad.dl };
    MUST (accel_model_create (&large->model, &parameter, 1, &err));
    MUST (accel_model_set_sharding (large->model, sharding, &err));
    MUST (accel_optimizer_create (&large->optimizer, large->model, kind, options, &err));
    return accel_prepare (acc, &err, large->model, large->optimizer);
}

static void
end_large (struct large *large)
{
    accel_optimizer_destroy (large->optimizer);
    accel_model_destroy (large->model);
}

/* Most of the memory is that of states. */
static void
fit (bool is_sharded)
{
    const struct accel_optimizer_options options = { .lr = 0.01, .amsgrad = ACCEL_YES };
    const struct accel_sharding_options sharding
        = { .strategy = is_sharded ? ACCEL_SHARDING_OPTIMIZER : ACCEL_SHARDING_NONE };
    struct accel *acc = open_job (false);
    struct large large;
    enum accel_status status = prepare_large (&large, acc, &sharding, ACCEL_ADAM, &options);
    if (!status)
        MUST (accel_optimizer_step (large.optimizer, &err));
    ok (status == (is_sharded ? ACCEL_OK : ACCEL_ERR_NOMEM), "%s: %s", is_sharded ? "fits" : "does not fit",
        status ? err.text : "");
    end_large (&large);
    accel_close (acc);
}

/* What fails after the model was placed: large states are back where they were, which is anywhere. */
static void
refuse_offloading (struct accel *acc)
{
    const struct accel_sharding_options offloaded
        = { .strategy = ACCEL_SHARDING_OPTIMIZER, .offload_optimizer_device = ACCEL_OFFLOAD_NVME,
            .offload_optimizer_nvme_path = "." };
    const struct accel_optimizer_options options = { .lr = 0.01, .initial_accumulator_value = 0.5 };
    struct large large;
    enum accel_status status = prepare_large (&large, acc, &offloaded, ACCEL_ADAGRAD, &options);
    const DLTensor *state = accel_optimizer_state_tensor (large.optimizer, 0, "sum");
    size_t wrong = 0;
    for (size_t i = 0; i < accel_tensor_count (state); i++)
        wrong += ((float *) state->data)[i] != 0.5F;
    ok (status == ACCEL_ERR_UNSUPPORTED && !wrong && strstr (err.text, "only models in host memory can be offloaded"),
        "offloading: %zu elements differ: %s", wrong, err.text);
    end_large (&large);
}

static void
refuse_capture (struct accel *acc)
{
    struct net net;
    scene = &scenes[5];
    create (&net, acc, true);
    prepare (&net, true, true);
    cudaStream_t stream = accel_get_stream (accel_device (acc));
    cudaSetDevice (accel_device (acc).device_id);
    standin_capture (stream, true);
    enum accel_status status = accel_optimizer_step (net.optimizer, &err);
    standin_capture (stream, false);
    ok (status == ACCEL_ERR_UNSUPPORTED && strstr (err.text, "so no CUDA graph can have it"), "a capture: %s",
        err.text);
    scene = &scenes[0];
    end (&net);
}

/* What accel_close() could not copy back is still on the GPU, and nothing of it is packed. */
static void
refuse_left (void)
{
    const struct accel_sharding_options sharding = { .strategy = ACCEL_SHARDING_OPTIMIZER };
    struct accel *acc = open_job (false);
    struct net net;
    create (&net, acc, false);
    prepare (&net, false, true);
    setenv ("STANDIN_FAIL", "cudaMemcpyAsync:1:2", true);
    accel_close (acc);
    unsetenv ("STANDIN_FAIL");
    bool is_left = net.data[0].dl.device.device_type == kDLCUDA;
    net.acc = acc = open_job (false);
    MUST (accel_model_set_sharding (net.model, &sharding, &err));
    enum accel_status status = accel_prepare (acc, &err, net.model);
    ok (is_left && status == ACCEL_ERR_UNSUPPORTED && strstr (err.text, "this model is on a GPU already"),
        "one that was left on a GPU (%d): %s", is_left, err.text);
    end (&net);
    accel_close (acc);
}

/* A step within a group of the program's, which stays as it was. */
static void
refuse_group (struct accel *acc)
{
    struct net net;
    create (&net, acc, true);
    prepare (&net, true, true);
    train (&net);
    MUST (accel_group_begin (accel_world (acc), &err));
    enum accel_status status = accel_optimizer_step (net.optimizer, &err);
    ok (status == ACCEL_ERR_INVALID && !accel_group_end (accel_world (acc), NULL), "a group: %s", err.text);
    end (&net);
}

static enum accel_status
step_alone (void *user, const struct accel_update *update, struct accel_error *why)
{
    (void) user, (void) update, (void) why;
    return ACCEL_OK;
}

/* It comes late, and can be saved and loaded, with masters of which this process has a part. */
static void
load_custom (struct accel *acc)
{
    const struct accel_custom_optimizer custom = { .lr = 1, .step = step_alone };
    struct net net;
    scene = &scenes[2];
    create (&net, acc, true);
    prepare (&net, true, true);
    train (&net);
    accel_optimizer_destroy (net.optimizer);
    MUST (accel_optimizer_create_custom (&net.optimizer, net.model, &custom, &err));
    MUST (accel_prepare (acc, &err, net.optimizer));
    MUST (accel_save_state (acc, "custom", &err));
    enum accel_status status = accel_load_state (acc, "custom", &err);
    ok (!status && memory_check (accel_device (acc), &err) == ACCEL_OK, "a custom optimizer has its masters again: %s",
        err.text);
    scene = &scenes[0];
    end (&net);
}

static void
refuse (void)
{
    struct accel *acc = open_job (false);
    struct net net;
    static const enum accel_sharding strategies[] = { ACCEL_SHARDING_SHARD_GRAD_OP, ACCEL_SHARDING_FULL_SHARD };
    for (size_t i = 0; i < 2; i++) {
        const struct accel_sharding_options sharding = { .strategy = strategies[i] };
        create (&net, acc, false);
        MUST (accel_model_set_sharding (net.model, &sharding, &err));
        enum accel_status status = accel_prepare (acc, &err, net.model);
        ok (status == ACCEL_ERR_UNSUPPORTED && net.data[0].dl.device.device_type == kDLCPU
                && strstr (err.text, "only the states of optimizers can be divided"), "stage %zu: %s", i + 2, err.text);
        const struct accel_sharding_options good = { .strategy = ACCEL_SHARDING_OPTIMIZER };
        MUST (accel_model_set_sharding (net.model, &good, &err));
        prepare (&net, true, true);
        train (&net);
        end (&net);
    }
    refuse_offloading (acc);
    refuse_capture (acc);
    refuse_group (acc);
    load_custom (acc);
    accel_close (acc);
    refuse_left ();
}

/* With --use_fsdp, whose default is stage 3. */
static void
launched (void)
{
    const struct accel_sharding_options by_launcher = { .min_num_params = 0 };
    struct net net;
    setenv ("ACCELERATE_USE_FSDP", "true", 1);
    struct accel *acc = open_job (false);
    create (&net, acc, false);
    MUST (accel_model_set_sharding (net.model, &by_launcher, &err));
    prepare (&net, true, true);
    train (&net);
    ok (accel_model_sharding (net.model) == ACCEL_SHARDING_OPTIMIZER, "what the launcher is asked for becomes stage 1");
    end (&net);
    accel_close (acc);
}

int
main (int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp (what, "run") && argc > 3)
        run (argv[2], argv[3], argc - 4, argv + 4);
    else if (!strcmp (what, "fits"))
        fit (argc > 2);
    else if (!strcmp (what, "refused"))
        refuse ();
    else if (!strcmp (what, "launched"))
        launched ();
    else
        for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
            scene = &scenes[i];
            play ();
        }
    return done_testing ();
}
