/* SPDX-License-Identifier: Apache-2.0 */
/* Training at its edges, seen from the inside: which gradients share a bucket, what PowerSGD keeps and draws, what a
 * state must have to be loaded, and what ranks must agree on. */
#include <config.h>

#include "lib/comm/comm_object.h"
#include "lib/state/state_dict.h"
#include "lib/state/state_object.h"
#include "lib/train/optimizer/optimizer_object.h"
#include "lib/train/reducer/power_sgd.h"
#include "tests/ranks.h"
#include "tests/scratch.h"

#include <accel/accel.h>

#include <math.h>

enum { MOST = 3 };

static struct accel_error err;

/* ---- a model ---- */

static int64_t shapes[MOST][2];
static DLTensor data[MOST], grads[MOST];
static struct accel_model *model;

static void
set_tensor (int i, enum accel_dtype dtype, int64_t rows, int64_t columns, void *grad)
{
    shapes[i][0] = rows;
    shapes[i][1] = columns;
    data[i] = (DLTensor){ .device = { kDLCPU, 0 }, .ndim = columns ? 2 : 1, .dtype = accel_dtype_to_dl (dtype),
                          .shape = shapes[i] };
    grads[i] = data[i];
    grads[i].data = grad;
}

static void
make_model (int count)
{
    static const char *const names[MOST] = { "a", "b", "c" };
    struct accel_parameter parameters[MOST];
    for (int i = 0; i < count; i++)
        parameters[i] = (struct accel_parameter){ names[i], &data[i], &grads[i] };
    rank_must (accel_model_create (&model, parameters, (size_t) count, &err), &err);
}

static void
set_ddp (struct accel_ddp_options options)
{
    rank_must (accel_model_set_ddp (model, &options, &err), &err);
}

/* ---- buckets ---- */

static bool
together (int i, int j)
{
    return model->span_of[i] == model->span_of[j];
}

/* Small neighbours, of one type and of two, and one by itself. */
static void
test_neighbours (struct accel *acc)
{
    static float own[64], far[16];
    set_tensor (0, ACCEL_FLOAT32, 8, 0, own);
    set_tensor (1, ACCEL_FLOAT32, 8, 0, own + 8);
    set_tensor (2, ACCEL_FLOAT32, 8, 0, far);
    make_model (3);
    rank_must (accel_prepare (acc, &err, model), &err);
    right (together (0, 1) && !model->spans[model->span_of[0]].scattered, "neighbours are copied");
    right (!together (1, 2) && model->spans[model->span_of[2]].scattered, "one by itself is not copied");
    accel_model_destroy (model);
    set_tensor (1, ACCEL_BFLOAT16, 8, 0, own + 8);
    make_model (2);
    rank_must (accel_prepare (acc, &err, model), &err);
    right (!together (0, 1), "neighbours of two types are one bucket");
    accel_model_destroy (model);
}

/* More than what is copied together. */
static void
test_large (struct accel *acc)
{
    enum { LARGE = 10000 };
    static float own[3 * LARGE];
    set_tensor (0, ACCEL_FLOAT32, LARGE, 0, own);
    set_tensor (1, ACCEL_FLOAT32, LARGE, 0, own + 2 * LARGE);
    make_model (2);
    rank_must (accel_prepare (acc, &err, model), &err);
    right (!together (0, 1) && model->span_count == 2, "%zu buckets: those that are not neighbours are one",
           model->span_count);
    accel_model_destroy (model);
}

/* The first bucket is small, the others are not. */
static void
test_limits (struct accel *acc)
{
    enum { MUCH = 400000 };
    for (int i = 0; i < 3; i++)
        set_tensor (i, ACCEL_FLOAT32, MUCH, 0, NULL);
    make_model (3);
    rank_must (accel_prepare (acc, &err, model), &err);
    right (model->span_count == 2 && together (0, 1) && !together (1, 2), "%zu buckets", model->span_count);
    accel_model_destroy (model);
}

/* ---- memory of the engine ---- */

static struct accel_engine counting;
static const struct accel_engine *real;
static int live, calls;
static size_t counts[16]; /* of the latest float32 sums */

static enum accel_status
count_alloc (void *transport, void **memory, size_t bytes, struct accel_error *why)
{
    enum accel_status status = real->alloc (transport, memory, bytes, why);
    live += !status;
    return status;
}

static void
count_free (void *transport, void *memory)
{
    live--;
    real->free (transport, memory);
}

static enum accel_status
count_run (void *transport, const struct accel_engine_call *call, struct accel_error *why)
{
    if (call->kind == ACCEL_ENGINE_ALL_REDUCE && call->dtype == ACCEL_FLOAT32 && calls < 16)
        counts[calls++] = call->count;
    return real->run (transport, call, why);
}

static void
count_engine (struct accel *acc)
{
    real = accel_world (acc)->links[0].engine;
    counting = *real;
    counting.alloc = count_alloc;
    counting.free = count_free;
    counting.run = count_run;
    accel_world (acc)->links[0].engine = &counting;
}

static void
test_hooks (struct accel *acc)
{
    static const enum accel_comm_hook hooks[]
        = { ACCEL_COMM_HOOK_NONE, ACCEL_COMM_HOOK_BF16, ACCEL_COMM_HOOK_POWER_SGD };
    count_engine (acc);
    for (size_t i = 0; i < sizeof hooks / sizeof *hooks; i++) {
        set_tensor (0, ACCEL_FLOAT32, 20, 30, NULL);
        make_model (1);
        set_ddp ((struct accel_ddp_options){ .comm_hook = hooks[i] });
        rank_must (accel_prepare (acc, &err, model), &err);
        right (live > 0, "hook %zu has no memory", i);
        accel_model_destroy (model);
        right (!live, "hook %zu: %d pieces of memory stay", i, live);
    }
    accel_world (acc)->links[0].engine = real;
}

/* ---- PowerSGD ---- */

static bool reports_all, is_zero, has_twins; /* two matrices with the same gradient */

static enum accel_status
backward (void *user, float scale, struct accel_error *why)
{
    (void) user;
    for (int i = 0; i < 2; i++)
        for (size_t j = 0; j < accel_tensor_count (&grads[i]); j++)
            ((float *) grads[i].data)[j] = is_zero ? 0 : scale * sinf ((float) (j * 7 + 1));
    if (!model->ddp.find_unused_parameters)
        return ACCEL_OK;
    return reports_all && accel_grad_ready (model, 1, why) ? ACCEL_ERR_CALLBACK : accel_grad_ready (model, 0, why);
}

static void
pass (struct accel *acc)
{
    calls = 0;
    rank_must (accel_backward (acc, model, 0, backward, NULL, &err), &err);
}

static void
make_power (struct accel *acc, struct accel_ddp_options options)
{
    options.comm_hook = ACCEL_COMM_HOOK_POWER_SGD;
    options.start_iter = 1;
    options.overlap = ACCEL_OVERLAP_NEVER;
    set_tensor (0, ACCEL_FLOAT32, 3, 40, NULL);
    set_tensor (1, ACCEL_FLOAT32, has_twins ? 3 : 5, has_twins ? 40 : 0, NULL);
    make_model (2);
    set_ddp (options);
    rank_must (accel_prepare (acc, &err, model), &err);
    pass (acc);
}

static void
test_power_rank (struct accel *acc)
{
    make_power (acc, (struct accel_ddp_options){ .matrix_approximation_rank = 5, .min_compression_rate = 0.01 });
    const struct power_sgd *power = model->reducer->power_sgd;
    right (power->matrices[0].rank == 3 && power->matrices[1].rank <= 1, "ranks %zu and %zu", power->matrices[0].rank,
           power->matrices[1].rank);
    accel_model_destroy (model);
}

/* Cold, each pass draws; the seeds that are too large are left out. */
static void
test_power_draws (struct accel *acc)
{
    enum { MASK = (1 << 30) - 1, BELOW = 1000000000 };
    for (int cold = 0; cold < 2; cold++) {
        make_power (acc, (struct accel_ddp_options){ .warm_start = cold ? ACCEL_NO : ACCEL_YES });
        struct power_sgd *power = model->reducer->power_sgd;
        struct accel_generator before = power->seeds, trial;
        uint32_t drawn = 0;
        rank_must (accel_no_sync (acc, model, &err), &err);
        pass (acc);
        rank_must (accel_no_sync_end (acc, model, &err), &err);
        right (!memcmp (&before, &power->seeds, sizeof before), "a pass that averages nothing draws");
        pass (acc);
        right (memcmp (&before, &power->seeds, sizeof before) != 0, "the first compressed pass draws nothing");
        for (uint64_t seed = 0; drawn < BELOW; seed++) {
            generator_init (&before, seed);
            trial = before;
            drawn = generator_next_32 (&trial) & MASK;
        }
        power->seeds = before;
        pass (acc);
        if (cold) {
            while ((generator_next_32 (&before) & MASK) >= BELOW)
                continue;
            right (before.left == power->seeds.left && before.next == power->seeds.next, "a seed that is too large");
        } else
            right (!memcmp (&before, &power->seeds, sizeof before), "a warm pass draws");
        accel_model_destroy (model);
    }
}

/* After gradients of zero, Q is drawn anew, which decides what a gradient of two directions becomes. */
static void
test_power_redraws (struct accel *acc)
{
    float first[3 * 40];
    make_power (acc, (struct accel_ddp_options){ .use_error_feedback = ACCEL_NO });
    for (int turn = 0; turn < 2; turn++) {
        is_zero = true;
        pass (acc);
        is_zero = false;
        pass (acc);
        bool is_same = turn && !memcmp (first, grads[0].data, sizeof first);
        right (!is_same, "the same numbers in another pass");
        right (memcmp (grads[1].data, grads[0].data, sizeof first) != 0, "the same numbers for another matrix");
        memcpy (first, grads[0].data, sizeof first);
    }
    accel_model_destroy (model);
}

/* A state of a model that did not compress begins PowerSGD again. */
static void
test_power_begins_again (struct accel *acc)
{
    float first[3 * 40];
    set_tensor (0, ACCEL_FLOAT32, 3, 40, NULL);
    set_tensor (1, ACCEL_FLOAT32, 3, 40, NULL);
    make_model (2);
    rank_must (accel_prepare (acc, &err, model), &err);
    rank_must (accel_save_state (acc, "plain", &err), &err);
    accel_model_destroy (model);
    make_power (acc, (struct accel_ddp_options){ 0 });
    for (int turn = 0; turn < 2; turn++) {
        pass (acc);
        pass (acc);
        right (!turn || !memcmp (first, grads[0].data, sizeof first), "other numbers after a state was loaded");
        memcpy (first, grads[0].data, sizeof first);
        rank_must (accel_load_state (acc, "plain", &err), &err);
        pass (acc);
    }
    accel_model_destroy (model);
}

/* P and Q of the first matrix alone: a vector, or a second matrix, is in no pass. */
static void
test_power_mask (struct accel *acc)
{
    count_engine (acc);
    for (int twins = 0; twins < 2; twins++) {
        has_twins = twins;
        reports_all = false;
        make_power (acc, (struct accel_ddp_options){ .find_unused_parameters = true });
        pass (acc);
        right (calls == 2 && counts[0] == 3 && counts[1] == 40, "unused: %d sums, of %zu and %zu", calls, counts[0],
               counts[1]);
        reports_all = true;
        pass (acc);
        right (calls == 2 && counts[0] == 3 + (twins ? 3 : 5), "used: %d sums, of %zu and %zu", calls, counts[0],
               counts[1]);
        accel_model_destroy (model);
    }
    accel_world (acc)->links[0].engine = real;
}

/* ---- what is refused ---- */

static void
test_options (struct accel *acc)
{
    struct accel_optimizer *optimizer;
    set_tensor (0, ACCEL_FLOAT32, 2, 3, NULL);
    make_model (1);
    const struct accel_ddp_options odd = { .bucket_cap_mb = NAN }, even = { .bucket_cap_mb = 1 };
    rank_fails (accel_model_set_ddp (model, &odd, &err), ACCEL_ERR_INVALID, &err, "bucket_cap_mb is nan");
    rank_must (accel_optimizer_create (&optimizer, model, ACCEL_ADAMW, NULL, &err), &err);
    right (fabs (optimizer->groups[0].own.number[GROUP_WEIGHT_DECAY] - 0.01) < 1e-12, "AdamW's decay is %g",
           optimizer->groups[0].own.number[GROUP_WEIGHT_DECAY]);
    rank_must (accel_prepare (acc, &err, model, optimizer), &err);
    rank_fails (accel_model_set_ddp (model, &even, &err), ACCEL_ERR_INVALID, &err, "the model is already prepared");
    struct accel other = *acc;
    rank_fails (accel_unwrap_model (&other, model, &err), ACCEL_ERR_INVALID, &err, "not prepared with this");
    accel_optimizer_destroy (optimizer);
    accel_model_destroy (model);
}

static void
test_ddp_differs (struct accel *acc)
{
    set_tensor (0, ACCEL_FLOAT32, 2, 3, NULL);
    make_model (1);
    set_ddp ((struct accel_ddp_options){ .bucket_cap_mb = accel_process_index (acc) + 1 });
    rank_fails (accel_prepare (acc, &err, model), ACCEL_ERR_INVALID, &err, "sharding on rank 1 differ");
    accel_model_destroy (model);
}

static void
test_groups_differ (struct accel *acc)
{
    const size_t mine = (size_t) accel_process_index (acc);
    struct accel_param_group group = { .name = "chosen", .indices = &mine, .index_count = 1 };
    const struct accel_optimizer_options options = { .groups = &group, .group_count = 1 };
    struct accel_optimizer *optimizer;
    for (int i = 0; i < 2; i++)
        set_tensor (i, ACCEL_FLOAT32, 2, 3, NULL);
    make_model (2);
    rank_must (accel_optimizer_create (&optimizer, model, ACCEL_ADAMW, &options, &err), &err);
    rank_fails (accel_prepare (acc, &err, model, optimizer), ACCEL_ERR_INVALID, &err, "the group of parameter 'a'");
    accel_optimizer_destroy (optimizer);
    accel_model_destroy (model);
}

/* ---- states ---- */

static enum accel_status
load (struct object *object, const char *path)
{
    struct accel_state_dict state;
    struct source source;
    state_dict_init (&state);
    rank_must (source_open (&source, path, &err), &err);
    enum accel_status status = state_dict_open (&state, &source, &err);
    if (!status)
        status = object->kind->load (object, &state, &err);
    state_dict_release (&state);
    return status;
}

static void
test_state (struct accel *acc)
{
    float stored[6] = { 1, 2, 3, 4, 5, 6 };
    int64_t shape[2] = { 2, 3 };
    DLTensor tensor = { .data = stored, .device = { kDLCPU, 0 }, .ndim = 2, .shape = shape,
                        .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) }, whole = tensor;
    const struct accel_safetensors_tensor tensors[] = { { "a", &tensor }, { "more", &tensor } };
    const struct accel_safetensors_tensor other = { "a", &whole };
    (void) acc;
    whole.dtype = accel_dtype_to_dl (ACCEL_INT32);
    set_tensor (0, ACCEL_FLOAT32, 2, 3, NULL);
    make_model (1);
    model->widened = true;
    rank_must (accel_safetensors_save ("model", tensors, 1, NULL, &err), &err);
    rank_must (load (&model->object, "model"), &err);
    right (!memcmp (data[0].data, stored, sizeof stored) && !model->widened, "masters keep what they were");
    rank_must (accel_safetensors_save ("more", tensors, 2, NULL, &err), &err);
    rank_fails (load (&model->object, "more"), ACCEL_ERR_FORMAT, &err, "unexpected tensor 'more'");
    rank_must (accel_safetensors_save ("other", &other, 1, NULL, &err), &err);
    rank_fails (load (&model->object, "other"), ACCEL_ERR_FORMAT, &err, "'a'");
    accel_model_destroy (model);
}

static void
test_texts (struct accel *acc)
{
    static const char sgd[] = "{\"kind\": \"SGD\", \"step\": 1}", bad[] = "{\"kind\": \"\xff\"}";
    struct accel_state_dict state;
    struct accel_optimizer *optimizer;
    (void) acc;
    set_tensor (0, ACCEL_FLOAT32, 2, 3, NULL);
    make_model (1);
    rank_must (accel_optimizer_create (&optimizer, model, ACCEL_ADAMW, NULL, &err), &err);
    state_dict_init (&state);
    rank_must (state_dict_parse (&state, sgd, sizeof sgd - 1, &err), &err);
    rank_fails (optimizer->object.kind->load (&optimizer->object, &state, &err), ACCEL_ERR_FORMAT, &err,
                "the state is that of SGD");
    state_dict_release (&state);
    state_dict_init (&state);
    rank_fails (state_dict_parse (&state, bad, sizeof bad - 1, &err), ACCEL_ERR_FORMAT, &err, "not valid UTF-8");
    state_dict_release (&state);
    state_dict_init (&state);
    accel_state_dict_set_int64 (&state, "step", 1);
    accel_state_dict_set_tensor (&state, "model", &data[0]);
    right (!state.failed, "%s", state.failure.text);
    accel_state_dict_set_text (&state, "model", "a text");
    right (state.failed && strstr (state.failure.text, "'model': duplicate name"), "a tensor and a text of one name");
    state_dict_release (&state);
    accel_optimizer_destroy (optimizer);
    accel_model_destroy (model);
}

/* What was accumulated is forgotten. */
static void
test_free_memory (struct accel *acc)
{
    rank_must (accel_set_gradient_accumulation_steps (acc, 2, &err), &err);
    rank_must (accel_accumulate (acc, &err), &err);
    right (!accel_sync_gradients (acc), "the first of two passes averages");
    rank_must (accel_free_memory (acc, &err), &err);
    rank_must (accel_accumulate (acc, &err), &err);
    right (!accel_sync_gradients (acc), "accel_free_memory() forgets no pass");
    rank_must (accel_accumulate (acc, &err), &err);
    right (accel_sync_gradients (acc), "the second of two passes does not average");
}

int
main (void)
{
    setenv (ENV_TIMEOUT_MS, "300000", 1);
    scratch_enter ();
    as_ranks (2, "neighbours in memory", test_neighbours);
    as_ranks (2, "large gradients that are not neighbours", test_large);
    as_ranks (2, "sizes of buckets", test_limits);
    as_ranks (2, "memory of hooks", test_hooks);
    as_ranks (2, "PowerSGD: ranks above the smaller dimension", test_power_rank);
    as_ranks (2, "PowerSGD: when it draws", test_power_draws);
    has_twins = true;
    as_ranks (2, "PowerSGD: what it draws anew", test_power_redraws);
    as_ranks (2, "PowerSGD: a state without its own", test_power_begins_again);
    has_twins = false;
    as_ranks (2, "PowerSGD: parameters that are not used", test_power_mask);
    as_ranks (1, "options that are refused", test_options);
    as_ranks (2, "options that differ over the ranks", test_ddp_differs);
    as_ranks (2, "parameter groups that differ over the ranks", test_groups_differ);
    as_ranks (1, "a model's state", test_state);
    as_ranks (1, "an optimizer's state, and texts", test_texts);
    as_ranks (1, "accel_free_memory() between two passes", test_free_memory);
    return done_testing ();
}
