/* SPDX-License-Identifier: Apache-2.0 */
/* Python's JSON; see python_json.h. */
#include <config.h>

#include "sagemaker/python_json.h"

#include "config/text/scalar.h"
#include "util/cleanup.h"
#include "util/parse.h"
#include "util/utf8.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* NOLINTNEXTLINE(misc-no-recursion): values are at most NODE_DEEPEST deep */
void
python_json_add (struct strbuf *out, const json_t *value)
{
    const char *key, *separator = "";
    json_t *item;
    size_t i;
    switch (json_typeof (value)) {
    case JSON_OBJECT:
        strbuf_add_char (out, '{');
        json_object_foreach ((json_t *) value, key, item) {
            strbuf_add (out, separator);
            quote_ascii (out, key);
            strbuf_add (out, ": ");
            python_json_add (out, item);
            separator = ", ";
        }
        strbuf_add_char (out, '}');
        break;
    case JSON_ARRAY:
        strbuf_add_char (out, '[');
        json_array_foreach (value, i, item) {
            strbuf_add (out, i ? ", " : "");
            python_json_add (out, item);
        }
        strbuf_add_char (out, ']');
        break;
    case JSON_STRING: quote_ascii (out, json_string_value (value)); break;
    case JSON_INTEGER: strbuf_printf (out, "%lld", (long long) json_integer_value (value)); break;
    case JSON_REAL: scalar_add_float (out, json_real_value (value)); break;
    case JSON_TRUE: strbuf_add (out, "true"); break;
    case JSON_FALSE: strbuf_add (out, "false"); break;
    case JSON_NULL: strbuf_add (out, "null"); break;
    }
}

void
python_text_add (struct strbuf *out, const json_t *value)
{
    if (json_is_string (value))
        strbuf_add (out, json_string_value (value));
    else if (json_is_boolean (value))
        strbuf_add (out, json_is_true (value) ? "True" : "False");
    else if (json_is_null (value))
        strbuf_add (out, "None");
    else
        python_json_add (out, value);
}

int
python_json_refuse (const char *text, struct fail *fail, int status, const char *format, ...)
{
    char why[800];
    va_list args;
    if (utf8_is_valid (text, strlen (text)))
        return fail_nomem (fail);
    va_start (args, format);
    vsnprintf (why, sizeof why, format, args);
    va_end (args);
    return fail_set (fail, status, "%s", why);
}

static json_t *
nomem_unless (json_t *value, struct fail *fail)
{
    if (!value)
        fail_nomem (fail);
    return value;
}

static json_t *
number_of_node (const struct node *node, struct fail *fail)
{
    int64_t integer;
    double real;
    if (node->kind == NODE_INT && parse_int64 (node->text, INT64_MIN, INT64_MAX, &integer) == PARSE_OK)
        return nomem_unless (json_integer (integer), fail);
    if (node->kind == NODE_FLOAT && parse_double (node->text, -HUGE_VAL, HUGE_VAL, &real) == PARSE_OK)
        return nomem_unless (json_real (real), fail);
    fail_set (fail, FAIL_GENERAL, "'%s' is too large for a number, or is not finite", node->text);
    return NULL;
}

/* NOLINTNEXTLINE(misc-no-recursion): nodes are at most NODE_DEEPEST deep */
json_t *
python_json_of_node (const struct node *node, struct fail *fail)
{
    json_t *value = NULL;
    switch (node->kind) {
    case NODE_NULL: return json_null ();
    case NODE_BOOL: return json_boolean (!strcmp (node->text, "True"));
    case NODE_INT:
    case NODE_FLOAT: return number_of_node (node, fail);
    case NODE_DATE:
    case NODE_TEXT: value = json_string (node->text); break;
    case NODE_LIST: value = json_array (); break;
    case NODE_MAP: value = json_object (); break;
    }
    for (size_t i = 0; value && i < node->count; i++) {
        json_t *item = python_json_of_node (&node->items[i], fail);
        const char *key = node->kind == NODE_MAP ? node->items[i].key : "";
        if (!item && fail && node->kind == NODE_MAP)
            fail_prefix (fail, "%s", key);
        int failed = !item ? -1
                     : node->kind == NODE_LIST ? json_array_append_new (value, item)
                                               : json_object_set_new (value, key, item);
        if (failed && item)
            python_json_refuse (key, fail, FAIL_GENERAL, "'%s' is not valid UTF-8", key);
        if (failed) {
            json_decref (value);
            return NULL;
        }
    }
    if (!value)
        python_json_refuse (node->text ? node->text : "", fail, FAIL_GENERAL, "'%s' is not valid UTF-8", node->text);
    return value;
}

/* What Python's float() reads: also 1_000, inf, nan, and blanks around it; but not C's hexadecimal numbers. */
static bool
read_number (const char *word, double *number)
{
    char digits[400];
    size_t length = 0;
    while (isspace ((unsigned char) *word))
        word++;
    const char *start = word;
    for (; *word && !isspace ((unsigned char) *word); word++) {
        bool is_between = word > start && isdigit ((unsigned char) word[-1]) && isdigit ((unsigned char) word[1]);
        if (*word == '_' && is_between)
            continue;
        if (*word == '_' || *word == 'x' || *word == 'X' || *word == '(' || length + 1 == sizeof digits)
            return false;
        digits[length++] = *word;
    }
    while (isspace ((unsigned char) *word))
        word++;
    digits[length] = '\0';
    char *end;
    *number = strtod (digits, &end);
    return !*word && length && !*end;
}

int
python_json_of_word (struct strbuf *out, const char *word, struct fail *fail)
{
    double number;
    if (read_number (word, &number)) {
        if (isnan (number))
            strbuf_add (out, "NaN");
        else if (isinf (number))
            strbuf_add (out, number > 0 ? "Infinity" : "-Infinity");
        else if (number == floor (number))
            strbuf_printf (out, "%.0f", number == 0 ? 0.0 : number);
        else
            scalar_add_float (out, number);
        return 0;
    }
    if (!strcmp (word, "True") || !strcmp (word, "False")) {
        strbuf_add (out, *word == 'T' ? "true" : "false");
        return 0;
    }
    json_t *text = json_string (word);
    if (!text)
        return python_json_refuse (word, fail, FAIL_USAGE, "not valid UTF-8");
    python_json_add (out, text);
    json_decref (text);
    return 0;
}
