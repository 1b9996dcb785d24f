/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of metrics and inputs; see tables.h. */
#include <config.h>

#include "sagemaker/tables.h"

#include "sagemaker/python_json.h"
#include "util/cleanup.h"
#include "util/io.h"
#include "util/utf8.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

enum { LARGEST = 1 << 20 };

struct line {
    const char *path;
    int number;
    char *name, *value; /* its first two columns, without blanks around them */
};

static char *
strip (char *text)
{
    while (isspace ((unsigned char) *text))
        text++;
    size_t length = strlen (text);
    while (length && isspace ((unsigned char) text[length - 1]))
        text[--length] = '\0';
    return text;
}

static int
split (struct line *line, char *text, struct fail *fail)
{
    char *tab = strchr (text, '\t');
    if (!tab)
        return fail_set (fail, FAIL_GENERAL, "%s:%d: expected two columns with a tab between them", line->path,
                         line->number);
    *tab = '\0';
    tab[1 + strcspn (tab + 1, "\t")] = '\0';
    line->name = strip (text);
    line->value = strip (tab + 1);
    if (!*line->name || !*line->value)
        return fail_set (fail, FAIL_GENERAL, "%s:%d: empty column", line->path, line->number);
    return 0;
}

/* Give each line but the header and empty ones to @take. */
static int
read_table (const char *path, json_t *result, int (*take) (const struct line *line, json_t *result, struct fail *fail),
            struct fail *fail)
{
    AUTO_FREE char *text = NULL;
    struct line line = { .path = path };
    size_t length = 0;
    if (!result)
        return fail_nomem (fail);
    if (io_read_input (path, LARGEST, &text, &length, fail))
        return -1;
    if (strlen (text) != length)
        return fail_set (fail, FAIL_GENERAL, "%s: not a text file: it has a zero byte", path);
    for (char *at = text, *next; at; at = next) {
        next = strchr (at, '\n');
        if (next)
            *next++ = '\0';
        if (++line.number == 1 || !*strip (at))
            continue;
        if (split (&line, at, fail) || take (&line, result, fail))
            return -1;
    }
    return 0;
}

static int
refuse_text (const struct line *line, struct fail *fail)
{
    const char *text = utf8_is_valid (line->name, strlen (line->name)) ? line->value : line->name;
    return python_json_refuse (text, fail, FAIL_GENERAL, "%s:%d: not valid UTF-8", line->path, line->number);
}

static int
take_metric (const struct line *line, json_t *result, struct fail *fail)
{
    json_t *metric = json_pack ("{s:s, s:s}", "Name", line->name, "Regex", line->value);
    return metric && !json_array_append_new (result, metric)
               ? 0 : refuse_text (line, fail);
}

static int
take_input (const struct line *line, json_t *result, struct fail *fail)
{
    if (strncmp (line->value, "s3://", 5))
        return fail_set (fail, FAIL_GENERAL, "%s:%d: '%s' is not an S3 address: it must begin with s3://", line->path,
                         line->number, line->value);
    if (json_object_get (result, line->name))
        return fail_set (fail, FAIL_GENERAL, "%s:%d: duplicate channel '%s'", line->path, line->number, line->name);
    return !json_object_set_new (result, line->name, json_string (line->value))
               ? 0 : refuse_text (line, fail);
}

int
tables_read_metrics (const char *path, json_t **metrics, struct fail *fail)
{
    *metrics = json_array ();
    if (!read_table (path, *metrics, take_metric, fail))
        return 0;
    json_decref (*metrics);
    *metrics = NULL;
    return fail_prefix (fail, "sagemaker_metrics_file");
}

int
tables_read_inputs (const char *path, json_t **channels, struct fail *fail)
{
    *channels = json_object ();
    if (!read_table (path, *channels, take_input, fail))
        return 0;
    json_decref (*channels);
    *channels = NULL;
    return fail_prefix (fail, "sagemaker_inputs_file");
}
