/* SPDX-License-Identifier: Apache-2.0 */
/* Tables; see table.h. */
#include <config.h>

#include "cli/table.h"

#include "util/printable.h"
#include "util/utf8.h"

void
table_add (struct table *table, const char *text)
{
    AUTO_STRBUF struct strbuf shown = { 0 };
    strbuf_add (&shown, "");
    printable_add (&shown, text);
    if (shown.failed)
        table->cells.failed = true;
    else
        strlist_add (&table->cells, shown.text ? shown.text : "");
}

void
table_add_number (struct table *table, uint64_t number)
{
    strlist_printf (&table->cells, "%llu", (unsigned long long) number);
}

/* Characters; wide ones count as one. */
static size_t
width_of (const char *text)
{
    size_t width = 0;
    for (; *text; width++)
        utf8_next (&text);
    return width;
}

static void
add_spaces (struct strbuf *out, size_t count)
{
    for (; count; count--)
        strbuf_add_char (out, ' ');
}

void
table_show (const struct table *table, bool is_terminal, struct strbuf *out)
{
    size_t widths[TABLE_MAX_COLUMNS] = { 0 }, columns = table->columns;
    for (size_t i = 0; i < table->cells.count; i++) {
        size_t width = width_of (table->cells.items[i]);
        if (width > widths[i % columns])
            widths[i % columns] = width;
    }
    out->failed = out->failed || table->cells.failed;
    for (size_t i = is_terminal ? 0 : columns; i < table->cells.count; i++) {
        size_t column = i % columns, padding = widths[column] - width_of (table->cells.items[i]);
        bool is_right = table->right >> column & 1, is_last = column + 1 == columns;
        if (is_terminal && is_right)
            add_spaces (out, padding);
        strbuf_add (out, table->cells.items[i]);
        if (is_terminal && !is_right && !is_last)
            add_spaces (out, padding);
        strbuf_add (out, is_last ? "\n" : is_terminal ? "  " : "\t");
    }
}
