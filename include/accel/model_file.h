/* SPDX-License-Identifier: Apache-2.0 */
/* Saving a model for others to use, and loading one: safetensors files with the names that the libraries of Hugging
 * Face expect.  For all that a job needs to continue, see checkpoint.h. */
#ifndef ACCEL_MODEL_FILE_H
#define ACCEL_MODEL_FILE_H

#include <accel/base.h>
#include <accel/state.h>
#include <accel/train.h>

ACCEL_BEGIN_DECLS

/** A row of a table for accel_model_set_file_names(). */
struct accel_file_name {
    const char *ours;   /**< a name in the model, where each `*` is any text; NULL: a tensor that the model lacks */
    const char *theirs; /**< its name in files, with as many `*`: the same texts, in the same order */
    bool transposed;    /**< a matrix [rows, columns] of the model is [columns, rows] in files */
};

/**
 * Set the names and layouts that accel_save_model() and accel_load_model() use for the parameters of @p model, whose
 * own names stay as they are, also in checkpoints:
 *
 *   const struct accel_file_name rows[] = {
 *       { "blocks.*.out", "transformer.h.*.attn.c_proj.weight", .transposed = true },
 *       { "*", "transformer.*" },
 *       { "*", "*" },
 *       { NULL, "h.*.attn.bias" },
 *   };
 *
 * The first row whose `ours` matches a parameter says how it is saved.  When it is loaded, all rows that match are
 * tried in their order, until the file has the tensor: so files may have one of several names.  A parameter that no row
 * matches keeps its own name.  A tensor that matches a row without `ours` is neither loaded nor unexpected.
 *
 * @param rows  [count]; copied, and replace those of a former call; with 0, the files have the model's names again
 * @retval ACCEL_ERR_INVALID  a row without `theirs`, with different numbers of `*` or more than 8, or whose `ours`
 *                            matches no parameter, or one to be transposed that is not a matrix; two parameters
 *                            that would be saved under one name.  Nothing has changed
 */
#define accel_model_set_file_names(...)                                                  \
    accel_model_set_file_names_sized (sizeof (struct accel_file_name), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_model_set_file_names_sized (size_t row_size, struct accel_model *model, const struct accel_file_name *rows,
                                  size_t count, struct accel_error *err);

/** Which numbers accel_save_model() writes. */
enum accel_save_precision {
    ACCEL_SAVE_TRAINED, /**< parameters and buffers as they are, in their own types */
    ACCEL_SAVE_MASTERS, /**< of parameters of fewer than 32 bits, their float32 masters */
    ACCEL_SAVE_AS,      /**< all floats as `dtype`, rounded from the masters if there are any */
};

/** How to save a model; 0 is each field's default. */
struct accel_save_model_options {
    const char *max_shard_size; /**< "5GB", "200MB" (decimal TB, GB, MB, KB), or a number of bytes; NULL: "10GB" */
    uint64_t max_shard_bytes;   /**< the same as a number; 0: max_shard_size */
    enum accel_save_precision precision; /**< 0: ACCEL_SAVE_TRAINED */
    enum accel_dtype dtype; /**< of ACCEL_SAVE_AS: a float type; 0 is float32 */
};

/**
 * Save @p model as safetensors in a directory: "model.safetensors", or, if that would be larger than max_shard_size,
 * "model-00001-of-00003.safetensors" etc. and "model.safetensors.index.json".  The division, the names and the index
 * are those of Hugging Face Accelerate.  Collective.
 *
 * The directory and its parents are made if they do not exist.  Other files in it are left alone, except a model that
 * was saved there before: it is replaced when the new one is complete and on disk.  If this process, any other or the
 * machine dies at any moment, accel_load_model() and accel_safetensors_open() find either the former model or the new
 * one.
 *
 * Parameters that share their memory (tied weights) are saved once, under the first name; the file's metadata has the
 * other names as keys.  An 8-bit parameter, if saved as it is, is followed by a tensor NAME_scale: a float32 that its
 * elements are to be multiplied by.
 *
 * Rank 0 writes.  If there are several shards of together at least 64 MiB, and the model has the same bytes on all
 * ranks of its host, these write shards at the same time.  A failure on one rank is returned by all.
 *
 * @param options  may be NULL; must be equal on all ranks
 * @retval ACCEL_ERR_INVALID  an invalid size, a path that is a file, or another process is saving in the directory
 * @retval ACCEL_ERR_SYSTEM   no space, or another error of the file system; the former model is still there
 */
#define accel_save_model(...) \
    accel_save_model_at (ACCEL_HERE, sizeof (struct accel_save_model_options), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_save_model_at (const char *file, int line, size_t options_size, struct accel *acc, struct accel_model *model,
                     const char *directory, const struct accel_save_model_options *options, struct accel_error *err);

/** How to load a model; 0 is each field's default. */
struct accel_load_model_options {
    enum accel_flag strict; /**< names that only the model, or only the file, has are errors: yes unless ACCEL_NO */
    bool follow_links; /**< accept shards that are symbolic links, see accel_safetensors_options */
};

/** Names that do not match: torch's missing_keys and unexpected_keys. */
struct accel_load_result {
    size_t missing_count;
    const char *const *missing; /**< [missing_count] parameters that the file does not have */
    size_t unexpected_count;
    const char *const *unexpected; /**< [unexpected_count] tensors that the model does not have */
};

/**
 * Load parameters and buffers of @p model from a safetensors file, an index or a directory, as accel_safetensors_open()
 * finds them.  Collective: all ranks read, and a failure on one is returned by all.
 *
 * Names and layouts are those of accel_model_set_file_names().  Floats are converted to the type of the parameter.  Of
 * parameters of fewer than 32 bits, the masters are loaded, and the parameters rounded from them.  Other types and all
 * shapes must be equal.  Everything is checked before the model is changed; after an error while reading, it is
 * undefined.
 *
 * A tied parameter is loaded under any of its names.
 *
 * @param[out] result  may be NULL; else the names that do not match, also if that is why the call fails, or NULL after
 *                     another failure.  Owned by @p acc, until the next accel_load_model() or accel_close()
 * @param options      may be NULL; must be equal on all ranks
 * @retval ACCEL_ERR_INVALID  names do not match, unless strict is ACCEL_NO (`text` has the first of them and what was
 *                            probably meant), or a shape or type differs
 */
#define accel_load_model(...) \
    accel_load_model_at (ACCEL_HERE, sizeof (struct accel_load_model_options), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_load_model_at (const char *file, int line, size_t options_size, struct accel *acc, struct accel_model *model,
                     const char *path, const struct accel_load_result **result,
                     const struct accel_load_model_options *options, struct accel_error *err);

ACCEL_END_DECLS

#endif
