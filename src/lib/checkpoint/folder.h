/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of a checkpoint that is being saved: written beside its place, and put there when it is complete. */
#ifndef LIB_CHECKPOINT_FOLDER_H
#define LIB_CHECKPOINT_FOLDER_H

#include <accel/base.h>

#include <limits.h>
#include <stdbool.h>

struct checkpoint_folder {
    char place[PATH_MAX];     /* absolute */
    char temporary[PATH_MAX]; /* beside it; empty: there is none */
    char kept[PATH_MAX];      /* what was at the place, and was not removed because others had put files into it while
                               * the checkpoint was written; empty: there is none */
    bool is_sharded;          /* each rank writes its share of models and optimizers */
    int lock;                 /* rank 0: held as long as the temporary folder is in use, so that no process takes it for
                               * a remainder of a process that was killed; -1: none */
};

#define CHECKPOINT_NO_FOLDER { .lock = -1 }

/** Create the folders above @p path. */
enum accel_status checkpoint_folder_make_parents (const char *path, struct accel_error *err);

/**
 * Make a temporary folder for a checkpoint at @p path, and the folders above.  Remainders of saves to this place that
 * did not end are removed.
 *
 * @param path       not empty
 * @param automatic  nothing may be there; otherwise a checkpoint, which will be replaced, or an empty folder may be
 */
enum accel_status checkpoint_folder_begin (struct checkpoint_folder *folder, const char *path, bool automatic,
                                           struct accel_error *err);

/** Before the folder is put in its place: make that PLACE.nonfinite, so that what is at the place stays. */
enum accel_status checkpoint_folder_keep_apart (struct checkpoint_folder *folder, struct accel_error *err);

/** Put the complete folder in its place.  Afterwards either what was there before is, or the new checkpoint.  What was
 * there before is removed, unless there are other files in it than those of a checkpoint. */
enum accel_status checkpoint_folder_commit (struct checkpoint_folder *folder, struct accel_error *err);

/** Remove a temporary folder that was not committed, and release the lock.  Call it again when no rank writes any more:
 * the first call may have failed because another rank was still writing there. */
void checkpoint_folder_end (struct checkpoint_folder *folder);

/**
 * Remove complete checkpoints of the folder that contains @p place, with everything in them, those with the lowest
 * numbers first, until there are at most @p limit.  Never removes @p place, which counts.  If @p place is kept apart,
 * the others that are kept apart are removed instead.
 *
 * @param limit  0: keep all
 * @param best   the numbers of two that stay besides them; BEST_NONE: there is none
 */
enum accel_status checkpoint_folder_limit (const char *place, uint64_t limit, const uint64_t best[2],
                                           struct accel_error *err);

/**
 * Find what is to be loaded for @p path: that folder; or, if a save was killed while it replaced it, and the file
 * system cannot exchange two folders, the newest complete one beside it.
 *
 * @param[out] place  [PATH_MAX], absolute
 */
enum accel_status checkpoint_folder_find (char *place, const char *path, struct accel_error *err);

#endif
