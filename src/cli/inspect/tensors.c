/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of files and folders; see tensors.h. */
#include <config.h>

#include "cli/inspect/tensors.h"

#include "util/array.h"
#include "util/cleanup.h"
#include "util/text.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* Errors of src/files are those of the library. */
static int
take_error (struct fail *fail, const struct accel_error *err)
{
    return fail_set (fail, FAIL_GENERAL, "%s", err->text);
}

static bool
has_file (const char *folder, const char *name)
{
    struct stat info;
    AUTO_CLOSE int fd = open (folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 && !fstatat (fd, name, &info, 0);
}

/* A folder without tensors.  Accelerate's save_state makes folders in it; the user may have meant one of them. */
static int
refuse_folder (const char *path, struct fail *fail)
{
    static const char *const names[] = { "pytorch_model_fsdp_0", "optimizer_0" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (has_file (path, names[i]))
            return fail_set (fail, FAIL_GENERAL, "%s: has no weights itself; give its folder %s/%s", path, path,
                             names[i]);
    return fail_set (fail, FAIL_GENERAL, "%s: has no safetensors file, no index (*.index.json) and no .metadata of a "
                     "distributed checkpoint", path);
}

/* A file of PyTorch instead of safetensors deserves a better answer than "header too large". */
static int
refuse_pickled (const char *path, struct fail *fail)
{
    unsigned char begin[4] = { 0 };
    AUTO_CLOSE int fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat info;
    if (fd < 0 || fstat (fd, &info) || !S_ISREG (info.st_mode) || read (fd, begin, sizeof begin) != sizeof begin)
        return 0;
    if (!memcmp (begin, "PK\3\4", 4) || (begin[0] == 0x80 && begin[1] <= 5 && begin[1]))
        return fail_set (fail, FAIL_GENERAL, "%s: is a pickled file of PyTorch, which is not supported; expected "
                         "safetensors", path);
    return 0;
}

/* ---- collecting ---- */

static const char *
base_name (const char *path)
{
    const char *slash = strrchr (path, '/');
    return slash ? slash + 1 : path;
}

static int
compare_items (const void *a, const void *b)
{
    const struct tensors_item *x = a, *y = b;
    int order = strcmp (x->name, y->name);
    return order || !x->file || !y->file ? order : strcmp (x->file, y->file);
}

static void
add_item (struct tensors *tensors, struct tensors_item item)
{
    item.elements = 1;
    for (size_t i = 0; i < item.ndim; i++)
        item.elements *= (uint64_t) item.shape[i];
    tensors->elements += item.elements;
    tensors->bytes += item.bytes;
    tensors->items[tensors->count++] = item;
}

static int
collect (struct tensors *tensors, struct fail *fail)
{
    size_t count = tensors->dcp ? tensors->dcp->dcp.count : 0;
    for (size_t i = 0; i < tensors->set_count; i++)
        count += tensors->sets[i].count;
    tensors->items = calloc (count + 1, sizeof *tensors->items);
    if (!tensors->items)
        return fail_nomem (fail);
    for (size_t i = 0; tensors->dcp && i < tensors->dcp->dcp.count; i++) {
        const struct dcp_tensor *from = &tensors->dcp->dcp.tensors[i];
        add_item (tensors, (struct tensors_item){ .name = from->name, .dtype = from->dtype, .index = i,
                                                  .ndim = (size_t) from->ndim, .bytes = from->bytes,
                                                  .shape = (const int64_t *) from->shape });
    }
    for (size_t i = 0; i < tensors->set_count; i++)
        for (size_t j = 0; j < tensors->sets[i].count; j++) {
            const struct weights_tensor *from = &tensors->sets[i].tensors[j];
            add_item (tensors, (struct tensors_item){
                .name = from->tensor->name, .file = base_name (from->file->source.path), .dtype = from->tensor->dtype,
                .ndim = from->tensor->ndim, .shape = from->tensor->shape, .weights = from,
                .bytes = from->tensor->end - from->tensor->begin });
        }
    if (tensors->count)
        qsort (tensors->items, tensors->count, sizeof *tensors->items, compare_items);
    return 0;
}

/* ---- opening ---- */

static int
open_set (struct tensors *tensors, const char *path, bool follow_links, struct fail *fail)
{
    struct accel_error err = { 0 };
    struct weights *set = array_room (&tensors->sets, tensors->set_count, sizeof *set);
    if (!set)
        return fail_nomem (fail);
    tensors->set_count++;
    if (weights_open (set, path, follow_links, &err))
        return refuse_pickled (path, fail) ? -1 : take_error (fail, &err);
    return 0;
}

static int
open_dcp (struct tensors *tensors, const char *path, struct fail *fail)
{
    struct accel_error err = { 0 };
    tensors->dcp = malloc (sizeof *tensors->dcp);
    if (!tensors->dcp)
        return fail_nomem (fail);
    return dcp_open (tensors->dcp, path, &err) ? take_error (fail, &err) : 0;
}

/* The indices of a folder, then its safetensors files. */
static int
list_folder (const char *path, struct strlist *indices, struct strlist *files, struct fail *fail)
{
    DIR *folder = opendir (path);
    if (!folder)
        return fail_set (fail, FAIL_GENERAL, "%s: %s", path, strerror (errno));
    for (struct dirent *entry; (entry = readdir (folder));)
        if (*entry->d_name == '.')
            continue;
        else if (text_ends_in (entry->d_name, ".index.json"))
            strlist_add (indices, entry->d_name);
        else if (text_ends_in (entry->d_name, ".safetensors"))
            strlist_add (files, entry->d_name);
    closedir (folder);
    if (indices->failed || files->failed)
        return fail_nomem (fail);
    if (indices->count)
        qsort (indices->items, indices->count, sizeof *indices->items, text_compare);
    if (files->count)
        qsort (files->items, files->count, sizeof *files->items, text_compare);
    return 0;
}

/* @return whether a file of an opened set is called @p name, or will be (see weights.h) */
static bool
is_in_sets (const struct tensors *tensors, const char *name)
{
    size_t length = strlen (name);
    for (size_t i = 0; i < tensors->set_count; i++)
        for (size_t j = 0; j < tensors->sets[i].file_count; j++) {
            const char *file = base_name (tensors->sets[i].files[j].source.path);
            if (!strcmp (file, name) || (*file == '.' && !strncmp (file + 1, name, length)))
                return true;
        }
    return false;
}

static int
open_all (struct tensors *tensors, const char *path, bool follow_links, struct fail *fail)
{
    AUTO_STRLIST struct strlist indices = { 0 }, files = { 0 };
    if (list_folder (path, &indices, &files, fail))
        return -1;
    if (!indices.count && !files.count && !has_file (path, WEIGHTS_NEW_INDEX_NAME))
        return refuse_folder (path, fail);
    bool is_new = has_file (path, WEIGHTS_NEW_INDEX_NAME);
    if (is_new && open_set (tensors, path, follow_links, fail))
        return -1;
    for (size_t i = 0; i < indices.count + files.count; i++) {
        const char *name = i < indices.count ? indices.items[i] : files.items[i - indices.count];
        AUTO_STRBUF struct strbuf file = { 0 };
        if (i < indices.count ? is_new && !strcmp (name, WEIGHTS_INDEX_NAME) : is_in_sets (tensors, name))
            continue;
        strbuf_printf (&file, "%s/%s", path, name);
        if (file.failed)
            return fail_nomem (fail);
        if (open_set (tensors, file.text, follow_links, fail))
            return -1;
    }
    return 0;
}

/* Whether weights_open() finds something in the folder. */
static bool
has_weights (const char *path)
{
    AUTO_STRLIST struct strlist indices = { 0 }, files = { 0 };
    return has_file (path, WEIGHTS_NEW_INDEX_NAME) || has_file (path, WEIGHTS_NAME)
           || list_folder (path, &indices, &files, NULL) || indices.count;
}

int
tensors_open (struct tensors *tensors, const char *path, enum tensors_scope scope, bool follow_links,
              struct fail *fail)
{
    struct stat info;
    *tensors = (struct tensors){ .cached = SIZE_MAX };
    if (stat (path, &info))
        return fail_set (fail, FAIL_GENERAL, "%s: %s", path, strerror (errno));
    bool is_folder = S_ISDIR (info.st_mode);
    int result;
    if (is_folder && dcp_is_folder (path))
        result = open_dcp (tensors, path, fail);
    else if (is_folder && scope == TENSORS_OF_ALL)
        result = open_all (tensors, path, follow_links, fail);
    else if (is_folder && !has_weights (path))
        result = refuse_folder (path, fail);
    else
        result = open_set (tensors, path, follow_links, fail);
    return result ? -1 : collect (tensors, fail);
}

/* ---- reading ---- */

static int
fill_cache (struct tensors *tensors, const struct tensors_item *item, struct fail *fail)
{
    struct accel_error err = { 0 };
    if (tensors->cached == item->index)
        return 0;
    free (tensors->cache);
    tensors->cached = SIZE_MAX;
    tensors->cache = malloc ((size_t) item->bytes + 1);
    if (!tensors->cache)
        return fail_set (fail, FAIL_GENERAL, "tensor '%s': cannot allocate %llu bytes of memory", item->name,
                         (unsigned long long) item->bytes);
    if (dcp_read_tensor (tensors->dcp, item->index, tensors->cache, &err))
        return take_error (fail, &err);
    tensors->cached = item->index;
    return 0;
}

int
tensors_read (struct tensors *tensors, size_t number, uint64_t offset, void *into, size_t length, struct fail *fail)
{
    const struct tensors_item *item = &tensors->items[number];
    struct accel_error err = { 0 };
    if (item->weights)
        return weights_read (item->weights, offset, into, length, &err) ? take_error (fail, &err) : 0;
    if (fill_cache (tensors, item, fail))
        return -1;
    memcpy (into, tensors->cache + offset, length);
    return 0;
}

void
tensors_add_shape (struct strbuf *out, const struct tensors_item *item)
{
    strbuf_add_char (out, '[');
    for (size_t i = 0; i < item->ndim; i++)
        strbuf_printf (out, "%s%lld", i ? ", " : "", (long long) item->shape[i]);
    strbuf_add_char (out, ']');
}

void
tensors_close (struct tensors *tensors)
{
    for (size_t i = 0; i < tensors->set_count; i++)
        weights_close (&tensors->sets[i]);
    free (tensors->sets);
    if (tensors->dcp)
        dcp_close (tensors->dcp);
    free (tensors->dcp);
    free (tensors->items);
    free (tensors->cache);
    *tensors = (struct tensors){ .cached = SIZE_MAX };
}
