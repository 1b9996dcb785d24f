/* SPDX-License-Identifier: Apache-2.0 */
/* Sharded checkpoints; see sharded.h.
 *
 * A rank's list of what it has written is a file, not a message, so that the threads of an asynchronous save need no
 * communicator.  It has the boxes of files/dcp_write.h one after the other, as they are in memory. */
#include <config.h>

#include "lib/checkpoint/sharded.h"

#include "files/atomic_file.h"
#include "files/checksum.h"
#include "files/dcp.h"
#include "files/dcp_write.h"
#include "files/torch_tensor.h"
#include "lib/base/error.h"
#include "lib/checkpoint/nonfinite.h"
#include "lib/memory/memory.h"
#include "lib/state/state_runs.h"
#include "util/array.h"
#include "util/cleanup.h"
#include "util/io.h"
#include "util/text.h"

#include <string.h>
#include <sys/stat.h>

enum { PIECE = 1 << 20, MOST_LIST = 1 << 30 };

#define FILE_NAME "%s/__%d_0.distcp"
#define LIST_NAME ".boxes-%d" /* beside the file of a rank that has one */

/* ---- what a rank has ---- */

/* The boxes of this rank's tensors, in their order. */
struct boxes {
    struct dcp_box *all; /* [count]; names and shapes belong to the state dict */
    const struct state_tensor **of; /* [count] */
    size_t *from;           /* [count]: the first element, of those that the rank has of the tensor */
    size_t count;
    uint64_t bytes; /* of the file */
};

static void
boxes_release (struct boxes *boxes)
{
    free (boxes->all);
    free (boxes->of);
    free (boxes->from);
}

/* @return bytes of the archive besides the elements; 0: no memory */
static uint64_t
frame_of (const struct dcp_box *box)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    dcp_archive_head (&text, box, 0);
    dcp_archive_tail (&text, box, 0);
    return text.failed ? 0 : text.length;
}

static enum accel_status
add_box (struct boxes *boxes, const struct dcp_box *box, const struct state_tensor *tensor, size_t from,
         uint64_t elements, struct accel_error *err)
{
    uint64_t frame = frame_of (box);
    if (!frame || !array_room (&boxes->all, boxes->count, sizeof *boxes->all)
        || !array_room (&boxes->of, boxes->count, sizeof *boxes->of)
        || !array_room (&boxes->from, boxes->count, sizeof *boxes->from))
        return accel_fail_nomem (err);
    struct dcp_box *added = &boxes->all[boxes->count];
    *added = *box;
    added->begin = boxes->bytes;
    added->length = frame + elements * tensor_element_bytes (&tensor->view.dl);
    boxes->of[boxes->count] = tensor;
    boxes->from[boxes->count++] = from;
    boxes->bytes += added->length;
    return ACCEL_OK;
}

static enum accel_status
add_tensor (struct boxes *boxes, const struct state_tensor *tensor, int rank, struct accel_error *err)
{
    const DLTensor *dl = &tensor->view.dl;
    struct dcp_box box = { .name = tensor->name, .dtype = safetensors_from_dl (dl->dtype), .file = rank,
                           .ndim = tensor->is_stretch ? tensor->ndim : dl->ndim,
                           .shape = tensor->is_stretch ? tensor->shape : dl->shape };
    size_t count = accel_tensor_count (dl), at = 0;
    enum accel_status status = ACCEL_OK;
    if (box.dtype == SAFETENSORS_DTYPE_COUNT || !torch_dtype_name (box.dtype))
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "tensor '%.80s' has a type that torch does not have",
                           tensor->name);
    do {
        uint64_t elements = dcp_next_box (&box, tensor->from + at, tensor->from + count);
        status = add_box (boxes, &box, tensor, at, elements, err);
        at += elements;
    } while (!status && at < count);
    return status;
}

/* ---- writing ---- */

struct target {
    const struct atomic_file *file;
    uint64_t at;
    struct checksum checksum; /* of the whole file */
    uint32_t crc;             /* of a box */
    struct nonfinite nonfinite;
};

static enum accel_status
take_crc (void *user, const void *bytes, size_t length, struct accel_error *err)
{
    struct target *target = user;
    (void) err;
    target->crc = crc32_add (target->crc, bytes, length);
    return ACCEL_OK;
}

static enum accel_status
put (void *user, const void *bytes, size_t length, struct accel_error *err)
{
    struct target *target = user;
    checksum_add (&target->checksum, bytes, length);
    enum accel_status status = atomic_file_write (target->file, target->at, bytes, length, err);
    target->at += length;
    return status;
}

static enum accel_status
put_elements (void *user, const void *bytes, size_t length, struct accel_error *err)
{
    struct target *target = user;
    nonfinite_look (&target->nonfinite, bytes, length);
    return put (user, bytes, length, err);
}

static enum accel_status
put_text (struct target *target, const struct strbuf *text, struct accel_error *err)
{
    return text->failed ? accel_fail_nomem (err) : put (target, text->text, text->length, err);
}

/* The CRC is before the elements, which are read once for it. */
static enum accel_status
put_box (struct target *target, const struct boxes *boxes, size_t index, struct accel_error *err)
{
    AUTO_STRBUF struct strbuf head = { 0 };
    AUTO_STRBUF struct strbuf tail = { 0 };
    const struct dcp_box *box = &boxes->all[index];
    const struct state_tensor *tensor = boxes->of[index];
    DLTensor part = tensor->view.dl;
    int64_t count = 1;
    for (int i = 0; i < box->ndim; i++)
        count *= (int64_t) box->sizes[i];
    part.ndim = 1;
    part.shape = &count;
    part.strides = NULL;
    part.byte_offset += boxes->from[index] * tensor_element_bytes (&part);
    target->crc = 0;
    nonfinite_begin (&target->nonfinite, tensor, tensor->from + boxes->from[index]);
    enum accel_status status = memory_read_pieces (&part, PIECE, take_crc, target, err);
    if (status)
        return status;
    dcp_archive_head (&head, box, target->crc);
    dcp_archive_tail (&tail, box, target->crc);
    status = put_text (target, &head, err);
    if (!status)
        status = memory_read_pieces (&part, PIECE, put_elements, target, err);
    return status ? status : put_text (target, &tail, err);
}

static enum accel_status
write_file (const struct boxes *boxes, const char *folder, const char *name, struct manifest *manifest,
            struct accel_error *err)
{
    AUTO_FREE char *path = text_printf ("%s/%s", folder, name);
    struct atomic_file file = ATOMIC_FILE_NONE;
    struct target target = { .file = &file };
    enum accel_status status
        = path ? atomic_file_create (&file, path, true, boxes->bytes, err) : accel_fail_nomem (err);
    checksum_begin (&target.checksum);
    for (size_t i = 0; !status && i < boxes->count; i++)
        status = put_box (&target, boxes, i, err);
    if (!status)
        status = atomic_file_finish (&file, err);
    atomic_file_close (&file);
    if (!status && (!manifest_add_file (manifest, name, boxes->bytes, checksum_end (&target.checksum))
                    || !nonfinite_note (&target.nonfinite, manifest)))
        status = accel_fail_nomem (err);
    return status;
}

/* ---- the list of a rank ---- */

static enum accel_status
write_list (const struct boxes *boxes, const char *folder, const char *name, int rank, struct accel_error *err)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    AUTO_FREE char *path = text_printf ("%s/%s/" LIST_NAME, folder, name, rank);
    struct fail fail;
    for (size_t i = 0; i < boxes->count; i++) {
        const struct dcp_box *box = &boxes->all[i];
        uint64_t length = strlen (box->name);
        struct dcp_box plain = *box;
        plain.name = NULL;
        plain.shape = NULL;
        strbuf_add_bytes (&text, &plain, sizeof plain);
        strbuf_add_bytes (&text, box->shape, (size_t) box->ndim * sizeof *box->shape);
        strbuf_add_bytes (&text, &length, sizeof length);
        strbuf_add_bytes (&text, box->name, (size_t) length + 1);
    }
    if (!path || text.failed)
        return accel_fail_nomem (err);
    if (io_write_file (path, text.text, text.length, 0666, &fail))
        return accel_fail (err, ACCEL_ERR_SYSTEM, "%s", fail.text);
    return ACCEL_OK;
}

enum accel_status
sharded_write (const struct accel_state_dict *state, const char *folder, const char *name, int rank,
               struct manifest *manifest, struct accel_error *err)
{
    struct boxes boxes = { 0 };
    AUTO_FREE char *inner = text_printf ("%s/%s", folder, name);
    AUTO_FREE char *file = text_printf (FILE_NAME, name, rank);
    enum accel_status status = ACCEL_OK;
    if (!inner || !file)
        return accel_fail_nomem (err);
    for (size_t i = 0; !status && i < state->tensor_count; i++)
        status = add_tensor (&boxes, &state->tensors[i], rank, err);
    if (!status && boxes.count && mkdir (inner, 0777) && errno != EEXIST)
        status = accel_fail_errno (err, "%s", inner);
    if (!status && boxes.count)
        status = write_file (&boxes, folder, file, manifest, err);
    if (!status && boxes.count)
        status = write_list (&boxes, folder, name, rank, err);
    boxes_release (&boxes);
    return status;
}

/* ---- rank 0 ---- */

/* The lists of all ranks. */
struct lists {
    char **texts; /* [size] */
    struct dcp_box *boxes; /* [count], whose names and shapes are copies */
    size_t count;
};

/* A rank writes its list before it reports that it is done. */
static enum accel_status
take_box (struct lists *lists, const char *text, size_t length, size_t *at)
{
    struct dcp_box box;
    uint64_t name;
    if (length - *at < sizeof box)
        return ACCEL_ERR_FORMAT;
    memcpy (&box, text + *at, sizeof box);
    *at += sizeof box;
    size_t shape = (size_t) box.ndim * sizeof *box.shape;
    if ((unsigned) box.ndim > ACCEL_MAX_DIMS || length - *at < shape + sizeof name)
        return ACCEL_ERR_FORMAT;
    memcpy (&name, text + *at + shape, sizeof name);
    if (length - *at - shape - sizeof name <= name || text[*at + shape + sizeof name + name])
        return ACCEL_ERR_FORMAT;
    if (!array_room (&lists->boxes, lists->count, sizeof *lists->boxes))
        return ACCEL_ERR_NOMEM;
    box.name = text + *at + shape + sizeof name;
    int64_t *copy = malloc (shape + 1);
    if (!copy)
        return ACCEL_ERR_NOMEM;
    memcpy (copy, text + *at, shape);
    box.shape = copy;
    lists->boxes[lists->count++] = box;
    *at += shape + sizeof name + (size_t) name + 1;
    return ACCEL_OK;
}

static enum accel_status
read_list (struct lists *lists, const char *folder, const char *name, int rank, struct accel_error *err)
{
    AUTO_FREE char *path = text_printf ("%s/%s/" LIST_NAME, folder, name, rank);
    struct fail fail;
    size_t length, at = 0;
    enum accel_status status = path ? ACCEL_OK : ACCEL_ERR_NOMEM;
    if (!status && io_read_file (path, MOST_LIST, &lists->texts[rank], &length, &fail))
        return accel_fail (err, ACCEL_ERR_SYSTEM, "cannot read what rank %d has written: %s", rank, fail.text);
    while (!status && at < length)
        status = take_box (lists, lists->texts[rank], length, &at);
    if (status == ACCEL_ERR_FORMAT)
        return accel_fail (err, status, "%s: the list of rank %d is damaged", path, rank);
    if (!status && unlink (path))
        return accel_fail_errno (err, "cannot remove %s", path);
    return status ? accel_fail_nomem (err) : ACCEL_OK;
}

static int
compare_boxes (const void *a, const void *b)
{
    const struct dcp_box *x = a, *y = b;
    int order = strcmp (x->name, y->name);
    return order ? order : x->file != y->file ? x->file - y->file : (x->begin > y->begin) - (x->begin < y->begin);
}

static void
lists_release (struct lists *lists, int size)
{
    for (size_t i = 0; i < lists->count; i++)
        free ((void *) (uintptr_t) lists->boxes[i].shape);
    for (int i = 0; lists->texts && i < size; i++)
        free (lists->texts[i]);
    free (lists->boxes);
    free (lists->texts);
}

/* Whether a rank has a file in folder @name. */
static bool
has_file (const struct manifest *manifest, const char *name, int rank)
{
    AUTO_FREE char *file = text_printf (FILE_NAME, name, rank);
    return file && manifest_find_file (manifest, file);
}

static enum accel_status
finish (const char *folder, const char *name, int size, const struct manifest *manifest, struct accel_error *err)
{
    struct lists lists = { .texts = calloc ((size_t) size, sizeof *lists.texts) };
    AUTO_FREE char *path = text_printf ("%s/%s/" DCP_METADATA, folder, name);
    AUTO_STRBUF struct strbuf text = { 0 };
    struct fail fail;
    enum accel_status status = lists.texts && path ? ACCEL_OK : accel_fail_nomem (err);
    for (int rank = 0; !status && rank < size; rank++)
        if (has_file (manifest, name, rank))
            status = read_list (&lists, folder, name, rank, err);
    if (!status && lists.count)
        qsort (lists.boxes, lists.count, sizeof *lists.boxes, compare_boxes);
    if (!status)
        dcp_write_metadata (&text, name, lists.boxes, lists.count);
    if (!status && text.failed)
        status = accel_fail_nomem (err);
    if (!status && io_write_file (path, text.text, text.length, 0666, &fail))
        status = accel_fail (err, ACCEL_ERR_SYSTEM, "%s", fail.text);
    lists_release (&lists, size);
    return status;
}

/* Of each folder, some rank has a file; nothing but ranks' files is in the manifest yet. */
enum accel_status
sharded_finish (const char *folder, int size, const struct manifest *manifest, struct accel_error *err)
{
    AUTO_STRLIST struct strlist names = { 0 };
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; i < manifest->count; i++) {
        const char *file = manifest->files[i].name, *slash = strchr (file, '/');
        AUTO_FREE char *name = slash ? strndup (file, (size_t) (slash - file)) : NULL;
        if (slash && !name)
            return accel_fail_nomem (err);
        if (slash && !(names.count && text_is_one_of (name, (const char *const *) names.items)))
            strlist_add (&names, name);
    }
    if (names.failed)
        return accel_fail_nomem (err);
    for (size_t i = 0; !status && i < names.count; i++)
        status = finish (folder, names.items[i], size, manifest, err);
    return status;
}

/* ---- reading ---- */

enum accel_status
sharded_read (struct accel_state_dict *state, const char *folder, const char *name, const struct manifest *manifest,
              bool *found, struct accel_error *err)
{
    AUTO_FREE char *path = text_printf ("%s/%s", folder, name);
    AUTO_FREE char *metadata = text_printf ("%s/" DCP_METADATA, name);
    if (!path || !metadata)
        return accel_fail_nomem (err);
    *found = manifest_find_file (manifest, metadata);
    return *found ? state_dict_open_folder (state, path, err) : ACCEL_OK;
}
