/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as text: base64 of RFC 4648, with padding and without line breaks. */
#ifndef UTIL_BASE64_H
#define UTIL_BASE64_H

#include "util/strbuf.h"

#include <stdbool.h>
#include <stddef.h>

/** Append @p length bytes in base64. */
void base64_add (struct strbuf *out, const void *bytes, size_t length);

/** Append the bytes that @p text means, @p length characters.  @return false: it is not base64, and what was appended
 *  means nothing */
bool base64_decode (struct strbuf *out, const char *text, size_t length);

#endif
