/* SPDX-License-Identifier: Apache-2.0 */
/* estimate-memory: the tables, the first of which is Accelerate's, character for character. */
#include <config.h>

#include "cli/estimate/estimate.h"

#include "util/cleanup.h"

#include <string.h>

enum { COLUMNS = 5 };

unsigned
estimate_divisor (const char *dtype)
{
    return !strcmp (dtype, "float16") ? 2 : !strcmp (dtype, "int8") ? 4 : !strcmp (dtype, "int4") ? 8 : 1;
}

uint64_t
estimate_adam (uint64_t total, const char *dtype)
{
    unsigned divisor = estimate_divisor (dtype);
    return divisor == 1 ? 4 * total : divisor == 2 ? 2 * total : 0;
}

void
estimate_show_bytes (struct strbuf *out, double bytes, bool is_whole)
{
    static const char *const units[] = { "bytes", "KB", "MB", "GB", "TB", "PB" };
    size_t unit = 0;
    char text[64];
    for (; unit < 5 && bytes >= 1024; unit++)
        bytes /= 1024;
    if (!unit && is_whole) {
        strbuf_printf (out, "%.0f bytes", bytes);
        return;
    }
    int length = snprintf (text, sizeof text, "%.2f", bytes); /* Python's round() to 2 digits, and its str() */
    if (text[length - 1] == '0')
        text[length - 1] = '\0';
    strbuf_printf (out, "%s %s", text, units[unit]);
}

/* ---- a table in a box ---- */

struct box {
    const char *title;
    size_t columns;
    const char *const *headings; /* [columns] */
    struct strlist cells;        /* row by row */
};

static size_t
width_of (const char *text)
{
    size_t width = 0;
    for (; *text; text++)
        width += ((unsigned char) *text & 0xc0) != 0x80;
    return width;
}

static void
repeat (struct strbuf *out, const char *text, size_t count)
{
    while (count-- > 0)
        strbuf_add (out, text);
}

/* Python's str.center(). */
static void
center (struct strbuf *out, const char *text, size_t width)
{
    size_t own = width_of (text), pad = width > own ? width - own : 0;
    size_t left = pad / 2 + (pad & width & 1);
    repeat (out, " ", left);
    strbuf_add (out, text);
    repeat (out, " ", pad - left);
}

static void
rule (struct strbuf *out, const size_t *widths, size_t columns, const char *const ends[3])
{
    strbuf_add (out, ends[0]);
    for (size_t i = 0; i < columns; i++) {
        repeat (out, "─", widths[i]);
        strbuf_add (out, ends[i + 1 < columns ? 1 : 2]);
    }
    strbuf_add (out, "\n");
}

static void
row (struct strbuf *out, const char *const *cells, const size_t *widths, size_t columns)
{
    for (size_t i = 0; i < columns; i++) {
        strbuf_add (out, "│");
        center (out, cells[i], widths[i]);
    }
    strbuf_add (out, "│\n");
}

/* A title that is longer than the cells makes the last column wider: twice by what is missing of the whole width, as in
 * Accelerate, and of the rules above it only the first time by both. */
static void
show_box (struct strbuf *out, const struct box *box)
{
    size_t widths[COLUMNS], sum = 0, separator, title = width_of (box->title), extra = 0;
    for (size_t i = 0; i < box->columns; i++) {
        widths[i] = width_of (box->headings[i]);
        for (size_t j = i; j < box->cells.count; j += box->columns)
            if (width_of (box->cells.items[j]) > widths[i])
                widths[i] = width_of (box->cells.items[j]);
        sum += widths[i];
    }
    separator = sum + box->columns + 1;
    if (title > sum)
        extra = title > separator ? title - separator : separator - title;
    widths[box->columns - 1] += 2 * extra;
    rule (out, widths, box->columns, (const char *const[]){ "┌", "─", "┐" });
    strbuf_add (out, "│");
    center (out, box->title, separator + 2 * extra - 2);
    strbuf_add (out, "│\n");
    rule (out, widths, box->columns, (const char *const[]){ "├", "┬", "┤" });
    row (out, box->headings, widths, box->columns);
    rule (out, widths, box->columns, (const char *const[]){ "├", "┼", "┤" });
    for (size_t i = 0; i < box->cells.count; i += box->columns)
        row (out, (const char *const *) &box->cells.items[i], widths, box->columns);
    rule (out, widths, box->columns, (const char *const[]){ "└", "┴", "┘" });
}

static void
add_bytes (struct box *box, double bytes, bool is_whole)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    estimate_show_bytes (&text, bytes, is_whole);
    strlist_add (&box->cells, text.failed ? "" : text.text);
    box->cells.failed |= text.failed;
}

/* "1.2 GB + 1.2 GB + 2.4 GB" */
static void
add_parts (struct box *box, const struct estimate_training *needs)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    estimate_show_bytes (&text, (double) needs->weights, true);
    strbuf_add (&text, " + ");
    estimate_show_bytes (&text, (double) needs->gradients, true);
    strbuf_add (&text, " + ");
    estimate_show_bytes (&text, (double) needs->optimizer, true);
    strlist_add (&box->cells, text.failed ? "" : text.text);
}

static int
end_box (struct box *box, struct strbuf *out, struct fail *fail)
{
    bool failed = box->cells.failed;
    if (!failed)
        show_box (out, box);
    strlist_release (&box->cells);
    return failed ? fail_nomem (fail) : 0;
}

/* ---- what is in the tables ---- */

size_t
estimate_kinds (const struct estimate_report *report)
{
    return report->settings->dtypes.count + (report->model->is_gguf || report->model->quantization);
}

int
estimate_infer (const struct estimate_report *report, size_t number, struct estimate_inference *needs,
                struct fail *fail)
{
    const struct settings *settings = report->settings;
    bool is_stored = number == settings->dtypes.count;
    unsigned divisor = is_stored ? 0 : estimate_divisor (settings->dtypes.items[number]);
    uint64_t cache;
    /* Quantized weights go with 16-bit keys and values. */
    if (estimate_cache (report->model, (uint64_t) settings->context_length, divisor == 1 ? 32 : 16, &cache, fail))
        return -1;
    needs->dtype = is_stored ? ESTIMATE_STORED : settings->dtypes.items[number];
    needs->weights = is_stored ? (double) report->sizes.stored : (double) report->sizes.total / 8 / divisor;
    needs->cache = (double) cache * (double) settings->batch_size;
    return 0;
}

static int
show_loading (const struct estimate_report *report, struct strbuf *out, struct fail *fail)
{
    static const char *const headings[] = { "dtype", "Largest Layer", "Total Size", "Training using Adam" };
    AUTO_STRBUF struct strbuf title = { 0 };
    strbuf_printf (&title, "Memory Usage for loading `%s`", report->name);
    if (title.failed)
        return fail_nomem (fail);
    struct box box = { .title = title.text, .columns = 4, .headings = headings };
    const struct estimate_sizes *sizes = &report->sizes;
    const struct strlist *dtypes = &report->settings->dtypes;
    for (size_t i = 0; i < dtypes->count; i++) {
        unsigned divisor = estimate_divisor (dtypes->items[i]);
        uint64_t training = estimate_adam (sizes->total / 8, dtypes->items[i]);
        strlist_add (&box.cells, dtypes->items[i]);
        if (report->model->is_total)
            strlist_add (&box.cells, "N/A");
        else
            add_bytes (&box, (double) sizes->largest / 8 / divisor, divisor == 1 && sizes->largest % 8 == 0);
        add_bytes (&box, (double) sizes->total / 8 / divisor, divisor == 1 && sizes->total % 8 == 0);
        if (training)
            add_bytes (&box, (double) training, true);
        else
            strlist_add (&box.cells, "N/A");
    }
    if (estimate_kinds (report) > dtypes->count) {
        strlist_add (&box.cells, ESTIMATE_STORED);
        strlist_add (&box.cells, "");
        add_bytes (&box, (double) sizes->stored, true);
        strlist_add (&box.cells, "N/A");
    }
    return end_box (&box, out, fail);
}

static int
show_inference (const struct estimate_report *report, struct strbuf *out, struct fail *fail)
{
    static const char *const headings[] = { "dtype", "Weights", "Keys and Values", "Total" };
    AUTO_STRBUF struct strbuf title = { 0 };
    const struct settings *settings = report->settings;
    strbuf_printf (&title, "Inference with %lld x %lld tokens", (long long) settings->batch_size,
                   (long long) settings->context_length);
    if (title.failed)
        return fail_nomem (fail);
    struct box box = { .title = title.text, .columns = 4, .headings = headings };
    for (size_t i = 0; i < estimate_kinds (report); i++) {
        struct estimate_inference needs;
        if (estimate_infer (report, i, &needs, fail)) {
            strlist_release (&box.cells);
            return -1;
        }
        strlist_add (&box.cells, needs.dtype);
        add_bytes (&box, needs.weights, true);
        add_bytes (&box, needs.cache, true);
        add_bytes (&box, needs.weights + needs.cache, true);
    }
    return end_box (&box, out, fail);
}

/* "fp16, bf16": the names of the precisions from @first on that need as much.  @return the one after them */
static size_t
add_names (struct strbuf *names, size_t first)
{
    const struct estimate_precision *all = estimate_precisions;
    size_t i = first;
    for (; all[i].name && all[i].weight == all[first].weight && all[i].gradient == all[first].gradient; i++)
        strbuf_printf (names, "%s%s", i > first ? ", " : "", all[i].name);
    return i;
}

static int
show_training (const struct estimate_report *report, struct strbuf *out, struct fail *fail)
{
    static const char *const headings[] = { "Optimizer", "Precision", "Weights, Gradients, States", "Each Process" };
    AUTO_STRBUF struct strbuf title = { 0 };
    const struct settings *settings = report->settings;
    int64_t processes = settings->num_processes ? settings->num_processes : 1;
    strbuf_printf (&title, "Training, %lld process%s, ZeRO stage %lld", (long long) processes,
                   processes == 1 ? "" : "es", (long long) settings->zero_stage);
    if (title.failed)
        return fail_nomem (fail);
    struct box box = { .title = title.text, .columns = 4, .headings = headings };
    for (size_t i = 0; estimate_optimizers[i].name; i++)
        for (size_t j = 0, next; estimate_precisions[j].name; j = next) {
            AUTO_STRBUF struct strbuf names = { 0 };
            struct estimate_training needs = estimate_train (report->sizes.parameters, &estimate_optimizers[i],
                                                             &estimate_precisions[j], settings->zero_stage, processes);
            next = add_names (&names, j);
            strlist_add (&box.cells, estimate_optimizers[i].name);
            strlist_add (&box.cells, names.failed ? "" : names.text);
            add_parts (&box, &needs);
            add_bytes (&box, (double) (needs.weights + needs.gradients + needs.optimizer), true);
        }
    return end_box (&box, out, fail);
}

static int
show_sharding (const struct estimate_report *report, struct strbuf *out, struct fail *fail)
{
    static const char *const headings[]
        = { "Processes", "ZeRO Stage", "Weights, Gradients, States", "Each Process", "All Processes" };
    AUTO_STRBUF struct strbuf title = { 0 };
    const struct settings *settings = report->settings;
    strbuf_printf (&title, "Native training using AdamW, mixed precision %s%s%s", settings->mixed_precision,
                   settings->float32_gradients ? ", float32 gradients" : "",
                   settings->share_parameters ? ", shared parameters" : "");
    if (title.failed)
        return fail_nomem (fail);
    struct box box = { .title = title.text, .columns = 5, .headings = headings };
    for (struct estimate_sharding row = { 0 }; estimate_next_sharding (report, &row);) {
        AUTO_STRBUF struct strbuf processes = { 0 };
        strbuf_printf (&processes, "%lld", (long long) row.processes);
        strlist_add (&box.cells, processes.failed ? "" : processes.text);
        strlist_add (&box.cells, (const char *const[]){ "0", "1", "2", "3" }[row.stage]);
        add_parts (&box, &row.share);
        add_bytes (&box, (double) row.each, true);
        add_bytes (&box, (double) row.all, true);
    }
    return end_box (&box, out, fail);
}

int
estimate_show (const struct estimate_report *report, struct strbuf *out, struct fail *fail)
{
    if (show_loading (report, out, fail) || (report->settings->context_length && show_inference (report, out, fail))
        || (report->wants_training && show_training (report, out, fail))
        || (report->settings->sharding && show_sharding (report, out, fail)))
        return -1;
    return out->failed ? fail_nomem (fail) : 0;
}
