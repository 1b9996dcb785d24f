/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of torch.distributed.checkpoint: their metadata, and the elements of their tensors; see dcp.h. */
#include <config.h>

#include "files/dcp.h"

#include "files/error.h"
#include "files/pickle.h"
#include "files/torch_tensor.h"
#include "util/cleanup.h"
#include "util/printable.h"
#include "util/text.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_CHUNKS = 1 << 15 /* of one tensor */ };

/* A row of storage_data: the key of a chunk, and where it lies. */
struct stored {
    const struct pickle_value *name; /* of the tensor, a string */
    const struct pickle_value *offsets; /* a tuple; NULL for objects */
    const struct pickle_value *info; /* its state */
};

struct reading {
    struct dcp *dcp;
    const struct pickle_value *entries; /* state_dict_metadata */
    struct stored *stored;              /* [stored_count], sorted */
    size_t stored_count;
    const struct pickle_value **files;  /* [file_count] names, sorted, as dcp.files */
    size_t file_count;
    const struct pickle_value *const **planned; /* [planned_count] pairs of planner_data, sorted by their keys */
    size_t planned_count;
    struct accel_error *err;
};

static enum accel_status
fail_metadata (struct accel_error *err, const char *what)
{
    return accel_fail (err, ACCEL_ERR_FORMAT, "not the metadata of a distributed checkpoint: %s", what);
}

static enum accel_status
fail_memory (struct accel_error *err)
{
    return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for the metadata");
}

/* The state of an object of the class @p id; NULL if @p value (nullable) is something else. */
static const struct pickle_value *
state_of (const struct pickle_value *value, enum torch_name id)
{
    return torch_is_call (value, id, 0, 0) && value->count == 2 ? value->items[1] : NULL;
}

/* ---- where the chunks lie ---- */

static int
compare_texts (const struct pickle_value *a, const struct pickle_value *b)
{
    size_t least = a->count < b->count ? a->count : b->count;
    int order = least ? memcmp (a->text, b->text, least) : 0;
    return order ? order : (a->count > b->count) - (a->count < b->count);
}

static int
compare_stored (const void *a, const void *b)
{
    const struct stored *x = a, *y = b;
    int order = compare_texts (x->name, y->name);
    size_t x_count = x->offsets ? x->offsets->count : 0, y_count = y->offsets ? y->offsets->count : 0;
    if (!order)
        order = (x_count > y_count) - (x_count < y_count);
    for (size_t i = 0; i < x_count && !order; i++)
        order = (x->offsets->items[i]->integer > y->offsets->items[i]->integer)
                - (x->offsets->items[i]->integer < y->offsets->items[i]->integer);
    return order;
}

static bool
is_sizes (const struct pickle_value *value)
{
    uint64_t unused[TORCH_MAX_DIMS];
    return torch_sizes (value, unused, TORCH_MAX_DIMS) >= 0;
}

static bool
is_plain_name (const char *name)
{
    return *name && !strchr (name, '/') && strcmp (name, ".") && strcmp (name, "..") && printable_is_clean (name);
}

static int
compare_file_names (const void *a, const void *b)
{
    return compare_texts (*(const struct pickle_value *const *) a, *(const struct pickle_value *const *) b);
}

/* All names of files, each once, in dcp.files and in reading->files. */
static enum accel_status
list_files (struct reading *reading)
{
    reading->files = malloc ((reading->stored_count + 1) * sizeof *reading->files);
    if (!reading->files)
        return fail_memory (reading->err);
    for (size_t i = 0; i < reading->stored_count; i++) {
        reading->files[i] = pickle_find (reading->stored[i].info, "relative_path");
        if (!reading->files[i] || reading->files[i]->type != PICKLE_STR)
            return fail_metadata (reading->err, "a chunk has no file name");
    }
    if (reading->stored_count)
        qsort (reading->files, reading->stored_count, sizeof *reading->files, compare_file_names);
    for (size_t i = 0; i < reading->stored_count; i++) {
        if (i && !compare_texts (reading->files[i], reading->files[reading->file_count - 1]))
            continue;
        AUTO_FREE char *name = pickle_copy_text (reading->files[i]);
        if (!name)
            return fail_metadata (reading->err, "a file name contains the character 0");
        if (!is_plain_name (name))
            return accel_fail (reading->err, ACCEL_ERR_FORMAT, "'%.80s' is not the name of a file in the checkpoint's "
                               "folder", name);
        strlist_add (&reading->dcp->files, name);
        reading->files[reading->file_count++] = reading->files[i];
    }
    return reading->dcp->files.failed ? fail_memory (reading->err) : ACCEL_OK;
}

static enum accel_status
sort_stored (struct reading *reading, const struct pickle_value *data)
{
    if (!data || data->type != PICKLE_DICT)
        return fail_metadata (reading->err, "no dict storage_data");
    reading->stored = malloc ((data->count + 1) * sizeof *reading->stored);
    if (!reading->stored)
        return fail_memory (reading->err);
    for (size_t i = 0; i < data->count; i += 2) {
        const struct pickle_value *key = state_of (data->items[i], TORCH_INDEX);
        const struct pickle_value *info = state_of (data->items[i + 1], TORCH_STORAGE_INFO);
        const struct pickle_value *name = pickle_find (key, "fqn"), *offsets = pickle_find (key, "offset");
        bool has_offsets = offsets && offsets->type != PICKLE_NONE;
        if (!info || !name || name->type != PICKLE_STR || (has_offsets && !is_sizes (offsets)))
            return fail_metadata (reading->err, "a row of storage_data is invalid");
        reading->stored[reading->stored_count++] = (struct stored){ name, has_offsets ? offsets : NULL, info };
    }
    if (reading->stored_count)
        qsort (reading->stored, reading->stored_count, sizeof *reading->stored, compare_stored);
    for (size_t i = 1; i < reading->stored_count; i++)
        if (!compare_stored (&reading->stored[i - 1], &reading->stored[i]))
            return fail_metadata (reading->err, "a chunk is in storage_data twice");
    return list_files (reading);
}

static enum accel_status
parse_info (struct reading *reading, const struct pickle_value *info, struct dcp_chunk *chunk)
{
    const struct pickle_value *path = pickle_find (info, "relative_path"), *begin = pickle_find (info, "offset"),
                              *length = pickle_find (info, "length"),
                              *transforms = pickle_find (info, "transform_descriptors");
    if (!begin || begin->type != PICKLE_INT || begin->integer < 0 || !length || length->type != PICKLE_INT
        || length->integer < 0 || length->integer > INT64_MAX - begin->integer)
        return fail_metadata (reading->err, "the place of a chunk is invalid");
    if (transforms && transforms->type != PICKLE_NONE && (transforms->type >= PICKLE_NAME || transforms->count))
        return accel_fail (reading->err, ACCEL_ERR_UNSUPPORTED, "the chunks were written by an extension (such as "
                           "compression), which is not supported");
    const struct pickle_value **file
        = bsearch (&path, reading->files, reading->file_count, sizeof *reading->files, compare_file_names);
    chunk->file = (size_t) (file - reading->files); /* it is there: list_files() has seen this row */
    chunk->begin = (uint64_t) begin->integer;
    chunk->end = chunk->begin + (uint64_t) length->integer;
    return ACCEL_OK;
}

/* ---- one tensor ---- */

/* The product of @p sizes times @p bytes. @return false if it overflows */
static bool
multiply (const uint64_t *sizes, int ndim, uint64_t bytes, uint64_t *product)
{
    bool overflow = false;
    *product = bytes;
    for (int i = 0; i < ndim; i++)
        overflow = __builtin_mul_overflow (*product, sizes[i], product) || overflow;
    for (int i = 0; i < ndim; i++)
        if (!sizes[i]) {
            *product = 0;
            return true;
        }
    return !overflow && *product <= SIZE_MAX / 2;
}

static bool
boxes_overlap (const struct dcp_chunk *a, const struct dcp_chunk *b, int ndim)
{
    for (int i = 0; i < ndim; i++)
        if (a->offsets[i] >= b->offsets[i] + b->sizes[i] || b->offsets[i] >= a->offsets[i] + a->sizes[i])
            return false;
    return true;
}

static int
compare_chunks (const void *a, const void *b, void *dimension)
{
    const struct dcp_chunk *x = a, *y = b;
    int i = *(int *) dimension;
    return (x->offsets[i] > y->offsets[i]) - (x->offsets[i] < y->offsets[i]);
}

/* The chunks lie in the tensor, do not overlap, and have as many elements as it: so they cover it.  Pairs are compared
 * along one dimension in which the chunks differ, so that usually each has few neighbours. */
static enum accel_status
check_cover (const struct dcp_tensor *tensor, struct accel_error *err)
{
    uint64_t total = 0, bytes;
    int dimension = 0;
    for (size_t c = 0; c < tensor->chunk_count; c++) {
        const struct dcp_chunk *chunk = &tensor->chunks[c];
        for (int i = 0; i < tensor->ndim; i++) {
            if (chunk->offsets[i] > tensor->shape[i] || chunk->sizes[i] > tensor->shape[i] - chunk->offsets[i])
                return fail_metadata (err, "a chunk is outside of its tensor");
            if (chunk->offsets[i] != tensor->chunks[0].offsets[i])
                dimension = i;
        }
        if (!multiply (chunk->sizes, tensor->ndim, torch_dtype_bytes (tensor->dtype), &bytes)
            || __builtin_add_overflow (total, bytes, &total))
            return fail_metadata (err, "the size of a chunk overflows");
    }
    if (total != tensor->bytes)
        return fail_metadata (err, "the chunks are not the whole tensor");
    if (tensor->chunk_count < 2)
        return ACCEL_OK;
    qsort_r (tensor->chunks, tensor->chunk_count, sizeof *tensor->chunks, compare_chunks, &dimension);
    for (size_t a = 0; a < tensor->chunk_count; a++)
        for (size_t b = a + 1; b < tensor->chunk_count; b++) {
            const struct dcp_chunk *x = &tensor->chunks[a], *y = &tensor->chunks[b];
            if (y->offsets[dimension] >= x->offsets[dimension] + x->sizes[dimension])
                break;
            if (boxes_overlap (x, y, tensor->ndim))
                return fail_metadata (err, "chunks overlap");
        }
    return ACCEL_OK;
}

static enum accel_status
parse_chunk (struct reading *reading, struct dcp_tensor *tensor, const struct pickle_value *key,
             const struct pickle_value *value, uint64_t *numbers)
{
    const struct pickle_value *state = state_of (value, TORCH_CHUNK_METADATA);
    const struct pickle_value *offsets = pickle_find (state, "offsets");
    struct stored wanted = { key, offsets, NULL };
    struct dcp_chunk *chunk = &tensor->chunks[tensor->chunk_count++];
    uint64_t bytes;
    if (torch_sizes (offsets, numbers, tensor->ndim) != tensor->ndim
        || torch_sizes (pickle_find (state, "sizes"), numbers + tensor->ndim, tensor->ndim) != tensor->ndim)
        return fail_metadata (reading->err, "a chunk's offsets or sizes are invalid");
    *chunk = (struct dcp_chunk){ .offsets = numbers, .sizes = numbers + tensor->ndim };
    if (multiply (chunk->sizes, tensor->ndim, 1, &bytes) && !bytes) { /* nothing to read; it need not be stored */
        tensor->chunk_count--;
        return ACCEL_OK;
    }
    const struct stored *found = reading->stored_count ? bsearch (&wanted, reading->stored, reading->stored_count,
                                                                  sizeof wanted, compare_stored)
                                                       : NULL;
    if (!found)
        return fail_metadata (reading->err, "storage_data lacks a chunk");
    return parse_info (reading, found->info, chunk);
}

static enum accel_status
parse_chunks (struct reading *reading, struct dcp_tensor *tensor, const struct pickle_value *key,
              const struct pickle_value *chunks)
{
    if (!chunks || chunks->type != PICKLE_LIST)
        return fail_metadata (reading->err, "a tensor has no list of chunks");
    if (chunks->count > MAX_CHUNKS)
        return fail_metadata (reading->err, "a tensor has more than 32768 chunks");
    size_t ndim = (size_t) tensor->ndim;
    uint64_t *numbers = realloc (tensor->numbers, (ndim + chunks->count * 2 * ndim + 1) * sizeof *numbers);
    if (!numbers)
        return fail_memory (reading->err);
    tensor->shape = tensor->numbers = numbers;
    tensor->chunks = calloc (chunks->count + 1, sizeof *tensor->chunks);
    if (!tensor->chunks)
        return fail_memory (reading->err);
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; i < chunks->count && !status; i++)
        status = parse_chunk (reading, tensor, key, chunks->items[i], numbers + ndim + i * 2 * ndim);
    return status ? status : check_cover (tensor, reading->err);
}

/* The state of TensorProperties: (dtype, layout, requires_grad, memory format, pinned[, strides]) */
static enum accel_status
parse_properties (struct dcp_tensor *tensor, const struct pickle_value *state, struct accel_error *err)
{
    if (!state || state->type != PICKLE_TUPLE || state->count < 5 || state->items[0]->type != PICKLE_NAME)
        return fail_metadata (err, "a tensor has no properties");
    const struct pickle_value *dtype = state->items[0], *layout = state->items[1];
    tensor->dtype = torch_dtype (dtype);
    if (tensor->dtype == SAFETENSORS_DTYPE_COUNT)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "safetensors has no element type for %s.%s", dtype->name->module,
                           dtype->name->name);
    if (!torch_is_call (layout, TORCH_LAYOUT, 1, 1) || !pickle_is_text (layout->items[0]->items[0], "torch.strided"))
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "only dense tensors are supported (torch.strided)");
    return ACCEL_OK;
}

static enum accel_status
parse_tensor (struct reading *reading, struct dcp_tensor *tensor, const struct pickle_value *key,
              const struct pickle_value *state)
{
    uint64_t sizes[TORCH_MAX_DIMS];
    enum accel_status status
        = parse_properties (tensor, state_of (pickle_find (state, "properties"), TORCH_PROPERTIES), reading->err);
    if (status)
        return status;
    tensor->ndim = torch_sizes (pickle_find (state, "size"), sizes, TORCH_MAX_DIMS);
    if (tensor->ndim < 0 || !multiply (sizes, tensor->ndim, torch_dtype_bytes (tensor->dtype), &tensor->bytes))
        return fail_metadata (reading->err, "a tensor's size is invalid");
    tensor->numbers = malloc (sizeof sizes);
    if (!tensor->numbers)
        return fail_memory (reading->err);
    memcpy (tensor->numbers, sizes, sizeof sizes);
    return parse_chunks (reading, tensor, key, pickle_find (state, "chunks"));
}

/* ---- names ---- */

static int
compare_planned (const void *a, const void *b)
{
    const struct pickle_value *const *const *x = a, *const *const *y = b;
    return compare_texts (**x, **y);
}

/* planner_data: {name: path}.  Other planners than PyTorch's have something else, or nothing, there. */
static enum accel_status
sort_paths (struct reading *reading, const struct pickle_value *paths)
{
    size_t count = paths && paths->type == PICKLE_DICT ? paths->count / 2 : 0;
    reading->planned = malloc ((count + 1) * sizeof *reading->planned);
    if (!reading->planned)
        return fail_memory (reading->err);
    for (size_t i = 0; i < count; i++)
        if (paths->items[2 * i]->type == PICKLE_STR && paths->items[2 * i + 1]->type == PICKLE_TUPLE
            && paths->items[2 * i + 1]->count)
            reading->planned[reading->planned_count++]
                = (const struct pickle_value *const *) paths->items + 2 * i;
    if (reading->planned_count)
        qsort (reading->planned, reading->planned_count, sizeof *reading->planned, compare_planned);
    return ACCEL_OK;
}

/* The path of an entry in the saved dictionary: a tuple of strings and numbers of list elements; NULL: it has none. */
static const struct pickle_value *
path_of (const struct reading *reading, const struct pickle_value *key)
{
    const struct pickle_value *const *wanted = &key, *const **found = NULL;
    if (reading->planned_count)
        found = bsearch (&wanted, reading->planned, reading->planned_count, sizeof *reading->planned, compare_planned);
    return found ? (*found)[1] : NULL;
}

static bool
add_part (struct strbuf *name, const struct pickle_value *part, const char *separator)
{
    strbuf_add (name, separator);
    if (part->type == PICKLE_INT)
        strbuf_printf (name, "%lld", (long long) part->integer);
    else if (part->type == PICKLE_STR && !memchr (part->text, '\0', part->count))
        strbuf_add_bytes (name, part->text, part->count);
    else
        return false;
    return true;
}

static enum accel_status
make_name (const struct reading *reading, const struct pickle_value *key, const struct pickle_value *path, size_t skip,
           char **result)
{
    AUTO_STRBUF struct strbuf name = { 0 };
    bool good = path || add_part (&name, key, "");
    for (size_t i = skip; path && i < path->count; i++)
        good = add_part (&name, path->items[i], i > skip ? "." : "") && good;
    if (!good)
        return fail_metadata (reading->err, "a name is not text, or contains the character 0");
    *result = strbuf_take (&name);
    return *result ? ACCEL_OK : fail_memory (reading->err);
}

/* 1 if all paths begin with the same key, and continue after it. */
static size_t
common_keys (const struct reading *reading)
{
    const struct pickle_value *first = NULL;
    for (size_t i = 0; i < reading->entries->count; i += 2) {
        const struct pickle_value *path = path_of (reading, reading->entries->items[i]);
        if (!path || path->count < 2 || path->items[0]->type != PICKLE_STR
            || (first && compare_texts (first, path->items[0])))
            return 0;
        first = path->items[0];
    }
    return 1;
}

static enum accel_status
check_names (const struct dcp *dcp, struct accel_error *err)
{
    AUTO_FREE char **names = malloc ((dcp->count + 1) * sizeof *names);
    if (!names)
        return fail_memory (err);
    for (size_t i = 0; i < dcp->count; i++)
        names[i] = dcp->tensors[i].name;
    if (dcp->count)
        qsort (names, dcp->count, sizeof *names, text_compare);
    for (size_t i = 1; i < dcp->count; i++)
        if (!strcmp (names[i - 1], names[i]))
            return accel_fail (err, ACCEL_ERR_FORMAT, "duplicate tensor '%.80s'", names[i]);
    return ACCEL_OK;
}

/* ---- the whole ---- */

static enum accel_status
parse_entry (struct reading *reading, size_t number, size_t skip)
{
    struct dcp *dcp = reading->dcp;
    const struct pickle_value *key = reading->entries->items[2 * number];
    const struct pickle_value *value = reading->entries->items[2 * number + 1];
    const struct pickle_value *state = state_of (value, TORCH_TENSOR_METADATA);
    AUTO_FREE char *name = NULL;
    if (key->type != PICKLE_STR || (!state && !torch_is_call (value, TORCH_BYTES_METADATA, 0, 0)))
        return fail_metadata (reading->err, "an entry of state_dict_metadata is invalid");
    enum accel_status status = make_name (reading, key, path_of (reading, key), skip, &name);
    if (status)
        return status;
    if (!state) {
        strlist_add (&dcp->objects, name);
        return dcp->objects.failed ? fail_memory (reading->err) : ACCEL_OK;
    }
    struct dcp_tensor *tensor = &dcp->tensors[dcp->count++];
    tensor->name = name;
    name = NULL;
    status = parse_tensor (reading, tensor, key, state);
    return status ? accel_fail_in (reading->err, status, "tensor '%.80s'", tensor->name) : ACCEL_OK;
}

static enum accel_status
parse_all (struct reading *reading, const struct pickle_value *metadata)
{
    struct dcp *dcp = reading->dcp;
    reading->entries = pickle_find (metadata, "state_dict_metadata");
    if (!reading->entries || reading->entries->type != PICKLE_DICT)
        return fail_metadata (reading->err, "no dict state_dict_metadata");
    for (size_t i = 0; i < reading->entries->count; i += 2)
        if (reading->entries->items[i]->type != PICKLE_STR)
            return fail_metadata (reading->err, "an entry of state_dict_metadata is invalid");
    enum accel_status status = sort_stored (reading, pickle_find (metadata, "storage_data"));
    if (!status)
        status = sort_paths (reading, pickle_find (metadata, "planner_data"));
    if (status)
        return status;
    dcp->tensors = calloc (reading->entries->count / 2 + 1, sizeof *dcp->tensors);
    if (!dcp->tensors)
        return fail_memory (reading->err);
    size_t skip = common_keys (reading);
    for (size_t i = 0; i < reading->entries->count / 2 && !status; i++)
        status = parse_entry (reading, i, skip);
    return status ? status : check_names (dcp, reading->err);
}

enum accel_status
dcp_parse (struct dcp *dcp, const char *text, size_t length, struct accel_error *err)
{
    struct pickle pickle;
    struct reading reading = { .dcp = dcp, .err = err };
    *dcp = (struct dcp){ 0 };
    enum accel_status status = pickle_read (&pickle, text, length, torch_metadata_names, err);
    if (!status) {
        const struct pickle_value *metadata = state_of (pickle.root, TORCH_METADATA);
        status = metadata ? parse_all (&reading, metadata) : fail_metadata (err, "it is another object");
    }
    free (reading.stored);
    free (reading.files);
    free (reading.planned);
    pickle_release (&pickle);
    if (status)
        dcp_release (dcp);
    return status;
}

void
dcp_release (struct dcp *dcp)
{
    int saved = errno;
    for (size_t i = 0; i < dcp->count; i++) {
        free (dcp->tensors[i].name);
        free (dcp->tensors[i].numbers);
        free (dcp->tensors[i].chunks);
    }
    free (dcp->tensors);
    strlist_release (&dcp->files);
    strlist_release (&dcp->objects);
    *dcp = (struct dcp){ 0 };
    errno = saved;
}

/* ---- the folder ---- */

enum { MAX_OPEN = 128 }; /* files at a time: one checkpoint can have thousands */

bool
dcp_is_folder (const char *path)
{
    struct stat info;
    AUTO_CLOSE int fd = open (path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 && !fstatat (fd, DCP_METADATA, &info, AT_SYMLINK_NOFOLLOW);
}

/* Files of the folder itself: what dcp_parse() accepted as a name has no '/', and links are refused. */
static enum accel_status
open_in (struct source *source, const struct dcp_folder *folder, const char *name, struct accel_error *err)
{
    struct accel_error own;
    AUTO_FREE char *path = NULL;
    *source = (struct source) SOURCE_CLOSED;
    err = err ? err : &own; /* its errno is read here */
    path = text_printf ("%s/%s", folder->path, name);
    if (!path)
        return accel_fail_nomem (err);
    enum accel_status status = source_open_in (source, folder->fd, name, path, false, err);
    if (status && err->sys_errno == ELOOP)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: is a symbolic link, which may lead out of its folder", path);
    return status;
}

static enum accel_status
read_metadata (struct dcp_folder *folder, struct accel_error *err)
{
    struct source source;
    enum accel_status status = open_in (&source, folder, DCP_METADATA, err);
    if (status)
        return status;
    if (source.size > PICKLE_MAX_BYTES) {
        status = accel_fail (err, ACCEL_ERR_FORMAT, "%s: has %llu bytes, but the maximum is %d", source.path,
                             (unsigned long long) source.size, PICKLE_MAX_BYTES);
        source_close (&source);
        return status;
    }
    AUTO_FREE char *text = malloc ((size_t) source.size + 1);
    if (!text)
        status = accel_fail (err, ACCEL_ERR_NOMEM, "%s: cannot allocate %llu bytes of memory", source.path,
                             (unsigned long long) source.size);
    else
        status = source_read (&source, 0, text, (size_t) source.size, err);
    if (!status && (status = dcp_parse (&folder->dcp, text, (size_t) source.size, err)))
        accel_fail_in (err, status, "%s", source.path);
    source_close (&source);
    return status;
}

enum accel_status
dcp_open (struct dcp_folder *folder, const char *path, struct accel_error *err)
{
    *folder = (struct dcp_folder){ .fd = -1 };
    folder->path = strdup (path);
    if (!folder->path)
        return accel_fail_nomem (err);
    folder->fd = open (path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->fd < 0)
        return accel_fail_errno (err, "%s", path);
    enum accel_status status = read_metadata (folder, err);
    if (status)
        return status;
    folder->sources = malloc ((folder->dcp.files.count + 1) * sizeof *folder->sources);
    if (!folder->sources)
        return accel_fail_nomem (err);
    for (size_t i = 0; i < folder->dcp.files.count; i++)
        folder->sources[i] = (struct source) SOURCE_CLOSED;
    return ACCEL_OK;
}

static void
close_sources (struct dcp_folder *folder)
{
    for (size_t i = 0; folder->sources && i < folder->dcp.files.count; i++)
        source_close (&folder->sources[i]);
    folder->open_count = 0;
}

static enum accel_status
open_file (struct dcp_folder *folder, size_t file, struct accel_error *err)
{
    if (folder->sources[file].fd >= 0)
        return ACCEL_OK;
    if (folder->open_count >= MAX_OPEN)
        close_sources (folder);
    enum accel_status status
        = open_in (&folder->sources[file], folder, folder->dcp.files.items[file], err);
    folder->open_count += !status;
    return status;
}

enum accel_status
dcp_read_tensor (struct dcp_folder *folder, size_t index, void *array, struct accel_error *err)
{
    const struct dcp_tensor *tensor = &folder->dcp.tensors[index];
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; i < tensor->chunk_count && !status; i++) {
        const struct dcp_chunk *chunk = &tensor->chunks[i];
        const struct torch_place place = { tensor->ndim, tensor->shape, chunk->offsets, chunk->sizes };
        status = open_file (folder, chunk->file, err);
        if (!status)
            status = torch_tensor_read (&folder->sources[chunk->file], chunk->begin, chunk->end, tensor->dtype, &place,
                                        array, err);
    }
    return status ? accel_fail_in (err, status, "tensor '%.80s'", tensor->name) : ACCEL_OK;
}

enum accel_status
dcp_read_chunk (struct dcp_folder *folder, const struct dcp_tensor *tensor, struct dcp_chunk *chunk, uint64_t at,
                void *bytes, size_t length, struct accel_error *err)
{
    enum accel_status status = open_file (folder, chunk->file, err);
    if (!status && !chunk->elements)
        status = torch_tensor_find (&folder->sources[chunk->file], chunk->begin, chunk->end, tensor->dtype,
                                    tensor->ndim, chunk->sizes, &chunk->elements, err);
    if (!status)
        status = source_read (&folder->sources[chunk->file], chunk->elements + at, bytes, length, err);
    return status ? accel_fail_in (err, status, "tensor '%.80s'", tensor->name) : ACCEL_OK;
}

void
dcp_close (struct dcp_folder *folder)
{
    int saved = errno;
    close_sources (folder);
    free (folder->sources);
    dcp_release (&folder->dcp);
    free (folder->path);
    if (folder->fd >= 0)
        close (folder->fd);
    *folder = (struct dcp_folder){ .fd = -1 };
    errno = saved;
}
