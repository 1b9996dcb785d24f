/* SPDX-License-Identifier: Apache-2.0 */
/* Debug mode (ACCELERATE_DEBUG_MODE): all processes compare what they pass before anything else is sent. */
#ifndef LIB_COLLECTIVES_VERIFY_H
#define LIB_COLLECTIVES_VERIFY_H

#include <accel/tree.h>

#include "lib/comm/comm_private.h"

/**
 * Outside of debug mode, and in one process: nothing.  In it, collective.
 *
 * @param tensor  checked
 * @retval ACCEL_ERR_INVALID  on all ranks: shapes or element types differ; `text` has a table of them
 */
enum accel_status comm_verify_tensor (struct accel *acc, const struct comm_site *site, const DLTensor *tensor,
                                      struct accel_error *err);

/** The same for a tree, whose leaves are tensors and checked. */
enum accel_status comm_verify_tree (struct accel *acc, const struct comm_site *site, const struct accel_tree *tree,
                                    struct accel_error *err);

#endif
