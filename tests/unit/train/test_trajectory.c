/* SPDX-License-Identifier: Apache-2.0 */
/* 200 steps of training with everything at once against the original's and torch's: accumulation, clipping, optimizers
 * and schedulers through the library's own functions, the parameters of four steps compared.  Gradients depend on the
 * parameters, so that whatever is computed otherwise grows.  At most 2 ulp are allowed. */
#include <config.h>

#include "tests/golden/golden.h"
#include "tests/tap.h"

#include <accel/accel.h>

#include <math.h>

enum { COUNT = 20, TENSORS = 3, SEED = 2028 };

static struct accel *acc;
static int64_t shapes[] = { 2, 5, 9 };
static float values[COUNT], targets[COUNT];
static DLTensor data[TENSORS], grads[TENSORS];
static struct accel_model *model;

/* A key and its number. */
struct field {
    const char *key;
    double value;
};

struct setup {
    char name[400];
    char kind[24], schedule[24], clip[8];
    double limit, p;
    unsigned accumulate;
    struct field fields[24];
    size_t field_count;
    struct accel_optimizer *optimizer;
    struct accel_scheduler *scheduler;
    struct accel_generator *generator;
};

/* Three tensors of 10, 9 and 1 elements in one array, and gradients where prepare puts them. */
static void
make_model (void)
{
    static const int first[] = { 0, 10, 19 }, shape[] = { 0, 2, 0 }, ndim[] = { 2, 1, 0 };
    static const char *const names[] = { "a", "b", "c" };
    struct accel_parameter parameters[TENSORS];
    for (int i = 0; i < TENSORS; i++) {
        data[i] = (DLTensor){ .data = values + first[i], .device = { kDLCPU, 0 }, .ndim = ndim[i],
                              .dtype = accel_dtype_to_dl (ACCEL_FLOAT32), .shape = shapes + shape[i] };
        grads[i] = data[i];
        grads[i].data = NULL;
        parameters[i] = (struct accel_parameter){ names[i], &data[i], &grads[i] };
    }
    struct accel_error err;
    if (accel_open (&acc, NULL, &err) || accel_model_create (&model, parameters, TENSORS, &err)
        || accel_prepare (acc, &err, model)) {
        printf ("Bail out! %s\n", err.text);
        exit (99);
    }
}

static double
field (const struct setup *setup, const char *key)
{
    for (size_t i = 0; i < setup->field_count; i++)
        if (!strcmp (setup->fields[i].key, key))
            return setup->fields[i].value;
    return 0;
}

/* KEY=VALUE... up to the word @p end. */
static void
read_fields (struct golden *golden, struct setup *setup, const char *end)
{
    const char *word;
    while (*(word = golden_word (golden)) && strcmp (word, end) != 0) {
        char *value = strchr (word, '=');
        if (!value || setup->field_count == sizeof setup->fields / sizeof *setup->fields) {
            printf ("Bail out! not a field: %s\n", word);
            exit (99);
        }
        *value++ = '\0';
        setup->fields[setup->field_count++] = (struct field){ word, strtod (value, NULL) };
    }
}

static void
read_setup (struct golden *golden, struct setup *setup)
{
    *setup = (struct setup){ 0 };
    const char *end = strstr (golden->rest, " at ");
    if (!end) {
        printf ("Bail out! no records: %s\n", golden->rest);
        exit (99);
    }
    snprintf (setup->name, sizeof setup->name, "%.*s", (int) (end - golden->rest), golden->rest);
    snprintf (setup->kind, sizeof setup->kind, "%s", golden_word (golden));
    read_fields (golden, setup, "schedule");
    snprintf (setup->schedule, sizeof setup->schedule, "%s", golden_word (golden));
    read_fields (golden, setup, "clip");
    snprintf (setup->clip, sizeof setup->clip, "%s", golden_word (golden));
    if (strcmp (setup->clip, "none") != 0)
        setup->limit = golden_double (golden);
    if (!strcmp (setup->clip, "norm"))
        setup->p = golden_double (golden);
    golden_word (golden);
    setup->accumulate = (unsigned) golden_number (golden);
}

static enum accel_status
make_optimizer (struct setup *setup, struct accel_error *err)
{
    struct accel_optimizer_options options = {
        .lr = field (setup, "lr"), .weight_decay = accel_exactly (field (setup, "weight_decay")),
        .beta1 = field (setup, "beta1"), .beta2 = field (setup, "beta2"), .eps = field (setup, "eps"),
        .momentum = field (setup, "momentum"), .dampening = field (setup, "dampening"),
        .nesterov = field (setup, "nesterov") != 0, .amsgrad = field (setup, "amsgrad") != 0,
        .maximize = field (setup, "maximize") != 0,
    };
    return accel_optimizer_create (&setup->optimizer, model, golden_kind (setup->kind), &options, err);
}

/* The same as own() in make_scheduler_goldens.py. */
static double
own (void *user, uint64_t step)
{
    (void) user;
    return 1 / (1 + 0.03125 * (double) step);
}

static enum accel_status
make_scheduler (struct setup *setup, struct accel_error *err)
{
    static const char *const names[]
        = { "constant", "linear", "cosine", "restarts", "step", "polynomial", "one-cycle", "lambda" };
    struct accel_scheduler_options options = {
        .warmup_steps = (uint64_t) field (setup, "warmup_steps"),
        .total_steps = (uint64_t) field (setup, "total_steps"),
        .cycles = field (setup, "cycles"),
        .step_size = (uint64_t) field (setup, "step_size"),
        .gamma = field (setup, "gamma"),
        .power = field (setup, "power"),
        .max_lr = field (setup, "max_lr"),
        .pct_start = field (setup, "pct_start"),
        .div_factor = field (setup, "div_factor"),
        .final_div_factor = field (setup, "final_div_factor"),
        .linear = field (setup, "linear") != 0,
        .three_phase = field (setup, "three_phase") != 0,
        .cycle_momentum = field (setup, "keep_momentum") != 0 ? ACCEL_NO : ACCEL_YES,
        .lambda = own,
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp (setup->schedule, names[i]))
            options.schedule = (enum accel_schedule) i;
    return accel_scheduler_create (&setup->scheduler, setup->optimizer, &options, err);
}

/* One micro-batch: half the square of the distance to its targets, negative where that is maximised. */
static enum accel_status
backward (void *user, float scale, struct accel_error *err)
{
    const struct setup *setup = user;
    float share = scale * (1.0F / (float) setup->accumulate);
    const float *value = values, *target = targets;
    (void) err;
    if (field (setup, "maximize") != 0)
        share = -share;
    for (int i = 0; i < TENSORS; i++)
        for (size_t j = 0; j < accel_tensor_count (&grads[i]); j++)
            ((float *) grads[i].data)[j] += share * (*value++ - *target++);
    return ACCEL_OK;
}

static enum accel_status
make_step (struct setup *setup, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (unsigned i = 0; i < setup->accumulate && !status; i++) {
        for (int j = 0; j < COUNT; j++)
            targets[j] = accel_generator_uniform (setup->generator) + 0.5F;
        status = accel_backward (acc, model, 0, backward, setup, err);
    }
    if (!status && !strcmp (setup->clip, "norm"))
        status = accel_clip_grad_norm (model, setup->limit, NULL,
                                       &(struct accel_clip_options){ .norm_type = accel_exactly (setup->p) }, err);
    else if (!status && !strcmp (setup->clip, "value"))
        status = accel_clip_grad_value (model, setup->limit, err);
    if (!status)
        status = accel_optimizer_step (setup->optimizer, err);
    if (!status)
        status = accel_scheduler_step (setup->scheduler, err);
    return status ? status : accel_optimizer_zero_grad (setup->optimizer, err);
}

/* What is recorded of each step that is; -1: something failed. */
static double
run_steps (struct golden *golden, struct setup *setup, struct accel_error *err)
{
    double worst = 0;
    for (int i = 0; i < COUNT; i++)
        values[i] = accel_generator_uniform (setup->generator) + 0.5F;
    int step = 0;
    while (!strcmp (golden_word (golden), "at")) {
        double here = 0;
        for (int end = (int) golden_number (golden); step < end; step++)
            if (make_step (setup, err))
                return -1;
        for (int i = 0; i < COUNT; i++)
            here = fmax (here, ulps (values[i], golden_float (golden)));
        if (here > 0)
            diag ("step %d: %g ulp", step, here);
        worst = fmax (worst, here);
    }
    return step == 200 ? worst : -1;
}

static void
test_line (struct golden *golden)
{
    struct setup setup;
    struct accel_error err = { 0 };
    read_setup (golden, &setup);
    double worst = -1;
    if (!make_optimizer (&setup, &err) && !make_scheduler (&setup, &err)
        && !accel_prepare (acc, &err, setup.scheduler, setup.optimizer)
        && !accel_generator_create (&setup.generator, SEED, &err))
        worst = run_steps (golden, &setup, &err);
    ok (worst >= 0 && worst <= 2, "%s: at most %g ulp off%s", setup.name, worst, err.text);
    accel_generator_destroy (setup.generator);
    accel_scheduler_destroy (setup.scheduler);
    accel_optimizer_destroy (setup.optimizer);
}

int
main (void)
{
    struct golden golden;
    make_model ();
    golden_find (&golden, "trajectory.txt");
    while (golden_next (&golden))
        test_line (&golden);
    accel_model_destroy (model);
    accel_close (acc);
    return done_testing ();
}
