/* SPDX-License-Identifier: Apache-2.0 */
/* What `accelerate env` and `accelerate config` say about the machine; read from /proc and /sys, nothing is started. */
#ifndef CLI_MACHINE_H
#define CLI_MACHINE_H

#include "util/strbuf.h"

/** NVIDIA devices present. */
int machine_gpu_count (void);

/** Facts by name, in the order in which they are shown: names in @p names, values in @p values. */
void machine_describe (struct strlist *names, struct strlist *values);

/** Path of program @p name on PATH, or NULL; the caller frees it. */
char *machine_find_program (const char *name);

#endif
