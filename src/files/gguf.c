/* SPDX-License-Identifier: Apache-2.0 */
/* The header of GGUF files; see gguf.h. */
#include <config.h>

#include "files/gguf.h"

#include "files/error.h"
#include "util/cleanup.h"

#include <string.h>

enum {
    MOST_DIMENSIONS = 4,
    MOST_TENSORS = 1 << 20,
    MOST_KEYS = 1 << 20,
    MOST_NAME = 65535,
    DEEPEST = 4, /* lists of lists */
    ALIGNMENT = 32,
    MOST_ALIGNMENT = 1 << 20,
};

/* Kinds of metadata values. */
enum kind {
    KIND_U8,
    KIND_I8,
    KIND_U16,
    KIND_I16,
    KIND_U32,
    KIND_I32,
    KIND_F32,
    KIND_BOOL,
    KIND_TEXT,
    KIND_LIST,
    KIND_U64,
    KIND_I64,
    KIND_F64,
    KIND_COUNT
};

static const uint8_t kind_bytes[KIND_COUNT] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };

/* A type's elements come in blocks; by the format's number of the type.  0: unknown. */
static const struct {
    uint16_t block; /* elements */
    uint16_t bytes;
} types[] = {
    [0] = { 1, 4 },     [1] = { 1, 2 },     [2] = { 32, 18 },   [3] = { 32, 20 },   [6] = { 32, 22 },
    [7] = { 32, 24 },   [8] = { 32, 34 },   [9] = { 32, 36 },   [10] = { 256, 84 }, [11] = { 256, 110 },
    [12] = { 256, 144 }, [13] = { 256, 176 }, [14] = { 256, 210 }, [15] = { 256, 292 }, [16] = { 256, 66 },
    [17] = { 256, 74 }, [18] = { 256, 98 }, [19] = { 256, 50 }, [20] = { 32, 18 },  [21] = { 256, 110 },
    [22] = { 256, 82 }, [23] = { 256, 136 }, [24] = { 1, 1 },   [25] = { 1, 2 },    [26] = { 1, 4 },
    [27] = { 1, 8 },    [28] = { 1, 8 },    [29] = { 256, 56 }, [30] = { 1, 2 },    [34] = { 256, 54 },
    [35] = { 256, 66 }, [39] = { 32, 17 },  [40] = { 64, 36 },  [41] = { 128, 18 },
};

struct reader {
    const unsigned char *bytes;
    size_t length, at;
    bool is_short;
    struct accel_error *err;
};

static enum accel_status
take (struct reader *reader, uint64_t count, const unsigned char **bytes)
{
    if (count > reader->length - reader->at) {
        reader->is_short = true;
        return accel_fail (reader->err, ACCEL_ERR_FORMAT, "byte %zu: the header is cut off", reader->at);
    }
    *bytes = reader->bytes + reader->at;
    reader->at += (size_t) count;
    return ACCEL_OK;
}

static enum accel_status
take_number (struct reader *reader, size_t size, uint64_t *value)
{
    const unsigned char *bytes = NULL;
    enum accel_status status = take (reader, size, &bytes);
    *value = 0;
    for (size_t i = 0; bytes && i < size; i++)
        *value |= (uint64_t) bytes[i] << 8 * i;
    return status;
}

static enum accel_status
take_text (struct reader *reader, const unsigned char **text, uint64_t *length)
{
    enum accel_status status = take_number (reader, 8, length);
    if (!status && *length > GGUF_MAX_HEADER)
        return accel_fail (reader->err, ACCEL_ERR_FORMAT, "byte %zu: a text of %llu bytes", reader->at,
                           (unsigned long long) *length);
    return status ? status : take (reader, *length, text);
}

static enum accel_status
check_kind (struct reader *reader, uint64_t kind)
{
    if (kind < KIND_COUNT)
        return ACCEL_OK;
    return accel_fail (reader->err, ACCEL_ERR_FORMAT, "byte %zu: unknown type %llu of a value", reader->at,
                       (unsigned long long) kind);
}

static bool
is_integer (uint64_t kind)
{
    return kind_bytes[kind] && kind != KIND_F32 && kind != KIND_F64 && kind != KIND_BOOL;
}

/* A value, or a list of them.  @param[in,out] largest  of the integers in it; negative ones do not count */
static enum accel_status
take_value (struct reader *reader, uint64_t kind, unsigned depth, uint64_t *largest)
{
    const unsigned char *bytes;
    uint64_t length = 1, inner = kind, value;
    enum accel_status status = check_kind (reader, kind);
    if (!status && kind == KIND_LIST) {
        if (depth == DEEPEST)
            return accel_fail (reader->err, ACCEL_ERR_FORMAT, "byte %zu: lists are too deep", reader->at);
        status = take_number (reader, 4, &inner);
        if (!status && !(status = take_number (reader, 8, &length)))
            status = check_kind (reader, inner);
        /* A list without a byte for each element would be a long loop for a short file. */
        if (!status && length > GGUF_MAX_HEADER)
            return accel_fail (reader->err, ACCEL_ERR_FORMAT, "byte %zu: a list of %llu elements", reader->at,
                               (unsigned long long) length);
        if (!status && kind_bytes[inner] && !is_integer (inner))
            return take (reader, length * kind_bytes[inner], &bytes);
    }
    for (uint64_t i = 0; i < length && !status; i++) {
        if (inner == KIND_TEXT)
            status = take_text (reader, &bytes, &value);
        else if (inner == KIND_LIST)
            status = take_value (reader, inner, depth + 1, largest);
        else if (!(status = take_number (reader, kind_bytes[inner], &value)) && is_integer (inner)
                 && value <= INT64_MAX && value > *largest)
            *largest = value;
    }
    return status;
}

static bool
is_key (const unsigned char *key, uint64_t length, const char *ending)
{
    size_t wanted = strlen (ending);
    return length >= wanted && !memcmp (key + length - wanted, ending, wanted);
}

/* "llama.block_count" and similar; keys of other parts of a model, such as "clip.vision.block_count", do not count. */
static uint64_t *
find_fact (struct gguf_facts *facts, const unsigned char *key, uint64_t length)
{
    static const struct {
        const char *ending;
        size_t offset;
    } endings[] = {
        { ".block_count", offsetof (struct gguf_facts, layers) },
        { ".embedding_length", offsetof (struct gguf_facts, embedding) },
        { ".attention.head_count", offsetof (struct gguf_facts, heads) },
        { ".attention.head_count_kv", offsetof (struct gguf_facts, kv_heads) },
        { ".attention.key_length", offsetof (struct gguf_facts, key_length) },
        { ".attention.value_length", offsetof (struct gguf_facts, value_length) },
        { ".attention.sliding_window", offsetof (struct gguf_facts, window) },
        { ".attention.sliding_window_pattern", offsetof (struct gguf_facts, pattern) },
        { ".attention.key_length_swa", offsetof (struct gguf_facts, window_key_length) },
        { ".attention.value_length_swa", offsetof (struct gguf_facts, window_value_length) },
        { ".attention.key_length_mla", offsetof (struct gguf_facts, latent_key_length) },
        { ".attention.value_length_mla", offsetof (struct gguf_facts, latent_value_length) },
        { ".attention.shared_kv_layers", offsetof (struct gguf_facts, shared_layers) },
        { ".nextn_predict_layers", offsetof (struct gguf_facts, predicting) },
        { ".full_attention_interval", offsetof (struct gguf_facts, interval) },
    };
    size_t own = strlen (facts->architecture);
    if (!own || length < own || memcmp (key, facts->architecture, own) != 0)
        return NULL;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (is_key (key + own, length - own, endings[i].ending) && length - own == strlen (endings[i].ending))
            return (uint64_t *) (void *) ((char *) facts + endings[i].offset);
    return NULL;
}

/* Of the file, not of the model. */
static uint64_t *
find_own (struct gguf *gguf, uint64_t *alignment, const unsigned char *key, uint64_t length)
{
    const struct {
        const char *name;
        uint64_t *value;
    } own[] = { { "general.alignment", alignment },
                { "split.count", &gguf->split_count },
                { "split.no", &gguf->split_number },
                { "split.tensors.count", &gguf->split_tensors } };
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (length == strlen (own[i].name) && is_key (key, length, own[i].name))
            return own[i].value;
    return find_fact (&gguf->facts, key, length);
}

/* A list with a value for each layer: heads, or whether it has a window.
 * @param list  the kind of its elements, their number and themselves, which take_value() has checked
 * @return whether that is what it is */
static bool
keep_list (struct gguf_facts *facts, const uint64_t *fact, const unsigned char *list)
{
    struct reader reader = { .bytes = list, .length = SIZE_MAX, .err = NULL };
    bool is_windows = fact == &facts->pattern;
    uint64_t kind = 0, length = 0, value = 0;
    take_number (&reader, 4, &kind);
    take_number (&reader, 8, &length);
    if (is_windows ? kind != KIND_BOOL : fact != &facts->kv_heads || !is_integer (kind))
        return false;
    uint32_t count = length < GGUF_MOST_LAYERS ? (uint32_t) length : GGUF_MOST_LAYERS;
    for (uint32_t i = 0; i < count; i++) {
        take_number (&reader, kind_bytes[kind], &value);
        if (is_windows)
            facts->windows[i] = value != 0;
        else
            facts->kv_heads_of[i] = value <= UINT32_MAX ? (uint32_t) value : UINT32_MAX;
    }
    *(is_windows ? &facts->windows_listed : &facts->kv_heads_listed) = count;
    return true;
}

static enum accel_status
take_pair (struct reader *reader, struct gguf *gguf, uint64_t *alignment)
{
    struct gguf_facts *facts = &gguf->facts;
    const unsigned char *key, *text;
    uint64_t length, kind, size, largest = 0;
    enum accel_status status = take_text (reader, &key, &length);
    if (!status)
        status = take_number (reader, 4, &kind);
    if (status)
        return status;
    if (kind == KIND_TEXT && length == 20 && !memcmp (key, "general.architecture", 20)) {
        if ((status = take_text (reader, &text, &size)))
            return status;
        snprintf (facts->architecture, sizeof facts->architecture, "%.*s", size < 32 ? (int) size : 31,
                  (const char *) text);
        return ACCEL_OK;
    }
    const unsigned char *list = reader->bytes + reader->at;
    status = take_value (reader, kind, 0, &largest);
    uint64_t *fact = status ? NULL : find_own (gguf, alignment, key, length);
    if (!fact || (kind == KIND_LIST && !keep_list (facts, fact, list) && fact == &facts->pattern))
        return status;
    *fact = largest;
    facts->has_window |= fact == &facts->window;
    facts->has_pattern |= fact == &facts->pattern;
    return status;
}

/* @param row  elements of the first dimension, which consists of whole blocks */
static enum accel_status
measure (struct reader *reader, struct gguf_tensor *tensor, uint64_t row, uint64_t type)
{
    if (type >= sizeof types / sizeof *types || !types[type].block)
        return accel_fail (reader->err, ACCEL_ERR_FORMAT, "tensor '%.80s': unknown type %llu", tensor->name,
                           (unsigned long long) type);
    if (row % types[type].block)
        return accel_fail (reader->err, ACCEL_ERR_FORMAT,
                           "tensor '%.80s': rows of %llu elements are not whole blocks of %u", tensor->name,
                           (unsigned long long) row, types[type].block);
    if (__builtin_mul_overflow (tensor->elements / types[type].block, types[type].bytes, &tensor->bytes)
        || tensor->elements > INT64_MAX / 8)
        return accel_fail (reader->err, ACCEL_ERR_FORMAT, "tensor '%.80s': too large: size overflows", tensor->name);
    return ACCEL_OK;
}

static enum accel_status
take_tensor (struct reader *reader, struct gguf_tensor *tensor)
{
    const unsigned char *name;
    uint64_t length, dimensions, size, type, row = 1;
    enum accel_status status = take_text (reader, &name, &length);
    if (status)
        return status;
    if (!length || length > MOST_NAME || memchr (name, '\0', length))
        return accel_fail (reader->err, ACCEL_ERR_FORMAT, "byte %zu: not a tensor's name", reader->at);
    tensor->name = strndup ((const char *) name, length);
    if (!tensor->name)
        return accel_fail_nomem (reader->err);
    tensor->elements = 1;
    if ((status = take_number (reader, 4, &dimensions)))
        return status;
    if (dimensions > MOST_DIMENSIONS)
        return accel_fail (reader->err, ACCEL_ERR_FORMAT, "tensor '%.80s': %llu dimensions; the maximum is %d",
                           tensor->name, (unsigned long long) dimensions, MOST_DIMENSIONS);
    for (uint64_t i = 0; i < dimensions && !status; i++) {
        status = take_number (reader, 8, &size);
        row = i ? row : size;
        if (!status && __builtin_mul_overflow (tensor->elements, size, &tensor->elements))
            return accel_fail (reader->err, ACCEL_ERR_FORMAT, "tensor '%.80s': too large: size overflows",
                               tensor->name);
    }
    if (!status && !(status = take_number (reader, 4, &type)))
        status = take_number (reader, 8, &tensor->offset);
    return status ? status : measure (reader, tensor, row, type);
}

/* Add @p more and round up.  @return whether it fits 63 bits */
static bool
grow (uint64_t *end, uint64_t more, uint64_t alignment)
{
    if (__builtin_add_overflow (*end, more, end) || __builtin_add_overflow (*end, alignment - 1, end)
        || *end > INT64_MAX)
        return false;
    *end -= *end % alignment;
    return true;
}

/* The data of the tensors follow each other, each on a multiple of the alignment, as llama.cpp demands it. */
static enum accel_status
check_places (struct reader *reader, struct gguf *gguf, uint64_t alignment)
{
    uint64_t data = 0, end = 0;
    if (alignment < 1 || alignment > MOST_ALIGNMENT || (alignment & (alignment - 1)))
        return accel_fail (reader->err, ACCEL_ERR_FORMAT, "general.alignment is %llu", (unsigned long long) alignment);
    grow (&data, reader->at, alignment);
    gguf->end = gguf->count ? data : reader->at; /* without tensors, there need be no padding */
    for (size_t i = 0; i < gguf->count; i++) {
        const struct gguf_tensor *tensor = &gguf->tensors[i];
        if (tensor->offset != end)
            return accel_fail (reader->err, ACCEL_ERR_FORMAT, "tensor '%.80s': begins at byte %llu of the data; "
                               "expected %llu", tensor->name, (unsigned long long) tensor->offset,
                               (unsigned long long) end);
        if (!grow (&end, tensor->bytes, alignment) || end > INT64_MAX - data)
            return accel_fail (reader->err, ACCEL_ERR_FORMAT, "tensor '%.80s': too large: size overflows",
                               tensor->name);
        gguf->end = data + tensor->offset + tensor->bytes; /* the last one may end without padding */
    }
    return ACCEL_OK;
}

static enum accel_status
take_counts (struct reader *reader, uint64_t *tensors, uint64_t *pairs)
{
    uint64_t version;
    enum accel_status status = take_number (reader, 4, &version);
    if (!status && (version < 2 || version > 3))
        return accel_fail (reader->err, ACCEL_ERR_FORMAT, "GGUF version %llu; expected 2 or 3",
                           (unsigned long long) version);
    if (!status && !(status = take_number (reader, 8, tensors)))
        status = take_number (reader, 8, pairs);
    if (!status && (*tensors > MOST_TENSORS || *pairs > MOST_KEYS))
        return accel_fail (reader->err, ACCEL_ERR_FORMAT, "%llu tensors and %llu metadata keys are too many",
                           (unsigned long long) *tensors, (unsigned long long) *pairs);
    return status;
}

bool
gguf_is (const void *bytes, size_t length)
{
    return length >= 4 && !memcmp (bytes, "GGUF", 4);
}

enum accel_status
gguf_parse (struct gguf *gguf, const void *bytes, size_t length, bool *is_short, struct accel_error *err)
{
    struct reader reader = { .bytes = bytes, .length = length, .at = 4, .err = err };
    uint64_t tensors = 0, pairs = 0, alignment = ALIGNMENT;
    *gguf = (struct gguf){ 0 };
    *is_short = false;
    if (!gguf_is (bytes, length))
        return accel_fail (err, ACCEL_ERR_FORMAT, "not a GGUF file");
    enum accel_status status = take_counts (&reader, &tensors, &pairs);
    for (uint64_t i = 0; i < pairs && !status; i++)
        status = take_pair (&reader, gguf, &alignment);
    /* 24 bytes is the least that a tensor's description takes: a count alone allocates nothing. */
    if (!status && tensors > (length - reader.at) / 24) {
        reader.is_short = true;
        status = accel_fail (err, ACCEL_ERR_FORMAT, "the header is cut off");
    }
    if (!status && tensors && !(gguf->tensors = calloc (tensors, sizeof *gguf->tensors)))
        status = accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for %llu tensors",
                             (unsigned long long) tensors);
    while (gguf->count < tensors && !status)
        status = take_tensor (&reader, &gguf->tensors[gguf->count++]);
    if (!status)
        status = check_places (&reader, gguf, alignment);
    *is_short = reader.is_short;
    return status;
}

void
gguf_release (struct gguf *gguf)
{
    for (size_t i = 0; i < gguf->count; i++)
        free (gguf->tensors[i].name);
    free (gguf->tensors);
    *gguf = (struct gguf){ 0 };
}
