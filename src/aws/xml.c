/* SPDX-License-Identifier: Apache-2.0 */
/* A reader of XML; see xml.h. */
#include <config.h>

#include "aws/xml.h"

#include "aws/aws.h"
#include "aws/keys.h"
#include "util/array.h"
#include "util/cleanup.h"
#include "util/utf8.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

enum { MOST_DEPTH = 32, MOST_NODES = 65536, NAME_BYTES = 64 };

struct node {
    char name[NAME_BYTES];
    char *text;    /* between its tags, without that of the elements in it; NULL: an element is still open */
    size_t parent; /* index; its own for the root */
};

struct aws_xml {
    struct node *nodes;
    size_t count;
};

struct reader {
    struct aws_xml *xml;
    const char *start, *at, *end;
    size_t open[MOST_DEPTH]; /* [depth] indices of the elements that are open */
    struct strbuf texts[MOST_DEPTH];
    size_t depth;
    struct fail *fail;
};

static int
refuse (const struct reader *reader, const char *what)
{
    return fail_set (reader->fail, FAIL_GENERAL, "not valid XML: byte %zu: %s", (size_t) (reader->at - reader->start),
                     what);
}

static bool
begins (const struct reader *reader, const char *text)
{
    size_t length = strlen (text);
    return (size_t) (reader->end - reader->at) >= length && !memcmp (reader->at, text, length);
}

/* Move past the next @p text.  @return where it begins; NULL: there is none */
static const char *
pass (struct reader *reader, const char *text)
{
    const char *found = memmem (reader->at, (size_t) (reader->end - reader->at), text, strlen (text));
    if (found)
        reader->at = found + strlen (text);
    return found;
}

static void
skip_blanks (struct reader *reader)
{
    while (reader->at < reader->end && *reader->at && strchr (" \t\r\n", *reader->at))
        reader->at++;
}

static bool
is_name_byte (char c)
{
    return isalnum ((unsigned char) c) || (c && strchr ("_-.:", c)) || (unsigned char) c >= 0x80;
}

/* Without its namespace. */
static int
read_name (struct reader *reader, char name[NAME_BYTES])
{
    const char *begin = reader->at;
    while (reader->at < reader->end && is_name_byte (*reader->at))
        reader->at++;
    for (const char *c = begin; c < reader->at; c++)
        if (*c == ':')
            begin = c + 1;
    size_t length = (size_t) (reader->at - begin);
    if (!length || length >= NAME_BYTES)
        return refuse (reader, length ? "the name of an element is too long" : "expected a name");
    memcpy (name, begin, length);
    name[length] = '\0';
    return 0;
}

/* At '&'. */
static int
read_reference (struct reader *reader, struct strbuf *out)
{
    static const struct { const char *text; char c; } entities[]
        = { { "&lt;", '<' }, { "&gt;", '>' }, { "&amp;", '&' }, { "&quot;", '"' }, { "&apos;", '\'' } };
    for (size_t i = 0; i < sizeof entities / sizeof *entities; i++)
        if (begins (reader, entities[i].text)) {
            reader->at += strlen (entities[i].text);
            strbuf_add_char (out, entities[i].c);
            return 0;
        }
    if (!begins (reader, "&#"))
        return refuse (reader, "an unknown entity");
    const char *at = reader->at + 2;
    bool is_hex = at < reader->end && *at == 'x';
    uint32_t code = 0;
    for (at += is_hex; at < reader->end && isxdigit ((unsigned char) *at) && code < 0x110000; at++) {
        char digit = *at;
        if (!is_hex && !isdigit ((unsigned char) digit))
            break;
        int value = isdigit ((unsigned char) digit) ? digit - '0' : (digit | 32) - 'a' + 10;
        code = code * (is_hex ? 16 : 10) + (uint32_t) value;
    }
    if (at == reader->end || *at != ';' || !code || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)
        || (code < ' ' && !strchr ("\t\r\n", (int) code)))
        return refuse (reader, "not a valid character reference");
    reader->at = at + 1;
    utf8_add (out, code);
    return 0;
}

/* Names, '=' and values in quotes, up to '>' or "/>". */
static int
skip_attributes (struct reader *reader, bool *is_empty)
{
    char name[NAME_BYTES];
    for (;;) {
        skip_blanks (reader);
        *is_empty = begins (reader, "/>");
        if (*is_empty || begins (reader, ">")) {
            reader->at += *is_empty ? 2 : 1;
            return 0;
        }
        if (read_name (reader, name))
            return -1;
        skip_blanks (reader);
        if (!begins (reader, "="))
            return refuse (reader, "expected '=' after the name of an attribute");
        reader->at++;
        skip_blanks (reader);
        char quote[2] = { reader->at < reader->end ? *reader->at : 0 };
        if (*quote != '"' && *quote != '\'')
            return refuse (reader, "expected the value of an attribute in quotes");
        reader->at++;
        if (!pass (reader, quote))
            return refuse (reader, "the value of an attribute has no end");
    }
}

static int
close_node (struct reader *reader)
{
    struct strbuf *text = &reader->texts[--reader->depth];
    char *copy = strbuf_take (text), *begin = copy;
    if (!copy)
        return fail_nomem (reader->fail);
    size_t length = strlen (copy);
    while (length && isspace ((unsigned char) copy[length - 1]))
        copy[--length] = '\0';
    while (isspace ((unsigned char) *begin))
        begin++;
    memmove (copy, begin, strlen (begin) + 1);
    reader->xml->nodes[reader->open[reader->depth]].text = copy;
    return 0;
}

static int
open_node (struct reader *reader)
{
    struct aws_xml *xml = reader->xml;
    bool is_empty;
    reader->at++;
    if (reader->depth == MOST_DEPTH || xml->count == MOST_NODES)
        return refuse (reader, reader->depth == MOST_DEPTH ? "too many nested elements" : "too many elements");
    if (!reader->depth && xml->count)
        return refuse (reader, "a second root element");
    struct node *node = array_room (&xml->nodes, xml->count, sizeof *node);
    if (!node)
        return fail_nomem (reader->fail);
    *node = (struct node) { .parent = reader->depth ? reader->open[reader->depth - 1] : xml->count };
    if (read_name (reader, node->name))
        return -1;
    reader->open[reader->depth++] = xml->count++;
    if (skip_attributes (reader, &is_empty))
        return -1;
    return is_empty ? close_node (reader) : 0;
}

static int
end_node (struct reader *reader)
{
    char name[NAME_BYTES];
    reader->at += 2;
    if (read_name (reader, name))
        return -1;
    skip_blanks (reader);
    if (!reader->depth || strcmp (name, reader->xml->nodes[reader->open[reader->depth - 1]].name) != 0
        || !begins (reader, ">"))
        return refuse (reader, "an end tag without its start tag");
    reader->at++;
    return close_node (reader);
}

/* "<?...?>", "<!--...-->", "<![CDATA[...]]>" */
static int
read_other (struct reader *reader)
{
    if (begins (reader, "<?"))
        return pass (reader, "?>") ? 0 : refuse (reader, "an instruction without an end");
    if (begins (reader, "<!--")) {
        reader->at += 4;
        return pass (reader, "-->") ? 0 : refuse (reader, "a comment without an end");
    }
    if (!begins (reader, "<![CDATA[") || !reader->depth)
        return refuse (reader, "document types are not supported");
    const char *begin = reader->at + 9;
    const char *end = pass (reader, "]]>");
    if (!end || end < begin)
        return refuse (reader, "a CDATA section without an end");
    strbuf_add_bytes (&reader->texts[reader->depth - 1], begin, (size_t) (end - begin));
    return 0;
}

static int
read_text (struct reader *reader)
{
    if (*reader->at == '&' && reader->depth)
        return read_reference (reader, &reader->texts[reader->depth - 1]);
    const char *begin = reader->at;
    while (reader->at < reader->end && *reader->at != '<' && *reader->at != '&')
        if (!reader->depth && !isspace ((unsigned char) *reader->at))
            return refuse (reader, "text outside of the root element");
        else
            reader->at++;
    if (begin == reader->at)
        return refuse (reader, "text outside of the root element");
    if (reader->depth)
        strbuf_add_bytes (&reader->texts[reader->depth - 1], begin, (size_t) (reader->at - begin));
    return 0;
}

static int
read_all (struct reader *reader)
{
    if (begins (reader, "\xef\xbb\xbf"))
        reader->at += 3;
    while (reader->at < reader->end) {
        bool is_tag = *reader->at == '<';
        char next = reader->end - reader->at > 1 ? reader->at[1] : '\0';
        if (!is_tag ? read_text (reader)
                    : next == '/'                 ? end_node (reader)
                      : next == '!' || next == '?' ? read_other (reader)
                                                   : open_node (reader))
            return -1;
    }
    if (reader->depth || !reader->xml->count)
        return refuse (reader, reader->depth ? "the end is missing" : "there is no element");
    return 0;
}

struct aws_xml *
xml_parse (const char *text, size_t length, struct fail *fail)
{
    struct reader reader = { .start = text, .at = text, .end = text + length, .fail = fail };
    reader.xml = calloc (1, sizeof *reader.xml);
    if (!reader.xml) {
        fail_nomem (fail);
        return NULL;
    }
    int result;
    if (length && memchr (text, '\0', length))
        result = refuse (&reader, "there is a zero byte");
    else
        result = read_all (&reader);
    for (size_t i = 0; i < MOST_DEPTH; i++)
        strbuf_release (&reader.texts[i]);
    if (!result)
        return reader.xml;
    aws_xml_free (reader.xml);
    return NULL;
}

const char *
xml_root (const struct aws_xml *xml)
{
    return xml->nodes->name;
}

const char *
aws_xml_get (const struct aws_xml *xml, const char *path)
{
    size_t parent = 0;
    while (*path) {
        size_t length = strcspn (path, "/"), i = parent + 1;
        while (i < xml->count
               && (xml->nodes[i].parent != parent || strlen (xml->nodes[i].name) != length
                   || memcmp (xml->nodes[i].name, path, length) != 0))
            i++;
        if (i >= xml->count)
            return NULL;
        parent = i;
        path += length + (path[length] == '/');
    }
    return xml->nodes[parent].text;
}

void
aws_xml_free (struct aws_xml *xml)
{
    if (!xml)
        return;
    for (size_t i = 0; i < xml->count; i++)
        keys_wipe (xml->nodes[i].text); /* STS answers with keys */
    free (xml->nodes);
    free (xml);
}
