/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that torch.save wrote; see torch_tensor.h. */
#include <config.h>

#include "files/torch_tensor.h"

#include "files/error.h"
#include "files/zip.h"
#include "util/cleanup.h"

#include <stdio.h>
#include <string.h>

enum { MAX_PICKLE = 1 << 20 }; /* bytes: that of one tensor has less than 1 KiB */

static const unsigned char dtype_bits[SAFETENSORS_DTYPE_COUNT] = {
#define X(name, bits, code, dtype) bits,
    SAFETENSORS_DTYPE_MAP (X)
#undef X
};

size_t
torch_dtype_bytes (enum safetensors_dtype dtype)
{
    return dtype_bits[dtype] / 8;
}

/* ---- the pickle ---- */

static enum accel_status
fail_pickle (struct accel_error *err, const char *what)
{
    return accel_fail (err, ACCEL_ERR_FORMAT, "not a tensor of torch.save: %s", what);
}

/* ('storage', type, key, device, number of elements or, if untyped, of bytes) */
static enum accel_status
parse_storage (struct torch_tensor *tensor, const struct pickle_value *value, bool *is_untyped, struct accel_error *err)
{
    const struct pickle_value *tuple
        = value->type == PICKLE_PERSISTENT && value->items[0]->type == PICKLE_TUPLE ? value->items[0] : NULL;
    if (!tuple || tuple->count < 5 || !pickle_is_text (tuple->items[0], "storage")
        || tuple->items[1]->type != PICKLE_NAME)
        return fail_pickle (err, "it refers to no storage");
    const struct pickle_value *type = tuple->items[1], *key = tuple->items[2];
    *is_untyped = type->name->id == TORCH_UNTYPED_STORAGE;
    tensor->dtype = torch_dtype (type);
    if (!*is_untyped && tensor->dtype == SAFETENSORS_DTYPE_COUNT)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "safetensors has no element type for %s.%s", type->name->module,
                           type->name->name);
    if (key->type != PICKLE_STR || !key->count || key->count >= sizeof tensor->key
        || memchr (key->text, '\0', key->count))
        return fail_pickle (err, "its storage has no valid name");
    memcpy (tensor->key, key->text, key->count);
    tensor->key[key->count] = '\0';
    return ACCEL_OK;
}

/* How far the elements reach in the storage, and that they do not overlap: a few bytes must not claim to
 * be a large tensor. */
static enum accel_status
measure (struct torch_tensor *tensor, struct accel_error *err)
{
    uint64_t last = tensor->offset, count = 1, part;
    bool overflow = false;
    for (int i = 0; i < tensor->ndim; i++)
        overflow = __builtin_mul_overflow (count, tensor->sizes[i], &count) || overflow;
    if (!count) {
        tensor->reach = 0;
        return ACCEL_OK;
    }
    for (int i = 0; i < tensor->ndim; i++)
        overflow = __builtin_mul_overflow (tensor->sizes[i] - 1, tensor->strides[i], &part)
                   || __builtin_add_overflow (last, part, &last) || overflow;
    if (overflow || __builtin_add_overflow (last, 1, &last)
        || __builtin_mul_overflow (last, (uint64_t) torch_dtype_bytes (tensor->dtype), &tensor->reach))
        return fail_pickle (err, "its size overflows 64 bits");
    if (count > last - tensor->offset)
        return fail_pickle (err, "its elements overlap (it is expanded)");
    return ACCEL_OK;
}

static bool
is_empty (const struct pickle_value *value)
{
    return value->type == PICKLE_NONE || (value->type == PICKLE_DICT && !value->count);
}

bool
torch_is_tensor (const struct pickle_value *value)
{
    return torch_is_call (value, TORCH_REBUILD_PARAMETER, 3, 4) || torch_is_call (value, TORCH_REBUILD_TENSOR_V3, 7, 8)
           || torch_is_call (value, TORCH_REBUILD_TENSOR, 6, 7);
}

enum accel_status
torch_tensor_describe (struct torch_tensor *tensor, const struct pickle_value *root, struct accel_error *err)
{
    bool is_untyped = false;
    memset (tensor, 0, sizeof *tensor);
    if (torch_is_call (root, TORCH_REBUILD_PARAMETER, 3, 4))
        root = root->items[0]->items[0];
    bool has_dtype = torch_is_call (root, TORCH_REBUILD_TENSOR_V3, 7, 8);
    if (!has_dtype && !torch_is_call (root, TORCH_REBUILD_TENSOR, 6, 7))
        return fail_pickle (err, "it is something else");
    struct pickle_value *const *args = root->items[0]->items;
    size_t known = has_dtype ? 7 : 6;
    enum accel_status status = parse_storage (tensor, args[0], &is_untyped, err);
    if (status)
        return status;
    if (has_dtype && args[6]->type == PICKLE_NAME && torch_dtype (args[6]) == SAFETENSORS_DTYPE_COUNT)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "safetensors has no element type for %s.%s",
                           args[6]->name->module, args[6]->name->name);
    if (has_dtype)
        tensor->dtype = torch_dtype (args[6]);
    if (has_dtype != is_untyped || tensor->dtype == SAFETENSORS_DTYPE_COUNT)
        return fail_pickle (err, "it has no element type");
    tensor->ndim = torch_sizes (args[2], tensor->sizes, TORCH_MAX_DIMS);
    if (tensor->ndim < 0 || torch_sizes (args[3], tensor->strides, TORCH_MAX_DIMS) != tensor->ndim
        || torch_sizes (&(struct pickle_value){ .type = PICKLE_TUPLE, .count = 1,
                                                .items = (struct pickle_value *[]){ args[1] } },
                        &tensor->offset, 1) != 1)
        return fail_pickle (err, "its shape or strides are invalid");
    if (root->items[0]->count > known && !is_empty (args[known])) /* such as a lazy conjugate or negative */
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "the tensor has marks (such as conjugate) that are not "
                           "supported");
    return measure (tensor, err);
}

enum accel_status
torch_tensor_parse (struct torch_tensor *tensor, const char *text, size_t length, struct accel_error *err)
{
    struct pickle pickle;
    enum accel_status status = pickle_read (&pickle, text, length, torch_tensor_names, err);
    if (!status)
        status = torch_tensor_describe (tensor, pickle.root, err);
    pickle_release (&pickle);
    return status;
}

/* ---- the elements ---- */

/* The first element of the box, and whether its elements follow each other in the array. */
static bool
find_place (const struct torch_place *place, uint64_t *first)
{
    bool is_one_run = true, later_is_whole = true;
    uint64_t stride = 1;
    *first = 0;
    for (int i = place->ndim; i--;) {
        *first += place->offsets[i] * stride;
        stride *= place->shape[i];
        is_one_run = is_one_run && (later_is_whole || place->sizes[i] == 1);
        later_is_whole = later_is_whole && place->sizes[i] == place->shape[i];
    }
    return is_one_run;
}

/* Row-major without gaps; dimensions of one element may have any stride. */
bool
torch_tensor_is_contiguous (const struct torch_tensor *tensor)
{
    uint64_t stride = 1;
    for (int i = tensor->ndim; i--; stride *= tensor->sizes[i])
        if (tensor->sizes[i] != 1 && tensor->strides[i] != stride)
            return false;
    return true;
}

/* One row of the last dimension. */
static void
copy_row (unsigned char *to, const unsigned char *from, uint64_t count, uint64_t stride, size_t element)
{
    if (stride == 1)
        memcpy (to, from, (size_t) (count * element));
    else
        for (uint64_t i = 0; i < count; i++)
            memcpy (to + i * element, from + i * stride * element, element);
}

static void
scatter (const struct torch_tensor *tensor, const unsigned char *storage, const struct torch_place *place,
         unsigned char *array)
{
    size_t element = torch_dtype_bytes (tensor->dtype);
    uint64_t index[TORCH_MAX_DIMS] = { 0 }, strides[TORCH_MAX_DIMS], from = tensor->offset, to, stride = 1;
    int last = tensor->ndim - 1;
    find_place (place, &to);
    for (int i = tensor->ndim; i--; stride *= place->shape[i])
        strides[i] = stride;
    for (;;) {
        int i = last - 1;
        copy_row (array + to * element, storage + from * element, last < 0 ? 1 : tensor->sizes[last],
                  last < 0 ? 1 : tensor->strides[last], element);
        for (; i >= 0; i--) {
            from += tensor->strides[i];
            to += strides[i];
            if (++index[i] < tensor->sizes[i])
                break;
            from -= tensor->sizes[i] * tensor->strides[i];
            to -= tensor->sizes[i] * strides[i];
            index[i] = 0;
        }
        if (i < 0)
            return;
    }
}

static enum accel_status
read_elements (const struct torch_tensor *tensor, const struct zip_entry *entry, const struct source *source,
               const struct torch_place *place, unsigned char *array, struct accel_error *err)
{
    uint64_t first, bytes = torch_dtype_bytes (tensor->dtype);
    for (int i = 0; i < tensor->ndim; i++)
        bytes *= tensor->sizes[i];
    if (entry->size < tensor->reach)
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s: '%.80s' has %llu bytes, but its tensor needs %llu", source->path,
                           entry->name, (unsigned long long) entry->size, (unsigned long long) tensor->reach);
    if (!tensor->reach)
        return ACCEL_OK;
    if (find_place (place, &first) && torch_tensor_is_contiguous (tensor) && !tensor->offset && entry->size == bytes)
        return zip_read_entry (entry, source, array + first * torch_dtype_bytes (tensor->dtype), err);
    AUTO_FREE unsigned char *storage = entry->size > SIZE_MAX ? NULL : malloc ((size_t) entry->size);
    if (!storage)
        return accel_fail (err, ACCEL_ERR_NOMEM, "%s: cannot allocate %llu bytes of memory", source->path,
                           (unsigned long long) entry->size);
    enum accel_status status = zip_read_entry (entry, source, storage, err);
    if (!status)
        scatter (tensor, storage, place, array);
    return status;
}

/* PREFIX is the one folder of the archive, whose name depends on PyTorch's version. */
const struct zip_entry *
torch_find_entry (const struct zip *zip, const struct zip_entry *pickle, const char *folder, const char *name)
{
    char path[512];
    int prefix = (int) (strchr (pickle->name, '/') - pickle->name);
    int length = snprintf (path, sizeof path, "%.*s/%s%s", prefix, pickle->name, folder, name);
    return length > 0 && (size_t) length < sizeof path ? zip_find (zip, path) : NULL;
}

const struct zip_entry *
torch_find_pickle (const struct zip *zip)
{
    for (size_t i = 0; i < zip->count; i++) {
        const char *slash = strchr (zip->entries[i].name, '/');
        if (slash && slash - zip->entries[i].name < 256 && !strcmp (slash, "/data.pkl"))
            return &zip->entries[i];
    }
    return NULL;
}

static enum accel_status
read_pickle (struct torch_tensor *tensor, const struct zip_entry *entry, const struct source *source,
             struct accel_error *err)
{
    if (entry->size > MAX_PICKLE)
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s: '%.80s' has %llu bytes, too many for one tensor", source->path,
                           entry->name, (unsigned long long) entry->size);
    AUTO_FREE char *text = malloc ((size_t) entry->size + 1);
    if (!text)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a pickle");
    enum accel_status status = zip_read_entry (entry, source, text, err);
    if (status)
        return status;
    status = torch_tensor_parse (tensor, text, (size_t) entry->size, err);
    return status ? accel_fail_in (err, status, "%s: '%.80s' at byte %llu", source->path, entry->name,
                                   (unsigned long long) entry->begin)
                  : ACCEL_OK;
}

enum accel_status
torch_check_byte_order (const struct zip *zip, const struct zip_entry *pickle, const struct source *source,
                        struct accel_error *err)
{
    const struct zip_entry *entry = torch_find_entry (zip, pickle, "", "byteorder");
    char text[16] = "";
    if (!entry)
        return ACCEL_OK;
    if (entry->size < sizeof text) {
        enum accel_status status = zip_read_entry (entry, source, text, err);
        if (status)
            return status;
    }
    return strcmp (text, "little") ? accel_fail (err, ACCEL_ERR_UNSUPPORTED, "%s: written by a big-endian machine",
                                                 source->path)
                                   : ACCEL_OK;
}

/* Find the tensor in an archive, and its elements; it must have the type and the sizes that are expected. */
static enum accel_status
find_elements (const struct zip *zip, const struct source *source, enum safetensors_dtype dtype, int ndim,
               const uint64_t *sizes, struct torch_tensor *tensor, const struct zip_entry **elements,
               struct accel_error *err)
{
    const struct zip_entry *pickle = torch_find_pickle (zip);
    if (!pickle)
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s: not an archive of torch.save: it lacks data.pkl", source->path);
    enum accel_status status = read_pickle (tensor, pickle, source, err);
    if (!status)
        status = torch_check_byte_order (zip, pickle, source, err);
    if (status)
        return status;
    bool fits = tensor->dtype == dtype && tensor->ndim == ndim;
    for (int i = 0; fits && i < ndim; i++)
        fits = tensor->sizes[i] == sizes[i];
    if (!fits)
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s: '%.80s' at byte %llu has another shape or type than the "
                           "metadata says", source->path, pickle->name, (unsigned long long) pickle->begin);
    *elements = torch_find_entry (zip, pickle, "data/", tensor->key);
    if (!*elements)
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s: the storage '%.60s' is missing in its archive", source->path,
                           tensor->key);
    return ACCEL_OK;
}

enum accel_status
torch_tensor_read (const struct source *source, uint64_t begin, uint64_t end, enum safetensors_dtype dtype,
                   const struct torch_place *place, void *array, struct accel_error *err)
{
    struct zip zip;
    struct torch_tensor tensor;
    const struct zip_entry *elements;
    enum accel_status status = zip_read (&zip, source, begin, end, err);
    if (!status)
        status = find_elements (&zip, source, dtype, place->ndim, place->sizes, &tensor, &elements, err);
    if (!status)
        status = read_elements (&tensor, elements, source, place, array, err);
    zip_release (&zip);
    return status;
}

enum accel_status
torch_tensor_find (const struct source *source, uint64_t begin, uint64_t end, enum safetensors_dtype dtype, int ndim,
                   const uint64_t *sizes, uint64_t *elements, struct accel_error *err)
{
    struct zip zip;
    struct torch_tensor tensor;
    const struct zip_entry *entry;
    enum accel_status status = zip_read (&zip, source, begin, end, err);
    if (!status)
        status = find_elements (&zip, source, dtype, ndim, sizes, &tensor, &entry, err);
    if (!status && (tensor.offset || !torch_tensor_is_contiguous (&tensor) || entry->size < tensor.reach))
        status = accel_fail (err, ACCEL_ERR_UNSUPPORTED, "%s: '%.80s' is not contiguous", source->path, entry->name);
    if (!status)
        *elements = entry->begin;
    zip_release (&zip);
    return status;
}

/* ---- the names in pickles ---- */

#define DTYPE_ROWS                                                   \
    { "torch", "bool", PICKLE_IS_CONSTANT, SAFETENSORS_BOOL },       \
    { "torch", "uint8", PICKLE_IS_CONSTANT, SAFETENSORS_U8 },        \
    { "torch", "int8", PICKLE_IS_CONSTANT, SAFETENSORS_I8 },         \
    { "torch", "int16", PICKLE_IS_CONSTANT, SAFETENSORS_I16 },       \
    { "torch", "uint16", PICKLE_IS_CONSTANT, SAFETENSORS_U16 },      \
    { "torch", "int32", PICKLE_IS_CONSTANT, SAFETENSORS_I32 },       \
    { "torch", "uint32", PICKLE_IS_CONSTANT, SAFETENSORS_U32 },      \
    { "torch", "int64", PICKLE_IS_CONSTANT, SAFETENSORS_I64 },       \
    { "torch", "uint64", PICKLE_IS_CONSTANT, SAFETENSORS_U64 },      \
    { "torch", "float16", PICKLE_IS_CONSTANT, SAFETENSORS_F16 },     \
    { "torch", "bfloat16", PICKLE_IS_CONSTANT, SAFETENSORS_BF16 },   \
    { "torch", "float32", PICKLE_IS_CONSTANT, SAFETENSORS_F32 },     \
    { "torch", "float64", PICKLE_IS_CONSTANT, SAFETENSORS_F64 },     \
    { "torch", "complex64", PICKLE_IS_CONSTANT, SAFETENSORS_C64 },   \
    { "torch", "complex128", PICKLE_IS_CONSTANT, TORCH_NO_DTYPE },   \
    { "torch", "complex32", PICKLE_IS_CONSTANT, TORCH_NO_DTYPE },    \
    { "torch", "float8_e4m3fn", PICKLE_IS_CONSTANT, SAFETENSORS_F8_E4M3 },         \
    { "torch", "float8_e5m2", PICKLE_IS_CONSTANT, SAFETENSORS_F8_E5M2 },           \
    { "torch", "float8_e4m3fnuz", PICKLE_IS_CONSTANT, SAFETENSORS_F8_E4M3FNUZ },   \
    { "torch", "float8_e5m2fnuz", PICKLE_IS_CONSTANT, SAFETENSORS_F8_E5M2FNUZ },   \
    { "torch", "float8_e8m0fnu", PICKLE_IS_CONSTANT, SAFETENSORS_F8_E8M0 },        \
    { "collections", "OrderedDict", PICKLE_MAKES_DICT, TORCH_ORDERED_DICT }

#define TENSOR_ROWS \
    { "torch._utils", "_rebuild_tensor_v2", PICKLE_MAKES_OBJECT, TORCH_REBUILD_TENSOR }, \
    { "torch._utils", "_rebuild_tensor_v3", PICKLE_MAKES_OBJECT, TORCH_REBUILD_TENSOR_V3 }, \
    { "torch._utils", "_rebuild_parameter", PICKLE_MAKES_OBJECT, TORCH_REBUILD_PARAMETER }, \
    { "torch._utils", "_rebuild_parameter_with_state", PICKLE_MAKES_OBJECT, TORCH_REBUILD_PARAMETER }, \
    { "torch", "BoolStorage", PICKLE_IS_CONSTANT, SAFETENSORS_BOOL }, \
    { "torch", "ByteStorage", PICKLE_IS_CONSTANT, SAFETENSORS_U8 }, \
    { "torch", "CharStorage", PICKLE_IS_CONSTANT, SAFETENSORS_I8 }, \
    { "torch", "ShortStorage", PICKLE_IS_CONSTANT, SAFETENSORS_I16 }, \
    { "torch", "IntStorage", PICKLE_IS_CONSTANT, SAFETENSORS_I32 }, \
    { "torch", "LongStorage", PICKLE_IS_CONSTANT, SAFETENSORS_I64 }, \
    { "torch", "HalfStorage", PICKLE_IS_CONSTANT, SAFETENSORS_F16 }, \
    { "torch", "BFloat16Storage", PICKLE_IS_CONSTANT, SAFETENSORS_BF16 }, \
    { "torch", "FloatStorage", PICKLE_IS_CONSTANT, SAFETENSORS_F32 }, \
    { "torch", "DoubleStorage", PICKLE_IS_CONSTANT, SAFETENSORS_F64 }, \
    { "torch", "ComplexFloatStorage", PICKLE_IS_CONSTANT, SAFETENSORS_C64 }, \
    { "torch", "ComplexDoubleStorage", PICKLE_IS_CONSTANT, TORCH_NO_DTYPE }, \
    { "torch.storage", "UntypedStorage", PICKLE_IS_CONSTANT, TORCH_UNTYPED_STORAGE }, \
    { "torch", "UntypedStorage", PICKLE_IS_CONSTANT, TORCH_UNTYPED_STORAGE }, \
    { "torch", "Size", PICKLE_MAKES_TUPLE, TORCH_SIZE }

const struct pickle_name torch_tensor_names[] = {
    TENSOR_ROWS,
    DTYPE_ROWS,
    { 0 },
};

/* NumPy's random numbers are among them, which are not used. */
const struct pickle_name torch_state_names[] = {
    { "numpy", "ndarray", PICKLE_IS_CONSTANT, TORCH_OTHER },
    { "numpy", "dtype", PICKLE_MAKES_OBJECT, TORCH_OTHER },
    { "numpy._core.multiarray", "_reconstruct", PICKLE_MAKES_OBJECT, TORCH_OTHER },
    { "numpy.core.multiarray", "_reconstruct", PICKLE_MAKES_OBJECT, TORCH_OTHER }, /* before NumPy 2 */
    { "_codecs", "encode", PICKLE_MAKES_OBJECT, TORCH_OTHER },
    TENSOR_ROWS,
    DTYPE_ROWS,
    { 0 },
};

#define METADATA "torch.distributed.checkpoint.metadata"
#define OLD_METADATA "torch.distributed._shard.sharded_tensor.metadata" /* before PyTorch 2.4 */

const struct pickle_name torch_metadata_names[] = {
    { METADATA, "Metadata", PICKLE_MAKES_OBJECT, TORCH_METADATA },
    { METADATA, "TensorStorageMetadata", PICKLE_MAKES_OBJECT, TORCH_TENSOR_METADATA },
    { METADATA, "BytesStorageMetadata", PICKLE_MAKES_OBJECT, TORCH_BYTES_METADATA },
    { METADATA, "ChunkStorageMetadata", PICKLE_MAKES_OBJECT, TORCH_CHUNK_METADATA },
    { METADATA, "TensorProperties", PICKLE_MAKES_OBJECT, TORCH_PROPERTIES },
    { OLD_METADATA, "TensorProperties", PICKLE_MAKES_OBJECT, TORCH_PROPERTIES },
    { METADATA, "MetadataIndex", PICKLE_MAKES_OBJECT, TORCH_INDEX },
    { METADATA, "_MEM_FORMAT_ENCODING", PICKLE_MAKES_OBJECT, TORCH_OTHER },
    { OLD_METADATA, "MEM_FORMAT_ENCODING", PICKLE_MAKES_OBJECT, TORCH_OTHER },
    { METADATA, "StorageMeta", PICKLE_MAKES_OBJECT, TORCH_OTHER },
    { "torch.distributed.checkpoint.filesystem", "_StorageInfo", PICKLE_MAKES_OBJECT, TORCH_STORAGE_INFO },
    { "torch.serialization", "_get_layout", PICKLE_MAKES_OBJECT, TORCH_LAYOUT },
    { "torch", "Size", PICKLE_MAKES_TUPLE, TORCH_SIZE },
    { "pathlib", "PosixPath", PICKLE_MAKES_OBJECT, TORCH_OTHER }, /* where the checkpoint was written; not used */
    { "pathlib", "WindowsPath", PICKLE_MAKES_OBJECT, TORCH_OTHER },
    { "pathlib._local", "PosixPath", PICKLE_MAKES_OBJECT, TORCH_OTHER },
    { "pathlib._local", "WindowsPath", PICKLE_MAKES_OBJECT, TORCH_OTHER },
    { "builtins", "getattr", PICKLE_MAKES_OBJECT, TORCH_OTHER }, /* Python 3.11 writes members of an Enum so */
    DTYPE_ROWS,
    { 0 },
};

const char *
torch_dtype_name (enum safetensors_dtype dtype)
{
    const struct pickle_name *row = torch_metadata_names;
    while (row->module && (row->id != (int) dtype || strcmp (row->module, "torch")))
        row++;
    return row->name;
}

enum safetensors_dtype
torch_dtype (const struct pickle_value *value)
{
    if (!value || value->type != PICKLE_NAME || value->name->id >= (int) SAFETENSORS_DTYPE_COUNT)
        return SAFETENSORS_DTYPE_COUNT;
    return (enum safetensors_dtype) value->name->id;
}

bool
torch_is_call (const struct pickle_value *value, enum torch_name id, size_t least, size_t most)
{
    return value && value->type == PICKLE_OBJECT && value->name->id == (int) id && value->items[0]->count >= least
           && value->items[0]->count <= most;
}

int
torch_sizes (const struct pickle_value *value, uint64_t *sizes, int most)
{
    if (!value || value->type != PICKLE_TUPLE || value->count > (size_t) most)
        return -1;
    for (size_t i = 0; i < value->count; i++) {
        if (value->items[i]->type != PICKLE_INT || value->items[i]->integer < 0)
            return -1;
        sizes[i] = (uint64_t) value->items[i]->integer;
    }
    return (int) value->count;
}
