/* SPDX-License-Identifier: Apache-2.0 */
/* How a model is divided into files; see shards.h. */
#include <config.h>

#include "files/shards.h"

#include "files/error.h"
#include "util/parse.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool
is_blank (char c)
{
    return c == ' ' || c == '\t' || c == '\n';
}

/* As a double, like Python; what is larger than any file counts as that. */
static bool
multiply (const char *number, double unit, uint64_t *bytes)
{
    double value;
    if (parse_double (number, 0, 1e300, &value) != PARSE_OK)
        return false;
    value *= unit;
    *bytes = value < (double) INT64_MAX ? (uint64_t) value : INT64_MAX;
    return true;
}

enum accel_status
shards_parse_size (const char *text, uint64_t *bytes, struct accel_error *err)
{
    static const struct {
        char name[3];
        double bytes;
    } units[] = { { "TB", 1e12 }, { "GB", 1e9 }, { "MB", 1e6 }, { "KB", 1e3 } };
    char number[64];
    size_t length;
    const char *at = text;
    while (is_blank (*at))
        at++;
    for (length = strlen (at); length && is_blank (at[length - 1]); length--)
        ;
    int64_t plain;
    for (size_t i = 0; i < sizeof units / sizeof *units && length > 2 && length < sizeof number; i++)
        if (!strncasecmp (at + length - 2, units[i].name, 2)) {
            for (length -= 2; length && is_blank (at[length - 1]); length--)
                ;
            snprintf (number, sizeof number, "%.*s", (int) length, at);
            if (multiply (number, units[i].bytes, bytes))
                return ACCEL_OK;
            break;
        }
    if (parse_int64 (text, 0, INT64_MAX, &plain) == PARSE_OK) {
        *bytes = (uint64_t) plain;
        return ACCEL_OK;
    }
    return accel_fail (err, ACCEL_ERR_INVALID,
                       "invalid value for 'max_shard_size': '%.80s'; expected a size such as 5GB (units: TB, GB, MB, "
                       "KB), or a number of bytes", text);
}

size_t
shards_split (const uint64_t *bytes, size_t count, uint64_t most, size_t *shard_of)
{
    size_t closed = 0, open_count = 0, open_first = 0;
    uint64_t open_bytes = 0;
    /* A closed file's number is known at once.  The open one's is not: files of one large tensor come before it. */
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] > most) {
            shard_of[i] = closed++;
            continue;
        }
        if (open_count && bytes[i] > most - open_bytes) {
            for (size_t j = open_first; j < i; j++)
                if (shard_of[j] == SIZE_MAX)
                    shard_of[j] = closed;
            closed++;
            open_count = 0;
            open_bytes = 0;
        }
        if (!open_count)
            open_first = i;
        shard_of[i] = SIZE_MAX;
        open_bytes += bytes[i];
        open_count++;
    }
    for (size_t i = open_first; i < count && open_count; i++)
        if (shard_of[i] == SIZE_MAX)
            shard_of[i] = closed;
    return closed + (open_count > 0);
}

const char *
shards_name (char name[SHARDS_NAME_SIZE], size_t shard, size_t count)
{
    if (count == 1)
        snprintf (name, SHARDS_NAME_SIZE, "model.safetensors");
    else
        snprintf (name, SHARDS_NAME_SIZE, "model-%05zu-of-%05zu.safetensors", shard + 1, count);
    return name;
}

bool
shards_is_name (const char *name)
{
    static const char pattern[] = "model-#####-of-#####.safetensors";
    for (size_t i = 0; i < sizeof pattern; i++)
        if (pattern[i] == '#' ? name[i] < '0' || name[i] > '9' : name[i] != pattern[i])
            return false;
    return true;
}
