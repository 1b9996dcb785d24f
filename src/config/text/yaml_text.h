/* SPDX-License-Identifier: Apache-2.0 */
/* Texts as YAML 1.1 scalars, quoted as PyYAML quotes them. */
#ifndef CONFIG_TEXT_YAML_TEXT_H
#define CONFIG_TEXT_YAML_TEXT_H

#include "util/strbuf.h"

#include <stdbool.h>

/** Whether YAML 1.1 would read the bare word @p text as something else than a text. */
bool yaml_is_special (const char *text);

/** Append @p text as a YAML scalar that stays a text. */
void yaml_add_text (struct strbuf *out, const char *text);

/** Append Python's text of a finite float as PyYAML writes it: 1.0e-05 for 1e-05, which YAML 1.1 reads as a text. */
void yaml_add_float (struct strbuf *out, const char *text);

#endif
