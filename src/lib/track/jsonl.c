/* SPDX-License-Identifier: Apache-2.0 */
/* Tracker jsonl: LOGGING_DIR/PROJECT[/RUN]/metrics.jsonl with an object for each call:
 *
 *   {"config":{"lr":0.001,"model":"mlp"}}
 *   {"step":10,"time":1764345600.25,"values":{"loss":0.5}}
 *
 * JSON has no infinities and no NaN: these are the strings "Infinity", "-Infinity" and "NaN".  An image is
 * {"png":"..."}, a file in base64. */
#include <config.h>

#include "lib/track/histogram.h"
#include "lib/track/kinds.h"
#include "lib/track/log_file.h"
#include "lib/track/png.h"

#include "lib/base/error.h"
#include "util/base64.h"
#include "util/cleanup.h"
#include "util/utf8.h"

#include <accel/utility.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MOST_IMAGE = 4000000 /* bytes of a file; larger ones would make lines that are slow to read */ };

static enum accel_status
start (void *user, const struct accel_tracker_run *run, struct accel_error *err)
{
    AUTO_FREE char *folder = log_folder (run);
    return folder ? log_file_open (user, folder, "metrics.jsonl", true, err) : accel_fail_nomem (err);
}

/* Bytes that are not UTF-8 are shown as characters of Latin-1. */
static void
add_string (struct strbuf *out, const char *text)
{
    if (utf8_is_valid (text, strlen (text)))
        quote_utf8 (out, text);
    else
        quote_ascii (out, text);
}

static void
add_number (struct strbuf *out, double number)
{
    if (isfinite (number))
        log_add_number (out, number);
    else
        strbuf_add (out, isnan (number) ? "\"NaN\"" : number > 0 ? "\"Infinity\"" : "\"-Infinity\"");
}

static void
add_histogram (struct strbuf *out, const struct accel_value *value)
{
    struct histogram histogram;
    histogram_make (&histogram, value);
    strbuf_printf (out, "{\"count\":%" PRIu64 ",\"min\":", histogram.count);
    add_number (out, histogram.min);
    strbuf_add (out, ",\"max\":");
    add_number (out, histogram.max);
    strbuf_add (out, ",\"sum\":");
    add_number (out, histogram.sum);
    strbuf_add (out, ",\"bins\":[");
    for (int i = 0; i < HISTOGRAM_BINS; i++)
        strbuf_printf (out, "%s%" PRIu64, i ? "," : "", histogram.bins[i]);
    strbuf_add (out, "]}");
}

/* @param[out] made  where a file is made of pixels  @return the file; NULL: it is left out, with a warning */
static const void *
file_of (const struct accel_value *image, struct strbuf *made, size_t *length)
{
    if (image->channels)
        png_add (made, image);
    *length = image->channels ? made->length : image->count;
    if (*length <= MOST_IMAGE)
        return image->channels ? made->text : image->data;
    accel_logger_log (NULL, ACCEL_LOG_WARNING | ACCEL_LOG_ONCE, "tracker jsonl writes images of at most %d MB: '%s' is "
                      "left out", MOST_IMAGE / 1000000, image->key);
    return NULL;
}

/* @return whether it was added */
static bool
add_image (struct strbuf *out, const struct accel_value *value, const char *between)
{
    AUTO_STRBUF struct strbuf made = { 0 };
    size_t length;
    const void *file = file_of (value, &made, &length);
    out->failed = out->failed || made.failed;
    if (!file)
        return false;
    strbuf_add (out, between);
    add_string (out, value->key);
    strbuf_add (out, ":{\"png\":\"");
    base64_add (out, file, length);
    strbuf_add (out, "\"}");
    return true;
}

static void
add_values (struct strbuf *out, const struct accel_value *values, size_t count)
{
    const char *between = "{";
    for (size_t i = 0; i < count; i++) {
        if (values[i].kind == ACCEL_IMAGE) {
            between = add_image (out, &values[i], between) ? "," : between;
            continue;
        }
        strbuf_add (out, between);
        add_string (out, values[i].key);
        strbuf_add_char (out, ':');
        if (values[i].kind == ACCEL_NUMBER)
            add_number (out, values[i].number);
        else if (values[i].kind == ACCEL_TEXT)
            add_string (out, values[i].text);
        else
            add_histogram (out, &values[i]);
        between = ",";
    }
    strbuf_add (out, *between == '{' ? "{}" : "}");
    strbuf_add (out, "}\n");
}

static enum accel_status
store_config (void *user, const struct accel_value *values, size_t count, struct accel_error *err)
{
    struct log_file *file = user;
    size_t mark = file->left.length;
    strbuf_add (&file->left, "{\"config\":");
    add_values (&file->left, values, count);
    return log_file_add (file, mark, err);
}

static enum accel_status
log_object (void *user, const struct accel_value *values, size_t count, int64_t step, double time,
            struct accel_error *err)
{
    struct log_file *file = user;
    size_t mark = file->left.length;
    strbuf_printf (&file->left, "{\"step\":%" PRId64 ",\"time\":", step);
    log_add_number (&file->left, time);
    strbuf_add (&file->left, ",\"values\":");
    add_values (&file->left, values, count);
    return log_file_add (file, mark, err);
}

static enum accel_status
create (struct accel_tracker_calls *calls, struct accel_error *err)
{
    calls->start = start;
    calls->store_init_configuration = store_config;
    calls->log = log_object;
    return log_file_create (calls, sizeof (struct log_file), err);
}

const struct tracker_kind tracker_jsonl = { .name = "jsonl", .requires_logging_dir = true, .create = create };
