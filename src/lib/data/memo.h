/* SPDX-License-Identifier: Apache-2.0 */
/* Where a loader is and what its orders are drawn from, to be put back after a pass that must leave no trace. */
#ifndef LIB_DATA_MEMO_H
#define LIB_DATA_MEMO_H

#include <accel/loader.h>

struct loader_memo;

/**
 * Remember the state of @p loader, and let its next pass be a complete one.
 *
 * @retval ACCEL_ERR_INVALID  it is in the middle of an epoch
 */
enum accel_status loader_remember (struct loader_memo **memo, struct accel_loader *loader, struct accel_error *err);

/** End the pass if one is running, put everything back, and free @p memo.  Accepts NULL, and a loader that is gone. */
void loader_restore (struct loader_memo *memo);

#endif
