/* SPDX-License-Identifier: Apache-2.0 */
/* How a model is divided into files: the rule and the names of Hugging Face's libraries (huggingface_hub's
 * split_torch_state_dict_into_shards). */
#ifndef FILES_SHARDS_H
#define FILES_SHARDS_H

#include <accel/base.h>

#define SHARDS_DEFAULT_SIZE "10GB" /* Accelerate's save_model */

enum { SHARDS_NAME_SIZE = 64 };

/** Read a size: "5GB", "200 mb", "1.5TB", "64KB" (decimal), or a number of bytes. */
enum accel_status shards_parse_size (const char *text, uint64_t *bytes, struct accel_error *err);

/**
 * Divide tensors, in their order: a tensor of more than @p most bytes gets a file of its own; another begins a new file
 * if the open one would become larger than that.
 *
 * @param bytes          [count]
 * @param[out] shard_of  [count] numbers of files, 0 for the first
 * @return the number of files
 */
size_t shards_split (const uint64_t *bytes, size_t count, uint64_t most, size_t *shard_of);

/** The name of file @p shard of @p count: "model.safetensors" if it is the only one, else
 *  "model-00001-of-00003.safetensors".  @return @p name */
const char *shards_name (char name[SHARDS_NAME_SIZE], size_t shard, size_t count);

/** @return whether @p name is one that shards_name() gives to a file of several. */
bool shards_is_name (const char *name);

#endif
