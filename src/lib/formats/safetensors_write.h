/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of the program in safetensors files that the library writes. */
#ifndef LIB_FORMATS_SAFETENSORS_WRITE_H
#define LIB_FORMATS_SAFETENSORS_WRITE_H

#include <accel/tensor.h>

struct safetensors_writer;

/** Write a contiguous @p tensor, whose device has a table, as entry @p index: in pieces of @p most bytes at most. */
enum accel_status safetensors_write_tensor (struct safetensors_writer *writer, size_t index, const DLTensor *tensor,
                                            size_t most, struct accel_error *err);

#endif
