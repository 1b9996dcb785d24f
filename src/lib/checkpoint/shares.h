/* SPDX-License-Identifier: Apache-2.0 */
/* How rank 0 learns, without the communicator, that the other ranks have written their files: while it writes, each
 * holds a lock on a file of its own in the folder; at the end that file contains its manifest.
 *
 * So a rank that ends early, whatever the reason, is noticed at once: its file is not locked, and is not complete.
 * Between hosts, some file systems' locks exclude no process.  Rank 0 looks at once when all ranks have begun; if a
 * file is not locked then, it relies on other signs: that rank says itself if it fails, this host knows who was killed
 * on it, and for ranks of other hosts there is a deadline. */
#ifndef LIB_CHECKPOINT_SHARES_H
#define LIB_CHECKPOINT_SHARES_H

#include "files/manifest.h"
#include "lib/comm/watch/watch_object.h"

/** Another rank than 0: make and lock its file in @p folder, before rank 0 begins to wait. */
enum accel_status share_begin (int *fd, const char *folder, int rank, struct accel_error *err);

/** Write to it that this rank's files are complete and on disk.  Any thread. */
enum accel_status share_write (int fd, const struct manifest *manifest, struct accel_error *err);

/** Let rank 0 know that this rank has failed.  Any thread. */
void share_fail (const char *folder, int rank);

/** Unlock and close the file; -1: nothing. */
void share_end (int *fd);

/** What rank 0 knows of the others.  All zero: nothing. */
struct shares {
    const char *folder;
    int size;
    struct watch_source *source; /* knows how processes ended; may be NULL */
    unsigned char *states;       /* [size] */
};

/** Look at all ranks, just after each has begun.  Any thread.  @param[out] shares  for shares_release() */
enum accel_status shares_begin (struct shares *shares, const char *folder, int size, struct watch_source *source,
                                struct accel_error *err);

/**
 * Wait for all ranks, move their files to @p manifest, and remove the locked files.  Returns when no rank writes to the
 * folder any more, or at the deadline.  Any thread.
 *
 * @retval ACCEL_ERR_PEER     a rank has ended, or failed to write
 * @retval ACCEL_ERR_TIMEOUT  a rank has not written everything @p timeout_ms after this call
 * @retval ACCEL_ERR_SYSTEM   this process cannot read what a rank has written; @p err says why
 */
enum accel_status shares_gather (struct shares *shares, struct manifest *manifest, uint32_t timeout_ms,
                                 struct accel_error *err);

void shares_release (struct shares *shares);

#endif
