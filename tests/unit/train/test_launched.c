/* SPDX-License-Identifier: Apache-2.0 */
/* What the launcher's variables and DeepSpeed's configuration file make of a model and a job. */
#include <config.h>

#include "lib/train/model_object.h"
#include "tests/ranks.h"
#include "tests/scratch.h"
#include "util/envnames.h"

#include <accel/accumulate.h>
#include <accel/segment.h>
#include <accel/state.h>

#include <unistd.h>

#define DEEPSPEED ENV_USE_DEEPSPEED "=true "
#define ZERO(...) "{\"zero_optimization\": {" __VA_ARGS__ "}}"
#define BESIDE_ZERO(...) "{\"zero_optimization\": {}, " __VA_ARGS__ "}"

#define FSDP ENV_USE_FSDP "=true "
#define GRID(replicas, shards)                                                                        \
    ENV_USE_PARALLELISM "=true " ENV_PARALLELISM_DP_REPLICATE_SIZE "=" #replicas " " ENV_PARALLELISM_DP_SHARD_SIZE \
                        "=" #shards
#define STRATEGY(number) "strategy " #number ", states 1 -, parameters 1 -, from 0, live 0, "
#define FULL STRATEGY (4)
#define WHOLE "groups 0, ahead 0"

static const struct row {
    const char *file;        /* NULL: there is none */
    const char *environment; /* NAME=VALUE, separated by blanks */
    const char *wanted;
} rows[] = {
    { NULL, "", STRATEGY (1) WHOLE },
    { NULL, DEEPSPEED, STRATEGY (3) WHOLE },
    { NULL, DEEPSPEED ENV_DEEPSPEED_CONFIG_FILE "=none " ENV_DEEPSPEED_FIELDS "=zero_stage", STRATEGY (3) WHOLE },
    { ZERO ("\"stage\": 3"), DEEPSPEED ENV_DEEPSPEED_FIELDS "=deepspeed_config_file,zero3_init_flag",
      STRATEGY (4) WHOLE },
    { ZERO ("\"stage\": 3"), "", STRATEGY (1) WHOLE },
    { ZERO ("\"stage\": 3"), DEEPSPEED, STRATEGY (4) WHOLE },
    { ZERO ("\"stage\": 1"), DEEPSPEED ENV_ZERO_STAGE "=3", STRATEGY (2) WHOLE },
    { ZERO ("\"stage\": \"auto\""), DEEPSPEED ENV_ZERO_STAGE "=3", STRATEGY (4) WHOLE },
    { ZERO ("\"stage\": \"auto\""), DEEPSPEED, STRATEGY (3) WHOLE },
    { ZERO (), DEEPSPEED ENV_ZERO_STAGE "=3", STRATEGY (1) WHOLE },
    { ZERO ("\"stage\": 3, \"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": true}, "
            "\"offload_param\": {\"device\": \"nvme\", \"nvme_path\": \"/d\"}"),
      DEEPSPEED, "strategy 4, states 2 -, parameters 3 /d, from 0, live 0, groups 0, ahead 0" },
    { ZERO ("\"stage\": 3, \"offload_optimizer\": {\"nvme_path\": \"\\u002fe\", \"device\": \"nvme\"}, "
            "\"offload_param\": null"),
      DEEPSPEED ENV_OFFLOAD_PARAM "=cpu",
      "strategy 4, states 3 /e, parameters 1 -, from 0, live 0, groups 0, ahead 0" },
    { ZERO ("\"stage\": 3, \"offload_optimizer\": {\"device\": \"auto\", \"nvme_path\": \"auto\"}, "
            "\"offload_param\": {\"device\": \"auto\"}"),
      DEEPSPEED ENV_OFFLOAD_OPTIMIZER "=nvme " ENV_OFFLOAD_OPTIMIZER_PATH "=/f " ENV_OFFLOAD_PARAM "=cpu",
      "strategy 4, states 3 /f, parameters 2 -, from 0, live 0, groups 0, ahead 0" },
    { ZERO ("\"stage\": 3, \"stage3_max_live_parameters\": 1e9, \"stage3_param_persistence_threshold\": 1e5"),
      DEEPSPEED, "strategy 4, states 1 -, parameters 1 -, from 100000, live 1000000000, groups 0, ahead 0" },
    { ZERO ("\"stage\": 2, \"stage3_param_persistence_threshold\": 1e5"), DEEPSPEED, STRATEGY (3) WHOLE },
    { ZERO ("\"stage\": 3, \"stage3_max_live_parameters\": 0"), DEEPSPEED,
      "strategy 4, states 1 -, parameters 1 -, from 0, live 1, groups 0, ahead 0" },
    { "{\"train_batch_size\": \"auto\", \"steps_per_print\": Infinity, \"other\": [{\"stage\": 1}, -1.5e-3], "
      "\"zero_optimization\": {\"stage\": 1, \"other\": {\"device\": 7}}, \"zero_optimization.stage\": 2}",
      DEEPSPEED, STRATEGY (2) WHOLE },
    { "{\"a\": NaN, \"b\": [-Infinity, {\"c\": Infinity}], \"zero_optimization\": {\"stage\": 1, \"d\": -Infinity, "
      "\"stage3_max_live_parameters\": Infinity}}", DEEPSPEED, STRATEGY (2) WHOLE },
    { NULL, DEEPSPEED ENV_DEEPSPEED_CONFIG_FILE "=eyJ6ZXJvX29wdGltaXphdGlvbiI6eyJzdGFnZSI6MX19",
      STRATEGY (2) WHOLE },
    { NULL, DEEPSPEED ENV_DEEPSPEED_CONFIG_FILE "=" "{\"zero_optimization\":{\"stage\":1}}", STRATEGY (2) WHOLE },
    { NULL, DEEPSPEED ENV_DEEPSPEED_CONFIG_FILE "=CnsiemVyb19vcHRpbWl6YXRpb24iOnsic3RhZ2UiOjF9LCJhIjoiPj4-Pz8_fn5-In0=",
      STRATEGY (2) WHOLE },
    { NULL, FSDP ENV_FSDP_OFFLOAD "=true",
      "strategy 4, states 2 -, parameters 2 -, from 0, live 0, groups 0, ahead 0" },
    { NULL, FSDP ENV_FSDP_BACKWARD_PREFETCH "=no_prefetch " ENV_FSDP_FORWARD_PREFETCH "=false",
      FULL "groups 0, ahead none" },
    { NULL, FSDP ENV_FSDP_BACKWARD_PREFETCH "=NO_PREFETCH " ENV_FSDP_FORWARD_PREFETCH "=true", FULL WHOLE },
    { NULL, FSDP ENV_FSDP_BACKWARD_PREFETCH "=BACKWARD_POST", FULL WHOLE },
    { NULL, FSDP ENV_FSDP_VERSION "=2 " ENV_FSDP_BACKWARD_PREFETCH "=NO_PREFETCH", FULL WHOLE },
    { NULL, FSDP ENV_FSDP_STRATEGY "=no_shard", STRATEGY (1) WHOLE },
    { NULL, FSDP ENV_FSDP_STRATEGY "=Shard_Grad_Op", STRATEGY (3) WHOLE },
    { NULL, FSDP ENV_PARALLELISM_DP_SHARD_SIZE "=4", FULL WHOLE },
    { NULL, FSDP GRID (2, 4), FULL "groups 4, ahead 0" },
    { NULL, FSDP ENV_FSDP_VERSION "=2 " GRID (1, 4), FULL "groups 4, ahead 0" },
    { NULL, FSDP ENV_FSDP_VERSION "=2 " GRID (2, 1), FULL WHOLE },
    { NULL, FSDP ENV_FSDP_VERSION "=2 " GRID (2, 4), STRATEGY (5) "groups 4, ahead 0" },
    { NULL, FSDP ENV_FSDP_VERSION "=2 " ENV_FSDP_RESHARD "=false " GRID (2, 4), STRATEGY (6) "groups 4, ahead 0" },
    { NULL, GRID (2, 4), STRATEGY (1) "groups 4, ahead 0" },
    { NULL, DEEPSPEED ENV_ZERO_STAGE "=3 " GRID (2, 4), FULL "groups 4, ahead 0" },
    { NULL, DEEPSPEED ENV_ZERO_STAGE "=0 " FSDP ENV_FSDP_VERSION "=2 " GRID (2, 4), STRATEGY (1) "groups 4, ahead 0" },
}, jobs[] = {
    { NULL, "", "1 passes, norm inf, no" },
    { NULL, ENV_GRADIENT_ACCUMULATION_STEPS "=auto", "1 passes, norm inf, no" },
    { NULL, DEEPSPEED ENV_GRADIENT_ACCUMULATION_STEPS "=2", "2 passes, norm 1, no" },
    { NULL, DEEPSPEED ENV_GRADIENT_CLIPPING "=auto", "1 passes, norm 1, no" },
    { NULL, DEEPSPEED ENV_GRADIENT_CLIPPING "=0.5", "1 passes, norm 0.5, no" },
    { NULL, DEEPSPEED ENV_GRADIENT_CLIPPING "=0", "1 passes, norm inf, no" },
    { BESIDE_ZERO ("\"gradient_accumulation_steps\": 4, \"gradient_clipping\": 0.5, \"bf16\": {\"enabled\": true}"),
      DEEPSPEED ENV_GRADIENT_ACCUMULATION_STEPS "=2 " ENV_GRADIENT_CLIPPING "=3", "4 passes, norm 0.5, bf16" },
    { ZERO (), DEEPSPEED ENV_GRADIENT_ACCUMULATION_STEPS "=2 " ENV_GRADIENT_CLIPPING "=3", "1 passes, norm inf, no" },
    { BESIDE_ZERO ("\"gradient_accumulation_steps\": \"auto\", \"gradient_clipping\": \"auto\""),
      DEEPSPEED ENV_GRADIENT_ACCUMULATION_STEPS "=2 " ENV_GRADIENT_CLIPPING "=3", "2 passes, norm 3, no" },
    { BESIDE_ZERO ("\"gradient_clipping\": \"auto\""), DEEPSPEED, "1 passes, norm 1, no" },
    { BESIDE_ZERO ("\"gradient_clipping\": \"auto\""), DEEPSPEED ENV_GRADIENT_CLIPPING "=0", "1 passes, norm inf, no" },
    { BESIDE_ZERO ("\"gradient_clipping\": \"auto\""), DEEPSPEED ENV_GRADIENT_CLIPPING "=none",
      "1 passes, norm 1, no" },
    { BESIDE_ZERO ("\"gradient_clipping\": 0"), DEEPSPEED, "1 passes, norm inf, no" },
    { BESIDE_ZERO ("\"fp16\": {\"enabled\": true}"), DEEPSPEED ENV_MIXED_PRECISION "=no", "1 passes, norm inf, fp16" },
    { BESIDE_ZERO ("\"fp16\": {\"enabled\": \"auto\"}, \"bf16\": {\"enabled\": \"auto\"}"),
      DEEPSPEED ENV_MIXED_PRECISION "=fp16", "1 passes, norm inf, fp16" },
    { BESIDE_ZERO ("\"bf16\": {\"enabled\": false}"), DEEPSPEED ENV_MIXED_PRECISION "=bf16", "1 passes, norm inf, no" },
    { ZERO (), DEEPSPEED ENV_MIXED_PRECISION "=bf16", "1 passes, norm inf, bf16" },
    { BESIDE_ZERO ("\"fp16\": {}"), DEEPSPEED ENV_MIXED_PRECISION "=fp16", "1 passes, norm inf, no" },
    { BESIDE_ZERO ("\"fp16\": {\"enabled\": null}"), DEEPSPEED ENV_MIXED_PRECISION "=fp16",
      "1 passes, norm inf, no" },
    { BESIDE_ZERO ("\"fp16\": {\"loss_scale\": 0}"), DEEPSPEED ENV_MIXED_PRECISION "=bf16",
      "1 passes, norm inf, bf16" },
    { ZERO (), DEEPSPEED ENV_MIXED_PRECISION "=fp8", "1 passes, norm inf, fp8" },
    { NULL, FSDP ENV_FSDP_ACTIVATION_CHECKPOINTING "=true", "1 passes, norm inf, no, segments" },
    { NULL, FSDP ENV_FSDP_ACTIVATION_CHECKPOINTING "=false", "1 passes, norm inf, no" },
    { NULL, ENV_FSDP_ACTIVATION_CHECKPOINTING "=true", "1 passes, norm inf, no" },
    { NULL, ENV_FSDP_ACTIVATION_CHECKPOINTING "=maybe", "1 passes, norm inf, no" },
}, broken[] = {
    { NULL, DEEPSPEED ENV_DEEPSPEED_CONFIG_FILE "=nothing.json", "DeepSpeed's configuration file: " },
    { "{}", DEEPSPEED, "ds.json: zero_optimization is missing" },
    { "[]", DEEPSPEED, "ds.json:1: byte 0: expected an object" },
    { "", DEEPSPEED, "ds.json:1: byte 0: unexpected end" },
    { "{\"zero_optimization\": true}", DEEPSPEED, "ds.json:1: byte 22: zero_optimization is not an object" },
    { "{\n\"zero_optimization\": {\n\"stage\": 4}}", DEEPSPEED,
      "ds.json:3: byte 34: zero_optimization.stage is 4, but must be a stage from 0 to 3, or \"auto\"" },
    { ZERO ("\"stage\": 1.5"), DEEPSPEED, "zero_optimization.stage is 1.5, but" },
    { ZERO ("\"stage\": \"3\""), DEEPSPEED, "zero_optimization.stage is 3, but" },
    { ZERO ("\"stage\": true"), DEEPSPEED, "zero_optimization.stage is true, but" },
    { ZERO ("\"stage\": 1, \"stage\": 2"), DEEPSPEED, "duplicate zero_optimization.stage" },
    { ZERO ("\"offload_param\": {\"device\": \"disk\"}"), DEEPSPEED,
      "zero_optimization.offload_param.device is disk, but must be none, cpu or nvme" },
    { ZERO ("\"offload_param\": {\"nvme_path\": 7}"), DEEPSPEED, "offload_param.nvme_path is 7, but must be a folder" },
    { ZERO ("\"offload_param\": {\"nvme_path\": \"\\u0000\"}"), DEEPSPEED, "a NUL character" },
    { ZERO ("\"stage3_max_live_parameters\": 1e300"), DEEPSPEED, "stage3_max_live_parameters is 1e300, but" },
    { BESIDE_ZERO ("\"gradient_accumulation_steps\": 0"), DEEPSPEED, "gradient_accumulation_steps is 0, but" },
    { BESIDE_ZERO ("\"gradient_clipping\": NaN"), DEEPSPEED, "gradient_clipping is NaN, but must be a norm" },
    { BESIDE_ZERO ("\"gradient_clipping\": -Infinity"), DEEPSPEED, "gradient_clipping is -Infinity, but" },
    { BESIDE_ZERO ("\"gradient_clipping\": -NaN"), DEEPSPEED, "expected a value" },
    { BESIDE_ZERO ("\"gradient_clipping\": -1"), DEEPSPEED, "gradient_clipping is -1, but must be a norm" },
    { BESIDE_ZERO ("\"fp16\": {\"enabled\": 1}"), DEEPSPEED, "fp16.enabled is 1, but must be true or false" },
    { BESIDE_ZERO ("\"fp16\": {\"enabled\": \"true\"}"), DEEPSPEED, "fp16.enabled is true, but must be" },
    { BESIDE_ZERO ("\"fp16\": [{]"), DEEPSPEED, "fp16 is not an object" },
    { BESIDE_ZERO ("\"x\": \"\xff\""), DEEPSPEED, "not valid UTF-8" },
    { "{\"zero_optimization\": {}} {}", DEEPSPEED, "text after the end" },
    { "{\"zero_optimization\": {", DEEPSPEED, "unexpected end" },
    { BESIDE_ZERO ("\"bf16\": {\"enabled\": true}"), DEEPSPEED ENV_MIXED_PRECISION "=fp16",
      "mixed_precision is fp16, but DeepSpeed's configuration file enables bf16" },
    { ZERO (), DEEPSPEED ENV_DEEPSPEED_FIELDS "=deepspeed_config_file,zero_stage,zero3_init_flag,mixed_precision",
      "environment: ACCELERATE_CONFIG_DS_FIELDS: the launcher's configuration file has zero_stage, mixed_precision "
      "beside deepspeed_config_file" },
    { BESIDE_ZERO ("\"fp16\": {\"enabled\": true}"), DEEPSPEED ENV_MIXED_PRECISION "=fp8",
      "mixed_precision is fp8, but DeepSpeed's configuration file enables fp16" },
    { NULL, FSDP ENV_FSDP_ACTIVATION_CHECKPOINTING "=maybe",
      "environment: FSDP_ACTIVATION_CHECKPOINTING='maybe' is not a boolean" },
};

/* Set the variables of a row, or with @is_set false, remove them. */
static void
surround (const struct row *row, bool is_set)
{
    char environment[1024], *rest = environment, *pair;
    FILE *file = row->file ? fopen ("ds.json", "w") : NULL;
    if (row->file && (!file || fputs (row->file, file) < 0 || fclose (file)))
        exit (99);
    snprintf (environment, sizeof environment, "%s%s", row->environment,
              row->file ? " " ENV_DEEPSPEED_CONFIG_FILE "=ds.json" : "");
    while ((pair = strsep (&rest, " "))) {
        char *value = strchr (pair, '=');
        if (!value)
            continue;
        *value = '\0';
        if (is_set ? setenv (pair, value + 1, 1) : unsetenv (pair))
            exit (99);
    }
}

static const char *
or_dash (const char *path)
{
    return path ? path : "-";
}

static enum accel_status
create_model (struct accel_model **model, struct accel_error *err)
{
    static int64_t shape[] = { 8 };
    static DLTensor data; /* which the model keeps the address of */
    data = (DLTensor){ .device = { kDLCPU, 0 }, .ndim = 1, .shape = shape, .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
    struct accel_parameter parameter = { "w", &data, NULL };
    return accel_model_create (model, &parameter, 1, err);
}

static struct accel_model *
make_model (void)
{
    struct accel_error err;
    struct accel_model *model;
    if (create_model (&model, &err)) {
        printf ("Bail out! %s\n", err.text);
        exit (99);
    }
    return model;
}

static void
test_models (void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char got[256];
        surround (&rows[i], true);
        struct accel_model *model = make_model ();
        surround (&rows[i], false);
        const struct model_sharding *its = &model->sharding;
        snprintf (got, sizeof got, "strategy %d, states %d %s, parameters %d %s, from %llu, live %llu, groups %llu, "
                  "ahead %s",
                  (int) its->launched.strategy, (int) its->launched.offload_optimizer,
                  or_dash (its->launched.optimizer_path), (int) its->launched.offload_param,
                  or_dash (its->launched.param_path), (unsigned long long) its->min_num_params,
                  (unsigned long long) its->max_live_params, (unsigned long long) its->group_size,
                  its->prefetch_layers == ACCEL_NONE ? "none" : its->prefetch_layers ? "some" : "0");
        is_text (got, rows[i].wanted, rows[i].file ? rows[i].file : rows[i].environment);
        accel_model_destroy (model);
    }
}

/* What is no word of theirs is not taken for another one. */
static void
test_refused (void)
{
    static const struct row refused[] = {
        { NULL, FSDP ENV_FSDP_STRATEGY "=FOO", "environment: FSDP_SHARDING_STRATEGY='FOO' is not one of "
          "FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD, HYBRID_SHARD_ZERO2" },
        { NULL, FSDP ENV_FSDP_VERSION "=2 " ENV_FSDP_RESHARD "=FULL_SHARD", "environment: "
          "FSDP_RESHARD_AFTER_FORWARD='FULL_SHARD' is neither true nor false, as version 2 of FSDP needs" },
        { NULL, DEEPSPEED ENV_ZERO_STAGE "=7",
          "environment: ACCELERATE_DEEPSPEED_ZERO_STAGE='7' is not a stage from 0 to 3" },
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct accel_error err = { 0 };
        struct accel_model *model = NULL;
        surround (&refused[i], true);
        enum accel_status status = create_model (&model, &err);
        surround (&refused[i], false);
        is_text (status == ACCEL_ERR_INVALID ? err.text : "", refused[i].wanted, refused[i].environment);
        accel_model_destroy (model);
    }
}

static void
test_jobs (void)
{
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        struct accel_error err = { 0 };
        struct accel *acc;
        char got[ACCEL_ERROR_TEXT_SIZE + 64];
        surround (&jobs[i], true);
        enum accel_status status = accel_open (&acc, NULL, &err);
        surround (&jobs[i], false);
        snprintf (got, sizeof got, "%u passes, norm %g, %s%s", accel_gradient_accumulation_steps (acc),
                  accel_gradient_clipping (acc), status ? err.text : accel_mixed_precision (acc),
                  accel_activation_checkpointing (acc) ? ", segments" : "");
        is_text (got, jobs[i].wanted, jobs[i].file ? jobs[i].file : jobs[i].environment);
        accel_close (acc);
    }
}

/* A program's own numbers give way to the file's, but a total batch size has its own. */
static void
test_program (void)
{
    static const struct row row = { BESIDE_ZERO ("\"gradient_accumulation_steps\": 4"), DEEPSPEED, "" };
    static const struct row silent = { ZERO (), DEEPSPEED, "" };
    const struct accel_gradient_accumulation plugin = { .num_steps = 3 };
    const struct accel_options with_plugin = { .gradient_accumulation_plugin = &plugin };
    struct accel *acc;
    surround (&row, true);
    bool opened = !accel_open (&acc, &with_plugin, NULL);
    ok (opened && accel_gradient_accumulation_steps (acc) == 4, "the file comes before a plugin");
    accel_close (acc);
    surround (&silent, true);
    opened = !accel_open (&acc, &with_plugin, NULL);
    ok (opened && accel_gradient_accumulation_steps (acc) == 1, "as does a file that does not say it");
    accel_close (acc);
    opened = !accel_open (&acc, &(struct accel_options){ .total_batch_size = 8 }, NULL);
    ok (opened, "a total batch size is possible beside a file that does not say it");
    accel_close (acc);
    surround (&silent, false);
}

/* The file's threshold is of stage 3, also if the program chooses another stage than the file. */
static void
test_threshold (void)
{
    static const struct row row = { ZERO ("\"stage\": 3, \"stage3_param_persistence_threshold\": 1e5"), DEEPSPEED, "" };
    surround (&row, true);
    struct accel_model *model = make_model ();
    surround (&row, false);
    struct accel_sharding_options options = { .strategy = ACCEL_SHARDING_OPTIMIZER };
    ok (!accel_model_set_sharding (model, &options, NULL) && !model->sharding.min_num_params, "none in stage 1");
    options.strategy = ACCEL_SHARDING_HYBRID_SHARD;
    ok (!accel_model_set_sharding (model, &options, NULL) && model->sharding.min_num_params == 100000,
        "one in stage 3");
    accel_model_destroy (model);
}

/* The grid of a parallelism_config makes groups. */
static void
divide_in_groups (struct accel *acc)
{
    static int64_t shape[] = { 9000 };
    DLTensor data = { .device = { kDLCPU, 0 }, .ndim = 1, .shape = shape, .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
    DLTensor grad = data;
    struct accel_parameter parameter = { "w", &data, &grad };
    const struct accel_sharding_options in_a_file = { .offload_param_device = ACCEL_OFFLOAD_NVME };
    struct accel_error err;
    struct accel_model *model;
    rank_must (accel_model_create (&model, &parameter, 1, &err), &err);
    right (!model->sharding.shares, "shared by a program that says nothing");
    rank_must (accel_model_set_sharding (model, &(struct accel_sharding_options){ 0 }, &err), &err);
    right (model->sharding.shares, "not shared");
    rank_must (accel_model_set_sharding (model, &in_a_file, &err), &err);
    right (!model->sharding.shares, "shared, and in a file");
    const struct accel_sharding_options whole = { .strategy = ACCEL_SHARDING_OPTIMIZER,
                                                  .offload_param_device = ACCEL_OFFLOAD_NVME };
    rank_must (accel_model_set_sharding (model, &whole, &err), &err);
    right (model->sharding.shares, "not shared, although parameters that are not divided are in no file");
    rank_must (accel_model_set_sharding (model, &(struct accel_sharding_options){ 0 }, &err), &err);
    rank_must (accel_prepare (acc, &err, model), &err);
    right (accel_model_sharding (model) == ACCEL_SHARDING_HYBRID_SHARD && model->sharding.size == 2,
           "strategy %d in groups of %d", (int) accel_model_sharding (model), model->sharding.size);
    accel_model_destroy (model);
}

/* Each rank has its own file, as hosts have. */
static const struct two {
    struct row of[2];
} files[] = {
#define FILE_WITH(more) DEEPSPEED ENV_DEEPSPEED_CONFIG_FILE "={\"zero_optimization\":{}" more "}"
#define HAS(steps, norm, precision) \
    "gradient_accumulation_steps " steps ", gradient_clipping " norm ", mixed_precision " precision
    { { { NULL, FILE_WITH (",\"gradient_accumulation_steps\":4"), "" },
        { NULL, FILE_WITH (",\"gradient_accumulation_steps\":4,\"gradient_clipping\":0"), NULL } } },
    { { { NULL, FILE_WITH (",\"gradient_accumulation_steps\":4"),
          "rank 0 has " HAS ("4", "inf", "no") ", but rank 1 has " HAS ("1", "inf", "no") },
        { NULL, FILE_WITH (""), NULL } } },
    { { { NULL, ENV_GRADIENT_CLIPPING "=0.5",
          "rank 0 has " HAS ("1", "0.5", "no") ", but rank 1 has " HAS ("1", "0.25", "no") },
        { NULL, ENV_GRADIENT_CLIPPING "=0.25", NULL } } },
    { { { NULL, "", "rank 0 has " HAS ("1", "inf", "no") ", but rank 1 has " HAS ("1", "inf", "bf16") },
        { NULL, ENV_MIXED_PRECISION "=bf16", NULL } } },
}, *two;

static void
begin_two (int rank)
{
    surround (&two->of[rank], true);
}

/* After the first model, passes are the program's business. */
static void
compare_two (struct accel *acc)
{
    const char *wanted = two->of[0].wanted;
    struct accel_error err = { 0 };
    for (int i = 0; i < (*wanted ? 1 : 2); i++) {
        struct accel_model *model = make_model ();
        enum accel_status status = accel_prepare (acc, &err, model);
        if (*wanted)
            rank_fails (status, ACCEL_ERR_INVALID, &err, wanted);
        else
            rank_must (status, &err);
        accel_model_destroy (model);
        rank_must (accel_set_gradient_accumulation_steps (acc, 1 + (uint32_t) accel_process_index (acc), &err), &err);
    }
}

static void
test_ranks (void)
{
    ranks_begin = begin_two;
    for (two = files; two < files + sizeof files / sizeof *files; two++)
        as_ranks (2, *two->of[0].wanted ? two->of[0].wanted : "ranks agree", compare_two);
    ranks_begin = NULL;
}

static void
test_broken (void)
{
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        struct accel_error err = { 0 };
        struct accel *acc;
        surround (&broken[i], true);
        enum accel_status status = accel_open (&acc, NULL, &err);
        surround (&broken[i], false);
        bool good = status && strstr (err.text, broken[i].wanted) && !acc;
        ok (good, "an error: %s", broken[i].wanted);
        if (!good)
            diag ("got '%s', wanted '%s'", err.text, broken[i].wanted);
        accel_close (acc);
    }
}

int
main (void)
{
    if (chdir (scratch_folder ()))
        return 99;
    test_models ();
    test_refused ();
    test_jobs ();
    test_program ();
    test_threshold ();
    test_broken ();
    test_ranks ();
    static const struct row grid = { NULL, FSDP ENV_FSDP_VERSION "=2 " ENV_SHARE_PARAMETERS "=true " GRID (2, 2), "" };
    surround (&grid, true);
    as_ranks (4, "replicas of shards", divide_in_groups);
    surround (&grid, false);
    return done_testing ();
}
