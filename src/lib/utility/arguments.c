/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of arguments: accel/arguments.h. */
#include <config.h>

#include "files/json_reader.h"
#include "lib/base/error.h"
#include "lib/base/sized.h"
#include "util/cleanup.h"
#include "util/fail.h"
#include "util/io.h"
#include "util/parse.h"
#include "util/strbuf.h"
#include "util/suggest.h"
#include "util/utf8.h"

#include <accel/arguments.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_LIMIT = 16 << 20 };

/* ---- one value ---- */

static enum accel_status
refuse (const struct accel_argument *row, const char *expected, const char *text, struct accel_error *err)
{
    bool has_limits = row->kind != ACCEL_ARGUMENT_WORD && (row->min != 0 || row->max != 0);
    char limits[64] = "";
    if (has_limits)
        snprintf (limits, sizeof limits, " from %.10g to %.10g", row->min, row->max);
    return accel_fail (err, ACCEL_ERR_INVALID, "%.60s: expected %.160s%s, got '%.60s'", row->name, expected, limits,
                       text);
}

static enum accel_status
set_int (int *field, const struct accel_argument *row, const char *text, struct accel_error *err)
{
    bool any = row->min == 0 && row->max == 0;
    int64_t value;
    if (parse_int64 (text, INT_MIN, INT_MAX, &value)
        || (!any && ((double) value < row->min || (double) value > row->max)))
        return refuse (row, "a whole number", text, err);
    *field = (int) value;
    return ACCEL_OK;
}

static enum accel_status
set_double (double *field, const struct accel_argument *row, const char *text, struct accel_error *err)
{
    bool any = row->min == 0 && row->max == 0;
    return parse_double (text, any ? -DBL_MAX : row->min, any ? DBL_MAX : row->max, field)
               ? refuse (row, "a number", text, err)
               : ACCEL_OK;
}

static enum accel_status
set_word (int *field, const struct accel_argument *row, const char *text, struct accel_error *err)
{
    AUTO_STRBUF struct strbuf words = { 0 };
    size_t length = strlen (text);
    int place = 0;
    for (const char *word = row->words, *end; word && *word; word = end + strspn (end, " "), place++) {
        end = word + strcspn (word, " ");
        if ((size_t) (end - word) == length && !memcmp (word, text, length)) {
            *field = place;
            return ACCEL_OK;
        }
        strbuf_printf (&words, "%s%.*s", place ? ", " : "", (int) (end - word), word);
    }
    return refuse (row, words.text ? words.text : "no word", text, err);
}

static enum accel_status
refuse_kind (const struct accel_argument *row, struct accel_error *err)
{
    return accel_fail (err, ACCEL_ERR_INVALID, "%.60s: invalid accel_argument_kind %d", row->name, (int) row->kind);
}

/* @param text  what was given, or the default; NULL: there is none */
static enum accel_status
set (void *into, const struct accel_argument *row, const char *text, struct accel_error *err)
{
    void *field = (char *) into + row->offset;
    const char *number = text ? text : "0";
    switch (row->kind) {
    case ACCEL_ARGUMENT_TEXT:
        *(const char **) field = text;
        return ACCEL_OK;
    case ACCEL_ARGUMENT_INT:
        return set_int (field, row, number, err);
    case ACCEL_ARGUMENT_DOUBLE:
        return set_double (field, row, number, err);
    case ACCEL_ARGUMENT_WORD:
        if (text)
            return set_word (field, row, text, err);
        *(int *) field = 0;
        return ACCEL_OK;
    default:
        return refuse_kind (row, err);
    }
}

static const struct accel_argument *
find (const struct accel_argument *rows, size_t count, const char *name, size_t length)
{
    for (size_t i = 0; i < count; i++)
        if (strlen (rows[i].name) == length && !memcmp (rows[i].name, name, length))
            return &rows[i];
    return NULL;
}

static enum accel_status
check_rows (const char *function, const char *name, const void *fields, const struct accel_argument *rows, size_t count,
            struct accel_error *err)
{
    if (!fields || (count && !rows))
        return accel_fail_null (err, function, fields ? "arguments" : name);
    for (size_t i = 0; i < count; i++)
        if (!rows[i].name)
            return accel_fail (err, ACCEL_ERR_INVALID, "%s: row %zu has no name", function, i);
    return ACCEL_OK;
}

/* ---- a command line ---- */

static enum accel_status
refuse_unknown (const struct accel_argument *rows, size_t count, const char *given, struct accel_error *err)
{
    struct suggest suggest = { .wanted = given + strspn (given, "-") };
    char space[80];
    for (size_t i = 0; i < count; i++)
        suggest_consider (&suggest, rows[i].name);
    return accel_fail (err, ACCEL_ERR_INVALID, "unknown option '%.60s'%s; see --help", given,
                       suggest_text (&suggest, "--", space, sizeof space));
}

static enum accel_status
write_help (char **help, const struct accel_argument *rows, size_t count, struct accel_error *err)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    for (size_t i = 0; i < count; i++) {
        const char *words = rows[i].words ? rows[i].words : "";
        const char *standard = rows[i].kind == ACCEL_ARGUMENT_TEXT ? "none" : *words ? words : "0";
        standard = rows[i].value ? rows[i].value : standard;
        strbuf_printf (&text, "  --%-20s %s%s%s [%.*s]\n", rows[i].name, rows[i].help ? rows[i].help : "",
                       *words ? ": " : "", words, (int) strcspn (standard, *words ? " " : ""), standard);
    }
    *help = strbuf_take (&text);
    return *help ? ACCEL_OK : accel_fail_nomem (err);
}

/* @param[in,out] argv  the argument that is next, with its value if that is the following one */
static enum accel_status
parse_one (void *into, const struct accel_argument *rows, size_t count, char ***argv, struct accel_error *err)
{
    const char *given = *(*argv)++, *name = given + 2, *text = strchr (given, '=');
    const struct accel_argument *row
        = strncmp (given, "--", 2) ? NULL : find (rows, count, name, text ? (size_t) (text - name) : strlen (name));
    if (!row)
        return refuse_unknown (rows, count, given, err);
    text = text ? text + 1 : *(*argv)++;
    if (!text)
        return accel_fail (err, ACCEL_ERR_INVALID, "--%.60s: missing value", row->name);
    struct accel_error why = { 0 };
    enum accel_status status = set (into, row, text, &why);
    return status ? accel_fail (err, status, "--%s", why.text) : ACCEL_OK;
}

enum accel_status
accel_arguments_parse_sized (size_t row_size, char **help, void *into, const struct accel_argument *arguments,
                             size_t count, int argc, char **argv, struct accel_error *err)
{
    AUTO_FREE struct accel_argument *room = NULL;
    enum accel_status status;
    if (!help)
        return accel_fail_null (err, "accel_arguments_parse", "help");
    *help = NULL;
    const struct accel_argument *rows = SIZED_ARRAY (arguments, row_size, count, room, &status, err);
    if (!status)
        status = check_rows ("accel_arguments_parse", "into", into, rows, count, err);
    for (size_t i = 0; i < count && !status; i++)
        status = set (into, &rows[i], rows[i].value, err);
    for (char **next = argv + 1; argc > 1 && !status && !*help && next < argv + argc;)
        status = !strcmp (*next, "--help") ? write_help (help, rows, count, err)
                                           : parse_one (into, rows, count, &next, err);
    return status;
}

/* ---- files ---- */

/* @return the text of a value: that of a string, or the word or number as it is in the file; NULL: null, or an error */
static char *
read_value (struct json_reader *json, enum accel_status *status)
{
    char *text = NULL;
    if (json_reader_peek (json) == '"') {
        *status = json_reader_string (json, &text, "a string");
        return text;
    }
    size_t from = json->at;
    bool is_null = json_reader_peek (json) == 'n';
    *status = json_reader_skip (json);
    if (!*status && !is_null && !(text = strndup (json->text + from, json->at - from)))
        *status = accel_fail_nomem (json->err);
    return text;
}

/* @param[out] seen  [count], false: which rows the object has */
static enum accel_status
read_object (struct json_reader *json, void *into, const struct accel_argument *rows, size_t count, bool *seen)
{
    enum accel_status status = json_reader_begin (json);
    bool first = true, more = true;
    if (!status)
        status = json_reader_take (json, '{', "an object");
    while (!status && !(status = json_reader_next (json, '}', &first, &more)) && more) {
        AUTO_FREE char *key = NULL;
        AUTO_FREE char *text = NULL;
        if ((status = json_reader_key (json, &key)))
            break;
        const struct accel_argument *row = find (rows, count, key, strlen (key));
        text = read_value (json, &status);
        if (!status && row && text && row->kind != ACCEL_ARGUMENT_TEXT) {
            status = set (into, row, text, json->err);
            seen[row - rows] = true;
        }
    }
    return status ? status : json_reader_end (json);
}

enum accel_status
accel_arguments_read_json_sized (size_t row_size, void *into, const struct accel_argument *arguments, size_t count,
                                 const char *path, struct accel_error *err)
{
    AUTO_FREE struct accel_argument *room = NULL;
    AUTO_FREE char *text = NULL;
    AUTO_FREE bool *seen = NULL;
    enum accel_status status;
    struct json_reader json = { .err = err };
    struct fail fail = { 0 };
    const struct accel_argument *rows = SIZED_ARRAY (arguments, row_size, count, room, &status, err);
    if (!status)
        status = check_rows ("accel_arguments_read_json", "into", into, rows, count, err);
    if (status || !path)
        return status ? status : accel_fail_null (err, "accel_arguments_read_json", "path");
    if (io_read_file (path, FILE_LIMIT, &text, &json.length, &fail))
        return accel_fail (err, ACCEL_ERR_SYSTEM, "%s", fail.text);
    json.text = text;
    seen = calloc (count + 1, sizeof *seen);
    status = seen ? read_object (&json, into, rows, count, seen) : accel_fail_nomem (err);
    for (size_t i = 0; i < count && !status; i++)
        if (rows[i].required && !seen[i])
            status = accel_fail (err, ACCEL_ERR_INVALID, "\"%.60s\" is missing", rows[i].name);
    return status ? accel_fail_in (err, status, "%s", path) : ACCEL_OK;
}

static enum accel_status
write_number (struct strbuf *out, const struct accel_argument *row, double value, struct accel_error *err)
{
    char text[32];
    if (!isfinite (value))
        return accel_fail (err, ACCEL_ERR_INVALID, "%.60s: %g is not finite", row->name, value);
    snprintf (text, sizeof text, "%.15g", value);
    if (strtod (text, NULL) != value)
        snprintf (text, sizeof text, "%.17g", value);
    strbuf_add (out, text);
    return ACCEL_OK;
}

static enum accel_status
write_word (struct strbuf *out, const struct accel_argument *row, int place, struct accel_error *err)
{
    const char *word = row->words ? row->words : "";
    for (int i = 0; i < place && *word; i++) {
        word += strcspn (word, " ");
        word += strspn (word, " ");
    }
    AUTO_FREE char *own = strndup (word, strcspn (word, " "));
    if (place < 0 || !*word)
        return accel_fail (err, ACCEL_ERR_INVALID, "%.60s: word %d of '%.160s'", row->name, place,
                           row->words ? row->words : "");
    if (own && (!strcmp (own, "true") || !strcmp (own, "false") || !strcmp (own, "null")))
        strbuf_add (out, own);
    else if (own)
        quote_utf8 (out, own);
    return own ? ACCEL_OK : accel_fail_nomem (err);
}

static enum accel_status
write_value (struct strbuf *out, const struct accel_argument *row, const void *from, struct accel_error *err)
{
    const void *field = (const char *) from + row->offset;
    strbuf_add (out, out->length > 1 ? ",\n  " : "\n  ");
    quote_utf8 (out, row->name);
    strbuf_add (out, ": ");
    switch (row->kind) {
    case ACCEL_ARGUMENT_INT:
        strbuf_printf (out, "%d", *(const int *) field);
        return ACCEL_OK;
    case ACCEL_ARGUMENT_DOUBLE:
        return write_number (out, row, *(const double *) field, err);
    case ACCEL_ARGUMENT_WORD:
        return write_word (out, row, *(const int *) field, err);
    default:
        return refuse_kind (row, err);
    }
}

enum accel_status
accel_arguments_write_json_sized (size_t row_size, const void *from, const struct accel_argument *arguments,
                                  size_t count, const char *path, struct accel_error *err)
{
    AUTO_FREE struct accel_argument *room = NULL;
    AUTO_STRBUF struct strbuf out = { 0 };
    enum accel_status status;
    struct fail fail = { 0 };
    const struct accel_argument *rows = SIZED_ARRAY (arguments, row_size, count, room, &status, err);
    if (!status)
        status = check_rows ("accel_arguments_write_json", "from", from, rows, count, err);
    if (status || !path)
        return status ? status : accel_fail_null (err, "accel_arguments_write_json", "path");
    strbuf_add_char (&out, '{');
    for (size_t i = 0; i < count && !status; i++)
        if (rows[i].kind != ACCEL_ARGUMENT_TEXT)
            status = write_value (&out, &rows[i], from, err);
    strbuf_add (&out, out.length > 1 ? "\n}\n" : "}\n");
    if (!status && out.failed)
        status = accel_fail_nomem (err);
    if (!status && io_write_file (path, out.text, out.length, 0666, &fail))
        status = accel_fail (err, ACCEL_ERR_SYSTEM, "%s", fail.text);
    return status;
}
