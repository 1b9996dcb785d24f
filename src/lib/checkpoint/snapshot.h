/* SPDX-License-Identifier: Apache-2.0 */
/* A copy of state dicts' tensors, so that training can change them while they are written.
 *
 * It is a copy, not a forked child whose pages are copied on writing: memory of accel_alloc() is shared with other
 * processes and would not be copied then; the next step would pay for each page that it writes first, which takes
 * longer than the whole copy (bench/README.md has the figures); and the child of a process with threads may call hardly
 * any function. */
#ifndef LIB_CHECKPOINT_SNAPSHOT_H
#define LIB_CHECKPOINT_SNAPSHOT_H

#include "lib/state/state_dict.h"

struct snapshot_copy {
    const void *from;
    DLDevice device;
    size_t at, bytes; /* where it is in the snapshot */
};

/** Pages for copies.  They are kept from save to save: to get new ones from the kernel takes longer than to copy. */
struct snapshot {
    void *pages; /* NULL: none */
    size_t bytes;
    size_t used;
    struct snapshot_copy *copies; /* [count], in the order of `at`; NULL except between snapshot_begin and _copy */
    size_t count;
};

/** Add how many bytes of a snapshot a state dict takes, and how many tensors it has. */
void snapshot_measure (const struct accel_state_dict *state, size_t *bytes, size_t *tensors);

/** Have room for @p bytes, and get the pages from the kernel now.  Not between snapshot_begin() and the last use. */
enum accel_status snapshot_reserve (struct snapshot *snapshot, size_t bytes, struct accel_error *err);

/** Empty it, and have room for this much. */
enum accel_status snapshot_begin (struct snapshot *snapshot, size_t bytes, size_t tensors, struct accel_error *err);

/** Let @p state have copies of the tensors that it has borrowed, to which snapshot_copy() copies; there is room. */
void snapshot_add (struct snapshot *snapshot, struct accel_state_dict *state);

/** Copy what was added.  Fails if something was on a device, and that fails. */
enum accel_status snapshot_copy (struct snapshot *snapshot, struct accel_error *err);

void snapshot_release (struct snapshot *snapshot);

#endif
