/* SPDX-License-Identifier: Apache-2.0 */
/* A complete training program, to copy: it learns to read handwritten digits, on any number of processes.
 *
 *   accelerate launch --num_processes 2 [--mixed_precision bf16] [--resume DIR] examples/train [DIR]
 *
 * Checkpoints are in DIR, by default "train".  It may be killed or preempted at any moment: started again, it continues
 * from the newest one and ends with the same bits.  Built by hand: cc train.c $(pkg-config --cflags --libs libaccel) */
#include <accel/accel.h>
#include <stdlib.h>
#ifndef EXAMPLE_DATA
#define EXAMPLE_DATA "data"
#endif
#define TRY(call) accel_check ((call), err)

enum { PIXELS = 64, CLASSES = 10, INPUTS = PIXELS + 1, TRAINING = 1408, TEST = 389 };
enum { BATCH = 16, STEP = 64, STEPS = TRAINING / STEP, EPOCHS = 12 };

struct training {
    struct accel *acc;
    struct accel_dataset *digits, learn, test; /* all of them, the first ones, the last ones */
    struct accel_loader *loader, *tests;
    struct accel_tensor weight, grad; /* a linear model: each class has a weight for each pixel, and one more */
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    struct accel_scheduler *scheduler;
    const struct accel_batch *batch;
    double right; /* how many digits were read right */
};

/* Read the digits of the batch, and add the gradient of their mean squared error, times @p scale. */
static enum accel_status
pass (void *user, float scale, struct accel_error *err)
{
    struct training *t = user;
    const float (*image)[PIXELS] = accel_batch_tensor (t->batch, "features")->data;
    const int64_t *label = accel_batch_tensor (t->batch, "label")->data;
    size_t count = accel_batch_size (t->batch);
    float weight[CLASSES][INPUTS], (*grad)[INPUTS] = t->grad.dl.data;
    enum accel_dtype dtype = accel_dtype_from_dl (t->weight.dl.dtype);
    enum accel_status status = accel_convert (t->weight.dl.data, dtype, weight, ACCEL_FLOAT32, CLASSES * INPUTS, err);
    for (size_t s = 0; s < count && !status; s++) {
        float output[CLASSES];
        int best = 0;
        for (int c = 0; c < CLASSES; c++) {
            output[c] = weight[c][PIXELS];
            for (int i = 0; i < PIXELS; i++)
                output[c] += weight[c][i] * image[s][i];
            best = output[c] > output[best] ? c : best;
        }
        t->right += best == label[s];
        for (int c = 0; c < CLASSES && scale != 0; c++) {
            float error = (output[c] - (c == label[s] ? 1 : 0)) * scale / (float) count;
            grad[c][PIXELS] += error;
            for (int i = 0; i < PIXELS; i++)
                grad[c][i] += error * image[s][i];
        }
    }
    return status;
}

/* The test digits are the last ones of the file. */
static enum accel_status
read_test (void *digits, size_t index, void *const *into, struct accel_error *err)
{
    const struct accel_dataset *all = digits;
    return all->read (all->user, TRAINING + index, into, err);
}

static void
setup (struct training *t, struct accel_error *err)
{
    const struct accel_loader_options
        mixed = { .batch_size = BATCH, .shuffle = true },
        once = { .batch_size = BATCH, .even_batches = ACCEL_NO };
    const struct accel_optimizer_options adamw = { .lr = 5e-4 };
    const struct accel_scheduler_options rate = {
        .schedule = ACCEL_SCHEDULE_COSINE, .warmup_steps = STEPS,
        .total_steps = EPOCHS * STEPS, .split_batches = true };
    const int64_t shape[] = { CLASSES, INPUTS };
    enum accel_dtype dtype = accel_autocast (t->acc);
    TRY (accel_loader_create (&t->loader, &t->learn, &mixed, err));
    TRY (accel_loader_create (&t->tests, &t->test, &once, err));
    TRY (accel_tensor_init (&t->weight, dtype, 2, shape, err));
    TRY (accel_tensor_init (&t->grad, ACCEL_FLOAT32, 2, shape, err));
    TRY (accel_model_create (&t->model, &(struct accel_parameter){
             "weight", &t->weight.dl, &t->grad.dl }, 1, err));
    TRY (accel_optimizer_create (&t->optimizer, t->model,
                                 ACCEL_ADAMW, &adamw, err));
    TRY (accel_scheduler_create (&t->scheduler, t->optimizer, &rate, err));
    TRY (accel_prepare (t->acc, err, t->model, t->optimizer,
                        t->scheduler, t->loader, t->tests));
}

static void
train (struct training *t, struct accel_error *err)
{
    struct accel_evaluation *evaluation;
    if (accel_load_state (t->acc, getenv ("ACCEL_RESUME_FROM"), err))
        TRY (err->code == ACCEL_ERR_NOT_FOUND ? ACCEL_OK : err->code);
    while (accel_loader_epoch (t->loader) < EPOCHS) {
        while (accel_loader_next (t->loader, &t->batch, err)) {
            TRY (accel_accumulate (t->acc, err, t->model));
            TRY (accel_backward (t->acc, t->model, 0, pass, t, err));
            if (accel_sync_gradients (t->acc))
                TRY (accel_clip_grad_norm (t->model, 1, NULL, NULL, err));
            TRY (accel_optimizer_step (t->optimizer, err));
            TRY (accel_scheduler_step (t->scheduler, err));
            TRY (accel_optimizer_zero_grad (t->optimizer, err));
        }
        TRY (err->code);
        TRY (accel_save_state (t->acc, NULL, err));
        t->right = 0;
        TRY (accel_evaluate_begin (&evaluation, t->acc, t->tests, err));
        while (accel_loader_next (t->tests, &t->batch, err))
            TRY (pass (t, 0, err));
        TRY (err->code);
        accel_evaluate_end (evaluation);
        TRY (accel_reduce_number (t->acc, &t->right, ACCEL_SUM, err));
        accel_print (t->acc, "epoch %2d: %.2f %% of the test digits\n",
            (int) accel_loader_epoch (t->loader), 100 * t->right / TEST);
    }
}

int
main (int argc, char **argv)
{
    const char *dir = argc > 1 ? argv[1] : "train";
    const struct accel_project_configuration project = { .project_dir = dir, .automatic_checkpoint_naming = true };
    struct training t = { .right = 0 };
    struct accel_error *err = &(struct accel_error){ .code = ACCEL_OK };
    TRY (accel_open (&t.acc, &(struct accel_options){ .cpu = true, .total_batch_size = STEP }, err));
    TRY (accel_set_project_configuration (t.acc, &project, err));
    TRY (accel_dataset_open_csv (&t.digits, EXAMPLE_DATA "/digits.csv",
                                 &(struct accel_csv_options){ .label_column = -1 }, err));
    t.learn = *t.digits;
    t.learn.size = TRAINING;
    t.test = (struct accel_dataset){ .size = TEST, .fields = t.digits->fields, .field_count = t.digits->field_count,
                                     .read = read_test, .user = t.digits };
    setup (&t, err);
    train (&t, err);
    TRY (accel_save_model (t.acc, t.model, dir, NULL, err));
    accel_scheduler_destroy (t.scheduler);
    accel_optimizer_destroy (t.optimizer);
    accel_model_destroy (t.model);
    accel_loader_destroy (t.loader);
    accel_loader_destroy (t.tests);
    accel_dataset_close (t.digits);
    accel_close (t.acc);
    return 0;
}
