/* SPDX-License-Identifier: Apache-2.0 */
/* Values to text, as Python would write them; see tree.h.  libyaml's emitter is the twin of PyYAML's. */
#include <config.h>

#include "config/text/tree.h"

#include "config/text/scalar.h"
#include "util/cleanup.h"
#include "util/utf8.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { WIDTH = 80 }; /* PyYAML's */

static int
by_key (const void *a, const void *b)
{
    const struct node *one = a, *two = b;
    return strcmp (one->key, two->key);
}

void
node_sort (struct node *node)
{
    if (node->kind == NODE_MAP) {
        for (size_t i = node->count; i-- > 0;) /* before qsort(), which knows no first and last of equals */
            if (node_find (node, node->items[i].key) != &node->items[i])
                node_remove_at (node, i);
        if (node->count)
            qsort (node->items, node->count, sizeof *node, by_key);
    }
    for (size_t i = 0; i < node->count; i++)
        node_sort (&node->items[i]);
}

/* ---- YAML ---- */

struct writer {
    yaml_emitter_t emitter;
    bool is_folded; /* texts may take several lines */
};

static int
append (void *data, unsigned char *bytes, size_t length)
{
    strbuf_add_bytes (data, bytes, length);
    return 1;
}

/* The text of a value in YAML: true, 1.0e-05, .inf. */
static void
add_yaml_word (struct strbuf *out, enum node_kind kind, const char *text)
{
    bool is_negative = *text == '-';
    if (kind == NODE_NULL)
        strbuf_add (out, "null");
    else if (kind == NODE_BOOL)
        strbuf_add (out, *text == 'T' ? "true" : "false");
    else if (kind == NODE_FLOAT && strpbrk (text, "in")) /* inf, nan */
        strbuf_printf (out, "%s.%s", is_negative ? "-" : "", text + is_negative);
    else if (kind == NODE_FLOAT && strchr (text, 'e') && !strchr (text, '.')) /* 1e-05: a text to YAML 1.1 */
        strbuf_printf (out, "%.*s.0%s", (int) strcspn (text, "e"), text, strchr (text, 'e'));
    else
        strbuf_add (out, text);
}

/* Whether YAML 1.1 reads the bare word as something else than a text. */
static bool
is_special (const char *word)
{
    return scalar_read (word, NULL) != SCALAR_TEXT || !strcmp (word, "=") || !strcmp (word, "<<");
}

static int
emit_scalar (struct writer *writer, enum node_kind kind, const char *text)
{
    static const char *const tags[] = { "null", "bool", "int", "float", "timestamp", "str" };
    AUTO_STRBUF struct strbuf word = { 0 };
    yaml_event_t event;
    char tag[40];
    snprintf (tag, sizeof tag, "tag:yaml.org,2002:%s", tags[kind]);
    add_yaml_word (&word, kind, text ? text : "");
    bool plain = kind != NODE_TEXT || !is_special (text);
    const char *value = word.text ? word.text : "";
    bool is_escaped = !writer->is_folded && strchr (value, '\n');
    return !word.failed
           && yaml_scalar_event_initialize (&event, NULL, (const yaml_char_t *) tag, (const yaml_char_t *) value,
                                            (int) strlen (value), plain, kind == NODE_TEXT,
                                            is_escaped ? YAML_DOUBLE_QUOTED_SCALAR_STYLE : YAML_ANY_SCALAR_STYLE)
           && yaml_emitter_emit (&writer->emitter, &event);
}

static int
emit_node (struct writer *writer, const struct node *node)
{
    yaml_emitter_t *emitter = &writer->emitter;
    yaml_event_t event;
    bool is_map = node->kind == NODE_MAP;
    if (node_is_scalar (node))
        return emit_scalar (writer, node->kind, node->text);
    if (!(is_map ? yaml_mapping_start_event_initialize (&event, NULL, NULL, 1, YAML_BLOCK_MAPPING_STYLE)
                 : yaml_sequence_start_event_initialize (&event, NULL, NULL, 1, YAML_BLOCK_SEQUENCE_STYLE))
        || !yaml_emitter_emit (emitter, &event))
        return 0;
    for (size_t i = 0; i < node->count; i++)
        if ((is_map && !emit_scalar (writer, node->items[i].key_kind, node->items[i].key))
            || !emit_node (writer, &node->items[i]))
            return 0;
    return (is_map ? yaml_mapping_end_event_initialize (&event) : yaml_sequence_end_event_initialize (&event))
           && yaml_emitter_emit (emitter, &event);
}

/* @param is_folded  as PyYAML does it; else each text is on one line */
static int
write_yaml (const struct node *map, bool is_folded, struct strbuf *out)
{
    struct writer writer = { .is_folded = is_folded };
    yaml_emitter_t *emitter = &writer.emitter;
    yaml_event_t event;
    if (!yaml_emitter_initialize (emitter))
        return -1;
    yaml_emitter_set_output (emitter, append, out);
    yaml_emitter_set_width (emitter, is_folded ? WIDTH : -1);
    int good = yaml_stream_start_event_initialize (&event, YAML_UTF8_ENCODING) && yaml_emitter_emit (emitter, &event)
               && yaml_document_start_event_initialize (&event, NULL, NULL, NULL, 1)
               && yaml_emitter_emit (emitter, &event) && emit_node (&writer, map)
               && yaml_document_end_event_initialize (&event, 1) && yaml_emitter_emit (emitter, &event)
               && yaml_stream_end_event_initialize (&event) && yaml_emitter_emit (emitter, &event);
    yaml_emitter_delete (emitter);
    return good && !out->failed ? 0 : -1;
}

int
node_write_yaml (struct node *map, struct strbuf *out)
{
    node_sort (map);
    return write_yaml (map, true, out);
}

int
node_write_lines (const struct node *map, struct strbuf *out)
{
    return write_yaml (map, false, out);
}

/* ---- JSON ---- */

static const char *
json_word (enum node_kind kind, const char *text)
{
    if (kind == NODE_NULL)
        return "null";
    if (kind == NODE_BOOL)
        return *text == 'T' ? "true" : "false";
    if (kind == NODE_FLOAT && strpbrk (text, "in"))
        return *text == '-' ? "-Infinity" : *text == 'i' ? "Infinity" : "NaN";
    return text;
}

static void
add_json (struct strbuf *out, const struct node *node, int depth)
{
    bool is_map = node->kind == NODE_MAP;
    if (node->kind == NODE_TEXT || node->kind == NODE_DATE)
        quote_ascii (out, node->text);
    else if (node_is_scalar (node))
        strbuf_add (out, json_word (node->kind, node->text));
    else if (!node->count)
        strbuf_add (out, is_map ? "{}" : "[]");
    else {
        strbuf_add_char (out, is_map ? '{' : '[');
        for (size_t i = 0; i < node->count; i++) {
            strbuf_printf (out, "%s\n%*s", i ? "," : "", 2 * (depth + 1), "");
            if (is_map) {
                quote_ascii (out, json_word (node->items[i].key_kind, node->items[i].key));
                strbuf_add (out, ": ");
            }
            add_json (out, &node->items[i], depth + 1);
        }
        strbuf_printf (out, "\n%*s%c", 2 * depth, "", is_map ? '}' : ']');
    }
}

int
node_write_json (struct node *map, struct strbuf *out)
{
    node_sort (map);
    add_json (out, map, 0);
    strbuf_add_char (out, '\n');
    return out->failed ? -1 : 0;
}
