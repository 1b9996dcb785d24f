/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a checkpoint; see files.h. */
#include <config.h>

#include "lib/checkpoint/files.h"

#include "files/checksum.h"
#include "files/safetensors_writer.h"
#include "lib/base/error.h"
#include "lib/checkpoint/nonfinite.h"
#include "lib/checkpoint/sharded.h"
#include "lib/formats/safetensors_object.h"
#include "util/cleanup.h"
#include "util/io.h"
#include "util/text.h"
#include "util/utf8.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Memory is read in pieces, so that what is hashed is still in the cache when it is written. */
enum { PIECE = 1 << 20 };

/* ---- tensors ---- */

/* Tensors are written one after the other, so that one state is enough for all. */
struct hashing {
    struct checksum running;
    uint64_t *sums; /* [number of tensors] */
    struct nonfinite nonfinite;
};

static void
hash_piece (void *user, size_t index, const void *bytes, size_t length)
{
    struct hashing *hashing = user;
    (void) index;
    nonfinite_look (&hashing->nonfinite, bytes, length);
    checksum_add (&hashing->running, bytes, length);
}

/* The checksum of everything before the tensors. */
static enum accel_status
hash_header (const char *path, uint64_t *bytes, uint64_t *checksum, struct accel_error *err)
{
    struct source source;
    struct safetensors header = { 0 };
    uint64_t data = 0;
    enum accel_status status = source_open (&source, path, err);
    if (status)
        return status;
    status = safetensors_read (&header, &source, &data, err);
    safetensors_release (&header);
    AUTO_FREE char *text = status ? NULL : malloc ((size_t) data);
    if (!status && !text)
        status = accel_fail_nomem (err);
    if (!status)
        status = source_read (&source, 0, text, (size_t) data, err);
    if (!status)
        *checksum = checksum_bytes (text, (size_t) data);
    *bytes = source.size;
    source_close (&source);
    return status;
}

static enum accel_status
note_tensors (const struct accel_state_dict *state, const uint64_t *sums, const char *path,
              struct manifest *manifest, struct accel_error *err)
{
    uint64_t bytes = 0, checksum = 0;
    enum accel_status status = hash_header (path, &bytes, &checksum, err);
    if (status)
        return status;
    struct manifest_file *file = manifest_add_file (manifest, strrchr (path, '/') + 1, bytes, checksum);
    bool good = file != NULL;
    for (size_t i = 0; good && i < state->tensor_count; i++)
        good = manifest_add_tensor (file, state->tensors[i].name, sums[i]);
    return good ? ACCEL_OK : accel_fail_nomem (err);
}

static enum accel_status
write_all (const struct accel_state_dict *state, const struct safetensors_plan *plan, struct hashing *hashing,
           const char *path, struct accel_error *err)
{
    struct safetensors_writer *writer = NULL;
    enum accel_status status = safetensors_writer_create (&writer, path, plan, err);
    for (size_t place = 0; !status && place < state->tensor_count; place++) {
        size_t index = safetensors_writer_order (writer, place);
        checksum_begin (&hashing->running);
        nonfinite_begin (&hashing->nonfinite, &state->tensors[index], 0);
        status = safetensors_write_tensor (writer, index, &state->tensors[index].view.dl, PIECE, err);
        hashing->sums[index] = checksum_end (&hashing->running);
    }
    if (!status)
        status = safetensors_writer_commit (writer, err);
    safetensors_writer_destroy (writer);
    return status;
}

static enum accel_status
write_tensors (const struct accel_state_dict *state, const char *path, struct manifest *manifest,
               struct accel_error *err)
{
    static char format[] = "format", pt[] = "pt";
    const struct safetensors_pair metadata = { format, pt };
    size_t count = state->tensor_count;
    AUTO_FREE struct safetensors_entry *entries = calloc (count, sizeof *entries);
    AUTO_FREE uint64_t *sums = calloc (count, sizeof *sums);
    struct hashing hashing = { .sums = sums };
    if (!entries || !sums)
        return accel_fail_nomem (err);
    for (size_t i = 0; i < count; i++) {
        const DLTensor *tensor = &state->tensors[i].view.dl;
        entries[i] = (struct safetensors_entry){ state->tensors[i].name, safetensors_from_dl (tensor->dtype),
                                                 (size_t) tensor->ndim, tensor->shape };
    }
    const struct safetensors_plan plan = { .entries = entries, .count = count, .metadata = &metadata, .pairs = 1,
                                           .in_place = true, .piece = hash_piece, .user = &hashing };
    enum accel_status status = write_all (state, &plan, &hashing, path, err);
    if (!status && !nonfinite_note (&hashing.nonfinite, manifest))
        status = accel_fail_nomem (err);
    return status ? status : note_tensors (state, sums, path, manifest, err);
}

/* ---- values ---- */

static enum accel_status
write_values (const struct accel_state_dict *state, const char *path, struct manifest *manifest,
              struct accel_error *err)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    struct fail fail;
    state_dict_write (state, &text);
    if (!text.length)
        strbuf_add (&text, "{}\n");
    if (text.failed)
        return accel_fail_nomem (err);
    if (io_write_file (path, text.text, text.length, 0666, &fail))
        return accel_fail (err, ACCEL_ERR_SYSTEM, "%s", fail.text);
    return manifest_add_file (manifest, strrchr (path, '/') + 1, text.length, checksum_bytes (text.text, text.length))
               ? ACCEL_OK
               : accel_fail_nomem (err);
}

/* The tensors that this rank has; values are the same on all ranks, and rank 0 writes them. */
static enum accel_status
write_share (const struct accel_state_dict *state, const char *folder, const char *name, int rank,
             struct manifest *manifest, struct accel_error *err)
{
    AUTO_FREE char *values = text_printf ("%s/%s" CHECKPOINT_VALUES, folder, name);
    if (!values)
        return accel_fail_nomem (err);
    enum accel_status status = sharded_write (state, folder, name, rank, manifest, err);
    return status || rank || !state->value_count ? status : write_values (state, values, manifest, err);
}

enum accel_status
checkpoint_write (const struct accel_state_dict *state, const char *folder, const char *name, bool needed, int rank,
                  struct manifest *manifest, struct accel_error *err)
{
    if (state->in_shares)
        return write_share (state, folder, name, rank, manifest, err);
    AUTO_FREE char *tensors = NULL;
    AUTO_FREE char *values = NULL;
    enum accel_status status = ACCEL_OK;
    if (asprintf (&tensors, "%s/%s" CHECKPOINT_TENSORS, folder, name) < 0)
        return tensors = NULL, accel_fail_nomem (err);
    if (asprintf (&values, "%s/%s" CHECKPOINT_VALUES, folder, name) < 0)
        return values = NULL, accel_fail_nomem (err);
    if (state->tensor_count)
        status = write_tensors (state, tensors, manifest, err);
    if (!status && (state->value_count || (needed && !state->tensor_count)))
        status = write_values (state, values, manifest, err);
    return status;
}

/* ---- files of others ---- */

static enum accel_status
hash_file (const char *folder, const char *name, struct manifest *manifest, struct accel_error *err)
{
    AUTO_FREE char *piece = malloc (PIECE);
    struct source source;
    struct checksum checksum;
    if (!piece)
        return accel_fail_nomem (err);
    enum accel_status status = manifest_open_file (&source, folder, name, err);
    if (status)
        return status;
    checksum_begin (&checksum);
    for (uint64_t at = 0; !status && at < source.size; at += PIECE) {
        size_t some = source.size - at < PIECE ? (size_t) (source.size - at) : PIECE;
        status = source_read (&source, at, piece, some, err);
        if (!status)
            checksum_add (&checksum, piece, some);
    }
    if (!status && fsync (source.fd))
        status = accel_fail_errno (err, "%s", source.path);
    if (!status && !manifest_add_file (manifest, name, source.size, checksum_end (&checksum)))
        status = accel_fail_nomem (err);
    source_close (&source);
    return status;
}

/* Whether NFS could have made up @name: digits for the file and for the attempt, 24 together on Linux. */
static bool
is_nfs_name (const char *name)
{
    static const char start[] = ".nfs";
    enum { FEWEST = 8 };
    if (strncmp (name, start, sizeof start - 1))
        return false;
    const char *digits = name + sizeof start - 1;
    size_t length = strspn (digits, "0123456789abcdefABCDEF");
    return length >= FEWEST && !digits[length];
}

bool
checkpoint_passes_over (int folder, const char *name)
{
    struct stat info;
    if (!strcmp (name, ".") || !strcmp (name, ".."))
        return true;
    return is_nfs_name (name)
           && (fstatat (folder, name, &info, AT_SYMLINK_NOFOLLOW) ? errno == ENOENT : S_ISREG (info.st_mode));
}

static enum accel_status add_folder (const char *folder, const char *inner, struct manifest *manifest,
                                     struct accel_error *err);

/* @name is relative to the folder of the checkpoint. */
static enum accel_status
add_other (const char *folder, const char *name, struct manifest *manifest, struct accel_error *err)
{
    AUTO_FREE char *path = NULL;
    struct stat info;
    if (asprintf (&path, "%s/%s", folder, name) < 0)
        return path = NULL, accel_fail_nomem (err);
    if (lstat (path, &info))
        return accel_fail_errno (err, "%s", path);
    if (S_ISDIR (info.st_mode))
        return add_folder (folder, name, manifest, err);
    if (!S_ISREG (info.st_mode))
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: a checkpoint consists of regular files and folders", path);
    if (!strcmp (name, MANIFEST_NAME))
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: this name is the checkpoint's own; choose another", path);
    if (!utf8_is_valid (name, strlen (name)))
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: the name of the file is not UTF-8; choose another", path);
    return manifest_find_file (manifest, name) ? ACCEL_OK : hash_file (folder, name, manifest, err);
}

static enum accel_status
add_folder (const char *folder, const char *inner, struct manifest *manifest, struct accel_error *err)
{
    AUTO_FREE char *path = NULL;
    const struct dirent *entry;
    enum accel_status status = ACCEL_OK;
    if (asprintf (&path, "%s%s%s", folder, *inner ? "/" : "", inner) < 0)
        return path = NULL, accel_fail_nomem (err);
    DIR *stream = opendir (path);
    if (!stream)
        return accel_fail_errno (err, "%s", path);
    while (!status && (entry = readdir (stream))) {
        AUTO_FREE char *name = NULL;
        if (checkpoint_passes_over (dirfd (stream), entry->d_name))
            continue;
        if (asprintf (&name, "%s%s%s", inner, *inner ? "/" : "", entry->d_name) < 0)
            status = (name = NULL, accel_fail_nomem (err));
        else
            status = add_other (folder, name, manifest, err);
    }
    if (!status && *inner && fsync (dirfd (stream)))
        status = accel_fail_errno (err, "%s", path);
    closedir (stream);
    return status;
}

enum accel_status
checkpoint_add_others (const char *folder, struct manifest *manifest, struct accel_error *err)
{
    return add_folder (folder, "", manifest, err);
}

/* ---- reading ---- */

static enum accel_status
read_values (struct accel_state_dict *state, const char *folder, const struct manifest_file *file,
             struct accel_error *err)
{
    struct source source;
    enum accel_status status = manifest_open_file (&source, folder, file->name, err);
    if (status)
        return status;
    AUTO_FREE char *text = malloc ((size_t) source.size + 1);
    status = text ? source_read (&source, 0, text, (size_t) source.size, err) : accel_fail_nomem (err);
    if (!status && (status = state_dict_parse (state, text, (size_t) source.size, err)))
        accel_fail_in (err, status, "%s", source.path);
    source_close (&source);
    return status;
}

enum accel_status
checkpoint_read (struct accel_state_dict *state, const char *folder, const char *name,
                 const struct manifest *manifest, bool *found, struct accel_error *err)
{
    AUTO_FREE char *tensors = NULL;
    AUTO_FREE char *values = NULL;
    struct source source;
    enum accel_status status = ACCEL_OK;
    if (asprintf (&tensors, "%s" CHECKPOINT_TENSORS, name) < 0)
        return tensors = NULL, accel_fail_nomem (err);
    if (asprintf (&values, "%s" CHECKPOINT_VALUES, name) < 0)
        return values = NULL, accel_fail_nomem (err);
    const struct manifest_file *tensor_file = manifest_find_file (manifest, tensors);
    const struct manifest_file *value_file = manifest_find_file (manifest, values);
    status = sharded_read (state, folder, name, manifest, found, err);
    *found = *found || tensor_file || value_file;
    if (!status && value_file)
        status = read_values (state, folder, value_file, err);
    if (!status && tensor_file)
        status = manifest_open_file (&source, folder, tensor_file->name, err);
    return status || !tensor_file ? status : state_dict_open (state, &source, err);
}

/* @return whether @file is one of those of an object: NAME with an end, or in a folder NAME */
static bool
is_of (const char *file, const char *name)
{
    size_t length = strlen (name);
    const char *end = file + length;
    return !strncmp (file, name, length)
           && (*end == '/' || !strcmp (end, CHECKPOINT_TENSORS) || !strcmp (end, CHECKPOINT_VALUES));
}

uint64_t
checkpoint_bytes (const struct manifest *manifest, const char *name)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < manifest->count; i++)
        bytes += is_of (manifest->files[i].name, name) ? manifest->files[i].bytes : 0;
    return bytes;
}
