/* SPDX-License-Identifier: Apache-2.0 */
/* Saving models and loading them: the files of Hugging Face Accelerate, precisions, tied parameters, names that do not
 * match, and what is left alone in the directory. */
#include <config.h>

#include "files/shards.h"
#include "tests/allocators.h"
#include "tests/unit/data/datasets.h"

#include <accel/accel.h>
#include <dirent.h>
#include <malloc.h>
#include <sys/file.h>
#include <sys/stat.h>

enum { PARAMETERS = 8, MOST = 512, ROOM = SCRATCH_SIZE + 128 };

static struct accel *acc;
static char folder[ROOM];

/* The model of make_save_model_goldens.py: number i of tensor k is i / 8 + k. */
static struct tensor {
    const char *name;
    enum accel_dtype dtype;
    int ndim;
    int64_t shape[3];
    int k;
    struct accel_tensor tensor;
    _Alignas (64) char bytes[4 * MOST];
} golden[PARAMETERS] = {
    { .name = "embed", .ndim = 2, .shape = { 10, 4 }, .k = 0 },
    { .name = "a", .ndim = 2, .shape = { 4, 4 }, .k = 1 },
    { .name = "b", .dtype = ACCEL_BFLOAT16, .ndim = 1, .shape = { 4 }, .k = 2 },
    { .name = "big", .ndim = 2, .shape = { 17, 17 }, .k = 3 },
    { .name = "head", .ndim = 2, .shape = { 10, 4 }, .k = 0 },
    { .name = "c", .dtype = ACCEL_FLOAT16, .ndim = 3, .shape = { 3, 5, 2 }, .k = 4 },
    { .name = "scalar", .ndim = 0, .k = 5 },
    { .name = "steps", .dtype = ACCEL_INT64, .ndim = 1, .shape = { 3 } },
};

static void
fill (struct tensor *tensor)
{
    size_t count = accel_tensor_count (&tensor->tensor.dl);
    float values[MOST];
    for (size_t i = 0; i < count; i++)
        values[i] = (float) i / 8 + (float) tensor->k;
    if (tensor->dtype == ACCEL_INT64)
        memcpy (tensor->bytes, (int64_t[]){ 1, 2, 3 }, 24);
    else if (accel_convert (values, ACCEL_FLOAT32, tensor->bytes, tensor->dtype, count, &err))
        diag ("%s", err.text);
}

static struct accel_model *
make_golden (void)
{
    struct accel_parameter parameters[PARAMETERS];
    struct accel_model *model;
    for (int i = 0; i < PARAMETERS; i++) {
        struct tensor *each = &golden[i];
        MUST (accel_tensor_init (&each->tensor, each->dtype, each->ndim, each->shape, &err));
        each->tensor.dl.data = golden[i == 4 ? 0 : i].bytes; /* the head is tied */
        fill (each);
        parameters[i] = (struct accel_parameter){ .name = each->name, .data = &each->tensor.dl };
    }
    MUST (accel_model_create (&model, parameters, PARAMETERS, &err));
    return model;
}

/* Whether two files are equal; of safetensors files, if one of them says which name is tied, all but the header. */
static bool
same_files (const char *ours, const char *theirs)
{
    static char x[8192], y[8192];
    size_t length = scratch_read (ours, x, sizeof x), wanted = scratch_read (theirs, y, sizeof y);
    const char *tied = length > 8 ? memmem (x, length, "\"head\":\"embed\"", 14) : NULL;
    uint64_t skip[2] = { 0 };
    if (tied) {
        memcpy (&skip[0], x, 8);
        memcpy (&skip[1], y, 8);
        skip[0] += 8;
        skip[1] += 8;
    }
    bool same = wanted && length - skip[0] == wanted - skip[1] && !memcmp (x + skip[0], y + skip[1], length - skip[0]);
    if (!same)
        diag ("%s and %s differ", ours, theirs);
    return same;
}

/* @return files in the folder; compared with those in @wanted, unless it is NULL */
static size_t
count_files (const char *wanted, bool *same)
{
    char ours[ROOM + 256], theirs[ROOM + 256];
    DIR *dir = opendir (folder);
    size_t count = 0;
    for (struct dirent *entry; dir && (entry = readdir (dir)); ) {
        if (!strcmp (entry->d_name, ".") || !strcmp (entry->d_name, ".."))
            continue;
        count++;
        snprintf (ours, sizeof ours, "%s/%s", folder, entry->d_name);
        snprintf (theirs, sizeof theirs, "%s/%s", wanted ? wanted : "", entry->d_name);
        if (wanted && !same_files (ours, theirs))
            *same = false;
    }
    if (dir)
        closedir (dir);
    return count;
}

static enum accel_status
save_as (struct accel_model *model, const char *size)
{
    return accel_save_model (acc, model, folder, &(struct accel_save_model_options){ .max_shard_size = size }, &err);
}

static void
test_goldens (struct accel_model *model)
{
    static const struct {
        const char *name, *size;
        size_t files;
    } cases[] = { { "whole", NULL, 1 }, { "sharded", "0.2KB", 4 }, { "each", " 1 kb ", 3 }, { "each", "1000", 3 },
                  { "whole", "5GB", 1 } };
    const char *srcdir = getenv ("srcdir");
    char wanted[ROOM];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool same = true;
        snprintf (wanted, sizeof wanted, "%s/tests/golden/save_model/%s", srcdir ? srcdir : ".", cases[i].name);
        enum accel_status status = save_as (model, cases[i].size);
        ok (!status && count_files (wanted, &same) == cases[i].files && same,
            "%s: the files of Accelerate, and no others%s%s", cases[i].name, status ? ": " : "",
            status ? err.text : "");
        for (int k = 0; k < PARAMETERS; k++)
            memset (golden[k].bytes, 0, sizeof golden[k].bytes);
        status = accel_load_model (acc, model, i % 2 ? folder : wanted, NULL, NULL, &err);
        bool good = !status;
        for (int k = 0; k < PARAMETERS && good; k++) {
            char loaded[4 * MOST];
            memcpy (loaded, golden[k].bytes, sizeof loaded);
            fill (&golden[k]);
            good = k == 4 || !memcmp (loaded, golden[k].bytes, sizeof loaded);
        }
        ok (good, "%s can be loaded%s%s", i % 2 ? "it" : "Accelerate's", status ? ": " : "", status ? err.text : "");
    }
}

static void
test_sizes (void)
{
    static const struct {
        const char *text;
        uint64_t bytes; /* UINT64_MAX: refused */
    } cases[] = { { "5GB", 5000000000 }, { "200MB", 200000000 }, { "1.5 tb", 1500000000000 }, { "0.1KB", 100 },
                  { "123", 123 }, { "0", 0 }, { "1e3KB", 1000000 }, { "99999999TB", INT64_MAX }, { "5GiB", UINT64_MAX },
                  { "GB", UINT64_MAX }, { "", UINT64_MAX }, { "-1GB", UINT64_MAX }, { "5 G B", UINT64_MAX },
                  { "nanGB", UINT64_MAX }, { "5B", UINT64_MAX }, { "x", UINT64_MAX },
                  { "-5", UINT64_MAX } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t bytes = 0;
        enum accel_status status = shards_parse_size (cases[i].text, &bytes, &err);
        ok (cases[i].bytes == UINT64_MAX ? status && strstr (err.text, "'max_shard_size'") && strstr (err.text, "5GB")
                                         : !status && bytes == cases[i].bytes,
            "size '%s'", cases[i].text);
    }
    ok (shards_is_name ("model-00001-of-00009.safetensors") && !shards_is_name ("model-0000x-of-00009.safetensors"),
        "the name of a shard has digits");
    static const struct {
        uint64_t bytes[8];
        size_t count, shard_of[8], shards;
    } splits[] = { { { 4, 12, 5, 3 }, 4, { 1, 0, 1, 2 }, 3 },
                   { { 6, 6, 2, 6, 2, 2 }, 6, { 0, 1, 1, 2, 2, 2 }, 3 },
                   { { 10, 0, 1 }, 3, { 0, 0, 1 }, 2 },
                   { { 11 }, 1, { 0 }, 1 },
                   { { 11, 12, 1 }, 3, { 0, 1, 2 }, 3 },
                   { { 0 }, 1, { 0 }, 1 } };
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        size_t shard_of[8];
        ok (shards_split (splits[i].bytes, splits[i].count, 10, shard_of) == splits[i].shards
                && !memcmp (shard_of, splits[i].shard_of, splits[i].count * sizeof *shard_of),
            "division %zu", i + 1);
    }
}

/* ---- precisions ---- */

static struct accel_tensor tensors[4];
static char memory[4][4 * MOST];

static struct accel_model *
make_model (const char *const *names, size_t count, enum accel_dtype dtype, bool trained)
{
    static struct accel_tensor gradients[4];
    struct accel_parameter parameters[4];
    struct accel_model *model;
    for (size_t i = 0; i < count; i++) {
        MUST (accel_tensor_init (&tensors[i], dtype, 1, (int64_t[]){ 16 }, &err));
        MUST (accel_tensor_init (&gradients[i], ACCEL_FLOAT32, 1, (int64_t[]){ 16 }, &err));
        tensors[i].dl.data = memory[i];
        gradients[i].dl.data = memory[3];
        parameters[i] = (struct accel_parameter){ names[i], &tensors[i].dl, trained ? &gradients[i].dl : NULL };
    }
    MUST (accel_model_create (&model, parameters, count, &err));
    return model;
}

/* Masters that no parameter of fewer bits can have. */
static void
set_masters (struct accel_model *model)
{
    float *master = accel_model_master (model, 0)->data;
    for (int i = 0; i < 16; i++)
        master[i] = 1 + (float) i / 10000;
    accel_model_narrow (model);
}

static void
test_precision (enum accel_dtype dtype)
{
    static const char *const names[] = { "w" };
    struct accel_model *model = make_model (names, 1, dtype, true);
    float masters[16], *now = accel_model_master (model, 0)->data;
    char narrow[64];
    size_t bytes = 16 * accel_dtype_bytes (dtype);
    set_masters (model);
    memcpy (masters, now, sizeof masters);
    memcpy (narrow, memory[0], bytes);
    float scale = accel_model_scale (model, 0);
    for (int way = 0; way < 3; way++) {
        struct accel_save_model_options options = { .precision = (enum accel_save_precision) way,
                                                    .dtype = ACCEL_FLOAT64 };
        struct accel_safetensors *file = NULL;
        enum accel_status status = accel_save_model (acc, model, folder, &options, &err);
        memset (now, 0, sizeof masters);
        accel_model_narrow (model);
        if (!status)
            status = accel_load_model (acc, model, folder, NULL, NULL, &err);
        if (!status)
            status = accel_safetensors_open (&file, folder, NULL, &err);
        const struct accel_safetensors_info *info = accel_safetensors_get (file, 0);
        bool exact = !memcmp (now, masters, sizeof masters), same = !memcmp (memory[0], narrow, bytes);
        enum accel_dtype wanted = way == 0 ? dtype : way == 1 ? ACCEL_FLOAT32 : ACCEL_FLOAT64;
        size_t scales = way == 0 && bytes == 16;
        bool typed = info && accel_safetensors_count (file) == 1 + scales
                     && (info->dtype == wanted || (scales && accel_safetensors_get (file, 1)->dtype == wanted));
        ok (!status && typed && same && exact == (way > 0) && accel_model_scale (model, 0) == scale,
            "%s saved as %s%s%s", accel_dtype_name (dtype), way == 0 ? "trained" : way == 1 ? "masters" : "float64",
            status ? ": " : "", status ? err.text : "");
        accel_safetensors_close (file);
        memcpy (now, masters, sizeof masters);
        accel_model_narrow (model);
    }
    accel_model_destroy (model);
}

/* More than is converted at once. */
static void
test_long (void)
{
    enum { LONG = 3 << 20 };
    static uint16_t numbers[LONG];
    struct accel_model *model;
    for (int i = 0; i < LONG; i++)
        numbers[i] = (uint16_t) (i % 0x7f00);
    MUST (accel_tensor_init (&tensors[0], ACCEL_BFLOAT16, 1, (int64_t[]){ LONG }, &err));
    tensors[0].dl.data = numbers;
    MUST (accel_model_create (&model, &(struct accel_parameter){ "w", &tensors[0].dl, NULL }, 1, &err));
    struct accel_save_model_options options = { .precision = ACCEL_SAVE_AS, .dtype = ACCEL_FLOAT32 };
    enum accel_status status = accel_save_model (acc, model, folder, &options, &err);
    memset (numbers, 0, sizeof numbers);
    if (!status)
        status = accel_load_model (acc, model, folder, NULL, NULL, &err);
    ok (!status && numbers[LONG - 1] == (LONG - 1) % 0x7f00 && numbers[LONG / 2] == LONG / 2 % 0x7f00,
        "a long tensor is converted%s%s", status ? ": " : "", status ? err.text : "");
    accel_model_destroy (model);
}

/* ---- names ---- */

static void
test_names (void)
{
    static const char *const ours[] = { "layer.weight", "layer.bias", "extra" };
    static const char *const theirs[] = { "layer.weigth", "layer.bias", "more" };
    const struct accel_load_result *result = NULL;
    struct accel_model *model = make_model (theirs, 3, ACCEL_FLOAT32, false);
    MUST (save_as (model, NULL));
    accel_model_destroy (model);
    model = make_model (ours, 3, ACCEL_FLOAT32, false);
    memset (memory, 1, sizeof memory);
    ok (accel_load_model (acc, model, folder, &result, NULL, &err) == ACCEL_ERR_INVALID
            && strstr (err.text, "2 parameters are missing: 'layer.weight' (did you mean 'layer.weigth'?), 'extra'; "
                                 "2 unexpected tensors: 'layer.weigth', 'more'"),
        "names that do not match: %s", err.text);
    ok (result && result->missing_count == 2 && !strcmp (result->missing[1], "extra") && result->unexpected_count == 2
            && !strcmp (result->unexpected[0], "layer.weigth") && memory[1][0] == 1,
        "all of them are listed, and nothing is loaded");
    ok (!accel_load_model (acc, model, folder, &result, &(struct accel_load_model_options){ .strict = ACCEL_NO }, &err)
            && result->missing_count == 2 && memory[1][0] == 0 && memory[0][0] == 1,
        "not strict: what matches is loaded");
    accel_model_destroy (model);
}

enum { MANY = 200 };

/* Each of one number. */
static struct accel_model *
make_many (const char *begin)
{
    static struct accel_tensor all[MANY];
    static float numbers[MANY];
    static char names[MANY][16];
    struct accel_parameter parameters[MANY];
    struct accel_model *model;
    for (int i = 0; i < MANY; i++) {
        MUST (accel_tensor_init (&all[i], ACCEL_FLOAT32, 1, (int64_t[]){ 1 }, &err));
        all[i].dl.data = &numbers[i];
        snprintf (names[i], sizeof names[i], "%s-%03d", begin, i);
        parameters[i] = (struct accel_parameter){ names[i], &all[i].dl, NULL };
    }
    MUST (accel_model_create (&model, parameters, MANY, &err));
    return model;
}

/* None of the names match, and all of them are in the memory of the result. */
static void
test_many (void)
{
    const struct accel_load_result *result = NULL;
    struct accel_model *model = make_many ("old");
    MUST (save_as (model, NULL));
    accel_model_destroy (model);
    model = make_many ("new");
    MUST (accel_load_model (acc, model, folder, &result, &(struct accel_load_model_options){ .strict = ACCEL_NO },
                            &err));
    accel_model_destroy (model);
    ok (result->missing_count == MANY && result->unexpected_count == MANY
            && !strcmp (result->missing[MANY - 1], "new-199") && !strcmp (result->unexpected[MANY - 1], "old-199"),
        "200 names are missing, and 200 others are there");
    const char *last = result->unexpected[MANY - 1];
    const char *end = (const char *) result + malloc_usable_size ((void *) result);
    ok (last > (const char *) result && last + strlen (last) < end, "the last one is in the result's memory");
}

/* Files say it as errors of the system. */
static bool
lacks_memory (enum accel_status status)
{
    return status == ACCEL_ERR_NOMEM || (status == ACCEL_ERR_SYSTEM && strstr (err.text, "out of memory"));
}

/* Each allocation fails once: what needs it fails, or does without it. */
static void
test_memory (void)
{
    static const char *const names[] = { "one", "two", "three" };
    const struct accel_save_model_options parts = { .max_shard_size = "100" };
    struct accel_model *model = make_model (names, 3, ACCEL_FLOAT32, false);
    char place[ROOM + 16];
    snprintf (place, sizeof place, "%s-memory", folder);
    bool good = true, is_over = false;
    for (int times = 0; good && !is_over; times++) {
        calls_left = times;
        enum accel_status status = accel_save_model (acc, model, place, &parts, &err);
        is_over = calls_left >= 0;
        calls_left = -1;
        good = status ? lacks_memory (status) && !is_over
                      : !accel_load_model (acc, model, place, NULL, NULL, &err);
    }
    ok (good, "a model is saved, or there is no memory for it");
    for (int times = is_over = 0; good && !is_over; times++) {
        const struct accel_load_result *result = NULL;
        calls_left = times;
        enum accel_status status = accel_load_model (acc, model, place, &result, NULL, &err);
        is_over = calls_left >= 0;
        calls_left = -1;
        good = status ? lacks_memory (status) && !is_over : result && !result->missing_count;
    }
    ok (good, "so is it loaded");
    accel_model_destroy (model);
}

static void
test_mismatches (void)
{
    static const char *const names[] = { "w" };
    struct accel_model *model = make_model (names, 1, ACCEL_FLOAT32, false);
    MUST (save_as (model, NULL));
    tensors[0].shape[0] = 15;
    ok (accel_load_model (acc, model, folder, NULL, NULL, &err) == ACCEL_ERR_INVALID
            && strstr (err.text, "tensor 'w' has shape [16], but the parameter 'w' has [15]"),
        "another shape");
    accel_model_destroy (model);
    model = make_model (names, 1, ACCEL_INT32, false);
    ok (accel_load_model (acc, model, folder, NULL, NULL, &err) == ACCEL_ERR_INVALID
            && strstr (err.text, "tensor 'w' is F32 and cannot be converted to int32"),
        "another kind of type");
    accel_model_destroy (model);
    model = make_model (names, 1, ACCEL_FLOAT64, false);
    ok (!accel_load_model (acc, model, folder, NULL, NULL, &err), "floats are converted");
    ok (accel_load_model (acc, model, "/nowhere", NULL, NULL, &err) == ACCEL_ERR_SYSTEM
            && strstr (err.text, "accel_load_model at ") && strstr (err.text, "/nowhere: No such file"),
        "no such directory");
    accel_model_destroy (model);
}

static void
test_tied (void)
{
    static const char *const both[] = { "first", "second" }, *const second[] = { "second" };
    struct accel_model *model = make_model (both, 2, ACCEL_FLOAT32, false);
    tensors[1].dl.data = memory[0];
    accel_model_destroy (model);
    struct accel_parameter parameters[] = { { both[0], &tensors[0].dl, NULL }, { both[1], &tensors[1].dl, NULL } };
    MUST (accel_model_create (&model, parameters, 2, &err));
    memset (memory[0], 7, 64);
    MUST (save_as (model, NULL));
    memset (memory[0], 0, 64);
    ok (!accel_load_model (acc, model, folder, NULL, NULL, &err) && memory[0][3] == 7,
        "a tied parameter is saved once");
    accel_model_destroy (model);
    model = make_model (second, 1, ACCEL_FLOAT32, false);
    memset (memory[0], 0, 64);
    const struct accel_load_result *result = NULL;
    ok (!accel_load_model (acc, model, folder, &result, NULL, &err) && memory[0][3] == 7,
        "and found under its other name in a model that does not tie them");
    accel_model_destroy (model);
}

/* Tensors that begin at the same address without being the same; and a name that looks like a scale's. */
static void
test_not_tied (void)
{
    static const char *const names[] = { "w", "w_scale" }, *const one[] = { "w" };
    struct accel_safetensors *file;
    for (int empty = 0; empty < 2; empty++) {
        struct accel_model *model = make_model (names, 2, ACCEL_FLOAT32, false);
        accel_model_destroy (model);
        tensors[1].dl.data = memory[0];
        tensors[1].shape[0] = empty ? 0 : 8;
        tensors[0].shape[0] = empty ? 0 : 16;
        struct accel_parameter both[] = { { names[0], &tensors[0].dl, NULL }, { names[1], &tensors[1].dl, NULL } };
        MUST (accel_model_create (&model, both, 2, &err));
        MUST (save_as (model, NULL));
        accel_model_destroy (model);
        MUST (accel_safetensors_open (&file, folder, NULL, &err));
        ok (accel_safetensors_count (file) == 2, empty ? "empty tensors are not tied" : "nor is a part of a tensor");
        accel_safetensors_close (file);
        model = make_model (one, 1, ACCEL_FLOAT32, false);
        tensors[0].shape[0] = empty ? 0 : 16;
        ok (accel_load_model (acc, model, folder, NULL, NULL, &err) == ACCEL_ERR_INVALID
                && strstr (err.text, "1 unexpected tensor"),
            "only 8-bit tensors have a scale: %s", err.text);
        accel_model_destroy (model);
    }
}

/* ---- the directory ---- */

static void
test_folder (struct accel_model *model)
{
    char path[ROOM + 64], deep[ROOM + 64];
    bool same = true;
    MUST (save_as (model, "0.2KB"));
    snprintf (path, sizeof path, "%s/config.json", folder);
    FILE *file = fopen (path, "w");
    bool good = file && !fclose (file);
    snprintf (path, sizeof path, "%s/model-00009-of-00009.safetensors.bak", folder);
    file = fopen (path, "w");
    good = good && file && !fclose (file);
    ok (good && !save_as (model, "1KB") && count_files (NULL, &same) == 3 + 2 && !save_as (model, NULL)
            && count_files (NULL, &same) == 1 + 2,
        "shards and the index of a former save are removed, other files are not");
    int fd = open (folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    good = fd >= 0 && !flock (fd, LOCK_EX);
    ok (good && save_as (model, NULL) == ACCEL_ERR_INVALID
            && strstr (err.text, "another process is saving a model there"),
        "another save is at work");
    close (fd);
    snprintf (deep, sizeof deep, "%s/x/y/z", folder);
    ok (!accel_save_model (acc, model, deep, NULL, &err) && !accel_load_model (acc, model, deep, NULL, NULL, &err),
        "directories are made");
    ok (accel_save_model (acc, model, path, NULL, &err) == ACCEL_ERR_INVALID
            && strstr (err.text, "is a file, but must be"),
        "a path that is a file");
    static const struct {
        struct accel_save_model_options options;
        const char *words;
    } bad[] = {
        { { .max_shard_size = "5GiB" }, "invalid value for 'max_shard_size': '5GiB'" },
        { { .max_shard_size = "5GB", .max_shard_bytes = 1 }, "cannot be combined" },
        { { .precision = (enum accel_save_precision) 3 }, "invalid value for 'precision': 3" },
        { { .precision = ACCEL_SAVE_AS, .dtype = ACCEL_INT8 }, "invalid value for 'dtype': int8 is not a float type" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ok (accel_save_model (acc, model, folder, &bad[i].options, &err) == ACCEL_ERR_INVALID
                && strstr (err.text, bad[i].words),
            "refused: %s", bad[i].words);
    ok (accel_save_model (acc, model, NULL, NULL, &err) == ACCEL_ERR_INVALID
            && accel_save_model (NULL, model, folder, NULL, &err) == ACCEL_ERR_INVALID
            && accel_save_model (acc, NULL, folder, NULL, NULL) == ACCEL_ERR_INVALID
            && accel_load_model (acc, model, NULL, NULL, NULL, &err) == ACCEL_ERR_INVALID,
        "refused: NULL");
}

int
main (void)
{
    snprintf (folder, sizeof folder, "%s/model", scratch_folder ());
    MUST (accel_open (&acc, NULL, &err));
    struct accel_model *model = make_golden ();
    test_sizes ();
    test_goldens (model);
    test_folder (model);
    static const enum accel_dtype dtypes[] = { ACCEL_BFLOAT16, ACCEL_FLOAT16, ACCEL_FLOAT8_E4M3FN, ACCEL_FLOAT8_E5M2 };
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        test_precision (dtypes[i]);
    test_names ();
    test_many ();
    test_memory ();
    test_mismatches ();
    test_tied ();
    test_not_tied ();
    test_long ();
    accel_model_destroy (model);
    accel_close (acc);
    return done_testing ();
}
