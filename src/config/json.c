/* SPDX-License-Identifier: Apache-2.0 */
/* JSON files, read with jansson. */
#include <config.h>

#include "config/file.h"

#include "config/scalar.h"
#include "util/cleanup.h"

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

static void
add_items (struct entry *entry, json_t *array)
{
    size_t i;
    json_t *item;
    json_array_foreach (array, i, item)
    {
        AUTO_STRBUF struct strbuf number = { 0 };
        if (json_is_real (item))
            scalar_add_float (&number, json_real_value (item));
        else if (json_is_integer (item))
            strbuf_printf (&number, "%" JSON_INTEGER_FORMAT, json_integer_value (item));
        else if (json_is_boolean (item))
            strbuf_add (&number, json_is_true (item) ? "True" : "False");
        else if (!json_is_string (item))
            entry->is_nested = true;
        const char *text = json_string_value (item);
        strlist_add (&entry->items, text ? text : number.text ? number.text : "");
    }
}

static int
add_value (struct filedoc *doc, const char *text, const char *section, const char *key, json_t *value,
           struct fail *fail)
{
    AUTO_STRBUF struct strbuf number = { 0 };
    const char *scalar = NULL;
    enum entry_kind kind = ENTRY_PLAIN;
    if (json_is_string (value)) {
        kind = ENTRY_TEXT;
        scalar = json_string_value (value);
    } else if (json_is_boolean (value))
        scalar = json_is_true (value) ? "True" : "False";
    else if (json_is_number (value)) {
        if (json_is_integer (value))
            strbuf_printf (&number, "%" JSON_INTEGER_FORMAT, json_integer_value (value));
        else
            scalar_add_float (&number, json_real_value (value));
        scalar = number.text ? number.text : "";
    } else
        kind = json_is_null (value) ? ENTRY_NULL : json_is_array (value) ? ENTRY_LIST : ENTRY_MAP;
    struct entry *entry = filedoc_add (doc, section, key, scalar, kind, line_of_key (text, key));
    if (!entry)
        return fail_nomem (fail);
    entry->is_truth = json_is_boolean (value);
    add_items (entry, value);
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
