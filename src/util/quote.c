/* SPDX-License-Identifier: Apache-2.0 */
/* Strings of JSON; see quote.h. */
#include <config.h>

#include "util/quote.h"

#include "util/utf8.h"

#include <string.h>

static void
add_escape (struct strbuf *out, uint32_t c)
{
    static const char from[] = "\"\\\b\f\n\r\t", into[] = "\"\\bfnrt";
    const char *found = c < 0x80 && c ? strchr (from, (int) c) : NULL;
    if (found)
        strbuf_printf (out, "\\%c", into[found - from]);
    else if (c < 0x10000)
        strbuf_printf (out, "\\u%04x", (unsigned) c);
    else
        strbuf_printf (out, "\\u%04x\\u%04x", 0xd800 + (unsigned) ((c - 0x10000) >> 10),
                       0xdc00 + (unsigned) (c - 0x10000) % 0x400);
}

void
quote_utf8 (struct strbuf *out, const char *text)
{
    strbuf_add_char (out, '"');
    while (*text) {
        size_t plain = 0;
        while ((unsigned char) text[plain] >= ' ' && text[plain] != '"' && text[plain] != '\\')
            plain++;
        strbuf_add_bytes (out, text, plain);
        text += plain;
        if (*text)
            add_escape (out, (unsigned char) *text++);
    }
    strbuf_add_char (out, '"');
}

void
quote_ascii (struct strbuf *out, const char *text)
{
    strbuf_add_char (out, '"');
    while (*text) {
        uint32_t c = utf8_next (&text);
        if (c >= ' ' && c <= '~' && c != '"' && c != '\\')
            strbuf_add_char (out, (char) c);
        else
            add_escape (out, c);
    }
    strbuf_add_char (out, '"');
}
