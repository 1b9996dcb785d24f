/* SPDX-License-Identifier: Apache-2.0 */
/* The index of a sharded set of safetensors files (model.safetensors.index.json): which file has which tensor. */
#ifndef FILES_INDEX_H
#define FILES_INDEX_H

#include "files/source.h"
#include "util/strbuf.h"

/** The files of Hugging Face's libraries. */
#define WEIGHTS_NAME "model.safetensors"
#define WEIGHTS_INDEX_NAME "model.safetensors.index.json"

/** The index of a save that is complete, but whose files do not all have their names yet; see weights.h. */
#define WEIGHTS_NEW_INDEX_NAME "." WEIGHTS_INDEX_NAME ".new"

enum { INDEX_MAX_BYTES = 100000000 }; /* as many as a header may have */

struct index_entry {
    char *name; /* of the tensor */
    char *file;
    size_t file_number; /* in `files` */
};

struct index {
    struct index_entry *entries; /* [count] sorted by name */
    size_t count;
    char **files; /* [file_count] sorted, without duplicates; they belong to the entries */
    size_t file_count;
};

/**
 * Read the text of an index.  Names of files must be plain: no directories, not "." or "..".
 *
 * @param text  [length]; need not be terminated.  Messages say "byte N" of it
 */
enum accel_status index_parse (struct index *index, const char *text, size_t length, struct accel_error *err);

/** Read an open file. */
enum accel_status index_read (struct index *index, const struct source *source, struct accel_error *err);

/**
 * Write an index with the bytes of Hugging Face Accelerate: json.dumps (..., indent=2, sort_keys=True) and a newline.
 *
 * @param entries  [count]; sorted here
 */
void index_write (struct strbuf *text, struct index_entry *entries, size_t count, uint64_t total_size);

/** @return whether @p name can only be a file of the same directory. */
bool index_is_plain_name (const char *name);

/** Free what index_parse() made; also after it failed. */
void index_release (struct index *index);

#endif
