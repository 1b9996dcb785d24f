/* SPDX-License-Identifier: Apache-2.0 */
/* Objects whose foundation has been destroyed: each use of them is an error that says what is gone, and destroying them
 * in any order is safe; so is destroying an object within a function of the program that it calls. */
#include <config.h>

#include "tests/must.h"
#include "tests/tap.h"

#include <accel/accel.h>

#include <stdlib.h>

enum { SAMPLES = 4 };

static struct accel *acc;
static struct accel_model *model;
static struct accel_optimizer *optimizer;
static struct accel_scheduler *scheduler;
static struct accel_loader *loader;
static int64_t shape[] = { 2 };
static float values[2], slopes[2];
static DLTensor data, grad;

static void
is_error (enum accel_status status, enum accel_status wanted, const char *words)
{
    ok (status == wanted && err.code == status && strstr (err.text, words), "%s: status %d: %s", words, (int) status,
        status ? err.text : "");
    memset (&err, 0, sizeof err);
}

static void
make_model (void)
{
    struct accel_parameter parameter = { "w", &data, &grad };
    data = (DLTensor){ .data = values, .device = { kDLCPU, 0 }, .ndim = 1, .shape = shape,
                       .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
    grad = data;
    grad.data = slopes;
    MUST (accel_model_create (&model, &parameter, 1, &err));
}

static void
make_scheduler (struct accel_scheduler_options options)
{
    MUST (accel_scheduler_create (&scheduler, optimizer, &options, &err));
}

static void
clean (void)
{
    accel_model_destroy (model);
    accel_scheduler_destroy (scheduler);
    accel_optimizer_destroy (optimizer);
    accel_loader_destroy (loader);
    model = NULL;
    optimizer = NULL;
    scheduler = NULL;
    loader = NULL;
    if (!acc)
        MUST (accel_open (&acc, NULL, &err));
}

static void
test_null (void)
{
    is_error (accel_tensor_init (NULL, ACCEL_FLOAT32, 0, NULL, &err), ACCEL_ERR_INVALID, "tensor is NULL");
    ok (accel_tensor_count (NULL) == 0, "no tensor has no elements");
}

static void
test_model_gone (void)
{
    struct accel_optimizer *second = NULL;
    make_model ();
    MUST (accel_optimizer_create (&optimizer, model, ACCEL_ADAMW, NULL, &err));
    make_scheduler ((struct accel_scheduler_options){ .schedule = ACCEL_SCHEDULE_CONSTANT });
    MUST (accel_prepare (acc, &err, model, optimizer, scheduler));
    accel_model_destroy (model);
    is_error (accel_optimizer_step (optimizer, &err), ACCEL_ERR_INVALID, "the optimizer's model has been destroyed");
    is_error (accel_optimizer_zero_grad (optimizer, &err), ACCEL_ERR_INVALID, "model has been destroyed");
    is_error (accel_unscale_gradients (acc, optimizer, &err), ACCEL_ERR_INVALID, "optimizer's model");
    is_error (accel_optimizer_create (&second, model, ACCEL_SGD, &(struct accel_optimizer_options){ .lr = 1 }, &err),
              ACCEL_ERR_INVALID,
              "the model has been destroyed");
    is_error (accel_prepare (acc, &err, model), ACCEL_ERR_INVALID, "has been destroyed");
    ok (!accel_optimizer_state_tensor (optimizer, 0, "exp_avg") && !accel_model_parameter (model, 0)
            && !accel_model_parameter_count (model) && accel_optimizer_lr (optimizer) > 0,
        "its states cannot be had, its learning rate can");
    ok (!accel_scheduler_step (scheduler, &err), "its scheduler continues: %s", err.text);
    accel_model_destroy (model); /* the optimizer still knows that it is gone */
    clean ();
}

static void
test_optimizer_gone (void)
{
    struct accel_scheduler_state state;
    struct accel_scheduler_options options = {
        .schedule = ACCEL_SCHEDULE_ONE_CYCLE, .total_steps = 10, .max_lr = 1,
    };
    make_model ();
    MUST (accel_optimizer_create (&optimizer, model, ACCEL_ADAMW, NULL, &err));
    make_scheduler (options);
    MUST (accel_prepare (acc, &err, optimizer, scheduler));
    double lr = accel_scheduler_lr (scheduler);
    accel_optimizer_destroy (optimizer);
    is_error (accel_scheduler_step (scheduler, &err), ACCEL_ERR_INVALID, "scheduler's optimizer has been destroyed");
    accel_scheduler_get_state (scheduler, &state);
    is_error (accel_scheduler_set_state (scheduler, &state, 1, &err), ACCEL_ERR_INVALID,
              "optimizer has been destroyed");
    ok (accel_scheduler_lr (scheduler) == lr && state.momentum > 0, "where it stood can still be read");
    optimizer = NULL;
    clean ();
}

static struct accel_local_sgd *local_sgd;

static void
test_job_gone (void)
{
    struct accel_comm *group, *inner;
    int8_t number = 0;
    make_model ();
    MUST (accel_optimizer_create (&optimizer, model, ACCEL_SGD, &(struct accel_optimizer_options){ .lr = 1 }, &err));
    MUST (accel_prepare (acc, &err, model, optimizer));
    MUST (accel_local_sgd_begin (&local_sgd, acc, model, 1, true, &err));
    MUST (accel_comm_split (&group, accel_world (acc), 0, 0, &err));
    MUST (accel_comm_split (&inner, group, 0, 0, &err));
    accel_comm_destroy (group);
    is_error (accel_comm_barrier (inner, &err), ACCEL_ERR_INVALID, "the parent of this group");
    accel_close (acc);
    acc = NULL;
    is_error (accel_comm_all_reduce (inner, &number, &number, 1, ACCEL_INT8, ACCEL_SUM, &err), ACCEL_ERR_INVALID,
              "has been destroyed");
    accel_comm_destroy (inner);
    ok (!accel_local_sgd_end (local_sgd, &err), "local SGD of one process ends: %s", err.text);
    ok (!accel_optimizer_step (optimizer, &err), "the optimizer continues by itself: %s", err.text);
    clean ();
    MUST (accel_comm_split (&group, accel_world (acc), 0, 0, &err));
    accel_close (acc);
    acc = NULL;
    is_error (accel_comm_barrier (group, &err), ACCEL_ERR_INVALID, "the job of this group has been closed");
    accel_comm_destroy (group);
    clean ();
}

/* ---- within their own functions ---- */

enum victim { MODEL, OPTIMIZER, SCHEDULER, LOADER, JOB };

static void
destroy (enum victim victim)
{
    switch (victim) {
    case MODEL: accel_model_destroy (model); model = NULL; return;
    case OPTIMIZER: accel_optimizer_destroy (optimizer); optimizer = NULL; return;
    case SCHEDULER: accel_scheduler_destroy (scheduler); scheduler = NULL; return;
    case LOADER: accel_loader_destroy (loader); loader = NULL; return;
    case JOB: accel_close (acc); acc = NULL; return;
    }
}

static enum accel_status
backward (void *user, float scale, struct accel_error *error)
{
    (void) scale, (void) error;
    destroy (*(enum victim *) user);
    return ACCEL_OK;
}

static enum accel_status
update (void *user, const struct accel_update *one, struct accel_error *error)
{
    (void) one, (void) error;
    if (user)
        destroy (*(enum victim *) user);
    return ACCEL_OK;
}

static enum accel_status
state_shape (void *user, const struct accel_parameter *parameter, size_t state, int *ndim, int64_t *sizes,
             struct accel_error *error)
{
    (void) parameter, (void) state, (void) sizes, (void) error;
    destroy (*(enum victim *) user);
    *ndim = 0;
    return ACCEL_OK;
}

static double
rate (void *user, uint64_t step)
{
    if (step)
        destroy (*(enum victim *) user);
    return 1;
}

static enum accel_status
read_sample (void *user, size_t index, void *const *into, struct accel_error *error)
{
    (void) index, (void) error;
    *(float *) into[0] = 0;
    destroy (*(enum victim *) user);
    return ACCEL_OK;
}

static void
test_backward (void)
{
    for (enum victim victim = MODEL; victim <= JOB; victim = victim == MODEL ? JOB : JOB + 1) {
        make_model ();
        grad.data = NULL;
        MUST (accel_prepare (acc, &err, model));
        is_error (accel_backward (acc, model, 1, backward, &victim, &err), ACCEL_ERR_CALLBACK,
                  victim == MODEL ? "the function destroyed its own model" : "the function destroyed its own job");
        accel_close (acc); /* which has given up */
        acc = NULL;
        clean ();
    }
}

static void
test_custom (void)
{
    static const char *const names[] = { "state" };
    for (enum victim victim = MODEL; victim <= OPTIMIZER; victim++) {
        struct accel_custom_optimizer options = { .lr = 1, .step = update, .user = &victim };
        make_model ();
        MUST (accel_optimizer_create_custom (&optimizer, model, &options, &err));
        is_error (accel_optimizer_step (optimizer, &err), ACCEL_ERR_CALLBACK,
                  victim == MODEL ? "destroyed its own model" : "destroyed its own optimizer");
        clean ();
    }
    enum victim victim = MODEL;
    for (int init = 0; init < 2; init++) {
        struct accel_custom_optimizer options = {
            .lr = 1, .step = update, .user = &victim, .state_names = names, .state_count = 1,
            .init = init ? update : NULL, .shape = init ? NULL : state_shape,
        };
        make_model ();
        is_error (accel_optimizer_create_custom (&optimizer, model, &options, &err), ACCEL_ERR_CALLBACK,
                  "the function destroyed its own model");
        clean ();
    }
}

static void
test_lambda (void)
{
    for (enum victim victim = OPTIMIZER; victim <= SCHEDULER; victim++) {
        make_model ();
        MUST (accel_optimizer_create (&optimizer, model, ACCEL_SGD, &(struct accel_optimizer_options){ .lr = 1 },
                                      &err));
        make_scheduler ((struct accel_scheduler_options){
            .schedule = ACCEL_SCHEDULE_LAMBDA, .lambda = rate, .user = &victim });
        is_error (accel_scheduler_step (scheduler, &err), ACCEL_ERR_CALLBACK,
                  victim == OPTIMIZER ? "destroyed its own optimizer" : "destroyed its own scheduler");
        clean ();
    }
}

static const struct accel_field field = { "x", ACCEL_FLOAT32, 0, { 0 } };

static void
test_reading (void)
{
    enum victim victim = JOB;
    struct accel_dataset dataset = {
        .size = SAMPLES, .fields = &field, .field_count = 1, .read = read_sample, .user = &victim,
    };
    const struct accel_batch *batch;
    MUST (accel_loader_create (&loader, &dataset, NULL, &err));
    MUST (accel_prepare (acc, &err, loader));
    ok (!accel_loader_next (loader, &batch, &err), "reading closes the job");
    is_error (err.code, ACCEL_ERR_CALLBACK, "a function called while reading destroyed the job");
    clean ();
    victim = LOADER;
    MUST (accel_loader_create (&loader, &dataset, NULL, &err));
    bool more = accel_loader_next (loader, &batch, &err);
    is_error (more ? ACCEL_OK : err.code, ACCEL_ERR_CALLBACK, "a function called while reading destroyed the loader");
    ok (!batch, "and there is no batch");
    clean ();
}

static void
test_batch (void)
{
    static const float numbers[SAMPLES] = { 1, 2, 3, 4 };
    struct accel_dataset *dataset;
    const struct accel_batch *batch;
    struct accel_tree *tree;
    MUST (accel_dataset_from_arrays (&dataset, &field, (const void *[]){ numbers }, 1, SAMPLES, &err));
    MUST (accel_loader_create (&loader, dataset, &(struct accel_loader_options){ .batch_size = 2 }, &err));
    MUST (accel_prepare (acc, &err, loader));
    ok (accel_loader_next (loader, &batch, &err) && accel_batch_size (batch) == 2 && accel_batch_tensor (batch, "x"),
        "a batch: %s", err.text);
    accel_close (acc);
    acc = NULL;
    ok (!accel_batch_size (batch) && !accel_batch_tensor (batch, "x") && !accel_batch_indices (batch),
        "a batch is empty after the job was closed");
    is_error (accel_batch_tree (&tree, batch, &err), ACCEL_ERR_INVALID, "the batch is no longer valid");
    void *elements;
    is_error (accel_batch_data (batch, "x", ACCEL_FLOAT32, &elements, &err), ACCEL_ERR_INVALID,
              "the batch is no longer valid");
    ok (accel_loader_next (loader, &batch, &err) && accel_batch_size (batch) == 2, "its loader works: %s", err.text);
    clean ();
    accel_dataset_close (dataset);
}

int
main (void)
{
    MUST (accel_open (&acc, NULL, &err));
    test_null ();
    test_model_gone ();
    test_optimizer_gone ();
    test_job_gone ();
    test_backward ();
    test_custom ();
    test_lambda ();
    test_reading ();
    test_batch ();
    accel_close (acc);
    return done_testing ();
}
