/* SPDX-License-Identifier: Apache-2.0 */
/* accel/safetensors.h: views, reads, slices, conversions, and files of the program's own tensors. */
#include <config.h>

#include "tests/unit/data/datasets.h"

#include <accel/accel.h>

enum { ROOM = SCRATCH_SIZE + 64, NUMBERS = 3 * 4 * 5 * 6 };

static char path[ROOM];

static DLTensor
describe (void *data, enum accel_dtype dtype, int ndim, int64_t *shape)
{
    return (DLTensor){ .data = data, .device = { kDLCPU, 0 }, .ndim = ndim, .dtype = accel_dtype_to_dl (dtype),
                       .shape = shape };
}

static float numbers[NUMBERS];
static int64_t shape[4] = { 3, 4, 5, 6 }, seven = 7, none[2] = { 0, 3 };
static uint8_t bytes[7] = { 1, 2, 3, 4, 5, 6, 7 };

static void
save_numbers (void)
{
    DLTensor tensors[] = { describe (numbers, ACCEL_FLOAT32, 4, shape), describe (bytes, ACCEL_UINT8, 1, &seven),
                           describe (NULL, ACCEL_FLOAT16, 2, none) };
    struct accel_safetensors_tensor named[]
        = { { "numbers", &tensors[0] }, { "bytes", &tensors[1] }, { "none", &tensors[2] } };
    static const char *const metadata[] = { "format", "pt", "k", "v", NULL };
    for (int i = 0; i < NUMBERS; i++)
        numbers[i] = (float) i / 4;
    MUST (accel_safetensors_save (path, named, 3, metadata, &err));
}

static void
test_file (bool in_memory)
{
    struct accel_safetensors *file;
    struct accel_safetensors_options options = { .in_memory = in_memory };
    DLTensor view;
    size_t index = 99, other;
    const char *value = NULL;
    MUST (accel_safetensors_open (&file, path, &options, &err));
    const struct accel_safetensors_info *info = accel_safetensors_get (file, 0);
    ok (accel_safetensors_count (file) == 3 && !strcmp (info->name, "numbers") && !strcmp (info->dtype_name, "F32")
            && info->dtype == ACCEL_FLOAT32 && info->ndim == 4 && info->shape[3] == 6 && info->bytes == sizeof numbers
            && !strcmp (info->path, path) && !accel_safetensors_get (file, 3) && !accel_safetensors_get (NULL, 0)
            && !accel_safetensors_count (NULL),
        "what is in a file");
    ok (!accel_safetensors_find (file, "bytes", &index, &err) && index == 2
            && accel_safetensors_find (file, "nubmers", &other, &err) == ACCEL_ERR_INVALID
            && strstr (err.text, "no tensor 'nubmers' (did you mean 'numbers'?)"),
        "tensors are found by name");
    ok (!strcmp (accel_safetensors_metadata (file, 0, &value), "format") && !strcmp (value, "pt")
            && !accel_safetensors_metadata (NULL, 0, NULL)
            && !strcmp (accel_safetensors_metadata (file, 1, &value), "k") && !strcmp (value, "v")
            && !accel_safetensors_metadata (file, 2, NULL),
        "metadata");
    ok (!accel_safetensors_view (file, 0, &view, &err) && view.ndim == 4 && view.shape[0] == 3
            && !memcmp (view.data, numbers, sizeof numbers),
        "a view%s", in_memory ? " in memory" : "");
    void *first = view.data;
    ok (!accel_safetensors_view (file, 0, &view, &err) && view.data == first, "is the same the next time");
    ok (!accel_safetensors_view (file, 2, &view, &err) && !memcmp (view.data, bytes, 7)
            && !accel_safetensors_view (file, 1, &view, &err) && !view.data && view.shape[1] == 3,
        "other tensors, one of them empty");
    bool gone = !truncate (path, 100);
    DLTensor into = describe ((float[NUMBERS]){ 0 }, ACCEL_FLOAT32, 4, shape);
    ok (gone && accel_safetensors_read (file, 0, NULL, NULL, &into, &err) == ACCEL_ERR_FORMAT
            && strstr (err.text, "has only 100 bytes"),
        "a file that was truncated since is an error");
    if (in_memory)
        ok (!memcmp (first, numbers, sizeof numbers), "and views in memory do not mind");
    accel_safetensors_close (file);
    accel_safetensors_close (NULL);
    save_numbers ();
}

/* Every part of a small tensor. */
static void
test_slices (void)
{
    struct accel_safetensors *file;
    size_t wrong = 0, tried = 0;
    MUST (accel_safetensors_open (&file, path, NULL, &err));
    for (unsigned turn = 0; turn < 4000; turn++) {
        static uint32_t noise = 7;
        int64_t begin[4], end[4], part[4];
        float got[NUMBERS], *at = got;
        for (int i = 0; i < 4; i++) {
            noise = noise * 1664525 + 1013904223;
            begin[i] = (noise >> 8) % (uint64_t) (shape[i] + 1);
            end[i] = begin[i] + (int64_t) ((noise >> 20) % (uint64_t) (shape[i] - begin[i] + 1));
            if (noise & 64) {
                begin[i] = 0;
                end[i] = shape[i];
            }
            part[i] = end[i] - begin[i];
        }
        DLTensor into = describe (got, ACCEL_FLOAT32, 4, part);
        wrong += accel_safetensors_read (file, 0, begin, end, &into, &err) != ACCEL_OK;
        for (int64_t a = begin[0]; a < end[0]; a++)
            for (int64_t b = begin[1]; b < end[1]; b++)
                for (int64_t c = begin[2]; c < end[2]; c++)
                    for (int64_t d = begin[3]; d < end[3]; d++, tried++)
                        wrong += *at++ != numbers[((a * 4 + b) * 5 + c) * 6 + d];
    }
    ok (!wrong && tried > 100000, "slices have the right numbers (%zu of %zu are wrong)", wrong, tried);
    static const int64_t low[4] = { 0, 0, 0, -1 }, high[4] = { 3, 4, 5, 7 }, zero[4] = { 0 };
    DLTensor into = describe ((float[NUMBERS]){ 0 }, ACCEL_FLOAT32, 4, shape), flat = into, ints = into, empty = into;
    DLTensor pairs = into, floats = describe (into.data, ACCEL_FLOAT32, 1, &seven);
    flat.ndim = 3;
    ints.dtype = accel_dtype_to_dl (ACCEL_INT32);
    empty.data = NULL;
    pairs.dtype.lanes = 2;
    struct {
        const int64_t *begin, *end;
        const DLTensor *into;
        size_t index;
        const char *words;
    } bad[] = {
        { low, NULL, &into, 0, "-1 to 6 is not a part of dimension 3, which has 6" },
        { NULL, high, &into, 0, "0 to 7 is not a part of dimension 3" },
        { NULL, zero, &into, 0, "dimension 0 is 0, but 3 in the memory" },
        { NULL, NULL, &flat, 0, "has 4 dimensions, but the memory for it has 3" },
        { NULL, NULL, &ints, 0, "is F32 and cannot be converted to int32" },
        { NULL, NULL, &pairs, 0, "is F32 and cannot be converted" },
        { NULL, NULL, &floats, 2, "is U8 and cannot be converted to float32" },
        { NULL, NULL, &empty, 0, "the memory for it is NULL" },
        { NULL, NULL, &into, 9, "index is 9, but there are 3 tensors" },
        { NULL, NULL, NULL, 0, "into is NULL" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (!ok (accel_safetensors_read (file, bad[i].index, bad[i].begin, bad[i].end, bad[i].into, &err)
                     && strstr (err.text, bad[i].words),
                 "refused: %s", bad[i].words))
            diag ("%s", err.text);
    accel_safetensors_close (file);
}

/* Runs longer than what is read at once, with and without a conversion; and far apart. */
static void
test_large (void)
{
    enum { ROWS = 300, COLUMNS = 1031 };
    static float values[ROWS * COLUMNS];
    static double wide[ROWS * COLUMNS];
    int64_t large[2] = { ROWS, COLUMNS }, part[2] = { ROWS, 3 };
    DLTensor tensor = describe (values, ACCEL_FLOAT32, 2, large), into = describe (wide, ACCEL_FLOAT64, 2, large);
    struct accel_safetensors *file;
    size_t wrong = 0;
    for (int i = 0; i < ROWS * COLUMNS; i++)
        values[i] = (float) i;
    MUST (accel_safetensors_save (path, &(struct accel_safetensors_tensor){ "x", &tensor }, 1, NULL, &err));
    MUST (accel_safetensors_open (&file, path, NULL, &err));
    MUST (accel_safetensors_read (file, 0, NULL, NULL, &into, &err));
    for (int i = 0; i < ROWS * COLUMNS; i++)
        wrong += wide[i] != i;
    ok (!wrong, "float32 read as float64");
    static uint16_t narrow[ROWS * 3];
    into = describe (narrow, ACCEL_BFLOAT16, 2, part);
    MUST (accel_safetensors_read (file, 0, (int64_t[]){ 0, 5 }, (int64_t[]){ ROWS, 8 }, &into, &err));
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < 3; j++) {
            uint16_t rounded;
            MUST (accel_convert (&values[i * COLUMNS + 5 + j], ACCEL_FLOAT32, &rounded, ACCEL_BFLOAT16, 1, &err));
            wrong += rounded != narrow[3 * i + j];
        }
    ok (!wrong, "columns read as bfloat16");
    static uint8_t small[ROWS * 3];
    into = describe (small, ACCEL_FLOAT8_E4M3FN, 2, part);
    MUST (accel_safetensors_read (file, 0, (int64_t[]){ 0, 5 }, (int64_t[]){ ROWS, 8 }, &into, &err));
    ok (small[0] == 0x4a && small[3] == 0x7e && small[3 * ROWS - 1] == 0x7e, "E4M3 has no infinity");
    into.dtype = accel_dtype_to_dl (ACCEL_FLOAT8_E5M2);
    MUST (accel_safetensors_read (file, 0, (int64_t[]){ 0, 5 }, (int64_t[]){ ROWS, 8 }, &into, &err));
    ok (small[0] == 0x45 && small[3] == 0x64 && small[3 * ROWS - 1] == 0x7c, "E5M2 has one");
    accel_safetensors_close (file);
    memcpy (narrow, (uint16_t[]){ 0x3c00, 0xc000, 0x3800 }, 6); /* 1, -2 and a half as float16 */
    tensor = describe (narrow, ACCEL_FLOAT16, 1, &part[1]);
    MUST (accel_safetensors_save (path, &(struct accel_safetensors_tensor){ "x", &tensor }, 1, NULL, &err));
    MUST (accel_safetensors_open (&file, path, NULL, &err));
    into = describe (narrow + 3, ACCEL_BFLOAT16, 1, &part[1]);
    MUST (accel_safetensors_read (file, 0, NULL, NULL, &into, &err));
    ok (!memcmp (narrow + 3, (uint16_t[]){ 0x3f80, 0xc000, 0x3f00 }, 6), "float16 read as bfloat16");
    accel_safetensors_close (file);
}

/* A header that is not padded: tensors are where no float may be. */
static void
test_misaligned (void)
{
    static const char header[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
    char text[128] = { 0 };
    struct accel_safetensors *file;
    DLTensor view;
    memcpy (text, &(uint64_t){ sizeof header - 1 }, 8);
    memcpy (text + 8, header, sizeof header - 1);
    memcpy (text + 7 + sizeof header, (float[]){ 1.5f, 2.5f }, 8);
    MUST (accel_safetensors_open (&file, write_file ("odd", text, 15 + sizeof header), NULL, &err));
    ok ((7 + sizeof header) % 4 && !accel_safetensors_view (file, 0, &view, &err) && (uintptr_t) view.data % 4 == 0
            && ((float *) view.data)[1] == 2.5f,
        "a tensor that is not aligned in the file is copied");
    accel_safetensors_close (file);
}

/* The metadata of a set are those of its files, one after the other. */
static void
test_set (void)
{
    static const char index[] = "{\"weight_map\":{\"a\":\"a.safetensors\",\"b\":\"b.safetensors\"}}";
    static const char *const metadata[2][5] = { { "k", "1", "l", "2", NULL }, { "m", "3", NULL } };
    DLTensor tensor = describe (bytes, ACCEL_UINT8, 1, &seven);
    struct accel_safetensors *file;
    const char *value = NULL;
    for (int i = 0; i < 2; i++) {
        char name[2] = { (char) ('a' + i) }, shard[ROOM];
        snprintf (shard, sizeof shard, "%s/%s.safetensors", scratch_folder (), name);
        struct accel_safetensors_tensor named = { name, &tensor };
        MUST (accel_safetensors_save (shard, &named, 1, metadata[i], &err));
    }
    MUST (accel_safetensors_open (&file, write_file ("s.safetensors.index.json", index, sizeof index - 1), NULL, &err));
    ok (accel_safetensors_count (file) == 2 && !strcmp (accel_safetensors_metadata (file, 1, &value), "l")
            && !strcmp (value, "2") && !strcmp (accel_safetensors_metadata (file, 2, &value), "m")
            && !strcmp (value, "3") && !accel_safetensors_metadata (file, 3, &value),
        "metadata of two files");
    accel_safetensors_close (file);
}

static void
test_writer (void)
{
    DLTensor tensors[] = { describe (NULL, ACCEL_FLOAT32, 1, &seven), describe (NULL, ACCEL_FLOAT64, 1, &seven) };
    struct accel_safetensors_tensor named[] = { { "a", &tensors[0] }, { "b", &tensors[1] } };
    struct accel_safetensors_writer *writer;
    double data[7] = { 1, 2, 3, 4, 5, 6, 7 };
    MUST (accel_safetensors_writer_create (&writer, path, named, 2, NULL, &err));
    bool good = !accel_safetensors_writer_write (writer, 1, data, 24, &err)
                && !accel_safetensors_writer_write (writer, 0, data, 28, &err)
                && !accel_safetensors_writer_write (writer, 1, data + 3, 32, &err);
    ok (good && accel_safetensors_writer_write (writer, 2, data, 1, &err) == ACCEL_ERR_INVALID
            && strstr (err.text, "index is 2, but there are 2 tensors")
            && accel_safetensors_writer_write (writer, 0, data, 1, &err) == ACCEL_ERR_INVALID
            && !accel_safetensors_writer_commit (writer, &err),
        "piece by piece");
    accel_safetensors_writer_destroy (writer);
    accel_safetensors_writer_destroy (NULL);
    struct accel_safetensors *file;
    DLTensor view;
    MUST (accel_safetensors_open (&file, path, NULL, &err));
    MUST (accel_safetensors_view (file, 0, &view, &err));
    ok (!strcmp (accel_safetensors_get (file, 0)->name, "b") && !memcmp (view.data, data, sizeof data),
        "the widest first");
    accel_safetensors_close (file);
    static const char *const odd[] = { "key", NULL };
    ok (accel_safetensors_writer_create (&writer, path, named, 2, odd, &err) == ACCEL_ERR_INVALID
            && strstr (err.text, "metadata 'key' has no value") && !writer,
        "metadata without a value");
    named[1].name = NULL;
    ok (accel_safetensors_writer_create (&writer, path, named, 2, NULL, &err) == ACCEL_ERR_INVALID
            && strstr (err.text, "tensor 1 has no name"),
        "a tensor without a name");
    ok (accel_safetensors_save (path, named, 1, NULL, &err) == ACCEL_ERR_INVALID
            && strstr (err.text, "'a' has no data"),
        "a tensor without data");
    int64_t two = 2, half = 3;
    tensors[0] = describe (numbers, ACCEL_FLOAT32, 1, &half);
    tensors[0].strides = &two;
    ok (accel_safetensors_save (path, named, 1, NULL, &err) == ACCEL_ERR_UNSUPPORTED
            && strstr (err.text, "'a' is not contiguous"),
        "a tensor with gaps");
    tensors[0].strides = NULL;
    tensors[0].dtype.lanes = 2;
    ok (accel_safetensors_save (path, named, 1, NULL, &err) == ACCEL_ERR_UNSUPPORTED, "a type that the format lacks");
}

int
main (void)
{
    snprintf (path, sizeof path, "%s/x.safetensors", scratch_folder ());
    save_numbers ();
    test_file (false);
    test_file (true);
    test_slices ();
    test_large ();
    test_misaligned ();
    test_set ();
    test_writer ();
    return done_testing ();
}
