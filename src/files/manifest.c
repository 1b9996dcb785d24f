/* SPDX-License-Identifier: Apache-2.0 */
/* The text of manifests, and comparing a checkpoint's files with it; see manifest.h. */
#include <config.h>

#include "files/manifest.h"

#include "files/checksum.h"
#include "files/error.h"
#include "files/json_reader.h"
#include "files/safetensors.h"
#include "util/array.h"
#include "util/cleanup.h"
#include "util/io.h"
#include "util/text.h"
#include "util/utf8.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FORMAT "accel-checkpoint"

struct manifest_file *
manifest_add_file (struct manifest *manifest, const char *name, uint64_t bytes, uint64_t checksum)
{
    char *copy = strdup (name);
    struct manifest_file *file = copy ? array_room (&manifest->files, manifest->count, sizeof *file) : NULL;
    if (!file) {
        free (copy);
        return NULL;
    }
    manifest->count++;
    *file = (struct manifest_file){ .name = copy, .bytes = bytes, .checksum = checksum };
    return file;
}

bool
manifest_add_tensor (struct manifest_file *file, const char *name, uint64_t checksum)
{
    char *copy = strdup (name);
    struct manifest_tensor *tensor = copy ? array_room (&file->tensors, file->count, sizeof *tensor) : NULL;
    file->has_tensors = true;
    if (!tensor) {
        free (copy);
        return false;
    }
    *tensor = (struct manifest_tensor){ copy, checksum };
    file->count++;
    return true;
}

bool
manifest_take_files (struct manifest *to, struct manifest *from)
{
    for (size_t i = 0; i < from->count; i++)
        if (!array_room (&to->files, to->count + i, sizeof *to->files))
            return false;
    for (size_t i = 0; i < from->count; i++)
        to->files[to->count++] = from->files[i];
    from->count = 0;
    if (!to->nonfinite) {
        to->nonfinite = from->nonfinite;
        from->nonfinite = NULL;
    }
    return true;
}

const struct manifest_file *
manifest_find_file (const struct manifest *manifest, const char *name)
{
    for (size_t i = 0; i < manifest->count; i++)
        if (!strcmp (manifest->files[i].name, name))
            return &manifest->files[i];
    return NULL;
}

static void
release_file (struct manifest_file *file)
{
    for (size_t i = 0; i < file->count; i++)
        free (file->tensors[i].name);
    free (file->tensors);
    free (file->name);
}

void
manifest_release (struct manifest *manifest)
{
    for (size_t i = 0; i < manifest->count; i++)
        release_file (&manifest->files[i]);
    free (manifest->files);
    free (manifest->library);
    free (manifest->mixed_precision);
    free (manifest->nonfinite);
    *manifest = (struct manifest){ 0 };
}

/* ---- writing ---- */

static void
write_file (const struct manifest_file *file, struct strbuf *out)
{
    quote_utf8 (out, file->name);
    strbuf_printf (out, ": {\n      \"bytes\": %" PRIu64 ",\n      \"%s\": \"%016" PRIx64 "\"", file->bytes,
                   file->has_tensors ? "header" : "xxh3", file->checksum);
    if (file->has_tensors)
        strbuf_add (out, ",\n      \"tensors\": {");
    for (size_t i = 0; i < file->count; i++) {
        strbuf_add (out, i ? ",\n        " : "\n        ");
        quote_utf8 (out, file->tensors[i].name);
        strbuf_printf (out, ": \"%016" PRIx64 "\"", file->tensors[i].checksum);
    }
    strbuf_add (out, file->has_tensors ? "\n      }\n    }" : "\n    }");
}

/* A member that is left out if there is no text. */
static void
write_text (struct strbuf *out, const char *member, const char *text)
{
    if (!text)
        return;
    strbuf_printf (out, ",\n  \"%s\": ", member);
    quote_utf8 (out, text);
}

void
manifest_write (const struct manifest *manifest, struct strbuf *out)
{
    strbuf_printf (out, "{\n  \"format\": \"" FORMAT "\",\n  \"version\": %d,\n  \"library\": ", MANIFEST_VERSION);
    quote_utf8 (out, manifest->library ? manifest->library : "");
    strbuf_printf (out, ",\n  \"processes\": %" PRIu64 ",\n  \"saved_ns\": %" PRIu64, manifest->processes,
                   manifest->saved_ns);
    write_text (out, "mixed_precision", manifest->mixed_precision);
    write_text (out, "nonfinite", manifest->nonfinite);
    strbuf_add (out, ",\n  \"files\": {");
    for (size_t i = 0; i < manifest->count; i++) {
        strbuf_add (out, i ? ",\n    " : "\n    ");
        write_file (&manifest->files[i], out);
    }
    strbuf_add (out, "\n  },\n  ");
    if (!out->failed)
        strbuf_printf (out, "\"xxh3\": \"%016" PRIx64 "\"\n}\n", checksum_bytes (out->text, out->length));
}

/* ---- reading ---- */

static enum accel_status
take_checksum (struct json_reader *json, uint64_t *checksum)
{
    AUTO_FREE char *text = NULL;
    enum accel_status status = json_reader_string (json, &text, "a checksum");
    if (status)
        return status;
    if (strlen (text) != CHECKSUM_DIGITS || strspn (text, "0123456789abcdef") != CHECKSUM_DIGITS)
        return json_reader_fail (json, "expected a checksum of %d hexadecimal digits", CHECKSUM_DIGITS);
    *checksum = strtoull (text, NULL, 16);
    return ACCEL_OK;
}

/* No name leads out of the folder, or to the manifest itself. */
static bool
is_safe (const char *name)
{
    if (!*name || !strcmp (name, MANIFEST_NAME))
        return false;
    for (const char *at = name;; at++) {
        size_t length = strcspn (at, "/");
        if (!length || (length <= 2 && !strncmp (at, "..", length)))
            return false;
        at += length;
        if (!*at)
            return true;
    }
}

static enum accel_status
take_tensors (struct json_reader *json, struct manifest_file *file)
{
    bool first = true, more;
    enum accel_status status = json_reader_take (json, '{', "the tensors' checksums");
    file->has_tensors = true;
    while (!status && !(status = json_reader_next (json, '}', &first, &more)) && more) {
        AUTO_FREE char *name = NULL;
        uint64_t checksum = 0;
        status = json_reader_key (json, &name);
        if (!status)
            status = take_checksum (json, &checksum);
        if (!status && !manifest_add_tensor (file, name, checksum))
            status = accel_fail_nomem (json->err);
    }
    return status;
}

static enum accel_status
take_file (struct json_reader *json, struct manifest_file *file)
{
    bool first = true, more, has_bytes = false, has_checksum = false;
    enum accel_status status = json_reader_take (json, '{', "a description of the file");
    while (!status && !(status = json_reader_next (json, '}', &first, &more)) && more) {
        AUTO_FREE char *key = NULL;
        status = json_reader_key (json, &key);
        if (status)
            return status;
        if (!strcmp (key, "bytes"))
            status = has_bytes ? json_reader_fail (json, "duplicate 'bytes'") : json_reader_uint64 (json, &file->bytes,
                                                                                                    "a size");
        else if (!strcmp (key, "xxh3") || !strcmp (key, "header"))
            status = has_checksum ? json_reader_fail (json, "duplicate '%s'", key) : take_checksum (json,
                                                                                                    &file->checksum);
        else if (!strcmp (key, "tensors"))
            status = file->has_tensors ? json_reader_fail (json, "duplicate 'tensors'") : take_tensors (json, file);
        else
            status = json_reader_skip (json);
        has_bytes = has_bytes || !strcmp (key, "bytes");
        has_checksum = has_checksum || !strcmp (key, "xxh3") || !strcmp (key, "header");
    }
    if (!status && !(has_bytes && has_checksum))
        return json_reader_fail (json, "%s is missing from file '%.100s'", has_bytes ? "a checksum" : "'bytes'",
                                 file->name);
    return status;
}

static enum accel_status
take_files (struct json_reader *json, struct manifest *manifest)
{
    bool first = true, more;
    enum accel_status status = json_reader_take (json, '{', "the files");
    while (!status && !(status = json_reader_next (json, '}', &first, &more)) && more) {
        AUTO_FREE char *name = NULL;
        struct manifest_file *file = NULL;
        status = json_reader_key (json, &name);
        if (!status && !is_safe (name))
            status = json_reader_fail (json, "file name '%.100s' is not allowed", name);
        if (!status && !(file = manifest_add_file (manifest, name, 0, 0)))
            status = accel_fail_nomem (json->err);
        if (!status)
            status = take_file (json, file);
    }
    return status;
}

static enum accel_status
take_version (struct json_reader *json)
{
    uint64_t version = 0;
    enum accel_status status = json_reader_uint64 (json, &version, "a version");
    if (!status && version > MANIFEST_VERSION)
        return accel_fail (json->err, ACCEL_ERR_UNSUPPORTED,
                           "format version %" PRIu64 " is newer than this release, which knows up to %d", version,
                           MANIFEST_VERSION);
    return status;
}

static enum accel_status
take_format (struct json_reader *json)
{
    AUTO_FREE char *format = NULL;
    enum accel_status status = json_reader_string (json, &format, "the format");
    if (!status && strcmp (format, FORMAT))
        return json_reader_fail (json, "the format is '%.60s', not " FORMAT, format);
    return status;
}

enum member { MEMBER_FORMAT, MEMBER_VERSION, MEMBER_FILES, MEMBER_SUM, MEMBER_LIBRARY, MEMBER_PROCESSES, MEMBER_SAVED,
              MEMBER_PRECISION, MEMBER_NONFINITE, MEMBERS, MEMBERS_NEEDED = MEMBER_LIBRARY };
static const char *const members[MEMBERS]
    = { "format", "version", "files", "xxh3", "library", "processes", "saved_ns", "mixed_precision", "nonfinite" };

/* @start: where the member begins */
static enum accel_status
take_member (struct json_reader *json, struct manifest *manifest, enum member member, size_t start)
{
    uint64_t checksum = 0;
    enum accel_status status;
    switch (member) {
    case MEMBER_FORMAT: return take_format (json);
    case MEMBER_VERSION: return take_version (json);
    case MEMBER_FILES: return take_files (json, manifest);
    case MEMBER_LIBRARY: return json_reader_string (json, &manifest->library, "a version");
    case MEMBER_PROCESSES: return json_reader_uint64 (json, &manifest->processes, "a number of processes");
    case MEMBER_SAVED: return json_reader_uint64 (json, &manifest->saved_ns, "a time");
    case MEMBER_PRECISION: return json_reader_string (json, &manifest->mixed_precision, "a precision");
    case MEMBER_NONFINITE: return json_reader_string (json, &manifest->nonfinite, "a parameter that is not finite");
    case MEMBER_SUM:
        status = take_checksum (json, &checksum);
        if (!status && checksum != checksum_bytes (json->text, start))
            return accel_fail (json->err, ACCEL_ERR_FORMAT, "damaged: its own checksum is wrong");
        return status;
    default: return json_reader_skip (json);
    }
}

static int
compare_files (const void *a, const void *b)
{
    return strcmp (((const struct manifest_file *) a)->name, ((const struct manifest_file *) b)->name);
}

static int
compare_tensors (const void *a, const void *b)
{
    return strcmp (((const struct manifest_tensor *) a)->name, ((const struct manifest_tensor *) b)->name);
}

/* Sorted, so that the text of the same manifest is always the same, and that duplicates are neighbours. */
static enum accel_status
sort (struct manifest *manifest, struct accel_error *err)
{
    if (manifest->count)
        qsort (manifest->files, manifest->count, sizeof *manifest->files, compare_files);
    for (size_t i = 0; i < manifest->count; i++) {
        struct manifest_file *file = &manifest->files[i];
        if (i && !strcmp (file->name, file[-1].name))
            return accel_fail (err, ACCEL_ERR_FORMAT, "duplicate file '%.100s'", file->name);
        if (file->count)
            qsort (file->tensors, file->count, sizeof *file->tensors, compare_tensors);
        for (size_t j = 1; j < file->count; j++)
            if (!strcmp (file->tensors[j].name, file->tensors[j - 1].name))
                return accel_fail (err, ACCEL_ERR_FORMAT, "duplicate tensor '%.100s' in file '%.100s'",
                                   file->tensors[j].name, file->name);
    }
    return ACCEL_OK;
}

enum accel_status
manifest_parse (struct manifest *manifest, const char *text, size_t length, struct accel_error *err)
{
    struct json_reader json = { text, length, 0, err };
    bool first = true, more, seen[MEMBERS] = { false };
    *manifest = (struct manifest){ 0 };
    enum accel_status status = json_reader_begin (&json);
    if (!status)
        status = json_reader_take (&json, '{', "a manifest");
    while (!status && !(status = json_reader_next (&json, '}', &first, &more)) && more) {
        AUTO_FREE char *key = NULL;
        int member = 0;
        json_reader_peek (&json);
        size_t start = json.at;
        status = json_reader_key (&json, &key);
        while (!status && member < MEMBERS && strcmp (key, members[member]))
            member++;
        if (!status && member < MEMBERS && seen[member])
            status = json_reader_fail (&json, "duplicate '%s'", key);
        if (!status)
            status = take_member (&json, manifest, (enum member) member, start);
        if (!status && member < MEMBERS)
            seen[member] = true;
    }
    if (!status)
        status = json_reader_end (&json);
    for (int i = 0; !status && i < MEMBERS_NEEDED; i++)
        if (!seen[i])
            status = accel_fail (err, ACCEL_ERR_FORMAT, "'%s' is missing", members[i]);
    return status ? status : sort (manifest, err);
}

enum accel_status
manifest_take_text (struct manifest *to, const char *text, size_t length, struct accel_error *err)
{
    struct manifest other;
    enum accel_status status = manifest_parse (&other, text, length, err);
    if (!status && !manifest_take_files (to, &other))
        status = accel_fail_nomem (err);
    manifest_release (&other);
    return status;
}

/* ---- the files ---- */

enum { MANIFEST_LIMIT = 1 << 30, PIECE = 1 << 20 };

enum accel_status
manifest_read (struct manifest *manifest, const char *path, struct accel_error *err)
{
    AUTO_FREE char *name = NULL;
    AUTO_FREE char *text = NULL;
    size_t length;
    struct fail fail;
    struct stat info;
    *manifest = (struct manifest){ 0 };
    name = text_printf ("%s/" MANIFEST_NAME, path);
    if (!name)
        return accel_fail_nomem (err);
    if (lstat (name, &info) && errno == ENOENT)
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s: has no " MANIFEST_NAME, path);
    if (io_read_file (name, MANIFEST_LIMIT, &text, &length, &fail))
        return accel_fail (err, ACCEL_ERR_SYSTEM, "%s", fail.text);
    enum accel_status status = manifest_parse (manifest, text, length, err);
    if (status) {
        manifest_release (manifest);
        return accel_fail_in (err, status, "%s", name);
    }
    return ACCEL_OK;
}

/* Open @name in the folder @at, one component after the other: none may be a symbolic link. */
static int
open_beneath (int at, const char *name)
{
    AUTO_FREE char *copy = strdup (name);
    char *slash;
    int fd = copy ? fcntl (at, F_DUPFD_CLOEXEC, 0) : -1;
    for (char *part = copy; part && fd >= 0; part = slash ? slash + 1 : NULL) {
        slash = strchr (part, '/');
        if (slash)
            *slash = '\0';
        AUTO_CLOSE int folder = fd;
        fd = openat (folder, part, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (slash ? O_DIRECTORY : 0));
    }
    return fd;
}

enum accel_status
manifest_open_file (struct source *source, const char *folder, const char *name, struct accel_error *err)
{
    struct stat info;
    *source = (struct source) SOURCE_CLOSED;
    source->path = text_printf ("%s/%s", folder, name);
    if (!source->path)
        return accel_fail_nomem (err);
    AUTO_CLOSE int at = open (folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum accel_status status = ACCEL_OK;
    source->fd = at < 0 ? -1 : open_beneath (at, name);
    if (source->fd < 0 && errno == ELOOP)
        status = accel_fail (err, ACCEL_ERR_FORMAT, "%s: is a symbolic link", source->path);
    else if (source->fd < 0 || fstat (source->fd, &info))
        status = accel_fail_errno (err, "%s", source->path);
    else if (!S_ISREG (info.st_mode))
        status = accel_fail (err, ACCEL_ERR_FORMAT, "%s: is not a regular file", source->path);
    if (status) {
        source_close (source);
        return status;
    }
    source->size = (uint64_t) info.st_size;
    source->modified = info.st_mtim;
    return ACCEL_OK;
}

static enum accel_status
open_sized (struct source *source, const struct manifest_file *file, const char *folder, struct accel_error *err)
{
    enum accel_status status = manifest_open_file (source, folder, file->name, err);
    if (!status && source->size != file->bytes) {
        status = accel_fail (err, ACCEL_ERR_FORMAT, "%s: has %" PRIu64 " bytes, but the manifest says %" PRIu64,
                             source->path, source->size, file->bytes);
        source_close (source);
    }
    return status;
}

enum accel_status
manifest_check_sizes (const struct manifest *manifest, const char *folder, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; !status && i < manifest->count; i++) {
        struct source source;
        status = open_sized (&source, &manifest->files[i], folder, err);
        if (!status)
            source_close (&source);
    }
    return status;
}

/* Compare the checksum of a stretch of a file; @what it is, for the message. */
static enum accel_status
check_stretch (const struct source *source, uint64_t begin, uint64_t end, uint64_t wanted, const char *what,
               const char *name, struct accel_error *err)
{
    AUTO_FREE char *piece = malloc (PIECE);
    struct checksum checksum;
    enum accel_status status = ACCEL_OK;
    if (!piece)
        return accel_fail_nomem (err);
    checksum_begin (&checksum);
    for (uint64_t at = begin; !status && at < end; at += PIECE) {
        size_t length = end - at < PIECE ? (size_t) (end - at) : PIECE;
        status = source_read (source, at, piece, length, err);
        if (!status)
            checksum_add (&checksum, piece, length);
    }
    if (!status && checksum_end (&checksum) != wanted)
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s: damaged: the checksum of %s%.100s is wrong", source->path, what,
                           name);
    return status;
}

static enum accel_status
check_tensors (const struct manifest_file *file, const struct source *source, struct accel_error *err)
{
    struct safetensors header = { 0 };
    uint64_t data = 0;
    enum accel_status status = safetensors_read (&header, source, &data, err);
    if (!status)
        status = check_stretch (source, 0, data, file->checksum, "its header", "", err);
    if (!status && header.count != file->count)
        status = accel_fail (err, ACCEL_ERR_FORMAT, "%s: has %zu tensors, but the manifest says %zu", source->path,
                             header.count, file->count);
    for (size_t i = 0; !status && i < file->count; i++) {
        const struct safetensors_tensor *tensor = safetensors_find (&header, file->tensors[i].name);
        if (!tensor)
            status = accel_fail (err, ACCEL_ERR_FORMAT, "%s: has no tensor '%.100s', which the manifest lists",
                                 source->path, file->tensors[i].name);
        else
            status = check_stretch (source, data + tensor->begin, data + tensor->end, file->tensors[i].checksum,
                                    "tensor ", tensor->name, err);
    }
    safetensors_release (&header);
    return status;
}

enum accel_status
manifest_check_file (const struct manifest_file *file, const char *folder, struct accel_error *err)
{
    struct source source;
    enum accel_status status = open_sized (&source, file, folder, err);
    if (status)
        return status;
    status = file->has_tensors ? check_tensors (file, &source, err)
                               : check_stretch (&source, 0, source.size, file->checksum, "the file", "", err);
    source_close (&source);
    return status;
}
