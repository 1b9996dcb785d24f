/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of struct memory on a GPU, one by one: each has the results of the host's, and none touches anything on
 * a GPU that does not exist, or that has failed. */
#include <config.h>

#include "lib/memory/lists.h"
#include "lib/memory/memory.h"
#include "tests/tap.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

/* FEWER: than an array has, so that whatever is written beyond them shows. */
enum { COUNT = 1000, FEWER = COUNT - 7, ARRAYS = 4, ROWS = 30, COLUMNS = 20, RANK = 3 };

static const DLDevice gpu = { .device_type = kDLCUDA }, host = { .device_type = kDLCPU };
static const struct rule_numbers numbers[] = {
    { .sign = 1, .decay = 0.1F, .keep = 1, .minus_size = -0.01F, .momentum = 0.9F, .fresh = 1 },
    { .sign = 1, .keep = 0.5F, .minus_size = -0.25F, .momentum = 0.5F, .fresh = 0.5F },
};
static struct accel_error err;

/* What one function makes of arrays of COUNT floats.  @return what it returns; 0: nothing */
typedef double use (const struct memory *memory, DLDevice device, float *const *at);

/* ---- bytes ---- */

static double
copy (const struct memory *memory, DLDevice device, float *const *at)
{
    memory->copy (device, at[1], at[0], FEWER * sizeof (float));
    memory->copy (device, at[2], at[0], 0);
    return 0;
}

static double
zero (const struct memory *memory, DLDevice device, float *const *at)
{
    memory->zero (device, at[1], FEWER * sizeof (float));
    memory->zero (device, at[2], 0);
    return 0;
}

static double
copy_unless (const struct memory *memory, DLDevice device, float *const *at)
{
    const uint8_t marks[] = { 0, 1 }, *mark = (const uint8_t *) at[3];
    memory->write (device, at[3], marks, sizeof marks);
    memory->copy_unless (device, at[1], at[0], FEWER * sizeof (float), mark);
    memory->copy_unless (device, at[2], NULL, FEWER * sizeof (float), mark);
    memory->copy_unless (device, at[0], NULL, FEWER * sizeof (float), mark + 1);
    memory->copy_unless (device, at[0], at[1], 0, mark);
    return 0;
}

static double
copy_tensor (const struct memory *memory, DLDevice device, float *const *at)
{
    int64_t shape[] = { ROWS, COLUMNS }, strides[] = { 1, ROWS };
    DLTensor to = { .data = at[1], .device = device, .ndim = 2, .dtype = { kDLFloat, 32, 1 }, .shape = shape };
    DLTensor from = to;
    from.data = at[0];
    memory->copy_tensor (&to, &from);
    from.strides = strides;
    to.data = at[2];
    memory->copy_tensor (&to, &from);
    return 0;
}

static double
create (const struct memory *memory, DLDevice device, float *const *at)
{
    float *made = memory->create (device, FEWER * sizeof (float), true);
    if (made)
        memory->copy (device, at[1], made, FEWER * sizeof (float));
    memory->destroy (device, made);
    return made != NULL;
}

/* ---- what training computes ---- */

static double
scale (const struct memory *memory, DLDevice device, float *const *at)
{
    memory->scale (device, at[0], ACCEL_FLOAT32, FEWER, 0.3);
    return 0;
}

static double
clamp (const struct memory *memory, DLDevice device, float *const *at)
{
    memory->clamp (device, at[0], ACCEL_FLOAT32, FEWER, 0.5F);
    return 0;
}

static double
add (const struct memory *memory, DLDevice device, float *const *at)
{
    memory->add (device, at[0], at[1], FEWER);
    return 0;
}

static double
unscale (const struct memory *memory, DLDevice device, float *const *at)
{
    memory->unscale (device, at[0], ACCEL_FLOAT32, FEWER, 0.3F, (uint8_t *) at[2]);
    return 0;
}

static double
norm (const struct memory *memory, DLDevice device, float *const *at)
{
    memory->narrow (device, at[1], ACCEL_BFLOAT16, at[0], FEWER);
    memory->norm (device, at[1], ACCEL_BFLOAT16, FEWER, 0.5F, 2, at[2]);
    memory->norm (device, at[1], ACCEL_BFLOAT16, FEWER, 0.5F, INFINITY, at[2] + 1);
    return 0;
}

static double
find_nonfinite (const struct memory *memory, DLDevice device, float *const *at)
{
    const float values[] = { 1, -INFINITY, NAN };
    float found = 0;
    size_t none = memory->find_nonfinite (device, at[0], ACCEL_FLOAT32, COUNT, &found);
    memory->write (device, at[0] + COUNT - 3, values, sizeof values);
    size_t index = memory->find_nonfinite (device, at[0], ACCEL_FLOAT32, COUNT - 1, &found);
    if (memory->find_nonfinite (device, at[0], ACCEL_FLOAT32, COUNT - 2, &found) != SIZE_MAX || none != SIZE_MAX)
        return 1;
    return (double) index + (found < 0);
}

static double
update (const struct memory *memory, DLDevice device, float *const *at)
{
    const struct memory_update given = {
        .rule = RULE_SGD_MOMENTUM, .numbers = &numbers[0], .parameter = at[0], .grad = at[1],
        .grad_dtype = ACCEL_FLOAT32, .factor = 1, .state = { at[2] }, .narrow = at[3],
        .narrow_dtype = ACCEL_BFLOAT16, .count = FEWER,
    };
    memory->update (device, &given);
    return 0;
}

static double
widen (const struct memory *memory, DLDevice device, float *const *at)
{
    memory->narrow (device, at[1], ACCEL_FLOAT16, at[0], COUNT);
    memory->widen (device, at[2], at[1], ACCEL_FLOAT16, FEWER, 0.3F);
    return 0;
}

static double
narrow_scaled (const struct memory *memory, DLDevice device, float *const *at)
{
    memory->scale (device, at[0], ACCEL_FLOAT32, COUNT, 5000);
    double first = (double) memory->narrow_scaled (device, at[1], ACCEL_FLOAT8_E4M3FN, at[0], FEWER);
    return first * 1024 + (double) memory->narrow_scaled (device, at[2], ACCEL_FLOAT8_E5M2, at[0], FEWER);
}

static double
convert (const struct memory *memory, DLDevice device, float *const *at)
{
    memory->convert (device, at[1], ACCEL_BFLOAT16, at[0], ACCEL_FLOAT32, FEWER, 3);
    memory->convert (device, at[2], ACCEL_FLOAT32, at[1], ACCEL_BFLOAT16, FEWER, 1);
    return 0;
}

static double
multiply (const struct memory *memory, DLDevice device, float *const *at)
{
    memory->multiply (device, at[2], at[0], at[1], ROWS, COLUMNS, RANK);
    memory->multiply_transposed (device, at[3], at[0], at[2], ROWS, COLUMNS, RANK);
    return 0;
}

static double
expand (const struct memory *memory, DLDevice device, float *const *at)
{
    memory->expand (device, at[0], at[1], at[2], at[3], ROWS, COLUMNS, RANK);
    return 0;
}

static double
orthogonalise (const struct memory *memory, DLDevice device, float *const *at)
{
    const uint64_t seed = 5;
    memory->orthogonalise (device, at[0], ROWS, RANK, 0, NULL);
    memory->orthogonalise (device, at[0], ROWS, RANK, 1, &seed);
    memory->zero (device, at[1], COUNT * sizeof (float));
    memory->orthogonalise (device, at[1], ROWS, RANK, 0, &seed);
    memory->orthogonalise (device, at[1], ROWS, RANK, 1, NULL);
    return 0;
}

static double
vocabulary (const struct memory *memory, DLDevice device, float *const *at)
{
    static const int32_t labels[ROWS] = { 0, COLUMNS, 2 * COLUMNS - 1, -1, 5 };
    const struct vocabulary_rows rows = {
        .vocabulary = { 0, COLUMNS, 2 * COLUMNS }, .count = ROWS, .labels = (const int32_t *) at[2], .logits = at[0],
        .losses = at[1], .sums = (struct vocabulary_sums *) at[3], .scale = 0.5F,
    };
    memory->write (device, at[2], labels, sizeof labels);
    memory->vocabulary->find_largest (device, &rows);
    memory->vocabulary->add_up (device, &rows);
    memory->vocabulary->finish (device, &rows);
    const struct vocabulary_tokens tokens = { { 0, COLUMNS, 2 * COLUMNS }, RANK, ROWS, rows.labels, at[0], at[3] };
    memory->vocabulary->look_up (device, &tokens);
    memory->vocabulary->add_back (device, &tokens);
    return 0;
}

/* ---- lists: of the first array, and of the second with 16-bit floats ---- */

static void
list_begin (struct memory_list *list, const struct memory *memory, DLDevice device, float *const *at)
{
    if (!memory_list_create (list, 3))
        abort ();
    memory->narrow (device, at[1], ACCEL_FLOAT16, at[0], COUNT);
    list->items[0] = (struct memory_item){ .data = at[0], .count = FEWER, .dtype = ACCEL_FLOAT32, .narrow = at[2],
                                           .narrow_dtype = ACCEL_BFLOAT16 };
    list->items[1] = (struct memory_item){ .data = at[1], .count = FEWER, .dtype = ACCEL_FLOAT16 };
    list->count = 2;
}

/* Factors are where the last array begins. */
#define LIST_USE(name, ...)                                                         \
    static double                                                                   \
    list_##name (const struct memory *memory, DLDevice device, float *const *at)    \
    {                                                                               \
        const struct memory_factor place = { .value = 7, .place = at[3] };          \
        struct memory_list list;                                                    \
        list_begin (&list, memory, device, at);                                     \
        memory_list_##name (&list, memory, device __VA_ARGS__);                     \
        memory_list_destroy (&list, memory, device);                                \
        return (double) place.value;                                                \
    }
LIST_USE (zero)
LIST_USE (unscale, , place, (uint8_t *) at[2])
LIST_USE (norm, , place, 2, at[2])
LIST_USE (scale, , 0.3F, false)
LIST_USE (clamp, , 0.5F, place)

static double
list_narrow (const struct memory *memory, DLDevice device, float *const *at)
{
    struct memory_list list;
    list_begin (&list, memory, device, at);
    list.count = 1;
    memory_list_narrow (&list, memory, device);
    memory_list_scale (&list, memory, device, 3, true);
    memory_list_destroy (&list, memory, device);
    return 0;
}

/* Three stretches of two groups, of which the first has two. */
static double
list_update (const struct memory *memory, DLDevice device, float *const *at)
{
    const struct memory_rule rules[] = { { RULE_SGD_MOMENTUM, &numbers[0] }, { RULE_SGD_MOMENTUM, &numbers[1] } };
    struct memory_list list;
    if (!memory_list_create (&list, 3))
        abort ();
    for (size_t i = 0; i < 3; i++)
        list.items[list.count++] = (struct memory_item){
            .data = at[0] + i * 300, .count = 300 - i, .grad = at[1] + i * 300, .state = { at[2] + i * 300 },
            .dtype = ACCEL_FLOAT32, .grad_dtype = ACCEL_FLOAT32, .group = i == 2,
        };
    if (!memory->lists
        || !memory->lists->update (device, &list, rules, (struct memory_factor){ .value = 1 }, NULL))
        for (size_t i = 0; i < 3; i++) {
            const struct memory_item *item = &list.items[i];
            const struct memory_update given = {
                .rule = RULE_SGD_MOMENTUM, .numbers = rules[item->group].numbers, .parameter = item->data,
                .grad = item->grad, .grad_dtype = ACCEL_FLOAT32, .factor = 1, .state = { item->state[0] },
                .count = item->count,
            };
            memory->update (device, &given);
        }
    memory_list_destroy (&list, memory, device);
    return 0;
}

/* ---- all of them ---- */

static const struct {
    const char *name;
    use *run;
    double nothing; /* what it returns if it can do nothing */
} uses[] = {
#define USE(name, nothing) { #name, name, nothing }
    USE (copy, 0),        USE (zero, 0),         USE (copy_tensor, 0),
    USE (create, 0),      USE (scale, 0),        USE (clamp, 0),
    USE (add, 0),         USE (unscale, 0),      USE (norm, 0),
    USE (update, 0),      USE (widen, 0),        USE (find_nonfinite, (double) SIZE_MAX),
    USE (convert, 0),     USE (multiply, 0),     USE (narrow_scaled, 1025),
    USE (expand, 0),      USE (orthogonalise, 0), USE (list_zero, 7),
    USE (list_unscale, 7), USE (list_norm, 7),   USE (list_scale, 7),
    USE (list_clamp, 7),  USE (list_narrow, 0),  USE (list_update, 0),
    USE (copy_unless, 0), USE (vocabulary, 0),
#undef USE
};
enum { USES = sizeof uses / sizeof *uses };

static void
fill (float (*values)[COUNT])
{
    for (int k = 0; k < ARRAYS; k++)
        for (int i = 0; i < COUNT; i++)
            values[k][i] = sinf ((float) (i * (k + 1))) + 1.5F * (k == ARRAYS - 1);
}

/* @param[out] values  of all arrays, at the end */
static double
run_on (DLDevice device, use *run, float (*values)[COUNT])
{
    const struct memory *memory = memory_of (device);
    float *at[ARRAYS];
    fill (values);
    for (int k = 0; k < ARRAYS; k++) {
        at[k] = memory->create (device, sizeof *values, false);
        memory->write (device, at[k], values[k], sizeof *values);
    }
    double result = run (memory, device, at);
    for (int k = 0; k < ARRAYS; k++) {
        if (memory->read (device, values[k], at[k], sizeof *values, &err))
            result = NAN;
        memory->destroy (device, at[k]);
    }
    return result;
}

static void
compare (void)
{
    static float wanted[ARRAYS][COUNT], values[ARRAYS][COUNT], before[ARRAYS][COUNT];
    fill (before);
    for (int i = 0; i < USES; i++) {
        double result = run_on (host, uses[i].run, wanted), there = run_on (gpu, uses[i].run, values);
        ok (result == there && !memcmp (values, wanted, sizeof values) && memcmp (values, before, sizeof values),
            "%s: %g, on the host %g: %s", uses[i].name, there, result, err.text);
    }
}

/* ---- a GPU that is not there ---- */

/* Whether a call failed with an error that has the words. */
static bool
fails (enum accel_status status, const char *words)
{
    bool good = status && status == err.code && strstr (err.text, words);
    err = (struct accel_error){ .code = ACCEL_OK };
    return good;
}

/* What has no counterpart on the host. */
static void
refuse_others (const struct memory *memory, DLDevice device, const char *words)
{
    struct memory_list list;
    void *stream = memory->stream (gpu);
    if (!memory_list_create (&list, 1))
        abort ();
    list.count = 1;
    ok (memory->lists->narrow_scaled (device, &list, NULL), "a list is not narrowed with scales");
    memory->lists->clip_factor (device, NULL, 1, 2, 1, NULL, NULL);
    memory_list_destroy (&list, memory, device);
    memory->live->begin_step (device, NULL, NULL, 1, NULL);
    memory->live->note_scale (device, NULL, NULL, NULL);
    memory->live->note_found (device, NULL, NULL, true, NULL);
    ok (!memory->live->permit_capture (device, true) && !memory->live->permit_capture (device, false),
        "nothing is captured");
    ok (!memory->copy_streams->pin (device, 1) && !memory->copy_streams->open (device), "nothing is pinned or opened");
    ok (fails (memory->products->open (device, &err), words)
            && memory->products->multiply (device, NULL, NULL, NULL, 1, 1, 1)
            && memory->products->multiply_transposed (device, NULL, NULL, NULL, 1, 1, 1),
        "there is no cuBLAS");
    ok (fails (memory->set_stream (device, stream, &err), words)
            && fails (memory->order (device, stream, stream, &err), words),
        "it has no streams");
    ok (fails (memory->copy_from (device, NULL, gpu, NULL, 1, &err), words)
            && fails (memory->copy_from (gpu, NULL, device, NULL, 1, &err), words),
        "nothing goes there, or comes from there");
    ok (fails (memory->read (device, &list, NULL, 1, &err), words), "nothing is read: %s", words);
    memory->destroy (device, &list);
}

/* @param words  the error that all have */
static void
refuse (DLDevice device, const char *words)
{
    static float values[ARRAYS][COUNT], before[ARRAYS][COUNT];
    const struct memory *memory = memory_of (gpu);
    float *const at[ARRAYS] = { values[0], values[1], values[2], values[3] };
    fill (before);
    fill (values);
    for (int i = 0; i < USES; i++) {
        double result = uses[i].run (memory, device, at);
        ok (result == uses[i].nothing && !memcmp (values, before, sizeof values), "cuda:%d: %s: %g",
            (int) device.device_id, uses[i].name, result);
    }
    refuse_others (memory, device, words);
}

int
main (void)
{
    if (!memory_of (gpu)) {
        ok (false, "there is a GPU");
        return done_testing ();
    }
    compare ();
    refuse ((DLDevice){ kDLCUDA, -1 }, "cuda:-1 does not exist");
    refuse ((DLDevice){ kDLCUDA, 64 }, "cuda:64 does not exist");
    refuse ((DLDevice){ kDLCUDA, 7 }, "cuda:7: cudaSetDevice: ");
    return done_testing ();
}
