/* SPDX-License-Identifier: Apache-2.0 */
/* What each type of setting can do: parse, format, release.  A new type: a row here, a word in enum option_type. */
#include <config.h>

#include "config/table/opt_python.h"
#include "config/table/options.h"
#include "util/parse.h"
#include "util/suggest.h"
#include "util/text.h"

#include <inttypes.h>
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
parse_text (const struct option *row, const char *text, bool from_file, void *field, struct fail *fail)
{
    (void) from_file;
    if (row->choices && !text_is_one_of (text, row->choices))
        return option_refuse_word (row, row->choices, text, fail);
    if (!*text)
        return fail_set (fail, FAIL_USAGE, "the value is empty");
    char *copy = strdup (text);
    if (!copy)
        return fail_nomem (fail);
    char **place = field;
    free (*place);
    *place = copy;
    return 0;
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

const struct option_type_info option_types[] = {
    [OPTION_FLAG] = { "flag", false, parse_flag, format_flag, release_nothing, "bool" },
    [OPTION_INT] = { "integer", true, parse_int, format_int, release_nothing, "int" },
    [OPTION_TEXT] = { "text", true, parse_text, format_text, release_text, "str" },
    [OPTION_PATH] = { "path", true, parse_text, format_text, release_text, "str" },
    [OPTION_NUMBER] = { "number", true, opt_parse_number, format_text, release_text, "plain" },
    [OPTION_TRUTH] = { "truth value", true, opt_parse_truth, format_text, release_text, "truth" },
    [OPTION_PYTHON_BOOL] = { "truth value", true, opt_parse_python_bool, format_text, release_text, "truth" },
    [OPTION_SWITCH] = { "truth value", true, opt_parse_switch, format_text, release_text, "truth" },
    [OPTION_TRIPLE] = { "three truth values", true, opt_parse_triple, format_text, release_text, "triple" },
    [OPTION_LIST] = { "list of texts", true, opt_parse_item, opt_format_list, opt_release_list, "list" },
};
