/* SPDX-License-Identifier: Apache-2.0 */
/* Safetensors files (https://github.com/huggingface/safetensors): reading one file or a sharded set, and writing.
 *
 * A tensor can be used where it is in the file, without a copy (accel_safetensors_view), or be read into memory of the
 * program (accel_safetensors_read), whole or a part of it, also converted to another type of floats.  Views are
 * host memory; tensors that are read or written may be on a GPU.
 *
 * Views are a mapping of the file.  If the file is truncated while it is mapped, or its disk fails, using a view kills
 * the process with SIGBUS, as with every mapping.  Files that are replaced by renaming, as this library and Python's
 * safetensors do, are safe: the mapping keeps the former file.  For files that others may truncate, use
 * accel_safetensors_read(), which then fails with an error, or set `in_memory`. */
#ifndef ACCEL_SAFETENSORS_H
#define ACCEL_SAFETENSORS_H

#include <accel/base.h>
#include <accel/tensor.h>

ACCEL_BEGIN_DECLS

/** An open file, or all files of a sharded set.  May be read by several threads at once, except views and close. */
struct accel_safetensors;

/** How to open; 0 is each field's default. */
struct accel_safetensors_options {
    bool in_memory;    /**< views are copies in memory, read when they are first asked for, instead of a mapping */
    bool follow_links; /**< accept files of a sharded set that are symbolic links, which may lead anywhere (the cache of
                            the Hugging Face Hub has such links) */
};

/** A tensor of an open file.  What it points to is valid until the file is closed. */
struct accel_safetensors_info {
    const char *name;
    const char *dtype_name; /**< the format's: "BF16" */
    DLDataType dl_dtype;    /**< of all types of the format; codes as in DLPack 1.1 */
    enum accel_dtype dtype; /**< ACCEL_DTYPE_COUNT if libaccel cannot compute with it */
    int ndim;
    const int64_t *shape; /**< [ndim] */
    uint64_t bytes;
    const char *path; /**< of its file */
    uint64_t offset;  /**< of its first byte in that file */
};

/**
 * Open a safetensors file, an index ("*.index.json") with the files that it names, or a directory: its
 * model.safetensors, or else its only index.  Headers are read and checked completely; no tensor is.
 *
 * A set that accel_save_model() replaces at the same time is opened either as it was or as it will be.
 *
 * @param options  may be NULL
 * @retval ACCEL_ERR_SYSTEM   a file is missing or cannot be read
 * @retval ACCEL_ERR_FORMAT   a file is truncated or malformed; `text` says where
 * @retval ACCEL_ERR_INVALID  a directory without a model, or a file of a set that is a symbolic link
 */
#define accel_safetensors_open(...)                                                      \
    accel_safetensors_open_sized (sizeof (struct accel_safetensors_options), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_safetensors_open_sized (size_t options_size, struct accel_safetensors **file, const char *path,
                              const struct accel_safetensors_options *options, struct accel_error *err);

/** Close @p file; its views and infos become invalid.  Accepts NULL. */
ACCEL_API void accel_safetensors_close (struct accel_safetensors *file);

/** @return the number of tensors. */
ACCEL_API size_t accel_safetensors_count (const struct accel_safetensors *file);

/** @return tensor @p index in the order of the data (of a set: of its files' names), or NULL; owned by @p file. */
ACCEL_API const struct accel_safetensors_info *
accel_safetensors_get (const struct accel_safetensors *file, size_t index);

/**
 * Find a tensor by name.
 *
 * @param[out] index  for the other functions
 * @retval ACCEL_ERR_INVALID  there is none; `text` has the nearest name
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_safetensors_find (const struct accel_safetensors *file, const char *name, size_t *index,
                        struct accel_error *err);

/**
 * Go through the metadata; of a set, file after file.
 *
 * @param[out] value  may be NULL
 * @return key number @p index, or NULL after the last; owned by @p file, like the value
 */
ACCEL_API const char *
accel_safetensors_metadata (const struct accel_safetensors *file, size_t index, const char **value);

/**
 * Get a tensor without a copy: contiguous, in host memory, read-only.  It is valid until @p file is closed; see the top
 * of this header for files that are truncated meanwhile.  A tensor that is not aligned to its elements in the file, as
 * other writers may leave it, is copied into memory of @p file.
 *
 * @param[out] view  shape and data belong to @p file
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_safetensors_view (struct accel_safetensors *file, size_t index, DLTensor *view, struct accel_error *err);

/**
 * Read a tensor, or the part with the indices begin[i] to end[i] - 1 of each dimension i, into memory of the program.
 * Only this part is read from the file, except for gaps of up to a few KiB.
 *
 * @param begin  [ndim]; NULL: 0 everywhere
 * @param end    [ndim]; NULL: the tensor's shape
 * @param into   contiguous, in memory of the host or of a GPU, with the shape of the part.  Its type must be the
 *               tensor's, or both must be float types; then each number is rounded to the nearest
 * @retval ACCEL_ERR_INVALID  another shape or type
 * @retval ACCEL_ERR_FORMAT   the file was truncated after it was opened
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_safetensors_read (const struct accel_safetensors *file, size_t index, const int64_t *begin, const int64_t *end,
                        const DLTensor *into, struct accel_error *err);

/** A tensor to be written.  accel_safetensors_writer_create() needs only its type and shape, not its data. */
struct accel_safetensors_tensor {
    const char *name;
    const DLTensor *tensor;
};

/** Writes a file piece by piece. */
struct accel_safetensors_writer;

/**
 * Begin to write a file.  All tensors are declared now, and their bytes follow by accel_safetensors_writer_write(), so
 * that no more than a piece needs to be in memory.  The file appears at @p path, complete and on disk, with
 * accel_safetensors_writer_commit(); until then it is a hidden file beside it, and whatever was at @p path stays.
 *
 * The file has the bytes that Python's safetensors 0.8 would write: tensors by element type, widest first, then by
 * name.  Writing them in this order is fastest.
 *
 * @param tensors   [count] in any order; names are copied
 * @param metadata  keys and values alternately, then NULL; NULL: none.  The libraries of Hugging Face expect
 *                  { "format", "pt", NULL }
 * @retval ACCEL_ERR_INVALID  a name is missing, duplicate or not UTF-8, or sizes overflow
 * @retval ACCEL_ERR_SYSTEM   the file cannot be created, or there is not enough space for it
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_safetensors_writer_create (struct accel_safetensors_writer **writer, const char *path,
                                 const struct accel_safetensors_tensor *tensors, size_t count,
                                 const char *const *metadata, struct accel_error *err);

/**
 * Write the next @p data_bytes bytes of tensor @p index: little-endian elements in row-major order.  Tensors can be
 * written in any order, each from its first byte to its last.  Different tensors can be written by different threads at
 * the same time.
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_safetensors_writer_write (struct accel_safetensors_writer *writer, size_t index, const void *data,
                                size_t data_bytes, struct accel_error *err);

/**
 * Sync the file, and give it its name.
 *
 * @retval ACCEL_ERR_INVALID  a tensor is incomplete
 * @retval ACCEL_ERR_SYSTEM   the disk is full or failed; what was at the path before is still there
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_safetensors_writer_commit (struct accel_safetensors_writer *writer, struct accel_error *err);

/** Free @p writer, and remove its file unless it was committed.  Accepts NULL. */
ACCEL_API void accel_safetensors_writer_destroy (struct accel_safetensors_writer *writer);

/**
 * Write a file of tensors that are in memory: Python's save_file.
 *
 * @param tensors   [count]; contiguous, in memory of the host or of a GPU
 * @param metadata  as for accel_safetensors_writer_create()
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_safetensors_save (const char *path, const struct accel_safetensors_tensor *tensors, size_t count,
                        const char *const *metadata, struct accel_error *err);

ACCEL_END_DECLS

#endif
