/* SPDX-License-Identifier: Apache-2.0 */
/* Tracker tensorboard: LOGGING_DIR/PROJECT[/RUN]/events.out.tfevents.*, records with messages of TensorBoard's
 * event.proto, each with its length and two checksums.  A reader stops at a record that is not whole, and reads on when
 * it is. */
#include <config.h>

#include "lib/track/crc32c.h"
#include "lib/track/histogram.h"
#include "lib/track/kinds.h"
#include "lib/track/log_file.h"
#include "lib/track/png.h"
#include "lib/track/protobuf.h"

#include "lib/base/error.h"
#include "util/cleanup.h"
#include "util/io.h"
#include "util/text.h"
#include "util/utf8.h"

#include <dirent.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { HEAD = 12 /* bytes of a record before its data */, MOST_HOST = 64, DT_STRING = 7, SESSION_START = 1 };

/* Fields of the messages. */
enum event { EVENT_TIME = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_SUMMARY = 5, EVENT_SESSION = 7 };
enum value { VALUE_TAG = 1, VALUE_NUMBER = 2, VALUE_IMAGE = 4, VALUE_HISTOGRAM = 5, VALUE_TENSOR = 8,
             VALUE_METADATA = 9 };

struct tensorboard {
    struct log_file file;
    bool continues; /* there are files of former runs, and nothing was logged yet */
};

/* ---- records ---- */

static uint32_t
masked (const void *bytes, size_t length)
{
    uint32_t crc = crc32c (bytes, length);
    return (crc >> 15 | crc << 17) + UINT32_C (0xa282ead8);
}

/* @return where the record begins, for end_event() */
static size_t
begin_event (struct strbuf *out, double time, int64_t step)
{
    static const char none[HEAD];
    size_t begin = out->length;
    strbuf_add_bytes (out, none, HEAD);
    pb_double (out, EVENT_TIME, time);
    pb_int (out, EVENT_STEP, step);
    return begin;
}

static void
end_event (struct strbuf *out, size_t begin)
{
    if (out->failed)
        return;
    size_t length = out->length - begin - HEAD;
    unsigned char *head = (unsigned char *) out->text + begin;
    for (int i = 0; i < 8; i++)
        head[i] = (unsigned char) ((uint64_t) length >> 8 * i);
    uint32_t crc = masked (head, 8);
    for (int i = 0; i < 4; i++)
        head[8 + i] = (unsigned char) (crc >> 8 * i);
    pb_little (out, masked (head + HEAD, length), 4);
}

/* ---- values ---- */

static void
add_metadata (struct strbuf *out, const char *plugin, const struct strbuf *content)
{
    size_t metadata = pb_begin (out, VALUE_METADATA), data = pb_begin (out, 1);
    pb_text (out, 1, plugin);
    if (content)
        pb_bytes (out, 2, content->text, content->length);
    pb_end (out, data);
    pb_end (out, metadata);
}

/* Of one dimension and one string, as PyTorch's SummaryWriter does. */
static void
add_text (struct strbuf *out, const char *text)
{
    size_t tensor = pb_begin (out, VALUE_TENSOR);
    pb_int (out, 1, DT_STRING);
    size_t shape = pb_begin (out, 2), dim = pb_begin (out, 2);
    pb_int (out, 1, 1);
    pb_end (out, dim);
    pb_end (out, shape);
    pb_text (out, 8, text);
    pb_end (out, tensor);
    add_metadata (out, "text", NULL);
}

static void
add_image (struct strbuf *out, const struct accel_value *value)
{
    struct accel_value image = *value;
    if (!image.channels && !png_read_size (value, &image.width, &image.height))
        image.width = image.height = 0;
    size_t message = pb_begin (out, VALUE_IMAGE);
    pb_int (out, 1, image.height);
    pb_int (out, 2, image.width);
    pb_int (out, 3, value->channels ? value->channels : 3);
    if (value->channels) {
        size_t file = pb_begin (out, 4);
        png_add (out, value);
        pb_end (out, file);
    } else
        pb_bytes (out, 4, value->data, value->count);
    pb_end (out, message);
}

static void
add_doubles (struct strbuf *out, unsigned field, const struct histogram *histogram,
             double (*of) (const struct histogram *histogram, int bin))
{
    size_t list = pb_begin (out, field);
    for (int i = 0; i < HISTOGRAM_BINS; i++) {
        double number = of (histogram, i);
        uint64_t bits;
        memcpy (&bits, &number, sizeof bits);
        pb_little (out, bits, 8);
    }
    pb_end (out, list);
}

static double
count_of_bin (const struct histogram *histogram, int bin)
{
    return (double) histogram->bins[bin];
}

static void
add_histogram (struct strbuf *out, const struct accel_value *value)
{
    struct histogram histogram;
    histogram_make (&histogram, value);
    size_t message = pb_begin (out, VALUE_HISTOGRAM);
    pb_double (out, 1, histogram.min);
    pb_double (out, 2, histogram.max);
    pb_double (out, 3, (double) histogram.count);
    pb_double (out, 4, histogram.sum);
    pb_double (out, 5, histogram.sum_squares);
    add_doubles (out, 6, &histogram, histogram_limit);
    add_doubles (out, 7, &histogram, count_of_bin);
    pb_end (out, message);
}

static void
add_value (struct strbuf *out, const struct accel_value *value)
{
    size_t message = pb_begin (out, 1);
    if (value->kind == ACCEL_TEXT) { /* PyTorch's name for it, too */
        size_t tag = pb_begin (out, VALUE_TAG);
        strbuf_add (out, value->key);
        strbuf_add (out, "/text_summary");
        pb_end (out, tag);
    } else
        pb_text (out, VALUE_TAG, value->key);
    switch (value->kind) {
    case ACCEL_NUMBER: pb_one_float (out, VALUE_NUMBER, (float) value->number); break;
    case ACCEL_TEXT: add_text (out, value->text); break;
    case ACCEL_IMAGE: add_image (out, value); break;
    case ACCEL_HISTOGRAM: add_histogram (out, value); break;
    }
    pb_end (out, message);
}

static enum accel_status
log_values (void *user, const struct accel_value *values, size_t count, int64_t step, double time,
            struct accel_error *err)
{
    struct tensorboard *its = user;
    struct strbuf *out = &its->file.left;
    size_t mark = out->length, event;
    if (its->continues) { /* what earlier files have from this step on was thrown away */
        event = begin_event (out, time, step);
        size_t session = pb_begin (out, EVENT_SESSION);
        pb_int (out, 1, SESSION_START);
        pb_end (out, session);
        end_event (out, event);
    }
    event = begin_event (out, time, step);
    size_t summary = pb_begin (out, EVENT_SUMMARY);
    for (size_t i = 0; i < count; i++)
        add_value (out, &values[i]);
    pb_end (out, summary);
    end_event (out, event);
    enum accel_status status = log_file_add (&its->file, mark, err);
    its->continues = its->continues && status;
    return status;
}

/* ---- the configuration ---- */

/* A word that YAML reads as nothing but a string. */
static bool
is_plain (const char *text)
{
    static const char *const others[] = { "true", "false", "yes", "no", "on", "off", "null", "y", "n", NULL };
    static const char letters[] = "0123456789_-./abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    enum { NOT_FIRST = 14 };
    AUTO_FREE char *lower = strdup (text);
    for (char *at = lower; at && *at; at++)
        *at = (char) (*at >= 'A' && *at <= 'Z' ? *at + 'a' - 'A' : *at);
    return lower && *text && strchr (letters + NOT_FIRST, *text) && !text[strspn (text, letters)]
           && !text_is_one_of (lower, others);
}

static void
add_yaml_text (struct strbuf *out, const char *text)
{
    if (is_plain (text))
        strbuf_add (out, text);
    else
        quote_ascii (out, text);
}

/* YAML 1.1 knows floats with an exponent by their point. */
static void
add_yaml_number (struct strbuf *out, double number)
{
    size_t mark = out->length;
    if (!isfinite (number))
        strbuf_add (out, isnan (number) ? ".nan" : number > 0 ? ".inf" : "-.inf");
    else
        log_add_number (out, number);
    const char *exponent = out->failed ? NULL : strchr (out->text + mark, 'e');
    if (exponent && !strchr (out->text + mark, '.')) {
        AUTO_FREE char *rest = strdup (exponent);
        strbuf_truncate (out, (size_t) (exponent - out->text));
        strbuf_printf (out, ".0%s", rest ? rest : "");
    }
}

static void
add_yaml (struct strbuf *out, const struct accel_value *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (values[i].kind != ACCEL_NUMBER && values[i].kind != ACCEL_TEXT)
            continue;
        add_yaml_text (out, values[i].key);
        strbuf_add (out, ": ");
        if (values[i].kind == ACCEL_NUMBER)
            add_yaml_number (out, values[i].number);
        else
            add_yaml_text (out, values[i].text);
        strbuf_add_char (out, '\n');
    }
}

/* What the HParams page shows: tensorboard/plugins/hparams/plugin_data.proto. */
static void
add_hparams (struct strbuf *out, const struct accel_value *values, size_t count, double time)
{
    AUTO_STRBUF struct strbuf content = { 0 };
    size_t start = pb_begin (&content, 3); /* session_start_info */
    for (size_t i = 0; i < count; i++) {
        size_t pair = pb_begin (&content, 1);
        pb_text (&content, 1, values[i].key);
        size_t value = pb_begin (&content, 2); /* google.protobuf.Value */
        if (values[i].kind == ACCEL_NUMBER)
            pb_one_double (&content, 2, values[i].number);
        else
            pb_text (&content, 3, values[i].kind == ACCEL_TEXT ? values[i].text : "");
        pb_end (&content, value);
        pb_end (&content, pair);
    }
    pb_double (&content, 5, time);
    pb_end (&content, start);
    out->failed = out->failed || content.failed;
    size_t event = begin_event (out, time, 0), summary = pb_begin (out, EVENT_SUMMARY), value = pb_begin (out, 1);
    pb_text (out, VALUE_TAG, "_hparams_/session_start_info");
    if (!content.failed)
        add_metadata (out, "hparams", &content);
    pb_end (out, value);
    pb_end (out, summary);
    end_event (out, event);
}

/* Accelerate's hparams.yml, in a folder that is called by the time. */
static enum accel_status
write_yaml (const struct tensorboard *its, const struct strbuf *text, time_t now, struct accel_error *err)
{
    struct fail fail;
    int folder = (int) (strrchr (its->file.path, '/') - its->file.path);
    AUTO_FREE char *path = text_printf ("%.*s/%lld/hparams.yml", folder, its->file.path, (long long) now);
    if (!path || text->failed)
        return accel_fail_nomem (err);
    if (io_make_parents (path, &fail) || io_write_file (path, text->text, text->length, 0666, &fail))
        return accel_fail (err, ACCEL_ERR_SYSTEM, "%.400s", fail.text);
    return ACCEL_OK;
}

static enum accel_status
store_config (void *user, const struct accel_value *values, size_t count, struct accel_error *err)
{
    struct tensorboard *its = user;
    AUTO_STRBUF struct strbuf yaml = { 0 }, text = { 0 };
    time_t now = time (NULL);
    add_yaml (&yaml, values, count);
    enum accel_status status = write_yaml (its, &yaml, now, err);
    if (status)
        return status;
    strbuf_printf (&text, "```\n%s```\n", yaml.text ? yaml.text : ""); /* TensorBoard shows Markdown */
    if (text.failed)
        return accel_fail_nomem (err);
    size_t mark = its->file.left.length, event = begin_event (&its->file.left, (double) now, 0);
    size_t summary = pb_begin (&its->file.left, EVENT_SUMMARY);
    add_value (&its->file.left, &(struct accel_value){ .key = "config", .kind = ACCEL_TEXT, .text = text.text });
    pb_end (&its->file.left, summary);
    end_event (&its->file.left, event);
    add_hparams (&its->file.left, values, count, (double) now);
    return log_file_add (&its->file, mark, err);
}

/* ---- the file ---- */

static bool
has_events (const char *folder)
{
    DIR *dir = opendir (folder);
    bool found = false;
    for (const struct dirent *entry; dir && !found && (entry = readdir (dir));)
        found = strstr (entry->d_name, "tfevents") != NULL;
    if (dir)
        closedir (dir);
    return found;
}

static enum accel_status
start (void *user, const struct accel_tracker_run *run, struct accel_error *err)
{
    static atomic_uint files; /* of this process */
    struct tensorboard *its = user;
    char host[MOST_HOST + 1] = "";
    time_t now = time (NULL);
    gethostname (host, MOST_HOST);
    AUTO_FREE char *folder = log_folder (run);
    AUTO_FREE char *name = text_printf ("events.out.tfevents.%010lld.%s.%d.%u", (long long) now, host, (int) getpid (),
                                        atomic_fetch_add (&files, 1));
    if (!folder || !name)
        return accel_fail_nomem (err);
    its->continues = has_events (folder);
    enum accel_status status = log_file_open (&its->file, folder, name, false, err);
    size_t event = begin_event (&its->file.left, (double) now, 0);
    pb_text (&its->file.left, EVENT_VERSION, "brain.Event:2");
    end_event (&its->file.left, event);
    return status ? status : log_file_add (&its->file, 0, err);
}

static enum accel_status
create (struct accel_tracker_calls *calls, struct accel_error *err)
{
    calls->start = start;
    calls->store_init_configuration = store_config;
    calls->log = log_values;
    return log_file_create (calls, sizeof (struct tensorboard), err);
}

const struct tracker_kind tracker_tensorboard = { .name = "tensorboard", .requires_logging_dir = true,
                                                  .create = create };
