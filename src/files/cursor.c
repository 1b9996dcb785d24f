/* SPDX-License-Identifier: Apache-2.0 */
/* Reading JSON (RFC 8259) piece by piece; see cursor.h. */
#include <config.h>

#include "files/cursor.h"

#include "files/error.h"
#include "util/cleanup.h"
#include "util/strbuf.h"
#include "util/utf8.h"

#include <stdarg.h>
#include <string.h>

/* Deeper values are refused: nothing that we read has them, and each level is a call on the stack. */
enum { MAX_DEPTH = 127 };

enum accel_status
cursor_fail (const struct cursor *json, const char *format, ...)
{
    char text[ACCEL_ERROR_TEXT_SIZE];
    va_list args;
    va_start (args, format);
    vsnprintf (text, sizeof text, format, args);
    va_end (args);
    return accel_fail (json->err, ACCEL_ERR_FORMAT, "byte %zu: %s", json->at, text);
}

enum accel_status
cursor_begin (struct cursor *json)
{
    json->at = utf8_valid_length (json->text, json->length);
    if (json->at < json->length)
        return cursor_fail (json, "not valid UTF-8");
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

/* The byte at the cursor; 0 at the end.  A 0 in the text is no JSON either, so the two need not be told apart. */
static char
byte (const struct cursor *json)
{
    return json->at < json->length ? json->text[json->at] : '\0';
}

char
cursor_peek (struct cursor *json)
{
    while (is_space (byte (json)))
        json->at++;
    return byte (json);
}

enum accel_status
cursor_take (struct cursor *json, char c, const char *what)
{
    if (cursor_peek (json) != c)
        return cursor_fail (json, json->at < json->length ? "expected %s" : "unexpected end: expected %s", what);
    json->at++;
    return ACCEL_OK;
}

enum accel_status
cursor_next (struct cursor *json, char closing, bool *first, bool *more)
{
    char c = cursor_peek (json);
    *more = c != closing;
    if (c == closing)
        json->at++;
    else if (!*first) {
        enum accel_status status = cursor_take (json, ',', closing == '}' ? "',' or '}'" : "',' or ']'");
        if (status)
            return status;
        if (cursor_peek (json) == closing)
            return cursor_fail (json, "trailing ',' before '%c'", closing);
    }
    *first = false;
    return ACCEL_OK;
}

/* Four hexadecimal digits. */
static bool
take_hex (struct cursor *json, unsigned *value)
{
    *value = 0;
    for (int i = 0; i < 4; i++, json->at++) {
        char c = byte (json);
        unsigned digit = is_digit (c)              ? (unsigned) (c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned) (c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (unsigned) (c - 'A') + 10
                                                   : 16;
        if (digit > 15)
            return false;
        *value = *value << 4 | digit;
    }
    return true;
}

/* What follows a backslash. */
static enum accel_status
take_escape (struct cursor *json, struct strbuf *buf)
{
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    char c = byte (json);
    const char *found = c ? strchr (from, c) : NULL;
    if (found) {
        json->at++;
        strbuf_add_char (buf, into[found - from]);
        return ACCEL_OK;
    }
    unsigned code, low;
    if (c != 'u')
        return cursor_fail (json, "invalid escape after a backslash");
    json->at++;
    if (!take_hex (json, &code))
        return cursor_fail (json, "expected four hexadecimal digits");
    if (!code)
        return cursor_fail (json, "a NUL character in a string");
    if (code >= 0xd800 && code < 0xe000) {
        if (code >= 0xdc00 || json->length - json->at < 6 || memcmp (json->text + json->at, "\\u", 2) != 0)
            return cursor_fail (json, "half of a surrogate pair");
        json->at += 2;
        if (!take_hex (json, &low) || low < 0xdc00 || low >= 0xe000)
            return cursor_fail (json, "half of a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    utf8_add (buf, code);
    return ACCEL_OK;
}

enum accel_status
cursor_string (struct cursor *json, char **text, const char *what)
{
    AUTO_STRBUF struct strbuf buf = { 0 };
    *text = NULL;
    enum accel_status status = cursor_take (json, '"', what);
    while (!status && byte (json) != '"') {
        size_t start = json->at;
        while ((unsigned char) byte (json) >= ' ' && byte (json) != '"' && byte (json) != '\\')
            json->at++;
        strbuf_add_bytes (&buf, json->text + start, json->at - start);
        if (json->at >= json->length)
            status = cursor_fail (json, "ends inside a string");
        else if (byte (json) == '\\') {
            json->at++;
            status = take_escape (json, &buf);
        } else if (byte (json) != '"')
            status = cursor_fail (json, "a control character in a string");
    }
    if (status)
        return status;
    json->at++;
    *text = strbuf_take (&buf);
    return *text ? ACCEL_OK : accel_fail (json->err, ACCEL_ERR_NOMEM, "out of memory");
}

enum accel_status
cursor_key (struct cursor *json, char **key)
{
    enum accel_status status = cursor_string (json, key, "a name in quotes");
    if (!status && (status = cursor_take (json, ':', "':'"))) {
        free (*key);
        *key = NULL;
    }
    return status;
}

enum accel_status
cursor_uint64 (struct cursor *json, uint64_t *value, const char *what)
{
    char c = cursor_peek (json);
    size_t start = json->at;
    uint64_t number = 0;
    if (!is_digit (c))
        return cursor_fail (json, "expected %s", what);
    for (; is_digit (byte (json)); json->at++)
        if (__builtin_mul_overflow (number, (uint64_t) 10, &number)
            || __builtin_add_overflow (number, (uint64_t) (byte (json) - '0'), &number))
            return cursor_fail (json, "%s is too large", what);
    c = byte (json);
    if ((json->text[start] == '0' && json->at - start > 1) || c == '.' || c == 'e' || c == 'E') {
        json->at = start;
        return cursor_fail (json, "expected %s", what);
    }
    *value = number;
    return ACCEL_OK;
}

bool
cursor_word (struct cursor *json, const char *word)
{
    size_t length = strlen (word);
    cursor_peek (json);
    if (length > json->length - json->at || memcmp (json->text + json->at, word, length) != 0)
        return false;
    json->at += length;
    return true;
}

/* @return whether there was at least one digit */
static bool
skip_digits (struct cursor *json)
{
    size_t start = json->at;
    while (is_digit (byte (json)))
        json->at++;
    return json->at > start;
}

static enum accel_status
skip_number (struct cursor *json)
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
    return good ? ACCEL_OK : cursor_fail (json, "expected a value");
}

static enum accel_status
skip_value (struct cursor *json, int depth)
{
    char c = cursor_peek (json), *text = NULL, closing = c == '{' ? '}' : ']';
    enum accel_status status;
    bool first = true, more;
    if (c == '"') {
        status = cursor_string (json, &text, "a string");
        free (text);
        return status;
    }
    if (c != '{' && c != '[')
        return cursor_word (json, "null") || cursor_word (json, "true") || cursor_word (json, "false") ? ACCEL_OK
                                                                                                  : skip_number (json);
    if (depth > MAX_DEPTH)
        return cursor_fail (json, "nested more than %d levels deep", MAX_DEPTH);
    json->at++;
    for (;;) {
        status = cursor_next (json, closing, &first, &more);
        if (status || !more)
            return status;
        if (c == '{') {
            status = cursor_key (json, &text);
            free (text);
        }
        if (!status)
            status = skip_value (json, depth + 1);
        if (status)
            return status;
    }
}

enum accel_status
cursor_skip (struct cursor *json)
{
    return skip_value (json, 1);
}

enum accel_status
cursor_end (struct cursor *json)
{
    cursor_peek (json);
    return json->at == json->length ? ACCEL_OK : cursor_fail (json, "text after the end of the JSON");
}
