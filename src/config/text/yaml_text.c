/* SPDX-License-Identifier: Apache-2.0 */
/* The quoting of texts; see yaml_text.h. */
#include <config.h>

#include "config/text/yaml_text.h"

#include "config/text/scalar.h"
#include "util/utf8.h"

#include <string.h>

bool
yaml_is_special (const char *text)
{
    return scalar_read (text, NULL) != SCALAR_TEXT || !strcmp (text, "=") || !strcmp (text, "<<");
}

static bool
is_printable (const char *text)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            return false;
    return true;
}

/* In double quotes, with PyYAML's escapes. */
static void
add_escaped (struct strbuf *out, const char *text)
{
    static const char special[] = "\a\b\t\n\v\f\r\033\"\\", letters[] = "abtnvfre\"\\";
    strbuf_add_char (out, '"');
    while (*text) {
        uint32_t character = utf8_next (&text);
        const char *found = character < 128 ? strchr (special, (int) character) : NULL;
        if (found)
            strbuf_printf (out, "\\%c", letters[found - special]);
        else if (character >= ' ' && character <= '~')
            strbuf_add_char (out, (char) character);
        else
            strbuf_printf (out, character > 0xffff ? "\\U%08X" : character > 0xff ? "\\u%04X" : "\\x%02X",
                           (unsigned) character);
    }
    strbuf_add_char (out, '"');
}

static bool
is_plain_safe (const char *text)
{
    size_t length = strlen (text);
    if (!length || strchr (" -?:,[]{}#&*!|>'\"%@`", text[0]))
        return length > 1 && strchr ("-?:", text[0]) && text[1] != ' ' && !strchr (text, ' ') && text[length - 1] != ':'
               && strncmp (text, "---", 3) && !strchr (",[]{}#", text[1]);
    return text[length - 1] != ' ' && text[length - 1] != ':' && !strstr (text, ": ") && !strstr (text, " #");
}

void
yaml_add_text (struct strbuf *out, const char *text)
{
    if (!is_printable (text)) {
        add_escaped (out, text);
    } else if (!is_plain_safe (text) || yaml_is_special (text)) {
        strbuf_add_char (out, '\'');
        for (; *text; text++)
            strbuf_add (out, *text == '\'' ? "''" : (char[]){ *text, '\0' });
        strbuf_add_char (out, '\'');
    } else
        strbuf_add (out, text);
}

void
yaml_add_float (struct strbuf *out, const char *text)
{
    const char *e = strchr (text, 'e');
    if (e && !strchr (text, '.'))
        strbuf_printf (out, "%.*s.0%s", (int) (e - text), text, e);
    else
        strbuf_add (out, text);
}
