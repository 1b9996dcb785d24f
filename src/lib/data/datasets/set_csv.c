/* SPDX-License-Identifier: Apache-2.0 */
/* The data set of a CSV file: rows of numbers (RFC 4180, any separator), parsed when it is opened. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/base/option.h"
#include "lib/base/sized.h"
#include "lib/data/datasets/numbers.h"
#include "lib/data/datasets/set.h"
#include "lib/kernels/dtypes.h"
#include "util/cleanup.h"
#include "util/strbuf.h"
#include "util/suggest.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

enum { FIRST_BUFFER = 1 << 18, FIRST_ROWS = 256, NO_FIELD = -1 };

/* Where the cells of one column go. */
struct column {
    int field; /* NO_FIELD: nowhere */
    enum accel_dtype dtype;
    size_t offset; /* bytes within a row of the field */
    double scale, min, max;
    bool bounded;
};

struct csv {
    struct set *set;
    struct accel_csv_options options; /* defaults filled in */
    struct column *columns;           /* [column_count], known after the first row */
    size_t column_count;
    size_t rows, room;
    locale_t c_locale;
    /* The row in work, in the buffer; `end` is a '\n' of the file or of ours. */
    char *row, *end;
    size_t line;
    struct accel_error *err;
};

/* "FILE:LINE:COLUMN: " and why, for the byte @p at of the row. */
__attribute__ ((format (printf, 3, 4))) static enum accel_status
fail_at (const struct csv *csv, const char *at, const char *format, ...)
{
    char text[ACCEL_ERROR_TEXT_SIZE];
    size_t line = csv->line;
    const char *start = csv->row;
    va_list args;
    va_start (args, format);
    vsnprintf (text, sizeof text, format, args);
    va_end (args);
    for (const char *c = start; c < at; c++)
        if (*c == '\n') {
            line++;
            start = c + 1;
        }
    return accel_fail (csv->err, ACCEL_ERR_FORMAT, "%s:%zu:%zu: %s", csv->set->sources[0].path, line,
                       (size_t) (at - start) + 1, text);
}

static bool
is_blank (const struct csv *csv, char c)
{
    return (c == ' ' || c == '\t') && c != csv->options.separator;
}

static char *
skip_blanks (const struct csv *csv, char *at)
{
    while (is_blank (csv, *at))
        at++;
    return at;
}

/* @return the end of the text of the cell at @p at (after blanks and an opening quote), for messages */
static int
cell_length (const struct csv *csv, const char *at)
{
    const char *end = at;
    while (end < csv->end && *end != csv->options.separator && *end != '"' && end - at < 40)
        end++;
    return (int) (end - at);
}

/* A cell of which only the extent counts.  @p inner, where not NULL, gets its text with doubled quotes undone.
 * @return the separator or the end of the row after it; NULL after a failure */
static char *
skip_cell (const struct csv *csv, char *at, struct strbuf *inner)
{
    char *open = skip_blanks (csv, at), *from, *to;
    if (*open != '"') {
        to = memchr (open, csv->options.separator, (size_t) (csv->end - open));
        to = to ? to : csv->end;
        from = memchr (open, '"', (size_t) (to - open));
        if (from) {
            fail_at (csv, from, "a quote inside a cell that does not start with one");
            return NULL;
        }
        for (from = to; from > open && is_blank (csv, from[-1]); from--)
            ;
        if (inner)
            strbuf_add_bytes (inner, open, (size_t) (from - open));
        return to;
    }
    for (from = open + 1;; from = to + 2) {
        to = memchr (from, '"', (size_t) (csv->end - from));
        if (!to) {
            fail_at (csv, open, "the closing quote is missing");
            return NULL;
        }
        if (inner)
            strbuf_add_bytes (inner, from, (size_t) (to - from));
        if (to[1] != '"')
            break;
        if (inner)
            strbuf_add_char (inner, '"');
    }
    to = skip_blanks (csv, to + 1);
    if (to != csv->end && *to != csv->options.separator) {
        fail_at (csv, to, "text after the closing quote");
        return NULL;
    }
    return to;
}

/* Parse the number at @p at for @p column and put it at @p into.  @return the byte after it, NULL after a failure */
static const char *
store_real (const struct csv *csv, const struct column *column, const char *at, unsigned char *into)
{
    double value;
    bool overflow;
    const char *end = number_real (at, csv->c_locale, &value, &overflow);
    if (!end) {
        fail_at (csv, at, "'%.*s' is not a number", cell_length (csv, at), at);
        return NULL;
    }
    if (column->bounded && !(value >= column->min && value <= column->max)) {
        fail_at (csv, at, "%.*s is not in the range %g to %g", (int) (end - at), at, column->min, column->max);
        return NULL;
    }
    bool finite = isfinite (value);
    value *= column->scale;
    float single = (float) value;
    if (overflow || (finite && (column->dtype == ACCEL_FLOAT32 ? isinf (single) : isinf (value)))) {
        fail_at (csv, at, "%.*s is too large for %s", (int) (end - at), at, accel_dtype_name (column->dtype));
        return NULL;
    }
    if (column->dtype == ACCEL_FLOAT32)
        memcpy (into, &single, sizeof single);
    else
        memcpy (into, &value, sizeof value);
    return end;
}

static const char *
store_integer (const struct csv *csv, const struct column *column, const char *at, unsigned char *into)
{
    int64_t value;
    bool overflow;
    const char *end = number_int64 (at, &value, &overflow);
    if (!end || *end == '.' || *end == 'e' || *end == 'E') {
        fail_at (csv, at, "'%.*s' is not an integer", cell_length (csv, at), at);
        return NULL;
    }
    struct dtype_range range = dtype_range (column->dtype);
    if (overflow || value < range.min || value > range.max) {
        fail_at (csv, at, "%.*s does not fit in %s", (int) (end - at), at, accel_dtype_name (column->dtype));
        return NULL;
    }
    if (column->bounded && ((double) value < column->min || (double) value > column->max)) {
        fail_at (csv, at, "%.*s is not in the range %g to %g", (int) (end - at), at, column->min, column->max);
        return NULL;
    }
    dtype_store_integer (into, column->dtype, value);
    return end;
}

/* One cell of a column that belongs to a field.  @return as skip_cell() */
static char *
store_cell (const struct csv *csv, const struct column *column, char *at)
{
    const struct set_table *table = &csv->set->tables[column->field];
    unsigned char *into = (unsigned char *) csv->set->owned[column->field] + csv->rows * table->row_bytes
                          + column->offset;
    char *start = skip_blanks (csv, at);
    bool quoted = *start == '"';
    start += quoted;
    if (start == csv->end || *start == csv->options.separator || (quoted && *start == '"')) {
        fail_at (csv, start, "an empty cell");
        return NULL;
    }
    bool real = column->dtype == ACCEL_FLOAT32 || column->dtype == ACCEL_FLOAT64;
    char *end = (char *) (real ? store_real : store_integer) (csv, column, start, into);
    if (!end)
        return NULL;
    if (quoted && *end != '"')
        fail_at (csv, start, "'%.*s' is not a number", cell_length (csv, start), start);
    else {
        char *after = skip_blanks (csv, end + quoted);
        if (after == csv->end || *after == csv->options.separator)
            return after;
        fail_at (csv, start, "'%.*s' is not a number", cell_length (csv, start), start);
    }
    return NULL;
}

static enum accel_status
grow (struct csv *csv)
{
    size_t room = csv->room ? csv->room + csv->room / 2 : FIRST_ROWS;
    for (size_t i = 0; i < csv->set->dataset.field_count; i++) {
        size_t bytes;
        void *moved = NULL;
        if (!__builtin_mul_overflow (room, csv->set->tables[i].row_bytes, &bytes))
            moved = realloc (csv->set->owned[i], bytes);
        if (!moved)
            return accel_fail (csv->err, ACCEL_ERR_NOMEM, "%s: cannot allocate memory for %zu rows of field '%s'",
                               csv->set->sources[0].path, room, csv->set->fields[i].name);
        csv->set->owned[i] = moved;
    }
    csv->room = room;
    return ACCEL_OK;
}

static enum accel_status
store_row (struct csv *csv)
{
    char *at = csv->row;
    enum accel_status status = csv->rows == csv->room ? grow (csv) : ACCEL_OK;
    if (status)
        return status;
    for (size_t i = 0;; at++) {
        const struct column *column = &csv->columns[i];
        at = column->field == NO_FIELD ? skip_cell (csv, at, NULL) : store_cell (csv, column, at);
        if (!at)
            return csv->err ? csv->err->code : ACCEL_ERR_FORMAT;
        if (++i == csv->column_count && at == csv->end)
            break;
        if (i == csv->column_count || at == csv->end)
            return fail_at (csv, at, "a row with %s cells than the first, which has %zu",
                            at == csv->end ? "fewer" : "more", csv->column_count);
    }
    csv->rows++;
    return ACCEL_OK;
}

/* ---- the first row, and which column goes where ---- */

static enum accel_status
split_row (const struct csv *csv, struct strlist *cells)
{
    for (char *at = csv->row;; at++) {
        AUTO_STRBUF struct strbuf text = { 0 };
        at = skip_cell (csv, at, &text);
        if (!at)
            return csv->err ? csv->err->code : ACCEL_ERR_FORMAT;
        strlist_add (cells, text.text ? text.text : "");
        if (text.failed || cells->failed)
            return accel_fail_nomem (csv->err);
        if (at == csv->end)
            return ACCEL_OK;
    }
}

static bool
is_header (const struct csv *csv, const struct strlist *cells)
{
    bool some = false;
    double value;
    bool overflow;
    if (csv->options.header != ACCEL_CSV_HEADER_AUTO)
        return csv->options.header == ACCEL_CSV_HEADER_YES;
    for (size_t i = 0; i < cells->count; i++) {
        const char *end = number_real (cells->items[i], csv->c_locale, &value, &overflow);
        if (end && !*end)
            return false;
        some |= *cells->items[i] != '\0';
    }
    return some;
}

/* Give @p count columns from @p first (from 0) on to field @p index. */
static enum accel_status
assign (struct csv *csv, size_t first, size_t count, size_t index, const struct accel_csv_field *how, size_t done)
{
    const char *path = csv->set->sources[0].path, *name = csv->set->fields[index].name;
    size_t bytes = accel_dtype_bytes (how->field.dtype);
    if (first > csv->column_count || count > csv->column_count - first)
        return accel_fail (csv->err, ACCEL_ERR_INVALID, "%s: field '%s' needs columns %zu to %zu, but there are %zu",
                           path, name, first + 1, first + count, csv->column_count);
    for (size_t i = 0; i < count; i++) {
        struct column *column = &csv->columns[first + i];
        if (column->field != NO_FIELD)
            return accel_fail (csv->err, ACCEL_ERR_INVALID, "%s: column %zu is in fields '%s' and '%s'", path,
                               first + i + 1, csv->set->fields[column->field].name, name);
        *column = (struct column){ .field = (int) index,
                                   .dtype = how->field.dtype,
                                   .offset = (done + i) * bytes,
                                   .scale = option_or (how->scale, 1),
                                   .min = how->min,
                                   .max = how->max,
                                   .bounded = option_is_given (how->min) || option_is_given (how->max) };
    }
    return ACCEL_OK;
}

static enum accel_status
find_column (const struct csv *csv, const struct accel_csv_field *how, const struct strlist *header, size_t *first)
{
    const char *path = csv->set->sources[0].path;
    char space[96];
    struct suggest suggest = { .wanted = how->header };
    if (!header)
        return accel_fail (csv->err, ACCEL_ERR_INVALID, "%s: has no header, so there is no column '%s'", path,
                           how->header);
    for (size_t i = 0; i < header->count; i++) {
        if (!strcmp (header->items[i], how->header)) {
            *first = i;
            return ACCEL_OK;
        }
        suggest_consider (&suggest, header->items[i]);
    }
    return accel_fail (csv->err, ACCEL_ERR_INVALID, "%s: has no column '%s'%s", path, how->header,
                       suggest_text (&suggest, "", space, sizeof space));
}

static enum accel_status
assign_fields (struct csv *csv, const struct strlist *header)
{
    size_t next = 0;
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; i < csv->options.field_count && !status; i++) {
        const struct accel_csv_field *how = &csv->options.fields[i];
        size_t elements = csv->set->tables[i].elements;
        if (how->column)
            next = how->column - 1;
        else if (how->header)
            status = find_column (csv, how, header, &next);
        if (!status)
            status = assign (csv, next, elements, i, how, 0);
        next += elements;
    }
    return status;
}

/* Without fields in the options: "features", and "label" out of its middle. */
static enum accel_status
assign_default (struct csv *csv)
{
    const struct accel_csv_options *options = &csv->options;
    int64_t label = options->label_column, columns = (int64_t) csv->column_count;
    struct accel_csv_field features = { .field = { "features", options->dtype, 1, { columns - (label != 0) } } };
    struct accel_csv_field labels = { .field = { .name = "label", .dtype = ACCEL_INT64 } };
    if (label < -columns || label > columns)
        return accel_fail (csv->err, ACCEL_ERR_INVALID, "%s: label_column is %d, but there are %zu columns",
                           csv->set->sources[0].path, options->label_column, csv->column_count);
    if (label && columns == 1)
        return accel_fail (csv->err, ACCEL_ERR_INVALID, "%s: has no columns other than the label",
                           csv->set->sources[0].path);
    enum accel_status status = set_describe (csv->set, 0, &features.field, csv->err);
    if (status || !label)
        return status ? status : assign (csv, 0, csv->column_count, 0, &features, 0);
    size_t at = (size_t) (label < 0 ? columns + label : label - 1);
    status = set_describe (csv->set, 1, &labels.field, csv->err);
    if (!status)
        status = assign (csv, 0, at, 0, &features, 0);
    if (!status)
        status = assign (csv, at, 1, 1, &labels, 0);
    if (!status)
        status = assign (csv, at + 1, csv->column_count - at - 1, 0, &features, at);
    return status;
}

static enum accel_status
begin (struct csv *csv)
{
    AUTO_STRLIST struct strlist cells = { 0 };
    enum accel_status status = split_row (csv, &cells);
    if (status)
        return status;
    bool header = is_header (csv, &cells);
    csv->column_count = cells.count;
    csv->columns = calloc (cells.count, sizeof *csv->columns);
    if (!csv->columns)
        return accel_fail (csv->err, ACCEL_ERR_NOMEM, "cannot allocate memory for %zu columns", cells.count);
    for (size_t i = 0; i < cells.count; i++)
        csv->columns[i].field = NO_FIELD;
    status = csv->options.fields ? assign_fields (csv, header ? &cells : NULL) : assign_default (csv);
    return status || header ? status : store_row (csv);
}

/* ---- the file in rows ---- */

/* The end of the row that begins at @p at: a line feed with an even number of quotes before it.  @return NULL: the row
 * is not complete.  *@p from and *@p open keep what is known for the next try. */
static char *
find_end (char **from, char *limit, bool *open)
{
    while (*from < limit) {
        char *end = memchr (*from, '\n', (size_t) (limit - *from)), *quote, *stop = end ? end : limit;
        for (char *c = *from; (quote = memchr (c, '"', (size_t) (stop - c))); c = quote + 1)
            *open = !*open;
        *from = end ? end + 1 : limit;
        if (end && !*open)
            return end;
    }
    return NULL;
}

static enum accel_status
take_row (struct csv *csv, char *row, char *end)
{
    enum accel_status status = ACCEL_OK;
    size_t lines = 1;
    csv->row = row;
    for (char *c = row; (c = memchr (c, '\n', (size_t) (end - c))); c++)
        lines++;
    if (end > row && end[-1] == '\r')
        *--end = '\n';
    csv->end = end;
    if (skip_blanks (csv, row) != end)
        status = csv->columns ? store_row (csv) : begin (csv);
    csv->line += lines;
    return status;
}

static enum accel_status
read_rows (struct csv *csv)
{
    const struct source *source = &csv->set->sources[0];
    size_t room = FIRST_BUFFER, held = 0;
    uint64_t offset = 0;
    AUTO_FREE char *buffer = malloc (room + 1);
    enum accel_status status = ACCEL_OK;
    size_t scanned = 0; /* of the incomplete row at the beginning of the buffer */
    bool open = false;
    while (!status && buffer && (held || offset < source->size)) {
        size_t now = source->size - offset < room - held ? (size_t) (source->size - offset) : room - held;
        status = source_read (source, offset, buffer + held, now, csv->err);
        if (status)
            break;
        char *row = buffer, *from = buffer + scanned, *limit = buffer + held + now, *end;
        if (!offset && now >= 3 && !memcmp (row, "\xef\xbb\xbf", 3)) /* the byte order mark that some put there */
            row = from = row + 3;
        offset += now;
        for (; !status && (end = find_end (&from, limit, &open)); row = from)
            status = take_row (csv, row, end);
        if (!status && offset == source->size && row < limit) {
            *limit = '\n'; /* the last line needs no line feed */
            status = take_row (csv, row, limit);
            row = limit;
        }
        held = (size_t) (limit - row);
        scanned = held;
        memmove (buffer, row, held);
        if (held == room) {
            char *moved = room > SIZE_MAX / 4 ? NULL : realloc (buffer, 2 * room + 1);
            if (!moved)
                return accel_fail (csv->err, ACCEL_ERR_NOMEM,
                                   "%s:%zu: cannot allocate memory for a row of more than %zu bytes", source->path,
                                   csv->line, room);
            buffer = moved;
            room *= 2;
        }
    }
    return buffer ? status : accel_fail (csv->err, ACCEL_ERR_NOMEM, "cannot allocate memory for a buffer of %zu bytes",
                                         room);
}

/* ---- opening ---- */

static enum accel_status
check_field (const struct accel_csv_field *how, size_t elements, struct accel_error *err)
{
    const char *name = how->field.name;
    bool real = how->field.dtype == ACCEL_FLOAT32 || how->field.dtype == ACCEL_FLOAT64;
    if (!real && !dtype_range (how->field.dtype).max)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "field '%s': numbers of a CSV file cannot be read as %s", name,
                           accel_dtype_name (how->field.dtype));
    if (!elements)
        return accel_fail (err, ACCEL_ERR_INVALID, "field '%s' has no elements", name);
    if (option_is_given (how->scale) && (!real || !isfinite (how->scale)))
        return accel_fail (err, ACCEL_ERR_INVALID, "field '%s': scale must be finite, and needs a field of floats",
                           name);
    if (!(how->min <= how->max))
        return accel_fail (err, ACCEL_ERR_INVALID, "field '%s': min is greater than max", name);
    return ACCEL_OK;
}

static enum accel_status
check_options (struct csv *csv)
{
    struct accel_csv_options *options = &csv->options;
    const struct accel_csv_field features = { .field = { .name = "features", .dtype = options->dtype } };
    enum accel_status status = ACCEL_OK;
    if (!options->separator)
        options->separator = ',';
    char c = options->separator;
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || strchr ("+-.\"\r\n", c))
        return accel_fail (csv->err, ACCEL_ERR_INVALID, "character %d cannot be the separator of a CSV file", c);
    if ((unsigned) options->header > ACCEL_CSV_HEADER_YES)
        return accel_fail (csv->err, ACCEL_ERR_INVALID, "invalid accel_csv_header %d", (int) options->header);
    if (!options->fields != !options->field_count)
        return accel_fail (csv->err, ACCEL_ERR_INVALID, "field_count is %zu, but there is %s array of fields",
                           options->field_count, options->fields ? "an" : "no");
    if (options->fields && (options->label_column || options->dtype))
        return accel_fail (csv->err, ACCEL_ERR_INVALID, "label_column and dtype cannot be combined with fields");
    if (!options->fields && !accel_dtype_bytes (options->dtype))
        return accel_fail (csv->err, ACCEL_ERR_INVALID, "invalid element type %d", (int) options->dtype);
    if (!options->fields)
        return check_field (&features, 1, csv->err);
    for (size_t i = 0; i < options->field_count && !status; i++) {
        status = set_describe (csv->set, i, &options->fields[i].field, csv->err);
        if (!status)
            status = check_field (&options->fields[i], csv->set->tables[i].elements, csv->err);
    }
    return status;
}

static enum accel_status
finish (struct csv *csv)
{
    struct set *set = csv->set;
    if (!csv->columns && !csv->options.fields)
        return accel_fail (csv->err, ACCEL_ERR_FORMAT,
                           "%s: is empty, so the number of columns is unknown; give its fields", set->sources[0].path);
    for (size_t i = 0; i < set->dataset.field_count; i++) {
        /* Never fails where it shrinks; should it do so all the same, the larger memory is as good. */
        void *moved = csv->rows ? realloc (set->owned[i], csv->rows * set->tables[i].row_bytes) : NULL;
        if (moved)
            set->owned[i] = moved;
        set->tables[i].memory = set->owned[i];
    }
    set->dataset.size = csv->rows;
    source_close (&set->sources[0]);
    return ACCEL_OK;
}

enum accel_status
accel_dataset_open_csv_sized (size_t options_size, size_t field_size, struct accel_dataset **dataset,
                              const char *path, const struct accel_csv_options *options, struct accel_error *err)
{
    struct csv csv = { .line = 1, .err = err };
    struct accel_csv_options room;
    AUTO_FREE struct accel_csv_field *fields = NULL;
    enum accel_status status;
    if (!dataset)
        return accel_fail_null (err, "accel_dataset_open_csv", "dataset");
    *dataset = NULL;
    options = SIZED (options, options_size, room, &status, err);
    if (options) {
        csv.options = *options;
        csv.options.fields = SIZED_ARRAY (options->fields, field_size, options->field_count, fields, &status, err);
    }
    if (status)
        return status;
    size_t count = csv.options.fields ? csv.options.field_count : csv.options.label_column ? 2 : 1;
    status = set_create (&csv.set, count, err);
    if (status)
        return status;
    csv.set->owned = calloc (count, sizeof *csv.set->owned);
    csv.set->owned_count = csv.set->owned ? count : 0;
    csv.c_locale = newlocale (LC_ALL_MASK, "C", (locale_t) 0);
    if (!csv.set->owned || !csv.c_locale)
        status = accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a data set");
    else if (!(status = check_options (&csv)) && !(status = source_open (&csv.set->sources[0], path, err))
             && !(status = source_refuse_gzip (&csv.set->sources[0], "CSV file", err))
             && !(status = read_rows (&csv)))
        status = finish (&csv);
    if (csv.c_locale)
        freelocale (csv.c_locale);
    free (csv.columns);
    if (status)
        return set_abandon (csv.set, status);
    *dataset = &csv.set->dataset;
    return ACCEL_OK;
}
