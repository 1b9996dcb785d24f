/* SPDX-License-Identifier: Apache-2.0 */
/* Writing safetensors files; see safetensors_writer.h. */
#include <config.h>

#include "files/safetensors_writer.h"

#include "files/atomic_file.h"
#include "files/error.h"
#include "util/cleanup.h"
#include "util/io.h"
#include "util/utf8.h"

#include <string.h>

enum { HEADER_MULTIPLE = 8 };

struct extent {
    uint64_t begin;   /* in the file */
    uint64_t bytes;
    uint64_t written; /* by the one thread that writes this entry */
};

struct safetensors_writer {
    struct atomic_file atomic;
    struct extent *extents; /* [count] by entry */
    size_t *order;        /* [count] entries in the order of the file */
    char **names;         /* [count] by entry */
    size_t count;
    uint64_t file_bytes;
    bool in_place;
    void (*piece) (void *user, size_t index, const void *bytes, size_t length);
    void *user;
};

static int
compare_entries (const void *a, const void *b, void *user)
{
    const struct safetensors_entry *entries = user;
    const struct safetensors_entry *x = &entries[*(const size_t *) a], *y = &entries[*(const size_t *) b];
    return x->dtype != y->dtype ? (x->dtype > y->dtype ? -1 : 1) : strcmp (x->name, y->name);
}

static int
compare_names (const void *a, const void *b, void *user)
{
    const struct safetensors_entry *entries = user;
    return strcmp (entries[*(const size_t *) a].name, entries[*(const size_t *) b].name);
}

static enum accel_status
check_text (const char *what, const char *text, struct accel_error *err)
{
    if (!text)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s is missing", what);
    if (!utf8_is_valid (text, strlen (text)))
        return accel_fail (err, ACCEL_ERR_INVALID, "%s '%.80s' is not valid UTF-8", what, text);
    return ACCEL_OK;
}

static enum accel_status
check_pairs (const struct safetensors_plan *plan, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; i < plan->pairs && !status; i++) {
        status = check_text ("a metadata key", plan->metadata[i].key, err);
        if (!status)
            status = check_text ("a metadata value", plan->metadata[i].value, err);
        for (size_t j = 0; j < i && !status; j++)
            if (!strcmp (plan->metadata[i].key, plan->metadata[j].key))
                status = accel_fail (err, ACCEL_ERR_INVALID, "duplicate metadata key '%.80s'", plan->metadata[i].key);
    }
    return status;
}

static enum accel_status
find_bytes (const struct safetensors_entry *entry, uint64_t *bytes, struct accel_error *err)
{
    uint64_t bits = safetensors_dtype_bits (entry->dtype);
    for (size_t i = 0; i < entry->ndim; i++)
        if (entry->shape[i] < 0)
            return accel_fail (err, ACCEL_ERR_INVALID, "tensor '%.80s' has a negative size in dimension %zu",
                               entry->name, i);
    for (size_t i = 0; i < entry->ndim; i++)
        if (__builtin_mul_overflow (bits, (uint64_t) entry->shape[i], &bits))
            return accel_fail (err, ACCEL_ERR_INVALID, "tensor '%.80s' is too large: size overflows", entry->name);
    if (bits % 8)
        return accel_fail (err, ACCEL_ERR_INVALID, "tensor '%.80s' has %u-bit elements that do not fill "
                           "whole bytes", entry->name, safetensors_dtype_bits (entry->dtype));
    *bytes = bits / 8;
    return ACCEL_OK;
}

static enum accel_status
check_entry (const struct safetensors_entry *entry, uint64_t *bytes, struct accel_error *err)
{
    enum accel_status status = check_text ("the name of a tensor", entry->name, err);
    if (status)
        return status;
    if (!strcmp (entry->name, "__metadata__"))
        return accel_fail (err, ACCEL_ERR_INVALID, "'__metadata__' cannot be the name of a tensor");
    if (entry->dtype >= SAFETENSORS_DTYPE_COUNT)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "tensor '%.80s' has elements of a type that safetensors lacks",
                           entry->name);
    return find_bytes (entry, bytes, err);
}

/* Where each entry begins, counted from the data. */
static enum accel_status
lay_out (struct safetensors_writer *writer, const struct safetensors_plan *plan, struct accel_error *err)
{
    enum accel_status status = check_pairs (plan, err);
    for (size_t i = 0; i < plan->count && !status; i++) {
        writer->order[i] = i;
        status = check_entry (&plan->entries[i], &writer->extents[i].bytes, err);
        if (!status && !(writer->names[i] = strdup (plan->entries[i].name)))
            status = accel_fail_nomem (err);
    }
    if (status || !plan->count)
        return status;
    qsort_r (writer->order, plan->count, sizeof *writer->order, compare_names, (void *) plan->entries);
    for (size_t i = 1; i < plan->count; i++)
        if (!strcmp (writer->names[writer->order[i]], writer->names[writer->order[i - 1]]))
            return accel_fail (err, ACCEL_ERR_INVALID, "duplicate tensor '%.80s'", writer->names[writer->order[i]]);
    qsort_r (writer->order, plan->count, sizeof *writer->order, compare_entries, (void *) plan->entries);
    for (size_t i = 0; i < plan->count; i++) {
        struct extent *extent = &writer->extents[writer->order[i]];
        extent->begin = writer->file_bytes;
        if (__builtin_add_overflow (extent->begin, extent->bytes, &writer->file_bytes)
            || writer->file_bytes > INT64_MAX - SAFETENSORS_MAX_HEADER - SAFETENSORS_LENGTH_BYTES)
            return accel_fail (err, ACCEL_ERR_INVALID, "the file is too large: size overflows");
    }
    return ACCEL_OK;
}

static void
add_metadata (struct strbuf *text, const struct safetensors_plan *plan)
{
    strbuf_add (text, "\"__metadata__\":{");
    for (size_t i = 0; i < plan->pairs; i++) {
        strbuf_add (text, i ? "," : "");
        quote_utf8 (text, plan->metadata[i].key);
        strbuf_add_char (text, ':');
        quote_utf8 (text, plan->metadata[i].value);
    }
    strbuf_add_char (text, '}');
}

static void
add_entry (struct strbuf *text, const struct safetensors_entry *entry, const struct extent *extent)
{
    quote_utf8 (text, entry->name);
    strbuf_printf (text, ":{\"dtype\":\"%s\",\"shape\":[", safetensors_dtype_name (entry->dtype));
    for (size_t i = 0; i < entry->ndim; i++)
        strbuf_printf (text, "%s%lld", i ? "," : "", (long long) entry->shape[i]);
    strbuf_printf (text, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long) extent->begin,
                   (unsigned long long) (extent->begin + extent->bytes));
}

/* The length, the JSON and its padding; then entries begin where they do in the file. */
static enum accel_status
make_header (struct safetensors_writer *writer, const struct safetensors_plan *plan, struct strbuf *text,
             struct accel_error *err)
{
    unsigned char length[SAFETENSORS_LENGTH_BYTES] = { 0 };
    strbuf_add_bytes (text, length, sizeof length);
    strbuf_add_char (text, '{');
    if (plan->pairs)
        add_metadata (text, plan);
    for (size_t i = 0; i < plan->count && !text->failed && text->length < 2u * SAFETENSORS_MAX_HEADER; i++) {
        if (i || plan->pairs)
            strbuf_add_char (text, ',');
        add_entry (text, &plan->entries[writer->order[i]], &writer->extents[writer->order[i]]);
    }
    strbuf_add_char (text, '}');
    while (text->length % HEADER_MULTIPLE && !text->failed)
        strbuf_add_char (text, ' ');
    if (text->failed)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for the header of %zu tensors", plan->count);
    uint64_t bytes = text->length - sizeof length;
    if (bytes > SAFETENSORS_MAX_HEADER)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "%zu tensors and the metadata need a header of more than %d bytes, the maximum",
                           plan->count, SAFETENSORS_MAX_HEADER);
    for (size_t i = 0; i < sizeof length; i++)
        text->text[i] = (char) (bytes >> 8 * i & 0xff);
    for (size_t i = 0; i < plan->count; i++)
        writer->extents[i].begin += text->length;
    writer->file_bytes += text->length;
    return ACCEL_OK;
}

static enum accel_status
start (struct safetensors_writer *writer, const char *path, const struct safetensors_plan *plan,
       struct accel_error *err)
{
    AUTO_STRBUF struct strbuf header = { 0 };
    writer->extents = calloc (plan->count + 1, sizeof *writer->extents);
    writer->order = calloc (plan->count + 1, sizeof *writer->order);
    writer->names = calloc (plan->count + 1, sizeof *writer->names);
    if (!writer->extents || !writer->order || !writer->names)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for %zu tensors", plan->count);
    writer->count = plan->count;
    writer->in_place = plan->in_place;
    writer->piece = plan->piece;
    writer->user = plan->user;
    enum accel_status status = lay_out (writer, plan, err);
    if (!status)
        status = make_header (writer, plan, &header, err);
    if (status)
        return accel_fail_in (err, status, "%s", path);
    status = atomic_file_create (&writer->atomic, path, plan->in_place, writer->file_bytes, err);
    return status ? status : atomic_file_write (&writer->atomic, 0, header.text, header.length, err);
}

enum accel_status
safetensors_writer_create (struct safetensors_writer **writer, const char *path, const struct safetensors_plan *plan,
                           struct accel_error *err)
{
    *writer = NULL;
    if (!path || !*path)
        return accel_fail (err, ACCEL_ERR_INVALID, "path is NULL or empty");
    struct safetensors_writer *made = calloc (1, sizeof *made);
    if (!made)
        return accel_fail_nomem (err);
    made->atomic = (struct atomic_file) ATOMIC_FILE_NONE;
    enum accel_status status = start (made, path, plan, err);
    if (status)
        safetensors_writer_destroy (made);
    else
        *writer = made;
    return status;
}

size_t
safetensors_writer_order (const struct safetensors_writer *writer, size_t extent)
{
    return writer->order[extent];
}

uint64_t
safetensors_writer_entry_bytes (const struct safetensors_writer *writer, size_t index)
{
    return writer->extents[index].bytes;
}

enum accel_status
safetensors_writer_write (struct safetensors_writer *writer, size_t index, const void *bytes, size_t length,
                          struct accel_error *err)
{
    struct extent *extent = &writer->extents[index];
    if (length > extent->bytes - extent->written)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: tensor '%.80s' has %llu bytes; %llu and %zu more were written",
                           writer->atomic.path, writer->names[index], (unsigned long long) extent->bytes,
                           (unsigned long long) extent->written, length);
    if (writer->piece)
        writer->piece (writer->user, index, bytes, length);
    enum accel_status status = atomic_file_write (&writer->atomic, extent->begin + extent->written, bytes, length, err);
    if (!status)
        extent->written += length;
    return status;
}

enum accel_status
safetensors_writer_commit (struct safetensors_writer *writer, struct accel_error *err)
{
    const char *path = writer->atomic.path;
    for (size_t i = 0; i < writer->count; i++)
        if (writer->extents[i].written != writer->extents[i].bytes)
            return accel_fail (err, ACCEL_ERR_INVALID, "%s: tensor '%.80s' is incomplete: %llu of %llu bytes were "
                               "written", path, writer->names[i], (unsigned long long) writer->extents[i].written,
                               (unsigned long long) writer->extents[i].bytes);
    enum accel_status status = atomic_file_finish (&writer->atomic, err);
    if (!status && !writer->in_place && io_sync_directory_of (path))
        status = accel_fail_errno (err, "%s: written, but cannot sync its directory", path);
    return status;
}

void
safetensors_writer_destroy (struct safetensors_writer *writer)
{
    if (!writer)
        return;
    int saved = errno;
    atomic_file_close (&writer->atomic);
    for (size_t i = 0; i < writer->count; i++)
        free (writer->names[i]);
    free (writer->names);
    free (writer->order);
    free (writer->extents);
    free (writer);
    errno = saved;
}
