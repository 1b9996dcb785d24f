/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of a model: one safetensors file, or a sharded set with its index.
 *
 * A save replaces a former set so that each moment has a whole one.  Shards are written as ".NAME.new", and so is the
 * new index, last: from then on the save counts, and the files get their names one by one, the index last.  As long as
 * ".model.safetensors.index.json.new" exists, it is the index, and ".NAME.new" comes before "NAME" for each of its
 * files. */
#ifndef FILES_WEIGHTS_H
#define FILES_WEIGHTS_H

#include "files/index.h"
#include "files/safetensors.h"

struct weights_file {
    struct source source;
    struct safetensors header;
    uint64_t data; /* where the tensors begin; bytes */
};

struct weights_tensor {
    const struct safetensors_tensor *tensor;
    const struct weights_file *file;
};

struct weights {
    struct weights_file *files; /* [file_count] in the order of their names; open */
    size_t file_count;
    struct weights_tensor *tensors; /* [count] in the order of files and data */
    size_t count;
    size_t *by_name; /* [count] indices of tensors, sorted */
};

/**
 * Open a safetensors file, an index, or a directory: its model.safetensors, else its only *.index.json.  The headers
 * are read and compared with the index.  A set that a save replaces at the same time is read either as it was or as it
 * will be.
 *
 * @param path          an index if it ends in ".json"
 * @param follow_links  accept files of a set that are symbolic links, which may lead anywhere
 */
enum accel_status weights_open (struct weights *weights, const char *path, bool follow_links, struct accel_error *err);

/** @return the index of the tensor of this name in `tensors`, SIZE_MAX if there is none. */
size_t weights_find (const struct weights *weights, const char *name);

/** Read @p length bytes of @p tensor from its byte @p offset on. */
enum accel_status weights_read (const struct weights_tensor *tensor, uint64_t offset, void *into, size_t length,
                                struct accel_error *err);

/** Also after weights_open() failed.  Preserves errno. */
void weights_close (struct weights *weights);

#endif
