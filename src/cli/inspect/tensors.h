/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors that `merge-weights` and `inspect` read: of a safetensors file, of a sharded set with its index, of all
 * files of a folder, or of a distributed checkpoint of PyTorch. */
#ifndef CLI_TENSORS_H
#define CLI_TENSORS_H

#include "files/dcp.h"
#include "files/weights.h"
#include "util/fail.h"

struct tensors_item {
    const char *name;
    const char *file; /* without its folder; NULL for a distributed checkpoint, where chunks are in several files */
    enum safetensors_dtype dtype;
    size_t ndim;
    const int64_t *shape; /* [ndim] */
    uint64_t elements, bytes;
    const struct weights_tensor *weights; /* where it is; NULL for a distributed checkpoint */
    size_t index;                         /* of dcp.tensors */
};

struct tensors {
    struct weights *sets; /* [set_count] */
    size_t set_count;
    struct dcp_folder *dcp; /* or NULL */
    struct tensors_item *items; /* [count] sorted by name, then file */
    size_t count;
    uint64_t bytes, elements; /* of all */
    unsigned char *cache;   /* the elements of one tensor of dcp */
    size_t cached;          /* its index */
};

enum tensors_scope {
    TENSORS_OF_MODEL, /* of a folder, one model: model.safetensors or the set of its only index */
    TENSORS_OF_ALL,   /* of a folder, all of its safetensors files; names may be there several times */
};

/** Open @p path, a file or a folder, and read what its tensors are, but not their elements.
 *  @param follow_links  accept files of a set that are symbolic links, which may lead anywhere */
int tensors_open (struct tensors *tensors, const char *path, enum tensors_scope scope, bool follow_links,
                  struct fail *fail);

/** Read @p length bytes of item @p number from its byte @p offset on.  Of a distributed checkpoint, one tensor at a
 *  time is in memory. */
int tensors_read (struct tensors *tensors, size_t number, uint64_t offset, void *into, size_t length,
                  struct fail *fail);

/** Append a shape: "[2, 3]". */
void tensors_add_shape (struct strbuf *out, const struct tensors_item *item);

/** Also after tensors_open() failed. */
void tensors_close (struct tensors *tensors);

#endif
