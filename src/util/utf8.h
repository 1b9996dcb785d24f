/* SPDX-License-Identifier: Apache-2.0 */
/* Characters in UTF-8; strings of JSON, in the spelling of the programs whose files we write byte for byte, and escapes
 * in those read. */
#ifndef UTIL_UTF8_H
#define UTIL_UTF8_H

#include "util/strbuf.h"

#include <stdint.h>

/** The character that begins at *text, which moves to the next; a byte that is not UTF-8 counts by itself. */
uint32_t utf8_next (const char **text);

/** How many of the first bytes are UTF-8 (RFC 3629): nothing longer than needed, no halves of surrogate pairs. */
size_t utf8_valid_length (const char *bytes, size_t length);

/** Whether all of the bytes are. */
bool utf8_is_valid (const char *bytes, size_t length);

void utf8_add (struct strbuf *out, uint32_t character);

/** Append @p text in quotes, as Rust's serde_json does: UTF-8 as it is. */
void quote_utf8 (struct strbuf *out, const char *text);

/** The same as Python's json does by default: all but ASCII is escaped. */
void quote_ascii (struct strbuf *out, const char *text);

/** What is wrong with an escape. */
enum quote_escape { QUOTE_GOOD, QUOTE_UNKNOWN, QUOTE_NO_DIGIT, QUOTE_ZERO, QUOTE_SURROGATE };

/** Append the character that the text after a backslash means; @p at moves behind it, or to what is wrong. */
enum quote_escape quote_read_escape (const char **at, const char *end, struct strbuf *out);

#endif
