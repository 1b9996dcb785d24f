/* SPDX-License-Identifier: Apache-2.0 */
/* The types of settings that are kept as Python's text of their value: programs get it through the environment, where
 * Accelerate's library compares it letter by letter.  (The other types: opt_type.c.) */
#include <config.h>

#include "config/table/opt_python.h"

#include "config/text/scalar.h"
#include "util/cleanup.h"
#include "util/parse.h"
#include "util/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int
keep (void *field, const char *text, struct fail *fail)
{
    char **place = field, *copy = strdup (text);
    if (!copy)
        return fail_nomem (fail);
    free (*place);
    *place = copy;
    return 0;
}

static bool
is_extra_word (const struct option *row, const char *text)
{
    return row->words && text_is_one_of (text, row->words);
}

/* A value of a flag is read and rewritten, as int(), float() and bool() do; from a file it is what it is there. */
int
opt_parse_number (const struct option *row, const char *text, bool from_file, void *field, struct fail *fail)
{
    AUTO_STRBUF struct strbuf canonical = { 0 };
    int64_t whole;
    double any;
    if (is_extra_word (row, text))
        return keep (field, text, fail);
    if ((!row->decimals || from_file) && parse_int64 (text, row->min, INT64_MAX, &whole) == PARSE_OK)
        strbuf_printf (&canonical, "%lld", (long long) whole);
    else if (row->decimals && parse_double (text, (double) row->min, HUGE_VAL, &any) == PARSE_OK) {
        if (from_file) /* 1e5 is a text to PyYAML, and stays one */
            strbuf_add (&canonical, text);
        else
            scalar_add_float (&canonical, any);
    }
    else
        return fail_set (fail, FAIL_USAGE, "'%s' is not %s%s%s%s >= %lld", text, row->words ? "'" : "",
                         row->words ? row->words[0] : "", row->words ? "' or " : "",
                         row->decimals ? "a number" : "an integer", (long long) row->min);
    return canonical.failed ? fail_nomem (fail) : keep (field, canonical.text, fail);
}

int
opt_parse_truth (const struct option *row, const char *text, bool from_file, void *field, struct fail *fail)
{
    bool unused;
    (void) from_file;
    if (parse_bool (text, &unused) != PARSE_OK && !is_extra_word (row, text))
        return fail_set (fail, FAIL_USAGE, "'%s' is neither true nor false", text);
    return keep (field, text, fail);
}

int
opt_parse_python_bool (const struct option *row, const char *text, bool from_file, void *field, struct fail *fail)
{
    bool truth;
    (void) row;
    if (parse_bool (text, &truth) != PARSE_OK)
        return fail_set (fail, FAIL_USAGE, "'%s' is neither true nor false", text);
    return keep (field, from_file ? text : truth ? "True" : "False", fail);
}

/* Accelerate's str_to_bool() makes 1 or 0 of a flag's word. */
static const char *
switch_text (bool truth)
{
    return truth ? "1" : "0";
}

int
opt_parse_switch (const struct option *row, const char *text, bool from_file, void *field, struct fail *fail)
{
    bool truth;
    (void) row;
    if (parse_bool (text, &truth) != PARSE_OK)
        return fail_set (fail, FAIL_USAGE, "'%s' is neither true nor false", text);
    return keep (field, from_file ? text : switch_text (truth), fail);
}

/* "a,b,c"; a file may have it in brackets, as old ones do.  The default is Accelerate's: three times False. */
int
opt_parse_triple (const struct option *row, const char *text, bool from_file, void *field, struct fail *fail)
{
    AUTO_STRBUF struct strbuf joined = { 0 };
    const char *at = text;
    int count = 0;
    bool truth, is_default = row->dflt && !strcmp (text, row->dflt);
    while (*at) {
        char word[8] = "";
        at += strspn (at, " ([");
        size_t length = strcspn (at, " ,)]");
        if (length >= sizeof word)
            break;
        memcpy (word, at, length);
        if (count == 3 || parse_bool (word, &truth) != PARSE_OK)
            break;
        const char *canonical = is_default ? word : switch_text (truth);
        strbuf_printf (&joined, "%s%s", count++ ? "," : "", from_file ? word : canonical);
        at += length;
        at += strspn (at, " ,)]");
    }
    if (count != 3 || *at)
        return fail_set (fail, FAIL_USAGE, "'%s' is not three comma-separated booleans", text);
    return joined.failed ? fail_nomem (fail) : keep (field, joined.text, fail);
}

int
opt_parse_item (const struct option *row, const char *text, bool from_file, void *field, struct fail *fail)
{
    struct strlist *list = field;
    (void) row;
    (void) from_file;
    strlist_add (list, text);
    return list->failed ? fail_nomem (fail) : 0;
}

void
opt_format_list (const void *field, struct strbuf *out)
{
    const struct strlist *list = field;
    for (size_t i = 0; i < list->count; i++)
        strbuf_printf (out, "%s%s", i ? "," : "", list->items[i]);
}

void
opt_release_list (void *field)
{
    strlist_release (field);
}
