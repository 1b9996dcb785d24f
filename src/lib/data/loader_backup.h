/* SPDX-License-Identifier: Apache-2.0 */
/* Where a loader is and what its orders are drawn from, to be put back after a pass that must leave no trace. */
#ifndef LIB_DATA_BACKUP_H
#define LIB_DATA_BACKUP_H

#include <accel/loader.h>

struct loader_backup;

/**
 * Remember the state of @p loader, and let its next pass be a complete one.
 *
 * @retval ACCEL_ERR_INVALID  it is in the middle of an epoch
 */
enum accel_status loader_back_up (struct loader_backup **backup, struct accel_loader *loader, struct accel_error *err);

/** End the pass if one is running, put everything back, and free @p backup.  Accepts NULL, and a loader that is
 * gone. */
void loader_restore (struct loader_backup *backup);

#endif
