/* SPDX-License-Identifier: Apache-2.0 */
/* Control characters as escapes; see printable.h. */
#include <config.h>

#include "util/printable.h"

#include "util/utf8.h"

#include <string.h>

/* Letters from right to left and back, and the ends of lines that only Unicode knows: with them a text shows as another
 * than it is. */
static bool
is_layout (uint32_t character)
{
    return (character >= 0x2028 && character <= 0x202e) || (character >= 0x2066 && character <= 0x2069);
}

size_t
printable_bad_bytes (const char *text)
{
    const char *next = text;
    uint32_t character = *text ? utf8_next (&next) : ' ';
    size_t length = (size_t) (next - text);
    bool is_control = character < ' ' || (character >= 0x7f && character < 0xa0);
    return is_control || is_layout (character) || !utf8_is_valid (text, length) ? length : 0;
}

bool
printable_is_clean (const char *text)
{
    while (*text) {
        if (printable_bad_bytes (text))
            return false;
        utf8_next (&text);
    }
    return true;
}

const char *
printable_next (const char **text, char *shown)
{
    static const char special[] = "\t\n\r", letters[] = "tnr";
    const char *from = *text, *found = strchr (special, *from);
    size_t bad = printable_bad_bytes (from), at = 0;
    *shown = '\0';
    if (!*from)
        return shown;
    utf8_next (text);
    if (bad && found) {
        snprintf (shown, PRINTABLE_BYTES, "\\%c", letters[found - special]);
        return shown;
    }
    for (; from < *text; from++)
        at += (size_t) snprintf (shown + at, PRINTABLE_BYTES - at, bad ? "\\x%02x" : "%c", (unsigned char) *from);
    return shown;
}

void
printable_add (struct strbuf *out, const char *text)
{
    char shown[PRINTABLE_BYTES];
    while (*text)
        strbuf_add (out, printable_next (&text, shown));
}

void
printable_put (FILE *out, const char *text)
{
    char shown[PRINTABLE_BYTES];
    while (*text)
        fputs (printable_next (&text, shown), out);
}
