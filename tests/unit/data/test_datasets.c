/* SPDX-License-Identifier: Apache-2.0 */
/* The ready-made data sets: what they read, what they refuse and with which words, damaged files, several threads. */
#include <config.h>

#include "tests/unit/data/datasets.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- arrays ---- */

/* The last two of three samples. */
static void
test_subset (const struct accel_dataset *whole)
{
    struct accel_dataset *set, alone = *whole, stream = { .fields = whole->fields, .field_count = 2 };
    float row[2], rows[2][2];
    int64_t label, labels[2];
    ok (!accel_dataset_subset (&set, whole, 1, 2, &err) && set->size == 2 && set->field_count == 2
            && set->fields[1].dtype == ACCEL_INT64,
        "subset: a data set");
    ok (!set->read (set->user, 1, (void *[]){ row, &label }, &err) && row[0] == 4 && label == 9, "subset: a sample");
    ok (!set->read_many (set->user, (int64_t[]){ 1, 0 }, 2, (void *[]){ rows, labels }, &err) && rows[0][0] == 4
            && rows[1][0] == 2 && labels[1] == 8,
        "subset: many samples");
    ok (set->read (set->user, 2, (void *[]){ row, &label }, &err) == ACCEL_ERR_INVALID
            && set->read_many (set->user, (int64_t[]){ 0, -1 }, 2, (void *[]){ rows, labels }, &err)
                   == ACCEL_ERR_INVALID,
        "subset: no others: %s", err.text);
    accel_dataset_close (set);
    MUST (accel_dataset_subset (&set, whole, 0, 2, &err));
    ok (set->read (set->user, 2, (void *[]){ row, &label }, &err) == ACCEL_ERR_INVALID
            && set->read_many (set->user, (int64_t[]){ 0, 2 }, 2, (void *[]){ rows, labels }, &err)
                   == ACCEL_ERR_INVALID,
        "subset: none of those after it");
    accel_dataset_close (set);
    alone.read_many = NULL;
    ok (!accel_dataset_subset (&set, &alone, 3, 0, &err) && !set->read_many && !set->size, "subset: of no samples");
    accel_dataset_close (set);
    is_refused ("subset", accel_dataset_subset (&set, whole, 2, 2, &err), &set,
                "2 samples from 2 on are more than the data set of 3 has");
    is_refused ("subset", accel_dataset_subset (&set, whole, SIZE_MAX, 2, &err), &set, "the data set of 3 has");
    is_refused ("subset", accel_dataset_subset (&set, &stream, 0, 0, &err), &set, "a stream has no subsets");
}

static void
test_arrays (void)
{
    float x[3][2] = { { 0, 1 }, { 2, 3 }, { 4, 5 } }, row[2], rows[3][2];
    int64_t y[3] = { 7, 8, 9 }, label, labels[3];
    char name[] = "x";
    const struct accel_field fields[] = { { name, ACCEL_FLOAT32, 1, { 2 } }, { .name = "y", .dtype = ACCEL_INT64 } };
    const void *arrays[] = { x, y };
    struct accel_dataset *set;
    ok (!accel_dataset_from_arrays (&set, fields, arrays, 2, 3, &err) && set->size == 3 && set->field_count == 2,
        "arrays: a data set");
    name[0] = '?';
    is_text (set->fields[0].name, "x", "arrays: names are copied");
    x[1][1] = 33;
    ok (!set->read (set->user, 1, (void *[]){ row, &label }, &err) && row[0] == 2 && row[1] == 33 && label == 8,
        "arrays: a sample, as it is when it is read");
    ok (!set->read_many (set->user, (int64_t[]){ 2, 0, 1 }, 3, (void *[]){ rows, labels }, &err) && rows[0][0] == 4
            && rows[1][1] == 1 && rows[2][1] == 33 && labels[0] == 9 && labels[1] == 7 && labels[2] == 8,
        "arrays: many samples");
    ok (!set->read_many (set->user, NULL, 0, (void *[]){ rows, labels }, &err), "arrays: none of them");
    ok (set->read (set->user, 3, (void *[]){ row, &label }, &err) == ACCEL_ERR_INVALID
            && !strcmp (err.text, "sample 3 is out of range: the data set has 3 samples"),
        "arrays: no sample 3");
    ok (set->read_many (set->user, (int64_t[]){ 0, -1 }, 2, (void *[]){ rows, labels }, &err) == ACCEL_ERR_INVALID,
        "arrays: no sample -1");
    int64_t neighbours[3] = { 0, 1, 2 };
    memset (rows, 0, sizeof rows);
    ok (!set->read_many (set->user, neighbours, 2, (void *[]){ rows, labels }, &err) && rows[1][1] == 33
            && rows[2][0] == 0,
        "arrays: two neighbours, and not the one after them");
    test_subset (set);
    errno = 5;
    accel_dataset_close (set);
    ok (errno == 5, "closing leaves errno");
    accel_dataset_close (NULL);
    ok (errno == 5, "closing NULL does nothing");

    ok (!accel_dataset_from_arrays (&set, fields, (const void *[]){ NULL, NULL }, 2, 0, &err) && !set->size,
        "arrays: no samples need no memory");
    accel_dataset_close (set);
    const struct accel_field bad[][2] = {
        { { "x", ACCEL_FLOAT32, 1, { -1 } } },
        { { "", ACCEL_FLOAT32, 0, { 0 } } },
        { { "x", ACCEL_FLOAT32, 8, { 1 } } },
        { { "x", (enum accel_dtype) 99, 0, { 0 } } },
        { { "x", ACCEL_FLOAT64, 3, { 1 << 30, 1 << 30, 2 } } },
        { { "x", ACCEL_FLOAT64, 2, { 1 << 30, 1 << 30 } } },
        { { "y", ACCEL_INT8, 0, { 0 } }, { "y", ACCEL_INT8, 0, { 0 } } },
    };
    static const char *const words[]
        = { "size -1", "no name", "8 dimensions", "99", "size overflows", "64 samples are too large", "named 'y'" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        is_refused ("arrays", accel_dataset_from_arrays (&set, bad[i], arrays, bad[i][1].name ? 2 : 1, 64, &err), &set,
                    words[i]);
    is_refused ("arrays", accel_dataset_from_arrays (&set, fields, (const void *[]){ x, NULL }, 2, 3, &err), &set,
                "field 'y' has no array");
    is_refused ("arrays", accel_dataset_from_arrays (&set, fields, arrays, 0, 3, &err), &set, "needs fields");
}

/* ---- tokens ---- */

static void
test_token_formats (void)
{
    static const size_t sizes[] = { 2, 4, 4, 8, 1 };
    for (unsigned format = 0; format < 5; format++)
        for (unsigned wide = 0; wide < 2; wide++)
            for (unsigned mapped = 0; mapped < 2; mapped++) {
                unsigned char bytes[10000 * 8 + 4] = { 0 };
                for (size_t i = 0; i < 10000; i++) /* little-endian, as the host */
                    memcpy (bytes + 4 + i * sizes[format], &(uint64_t){ i * 5 }, sizes[format]);
                const char *path = write_file ("a", bytes, 4 + 10000 * sizes[format]);
                struct accel_tokens_options options = { .format = (enum accel_token_format) format,
                                                        .sequence_length = 4999,
                                                        .stride = 2500,
                                                        .header_bytes = 4,
                                                        .labels = true,
                                                        .int64 = wide,
                                                        .mapped = mapped };
                struct accel_dataset *set;
                static unsigned char rows[2][2 * 4999 * 8];
                size_t wrong = 0;
                bool good = !open_tokens (&set, path, &options) && set->size == 3
                            && !set->read_many (set->user, (int64_t[]){ 2, 1 }, 2, (void *[]){ rows[0], rows[1] },
                                                &err);
                for (size_t i = 0; good && i < 2 * 4999; i++) {
                    int64_t wanted = (int64_t) ((i < 4999 ? 2 * 2500 + i : 2500 + i - 4999) * 5);
                    for (int64_t field = 0; field < 2; field++) {
                        int64_t got = wide ? ((int64_t *) rows[field])[i] : ((int32_t *) rows[field])[i];
                        wrong += got != (sizes[format] == 1 ? (wanted + 5 * field) % 256 : wanted + 5 * field);
                    }
                }
                ok (good && !wrong, "tokens: format %u to %s%s", format, wide ? "int64" : "int32",
                    mapped ? ", mapped" : "");
                accel_dataset_close (good ? set : NULL);
            }
}

static void
test_token_counts (void)
{
    static const struct {
        size_t tokens, length, stride;
        bool labels;
        size_t samples;
    } cases[] = {
        { 0, 4, 0, false, 0 }, { 3, 4, 0, false, 0 }, { 4, 4, 0, false, 1 },  { 4, 4, 0, true, 0 },
        { 5, 4, 0, true, 1 },  { 8, 4, 0, false, 2 }, { 8, 4, 0, true, 1 },   { 9, 4, 0, true, 2 },
        { 8, 4, 1, false, 5 }, { 8, 4, 3, false, 2 }, { 8, 1, 100, false, 1 }, { 8, 1, 0, false, 8 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct accel_tokens_options options
            = { .sequence_length = cases[i].length, .stride = cases[i].stride, .labels = cases[i].labels };
        struct accel_dataset *set;
        bool opened = !open_tokens (&set, write_file ("a", (uint16_t[16]){ 0 }, cases[i].tokens * 2), &options);
        ok (opened && set->size == cases[i].samples, "tokens: %zu of them are %zu sequences of %zu", cases[i].tokens,
            cases[i].samples, cases[i].length);
        accel_dataset_close (opened ? set : NULL);
    }
}

static void
test_llmc (void)
{
    static const struct {
        int32_t header[3];
        size_t bytes;      /* of tokens */
        const char *words; /* NULL: it is good */
    } cases[] = {
        { { 20240520, 1, 6 }, 12, NULL },
        { { 20240801, 7, 3 }, 12, NULL },
        { { 20240520, 1, 0 }, 0, NULL },
        { { 20240520, 2, 6 }, 12, "version 2; only version 1" },
        { { 20240801, 1, 3 }, 12, "version 1; only version 7" },
        { { 20240521, 1, 6 }, 12, "starts with 20240521, not 20240520 or 20240801" },
        { { 20240520, 1, 7 }, 12, "header says 7 tokens, but the file has 6" },
        { { 20240520, 1, 5 }, 12, "header says 5 tokens, but the file has 6" },
        { { 20240520, 1, -1 }, 12, "header: -1 tokens" },
        { { 20240520, 1, 6 }, 11, "not a whole number of tokens of 2 bytes" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char bytes[1024 + 12] = { 0 };
        struct accel_tokens_options options = { .format = ACCEL_TOKENS_LLMC, .sequence_length = 3 };
        struct accel_dataset *set;
        int32_t ids[3] = { 0 };
        memcpy (bytes, cases[i].header, sizeof cases[i].header);
        memcpy (bytes + 1024, (uint16_t[]){ 50256, 0, 2, 0, 3, 0 }, 12);
        enum accel_status status
            = open_tokens (&set, write_file ("a", bytes, 1024 + cases[i].bytes), &options);
        if (cases[i].words) {
            is_refused ("llm.c", status, &set, cases[i].words);
            continue;
        }
        bool read = !status && (!set->size || !set->read (set->user, 0, (void *[]){ ids }, &err));
        ok (read && (!set->size || ids[0] == 50256), "llm.c: magic %d with %d tokens", cases[i].header[0],
            cases[i].header[2]);
        accel_dataset_close (status ? NULL : set);
    }
}

/* @param path  tokens 1, 2, 3 and a large one, of 32 bits */
static void
test_vocab_size (const char *path)
{
    struct accel_tokens_options options = { .sequence_length = 2, .format = ACCEL_TOKENS_UINT32, .labels = true };
    struct accel_dataset *set;
    int64_t ids[2], labels[2];
    for (int wide = 0; wide < 2; wide++) {
        options.int64 = wide;
        options.vocab_size = 4;
        ok (!open_tokens (&set, path, &options) && !set->read (set->user, 0, (void *[]){ ids, labels }, &err),
            "tokens: all below vocab_size");
        accel_dataset_close (set);
        options.vocab_size = 3;
        ok (!open_tokens (&set, path, &options)
                && set->read (set->user, 0, (void *[]){ ids, labels }, &err) == ACCEL_ERR_FORMAT
                && strstr (err.text, "token 3, but vocab_size is 3"),
            "tokens: a label that is not: %s", err.text);
        accel_dataset_close (set);
        options.vocab_size = 1;
        ok (!open_tokens (&set, path, &options)
                && set->read (set->user, 0, (void *[]){ ids, labels }, &err) == ACCEL_ERR_FORMAT
                && strstr (err.text, "token 1, but vocab_size is 1"),
            "tokens: an input that is not: %s", err.text);
        accel_dataset_close (set);
    }
}

static void
test_token_errors (void)
{
    struct accel_tokens_options options = { .sequence_length = 2, .format = ACCEL_TOKENS_UINT32 }, other;
    struct accel_dataset *set;
    int32_t ids[2];
    const char *path = write_file ("a", (uint32_t[]){ 1, 2, 3, 0x80000000 }, 16);
    ok (!open_tokens (&set, path, &options) && !set->read (set->user, 0, (void *[]){ ids }, &err)
            && set->read (set->user, 1, (void *[]){ ids }, &err) == ACCEL_ERR_FORMAT
            && strstr (err.text, "between 2 and 3 does not fit in int32"),
        "tokens: too large for int32");
    accel_dataset_close (set);
    test_vocab_size (path);
    is_refused ("tokens", open_tokens (&set, path, NULL), &set, "sequence_length");
    other = options;
    other.sequence_length = SIZE_MAX;
    is_refused ("tokens", open_tokens (&set, path, &other), &set, "size overflows");
    other = options;
    other.header_bytes = 17;
    is_refused ("tokens", open_tokens (&set, path, &other), &set, "less than its header of 17");
    other.header_bytes = 3;
    is_refused ("tokens", open_tokens (&set, path, &other), &set, "13 bytes are not a whole");
    other.format = ACCEL_TOKENS_LLMC;
    is_refused ("tokens", open_tokens (&set, path, &other), &set, "leave header_bytes at 0");
    other.header_bytes = 0;
    is_refused ("tokens", open_tokens (&set, path, &other), &set, "shorter than its header");
    other.format = (enum accel_token_format) 9;
    is_refused ("tokens", open_tokens (&set, path, &other), &set, "invalid accel_token_format 9");
    is_refused ("tokens", open_tokens (&set, "/nowhere/x", &options), &set, "/nowhere/x: No such");
    is_refused ("tokens", open_tokens (&set, "/dev/null", &options), &set, "not a regular file");
    is_refused ("tokens", open_tokens (&set, NULL, &options), &set, "path 0 is NULL or empty");
    unlink (path);
    ok (!mkfifo (path, 0600), "a pipe without a writer");
    alarm (900);
    is_refused ("tokens", open_tokens (&set, path, &options), &set, "not a regular file");
    alarm (0);
}

/* A file that is cut off while it is open is an error, also where it is mapped: no SIGBUS. */
static void
test_shrinking (void)
{
    for (unsigned mapped = 0; mapped < 2; mapped++) {
        static unsigned char bytes[64 * 1024];
        struct accel_tokens_options options = { .sequence_length = 512, .mapped = mapped };
        struct accel_dataset *set;
        static int32_t ids[512];
        const char *path = write_file ("a", bytes, sizeof bytes);
        bool opened = !open_tokens (&set, path, &options), cut = !truncate (path, 5000);
        ok (opened && cut && set->size == 64 && !set->read (set->user, 3, (void *[]){ ids }, &err)
                && set->read (set->user, 60, (void *[]){ ids }, &err) == ACCEL_ERR_FORMAT
                && strstr (err.text, "has only 5000 bytes now, but had 65536"),
            "tokens: a file cut off later, %s", mapped ? "mapped" : "read");
        ok (opened && set->read (set->user, 4, (void *[]){ ids }, &err) == ACCEL_ERR_FORMAT, "tokens: within a sample");
        accel_dataset_close (opened ? set : NULL);
    }
}

/* ---- IDX ---- */

static void
test_idx (void)
{
    static const unsigned char images[] = { 0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 0, 51, 255, 4, 5, 6 };
    static const unsigned char labels[] = { 0, 0, 8, 1, 0, 0, 0, 2, 7, 9 };
    const struct accel_idx_options scaled = { .image_name = "x", .label_name = "y", .scale = true };
    const char *a = write_file ("a", images, sizeof images), *b = write_file ("b", labels, sizeof labels);
    struct accel_dataset *set;
    unsigned char pixels[2][3], label[2];
    float values[2][3];
    ok (!accel_dataset_open_idx (&set, a, b, NULL, &err) && set->size == 2 && set->fields[0].ndim == 2
            && set->fields[0].shape[1] == 3 && set->fields[0].dtype == ACCEL_UINT8 && !set->fields[1].ndim
            && !set->read_many (set->user, (int64_t[]){ 0, 1 }, 2, (void *[]){ pixels, label }, &err)
            && !memcmp (pixels, images + 16, 6) && label[1] == 9,
        "IDX: images and labels");
    accel_dataset_close (set);
    ok (!accel_dataset_open_idx (&set, a, b, &scaled, &err) && !strcmp (set->fields[1].name, "y")
            && !set->read_many (set->user, (int64_t[]){ 1, 0 }, 2, (void *[]){ values, label }, &err)
            && values[0][0] == 4.0F / 255 && values[1][1] == 0.2F && values[1][2] == 1 && label[0] == 9,
        "IDX: scaled");
    accel_dataset_close (set);

    static const struct {
        unsigned char bytes[24];
        size_t length;
        enum accel_dtype dtype;
        double first;
    } types[] = {
        { { 0, 0, 9, 1, 0, 0, 0, 1, 0xfe }, 9, ACCEL_INT8, -2 },
        { { 0, 0, 0x0b, 1, 0, 0, 0, 1, 0xff, 0x01 }, 10, ACCEL_INT32, -255 },
        { { 0, 0, 0x0c, 1, 0, 0, 0, 1, 0, 1, 0, 2 }, 12, ACCEL_INT32, 65538 },
        { { 0, 0, 0x0d, 1, 0, 0, 0, 1, 0x3f, 0xc0, 0, 0 }, 12, ACCEL_FLOAT32, 1.5 },
        { { 0, 0, 0x0e, 1, 0, 0, 0, 1, 0xbf, 0xf8, 0, 0, 0, 0, 0, 0 }, 16, ACCEL_FLOAT64, -1.5 },
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        union {
            int8_t int8;
            int32_t int32;
            float float32;
            double float64;
        } got = { 0 };
        const char *path = write_file ("a", types[i].bytes, types[i].length);
        bool opened = !accel_dataset_open_idx (&set, path, NULL, NULL, &err);
        double value = !opened || set->read (set->user, 0, (void *[]){ &got }, &err) ? NAN
                       : types[i].dtype == ACCEL_INT8                                ? got.int8
                       : types[i].dtype == ACCEL_INT32                               ? got.int32
                       : types[i].dtype == ACCEL_FLOAT32                             ? got.float32
                                                                                     : got.float64;
        ok (opened && set->fields[0].dtype == types[i].dtype && value == types[i].first, "IDX: type %#x",
            types[i].bytes[2]);
        accel_dataset_close (opened ? set : NULL);
    }
}

/* More than is converted at a time. */
static void
test_large_idx (void)
{
    enum { ROWS = 11, SIDE = 28, PIXELS = SIDE * SIDE };
    static unsigned char bytes[16 + ROWS * PIXELS] = { 0, 0, 8, 3, 0, 0, 0, ROWS, 0, 0, 0, SIDE, 0, 0, 0, SIDE };
    static float values[ROWS * PIXELS];
    int64_t indices[ROWS];
    struct accel_dataset *set;
    size_t wrong = 0;
    for (size_t i = 0; i < ROWS * PIXELS; i++)
        bytes[16 + i] = (unsigned char) (i * 7 + i / 256);
    for (int64_t i = 0; i < ROWS; i++)
        indices[i] = i;
    bool good = !accel_dataset_open_idx (&set, write_file ("a", bytes, sizeof bytes), NULL,
                                         &(struct accel_idx_options){ .scale = true }, &err);
    good = good && !set->read_many (set->user, indices, ROWS, (void *[]){ values }, &err);
    for (size_t i = 0; i < ROWS * PIXELS; i++)
        wrong += values[i] != (float) bytes[16 + i] / 255;
    ok (good && !wrong, "IDX: %d images at once, scaled: %zu pixels are wrong", ROWS, wrong);
    accel_dataset_close (good ? set : NULL);
}

/* Whether this process has the file mapped. */
static bool
is_mapped (const char *path)
{
    char line[512];
    bool found = false;
    FILE *maps = fopen ("/proc/self/maps", "r");
    while (maps && fgets (line, sizeof line, maps))
        found = found || strstr (line, path);
    if (maps)
        fclose (maps);
    return found;
}

static void
test_unmapping (void)
{
    struct accel_tokens_options options = { .sequence_length = 4, .mapped = true };
    struct accel_dataset *set;
    const char *path = write_file ("a", (uint16_t[64]){ 0 }, 128);
    bool opened = !open_tokens (&set, path, &options);
    ok (opened && is_mapped (path), "tokens: a mapped file");
    accel_dataset_close (opened ? set : NULL);
    ok (!is_mapped (path), "tokens: closed, it is mapped no more");
}

static void
test_bad_idx (void)
{
    static const struct {
        unsigned char bytes[24];
        size_t length;
        const char *words;
    } cases[] = {
        { { 0 }, 0, "only 0 bytes" },
        { { 0, 0, 8 }, 3, "only 3 bytes" },
        { { 0, 1, 8, 1, 0, 0, 0, 0 }, 8, "starts with bytes 00 01 08 01" },
        { { 0, 0, 7, 1, 0, 0, 0, 0 }, 8, "starts with bytes 00 00 07 01" },
        { { 0, 0, 8, 0 }, 4, "0 dimensions" },
        { { 0, 0, 8, 9 }, 4, "9 dimensions" },
        { { 0, 0, 8, 3, 0, 0, 0, 1, 0, 0 }, 10, "ends at byte 10, before byte 16" },
        { { 0, 0, 8, 1, 0, 0, 0, 2, 1 }, 9, "1 bytes of data, but its header says 2; was it truncated?" },
        { { 0, 0, 8, 1, 0, 0, 0, 2, 1, 2, 3 }, 11, "3 bytes of data, but its header says 2" },
        { { 0, 0, 0x0e, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255 }, 16, "more than" },
        { { 0, 0, 8, 4, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255 }, 20, "overflows" },
        { { 0, 0, 8, 4, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0 }, 20, "its header says more than" }, /* 2^64 */
        { { 0, 0, 8, 1, 0, 1, 2, 3, 4 }, 9, "its header says 66051" },
        { { 0x1f, 0x8b, 8, 8 }, 4, "is compressed; decompress it with gunzip" },
    };
    static const unsigned char two[] = { 0, 0, 8, 1, 0, 0, 0, 2, 1, 2 }, three[] = { 0, 0, 8, 1, 0, 0, 0, 3, 1, 2, 3 };
    static const unsigned char none[] = { 0, 0, 8, 3, 0, 0, 0, 0, 0, 0, 0, 28, 0, 0, 0, 28 };
    static const unsigned char wide[] = { 0, 0, 0x0c, 1, 0, 0, 0, 0 };
    struct accel_dataset *set;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        is_refused ("IDX", accel_dataset_open_idx (&set, write_file ("a", cases[i].bytes, cases[i].length), NULL, NULL,
                                                   &err), &set, cases[i].words);
    const char *a = write_file ("a", two, sizeof two), *b = write_file ("b", three, sizeof three);
    is_refused ("IDX", accel_dataset_open_idx (&set, a, b, NULL, &err), &set, "3 samples, but");
    is_refused ("IDX", accel_dataset_open_idx (&set, a, "/nowhere/y", NULL, &err), &set, "/nowhere/y");
    ok (!accel_dataset_open_idx (&set, write_file ("a", none, sizeof none), NULL, NULL, &err) && !set->size
            && set->fields[0].shape[0] == 28,
        "IDX: no samples");
    accel_dataset_close (set);
    is_refused ("IDX", accel_dataset_open_idx (&set, write_file ("a", wide, sizeof wide), NULL,
                                               &(struct accel_idx_options){ .scale = true }, &err), &set,
                "only bytes can be scaled");
}

/* ---- damaged files, threads ---- */

static uint32_t noise = 1;

static uint32_t
draw (uint32_t below)
{
    noise = noise * 1664525 + 1013904223;
    return (uint32_t) ((uint64_t) noise * below >> 32);
}

/* Open what may be damaged, and read all that it says it has. */
static bool
try_file (unsigned kind, const char *path)
{
    struct accel_dataset *set = NULL;
    struct accel_tokens_options tokens = { .format = ACCEL_TOKENS_LLMC, .sequence_length = 4, .labels = true };
    err.code = ACCEL_OK;
    enum accel_status status = kind == 0   ? accel_dataset_open_safetensors (&set, path, NULL, 0, &err)
                               : kind == 1 ? accel_dataset_open_idx (&set, path, NULL, NULL, &err)
                               : kind == 2 ? accel_dataset_open_csv (&set, path, NULL, &err)
                                           : open_tokens (&set, path, &tokens);
    bool good = (status != 0) == (set == NULL) && (!status || (err.code == status && *err.text));
    for (size_t i = 0; good && set && i < set->size && i < 8; i++) {
        void *into[8] = { NULL };
        size_t fields = set->field_count < 8 ? set->field_count : 8;
        struct accel_tensor sample;
        bool small = set->field_count == fields;
        for (size_t f = 0; f < fields && small; f++) {
            small = !accel_tensor_init (&sample, set->fields[f].dtype, set->fields[f].ndim, set->fields[f].shape, &err)
                    && accel_tensor_count (&sample.dl) < 100000;
            /* Exactly so much, so that a sanitizer sees one byte too many. */
            size_t bytes = small ? accel_tensor_count (&sample.dl) * accel_dtype_bytes (set->fields[f].dtype) : 0;
            into[f] = small ? malloc (bytes) : NULL;
        }
        good = !small || !set->read (set->user, i, into, &err);
        for (size_t f = 0; f < fields; f++)
            free (into[f]);
    }
    accel_dataset_close (set);
    return good;
}

static void
test_damage (void)
{
    static const char header[] = "{\"__metadata__\":{\"format\":\"pt\"},\"x\":{\"dtype\":\"F32\",\"shape\":[2,1,3],"
                                 "\"data_offsets\":[0,24]},"
                                 "\"y\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[24,26]}}";
    static const unsigned char idx[] = { 0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 0, 51, 255, 4, 5, 6 };
    static const char csv[] = "\"a\",b,c\r\n1,2.5,\"-3e4\"\n\n4,nan, 5\n7,12345678901234567890123,9";
    static const char *const names[] = { "safetensors", "IDX", "CSV", "llm.c" };
    static char good[4][1100];
    size_t sizes[4] = { 8 + sizeof header - 1 + 26, sizeof idx, sizeof csv - 1, 1024 + 24 };
    good[0][0] = (char) (sizeof header - 1);
    memcpy (good[0] + 8, header, sizeof header - 1);
    memcpy (good[1], idx, sizeof idx);
    memcpy (good[2], csv, sizeof csv);
    memcpy (good[3], (int32_t[]){ 20240520, 1, 12 }, 12);
    for (unsigned kind = 0; kind < 4; kind++) {
        size_t bad = !try_file (kind, write_file ("a", good[kind], sizes[kind])) || err.code, tried = 0;
        for (size_t length = 0; length < sizes[kind]; length++, tried++)
            bad += !try_file (kind, write_file ("a", good[kind], length));
        for (int i = 0; i < 2000; i++, tried++) {
            char bytes[1100];
            memcpy (bytes, good[kind], sizes[kind]);
            for (uint32_t flips = 1 + draw (3); flips; flips--) {
                uint32_t at = draw ((uint32_t) (kind == 3 ? 16 : sizes[kind]));
                bytes[at] = draw (2) ? bytes[draw ((uint32_t) sizes[kind])] : (char) draw (256);
            }
            bad += !try_file (kind, write_file ("a", bytes, sizes[kind]));
        }
        ok (!bad, "%s: %zu damaged files are refused or read, none harms", names[kind], tried);
    }
}

struct reader {
    pthread_t thread;
    const struct accel_dataset *set;
    size_t first, wrong;
};

static void *
read_all (void *user)
{
    struct reader *reader = user;
    int32_t ids[16], labels[16];
    for (size_t i = 0; i < 2000; i++) {
        struct accel_error own;
        size_t index = (reader->first + i * 7) % reader->set->size;
        reader->wrong += reader->set->read (reader->set->user, index, (void *[]){ ids, labels }, &own)
                         || ids[3] != (int32_t) (index * 16 + 3) || labels[15] != (int32_t) (index * 16 + 16);
    }
    return NULL;
}

static void
test_threads (void)
{
    static uint16_t tokens[16001];
    struct reader readers[4];
    struct accel_dataset *set;
    struct accel_tokens_options options = { .sequence_length = 16, .labels = true };
    for (size_t i = 0; i < 16001; i++)
        tokens[i] = (uint16_t) i;
    size_t wrong = open_tokens (&set, write_file ("a", tokens, sizeof tokens), &options) != 0, made;
    for (made = 0; !wrong && made < 4; made++) {
        readers[made] = (struct reader){ .set = set, .first = made * 100 };
        if (pthread_create (&readers[made].thread, NULL, read_all, &readers[made]))
            break;
    }
    for (size_t i = 0; i < made; i++) {
        pthread_join (readers[i].thread, NULL);
        wrong += readers[i].wrong;
    }
    ok (made == 4 && !wrong, "4 threads read at once");
    accel_dataset_close (made ? set : NULL);
}

int
main (void)
{
    test_arrays ();
    test_token_formats ();
    test_token_counts ();
    test_llmc ();
    test_token_errors ();
    test_shrinking ();
    test_idx ();
    test_large_idx ();
    test_unmapping ();
    test_bad_idx ();
    test_damage ();
    test_threads ();
    return done_testing ();
}
