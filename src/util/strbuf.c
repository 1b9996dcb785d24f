/* SPDX-License-Identifier: Apache-2.0 */
/* Growing strings and lists of strings; see strbuf.h. */
#include <config.h>

#include "util/strbuf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool
reserve (struct strbuf *buf, size_t extra)
{
    if (buf->failed)
        return false;
    if (extra < buf->capacity - buf->length)
        return true;
    size_t wanted = buf->capacity ? buf->capacity : 64;
    while (wanted - buf->length <= extra) {
        if (wanted > (size_t) -1 / 2)
            goto error;
        wanted *= 2;
    }
    char *grown = realloc (buf->text, wanted);
    if (!grown)
        goto error;
    buf->text = grown;
    buf->capacity = wanted;
    return true;
error:
    buf->failed = true;
    return false;
}

void
strbuf_add_bytes (struct strbuf *buf, const void *bytes, size_t length)
{
    if (!reserve (buf, length))
        return;
    if (length)
        memcpy (buf->text + buf->length, bytes, length);
    buf->length += length;
    buf->text[buf->length] = '\0';
}

void
strbuf_add (struct strbuf *buf, const char *text)
{
    strbuf_add_bytes (buf, text, strlen (text));
}

void
strbuf_add_char (struct strbuf *buf, char c)
{
    strbuf_add_bytes (buf, &c, 1);
}

void
strbuf_printf (struct strbuf *buf, const char *format, ...)
{
    va_list args, again;
    va_start (args, format);
    va_copy (again, args);
    int length = vsnprintf (NULL, 0, format, args);
    va_end (args);
    if (length < 0)
        buf->failed = true;
    else if (reserve (buf, (size_t) length)) {
        vsnprintf (buf->text + buf->length, (size_t) length + 1, format, again);
        buf->length += (size_t) length;
    }
    va_end (again);
}

void
strbuf_drop (struct strbuf *buf, size_t count)
{
    if (count)
        memmove (buf->text, buf->text + count, buf->length - count);
    strbuf_truncate (buf, buf->length - count);
}

void
strbuf_truncate (struct strbuf *buf, size_t length)
{
    if (length < buf->length) {
        buf->length = length;
        buf->text[length] = '\0';
    }
}

char *
strbuf_take (struct strbuf *buf)
{
    strbuf_add_bytes (buf, "", 0);
    char *text = NULL;
    if (!buf->failed) {
        text = buf->text;
        buf->text = NULL;
    }
    strbuf_release (buf);
    return text;
}

void
strbuf_release (struct strbuf *buf)
{
    free (buf->text);
    *buf = (struct strbuf){ 0 };
}

/* Takes ownership of @text, which may be NULL for an allocation that failed. */
static void
adopt (struct strlist *list, char *text)
{
    if (list->failed || !text)
        goto error;
    if (list->count + 2 > list->capacity) {
        size_t wanted = list->capacity ? list->capacity * 2 : 16;
        char **grown = reallocarray (list->items, wanted, sizeof *grown);
        if (!grown)
            goto error;
        list->items = grown;
        list->capacity = wanted;
    }
    list->items[list->count++] = text;
    list->items[list->count] = NULL;
    return;
error:
    free (text);
    list->failed = true;
}

void
strlist_add (struct strlist *list, const char *text)
{
    adopt (list, strdup (text));
}

void
strlist_add_all (struct strlist *list, const char *const *items)
{
    while (*items)
        strlist_add (list, *items++);
}

void
strlist_printf (struct strlist *list, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start (args, format);
    if (vasprintf (&text, format, args) < 0)
        text = NULL;
    va_end (args);
    adopt (list, text);
}

void
strlist_release (struct strlist *list)
{
    for (size_t i = 0; i < list->count; i++)
        free (list->items[i]);
    free (list->items);
    *list = (struct strlist){ 0 };
}

const char *
strlist_variable (const struct strlist *list, const char *item)
{
    size_t length = strcspn (item, "=");
    for (size_t i = 0; i < list->count; i++)
        if (!strncmp (list->items[i], item, length) && list->items[i][length] == '=')
            return list->items[i] + length + 1;
    return NULL;
}
