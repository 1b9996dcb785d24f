/* SPDX-License-Identifier: Apache-2.0 */
/* Characters in UTF-8. */
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

#endif
