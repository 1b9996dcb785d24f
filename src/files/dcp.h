/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of torch.distributed.checkpoint, as FSDP writes them with SHARDED_STATE_DICT: a folder with the pickle
 * .metadata, which says what the tensors are and where their chunks lie, and files *.distcp of archives, one for each
 * chunk. */
#ifndef FILES_DCP_H
#define FILES_DCP_H

#include "files/safetensors.h"
#include "util/strbuf.h"

#define DCP_METADATA ".metadata"

struct dcp_chunk {
    const uint64_t *offsets;  /* [ndim] of the tensor */
    const uint64_t *sizes;    /* [ndim] */
    size_t file;              /* index in dcp.files */
    uint64_t begin, end;      /* bytes of that file: an archive of torch.save */
    uint64_t elements;        /* byte of that file where its elements begin; 0: not looked for yet */
};

struct dcp_tensor {
    char *name; /* as Accelerate's merge-weights calls it: see dcp_parse() */
    enum safetensors_dtype dtype;
    int ndim;
    uint64_t *numbers;        /* all that shape and chunks point to */
    const uint64_t *shape;    /* [ndim] */
    uint64_t bytes;           /* fits size_t */
    struct dcp_chunk *chunks; /* [chunk_count]; together they are the tensor, without gaps and overlaps */
    size_t chunk_count;
};

struct dcp {
    struct dcp_tensor *tensors; /* [count], in the order of the metadata */
    size_t count;
    struct strlist files;       /* names without '/' */
    struct strlist objects;     /* names of what is not a tensor */
};

/**
 * Read the text of .metadata.  No file is touched.
 *
 * Names are the paths of the saved, nested dictionary, joined by '.'; if all of them begin with the same key, as those
 * of {"model": {...}} do, without that key.  No two are the same.
 */
enum accel_status dcp_parse (struct dcp *dcp, const char *text, size_t length, struct accel_error *err);

/** A folder whose metadata were read. */
struct dcp_folder {
    struct dcp dcp;
    char *path;
    int fd;
    struct source *sources; /* [dcp.files.count], opened when they are needed */
    size_t open_count;
};

/** @return whether the folder has a file .metadata. */
bool dcp_is_folder (const char *path);

enum accel_status dcp_open (struct dcp_folder *folder, const char *path, struct accel_error *err);

/** Put all elements of dcp.tensors[@p index] into @p array, row-major. @param array  [tensor->bytes] */
enum accel_status dcp_read_tensor (struct dcp_folder *folder, size_t index, void *array, struct accel_error *err);

/** Read @p length bytes of the elements of a chunk, row-major, from byte @p at of these on.  Compares no CRC. */
enum accel_status dcp_read_chunk (struct dcp_folder *folder, const struct dcp_tensor *tensor, struct dcp_chunk *chunk,
                                  uint64_t at, void *bytes, size_t length, struct accel_error *err);

/** Preserve errno; also after the functions above failed. @{ */
void dcp_close (struct dcp_folder *folder);
void dcp_release (struct dcp *dcp);
/** @} */

#endif
