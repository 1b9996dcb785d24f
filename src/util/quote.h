/* SPDX-License-Identifier: Apache-2.0 */
/* Strings of JSON, in the spelling of the programs whose files we write byte for byte. */
#ifndef UTIL_QUOTE_H
#define UTIL_QUOTE_H

#include "util/strbuf.h"

/** Append @p text in quotes, as Rust's serde_json does: UTF-8 as it is. */
void quote_utf8 (struct strbuf *out, const char *text);

/** The same as Python's json does by default: all but ASCII is escaped. */
void quote_ascii (struct strbuf *out, const char *text);

#endif
