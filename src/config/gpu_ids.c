/* SPDX-License-Identifier: Apache-2.0 */
/* The list of GPUs; see gpu_ids.h. */
#include <config.h>

#include "config/gpu_ids.h"

#include "util/parse.h"
#include "util/suggest.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

enum { GREATEST_GPU = 9999 };

static bool
is_uuid (const char *word)
{
    if (strncmp (word, "GPU-", 4) && strncmp (word, "MIG-", 4))
        return false;
    for (word += 4; isalnum ((unsigned char) *word) || (*word && strchr ("-/", *word)); word++)
        ;
    return !*word;
}

/* @return the entry before the @p count-th of @p words that names the same GPU, or NULL */
static const char *
find_twin (const struct strlist *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int64_t one, other;
        bool numbers = parse_int64 (words->items[i], 0, GREATEST_GPU, &one) == PARSE_OK
                       && parse_int64 (words->items[count], 0, GREATEST_GPU, &other) == PARSE_OK;
        if (numbers ? one == other : !strcmp (words->items[i], words->items[count]))
            return words->items[i];
    }
    return NULL;
}

static bool
explain_word (const char *word, size_t count, struct strbuf *why)
{
    int64_t number;
    enum parse_result result = parse_int64 (word, 0, GREATEST_GPU, &number);
    if ((result == PARSE_OK && isdigit ((unsigned char) *word)) || is_uuid (word))
        return true;
    if (!strcmp (word, "-1"))
        strbuf_add (why, "GPU numbers start at 0; to use no GPU, give --cpu");
    else if (result == PARSE_RANGE)
        strbuf_printf (why, "'%2$s' is not a GPU number (0 to %1$d)", GREATEST_GPU, word);
    else if (!strcasecmp (word, "all"))
        strbuf_add (why, count > 1 ? "'all' cannot be combined with numbers" : "write 'all' in lower case");
    else {
        strbuf_printf (why, "'%s' is not a GPU number, a UUID (GPU-... or MIG-...) or 'all'", word);
        struct suggest suggest = { .wanted = word };
        suggest_consider (&suggest, "all");
        if (suggest.best && count == 1)
            strbuf_printf (why, "; did you mean %s?", suggest.best);
    }
    return false;
}

/* Split at commas and blanks.  @return whether only single commas were between */
static bool
split (const char *text, struct strlist *words)
{
    bool plain = *text && !strchr (", \t", *text);
    for (size_t length; *text; text += length) {
        length = strspn (text, ", \t");
        if (length) {
            plain = plain && length == 1 && *text == ',' && text[1];
            continue;
        }
        length = strcspn (text, ", \t");
        strlist_printf (words, "%.*s", (int) length, text);
    }
    return plain;
}

bool
gpu_ids_check (const char *text, struct strbuf *why)
{
    AUTO_STRLIST struct strlist words = { 0 };
    if (!strcmp (text, "all"))
        return true;
    bool plain = split (text, &words);
    if (words.failed)
        return true; /* if memory ran out, the launch reports it */
    for (size_t i = 0; i < words.count; i++) {
        if (!explain_word (words.items[i], words.count, why))
            return false;
        if (find_twin (&words, i)) {
            strbuf_printf (why, "GPU %s is listed twice", words.items[i]);
            return false;
        }
    }
    if (plain)
        return true;
    strbuf_add (why, "separate GPUs with single commas and no blanks");
    for (size_t i = 0; i < words.count; i++)
        strbuf_printf (why, "%s%s", i ? "," : "; did you mean ", words.items[i]);
    strbuf_add (why, words.count ? "?" : "");
    return false;
}
