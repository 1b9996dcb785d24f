/* SPDX-License-Identifier: Apache-2.0 */
/* YAML files, read with libyaml's events so that each value knows its line.
 *
 * Aliases, with which a small file can mean a huge tree, are refused, and so are merges of mappings (<<). */
#include <config.h>

#include "config/text/tree.h"

#include "config/text/scalar.h"
#include "util/cleanup.h"
#include "util/parse.h"
#include "util/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

struct reader {
    struct filedoc *doc;
    const char *text; /* the whole file */
    size_t length;
    yaml_parser_t parser;
    yaml_event_t event; /* the latest one */
    int line;           /* of it, from 1 */
    size_t last_line;   /* of the file */
    struct node *open[NODE_DEEPEST + 1]; /* the collections that we are in, outermost first */
    int depth;
    struct fail *fail;
};

static int
fail_here (struct reader *reader, const char *text)
{
    return fail_set (reader->fail, FAIL_GENERAL, "%s:%d: %s", reader->doc->path, reader->line, text);
}

/* libyaml sees the end of the file on the line after the last one. */
static int
line_within (const struct reader *reader, size_t line)
{
    return (int) (line < reader->last_line ? line : reader->last_line);
}

static int
fail_syntax (struct reader *reader)
{
    const yaml_parser_t *parser = &reader->parser;
    if (parser->error == YAML_MEMORY_ERROR || parser->error == YAML_NO_ERROR)
        return fail_nomem (reader->fail);
    size_t line = parser->problem_mark.line + 1;
    if (parser->error == YAML_READER_ERROR) { /* bytes that are not text have only a byte offset */
        line = 1;
        for (size_t i = 0; i < parser->problem_offset && i < reader->length; i++)
            line += reader->text[i] == '\n';
    }
    /* libyaml calls "context" where the unfinished thing began, and "problem" where it saw that. */
    return fail_set (reader->fail, FAIL_GENERAL, "%s:%d: not YAML: %s%s%s", reader->doc->path,
                     line_within (reader, line), parser->problem ? parser->problem : "unreadable",
                     parser->context ? ", " : "", parser->context ? parser->context : "");
}

/* To the next event; aliases end here, wherever they are. */
static int
advance (struct reader *reader)
{
    yaml_event_delete (&reader->event);
    if (!yaml_parser_parse (&reader->parser, &reader->event))
        return fail_syntax (reader);
    reader->line = line_within (reader, reader->event.start_mark.line + 1);
    if (reader->event.type == YAML_ALIAS_EVENT)
        return fail_here (reader, "aliases (*name) are not supported; write the value out");
    return 0;
}

static const struct {
    const char *tag;
    enum scalar_kind kind;
} tags[] = {
    { "tag:yaml.org,2002:str", SCALAR_TEXT }, { "tag:yaml.org,2002:bool", SCALAR_BOOL },
    { "tag:yaml.org,2002:int", SCALAR_INT },  { "tag:yaml.org,2002:float", SCALAR_FLOAT },
    { "tag:yaml.org,2002:null", SCALAR_NULL },
};

/* The scalar's kind, and its value as Python writes it; tags of other things than plain data are refused. */
static int
read_scalar (struct reader *reader, enum scalar_kind *kind, struct strbuf *value)
{
    const char *tag = (const char *) reader->event.data.scalar.tag;
    const char *text = (const char *) reader->event.data.scalar.value;
    double number;
    bool is_tagged = tag && strcmp (tag, "!") != 0; /* a bare ! lets even a quoted 12 be a number, says PyYAML */
    if (strlen (text) != reader->event.data.scalar.length)
        return fail_here (reader, "the value contains a zero byte");
    *kind = SCALAR_TEXT;
    if (tag || reader->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
        *kind = scalar_read (text, value);
    for (size_t i = 0; is_tagged; i++) {
        if (i == sizeof tags / sizeof *tags)
            return fail_here (reader, "tags (!name) are not supported");
        if (strcmp (tag, tags[i].tag))
            continue;
        if (tags[i].kind == SCALAR_TEXT)
            strbuf_truncate (value, 0);
        else if (tags[i].kind == SCALAR_FLOAT && (*kind == SCALAR_INT || *kind == SCALAR_TEXT)
                 && parse_double (text, -HUGE_VAL, HUGE_VAL, &number) == PARSE_OK) {
            strbuf_truncate (value, 0);
            scalar_add_float (value, number);
        }
        else if (tags[i].kind != *kind)
            return fail_here (reader, "the value does not match its tag");
        *kind = tags[i].kind;
        is_tagged = false;
    }
    if (*kind == SCALAR_TEXT && !value->length)
        strbuf_add (value, text);
    return value->failed ? fail_nomem (reader->fail) : 0;
}

static enum node_kind
kind_of_node (enum scalar_kind kind)
{
    static const enum node_kind kinds[] = {
        [SCALAR_TEXT] = NODE_TEXT, [SCALAR_NULL] = NODE_NULL,   [SCALAR_BOOL] = NODE_BOOL,
        [SCALAR_INT] = NODE_INT,   [SCALAR_FLOAT] = NODE_FLOAT, [SCALAR_DATE] = NODE_DATE,
    };
    return kinds[kind];
}

/* The event is a key: append a node for it, and continue with its value. */
static int
add_key (struct reader *reader, struct node **node)
{
    enum scalar_kind kind;
    AUTO_STRBUF struct strbuf key = { 0 };
    if (reader->event.type != YAML_SCALAR_EVENT)
        return fail_here (reader, "a key must be a single word");
    if (read_scalar (reader, &kind, &key))
        return -1;
    const char *text = kind == SCALAR_NULL ? "null" : key.text ? key.text : "";
    if (kind == SCALAR_TEXT && !strcmp (text, "<<") && reader->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
        return fail_here (reader, "merge keys (<<) are not supported; write the values out");
    *node = node_add (reader->open[reader->depth], text);
    if (!*node)
        return fail_nomem (reader->fail);
    (*node)->key_kind = kind_of_node (kind);
    (*node)->line = reader->line;
    return advance (reader);
}

/* The event is a value, whose node is there. */
static int
add_value (struct reader *reader, struct node *node)
{
    AUTO_STRBUF struct strbuf value = { 0 };
    enum scalar_kind kind;
    if (reader->event.type == YAML_SCALAR_EVENT) {
        if (read_scalar (reader, &kind, &value))
            return -1;
        const char *text = kind == SCALAR_NULL ? NULL : value.text ? value.text : "";
        return node_set (node, kind_of_node (kind), text) ? fail_nomem (reader->fail) : 0;
    }
    if (reader->depth == NODE_DEEPEST)
        return fail_here (reader, "nested too deep");
    node->kind = reader->event.type == YAML_MAPPING_START_EVENT ? NODE_MAP : NODE_LIST;
    reader->open[++reader->depth] = node;
    return 0;
}

/* The document's mapping has begun; up to its end. */
static int
read_mapping (struct reader *reader)
{
    reader->doc->root.kind = NODE_MAP;
    reader->open[0] = &reader->doc->root;
    while (reader->depth >= 0) {
        struct node *parent = reader->open[reader->depth], *node = NULL;
        if (advance (reader))
            return -1;
        if (reader->event.type == YAML_MAPPING_END_EVENT || reader->event.type == YAML_SEQUENCE_END_EVENT) {
            reader->depth--;
            continue;
        }
        if (parent->kind == NODE_MAP && add_key (reader, &node))
            return -1;
        if (parent->kind == NODE_LIST) {
            node = node_add (parent, NULL);
            if (!node)
                return fail_nomem (reader->fail);
            node->line = reader->line;
        }
        if (add_value (reader, node))
            return -1;
    }
    return 0;
}

static int
read_stream (struct reader *reader)
{
    do
        if (advance (reader))
            return -1;
    while (reader->event.type == YAML_STREAM_START_EVENT || reader->event.type == YAML_DOCUMENT_START_EVENT);
    if (reader->event.type == YAML_STREAM_END_EVENT)
        return fail_set (reader->fail, FAIL_GENERAL, "%s: the file is empty", reader->doc->path);
    if (reader->event.type != YAML_MAPPING_START_EVENT)
        return fail_here (reader, "expected lines of the form 'key: value'");
    if (read_mapping (reader) || advance (reader) || advance (reader))
        return -1;
    if (reader->event.type != YAML_STREAM_END_EVENT)
        return fail_here (reader, "a second YAML document begins here; expected only one");
    return 0;
}

int
yaml_read (struct filedoc *doc, const char *text, size_t length, struct fail *fail)
{
    static const char mark[] = "\xef\xbb\xbf"; /* editors of Windows begin files with it */
    if (!strncmp (text, mark, strlen (mark)) && strncmp (text + strlen (mark), mark, strlen (mark))) {
        text += strlen (mark);
        length -= strlen (mark);
    }
    struct reader reader = { .doc = doc, .text = text, .length = length, .last_line = 1, .fail = fail };
    for (size_t i = 0; i + 1 < length; i++)
        reader.last_line += text[i] == '\n';
    if (!yaml_parser_initialize (&reader.parser))
        return fail_nomem (fail);
    yaml_parser_set_input_string (&reader.parser, (const unsigned char *) text, length);
    yaml_parser_set_encoding (&reader.parser, YAML_UTF8_ENCODING); /* whatever the first bytes look like */
    int result = read_stream (&reader);
    yaml_event_delete (&reader.event);
    yaml_parser_delete (&reader.parser);
    return result;
}
