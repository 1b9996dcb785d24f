/* SPDX-License-Identifier: Apache-2.0 */
/* accel_model_set_file_names(): models in files with other names and layouts than the program's. */
#include <config.h>

#include "tests/unit/data/datasets.h"

#include <accel/accel.h>

enum { ROWS = 33, COLUMNS = 35, ROOM = SCRATCH_SIZE + 64 };

static struct accel *acc;
static struct accel_model *model;
static char folder[ROOM];
static _Alignas (64) unsigned char matrix[8 * ROWS * COLUMNS], bias[2][16], head[8];
static struct accel_tensor tensors[4];

/* Parameters h.0.w [ROWS, COLUMNS], h.0.b, h.1.b and head, of @p dtype. */
static void
make_model (enum accel_dtype dtype)
{
    void *const data[] = { matrix, bias[0], bias[1], head };
    static const char *const names[] = { "h.0.w", "h.0.b", "h.1.b", "head" };
    static const int64_t shapes[][2] = { { ROWS, COLUMNS }, { 2 }, { 2 }, { 1 } };
    struct accel_parameter parameters[4];
    for (int i = 0; i < 4; i++) {
        MUST (accel_tensor_init (&tensors[i], dtype, i ? 1 : 2, shapes[i], &err));
        tensors[i].dl.data = data[i];
        parameters[i] = (struct accel_parameter){ names[i], &tensors[i].dl, NULL };
    }
    MUST (accel_model_create (&model, parameters, 4, &err));
}

#define SET(...) set ((const struct accel_file_name[]){ __VA_ARGS__ }, \
                      sizeof ((const struct accel_file_name[]){ __VA_ARGS__ }) / sizeof (struct accel_file_name))
static enum accel_status
set (const struct accel_file_name *rows, size_t count)
{
    return accel_model_set_file_names (model, rows, count, &err);
}

static enum accel_status
save (void)
{
    return accel_save_model (acc, model, folder, NULL, &err);
}

static enum accel_status
load (void)
{
    return accel_load_model (acc, model, folder, NULL, NULL, &err);
}

static bool
has (const char *name)
{
    struct accel_safetensors *file;
    size_t index;
    MUST (accel_safetensors_open (&file, folder, NULL, &err));
    bool found = !accel_safetensors_find (file, name, &index, NULL);
    accel_safetensors_close (file);
    return found;
}

/* The same numbers come back; in the file, they are in the other order. */
static void
test_transposed (enum accel_dtype dtype)
{
    size_t bytes = accel_dtype_bytes (dtype), wrong = 0;
    static unsigned char before[sizeof matrix], copy[sizeof matrix];
    struct accel_safetensors *file;
    size_t index;
    make_model (dtype);
    for (size_t i = 0; i < sizeof matrix; i++)
        matrix[i] = before[i] = (unsigned char) (i % bytes == bytes - 1 ? i / bytes % 50 : i / bytes * 7 + i);
    MUST (SET ({ "h.*.w", "block*/weight", .transposed = true }, { "h.*.b", "block*/bias" }));
    MUST (save ());
    ok (has ("block0/weight") && has ("block1/bias") && has ("head") && !has ("h.0.b"),
        "%s: names in the file", accel_dtype_name (dtype));
    MUST (accel_safetensors_open (&file, folder, NULL, &err));
    MUST (accel_safetensors_find (file, "block0/weight", &index, &err));
    const struct accel_safetensors_info *info = accel_safetensors_get (file, index);
    DLTensor into = { .data = copy, .device = { kDLCPU, 0 }, .ndim = 2, .dtype = tensors[0].dl.dtype,
                      .shape = (int64_t[]){ COLUMNS, ROWS } };
    bool turned = info->shape[0] == COLUMNS && info->shape[1] == ROWS;
    MUST (accel_safetensors_read (file, index, NULL, NULL, &into, &err));
    accel_safetensors_close (file);
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < COLUMNS; j++)
            wrong += 0 != memcmp (copy + (j * ROWS + i) * bytes, before + (i * COLUMNS + j) * bytes, bytes);
    ok (turned && !wrong, "%s: a matrix is transposed: %zu numbers are wrong", accel_dtype_name (dtype), wrong);
    memset (matrix, 0, sizeof matrix);
    ok (!load () && !memcmp (matrix, before, ROWS * COLUMNS * bytes), "%s: and back: %s", accel_dtype_name (dtype),
        err.text);
    accel_model_destroy (model);
}

/* A transposed matrix in another type than the model's. */
static void
test_converted (void)
{
    const struct accel_save_model_options options = { .precision = ACCEL_SAVE_AS, .dtype = ACCEL_BFLOAT16 };
    float *numbers = (float *) (void *) matrix;
    size_t wrong = 0;
    make_model (ACCEL_FLOAT32);
    MUST (SET ({ "h.0.w", "w", .transposed = true }));
    for (int i = 0; i < ROWS * COLUMNS; i++)
        numbers[i] = (float) (i % 251);
    MUST (accel_save_model (acc, model, folder, &options, &err));
    memset (matrix, 0, sizeof matrix);
    MUST (load ());
    for (int i = 0; i < ROWS * COLUMNS; i++)
        wrong += numbers[i] != (float) (i % 251);
    ok (!wrong, "saved as bfloat16 and loaded as float32: %zu numbers are wrong", wrong);
    accel_model_destroy (model);
}

static void
test_alternatives (void)
{
    make_model (ACCEL_FLOAT32);
    memset (bias, 1, sizeof bias);
    MUST (save ()); /* with the model's names */
    memset (bias, 0, sizeof bias);
    ok (!SET ({ "*", "transformer.*" }, { "*", "*" }) && !load () && bias[1][3] == 1,
        "a file may have a later name: %s", err.text);
    ok (!save () && has ("transformer.h.0.w") && !has ("h.0.w"), "but is saved with the first");
    memset (bias, 0, sizeof bias);
    ok (!load () && bias[1][3] == 1, "which is found, too");
    MUST (SET ({ "*", "t.*" }));
    ok (load () == ACCEL_ERR_INVALID && strstr (err.text, "4 parameters are missing: 'h.0.w'"), "no name: %s",
        err.text);
    ok (!accel_model_set_file_names (model, NULL, 0, &err) && !save () && has ("h.0.w"), "its own names again");
    ok (!SET ({ "h.*.b", "*.bias" }, { "h.0.*", "zero.*" }) && !save () && has ("0.bias") && has ("zero.w"),
        "the first row that matches says how it is saved");
    accel_model_destroy (model);
}

static void
test_ignored (void)
{
    make_model (ACCEL_FLOAT32);
    MUST (save ());
    accel_model_destroy (model);
    struct accel_parameter one = { "head", &tensors[3].dl, NULL };
    MUST (accel_model_create (&model, &one, 1, &err));
    ok (load () == ACCEL_ERR_INVALID && strstr (err.text, "3 unexpected tensors"), "tensors that the model lacks");
    MUST (SET ({ NULL, "h.*.b" }));
    ok (load () == ACCEL_ERR_INVALID && strstr (err.text, "1 unexpected tensor: 'h.0.w'"), "unless a row names it: %s",
        err.text);
    MUST (SET ({ NULL, "h.*.b" }, { NULL, "*w" }));
    ok (!load (), "all others are named: %s", err.text);
    accel_model_destroy (model);
}

static void
test_tied (void)
{
    static const char *const names[] = { "wte", "lm_head" };
    static struct accel_tensor other;
    const char *value = NULL, *key = NULL;
    struct accel_safetensors *file;
    make_model (ACCEL_FLOAT32);
    accel_model_destroy (model);
    other = tensors[0];
    other.dl.shape = other.shape;
    struct accel_parameter both[] = { { names[0], &tensors[0].dl, NULL }, { names[1], &other.dl, NULL } };
    MUST (accel_model_create (&model, both, 2, &err));
    MUST (SET ({ "wte", "embedding", .transposed = true }, { "lm_head", "head" }));
    ((float *) (void *) matrix)[1] = 5;
    MUST (save ());
    ((float *) (void *) matrix)[1] = 0;
    MUST (accel_safetensors_open (&file, folder, NULL, &err));
    for (size_t i = 0; (key = accel_safetensors_metadata (file, i, &value)) && strcmp (key, "head"); i++)
        continue;
    ok (accel_safetensors_count (file) == 1 && key && !strcmp (value, "embedding"), "of tied names, too");
    accel_safetensors_close (file);
    ok (!load () && ((float *) (void *) matrix)[1] == 5, "tied parameters are loaded: %s", err.text);
    accel_model_destroy (model);
}

static void
test_bad (void)
{
    static const struct {
        struct accel_file_name rows[2];
        size_t count;
        const char *words;
    } cases[] = {
        { { { "*", NULL } }, 1, "row 0: theirs is NULL" },
        { { { "*", "*" }, { "h.*.b", "b" } }, 2, "row 1: 'h.*.b' has 1 '*', but 'b' has 0" },
        { { { "*", "*" }, { "h.*.c", "*" } }, 2, "row 1: 'h.*.c' matches no parameter" },
        { { { "*********", "*********" } }, 1, "has 9 '*'; the maximum is 8" },
        { { { "h.0.b", "b", .transposed = true } }, 1, "cannot be transposed: it has 1 dimensions" },
        { { { "h.0.w", "h.1.b" } }, 1, "'h.0.w' and 'h.1.b' would both be saved as 'h.1.b'" },
    };
    make_model (ACCEL_FLOAT32);
    MUST (SET ({ "head", "tail" }));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ok (set (cases[i].rows, cases[i].count) == ACCEL_ERR_INVALID && strstr (err.text, cases[i].words), "%s: %s",
            cases[i].words, err.text);
    ok (!save () && has ("tail"), "the former table stays");
    ok (accel_model_set_file_names (NULL, cases[0].rows, 1, &err) == ACCEL_ERR_INVALID
            && accel_model_set_file_names (model, NULL, 1, &err) == ACCEL_ERR_INVALID,
        "no model, no rows");
    MUST (SET ({ "h.0.w", "h.0.w", .transposed = true }, { "head", "tail" }));
    ok (load () == ACCEL_ERR_INVALID && strstr (err.text, "'h.0.w' has [33, 35], transposed"), "another shape: %s",
        err.text);
    accel_model_destroy (model);
}

int
main (void)
{
    static const enum accel_dtype dtypes[] = { ACCEL_FLOAT32, ACCEL_FLOAT64, ACCEL_BFLOAT16, ACCEL_UINT8 };
    snprintf (folder, sizeof folder, "%s/model", scratch_folder ());
    MUST (accel_open (&acc, NULL, &err));
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        test_transposed (dtypes[i]);
    test_converted ();
    test_alternatives ();
    test_ignored ();
    test_tied ();
    test_bad ();
    accel_close (acc);
    return done_testing ();
}
