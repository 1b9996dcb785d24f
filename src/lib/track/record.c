/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of values; see record.h. */
#include <config.h>

#include "lib/track/record.h"

#include "lib/base/error.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_PIXELS = 1 << 28, MOST_DATA = 1 << 30 /* bytes */ };

size_t
record_data_bytes (const struct accel_value *value)
{
    if (value->kind == ACCEL_HISTOGRAM)
        return value->count * sizeof (float);
    if (value->kind == ACCEL_IMAGE)
        return value->channels ? (size_t) value->width * value->height * value->channels : value->count;
    return 0;
}

static const char *
find_fault (const struct accel_value *value)
{
    switch (value->kind) {
    case ACCEL_NUMBER:
        return NULL;
    case ACCEL_TEXT:
        return value->text ? NULL : "has no text";
    case ACCEL_HISTOGRAM:
        return value->count > MOST_DATA / sizeof (float) ? "has too many samples"
               : !value->data && value->count            ? "has no data"
                                                         : NULL;
    case ACCEL_IMAGE:
        if (!value->data)
            return "has no data";
        if (!value->channels)
            return !value->count || value->count > MOST_DATA ? "is not a file in PNG" : NULL;
        if (value->channels != 1 && value->channels != 3 && value->channels != 4)
            return "must have 1, 3 or 4 channels";
        return !value->width || !value->height || value->width > MOST_PIXELS / value->height ? "has an invalid size"
                                                                                            : NULL;
    }
    return "has an invalid kind";
}

enum accel_status
record_check (const char *function, const struct accel_value *values, size_t count, struct accel_error *err)
{
    if (count && !values)
        return accel_fail_null (err, function, "values");
    for (size_t i = 0; i < count; i++) {
        if (!values[i].key || !*values[i].key)
            return accel_fail (err, ACCEL_ERR_INVALID, "%s: value %zu has no key", function, i);
        const char *fault = find_fault (&values[i]);
        if (fault)
            return accel_fail (err, ACCEL_ERR_INVALID, "%s: value '%.100s' %s", function, values[i].key, fault);
    }
    return ACCEL_OK;
}

static char *
copy_bytes (char **at, const void *from, size_t length)
{
    char *to = *at;
    if (length)
        memcpy (to, from, length);
    *at += length;
    return to;
}

/* Samples first, which have to be aligned. */
static void
copy_values (struct accel_value *to, const struct accel_value *from, size_t count, char **data, char **text)
{
    for (size_t i = 0; i < count; i++) {
        to[i] = from[i];
        size_t length = record_data_bytes (&from[i]);
        to[i].data = length ? copy_bytes (data, from[i].data, length) : NULL;
        *data += -length % sizeof (float);
        to[i].key = copy_bytes (text, from[i].key, strlen (from[i].key) + 1);
        to[i].text = from[i].kind == ACCEL_TEXT ? copy_bytes (text, from[i].text, strlen (from[i].text) + 1) : NULL;
    }
}

static void
add_sizes (const struct accel_value *values, size_t count, size_t *data, size_t *text)
{
    for (size_t i = 0; i < count; i++) {
        size_t length = record_data_bytes (&values[i]);
        *data += length + -length % sizeof (float);
        *text += strlen (values[i].key) + 1 + (values[i].kind == ACCEL_TEXT ? strlen (values[i].text) + 1 : 0);
    }
}

struct record *
record_make (const struct accel_value *values, size_t count, const struct accel_value *more, size_t more_count)
{
    size_t data_bytes = 0, text_bytes = 0, head = sizeof (struct record) + (count + more_count) * sizeof *values;
    add_sizes (values, count, &data_bytes, &text_bytes);
    add_sizes (more, more_count, &data_bytes, &text_bytes);
    struct record *made = malloc (head + data_bytes + text_bytes);
    if (!made)
        return NULL;
    char *data = (char *) made + head, *text = data + data_bytes;
    *made = (struct record){ .bytes = head + data_bytes + text_bytes, .count = count + more_count };
    copy_values (made->values, values, count, &data, &text);
    copy_values (made->values + count, more, more_count, &data, &text);
    return made;
}
