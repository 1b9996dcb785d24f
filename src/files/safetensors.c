/* SPDX-License-Identifier: Apache-2.0 */
/* The header of safetensors files; see safetensors.h.  A parser of our own for this one shape of JSON keeps the library
 * free of dependencies, and says which byte is wrong. */
#include <config.h>

#include "files/safetensors.h"

#include "files/error.h"
#include "files/json_reader.h"
#include "util/array.h"
#include "util/cleanup.h"
#include "util/text.h"

#include <string.h>

static const struct {
    const char *name;
    uint8_t bits;
    uint8_t code;
    enum accel_dtype dtype;
} types[SAFETENSORS_DTYPE_COUNT] = {
#define X(name, bits, code, dtype) { #name, bits, code, dtype },
    SAFETENSORS_DTYPE_MAP (X)
#undef X
};

enum accel_dtype
safetensors_to_accel (enum safetensors_dtype dtype)
{
    return types[dtype].dtype;
}

const char *
safetensors_dtype_name (enum safetensors_dtype dtype)
{
    return types[dtype].name;
}

unsigned
safetensors_dtype_bits (enum safetensors_dtype dtype)
{
    return types[dtype].bits;
}

DLDataType
safetensors_to_dl (enum safetensors_dtype dtype)
{
    return (DLDataType){ .code = types[dtype].code, .bits = types[dtype].bits, .lanes = 1 };
}

enum safetensors_dtype
safetensors_from_dl (DLDataType type)
{
    size_t i = 0;
    while (i < SAFETENSORS_DTYPE_COUNT
           && (types[i].code != type.code || types[i].bits != type.bits || type.lanes != 1))
        i++;
    return (enum safetensors_dtype) i;
}

static enum accel_status
no_room (const struct json_reader *json, size_t count)
{
    return accel_fail (json->err, ACCEL_ERR_NOMEM, "cannot allocate memory for %zu entries", count + 1);
}

static enum accel_status
parse_dtype (struct json_reader *json, struct safetensors_tensor *tensor)
{
    AUTO_FREE char *name = NULL;
    json_reader_peek (json);
    size_t start = json->at;
    enum accel_status status = json_reader_string (json, &name, "the name of an element type");
    if (status)
        return status;
    for (size_t i = 0; i < SAFETENSORS_DTYPE_COUNT; i++)
        if (!strcmp (types[i].name, name)) {
            tensor->dtype = (enum safetensors_dtype) i;
            return ACCEL_OK;
        }
    json->at = start;
    return json_reader_fail (json, "unknown element type '%.40s'", name);
}

static enum accel_status
parse_shape (struct json_reader *json, struct safetensors_tensor *tensor)
{
    bool first = true, more;
    enum accel_status status = json_reader_take (json, '[', "'[' of the shape");
    while (!status) {
        uint64_t size;
        if ((status = json_reader_next (json, ']', &first, &more)) || !more)
            break;
        if ((status = json_reader_uint64 (json, &size, "a size of the shape")))
            break;
        if (size > INT64_MAX)
            return json_reader_fail (json, "a size of the shape is too large");
        if (!array_room (&tensor->shape, tensor->ndim, sizeof *tensor->shape))
            return no_room (json, tensor->ndim);
        tensor->shape[tensor->ndim++] = (int64_t) size;
    }
    return status;
}

static enum accel_status
parse_offsets (struct json_reader *json, struct safetensors_tensor *tensor)
{
    enum accel_status status = json_reader_take (json, '[', "'[' of data_offsets");
    if (!status)
        status = json_reader_uint64 (json, &tensor->begin, "the first offset");
    if (!status)
        status = json_reader_take (json, ',', "',' and the second offset");
    if (!status)
        status = json_reader_uint64 (json, &tensor->end, "the second offset");
    if (!status)
        status = json_reader_take (json, ']', "']' after two offsets");
    return status;
}

/* The product of the shape in bytes must be what the offsets say. */
static enum accel_status
check_size (const struct json_reader *json, const struct safetensors_tensor *tensor)
{
    uint64_t elements = 1, bits;
    size_t bytes;
    for (size_t i = 0; i < tensor->ndim; i++)
        if (__builtin_mul_overflow (elements, (uint64_t) tensor->shape[i], &elements))
            return json_reader_fail (json, "too many elements: the count overflows 64 bits");
    if (__builtin_mul_overflow (elements, (uint64_t) types[tensor->dtype].bits, &bits)
        || __builtin_add_overflow (bits / 8, 0, &bytes))
        return json_reader_fail (json, "too many bytes: the size overflows 64 bits");
    if (bits % 8)
        return json_reader_fail (json, "%llu elements of %u bits are not a whole number of bytes",
                          (unsigned long long) elements, types[tensor->dtype].bits);
    if (tensor->end < tensor->begin)
        return json_reader_fail (json, "data_offsets end before they begin");
    if (tensor->end - tensor->begin != bytes)
        return json_reader_fail (json, "shape and type give %zu bytes, but data_offsets say %llu", bytes,
                          (unsigned long long) (tensor->end - tensor->begin));
    return ACCEL_OK;
}

static enum accel_status
parse_members (struct json_reader *json, struct safetensors_tensor *tensor)
{
    static const struct {
        const char *key;
        enum accel_status (*parse) (struct json_reader *json, struct safetensors_tensor *tensor);
    } members[] = { { "dtype", parse_dtype }, { "shape", parse_shape }, { "data_offsets", parse_offsets } };
    unsigned seen = 0, i;
    bool first = true, more;
    enum accel_status status = json_reader_take (json, '{', "'{' of a tensor's description");
    for (; !status; ) {
        AUTO_FREE char *key = NULL;
        if ((status = json_reader_next (json, '}', &first, &more)) || !more)
            break;
        if ((status = json_reader_key (json, &key)))
            break;
        for (i = 0; i < 3 && strcmp (members[i].key, key) != 0; i++)
            ;
        if (i < 3 && seen & 1u << i)
            return json_reader_fail (json, "duplicate %s", key);
        status = i < 3 ? members[i].parse (json, tensor) : json_reader_skip (json);
        seen |= 1u << i;
    }
    for (i = 0; i < 3 && !status; i++)
        if (!(seen & 1u << i))
            status = json_reader_fail (json, "missing %s", members[i].key);
    return status ? status : check_size (json, tensor);
}

static enum accel_status
parse_tensor (struct safetensors *file, struct json_reader *json, char **name)
{
    struct safetensors_tensor *tensor = array_room (&file->tensors, file->count, sizeof *tensor);
    if (!tensor)
        return no_room (json, file->count);
    *tensor = (struct safetensors_tensor){ .name = *name };
    *name = NULL;
    file->count++;
    enum accel_status status = parse_members (json, tensor);
    return status ? accel_fail_in (json->err, status, "tensor '%.80s'", tensor->name) : ACCEL_OK;
}

static enum accel_status
parse_pair (struct safetensors *file, struct json_reader *json)
{
    struct safetensors_pair *pair = array_room (&file->metadata, file->pairs, sizeof *pair);
    if (!pair)
        return no_room (json, file->pairs);
    *pair = (struct safetensors_pair){ 0 };
    file->pairs++;
    enum accel_status status = json_reader_key (json, &pair->key);
    return status ? status
                  : json_reader_string (json, &pair->value, "a string (all values of __metadata__ are strings)");
}

static enum accel_status
parse_metadata (struct safetensors *file, struct json_reader *json)
{
    bool first = true, more;
    if (json_reader_word (json, "null"))
        return ACCEL_OK;
    enum accel_status status = json_reader_take (json, '{', "'{' of __metadata__");
    while (!status && !(status = json_reader_next (json, '}', &first, &more)) && more)
        status = parse_pair (file, json);
    return status;
}

static enum accel_status
parse_header (struct safetensors *file, struct json_reader *json)
{
    bool first = true, more, has_metadata = false;
    enum accel_status status = json_reader_take (json, '{', "'{'");
    while (!status) {
        AUTO_FREE char *key = NULL;
        if ((status = json_reader_next (json, '}', &first, &more)) || !more)
            break;
        if ((status = json_reader_key (json, &key)))
            break;
        if (strcmp (key, "__metadata__") != 0)
            status = parse_tensor (file, json, &key);
        else if (has_metadata)
            status = json_reader_fail (json, "duplicate __metadata__");
        else {
            has_metadata = true;
            status = parse_metadata (file, json);
        }
    }
    return status ? status : json_reader_end (json);
}

/* In the order of the data; empty tensors before the one that begins at the same place. */
static int
compare_offsets (const void *a, const void *b)
{
    const struct safetensors_tensor *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return strcmp (x->name, y->name);
}

static int
compare_names (const void *a, const void *b, void *tensors)
{
    const struct safetensors_tensor *all = tensors;
    return strcmp (all[*(const size_t *) a].name, all[*(const size_t *) b].name);
}

/* A duplicate key has two values; which one is meant is not known. */
static enum accel_status
check_keys (const struct safetensors *file, struct accel_error *err)
{
    if (file->pairs < 2)
        return ACCEL_OK;
    AUTO_FREE char **keys = malloc (file->pairs * sizeof *keys);
    if (!keys)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for %zu keys", file->pairs);
    for (size_t i = 0; i < file->pairs; i++)
        keys[i] = file->metadata[i].key;
    qsort (keys, file->pairs, sizeof *keys, text_compare);
    for (size_t i = 1; i < file->pairs; i++)
        if (!strcmp (keys[i], keys[i - 1]))
            return accel_fail (err, ACCEL_ERR_FORMAT, "duplicate key '%.80s' in __metadata__", keys[i]);
    return ACCEL_OK;
}

/* Check that there are no holes and no overlaps. */
static enum accel_status
check_offsets (struct safetensors *file, struct accel_error *err)
{
    for (size_t i = 0; i < file->count; i++) {
        const struct safetensors_tensor *tensor = &file->tensors[i];
        if (tensor->begin != file->data_bytes)
            return accel_fail (err, ACCEL_ERR_FORMAT, "tensor '%.80s' begins at %llu, but the data before it ends at "
                               "%llu", tensor->name, (unsigned long long) tensor->begin,
                               (unsigned long long) file->data_bytes);
        file->data_bytes = tensor->end;
    }
    return ACCEL_OK;
}

/* Sort, and check what concerns more than one tensor. */
static enum accel_status
arrange (struct safetensors *file, struct accel_error *err)
{
    if (!file->count)
        return ACCEL_OK;
    qsort (file->tensors, file->count, sizeof *file->tensors, compare_offsets);
    file->by_name = malloc (file->count * sizeof *file->by_name);
    if (!file->by_name)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for the names of %zu tensors", file->count);
    for (size_t i = 0; i < file->count; i++)
        file->by_name[i] = i;
    qsort_r (file->by_name, file->count, sizeof *file->by_name, compare_names, file->tensors);
    for (size_t i = 1; i < file->count; i++)
        if (!strcmp (file->tensors[file->by_name[i]].name, file->tensors[file->by_name[i - 1]].name))
            return accel_fail (err, ACCEL_ERR_FORMAT, "duplicate tensor '%.80s'",
                               file->tensors[file->by_name[i]].name);
    return check_offsets (file, err);
}

enum accel_status
safetensors_parse (struct safetensors *file, const char *text, size_t length, struct accel_error *err)
{
    struct json_reader json = { .text = text, .length = length, .err = err };
    *file = (struct safetensors){ 0 };
    enum accel_status status = json_reader_begin (&json);
    if (!status)
        status = parse_header (file, &json);
    if (!status)
        status = arrange (file, err);
    if (!status)
        status = check_keys (file, err);
    if (status)
        safetensors_release (file);
    return status;
}

/* torch.save() writes zip archives, or, formerly, a bare pickle of protocol 2 to 5. */
static bool
is_pickled (const unsigned char *bytes)
{
    return !memcmp (bytes, "PK\3\4", 4) || (bytes[0] == 0x80 && bytes[1] >= 2 && bytes[1] <= 5);
}

/* A source, a log or a page of an error. */
static bool
is_text (const unsigned char *bytes)
{
    for (size_t i = 0; i < SAFETENSORS_LENGTH_BYTES; i++)
        if ((bytes[i] < ' ' || bytes[i] > '~') && bytes[i] != '\n' && bytes[i] != '\t' && bytes[i] != '\r')
            return false;
    return true;
}

enum accel_status
safetensors_read (struct safetensors *file, const struct source *source, uint64_t *data, struct accel_error *err)
{
    unsigned char bytes[SAFETENSORS_LENGTH_BYTES];
    const char *path = source->path;
    uint64_t length = 0;
    *file = (struct safetensors){ 0 };
    if (source->size < sizeof bytes)
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s: not a safetensors file: only %llu bytes", path,
                           (unsigned long long) source->size);
    enum accel_status status = source_read (source, 0, bytes, sizeof bytes, err);
    if (status)
        return status;
    for (size_t i = sizeof bytes; i--; )
        length = length << 8 | bytes[i];
    if (length > SAFETENSORS_MAX_HEADER && is_pickled (bytes))
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s: is a pickled file of PyTorch, whatever its name; expected "
                           "safetensors", path);
    if (length > SAFETENSORS_MAX_HEADER && is_text (bytes))
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s: not a safetensors file: it begins with text, not with the "
                           "length of a header", path);
    if (length > SAFETENSORS_MAX_HEADER)
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s: not a safetensors file: its header would have %llu bytes, but "
                           "the maximum is %d", path, (unsigned long long) length, SAFETENSORS_MAX_HEADER);
    if (length > source->size - sizeof bytes)
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s: ends inside its header of %llu bytes", path,
                           (unsigned long long) length);
    AUTO_FREE char *text = malloc ((size_t) length + 1);
    if (!text)
        return accel_fail (err, ACCEL_ERR_NOMEM, "%s: cannot allocate memory for its header of %llu bytes", path,
                           (unsigned long long) length);
    status = source_read (source, sizeof bytes, text, (size_t) length, err);
    if (status)
        return status;
    status = safetensors_parse (file, text, (size_t) length, err);
    if (status)
        return accel_fail_in (err, status, "%s: header", path);
    *data = sizeof bytes + length;
    if (source->size - *data == file->data_bytes)
        return ACCEL_OK;
    status = accel_fail (err, ACCEL_ERR_FORMAT,
                         "%s: %llu bytes of tensors, but its header says %llu; was it truncated?", path,
                         (unsigned long long) (source->size - *data), (unsigned long long) file->data_bytes);
    safetensors_release (file);
    return status;
}

const struct safetensors_tensor *
safetensors_find (const struct safetensors *file, const char *name)
{
    for (size_t low = 0, high = file->count; low < high;) {
        size_t middle = low + (high - low) / 2;
        const struct safetensors_tensor *tensor = &file->tensors[file->by_name[middle]];
        int order = strcmp (name, tensor->name);
        if (!order)
            return tensor;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

void
safetensors_release (struct safetensors *file)
{
    int saved = errno;
    for (size_t i = 0; i < file->count; i++) {
        free (file->tensors[i].name);
        free (file->tensors[i].shape);
    }
    for (size_t i = 0; i < file->pairs; i++) {
        free (file->metadata[i].key);
        free (file->metadata[i].value);
    }
    free (file->tensors);
    free (file->metadata);
    free (file->by_name);
    *file = (struct safetensors){ 0 };
    errno = saved;
}
