/* SPDX-License-Identifier: Apache-2.0 */
/* A reader over JSON text: the caller asks for what it expects.  Enough for headers of files, and no tree in memory. */
#ifndef FILES_JSON_READER_H
#define FILES_JSON_READER_H

#include "files/error.h"

struct json_reader {
    const char *text; /* [length], not terminated */
    size_t length;
    size_t at;
    struct accel_error *err;
    bool is_python; /* NaN, Infinity and -Infinity are values, too, which Python's json reads and writes */
};

/** Fail at the byte where the reader is; adds "byte N: ". */
#define json_reader_fail(json, ...) accel_fail_at ((json)->err, (json)->at, "", __VA_ARGS__)

/** Go to the first byte of the text; fails if the text is not UTF-8. */
enum accel_status json_reader_begin (struct json_reader *json);

/** @return the next byte that is not white space, without taking it; 0 at the end. */
char json_reader_peek (struct json_reader *json);

/** Take @p c, after white space, or fail: "expected WHAT". */
enum accel_status json_reader_take (struct json_reader *json, char c, const char *what);

/**
 * The next member of an object or array whose opening bracket was read; start with *first true.
 *
 * @param[out] more  false: the closing bracket was read
 */
enum accel_status json_reader_next (struct json_reader *json, char closing, bool *first, bool *more);

/** A string, decoded to UTF-8; the caller frees it.  One with a character 0 is refused. */
enum accel_status json_reader_string (struct json_reader *json, char **text, const char *what);

/** A key and its colon. */
enum accel_status json_reader_key (struct json_reader *json, char **key);

/** An integer >= 0 without fraction, exponent or needless zeros, that fits 64 bits. */
enum accel_status json_reader_uint64 (struct json_reader *json, uint64_t *value, const char *what);

/** Take any value, also those that `is_python` adds. */
enum accel_status json_reader_skip (struct json_reader *json);

/** Take the word @p word if it is next.  @return whether it was */
bool json_reader_word (struct json_reader *json, const char *word);

/** Fail unless nothing but white space is left. */
enum accel_status json_reader_end (struct json_reader *json);

#endif
