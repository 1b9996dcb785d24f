/* SPDX-License-Identifier: Apache-2.0 */
/* The option table as blocks of manual pages; see emit.h. */
#include <config.h>

#include "config/emit/emit.h"

#include "config/envmap.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

/* mdoc text: a sentence begins a line, lines stay short, '-' is itself, and nothing looks like a macro. */
static void
add_man_text (const char *text, struct strbuf *out)
{
    size_t line = out->length;
    for (bool is_first = true; *text;) {
        size_t length = strcspn (text, " ");
        bool ends_sentence = length && text[length - 1] == '.';
        if (!is_first && out->length - line + 1 + length > 78)
            is_first = true;
        if (out->length > line)
            strbuf_add_char (out, is_first ? '\n' : ' ');
        if (is_first)
            line = out->length;
        if (is_first && (*text == '.' || *text == '\''))
            strbuf_add (out, "\\&");
        for (size_t i = 0; i < length; i++)
            if (text[i] == '-' || text[i] == '\\')
                strbuf_printf (out, "\\%c", text[i] == '-' ? '-' : 'e');
            else
                strbuf_add_char (out, text[i]);
        is_first = ends_sentence;
        text += length;
        text += strspn (text, " ");
    }
    strbuf_add_char (out, '\n');
}

/* Which values there are. */
static void
add_man_words (const struct option *row, struct strbuf *out)
{
    const char *const *list = row->choices ? row->choices : row->words;
    if (list) {
        AUTO_STRBUF struct strbuf words = { 0 };
        strbuf_add (&words, !row->choices ? "Usual values: " : list[1] ? "One of " : "Only ");
        for (size_t i = 0; list[i]; i++)
            strbuf_printf (&words, "%s%s", i ? ", " : "", list[i]);
        strbuf_add_char (&words, '.');
        add_man_text (words.text ? words.text : "", out);
    }
    if (row->type == OPTION_INT)
        strbuf_printf (out, "From %" PRId64 " to %" PRId64 ".\n", row->min, row->max);
}

/* One variable, or several with commas: with a space after each comma, where the page can break the line. */
static void
add_man_variables (const char *before, const char *names, const char *after, struct strbuf *out)
{
    strbuf_printf (out, "%s ", before);
    for (; *names; names++)
        if (*names == ',')
            strbuf_add (out, " , ");
        else
            strbuf_add_char (out, *names);
    strbuf_printf (out, "%s\n", after);
}

/* The sentences that follow from the row: words, range, default, file, variable. */
static void
add_man_facts (const struct option *row, struct strbuf *out)
{
    add_man_words (row, out);
    if (row->dflt && option_types[row->type].takes_value)
        strbuf_printf (out, "Default:\n.Ql %s .\n", row->dflt);
    if (row->section)
        strbuf_printf (out, "In the file: in section\n.Ql %s .\n", row->section);
    if (row->env)
        add_man_variables ("Sets\n.Ev", row->env, " .", out);
}

void
emit_man_options (enum option_command command, struct strbuf *out)
{
    for (int group = 0; group < GROUP_COUNT; group++) {
        bool has_title = false;
        for (size_t i = 0; i < option_count; i++) {
            const struct option *row = &options[i];
            if (!emit_has_row (row, command) || (int) row->group != group)
                continue;
            if (!has_title)
                strbuf_printf (out, ".Ss %s\n.Bl -tag -width Ds\n", option_groups[group].title);
            has_title = true;
            strbuf_add (out, ".It ");
            if (row->letter)
                strbuf_printf (out, "Fl %c , ", row->letter);
            strbuf_printf (out, "Fl \\-%s", row->key);
            if (option_types[row->type].takes_value)
                strbuf_printf (out, " Ar %s", row->metavar);
            strbuf_add_char (out, '\n');
            add_man_text (row->doc, out);
            add_man_facts (row, out);
        }
        if (has_title)
            strbuf_add (out, ".El\n");
    }
}

static void
add_man_key (const struct option *row, struct strbuf *out)
{
    AUTO_STRBUF struct strbuf head = { 0 };
    strbuf_printf (&head, ".It Ic %s Pq %s", row->key,
                   row->type == OPTION_FLAG ? option_types[OPTION_TRUTH].name : option_types[row->type].name);
    for (const char *at = head.text; at && *at; at++)
        strbuf_printf (out, *at == '-' ? "\\%c" : "%c", *at);
    strbuf_add_char (out, '\n');
    add_man_text (row->doc, out);
    add_man_words (row, out);
    if (row->dflt)
        strbuf_printf (out, "Default:\n.Ql %s .\n", row->dflt);
    else
        strbuf_add (out, "No default.\n");
    if (row->section)
        strbuf_printf (out, "Section:\n.Ic %s .\n", row->section);
    if (!(row->properties & PROPERTY_NO_FLAG))
        strbuf_printf (out, "Flag:\n.Fl \\-%s .\n", row->key);
    if (row->env)
        add_man_variables ("Sets\n.Ev", row->env, " .", out);
    if (row->properties & PROPERTY_EXTENSION)
        strbuf_add (out, "Hugging Face Accelerate does not know this key.\n");
}

void
emit_man_keys (struct strbuf *out)
{
    for (int group = 0; group < GROUP_COUNT; group++) {
        bool has_title = false;
        for (size_t i = 0; i < option_count; i++) {
            const struct option *row = &options[i];
            if (!(row->properties & PROPERTY_FILE) || (row->properties & PROPERTY_HIDDEN) || (int) row->group != group)
                continue;
            if (!has_title)
                strbuf_printf (out, ".Ss %s\n", option_groups[group].title);
            if (!has_title && option_groups[group].mode)
                strbuf_printf (out, "These keys take effect if their mode is selected:\n.Ql %s .\n",
                               option_groups[group].mode);
            if (!has_title)
                strbuf_add (out, ".Bl -tag -width Ds\n");
            has_title = true;
            add_man_key (row, out);
        }
        if (has_title)
            strbuf_add (out, ".El\n");
    }
}

void
emit_man_environment (struct strbuf *out)
{
    strbuf_add (out, ".Bl -tag -width Ds\n");
    for (size_t i = 0; i < option_count; i++) {
        const struct option *row = &options[i];
        if (row->env && !(row->properties & PROPERTY_HIDDEN)) {
            add_man_variables (".It Ev", row->env, "", out);
            strbuf_printf (out, "%s\n.Ic %s .\n",
                           row->when ? "If its mode is selected: the value of" : "The value of", row->key);
        }
    }
    for (size_t i = 0; i < envrule_count; i++) {
        strbuf_printf (out, ".It Ev %s\n", envrules[i].name);
        add_man_text (envrules[i].doc, out);
        strbuf_printf (out, "Value:\n.Ql %s .\n", envrules[i].value);
    }
    strbuf_add (out, ".El\n");
}

void
emit_man_commands (const struct command_info *const *commands, size_t count, struct strbuf *out)
{
    for (size_t i = 0; i < count; i++) {
        AUTO_STRBUF struct strbuf text = { 0 };
        const char *summary = commands[i]->summary;
        strbuf_printf (&text, "%c%s; see", toupper ((unsigned char) *summary), summary + 1);
        strbuf_add (out, ".It Ic ");
        add_man_text (commands[i]->name, out);
        if (text.text)
            add_man_text (text.text, out);
        strbuf_printf (out, ".Xr accelerate-%s 1 .\n", commands[i]->name);
    }
}

void
emit_man_command_pages (const struct command_info *const *commands, size_t count, struct strbuf *out)
{
    for (size_t i = 0; i < count; i++)
        strbuf_printf (out, ".Xr accelerate-%s 1 ,\n", commands[i]->name);
}
