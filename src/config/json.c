/* SPDX-License-Identifier: Apache-2.0 */
/* JSON files, read with jansson. */
#include <config.h>

#include "config/file.h"

#include <jansson.h>
#include <string.h>

/* jansson keeps no lines, so the line of a key is where it first stands followed by a colon.  A text value cannot hold
 * a bare '"', so only a key matches; the same key in two sections may get the first one's line. */
static int
line_of_key (const char *text, const char *key)
{
    size_t length = strlen (key);
    for (const char *at = text; (at = strchr (at, '"')); at++) {
        if (strncmp (at + 1, key, length) || at[length + 1] != '"')
            continue;
        const char *after = at + length + 2;
        if (after[strspn (after, " \t\r\n")] != ':')
            continue;
        int line = 1;
        for (; at > text; at--)
            line += at[-1] == '\n';
        return line;
    }
    return 0;
}

static int
add_value (struct filedoc *doc, const char *text, const char *section, const char *key, json_t *value,
           struct fail *fail)
{
    char number[64] = "";
    const char *scalar = NULL;
    enum entry_kind kind = ENTRY_PLAIN;
    if (json_is_string (value)) {
        kind = ENTRY_TEXT;
        scalar = json_string_value (value);
    } else if (json_is_boolean (value))
        scalar = json_is_true (value) ? "true" : "false";
    else if (json_is_number (value)) {
        if (json_is_integer (value))
            snprintf (number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value (value));
        else
            snprintf (number, sizeof number, "%.17g", json_real_value (value));
        scalar = number;
    } else
        kind = json_is_null (value) ? ENTRY_NULL : json_is_array (value) ? ENTRY_LIST : ENTRY_MAP;
    struct entry *entry = filedoc_add (doc, section, key, scalar, kind, line_of_key (text, key));
    if (!entry)
        return fail_nomem (fail);
    entry->is_empty = !json_array_size (value) && !json_object_size (value);
    return 0;
}

static int
add_object (struct filedoc *doc, const char *text, const char *section, json_t *object, struct fail *fail)
{
    const char *key;
    json_t *value;
    json_object_foreach (object, key, value)
        if (add_value (doc, text, section, key, value, fail))
            return -1;
    return 0;
}

int
json_read (struct filedoc *doc, const char *text, size_t length, struct fail *fail)
{
    json_error_t error;
    json_t *root = json_loadb (text, length, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return fail_set (fail, FAIL_GENERAL, "%s:%d: not JSON: %s", doc->path, error.line > 0 ? error.line : 1,
                         error.text);
    const char *key;
    json_t *value;
    int result = 0;
    if (!json_is_object (root))
        result = fail_set (fail, FAIL_GENERAL, "%s:1: a configuration is an object, {\"key\": value}", doc->path);
    else
        result = add_object (doc, text, NULL, root, fail);
    json_object_foreach (root, key, value)
        if (!result && json_is_object (value))
            result = add_object (doc, text, key, value, fail);
    json_decref (root);
    return result;
}
