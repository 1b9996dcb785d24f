/* SPDX-License-Identifier: Apache-2.0 */
/* Sharded checkpoints: of models and optimizers, each rank writes what it has, in the layout of
 * torch.distributed.checkpoint: NAME/__RANK_0.distcp, and NAME/.metadata, which rank 0 makes of all ranks' lists. */
#ifndef LIB_CHECKPOINT_SHARDED_H
#define LIB_CHECKPOINT_SHARDED_H

#include "files/manifest.h"
#include "lib/state/state_dict.h"

/** Write and sync this rank's tensors of @p state, and its list of them for rank 0, and add the file to @p manifest.
 *  @param name  of the object, which becomes that of a folder in @p folder */
enum accel_status sharded_write (const struct accel_state_dict *state, const char *folder, const char *name, int rank,
                                 struct manifest *manifest, struct accel_error *err);

/** Rank 0, when all ranks have written and @p manifest has their files: write the metadata of each folder, and remove
 *  the lists.  @param size  ranks */
enum accel_status sharded_finish (const char *folder, int size, const struct manifest *manifest,
                                  struct accel_error *err);

/** Fill the empty @p state from NAME in @p folder, whose files @p manifest has.  @param[out] found  whether it has */
enum accel_status sharded_read (struct accel_state_dict *state, const char *folder, const char *name,
                                const struct manifest *manifest, bool *found, struct accel_error *err);

#endif
