/* SPDX-License-Identifier: Apache-2.0 */
/* An open safetensors file from the inside. */
#ifndef LIB_FORMATS_SAFETENSORS_OBJECT_H
#define LIB_FORMATS_SAFETENSORS_OBJECT_H

#include <accel/safetensors.h>

#include "files/weights.h"

struct accel_safetensors {
    struct weights weights;
    struct accel_safetensors_info *infos; /* [weights.count] */
    void **copies;                        /* [weights.count] of views that are not a mapping, or NULL */
    bool in_memory;
};

/** @return the value of @p key, of a set in the first file that has it, or NULL; owned by @p file. */
const char *safetensors_metadata (const struct accel_safetensors *file, const char *key);

/**
 * Read a part of a tensor; see accel_safetensors_read(), but the arguments are valid.
 *
 * @param into  elements of type @p dtype, to which the tensor's can be converted
 */
enum accel_status slice_read (const struct weights_tensor *tensor, const int64_t *begin, const int64_t *end, void *into,
                              DLDataType dtype, struct accel_error *err);

struct safetensors_writer;

/** Write a contiguous @p tensor, whose device has a table, as entry @p index: in pieces of @p most bytes at most. */
enum accel_status safetensors_write_tensor (struct safetensors_writer *writer, size_t index, const DLTensor *tensor,
                                            size_t most, struct accel_error *err);

#endif
