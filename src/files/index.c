/* SPDX-License-Identifier: Apache-2.0 */
/* The index of a sharded set; see index.h. */
#include <config.h>

#include "files/index.h"

#include "files/error.h"
#include "files/json_reader.h"
#include "util/array.h"
#include "util/cleanup.h"
#include "util/text.h"
#include "util/utf8.h"

#include <stdlib.h>
#include <string.h>

bool
index_is_plain_name (const char *name)
{
    return *name && !strchr (name, '/') && strcmp (name, ".") != 0 && strcmp (name, "..") != 0;
}

static enum accel_status
add_entry (struct index *index, struct json_reader *json)
{
    struct index_entry *entry = array_room (&index->entries, index->count, sizeof *entry);
    if (!entry)
        return accel_fail (json->err, ACCEL_ERR_NOMEM, "cannot allocate memory for %zu entries", index->count + 1);
    *entry = (struct index_entry){ 0 };
    index->count++;
    enum accel_status status = json_reader_key (json, &entry->name);
    if (!status)
        status = json_reader_string (json, &entry->file, "the name of a file");
    if (!status && !index_is_plain_name (entry->file))
        status = json_reader_fail (json, "tensor '%.80s': '%.80s' is not the name of a file in the same directory",
                                   entry->name, entry->file);
    return status;
}

static enum accel_status
parse_map (struct index *index, struct json_reader *json)
{
    bool first = true, more;
    enum accel_status status = json_reader_take (json, '{', "'{' of weight_map");
    while (!status && !(status = json_reader_next (json, '}', &first, &more)) && more)
        status = add_entry (index, json);
    return status;
}

static enum accel_status
parse_members (struct index *index, struct json_reader *json)
{
    bool first = true, more, has_map = false;
    enum accel_status status = json_reader_take (json, '{', "'{'");
    while (!status) {
        AUTO_FREE char *key = NULL;
        if ((status = json_reader_next (json, '}', &first, &more)) || !more)
            break;
        if ((status = json_reader_key (json, &key)))
            break;
        if (strcmp (key, "weight_map") != 0)
            status = json_reader_skip (json);
        else if (has_map)
            status = json_reader_fail (json, "duplicate weight_map");
        else {
            has_map = true;
            status = parse_map (index, json);
        }
    }
    if (!status && !has_map)
        status = json_reader_fail (json, "missing weight_map");
    return status ? status : json_reader_end (json);
}

static int
compare_names (const void *a, const void *b)
{
    return strcmp (((const struct index_entry *) a)->name, ((const struct index_entry *) b)->name);
}

static enum accel_status
arrange (struct index *index, struct accel_error *err)
{
    if (!index->count)
        return ACCEL_OK;
    qsort (index->entries, index->count, sizeof *index->entries, compare_names);
    for (size_t i = 1; i < index->count; i++)
        if (!strcmp (index->entries[i].name, index->entries[i - 1].name))
            return accel_fail (err, ACCEL_ERR_FORMAT, "duplicate tensor '%.80s'", index->entries[i].name);
    index->files = malloc (index->count * sizeof *index->files);
    if (!index->files)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for the names of %zu files", index->count);
    for (size_t i = 0; i < index->count; i++)
        index->files[i] = index->entries[i].file;
    qsort (index->files, index->count, sizeof *index->files, text_compare);
    for (size_t i = 0; i < index->count; i++)
        if (!i || strcmp (index->files[i], index->files[i - 1]) != 0)
            index->files[index->file_count++] = index->files[i];
    for (size_t i = 0; i < index->count; i++) {
        char **file
            = bsearch (&index->entries[i].file, index->files, index->file_count, sizeof *index->files, text_compare);
        index->entries[i].file_number = (size_t) (file - index->files);
    }
    return ACCEL_OK;
}

enum accel_status
index_parse (struct index *index, const char *text, size_t length, struct accel_error *err)
{
    struct json_reader json = { .text = text, .length = length, .err = err };
    *index = (struct index){ 0 };
    enum accel_status status = json_reader_begin (&json);
    if (!status)
        status = parse_members (index, &json);
    if (!status)
        status = arrange (index, err);
    if (status)
        index_release (index);
    return status;
}

enum accel_status
index_read (struct index *index, const struct source *source, struct accel_error *err)
{
    *index = (struct index){ 0 };
    if (source->size > INDEX_MAX_BYTES)
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s: not an index: has %llu bytes, but the maximum is %d",
                           source->path, (unsigned long long) source->size, INDEX_MAX_BYTES);
    AUTO_FREE char *text = malloc ((size_t) source->size + 1);
    if (!text)
        return accel_fail (err, ACCEL_ERR_NOMEM, "%s: cannot allocate memory for %llu bytes", source->path,
                           (unsigned long long) source->size);
    enum accel_status status = source_read (source, 0, text, (size_t) source->size, err);
    if (status)
        return status;
    status = index_parse (index, text, (size_t) source->size, err);
    return status ? accel_fail_in (err, status, "%s", source->path) : ACCEL_OK;
}

void
index_write (struct strbuf *text, struct index_entry *entries, size_t count, uint64_t total_size)
{
    if (count)
        qsort (entries, count, sizeof *entries, compare_names);
    strbuf_printf (text, "{\n  \"metadata\": {\n    \"total_size\": %llu\n  },\n  \"weight_map\": {",
                   (unsigned long long) total_size);
    for (size_t i = 0; i < count; i++) {
        strbuf_add (text, i ? ",\n    " : "\n    ");
        quote_ascii (text, entries[i].name);
        strbuf_add (text, ": ");
        quote_ascii (text, entries[i].file);
    }
    strbuf_add (text, count ? "\n  }\n}\n" : "}\n}\n");
}

void
index_release (struct index *index)
{
    int saved = errno;
    for (size_t i = 0; i < index->count; i++) {
        free (index->entries[i].name);
        free (index->entries[i].file);
    }
    free (index->entries);
    free (index->files);
    *index = (struct index){ 0 };
    errno = saved;
}
