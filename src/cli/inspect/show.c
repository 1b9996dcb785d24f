/* SPDX-License-Identifier: Apache-2.0 */
/* What `inspect` prints; see inspect.h. */
#include <config.h>

#include "cli/inspect/inspect.h"
#include "cli/table.h"
#include "util/printable.h"
#include "util/utf8.h"

#include <math.h>

/* ---- pieces of text ---- */

static void
add_count (struct strbuf *out, uint64_t count, const char *what)
{
    strbuf_printf (out, "%llu %s%s", (unsigned long long) count, what, count == 1 ? "" : "s");
}

static void
add_cell (struct table *table, struct strbuf *text)
{
    table_add (table, text->text ? text->text : "");
    table->cells.failed = table->cells.failed || text->failed;
    strbuf_truncate (text, 0);
}

static void
add_number_cell (struct table *table, double number, bool is_known)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    if (is_known)
        strbuf_printf (&text, "%.6g", number);
    else
        strbuf_add (&text, "-");
    add_cell (table, &text);
}

/* JSON has neither infinity nor NaN. */
static void
add_json_number (struct strbuf *out, const char *key, double number, bool is_known)
{
    if (is_known && isfinite (number))
        strbuf_printf (out, ", \"%s\": %.17g", key, number);
    else
        strbuf_printf (out, ", \"%s\": null", key);
}

static void
add_json_text (struct strbuf *out, const char *key, const char *text)
{
    strbuf_printf (out, "\"%s\": ", key);
    if (text)
        quote_ascii (out, text);
    else
        strbuf_add (out, "null");
}

/* ---- one checkpoint ---- */

/* Whether a column for the files says anything. */
static bool
has_several_files (const struct tensors *tensors)
{
    for (size_t i = 1; i < tensors->count; i++)
        if (tensors->items[i].weights && tensors->items[i].weights->file != tensors->items[0].weights->file)
            return true;
    return false;
}

static void
add_row (struct table *table, const struct tensors_item *item, const struct stats *stats, bool has_file)
{
    AUTO_STRBUF struct strbuf shape = { 0 };
    table_add (table, item->name);
    table_add (table, safetensors_dtype_name (item->dtype));
    tensors_add_shape (&shape, item);
    add_cell (table, &shape);
    table_add_number (table, item->bytes);
    if (stats) {
        add_number_cell (table, stats_norm (stats), stats->count);
        add_number_cell (table, stats->min, stats->count);
        add_number_cell (table, stats->max, stats->count);
        table_add_number (table, stats->not_finite);
    }
    if (has_file)
        table_add (table, item->file);
}

static void
add_sum (const struct tensors *tensors, const char *path, const struct findings *findings, struct strbuf *out)
{
    printable_add (out, path);
    strbuf_add (out, ": ");
    add_count (out, tensors->count, "tensor");
    strbuf_add (out, ", ");
    add_count (out, tensors->elements, "element");
    strbuf_add (out, ", ");
    bytes_add (out, tensors->bytes);
    if (tensors->dcp) {
        strbuf_add (out, ", in ");
        add_count (out, tensors->dcp->dcp.files.count, "file");
        if (tensors->dcp->dcp.objects.count) {
            strbuf_add (out, "; besides ");
            add_count (out, tensors->dcp->dcp.objects.count, "entry that is not a tensor");
        }
    }
    if (findings->checksums)
        strbuf_printf (out, "; checksums: %s", findings->checksums);
    strbuf_add (out, "\n");
}

void
inspect_show_table (const struct tensors *tensors, const char *path, const struct findings *findings,
                    bool is_terminal, struct strbuf *out)
{
    static const char *const headings[] = { "NAME", "TYPE", "SHAPE", "BYTES" };
    static const char *const more[] = { "NORM", "MIN", "MAX", "NOT FINITE" };
    bool has_file = has_several_files (tensors);
    struct table table = { .columns = 4 + (findings->stats ? 4 : 0) + has_file, .right = findings->stats ? 0xf8 : 8 };
    for (size_t i = 0; i < 4; i++)
        table_add (&table, headings[i]);
    for (size_t i = 0; i < 4 && findings->stats; i++)
        table_add (&table, more[i]);
    if (has_file)
        table_add (&table, "FILE");
    for (size_t i = 0; i < tensors->count; i++)
        add_row (&table, &tensors->items[i], findings->stats ? &findings->stats[i] : NULL, has_file);
    table_show (&table, is_terminal, out);
    if (is_terminal)
        add_sum (tensors, path, findings, out);
    strlist_release (&table.cells);
}

static void
add_json_tensor (const struct tensors_item *item, const struct stats *stats, struct strbuf *out)
{
    add_json_text (out, "name", item->name);
    strbuf_printf (out, ", \"dtype\": \"%s\", \"shape\": ", safetensors_dtype_name (item->dtype));
    tensors_add_shape (out, item);
    strbuf_printf (out, ", \"elements\": %llu, \"bytes\": %llu, ", (unsigned long long) item->elements,
                   (unsigned long long) item->bytes);
    add_json_text (out, "file", item->file);
    if (!stats)
        return;
    add_json_number (out, "norm", stats_norm (stats), stats->count);
    add_json_number (out, "min", stats->min, stats->count);
    add_json_number (out, "max", stats->max, stats->count);
    strbuf_printf (out, ", \"not_finite\": %llu", (unsigned long long) stats->not_finite);
}

void
inspect_show_json (const struct tensors *tensors, const char *path, const struct findings *findings,
                   struct strbuf *out)
{
    strbuf_add (out, "{");
    add_json_text (out, "path", path);
    strbuf_printf (out, ",\n \"format\": \"%s\"", tensors->dcp ? "torch.distributed.checkpoint" : "safetensors");
    strbuf_printf (out, ",\n \"elements\": %llu,\n \"bytes\": %llu,\n ", (unsigned long long) tensors->elements,
                   (unsigned long long) tensors->bytes);
    add_json_text (out, "checksums", findings->checksums);
    strbuf_add (out, ",\n ");
    add_json_text (out, "nonfinite", findings->nonfinite);
    strbuf_add (out, ",\n \"tensors\": [");
    for (size_t i = 0; i < tensors->count; i++) {
        strbuf_add (out, i ? ",\n  {" : "\n  {");
        add_json_tensor (&tensors->items[i], findings->stats ? &findings->stats[i] : NULL, out);
        strbuf_add (out, "}");
    }
    strbuf_add (out, "],\n \"other_entries\": [");
    for (size_t i = 0; tensors->dcp && i < tensors->dcp->dcp.objects.count; i++) {
        strbuf_add (out, i ? ", " : "");
        quote_ascii (out, tensors->dcp->dcp.objects.items[i]);
    }
    strbuf_add (out, "]}\n");
}

/* ---- two ---- */

static const char *const kinds[] = { [SAME] = "same", [ONLY_IN_FIRST] = "missing", [ONLY_IN_SECOND] = "extra",
                                     [OTHER_SHAPE] = "shape", [OTHER_DTYPE] = "type", [OTHER_ELEMENTS] = "elements" };

/* "F32 [2, 3]" */
static void
add_type (struct strbuf *out, const struct tensors_item *item)
{
    strbuf_printf (out, "%s ", safetensors_dtype_name (item->dtype));
    tensors_add_shape (out, item);
}

static void
add_diff_row (struct table *table, const struct diff_row *row)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    table_add (table, row->first ? row->first->name : row->second->name);
    table_add (table, kinds[row->kind]);
    for (int side = 0; side < 2; side++) {
        const struct tensors_item *item = side ? row->second : row->first;
        if (item)
            add_type (&text, item);
        else
            strbuf_add (&text, "-");
        add_cell (table, &text);
    }
    if (row->is_compared)
        table_add_number (table, row->unequal);
    else
        table_add (table, "-");
    add_number_cell (table, row->max_abs, row->is_compared);
}

void
inspect_show_diff (const struct diff *diff, const char *const paths[2], bool is_terminal, struct strbuf *out)
{
    static const char *const headings[] = { "NAME", "DIFFERS IN", "FIRST", "SECOND", "UNEQUAL", "LARGEST DIFFERENCE" };
    struct table table = { .columns = 6, .right = 0x30 };
    for (size_t i = 0; i < table.columns; i++)
        table_add (&table, headings[i]);
    for (size_t i = 0; i < diff->count; i++)
        if (diff->rows[i].kind != SAME)
            add_diff_row (&table, &diff->rows[i]);
    if (diff->different)
        table_show (&table, is_terminal, out);
    if (is_terminal) {
        printable_add (out, paths[0]);
        strbuf_add (out, " and ");
        printable_add (out, paths[1]);
        if (diff->different)
            strbuf_printf (out, ": %zu of %zu tensors differ\n", diff->different, diff->count);
        else
            strbuf_printf (out, ": no differences in %zu tensors\n", diff->count);
    }
    strlist_release (&table.cells);
}

static void
add_json_side (struct strbuf *out, const char *key, const struct tensors_item *item)
{
    strbuf_printf (out, ", \"%s\": ", key);
    if (!item) {
        strbuf_add (out, "null");
        return;
    }
    strbuf_printf (out, "{\"dtype\": \"%s\", \"shape\": ", safetensors_dtype_name (item->dtype));
    tensors_add_shape (out, item);
    strbuf_add (out, "}");
}

void
inspect_show_diff_json (const struct diff *diff, const char *const paths[2], struct strbuf *out)
{
    size_t shown = 0;
    strbuf_add (out, "{");
    add_json_text (out, "first", paths[0]);
    strbuf_add (out, ",\n ");
    add_json_text (out, "second", paths[1]);
    strbuf_printf (out, ",\n \"tensors\": %zu,\n \"same\": %zu,\n \"differences\": [", diff->count,
                   diff->count - diff->different);
    for (size_t i = 0; i < diff->count; i++) {
        const struct diff_row *row = &diff->rows[i];
        if (row->kind == SAME)
            continue;
        strbuf_add (out, shown++ ? ",\n  {" : "\n  {");
        add_json_text (out, "name", row->first ? row->first->name : row->second->name);
        strbuf_printf (out, ", \"differs_in\": \"%s\"", kinds[row->kind]);
        add_json_side (out, "first", row->first);
        add_json_side (out, "second", row->second);
        if (row->is_compared) {
            strbuf_printf (out, ", \"unequal\": %llu", (unsigned long long) row->unequal);
            add_json_number (out, "max_abs_difference", row->max_abs, true);
        }
        strbuf_add (out, "}");
    }
    strbuf_add (out, "]}\n");
}
