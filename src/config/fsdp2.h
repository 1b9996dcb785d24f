/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files for FSDP 1 become such for FSDP 2. */
#ifndef CONFIG_FSDP2_H
#define CONFIG_FSDP2_H

#include "util/fail.h"
#include "util/strbuf.h"

#include <stdbool.h>

/**
 * Convert the file @p path, which may be YAML or JSON.  Everything that has nothing to do with FSDP is kept, but
 * for comments.  A file that is for FSDP 2 already, or has no fsdp_config, comes out as it is.
 *
 * @param as_json     write JSON, else YAML
 * @param[out] notes  a line for each key that is left out, or why there was nothing to do
 */
int fsdp2_convert (const char *path, bool as_json, struct strbuf *out, struct strlist *notes, struct fail *fail);

#endif
