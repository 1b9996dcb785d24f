/* SPDX-License-Identifier: Apache-2.0 */
/* The option table as help and as man page; see emit.h.  (Completion and JSON: emit_bash.c, emit_json.c.) */
#include <config.h>

#include "config/emit.h"

#include "config/envmap.h"

#include <inttypes.h>
#include <string.h>

enum { HELP_COLUMN = 36 };

static bool
is_shown (const struct option *row, enum option_command command)
{
    return (row->commands & command) && !(row->properties & (PROPERTY_NO_FLAG | PROPERTY_HIDDEN));
}

/* To column HELP_COLUMN, on a new line where the text is already beyond. */
static void
indent (struct strbuf *out, size_t line_start)
{
    if (out->length - line_start > HELP_COLUMN - 2) {
        strbuf_add_char (out, '\n');
        line_start = out->length;
    }
    strbuf_printf (out, "%*s", (int) (HELP_COLUMN - (out->length - line_start)), "");
}

static void
add_help_row (const struct option *row, struct strbuf *out)
{
    size_t start = out->length;
    if (row->letter)
        strbuf_printf (out, "  -%c, --%s", row->letter, row->key);
    else
        strbuf_printf (out, "      --%s", row->key);
    if (option_types[row->type].takes_value)
        strbuf_printf (out, " %s", row->metavar);
    indent (out, start);
    strbuf_add (out, row->help);
    if (row->dflt && option_types[row->type].takes_value) {
        if (out->length - start + strlen (row->dflt) > 96) {
            strbuf_add_char (out, '\n');
            strbuf_printf (out, "%*s", HELP_COLUMN - 1, "");
        }
        strbuf_printf (out, " [%s]", row->dflt);
    }
    strbuf_add_char (out, '\n');
    for (size_t i = 0; row->choices && row->choices[i];) { /* folded below column 100 */
        size_t line = out->length;
        strbuf_printf (out, "%*s", HELP_COLUMN, "");
        for (; row->choices[i] && out->length - line + strlen (row->choices[i]) < 98; i++)
            strbuf_printf (out, "%s%s", row->choices[i], row->choices[i + 1] ? ", " : "");
        if (row->choices[i])
            out->length--; /* the blank at the end of the line */
        strbuf_add_char (out, '\n');
    }
}

void
emit_command_help (const struct command_info *info, struct strbuf *out)
{
    strbuf_printf (out, "usage: accelerate %s [options]%s%s\n\n%s.\n", info->name, info->arguments ? " " : "",
                   info->arguments ? info->arguments : "", info->summary);
    if (info->text)
        strbuf_printf (out, "%s\n", info->text);
    for (int group = 0; group < GROUP_COUNT; group++) {
        bool has_title = false;
        for (size_t i = 0; i < option_count; i++) {
            if (!is_shown (&options[i], info->options) || (int) options[i].group != group)
                continue;
            if (!has_title)
                strbuf_printf (out, "\n%s:\n", option_group_titles[group]);
            has_title = true;
            add_help_row (&options[i], out);
        }
    }
    strbuf_printf (out, "\n  -h, --help%*sthis text\n", HELP_COLUMN - 12, "");
    strbuf_add (out, "\nA flag may be spelled with '-' for each '_'.  Words in brackets are defaults.\n");
}

/* mdoc text: a sentence begins a line, lines stay short, '-' is itself, and nothing is taken for a macro. */
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

/* The sentences that follow from the row: words, range, default, file, variable. */
static void
add_man_facts (const struct option *row, struct strbuf *out)
{
    if (row->choices) {
        AUTO_STRBUF struct strbuf words = { 0 };
        for (size_t i = 0; row->choices[i]; i++)
            strbuf_printf (&words, "%s%s", i ? ", " : row->choices[1] ? "One of " : "Only ", row->choices[i]);
        strbuf_add_char (&words, '.');
        add_man_text (words.text ? words.text : "", out);
    }
    if (row->type == OPTION_INT)
        strbuf_printf (out, "From %" PRId64 " to %" PRId64 ".\n", row->min, row->max);
    if (row->dflt && option_types[row->type].takes_value)
        strbuf_printf (out, "Default:\n.Ql %s .\n", row->dflt);
    if (row->section)
        strbuf_printf (out, "In the file: in section\n.Ql %s .\n", row->section);
    if (row->env)
        strbuf_printf (out, "Sets\n.Ev %s .\n", row->env);
}

void
emit_man_options (enum option_command command, struct strbuf *out)
{
    for (int group = 0; group < GROUP_COUNT; group++) {
        bool has_title = false;
        for (size_t i = 0; i < option_count; i++) {
            const struct option *row = &options[i];
            if (!is_shown (row, command) || (int) row->group != group)
                continue;
            if (!has_title)
                strbuf_printf (out, ".Ss %s\n.Bl -tag -width Ds\n", option_group_titles[group]);
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

void
emit_man_keys (struct strbuf *out)
{
    strbuf_add (out, ".Bl -tag -width Ds\n");
    for (size_t i = 0; i < option_count; i++) {
        const struct option *row = &options[i];
        if (!(row->properties & PROPERTY_FILE) || (row->properties & PROPERTY_HIDDEN))
            continue;
        strbuf_printf (out, ".It Ic %s Pq %s\n", row->key, option_types[row->type].name);
        if (row->properties & PROPERTY_NO_FLAG) {
            add_man_text (row->doc, out);
            add_man_facts (row, out);
            continue;
        }
        strbuf_printf (out, "As the flag\n.Fl \\-%s .\n", row->key);
        if (row->section)
            strbuf_printf (out, "In section\n.Ql %s .\n", row->section);
    }
    strbuf_add (out, ".El\n");
}

void
emit_man_environment (struct strbuf *out)
{
    strbuf_add (out, ".Bl -tag -width Ds\n");
    for (size_t i = 0; i < option_count; i++) {
        const struct option *row = &options[i];
        if (row->env && !(row->properties & PROPERTY_HIDDEN))
            strbuf_printf (out, ".It Ev %s\n%s\n.Ic %s .\n", row->env,
                           row->when ? "Where it is chosen: the value of" : "The value of", row->key);
    }
    for (size_t i = 0; i < envrule_count; i++) {
        strbuf_printf (out, ".It Ev %s\n", envrules[i].name);
        add_man_text (envrules[i].doc, out);
        strbuf_printf (out, "Value:\n.Ql %s .\n", envrules[i].value);
    }
    strbuf_add (out, ".El\n");
}
