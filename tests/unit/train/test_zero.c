/* SPDX-License-Identifier: Apache-2.0 */
/* Options that are exactly 0 where 0 means another number: ACCEL_ZERO, accel_exactly() and ACCEL_NONE.  Parameters and
 * learning rates after some steps are those of torch 2.15 with the same options. */
#include <config.h>

#include "lib/train/model_object.h"
#include "tests/scratch.h"
#include "tests/tap.h"

#include <accel/accel.h>

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static struct accel_model *model;
static struct accel_error err;
static int64_t shape[] = { 2 };
static float values[2], slopes[2];
static DLTensor data, grad;

static void
make_model (void)
{
    struct accel_parameter parameter = { "w", &data, &grad };
    values[0] = 1;
    values[1] = -2;
    data = (DLTensor){ .data = values, .device = { kDLCPU, 0 }, .ndim = 1, .shape = shape,
                       .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
    grad = data;
    grad.data = slopes;
    if (accel_model_create (&model, &parameter, 1, &err))
        exit (99);
}

static bool
is_near (double got, double wanted)
{
    return fabs (got - wanted) <= 4e-7 * fabs (wanted);
}

/* Steps with gradients 0.5 and 0.25, 0.5, 0.75 ... */
static void
train (struct accel_optimizer *optimizer, struct accel_scheduler *scheduler, int steps, const double *wanted,
       const char *what)
{
    enum accel_status status = ACCEL_OK;
    for (int i = 0; !status && i < steps; i++) {
        slopes[0] = 0.5F;
        slopes[1] = 0.25F * (float) (i + 1);
        status = accel_optimizer_step (optimizer, &err);
        if (!status && scheduler)
            status = accel_scheduler_step (scheduler, &err);
    }
    ok (!status && is_near ((double) values[0], wanted[0]) && is_near ((double) values[1], wanted[1])
            && is_near (accel_optimizer_lr (optimizer), wanted[2]),
        "%s: %g %g, rate %g%s", what, (double) values[0], (double) values[1], accel_optimizer_lr (optimizer),
        status ? err.text : "");
}

static void
test_adam (void)
{
    static const struct {
        const char *what;
        struct accel_optimizer_options adam;
        double wanted[3];
    } cases[] = {
        { "Adam, lr 0", { .lr = ACCEL_ZERO }, { 1, -2, 0 } },
        { "Adam, beta1 0", { .lr = 0.1, .beta1 = ACCEL_ZERO }, { 0x1.666666p-1, -0x1.2ec252p+1, 0.1 } },
        { "Adam, beta2 0", { .lr = 0.1, .beta2 = ACCEL_ZERO }, { 0x1.666664p-1, -0x1.1f66ap+1, 0.1 } },
        { "Adam, eps 0", { .lr = 0.1, .eps = ACCEL_ZERO, .weight_decay = ACCEL_ZERO },
          { 0x1.666668p-1, -0x1.256abp+1, 0.1 } },
        { "Adam, 0 is the default", { .lr = 0.1, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8 },
          { 0x1.666668p-1, -0x1.256abp+1, 0.1 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct accel_optimizer_options adam = cases[i].adam;
        adam.weight_decay = ACCEL_ZERO;
        for (int w = 0; w < 2; w++) {
            struct accel_optimizer *optimizer = NULL;
            make_model ();
            if (ok (!accel_optimizer_create (&optimizer, model, w ? ACCEL_ADAMW : ACCEL_ADAM, &adam, &err), "%s%s",
                    cases[i].what, w ? " (W)" : ""))
                train (optimizer, NULL, 3, cases[i].wanted, cases[i].what);
            accel_optimizer_destroy (optimizer);
            accel_model_destroy (model);
        }
    }
}

/* Lion whose direction is the gradient's alone, and stays so. */
static void
test_lion (void)
{
    struct accel_optimizer *optimizer;
    make_model ();
    struct accel_optimizer_options lion = { .lr = 0.5, .beta1 = ACCEL_ZERO };
    if (ok (!accel_optimizer_create (&optimizer, model, ACCEL_LION, &lion, &err), "Lion"))
        train (optimizer, NULL, 2, (double[]){ 0, -3, 0.5 }, "Lion, beta1 0");
    accel_optimizer_destroy (optimizer);
    accel_model_destroy (model);
}

static void
test_schedules (void)
{
    static const struct {
        const char *what;
        int steps;
        struct accel_scheduler_options options;
        double wanted[3];
    } cases[] = {
        { "step, gamma 0", 4, { .schedule = ACCEL_SCHEDULE_STEP, .step_size = 2, .gamma = ACCEL_ZERO },
          { 0.5, -0x1.3p+1, 0 } },
        { "polynomial, power 0", 6,
          { .schedule = ACCEL_SCHEDULE_POLYNOMIAL, .total_steps = 5, .power = ACCEL_ZERO }, { -0.5, -0x1.28p+2, 0.5 } },
        { "cosine, no wave", 2, { .schedule = ACCEL_SCHEDULE_COSINE, .total_steps = 5, .cycles = ACCEL_ZERO },
          { 0.5, -2.375, 0.5 } },
        { "one-cycle, pct_start 0", 8,
          { .schedule = ACCEL_SCHEDULE_ONE_CYCLE, .total_steps = 10, .max_lr = 1, .pct_start = ACCEL_ZERO },
          { -0x1.459d62p+2, -0x1.51059ap+3, 0x1.91024a9854bf2p-6 } },
        { "one-cycle, no momentum", 8,
          { .schedule = ACCEL_SCHEDULE_ONE_CYCLE, .total_steps = 10, .max_lr = 1, .base_momentum = ACCEL_ZERO,
            .max_momentum = ACCEL_ZERO },
          { -0x1.4157d2p+0, -0x1.bd5e34p+2, 0x1.95a9a440a9bc8p-5 } },
        { "one-cycle, max_lr 0", 8,
          { .schedule = ACCEL_SCHEDULE_ONE_CYCLE, .total_steps = 10, .max_lr = ACCEL_ZERO }, { 1, -2, 0 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct accel_optimizer *optimizer = NULL;
        struct accel_scheduler *scheduler = NULL;
        bool cycles = cases[i].options.schedule == ACCEL_SCHEDULE_ONE_CYCLE;
        struct accel_optimizer_options sgd = { .lr = 0.5, .momentum = cycles ? 0.9 : 0 };
        make_model ();
        if (ok (!accel_optimizer_create (&optimizer, model, ACCEL_SGD, &sgd, &err)
                    && !accel_scheduler_create (&scheduler, optimizer, &cases[i].options, &err), "%s", cases[i].what))
            train (optimizer, scheduler, cases[i].steps, cases[i].wanted, cases[i].what);
        accel_scheduler_destroy (scheduler);
        accel_optimizer_destroy (optimizer);
        accel_model_destroy (model);
    }
}

static enum accel_status
no_update (void *user, const struct accel_update *update, struct accel_error *error)
{
    (void) user, (void) update, (void) error;
    return ACCEL_OK;
}

static void
test_needed (void)
{
    struct accel_optimizer *optimizer;
    struct accel_custom_optimizer custom = { .step = no_update };
    make_model ();
    ok (accel_optimizer_create (&optimizer, model, ACCEL_SGD, &(struct accel_optimizer_options){ .lr = 0 },
                                &err) && strstr (err.text, "ACCEL_ZERO"),
        "SGD: 0 is not given: %s", err.text);
    ok (!accel_optimizer_create (&optimizer, model, ACCEL_SGD,
                                 &(struct accel_optimizer_options){ .lr = accel_exactly (0) }, &err)
            && accel_optimizer_lr (optimizer) == 0,
        "SGD: exactly 0 is");
    accel_optimizer_destroy (optimizer);
    ok (accel_optimizer_create (&optimizer, model, ACCEL_SGD, &(struct accel_optimizer_options){ .lr = -1 },
                                &err) && strstr (err.text, "lr is -1"),
        "SGD: %s", err.text);
    ok (accel_optimizer_create_custom (&optimizer, model, &custom, &err) && strstr (err.text, "ACCEL_ZERO"), "own: %s",
        err.text);
    custom.lr = ACCEL_ZERO;
    ok (!accel_optimizer_create_custom (&optimizer, model, &custom, &err) && accel_optimizer_lr (optimizer) == 0,
        "own: 0");
    struct accel_scheduler_options options = {
        .schedule = ACCEL_SCHEDULE_ONE_CYCLE, .total_steps = 9, .max_lr = 1, .cycle_momentum = ACCEL_NO,
        .div_factor = ACCEL_ZERO,
    };
    struct accel_scheduler *scheduler;
    ok (accel_scheduler_create (&scheduler, optimizer, &options, &err) && strstr (err.text, "div_factor"),
        "division by 0: %s", err.text);
    accel_optimizer_destroy (optimizer);
    accel_model_destroy (model);
}

static void
test_ddp (void)
{
    make_model ();
    struct accel_ddp_options options = {
        .bucket_cap_mb = ACCEL_ZERO, .start_iter = ACCEL_NONE, .min_compression_rate = ACCEL_ZERO,
    };
    ok (!accel_model_set_ddp (model, &options, &err) && model->ddp.bucket_cap_mb == 0 && model->ddp.start_iter == 0
            && model->ddp.min_compression_rate == 0 && model->ddp.matrix_approximation_rank == 1,
        "a bucket for each gradient, compressed from the first pass on: %s", err.text);
    options.matrix_approximation_rank = ACCEL_NONE;
    ok (accel_model_set_ddp (model, &options, &err) == ACCEL_ERR_INVALID, "%s", err.text);
    accel_model_destroy (model);
}

static void
refused_flag (enum accel_status status, const char *name)
{
    ok (status == ACCEL_ERR_INVALID && strstr (err.text, "invalid value") && strstr (err.text, name), "%s: %s", name,
        err.text);
}

/* What is no flag is not taken for one. */
static void
test_flags (void)
{
    enum accel_flag bad = (enum accel_flag) 7;
    struct accel *acc;
    struct accel_optimizer *optimizer;
    struct accel_scheduler *scheduler;
    const struct accel_gradient_accumulation plugin = { .sync_with_dataloader = bad };
    const struct accel_grad_scaler scaler = { .enabled = bad };
    make_model ();
    ok (!accel_optimizer_create (&optimizer, model, ACCEL_ADAM, NULL, &err), "an optimizer");
    refused_flag (accel_open (&acc, &(struct accel_options){ .device_placement = bad }, &err), "device_placement");
    refused_flag (accel_open (&acc, &(struct accel_options){ .gradient_accumulation_plugin = &plugin }, &err),
                  "sync_with_dataloader");
    refused_flag (accel_open (&acc, &(struct accel_options){ .grad_scaler = &scaler }, &err), "enabled");
    refused_flag (accel_model_set_ddp (model, &(struct accel_ddp_options){ .warm_start = bad }, &err), "warm_start");
    refused_flag (accel_scheduler_create (&scheduler, optimizer,
                                          &(struct accel_scheduler_options){ .step_with_optimizer = bad }, &err),
                  "step_with_optimizer");
    refused_flag (accel_scheduler_create (&scheduler, optimizer,
                                          &(struct accel_scheduler_options){ .cycle_momentum = bad }, &err),
                  "cycle_momentum");
    struct accel_sampler *sampler;
    refused_flag (accel_sampler_create (&sampler, ACCEL_SAMPLER_DISTRIBUTED, 4,
                                        &(struct accel_sampler_options){ .replicas = 1, .shuffle = bad }, &err),
                  "shuffle");
    accel_optimizer_destroy (optimizer);
    accel_model_destroy (model);
}

static void
test_scaler (void)
{
    static const struct accel_grad_scaler scalers[] = {
        { .init_scale = ACCEL_ZERO }, { .growth_factor = ACCEL_ZERO }, { .backoff_factor = ACCEL_ZERO },
        { .growth_interval = ACCEL_NONE },
    };
    for (size_t i = 0; i < sizeof scalers / sizeof *scalers; i++) {
        struct accel *acc;
        struct accel_options options = { .mixed_precision = "fp16", .grad_scaler = &scalers[i] };
        ok (accel_open (&acc, &options, &err) == ACCEL_ERR_INVALID && strstr (err.text, "is 0, but must be"), "%s",
            err.text);
    }
}

/* A column of zeros that may hold nothing else. */
static void
test_csv (void)
{
    char path[SCRATCH_SIZE + 16];
    snprintf (path, sizeof path, "%s/zero.csv", scratch_folder ());
    int fd = open (path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    bool written = fd >= 0 && write (fd, "0\n7\n", 4) == 4 && !close (fd);
    struct accel_csv_field field = { .field = { "x", ACCEL_FLOAT32, 0, { 0 } }, .column = 1 };
    struct accel_csv_options options = { .header = ACCEL_CSV_HEADER_NO, .fields = &field, .field_count = 1 };
    struct accel_dataset *dataset = NULL;
    ok (written && !accel_dataset_open_csv (&dataset, path, &options, &err), "any number: %s", err.text);
    accel_dataset_close (dataset);
    field.max = field.min = ACCEL_ZERO;
    ok (accel_dataset_open_csv (&dataset, path, &options, &err) == ACCEL_ERR_FORMAT && strstr (err.text, "range"),
        "0 only: %s", err.text);
    field = (struct accel_csv_field){ .field = { "x", ACCEL_FLOAT32, 0, { 0 } }, .column = 1, .scale = ACCEL_ZERO };
    float value = 1;
    void *into[] = { &value };
    ok (!accel_dataset_open_csv (&dataset, path, &options, &err)
            && !dataset->read (dataset->user, 1, into, &err) && value == 0,
        "times 0: %s", err.text);
    accel_dataset_close (dataset);
}

int
main (void)
{
    ok (ACCEL_ZERO == 0 && signbit (ACCEL_ZERO) && signbit (accel_exactly (0)) && signbit (accel_exactly (-0.0))
            && accel_exactly (3) == 3 && isnan (accel_exactly (NAN)),
        "what is exactly 0");
    test_adam ();
    test_lion ();
    test_schedules ();
    test_needed ();
    test_ddp ();
    test_flags ();
    test_scaler ();
    test_csv ();
    return done_testing ();
}
