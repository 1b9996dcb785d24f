/* SPDX-License-Identifier: Apache-2.0 */
/* State dicts to files of a checkpoint, and back: tensors in NAME.safetensors, everything else in NAME.json. */
#ifndef LIB_CHECKPOINT_FILES_H
#define LIB_CHECKPOINT_FILES_H

#include "files/manifest.h"
#include "lib/state/state_dict.h"

#define CHECKPOINT_TENSORS ".safetensors"
#define CHECKPOINT_VALUES ".json"

/**
 * Write the files of @p state, sync them, and add them to @p manifest.
 *
 * @param folder  that is being written
 * @param name    of the files, without their ends
 * @param needed  write a file even if @p state is empty
 * @param rank    this process's; if @p state is saved `in_shares`, all ranks write what they have (sharded.h)
 */
enum accel_status checkpoint_write (const struct accel_state_dict *state, const char *folder, const char *name,
                                    bool needed, int rank, struct manifest *manifest, struct accel_error *err);

/** @return whether @p name in @p folder, a descriptor, is not a file of a checkpoint: ".", "..", or a regular file with
 *          a name that NFS gives to a removed file that a process still has open. */
bool checkpoint_passes_over (int folder, const char *name);

/**
 * Add all other files of @p folder to @p manifest, such as those of hooks, and sync them.
 *
 * @retval ACCEL_ERR_INVALID  one is not a regular file or a folder, or has a name that a manifest cannot have
 */
enum accel_status checkpoint_add_others (const char *folder, struct manifest *manifest, struct accel_error *err);

/**
 * Fill @p state, which is empty, from the files of @p name.
 *
 * @param[out] found  whether there are any
 */
enum accel_status checkpoint_read (struct accel_state_dict *state, const char *folder, const char *name,
                                   const struct manifest *manifest, bool *found, struct accel_error *err);

/** @return the size of the files of @p name together. */
uint64_t checkpoint_bytes (const struct manifest *manifest, const char *name);

#endif
