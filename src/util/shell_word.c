/* SPDX-License-Identifier: Apache-2.0 */
/* Words of a shell; see shell_word.h. */
#include <config.h>

#include "util/shell_word.h"

#include "util/printable.h"

#include <ctype.h>
#include <string.h>

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
