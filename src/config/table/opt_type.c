/* SPDX-License-Identifier: Apache-2.0 */
/* What each type of setting can do: parse, format, release.  A new type: a row here, a word in enum option_type. */
#include <config.h>

#include "config/table/options.h"
#include "config/text/scalar.h"
#include "util/cleanup.h"
#include "util/parse.h"
#include "util/suggest.h"
#include "util/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int
parse_flag (const struct option *row, const char *text, bool from_file, void *field, struct fail *fail)
{
    (void) from_file;
    (void) row;
    if (parse_bool (text, field) != PARSE_OK)
        return fail_set (fail, FAIL_USAGE, "'%s' is neither true nor false", text);
    return 0;
}

static void
format_flag (const void *field, struct strbuf *out)
{
    strbuf_add (out, *(const bool *) field ? "true" : "false");
}

static int
parse_int (const struct option *row, const char *text, bool from_file, void *field, struct fail *fail)
{
    (void) from_file;
    if (row->words && !strcmp (text, row->words[0])) {
        *(int64_t *) field = SETTING_AUTO;
        return 0;
    }
    switch (parse_int64 (text, row->min, row->max, field)) {
    case PARSE_OK:
        return 0;
    case PARSE_RANGE:
        return fail_set (fail, FAIL_USAGE, "%s is out of range; expected %" PRId64 " to %" PRId64, text, row->min,
                         row->max);
    default:
        return fail_set (fail, FAIL_USAGE, "'%s' is not an integer; expected %" PRId64 " to %" PRId64, text, row->min,
                         row->max);
    }
}

static void
format_int (const void *field, struct strbuf *out)
{
    if (*(const int64_t *) field == SETTING_AUTO)
        strbuf_add (out, "auto");
    else
        strbuf_printf (out, "%" PRId64, *(const int64_t *) field);
}

static const char *
find_synonym (const struct option *row, const char *text)
{
    size_t length = strlen (text);
    for (size_t i = 0; row->synonyms[i]; i++)
        if (!strncasecmp (row->synonyms[i], text, length) && row->synonyms[i][length] == '=')
            return row->synonyms[i] + length + 1;
    return NULL;
}

int
option_refuse_word (const struct option *row, const char *const *choices, const char *text, struct fail *fail)
{
    AUTO_STRBUF struct strbuf words = { 0 };
    struct suggest suggest = { .wanted = text, .best = row->synonyms ? find_synonym (row, text) : NULL };
    for (size_t i = 0; choices[i]; i++) {
        strbuf_printf (&words, "%s%s", i ? ", " : "", choices[i]);
        if (!row->synonyms)
            suggest_consider (&suggest, choices[i]);
        else if (!strcasecmp (choices[i], text))
            suggest.best = choices[i];
    }
    char space[80];
    if (words.failed)
        return fail_nomem (fail);
    return fail_set (fail, FAIL_USAGE, "'%s' is not one of %s%s", text, words.text,
                     suggest_text (&suggest, "", space, sizeof space));
}

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

static int
parse_text (const struct option *row, const char *text, bool from_file, void *field, struct fail *fail)
{
    (void) from_file;
    if (row->choices && !text_is_one_of (text, row->choices))
        return option_refuse_word (row, row->choices, text, fail);
    if (!*text)
        return fail_set (fail, FAIL_USAGE, "the value is empty");
    return keep (field, text, fail);
}

static void
format_text (const void *field, struct strbuf *out)
{
    char *const *place = field;
    if (*place)
        strbuf_add (out, *place);
}

static void
release_text (void *field)
{
    char **place = field;
    free (*place);
    *place = NULL;
}

static void
release_nothing (void *field)
{
    (void) field;
}

/* ---- types that are kept as Python's text of their value ----
 *
 * Programs get it through the environment, where Accelerate's library compares it letter by letter. */

static bool
is_extra_word (const struct option *row, const char *text)
{
    return row->words && text_is_one_of (text, row->words);
}

/* A value of a flag is read and rewritten, as int(), float() and bool() do; from a file it is what it is there. */
static int
parse_number (const struct option *row, const char *text, bool from_file, void *field, struct fail *fail)
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

static int
parse_truth (const struct option *row, const char *text, bool from_file, void *field, struct fail *fail)
{
    bool unused;
    (void) from_file;
    if (parse_bool (text, &unused) != PARSE_OK && !is_extra_word (row, text))
        return fail_set (fail, FAIL_USAGE, "'%s' is neither true nor false", text);
    return keep (field, text, fail);
}

static int
parse_python_bool (const struct option *row, const char *text, bool from_file, void *field, struct fail *fail)
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

static int
parse_switch (const struct option *row, const char *text, bool from_file, void *field, struct fail *fail)
{
    bool truth;
    (void) row;
    if (parse_bool (text, &truth) != PARSE_OK)
        return fail_set (fail, FAIL_USAGE, "'%s' is neither true nor false", text);
    return keep (field, from_file ? text : switch_text (truth), fail);
}

/* "a,b,c"; a file may have it in brackets, as old ones do.  The default is Accelerate's: three times False. */
static int
parse_triple (const struct option *row, const char *text, bool from_file, void *field, struct fail *fail)
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

static int
parse_item (const struct option *row, const char *text, bool from_file, void *field, struct fail *fail)
{
    struct strlist *list = field;
    (void) row;
    (void) from_file;
    strlist_add (list, text);
    return list->failed ? fail_nomem (fail) : 0;
}

static void
format_list (const void *field, struct strbuf *out)
{
    const struct strlist *list = field;
    for (size_t i = 0; i < list->count; i++)
        strbuf_printf (out, "%s%s", i ? "," : "", list->items[i]);
}

static void
release_list (void *field)
{
    strlist_release (field);
}

const struct option_type_info option_types[] = {
    [OPTION_FLAG] = { "flag", false, parse_flag, format_flag, release_nothing, "bool" },
    [OPTION_INT] = { "integer", true, parse_int, format_int, release_nothing, "int" },
    [OPTION_TEXT] = { "text", true, parse_text, format_text, release_text, "str" },
    [OPTION_PATH] = { "path", true, parse_text, format_text, release_text, "str" },
    [OPTION_NUMBER] = { "number", true, parse_number, format_text, release_text, "plain" },
    [OPTION_TRUTH] = { "truth value", true, parse_truth, format_text, release_text, "truth" },
    [OPTION_PYTHON_BOOL] = { "truth value", true, parse_python_bool, format_text, release_text, "truth" },
    [OPTION_SWITCH] = { "truth value", true, parse_switch, format_text, release_text, "truth" },
    [OPTION_TRIPLE] = { "three truth values", true, parse_triple, format_text, release_text, "triple" },
    [OPTION_LIST] = { "list of texts", true, parse_item, format_list, release_list, "list" },
};
