/* SPDX-License-Identifier: Apache-2.0 */
/* What the library asks of tensors that others describe. */
#ifndef LIB_TENSOR_H
#define LIB_TENSOR_H

#include <accel/tensor.h>

/** Whether the strides, where there are any, are those of a contiguous tensor; sizes are >= 0. */
bool tensor_is_contiguous (const DLTensor *tensor);

#endif
