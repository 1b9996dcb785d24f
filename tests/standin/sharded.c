/* SPDX-License-Identifier: Apache-2.0 */
/* Sharded models that accel_prepare() puts on GPUs: a model and one that is not sharded are trained side by side, and
 * have the same losses and bits.  Ranks as the environment says.
 *
 *   sharded scenes [WORD...]            in each of the scenes below; WORD: "gradients", which are divided, too,
 *                                       "layers", and parameters, "hybrid2" or "hybrid": the same among each 2 ranks,
 *                                       "whole": nothing is; "cpu", "nvme": states are offloaded
 *   sharded refused                     what cannot be sharded on a GPU, or be done with a model that is, or what can:
 *                                       tied parameters
 *   sharded launched                    what --use_fsdp and --use_deepspeed divide; with an odd number of ranks,
 *                                       hybrid strategies become stage 1
 *   sharded run FROM TO WORD...         load the state in folder FROM, and the parameters have its values; train, and
 *                                       save to TO; "-" is neither.  Words: STEPS (0), "sharded", "gradients",
 *                                       "layers", "hybrid2", "hybrid", "coarse", "host", "shares", "async", "cpu",
 *                                       "nvme"
 *   sharded fits [sharded|cpu]          whether there is enough memory for accel_prepare()
 *   sharded fails prepare N [WORD...]   whether ranks agree that rank 1 cannot have its N th piece of memory
 *   sharded fails host N [WORD...]      ... its N th piece of host memory
 *   sharded fails load N [WORD]         what a load leaves whose N th copy to the GPU of rank 1 fails
 *   sharded fails WHAT [WORD...]        ... "pass": for gradients; what a "summon" or "read" (a load) that fails leaves
 *                                       of parameters; "gather": the end of a layer that cannot be gathered;
 *                                       "step": whether a step fails, and is not counted */
#include <config.h>

#include "lib/comm/comm_object.h"
#include "tests/allocators.h"
#include "tests/standin/cuda/standin.h"
#include "tests/standin/sharded_net.h"

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
        good = is_near (plain.loss, sharded.loss) && isfinite (plain.loss);
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
        is_sharded = set_strategy (words[i]) || is_sharded || !strcmp (words[i], "sharded");
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

/* Masters are made anew from parameters that have been loaded, before these are collected. */
static void
save_summoned (void)
{
    const struct accel_save_model_options masters = { .precision = ACCEL_SAVE_MASTERS };
    struct accel *acc = open_job (false);
    struct net plain, net;
    scene = &scenes[2];
    create (&plain, acc, false);
    create (&net, acc, true);
    prepare (&plain, false, true);
    prepare (&net, true, true);
    MUST (accel_save_model (acc, net.model, "summoned", NULL, &err));
    MUST (accel_load_model (acc, net.model, "summoned", NULL, NULL, &err));
    MUST (accel_summon_full_params (net.model, &err));
    MUST (accel_save_model (acc, net.model, "summoned", &masters, &err));
    MUST (accel_summon_full_params_end (net.model, &err));
    MUST (accel_load_model (acc, net.model, "summoned", NULL, NULL, &err));
    ok (is_same (&plain, &net), "masters that are saved within a summons");
    end (&plain);
    end (&net);
    accel_close (acc);
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
        = { .strategy = is_sharded ? ACCEL_SHARDING_OPTIMIZER : ACCEL_SHARDING_NONE,
            .offload_optimizer_device = offload };
    struct accel *acc = open_job (false);
    struct large large;
    enum accel_status status = prepare_large (&large, acc, &sharding, ACCEL_ADAM, &options);
    if (!status)
        MUST (accel_optimizer_step (large.optimizer, &err));
    bool fits = is_sharded || offload > ACCEL_OFFLOAD_NONE;
    ok (status == (fits ? ACCEL_OK : ACCEL_ERR_NOMEM), "%s: %s", fits ? "fits" : "does not fit",
        status ? err.text : "");
    end_large (&large);
    accel_close (acc);
}

/* What fails after the model was placed: large states are back where they were, which is anywhere. */
static void
fail_placed (struct accel *acc)
{
    const struct accel_sharding_options sharding = { .strategy = ACCEL_SHARDING_OPTIMIZER };
    const struct accel_optimizer_options options = { .lr = 0.01, .initial_accumulator_value = 0.5 };
    struct large large;
    setenv ("STANDIN_FAIL", "ncclBroadcast:1:5", true); /* an argument, which leaves everything as it is */
    enum accel_status status = prepare_large (&large, acc, &sharding, ACCEL_ADAGRAD, &options);
    unsetenv ("STANDIN_FAIL");
    const DLTensor *state = accel_optimizer_state_tensor (large.optimizer, 0, "sum");
    size_t wrong = 0;
    for (size_t i = 0; i < accel_tensor_count (state); i++)
        wrong += ((float *) state->data)[i] != 0.5F;
    ok (status && !wrong, "no model on the GPU: %zu elements differ: %s", wrong, err.text);
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
    setenv ("STANDIN_FAIL", "cudaMemcpyAsync:2:2", true); /* the first one is that of fail_placed() */
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

/* Two names of one tensor, which rank 0 has on the host already when all collect the second one. */
static void
save_tied (struct accel *acc)
{
    const struct accel_sharding_options sharding = { .strategy = ACCEL_SHARDING_FULL_SHARD };
    const int64_t count = 9001;
    struct net net = { .acc = acc };
    MUST (accel_tensor_init (&net.data[0], ACCEL_BFLOAT16, 1, &count, &err));
    for (int i = 0; i < 2; i++)
        MUST (accel_tensor_init (&net.grads[i], ACCEL_BFLOAT16, 1, &count, &err));
    const struct accel_parameter parameters[] = { { "a", &net.data[0].dl, &net.grads[0].dl },
                                                  { "b", &net.data[0].dl, &net.grads[1].dl } };
    MUST (accel_model_create (&net.model, parameters, 2, &err));
    MUST (accel_model_set_sharding (net.model, &sharding, &err));
    MUST (accel_optimizer_create (&net.optimizer, net.model, ACCEL_ADAMW,
                                  &(struct accel_optimizer_options){ .lr = 0.01 }, &err));
    for (int64_t i = 0; i < count; i++)
        values[i] = (float) (i % 101);
    put (&net.data[0].dl, values);
    MUST (accel_prepare (acc, &err, net.model, net.optimizer));
    MUST (accel_save_state (acc, "tied", &err));
    MUST (accel_save_model (acc, net.model, "tied_model", NULL, &err));
    MUST (accel_load_model (acc, net.model, "tied_model", NULL, NULL, &err));
    MUST (accel_load_state (acc, "tied", &err));
    MUST (accel_summon_full_params (net.model, &err));
    get (&net.data[0].dl, before);
    MUST (accel_summon_full_params_end (net.model, &err));
    ok (!memcmp (values, before, (size_t) count * sizeof *values), "tied parameters are saved and loaded");
    end (&net);
}

static void
refuse (void)
{
    struct accel *acc = open_job (false);
    struct net net;
    const struct accel_sharding_options sharding = { .strategy = ACCEL_SHARDING_HYBRID_SHARD_ZERO2, .group_size = 3 };
    create (&net, acc, false);
    MUST (accel_model_set_sharding (net.model, &sharding, &err));
    enum accel_status status = accel_prepare (acc, &err, net.model);
    ok (status == ACCEL_ERR_UNSUPPORTED && net.data[0].dl.device.device_type == kDLCPU
            && strstr (err.text, "group_size does not divide"), "groups: %s", err.text);
    const struct accel_sharding_options good = { .strategy = ACCEL_SHARDING_OPTIMIZER };
    MUST (accel_model_set_sharding (net.model, &good, &err));
    prepare (&net, true, true);
    train (&net);
    end (&net);
    refuse_capture (acc);
    refuse_group (acc);
    load_custom (acc);
    save_tied (acc);
    fail_placed (acc);
    accel_close (acc);
    refuse_left ();
}

/* ---- what fails ---- */

static bool was_called;

static enum accel_status
note_call (void *user, float scale, struct accel_error *why)
{
    (void) user, (void) scale, (void) why;
    was_called = true;
    return ACCEL_OK;
}

/* Ranks make the same collectives, and so have an error or not. */
static void
fail_prepare (const char *turn, bool is_host)
{
    struct accel *acc = open_job (false);
    bool fails = accel_process_index (acc) == 1;
    struct net net;
    char plan[64];
    snprintf (plan, sizeof plan, "cudaMallocFromPoolAsync:%s:700", turn);
    create (&net, acc, true);
    if (fails && is_host)
        calls_left = strtol (turn, NULL, 10);
    else if (fails)
        setenv ("STANDIN_FAIL", plan, true);
    enum accel_status status = accel_prepare (acc, &err, net.model, net.optimizer);
    calls_left = -1;
    unsetenv ("STANDIN_FAIL");
    bool is_told = strstr (err.text, "of rank 1: ") || strstr (err.text, "rank 1 gave up")
                   || (is_host && status == ACCEL_ERR_NOMEM);
    ok (!status || is_told || (fails && !is_host), "%s", status ? err.text : "prepared");
    end (&net);
    accel_close (acc);
}

static void
fail_pass (void)
{
    struct accel *acc = open_job (false);
    bool fails = accel_process_index (acc) == 1;
    struct net net;
    create (&net, acc, true);
    prepare (&net, true, true);
    if (fails)
        setenv ("STANDIN_FAIL", "cudaMallocFromPoolAsync:1:700", true);
    enum accel_status status = accel_backward (acc, net.model, 1, note_call, NULL, &err);
    unsetenv ("STANDIN_FAIL");
    if (!fails && !status) /* it has queued its averages, and waits */
        status = accel_wait_for_everyone (acc, &err);
    ok (status && was_called == !fails, "no pass without gradients: %s", err.text);
    end (&net);
    accel_close (acc);
}

/* The model is home with its chunks, and compared with what it was. */
static void
check_home (struct net *net, const char *what)
{
    struct net plain;
    accel_close (net->acc);
    struct accel *acc = net->acc = open_job (false);
    prepare (net, true, true);
    create (&plain, acc, false);
    prepare (&plain, false, true);
    ok (is_same (&plain, net), "%s leaves parameters as they were", what);
    end (&plain);
    end (net);
    accel_close (acc);
}

static void
fail_summon (void)
{
    struct accel *acc = open_job (false);
    struct net net;
    create (&net, acc, true);
    prepare (&net, true, true);
    setenv ("STANDIN_FAIL", "ncclAllGather:1:2", true);
    enum accel_status status = accel_summon_full_params (net.model, &err);
    unsetenv ("STANDIN_FAIL");
    ok (status, "a summons: %s", err.text);
    MUST (accel_summon_full_params_end (net.model, &err));
    check_home (&net, "it");
}

/* A layer whose copies have begun, and whose gathering is refused. */
static void
fail_gather (void)
{
    static const size_t layer[] = { 0, 2, 3 };
    struct accel *acc = open_job (false);
    struct net net;
    create (&net, acc, true);
    prepare (&net, true, true);
    train (&net);
    comm_give_up (accel_world (acc), "a test");
    enum accel_status status = accel_layer_begin (net.model, layer, 3, &err);
    ok (status, "a layer: %s", err.text);
    end (&net);
    accel_close (acc);
}

/* Without memory for parameters that are lent to the GPU, or with sums that were aborted while the host waited. */
static void
fail_step (void)
{
    for (int is_aborted = 1; is_aborted >= 0; is_aborted--) { /* an error of the GPU stays */
        struct accel *acc = open_job (false);
        struct net net;
        create (&net, acc, true);
        prepare (&net, true, true);
        train (&net);
        MUST (accel_backward (acc, net.model, 1, backward, &net, &err));
        if (is_aborted)
            comm_give_up (accel_world (acc), "a test");
        else
            setenv ("STANDIN_FAIL", "cudaMallocFromPoolAsync:1:1", true);
        enum accel_status status = accel_optimizer_step (net.optimizer, &err);
        unsetenv ("STANDIN_FAIL");
        ok (status && (is_aborted || accel_optimizer_step_count (net.optimizer) == 1), "a step: %s", err.text);
        end (&net);
        accel_close (acc);
    }
}

/* Of 8-bit tensors, which is known after a parameter has been opened. */
static void
fail_read (void)
{
    struct accel *acc = open_job (false);
    struct net eight, net;
    scene = &eight_bits;
    create (&eight, acc, false);
    accel_model_narrow (eight.model);
    MUST (accel_save_model (acc, eight.model, "eight", NULL, &err));
    end (&eight);
    scene = &scenes[0];
    create (&net, acc, true);
    prepare (&net, true, true);
    enum accel_status status = accel_load_model (acc, net.model, "eight", NULL, NULL, &err);
    ok (status == ACCEL_ERR_UNSUPPORTED, "a load: %s", status ? err.text : "");
    check_home (&net, "it");
}

/* Rank 1 cannot copy to its GPU.  All ranks know, the models can be trained, and the next load has all. */
static void
fail_load (const char *turn)
{
    struct accel *acc = open_job (false);
    struct net plain, net;
    char plan[64];
    snprintf (plan, sizeof plan, "cudaMemcpyAsync:%s:2", turn);
    create (&plain, acc, false);
    prepare (&plain, false, true);
    create (&net, acc, true);
    prepare (&net, true, true);
    train (&plain);
    train (&net);
    MUST (accel_save_state (acc, "loads", &err));
    if (accel_process_index (acc) == 1)
        setenv ("STANDIN_FAIL", plan, true);
    enum accel_status status = accel_load_state (acc, "loads", &err);
    unsetenv ("STANDIN_FAIL");
    bool is_known = !status || strstr (err.text, "cudaMemcpyAsync: out of memory");
    diag ("%s", status ? err.text : "loaded");
    train (&net);
    train (&plain);
    MUST (accel_load_state (acc, "loads", &err));
    ok (is_known && is_same (&plain, &net), "a load after one that %s", status ? "failed" : "did not fail");
    end (&net);
    end (&plain);
    accel_close (acc);
}

static void
fail (int count, char **words)
{
    bool is_set = false;
    for (int i = 1; i < count; i++)
        is_set = set_strategy (words[i]) || is_set;
    if (!is_set)
        set_strategy (!strcmp (*words, "pass") ? "gradients" : "layers");
    if (count > 1 && (!strcmp (*words, "prepare") || !strcmp (*words, "host")))
        fail_prepare (words[1], !strcmp (*words, "host"));
    else if (count > 1 && !strcmp (*words, "load"))
        fail_load (words[1]);
    else if (!strcmp (*words, "pass"))
        fail_pass ();
    else if (!strcmp (*words, "summon"))
        fail_summon ();
    else if (!strcmp (*words, "gather"))
        fail_gather ();
    else if (!strcmp (*words, "step"))
        fail_step ();
    else
        fail_read ();
}

/* All ranks follow addresses, or none. */
static void
refuse_silence (void)
{
    struct accel *acc = open_job (false);
    struct net net;
    setenv ("ACCELERATE_USE_FSDP", "true", true);
    group_size = 0;
    is_silent = accel_process_index (acc) == 1;
    create (&net, acc, true);
    enum accel_status status = accel_prepare (acc, &err, net.model, net.optimizer);
    ok (status == ACCEL_ERR_INVALID && strstr (err.text, "on rank 1 differ from those on rank 0"),
        "a rank that says nothing: %s", status ? err.text : "");
    end (&net);
    accel_close (acc);
}

/* With the launcher's variables. */
static void
launched (void)
{
    static const struct {
        const char *used, *name, *value;
        enum accel_sharding becomes;
        int scene;
        bool is_silent;
    } cases[] = {
        { "FSDP", "FSDP_SHARDING_STRATEGY", "FULL_SHARD", ACCEL_SHARDING_OPTIMIZER, 8, true },
        { "FSDP", "FSDP_SHARDING_STRATEGY", "FULL_SHARD", ACCEL_SHARDING_FULL_SHARD, 8, false },
        { "FSDP", "FSDP_SHARDING_STRATEGY", "SHARD_GRAD_OP", ACCEL_SHARDING_SHARD_GRAD_OP, 8, false },
        { "FSDP", "FSDP_SHARDING_STRATEGY", "HYBRID_SHARD", ACCEL_SHARDING_HYBRID_SHARD, 8, false },
        { "FSDP", "FSDP_SHARDING_STRATEGY", "HYBRID_SHARD_ZERO2", ACCEL_SHARDING_HYBRID_SHARD_ZERO2, 8, false },
        { "FSDP", "FSDP_SHARDING_STRATEGY", "SHARD_GRAD_OP", ACCEL_SHARDING_OPTIMIZER, 7, false }, /* comm_hook */
        { "DEEPSPEED", "ACCELERATE_DEEPSPEED_ZERO_STAGE", "3", ACCEL_SHARDING_FULL_SHARD, 8, false },
        { "DEEPSPEED", "ACCELERATE_DEEPSPEED_ZERO_STAGE", "2", ACCEL_SHARDING_SHARD_GRAD_OP, 8, false },
        { "DEEPSPEED", "ACCELERATE_DEEPSPEED_ZERO_STAGE", "2", ACCEL_SHARDING_OPTIMIZER, 8, true },
        { "DEEPSPEED", "ACCELERATE_DEEPSPEED_ZERO_STAGE", "1", ACCEL_SHARDING_OPTIMIZER, 8, true },
    };
    const char *ranks = getenv ("WORLD_SIZE");
    bool has_pairs = !ranks || strtol (ranks, NULL, 10) % 2 == 0; /* of which hybrid strategies have groups */
    by_launcher = is_coarse = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char used[64];
        snprintf (used, sizeof used, "ACCELERATE_USE_%s", cases[i].used);
        setenv (used, "true", true);
        setenv (cases[i].name, cases[i].value, true);
        diag ("%s=%s%s", cases[i].name, cases[i].value, cases[i].is_silent ? ", and the program says nothing" : "");
        strategy = has_pairs || cases[i].becomes < ACCEL_SHARDING_HYBRID_SHARD ? cases[i].becomes
                                                                               : ACCEL_SHARDING_OPTIMIZER;
        is_silent = cases[i].is_silent;
        scene = &scenes[cases[i].scene];
        play ();
        unsetenv (used);
        unsetenv (cases[i].name);
    }
    refuse_silence ();
}

int
main (int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp (what, "run") && argc > 3)
        run (argv[2], argv[3], argc - 4, argv + 4);
    else if (!strcmp (what, "fits"))
        fit (argc > 2 && !set_strategy (argv[2]) && offload <= ACCEL_OFFLOAD_NONE);
    else if (!strcmp (what, "fails") && argc > 2)
        fail (argc - 2, argv + 2);
    else if (!strcmp (what, "refused"))
        refuse ();
    else if (!strcmp (what, "launched"))
        launched ();
    else {
        for (int i = 2; i < argc; i++)
            set_strategy (argv[i]);
        for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
            scene = &scenes[i];
            if (has_layers () || !scene->ddp.comm_hook) /* which it refuses */
                play ();
        }
        if (strategy == ACCEL_SHARDING_FULL_SHARD)
            save_summoned ();
    }
    return done_testing ();
}
