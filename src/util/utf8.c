/* SPDX-License-Identifier: Apache-2.0 */
/* Characters in UTF-8, and strings of JSON; see utf8.h. */
#include <config.h>

#include "util/utf8.h"

#include <string.h>

static int
bytes_after (unsigned char first)
{
    return first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc0 ? 1 : 0;
}

uint32_t
utf8_next (const char **text)
{
    const unsigned char *at = (const unsigned char *) *text;
    int more = bytes_after (*at);
    uint32_t character = more ? *at & (0x3fu >> more) : *at;
    for (int i = 1; i <= more; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            more = 0;
            character = *at;
            break;
        }
        character = character << 6 | (at[i] & 0x3fu);
    }
    *text += more + 1;
    return character;
}

size_t
utf8_valid_length (const char *bytes, size_t length)
{
    static const uint32_t least[] = { 0, 0x80, 0x800, 0x10000 };
    const unsigned char *at = (const unsigned char *) bytes, *end = at + length;
    while (at < end) {
        int more = bytes_after (*at);
        uint32_t character = more ? *at & (0x3fu >> more) : *at;
        if ((*at >= 0x80 && !more) || *at >= 0xf8 || end - at <= more)
            return (size_t) (at - (const unsigned char *) bytes);
        for (int i = 1; i <= more; i++) {
            if ((at[i] & 0xc0) != 0x80)
                return (size_t) (at - (const unsigned char *) bytes);
            character = character << 6 | (at[i] & 0x3fu);
        }
        if (character < least[more] || character > 0x10ffff || (character >= 0xd800 && character < 0xe000))
            return (size_t) (at - (const unsigned char *) bytes);
        at += more + 1;
    }
    return length;
}

bool
utf8_is_valid (const char *bytes, size_t length)
{
    return utf8_valid_length (bytes, length) == length;
}

void
utf8_add (struct strbuf *out, uint32_t character)
{
    int more = character < 0x80 ? 0 : character < 0x800 ? 1 : character < 0x10000 ? 2 : 3;
    static const unsigned first[] = { 0, 0xc0, 0xe0, 0xf0 };
    strbuf_add_char (out, (char) (first[more] | character >> (6 * more)));
    while (more-- > 0)
        strbuf_add_char (out, (char) (0x80 | (character >> (6 * more) & 0x3f)));
}

/* ---- strings of JSON ---- */

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

/* Four hexadecimal digits. */
static bool
read_hex (const char **at, const char *end, uint32_t *value)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    *value = 0;
    for (int i = 0; i < 4; i++, ++*at) {
        const char *digit = *at < end && **at ? strchr (digits, **at) : NULL;
        if (!digit)
            return false;
        *value = *value << 4 | (uint32_t) (digit - digits < 16 ? digit - digits : digit - digits - 6);
    }
    return true;
}

enum quote_escape
quote_read_escape (const char **at, const char *end, struct strbuf *out)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const char *found = *at < end && **at ? strchr (letters, **at) : NULL;
    uint32_t code, low;
    if (found) {
        ++*at;
        strbuf_add_char (out, meanings[found - letters]);
        return QUOTE_GOOD;
    }
    if (*at == end || **at != 'u')
        return QUOTE_UNKNOWN;
    ++*at;
    if (!read_hex (at, end, &code))
        return QUOTE_NO_DIGIT;
    if (!code)
        return QUOTE_ZERO;
    if (code >= 0xd800 && code < 0xe000) {
        if (code >= 0xdc00 || end - *at < 6 || memcmp (*at, "\\u", 2) != 0)
            return QUOTE_SURROGATE;
        *at += 2;
        if (!read_hex (at, end, &low) || low < 0xdc00 || low >= 0xe000)
            return QUOTE_SURROGATE;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    utf8_add (out, code);
    return QUOTE_GOOD;
}
