/* SPDX-License-Identifier: Apache-2.0 */
/* Version numbers of Python packages, by the grammar in Appendix B of PEP 440; see pep440.h. */
#include <config.h>

#include "config/pep440.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

static const char *
skip_digits (const char *text)
{
    return text + strspn (text, "0123456789");
}

static const char *
skip_separator (const char *text)
{
    return text + (*text == '.' || *text == '-' || *text == '_');
}

/* A separator, one of the words, a separator and a number: all but the word may be left out.  Words that begin
 * like others come before them.  @return what follows, or @text if none of the words is there */
static const char *
skip_word (const char *text, const char *const *words)
{
    const char *at = skip_separator (text);
    for (; *words; words++)
        if (!strncasecmp (at, *words, strlen (*words)))
            return skip_digits (skip_separator (at + strlen (*words)));
    return text;
}

/* "-1" is a post-release, too. */
static const char *
skip_post (const char *text)
{
    static const char *const words[] = { "post", "rev", "r", NULL };
    if (*text == '-' && skip_digits (text + 1) > text + 1)
        return skip_digits (text + 1);
    return skip_word (text, words);
}

/* "+ubuntu.1"  @return what follows, NULL if it is malformed */
static const char *
skip_local (const char *text)
{
    if (*text != '+')
        return text;
    do {
        const char *begin = ++text;
        text += strspn (text, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
        if (text == begin)
            return NULL;
    } while (*text == '.' || *text == '-' || *text == '_');
    return text;
}

bool
pep440_is_version (const char *text)
{
    static const char *const pre[] = { "alpha", "a", "beta", "b", "preview", "pre", "c", "rc", NULL };
    static const char *const dev[] = { "dev", NULL };
    if (*text == 'v' || *text == 'V')
        text++;
    const char *end = skip_digits (text);
    if (end > text && *end == '!') {
        text = end + 1;
        end = skip_digits (text);
    }
    if (end == text)
        return false;
    while (*end == '.' && skip_digits (end + 1) > end + 1)
        end = skip_digits (end + 1);
    end = skip_local (skip_word (skip_post (skip_word (end, pre)), dev));
    return end && !*end;
}
