/* SPDX-License-Identifier: Apache-2.0 */
/* YAML files, read with libyaml's events so that each value knows its line, and the quoting of what we write.
 *
 * A configuration is a mapping of scalars, lists and mappings of the same; nothing deeper.  So nothing here recurses,
 * and aliases, with which a small file can stand for a huge tree, are refused. */
#include <config.h>

#include "config/file.h"

#include "config/scalar.h"
#include "util/cleanup.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { DEEPEST = 32 };

struct reader {
    struct filedoc *doc;
    yaml_parser_t parser;
    yaml_event_t event; /* the latest one */
    int line;           /* of it, from 1 */
    struct fail *fail;
};

static int
fail_here (struct reader *reader, const char *text)
{
    return fail_set (reader->fail, FAIL_GENERAL, "%s:%d: %s", reader->doc->path, reader->line, text);
}

static int
fail_syntax (struct reader *reader)
{
    const yaml_parser_t *parser = &reader->parser;
    if (parser->error == YAML_MEMORY_ERROR)
        return fail_nomem (reader->fail);
    /* libyaml calls "context" where the unfinished thing began, and "problem" where it saw that. */
    int line = (int) parser->problem_mark.line + 1;
    return fail_set (reader->fail, FAIL_GENERAL, "%s:%d: not YAML: %s%s%s", reader->doc->path, line,
                     parser->problem ? parser->problem : "unreadable", parser->context ? ", " : "",
                     parser->context ? parser->context : "");
}

/* To the next event; aliases and foreign tags end here, wherever they stand. */
static int
advance (struct reader *reader)
{
    yaml_event_delete (&reader->event);
    if (!yaml_parser_parse (&reader->parser, &reader->event))
        return fail_syntax (reader);
    reader->line = (int) reader->event.start_mark.line + 1;
    if (reader->event.type == YAML_ALIAS_EVENT)
        return fail_here (reader, "aliases (*name) are not used in configuration files, write the value out");
    return 0;
}

/* @return whether the scalar's own tag, or its quotes, make it a text; -1 for a tag that is not plain data's */
static int
is_text (struct reader *reader)
{
    static const char core[] = "tag:yaml.org,2002:";
    static const char *const kinds[] = { "str", "bool", "int", "float", "null" };
    const char *tag = (const char *) reader->event.data.scalar.tag;
    if (!tag || !strcmp (tag, "!"))
        return reader->event.data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    for (size_t i = 0; !strncmp (tag, core, sizeof core - 1) && i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp (tag + sizeof core - 1, kinds[i]))
            return i == 0;
    return fail_here (reader, "tags (!name) are not used in configuration files");
}

static int
add_scalar (struct reader *reader, const char *section, const char *key, int line)
{
    const char *text = (const char *) reader->event.data.scalar.value;
    int text_only = is_text (reader);
    if (text_only < 0)
        return -1;
    if (strlen (text) != reader->event.data.scalar.length)
        return fail_here (reader, "the value holds a zero byte");
    AUTO_STRBUF struct strbuf python = { 0 };
    enum scalar_kind meaning = text_only ? SCALAR_TEXT : scalar_read (text, &python);
    enum entry_kind kind = text_only ? ENTRY_TEXT : meaning == SCALAR_NULL ? ENTRY_NULL : ENTRY_PLAIN;
    struct entry *entry = filedoc_add (reader->doc, section, key, python.text ? python.text : text, kind, line);
    if (!entry || python.failed)
        return fail_nomem (reader->fail);
    entry->is_truth = meaning == SCALAR_BOOL;
    return 0;
}

/* To the next event of a list or mapping, counting how deep inside it that is. */
static int
advance_inside (struct reader *reader, int *depth)
{
    if (advance (reader))
        return -1;
    yaml_event_type_t type = reader->event.type;
    *depth += type == YAML_SEQUENCE_START_EVENT || type == YAML_MAPPING_START_EVENT;
    *depth -= type == YAML_SEQUENCE_END_EVENT || type == YAML_MAPPING_END_EVENT;
    return *depth > DEEPEST ? fail_here (reader, "nested too deep") : 0;
}

/* The items of the list that has just begun. */
static int
add_items (struct reader *reader, struct strlist *items, bool *is_nested)
{
    for (int depth = 1; depth > 0;) {
        if (advance_inside (reader, &depth))
            return -1;
        *is_nested = *is_nested || depth > 1;
        if (reader->event.type != YAML_SCALAR_EVENT || depth > 1)
            continue;
        const char *text = (const char *) reader->event.data.scalar.value;
        AUTO_STRBUF struct strbuf python = { 0 };
        int text_only = is_text (reader);
        if (text_only < 0)
            return -1;
        if (strlen (text) != reader->event.data.scalar.length)
            return fail_here (reader, "the value holds a zero byte");
        if (!text_only)
            scalar_read (text, &python);
        strlist_add (items, python.text ? python.text : text);
    }
    return items->failed ? fail_nomem (reader->fail) : 0;
}

static int
add_list (struct reader *reader, const char *section, const char *key, int line)
{
    AUTO_STRLIST struct strlist items = { 0 };
    bool is_nested = false;
    if (add_items (reader, &items, &is_nested))
        return -1;
    struct entry *entry = filedoc_add (reader->doc, section, key, NULL, ENTRY_LIST, line);
    if (!entry)
        return fail_nomem (reader->fail);
    entry->is_empty = !items.count && !is_nested;
    entry->is_nested = is_nested;
    entry->items = items;
    items = (struct strlist){ 0 };
    return 0;
}

/* Pass over the mapping that has just begun, however it goes on.  @return whether it was empty, or -1 */
static int
skip_collection (struct reader *reader)
{
    int events = 0;
    for (int depth = 1; depth > 0; events++) {
        if (advance_inside (reader, &depth))
            return -1;
    }
    return events == 1;
}

static int
add_mapping (struct reader *reader, const char *section, const char *key, int line)
{
    int is_empty = skip_collection (reader);
    if (is_empty < 0)
        return -1;
    struct entry *entry = filedoc_add (reader->doc, section, key, NULL, ENTRY_MAP, line);
    if (!entry)
        return fail_nomem (reader->fail);
    entry->is_empty = is_empty;
    return 0;
}

/* The event is a key; read it and its value.  @return 1 where a section has begun, whose name is then in *section */
static int
read_pair (struct reader *reader, char **section)
{
    if (reader->event.type != YAML_SCALAR_EVENT)
        return fail_here (reader, "a key must be a word");
    AUTO_FREE char *key = strdup ((const char *) reader->event.data.scalar.value);
    int line = reader->line;
    if (!key)
        return fail_nomem (reader->fail);
    if (advance (reader))
        return -1;
    if (reader->event.type == YAML_SCALAR_EVENT)
        return add_scalar (reader, *section, key, line);
    if (reader->event.type == YAML_SEQUENCE_START_EVENT)
        return add_list (reader, *section, key, line);
    if (*section)
        return add_mapping (reader, *section, key, line);
    /* The section itself is an entry too: it may be empty, and it may be one that we do not have. */
    struct entry *entry = filedoc_add (reader->doc, NULL, key, NULL, ENTRY_MAP, line);
    if (!entry)
        return fail_nomem (reader->fail);
    *section = key;
    key = NULL;
    return 1;
}

/* The document's mapping has begun.  Two levels, so one variable is the stack. */
static int
read_mapping (struct reader *reader)
{
    AUTO_FREE char *section = NULL;
    size_t section_entry = 0;
    for (;;) {
        if (advance (reader))
            return -1;
        if (reader->event.type == YAML_MAPPING_END_EVENT) {
            if (!section)
                return 0;
            reader->doc->entries[section_entry].is_empty = reader->doc->count == section_entry + 1;
            free (section);
            section = NULL;
            continue;
        }
        int began = read_pair (reader, &section);
        if (began < 0)
            return -1;
        if (began)
            section_entry = reader->doc->count - 1;
    }
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
        return fail_here (reader, "a configuration is made of lines 'key: value'");
    if (read_mapping (reader) || advance (reader) || advance (reader))
        return -1;
    if (reader->event.type != YAML_STREAM_END_EVENT)
        return fail_here (reader, "a second document begins, a configuration is one");
    return 0;
}

int
yaml_read (struct filedoc *doc, const char *text, size_t length, struct fail *fail)
{
    struct reader reader = { .doc = doc, .fail = fail };
    if (!yaml_parser_initialize (&reader.parser))
        return fail_nomem (fail);
    yaml_parser_set_input_string (&reader.parser, (const unsigned char *) text, length);
    int result = read_stream (&reader);
    yaml_event_delete (&reader.event);
    yaml_parser_delete (&reader.parser);
    return result;
}

bool
yaml_is_special (const char *text)
{
    return scalar_read (text, NULL) != SCALAR_TEXT || !strcmp (text, "=") || !strcmp (text, "<<");
}

static bool
is_printable (const char *text)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            return false;
    return true;
}

/* The character that begins at *text, which goes on to the next; a byte that is no UTF-8 counts by itself. */
static uint32_t
next_character (const char **text)
{
    const unsigned char *at = (const unsigned char *) *text;
    int more = *at >= 0xf0 ? 3 : *at >= 0xe0 ? 2 : *at >= 0xc0 ? 1 : 0;
    uint32_t character = more ? *at & (0x3fu >> more) : *at;
    for (int i = 1; i <= more; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            more = 0;
            character = *at;
            break;
        }
        character = character << 6 | (at[i] & 0x3fu);
    }
    *text += more + 1;
    return character;
}

/* In double quotes, with PyYAML's escapes. */
static void
add_escaped (struct strbuf *out, const char *text)
{
    static const char special[] = "\a\b\t\n\v\f\r\033\"\\", letters[] = "abtnvfre\"\\";
    strbuf_add_char (out, '"');
    while (*text) {
        uint32_t character = next_character (&text);
        const char *found = character < 128 ? strchr (special, (int) character) : NULL;
        if (found)
            strbuf_printf (out, "\\%c", letters[found - special]);
        else if (character >= ' ' && character <= '~')
            strbuf_add_char (out, (char) character);
        else
            strbuf_printf (out, character > 0xffff ? "\\U%08X" : character > 0xff ? "\\u%04X" : "\\x%02X",
                           (unsigned) character);
    }
    strbuf_add_char (out, '"');
}

static bool
is_plain_safe (const char *text)
{
    size_t length = strlen (text);
    if (!length || strchr (" -?:,[]{}#&*!|>'\"%@`", text[0]))
        return length > 1 && strchr ("-?:", text[0]) && text[1] != ' ' && !strchr (text, ' ') && text[length - 1] != ':'
               && strncmp (text, "---", 3) && !strchr (",[]{}#", text[1]);
    return text[length - 1] != ' ' && text[length - 1] != ':' && !strstr (text, ": ") && !strstr (text, " #");
}

void
yaml_add_text (struct strbuf *out, const char *text)
{
    if (!is_printable (text)) {
        add_escaped (out, text);
    } else if (!is_plain_safe (text) || yaml_is_special (text)) {
        strbuf_add_char (out, '\'');
        for (; *text; text++)
            strbuf_add (out, *text == '\'' ? "''" : (char[]){ *text, '\0' });
        strbuf_add_char (out, '\'');
    } else
        strbuf_add (out, text);
}
