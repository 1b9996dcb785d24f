/* SPDX-License-Identifier: Apache-2.0 */
/* The lock of a project: two jobs that save to one would remove each other's checkpoints. */
#ifndef LIB_CHECKPOINT_PROJECT_LOCK_H
#define LIB_CHECKPOINT_PROJECT_LOCK_H

#include <accel/base.h>

/** The file in the folder of the checkpoints; it stays there, and names the job that has locked it last. */
#define PROJECT_LOCK_NAME ".lock"

struct project_lock {
    char *path; /* NULL: never taken */
    int fd;     /* open while `path` is not NULL */
};

/**
 * Lock the project whose checkpoints are in @p folder, which exists, until project_lock_release() or the end of this
 * process; does nothing if this lock has it already.  The lock is one of fcntl(): children of the process do not have
 * it, and on NFS it holds between hosts.  Waits a second for a job that is just ending.  A file system without locks is
 * no reason to fail.
 *
 * @retval ACCEL_ERR_INVALID  another process has locked it; `text` says which
 * @retval ACCEL_ERR_SYSTEM   the file cannot be opened or written
 */
enum accel_status project_lock_take (struct project_lock *lock, const char *folder, struct accel_error *err);

void project_lock_release (struct project_lock *lock);

#endif
