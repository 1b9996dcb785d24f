/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of reducer.sh: `power_sgd CHECK` compresses gradients, and looks at what comes out; and what happens when
 * allocations fail, one after the other, on all ranks at once. */
#include <config.h>

#include "lib/kernels/floats.h"
#include "lib/train/reducer/reducer_object.h"
#include "tests/allocators.h"
#include "tests/golden/golden.h"

#include <accel/accel.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct accel_error err;
#define CHECK_DETAIL err.text
#include "tests/conformance/check.h"

enum { TENSORS = 4, ROWS = 40, COLUMNS = 30, ELEMENTS = ROWS * COLUMNS };

static int tensors = TENSORS;

static int64_t shape_matrix[] = { ROWS, COLUMNS }, shape_cube[] = { ROWS, 5, 6 }, shape_vector[] = { ROWS };

/* Two matrices that are compressed, one of three dimensions, and two vectors that are not. */
struct net {
    DLTensor data[TENSORS], grads[TENSORS];
    struct accel_parameter parameters[TENSORS];
    struct accel_model *model;
    int step, rank_of_gradients;
    float mean[ELEMENTS]; /* of the first matrix */
};

static bool
make (struct net *net, const struct accel_ddp_options *options, enum accel_dtype dtype)
{
    static const char *const names[] = { "matrix", "bias", "cube", "last" };
    static int64_t *const shapes[] = { shape_matrix, shape_vector, shape_cube, shape_vector };
    static const int ndims[] = { 2, 1, 3, 1 };
    memset (net, 0, sizeof *net);
    for (int i = 0; i < TENSORS; i++) {
        net->data[i] = (DLTensor){ .device = { kDLCPU, 0 }, .ndim = ndims[i], .shape = shapes[i],
                                   .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
        net->grads[i] = net->data[i];
        net->grads[i].dtype = accel_dtype_to_dl (dtype);
        net->parameters[i] = (struct accel_parameter){ names[i], &net->data[i], &net->grads[i] };
    }
    return check (!accel_model_create (&net->model, net->parameters, (size_t) tensors, &err), "create")
           && check (!accel_model_set_ddp (net->model, options, &err), "options")
           && check (!accel_prepare (acc, &err, net->model), "prepare");
}

static float
noise (uint32_t number, uint32_t seed)
{
    number = (number ^ seed * 2654435761U) * 2246822519U;
    number = (number ^ number >> 15) * 3266489917U;
    number = (number ^ number >> 13) * 668265263U;
    return (float) (int32_t) (number >> 8) * 0x1p-23F - 1;
}

/* A gradient of rank OF; of low rank where that is asked for, in directions that all ranks share. */
static float
value (const struct net *net, int i, int of, uint32_t j)
{
    uint32_t seed = (uint32_t) (17 * i + 1000 * of + 50000 * net->step);
    if (!net->rank_of_gradients || net->grads[i].ndim == 1)
        return noise (j, seed);
    float sum = 0;
    for (uint32_t k = 0; k < (uint32_t) net->rank_of_gradients; k++)
        sum += noise (k, seed) * noise (j / COLUMNS, 7 + k) * noise (j % COLUMNS, 99 + k);
    return sum;
}

static enum accel_status
backward (void *user, float scale, struct accel_error *error)
{
    struct net *net = user;
    static float values[ELEMENTS];
    enum accel_status status = ACCEL_OK;
    (void) scale;
    for (int i = 0; i < tensors && !status; i++) {
        size_t count = accel_tensor_count (&net->grads[i]);
        for (uint32_t j = 0; j < count; j++)
            values[j] = value (net, i, rank, j);
        floats_narrow (net->grads[i].data, model_grad_dtype (net->model, (size_t) i), values, count);
        status = accel_grad_ready (net->model, (size_t) i, error);
    }
    return status;
}

static bool
step (struct net *net)
{
    return check (!accel_backward (acc, net->model, 0, backward, net, &err), "backward");
}

/* How far parameter @p i's gradient is from the mean, relative to it. */
static double
distance (const struct net *net, int i)
{
    static float values[ELEMENTS];
    size_t count = accel_tensor_count (&net->grads[i]);
    double far = 0, length = 0;
    floats_widen (values, net->grads[i].data, model_grad_dtype (net->model, (size_t) i), count);
    for (uint32_t j = 0; j < count; j++) {
        double mean = 0;
        for (int of = 0; of < size; of++)
            mean += (double) value (net, i, of, j) / size;
        far += ((double) values[j] - mean) * ((double) values[j] - mean);
        length += mean * mean;
    }
    return sqrt (far / length);
}

static void
check_same (const struct net *net, const char *what)
{
    static float first[ELEMENTS];
    for (int i = 0; i < TENSORS; i++) {
        size_t bytes = model_grad_bytes (net->model, (size_t) i);
        memcpy (first, net->grads[i].data, bytes);
        check (!accel_comm_broadcast (accel_world (acc), first, bytes, ACCEL_UINT8, 0, &err), "broadcast");
        check (!memcmp (first, net->grads[i].data, bytes), "%s: not the same on all ranks", what);
    }
}

/* Gradients of low rank are exact from the first compressed pass on; vectors, and all before, always. */
static void
check_exact (void)
{
    for (int form = 0; form < 8; form++) {
        struct net net;
        struct accel_ddp_options options = { .comm_hook = ACCEL_COMM_HOOK_POWER_SGD, .start_iter = 2,
                                             .matrix_approximation_rank = form & 1 ? 3 : 2,
                                             .use_error_feedback = form & 2 ? ACCEL_NO : ACCEL_YES,
                                             .warm_start = form & 4 ? ACCEL_NO : ACCEL_YES,
                                             .overlap = ACCEL_OVERLAP_ALWAYS, .bucket_cap_mb = form & 1 ? 0.001 : 0,
                                             .find_unused_parameters = form & 4 };
        enum accel_dtype dtype = form == 7 ? ACCEL_BFLOAT16 : ACCEL_FLOAT32;
        double allowed = form == 7 ? 0.2 : 1e-5; /* of a mean much smaller than what was rounded to 16 bits */
        if (!make (&net, &options, dtype))
            return;
        net.rank_of_gradients = 2;
        for (net.step = 1; net.step <= 6 && step (&net); net.step++) {
            for (int i = 0; i < TENSORS; i++)
                check (distance (&net, i) < (i % 2 ? allowed / 10 : allowed), "form %d, step %d: tensor %d is %g off",
                       form, net.step, i, distance (&net, i));
            check_same (&net, "exact");
        }
        accel_model_destroy (net.model);
    }
}

/* A rank as high as the matrix leaves nothing to compress; and nor does a high min_compression_rate. */
static void
check_whole (void)
{
    struct accel_ddp_options options[] = {
        { .comm_hook = ACCEL_COMM_HOOK_POWER_SGD, .start_iter = 1, .matrix_approximation_rank = COLUMNS },
        { .comm_hook = ACCEL_COMM_HOOK_POWER_SGD, .start_iter = 1, .min_compression_rate = 1e6 },
        { .comm_hook = ACCEL_COMM_HOOK_POWER_SGD }, /* and before 1000 passes */
    };
    for (size_t form = 0; form < sizeof options / sizeof *options; form++) {
        struct net net;
        if (!make (&net, &options[form], ACCEL_FLOAT32))
            return;
        for (net.step = 1; net.step <= 3 && step (&net); net.step++)
            for (int i = 0; i < TENSORS; i++)
                check (distance (&net, i) < 1e-6, "form %zu, step %d: tensor %d", form, net.step, i);
        accel_model_destroy (net.model);
    }
}

/* What compression loses comes back: the mean over many passes of one full gradient is that gradient. */
static double
mean_distance (bool feedback)
{
    enum { PASSES = 300 };
    struct net net;
    double far = 0, length = 0;
    struct accel_ddp_options options = { .comm_hook = ACCEL_COMM_HOOK_POWER_SGD, .start_iter = 1,
                                         .matrix_approximation_rank = 4,
                                         .use_error_feedback = feedback ? ACCEL_YES : ACCEL_NO };
    if (!make (&net, &options, ACCEL_FLOAT32))
        return INFINITY;
    if (!step (&net)) /* before start_iter */
        return INFINITY;
    for (int pass = 0; pass < PASSES && step (&net); pass++)
        for (int j = 0; j < ELEMENTS; j++)
            net.mean[j] += ((float *) net.grads[0].data)[j] / PASSES;
    check_same (&net, "feedback");
    for (uint32_t j = 0; j < ELEMENTS; j++) {
        double mean = 0;
        for (int of = 0; of < size; of++)
            mean += (double) value (&net, 0, of, j) / size;
        far += ((double) net.mean[j] - mean) * ((double) net.mean[j] - mean);
        length += mean * mean;
    }
    accel_model_destroy (net.model);
    return sqrt (far / length);
}

static void
check_feedback (void)
{
    double with = mean_distance (true), without = mean_distance (false);
    if (size == 1) {
        check (with < 1e-5 && without < 1e-5, "one process is left alone: %g, %g", with, without);
        return;
    }
    printf ("# rank %d: %g with feedback, %g without\n", rank, with, without);
    check (with < 0.05, "with feedback the mean is %g off", with);
    check (without > 0.3, "without feedback it is %g off only", without);
}

/* Gradients of zero do no harm to those that follow. */
static void
check_zero (void)
{
    struct net net;
    struct accel_ddp_options options = { .comm_hook = ACCEL_COMM_HOOK_POWER_SGD, .start_iter = 1,
                                         .matrix_approximation_rank = 2 };
    if (!make (&net, &options, ACCEL_FLOAT32))
        return;
    for (int pass = 0; pass < 3; pass++)
        check (!accel_average_gradients (acc, net.model, &err), "sync");
    const float *matrix = net.grads[0].data;
    for (int j = 0; j < ELEMENTS; j++)
        check (matrix[j] == 0, "zeros became %g", (double) matrix[j]);
    net.rank_of_gradients = 2;
    if (step (&net))
        check (distance (&net, 0) < 1e-5, "after zeros: %g off", distance (&net, 0));
    accel_model_destroy (net.model);
}

/* torch's own numbers, from the file of golden data: a matrix alone, so that both draw the same Q. */
static void
check_golden (void)
{
    struct golden golden;
    struct net net;
    struct accel_ddp_options options = { .comm_hook = ACCEL_COMM_HOOK_POWER_SGD, .start_iter = 2,
                                         .matrix_approximation_rank = 2 };
    int seen = 0;
    tensors = 1;
    if (!make (&net, &options, ACCEL_FLOAT32))
        return;
    golden_find (&golden, "power_sgd.txt");
    while (golden_next (&golden)) {
        int of = atoi (golden_word (&golden)), number = atoi (golden_word (&golden));
        if (of != size)
            continue;
        net.step = number;
        if (!check (++seen == number, "golden step %d", number) || !step (&net))
            break;
        for (int j = 0; *golden.rest; j++) {
            double wanted = strtod (golden_word (&golden), NULL), got = (double) ((float *) net.grads[0].data)[37 * j];
            check (fabs (got - wanted) < 1e-4, "step %d, element %d: %g is not %g", number, 37 * j, got, wanted);
        }
    }
    check (seen >= 5, "%d golden steps", seen);
    accel_model_destroy (net.model);
}

static enum accel_status
go (struct net *net, const struct accel_ddp_options *options, bool again)
{
    enum accel_status status = accel_model_create (&net->model, net->parameters, TENSORS, &err);
    if (!status)
        status = accel_model_set_ddp (net->model, options, &err);
    if (!status)
        status = accel_prepare (acc, &err, net->model);
    if (!status)
        status = accel_backward (acc, net->model, 0, backward, net, &err);
    if (!status && again)
        status = accel_free_memory (acc, &err);
    if (!status && again)
        status = accel_prepare (acc, &err, net->model);
    accel_model_destroy (net->model);
    net->model = NULL;
    return status;
}

static void
check_allocations (void)
{
    struct accel_ddp_options options = { .start_iter = 1, .find_unused_parameters = true };
    static const enum accel_comm_hook hooks[] = { ACCEL_COMM_HOOK_FP16, ACCEL_COMM_HOOK_POWER_SGD };
    for (int form = 0; form < 4; form++) {
        struct net net;
        enum accel_status status = ACCEL_ERR_NOMEM;
        options.comm_hook = hooks[form / 2];
        if (!make (&net, &options, ACCEL_FLOAT32))
            return;
        accel_model_destroy (net.model);
        int failures = -1;
        for (long call = 0; call < 300 && status == ACCEL_ERR_NOMEM; call++, failures++) {
            calls_left = call;
            status = go (&net, &options, form % 2);
            calls_left = -1;
            check (!net.grads[0].data && !net.data[0].data, "allocation %ld: memory is left in the tensors", call);
        }
        check (!status && failures > 15, "form %d: status %d after %d failures", form, (int) status, failures);
    }
}

static const struct {
    const char *name;
    void (*run) (void);
} checks[] = {
    { "exact", check_exact }, { "whole", check_whole },             { "feedback", check_feedback },
    { "zero", check_zero },   { "allocations", check_allocations },
    { "golden", check_golden },
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
    bool known = false;
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        if (!strcmp (argv[1], checks[i].name)) {
            known = true;
            checks[i].run ();
        }
    accel_close (acc);
    return wrong || !known;
}
