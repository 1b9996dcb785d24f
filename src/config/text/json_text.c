/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a text of JSON; see json_text.h. */
#include <config.h>

#include "config/text/json_text.h"

#include "util/strbuf.h"
#include "util/utf8.h"

json_t *
json_text (const char *text)
{
    AUTO_STRBUF struct strbuf plain = { 0 };
    for (const char *next = text; *text; text = next) {
        utf8_next (&next);
        size_t length = (size_t) (next - text);
        if (utf8_is_valid (text, length))
            strbuf_add_bytes (&plain, text, length);
        else
            strbuf_add_char (&plain, '?');
    }
    return plain.failed ? NULL : json_string (plain.text ? plain.text : "");
}
