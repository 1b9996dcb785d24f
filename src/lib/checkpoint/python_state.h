/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of Hugging Face Accelerate's save_state(), whose files are those of safetensors and torch.save: each is made
 * into the state dict that the object or part would have saved itself, and loaded from that. */
#ifndef LIB_CHECKPOINT_PYTHON_STATE_H
#define LIB_CHECKPOINT_PYTHON_STATE_H

#include "lib/checkpoint/items.h"
#include "util/strbuf.h"

/** @return how many registered objects it has. */
size_t python_state_count_custom (const char *folder);

/**
 * Restore an item.
 *
 * @param left_out  gets what is not restored, in words
 */
enum accel_status python_state_load (const char *folder, const struct checkpoint_item *item, struct strlist *left_out,
                                     struct accel_error *err);

#endif
