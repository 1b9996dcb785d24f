/* SPDX-License-Identifier: Apache-2.0 */
/* Folders of checkpoints: which are complete, and which is the newest. */
#ifndef FILES_CHECKPOINTS_H
#define FILES_CHECKPOINTS_H

#include <accel/base.h>

#include "util/strbuf.h"

/** Where automatic naming puts checkpoints in a project, and what it calls them: "checkpoints/checkpoint_0". */
#define CHECKPOINTS_FOLDER "checkpoints"
#define CHECKPOINT_PREFIX "checkpoint_"

/** What the name of a folder contains that is being written or removed; such folders are never loaded. */
#define CHECKPOINT_TEMPORARY ".tmp-"

/** The end of the name of a checkpoint with a parameter that is infinite or NaN, which is kept apart. */
#define CHECKPOINT_NONFINITE ".nonfinite"

/** What is in each folder of Hugging Face Accelerate's save_state(). */
#define CHECKPOINT_PYTHON "random_states_0.pkl"

struct checkpoint_entry {
    char *name;        /* in its folder */
    bool is_python;    /* Accelerate has written it, so nothing tells whether it is complete */
    uint64_t saved_ns; /* 0 if that is unknown */
    char *reason;      /* why it cannot be loaded; NULL: it is complete */
};

/** The checkpoints of a folder, the newest first.  All zero is an empty list. */
struct checkpoint_list {
    struct checkpoint_entry *entries; /* [count] */
    size_t count;
};

/**
 * List what is in @p folder: each folder with a manifest, and each that is named like a checkpoint without having one.
 * Sizes are compared, checksums are not.
 *
 * Those whose names are "checkpoint_NUMBER" are ordered by number if all are named so; otherwise by the time when they
 * were saved.
 *
 * @param[out] list  for checkpoint_list_release(), also after a failure; empty if there is no such folder
 */
enum accel_status checkpoint_list_read (struct checkpoint_list *list, const char *folder, struct accel_error *err);

void checkpoint_list_release (struct checkpoint_list *list);

/** @return the number in "checkpoint_NUMBER" or "checkpoint_NUMBER.nonfinite"; UINT64_MAX if @p name is neither. */
uint64_t checkpoint_number (const char *name);

/** @return whether @p name is that of a checkpoint which is kept apart. */
bool checkpoint_is_apart (const char *name);

/** @return whether @p path is a folder of Accelerate's save_state(). */
bool checkpoint_is_python (const char *path);

/** Read all of the checkpoint @p path, and compare all sizes and checksums with its manifest. */
enum accel_status checkpoint_verify (const char *path, struct accel_error *err);

/**
 * Find the newest checkpoint at @p place whose sizes and checksums are right: @p place itself, or one in it, or one in
 * its folder "checkpoints".  One with a parameter that is infinite or NaN counts only if it is @p place itself.
 * Folders of Accelerate have no checksums: the newest one counts if it is named "checkpoint_NUMBER", or is @p place.
 *
 * @param[out] path    its path, for free(); NULL: there is none
 * @param[out] passed  a line for each newer one that was passed over, with the reason; may be NULL
 */
enum accel_status checkpoint_find_newest (char **path, const char *place, struct strlist *passed,
                                          struct accel_error *err);

#endif
