/* SPDX-License-Identifier: Apache-2.0 */
/* The list of GPUs: numbers or UUIDs with commas between, or all. */
#ifndef CONFIG_GPU_IDS_H
#define CONFIG_GPU_IDS_H

#include "util/strbuf.h"

#include <stdbool.h>

/** CUDA silently stops at the first entry that it does not understand: so a list is looked at before.
 *  @param[out] why  what is wrong, with what may have been meant  @return whether @p text is good */
bool gpu_ids_check (const char *text, struct strbuf *why);

#endif
