/* SPDX-License-Identifier: Apache-2.0 */
/* Reading JSON (RFC 8259) piece by piece; see json_reader.h. */
#include <config.h>

#include "files/json_reader.h"

#include "util/cleanup.h"
#include "util/strbuf.h"
#include "util/utf8.h"

#include <stdlib.h>
#include <string.h>

/* Deeper values are refused: nothing that we read has them, and each level is a call on the stack. */
enum { MAX_DEPTH = 127 };

enum accel_status
json_reader_begin (struct json_reader *json)
{
    json->at = utf8_valid_length (json->text, json->length);
    if (json->at < json->length)
        return json_reader_fail (json, "not valid UTF-8");
    json->at = 0;
    return ACCEL_OK;
}

static bool
is_space (char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool
is_digit (char c)
{
    return c >= '0' && c <= '9';
}

/* The byte at the reader; 0 at the end.  A 0 in the text is not JSON either, so the two need not be distinguished. */
static char
byte (const struct json_reader *json)
{
    return json->at < json->length ? json->text[json->at] : '\0';
}

char
json_reader_peek (struct json_reader *json)
{
    while (is_space (byte (json)))
        json->at++;
    return byte (json);
}

enum accel_status
json_reader_take (struct json_reader *json, char c, const char *what)
{
    if (json_reader_peek (json) != c)
        return json_reader_fail (json, json->at < json->length ? "expected %s" : "unexpected end: expected %s", what);
    json->at++;
    return ACCEL_OK;
}

enum accel_status
json_reader_next (struct json_reader *json, char closing, bool *first, bool *more)
{
    char c = json_reader_peek (json);
    *more = c != closing;
    if (c == closing)
        json->at++;
    else if (!*first) {
        enum accel_status status = json_reader_take (json, ',', closing == '}' ? "',' or '}'" : "',' or ']'");
        if (status)
            return status;
        if (json_reader_peek (json) == closing)
            return json_reader_fail (json, "trailing ',' before '%c'", closing);
    }
    *first = false;
    return ACCEL_OK;
}

/* What follows a backslash. */
static enum accel_status
take_escape (struct json_reader *json, struct strbuf *buf)
{
    static const char *const problems[] = {
        [QUOTE_UNKNOWN] = "invalid escape after a backslash", [QUOTE_NO_DIGIT] = "expected four hexadecimal digits",
        [QUOTE_ZERO] = "a NUL character in a string", [QUOTE_SURROGATE] = "half of a surrogate pair",
    };
    const char *at = json->text + json->at;
    enum quote_escape result = quote_read_escape (&at, json->text + json->length, buf);
    json->at = (size_t) (at - json->text);
    return result ? json_reader_fail (json, "%s", problems[result]) : ACCEL_OK;
}

enum accel_status
json_reader_string (struct json_reader *json, char **text, const char *what)
{
    AUTO_STRBUF struct strbuf buf = { 0 };
    *text = NULL;
    enum accel_status status = json_reader_take (json, '"', what);
    while (!status && byte (json) != '"') {
        size_t start = json->at;
        while ((unsigned char) byte (json) >= ' ' && byte (json) != '"' && byte (json) != '\\')
            json->at++;
        strbuf_add_bytes (&buf, json->text + start, json->at - start);
        if (json->at >= json->length)
            status = json_reader_fail (json, "ends inside a string");
        else if (byte (json) == '\\') {
            json->at++;
            status = take_escape (json, &buf);
        } else if (byte (json) != '"')
            status = json_reader_fail (json, "a control character in a string");
    }
    if (status)
        return status;
    json->at++;
    *text = strbuf_take (&buf);
    return *text ? ACCEL_OK : accel_fail_nomem (json->err);
}

enum accel_status
json_reader_key (struct json_reader *json, char **key)
{
    enum accel_status status = json_reader_string (json, key, "a name in quotes");
    if (!status && (status = json_reader_take (json, ':', "':'"))) {
        free (*key);
        *key = NULL;
    }
    return status;
}

enum accel_status
json_reader_uint64 (struct json_reader *json, uint64_t *value, const char *what)
{
    char c = json_reader_peek (json);
    size_t start = json->at;
    uint64_t number = 0;
    if (!is_digit (c))
        return json_reader_fail (json, "expected %s", what);
    for (; is_digit (byte (json)); json->at++)
        if (__builtin_mul_overflow (number, (uint64_t) 10, &number)
            || __builtin_add_overflow (number, (uint64_t) (byte (json) - '0'), &number))
            return json_reader_fail (json, "%s is too large", what);
    c = byte (json);
    if ((json->text[start] == '0' && json->at - start > 1) || c == '.' || c == 'e' || c == 'E') {
        json->at = start;
        return json_reader_fail (json, "expected %s", what);
    }
    *value = number;
    return ACCEL_OK;
}

bool
json_reader_word (struct json_reader *json, const char *word)
{
    size_t length = strlen (word);
    json_reader_peek (json);
    if (length > json->length - json->at || memcmp (json->text + json->at, word, length) != 0)
        return false;
    json->at += length;
    return true;
}

/* @return whether there was at least one digit */
static bool
skip_digits (struct json_reader *json)
{
    size_t start = json->at;
    while (is_digit (byte (json)))
        json->at++;
    return json->at > start;
}

static enum accel_status
skip_number (struct json_reader *json)
{
    json->at += byte (json) == '-';
    bool good = byte (json) == '0' ? json->at++, true : skip_digits (json);
    if (good && byte (json) == '.') {
        json->at++;
        good = skip_digits (json);
    }
    if (good && (byte (json) == 'e' || byte (json) == 'E')) {
        json->at++;
        json->at += byte (json) == '+' || byte (json) == '-';
        good = skip_digits (json);
    }
    return good ? ACCEL_OK : json_reader_fail (json, "expected a value");
}

static bool
skip_word (struct json_reader *json)
{
    static const char words[][10] = { "null", "true", "false", "NaN", "Infinity", "-Infinity" };
    for (size_t i = 0; i < (json->is_python ? sizeof words / sizeof *words : 3); i++)
        if (json_reader_word (json, words[i]))
            return true;
    return false;
}

static enum accel_status
skip_value (struct json_reader *json, int depth)
{
    char c = json_reader_peek (json), *text = NULL, closing = c == '{' ? '}' : ']';
    enum accel_status status;
    bool first = true, more;
    if (c == '"') {
        status = json_reader_string (json, &text, "a string");
        free (text);
        return status;
    }
    if (c != '{' && c != '[')
        return skip_word (json) ? ACCEL_OK : skip_number (json);
    if (depth > MAX_DEPTH)
        return json_reader_fail (json, "nested more than %d levels deep", MAX_DEPTH);
    json->at++;
    for (;;) {
        status = json_reader_next (json, closing, &first, &more);
        if (status || !more)
            return status;
        if (c == '{') {
            status = json_reader_key (json, &text);
            free (text);
        }
        if (!status)
            status = skip_value (json, depth + 1);
        if (status)
            return status;
    }
}

enum accel_status
json_reader_skip (struct json_reader *json)
{
    return skip_value (json, 1);
}

enum accel_status
json_reader_end (struct json_reader *json)
{
    json_reader_peek (json);
    return json->at == json->length ? ACCEL_OK : json_reader_fail (json, "text after the end of the JSON");
}
