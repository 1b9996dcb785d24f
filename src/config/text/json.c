/* SPDX-License-Identifier: Apache-2.0 */
/* JSON files, as Python's json reads them: NaN, Infinity and whole numbers of any length included, so a library that
 * keeps to the standard would refuse what Accelerate has written.  And every value knows its line. */
#include <config.h>

#include "config/text/tree.h"

#include "config/text/scalar.h"
#include "util/cleanup.h"
#include "util/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    const char *path;
    const char *at, *end;
    int line;
    int depth;
    struct fail *fail;
};

static int
refuse (struct reader *reader, const char *what)
{
    return fail_set (reader->fail, FAIL_GENERAL, "%s:%d: not JSON: %s", reader->path, reader->line, what);
}

/* The next non-blank character, which is not consumed; '\0' at the end. */
static char
peek (struct reader *reader)
{
    for (; reader->at < reader->end && *reader->at && strchr (" \t\r\n", *reader->at); reader->at++)
        if (*reader->at == '\n' && reader->at + 1 < reader->end)
            reader->line++;
    return reader->at < reader->end ? *reader->at : '\0';
}

static bool
take (struct reader *reader, const char *word)
{
    size_t length = strlen (word);
    if ((size_t) (reader->end - reader->at) < length || memcmp (reader->at, word, length) != 0)
        return false;
    reader->at += length;
    return true;
}

static int
add_escape (struct reader *reader, struct strbuf *out)
{
    static const char *const problems[] = {
        [QUOTE_UNKNOWN] = "unknown escape in a string", [QUOTE_NO_DIGIT] = "unknown escape in a string",
        [QUOTE_ZERO] = "the value contains a zero byte",
        [QUOTE_SURROGATE] = "unpaired surrogate (\\ud800 to \\udfff come in pairs)",
    };
    enum quote_escape result = quote_read_escape (&reader->at, reader->end, out);
    return result ? refuse (reader, problems[result]) : 0;
}

/* The opening quote is next. */
static int
read_text (struct reader *reader, struct strbuf *out)
{
    reader->at++;
    while (reader->at < reader->end && *reader->at != '"') {
        unsigned char c = (unsigned char) *reader->at++;
        if (c < ' ')
            return refuse (reader, c == '\n' ? "unterminated string" : "control character in a string");
        if (c != '\\')
            strbuf_add_char (out, (char) c);
        else if (add_escape (reader, out))
            return -1;
    }
    if (reader->at == reader->end)
        return refuse (reader, "unterminated string");
    reader->at++;
    return out->failed ? fail_nomem (reader->fail) : 0;
}

static size_t
count_digits (const char *text)
{
    return strspn (text, "0123456789");
}

/* Digits without zeros before them; then a point with digits, an exponent, or both make it a float.
 * @return the length, or 0 if this is not a number */
static size_t
measure_number (const char *text, bool *is_float)
{
    size_t length = *text == '-', digits = count_digits (text + length);
    if (!digits)
        return 0;
    length += text[length] == '0' ? 1 : digits;
    *is_float = false;
    if (text[length] == '.' && (digits = count_digits (text + length + 1))) {
        length += 1 + digits;
        *is_float = true;
    }
    if (text[length] == 'e' || text[length] == 'E') {
        size_t sign = text[length + 1] == '+' || text[length + 1] == '-';
        digits = count_digits (text + length + 1 + sign);
        *is_float = *is_float || digits;
        length += digits ? 1 + sign + digits : 0;
    }
    return length;
}

static int
read_number (struct reader *reader, struct node *node)
{
    static const struct {
        const char *word, *value;
    } words[] = { { "NaN", "nan" }, { "Infinity", "inf" }, { "-Infinity", "-inf" } };
    AUTO_STRBUF struct strbuf value = { 0 };
    bool is_float = false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (take (reader, words[i].word))
            return node_set (node, NODE_FLOAT, words[i].value) ? fail_nomem (reader->fail) : 0;
    size_t length = measure_number (reader->at, &is_float); /* the file's text ends with a zero byte */
    if (!length)
        return refuse (reader, "expected a value: a string in double quotes, a number, true, false or null");
    strbuf_add_bytes (&value, reader->at, length);
    reader->at += length;
    if (is_float && !value.failed) {
        double number = strtod (value.text, NULL);
        strbuf_truncate (&value, 0);
        scalar_add_float (&value, number);
    }
    if (value.failed || node_set (node, is_float ? NODE_FLOAT : NODE_INT, strcmp (value.text, "-0") ? value.text : "0"))
        return fail_nomem (reader->fail);
    return 0;
}

static int read_value (struct reader *reader, struct node *node);

/* A name and its colon. */
static struct node *
read_key (struct reader *reader, struct node *parent)
{
    AUTO_STRBUF struct strbuf key = { 0 };
    if (peek (reader) != '"') {
        refuse (reader, "expected a key in double quotes");
        return NULL;
    }
    int line = reader->line;
    if (read_text (reader, &key))
        return NULL;
    struct node *node = node_add (parent, key.text ? key.text : "");
    if (!node)
        fail_nomem (reader->fail);
    else if (peek (reader) != ':') {
        refuse (reader, "expected a colon after the key");
        node = NULL;
    } else {
        node->line = line;
        reader->at++;
    }
    return node;
}

static int
read_items (struct reader *reader, struct node *parent, char close)
{
    if (++reader->depth > NODE_DEEPEST)
        return fail_set (reader->fail, FAIL_GENERAL, "%s:%d: nested too deep", reader->path, reader->line);
    reader->at++;
    bool is_done = peek (reader) == close;
    while (!is_done) {
        peek (reader);
        struct node *node = close == '}' ? read_key (reader, parent) : node_add (parent, NULL);
        if (!node)
            return close == '}' ? -1 : fail_nomem (reader->fail);
        if (close == ']')
            node->line = reader->line;
        if (read_value (reader, node))
            return -1;
        char next = peek (reader);
        if (next != ',' && next != close)
            return refuse (reader, next ? close == '}' ? "expected a comma or }" : "expected a comma or ]"
                                        : "the file ends within a list or an object");
        is_done = next == close;
        reader->at += !is_done;
    }
    reader->at++;
    reader->depth--;
    return 0;
}

static int
read_value (struct reader *reader, struct node *node)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    switch (peek (reader)) {
    case '{':
        node->kind = NODE_MAP;
        return read_items (reader, node, '}');
    case '[':
        node->kind = NODE_LIST;
        return read_items (reader, node, ']');
    case '"':
        if (read_text (reader, &text))
            return -1;
        return node_set (node, NODE_TEXT, text.text ? text.text : "") ? fail_nomem (reader->fail) : 0;
    case '\0':
        return refuse (reader, reader->at < reader->end ? "a zero byte" : "expected a value, but the file ends");
    default:
        break;
    }
    if (take (reader, "null"))
        return 0;
    bool is_true = take (reader, "true");
    if (is_true || take (reader, "false"))
        return node_set (node, NODE_BOOL, is_true ? "True" : "False") ? fail_nomem (reader->fail) : 0;
    return read_number (reader, node);
}

/* The line of the first byte that is not UTF-8. */
static int
line_of_bad_byte (const char *text, size_t length)
{
    int line = 1;
    for (size_t from = 0, i = 0; i < length; i++)
        if (text[i] == '\n') {
            if (!utf8_is_valid (text + from, i - from))
                return line;
            from = i + 1;
            line += from < length;
        }
    return line;
}

int
json_read (struct filedoc *doc, const char *text, size_t length, struct fail *fail)
{
    struct reader reader = { .path = doc->path, .at = text, .end = text + length, .line = 1, .fail = fail };
    if (!utf8_is_valid (text, length)) {
        reader.line = line_of_bad_byte (text, length);
        return refuse (&reader, "not valid UTF-8");
    }
    take (&reader, "\xef\xbb\xbf"); /* editors of Windows begin files with it */
    char first = peek (&reader);
    if (!first && reader.at == reader.end)
        return fail_set (fail, FAIL_GENERAL, "%s:1: not JSON: the file is empty", doc->path);
    if (read_value (&reader, &doc->root))
        return -1;
    if (peek (&reader) || reader.at < reader.end)
        return refuse (&reader, "trailing text after the object");
    if (doc->root.kind != NODE_MAP)
        return fail_set (fail, FAIL_GENERAL, "%s:1: expected an object, {\"key\": value}", doc->path);
    return 0;
}
