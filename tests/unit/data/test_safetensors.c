/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors files: what the header may and must not say, and tensors as data sets. */
#include <config.h>

#include "files/json_reader.h"
#include "files/safetensors.h"
#include "tests/unit/data/datasets.h"

/* A tensor with the members that follow, of one float. */
#define ONE(members) "{\"a\":{" members "}}"
#define DTYPE "\"dtype\":\"F32\""
#define SHAPE "\"shape\":[1]"
#define OFFSETS "\"data_offsets\":[0,4]"
#define TENSOR(name, shape, begin, end) \
    "\"" name "\":{" DTYPE ",\"shape\":[" shape "],\"data_offsets\":[" begin "," end "]}"

/* The format's own reader (safetensors 0.8.0) was given all of these: it agrees except where `ours` is set. */
static const struct {
    const char *text;
    size_t data;       /* bytes of data it describes */
    const char *words; /* of the error; NULL: it is valid */
    bool ours;
} cases[] = {
    { "{}", 0, NULL, false },
    { " \t\r\n{ } \n", 0, NULL, false },
    { "{\"__metadata__\":{}}", 0, NULL, false },
    { "{\"__metadata__\":null}", 0, NULL, false },
    { "{\"__metadata__\":{\"format\":\"pt\",\"\\u00e4\\ud83d\\ude00\\n\":\"\\\"\"}}", 0, NULL, false },
    { ONE (DTYPE "," SHAPE "," OFFSETS), 4, NULL, false },
    { ONE (OFFSETS " , " DTYPE "," SHAPE), 4, NULL, false },
    { ONE (DTYPE "," SHAPE "," OFFSETS ",\"x\":[1,-2.5e3,{\"y\":[null,true,false]},\"z\"]"), 4, NULL, false },
    { ONE ("\"d\\u0074ype\":\"F32\"," SHAPE "," OFFSETS), 4, NULL, false },
    { "{" TENSOR ("a", "", "0", "4") "}", 4, NULL, false },
    { "{" TENSOR ("a", "0", "0", "0") "}", 0, NULL, false },
    { "{" TENSOR ("a", "0", "4", "4") "," TENSOR ("b", "1", "0", "4") "}", 4, NULL, false },
    { "{" TENSOR ("a", "0", "0", "0") "," TENSOR ("b", "0,3", "0", "0") "," TENSOR ("c", "1", "0", "4") "}", 4, NULL,
      false },
    { "{" TENSOR ("b", "1,2", "8", "16") "," TENSOR ("a", "2", "0", "8") "}", 16, NULL, false },
    { "{" TENSOR ("", "1", "0", "4") "}", 4, NULL, false },
    { "{" TENSOR ("a\\n\\u0062", "1", "0", "4") "}", 4, NULL, false },
    { "{" TENSOR ("\xc3\xa4", "1", "0", "4") "}", 4, NULL, false },
    { "{\"a\":{\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[0,1]}}", 1, NULL, false },
    { "{\"a\":{\"dtype\":\"C64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8, NULL, false },
    { "{" TENSOR ("a", "0,4294967296,4294967296,4", "0", "0") "}", 0, NULL, false },
    /* What is not JSON. */
    { "", 0, "byte 0: unexpected end: expected '{'", false },
    { "[]", 0, "byte 0: expected '{'", false },
    { "null", 0, "byte 0: expected '{'", false },
    { "{", 0, "byte 1: unexpected end: expected a name in quotes", false },
    { "{}x", 0, "byte 2: text after the end", false },
    { "{}{}", 0, "byte 2: text after the end", false },
    { "{a:1}", 0, "byte 1: expected a name in quotes", false },
    { "{'a':1}", 0, "byte 1: expected a name in quotes", false },
    { "{\"a\"}", 0, "byte 4: expected ':'", false },
    { "{\"a\":}", 0, "byte 5: expected '{' of a tensor", false },
    { "{\"__metadata__\":{},}", 0, "',' before '}'", false },
    { "{\"__metadata__\":{\"a\":\"1\" \"b\":\"2\"}}", 0, "expected ',' or '}'", false },
    { "{\"a", 0, "ends inside a string", false },
    { "{\"a\tb\":1}", 0, "byte 3: a control character", false },
    { "{\"a\\x\":1}", 0, "invalid escape", false },
    { "{\"a\\u12g4\":1}", 0, "four hexadecimal digits", false },
    { "{\"__metadata__\":{\"a\":\"\\ud800\"}}", 0, "half of a surrogate pair", false },
    { "{\"__metadata__\":{\"a\":\"\\udc00\"}}", 0, "half of a surrogate pair", false },
    { "{\"__metadata__\":{\"a\":\"\\ud800\\u0041\"}}", 0, "half of a surrogate pair", false },
    { "{\"__metadata__\":{\"a\":\"\\udc00\\udc00\"}}", 0, "half of a surrogate pair", false },
    { "{\"__metadata__\":{\"a\":\"\\ud800\\ue000\"}}", 0, "half of a surrogate pair", false },
    { "{" TENSOR ("\xff", "1", "0", "4") "}", 4, "byte 2: not valid UTF-8", false },
    { "{" TENSOR ("\xc0\x80", "1", "0", "4") "}", 4, "byte 2: not valid UTF-8", false },
    { "{" TENSOR ("\xe0\x9f\xbf", "1", "0", "4") "}", 4, "byte 2: not valid UTF-8", false },
    { "{" TENSOR ("\xe0\xa0\x80", "1", "0", "4") "}", 4, NULL, false },
    { "{" TENSOR ("\xf0\x8f\xbf\xbf", "1", "0", "4") "}", 4, "byte 2: not valid UTF-8", false },
    { "{" TENSOR ("\xed\xa0\x80", "1", "0", "4") "}", 4, "byte 2: not valid UTF-8", false },
    { "{" TENSOR ("\xf4\x90\x80\x80", "1", "0", "4") "}", 4, "byte 2: not valid UTF-8", false },
    { ONE (DTYPE "," SHAPE "," OFFSETS ",\"x\":01"), 4, "expected ',' or '}'", false },
    { ONE (DTYPE "," SHAPE "," OFFSETS ",\"x\":1."), 4, "expected a value", false },
    { ONE (DTYPE "," SHAPE "," OFFSETS ",\"x\":+1"), 4, "expected a value", false },
    { ONE (DTYPE "," SHAPE "," OFFSETS ",\"x\":nul"), 4, "expected a value", false },
    { ONE (DTYPE "," SHAPE "," OFFSETS ",\"x\":[1,]"), 4, "',' before ']'", false },
    { "// x\n{}", 0, "byte 0: expected '{'", false },
    /* What does not describe tensors. */
    { "{\"__metadata__\":[]}", 0, "'{' of __metadata__", false },
    { "{\"__metadata__\":{\"a\":1}}", 0, "a string (all values of __metadata__ are strings)", false },
    { "{\"__metadata__\":{},\"__metadata__\":{}}", 0, "duplicate __metadata__", false },
    { "{\"__metadata__\":{\"b\":\"1\",\"a\":\"2\",\"\\u0062\":\"3\"}}", 0, "duplicate key 'b' in __metadata__", true },
    { "{\"a\":null}", 0, "'{' of a tensor", false },
    { "{\"a\":{}}", 0, "tensor 'a': byte 7: missing dtype", false },
    { ONE (DTYPE "," SHAPE), 4, "missing data_offsets", false },
    { ONE (DTYPE "," OFFSETS), 4, "missing shape", false },
    { ONE (SHAPE "," OFFSETS), 4, "missing dtype", false },
    { ONE (DTYPE "," SHAPE "," OFFSETS "," DTYPE), 4, "duplicate dtype", false },
    { ONE (DTYPE "," SHAPE "," OFFSETS "," OFFSETS), 4, "duplicate data_offsets", false },
    { ONE ("\"dtype\":\"f32\"," SHAPE "," OFFSETS), 4, "unknown element type 'f32'", false },
    { ONE ("\"dtype\":\"F8\"," SHAPE "," OFFSETS), 4, "unknown element type 'F8'", false },
    { ONE ("\"dtype\":32," SHAPE "," OFFSETS), 4, "the name of an element type", false },
    { "{" TENSOR ("a", "1.0", "0", "4") "}", 4, "a size of the shape", false },
    { "{" TENSOR ("a", "1e0", "0", "4") "}", 4, "a size of the shape", false },
    { "{" TENSOR ("a", "-1", "0", "4") "}", 4, "a size of the shape", false },
    { "{" TENSOR ("a", "-0", "0", "0") "}", 0, "a size of the shape", false },
    { "{" TENSOR ("a", "01", "0", "4") "}", 4, "a size of the shape", false },
    { "{" TENSOR ("a", "\"1\"", "0", "4") "}", 4, "a size of the shape", false },
    { "{" TENSOR ("a", "[1]", "0", "4") "}", 4, "a size of the shape", false },
    { "{" TENSOR ("a", "18446744073709551616", "0", "4") "}", 4, "too large", false },
    { "{" TENSOR ("a", "4294967296,4294967296", "0", "4") "}", 4, "too many elements", false },
    { "{" TENSOR ("a", "4294967296,4294967296,0", "0", "0") "}", 0, "too many elements", false },
    { "{" TENSOR ("a", "4611686018427387904", "0", "4") "}", 4, "too many bytes", false },
    { "{" TENSOR ("a", "1", "0", "4,5") "}", 4, "']' after two offsets", false },
    { ONE (DTYPE "," SHAPE ",\"data_offsets\":[0]"), 4, "the second offset", false },
    { "{" TENSOR ("a", "1", "-4", "0") "}", 4, "the first offset", false },
    { "{" TENSOR ("a", "1", "0", "5") "}", 5, "shape and type give 4 bytes, but data_offsets say 5", false },
    { "{" TENSOR ("a", "1", "4", "0") "}", 4, "end before they begin", false },
    { "{" TENSOR ("a", "1", "4", "8") "}", 8, "'a' begins at 4, but the data before it ends at 0", false },
    { "{" TENSOR ("a", "1", "0", "4") "," TENSOR ("b", "1", "8", "12") "}", 12, "'b' begins at 8", false },
    { "{" TENSOR ("a", "1", "0", "4") "," TENSOR ("b", "1", "0", "4") "}", 4, "'b' begins at 0", false },
    { "{" TENSOR ("a", "2", "0", "8") "," TENSOR ("b", "1", "4", "8") "}", 8, "'b' begins at 4", false },
    { "{" TENSOR ("a", "0", "2", "2") "," TENSOR ("b", "1", "0", "4") "}", 4, "ends at", false },
    { "{\"a\":{\"dtype\":\"F4\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "not a whole number of bytes", false },
    { "{" TENSOR ("a", "1", "0", "4") "," TENSOR ("a", "1", "4", "8") "}", 8, "duplicate tensor 'a'", false },
    { "{" TENSOR ("a", "1", "0", "4") "}", 5, "5 bytes of tensors, but its header says 4; was it truncated?", false },
    { "{" TENSOR ("a", "1", "0", "4") "}", 3, "3 bytes of tensors, but its header says 4; was it truncated?", false },
    /* Where we are stricter. */
    { "{" TENSOR ("a", "0", "0", "0") "," TENSOR ("a", "0", "0", "0") "}", 0, "duplicate tensor 'a'", true },
    { "{" TENSOR ("a", "0,9223372036854775808", "0", "0") "}", 0, "a size of the shape is too large", true },
    { "{" TENSOR ("a", "0,9223372036854775807", "0", "0") "}", 0, NULL, false },
    { "{" TENSOR ("a\\u0000b", "1", "0", "4") "}", 4, "a NUL character", true },
    { "{\"a\":[\"F32\",[1],[0,4]]}", 4, "'{' of a tensor", true },
};

/* @return the length of a file with this header */
static size_t
make_file (char *bytes, const char *header, size_t data)
{
    size_t length = strlen (header);
    memset (bytes, 0, 8 + length + data);
    memcpy (bytes, &(uint64_t){ length }, 8);
    memcpy (bytes + 8, header, length);
    return 8 + length + data;
}

static enum accel_status
read_header (struct safetensors *file, const char *bytes, size_t length)
{
    struct source source;
    uint64_t data;
    enum accel_status status = source_open (&source, write_file ("a", bytes, length), &err);
    if (!status)
        status = safetensors_read (file, &source, &data, &err);
    source_close (&source);
    return status;
}

static void
test_headers (void)
{
    char bytes[2048];
    struct safetensors file;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum accel_status status
            = read_header (&file, bytes, make_file (bytes, cases[i].text, cases[i].data));
        bool good = cases[i].words ? status == ACCEL_ERR_FORMAT && strstr (err.text, cases[i].words) : !status;
        ok (good, "header %zu: %s", i + 1, cases[i].words ? cases[i].words : "valid");
        if (!good)
            diag ("%s: %s", cases[i].text, status ? err.text : "accepted");
        if (!status)
            safetensors_release (&file);
    }
    static const struct {
        uint64_t length;
        size_t bytes;
        const char *words;
    } sizes[] = {
        { 0, 0, "only 0 bytes" },
        { 2, 7, "only 7 bytes" },
        { 2, 9, "ends inside its header of 2 bytes" },
        { 100000000, 10, "ends inside its header of 100000000 bytes" },
        { 100000001, 10, "the maximum is 100000000" },
        { UINT64_MAX, 10, "the maximum is 100000000" },
        { 0, 8, "unexpected end: expected '{'" },
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        memcpy (bytes, &sizes[i].length, 8);
        memcpy (bytes + 8, "{}", 2);
        bool bad = read_header (&file, bytes, sizes[i].bytes) != ACCEL_OK;
        ok (bad && strstr (err.text, sizes[i].words), "size %zu: %s", i + 1, sizes[i].words);
    }
    static const char no_type[] = "{\"a\":{}}";
    ok (safetensors_parse (&file, no_type, strlen (no_type), NULL) == ACCEL_ERR_FORMAT, "without a text");
}

/* The parser is given memory of just the right size: one byte too far is seen by a sanitizer. */
static void
test_damaged_headers (void)
{
    static uint32_t noise = 3;
    size_t wrong = 0, tried = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int turn = 0; turn < 200; turn++, tried++) {
            size_t length = strlen (cases[i].text);
            noise = noise * 1664525 + 1013904223;
            if (length && turn % 4 == 0)
                length = (noise >> 8) % length;
            char *text = malloc (length + !length);
            if (!text)
                continue;
            memcpy (text, cases[i].text, length);
            if (length && turn % 4)
                text[(noise >> 8) % length] = "0123456789{}[],:\"\\ue.-"[(noise >> 4) % 22];
            struct safetensors file;
            enum accel_status status = safetensors_parse (&file, text, length, &err);
            wrong += status && (err.code != status || !*err.text || file.tensors);
            safetensors_release (&file);
            free (text);
        }
    ok (!wrong, "%zu damaged headers do no harm", tried);
    static char deep[70000];
    struct safetensors file;
    snprintf (deep, sizeof deep, "{\"a\":{\"x\":");
    memset (deep + strlen (deep), '[', 60000);
    ok (safetensors_parse (&file, deep, strlen (deep), &err) && strstr (err.text, "levels deep"),
        "deep nesting is an error");
}

/* The format's own test vectors, and what the parser says of them. */
static void
test_vectors (void)
{
    static const char *const headers[] = { "{}      ", "{" TENSOR ("attn.0", "1,2,3", "0", "24") "}",
                                           "{" TENSOR ("attn0", "1,1,2,3", "0", "24") "}       " };
    static const size_t lengths[] = { 8, 64, 72 };
    struct safetensors file;
    for (size_t i = 0; i < 3; i++) {
        bool good = strlen (headers[i]) == lengths[i] && !safetensors_parse (&file, headers[i], lengths[i], &err);
        ok (good && file.count == (i > 0) && file.data_bytes == (i ? 24 : 0)
                && (!i || (file.tensors[0].ndim == 2 + i && file.tensors[0].shape[1 + i] == 3)),
            "a file of the format's documentation: header of %zu bytes", lengths[i]);
        safetensors_release (&file);
    }
    static const char escaped[] = "\xc3\xa4\xf0\x9f\x98\x80";
    static const char text[] = "{\"__metadata__\":{\"format\":\"pt\",\"k\":\"\\u00e4\"},"
                               TENSOR ("b", "1", "4", "8") "," TENSOR ("a", "1", "8", "12") ","
                               TENSOR ("\\u00e4\\ud83d\\ude00", "1", "0", "4") "}";
    bool good = !safetensors_parse (&file, text, sizeof text - 1, &err);
    ok (good && !strcmp (file.tensors[0].name, escaped) && safetensors_find (&file, "a") == &file.tensors[2]
            && safetensors_find (&file, "b")->begin == 4 && !safetensors_find (&file, "d")
            && safetensors_find (&file, escaped)->dtype == SAFETENSORS_F32,
        "tensors are found by name; escapes become UTF-8");
    ok (good && file.pairs == 2 && !strcmp (file.metadata[0].value, "pt") && !strcmp (file.metadata[1].key, "k")
            && !strcmp (file.metadata[1].value, "\xc3\xa4"),
        "metadata");
    safetensors_release (&file);
    ok (safetensors_to_accel (SAFETENSORS_BF16) == ACCEL_BFLOAT16
            && safetensors_to_accel (SAFETENSORS_U16) == ACCEL_DTYPE_COUNT
            && !strcmp (safetensors_dtype_name (SAFETENSORS_F8_E4M3FNUZ), "F8_E4M3FNUZ"),
        "element types");
    size_t wrong = 0;
    for (int i = 0; i < SAFETENSORS_DTYPE_COUNT; i++) {
        enum safetensors_dtype dtype = (enum safetensors_dtype) i;
        DLDataType type = safetensors_to_dl (dtype);
        enum accel_dtype ours = safetensors_to_accel (dtype);
        wrong += safetensors_from_dl (type) != dtype || type.bits != safetensors_dtype_bits (dtype)
                 || (ours != ACCEL_DTYPE_COUNT && accel_dtype_from_dl (type) != ours);
    }
    ok (!wrong && safetensors_from_dl ((DLDataType){ kDLFloat, 32, 4 }) == SAFETENSORS_DTYPE_COUNT,
        "element types in DLPack's terms, and back");
}

/* More tensors than any model has: no more time and memory than their header suggests. */
static void
test_million (void)
{
    enum { COUNT = 1000000, ROOM = 80 };
    char *text = malloc ((size_t) COUNT * ROOM);
    size_t length = 1;
    struct safetensors file;
    if (!text)
        return;
    *text = '{';
    for (int i = 0; i < COUNT; i++)
        length += (size_t) snprintf (text + length, ROOM,
                                     "\"%d\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[%d,%d]}%c", i,
                                     COUNT - 1 - i, COUNT - i, i < COUNT - 1 ? ',' : '}');
    enum accel_status status = safetensors_parse (&file, text, length, &err);
    ok (!status && file.count == COUNT && file.data_bytes == COUNT && safetensors_find (&file, "7")->begin == COUNT - 8,
        "a million tensors%s%s", status ? ": " : "", status ? err.text : "");
    safetensors_release (&file);
    free (text);
}

static void
test_set (void)
{
    static const char header[] = "{\"y\":{\"dtype\":\"I64\",\"shape\":[3],\"data_offsets\":[24,48]},"
                                 TENSOR ("x", "3,1,2", "0", "24")
                                 ",\"u\":{\"dtype\":\"U16\",\"shape\":[3],\"data_offsets\":[48,54]},"
                                 "\"s\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[54,55]},"
                                 "\"z\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[55,57]},"
                                 "\"e\":{\"dtype\":\"U8\",\"shape\":[3,0],\"data_offsets\":[57,57]},"
                                 "\"m\":{\"dtype\":\"U8\",\"shape\":[3,1,1,1,1,1,1,1,0],\"data_offsets\":[57,57]}}";
    static const struct {
        const char *names[2];
        const char *words;
    } bad[] = {
        { { "x", "w" }, "has no tensor 'w'" },
        { { "x", "Y" }, "has no tensor 'Y' (did you mean 'y'?)" },
        { { "x", "x" }, "named 'x'" },
        { { "x", "u" }, "type U16, which fields do not support" },
        { { "x", "s" }, "is a scalar" },
        { { "x", "z" }, "tensor 'z' has 2 samples, but 'x' has 3" },
        { { "m", "x" }, "has 9 dimensions; the maximum is 8" },
    };
    char bytes[2048];
    size_t length = make_file (bytes, header, 57);
    memcpy (bytes + length - 57, (float[]){ 0, 1, 2, 3, 4, 5 }, 24);
    memcpy (bytes + length - 33, (int64_t[]){ 7, 8, 9 }, 24);
    const char *path = write_file ("a", bytes, length);
    struct accel_dataset *set;
    float x[3][2];
    int64_t y[3];
    ok (!accel_dataset_open_safetensors (&set, path, (const char *[]){ "y", "e", "x" }, 3, &err) && set->size == 3
            && set->fields[2].ndim == 2 && set->fields[2].shape[1] == 2 && set->fields[0].dtype == ACCEL_INT64
            && !set->read (set->user, 1, (void *[]){ y, NULL, x }, &err) && y[0] == 8 && x[0][1] == 3,
        "a sample of three tensors, one empty");
    ok (!set->read_many (set->user, (int64_t[]){ 2, 0, 1 }, 3, (void *[]){ y, NULL, x }, &err) && y[0] == 9
            && y[2] == 8 && x[0][0] == 4 && x[1][0] == 0 && x[2][1] == 3,
        "many samples");
    accel_dataset_close (set);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        is_refused ("safetensors", accel_dataset_open_safetensors (&set, path, bad[i].names, 2, &err), &set,
                    bad[i].words);
    is_refused ("safetensors", accel_dataset_open_safetensors (&set, path, NULL, 0, &err), &set, "'u' has elements");
    is_refused ("safetensors", accel_dataset_open_safetensors (&set, path, bad[0].names, 0, &err), &set, "count is 0");
    length = make_file (bytes, "{" TENSOR ("a", "2,1", "8", "16") "," TENSOR ("b", "2", "0", "8") "}", 16);
    ok (!accel_dataset_open_safetensors (&set, write_file ("a", bytes, length), NULL, 0, &err)
            && set->field_count == 2 && !strcmp (set->fields[0].name, "b") && set->size == 2,
        "all tensors, in the order of the file");
    accel_dataset_close (set);
    length = make_file (bytes, "{}", 0);
    is_refused ("safetensors", accel_dataset_open_safetensors (&set, write_file ("a", bytes, length), NULL, 0, &err),
                &set, "has no tensors");
}

int
main (void)
{
    test_headers ();
    test_damaged_headers ();
    test_vectors ();
    test_million ();
    test_set ();
    return done_testing ();
}
