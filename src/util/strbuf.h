/* SPDX-License-Identifier: Apache-2.0 */
/* A growing string and a growing list of strings.  Both remember their first failure and are asked once at the end, so
 * that twenty appends are twenty plain lines. */
#ifndef UTIL_STRBUF_H
#define UTIL_STRBUF_H

#include <stdbool.h>
#include <stddef.h>

/** All zero is an empty buffer.  `text` is NULL or terminated. */
struct strbuf {
    char *text;
    size_t length;
    size_t capacity;
    bool failed;
};

void strbuf_add (struct strbuf *buf, const char *text);
void strbuf_add_bytes (struct strbuf *buf, const void *bytes, size_t length);
void strbuf_add_char (struct strbuf *buf, char c);
void strbuf_printf (struct strbuf *buf, const char *format, ...) __attribute__ ((format (printf, 2, 3)));
/** Remove the first @p count bytes. */
void strbuf_drop (struct strbuf *buf, size_t count);

/** Shorten to @p length bytes. */
void strbuf_truncate (struct strbuf *buf, size_t length);
/** @return the text, never NULL unless an append failed; the caller frees it; @p buf is empty again. */
char *strbuf_take (struct strbuf *buf);
void strbuf_release (struct strbuf *buf);
#define AUTO_STRBUF __attribute__ ((cleanup (strbuf_release)))

/** A list of owned strings; `items[count]` is NULL (items itself is NULL while empty).  All zero is an empty list. */
struct strlist {
    char **items;
    size_t count;
    size_t capacity;
    bool failed;
};

void strlist_add (struct strlist *list, const char *text);
/** Add @p items up to a NULL. */
void strlist_add_all (struct strlist *list, const char *const *items);
void strlist_printf (struct strlist *list, const char *format, ...) __attribute__ ((format (printf, 2, 3)));
void strlist_release (struct strlist *list);

/** @return the value of the first of "NAME=VALUE"s with the name of @p item ("NAME" or "NAME=..."), in @p list; NULL if
 *  there is none */
const char *strlist_variable (const struct strlist *list, const char *item);
#define AUTO_STRLIST __attribute__ ((cleanup (strlist_release)))

#endif
