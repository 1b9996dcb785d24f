/* SPDX-License-Identifier: Apache-2.0 */
/* YAML files, read with libyaml's events so that each value knows its line, and the quoting of what we write.
 *
 * A configuration is a mapping of scalars, lists and mappings of the same; nothing deeper.  So nothing here recurses,
 * and aliases, with which a small file can stand for a huge tree, are refused. */
#include <config.h>

#include "config/file.h"

#include "util/cleanup.h"

#include <regex.h>
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

static bool
is_null (const char *text)
{
    return !*text || !strcmp (text, "~") || !strcmp (text, "null") || !strcmp (text, "Null") || !strcmp (text, "NULL");
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
    enum entry_kind kind = text_only ? ENTRY_TEXT : is_null (text) ? ENTRY_NULL : ENTRY_PLAIN;
    return filedoc_add (reader->doc, section, key, text, kind, line) ? 0 : fail_nomem (reader->fail);
}

/* Pass over the list or mapping that has just begun, however it goes on.  @return whether it was empty, or -1 */
static int
skip_collection (struct reader *reader)
{
    int events = 0;
    for (int depth = 1; depth > 0; events++) {
        if (advance (reader))
            return -1;
        yaml_event_type_t type = reader->event.type;
        depth += type == YAML_SEQUENCE_START_EVENT || type == YAML_MAPPING_START_EVENT;
        depth -= type == YAML_SEQUENCE_END_EVENT || type == YAML_MAPPING_END_EVENT;
        if (depth > DEEPEST)
            return fail_here (reader, "nested too deep");
    }
    return events == 1;
}

static int
add_collection (struct reader *reader, const char *section, const char *key, enum entry_kind kind, int line)
{
    int is_empty = skip_collection (reader);
    if (is_empty < 0)
        return -1;
    struct entry *entry = filedoc_add (reader->doc, section, key, NULL, kind, line);
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
        return add_collection (reader, *section, key, ENTRY_LIST, line);
    if (*section)
        return add_collection (reader, *section, key, ENTRY_MAP, line);
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

/* PyYAML's resolvers for bare words, as extended regular expressions. */
static const char special_words[] =
    "^(~|null|Null|NULL|=|<<|yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF"
    "|[-+]?0b[01_]+|[-+]?0[0-7_]+|[-+]?(0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+|[-+]?[1-9][0-9_]*(:[0-5]?[0-9])+"
    "|[-+]?[0-9][0-9_]*[.][0-9_]*([eE][-+][0-9]+)?|[.][0-9][0-9_]*([eE][-+][0-9]+)?"
    "|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+[.][0-9_]*|[-+]?[.](inf|Inf|INF)|[.](nan|NaN|NAN)"
    "|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?)?$";

bool
yaml_is_special (const char *text)
{
    regex_t regex;
    if (regcomp (&regex, special_words, REG_EXTENDED | REG_NOSUB))
        return true; /* without memory: quotes are always right */
    bool matches = !regexec (&regex, text, 0, NULL, 0);
    regfree (&regex);
    return matches;
}

static bool
is_printable (const char *text)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            return false;
    return true;
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
        strbuf_add_char (out, '"');
        for (; *text; text++)
            if (*text == '"' || *text == '\\')
                strbuf_printf (out, "\\%c", *text);
            else if ((unsigned char) *text < ' ' || *text == 127)
                strbuf_printf (out, "\\x%02X", (unsigned char) *text);
            else
                strbuf_add_char (out, *text);
        strbuf_add_char (out, '"');
    } else if (!is_plain_safe (text) || yaml_is_special (text)) {
        strbuf_add_char (out, '\'');
        for (; *text; text++)
            strbuf_add (out, *text == '\'' ? "''" : (char[]){ *text, '\0' });
        strbuf_add_char (out, '\'');
    } else
        strbuf_add (out, text);
}
