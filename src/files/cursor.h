/* SPDX-License-Identifier: Apache-2.0 */
/* A cursor over JSON text: the caller asks for what it expects.  Enough for headers of files, and no tree in memory. */
#ifndef FILES_CURSOR_H
#define FILES_CURSOR_H

#include <accel/base.h>

struct cursor {
    const char *text; /* [length], not terminated */
    size_t length;
    size_t at;
    struct accel_error *err;
};

/** Fail at the byte where the cursor stands; adds "byte N: ". */
enum accel_status cursor_fail (const struct cursor *json, const char *format, ...) ACCEL_PRINTF (2, 3);

/** Go to the first byte of the text; fails if the text is not UTF-8. */
enum accel_status cursor_begin (struct cursor *json);

/** @return the next byte that is no white space, without taking it; 0 at the end. */
char cursor_peek (struct cursor *json);

/** Take @p c, after white space, or fail: "expected WHAT". */
enum accel_status cursor_take (struct cursor *json, char c, const char *what);

/**
 * The next member of an object or array whose opening bracket was taken; start with *first true.
 *
 * @param[out] more  false: the closing bracket was taken
 */
enum accel_status cursor_next (struct cursor *json, char closing, bool *first, bool *more);

/** A string, decoded to UTF-8; the caller frees it.  One with a character 0 is refused. */
enum accel_status cursor_string (struct cursor *json, char **text, const char *what);

/** A key and its colon. */
enum accel_status cursor_key (struct cursor *json, char **key);

/** An integer >= 0 without fraction, exponent or needless zeros, that fits 64 bits. */
enum accel_status cursor_uint64 (struct cursor *json, uint64_t *value, const char *what);

/** Take any value. */
enum accel_status cursor_skip (struct cursor *json);

/** Take the word @p word if it is next.  @return whether it was */
bool cursor_word (struct cursor *json, const char *word);

/** Fail unless nothing but white space is left. */
enum accel_status cursor_end (struct cursor *json);

#endif
