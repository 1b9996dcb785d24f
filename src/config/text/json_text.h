/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a text of JSON. */
#ifndef CONFIG_TEXT_JSON_TEXT_H
#define CONFIG_TEXT_JSON_TEXT_H

#include <jansson.h>

/**
 * A JSON string, which must be UTF-8.  What programs, devices and paths give us need not be: '?' replaces such bytes.
 *
 * @return a new reference, or NULL without memory
 */
json_t *json_text (const char *text);

#endif
