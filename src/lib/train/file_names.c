/* SPDX-License-Identifier: Apache-2.0 */
/* The names of parameters in files; see file_names.h.  All are made when the table is set: a look-up cannot fail. */
#include <config.h>

#include "lib/train/file_names.h"

#include "lib/base/error.h"
#include "lib/base/sized.h"
#include "lib/train/model_object.h"
#include "util/cleanup.h"
#include "util/strbuf.h"

#include <accel/model_file.h>

#include <stdlib.h>
#include <string.h>

enum { MOST_STARS = 8 };

struct file_name {
    char *text; /* NULL: there are no more */
    bool transposed;
};

struct file_names {
    size_t parameters, rows;
    struct file_name *all; /* [parameters][rows]: those that match, in the order of the table */
    char **ignored;        /* [rows]: patterns, then NULL */
};

/* What a `*` is. */
struct star {
    const char *text;
    size_t length;
};

/* ---- patterns ---- */

/* @param[out] stars  [MOST_STARS] */
static bool
matches (const char *pattern, const char *text, struct star *stars)
{
    for (; *pattern != '*'; pattern++, text++) {
        if (*pattern != *text)
            return false;
        if (!*pattern)
            return true;
    }
    *stars = (struct star){ .text = text };
    for (; !matches (pattern + 1, text + stars->length, stars + 1); stars->length++)
        if (!text[stars->length])
            return false;
    return true;
}

static size_t
count_stars (const char *pattern)
{
    size_t count = 0;
    for (; *pattern; pattern++)
        count += *pattern == '*';
    return count;
}

/* @return @p pattern with the texts of @p stars in it; NULL: out of memory */
static char *
expand (const char *pattern, const struct star *stars)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    for (; *pattern; pattern++)
        if (*pattern != '*')
            strbuf_add_char (&text, *pattern);
        else {
            strbuf_printf (&text, "%.*s", (int) stars->length, stars->text);
            stars++;
        }
    return text.failed ? NULL : strdup (text.text ? text.text : "");
}

/* ---- the table ---- */

static enum accel_status
check_row (const struct accel_file_name *row, size_t index, struct accel_error *err)
{
    if (!row->theirs || !*row->theirs)
        return accel_fail (err, ACCEL_ERR_INVALID, "row %zu: theirs is NULL or empty", index);
    if (count_stars (row->theirs) > MOST_STARS)
        return accel_fail (err, ACCEL_ERR_INVALID, "row %zu: '%.80s' has %zu '*'; the maximum is %d", index,
                           row->theirs, count_stars (row->theirs), MOST_STARS);
    if (row->ours && count_stars (row->ours) != count_stars (row->theirs))
        return accel_fail (err, ACCEL_ERR_INVALID, "row %zu: '%.80s' has %zu '*', but '%.80s' has %zu", index,
                           row->ours, count_stars (row->ours), row->theirs, count_stars (row->theirs));
    return ACCEL_OK;
}

/* Add the row's name to those of each parameter that it matches. */
static enum accel_status
add_row (struct file_names *names, const struct accel_model *model, const struct accel_file_name *row, size_t index,
         struct accel_error *err)
{
    struct star stars[MOST_STARS];
    bool used = false;
    for (size_t i = 0; i < model->count; i++) {
        const struct accel_parameter *parameter = &model->parameters[i];
        struct file_name *to = &names->all[i * names->rows];
        if (!matches (row->ours, parameter->name, stars))
            continue;
        if (row->transposed && parameter->data->ndim != 2)
            return accel_fail (err, ACCEL_ERR_INVALID,
                               "row %zu: '%.80s' cannot be transposed: it has %d dimensions; expected 2", index,
                               parameter->name, (int) parameter->data->ndim);
        while (to->text)
            to++;
        *to = (struct file_name){ .text = expand (row->theirs, stars), .transposed = row->transposed };
        if (!to->text)
            return accel_fail_nomem (err);
        used = true;
    }
    return used ? ACCEL_OK
                : accel_fail (err, ACCEL_ERR_INVALID, "row %zu: '%.80s' matches no parameter", index, row->ours);
}

static const char *
saved_name (const struct file_names *names, const struct accel_model *model, size_t parameter)
{
    const char *text = names->all[parameter * names->rows].text;
    return text ? text : model->parameters[parameter].name;
}

static enum accel_status
check_saved (const struct file_names *names, const struct accel_model *model, struct accel_error *err)
{
    for (size_t i = 0; i < model->count; i++)
        for (size_t j = 0; j < i; j++)
            if (!strcmp (saved_name (names, model, i), saved_name (names, model, j)))
                return accel_fail (err, ACCEL_ERR_INVALID, "'%.80s' and '%.80s' would both be saved as '%.80s'",
                                   model->parameters[j].name, model->parameters[i].name,
                                   saved_name (names, model, i));
    return ACCEL_OK;
}

void
file_names_destroy (struct file_names *names)
{
    for (size_t i = 0; names && names->all && i < names->parameters * names->rows; i++)
        free (names->all[i].text);
    for (size_t i = 0; names && names->ignored && names->ignored[i]; i++)
        free (names->ignored[i]);
    if (names) {
        free (names->all);
        free (names->ignored);
    }
    free (names);
}

static enum accel_status
fill (struct file_names *names, const struct accel_model *model, const struct accel_file_name *rows,
      struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    size_t ignored = 0;
    for (size_t i = 0; i < names->rows && !status; i++) {
        status = check_row (&rows[i], i, err);
        if (!status && rows[i].ours)
            status = add_row (names, model, &rows[i], i, err);
        else if (!status && !(names->ignored[ignored++] = strdup (rows[i].theirs)))
            status = accel_fail_nomem (err);
    }
    return status ? status : check_saved (names, model, err);
}

enum accel_status
accel_model_set_file_names_sized (size_t row_size, struct accel_model *model, const struct accel_file_name *rows,
                                  size_t count, struct accel_error *err)
{
    AUTO_FREE struct accel_file_name *resized = NULL;
    struct file_names *names = NULL;
    enum accel_status status;
    if (!model || (count && !rows))
        return accel_fail_null (err, "accel_model_set_file_names", model ? "rows" : "model");
    rows = SIZED_ARRAY (rows, row_size, count, resized, &status, err);
    if (!status && count) {
        names = calloc (1, sizeof *names);
        if (!names)
            return accel_fail_nomem (err);
        *names = (struct file_names){ .parameters = model->count, .rows = count };
        names->all = calloc (model->count * count, sizeof *names->all);
        names->ignored = calloc (count + 1, sizeof *names->ignored);
        status = names->all && names->ignored ? fill (names, model, rows, err) : accel_fail_nomem (err);
    }
    if (status) {
        file_names_destroy (names);
        return status;
    }
    file_names_destroy (model->file_names);
    model->file_names = names;
    return ACCEL_OK;
}

/* ---- look-up ---- */

const char *
file_names_get (const struct accel_model *model, size_t parameter, size_t number, bool *transposed)
{
    const struct file_names *names = model->file_names;
    const struct file_name *first = names ? &names->all[parameter * names->rows] : NULL;
    if (!first || !first->text) {
        if (number)
            return NULL;
        *transposed = false;
        return model->parameters[parameter].name;
    }
    if (number >= names->rows || !first[number].text)
        return NULL;
    *transposed = first[number].transposed;
    return first[number].text;
}

bool
file_names_ignore (const struct accel_model *model, const char *name)
{
    struct star stars[MOST_STARS];
    char *const *ignored = model->file_names ? model->file_names->ignored : NULL;
    for (; ignored && *ignored; ignored++)
        if (matches (*ignored, name, stars))
            return true;
    return false;
}
