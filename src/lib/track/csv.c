/* SPDX-License-Identifier: Apache-2.0 */
/* Tracker csv: LOGGING_DIR/PROJECT[/RUN]/metrics.csv with a row for each value: step,time,key,value.
 *
 * A table with a column for each key would have to be written anew, or to end in rows that do not fit, whenever a run
 * logs a key that it has not had before.  This one only grows. */
#include <config.h>

#include "lib/track/kinds.h"
#include "lib/track/log_file.h"

#include "lib/base/error.h"
#include "util/cleanup.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static enum accel_status
start (void *user, const struct accel_tracker_run *run, struct accel_error *err)
{
    struct log_file *file = user;
    AUTO_FREE char *folder = log_folder (run);
    file->header = "step,time,key,value\n";
    return folder ? log_file_open (file, folder, "metrics.csv", true, err) : accel_fail_nomem (err);
}

/* RFC 4180: quotes around what contains a comma, a quote or the end of a line. */
static void
add_text (struct strbuf *out, const char *text)
{
    if (!text[strcspn (text, ",\"\r\n")]) {
        strbuf_add (out, text);
        return;
    }
    strbuf_add_char (out, '"');
    for (; *text; text++)
        strbuf_add (out, *text == '"' ? "\"\"" : (char[]){ *text, '\0' });
    strbuf_add_char (out, '"');
}

/* @param step  "" of a configuration */
static enum accel_status
add_rows (struct log_file *file, const char *step, double time, const struct accel_value *values, size_t count,
          struct accel_error *err)
{
    struct strbuf *out = &file->left;
    size_t mark = out->length;
    for (size_t i = 0; i < count; i++) {
        if (values[i].kind != ACCEL_NUMBER && values[i].kind != ACCEL_TEXT) {
            log_warn_unable ("csv", &values[i]);
            continue;
        }
        strbuf_add (out, step);
        strbuf_add_char (out, ',');
        if (time > 0)
            log_add_number (out, time);
        strbuf_add_char (out, ',');
        add_text (out, values[i].key);
        strbuf_add_char (out, ',');
        if (values[i].kind == ACCEL_NUMBER)
            log_add_number (out, values[i].number);
        else
            add_text (out, values[i].text);
        strbuf_add_char (out, '\n');
    }
    return log_file_add (file, mark, err);
}

static enum accel_status
store_config (void *user, const struct accel_value *values, size_t count, struct accel_error *err)
{
    return add_rows (user, "", 0, values, count, err);
}

static enum accel_status
log_row (void *user, const struct accel_value *values, size_t count, int64_t step, double time,
         struct accel_error *err)
{
    char text[24];
    snprintf (text, sizeof text, "%" PRId64, step);
    return add_rows (user, text, time, values, count, err);
}

static enum accel_status
create (struct accel_tracker_calls *calls, struct accel_error *err)
{
    calls->start = start;
    calls->store_init_configuration = store_config;
    calls->log = log_row;
    return log_file_create (calls, sizeof (struct log_file), err);
}

const struct tracker_kind tracker_csv = { .name = "csv", .requires_logging_dir = true, .create = create };
