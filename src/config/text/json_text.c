/* SPDX-License-Identifier: Apache-2.0 */
/* Texts for and from jansson; see json_text.h. */
#include <config.h>

#include "config/text/json_text.h"

#include "util/cleanup.h"
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

int
json_add (struct strbuf *out, json_t *value, size_t flags)
{
    AUTO_FREE char *text = value ? json_dumps (value, flags) : NULL;
    json_decref (value);
    out->failed = out->failed || !text;
    if (text)
        strbuf_printf (out, "%s\n", text);
    return out->failed ? -1 : 0;
}
