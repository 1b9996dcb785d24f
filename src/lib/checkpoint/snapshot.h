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

/** Pages for copies.  They are kept from save to save: to get new ones from the kernel takes longer than to copy. */
struct snapshot {
    void *pages; /* NULL: none */
    size_t bytes;
    size_t used;
};

/** @return how many bytes of a snapshot a state dict takes. */
size_t snapshot_room (const struct accel_state_dict *state);

/** Empty it, and have room for @p bytes. */
enum accel_status snapshot_begin (struct snapshot *snapshot, size_t bytes, struct accel_error *err);

/** Copy the tensors that @p state has borrowed, and let it have the copies; there is room. */
void snapshot_add (struct snapshot *snapshot, struct accel_state_dict *state);

void snapshot_release (struct snapshot *snapshot);

#endif
