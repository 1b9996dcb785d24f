/* SPDX-License-Identifier: Apache-2.0 */
/* Writing safetensors files piece by piece: the header first, laid out from names, types and shapes, then the tensors'
 * bytes as they come.  The files are byte for byte those of the format's own writer (version 0.8): tensors by element
 * type, widest first, then by name; the header in one line, padded with spaces to a multiple of 8. */
#ifndef FILES_SAFETENSORS_WRITER_H
#define FILES_SAFETENSORS_WRITER_H

#include "files/safetensors.h"

struct safetensors_entry {
    const char *name;
    enum safetensors_dtype dtype;
    size_t ndim;
    const int64_t *shape; /* [ndim] */
};

/** What is to be written; copied but for `user`. */
struct safetensors_plan {
    const struct safetensors_entry *entries; /* [count] in any order */
    size_t count;
    const struct safetensors_pair *metadata; /* [pairs], written in this order */
    size_t pairs;
    bool in_place; /* create PATH itself, removing a former file, for callers that rename it, or its directory, later */
    /** Called for all bytes of entry @p index in their order, before they are written; NULL: nothing. */
    void (*piece) (void *user, size_t index, const void *bytes, size_t length);
    void *user;
};

struct safetensors_writer;

/**
 * Create a file of the final size beside @p path, and write its header.  A disk without enough space fails here.
 * Unfinished files of @p path that killed processes left are removed.
 *
 * @retval ACCEL_ERR_INVALID  names that are missing, duplicate or not UTF-8; sizes that overflow
 */
enum accel_status safetensors_writer_create (struct safetensors_writer **writer, const char *path,
                                             const struct safetensors_plan *plan, struct accel_error *err);

/** @return the entry that is the @p extent th of the file; writing in this order is fastest. */
size_t safetensors_writer_order (const struct safetensors_writer *writer, size_t extent);

/** @return bytes of entry @p index. */
uint64_t safetensors_writer_entry_bytes (const struct safetensors_writer *writer, size_t index);

/** Write the next @p length bytes of entry @p index.  Several threads may write different entries at once. */
enum accel_status safetensors_writer_write (struct safetensors_writer *writer, size_t index, const void *bytes,
                                            size_t length, struct accel_error *err);

/** Fail unless all entries are complete; sync the file, rename it to its path unless that exists, sync the directory.
 *  After a failure only safetensors_writer_destroy() may be called. */
enum accel_status safetensors_writer_commit (struct safetensors_writer *writer, struct accel_error *err);

/** Also removes the file, unless it was committed.  Accepts NULL, preserves errno. */
void safetensors_writer_destroy (struct safetensors_writer *writer);

#endif
