/* SPDX-License-Identifier: Apache-2.0 */
/* Models on GPUs whose states and masters are offloaded: what sharded.c, whose scenes they train in, has not.  Ranks as
 * the environment says.
 *
 *   offload files     states or parameters in a file: the bits of training without, also when the model has been on the
 *                     host between, or memory cannot be pinned
 *   offload pageable  parameters in host memory that cannot be pinned
 *   offload refused   what cannot be offloaded from a GPU
 *   offload parallel  a model without cuts in a job with tp_size 2: the bits of training without
 *   offload launched  what --use_deepspeed offloads
 *   offload fails WHAT FOLDER TEXT...  rank 1 cannot have what it needs, "stream" or the folder: all ranks have an
 *                     error with all of these texts */
#include <config.h>

#include "lib/train/optimizer/optimizer_object.h"
#include "lib/train/packed.h"
#include "lib/train/sharding_offload.h"
#include "lib/train/staging.h"
#include "tests/must.h"
#include "tests/standin/cuda/standin.h"
#include "tests/tap.h"

#include <accel/accel.h>
#include <accel/sharding.h>

#include <stdlib.h>
#include <string.h>

/* A share of the first has more than the 64 KiB from which on a file is used, and more than a piece.  Without a
 * strategy, it is so large that there are two threads, and each has more than a block of the file. */
enum { PARAMETERS = 2, STEPS = 2, LARGE = 2 * OFFLOAD_BLOCK + 9001, DIVIDED = 280001, SMALL = 77, PIECE = 70000 };

#define NONE ACCEL_OFFLOAD_NONE
#define NVME ACCEL_OFFLOAD_NVME

static const struct way {
    const char *name;
    enum accel_sharding strategy;
    enum accel_dtype dtype;
    enum accel_offload states, parameters;
} ways[] = {
    { "no strategy, float32", ACCEL_SHARDING_NONE, ACCEL_FLOAT32, NVME, NONE },
    { "no strategy, bfloat16", ACCEL_SHARDING_NONE, ACCEL_BFLOAT16, NVME, NONE },
    { "stage 1, float32", ACCEL_SHARDING_OPTIMIZER, ACCEL_FLOAT32, NVME, NONE },
    { "stage 1, bfloat16", ACCEL_SHARDING_OPTIMIZER, ACCEL_BFLOAT16, NVME, NONE },
    { "stage 2, bfloat16", ACCEL_SHARDING_SHARD_GRAD_OP, ACCEL_BFLOAT16, NVME, NONE },
    { "parameters, too, float32", ACCEL_SHARDING_FULL_SHARD, ACCEL_FLOAT32, NVME, NVME },
    { "parameters, too, bfloat16", ACCEL_SHARDING_FULL_SHARD, ACCEL_BFLOAT16, NVME, NVME },
    { "only parameters, float32", ACCEL_SHARDING_FULL_SHARD, ACCEL_FLOAT32, NONE, NVME },
    { "only parameters, bfloat16", ACCEL_SHARDING_FULL_SHARD, ACCEL_BFLOAT16, NONE, NVME },
    { "parameters in host memory", ACCEL_SHARDING_FULL_SHARD, ACCEL_BFLOAT16, NONE, ACCEL_OFFLOAD_CPU },
};
static const struct way *way = ways;
static int tp_size;
static char bytes[LARGE * sizeof (float)], others[LARGE * sizeof (float)];

struct net {
    struct accel *acc;
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    struct accel_tensor data[PARAMETERS], grads[PARAMETERS];
    int step;
};

static size_t
bytes_of (const DLTensor *tensor)
{
    return accel_tensor_count (tensor) * tensor->dtype.bits / 8;
}

static struct accel *
open_job (void)
{
    struct accel *acc;
    MUST (accel_open (&acc, &(struct accel_options){ .tp_size = tp_size }, &err));
    if (accel_device (acc).device_type != kDLCUDA)
        must (ACCEL_ERR_SYSTEM, "there is no GPU");
    return acc;
}

/* Values are those of bfloat16. */
static void
number (void *to, enum accel_dtype dtype, size_t count, size_t salt)
{
    static float values[LARGE];
    for (size_t i = 0; i < count; i++)
        values[i] = (float) ((i * 7 + salt * 13) % 31) / 8 - 2;
    MUST (accel_convert (values, ACCEL_FLOAT32, to, dtype, count, &err));
}

static void
create (struct net *net, struct accel *acc, const struct accel_sharding_options *sharding)
{
    const int64_t shapes[PARAMETERS] = { way->strategy == ACCEL_SHARDING_NONE ? LARGE : DIVIDED, SMALL };
    static const char *const names[PARAMETERS] = { "large", "small" };
    const struct accel_optimizer_options options = { .lr = 0.01, .weight_decay = 0.01, .threads = 2 };
    struct accel_parameter parameters[PARAMETERS];
    *net = (struct net){ .acc = acc };
    for (int i = 0; i < PARAMETERS; i++) {
        MUST (accel_tensor_init (&net->data[i], way->dtype, 1, &shapes[i], &err));
        MUST (accel_tensor_init (&net->grads[i], way->dtype, 1, &shapes[i], &err));
        parameters[i] = (struct accel_parameter){ names[i], &net->data[i].dl, &net->grads[i].dl };
    }
    MUST (accel_model_create (&net->model, parameters, PARAMETERS, &err));
    MUST (accel_model_set_sharding (net->model, sharding, &err));
    MUST (accel_optimizer_create (&net->optimizer, net->model, ACCEL_ADAMW, &options, &err));
    for (int i = 0; i < PARAMETERS; i++)
        number (net->data[i].dl.data, way->dtype, (size_t) shapes[i], 0);
}

static void
end (struct net *net)
{
    accel_optimizer_destroy (net->optimizer);
    accel_model_destroy (net->model);
}

static enum accel_status
backward (void *user, float scale, struct accel_error *error)
{
    static const size_t all[PARAMETERS] = { 0, 1 };
    struct net *net = user;
    (void) scale;
    enum accel_status status = accel_layer_begin (net->model, all, PARAMETERS, error);
    for (size_t i = PARAMETERS; i-- > 0 && !status;) {
        const DLTensor *grad = &net->grads[i].dl;
        number (bytes, way->dtype, accel_tensor_count (grad),
                (size_t) (net->step * 3 + accel_process_index (net->acc)) + i);
        memory_of (grad->device)->write (grad->device, grad->data, bytes, bytes_of (grad));
        status = accel_grad_ready (net->model, i, error);
    }
    return status ? status : accel_layer_end (net->model, all, PARAMETERS, error);
}

static void
train (struct net *net)
{
    MUST (accel_backward (net->acc, net->model, 1, backward, net, &err));
    MUST (accel_optimizer_step (net->optimizer, &err));
    MUST (accel_optimizer_zero_grad (net->optimizer, &err));
    net->step++;
}

static bool
is_same (const struct net *a, const struct net *b)
{
    bool same = true;
    MUST (accel_summon_full_params (b->model, &err));
    for (int i = 0; i < PARAMETERS; i++) {
        const DLTensor *mine = &a->data[i].dl, *theirs = &b->data[i].dl;
        MUST (memory_of (mine->device)->read (mine->device, bytes, mine->data, bytes_of (mine), &err));
        MUST (memory_of (theirs->device)->read (theirs->device, others, theirs->data, bytes_of (theirs), &err));
        same = same && !memcmp (bytes, others, bytes_of (mine));
    }
    MUST (accel_summon_full_params_end (b->model, &err));
    return same;
}

/* The program changes masters, where they are whole, and then parameters. */
static void
write_masters (struct net *net)
{
    DLTensor *master = accel_model_master (net->model, 0);
    if (!master || way->dtype == ACCEL_FLOAT32 || way->strategy != ACCEL_SHARDING_NONE)
        return;
    number (bytes, ACCEL_FLOAT32, LARGE, (size_t) net->step);
    memory_of (master->device)->write (master->device, master->data, bytes, LARGE * sizeof (float));
    accel_model_narrow (net->model);
}

/* As the way says: one process alone has all parameters on the GPU. */
static bool
is_offloaded (const struct net *net, bool is_pinned)
{
    const struct model_sharding *sharding = &net->model->sharding;
    bool divides = way->parameters != NONE && accel_num_processes (net->acc) > 1;
    bool good = !net->optimizer->state_file == (way->states == NONE)
                && !sharding->parameters_file == !(divides && way->parameters == NVME);
    if (sharding->staging)
        return good && sharding->staging->is_pinned == is_pinned;
    return good && sharding->params_at_home == divides
           && (!divides || sharding->packed->is_pinned == (is_pinned && way->parameters != NVME));
}

static void
compare (bool moves, bool is_pinned)
{
    const struct accel_sharding_options plain = { .strategy = ACCEL_SHARDING_NONE,
                                                  .offload_optimizer_device = ACCEL_OFFLOAD_NONE };
    const struct accel_sharding_options offloaded = { .strategy = way->strategy,
                                                      .offload_optimizer_device = way->states,
                                                      .offload_param_device = way->parameters,
                                                      .offload_optimizer_nvme_path = ".",
                                                      .offload_param_nvme_path = "." };
    struct net a, b;
    struct accel *acc = open_job ();
    create (&a, acc, &plain);
    create (&b, acc, &offloaded);
    MUST (accel_prepare (acc, &err, a.model, a.optimizer));
    if (!is_pinned)
        setenv ("STANDIN_FAIL", "cudaHostAlloc:1:2", true);
    MUST (accel_prepare (acc, &err, b.model, b.optimizer));
    unsetenv ("STANDIN_FAIL");
    bool has_file = is_offloaded (&b, is_pinned);
    for (int i = 0; i < STEPS; i++) {
        train (&a);
        train (&b);
        if (!moves)
            continue;
        MUST (accel_unwrap_model (acc, a.model, &err));
        MUST (accel_unwrap_model (acc, b.model, &err));
        MUST (accel_prepare (acc, &err, a.model, a.optimizer, b.model, b.optimizer));
        accel_model_widen (a.model); /* those of a sharded one begin anew */
        accel_model_widen (b.model);
        if (b.model->sharding.staging)
            b.model->sharding.staging->elements = PIECE;
        write_masters (&a);
        write_masters (&b);
    }
    bool has_masters = !b.model->sharding.masters_file == (way->dtype == ACCEL_FLOAT32 || way->states == NONE);
    ok (has_file && has_masters && is_same (&a, &b), "states in a file%s: %s",
        moves        ? ", to the host and back"
        : !is_pinned ? ", through memory that is not pinned"
                     : "",
        way->name);
    end (&a);
    end (&b);
    accel_close (acc);
}

/* What tensor parallelism does not cut is broadcast: masters, which are on the host. */
static void
share (void)
{
    const struct accel_sharding_options plain = { .strategy = ACCEL_SHARDING_NONE,
                                                  .offload_optimizer_device = ACCEL_OFFLOAD_NONE };
    const struct accel_sharding_options cpu = { .strategy = ACCEL_SHARDING_NONE,
                                                .offload_optimizer_device = ACCEL_OFFLOAD_CPU };
    struct net a, b;
    way = &ways[1];
    tp_size = 2;
    struct accel *acc = open_job ();
    create (&a, acc, &plain);
    create (&b, acc, &cpu);
    MUST (accel_prepare (acc, &err, a.model, a.optimizer, b.model, b.optimizer));
    for (int i = 0; i < STEPS; i++) {
        train (&a);
        train (&b);
    }
    const DLTensor *master = accel_model_master (b.model, 0);
    ok (master && master->device.device_type == kDLCPU && is_same (&a, &b), "tensor parallelism without cuts");
    end (&a);
    end (&b);
    accel_close (acc);
}

/* ---- what is refused ---- */

static enum accel_status
step_alone (void *user, const struct accel_update *update, struct accel_error *why)
{
    (void) user, (void) update, (void) why;
    return ACCEL_OK;
}

static void
expect (struct net *net, const char *text)
{
    enum accel_status status = accel_prepare (net->acc, &err, net->model, net->optimizer);
    bool good = status == ACCEL_ERR_UNSUPPORTED && strstr (err.text, text);
    ok (good && net->data[0].dl.device.device_type == kDLCPU, "%s", status ? err.text : "prepared");
    end (net);
}

/* A model of one tensor that is trained twice. */
static void
refuse_tied (struct accel *acc, const struct accel_sharding_options *sharding)
{
    const int64_t count = SMALL;
    struct net net = { .acc = acc };
    MUST (accel_tensor_init (&net.data[0], ACCEL_FLOAT32, 1, &count, &err));
    for (int i = 0; i < 2; i++)
        MUST (accel_tensor_init (&net.grads[i], ACCEL_FLOAT32, 1, &count, &err));
    const struct accel_parameter parameters[] = { { "a", &net.data[0].dl, &net.grads[0].dl },
                                                  { "b", &net.data[0].dl, &net.grads[1].dl } };
    MUST (accel_model_create (&net.model, parameters, 2, &err));
    MUST (accel_model_set_sharding (net.model, sharding, &err));
    MUST (accel_optimizer_create (&net.optimizer, net.model, ACCEL_SGD, &(struct accel_optimizer_options){ .lr = 1 },
                                  &err));
    expect (&net, "trains the same memory twice");
}

/* One that comes late, and a step that is to be part of a CUDA graph. */
static void
refuse_steps (struct accel *acc, const struct accel_sharding_options *sharding)
{
    const struct accel_custom_optimizer custom = { .lr = 1, .step = step_alone };
    const struct accel_optimizer_options capturable = { .lr = 1, .capturable = ACCEL_YES };
    struct net net;
    create (&net, acc, sharding);
    MUST (accel_prepare (acc, &err, net.model, net.optimizer));
    accel_optimizer_destroy (net.optimizer);
    MUST (accel_optimizer_create_custom (&net.optimizer, net.model, &custom, &err));
    enum accel_status status = accel_optimizer_step (net.optimizer, &err);
    ok (status == ACCEL_ERR_UNSUPPORTED && strstr (err.text, "a custom optimizer cannot"), "%s", err.text);
    accel_optimizer_destroy (net.optimizer);
    MUST (accel_optimizer_create (&net.optimizer, net.model, ACCEL_SGD, &capturable, &err));
    MUST (accel_prepare (acc, &err, net.optimizer));
    cudaStream_t stream = accel_get_stream (accel_device (acc));
    cudaSetDevice (accel_device (acc).device_id);
    standin_capture (stream, true);
    status = accel_optimizer_step (net.optimizer, &err);
    standin_capture (stream, false);
    ok (status == ACCEL_ERR_UNSUPPORTED && strstr (err.text, "no CUDA graph can"), "%s", err.text);
    end (&net);
}

/* Divided parameters, which have no addresses then, are no tied ones: two threads may change them. */
static void
optimize_late (struct accel *acc)
{
    static const char *const names[PARAMETERS] = { "one", "other" };
    const struct accel_sharding_options divided = { .strategy = ACCEL_SHARDING_FULL_SHARD,
                                                    .offload_optimizer_device = ACCEL_OFFLOAD_CPU };
    const struct accel_optimizer_options options = { .lr = 1, .threads = 2 };
    const int64_t count = PIECE;
    struct accel_parameter parameters[PARAMETERS];
    struct net net = { .acc = acc };
    for (int i = 0; i < PARAMETERS; i++) {
        MUST (accel_tensor_init (&net.data[i], ACCEL_FLOAT32, 1, &count, &err));
        MUST (accel_tensor_init (&net.grads[i], ACCEL_FLOAT32, 1, &count, &err));
        parameters[i] = (struct accel_parameter){ names[i], &net.data[i].dl, &net.grads[i].dl };
    }
    MUST (accel_model_create (&net.model, parameters, PARAMETERS, &err));
    MUST (accel_model_set_sharding (net.model, &divided, &err));
    MUST (accel_prepare (acc, &err, net.model));
    MUST (accel_optimizer_create (&net.optimizer, net.model, ACCEL_SGD, &options, &err));
    ok (!net.data[0].dl.data && !net.data[1].dl.data && net.optimizer->threads == 2,
        "two threads for an optimizer of parameters that have no addresses");
    end (&net);
}

static void
refuse (void)
{
    const struct accel_sharding_options cpu = { .strategy = ACCEL_SHARDING_NONE,
                                                .offload_optimizer_device = ACCEL_OFFLOAD_CPU };
    const struct accel_sharding_options parameters = { .strategy = ACCEL_SHARDING_OPTIMIZER,
                                                       .offload_param_device = ACCEL_OFFLOAD_CPU };
    const struct accel_custom_optimizer custom = { .lr = 1, .step = step_alone };
    static const struct way eight = { "8 bits", ACCEL_SHARDING_NONE, ACCEL_FLOAT8_E4M3FN };
    struct accel *acc = open_job ();
    struct net net;
    create (&net, acc, &parameters);
    expect (&net, "only divided parameters of a model on a GPU can be offloaded");
    create (&net, acc, &cpu);
    accel_optimizer_destroy (net.optimizer);
    MUST (accel_optimizer_create_custom (&net.optimizer, net.model, &custom, &err));
    expect (&net, "with a custom optimizer");
    refuse_tied (acc, &cpu);
    refuse_steps (acc, &cpu);
    optimize_late (acc);
    way = &eight;
    struct accel_tensor data, grad;
    const int64_t count = SMALL;
    MUST (accel_tensor_init (&data, ACCEL_FLOAT8_E4M3FN, 1, &count, &err));
    MUST (accel_tensor_init (&grad, ACCEL_FLOAT32, 1, &count, &err));
    net = (struct net){ .acc = acc, .data = { data }, .grads = { grad } };
    const struct accel_parameter parameter = { "w", &net.data[0].dl, &net.grads[0].dl };
    MUST (accel_model_create (&net.model, &parameter, 1, &err));
    MUST (accel_model_set_sharding (net.model, &cpu, &err));
    MUST (accel_optimizer_create (&net.optimizer, net.model, ACCEL_SGD, &(struct accel_optimizer_options){ .lr = 1 },
                                  &err));
    expect (&net, "8-bit parameters on a GPU");
    accel_close (acc);
}

static void
launch (void)
{
    const struct accel_sharding_options by_launcher = { .min_num_params = 0 };
    struct accel *acc = open_job ();
    struct net net;
    create (&net, acc, &by_launcher);
    MUST (accel_prepare (acc, &err, net.model, net.optimizer));
    train (&net);
    const DLTensor *state = accel_optimizer_state_tensor (net.optimizer, 0, "exp_avg");
    ok (state && state->device.device_type == kDLCPU, "--offload_optimizer_device cpu has an effect");
    end (&net);
    accel_close (acc);
}

/* ---- what fails ---- */

static void
fail (const char *what, const char *folder, char **texts, int count)
{
    struct accel *acc = open_job ();
    bool fails = accel_process_index (acc) == 1;
    const struct accel_sharding_options sharding = { .strategy = ACCEL_SHARDING_OPTIMIZER,
                                                     .offload_optimizer_device = ACCEL_OFFLOAD_NVME,
                                                     .offload_optimizer_nvme_path = fails ? folder : "." };
    struct net net;
    create (&net, acc, &sharding);
    if (fails && !strcmp (what, "stream"))
        setenv ("STANDIN_FAIL", "cudaStreamCreateWithFlags:1:2", true);
    enum accel_status status = accel_prepare (acc, &err, net.model, net.optimizer);
    unsetenv ("STANDIN_FAIL");
    bool good = status == ACCEL_ERR_SYSTEM && net.data[0].dl.device.device_type == kDLCPU;
    for (int i = 0; i < count; i++)
        good = good && strstr (err.text, texts[i]);
    ok (good, "%s", status ? err.text : "prepared");
    end (&net);
    accel_close (acc);
}

int
main (int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp (what, "refused"))
        refuse ();
    else if (!strcmp (what, "parallel"))
        share ();
    else if (!strcmp (what, "pageable")) {
        way = &ways[sizeof ways / sizeof *ways - 1];
        compare (false, false);
    } else if (!strcmp (what, "launched"))
        launch ();
    else if (!strcmp (what, "fails") && argc > 3)
        fail (argv[2], argv[3], argv + 4, argc - 4);
    else
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            way = &ways[i];
            compare (false, true);
            compare (true, true);
            if (!i) /* the first call of a process, on any GPU, can fail */
                compare (false, false);
        }
    return done_testing ();
}
