/* SPDX-License-Identifier: Apache-2.0 */
/* Models of one array and a table, and of structs: laid out as GPT-2 is in llm.c, they train as the same model made
 * tensor by tensor does.  Runs on any number of processes. */
#include <config.h>

#include "tests/must.h"
#include "tests/tap.h"

#include <accel/accel.h>

#include <stdlib.h>

enum { V = 11, T = 6, L = 2, C = 4, ROWS = 16, STEPS = 5 };

static struct accel *acc;

/* llm.c's ParameterTensors, in its order. */
static const struct accel_array_row gpt2[ROWS] = {
    { "wte", 2, { V, C }, 0, false },         { "wpe", 2, { T, C }, 0, false },
    { "ln1w", 2, { L, C }, 0, false },        { "ln1b", 2, { L, C }, 0, false },
    { "qkvw", 3, { L, 3 * C, C }, 0, false }, { "qkvb", 2, { L, 3 * C }, 0, false },
    { "attprojw", 3, { L, C, C }, 0, false }, { "attprojb", 2, { L, C }, 0, false },
    { "ln2w", 2, { L, C }, 0, false },        { "ln2b", 2, { L, C }, 0, false },
    { "fcw", 3, { L, 4 * C, C }, 0, false },  { "fcb", 2, { L, 4 * C }, 0, false },
    { "fcprojw", 3, { L, C, 4 * C }, 0, false }, { "fcprojb", 2, { L, C }, 0, false },
    { "lnfw", 1, { C }, 0, false },           { "lnfb", 1, { C }, 0, false },
};

static size_t
row_count (const struct accel_array_row *row)
{
    size_t count = 1;
    for (int i = 0; i < row->ndim; i++)
        count *= (size_t) row->shape[i];
    return count;
}

static size_t
total_count (void)
{
    size_t total = 0;
    for (int i = 0; i < ROWS; i++)
        total += row_count (&gpt2[i]);
    return total;
}

static enum accel_status
backward (void *user, float scale, struct accel_error *error)
{
    const struct accel_model *model = user;
    (void) error;
    for (size_t i = 0, k = 0; i < accel_model_parameter_count (model); i++) {
        const struct accel_parameter *parameter = accel_model_parameter (model, i);
        float *grad = parameter->grad->data;
        const float *data = parameter->data->data;
        for (size_t j = 0; j < accel_tensor_count (parameter->data); j++, k++)
            grad[j] += scale * (data[j] * 0.5F + (float) (k % 7) - (float) accel_process_index (acc));
    }
    return ACCEL_OK;
}

/* Some steps of AdamW from the same start; all parameters one after the other go to @result. */
static void
train (struct accel_model *model, float *result)
{
    struct accel_optimizer *optimizer;
    float norm;
    for (size_t i = 0, k = 0; i < ROWS; i++) {
        const struct accel_parameter *parameter = accel_model_parameter (model, i);
        for (size_t j = 0; j < accel_tensor_count (parameter->data); j++, k++)
            ((float *) parameter->data->data)[j] = (float) (k * 37 % 101) / 101;
    }
    MUST (accel_optimizer_create (&optimizer, model, ACCEL_ADAMW, NULL, &err));
    MUST (accel_prepare (acc, &err, model, optimizer));
    for (int step = 0; step < STEPS; step++) {
        MUST (accel_optimizer_zero_grad (optimizer, &err));
        MUST (accel_backward (acc, model, 0, backward, model, &err));
        MUST (accel_clip_grad_norm (model, 1, &norm, NULL, &err));
        MUST (accel_optimizer_step (optimizer, &err));
    }
    for (size_t i = 0; i < ROWS; i++) {
        const DLTensor *data = accel_model_parameter (model, i)->data;
        memcpy (result, data->data, accel_tensor_count (data) * sizeof (float));
        result += accel_tensor_count (data);
    }
    accel_optimizer_destroy (optimizer);
}

static void
train_by_tensor (float *result)
{
    static struct accel_tensor data[ROWS], grads[ROWS];
    struct accel_parameter parameters[ROWS];
    struct accel_model *model;
    for (int i = 0; i < ROWS; i++) {
        MUST (accel_tensor_init (&data[i], ACCEL_FLOAT32, gpt2[i].ndim, gpt2[i].shape, &err));
        MUST (accel_tensor_init (&grads[i], ACCEL_FLOAT32, gpt2[i].ndim, gpt2[i].shape, &err));
        parameters[i] = (struct accel_parameter){ gpt2[i].name, &data[i].dl, &grads[i].dl };
    }
    MUST (accel_model_create (&model, parameters, ROWS, &err));
    train (model, result);
    accel_model_destroy (model);
}

/* Whether parameter and gradient are where the table says, in the program's arrays. */
static bool
lies_in_place (const struct accel_model *model, const float *data, const float *grads)
{
    for (size_t i = 0; i < ROWS; i++) {
        const struct accel_parameter *parameter = accel_model_get_parameter (model, gpt2[i].name);
        if (parameter != accel_model_parameter (model, i) || parameter->data->data != data
            || parameter->grad->data != grads || parameter->data->ndim != gpt2[i].ndim
            || memcmp (parameter->data->shape, gpt2[i].shape, (size_t) gpt2[i].ndim * sizeof (int64_t)) != 0)
            return false;
        data += row_count (&gpt2[i]);
        grads += row_count (&gpt2[i]);
    }
    return true;
}

static void
test_arrays (const float *wanted)
{
    size_t count = total_count ();
    float *data = calloc (count, sizeof *data), *result = calloc (count, sizeof *result);
    void *shared;
    MUST (accel_alloc (acc, count * sizeof (float), &shared, &err));
    float *own = calloc (count, sizeof *own);
    for (int i = 0; i < 4; i++) {
        struct accel_model *model;
        struct accel_array array = { .data = i < 3 ? data : NULL, .grad = i == 0 ? own : i == 1 ? shared : NULL,
                                     .count = i == 1 ? count : 0 };
        MUST (accel_model_from_array (&model, &array, gpt2, ROWS, &err));
        if (i < 2)
            ok (lies_in_place (model, data, array.grad), "array %d: parameters and gradients are views", i);
        train (model, result);
        ok (memcmp (result, wanted, count * sizeof *result) == 0, "array %d trains as the tensors do", i);
        if (i < 2)
            ok (lies_in_place (model, data, array.grad), "array %d: nothing has moved", i);
        if (i < 3)
            ok (memcmp (data, wanted, count * sizeof *result) == 0, "array %d: the array has the values", i);
        accel_model_destroy (model);
    }
    accel_free (acc, shared);
    free (own);
    free (data);
    free (result);
}

/* As programs may have them: a pointer to a name and sizes in ints; a name within, and a number of int64 sizes. */
struct narrow {
    int sizes[3];
    float *grad;
    const char *name;
    int ndim;
    float *data;
};

struct wide {
    char name[12];
    int64_t sizes[4];
    int ndim;
    float *data;
};

static void
test_structs (const float *wanted)
{
    struct narrow narrow[ROWS] = { 0 };
    struct wide wide[ROWS] = { 0 };
    size_t count = total_count (), at = 0;
    float *memory = calloc (count * 2, sizeof *memory), *result = calloc (count, sizeof *result);
    for (int i = 0; i < ROWS; at += row_count (&gpt2[i++])) {
        narrow[i] = (struct narrow){ .name = gpt2[i].name, .data = memory + at, .grad = memory + count + at };
        narrow[i].ndim = wide[i].ndim = gpt2[i].ndim;
        snprintf (wide[i].name, sizeof wide[i].name, "%s", gpt2[i].name);
        for (int j = 0; j < gpt2[i].ndim; j++) {
            narrow[i].sizes[j] = (int) gpt2[i].shape[j];
            wide[i].sizes[j] = gpt2[i].shape[j];
        }
    }
    struct accel_model *model;
    const struct accel_struct_layout narrow_layout = {
        .stride_bytes = sizeof *narrow, .name = offsetof (struct narrow, name), .data = offsetof (struct narrow, data),
        .grad = offsetof (struct narrow, grad), .shape = offsetof (struct narrow, sizes), .dim_bytes = sizeof (int),
        .ndim = offsetof (struct narrow, ndim),
    };
    MUST (accel_model_from_structs (&model, narrow, ROWS, &narrow_layout, &err));
    memset (narrow, 0, sizeof narrow);
    ok (lies_in_place (model, memory, memory + count), "structs: parameters and gradients are views");
    train (model, result);
    ok (memcmp (result, wanted, count * sizeof *result) == 0, "structs train as the tensors do");
    accel_model_destroy (model);

    const struct accel_struct_layout wide_layout = {
        .stride_bytes = sizeof *wide, .name = offsetof (struct wide, name), .name_inline = true,
        .data = offsetof (struct wide, data), .grad = ACCEL_NO_FIELD, .shape = offsetof (struct wide, sizes),
        .ndim = offsetof (struct wide, ndim),
    };
    MUST (accel_model_from_structs (&model, wide, ROWS, &wide_layout, &err));
    memset (wide, 0, sizeof wide);
    const struct accel_parameter *qkvw = accel_model_get_parameter (model, "qkvw");
    ok (qkvw && !qkvw->grad && qkvw->data->shape[1] == 3 * C && qkvw->data->data, "names within, memory of the model");
    ok (!accel_model_get_parameter (model, "lm_head") && !accel_model_get_parameter (NULL, "wte")
            && !accel_model_get_parameter (model, NULL), "a missing name");
    accel_model_destroy (model);
    free (memory);
    free (result);
}

static void
test_offsets (void)
{
    static const struct accel_array_row rows[] = {
        { "late", 1, { 3 }, 5, false },
        { "early", 1, { 2 }, ACCEL_OFFSET_ZERO, true },
        { "next", 1, { 3 }, 0, false },
        { "empty", 2, { 0, 4 }, 0, false },
    };
    uint16_t data[8] = { 0 };
    float grads[8] = { 0 };
    struct accel_model *model;
    const struct accel_array array = { .data = data, .grad = grads, .count = 8, .dtype = ACCEL_BFLOAT16 };
    MUST (accel_model_from_array (&model, &array, rows, 4, &err));
    const struct accel_parameter *late = accel_model_parameter (model, 0), *early = accel_model_parameter (model, 1);
    const struct accel_parameter *next = accel_model_parameter (model, 2);
    ok (late->data->data == data + 5 && late->grad->data == grads + 5 && early->data->data == data
            && next->data->data == data + 2 && next->grad->data == grads + 2,
        "offsets given, zero, and after the row before");
    ok (!early->grad, "a frozen row has no gradient");
    accel_model_destroy (model);
}

static void
test_refused_arrays (void)
{
    static _Alignas (8) char memory[80];
    const struct accel_array_row good = { "a", 1, { 4 }, 0, false }, two = { "b", 1, { 2 }, 0, false };
    const struct {
        const char *words;
        struct accel_array array;
        struct accel_array_row rows[2];
    } cases[] = {
        { "parameter 1 has no name", { .data = memory }, { good, { NULL, 1, { 2 }, 0, false } } },
        { "both named 'a'", { .data = memory }, { good, good } },
        { "parameter 'b': accel_tensor_init: ndim is -1", { .data = memory }, { good, { "b", -1, { 2 }, 0, false } } },
        { "parameter 'b': accel_tensor_init: size -2", { .data = memory }, { good, { "b", 1, { -2 }, 0, false } } },
        { "the rows need 6 elements, but the array has 5: parameter 'b' ends at 6", { .data = memory, .count = 5 },
          { good, two } },
        { "the rows need 9 elements, but the array has 3: parameter 'a' ends at 4", { .data = memory, .count = 3 },
          { good, { "b", 1, { 2 }, 7, false } } },
        { "the rows need 14 elements, but the array has 12: parameter 'a' ends at 14", { .data = memory, .count = 12 },
          { { "a", 1, { 4 }, 10, false }, { "b", 1, { 2 }, ACCEL_OFFSET_ZERO, false } } },
        { "'a' (elements 0 to 3) and 'b' (3 to 4) overlap", { .data = memory }, { good, { "b", 1, { 2 }, 3, false } } },
        { "its end overflows", { .data = memory }, { good, { "b", 1, { 2 }, SIZE_MAX - 1, false } } },
        { "size overflows", { .data = memory }, { good, { "b", 1, { 2 }, SIZE_MAX / 4, false } } },
        { "array->data is not aligned", { .data = memory + 2 }, { good, two } },
        { "array->grad is not aligned", { .data = memory, .grad = memory + 1 }, { good, two } },
        { "only float32", { .data = memory, .dtype = ACCEL_INT32 }, { good, two } },
        { "invalid element type 77", { .data = memory, .dtype = (enum accel_dtype) 77 }, { good, two } },
        { "invalid element type 77", { .data = memory, .grad_dtype = (enum accel_dtype) 77 }, { good, two } },
        { "grad_dtype", { .data = memory, .grad_dtype = (enum accel_dtype) 77 },
          { { "a", 1, { 4 }, 0, true }, { "b", 1, { 2 }, 0, true } } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct accel_model *model = (struct accel_model *) memory;
        enum accel_status status = accel_model_from_array (&model, &cases[i].array, cases[i].rows, 2, &err);
        ok (status && !model && strstr (err.text, cases[i].words), "array refused: %s", err.text);
    }
    struct accel_model *model;
    const struct accel_array array = { .data = memory };
    ok (accel_model_from_array (NULL, &array, &good, 1, NULL) == ACCEL_ERR_INVALID
            && accel_model_from_array (&model, NULL, &good, 1, NULL) == ACCEL_ERR_INVALID
            && accel_model_from_array (&model, &array, NULL, 1, NULL) == ACCEL_ERR_INVALID
            && accel_model_from_array (&model, &array, &good, 0, NULL) == ACCEL_ERR_INVALID, "NULL is refused");
}

static void
test_refused_structs (void)
{
    struct narrow one = { .name = "a", .ndim = 1, .sizes = { 2 } };
    const struct accel_struct_layout good = {
        .stride_bytes = sizeof one, .name = offsetof (struct narrow, name), .data = offsetof (struct narrow, data),
        .grad = offsetof (struct narrow, grad), .shape = offsetof (struct narrow, sizes), .dim_bytes = sizeof (int),
        .ndim = offsetof (struct narrow, ndim),
    };
    struct accel_struct_layout bad[8];
    const char *const words[8] = { "layout->name: no field", "layout->data: no field", "layout->grad: no field",
                                   "layout->shape: no field", "layout->ndim: no field", "expected 4 or 8",
                                   "layout->dims is 9", "layout->shape: no field" };
    for (int i = 0; i < 8; i++)
        bad[i] = good;
    bad[0].name = sizeof one - 4;
    bad[1].data = ACCEL_NO_FIELD;
    bad[2].grad = sizeof one;
    bad[3].shape = sizeof one - 3;
    bad[4].ndim = sizeof one;
    bad[5].dim_bytes = 2;
    bad[6].ndim = bad[7].ndim = ACCEL_NO_FIELD;
    bad[6].dims = 9;
    bad[7].dims = 8;
    bad[7].shape = sizeof one - 28;
    struct accel_model *model;
    for (int i = 0; i < 8; i++)
        ok (accel_model_from_structs (&model, &one, 1, &bad[i], &err) == ACCEL_ERR_INVALID
                && strstr (err.text, words[i]),
            "structs refused: %s", err.text);
    one.ndim = 9;
    ok (accel_model_from_structs (&model, &one, 1, &good, &err) == ACCEL_ERR_INVALID
            && strstr (err.text, "'a' has 9 dim"),
        "structs refused: %s", err.text);
    struct accel_struct_layout late = good; /* where the struct has room for four sizes */
    struct narrow two[2] = { { .name = "a", .ndim = 5 } };
    late.shape = sizeof one - 16;
    ok (accel_model_from_structs (&model, two, 1, &late, &err) == ACCEL_ERR_INVALID
            && strstr (err.text, "'a' has 5 dim"),
        "structs refused: %s", err.text);
    one.ndim = 1;
    one.sizes[0] = -3;
    ok (accel_model_from_structs (&model, &one, 1, &good, &err) == ACCEL_ERR_INVALID && strstr (err.text, "size -3"),
        "structs refused: %s", err.text);
    one.name = NULL;
    ok (accel_model_from_structs (&model, &one, 1, &good, &err) == ACCEL_ERR_INVALID
            && strstr (err.text, "has no name"),
        "structs refused: %s", err.text);
    ok (accel_model_from_structs (NULL, &one, 1, &good, NULL) && accel_model_from_structs (&model, NULL, 1, &good, NULL)
            && accel_model_from_structs (&model, &one, 0, &good, NULL)
            && accel_model_from_structs (&model, &one, 1, NULL, NULL), "NULL is refused");
}

int
main (void)
{
    MUST (accel_open (&acc, NULL, &err));
    float *wanted = calloc (total_count (), sizeof *wanted);
    train_by_tensor (wanted);
    test_arrays (wanted);
    test_structs (wanted);
    test_offsets ();
    test_refused_arrays ();
    test_refused_structs ();
    free (wanted);
    accel_close (acc);
    return done_testing ();
}
