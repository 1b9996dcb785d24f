/* SPDX-License-Identifier: Apache-2.0 */
/* PowerSGD on two GPUs, or one, whose products cuBLAS makes: a model that asks for it twice, and one that does not.
 * usage: products [plain | one | two | missing]
 *        plain: one asks for it, but it cannot be used, so all have the same bits
 *        one: both products themselves, which need no second GPU; two: on two GPUs of one process;
 *        missing: why there is no cuBLAS, if there is none */
#include <config.h>

#include "lib/memory/memory.h"
#include "tests/ranks.h"
#include "tests/standin/cuda/standin.h"

#include <accel/accel.h>

#include <dlfcn.h>
#include <math.h>
#include <string.h>

enum { MATRICES = 3, PASSES = 3, MODELS = 3, MOST = 2000, RANK = 3 };

static const int64_t shapes[MATRICES][2] = { { 40, 50 }, { 7, 90 }, { 33, 1 } }; /* the last one is not compressed */
static struct accel_error err;
static bool is_plain;

struct run {
    struct accel *acc;
    struct accel_model *models[MODELS];
    DLTensor data[MODELS][MATRICES], grads[MODELS][MATRICES];
    int model, pass;
};

static size_t
count_of (size_t index)
{
    return (size_t) (shapes[index][0] * shapes[index][1]);
}

static enum accel_status
backward (void *user, float scale, struct accel_error *error)
{
    const struct run *run = user;
    float values[MOST];
    (void) error;
    for (size_t p = 0; p < MATRICES; p++) {
        const DLTensor *grad = accel_model_parameter (run->models[run->model], p)->grad;
        for (size_t i = 0; i < count_of (p); i++)
            values[i] = scale * sinf ((float) (i * 7 % 101) + (float) (run->pass * 3 + accel_process_index (run->acc)));
        memory_of (grad->device)->write (grad->device, grad->data, values, count_of (p) * sizeof *values);
    }
    return ACCEL_OK;
}

static void
make (struct run *run, int which)
{
    static const char *const names[MATRICES] = { "a", "b", "c" };
    DLTensor *data = run->data[which], *grads = run->grads[which];
    struct accel_parameter parameters[MATRICES];
    const struct accel_ddp_options ddp = {
        .comm_hook = ACCEL_COMM_HOOK_POWER_SGD, .matrix_approximation_rank = RANK, .start_iter = ACCEL_NONE,
        .use_cublas = which < (is_plain ? 1 : 2),
    };
    for (size_t p = 0; p < MATRICES; p++) {
        data[p] = (DLTensor){ .device = accel_device (run->acc), .ndim = 2, .dtype = accel_dtype_to_dl (ACCEL_FLOAT32),
                              .shape = (int64_t *) (uintptr_t) shapes[p] };
        grads[p] = data[p];
        parameters[p] = (struct accel_parameter){ names[p], &data[p], &grads[p] };
    }
    rank_must (accel_model_create (&run->models[which], parameters, MATRICES, &err), &err);
    rank_must (accel_model_set_ddp (run->models[which], &ddp, &err), &err);
    rank_must (accel_prepare (run->acc, &err, run->models[which]), &err);
}

/* A model's gradients, which all ranks must have. */
static void
read_gradients (const struct run *run, float *values)
{
    float first[MOST];
    for (size_t p = 0; p < MATRICES; p++) {
        const DLTensor *grad = accel_model_parameter (run->models[run->model], p)->grad;
        size_t bytes = count_of (p) * sizeof *values;
        rank_must (memory_of (grad->device)->read (grad->device, values + p * MOST, grad->data, bytes, &err), &err);
        memcpy (first, values + p * MOST, bytes);
        rank_must (accel_comm_broadcast (accel_world (run->acc), first, count_of (p), ACCEL_FLOAT32, 0, &err), &err);
        right (!memcmp (first, values + p * MOST, bytes), "model %d, pass %d: ranks differ", run->model, run->pass);
    }
}

/* How often the host has waited for the GPU.  The function is the module's, which is loaded; NVIDIA's has none. */
static unsigned long
count_waits (void)
{
    static void (*count) (struct standin_counts *counts);
    struct standin_counts counts = { 0 };
    char path[4096];
    snprintf (path, sizeof path, "%s/accel_device_cuda.so", getenv ("ACCEL_ENGINE_PATH"));
    void *module = count ? NULL : dlopen (path, RTLD_NOW | RTLD_NOLOAD);
    if (module)
        *(void **) &count = dlsym (module, "standin_count");
    if (count)
        count (&counts);
    return counts.waits;
}

/* Only a write of gradients waits, for its room. */
static void
pass (struct run *run)
{
    unsigned long before = count_waits ();
    rank_must (accel_backward (run->acc, run->models[run->model], 0, backward, run, &err), &err);
    unsigned long waits = count_waits () - before;
    right (!run->pass || !before || waits == MATRICES, "model %d, pass %d: the host has waited %lu times, not %d",
           run->model, run->pass, waits, (int) MATRICES);
}

static void
compare (const struct run *run, float values[MODELS][MATRICES * MOST])
{
    for (size_t p = 0; p < MATRICES; p++) {
        const float *one = values[0] + p * MOST, *again = values[1] + p * MOST, *plain = values[2] + p * MOST;
        size_t bytes = count_of (p) * sizeof *one;
        bool is_same = p == 2 || is_plain;
        right (!memcmp (one, again, bytes), "pass %d: two runs differ", run->pass);
        right (is_same == !memcmp (one, plain, bytes), "pass %d, matrix %zu: %s", run->pass, p,
               is_same ? "other bits than without cuBLAS" : "cuBLAS has not been used");
        for (size_t i = 0; i < count_of (p); i++)
            if (!right (fabsf (one[i] - plain[i]) <= 1e-4F,
                        "pass %d, matrix %zu, element %zu: %g, but %g without cuBLAS", run->pass, p, i,
                        (double) one[i], (double) plain[i]))
                return;
    }
}

static void
train (struct accel *acc)
{
    static float values[MODELS][MATRICES * MOST];
    struct run run = { .acc = acc };
    right (accel_device (acc).device_type == kDLCUDA, "this is not a GPU");
    for (int which = 0; which < MODELS; which++)
        make (&run, which);
    for (run.pass = 0; run.pass < PASSES; run.pass++) {
        for (run.model = 0; run.model < MODELS; run.model++) {
            pass (&run);
            read_gradients (&run, values[run.model]);
        }
        compare (&run, values);
    }
    for (int which = 0; which < MODELS; which++)
        accel_model_destroy (run.models[which]);
}

/* ---- without ranks ---- */

static float *
put (const struct memory *memory, DLDevice device, size_t count, size_t seed)
{
    float values[MOST], *made = memory->create (device, sizeof values, false);
    for (size_t i = 0; i < count; i++)
        values[i] = sinf ((float) (i * 7 % 101 + seed));
    memory->write (device, made, values, sizeof values);
    return made;
}

/* @return whether cuBLAS's product is that of libaccel within a tolerance, and has the same bits twice */
static bool
is_product (const struct memory *memory, DLDevice device, bool transposed, size_t n, size_t m)
{
    float *values = put (memory, device, n * m, 0), *right = put (memory, device, (transposed ? n : m) * RANK, 5);
    float *result = put (memory, device, 1, 0), got[3][MOST];
    size_t count = (transposed ? m : n) * RANK, wrong = 0;
    const struct memory_products *products = memory->products;
    for (int turn = 0; turn < 3; turn++) {
        memory->zero (device, result, sizeof *got);
        if (turn == 2)
            (transposed ? memory->multiply_transposed : memory->multiply) (device, result, values, right, n, m, RANK);
        else
            wrong += !(transposed ? products->multiply_transposed : products->multiply) (device, result, values, right,
                                                                                        n, m, RANK);
        wrong += memory->read (device, got[turn], result, sizeof got[turn], &err) != ACCEL_OK;
    }
    for (size_t i = 0; i < count; i++)
        wrong += !(fabsf (got[0][i] - got[2][i]) <= 1e-4F);
    memory->destroy (device, values);
    memory->destroy (device, right);
    memory->destroy (device, result);
    return !wrong && !memcmp (got[0], got[1], sizeof got[0]);
}

static void
one_gpu (int number, bool only_asks)
{
    const DLDevice device = { .device_type = kDLCUDA, .device_id = number };
    const struct memory *memory = memory_of (device);
    if (!memory || !memory->products || memory->products->open (device, &err)) {
        printf (only_asks ? "%s\n" : "Bail out! no cuBLAS: %s\n", err.text);
        exit (1);
    }
    if (only_asks)
        exit (0);
    for (size_t p = 0; p < MATRICES; p++)
        for (int transposed = 0; transposed < 2; transposed++)
            ok (is_product (memory, device, transposed, (size_t) shapes[p][0], (size_t) shapes[p][1]),
                "cuda:%d: %zu x %zu, %s", number, (size_t) shapes[p][0], (size_t) shapes[p][1],
                transposed ? "transposed" : "as it is");
}

int
main (int argc, char **argv)
{
    is_plain = argc > 1 && !strcmp (argv[1], "plain");
    if (argc > 1 && !is_plain) {
        one_gpu (0, !strcmp (argv[1], "missing"));
        if (!strcmp (argv[1], "two"))
            one_gpu (1, false);
        return done_testing ();
    }
    as_ranks (2, "PowerSGD by cuBLAS", train);
    return done_testing ();
}
