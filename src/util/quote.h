/* SPDX-License-Identifier: Apache-2.0 */
/* Strings of JSON, in the spelling of the programs whose files we write byte for byte; and escapes in those read. */
#ifndef UTIL_QUOTE_H
#define UTIL_QUOTE_H

#include "util/strbuf.h"

/** Append @p text in quotes, as Rust's serde_json does: UTF-8 as it is. */
void quote_utf8 (struct strbuf *out, const char *text);

/** The same as Python's json does by default: all but ASCII is escaped. */
void quote_ascii (struct strbuf *out, const char *text);

/** What is wrong with an escape. */
enum quote_escape { QUOTE_GOOD, QUOTE_UNKNOWN, QUOTE_NO_DIGIT, QUOTE_ZERO, QUOTE_SURROGATE };

/** Append the character that the text after a backslash means; @p at moves behind it, or to what is wrong. */
enum quote_escape quote_read_escape (const char **at, const char *end, struct strbuf *out);

#endif
