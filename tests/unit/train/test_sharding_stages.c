/* SPDX-License-Identifier: Apache-2.0 */
/* Stages of sharding: a sharded model and one that is not are trained side by side, and have the same losses.
 *
 * Without arguments, in forked ranks.  `test_sharding_stages job N EACH` is one rank of a job that is there, such
 * as mpirun's. */
#include <config.h>

#include "lib/train/reducer/reducer_object.h"
#include "lib/train/sharding.h"
#include "tests/ranks.h"
#include "tests/scratch.h"
#include "tests/unit/train/resident.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

enum { LAYERS = 4, PARAMETERS = 2 * LAYERS, STEPS = 4, PATIENCE_MS = 60000 };

/* Weights whose chunks have many pages, or few and a rest; and biases, which are not divided. */
static const int64_t shapes[PARAMETERS][2]
    = { { 96, 251 }, { 96, 1 }, { 5, 8191 }, { 5, 1 }, { 64, 512 }, { 64, 1 }, { 3, 4099 }, { 3, 1 } };

/* How a model is sharded. */
struct way {
    const char *name;
    struct accel_sharding_options sharding;
    enum accel_overlap overlap; /* unless the scene has one */
    int ranks;                  /* 0: 2 to 4 */
};

/* How it is trained. */
struct scene {
    const char *name;
    struct accel_ddp_options ddp;
    enum accel_dtype dtype; /* 0: float32 */
    const char *precision;  /* NULL: no */
    double clip;            /* the largest norm; 0: any */
    double norm_type;
    double clip_value;
    int passes;       /* of a step; 0: 1 */
    bool syncs_each;  /* passes are averaged one by one */
    bool overwrites;  /* gradients, instead of zeroing them */
    bool has_unused;  /* weight 1 takes no part in odd steps of rank 0, and weight 2 in no step */
    bool owns;        /* gradients are in memory of the program's */
    bool is_silent;   /* gradients are not reported one by one */
    bool is_near;     /* sums are made in another order */
    bool is_erratic;  /* forward passes take layers in other orders, and some twice */
    bool averages;    /* by accel_average_gradients(), after the pass */
    bool clips_each;  /* each pass, also those without averages */
    bool skips;       /* the first two steps, whose gradients are infinite */
    bool is_always;   /* in all ways, also in the short form */
};

static const struct way *way;
static const struct scene *scene;
static bool has_other_engine; /* whose sums have another order */
static struct accel_error err;

struct net {
    struct accel *acc;
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    DLTensor data[PARAMETERS], grad[PARAMETERS];
    int64_t shape[PARAMETERS][2];
    int step, pass;
    bool is_sharded;
    double loss;
};

static enum accel_dtype
dtype_of_scene (void)
{
    return scene->dtype ? scene->dtype : ACCEL_FLOAT32;
}

/* Elements from and to bfloat16 or float32. */
static float
get (const DLTensor *tensor, size_t i)
{
    float value = 0;
    if (tensor->dtype.bits == 32)
        return ((float *) tensor->data)[i];
    memcpy ((char *) &value + 2, (uint16_t *) tensor->data + i, 2);
    return value;
}

static void
put (const DLTensor *tensor, size_t i, float value)
{
    if (tensor->dtype.bits == 32)
        ((float *) tensor->data)[i] = value;
    else
        memcpy ((uint16_t *) tensor->data + i, (char *) &value + 2, 2);
}

static void
make (struct net *net, struct accel *acc, bool is_sharded)
{
    static const char *const names[PARAMETERS] = { "w0", "b0", "w1", "b1", "w2", "b2", "w3", "b3" };
    struct accel_parameter parameters[PARAMETERS];
    struct accel_sharding_options sharding = way->sharding;
    struct accel_ddp_options ddp = scene->ddp;
    const struct accel_optimizer_options options = { .lr = 0.01, .weight_decay = 0.01 };
    if (!is_sharded)
        sharding = (struct accel_sharding_options){ .strategy = ACCEL_SHARDING_NONE };
    *net = (struct net){ .acc = acc, .is_sharded = is_sharded };
    memcpy (net->shape, shapes, sizeof shapes);
    for (int i = 0; i < PARAMETERS; i++) {
        net->data[i] = net->grad[i] = (DLTensor){ .device = { kDLCPU, 0 }, .ndim = 2, .shape = net->shape[i],
                                                  .dtype = accel_dtype_to_dl (dtype_of_scene ()) };
        if (scene->owns)
            net->grad[i].data = calloc (accel_tensor_count (&net->grad[i]), sizeof (float));
        parameters[i] = (struct accel_parameter){ names[i], &net->data[i], &net->grad[i] };
    }
    rank_must (accel_model_create (&net->model, parameters, PARAMETERS, &err), &err);
    rank_must (accel_model_set_sharding (net->model, &sharding, &err), &err);
    ddp.overlap = ddp.overlap ? ddp.overlap : way->overlap;
    rank_must (accel_model_set_ddp (net->model, &ddp, &err), &err);
    rank_must (accel_optimizer_create (&net->optimizer, net->model, ACCEL_ADAMW, &options, &err), &err);
    for (int i = 0; i < PARAMETERS; i++)
        for (size_t j = 0; j < accel_tensor_count (&net->data[i]); j++)
            put (&net->data[i], j, accel_process_index (acc) ? 0 : (float) ((j * 31 + (size_t) i) % 64) / 64 - 0.5F);
    rank_must (accel_prepare (acc, &err, net->model, net->optimizer), &err);
}

static void
end (struct net *net)
{
    accel_optimizer_destroy (net->optimizer);
    accel_model_destroy (net->model);
    for (int i = 0; i < PARAMETERS && scene->owns; i++)
        free (net->grad[i].data);
}

static bool
is_used (const struct net *net, int parameter)
{
    bool is_odd = accel_process_index (net->acc) == 0 && net->step % 2;
    return !scene->has_unused || (parameter != 4 && !((parameter == 2 || parameter == 6) && is_odd));
}

/* A factor that differs between ranks, elements, steps and passes. */
static float
input (const struct net *net, int parameter, size_t element)
{
    size_t rank = (size_t) accel_process_index (net->acc);
    return (float) ((element * 7 + rank * 5 + (size_t) (net->step * 3 + net->pass * 11 + parameter)) % 32) / 16 - 1;
}

static bool
has_same_sums (void)
{
    return !scene->is_near && !has_other_engine && way->sharding.strategy < ACCEL_SHARDING_HYBRID_SHARD;
}

/* Sums of 16 bits are rounded after each term, to 8 bits in bfloat16.  Where they are made in another order, gradients
 * are such that no sum and no average needs more. */
static bool
has_few_bits (void)
{
    return (scene->dtype || scene->ddp.comm_hook) && !has_same_sums ();
}

static float
gradient (const struct net *net, int parameter, size_t element)
{
    float data = get (&net->data[parameter], element), other = input (net, parameter, element);
    if (!has_few_bits ())
        return 0.25F * data + other;
    return (float) accel_num_processes (net->acc) * (rintf (8 * data) / 8 + other);
}

static void
enter (const struct net *net, int layer)
{
    const size_t parameters[] = { 2 * (size_t) layer, 2 * (size_t) layer + 1 };
    rank_must (accel_layer_begin (net->model, parameters, 2, &err), &err);
}

static void
leave (const struct net *net, int layer)
{
    const size_t parameters[] = { 2 * (size_t) layer, 2 * (size_t) layer + 1 };
    rank_must (accel_layer_end (net->model, parameters, 2, &err), &err);
}

/* Rank by rank, as soon as all compute: the next layer is on its way, unless that would be too much. */
static void
await_next (const struct net *net, int layer)
{
    bool is_too_much = net->model->sharding.layers && way->sharding.max_live_params && layer < 2 && net->step;
    const DLTensor *data = &net->data[2 * layer + 2];
    size_t bytes = accel_tensor_count (data) * data->dtype.bits / 8;
    bool has_thread = way->overlap && scene->ddp.overlap != ACCEL_OVERLAP_NEVER;
    bool is_ahead = net->model->sharding.layers && has_thread && !way->sharding.max_live_params && net->step;
    for (int i = 0; is_ahead && i < PATIENCE_MS && resident (data->data, bytes) < bytes; i++)
        usleep (1000);
    right (!is_ahead || resident (data->data, bytes) >= bytes, "layer %d is not gathered ahead", layer + 1);
    if (is_too_much)
        usleep (2000);
    right (!is_too_much || resident (data->data, bytes) < bytes, "layer %d is gathered ahead", layer + 1);
}

/* The loss has all elements of the parameters. */
static void
forward (struct net *net)
{
    unsigned random = (unsigned) net->step;
    for (int visit = 0; visit < (scene->is_erratic ? 4 * LAYERS : LAYERS); visit++) {
        random = random * 1664525 + 1013904223;
        int layer = scene->is_erratic ? (int) (random >> 16) % LAYERS : visit;
        const size_t bias = 2 * (random >> 24 & 3) + 1;
        if (scene->is_erratic && random >> 30) { /* a layer of which nothing is divided: no rank waits for another */
            if (!accel_process_index (net->acc))
                usleep (1000);
            rank_must (accel_layer_begin (net->model, &bias, 1, &err), &err);
            rank_must (accel_layer_end (net->model, &bias, 1, &err), &err);
        }
        enter (net, layer);
        if (layer + 1 < LAYERS && !scene->is_erratic)
            await_next (net, layer);
        for (int i = 2 * layer; i < 2 * layer + 2; i++)
            for (size_t j = 0; j < accel_tensor_count (&net->data[i]) && is_used (net, i); j++)
                net->loss += (double) get (&net->data[i], j) * (double) input (net, i, j);
        leave (net, layer);
    }
}

/* Of each tensor a chunk and the rest, and pages that are in part of these, or of another tensor. */
static void
check_memory (const struct net *net, const char *what, const DLTensor *tensors)
{
    for (int i = 0; i < PARAMETERS; i += 2) {
        size_t count = accel_tensor_count (&tensors[i]), chunk = sharding_chunk (net->model, (size_t) i);
        size_t each = tensors[i].dtype.bits / 8, size = (size_t) net->model->sharding.size;
        size_t most = (count - chunk * (size - 1)) * each + 6 * PAGE, has = resident (tensors[i].data, count * each);
        right (chunk && has <= most, "step %d: %s %d has %zu of %zu bytes; expected at most %zu", net->step, what, i,
               has, count * each, most);
    }
}

/* At the end of a pass, buckets that are complete are averaged already, unless a thread is still at it. */
static void
check_pass (const struct net *net)
{
    const struct reducer *reducer = net->model->reducer;
    if (sharding_has_gradients (net->model) && reducer->reduces && !reducer->overlap && !scene->owns
        && !scene->is_silent && !scene->has_unused && scene->ddp.overlap != ACCEL_OVERLAP_NEVER)
        check_memory (net, "in a pass, gradient", net->grad);
    if (net->model->sharding.layers && !(scene->passes && reducer->overlap)) /* the next pass may begin ahead */
        check_memory (net, "in a pass, parameter", net->data);
}

static enum accel_status
backward (void *user, float scale, struct accel_error *error)
{
    struct net *net = user;
    for (int layer = LAYERS; layer-- > 0;) {
        enter (net, layer);
        for (int i = 2 * layer + 1; i >= 2 * layer; i--) {
            if (!is_used (net, i))
                continue;
            for (size_t j = 0; j < accel_tensor_count (&net->grad[i]); j++) {
                float before = scene->overwrites ? 0 : get (&net->grad[i], j);
                put (&net->grad[i], j, before + scale * gradient (net, i, j));
            }
            if (scene->skips && net->step < 2)
                put (&net->grad[i], 0, INFINITY);
            enum accel_status status = scene->is_silent ? ACCEL_OK : accel_grad_ready (net->model, (size_t) i, error);
            if (status)
                return status;
        }
        leave (net, layer);
    }
    check_pass (net);
    return ACCEL_OK;
}

static void
pass (struct net *net)
{
    if (!scene->averages) {
        rank_must (accel_backward (net->acc, net->model, 1, backward, net, &err), &err);
        return;
    }
    rank_must (backward (net, 1, &err), &err);
    rank_must (accel_average_gradients (net->acc, net->model, &err), &err);
}

static void
train (struct net *net)
{
    int passes = scene->passes ? scene->passes : 1;
    float norm;
    net->loss = 0;
    for (net->pass = 0; net->pass < passes; net->pass++) {
        bool is_held = net->pass + 1 < passes && !scene->syncs_each;
        if (is_held)
            rank_must (accel_no_sync (net->acc, net->model, &err), &err);
        accel_set_sync_gradients (net->acc, net->pass + 1 == passes);
        forward (net);
        pass (net);
        if (scene->clips_each && is_held) {
            rank_must (accel_clip_grad_norm (net->model, scene->clip, &norm, NULL, &err), &err);
            net->loss += (double) norm;
        }
        if (is_held)
            rank_must (accel_no_sync_end (net->acc, net->model, &err), &err);
    }
    const struct accel_clip_options options = { .norm_type = scene->norm_type };
    if (scene->clip > 0) {
        rank_must (accel_clip_grad_norm (net->model, scene->clip, &norm, &options, &err), &err);
        net->loss += (double) norm;
    }
    if (scene->clip_value > 0)
        rank_must (accel_clip_grad_value (net->model, scene->clip_value, &err), &err);
    rank_must (accel_optimizer_step (net->optimizer, &err), &err);
    if (!scene->overwrites)
        rank_must (accel_optimizer_zero_grad (net->optimizer, &err), &err);
    net->step++;
}

/* Sums of few bits are exact in any order, and whole gradients have the averages and norms of stage 0, with any engine.
 * Others are rounded to other numbers if they have another order. */
static bool
is_close (double a, double b)
{
    bool is_exact = has_same_sums () || has_few_bits () || way->sharding.strategy == ACCEL_SHARDING_OPTIMIZER;
    return is_exact ? a == b : fabs (a - b) <= 1e-6 * (fabs (a) + fabs (b) + 1e-3);
}

static void
compare_parameters (const struct net *plain, const struct net *sharded)
{
    for (int i = 0; i < PARAMETERS; i++)
        for (size_t j = 0; j < accel_tensor_count (&plain->data[i]); j++) {
            double a = (double) get (&plain->data[i], j), b = (double) get (&sharded->data[i], j);
            if (!right (is_close (a, b), "element %zu of parameter %d is %.9g, but %.9g without sharding", j, i, b, a))
                return;
        }
}

static void
save (const struct net *net, enum accel_save_precision precision, char path[SCRATCH_SIZE + 64])
{
    const struct accel_save_model_options options = { .precision = precision, .dtype = dtype_of_scene () };
    char folder[SCRATCH_SIZE + 32];
    snprintf (folder, sizeof folder, "%s/%s.%u", scratch_folder (), net->is_sharded ? "sharded" : "plain",
              (unsigned) precision);
    snprintf (path, SCRATCH_SIZE + 64, "%s/model.safetensors", folder);
    rank_must (accel_save_model (net->acc, net->model, folder, &options, &err), &err);
}

static double
size_of (const char *path)
{
    struct stat info;
    right (!stat (path, &info), "cannot find %s", path);
    return (double) info.st_size;
}

/* Masters are saved as without sharding; rounded, they are the parameters.  Rank 0 keeps no more of them than before.
 * At the end, the model is unwrapped. */
static void
check_masters (const struct net *plain, const struct net *sharded)
{
    static char wanted[SCRATCH_SIZE + 64], masters[sizeof wanted], rounded[sizeof wanted], parameters[sizeof wanted];
    bool is_exact = !is_close (1, 1 + 1e-9), is_first = !accel_process_index (plain->acc);
    DLTensor tensors[PARAMETERS];
    save (plain, ACCEL_SAVE_MASTERS, wanted);
    save (sharded, ACCEL_SAVE_MASTERS, masters);
    save (sharded, ACCEL_SAVE_AS, rounded);
    save (sharded, ACCEL_SAVE_TRAINED, parameters);
    right (!is_first || !is_exact || scratch_same (wanted, masters) > 100, "other masters than without sharding");
    right (!is_first || scratch_same (rounded, parameters) > 100, "masters that are not those of the parameters");
    for (int i = 0; i < PARAMETERS; i++)
        tensors[i] = *sharded->model->trained[i].data;
    check_memory (sharded, "master", tensors);
    rank_must (accel_summon_full_params (sharded->model, &err), &err);
    rank_must (accel_unwrap_model (sharded->acc, sharded->model, &err), &err);
    save (sharded, ACCEL_SAVE_MASTERS, masters);
    save (sharded, ACCEL_SAVE_AS, rounded);
    right (!is_first || scratch_same (rounded, parameters) > 100, "other numbers when it is not prepared");
    right (!is_first || size_of (masters) > 1.9 * size_of (parameters), "fewer bits when it is not prepared");
}

static void
run (struct accel *acc)
{
    struct net plain, sharded;
    make (&plain, acc, false);
    make (&sharded, acc, true);
    enum accel_sharding is = accel_model_sharding (sharded.model);
    right (is == (accel_num_processes (acc) > 1 ? way->sharding.strategy : ACCEL_SHARDING_NONE), "strategy %d",
           (int) is);
    for (int i = 0; i < STEPS; i++) {
        train (&plain);
        train (&sharded);
        right (is_close (plain.loss, sharded.loss), "step %d: the loss is %.9g, but %.9g without sharding", i,
               sharded.loss, plain.loss);
        if (sharding_has_gradients (sharded.model) && !scene->owns)
            check_memory (&sharded, "gradient", sharded.grad);
        if (sharded.model->sharding.layers)
            check_memory (&sharded, "parameter", sharded.data);
    }
    rank_must (accel_summon_full_params (sharded.model, &err), &err);
    compare_parameters (&plain, &sharded);
    rank_must (accel_summon_full_params_end (sharded.model, &err), &err);
    if (scene->dtype && !has_other_engine)
        check_masters (&plain, &sharded);
    end (&sharded);
    end (&plain);
}

/* ---- scenes ---- */

#define SHARDED(strategy_) .sharding = { .strategy = ACCEL_SHARDING_##strategy_ }
#define SMALL_BUCKETS .ddp = { .bucket_cap_mb = 0.1 }

static const struct way ways[] = {
    { "stage 2", SHARDED (SHARD_GRAD_OP) },
    { "stage 3", SHARDED (FULL_SHARD) },
    { "stage 3, layers ahead", .sharding = { .strategy = ACCEL_SHARDING_FULL_SHARD, .prefetch_layers = 2 },
      ACCEL_OVERLAP_ALWAYS },
    { "stage 2, parameters shared", .sharding = { .strategy = ACCEL_SHARDING_SHARD_GRAD_OP,
      .share_parameters = true } },
    { "stage 3, parameters shared", .sharding = { .strategy = ACCEL_SHARDING_FULL_SHARD, .share_parameters = true } },
    { "stage 3, 3 layers ahead, few at once", .sharding = { .strategy = ACCEL_SHARDING_FULL_SHARD,
      .prefetch_layers = 3, .max_live_params = 50000 }, ACCEL_OVERLAP_ALWAYS },
    { "hybrid", .sharding = { .strategy = ACCEL_SHARDING_HYBRID_SHARD, .group_size = 2 }, .ranks = 4 },
    { "hybrid, stage 2", .sharding = { .strategy = ACCEL_SHARDING_HYBRID_SHARD_ZERO2, .group_size = 2,
      .share_parameters = true }, ACCEL_OVERLAP_ALWAYS, .ranks = 4 },
    { "stage 1", SHARDED (OPTIMIZER) },
    { "stage 1, parameters shared", .sharding = { .strategy = ACCEL_SHARDING_OPTIMIZER, .share_parameters = true } },
};

static const struct scene scenes[] = {
    { "trained", SMALL_BUCKETS },
    { "one bucket", .is_silent = true },
    { "a thread", .ddp = { .bucket_cap_mb = 0.1, .overlap = ACCEL_OVERLAP_ALWAYS } },
    { "no overlap", .ddp = { .bucket_cap_mb = 0.1, .overlap = ACCEL_OVERLAP_NEVER } },
    { "gradients of the program's", SMALL_BUCKETS, .owns = true },
    { "bfloat16", SMALL_BUCKETS, .dtype = ACCEL_BFLOAT16 },
    { "fp16", SMALL_BUCKETS, .precision = "fp16" },
    { "fp16, clipped", SMALL_BUCKETS, .precision = "fp16", .clip = 3, .is_near = true },
    { "sent in 16 bits", .ddp = { .bucket_cap_mb = 0.1, .comm_hook = ACCEL_COMM_HOOK_BF16 } },
    { "clipped", SMALL_BUCKETS, .clip = 3, .is_near = true },
    { "the largest clipped", SMALL_BUCKETS, .clip = 0.1, .norm_type = (double) INFINITY },
    { "another norm", SMALL_BUCKETS, .clip = 3, .norm_type = 3, .is_near = true },
    { "values clipped", SMALL_BUCKETS, .clip_value = 0.1 },
    { "passes without averages", SMALL_BUCKETS, .passes = 3 },
    { "passes with averages", SMALL_BUCKETS, .passes = 3, .syncs_each = true, .is_near = true },
    { "overwritten", SMALL_BUCKETS, .overwrites = true },
    { "layers in any order", SMALL_BUCKETS, .is_erratic = true },
    { "averaged by the program", SMALL_BUCKETS, .averages = true, .is_silent = true },
    { "overwritten and averaged by the program", SMALL_BUCKETS, .averages = true, .is_silent = true,
      .overwrites = true, .passes = 2 },
    { "each pass clipped", SMALL_BUCKETS, .clip = 3, .clips_each = true, .passes = 3, .is_near = true },
    { "fp16, skipped steps", SMALL_BUCKETS, .precision = "fp16", .skips = true, .is_always = true },
    { "unused parameters", .ddp = { .bucket_cap_mb = 0.1, .find_unused_parameters = true }, .has_unused = true },
    { "unused parameters, passes with averages", .ddp = { .bucket_cap_mb = 0.1, .find_unused_parameters = true },
      .has_unused = true, .passes = 2, .syncs_each = true, .is_near = true },
};

enum { WAYS = sizeof ways / sizeof *ways, SCENES = sizeof scenes / sizeof *scenes };

/* Of all combinations, the first two ways in each scene, and a third of the others. */
static bool
is_chosen (int w, int s)
{
    const char *length = getenv ("TEST_LONG");
    return w < 2 || scenes[s].is_always || (w + s) % 3 == 0 || (length && strcmp (length, "no") != 0);
}

static void
choose (int w, int s)
{
    way = &ways[w];
    scene = &scenes[s];
    setenv (ENV_MIXED_PRECISION, scene->precision ? scene->precision : "no", 1);
}

/* In a job that is there: combination NUMBER, and every EACH-th from there. */
static int
run_job (int number, int each)
{
    static char texts[RANKS_MOST][RANKS_TEXT];
    struct accel *acc;
    bool good = true;
    ranks_texts = texts;
    has_other_engine = true;
    for (; good && number < WAYS * SCENES; number += each) {
        choose (number / SCENES, number % SCENES);
        accel_check (accel_open (&acc, NULL, &err), &err);
        ranks_self = accel_process_index (acc);
        bool runs = !way->ranks || way->ranks == accel_num_processes (acc);
        if (runs)
            run (acc);
        good = !*texts[ranks_self];
        if (!good || (runs && !ranks_self))
            printf ("rank %d, %s: %s: %s\n", ranks_self, way->name, scene->name, good ? "good" : texts[ranks_self]);
        accel_close (acc);
    }
    return !good;
}

int
main (int argc, char **argv)
{
    char name[200];
    if (argc > 3 && !strcmp (argv[1], "job"))
        return run_job ((int) strtol (argv[2], NULL, 10), (int) strtol (argv[3], NULL, 10));
    scratch_folder ();
    for (int w = 0; w < WAYS; w++)
        for (int s = 0; s < SCENES; s++) {
            choose (w, s);
            snprintf (name, sizeof name, "%s: %s", way->name, scene->name);
            if (is_chosen (w, s))
                as_ranks (way->ranks ? way->ranks : 2 + (w + s) % 3, name, run);
        }
    return done_testing ();
}
