/* SPDX-License-Identifier: Apache-2.0 */
/* The script's arguments; see arguments.h. */
#include <config.h>

#include "sagemaker/arguments.h"

#include "sagemaker/python_json.h"
#include "util/parse.h"
#include "util/printable.h"
#include "util/utf8.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* "-1" and "-1e-5" are values. */
static bool
is_name (const char *word)
{
    double number;
    return word[0] == '-' && word[1] && parse_double (word, -HUGE_VAL, HUGE_VAL, &number) != PARSE_OK;
}

/* @param before, after  what the message says around the word */
static int
refuse (const char *before, const char *word, const char *after, struct fail *fail)
{
    AUTO_STRBUF struct strbuf shown = { 0 };
    printable_add (&shown, word);
    if (shown.failed)
        return fail_nomem (fail);
    return fail_set (fail, FAIL_USAGE, "%s'%s'%s", before, shown.length ? shown.text : "", after);
}

/* "--learning-rate" as the name of a hyperparameter. */
static void
add_name (struct strbuf *out, const char *word, size_t length)
{
    size_t dashes = strspn (word, "-");
    for (size_t i = dashes; i < length; i++)
        strbuf_add_char (out, word[i] == '-' ? '_' : word[i]);
}

static int
add (json_t *hyperparameters, const char *word, size_t length, const char *value, struct fail *fail)
{
    AUTO_STRBUF struct strbuf name = { 0 }, text = { 0 };
    add_name (&name, word, length);
    if (!name.length && !name.failed)
        return refuse ("argument ", word, " has no name", fail);
    if (python_json_of_word (&text, value, fail))
        return fail_prefix (fail, "value of argument '%s'", name.failed ? "" : name.text);
    if (name.failed || text.failed)
        return fail_nomem (fail);
    if (json_object_get (hyperparameters, name.text))
        return refuse ("duplicate argument ", word, ": a SageMaker job has one value for each name", fail);
    if (json_object_set_new (hyperparameters, name.text, json_string (text.text)))
        return utf8_is_valid (name.text, name.length) ? fail_nomem (fail)
                                                      : refuse ("argument ", word, " is not valid UTF-8", fail);
    return 0;
}

int
arguments_read (char **words, json_t *hyperparameters, struct fail *fail)
{
    for (; words && *words; words++) {
        const char *equals = strchr (*words, '=');
        if (!is_name (*words))
            return refuse ("unexpected argument ", *words, ": SageMaker passes only --NAME VALUE to the script", fail);
        size_t length = equals ? (size_t) (equals - *words) : strlen (*words);
        const char *value = equals ? equals + 1 : words[1];
        if (!value || (!equals && is_name (value)))
            return refuse ("argument ", *words, " has no value: SageMaker passes only --NAME VALUE to the script, such "
                           "as --NAME True", fail);
        if (add (hyperparameters, *words, length, value, fail))
            return -1;
        words += !equals;
    }
    return 0;
}
