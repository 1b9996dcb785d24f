/* SPDX-License-Identifier: Apache-2.0 */
/* estimate-memory: GGUF files, of which one model may have several; see gguf.h. */
#include <config.h>

#include "cli/estimate/gguf.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

bool
gguf_part_name (const char *name, unsigned part, struct strbuf *out, unsigned *count)
{
    static const char form[] = "-00000-of-00000.gguf"; /* '0' is any digit */
    enum { ENDING = sizeof form - 1, COUNT_AT = 10 };
    size_t length = strlen (name), same = 0;
    const char *ending = length > ENDING ? name + length - ENDING : "";
    while (ending[same] && (form[same] == '0' ? isdigit ((unsigned char) ending[same]) : ending[same] == form[same]))
        same++;
    *count = same == ENDING ? (unsigned) strtoul (ending + COUNT_AT, NULL, 10) : 1;
    if (same != ENDING || !*count || *count > GGUF_MOST_PARTS) {
        *count = 1;
        strbuf_add (out, name);
        return !out->failed;
    }
    strbuf_add_bytes (out, name, length - ENDING);
    strbuf_printf (out, "-%05u-of-%05u.gguf", part + 1, *count);
    return !out->failed;
}

/* What a file says of itself, and what it is called. */
static int
check_part (const struct gguf_parts *parts, const struct gguf *gguf, const char *shown, struct fail *fail)
{
    unsigned long long number = gguf->split_number + 1, count = gguf->split_count;
    if (count <= 1 && parts->count == 1)
        return 0;
    if (parts->count == 1)
        return fail_set (fail, FAIL_GENERAL, "%s: is part %llu of %llu of a model: the parts must be called "
                         "NAME-00001-of-%05llu.gguf and so on", shown, number, count, count);
    if (!count)
        return fail_set (fail, FAIL_GENERAL, "%s: is called part %u of %u, but its metadata do not say that it is a "
                         "part of a model", shown, parts->part + 1, parts->count);
    if (count != parts->count || number != parts->part + 1)
        return fail_set (fail, FAIL_GENERAL, "%s: is called part %u of %u, but its metadata say part %llu of %llu",
                         shown, parts->part + 1, parts->count, number, count);
    return 0;
}

int
gguf_add (struct estimate_model *model, struct gguf_parts *parts, const char *shown, const struct strbuf *header,
          uint64_t size, bool *is_short, struct fail *fail)
{
    struct accel_error err = { 0 };
    struct gguf gguf;
    int result;
    if (gguf_parse (&gguf, header->text ? header->text : "", header->length, is_short, &err))
        result = fail_set (fail, FAIL_GENERAL, "%s: %s", shown, err.text);
    else if (gguf.end > size)
        result = fail_set (fail, FAIL_GENERAL, "%s: the file has %llu bytes, but its header describes %llu", shown,
                           (unsigned long long) size, (unsigned long long) gguf.end);
    else
        result = check_part (parts, &gguf, shown, fail) || estimate_add_gguf (model, &gguf, fail) ? -1 : 0;
    parts->tensors += result ? 0 : gguf.count;
    if (!result && !parts->part)
        parts->wanted = gguf.split_tensors;
    gguf_release (&gguf);
    return result;
}

int
gguf_end (const struct gguf_parts *parts, const char *shown, struct fail *fail)
{
    if (!parts->wanted || parts->wanted == parts->tensors)
        return 0;
    return fail_set (fail, FAIL_GENERAL, "%s: the parts have %llu tensors together, but the metadata say %llu", shown,
                     (unsigned long long) parts->tensors, (unsigned long long) parts->wanted);
}
