/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives on one tensor of any strides, for the library's own use; a call site says for which public call. */
#ifndef LIB_COLLECTIVES_TENSORS_H
#define LIB_COLLECTIVES_TENSORS_H

#include "lib/comm/comm_private.h"

#include <accel/tree.h>

/** Whether a collective can work on @p tensor: of a kind of memory and a type that we know, of sizes that fit. */
enum accel_status comm_check_tensor (struct accel *acc, const struct comm_site *site, const DLTensor *tensor,
                                     enum accel_dtype *dtype, struct accel_error *err);

/** Whether its elements are contiguous, or there are none. */
bool comm_is_plain (const DLTensor *tensor);

/** Whether two elements lie in one place, so that they cannot both be results. */
bool comm_has_doubles (const DLTensor *tensor);

/** Give @p out the shape of @p tensor with @p rows rows, and memory: its own if that is large enough. */
enum accel_status comm_shape_output (const struct comm_site *site, struct accel_tensor *out, const DLTensor *tensor,
                                     enum accel_dtype dtype, int64_t rows, struct accel_error *err);

/** accel_gather() for any call that gathers a tensor: checks @p tensor, shapes @p out, gathers. */
enum accel_status comm_gather_tensor (struct accel *acc, const struct comm_site *site, const DLTensor *tensor,
                                      struct accel_tensor *out, struct accel_error *err);

/** Reduce in place, then multiply by @p scale, which is 1 for other types than floats. */
enum accel_status comm_reduce_tensor (struct accel *acc, const struct comm_site *site, DLTensor *tensor,
                                      enum accel_op op, double scale, struct accel_error *err);

enum accel_status comm_broadcast_tensor (struct accel *acc, const struct comm_site *site, DLTensor *tensor, int root,
                                         struct accel_error *err);

enum accel_status comm_send_tensor (struct accel *acc, const struct comm_site *site, const DLTensor *tensor,
                                    int to_process, struct accel_error *err);

/** accel_tree_gather() for @p site. */
enum accel_status comm_gather_tree (struct accel *acc, const struct comm_site *site, struct accel_tree **gathered,
                                    const struct accel_tree *tree, struct accel_error *err);

#endif
