/* SPDX-License-Identifier: Apache-2.0 */
/* What `accelerate env` says about the machine; read from /proc and /sys, nothing is started. */
#ifndef CLI_MACHINE_H
#define CLI_MACHINE_H

#include "util/strbuf.h"

/** Facts by name, in the order in which they are shown: names in @p names, values in @p values. */
void machine_describe (struct strlist *names, struct strlist *values);

/** Path of program @p name on PATH, or NULL; the caller frees it. */
char *machine_find_program (const char *name);

#endif
