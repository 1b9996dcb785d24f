/* SPDX-License-Identifier: Apache-2.0 */
/* Text for a person's eyes; see printable.h. */
#include <config.h>

#include "util/printable.h"

#include "util/utf8.h"

#include <ctype.h>
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

/* ---- command lines ---- */

/* As one would type it in bash, ksh or zsh: of all quotes only these have escapes. */
static void
add_escaped_word (struct strbuf *out, const char *word)
{
    char shown[PRINTABLE_BYTES];
    strbuf_add (out, "$'");
    while (*word) {
        if (*word == '\'' || *word == '\\')
            strbuf_add_char (out, '\\');
        strbuf_add (out, printable_next (&word, shown));
    }
    strbuf_add_char (out, '\'');
}

void
shell_word_add (struct strbuf *out, const char *word)
{
    if (!printable_is_clean (word)) {
        add_escaped_word (out, word);
        return;
    }
    bool plain = *word != '\0';
    for (const char *c = word; *c; c++)
        plain = plain && (isalnum ((unsigned char) *c) || strchr ("%+,-./:=@_", *c));
    if (plain) {
        strbuf_add (out, word);
        return;
    }
    strbuf_add_char (out, '\'');
    for (; *word; word++)
        if (*word == '\'')
            strbuf_add (out, "'\\''");
        else
            strbuf_add_char (out, *word);
    strbuf_add_char (out, '\'');
}

/* ---- what else people read ---- */

void
bytes_add (struct strbuf *out, uint64_t bytes)
{
    static const char *const units[] = { "B", "KB", "MB", "GB", "TB", "PB", "EB" };
    double size = (double) bytes;
    size_t unit = 0;
    for (; size >= 999.95 && unit + 1 < sizeof units / sizeof *units; unit++)
        size /= 1000;
    strbuf_printf (out, unit ? "%.1f %s" : "%.0f %s", size, units[unit]);
}

void
text_hide_credentials (const char *text, struct strbuf *out)
{
    for (const char *mark; (mark = strstr (text, "://"));) {
        const char *host = mark + 3;
        /* Up to the last '@' before a slash or the address's end; '#' and '?' may be a password's. */
        size_t length = strcspn (host, "/ \t\n\"'");
        const char *at = memrchr (host, '@', length);
        strbuf_add_bytes (out, text, (size_t) (host - text));
        if (at)
            strbuf_add (out, "***");
        text = at ? at : host;
    }
    strbuf_add (out, text);
}
