/* SPDX-License-Identifier: Apache-2.0 */
/* What synchronous and asynchronous saves have in common: where a checkpoint goes, and the steps of all ranks. */
#ifndef LIB_CHECKPOINT_SAVE_H
#define LIB_CHECKPOINT_SAVE_H

#include "files/manifest.h"
#include "lib/checkpoint/best.h"
#include "lib/checkpoint/checkpoint_part.h"
#include "lib/checkpoint/folder.h"
#include "lib/comm/comm_private.h"

/** One save. */
struct save {
    int rank, size;
    struct checkpoint_folder folder;
    struct manifest manifest; /* of the files of this rank; then on rank 0 of all */
    bool automatic;           /* as configured when it began */
    uint64_t total_limit;
    struct best_choice best; /* the checkpoint that is kept whatever the limit */
    bool keeps_former;       /* and the one before: until the program hears of the end of this save, it is the best */
    bool with_models; /* unless hooks said otherwise */
    uint64_t step;       /* that optimizers had taken */
    const char *mixed_precision; /* static */
    uint64_t memory_sequence; /* of the latest save to memory before it */
    char warning[ACCEL_ERROR_TEXT_SIZE]; /* why the state is kept apart, or an old one was not removed; may be empty */
};

/** Rank 0 makes the folder, all know its name, and hooks run.  Collective.
 *  @param[out] save  for save_end(), also after a failure */
enum accel_status save_begin (struct save *save, struct accel *acc, const struct comm_site *site,
                              const char *output_dir, struct accel_error *err);

/** Rank 0, when the manifest is that of all ranks: write it, and put the folder in its place.  Any thread. */
enum accel_status save_commit (struct save *save, struct accel_error *err);

/** The save has succeeded on all ranks: from now on it is the latest.  Collective. */
enum accel_status save_note (struct save *save, struct accel *acc, const struct comm_site *site,
                             struct accel_error *err);

/** Remove what was not committed.  Any thread. */
void save_end (struct save *save);

/**
 * Let the save in flight (save_start.c), if there is one, come to its end: before anything else is saved or loaded.
 * Collective.
 *
 * @param err  not NULL; the failure of that save, which is thereby reported
 */
enum accel_status save_finish (struct accel *acc, const struct comm_site *site, struct accel_error *err);

#endif
