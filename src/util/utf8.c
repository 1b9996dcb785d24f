/* SPDX-License-Identifier: Apache-2.0 */
/* Characters in UTF-8; see utf8.h. */
#include <config.h>

#include "util/utf8.h"

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
