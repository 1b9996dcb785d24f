/* SPDX-License-Identifier: Apache-2.0 */
/* Reading metrics.jsonl; see metrics.h. */
#include <config.h>

#include "report/metrics.h"

#include "report/lines.h"
#include "report/png.h"
#include "util/array.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct series *
metrics_find (const struct metrics *metrics, const char *key)
{
    for (size_t i = 0; i < metrics->count; i++)
        if (!strcmp (metrics->series[i].key, key))
            return &metrics->series[i];
    return NULL;
}

/* Most records have the keys of the one before, in the same order.  @return -1 with *out of NULL: no memory */
static int
find_series (struct metrics *metrics, const char *key, struct series **out)
{
    *out = NULL;
    for (size_t tried = 0; tried < metrics->count; tried++) {
        size_t place = (metrics->hint + tried) % metrics->count;
        if (!strcmp (metrics->series[place].key, key)) {
            metrics->hint = place + 1;
            *out = &metrics->series[place];
            return 0;
        }
    }
    if (metrics->count == METRICS_KEYS) {
        metrics->keys_left++;
        return 0;
    }
    struct series *made = array_room (&metrics->series, metrics->count, sizeof *made);
    char *copy = made ? strdup (key) : NULL;
    if (!copy)
        return -1;
    *made = (struct series){ .key = copy };
    metrics->hint = ++metrics->count;
    *out = made;
    return 0;
}

static int
add_number (struct metrics *metrics, const char *key, int64_t step, double value)
{
    struct series *series;
    if (find_series (metrics, key, &series))
        return -1;
    return series && !series_add (series, (struct point){ step, value }) ? -1 : 0;
}

static int
add_text (struct metrics *metrics, const char *key, int64_t step, const char *text)
{
    if (metrics->text_count == METRICS_TEXTS) {
        metrics->texts_left++;
        return 0;
    }
    struct metrics_text *made = array_room (&metrics->texts, metrics->text_count, sizeof *made);
    if (!made)
        return -1;
    *made = (struct metrics_text){ step, strdup (key), strdup (text) };
    metrics->text_count++;
    return made->key && made->text ? 0 : -1;
}

/* The tracker writes what JSON does not have as a string. */
static int
add_string (struct metrics *metrics, const char *key, int64_t step, const char *text)
{
    static const struct {
        const char *text;
        double value;
    } numbers[] = { { "NaN", NAN }, { "Infinity", INFINITY }, { "-Infinity", -INFINITY } };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!strcmp (text, numbers[i].text))
            return add_number (metrics, key, step, numbers[i].value);
    return add_text (metrics, key, step, text);
}

/* @return whether @p object is a histogram */
static bool
read_histogram (const json_t *object, struct histogram *histogram)
{
    const json_t *min = json_object_get (object, "min"), *max = json_object_get (object, "max");
    const json_t *bins = json_object_get (object, "bins");
    double sum = json_number_value (json_object_get (object, "sum"));
    *histogram = (struct histogram){ .min = json_number_value (min), .max = json_number_value (max),
                                     .bin_count = json_array_size (bins) };
    bool is_valid = json_is_number (min) && json_is_number (max) && histogram->min <= histogram->max
                    && isfinite (histogram->max - histogram->min) && histogram->bin_count
                    && histogram->bin_count <= SNAPSHOT_BINS;
    for (size_t i = 0; is_valid && i < histogram->bin_count; i++) {
        double samples = json_number_value (json_array_get (bins, i));
        is_valid = json_is_number (json_array_get (bins, i)) && samples >= 0 && samples <= 1e15;
        histogram->bins[i] = (float) samples;
        histogram->count += samples;
    }
    double mean = sum / histogram->count;
    histogram->mean = isfinite (mean) ? fmin (fmax (mean, histogram->min), histogram->max) : NAN;
    return is_valid;
}

static int
add_histogram (struct metrics *metrics, const char *key, int64_t step, const struct histogram *histogram)
{
    struct histogram *copy = malloc (sizeof *copy);
    if (!copy)
        return -1;
    *copy = *histogram;
    const struct snapshot snapshot = { .step = step, .histogram = copy };
    return snapshots_add (&metrics->histograms, key, HISTOGRAMS_KEPT, snapshot) ? 0 : -1;
}

static int
add_image (struct metrics *metrics, const char *key, int64_t step, const json_t *png)
{
    struct snapshot snapshot = { .step = step };
    if (!png_is_valid (json_string_value (png), json_string_length (png), &snapshot.width, &snapshot.height)) {
        metrics->images_bad++;
        return 0;
    }
    snapshot.png = strdup (json_string_value (png));
    return snapshot.png && snapshots_add (&metrics->images, key, IMAGES_KEPT, snapshot) ? 0 : -1;
}

static int
add_object (struct metrics *metrics, const char *key, int64_t step, const json_t *object)
{
    struct histogram histogram;
    const json_t *png = json_object_get (object, "png");
    if (json_is_string (png))
        return add_image (metrics, key, step, png);
    if (read_histogram (object, &histogram))
        return add_histogram (metrics, key, step, &histogram);
    metrics->values_bad++;
    return 0;
}

static int
add_values (struct metrics *metrics, int64_t step, const json_t *values)
{
    const char *key;
    json_t *value;
    int result = 0;
    json_object_foreach ((json_t *) (uintptr_t) values, key, value) {
        if (json_is_number (value))
            result = add_number (metrics, key, step, json_number_value (value));
        else if (json_is_boolean (value))
            result = add_number (metrics, key, step, json_is_true (value));
        else if (json_is_string (value))
            result = add_string (metrics, key, step, json_string_value (value));
        else
            result = add_object (metrics, key, step, value);
        if (result)
            return -1;
    }
    return 0;
}

/* @param[out] is_valid  whether it is a record  @return -1: no memory */
static int
add_record (struct metrics *metrics, const json_t *record, bool *is_valid)
{
    json_t *config = json_object_get (record, "config"), *values = json_object_get (record, "values");
    const json_t *step = json_object_get (record, "step");
    *is_valid = true;
    if (json_is_object (config)) {
        json_decref (metrics->config);
        metrics->config = json_incref (config);
        metrics->starts++;
        return 0;
    }
    *is_valid = json_is_object (values) && json_is_integer (step);
    if (!*is_valid)
        return 0;
    double time = json_number_value (json_object_get (record, "time"));
    if (isfinite (time) && time > 0) {
        metrics->begin_s = metrics->begin_s > 0 ? metrics->begin_s : time;
        metrics->end_s = time;
    }
    metrics->records++;
    return add_values (metrics, json_integer_value (step), values);
}

static void
skip_line (struct metrics *metrics, uint64_t number)
{
    if (!metrics->skipped++)
        metrics->first_skipped = number;
}

int
metrics_read (struct metrics *metrics, const char *path, struct fail *fail)
{
    struct lines lines;
    char *line;
    size_t length;
    int got;
    *metrics = (struct metrics){ 0 };
    if (lines_open (&lines, path, fail))
        return -1;
    while ((got = lines_next (&lines, &line, &length, fail)) > 0) {
        bool is_valid = false;
        json_t *record = length ? json_loadb (line, length, 0, NULL) : NULL;
        if (record && add_record (metrics, record, &is_valid))
            got = fail_nomem (fail);
        json_decref (record);
        if (got < 0)
            break;
        if (!is_valid && (length || lines.is_too_long))
            skip_line (metrics, lines.number);
    }
    lines_close (&lines);
    return got;
}

void
metrics_release (struct metrics *metrics)
{
    for (size_t i = 0; i < metrics->count; i++)
        series_release (&metrics->series[i]);
    for (size_t i = 0; i < metrics->text_count; i++) {
        free (metrics->texts[i].key);
        free (metrics->texts[i].text);
    }
    snapshots_release (&metrics->histograms);
    snapshots_release (&metrics->images);
    free (metrics->series);
    free (metrics->texts);
    json_decref (metrics->config);
    *metrics = (struct metrics){ 0 };
}
