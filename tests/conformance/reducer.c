/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of reducer.sh: `reducer CHECK` averages gradients in every way there is, and compares with what one process
 * computes from the gradients of all; says on standard error what is wrong and exits with 1. */
#include <config.h>

#include "lib/data/generator.h"
#include "lib/kernels/floats.h"
#include "lib/state/state_object.h"
#include "lib/train/reducer/reducer_object.h"
#include "tests/samples.h"
#include "tests/slow.h"

#include <accel/accel.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct accel_error err;
#define CHECK_DETAIL err.text
#include "tests/conformance/check.h"

enum { TENSORS = 10, LARGE = 270000, MOST = LARGE };

static int64_t shape_7[] = { 7 }, shape_matrix[] = { 40, 20 }, shape_large[] = { LARGE }, shape_empty[] = { 0, 4 };
static int64_t shape_3x11[] = { 3, 11 }, shape_64[] = { 64 };

static const struct kind {
    const char *name;
    enum accel_dtype data, grad;
    int ndim;
    int64_t *shape;
    bool trained;
} kinds[TENSORS] = {
    { "first", ACCEL_FLOAT32, ACCEL_FLOAT32, 1, shape_7, true },
    { "matrix", ACCEL_FLOAT32, ACCEL_FLOAT32, 2, shape_matrix, true },
    { "large", ACCEL_FLOAT32, ACCEL_FLOAT32, 1, shape_large, true },
    { "half", ACCEL_FLOAT16, ACCEL_FLOAT16, 2, shape_3x11, true },
    { "number", ACCEL_FLOAT32, ACCEL_FLOAT32, 0, NULL, true },
    { "counts", ACCEL_INT64, ACCEL_FLOAT32, 1, shape_7, false },
    { "brain", ACCEL_FLOAT32, ACCEL_BFLOAT16, 2, shape_matrix, true },
    { "empty", ACCEL_FLOAT32, ACCEL_FLOAT32, 2, shape_empty, true },
    { "running", ACCEL_FLOAT64, ACCEL_FLOAT32, 1, shape_64, false },
    { "last", ACCEL_FLOAT32, ACCEL_FLOAT32, 1, shape_64, true },
};

struct example {
    DLTensor data[TENSORS], grads[TENSORS];
    struct accel_parameter parameters[TENSORS];
    struct accel_model *model;
};

static bool
make (struct example *example, const struct accel_ddp_options *options)
{
    for (int i = 0; i < TENSORS; i++) {
        example->data[i] = (DLTensor){ .device = { kDLCPU, 0 }, .ndim = kinds[i].ndim, .shape = kinds[i].shape,
                                       .dtype = accel_dtype_to_dl (kinds[i].data) };
        void *own = example->grads[i].data;
        example->grads[i] = example->data[i];
        example->grads[i].data = own;
        example->grads[i].dtype = accel_dtype_to_dl (kinds[i].grad);
        example->parameters[i] = (struct accel_parameter){ kinds[i].name, &example->data[i],
                                                           kinds[i].trained ? &example->grads[i] : NULL };
    }
    return check (!accel_model_create (&example->model, example->parameters, TENSORS, &err), "create")
           && check (!options || !accel_model_set_ddp (example->model, options, &err), "options");
}

static bool
make_prepared (struct example *example, const struct accel_ddp_options *options)
{
    return make (example, options) && check (!accel_prepare (acc, &err, example->model), "prepare");
}

static size_t
elements (int i)
{
    size_t count = 1;
    for (int d = 0; d < kinds[i].ndim; d++)
        count *= (size_t) kinds[i].shape[d];
    return count;
}

static void
round_to (enum accel_dtype dtype, float *values, size_t count)
{
    static uint16_t halves[MOST];
    if (dtype == ACCEL_FLOAT32)
        return;
    floats_narrow (halves, dtype, values, count);
    floats_widen (values, halves, dtype, count);
}

/* The gradient of parameter @p i on rank OF in step STEP, in its own precision. */
static void
draw (float *values, int i, int of, int step)
{
    uint32_t seed = (uint32_t) (i + 100 * of + 10000 * step) * 2654435761U, count = (uint32_t) elements (i);
    for (uint32_t j = 0; j < count; j++) {
        uint32_t number = (j ^ seed) * 2246822519U;
        number = (number ^ number >> 15) * 3266489917U;
        values[j] = (float) (int32_t) (number >> 8) * 0x1p-23F - 1;
    }
    round_to (kinds[i].grad, values, count);
}

/* What the average must be, by @p hook; @p missing: a bit for each rank that has none. */
static void
expect (float *mean, int i, int step, enum accel_comm_hook hook, unsigned missing)
{
    static float values[MOST];
    enum accel_dtype narrow = hook == ACCEL_COMM_HOOK_FP16   ? ACCEL_FLOAT16
                              : hook == ACCEL_COMM_HOOK_BF16 ? ACCEL_BFLOAT16
                                                             : ACCEL_FLOAT32;
    size_t count = elements (i);
    for (int of = 0; of < size; of++) {
        draw (values, i, of, step);
        if (missing >> of & 1)
            memset (values, 0, sizeof values);
        round_to (narrow, values, count);
        for (size_t j = 0; hook && j < count; j++)
            values[j] /= (float) size;
        round_to (narrow, values, count);
        for (size_t j = 0; j < count; j++)
            mean[j] = of ? mean[j] + values[j] : values[j];
    }
    for (size_t j = 0; !hook && j < count; j++)
        mean[j] /= (float) size;
    round_to (narrow, mean, count);
    round_to (kinds[i].grad, mean, count);
}

static bool
is_mean (const struct example *example, int i, int step, enum accel_comm_hook hook, unsigned missing)
{
    static float mean[MOST];
    static char narrow[MOST * sizeof (float)];
    size_t bytes = model_grad_bytes (example->model, (size_t) i);
    expect (mean, i, step, hook, missing);
    floats_narrow (narrow, kinds[i].grad, mean, bytes / accel_dtype_bytes (kinds[i].grad));
    return !bytes || !memcmp (narrow, example->grads[i].data, bytes);
}

/* A backward pass: gradients are made in an order, and reported. */
enum order { SILENT, BACKWARDS, FORWARDS, SHUFFLED };

struct pass {
    struct example *example;
    int step;
    enum order order;
    unsigned skip; /* a bit for each parameter that is not used here */
    bool adds;     /* to what is there */
};

static enum accel_status
produce (const struct pass *pass, int i, struct accel_error *error)
{
    static float values[MOST], before[MOST];
    struct accel_model *model = pass->example->model;
    if (!kinds[i].trained || pass->skip >> i & 1)
        return ACCEL_OK;
    DLTensor *grad = &pass->example->grads[i];
    size_t count = accel_tensor_count (grad);
    draw (values, i, rank, pass->step);
    if (pass->adds && count)
        floats_widen (before, grad->data, kinds[i].grad, count);
    for (size_t j = 0; pass->adds && j < count; j++)
        values[j] += before[j];
    if (count)
        floats_narrow (grad->data, kinds[i].grad, values, count);
    return pass->order == SILENT ? ACCEL_OK : accel_grad_ready (model, (size_t) i, error);
}

static enum accel_status
backward (void *user, float scale, struct accel_error *error)
{
    const struct pass *pass = user;
    int64_t order[TENSORS];
    struct accel_generator generator;
    (void) scale;
    generator_init (&generator, (uint64_t) (rank + 7 * pass->step));
    accel_generator_permutation (&generator, order, TENSORS);
    for (int i = 0; i < TENSORS; i++) {
        int at = pass->order == SHUFFLED ? (int) order[i] : pass->order == FORWARDS ? i : TENSORS - 1 - i;
        enum accel_status status = produce (pass, at, error);
        if (status)
            return status;
    }
    return ACCEL_OK;
}

static bool
step (struct example *example, int number, enum order order)
{
    struct pass pass = { .example = example, .step = number, .order = order };
    return check (!accel_backward (acc, example->model, 1, backward, &pass, &err), "step %d, order %d", number, order);
}

static bool
all_mean (const struct example *example, int number, enum accel_comm_hook hook, const char *what)
{
    for (int i = 0; i < TENSORS; i++)
        if (kinds[i].trained
            && !check (is_mean (example, i, number, hook, 0), "%s, step %d, hook %d: '%s' is not the mean", what,
                       number, hook, kinds[i].name))
            return false;
    return true;
}

/* The memory of the program: one array for each type, all of it or every second gradient, with gaps on odd ranks. */
static void
give_memory (struct example *example, int memory)
{
    static float array[2 * MOST];
    static uint16_t halves[2 * MOST];
    size_t at = 0, at_half = 0;
    memset (example, 0, sizeof *example);
    for (int i = 0; i < TENSORS; i++) {
        size_t count = elements (i) + (memory == 3 && rank % 2);
        bool own = memory == 1 || memory == 3 || (memory == 2 && i % 2);
        if (own && kinds[i].grad == ACCEL_FLOAT32)
            example->grads[i].data = array + at;
        else if (own)
            example->grads[i].data = halves + at_half;
        at += count;
        at_half += count;
    }
}

static void
check_mean (void)
{
    static const char *const memories[] = { "shared", "one array", "half and half", "gaps" };
    static const double caps[] = { 0, 0.0001, 0.01, 1000 };
    int number = 0;
    for (int memory = 0; memory < 4; memory++)
        for (int cap = IS_SLOW ? memory % 2 : 0; cap < 4; cap += IS_SLOW ? 2 : 1) {
            struct accel_ddp_options options = { .bucket_cap_mb = caps[cap], .find_unused_parameters = memory == 2,
                                                 .comm_hook = (enum accel_comm_hook) ((memory + cap) % 3),
                                                 .overlap = cap % 2 ? ACCEL_OVERLAP_NEVER : ACCEL_OVERLAP_ALWAYS };
            enum accel_comm_hook hook = size > 1 ? options.comm_hook : ACCEL_COMM_HOOK_NONE;
            struct example example;
            give_memory (&example, memory);
            if (make_prepared (&example, &options))
                for (int order = SILENT; order <= SHUFFLED; order++)
                    if (step (&example, ++number, (enum order) order))
                        all_mean (&example, number, hook, memories[memory]);
            accel_model_destroy (example.model);
        }
}

/* How gradients are divided; the program's one array is cut at the cap too, what is alone is copied together. */
static void
check_buckets (void)
{
    static const double caps[] = { 0, 0.001 };
    static const struct {
        int memory, cap;
        size_t spans;
    } cases[] = { { 0, 0, 4 }, { 1, 0, 5 }, { 0, 1, 5 }, { 1, 1, 6 }, { 3, 0, 4 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct accel_ddp_options options = { .bucket_cap_mb = caps[cases[i].cap] };
        struct example example;
        give_memory (&example, cases[i].memory);
        if (make_prepared (&example, &options)) {
            const struct accel_model *model = example.model;
            bool has_gaps = cases[i].memory == 3 && size > 1;
            size_t spans = has_gaps || cases[i].memory != 3 ? cases[i].spans : cases[1].spans;
            check (model->span_count == spans, "case %zu: %zu buckets", i, model->span_count);
            size_t sum = 0;
            for (size_t s = 0; s < model->span_count; s++) {
                char *next = model->spans[s].data;
                FOR_GRADIENTS_OF (model, s, g) {
                    sum += accel_tensor_count (model->parameters[g].grad);
                    next += model->spans[s].allocated ? span_room (&model->spans[s], model, g) : 0;
                    check (!model->spans[s].allocated || (uintptr_t) model->parameters[g].grad->data % 64 == 0,
                           "case %zu: gradient %zu begins no cache line", i, g);
                }
                check (!model->spans[s].allocated
                           || next == (char *) model->spans[s].data
                                          + model->spans[s].count * accel_dtype_bytes (model->spans[s].dtype),
                       "case %zu: bucket %zu ends elsewhere", i, s);
            }
            check (sum == 7 + 800 + LARGE + 33 + 1 + 800 + 64, "case %zu: %zu elements", i, sum);
        }
        accel_model_destroy (example.model);
    }
}

/* Buffers of any type come from rank 0: at the beginning, and after each pass if the option asks for it. */
static void
check_buffers (void)
{
    struct accel_ddp_options options = { .broadcast_buffers = true };
    struct example example = { 0 };
    if (!make (&example, &options))
        return;
    int64_t *counts = example.data[5].data;
    double *running = example.data[8].data;
    counts[6] = rank + 5;
    running[63] = rank + 0.5;
    if (!check (!accel_prepare (acc, &err, example.model), "prepare"))
        return;
    check (counts[6] == 5 && running[63] == 0.5, "buffers are not rank 0's");
    counts[6] = rank + 8;
    step (&example, 1, BACKWARDS);
    check (counts[6] == 8, "buffers are not rank 0's after a pass: %d", (int) counts[6]);
    accel_model_destroy (example.model);
}

static void
check_several (void)
{
    struct example examples[3] = { 0 };
    for (int i = 0; i < 3; i++)
        if (!make_prepared (&examples[i], &(struct accel_ddp_options){ .overlap = ACCEL_OVERLAP_ALWAYS }))
            return;
    for (int number = 1; number <= 6; number++)
        if (step (&examples[number % 3], number, (enum order) (number % 4)))
            all_mean (&examples[number % 3], number, 0, "several models");
    for (int i = 0; i < 3; i++) {
        check (all_mean (&examples[i], i ? i + 3 : 6, 0, "the other models"), "model %d", i);
        accel_model_destroy (examples[i].model);
    }
}

/* Parameter 0 is used by rank 0 only, the matrix by no rank, the large one by the last rank only. */
static unsigned
unused_here (void)
{
    return (rank ? 1U : 0) | 2U | (rank == size - 1 ? 0 : 4U);
}

static void
check_unused_with (const struct accel_ddp_options *options, int memory)
{
    struct example example;
    give_memory (&example, memory);
    if (!make_prepared (&example, options))
        return;
    float *matrix = example.grads[1].data, *first = example.grads[0].data;
    for (int i = 0; i < 800; i++)
        matrix[i] = (float) (rank * 1000 + i);
    first[0] = NAN; /* of an earlier pass, and not to be counted */
    struct pass pass = { .example = &example, .step = 1, .order = SHUFFLED, .skip = unused_here () };
    check (!accel_backward (acc, example.model, 1, backward, &pass, &err), "unused parameters");
    unsigned others = ((1U << size) - 1) & ~1U, but_last = (1U << (size - 1)) - 1;
    check (is_mean (&example, 0, 1, 0, others), "used by rank 0 only");
    check (is_mean (&example, 2, 1, 0, but_last), "used by the last rank only");
    check (is_mean (&example, 9, 1, 0, 0), "used by all");
    bool same = true;
    for (int i = 0; i < 800; i++)
        same = same && matrix[i] == (float) (rank * 1000 + i);
    check (same, "used by no rank, and yet changed");

    /* What an accumulating pass used counts in the averaging one. */
    example.model->held = true;
    pass = (struct pass){ .example = &example, .step = 2, .order = BACKWARDS };
    check (!accel_backward (acc, example.model, 1, backward, &pass, &err), "accumulating");
    example.model->held = false;
    pass = (struct pass){ .example = &example, .step = 3, .order = BACKWARDS, .skip = 2 };
    check (!accel_backward (acc, example.model, 1, backward, &pass, &err), "averaging");
    check (is_mean (&example, 1, 2, 0, 0), "used in an accumulating pass only");
    accel_model_destroy (example.model);
}

/* Averages in each pass of a step: what they have come to is the same on all ranks, whoever uses it in the next. */
static void
check_unused_sums (void)
{
    struct example example = { 0 };
    if (!make_prepared (&example, &(struct accel_ddp_options){ .find_unused_parameters = true }))
        return;
    float first[7], more[7], *grad = example.grads[0].data;
    struct pass pass = { .example = &example, .step = 1, .order = BACKWARDS, .skip = rank ? 1 : 0 };
    accel_set_sync_gradients (acc, false);
    check (!accel_backward (acc, example.model, 1, backward, &pass, &err), "the first pass");
    memcpy (first, grad, sizeof first);
    accel_set_sync_gradients (acc, true);
    pass = (struct pass){ .example = &example, .step = 2, .order = BACKWARDS, .skip = rank < size - 1, .adds = true };
    check (!accel_backward (acc, example.model, 1, backward, &pass, &err), "the last pass");
    draw (more, 0, size - 1, 2);
    for (int j = 0; j < 7; j++)
        check (fabsf (grad[j] - first[j] - more[j] / (float) size) < 1e-6F, "%g, not %g and %g / %d", (double) grad[j],
               (double) first[j], (double) more[j], size);
    accel_model_destroy (example.model);
}

static enum accel_status
use_all_on_rank_0 (void *user, float scale, struct accel_error *cause)
{
    const struct accel_parameter *parameter;
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; (parameter = accel_model_parameter (user, i)) && !rank && !status; i++) {
        if (parameter->grad->dtype.bits == 32)
            *(float *) parameter->grad->data += scale;
        else
            *(uint16_t *) parameter->grad->data = 0x3f80; /* 1 */
        status = accel_grad_ready (user, i, cause);
    }
    return rank ? accel_grad_ready (user, 3, cause) : status;
}

/* The same where gradients of two types alternate, so that one bucket's lie among another's. */
static void
check_unused_types (void)
{
    DLTensor data[4], grads[4];
    static const char *const names[] = { "a", "b", "c", "d" };
    struct accel_parameter parameters[4];
    struct accel_model *model;
    for (int i = 0; i < 4; i++) {
        enum accel_dtype dtype = i % 2 ? ACCEL_FLOAT32 : ACCEL_BFLOAT16;
        data[i] = grads[i] = (DLTensor){ .device = { kDLCPU, 0 }, .dtype = accel_dtype_to_dl (dtype) };
        parameters[i] = (struct accel_parameter){ names[i], &data[i], &grads[i] };
    }
    if (!check (!accel_model_create (&model, parameters, 4, &err), "create"))
        return;
    struct accel_ddp_options options = { .find_unused_parameters = true };
    check (!accel_model_set_ddp (model, &options, &err) && !accel_prepare (acc, &err, model), "prepare");
    for (int i = 1; i <= 2; i++) {
        accel_set_sync_gradients (acc, i != 1);
        check (!accel_backward (acc, model, 1, use_all_on_rank_0, model, &err), "pass %d", i);
        float now = *(const float *) grads[1].data, sum = (float) i / (float) size;
        check (fabsf (now - sum) < 1e-6F, "after %d passes %g, not %g", i, (double) now, (double) sum);
    }
    accel_model_destroy (model);
}

static void
check_unused (void)
{
    check_unused_sums ();
    check_unused_types ();
    struct accel_ddp_options options = { .find_unused_parameters = true };
    for (int i = 0; i < 4 && size > 1; i++) {
        options.overlap = i % 2 ? ACCEL_OVERLAP_NEVER : ACCEL_OVERLAP_ALWAYS;
        options.bucket_cap_mb = i / 2 ? 0.001 : 0;
        check_unused_with (&options, i % 3);
    }
    struct example example = { 0 };
    if (!make_prepared (&example, NULL))
        return;
    struct pass pass = { .example = &example, .step = 1, .order = BACKWARDS, .skip = rank == size - 1 ? 2 : 0 };
    enum accel_status status = accel_backward (acc, example.model, 1, backward, &pass, &err);
    check (status == (rank == size - 1 ? ACCEL_ERR_INVALID : ACCEL_ERR_PEER) && strstr (err.text, "'matrix'")
               && strstr (err.text, "find_unused_parameters"),
           "a gradient never reported: status %d", (int) status);
    accel_model_destroy (example.model);
}

/* Gradients stay local until a pass averages all that has gathered. */
static void
check_accumulate (void)
{
    static float sum[64], part[64];
    struct example example = { 0 };
    if (!make_prepared (&example, &(struct accel_ddp_options){ .overlap = ACCEL_OVERLAP_ALWAYS }))
        return;
    for (int trigger = 0; trigger < 2; trigger++) {
        float *last = example.grads[9].data;
        memset (last, 0, sizeof sum);
        memset (sum, 0, sizeof sum);
        for (int number = 1; number <= 3; number++) {
            example.model->held = number < 3 || trigger;
            struct pass pass = { .example = &example, .step = number, .order = (enum order) number, .adds = true };
            if (!check (!accel_backward (acc, example.model, 1, backward, &pass, &err), "accumulate"))
                return;
            draw (part, 9, rank, number);
            for (int j = 0; j < 64; j++)
                sum[j] += part[j];
            if (example.model->held)
                check (!memcmp (sum, last, sizeof sum), "step %d: not the local sum", number);
        }
        example.model->held = false;
        if (trigger)
            check (!accel_average_gradients (acc, example.model, &err), "sync");
        check (!accel_comm_all_reduce (accel_world (acc), sum, sum, 64, ACCEL_FLOAT32, ACCEL_AVG, &err), "reduce");
        check (!memcmp (sum, last, sizeof sum), "not the mean of the sums");
    }
    accel_model_destroy (example.model);
}

/* What no program should do, each refused, and the pass that did it fails here and is explained to the others. */
static enum accel_status
misuse (void *user, float scale, struct accel_error *error)
{
    const struct pass *pass = user;
    struct accel_model *model = pass->example->model;
    struct pass nested = *pass;
    (void) scale, (void) error;
    check (!accel_grad_ready (model, 9, &err), "report");
    check (accel_wait_for_everyone (acc, &err) == ACCEL_ERR_INVALID && strstr (err.text, "accel_backward"), "barrier");
    check (accel_backward (acc, model, 1, backward, &nested, &err) == ACCEL_ERR_INVALID, "a pass in a pass");
    check (accel_unwrap_model (acc, model, &err) == ACCEL_ERR_INVALID, "unwrap in a pass");
    check (accel_average_gradients (acc, model, &err) == ACCEL_ERR_INVALID, "averages in a pass");
    static const struct {
        size_t index;
        const char *text;
    } cases[] = { { 9, "already reported" }, { 5, "not trained" }, { TENSORS, "no parameter 10 in a model with 10" } };
    if (pass->step) {
        check (accel_grad_ready (model, cases[pass->step - 1].index, &err) == ACCEL_ERR_INVALID
                   && strstr (err.text, cases[pass->step - 1].text),
               "case %d", pass->step);
        check (accel_grad_ready (model, 2, NULL) == ACCEL_ERR_INVALID, "the first error stays");
    }
    for (int i = 0; i < TENSORS - 1 && !pass->step; i++)
        if (kinds[i].trained)
            check (!accel_grad_ready (model, (size_t) i, NULL), "report %d", i);
    return ACCEL_OK;
}

static void
check_misuse (const char *number)
{
    struct example example = { 0 }, other = { 0 };
    struct accel_ddp_options options = { .bucket_cap_mb = -1 };
    if (!make_prepared (&example, &(struct accel_ddp_options){ .overlap = ACCEL_OVERLAP_ALWAYS }) || !make (&other, 0))
        return;
    check (accel_model_set_ddp (other.model, &options, &err) == ACCEL_ERR_INVALID, "negative cap");
    options = (struct accel_ddp_options){ .comm_hook = (enum accel_comm_hook) 9 };
    check (accel_model_set_ddp (other.model, &options, &err) == ACCEL_ERR_INVALID, "no such hook");
    options = (struct accel_ddp_options){ .overlap = (enum accel_overlap) 9 };
    check (accel_model_set_ddp (other.model, &options, &err) == ACCEL_ERR_INVALID, "no such overlap");
    options = (struct accel_ddp_options){ .min_compression_rate = NAN };
    check (accel_model_set_ddp (other.model, &options, &err) == ACCEL_ERR_INVALID, "rate");
    check (accel_model_set_ddp (other.model, NULL, &err) == ACCEL_ERR_INVALID, "no options");
    check (accel_model_set_ddp (example.model, &options, &err) == ACCEL_ERR_INVALID, "already prepared");
    check (accel_grad_ready (other.model, 0, &err) == ACCEL_ERR_INVALID, "not prepared");
    check (accel_grad_ready (example.model, 0, &err) == ACCEL_ERR_INVALID, "in no pass");
    check (!accel_unwrap_model (acc, other.model, &err), "unwrap what is not prepared");
    if (size > 1) {
        options = (struct accel_ddp_options){ .bucket_cap_mb = rank == size - 1 ? 3 : 4 };
        check (!accel_model_set_ddp (other.model, &options, &err), "options");
        check (accel_prepare (acc, &err, other.model) == ACCEL_ERR_INVALID && strstr (err.text, "accel_ddp_options"),
               "other options on one rank");
    }
    struct pass pass = { .example = &example, .step = 0 };
    check (!accel_backward (acc, example.model, 1, misuse, &pass, &err), "a pass that continues regardless");
    pass.step = rank == size - 1 ? atoi (number) : 0;
    enum accel_status status = accel_backward (acc, example.model, 1, misuse, &pass, &err);
    check (status == (rank == size - 1 ? ACCEL_ERR_INVALID : ACCEL_ERR_PEER) && strstr (err.text, "accel_grad_ready"),
           "misuse %s: status %d", number, (int) status);
    accel_model_destroy (example.model);
    accel_model_destroy (other.model);
}

/* Prepared, undone, prepared again, and all forgotten at once. */
static void
check_unwrap (void)
{
    struct example example = { 0 };
    if (!make_prepared (&example, NULL) || !step (&example, 1, BACKWARDS))
        return;
    const void *shared = example.grads[2].data;
    for (int round = 2; round < 5; round++) {
        check (round % 2 ? !accel_unwrap_model (acc, example.model, &err) : !accel_free_memory (acc, &err), "unwrap");
        check (example.grads[2].data && example.grads[2].data != shared, "round %d: gradients stayed", round);
        all_mean (&example, round - 1, 0, "after unwrap");
        struct pass pass = { .example = &example, .step = 9 };
        check (accel_backward (acc, example.model, 1, backward, &pass, &err) == ACCEL_ERR_INVALID, "not prepared");
        struct accel_ddp_options options = { .bucket_cap_mb = round };
        check (!accel_model_set_ddp (example.model, &options, &err), "set");
        check (!accel_prepare (acc, &err, example.model), "prepare again");
        check (example.model->spans[0].allocated, "round %d: not in shared memory again", round);
        all_mean (&example, round - 1, 0, "prepared again");
        if (step (&example, round, SHUFFLED))
            all_mean (&example, round, 0, "round");
    }
    check (!accel_unwrap_model (acc, example.model, &err), "unwrap");
    static float own[7];
    memcpy (own, example.grads[0].data, sizeof own);
    example.grads[0].data = own;
    check (!accel_prepare (acc, &err, example.model) && example.grads[0].data == own, "memory given after unwrap");
    all_mean (&example, 4, 0, "partly in memory given after unwrap");
    if (step (&example, 5, SHUFFLED))
        all_mean (&example, 5, 0, "a step with it");
    check (!accel_unwrap_model (acc, example.model, &err) && example.grads[0].data == own, "unwrap, and destroy");
    void *given = example.grads[2].data = malloc (elements (2) * sizeof (float));
    accel_model_destroy (example.model);
    check (example.grads[2].data == given, "destroy: the program's memory is not forgotten");
    check (!example.grads[9].data, "destroy: tensors forget our memory");
    free (given);
}

/* A loader goes through all of the data again, shuffled or not, and can be shared once more. */
static void
check_free (void)
{
    static const struct accel_field field = { "x", ACCEL_INT64, 0, { 0 } };
    const struct accel_dataset dataset = { 24, &field, 1, sample_is_index, NULL, NULL };
    for (int random = 0; random < 2; random++) {
        struct accel_loader_options options = { .batch_size = 1, .random_sampler = random };
        struct accel_loader *loader;
        const struct accel_batch *batch;
        if (!check (!accel_loader_create (&loader, &dataset, &options, &err), "loader"))
            return;
        for (int round = 0; round < 3; round++) {
            check (!accel_prepare (acc, &err, loader), "prepare");
            check (accel_loader_length (loader) == (size_t) ((24 + size - 1) / size), "not shared");
            check (accel_loader_next (loader, &batch, &err), "a batch");
            check (!accel_free_memory (acc, &err), "free");
            check (accel_loader_length (loader) == 24, "not all of the data");
            int batches = 0;
            while (accel_loader_next (loader, &batch, &err))
                batches++;
            check (batches == 24, "%d batches", batches);
        }
        accel_loader_destroy (loader);
    }
    check (accel_free_memory (NULL, &err) == ACCEL_ERR_INVALID, "free nothing");
}

static void
check_not_finite (void)
{
    for (int hook = 0; hook <= ACCEL_COMM_HOOK_POWER_SGD; hook++) {
        struct example example = { 0 };
        struct accel_ddp_options options = { .comm_hook = (enum accel_comm_hook) hook, .start_iter = 1 };
        if (!make_prepared (&example, &options))
            return;
        for (int number = 1; number <= 4; number++) {
            step (&example, number, SILENT);
            float *matrix = example.grads[1].data;
            for (int i = 0; i < 800; i++)
                check (isfinite (matrix[i]), "hook %d, step %d: not finite any more", hook, number);
            if (rank == size - 1)
                matrix[3] = number % 2 ? INFINITY : NAN;
            check (!accel_average_gradients (acc, example.model, &err), "sync");
            check (!isfinite (matrix[3]), "hook %d, step %d: what was not finite got lost", hook, number);
        }
        accel_model_destroy (example.model);
    }
}

/* Rank r makes r + 2 steps; whoever has ended takes part with zeros, hook included.  Of PowerSGD vectors are exact. */
static void
check_join (void)
{
    for (int hook = 0; hook <= ACCEL_COMM_HOOK_POWER_SGD; hook++) {
        struct example example = { 0 };
        struct accel_ddp_options options = { .comm_hook = (enum accel_comm_hook) hook, .overlap = ACCEL_OVERLAP_ALWAYS,
                                             .find_unused_parameters = hook == 1, .broadcast_buffers = hook == 2,
                                             .start_iter = 1 };
        bool power = hook == ACCEL_COMM_HOOK_POWER_SGD;
        if (!make_prepared (&example, &options)
            || !check (!accel_join_uneven_inputs (acc, ACCEL_DEFAULT, &err), "join"))
            return;
        for (int number = 1; number <= rank + 2; number++) {
            unsigned ended = 0;
            for (int of = 0; of < size; of++)
                ended |= number > of + 2 ? 1U << of : 0;
            int64_t *counts = example.data[5].data;
            counts[6] = 100 * number + rank;
            struct pass own = { .example = &example, .step = number };
            if (number % 3 == 2 ? !check (!backward (&own, 1, &err)
                                              && !accel_average_gradients (acc, example.model, &err), "average")
                                : !step (&example, number, (enum order) (number % 4)))
                return;
            check (hook != 2 || counts[6] == 100 * number + size - 1, "step %d: a buffer of who has no data", number);
            for (int i = 0; i < TENSORS; i++)
                if (kinds[i].trained && !(power && kinds[i].ndim == 2))
                    check (is_mean (&example, i, number, size > 1 && !power ? options.comm_hook : 0, ended),
                           "hook %d, step %d: '%s' is not the mean", hook, number, kinds[i].name);
        }
        if (!check (!accel_join_end (acc, &err), "end"))
            return;
        const float *last = example.grads[9].data;
        check (rank == size - 1 || last[0] == 0, "hook %d: the others' gradients were left", hook);
        accel_model_destroy (example.model);
    }
}

/* Rank 0 has no data left, ranks 1 and 2 average different models: all get the error. */
static void
check_models (void)
{
    struct example examples[3] = { 0 };
    for (int i = 0; i < 3; i++)
        if (!make_prepared (&examples[i], NULL))
            return;
    struct pass pass = { .example = &examples[rank == 1 ? 0 : 2], .step = 1 };
    check (!accel_join_uneven_inputs (acc, ACCEL_DEFAULT, &err), "join");
    enum accel_status status = rank ? accel_backward (acc, pass.example->model, 1, backward, &pass, &err)
                                    : accel_join_end (acc, &err);
    check (status == ACCEL_ERR_INVALID && strstr (err.text, "different models"), "status %d", (int) status);
    for (int i = 0; i < 3; i++)
        accel_model_destroy (examples[i].model);
}

static const struct {
    const char *name;
    void (*run) (void);
} checks[] = {
    { "mean", check_mean },         { "buckets", check_buckets },       { "buffers", check_buffers },
    { "several", check_several },   { "unused", check_unused },         { "accumulate", check_accumulate },
    { "unwrap", check_unwrap },     { "not-finite", check_not_finite }, { "join", check_join },
    { "free", check_free },         { "models", check_models },
};

int
main (int argc, char **argv)
{
    if (argc < 2 || accel_open (&acc, &(struct accel_options){ .timeout_ms = 200000 }, &err)) {
        fprintf (stderr, "open: %s\n", err.text);
        return 1;
    }
    rank = accel_process_index (acc);
    size = accel_num_processes (acc);
    if (argc == 3)
        check_misuse (argv[2]);
    bool known = argc == 3;
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        if (argc == 2 && !strcmp (argv[1], checks[i].name)) {
            known = true;
            checks[i].run ();
        }
    accel_close (acc);
    return wrong || !known;
}
