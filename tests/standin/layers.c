/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters that are divided among GPUs: where their addresses are, what a program may do with them, and how long a
 * step takes on the clocks of the stand-in.  Ranks as the environment says.
 *
 *   layers uses       layers, summons, gradients, ties, files, and what is refused
 *   layers groups     gradients that are divided among each 2 ranks
 *   layers times      a pass, to the nanosecond, of what its formula says
 *   layers fits WORD  whether training, and files, have enough memory; WORD is what is divided: "whole" (nothing),
 *                     "states", also "gradients", or also "parameters"; and "lent": these are
 *                     offloaded, as with the word "params" behind the others above, or "offloaded", with the states */
#include <config.h>

#include "lib/memory/memory.h"
#include "tests/must.h"
#include "tests/standin/cuda/standin.h"
#include "tests/tap.h"

#include <accel/accel.h>
#include <accel/sharding.h>

#include <stdlib.h>
#include <string.h>

enum { MOST = 8, EACH = 4099, LARGE = 100000 };

struct net {
    struct accel *acc;
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    struct accel_tensor data[MOST], grads[MOST];
    size_t layers;
    int steps; /* so far, each of which takes 1 from each element */
    bool adds; /* a pass adds to gradients, and does not write them */
    bool has_no_layers, begins_again; /* the pass; the first layer of it, at its end */
    size_t addresses; /* gradients that have had one in the latest pass */
    const struct timing *timing;
    size_t next;
};

static enum accel_dtype dtype = ACCEL_FLOAT32;
static bool offloads; /* divided parameters */
static float values[LARGE], bytes[LARGE];

/* Whole numbers that 16 bits can have. */
static float
value_of (const struct net *net, size_t layer, size_t element)
{
    return (float) (element % 97) + (float) layer * 10 - (float) net->steps;
}

/* From and to `values`. */
static void
put_values (const DLTensor *tensor)
{
    size_t count = accel_tensor_count (tensor);
    MUST (accel_convert (values, ACCEL_FLOAT32, bytes, dtype, count, &err));
    memory_of (tensor->device)->write (tensor->device, tensor->data, bytes, count * tensor->dtype.bits / 8);
}

static size_t
get_values (const DLTensor *tensor)
{
    size_t count = accel_tensor_count (tensor);
    MUST (memory_of (tensor->device)->read (tensor->device, bytes, tensor->data, count * tensor->dtype.bits / 8, &err));
    MUST (accel_convert (bytes, dtype, values, ACCEL_FLOAT32, count, &err));
    return count;
}

static void
put (const struct net *net, size_t layer, float more)
{
    size_t count = accel_tensor_count (&net->data[layer].dl);
    for (size_t j = 0; j < count; j++)
        values[j] = value_of (net, layer, j) + more;
    put_values (&net->data[layer].dl);
}

static size_t
count_wrong (const struct net *net, size_t layer, float more)
{
    size_t count = get_values (&net->data[layer].dl), wrong = 0;
    for (size_t j = 0; j < count; j++)
        wrong += values[j] != value_of (net, layer, j) + more;
    return wrong;
}

static struct accel *
open_job (void)
{
    struct accel *acc;
    MUST (accel_open (&acc, NULL, &err));
    if (accel_device (acc).device_type != kDLCUDA)
        must (ACCEL_ERR_SYSTEM, "there is no GPU");
    cudaSetDevice (accel_device (acc).device_id);
    return acc;
}

static void
create (struct net *net, struct accel *acc, size_t layers, int64_t each, const struct accel_sharding_options *sharding,
        const struct accel_ddp_options *ddp)
{
    static const char *const names[] = { "l0", "l1", "l2", "l3", "l4", "l5", "l6", "l7" };
    const struct accel_optimizer_options sgd = { .lr = 1, .momentum = 1e-30 };
    struct accel_parameter parameters[MOST];
    *net = (struct net){ .acc = acc, .layers = layers };
    for (size_t i = 0; i < layers; i++) {
        MUST (accel_tensor_init (&net->data[i], dtype, 1, &each, &err));
        MUST (accel_tensor_init (&net->grads[i], dtype, 1, &each, &err));
        parameters[i] = (struct accel_parameter){ names[i], &net->data[i].dl, &net->grads[i].dl };
    }
    MUST (accel_model_create (&net->model, parameters, layers, &err));
    struct accel_sharding_options chosen = *sharding;
    if (offloads && (chosen.strategy == ACCEL_SHARDING_FULL_SHARD || chosen.strategy == ACCEL_SHARDING_HYBRID_SHARD))
        chosen.offload_param_device = ACCEL_OFFLOAD_CPU;
    MUST (accel_model_set_sharding (net->model, &chosen, &err));
    MUST (accel_model_set_ddp (net->model, ddp, &err));
    MUST (accel_optimizer_create (&net->optimizer, net->model, ACCEL_SGD, &sgd, &err));
    for (size_t i = 0; i < layers; i++)
        put (net, i, accel_process_index (acc) ? 7 : 0);
}

static void
end (struct net *net)
{
    accel_optimizer_destroy (net->optimizer);
    accel_model_destroy (net->model);
}

static size_t
count_layer (struct net *net, size_t layer, float more)
{
    MUST (accel_layer_begin (net->model, &layer, 1, &err));
    size_t wrong = count_wrong (net, layer, more);
    MUST (accel_layer_end (net->model, &layer, 1, &err));
    return wrong;
}

static size_t
count_layers (struct net *net, float more)
{
    size_t wrong = 0;
    for (size_t i = 0; i < net->layers; i++)
        wrong += count_layer (net, i, more);
    return wrong;
}

/* Of each element; the mean of all ranks' is 1. */
static float
gradient_of (const struct net *net)
{
    return 1 + (float) accel_process_index (net->acc) - 0.5F * (float) (accel_num_processes (net->acc) - 1);
}

static enum accel_status
backward (void *user, float scale, struct accel_error *why)
{
    struct net *net = user;
    enum accel_status status = ACCEL_OK;
    (void) scale;
    net->addresses = 0;
    for (size_t i = net->layers; i-- > 0 && !status;) {
        const DLTensor *grad = &net->grads[i].dl;
        size_t count = accel_tensor_count (grad);
        if (!net->has_no_layers)
            status = accel_layer_begin (net->model, &i, 1, why);
        net->addresses += grad->data != NULL;
        if (net->adds && !status)
            get_values (grad);
        for (size_t j = 0; j < count; j++)
            values[j] = net->adds ? values[j] + gradient_of (net) : gradient_of (net);
        if (!status)
            put_values (grad);
        if (!status)
            status = accel_grad_ready (net->model, i, why);
        if (!status && !net->has_no_layers)
            status = accel_layer_end (net->model, &i, 1, why);
    }
    const size_t first = net->layers - 1;
    if (!status && net->begins_again)
        status = accel_layer_begin (net->model, &first, 1, why);
    if (!status && net->begins_again)
        status = accel_layer_end (net->model, &first, 1, why);
    return status;
}

static void
step (struct net *net)
{
    MUST (accel_backward (net->acc, net->model, 1, backward, net, &err));
    MUST (accel_optimizer_step (net->optimizer, &err));
    net->steps++;
}

static bool
has_address (const struct net *net, size_t layer)
{
    return net->data[layer].dl.data != NULL;
}

/* ---- what a program may do ---- */

static void
use_layers (struct net *net)
{
    const size_t pair[] = { 0, 1 }, zero = 0;
    bool alone = accel_num_processes (net->acc) == 1;
    ok (has_address (net, 0) == alone, "what no layer uses has no address");
    ok (!count_layers (net, 0), "layers have the parameters of rank 0");
    MUST (accel_layer_begin (net->model, pair, 1, &err));
    MUST (accel_layer_begin (net->model, pair, 2, &err));
    const void *address = net->data[0].dl.data;
    MUST (accel_layer_end (net->model, pair, 1, &err));
    ok (address && net->data[0].dl.data == address && !count_wrong (net, 0, 0) && !count_wrong (net, 1, 0),
        "a parameter in two layers is whole until the end of the second");
    step (net);
    ok (net->data[0].dl.data == address && !count_wrong (net, 0, 0) && has_address (net, 1),
        "a step changes a layer in use where it is");
    MUST (accel_layer_end (net->model, pair, 2, &err));
    ok (has_address (net, 0) == alone, "then it has no address");
    ok (alone || accel_layer_end (net->model, &zero, 1, &err) == ACCEL_ERR_INVALID, "it cannot end again");
    for (int i = 0; i < 3; i++)
        step (net);
    ok (!count_layers (net, 0), "layers after steps, in another order than there");
    step (net);
    ok (!count_layer (net, 3, 0) && !count_layer (net, 1, 0), "what was gathered ahead, and is not used");
    step (net);
    ok (!count_layers (net, 0), "what was gathered ahead before a step is gathered again");
}

static void
use_summons (struct net *net)
{
    MUST (accel_summon_full_params (net->model, &err));
    MUST (accel_summon_full_params (net->model, &err));
    size_t wrong = 0;
    for (size_t i = 0; i < net->layers; i++)
        wrong += count_wrong (net, i, 0);
    for (size_t i = 0; i < net->layers; i++)
        put (net, i, 0.5F);
    MUST (accel_summon_full_params_end (net->model, &err));
    ok (!wrong && !count_layers (net, 0.5F), "a summons has all, and what is written stays: %zu", wrong);
    for (size_t i = 0; i < net->layers; i++)
        put (net, i, 0.25F);
    MUST (accel_summon_full_params_end (net->model, &err));
    ok (!count_layers (net, 0.25F), "... also what is written in a summons around another one");
    MUST (accel_summon_full_params (net->model, &err));
    for (size_t i = 0; i < net->layers; i++)
        put (net, i, 0);
    step (net); /* within the summons */
    for (size_t i = 0; i < net->layers; i++)
        wrong += count_wrong (net, i, 0);
    MUST (accel_summon_full_params_end (net->model, &err));
    ok (!wrong && !count_layers (net, 0), "a step in a summons");
}

static void
pass (struct net *net)
{
    MUST (accel_backward (net->acc, net->model, 1, backward, net, &err));
}

/* Takes @passes from each element. */
static void
finish (struct net *net, int passes, const char *what)
{
    MUST (accel_optimizer_step (net->optimizer, &err));
    MUST (accel_optimizer_zero_grad (net->optimizer, &err));
    net->steps += passes;
    ok (!count_layers (net, 0), "%s, %s", what, accel_dtype_name (dtype));
}

static void
use_gradients (struct accel *acc, enum accel_dtype of, enum accel_sharding strategy)
{
    const struct accel_sharding_options sharding = { .strategy = strategy, .group_size = 2 };
    const struct accel_ddp_options ddp = { .bucket_cap_mb = 0.02 };
    bool alone = accel_num_processes (acc) == 1;
    struct net net;
    dtype = of;
    create (&net, acc, 5, EACH, &sharding, &ddp);
    net.adds = net.begins_again = true;
    MUST (accel_prepare (acc, &err, net.model, net.optimizer));
    pass (&net);
    net.begins_again = false;
    ok (net.addresses == 5 && !net.grads[0].dl.data == !alone && !net.grads[4].dl.data == !alone,
        "gradients have addresses in a pass, and none afterwards");
    finish (&net, 1, "a pass");
    pass (&net);
    pass (&net);
    finish (&net, 2, "a pass that adds to averages");
    MUST (accel_no_sync (acc, net.model, &err));
    pass (&net);
    MUST (accel_no_sync_end (acc, net.model, &err));
    enum accel_status status = alone ? ACCEL_ERR_UNSUPPORTED : accel_unwrap_model (acc, net.model, &err);
    ok (status == ACCEL_ERR_UNSUPPORTED && (alone || strstr (err.text, "that have not been averaged would be lost")),
        "sums would be lost");
    pass (&net);
    finish (&net, 2, "a pass that adds to sums");
    pass (&net);
    MUST (accel_no_sync (acc, net.model, &err));
    pass (&net);
    MUST (accel_no_sync_end (acc, net.model, &err));
    pass (&net);
    finish (&net, 3, "sums of averages and of what is not averaged");
    pass (&net);
    MUST (accel_unwrap_model (acc, net.model, &err));
    MUST (accel_prepare (acc, &err, net.model));
    ok (!net.grads[0].dl.data == !alone && !net.grads[4].dl.data == !alone, "... nor after another accel_prepare()");
    finish (&net, 1, "averages that have been in host memory");
    pass (&net);
    MUST (accel_optimizer_zero_grad (net.optimizer, &err));
    pass (&net);
    status = accel_save_state (acc, "early", &err);
    ok (alone || (status == ACCEL_ERR_UNSUPPORTED && strstr (err.text, "save after the step")), "a save: %s",
        status ? err.text : "");
    status = accel_average_gradients (acc, net.model, &err);
    ok (alone || (status == ACCEL_ERR_UNSUPPORTED && strstr (err.text, "in accel_backward only")), "averages: %s",
        status ? err.text : "");
    finish (&net, 1, "a pass whose gradients were forgotten, and another one");
    MUST (accel_save_state (acc, "late", &err));
    pass (&net);
    MUST (accel_load_state (acc, "late", &err));
    pass (&net);
    finish (&net, 1, "a pass that a load has made undone");
    end (&net);
    dtype = ACCEL_FLOAT32;
}

/* Two groups of two ranks: what one of them adds to averages counts as much as what the other one does. */
static void
use_groups (void)
{
    struct accel *acc = open_job ();
    use_gradients (acc, ACCEL_FLOAT32, ACCEL_SHARDING_HYBRID_SHARD);
    use_gradients (acc, ACCEL_BFLOAT16, ACCEL_SHARDING_HYBRID_SHARD_ZERO2);
    use_gradients (acc, ACCEL_FLOAT16, ACCEL_SHARDING_HYBRID_SHARD_ZERO2);
    accel_close (acc);
}

/* Layers in a forward pass, or in an evaluation, and none in the backward pass. */
static void
use_no_layers (struct accel *acc, enum accel_sharding strategy)
{
    const struct accel_sharding_options sharding = { .strategy = strategy, .group_size = 2 };
    const struct accel_ddp_options ddp = { .bucket_cap_mb = 0.02 };
    struct net net;
    create (&net, acc, 5, EACH, &sharding, &ddp);
    net.has_no_layers = true;
    MUST (accel_prepare (acc, &err, net.model, net.optimizer));
    (void) count_layers (&net, 0);
    if (strategy == ACCEL_SHARDING_FULL_SHARD)
        MUST (accel_summon_full_params (net.model, &err));
    pass (&net);
    if (strategy == ACCEL_SHARDING_FULL_SHARD)
        MUST (accel_summon_full_params_end (net.model, &err));
    ok (net.addresses == 5, "a pass without layers has all gradients");
    net.has_no_layers = false;
    finish (&net, 1, "a pass without layers");
    pass (&net);
    finish (&net, 1, "... and one with layers");
    end (&net);
}

/* Whether gradients are averaged between layers is for all ranks alike. */
static void
refuse_overlap (struct accel *acc)
{
    const struct accel_sharding_options sharding = { .strategy = ACCEL_SHARDING_FULL_SHARD };
    const struct accel_ddp_options ddp
        = { .overlap = accel_process_index (acc) ? ACCEL_OVERLAP_AUTO : ACCEL_OVERLAP_NEVER };
    struct net net;
    create (&net, acc, 2, EACH, &sharding, &ddp);
    enum accel_status status = accel_prepare (acc, &err, net.model, net.optimizer);
    ok (accel_num_processes (acc) == 1 || (status == ACCEL_ERR_INVALID && strstr (err.text, "differ from those")),
        "overlap on some ranks: %s", status ? err.text : "");
    end (&net);
}

static void
refuse_gradients (struct accel *acc)
{
    const struct accel_ddp_options hooks[]
        = { { .comm_hook = ACCEL_COMM_HOOK_BF16 }, { .find_unused_parameters = true }, { .bucket_cap_mb = 1 } };
    const struct accel_sharding_options sharding = { .strategy = ACCEL_SHARDING_SHARD_GRAD_OP };
    static const char *const why[] = { "in fewer bits", "find_unused_parameters", "memory of the program" };
    bool alone = accel_num_processes (acc) == 1;
    float *own = calloc (EACH, sizeof *own);
    for (size_t i = 0; i < 3; i++) {
        struct net net;
        create (&net, acc, 2, EACH, &sharding, &hooks[i]);
        net.grads[1].dl.data = i == 2 ? own : NULL;
        enum accel_status status = accel_prepare (acc, &err, net.model, net.optimizer);
        ok (alone || (status == ACCEL_ERR_UNSUPPORTED && strstr (err.text, why[i])), "divided gradients: %s",
            status ? err.text : "");
        end (&net);
    }
    /* In stage 3, they stay whole. */
    const struct accel_sharding_options layers = { .strategy = ACCEL_SHARDING_FULL_SHARD };
    struct net net;
    create (&net, acc, 2, EACH, &layers, &hooks[2]);
    net.grads[1].dl.data = own;
    net.adds = true;
    MUST (accel_prepare (acc, &err, net.model, net.optimizer));
    pass (&net);
    ok (has_address (&net, 0) == alone && net.grads[0].dl.data && net.grads[1].dl.data,
        "gradients of the program's own stay whole, and parameters do not");
    finish (&net, 1, "a pass with gradients of the program's own");
    end (&net);
    free (own);
}

/* accel_close() could not copy chunks back: they are on the GPU until the model ends. */
static void
leave (void)
{
    const struct accel_sharding_options sharding = { .strategy = ACCEL_SHARDING_FULL_SHARD };
    const struct accel_ddp_options ddp = { .bucket_cap_mb = 1 };
    struct accel *acc = open_job ();
    bool alone = accel_num_processes (acc) == 1;
    struct net net;
    create (&net, acc, 2, EACH, &sharding, &ddp);
    MUST (accel_prepare (acc, &err, net.model, net.optimizer));
    step (&net);
    setenv ("STANDIN_FAIL", "cudaMemcpyAsync:1:2", true);
    accel_close (acc);
    unsetenv ("STANDIN_FAIL");
    bool is_left = net.data[0].dl.device.device_type == kDLCUDA && has_address (&net, 0) == alone;
    acc = open_job ();
    enum accel_status status = accel_prepare (acc, &err, net.model);
    ok (is_left && (alone || status == ACCEL_ERR_UNSUPPORTED), "a model that was left on a GPU (%d): %s", is_left,
        status ? err.text : "");
    end (&net);
    ok (net.data[0].dl.device.device_type == kDLCPU, "the end of such a model");
    accel_close (acc);
}

/* Parameters lose what they had, and get it back. */
static void
spoil (struct net *net)
{
    MUST (accel_summon_full_params (net->model, &err));
    for (size_t i = 0; i < net->layers; i++)
        put (net, i, -3);
    MUST (accel_summon_full_params_end (net->model, &err));
}

static void
use_files (struct net *net)
{
    const size_t two = 2;
    int steps = net->steps;
    MUST (accel_save_model (net->acc, net->model, "saved", NULL, &err));
    MUST (accel_save_state (net->acc, "state", &err));
    ok (!count_layers (net, 0), "a save changes nothing");
    spoil (net);
    MUST (accel_load_model (net->acc, net->model, "saved", NULL, NULL, &err));
    ok (!count_layers (net, 0), "accel_load_model() of what accel_save_model() has written");
    step (net);
    MUST (accel_layer_begin (net->model, &two, 1, &err));
    MUST (accel_load_state (net->acc, "state", &err));
    net->steps = steps;
    ok (!count_wrong (net, 2, 0), "accel_load_state() fills what a layer uses");
    MUST (accel_layer_end (net->model, &two, 1, &err));
    ok (!count_layers (net, 0), "... and what none does");
}

/* Each rank saves its chunks: of what a summons has written, and while a layer is gathered ahead. */
static void
use_shares (struct net *net)
{
    struct accel_project_configuration project = { .state_dict_type = ACCEL_STATE_DICT_SHARDED };
    MUST (accel_set_project_configuration (net->acc, &project, &err));
    MUST (accel_summon_full_params (net->model, &err));
    for (size_t i = 0; i < net->layers; i++)
        put (net, i, 0.5F);
    MUST (accel_save_state (net->acc, "shares", &err));
    MUST (accel_summon_full_params_end (net->model, &err));
    spoil (net);
    MUST (accel_load_state (net->acc, "shares", &err));
    ok (!count_layers (net, 0.5F), "a sharded save has what a summons has written");
    MUST (accel_summon_full_params (net->model, &err));
    for (size_t i = 0; i < net->layers; i++)
        put (net, i, 0);
    MUST (accel_summon_full_params_end (net->model, &err));
    step (net);
    step (net);
    (void) count_layer (net, net->layers - 1, 0);
    MUST (accel_save_state (net->acc, "ahead", &err));
    ok (!count_layers (net, 0), "one while a layer is gathered ahead changes nothing");
    project.state_dict_type = ACCEL_STATE_DICT_FULL;
    MUST (accel_set_project_configuration (net->acc, &project, &err));
}

static void
use_homes (struct net *net)
{
    MUST (accel_unwrap_model (net->acc, net->model, &err));
    bool is_home = net->data[0].dl.device.device_type == kDLCPU;
    size_t wrong = 0;
    for (size_t i = 0; i < net->layers; i++)
        wrong += count_wrong (net, i, 0);
    ok (is_home && !wrong, "accel_unwrap_model() brings whole parameters back");
    MUST (accel_prepare (net->acc, &err, net->model));
    step (net);
    ok (!count_layers (net, 0), "they are divided again");
    MUST (accel_summon_full_params (net->model, &err));
    put (net, 1, 0.5F);
    MUST (accel_unwrap_model (net->acc, net->model, &err));
    ok (!count_wrong (net, 1, 0.5F) && !count_wrong (net, 0, 0), "... with what a summons has written");
    put (net, 1, 0);
    MUST (accel_prepare (net->acc, &err, net->model));
    accel_close (net->acc);
    ok (net->data[0].dl.device.device_type == kDLCPU, "accel_close() brings chunks back");
    net->acc = open_job ();
    MUST (accel_prepare (net->acc, &err, net->model));
    ok (!count_layers (net, 0), "of which accel_prepare() makes the parameters again");
    step (net);
    ok (!count_layers (net, 0), "and they learn");
}

static void
refuse (struct net *net)
{
    const size_t one = 1;
    cudaStream_t stream = accel_get_stream (accel_device (net->acc));
    bool alone = accel_num_processes (net->acc) == 1;
    standin_capture (stream, true);
    enum accel_status status = accel_layer_begin (net->model, &one, 1, &err);
    standin_capture (stream, false);
    ok (alone || (status && strstr (err.text, "captured into a CUDA graph") && !count_layers (net, 0)),
        "a layer in a capture: %s", alone ? "one rank has nothing to gather" : err.text);
}

static void
use_ties (struct accel *acc)
{
    const struct accel_sharding_options sharding = { .strategy = ACCEL_SHARDING_FULL_SHARD };
    const int64_t each = EACH;
    const size_t last = 2, first = 0;
    struct net net = { .acc = acc, .layers = 1 };
    struct accel_tensor grads[3];
    struct accel_parameter parameters[3] = { { "a", &net.data[0].dl, &grads[0].dl },
                                             { "b", &net.data[1].dl, &grads[1].dl },
                                             { "tied", &net.data[2].dl, &grads[2].dl } };
    bool alone = accel_num_processes (acc) == 1;
    for (int i = 0; i < 3; i++) {
        MUST (accel_tensor_init (&net.data[i], ACCEL_FLOAT32, 1, &each, &err));
        MUST (accel_tensor_init (&grads[i], ACCEL_FLOAT32, 1, &each, &err));
    }
    float *shared = calloc (EACH, sizeof *shared);
    net.data[0].dl.data = net.data[2].dl.data = shared;
    MUST (accel_model_create (&net.model, parameters, 3, &err));
    put (&net, 0, 0);
    MUST (accel_model_set_sharding (net.model, &sharding, &err));
    MUST (accel_prepare (acc, &err, net.model));
    MUST (accel_layer_begin (net.model, &last, 1, &err));
    ok (net.data[0].dl.data == net.data[2].dl.data && has_address (&net, 1) == alone && !count_wrong (&net, 0, 0),
        "tied parameters have one memory");
    MUST (accel_layer_end (net.model, &last, 1, &err));
    MUST (accel_save_model (acc, net.model, "tied", NULL, &err));
    ok (!count_layer (&net, first, 0), "... also after a save");
    accel_model_destroy (net.model);
    parameters[2].grad = NULL;
    net.data[0].dl.data = net.data[2].dl.data = shared;
    net.data[1].dl.data = NULL;
    MUST (accel_model_create (&net.model, parameters, 3, &err));
    MUST (accel_model_set_sharding (net.model, &sharding, &err));
    enum accel_status status = accel_prepare (acc, &err, net.model);
    ok (status == (alone ? ACCEL_OK : ACCEL_ERR_UNSUPPORTED) && (alone || net.data[0].dl.data == shared),
        "a tensor that is not trained, in the memory of a divided one: %s", status ? err.text : "");
    accel_model_destroy (net.model);
    free (shared);
}

static void
use (void)
{
    const struct accel_sharding_options sharding = { .strategy = ACCEL_SHARDING_FULL_SHARD };
    const struct accel_ddp_options ddp = { .overlap = ACCEL_OVERLAP_AUTO };
    struct net net;
    struct accel *acc = open_job ();
    create (&net, acc, 5, EACH, &sharding, &ddp);
    MUST (accel_prepare (acc, &err, net.model, net.optimizer));
    use_layers (&net);
    use_summons (&net);
    use_files (&net);
    use_shares (&net);
    refuse (&net);
    use_homes (&net);
    acc = net.acc;
    end (&net);
    use_ties (acc);
    use_gradients (acc, ACCEL_FLOAT32, ACCEL_SHARDING_FULL_SHARD);
    use_gradients (acc, ACCEL_BFLOAT16, ACCEL_SHARDING_FULL_SHARD);
    use_gradients (acc, ACCEL_FLOAT16, ACCEL_SHARDING_SHARD_GRAD_OP);
    use_no_layers (acc, ACCEL_SHARDING_FULL_SHARD);
    use_no_layers (acc, ACCEL_SHARDING_SHARD_GRAD_OP);
    refuse_overlap (acc);
    refuse_gradients (acc);
    accel_close (acc);
    leave ();
}

/* ---- time ---- */

#define MS INT64_C (1000000)

/* What each layer and each call of NCCL takes, and how far ahead layers are gathered. */
struct timing {
    size_t layers;
    int64_t layer_ns, collective_ns;
    uint64_t depth, most; /* ACCEL_NONE: no layer ahead; elements, 0: any number */
};

static const struct timing timings[] = {
    { 8, 20 * MS, 20 * MS, 1, 0 },          { 8, 20 * MS, 7 * MS, 1, 0 }, { 8, 7 * MS, 20 * MS, 1, 0 },
    { 8, 20 * MS, 20 * MS, ACCEL_NONE, 0 }, { 8, 7 * MS, 20 * MS, 3, 0 }, { 8, 20 * MS, 20 * MS, 1, 2 * 4096 },
    { 8, 20 * MS, 20 * MS, 3, 1 * 4096 },    { 1, 20 * MS, 20 * MS, 1, 0 },
};

/* Forwards, and then backwards. */
static size_t
layer_at (const struct timing *timing, size_t place)
{
    return place < timing->layers ? place : 2 * timing->layers - 1 - place;
}

static size_t
live (const bool *whole)
{
    size_t count = 0;
    for (size_t i = 0; i < MOST; i++)
        count += whole[i];
    return count;
}

/* When a pass is over.  Where layer k begins, at `program`, what it lacks is gathered, and then what is lacking of the
 * next `depth` layers, by one more call; calls of NCCL come one after the other:
 *     engine = max (engine, program) + collective
 * and the layer is computed from max (program, gathered (k)) on.  Behind a layer of the backward pass, its gradient is
 * averaged by one more call, which the end of the pass waits for.  What is offloaded is copied before it is gathered,
 * one after the other, while the program computes: each takes @copy_ns. */
static int64_t
expect (const struct timing *timing, int64_t copy_ns)
{
    int64_t engine = 0, program = 0, copied = 0, gathered[MOST] = { 0 };
    bool whole[MOST] = { false };
    size_t depth = timing->depth == ACCEL_NONE ? 0 : (size_t) timing->depth, places = 2 * timing->layers;
    for (size_t place = 0; place < places; place++) {
        size_t layer = layer_at (timing, place);
        bool keeps[MOST] = { [0] = false }, starts[MOST] = { [0] = false };
        keeps[layer] = true;
        copied = (copied > program ? copied : program) + (whole[layer] ? 0 : copy_ns);
        if (!whole[layer])
            gathered[layer] = engine = (engine > copied ? engine : copied) + timing->collective_ns;
        whole[layer] = true;
        int64_t before = engine;
        for (size_t next = place + 1; next <= place + depth && next < places; next++) {
            size_t ahead = layer_at (timing, next);
            if (timing->most && (live (whole) + !whole[ahead]) * 4096 > timing->most)
                break;
            starts[ahead] = !whole[ahead];
            copied += starts[ahead] ? copy_ns : 0;
            engine = starts[ahead] ? (before > copied ? before : copied) + timing->collective_ns : engine;
            whole[ahead] = keeps[ahead] = true;
        }
        for (size_t i = 0; i < MOST; i++) {
            gathered[i] = starts[i] ? engine : gathered[i];
            whole[i] = whole[i] && keeps[i];
        }
        program = (program > gathered[layer] ? program : gathered[layer]) + timing->layer_ns;
        if (place >= timing->layers)
            engine = (engine > program ? engine : program) + timing->collective_ns;
        whole[layer] = whole[layer] && place + 1 < places && depth && keeps[layer]
                       && layer_at (timing, place + 1) == layer; /* the end of the layer */
    }
    return engine > program ? engine : program;
}

static enum accel_status
compute (struct net *net, struct accel_error *why)
{
    size_t layer = layer_at (net->timing, net->next);
    enum accel_status status = accel_layer_begin (net->model, &layer, 1, why);
    if (!status)
        standin_spend (accel_get_stream (accel_device (net->acc)), net->timing->layer_ns);
    if (!status && net->next++ >= net->layers)
        status = accel_grad_ready (net->model, layer, why);
    return status ? status : accel_layer_end (net->model, &layer, 1, why);
}

static enum accel_status
compute_back (void *user, float scale, struct accel_error *why)
{
    struct net *net = user;
    enum accel_status status = ACCEL_OK;
    (void) scale;
    while (net->next < 2 * net->layers && !status)
        status = compute (net, why);
    return status;
}

static void
compare (struct accel *acc, const struct timing *timing)
{
    const struct accel_sharding_options sharding = { .strategy = ACCEL_SHARDING_FULL_SHARD, .min_num_params = 1,
                                                     .prefetch_layers = timing->depth,
                                                     .max_live_params = timing->most };
    const struct accel_ddp_options ddp = { .bucket_cap_mb = 4096.0 * sizeof (float) / (1 << 20) };
    int64_t took = 0, queued = 0, wanted = expect (timing, offloads ? 16384 / accel_num_processes (acc) : 0);
    char costs[80];
    struct net net;
    snprintf (costs, sizeof costs, "collective=%lld%s", (long long) timing->collective_ns, offloads ? " host=1" : "");
    setenv ("STANDIN_COSTS", costs, true);
    create (&net, acc, timing->layers, 4096, &sharding, &ddp);
    net.timing = timing;
    MUST (accel_prepare (acc, &err, net.model, net.optimizer));
    for (int i = 0; i < 4; i++) { /* in the first, NCCL connects, and no layer is known to be next */
        MUST (accel_wait_for_everyone (acc, &err));
        cudaDeviceSynchronize ();
        int64_t begin = standin_host_ns (0);
        for (net.next = 0; net.next < net.layers;)
            MUST (compute (&net, &err));
        MUST (accel_backward (acc, net.model, 0, compute_back, &net, &err));
        int64_t now_queued = standin_host_ns (0) - begin;
        cudaStreamSynchronize (accel_get_stream (accel_device (acc)));
        int64_t now_took = standin_host_ns (0) - begin;
        took = i < 2 || took == wanted ? now_took : took;
        queued += i ? now_queued : 0;
        MUST (accel_optimizer_step (net.optimizer, &err));
    }
    end (&net);
    ok (took == wanted && !queued,
        "%zu layers of %lld ms, calls of %lld ms, %lld ahead, at most %lld elements: %lld ns, expected %lld, of which "
        "the host waits for %lld", timing->layers, (long long) (timing->layer_ns / MS),
        (long long) (timing->collective_ns / MS), timing->depth == ACCEL_NONE ? 0LL : (long long) timing->depth,
        (long long) timing->most, (long long) took, (long long) wanted, (long long) queued);
}

static void
measure (void)
{
    struct accel *acc = open_job ();
    for (size_t i = 0; i < sizeof timings / sizeof *timings; i++)
        compare (acc, &timings[i]);
    accel_close (acc);
}

/* ---- memory ---- */

/* 8 layers of 400,000 bytes each, as many of gradients, and as many of states. */
static void
fit (const char *word)
{
    static const struct {
        const char *word;
        struct accel_sharding_options sharding;
    } words[] = { { "states", { .strategy = ACCEL_SHARDING_OPTIMIZER } },
                  { "gradients", { .strategy = ACCEL_SHARDING_SHARD_GRAD_OP } },
                  { "parameters", { .strategy = ACCEL_SHARDING_FULL_SHARD } },
                  { "lent", { ACCEL_SHARDING_FULL_SHARD, .offload_param_device = ACCEL_OFFLOAD_CPU } },
                  { "offloaded", { ACCEL_SHARDING_FULL_SHARD, .offload_optimizer_device = ACCEL_OFFLOAD_CPU,
                                   .offload_param_device = ACCEL_OFFLOAD_CPU } } };
    struct accel_sharding_options sharding = { .strategy = ACCEL_SHARDING_NONE };
    struct accel *acc = open_job ();
    struct net net;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        sharding = !strcmp (word, words[i].word) ? words[i].sharding : sharding;
    create (&net, acc, MOST, LARGE, &sharding, &(struct accel_ddp_options){ .bucket_cap_mb = 0.1 });
    enum accel_status status = accel_prepare (acc, &err, net.model, net.optimizer);
    for (int i = 0; i < 3 && !status; i++) {
        (void) count_layers (&net, 0); /* as a forward pass */
        step (&net);
    }
    if (!status && sharding.strategy == ACCEL_SHARDING_FULL_SHARD) {
        MUST (accel_save_model (acc, net.model, "saved", NULL, &err));
        MUST (accel_load_model (acc, net.model, "saved", NULL, NULL, &err));
    }
    ok (!status && !count_layers (&net, 0), "%s: %s", word, status ? err.text : "fits");
    if (!status)
        MUST (accel_unwrap_model (acc, net.model, &err));
    end (&net);
    accel_close (acc);
}

int
main (int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    offloads = argc > 2 && !strcmp (argv[2], "params");
    if (!strcmp (what, "times"))
        measure ();
    else if (!strcmp (what, "fits") && argc > 2)
        fit (argv[2]);
    else if (!strcmp (what, "groups"))
        use_groups ();
    else
        use ();
    return done_testing ();
}
