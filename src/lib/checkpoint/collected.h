/* SPDX-License-Identifier: Apache-2.0 */
/* What this rank saves: the state dicts of its items, all of them before the first is written. */
#ifndef LIB_CHECKPOINT_COLLECTED_H
#define LIB_CHECKPOINT_COLLECTED_H

#include <accel/state.h>

#include "files/manifest.h"
#include "lib/checkpoint/snapshot.h"

struct collected_item {
    char *name;  /* of its files, without their ends */
    bool needed; /* a file is written even if the state is empty */
    bool is_common; /* a whole model or optimizer, which is the same on all ranks */
    struct accel_state_dict state; /* most tensors are in memory of the program or its objects */
};

struct collected {
    struct collected_item *items; /* [count] */
    size_t count;
    uint64_t bytes; /* of all tensors */
    int rank;
};

/** Who saves models and optimizers. */
enum collected_who {
    COLLECTED_MAIN,   /* rank 0 */
    COLLECTED_SHARES, /* all ranks: each its share of what is divided */
    COLLECTED_HOSTS   /* the first rank of each host, as a whole */
};

/** Ask each item of @p acc that this rank saves; those that are common come first.
 *  @param[out] collected  for collected_release(), also on failure */
enum accel_status collected_make (struct collected *collected, const struct accel *acc, bool with_models,
                                  enum collected_who who, struct accel_error *err);

/** Copy all tensors that are in memory of others to @p snapshot, so that these may change. */
enum accel_status collected_copy (struct collected *collected, struct snapshot *snapshot, struct accel_error *err);

/** Get the memory that collected_copy() will need. */
enum accel_status collected_reserve (const struct collected *collected, struct snapshot *snapshot,
                                     struct accel_error *err);

/** Write and sync the files of all items, and add them to @p manifest. */
enum accel_status collected_write (const struct collected *collected, const char *folder, struct manifest *manifest,
                                   struct accel_error *err);

void collected_release (struct collected *collected);

#endif
