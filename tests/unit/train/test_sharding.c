/* SPDX-License-Identifier: Apache-2.0 */
/* Sharding: the bits of training without it, checkpoints that are the same files, and memory for a share of the states.
 */
#include <config.h>

#include "lib/train/sharding.h"
#include "tests/ranks.h"
#include "tests/scratch.h"
#include "tests/unit/train/resident.h"

#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { PARAMETERS = 3, STEPS = 4 };

/* Too small for chunks; chunks and a rest; a matrix whose chunks are many pages. */
static const int64_t shapes[PARAMETERS][2] = { { 7, 1 }, { 3, 5003 }, { 512, 300 } };

struct way {
    const char *name;
    enum accel_dtype dtype;
    enum accel_optimizer_kind kind;
    const char *precision;
    bool in_background; /* the save */
    unsigned threads;
    bool shares; /* the parameters */
    enum accel_sharding strategy; /* 0: ACCEL_SHARDING_OPTIMIZER */
};

static const struct way *way;
static enum accel_sharding strategy; /* of the present job */
static uint64_t least; /* elements of a parameter that is divided */
static const char *from, *to; /* folders; NULL: nothing is loaded */
static struct accel_error err;

struct net {
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    DLTensor data[PARAMETERS], grad[PARAMETERS];
    int64_t shape[PARAMETERS][2];
    struct accel *acc;
    int step;
    bool is_layered;
};

static void
make (struct net *net, struct accel *acc)
{
    static const char *const names[] = { "bias", "odd", "matrix" };
    struct accel_parameter parameters[PARAMETERS];
    const struct accel_sharding_options sharding = { .strategy = strategy, .min_num_params = least,
                                                     .share_parameters = way->shares,
                                                     .group_size = 2 };
    const struct accel_optimizer_options options = {
        .lr = 0.05, .weight_decay = 0.01, .threads = way->threads,
        .momentum = way->kind == ACCEL_SGD ? 0.9 : 0,
        .initial_accumulator_value = way->kind == ACCEL_ADAGRAD ? 0.5 : 0,
        .groups = (struct accel_param_group[]){ { .min_ndim = 2, .lr = 0.02 } }, .group_count = 1,
    };
    *net = (struct net){ .acc = acc };
    memcpy (net->shape, shapes, sizeof shapes);
    for (int i = 0; i < PARAMETERS; i++) {
        net->data[i] = (DLTensor){ .device = { kDLCPU, 0 }, .ndim = i ? 2 : 1, .shape = net->shape[i],
                                   .dtype = accel_dtype_to_dl (way->dtype) };
        net->grad[i] = net->data[i];
        parameters[i] = (struct accel_parameter){ names[i], &net->data[i], &net->grad[i] };
    }
    rank_must (accel_model_create (&net->model, parameters, PARAMETERS, &err), &err);
    rank_must (accel_model_set_sharding (net->model, &sharding, &err), &err);
    rank_must (accel_optimizer_create (&net->optimizer, net->model, way->kind, &options, &err), &err);
    size_t has = resident (net->optimizer->state_memory, net->optimizer->state_bytes);
    right (strategy <= ACCEL_SHARDING_NONE || way->kind == ACCEL_ADAGRAD || !has,
           "before accel_prepare, states have %zu bytes", has);
    rank_must (accel_prepare (acc, &err, net->optimizer, net->model), &err);
}

static void
end (struct net *net)
{
    accel_optimizer_destroy (net->optimizer);
    accel_model_destroy (net->model);
}

static void
put (const DLTensor *tensor, size_t i, float value)
{
    uint16_t bits;
    memcpy (&bits, (char *) &value + 2, sizeof bits); /* little-endian bfloat16 */
    if (way->dtype == ACCEL_FLOAT32)
        ((float *) tensor->data)[i] = value;
    else
        ((uint16_t *) tensor->data)[i] = bits;
}

/* Gradients differ between ranks, elements and steps. */
static enum accel_status
backward (void *user, float scale, struct accel_error *error)
{
    static const size_t all[PARAMETERS] = { 0, 1, 2 };
    struct net *net = user;
    int rank = accel_process_index (net->acc);
    enum accel_status status = accel_layer_begin (net->model, all, PARAMETERS, error);
    if (status)
        return status;
    net->is_layered = true;
    for (int i = 0; i < PARAMETERS; i++)
        for (size_t j = 0; j < accel_tensor_count (&net->grad[i]); j++)
            put (&net->grad[i], j, scale * ((float) ((j * 7 + (size_t) (rank + net->step * 3)) % 32) / 16 - 1));
    return accel_layer_end (net->model, all, PARAMETERS, error);
}

static void
train (struct net *net, int steps)
{
    for (int i = 0; i < steps; i++) {
        rank_must (accel_backward (net->acc, net->model, 1, backward, net, &err), &err);
        rank_must (accel_optimizer_step (net->optimizer, &err), &err);
        rank_must (accel_optimizer_zero_grad (net->optimizer, &err), &err);
        net->step++;
    }
}

static void
save (struct net *net, const char *folder)
{
    char path[512];
    snprintf (path, sizeof path, "%s/%s", scratch_folder (), folder);
    if (!way->in_background) {
        rank_must (accel_save_state (net->acc, path, &err), &err);
        return;
    }
    rank_must (accel_save_state_start (net->acc, path, &err), &err);
    rank_must (accel_save_state_wait (net->acc, &err), &err);
}

/* Of each parameter one chunk, the rest, and at most two pages more at each end. */
static void
check_memory (const struct net *net, const char *when)
{
    const struct accel_optimizer *optimizer = net->optimizer;
    size_t most = 0, size = (size_t) net->model->sharding.size;
    for (int i = 0; i < PARAMETERS; i++) {
        size_t chunk = sharding_chunk (net->model, (size_t) i), count = accel_tensor_count (&net->data[i]);
        right ((chunk > 0) == (i > 0) && chunk * size <= count, "parameter %d has chunks of %zu", i, chunk);
        most += optimizer->state_count * ((count - chunk * (size - 1)) * sizeof (float) + 4 * PAGE);
    }
    size_t has = resident (optimizer->state_memory, optimizer->state_bytes);
    right (has <= most, "%s, %zu of %zu bytes of states have pages; expected at most %zu", when, has,
           optimizer->state_bytes, most);
    for (int i = 1; i < PARAMETERS && net->is_layered && net->model->sharding.layers; i++) {
        size_t chunk = sharding_chunk (net->model, (size_t) i), count = accel_tensor_count (&net->data[i]);
        size_t each = accel_dtype_bytes (way->dtype);
        most = (count - chunk * (size - 1)) * each + 6 * PAGE;
        has = resident (net->data[i].data, count * each);
        right (has <= most, "%s, %zu bytes of parameter %d have pages; expected at most %zu", when, has, i, most);
    }
    for (int i = 1; i < PARAMETERS && way->dtype != ACCEL_FLOAT32; i++) {
        size_t chunk = sharding_chunk (net->model, (size_t) i), count = accel_tensor_count (&net->data[i]);
        most = (count - chunk * (size - 1)) * sizeof (float) + 4 * PAGE;
        has = resident (net->model->trained[i].data->data, count * sizeof (float));
        right (has <= most, "%s, %zu bytes of a master have pages; expected at most %zu", when, has, most);
        right (!accel_model_master (net->model, (size_t) i), "the program gets a master with holes");
    }
}

/* Whether @memory is in a file that processes share. */
static bool
is_shared (const void *memory)
{
    char line[512];
    bool found = false;
    FILE *maps = fopen ("/proc/self/maps", "r");
    while (maps && fgets (line, sizeof line, maps)) {
        char *rest;
        uintptr_t begin = strtoul (line, &rest, 16), end = strtoul (rest + 1, NULL, 16);
        if ((uintptr_t) memory >= begin && (uintptr_t) memory < end)
            found = strstr (line, "memfd:accel-parameters");
    }
    if (maps)
        fclose (maps);
    return found;
}

/* The program's memory has the values again, whatever the other processes do then. */
static void
check_return (struct net *net)
{
    size_t bytes = accel_tensor_count (&net->data[2]) * accel_dtype_bytes (way->dtype);
    char *before = malloc (bytes + 1);
    memcpy (before, net->data[2].data, bytes);
    rank_must (accel_comm_barrier (accel_world (net->acc), &err), &err);
    rank_must (accel_unwrap_model (net->acc, net->model, &err), &err);
    right (!is_shared (net->data[2].data), "it is still shared");
    right (!memcmp (net->data[2].data, before, bytes), "the program's memory has other values");
    free (before);
}

static void
run (struct accel *acc)
{
    struct net net;
    char path[512];
    make (&net, acc);
    bool is_on = strategy > ACCEL_SHARDING_NONE && accel_num_processes (acc) > 1;
    right (accel_model_sharding (net.model) == (is_on ? strategy : ACCEL_SHARDING_NONE), "how");
    if (is_on)
        check_memory (&net, "after accel_prepare");
    if (from) {
        snprintf (path, sizeof path, "%s/%s", scratch_folder (), from);
        rank_must (accel_load_state (acc, path, &err), &err);
    } else
        train (&net, STEPS);
    if (is_on)
        check_memory (&net, from ? "after a load" : "after steps");
    save (&net, to);
    if (is_on)
        check_memory (&net, "after a save");
    right (accel_world (acc) && (!is_on || is_shared (net.data[2].data) == way->shares), "in which memory");
    if (way->shares)
        check_return (&net);
    rank_must (accel_summon_full_params (net.model, &err), &err);
    for (int i = 0; i < PARAMETERS; i++) { /* checkpoints have those of rank 0 */
        size_t bytes = accel_tensor_count (&net.data[i]) * accel_dtype_bytes (way->dtype);
        char *others = malloc (bytes + 1);
        memcpy (others, net.data[i].data, bytes);
        rank_must (accel_comm_broadcast (accel_world (acc), others, bytes, ACCEL_UINT8, 0, &err), &err);
        right (!memcmp (others, net.data[i].data, bytes), "parameter %d is not that of rank 0", i);
        free (others);
    }
    end (&net);
}

static void
job (int ranks, const char *what, enum accel_sharding its, const char *load, const char *folder)
{
    char name[200];
    strategy = its;
    from = load;
    to = folder;
    snprintf (name, sizeof name, "%s: %s", way->name, what);
    as_ranks (ranks, name, run);
}

/* @return whether the two folders have the same file @name */
static bool
is_same (const char *a, const char *b, const char *name)
{
    char path[2][600];
    for (int i = 0; i < 2; i++)
        snprintf (path[i], sizeof path[i], "%s/%s/%s", scratch_folder (), i ? b : a, name);
    return scratch_same (path[0], path[1]) > 100;
}

static void
compare (const char *a, const char *b)
{
    ok (is_same (a, b, "optimizer.safetensors"), "%s: states and masters in %s and %s", way->name, a, b);
    ok (is_same (a, b, "model.safetensors"), "%s: parameters in %s and %s", way->name, a, b);
}

static void
test_bits (const struct way *its, int ranks, int others)
{
    way = its;
    enum accel_sharding its_strategy = way->strategy ? way->strategy : ACCEL_SHARDING_OPTIMIZER;
    setenv (ENV_MIXED_PRECISION, way->precision, 1);
    job (ranks, "without sharding", ACCEL_SHARDING_NONE, NULL, "plain");
    job (ranks, "sharded", its_strategy, NULL, "sharded");
    compare ("plain", "sharded");
    job (ranks, "sharded, loads a checkpoint", its_strategy, "plain", "again");
    compare ("plain", "again");
    job (others, "sharded among others", its_strategy, "sharded", "others");
    compare ("sharded", "others");
    job (1, "one process", its_strategy, "sharded", "one");
    compare ("sharded", "one");
    setenv (ENV_MIXED_PRECISION, "no", 1);
}

/* Groups add up gradients in another order: what they save is compared when another job has loaded it. */
static void
test_hybrid (const struct way *its)
{
    way = its;
    job (4, "hybrid", way->strategy, NULL, "hybrid");
    job (2, "without sharding, loads it", ACCEL_SHARDING_NONE, "hybrid", "whole");
    compare ("hybrid", "whole");
    job (4, "hybrid, loads that", way->strategy, "whole", "again");
    compare ("whole", "again");
}

static bool in_shares; /* the save */

/* A save between the average of gradients and the step that they are for. */
static void
save_averages (struct accel *acc)
{
    const struct accel_project_configuration sharded = { .state_dict_type = ACCEL_STATE_DICT_SHARDED };
    struct net net;
    make (&net, acc);
    train (&net, STEPS);
    rank_must (accel_backward (acc, net.model, 1, backward, &net, &err), &err);
    if (in_shares)
        rank_must (accel_set_project_configuration (acc, &sharded, &err), &err);
    save (&net, "averages");
    rank_must (accel_set_project_configuration (acc, &(struct accel_project_configuration){ 0 }, &err), &err);
    rank_must (accel_optimizer_step (net.optimizer, &err), &err);
    save (&net, "stepped");
    end (&net);
}

static void
load_averages (struct accel *acc)
{
    struct net net;
    char path[512];
    make (&net, acc);
    snprintf (path, sizeof path, "%s/averages", scratch_folder ());
    rank_must (accel_load_state (acc, path, &err), &err);
    rank_must (accel_optimizer_step (net.optimizer, &err), &err);
    save (&net, "loaded");
    end (&net);
}

static void
test_averages (const struct way *its)
{
    static const enum accel_sharding strategies[] = { ACCEL_SHARDING_NONE, ACCEL_SHARDING_SHARD_GRAD_OP,
                                                      ACCEL_SHARDING_FULL_SHARD, ACCEL_SHARDING_NONE };
    way = its;
    for (int i = 0; i < 4; i++) {
        in_shares = i % 2;
        strategy = way->strategy;
        as_ranks (4, "averages are saved", save_averages);
        strategy = strategies[i];
        as_ranks (i == 1 ? 4 : 2, "averages are loaded", load_averages);
        compare ("stepped", "loaded");
    }
}

/* The job's processes have parameters of their own, which the first gives to all. */
static void
keep_layers (struct accel *acc)
{
    static const size_t all[PARAMETERS] = { 0, 1, 2 }, wrong[] = { PARAMETERS };
    struct net net;
    char path[512];
    make (&net, acc);
    train (&net, STEPS);
    snprintf (path, sizeof path, "%s/weights", scratch_folder ());
    rank_must (accel_save_model (acc, net.model, path, NULL, &err), &err);
    check_memory (&net, "after accel_save_model");
    rank_must (accel_load_model (acc, net.model, path, NULL, NULL, &err), &err);
    check_memory (&net, "after accel_load_model");
    rank_fails (accel_layer_end (net.model, all, 2, &err), ACCEL_ERR_INVALID, &err, "'odd' is in no layer");
    rank_fails (accel_layer_begin (net.model, wrong, 1, &err), ACCEL_ERR_INVALID, &err, "no parameter 3");
    rank_fails (accel_layer_begin (NULL, all, 1, &err), ACCEL_ERR_INVALID, &err, "model is NULL");
    rank_fails (accel_layer_begin (net.model, NULL, 1, &err), ACCEL_ERR_INVALID, &err, "parameters is NULL");
    rank_fails (accel_summon_full_params_end (net.model, &err), ACCEL_ERR_INVALID, &err, "has not been called");
    rank_must (accel_summon_full_params (net.model, &err), &err);
    size_t bytes = accel_tensor_count (&net.data[2]) * accel_dtype_bytes (way->dtype);
    char *before = malloc (bytes + 1);
    memcpy (before, net.data[2].data, bytes);
    rank_must (accel_summon_full_params_end (net.model, &err), &err);
    rank_must (accel_unwrap_model (acc, net.model, &err), &err);
    right (!memcmp (before, net.data[2].data, bytes), "it is not whole after accel_unwrap_model");
    rank_must (accel_prepare (acc, &err, net.model), &err);
    right (!memcmp (before, net.data[2].data, bytes), "prepared again, it has other values");
    rank_must (accel_layer_begin (net.model, all, PARAMETERS, &err), &err);
    rank_must (accel_layer_end (net.model, all, PARAMETERS, &err), &err);
    rank_must (accel_unwrap_model (acc, net.model, &err), &err);
    memset (before, 1, bytes);
    memset (net.data[2].data, accel_process_index (acc) ? 2 : 1, bytes); /* all start from what rank 0 writes */
    rank_must (accel_prepare (acc, &err, net.model), &err);
    right (!memcmp (before, net.data[2].data, bytes), "prepared again, it is not what rank 0 has written");
    rank_must (accel_layer_begin (net.model, all, PARAMETERS, &err), &err);
    train (&net, 1); /* which changes parameters while they are used */
    memcpy (before, net.data[2].data, bytes);
    rank_must (accel_comm_broadcast (accel_world (acc), before, bytes, ACCEL_UINT8, 0, &err), &err);
    right (!memcmp (before, net.data[2].data, bytes), "it is not that of rank 0");
    rank_must (accel_layer_end (net.model, all, PARAMETERS, &err), &err);
    check_memory (&net, "after layers");
    free (before);
    end (&net);
}

/* A buffer and another parameter are the same memory as a parameter that is used. */
static void
keep_tied (struct accel *acc)
{
    enum { ROWS = 100000 };
    static float values[ROWS + 1024], gradient[2][ROWS];
    static int64_t shape[] = { ROWS };
    static const size_t first[] = { 0, 2 }, second[] = { 1 };
    const struct accel_sharding_options sharding = { .strategy = ACCEL_SHARDING_FULL_SHARD };
    DLTensor data = { .data = values, .device = { kDLCPU, 0 }, .ndim = 1, .shape = shape,
                      .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
    DLTensor tied = data, seen = data, grad[] = { data, data };
    struct accel_parameter parameters[]
        = { { "input", &data, &grad[0] }, { "output", &tied, &grad[1] }, { "seen", &seen, NULL } };
    struct accel_model *model;
    grad[0].data = gradient[0];
    grad[1].data = gradient[1];
    for (int i = 0; i < ROWS; i++)
        values[i] = (float) i;
    rank_must (accel_model_create (&model, parameters, 3, &err), &err);
    rank_must (accel_model_set_sharding (model, &sharding, &err), &err);
    rank_must (accel_prepare (acc, &err, model), &err);
    rank_must (accel_layer_begin (model, first, 2, &err), &err);
    rank_must (accel_layer_begin (model, second, 1, &err), &err);
    rank_must (accel_layer_end (model, first, 2, &err), &err);
    for (int i = 0; i < ROWS; i++)
        right (values[i] == (float) i, "element %d is %g", i, (double) values[i]);
    rank_must (accel_layer_end (model, second, 1, &err), &err);
    size_t has = resident (values, ROWS * sizeof (float));
    right (has <= ROWS * sizeof (float) / 2 + 6 * PAGE, "%zu bytes have pages", has);
    rank_must (accel_summon_full_params (model, &err), &err);
    for (int i = 0; i < ROWS; i++)
        right (values[i] == (float) i, "element %d is %g", i, (double) values[i]);
    accel_model_destroy (model);
}

/* ---- what is refused ---- */

static enum accel_status
custom_step (void *user, const struct accel_update *update, struct accel_error *error)
{
    (void) user;
    (void) update;
    (void) error;
    return ACCEL_OK;
}

static void
refuse (struct accel *acc)
{
    struct net net;
    struct accel_local_sgd *local_sgd;
    struct accel_optimizer *custom;
    const struct accel_custom_optimizer functions = { .step = custom_step, .lr = 0.1 };
    const struct accel_sharding_options none = { .strategy = ACCEL_SHARDING_NONE }, wrong = { .strategy = 99 };
    make (&net, acc);
    rank_fails (accel_model_set_sharding (net.model, &none, &err), ACCEL_ERR_INVALID, &err, "already prepared");
    rank_fails (accel_local_sgd_begin (&local_sgd, acc, net.model, 2, true, &err), ACCEL_ERR_UNSUPPORTED, &err,
                "by themselves");
    rank_fails (accel_join_uneven_inputs (acc, ACCEL_DEFAULT, &err), ACCEL_ERR_UNSUPPORTED, &err, "all processes");
    rank_must (accel_optimizer_create_custom (&custom, net.model, &functions, &err), &err);
    rank_must (accel_prepare (acc, &err, custom), &err);
    rank_must (accel_backward (acc, net.model, 1, backward, &net, &err), &err);
    rank_fails (accel_optimizer_step (custom, &err), ACCEL_ERR_UNSUPPORTED, &err, "custom optimizer");
    accel_optimizer_destroy (custom);
    rank_must (accel_unwrap_model (acc, net.model, &err), &err);
    rank_fails (accel_optimizer_step (net.optimizer, &err), ACCEL_ERR_INVALID, &err, "prepare the model again");
    rank_fails (accel_model_set_sharding (net.model, &none, &err), ACCEL_ERR_INVALID, &err, "has been divided");
    rank_fails (accel_model_set_sharding (net.model, &wrong, &err), ACCEL_ERR_INVALID, &err, "'strategy'");
    rank_must (accel_join_uneven_inputs (acc, ACCEL_DEFAULT, &err), &err);
    rank_fails (accel_prepare (acc, &err, net.model), ACCEL_ERR_UNSUPPORTED, &err, "accel_join_end");
    rank_must (accel_join_end (acc, &err), &err);
    rank_must (accel_prepare (acc, &err, net.model), &err);
    train (&net, 1);
    end (&net);
}

/* A model with one parameter is not prepared. */
static void
refuse_model (struct accel *acc, enum accel_dtype dtype, const struct accel_sharding_options *sharding,
              const struct accel_ddp_options *ddp, enum accel_status status, const char *why)
{
    static int64_t shape[] = { 9000 };
    DLTensor data = { .device = { kDLCPU, 0 }, .ndim = 1, .shape = shape, .dtype = accel_dtype_to_dl (dtype) };
    DLTensor grad = data;
    struct accel_parameter parameter = { "w", &data, &grad };
    struct accel_model *model;
    grad.dtype = accel_dtype_to_dl (ACCEL_FLOAT32);
    rank_must (accel_model_create (&model, &parameter, 1, &err), &err);
    rank_must (accel_model_set_sharding (model, sharding, &err), &err);
    rank_must (accel_model_set_ddp (model, ddp, &err), &err);
    rank_fails (accel_prepare (acc, &err, model), status, &err, why);
    right (accel_model_sharding (model) == ACCEL_SHARDING_NONE, "it is divided all the same");
    accel_model_destroy (model);
}

static void
refuse_eight_bits (struct accel *acc)
{
    refuse_model (acc, ACCEL_FLOAT8_E4M3FN, &(struct accel_sharding_options){ .strategy = ACCEL_SHARDING_OPTIMIZER },
                  &(struct accel_ddp_options){ 0 }, ACCEL_ERR_UNSUPPORTED, "8-bit");
}

static void
refuse_power_sgd (struct accel *acc)
{
    refuse_model (acc, ACCEL_FLOAT32, &(struct accel_sharding_options){ .strategy = ACCEL_SHARDING_SHARD_GRAD_OP },
                  &(struct accel_ddp_options){ .comm_hook = ACCEL_COMM_HOOK_POWER_SGD }, ACCEL_ERR_UNSUPPORTED,
                  "PowerSGD");
}

/* Groups of two of three processes. */
static void
refuse_groups (struct accel *acc)
{
    refuse_model (acc, ACCEL_FLOAT32,
                  &(struct accel_sharding_options){ .strategy = ACCEL_SHARDING_HYBRID_SHARD, .group_size = 2 },
                  &(struct accel_ddp_options){ 0 }, ACCEL_ERR_UNSUPPORTED, "group_size does not divide");
}

/* Rank 1 has another strategy. */
static void
differ (struct accel *acc)
{
    const struct accel_sharding_options sharding
        = { .strategy = accel_process_index (acc) ? ACCEL_SHARDING_OPTIMIZER : ACCEL_SHARDING_NONE };
    refuse_model (acc, ACCEL_FLOAT32, &sharding, &(struct accel_ddp_options){ 0 }, ACCEL_ERR_INVALID,
                  "sharding on rank 1");
}

/* Asked for by the program, or by the launcher alone. */
static void
refuse_custom (struct accel *acc)
{
    static int64_t shape[] = { 9000 };
    const struct accel_custom_optimizer functions = { .step = custom_step, .lr = 0.1 };
    for (int by_launcher = 0; by_launcher < 2; by_launcher++) {
        DLTensor data = { .device = { kDLCPU, 0 }, .ndim = 1, .shape = shape,
                          .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
        DLTensor grad = data;
        struct accel_parameter parameter = { "w", &data, &grad };
        const struct accel_sharding_options sharding
            = { .strategy = by_launcher ? ACCEL_SHARDING_DEFAULT : ACCEL_SHARDING_OPTIMIZER };
        struct accel_model *model;
        struct accel_optimizer *custom;
        setenv (ENV_USE_FSDP, "true", 1);
        rank_must (accel_model_create (&model, &parameter, 1, &err), &err);
        rank_must (accel_model_set_sharding (model, &sharding, &err), &err);
        rank_must (accel_optimizer_create_custom (&custom, model, &functions, &err), &err);
        if (by_launcher)
            rank_must (accel_prepare (acc, &err, model), &err);
        else
            rank_fails (accel_prepare (acc, &err, model), ACCEL_ERR_UNSUPPORTED, &err, "whole parameters");
        right (accel_model_sharding (model) == ACCEL_SHARDING_NONE, "it is divided all the same");
        accel_optimizer_destroy (custom);
        accel_model_destroy (model);
    }
}

/* The second of three parameters has 15009 elements. */
static void
divide_large_ones (struct accel *acc)
{
    struct net net;
    make (&net, acc);
    for (size_t i = 0; i < PARAMETERS; i++) {
        bool is_whole = i == 0 || (i == 1 && least > 15009);
        right (!sharding_chunk (net.model, i) == is_whole, "chunks of %zu", sharding_chunk (net.model, i));
    }
    train (&net, 1);
    end (&net);
}

/* Two tied parameters, a buffer in the memory of one, and memory of the program, some of it before the first page. */
static void
share_tied (struct accel *acc)
{
    enum { ROWS = 5000 };
    static float values[ROWS + 16], gradient[2][ROWS];
    static int64_t shape[] = { ROWS };
    const struct accel_sharding_options sharding = { .strategy = ACCEL_SHARDING_OPTIMIZER, .share_parameters = true };
    const struct accel_optimizer_options options = { .lr = 1 };
    DLTensor data[3], grad[2];
    struct accel_model *model;
    struct accel_optimizer *sgd;
    for (int i = 0; i < ROWS + 16; i++)
        values[i] = (float) (accel_process_index (acc) ? -1 : i);
    for (int i = 0; i < 3; i++)
        data[i] = (DLTensor){ .data = values + 8, .device = { kDLCPU, 0 }, .ndim = 1,
                              .shape = shape, .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
    for (int i = 0; i < 2; i++) {
        grad[i] = data[i];
        grad[i].data = gradient[i];
        for (int j = 0; j < ROWS; j++)
            gradient[i][j] = (float) i;
    }
    struct accel_parameter parameters[]
        = { { "input", &data[0], &grad[0] }, { "output", &data[1], &grad[1] }, { "seen", &data[2], NULL } };
    rank_must (accel_model_create (&model, parameters, 3, &err), &err);
    rank_must (accel_model_set_sharding (model, &sharding, &err), &err);
    rank_must (accel_optimizer_create (&sgd, model, ACCEL_SGD, &options, &err), &err);
    rank_must (accel_prepare (acc, &err, model, sgd), &err);
    right (is_shared (data[0].data) && data[0].data == data[1].data && data[0].data == data[2].data, "not tied");
    rank_must (accel_average_gradients (acc, model, &err), &err);
    rank_must (accel_optimizer_step (sgd, &err), &err);
    for (int i = 0; i < ROWS; i++)
        right (((float *) data[2].data)[i] == (float) (i + 8 - 1), "element %d is %g", i, ((float *) data[2].data)[i]);
    rank_must (accel_comm_barrier (accel_world (acc), &err), &err);
    accel_model_destroy (model);
    accel_optimizer_destroy (sgd);
    for (int i = 0; i < ROWS + 16; i++) {
        float own = (float) (accel_process_index (acc) ? -1 : i);
        float wanted = i < 8 || i >= ROWS + 8 ? own : (float) (i - 1);
        right (values[i] == wanted, "after the end, number %d is %g", i, (double) values[i]);
    }
}

/* Trained, given back, and prepared again: the parameters are the same, and those of a further step on all ranks. */
static void
prepare_again (struct accel *acc)
{
    struct net net;
    make (&net, acc);
    train (&net, STEPS);
    for (int i = 0; i < PARAMETERS; i++) {
        size_t bytes = accel_tensor_count (&net.data[i]) * accel_dtype_bytes (way->dtype);
        char *before = malloc (bytes + 1), *others = malloc (bytes + 1);
        memcpy (before, net.data[i].data, bytes);
        rank_must (accel_unwrap_model (acc, net.model, &err), &err);
        rank_must (accel_prepare (acc, &err, net.model), &err);
        right (!memcmp (before, net.data[i].data, bytes), "parameter %d has other values", i);
        train (&net, 1);
        right (memcmp (before, net.data[i].data, bytes), "parameter %d does not change any more", i);
        memcpy (others, net.data[i].data, bytes);
        rank_must (accel_comm_broadcast (accel_world (acc), others, bytes, ACCEL_UINT8, 0, &err), &err);
        right (!memcmp (others, net.data[i].data, bytes), "parameter %d is not that of rank 0", i);
        free (before);
        free (others);
    }
    end (&net);
}

/* A buffer is the middle of a parameter: neither moves.  Nor can the parameter be divided, and the buffer not. */
static void
share_overlap (struct accel *acc)
{
    enum { ROWS = 5000 };
    static float values[ROWS], gradient[ROWS];
    static int64_t shape[] = { ROWS }, part[] = { 10 };
    const struct accel_sharding_options sharding = { .strategy = ACCEL_SHARDING_OPTIMIZER, .share_parameters = true };
    const struct accel_sharding_options full = { .strategy = ACCEL_SHARDING_FULL_SHARD };
    DLTensor data = { .data = values, .device = { kDLCPU, 0 }, .ndim = 1, .shape = shape,
                      .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
    DLTensor grad = data, view = data;
    struct accel_parameter parameters[] = { { "all", &data, &grad }, { "part", &view, NULL } };
    struct accel_model *model;
    grad.data = gradient;
    view.data = values + 2000;
    view.shape = part;
    values[2000] = 7;
    rank_must (accel_model_create (&model, parameters, 2, &err), &err);
    rank_must (accel_model_set_sharding (model, &full, &err), &err);
    rank_fails (accel_prepare (acc, &err, model), ACCEL_ERR_UNSUPPORTED, &err, "overlap");
    rank_must (accel_model_set_sharding (model, &sharding, &err), &err);
    rank_must (accel_prepare (acc, &err, model), &err);
    right (data.data == values && view.data == values + 2000 && values[2000] == 7, "it has moved");
    right (accel_model_sharding (model) == ACCEL_SHARDING_OPTIMIZER, "it is not divided");
    accel_model_destroy (model);
}

/* Rank 1 cannot open rank 0's file: all have copies, and the same results. */
static void
share_in_vain (struct accel *acc)
{
    struct net net;
    int own[64], count = 0;
    struct rlimit limit, few;
    getrlimit (RLIMIT_NOFILE, &limit);
    few = limit;
    while (accel_process_index (acc) == 1 && count < 64 && (own[count] = dup (0)) >= 0) {
        few.rlim_cur = (rlim_t) own[count++] + 1;
        if (count == 4)
            setrlimit (RLIMIT_NOFILE, &few);
    }
    make (&net, acc);
    setrlimit (RLIMIT_NOFILE, &limit);
    while (count)
        close (own[--count]);
    right (!is_shared (net.data[2].data), "it is shared");
    right (accel_model_sharding (net.model) == ACCEL_SHARDING_OPTIMIZER, "it is not divided");
    train (&net, STEPS);
    save (&net, "vain");
    end (&net);
}

/* ---- what the launcher was asked for ---- */

static enum accel_sharding expected;

static void
by_launcher (struct accel *acc)
{
    struct net net;
    make (&net, acc);
    right (accel_model_sharding (net.model) == expected, "strategy %d", (int) accel_model_sharding (net.model));
    end (&net);
}

static void
test_launcher (void)
{
    static const struct {
        const char *deepspeed, *stage, *fsdp, *strategy;
        enum accel_sharding wanted;
        const char *reshards; /* NULL: FSDP is not of version 2 */
    } cases[] = { { "true", "1", "", "", ACCEL_SHARDING_OPTIMIZER }, { "true", "0", "", "", ACCEL_SHARDING_NONE },
                  { "true", "2", "", "", ACCEL_SHARDING_SHARD_GRAD_OP },
                  { "true", "", "", "", ACCEL_SHARDING_SHARD_GRAD_OP },
                  { "false", "1", "", "", ACCEL_SHARDING_NONE }, { "", "1", "", "", ACCEL_SHARDING_NONE },
                  { "true", "3", "", "", ACCEL_SHARDING_FULL_SHARD },
                  { "", "", "true", "FULL_SHARD", ACCEL_SHARDING_FULL_SHARD },
                  { "", "", "true", "", ACCEL_SHARDING_FULL_SHARD },
                  { "", "", "true", "HYBRID_SHARD", ACCEL_SHARDING_HYBRID_SHARD },
                  { "", "", "true", "5", ACCEL_SHARDING_HYBRID_SHARD_ZERO2 },
                  { "", "", "true", "SHARD_GRAD_OP", ACCEL_SHARDING_SHARD_GRAD_OP },
                  { "", "", "true", "2", ACCEL_SHARDING_SHARD_GRAD_OP },
                  { "", "", "true", "NO_SHARD", ACCEL_SHARDING_NONE }, { "", "", "1", "3", ACCEL_SHARDING_NONE },
                  { "", "", "true", "NO_SHARD", ACCEL_SHARDING_SHARD_GRAD_OP, "false" },
                  { "", "", "true", "NO_SHARD", ACCEL_SHARDING_FULL_SHARD, "true" },
                  { "", "", "", "FULL_SHARD", ACCEL_SHARDING_NONE } };
    const char *const names[] = { ENV_USE_DEEPSPEED, ENV_ZERO_STAGE, ENV_USE_FSDP, ENV_FSDP_STRATEGY };
    strategy = ACCEL_SHARDING_DEFAULT;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const values[] = { cases[i].deepspeed, cases[i].stage, cases[i].fsdp, cases[i].strategy };
        for (int j = 0; j < 4; j++) {
            diag ("%s='%s'", names[j], values[j]);
            setenv (names[j], values[j], 1);
        }
        setenv (ENV_FSDP_VERSION, cases[i].reshards ? "2" : "1", 1);
        setenv (ENV_FSDP_RESHARD, cases[i].reshards ? cases[i].reshards : "", 1);
        expected = cases[i].wanted;
        as_ranks (2, "what the launcher was asked for", by_launcher);
    }
    for (int j = 0; j < 4; j++)
        unsetenv (names[j]);
    unsetenv (ENV_FSDP_VERSION);
}

int
main (void)
{
    static const struct way ways[] = {
        { "AdamW", ACCEL_FLOAT32, ACCEL_ADAMW, "no", false, 1, false },
        { "SGD", ACCEL_FLOAT32, ACCEL_SGD, "no", true, 3, false },
        { "Adagrad", ACCEL_FLOAT32, ACCEL_ADAGRAD, "no", false, 2, false },
        { "AdamW of bfloat16", ACCEL_BFLOAT16, ACCEL_ADAMW, "no", false, 1, false },
        { "Lion of bfloat16", ACCEL_BFLOAT16, ACCEL_LION, "no", true, 1, false },
        { "fp16", ACCEL_FLOAT32, ACCEL_ADAMW, "fp16", false, 1, false },
        { "AdamW, parameters shared", ACCEL_FLOAT32, ACCEL_ADAMW, "no", false, 1, true },
        { "SGD of bfloat16, parameters shared", ACCEL_BFLOAT16, ACCEL_SGD, "no", true, 2, true },
        { "stage 2", ACCEL_FLOAT32, ACCEL_ADAMW, "no", true, 1, false, ACCEL_SHARDING_SHARD_GRAD_OP },
        { "stage 3", ACCEL_FLOAT32, ACCEL_ADAMW, "no", false, 1, false, ACCEL_SHARDING_FULL_SHARD },
        { "stage 3 of bfloat16", ACCEL_BFLOAT16, ACCEL_ADAMW, "no", true, 1, false, ACCEL_SHARDING_FULL_SHARD },
        { "stage 3 in groups", ACCEL_FLOAT32, ACCEL_ADAMW, "no", true, 1, false, ACCEL_SHARDING_HYBRID_SHARD },
        { "stage 3 in groups, parameters shared", ACCEL_BFLOAT16, ACCEL_ADAMW, "no", false, 1, true,
          ACCEL_SHARDING_HYBRID_SHARD },
    };
    (void) scratch_folder ();
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (ways[i].strategy < ACCEL_SHARDING_HYBRID_SHARD)
            test_bits (&ways[i], 2 + (int) i % 3, 4 - (int) i % 3);
        else
            test_hybrid (&ways[i]);
    test_averages (&ways[8]);
    way = &ways[3];
    strategy = ACCEL_SHARDING_OPTIMIZER;
    as_ranks (2, "what a sharded model cannot do", refuse);
    as_ranks (2, "8-bit parameters", refuse_eight_bits);
    as_ranks (2, "a custom optimizer", refuse_custom);
    as_ranks (2, "divided gradients and PowerSGD", refuse_power_sgd);
    as_ranks (2, "another strategy on another rank", differ);
    as_ranks (3, "groups that do not fit", refuse_groups);
    strategy = ACCEL_SHARDING_FULL_SHARD;
    for (way = &ways[9]; way < &ways[11]; way++)
        as_ranks (2 + (int) (way - ways) % 2, "layers", keep_layers);
    as_ranks (2, "tied parameters that are divided", keep_tied);
    way = &ways[3];
    strategy = ACCEL_SHARDING_OPTIMIZER;
    for (least = 15009; least <= 15010; least++)
        as_ranks (3, "min_num_params", divide_large_ones);
    least = 0;
    for (way = ways; way < ways + sizeof ways / sizeof *ways; way++)
        if (!strcmp (way->precision, "no") && !way->strategy)
            as_ranks (2, "prepared again", prepare_again);
    way = &ways[6];
    as_ranks (2, "tensors that overlap", share_overlap);
    as_ranks (3, "tied parameters that are shared", share_tied);
    job (3, "without sharding", ACCEL_SHARDING_NONE, NULL, "plain");
    strategy = ACCEL_SHARDING_OPTIMIZER;
    as_ranks (3, "no memory in common", share_in_vain);
    compare ("plain", "vain");
    test_launcher ();
    return done_testing ();
}
