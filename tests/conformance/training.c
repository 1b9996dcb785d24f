/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of training.sh: `training CHECK [ARGUMENT]`; says on standard error what is wrong and exits with 1. */
#include <config.h>

#include "tests/conformance/check.h"
#include "tests/samples.h"

#include <accel/accel.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS = 5, LARGE = 300000, ELEMENTS = 7 + 12 + LARGE + 1 + 7 };

static int64_t shape_7[] = { 7 }, shape_3x4[] = { 3, 4 }, shape_4x3[] = { 4, 3 }, shape_large[] = { LARGE };

/* Five parameters; the third is large, so that the gradients need two buckets. */
struct example {
    DLTensor data[TENSORS], grads[TENSORS];
    struct accel_parameter parameters[TENSORS];
    struct accel_model *model;
};

static void
describe_example (struct example *example)
{
    static const char *const names[] = { "first", "matrix", "large", "number", "last" };
    static int64_t *const shapes[] = { shape_7, shape_3x4, shape_large, NULL, shape_7 };
    static const int ndims[] = { 1, 2, 1, 0, 1 };
    for (int i = 0; i < TENSORS; i++) {
        example->data[i] = (DLTensor){ .device = { kDLCPU, 0 }, .ndim = ndims[i], .shape = shapes[i],
                                       .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
        example->grads[i] = example->data[i];
        example->parameters[i] = (struct accel_parameter){ names[i], &example->data[i], &example->grads[i] };
    }
}

static bool
create_example (struct example *example, size_t count)
{
    struct accel_error err;
    return check (!accel_model_create (&example->model, example->parameters, count, &err), "create: %s", err.text);
}

/* The numbers of rank OF: parameters in step 0, gradients later. */
static void
draw (float *values, int of, int step)
{
    struct accel_generator *generator;
    if (accel_generator_create (&generator, (uint64_t) (of + 100 * step), NULL))
        abort ();
    for (int i = 0; i < ELEMENTS; i++)
        values[i] = accel_generator_uniform (generator) * 2 - 1;
    accel_generator_destroy (generator);
}

static void
copy_in (DLTensor *tensors, const float *values)
{
    for (int i = 0; i < TENSORS; i++) {
        size_t count = accel_tensor_count (&tensors[i]);
        memcpy (tensors[i].data, values, count * sizeof *values);
        values += count;
    }
}

static bool
is_equal (const DLTensor *tensors, const float *values)
{
    for (int i = 0; i < TENSORS; i++) {
        size_t count = accel_tensor_count (&tensors[i]);
        if (memcmp (tensors[i].data, values, count * sizeof *values))
            return false;
        values += count;
    }
    return true;
}

struct pass {
    struct example *example;
    int step;
    const char *failure;
};

static enum accel_status
backward (void *user, float scale, struct accel_error *err)
{
    const struct pass *pass = user;
    static float values[ELEMENTS];
    (void) scale;
    if (pass->failure) {
        snprintf (err->text, sizeof err->text, "%s", pass->failure);
        return ACCEL_ERR_INVALID;
    }
    draw (values, rank, pass->step);
    copy_in (pass->example->grads, values);
    return ACCEL_OK;
}

/* What the mean over all ranks has to be, in rank order. */
static void
average (float *mean, int step)
{
    static float values[ELEMENTS];
    draw (mean, 0, step);
    for (int other = 1; other < size; other++) {
        draw (values, other, step);
        for (int i = 0; i < ELEMENTS; i++)
            mean[i] += values[i];
    }
    for (int i = 0; i < ELEMENTS; i++)
        mean[i] /= (float) size;
}

static void
run_steps (struct example *example, const char *what)
{
    static float expected[ELEMENTS];
    struct accel_error err;
    draw (expected, rank, 0);
    copy_in (example->data, expected);
    if (!check (!accel_prepare (acc, &err, example->model), "%s: prepare: %s", what, err.text))
        return;
    draw (expected, 0, 0);
    check (is_equal (example->data, expected), "%s: the parameters are not rank 0's", what);
    for (int step = 1; step <= 3; step++) {
        struct pass pass = { .example = example, .step = step };
        if (!check (!accel_backward (acc, example->model, 1, backward, &pass, &err), "%s: %s", what, err.text))
            return;
        average (expected, step);
        check (is_equal (example->grads, expected), "%s: step %d: the gradients are not the mean", what, step);
    }
}

/* Gradients in the library's memory, in one array of the program, and in an array that on odd ranks has gaps. */
static void
check_average (void)
{
    static float own[ELEMENTS + TENSORS];
    for (int kind = 0; kind < 3; kind++) {
        struct example example;
        describe_example (&example);
        size_t at = 0;
        for (int i = 0; kind && i < TENSORS; i++) {
            example.grads[i].data = own + at;
            at += accel_tensor_count (&example.grads[i]) + (kind == 2 && rank % 2 ? 1 : 0);
        }
        if (create_example (&example, TENSORS)) {
            run_steps (&example, kind == 0 ? "shared memory" : kind == 1 ? "one array" : "gaps on some ranks");
            accel_model_destroy (example.model);
        }
    }
}

/* An optimizer with groups, and schedulers over all of them, of which the second moves one. */
struct grouped {
    struct example example;
    struct accel_optimizer *optimizer;
    struct accel_scheduler *schedulers[2];
};

static bool
create_grouped (struct grouped *grouped)
{
    static const struct accel_scheduler_options parts[] = {
        { .schedule = ACCEL_SCHEDULE_WARMUP_STABLE_DECAY, .warmup_steps = 3, .decay_steps = 9, .total_steps = 20,
          .group = "matrices" },
        { .schedule = ACCEL_SCHEDULE_STEP, .step_size = 2, .gamma = 0.5 },
    };
    static const struct accel_scheduler_options of_the_rest
        = { .schedule = ACCEL_SCHEDULE_COSINE, .total_steps = 20, .final_fraction = 0.1, .group = "rest" };
    const struct accel_param_group groups[] = {
        { .name = "matrices", .match = "m*,large", .lr = 0.02, .beta1 = 0.5 },
        { .match = "*st", .weight_decay = ACCEL_ZERO, .amsgrad = ACCEL_YES },
    };
    const struct accel_optimizer_options options = { .lr = 0.01, .weight_decay = 0.1, .groups = groups,
                                                     .group_count = 2 };
    struct accel_error err;
    describe_example (&grouped->example);
    return create_example (&grouped->example, TENSORS)
           && check (!accel_optimizer_create (&grouped->optimizer, grouped->example.model, ACCEL_ADAMW, &options, &err)
                         && !accel_scheduler_create_sequential (&grouped->schedulers[0], grouped->optimizer, parts, 2,
                                                                (uint64_t[]){ 6 }, &err)
                         && !accel_scheduler_create (&grouped->schedulers[1], grouped->optimizer, &of_the_rest, &err),
                     "groups: %s", err.text);
}

/* Clip, and step; schedulers so many times. */
static bool
step_grouped (struct grouped *grouped, float *norm, int steps)
{
    struct accel_error err = { 0 };
    bool good = !accel_clip_grad_norm (grouped->example.model, 0.5, norm,
                                       &(struct accel_clip_options){ .error_if_nonfinite = true }, &err)
                && !accel_optimizer_step (grouped->optimizer, &err);
    for (int i = 0; good && i < steps; i++)
        good = !accel_scheduler_step (grouped->schedulers[0], &err)
               && !accel_scheduler_step (grouped->schedulers[1], &err);
    return check (good, "groups: %s", err.text);
}

static void
destroy_grouped (struct grouped *grouped)
{
    accel_scheduler_destroy (grouped->schedulers[0]);
    accel_scheduler_destroy (grouped->schedulers[1]);
    accel_optimizer_destroy (grouped->optimizer);
    accel_model_destroy (grouped->example.model);
}

/* Prepared over all ranks, or alone with the mean of their gradients: the same bits. */
static void
check_groups (void)
{
    static float values[ELEMENTS], slopes[ELEMENTS];
    struct grouped shared = { 0 }, alone = { 0 };
    struct accel_error err;
    float norms[2];
    if (!create_grouped (&shared) || !create_grouped (&alone))
        return;
    draw (values, 0, 0);
    copy_in (shared.example.data, values);
    copy_in (alone.example.data, values);
    size_t at = 0;
    for (int i = 0; i < TENSORS; i++) {
        alone.example.grads[i].data = slopes + at;
        at += accel_tensor_count (&alone.example.grads[i]);
    }
    if (!check (!accel_prepare (acc, &err, shared.example.model, shared.optimizer, shared.schedulers[0],
                                shared.schedulers[1]), "groups: prepare: %s", err.text))
        return;
    for (int step = 1; step <= 5; step++) {
        struct pass pass = { .example = &shared.example, .step = step };
        average (slopes, step);
        if (!check (!accel_backward (acc, shared.example.model, 1, backward, &pass, &err), "groups: %s", err.text)
            || !step_grouped (&shared, &norms[0], 1) || !step_grouped (&alone, &norms[1], size))
            return;
        at = 0;
        for (int i = 0; i < TENSORS; i++) {
            size_t count = accel_tensor_count (&alone.example.data[i]);
            memcpy (values + at, alone.example.data[i].data, count * sizeof *values);
            at += count;
        }
        check (norms[0] == norms[1], "groups: step %d: the norm is %g, not %g", step, (double) norms[0],
               (double) norms[1]);
        check (is_equal (shared.example.data, values), "groups: step %d: the parameters differ", step);
        for (size_t g = 0; g < 3; g++) {
            struct accel_param_group both[2] = { { .lr = 0 } };
            check (!accel_optimizer_get_group (shared.optimizer, g, &both[0], NULL)
                       && !accel_optimizer_get_group (alone.optimizer, g, &both[1], NULL) && both[0].lr == both[1].lr,
                   "groups: step %d: the rates of group %zu differ", step, g);
        }
    }
    destroy_grouped (&shared);
    destroy_grouped (&alone);
}

/* The highest rank has another model; all ranks have to hear of the first difference. */
static void
check_difference (const char *kind)
{
    struct example example;
    size_t count = TENSORS;
    static float own[12];
    struct accel_error err = { 0 };
    describe_example (&example);
    if (rank == size - 1) {
        if (!strcmp (kind, "name"))
            example.parameters[1].name = "matrixx";
        else if (!strcmp (kind, "shape"))
            example.data[1].shape = example.grads[1].shape = shape_4x3;
        else if (!strcmp (kind, "trained"))
            example.parameters[1].grad = NULL;
        else if (!strcmp (kind, "dtype"))
            example.data[1].dtype = accel_dtype_to_dl (ACCEL_BFLOAT16);
        else if (!strcmp (kind, "gradient"))
            example.grads[1].dtype = accel_dtype_to_dl (ACCEL_BFLOAT16);
        else if (!strcmp (kind, "memory"))
            example.grads[1].data = own;
        else if (!strcmp (kind, "fewer"))
            count = 1;
    } else if (!strcmp (kind, "more")) {
        count = 1;
    }
    if (!create_example (&example, count))
        return;
    enum accel_status status = accel_prepare (acc, &err, example.model);
    printf ("%s\n", err.text);
    check (status == ACCEL_ERR_INVALID && err.code == status, "%s: status %d", kind, (int) status);
    check (!example.grads[0].data, "a refused model got memory");
    check (!accel_wait_for_everyone (acc, &err), "and then: %s", err.text);
    accel_model_destroy (example.model);
}

static void
check_failure (void)
{
    struct example example;
    struct accel_error err = { 0 };
    describe_example (&example);
    if (!create_example (&example, TENSORS)
        || !check (!accel_prepare (acc, &err, example.model), "prepare: %s", err.text))
        return;
    struct pass pass = { .example = &example, .step = 1, .failure = rank == 1 ? "layer 3 overflowed" : NULL };
    enum accel_status status = accel_backward (acc, example.model, 1, backward, &pass, &err);
    printf ("rank %d: %s\n", rank, err.text);
    check (status == (rank == 1 ? ACCEL_ERR_CALLBACK : ACCEL_ERR_PEER) && err.code == status, "status %d: %s",
           (int) status, err.text);
    check (strstr (err.text, "layer 3 overflowed") && strstr (err.text, "rank 1"), "text: %s", err.text);
    check (accel_wait_for_everyone (acc, &err) != ACCEL_OK, "the communicator works in spite of it");
    accel_model_destroy (example.model);
}

/* Rank r makes r + 2 steps; those that are over count as zeros. */
static void
average_of_live (float *mean, int step)
{
    static float values[ELEMENTS];
    memset (mean, 0, ELEMENTS * sizeof *mean);
    for (int other = 0; other < size; other++) {
        if (step > other + 2)
            continue;
        draw (values, other, step);
        for (int i = 0; i < ELEMENTS; i++)
            mean[i] += values[i];
    }
    for (int i = 0; i < ELEMENTS; i++)
        mean[i] /= (float) size;
}

static void
join_steps (struct example *example, enum accel_flag even)
{
    static float expected[ELEMENTS];
    struct accel_error err;
    if (!check (!accel_join_uneven_inputs (acc, even, &err), "join: %s", err.text))
        return;
    check (accel_join_uneven_inputs (acc, even, NULL) == ACCEL_ERR_INVALID, "twice");
    for (int step = 1; step <= rank + 2; step++) {
        struct pass pass = { .example = example, .step = step };
        if (!check (!accel_backward (acc, example->model, 1, backward, &pass, &err), "step %d: %s", step, err.text))
            return;
        average_of_live (expected, step);
        check (is_equal (example->grads, expected), "step %d: the gradients are not the mean", step);
    }
    draw (expected, rank, 77);
    copy_in (example->data, expected);
    if (!check (!accel_join_end (acc, &err), "end: %s", err.text))
        return;
    draw (expected, size - 1, 77);
    check (is_equal (example->data, expected), "the parameters are not those of who made the most steps");
    check (accel_join_end (acc, NULL) == ACCEL_ERR_INVALID, "an end without a beginning");
}

static void
check_join (void)
{
    struct example example;
    struct accel_error err;
    describe_example (&example);
    if (!create_example (&example, TENSORS)
        || !check (!accel_prepare (acc, &err, example.model), "prepare: %s", err.text))
        return;
    join_steps (&example, ACCEL_DEFAULT);
    join_steps (&example, ACCEL_NO);
    accel_model_destroy (example.model);
}

static const struct accel_field field = { "x", ACCEL_INT64, 0, { 0 } };

static bool
open_loader (struct accel_loader **loader, struct accel_dataset *dataset, size_t samples,
             const struct accel_loader_options *options)
{
    struct accel_error err;
    *dataset = (struct accel_dataset){ samples, &field, 1, sample_is_index, NULL };
    return check (!accel_loader_create (loader, dataset, options, &err), "loader: %s", err.text)
           && check (!accel_prepare (acc, &err, *loader), "prepare: %s", err.text);
}

/* An epoch's gathered batches have to be each sample once; with drop_last, whole rounds only. */
static void
check_epoch (struct accel_loader *loader, size_t samples, const struct accel_loader_options *options)
{
    unsigned seen[32] = { 0 };
    size_t rows = 0, repeated = 0, round = options->batch_size * (size_t) size;
    size_t wanted = options->drop_last ? samples / round * round : samples;
    struct accel_tensor out = { 0 };
    struct accel_error err;
    const struct accel_batch *batch;
    while (accel_loader_next (loader, &batch, &err)) {
        if (!check (!accel_gather_for_metrics (&out, acc, accel_batch_tensor (batch, "x"), &err), "%s", err.text))
            break;
        for (int64_t i = 0; i < out.shape[0]; i++, rows++)
            repeated += ++seen[((int64_t *) out.dl.data)[i]] > 1;
    }
    accel_tensor_release (&out);
    check (!err.code && rows == wanted && !repeated, "%zu samples in batches of %zu%s%s: %zu rows, %zu repeated",
           samples, options->batch_size, options->shuffle ? ", shuffled" : "", options->drop_last ? ", drop_last" : "",
           rows, repeated);
}

static void
check_metrics (void)
{
    for (size_t samples = 1; samples <= 20; samples++)
        for (unsigned form = 0; form < 16; form++) {
            struct accel_loader_options options = { .batch_size = form % 4 + 1, .shuffle = form & 4,
                                                    .drop_last = form & 8, .seed = samples };
            struct accel_dataset dataset;
            struct accel_loader *loader = NULL;
            if (open_loader (&loader, &dataset, samples, &options))
                for (int epoch = 0; epoch < 2; epoch++)
                    check_epoch (loader, samples, &options);
            accel_loader_destroy (loader);
        }
}

/* What joining does to the last rounds of loaders: 2 samples for each rank and one more. */
static void
check_lengths (void)
{
    struct accel_dataset dataset;
    struct accel_loader *even, *uneven;
    struct accel_error err;
    size_t samples = 2 * (size_t) size + 1, more = rank == 0 || size == 1;
    if (!open_loader (&even, &dataset, samples, &(struct accel_loader_options){ .batch_size = 1 })
        || !open_loader (&uneven, &dataset, samples,
                         &(struct accel_loader_options){ .batch_size = 1, .even_batches = ACCEL_NO })
        || !check (!accel_prepare (acc, &err, even, uneven), "prepare: %s", err.text))
        return;
    static const struct {
        enum accel_flag even;
        bool first, second;
    } cases[] = { { ACCEL_DEFAULT, true, false },
                  { ACCEL_YES, true, true },
                  { ACCEL_NO, false, false } };
    for (int i = 0; i < 3; i++) {
        check (!accel_join_uneven_inputs (acc, cases[i].even, &err), "join: %s", err.text);
        check (accel_loader_length (even) == 2 + (cases[i].first ? 1 : more), "case %d: %zu", i,
               accel_loader_length (even));
        check (accel_loader_length (uneven) == 2 + (cases[i].second ? 1 : more), "case %d: %zu", i,
               accel_loader_length (uneven));
        size_t count = 0;
        for (const struct accel_batch *batch; accel_loader_next (even, &batch, NULL);)
            count++;
        check (count == accel_loader_length (even), "case %d: %zu batches", i, count);
        check (!accel_join_end (acc, &err), "end: %s", err.text);
    }
    accel_loader_destroy (even);
    accel_loader_destroy (uneven);
}

int
main (int argc, char **argv)
{
    struct accel_error err;
    const char *what = argc > 1 ? argv[1] : "";
    if (accel_open (&acc, &(struct accel_options){ .timeout_ms = 200000 }, &err)) {
        fprintf (stderr, "open: %s\n", err.text);
        return 1;
    }
    rank = accel_process_index (acc);
    size = accel_num_processes (acc);
    if (!strcmp (what, "average"))
        check_average ();
    else if (!strcmp (what, "difference") && argc > 2)
        check_difference (argv[2]);
    else if (!strcmp (what, "failure"))
        check_failure ();
    else if (!strcmp (what, "groups"))
        check_groups ();
    else if (!strcmp (what, "join"))
        check_join ();
    else if (!strcmp (what, "lengths"))
        check_lengths ();
    else if (!strcmp (what, "metrics"))
        check_metrics ();
    else
        check (false, "no check '%s'", what);
    accel_close (acc);
    return wrong != 0;
}
