/* SPDX-License-Identifier: Apache-2.0 */
/* The option table as --help; see emit.h.  As in the original, groups of a mode show only where that mode is chosen. */
#include <config.h>

#include "config/emit.h"

#include "config/load.h"
#include "config/opt_argv.h"

#include <string.h>

enum { HELP_COLUMN = 36, LAST_COLUMN = 98 };

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
        if (out->length - start + strlen (row->dflt) > LAST_COLUMN - 2) {
            strbuf_add_char (out, '\n');
            strbuf_printf (out, "%*s", HELP_COLUMN - 1, "");
        }
        strbuf_printf (out, " [%s]", row->dflt);
    }
    strbuf_add_char (out, '\n');
    for (size_t i = 0; row->choices && row->choices[i];) { /* folded below column 100 */
        size_t line = out->length;
        strbuf_printf (out, "%*s", HELP_COLUMN, "");
        for (; row->choices[i] && out->length - line + strlen (row->choices[i]) < LAST_COLUMN; i++)
            strbuf_printf (out, "%s%s", row->choices[i], row->choices[i + 1] ? ", " : "");
        if (row->choices[i])
            out->length--; /* the blank at the end of the line */
        strbuf_add_char (out, '\n');
    }
}

static bool
has_rows (int group, enum option_command command)
{
    for (size_t i = 0; i < option_count; i++)
        if ((int) options[i].group == group && emit_has_row (&options[i], command))
            return true;
    return false;
}

static bool
is_shown (int group, unsigned groups)
{
    return !option_groups[group].matters || (groups & 1u << group);
}

static void
add_hidden_groups (enum option_command command, unsigned groups, struct strbuf *out)
{
    bool is_first = true;
    for (int group = 0; group < GROUP_COUNT; group++) {
        if (is_shown (group, groups) || !has_rows (group, command))
            continue;
        if (is_first)
            strbuf_add (out,
                        "\nNot shown, since the mode is not chosen (write its flag before --help, or --help-all):\n");
        is_first = false;
        size_t line = out->length;
        strbuf_printf (out, "      %s", option_groups[group].flag ? option_groups[group].flag : "");
        indent (out, line);
        strbuf_printf (out, "%s\n", option_groups[group].title);
    }
}

void
emit_command_help (const struct command_info *info, unsigned groups, struct strbuf *out)
{
    strbuf_printf (out, "usage: accelerate %s [options]%s%s\n\n%s.\n", info->name, info->arguments ? " " : "",
                   info->arguments ? info->arguments : "", info->summary);
    if (info->text)
        strbuf_printf (out, "%s\n", info->text);
    for (int group = 0; group < GROUP_COUNT; group++) {
        if (!is_shown (group, groups) || !has_rows (group, info->options))
            continue;
        strbuf_printf (out, "\n%s:\n", option_groups[group].title);
        for (size_t i = 0; i < option_count; i++)
            if ((int) options[i].group == group && emit_has_row (&options[i], info->options))
                add_help_row (&options[i], out);
    }
    strbuf_printf (out, "\n  -h, --help%*sthis text\n", HELP_COLUMN - 12, "");
    strbuf_printf (out, "      --help-all%*sthis text for all modes\n", HELP_COLUMN - 16, "");
    strbuf_add (out, "\nA flag may be spelled with '-' for each '_'.  Words in brackets are defaults.\n");
    add_hidden_groups (info->options, groups, out);
}

unsigned
emit_chosen_groups (enum option_command command, int argc, char **argv)
{
    struct argv_scan scan = { .command = command, .argc = argc, .argv = argv };
    struct config config;
    struct fail ignored = { 0 };
    unsigned groups = 0;
    int failed = config_init (&config, &ignored);
    while (!failed) {
        enum argv_item item = argv_next (&scan, &ignored);
        if (item == ARGV_END || item == ARGV_BAD || (item == ARGV_POSITIONAL && command == COMMAND_LAUNCH))
            break;
        if (item != ARGV_OPTION)
            continue;
        groups |= 1u << scan.row->group;
        config_set (&config, scan.row, scan.value, (struct origin){ ORIGIN_FLAG, 0, 0 }, &ignored);
    }
    if (!failed && config.settings.config_file)
        config_load_file (&config, &ignored);
    if (!failed)
        config_resolve (&config, &ignored);
    for (int group = 0; !failed && group < GROUP_COUNT; group++)
        if (option_groups[group].matters && option_groups[group].matters (&config.settings))
            groups |= 1u << group;
    config_release (&config);
    return groups;
}
