/* SPDX-License-Identifier: Apache-2.0 */
/* The settings in effect and where each comes from: `config show`, and `launch --explain`. */
#ifndef CONFIG_EXPLAIN_H
#define CONFIG_EXPLAIN_H

#include "config/values.h"
#include "util/strbuf.h"

/**
 * Append the settings: those that the user gave, and the defaults that matter in the chosen mode.  @p config has been
 * resolved.  Secrets are not shown.
 *
 * As text, "KEY: VALUE  (ORIGIN)" a line, control characters are escaped, and what has no effect is marked.  As JSON,
 * an object of objects with "value" (a boolean, an integer or a string), "origin", "effect".
 *
 * @param keys_only  only keys of the file
 * @param[out] out   `failed` is set without memory @{
 */
void explain_text (const struct config *config, bool keys_only, struct strbuf *out);
void explain_json (const struct config *config, bool keys_only, struct strbuf *out);
/** @} */

#endif
