/* SPDX-License-Identifier: Apache-2.0 */
/* Writing checkpoints of torch.distributed.checkpoint (dcp.h): a tensor is saved in boxes, each of which is an archive
 * of torch.save, and the metadata say which box is where.  Elements that follow each other in a tensor, such as the
 * share of one process, are a few boxes: the end of a row, whole rows, the beginning of a row. */
#ifndef FILES_DCP_WRITE_H
#define FILES_DCP_WRITE_H

#include "files/safetensors.h"
#include "util/strbuf.h"

#include <accel/tensor.h>

/** More elements than this become several boxes, so that no archive needs the sizes of zip64. */
enum { DCP_MOST_BYTES = 1 << 30 };

/** A box of a tensor. */
struct dcp_box {
    const char *name; /* of the tensor */
    enum safetensors_dtype dtype;
    int ndim;
    const int64_t *shape; /* [ndim] of the tensor */
    uint64_t offsets[ACCEL_MAX_DIMS], sizes[ACCEL_MAX_DIMS];
    int file;               /* N of __N_0.distcp */
    uint64_t begin, length; /* of its archive in the file, bytes */
};

/** The largest box that begins at element @p from of a tensor, in row-major order, and ends before element @p end: sets
 *  `offsets` and `sizes` of @p box, whose `dtype`, `ndim` and `shape` are there.  Without elements,
 *  it is all of an empty tensor.
 *  @return how many elements it has */
uint64_t dcp_next_box (struct dcp_box *box, uint64_t from, uint64_t end);

/** Append what comes before the elements of a box in its archive, and what comes after them.
 *  @param crc  crc32_add() of the elements; lengths do not depend on it  @{ */
void dcp_archive_head (struct strbuf *out, const struct dcp_box *box, uint32_t crc);
void dcp_archive_tail (struct strbuf *out, const struct dcp_box *box, uint32_t crc);
/** @} */

/**
 * Append the text of .metadata, for a dictionary {KEY: {name: tensor}}.
 *
 * @param boxes  [count], sorted so that those of a tensor follow each other
 */
void dcp_write_metadata (struct strbuf *out, const char *key, const struct dcp_box *boxes, size_t count);

#endif
