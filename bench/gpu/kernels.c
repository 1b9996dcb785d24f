/* SPDX-License-Identifier: Apache-2.0 */
/* How near the kernels come to the limit of the GPU's memory: the bytes that each has to read and write, in the time
 * that it takes, against a copy within the GPU.  They are called as the library calls them, through struct memory, with
 * other numbers in each round.  In turns; medians.  Left out: cuda_orthogonalise(), whose arrays are small, and what
 * works on a few numbers: cuda_clip_factor(), cuda_begin_step(), cuda_note_scale() and cuda_note_found().
 * usage: kernels small|full */
#include "bench/gpu/gpu.h"

#include "lib/memory/lists.h"

#include <math.h>

static const struct memory *memory;
static DLDevice gpu = { .device_type = kDLCUDA };

/* Of `count` elements each, in one allocation.  n * m = count; the lists are the parameters of GPT-2. */
static struct {
    size_t count, n, m, pattern_count;
    float *parameter, *grad, *state[RULE_STATES], *pattern, *results;
    char *half, *narrow; /* of types of up to 16 bits */
    uint8_t *found;
    int32_t *labels; /* [n], each below n; there are as many columns, or more */
    void *memory;
} a;
static struct shapes shapes;
static struct memory_list list;

static const struct rule_numbers numbers = {
    .sign = 1,
    .keep = 0.999F,
    .minus_size = -0.001F,
    .beta1 = 0.9F,
    .weight1 = 0.1F,
    .beta2 = 0.999F,
    .weight2 = 0.001F,
    .root = 1,
    .eps = 1e-8F,
    .momentum = 0.9F,
    .fresh = 1,
};

enum { MATRIX_RANK_MOST = 4, ALIGNED = 64 };

static size_t
aligned (size_t count)
{
    return (count + ALIGNED - 1) / ALIGNED * ALIGNED;
}

static size_t
results_count (void)
{
    return (size_t) MATRIX_RANK_MOST * (a.n + a.m) + PARAMETERS_MOST;
}

static uint32_t
draw (void)
{
    static uint32_t random = 1;
    random = random * 1664525U + 1013904223U;
    return random >> 8;
}

static void
write_numbers (void)
{
    float *pattern = malloc (a.pattern_count * sizeof *pattern);
    int32_t *labels = malloc (a.n * sizeof *labels);
    for (size_t i = 0; i < a.pattern_count; i++)
        pattern[i] = 0.5F + (float) draw () * 0x1p-24F;
    for (size_t i = 0; i < a.n; i++)
        labels[i] = (int32_t) (draw () % a.n);
    memory->write (gpu, a.pattern, pattern, a.pattern_count * sizeof *pattern);
    memory->write (gpu, a.labels, labels, a.n * sizeof *labels);
    free (pattern);
    free (labels);
}

/* As many elements as fit. */
static void
make_arrays (bool small)
{
    a.pattern_count = small ? 1 << 12 : 1 << 23;
    for (a.n = small ? 1 << 7 : 1 << 13, a.m = small ? 1 << 8 : 1 << 14;; a.n /= 2) {
        a.count = a.n * a.m;
        size_t floats = a.count * (2 + RULE_STATES) + a.pattern_count + results_count ();
        cudaError_t error = cudaMalloc (&a.memory, (floats + a.count + ALIGNED + a.n) * sizeof (float));
        if (!error)
            break;
        if (error != cudaErrorMemoryAllocation || a.n == 1)
            must_cuda (error, "cudaMalloc");
        cudaGetLastError ();
    }
    float *next = a.memory;
    float **arrays[] = { &a.parameter, &a.grad, &a.state[0], &a.state[1], &a.state[2] };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++, next += a.count)
        *arrays[i] = next;
    a.half = (char *) next;
    a.narrow = a.half + a.count * 2;
    a.pattern = next + a.count;
    a.results = a.pattern + a.pattern_count;
    a.found = (uint8_t *) (a.results + results_count ());
    a.labels = (int32_t *) (void *) (a.found + ALIGNED);
    memory->zero (gpu, a.results, results_count () * sizeof (float) + ALIGNED);
    write_numbers ();
}

/* Numbers between 0.5 and 1.5, others in each round. */
static void
fill (float *to, size_t from)
{
    size_t count = a.pattern_count;
    for (size_t done = 0, at = from * 997 % count; done < a.count; at = 0) {
        size_t now = count - at < a.count - done ? count - at : a.count - done;
        memory->copy (gpu, to + done, a.pattern + at, now * sizeof *to);
        done += now;
    }
}

/* ---- the kernels ---- */

struct kernel {
    const char *name;
    void (*run) (const struct kernel *kernel);
    enum accel_dtype dtype; /* of `half`, or of what is worked on if there is one array */
    double bytes;           /* of each element */
    double number;          /* p of a norm, the rule of a step, another type, or the rank of a matrix */
    bool listed;            /* all parameters of a model at once */
};

/* What it works on: floats as they are, or `half`. */
static void *
values_of (const struct kernel *kernel)
{
    return kernel->dtype == ACCEL_FLOAT32 ? (void *) a.grad : a.half;
}

static void
run_update (const struct kernel *kernel)
{
    bool is_float = kernel->dtype == ACCEL_FLOAT32;
    struct memory_update update = {
        .rule = (enum rule) kernel->number,
        .numbers = &numbers,
        .parameter = a.parameter,
        .grad = values_of (kernel),
        .grad_dtype = kernel->dtype,
        .factor = 1,
        .state = { a.state[0], a.state[1], a.state[2] },
        .narrow = is_float ? NULL : a.narrow,
        .narrow_dtype = is_float ? ACCEL_FLOAT32 : kernel->dtype,
        .count = a.count,
    };
    memory->update (gpu, &update);
}

static void
run_norm (const struct kernel *kernel)
{
    memory->norm (gpu, values_of (kernel), kernel->dtype, a.count, 1, kernel->number, a.results);
}

static void
run_widen (const struct kernel *kernel)
{
    memory->widen (gpu, a.parameter, a.half, kernel->dtype, a.count, 1);
}

static void
run_narrow (const struct kernel *kernel)
{
    memory->narrow (gpu, a.narrow, kernel->dtype, a.grad, a.count);
}

static void
run_narrow_scaled (const struct kernel *kernel)
{
    memory->narrow_scaled (gpu, a.narrow, kernel->dtype, a.grad, a.count);
}

static void
run_convert (const struct kernel *kernel)
{
    memory->convert (gpu, a.narrow, (enum accel_dtype) kernel->number, a.half, kernel->dtype, a.count, 1);
}

static void
run_scale (const struct kernel *kernel)
{
    memory->scale (gpu, values_of (kernel), kernel->dtype, a.count, 0.999);
}

static void
run_unscale (const struct kernel *kernel)
{
    memory->unscale (gpu, values_of (kernel), kernel->dtype, a.count, 0.999F, a.found);
}

static void
run_clamp (const struct kernel *kernel)
{
    memory->clamp (gpu, values_of (kernel), kernel->dtype, a.count, 1);
}

static void
run_find (const struct kernel *kernel)
{
    float value;
    if (memory->find_nonfinite (gpu, values_of (kernel), kernel->dtype, a.count, &value) < a.count) {
        fprintf (stderr, "%s: a number is not finite\n", kernel->name);
        exit (1);
    }
}

static void
run_add (const struct kernel *kernel)
{
    (void) kernel;
    memory->add (gpu, a.parameter, a.grad, a.count);
}

static void
run_zero (const struct kernel *kernel)
{
    (void) kernel;
    memory->zero (gpu, a.parameter, a.count * sizeof (float));
}

static void
run_copy_unless (const struct kernel *kernel)
{
    (void) kernel;
    memory->copy_unless (gpu, a.parameter, a.grad, a.count * sizeof (float), a.found);
}

static void
run_transpose (const struct kernel *kernel)
{
    int64_t shape[] = { (int64_t) a.m, (int64_t) a.n };
    int64_t rows[] = { (int64_t) a.n, 1 }, columns[] = { 1, (int64_t) a.m };
    DLTensor to = { .data = a.parameter, .device = gpu, .ndim = 2, .shape = shape, .strides = rows };
    DLTensor from = { .data = a.grad, .device = gpu, .ndim = 2, .shape = shape, .strides = columns };
    to.dtype = from.dtype = accel_dtype_to_dl (kernel->dtype);
    memory->copy_tensor (&to, &from);
}

/* ---- PowerSGD: grad is [n, m], results are P [n, rank] and Q [m, rank] ---- */

static void
run_multiply (const struct kernel *kernel)
{
    float *p = a.results, *q = p + a.n * MATRIX_RANK_MOST;
    memory->multiply (gpu, p, a.grad, q, a.n, a.m, (size_t) kernel->number);
}

static void
run_multiply_transposed (const struct kernel *kernel)
{
    float *p = a.results, *q = p + a.n * MATRIX_RANK_MOST;
    memory->multiply_transposed (gpu, q, a.grad, p, a.n, a.m, (size_t) kernel->number);
}

static void
run_cublas (const struct kernel *kernel)
{
    float *p = a.results, *q = p + a.n * MATRIX_RANK_MOST;
    memory->products->multiply (gpu, p, a.grad, q, a.n, a.m, (size_t) kernel->number);
}

static void
run_cublas_transposed (const struct kernel *kernel)
{
    float *p = a.results, *q = p + a.n * MATRIX_RANK_MOST;
    memory->products->multiply_transposed (gpu, q, a.grad, p, a.n, a.m, (size_t) kernel->number);
}

static void
run_expand (const struct kernel *kernel)
{
    float *p = a.results, *q = p + a.n * MATRIX_RANK_MOST;
    memory->expand (gpu, a.grad, a.state[0], p, q, a.n, a.m, (size_t) kernel->number);
}

/* ---- a vocabulary: logits are [n, m], tables [n, m], of which each of n tokens has a row ---- */

static struct vocabulary_rows
rows (void)
{
    const int64_t columns = (int64_t) a.m;
    return (struct vocabulary_rows){ { 0, columns, columns }, a.n, a.labels, a.grad, a.results,
                                     (struct vocabulary_sums *) (void *) (a.results + a.n), 0.001F };
}

static struct vocabulary_tokens
tokens (void)
{
    const int64_t own = (int64_t) a.n;
    return (struct vocabulary_tokens){ { 0, own, own }, a.n, a.m, a.labels, a.parameter, a.grad };
}

static void
run_find_largest (const struct kernel *kernel)
{
    (void) kernel;
    const struct vocabulary_rows all = rows ();
    memory->vocabulary->find_largest (gpu, &all);
}

static void
run_add_up (const struct kernel *kernel)
{
    (void) kernel;
    const struct vocabulary_rows all = rows ();
    memory->vocabulary->add_up (gpu, &all);
}

static void
run_finish (const struct kernel *kernel)
{
    (void) kernel;
    const struct vocabulary_rows all = rows ();
    memory->vocabulary->finish (gpu, &all);
}

static void
run_look_up (const struct kernel *kernel)
{
    (void) kernel;
    const struct vocabulary_tokens all = tokens ();
    memory->vocabulary->look_up (gpu, &all);
}

static void
run_add_back (const struct kernel *kernel)
{
    (void) kernel;
    const struct vocabulary_tokens all = tokens ();
    memory->vocabulary->add_back (gpu, &all);
}

/* ---- lists ---- */

static void
make_list (const struct kernel *kernel)
{
    bool is_float = kernel->dtype == ACCEL_FLOAT32;
    size_t at = 0, bytes = accel_dtype_bytes (kernel->dtype);
    list.count = 0;
    for (size_t i = 0; i < shapes.count; at += aligned (shapes.each[i++]))
        list.items[list.count++] = (struct memory_item){
            .data = a.parameter + at,
            .count = shapes.each[i],
            .grad = is_float ? (char *) (a.grad + at) : a.half + at * bytes,
            .state = { a.state[0] + at, a.state[1] + at, a.state[2] + at },
            .narrow = is_float ? NULL : a.narrow + at * bytes,
            .grad_dtype = kernel->dtype,
            .narrow_dtype = is_float ? ACCEL_FLOAT32 : kernel->dtype,
        };
}

static const struct memory_factor one = { .value = 1 };

static void
run_list_update (const struct kernel *kernel)
{
    const struct memory_rule rule = { (enum rule) kernel->number, &numbers };
    memory->lists->update (gpu, &list, &rule, one, NULL);
}

static void
run_list_zero (const struct kernel *kernel)
{
    (void) kernel;
    memory_list_zero (&list, memory, gpu);
}

static void
run_list_unscale (const struct kernel *kernel)
{
    (void) kernel;
    memory_list_unscale (&list, memory, gpu, (struct memory_factor){ .value = 0.999F }, a.found);
}

static void
run_list_norm (const struct kernel *kernel)
{
    memory_list_norm (&list, memory, gpu, one, kernel->number, a.results);
}

static void
run_list_scale (const struct kernel *kernel)
{
    (void) kernel;
    memory_list_scale (&list, memory, gpu, 0.999F, false);
}

static void
run_list_clamp (const struct kernel *kernel)
{
    (void) kernel;
    memory_list_clamp (&list, memory, gpu, 1, one);
}

static void
run_list_narrow (const struct kernel *kernel)
{
    (void) kernel;
    memory_list_narrow (&list, memory, gpu);
}

static void
run_list_narrow_scaled (const struct kernel *kernel)
{
    (void) kernel;
    memory->lists->narrow_scaled (gpu, &list, a.results);
}

/* ---- the table ---- */

#define FLOAT ACCEL_FLOAT32
#define BF16 ACCEL_BFLOAT16
#define FP16 ACCEL_FLOAT16
#define E4M3 ACCEL_FLOAT8_E4M3FN
#define E5M2 ACCEL_FLOAT8_E5M2
/* The parameter and its states are read and written, and the gradient is read; with masters, half of the gradient, and
 * a rounded parameter that is written. */
#define STEPS(NAME, name, states)                                                         \
    { "step of " #name, run_update, FLOAT, 12 + 8 * (states), RULE_##NAME, false },       \
    { "step of " #name ", masters", run_update, BF16, 12 + 8 * (states), RULE_##NAME, false },
#define PRODUCTS(name, run, bytes)                      \
    { name ", rank 1", run, FLOAT, bytes, 1, false },   \
    { name ", rank 2", run, FLOAT, bytes, 2, false },   \
    { name ", rank 4", run, FLOAT, bytes, 4, false },

static const struct kernel kernels[] = {
    RULES (STEPS)
    { "norm 2", run_norm, FLOAT, 4, 2, false },
    { "norm 2", run_norm, BF16, 2, 2, false },
    { "norm inf", run_norm, FLOAT, 4, INFINITY, false },
    { "norm inf", run_norm, BF16, 2, INFINITY, false },
    { "widen", run_widen, FP16, 6, 0, false },
    { "widen", run_widen, BF16, 6, 0, false },
    { "widen", run_widen, E4M3, 5, 0, false },
    { "widen", run_widen, E5M2, 5, 0, false },
    { "narrow", run_narrow, FP16, 6, 0, false },
    { "narrow", run_narrow, BF16, 6, 0, false },
    { "narrow", run_narrow, E4M3, 5, 0, false },
    { "narrow", run_narrow, E5M2, 5, 0, false },
    { "narrow, scaled by the largest", run_narrow_scaled, E4M3, 9, 0, false },
    { "convert to bfloat16", run_convert, FP16, 4, BF16, false },
    { "convert to float16", run_convert, BF16, 4, FP16, false },
    { "convert to bfloat16", run_convert, E4M3, 3, BF16, false },
    { "scale", run_scale, FLOAT, 8, 0, false },
    { "scale", run_scale, BF16, 4, 0, false },
    { "unscale", run_unscale, FLOAT, 8, 0, false },
    { "unscale (only looks)", run_unscale, FP16, 2, 0, false },
    { "clamp", run_clamp, FLOAT, 8, 0, false },
    { "clamp", run_clamp, BF16, 4, 0, false },
    { "find what is not finite", run_find, FLOAT, 4, 0, false },
    { "find what is not finite", run_find, BF16, 2, 0, false },
    { "add", run_add, FLOAT, 12, 0, false },
    { "zero", run_zero, FLOAT, 4, 0, false },
    { "copy unless it is marked", run_copy_unless, FLOAT, 8, 0, false },
    { "transpose", run_transpose, FLOAT, 8, 0, false },
    { "losses: largest logits", run_find_largest, FLOAT, 4, 0, false },
    { "losses: sums of exponentials", run_add_up, FLOAT, 4, 0, false },
    { "losses: gradients", run_finish, FLOAT, 8, 0, false },
    { "embedding: rows of tokens", run_look_up, FLOAT, 8, 0, false },
    { "embedding: gradients", run_add_back, FLOAT, 12, 0, false },
    PRODUCTS ("P = M Q", run_multiply, 4)
    PRODUCTS ("P = M Q by cuBLAS", run_cublas, 4)
    PRODUCTS ("Q = M' P", run_multiply_transposed, 4)
    PRODUCTS ("Q = M' P by cuBLAS", run_cublas_transposed, 4)
    PRODUCTS ("M = P Q', error", run_expand, 12)
    { "step of adam", run_list_update, FLOAT, 28, RULE_ADAM, true },
    { "step of adam, masters", run_list_update, BF16, 28, RULE_ADAM, true },
    { "zero", run_list_zero, FLOAT, 4, 0, true },
    { "unscale", run_list_unscale, FLOAT, 8, 0, true },
    { "norm 2", run_list_norm, FLOAT, 4, 2, true },
    { "norm inf", run_list_norm, FLOAT, 4, INFINITY, true },
    { "scale", run_list_scale, FLOAT, 8, 0, true },
    { "clamp", run_list_clamp, FLOAT, 8, 0, true },
    { "narrow", run_list_narrow, BF16, 6, 0, true },
    { "narrow, scaled by the largest", run_list_narrow_scaled, E4M3, 9, 0, true },
};

/* ---- measuring ---- */

static void
prepare (const struct kernel *kernel, int round)
{
    float *arrays[] = { a.parameter, a.grad, a.state[0], a.state[1], a.state[2] };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        fill (arrays[i], (size_t) round * 8 + i + 1);
    memory->copy (gpu, a.results, a.pattern + round, results_count () * sizeof (float));
    if (kernel->dtype != ACCEL_FLOAT32)
        memory->narrow (gpu, a.half, kernel->dtype, a.grad, a.count);
}

/* @return seconds of each */
static double
runs (const struct kernel *kernel, size_t times)
{
    CUDA (cudaDeviceSynchronize ());
    double begin = seconds ();
    for (size_t i = 0; i < times; i++)
        kernel->run (kernel);
    CUDA (cudaDeviceSynchronize ());
    MUST (memory_check (gpu, &err));
    return (seconds () - begin) / (double) times;
}

/* @return bytes read and written each second */
static double
copies (void)
{
    static size_t times = 1;
    size_t bytes = a.count * sizeof (float);
    double rate = gpu_copies (a.state[1], a.state[0], bytes, times);
    times = repeats (2 * (double) bytes / rate);
    return rate;
}

static void
measure (const struct kernel *kernel)
{
    double taken[ROUNDS], copy[ROUNDS], bytes = kernel->bytes * (double) a.count;
    if (kernel->listed) {
        make_list (kernel);
        bytes = kernel->bytes * (double) shapes.elements;
    }
    prepare (kernel, 0);
    runs (kernel, 1); /* makes tables */
    copies ();
    size_t times = repeats (runs (kernel, 1));
    for (int round = 0; round < rounds; round++) {
        prepare (kernel, round);
        taken[round] = runs (kernel, times);
        copy[round] = copies ();
    }
    double took = median (taken, rounds), limit = median (copy, rounds);
    char name[64];
    snprintf (name, sizeof name, "%s%s, %s", kernel->listed ? "list: " : "", kernel->name,
              accel_dtype_name (kernel->dtype));
    printf ("| %-52s | %5.0f | %9.4f | %8.1f | %7.1f %% | %8.1f |\n", name, kernel->bytes, took * 1e3,
            bytes / took * 1e-9, bytes / took / limit * 100, limit * 1e-9);
    memory_list_forget (&list, memory, gpu);
}

int
main (int argc, char **argv)
{
    bool small = is_small (argc, argv);
    struct accel *acc = open_on_gpu (NULL);
    struct accel_error why;
    gpu = accel_device (acc);
    CUDA (cudaSetDevice (gpu.device_id));
    memory = memory_of (gpu);
    shapes = shapes_gpt2 (small ? 96 : 1);
    make_arrays (small);
    if (!memory_list_create (&list, shapes.count))
        exit (1);
    bool has_cublas = memory->products && !memory->products->open (gpu, &why);
    printf ("bandwidth: arrays of %zu elements, lists of GPT-2's %zu parameters with %zu; bytes of each element\n"
            "| %-52s | bytes |        ms |     GB/s | of a copy | a copy's |\n|---|---|---|---|---|---|\n",
            a.count, shapes.count, shapes.elements, "kernel");
    size_t listed = 0;
    for (size_t i = 0; i < shapes.count; i++)
        listed += aligned (shapes.each[i]);
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if ((has_cublas || !strstr (kernels[i].name, "cuBLAS")) && (listed <= a.count || !kernels[i].listed))
            measure (&kernels[i]);
    if (!has_cublas)
        printf ("bandwidth by cuBLAS: left out: %s\n", memory->products ? why.text : "the module has no products");
    if (listed > a.count)
        printf ("bandwidth of lists: left out: the GPU has too little memory\n");
    memory_list_destroy (&list, memory, gpu);
    CUDA (cudaFree (a.memory));
    accel_close (acc);
    return 0;
}
