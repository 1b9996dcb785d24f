/* SPDX-License-Identifier: Apache-2.0 */
/* What jansson lacks: strings of any bytes, and values appended to a text. */
#ifndef CONFIG_TEXT_JSON_TEXT_H
#define CONFIG_TEXT_JSON_TEXT_H

#include "util/strbuf.h"

#include <jansson.h>

/**
 * A JSON string, which must be UTF-8.  What programs, devices and paths give us need not be: '?' replaces such bytes.
 *
 * @return a new reference, or NULL without memory
 */
json_t *json_text (const char *text);

/** Append the text of @p value and a newline.  @param value  whose reference is taken; may be NULL
 *  @param flags  of json_dumps()  @return 0, or -1 without memory, also for @p value */
int json_add (struct strbuf *out, json_t *value, size_t flags);

#endif
