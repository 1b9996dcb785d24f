/* SPDX-License-Identifier: Apache-2.0 */
/* Sharded checkpoints: each rank writes its share, and any number of processes, with sharding or without, load the bits
 * that a full checkpoint has.
 *
 *   test_sharded_state [SHARDED FULL]    with two folders: leave a checkpoint of two processes there, and do no more */
#include <config.h>

#include "files/dcp.h"
#include "tests/ranks.h"
#include "tests/scratch.h"

#include <accel/sharding.h>

#include <math.h>
#include <string.h>
#include <sys/stat.h>

enum { PARAMETERS = 6, DIMS = 3, STEPS = 3 };

/* Too small for chunks; whose chunks begin and end within rows, with a rest; in three dimensions; many pages; without
 * elements; not trained. */
static const int64_t shapes[PARAMETERS][DIMS] = { { 7 }, { 3, 5003 }, { 5, 30, 70 }, { 512, 300 }, { 0 }, { 9000 } };
static const char *const names[PARAMETERS] = { "bias", "layer.odd", "layer.cube", "matrix", "empty", "buffer" };

struct way {
    const char *name;
    enum accel_dtype dtype;
    const char *precision;
    bool shares; /* parameters in one memory */
    enum accel_sharding strategy; /* 0: ACCEL_SHARDING_OPTIMIZER */
};

static const struct way *way;
static enum accel_sharding strategy;
static enum accel_state_dict_type type;
static const char *from, *to; /* folders; NULL: nothing is loaded */
static bool in_background, is_for_others;
static struct accel_error err;

struct net {
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    DLTensor data[PARAMETERS], grad[PARAMETERS];
    int64_t shape[PARAMETERS][DIMS];
    struct accel *acc;
    int step;
};

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

static void
make (struct net *net, struct accel *acc)
{
    struct accel_parameter parameters[PARAMETERS];
    const struct accel_sharding_options sharding = { .strategy = strategy, .share_parameters = way->shares };
    const struct accel_optimizer_options options = { .lr = 0.05, .weight_decay = 0.01, .threads = 1 };
    const struct accel_project_configuration project = { .state_dict_type = type };
    *net = (struct net){ .acc = acc };
    memcpy (net->shape, shapes, sizeof shapes);
    for (int i = 0; i < PARAMETERS; i++) {
        int ndim = 1;
        while (ndim < DIMS && shapes[i][ndim])
            ndim++;
        net->data[i] = (DLTensor){ .device = { kDLCPU, 0 }, .ndim = ndim, .shape = net->shape[i],
                                   .dtype = accel_dtype_to_dl (way->dtype) };
        net->grad[i] = net->data[i];
        parameters[i] = (struct accel_parameter){ names[i], &net->data[i], i < PARAMETERS - 1 ? &net->grad[i] : NULL };
    }
    rank_must (accel_set_project_configuration (acc, &project, &err), &err);
    rank_must (accel_model_create (&net->model, parameters, PARAMETERS, &err), &err);
    for (size_t j = 0; j < accel_tensor_count (&net->data[PARAMETERS - 1]) && !from; j++)
        put (&net->data[PARAMETERS - 1], j, (float) j);
    rank_must (accel_model_set_sharding (net->model, &sharding, &err), &err);
    rank_must (accel_optimizer_create (&net->optimizer, net->model, ACCEL_ADAMW, &options, &err), &err);
    rank_must (accel_prepare (acc, &err, net->optimizer, net->model), &err);
}

/* Gradients differ between ranks, elements and steps. */
static enum accel_status
backward (void *user, float scale, struct accel_error *error)
{
    static const size_t all[PARAMETERS] = { 0, 1, 2, 3, 4, 5 };
    struct net *net = user;
    int rank = accel_process_index (net->acc);
    enum accel_status status = accel_layer_begin (net->model, all, PARAMETERS, error);
    for (int i = 0; i < PARAMETERS - 1 && !status; i++)
        for (size_t j = 0; j < accel_tensor_count (&net->grad[i]); j++)
            put (&net->grad[i], j, scale * ((float) ((j * 7 + (size_t) (rank + net->step * 3)) % 32) / 16 - 1));
    return status ? status : accel_layer_end (net->model, all, PARAMETERS, error);
}

static void
train (struct net *net, int steps)
{
    for (int i = 0; i < steps; i++, net->step++) {
        rank_must (accel_backward (net->acc, net->model, 1, backward, net, &err), &err);
        rank_must (accel_optimizer_step (net->optimizer, &err), &err);
        rank_must (accel_optimizer_zero_grad (net->optimizer, &err), &err);
    }
}

/* Numbers that no arithmetic has made, which are exact in each type. */
static void
fill (struct net *net)
{
    static const char *const states[] = { "exp_avg", "exp_avg_sq" };
    for (size_t i = 0; i < PARAMETERS; i++) {
        for (size_t j = 0; j < accel_tensor_count (&net->data[i]); j++)
            put (&net->data[i], j, (float) ((j * 5 + i) % 251));
        for (size_t k = 0; k < 2 && i < PARAMETERS - 1; k++)
            for (size_t j = 0; j < accel_tensor_count (&net->data[i]); j++)
                ((float *) accel_optimizer_state_tensor (net->optimizer, i, states[k])->data)[j]
                    = (float) ((j + k * 17 + i) % 1009);
    }
    accel_model_widen (net->model);
}

static const char *
in_scratch (const char *folder)
{
    static char path[512];
    snprintf (path, sizeof path, "%s%s%s", *folder == '/' ? "" : scratch_folder (), *folder == '/' ? "" : "/", folder);
    return path;
}

static void
run (struct accel *acc)
{
    struct net net;
    make (&net, acc);
    if (from)
        rank_must (accel_load_state (acc, in_scratch (from), &err), &err);
    else if (is_for_others)
        fill (&net);
    else
        train (&net, STEPS);
    if (!in_background)
        rank_must (accel_save_state (acc, in_scratch (to), &err), &err);
    else {
        rank_must (accel_save_state_reserve (acc, &err), &err);
        rank_must (accel_save_state_start (acc, in_scratch (to), &err), &err);
        rank_must (accel_save_state_wait (acc, &err), &err);
    }
    accel_optimizer_destroy (net.optimizer);
    accel_model_destroy (net.model);
}

static void
job (int ranks, const char *what, enum accel_sharding its, enum accel_state_dict_type save, const char *load,
     const char *folder)
{
    char name[200];
    strategy = its;
    type = save;
    from = load;
    to = folder;
    snprintf (name, sizeof name, "%s: %s", way->name, what);
    as_ranks (ranks, name, run);
}

/* @return its size; -1: there is none */
static long
size_of (const char *folder, const char *name)
{
    char path[600];
    struct stat info;
    snprintf (path, sizeof path, "%s/%s", in_scratch (folder), name);
    return stat (path, &info) ? -1 : (long) info.st_size;
}

/* @return whether the two folders have the same file @name */
static bool
is_same (const char *a, const char *b, const char *name)
{
    char path[2][600];
    for (int i = 0; i < 2; i++)
        snprintf (path[i], sizeof path[i], "%s/%s", in_scratch (i ? b : a), name);
    return scratch_same (path[0], path[1]) > 100;
}

static void
compare (const char *a, const char *b)
{
    ok (is_same (a, b, "optimizer.safetensors"), "%s: states and masters in %s and %s", way->name, a, b);
    ok (is_same (a, b, "model.safetensors"), "%s: parameters in %s and %s", way->name, a, b);
}

static void
test_way (const struct way *its)
{
    const enum accel_state_dict_type full = ACCEL_STATE_DICT_FULL, sharded = ACCEL_STATE_DICT_SHARDED;
    const enum accel_sharding none = ACCEL_SHARDING_NONE;
    way = its;
    const enum accel_sharding divided = way->strategy ? way->strategy : ACCEL_SHARDING_OPTIMIZER;
    setenv (ENV_MIXED_PRECISION, way->precision, 1);
    job (3, "a full checkpoint", divided, full, NULL, "full");
    job (3, "a sharded one", divided, sharded, NULL, "shares");
    long whole = size_of ("full", "optimizer.safetensors");
    for (int rank = 0; rank < 3; rank++) {
        char file[64];
        snprintf (file, sizeof file, "optimizer/__%d_0.distcp", rank);
        long size = size_of ("shares", file);
        ok (size > whole / 4 && size < whole / 2, "rank %d has written its share, %ld of %ld bytes", rank, size, whole);
    }
    ok (size_of ("shares", "optimizer.safetensors") < 0 && size_of ("shares", "optimizer/.boxes-1") < 0, "and no more");
    job (3, "loaded by as many", divided, full, "shares", "again");
    compare ("full", "again");
    job (2, "loaded by fewer, saved sharded", divided, sharded, "shares", "two");
    job (4, "loaded by more", divided, full, "two", "four");
    compare ("full", "four");
    job (1, "loaded by one process", divided, full, "shares", "one");
    compare ("full", "one");
    job (2, "loaded without sharding, and saved so in the sharded layout", none, sharded, "shares", "plain");
    ok (size_of ("plain", "model/__0_0.distcp") > 0 && size_of ("plain", "model/__1_0.distcp") < 0, "by rank 0 alone");
    in_background = true;
    job (3, "loaded, saved sharded in the background", divided, sharded, "plain", "background");
    in_background = false;
    ok (is_same ("background", "shares", "optimizer/__1_0.distcp")
        && is_same ("background", "shares", "model/.metadata"), "%s: the same files as in the foreground", way->name);
    setenv (ENV_MIXED_PRECISION, "no", 1);
}

/* ---- what chooses ---- */

static void
test_variable (const struct way *its)
{
    static const struct {
        const char *used, *type;
        bool sharded;
    } cases[] = { { "true", "SHARDED_STATE_DICT", true }, { "true", "3", true },  { "true", "FULL_STATE_DICT", false },
                  { "true", NULL, false },                { "false", "SHARDED_STATE_DICT", false } };
    way = its;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv (ENV_USE_FSDP, cases[i].used, 1);
        unsetenv (ENV_FSDP_STATE_DICT);
        if (cases[i].type)
            setenv (ENV_FSDP_STATE_DICT, cases[i].type, 1);
        job (1, "as the variable says", ACCEL_SHARDING_NONE, ACCEL_STATE_DICT_DEFAULT, NULL, "chosen");
        ok ((size_of ("chosen", "model/.metadata") > 0) == cases[i].sharded
            && (size_of ("chosen", "model.safetensors") > 0) != cases[i].sharded, "ACCELERATE_USE_FSDP=%s, %s",
            cases[i].used, cases[i].type ? cases[i].type : "no type");
    }
    job (1, "as the program says", ACCEL_SHARDING_NONE, ACCEL_STATE_DICT_SHARDED, NULL, "chosen");
    ok (size_of ("chosen", "model/.metadata") > 0, "the program comes first");
    unsetenv (ENV_USE_FSDP);
    unsetenv (ENV_FSDP_STATE_DICT);
}

static void
refuse_type (struct accel *acc)
{
    const struct accel_project_configuration project = { .state_dict_type = 3 };
    rank_fails (accel_set_project_configuration (acc, &project, &err), ACCEL_ERR_INVALID, &err, "'state_dict_type'");
}

/* ---- what is damaged ---- */

static const char *words;

static void
load_damaged (struct accel *acc)
{
    struct net net;
    make (&net, acc);
    rank_fails (accel_load_state (acc, in_scratch ("damaged"), &err), ACCEL_ERR_FORMAT, &err, words);
    accel_optimizer_destroy (net.optimizer);
    accel_model_destroy (net.model);
}

/* One byte of an element. */
static void
flip (const char *name)
{
    char path[600];
    snprintf (path, sizeof path, "%s/%s", in_scratch ("damaged"), name);
    FILE *file = fopen (path, "r+b");
    int byte = -1;
    if (file && !fseek (file, -600, SEEK_END))
        byte = getc (file);
    ok (byte != EOF && !fseek (file, -1, SEEK_CUR) && putc (byte ^ 1, file) != EOF && !fclose (file), "%s: a bit",
        name);
}

static void
test_damage (const struct way *its)
{
    static const char *const files[] = { "optimizer/__1_0.distcp", "model/.metadata" };
    way = its;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        job (2, "a checkpoint to damage", ACCEL_SHARDING_OPTIMIZER, ACCEL_STATE_DICT_SHARDED, NULL, "damaged");
        flip (files[i]);
        words = files[i];
        as_ranks (2, "which is refused", load_damaged);
    }
}

/* A parameter of rank 1's share is NaN: the state does not take the place of the good one. */
static void
save_nonfinite (struct accel *acc)
{
    struct net net;
    make (&net, acc);
    train (&net, 1);
    ((float *) net.data[3].data)[512 * 300 / 2 + 5] = NAN;
    accel_set_log_level (ACCEL_LOG_CRITICAL);
    rank_must (accel_save_state (acc, in_scratch ("shares"), &err), &err);
    right (strstr (accel_checkpoint_path (acc), "shares.nonfinite"), "it is at %s", accel_checkpoint_path (acc));
    accel_optimizer_destroy (net.optimizer);
    accel_model_destroy (net.model);
}

int
main (int argc, char **argv)
{
    static const struct way ways[] = {
        { .name = "float32", .dtype = ACCEL_FLOAT32, .precision = "no" },
        { .name = "bfloat16", .dtype = ACCEL_BFLOAT16, .precision = "bf16" },
        { .name = "shared parameters", .dtype = ACCEL_FLOAT32, .precision = "no", .shares = true },
        { .name = "stage 2", .dtype = ACCEL_FLOAT32, .precision = "no", .strategy = ACCEL_SHARDING_SHARD_GRAD_OP },
        { .name = "stage 3", .dtype = ACCEL_BFLOAT16, .precision = "bf16", .strategy = ACCEL_SHARDING_FULL_SHARD },
    };
    if (argc > 2) {
        way = &ways[1];
        is_for_others = true;
        setenv (ENV_MIXED_PRECISION, way->precision, 1);
        job (2, "for others", ACCEL_SHARDING_OPTIMIZER, ACCEL_STATE_DICT_SHARDED, NULL, argv[1]);
        job (1, "the same in full", ACCEL_SHARDING_NONE, ACCEL_STATE_DICT_FULL, argv[1], argv[2]);
        return done_testing ();
    }
    scratch_folder (); /* before there are ranks */
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        test_way (&ways[i]);
    test_variable (&ways[0]);
    as_ranks (1, "an unknown type", refuse_type);
    test_damage (&ways[0]);
    way = &ways[0];
    strategy = ACCEL_SHARDING_OPTIMIZER;
    type = ACCEL_STATE_DICT_SHARDED;
    from = NULL;
    as_ranks (3, "a parameter that is not finite", save_nonfinite);
    return done_testing ();
}
