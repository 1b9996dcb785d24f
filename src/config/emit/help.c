/* SPDX-License-Identifier: Apache-2.0 */
/* The option table as --help; see emit.h.  As in Accelerate, groups of a mode show only where that mode is chosen. */
#include <config.h>

#include "config/emit/emit.h"

#include "config/load.h"
#include "config/mode.h"
#include "config/table/opt_argv.h"
#include "util/cleanup.h"
#include "util/text.h"

#include <ctype.h>
#include <string.h>

enum { WIDEST = 100, NARROWEST = 40 };

/* What most people look for, in this order, before the groups. */
static const char *const common[] = {
    "num_processes", "num_machines", "mixed_precision", "gpu_ids", "cpu", "multi_gpu", "use_deepspeed", "use_fsdp",
    "distributed_type", "config_file", "dry_run", "json", "yes", NULL,
};

struct page {
    struct strbuf *out;
    enum option_command command;
    size_t width, column; /* of the whole line, and where texts begin */
    bool is_whole;        /* all words of each choice */
};

/* Folded at blanks; the line so far is from @p start, and the next ones begin at the column. */
static void
add_words (const struct page *page, size_t start, const char *text)
{
    struct strbuf *out = page->out;
    for (bool is_first = true; *text; is_first = false) {
        size_t length = strcspn (text, " ");
        if (!is_first && out->length - start + 1 + length > page->width) {
            strbuf_add_char (out, '\n');
            start = out->length;
            strbuf_printf (out, "%*s", (int) page->column, "");
        } else if (!is_first)
            strbuf_add_char (out, ' ');
        strbuf_add_bytes (out, text, length);
        text += length + (text[length] == ' ');
    }
    strbuf_add_char (out, '\n');
}

/* From the column on.  The text of a line that has passed the column begins on the next one. */
static void
add_folded (const struct page *page, size_t start, const char *text)
{
    struct strbuf *out = page->out;
    if (out->length - start + 2 > page->column && page->column) {
        strbuf_add_char (out, '\n');
        start = out->length;
    }
    strbuf_printf (out, "%*s", (int) (page->column > out->length - start ? page->column - (out->length - start) : 0),
                   "");
    add_words (page, start, text);
}

static void
add_usage (const struct page *page, const struct command_info *info)
{
    static const char first[] = "usage: ";
    const struct page part = { .out = page->out, .width = page->width, .column = sizeof first - 1 };
    size_t start = page->out->length;
    AUTO_STRBUF struct strbuf text = { 0 };
    strbuf_printf (&text, "accelerate %s [options]%s%s", info->name, info->arguments ? " " : "",
                   info->arguments ? info->arguments : "");
    page->out->failed = page->out->failed || text.failed;
    strbuf_add (page->out, first);
    add_words (&part, start, text.text ? text.text : "");
    strbuf_add_char (page->out, '\n');
}

/* ": no, fp16, bf16, fp8"; a long list is cut short. */
static void
add_choices (const struct page *page, const struct option *row, struct strbuf *text)
{
    enum { LONGEST = 60, MOST = 4 };
    size_t length = 0, count = 0;
    for (; row->choices[count]; count++)
        length += strlen (row->choices[count]) + 2;
    bool is_cut = !page->is_whole && length > LONGEST;
    strbuf_add (text, ":");
    for (size_t i = 0; i < (is_cut ? MOST : count); i++)
        strbuf_printf (text, "%s %s", i ? "," : "", row->choices[i]);
    if (is_cut)
        strbuf_printf (text, ", ... (%zu words, see --help-all)", count);
}

static void
add_help_row (const struct page *page, const struct option *row)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    size_t start = page->out->length;
    if (row->letter)
        strbuf_printf (page->out, "  -%c, --%s", row->letter, row->key);
    else
        strbuf_printf (page->out, "      --%s", row->key);
    if (option_types[row->type].takes_value && row->metavar)
        strbuf_printf (page->out, " %s", row->metavar);
    strbuf_add (&text, row->help);
    if (row->choices)
        add_choices (page, row, &text);
    if (row->dflt && option_types[row->type].takes_value)
        strbuf_printf (&text, " [%s]", row->dflt);
    page->out->failed = page->out->failed || text.failed;
    add_folded (page, start, text.text ? text.text : "");
}

/* All keys of the file are flags of config. */
static bool
has_row (const struct option *row, enum option_command command)
{
    return command == COMMAND_CONFIG ? emit_completes_row (row, command) : emit_has_row (row, command);
}

static bool
is_common (const struct option *row)
{
    return text_is_one_of (row->key, common);
}

static bool
has_rows (int group, enum option_command command)
{
    for (size_t i = 0; i < option_count; i++)
        if ((int) options[i].group == group && has_row (&options[i], command) && !is_common (&options[i]))
            return true;
    return false;
}

/* Only launch and config have modes. */
static bool
is_shown (const struct page *page, int group, unsigned groups)
{
    return !option_groups[group].matters || (groups & 1u << group)
           || !(page->command & (COMMAND_LAUNCH | COMMAND_CONFIG));
}

static void
add_hidden_groups (const struct page *page, unsigned groups)
{
    bool is_first = true;
    for (int group = 0; group < GROUP_COUNT; group++) {
        const struct option_group_info *info = &option_groups[group];
        if (is_shown (page, group, groups) || !has_rows (group, page->command))
            continue;
        if (is_first) {
            const struct page whole = { .out = page->out, .width = page->width };
            strbuf_add_char (page->out, '\n');
            add_folded (&whole, page->out->length, "More options: put one of these before --help, or use --help-all:");
        }
        is_first = false;
        size_t start = page->out->length;
        if (info->flag)
            strbuf_printf (page->out, "      %s", info->flag);
        else if (page->command == COMMAND_CONFIG)
            strbuf_printf (page->out, "      --%s %s", info->key, info->value);
        else
            strbuf_printf (page->out, "      --config_file FILE");
        AUTO_STRBUF struct strbuf text = { 0 };
        strbuf_printf (&text, info->flag || page->command == COMMAND_CONFIG ? "%s" : "%s, in a file with %s",
                       info->title, info->mode);
        page->out->failed = page->out->failed || text.failed;
        add_folded (page, start, text.text ? text.text : "");
    }
}

static void
add_common (const struct page *page)
{
    bool is_first = true;
    for (int i = 0; common[i]; i++) {
        const struct option *row = option_find (common[i]);
        if (!row || !has_row (row, page->command))
            continue;
        if (is_first)
            strbuf_add (page->out, "\nCommon options:\n");
        is_first = false;
        add_help_row (page, row);
    }
}

static void
add_paragraph (const struct page *page, const char *text)
{
    const struct page whole = { .out = page->out, .width = page->width };
    add_folded (&whole, page->out->length, text);
}

/* Each line is folded; one of the form "word  text", of a list, from the text on. */
static void
add_lines (const struct page *page, const char *text)
{
    while (*text) {
        size_t length = strcspn (text, "\n"), column = 0, start = page->out->length;
        AUTO_FREE char *line = strndup (text, length);
        char *gap = line ? strstr (line + strspn (line, " "), "  ") : NULL;
        if (!line) {
            page->out->failed = true;
            return;
        }
        if (gap) {
            strbuf_add_bytes (page->out, line, (size_t) (gap - line));
            gap += strspn (gap, " ");
            column = (size_t) (gap - line);
        }
        const struct page part = { .out = page->out, .width = page->width, .column = column };
        add_folded (&part, start, gap ? gap : line);
        text += length + (text[length] == '\n');
    }
}

static size_t
width_of (int columns)
{
    return columns < NARROWEST ? NARROWEST : columns > WIDEST ? WIDEST : (size_t) columns;
}

void
emit_folded (const char *text, int columns, struct strbuf *out)
{
    const struct page page = { .out = out, .width = width_of (columns) };
    add_lines (&page, text);
}

void
emit_command_help (const struct command_info *info, unsigned groups, int columns, struct strbuf *out)
{
    size_t width = width_of (columns);
    const struct page page = { out, info->options, width, width >= 80 ? 36 : width >= 60 ? 24 : 10, groups == ~0u };
    AUTO_STRBUF struct strbuf summary = { 0 };
    strbuf_printf (&summary, "%c%s.", toupper ((unsigned char) *info->summary), info->summary + 1);
    add_usage (&page, info);
    out->failed = out->failed || summary.failed;
    add_paragraph (&page, summary.text ? summary.text : "");
    if (info->text)
        add_lines (&page, info->text);
    add_common (&page);
    for (int group = 0; group < GROUP_COUNT; group++) {
        if (!is_shown (&page, group, groups) || !has_rows (group, info->options))
            continue;
        strbuf_printf (out, "\n%s:\n", option_groups[group].title);
        for (size_t i = 0; i < option_count; i++)
            if ((int) options[i].group == group && has_row (&options[i], info->options) && !is_common (&options[i]))
                add_help_row (&page, &options[i]);
    }
    strbuf_add (out, "\nHelp:\n");
    size_t start = out->length;
    strbuf_add (out, "  -h, --help");
    add_folded (&page, start, "print this help");
    start = out->length;
    strbuf_add (out, "      --help-all");
    add_folded (&page, start, "print the options of all modes");
    add_hidden_groups (&page, groups);
    strbuf_add_char (out, '\n');
    add_paragraph (&page, "Options may be spelled with '-' instead of '_'. Defaults are in brackets.");
}

unsigned
emit_chosen_groups (enum option_command command, int argc, char **argv)
{
    struct argv_scan scan = { .command = command, .argc = argc, .argv = argv };
    AUTO_CONFIG struct config config = { 0 };
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
    return groups;
}
