/* SPDX-License-Identifier: Apache-2.0 */
/* Structs of programs that were compiled with other headers; see sized.h. */
#include <config.h>

#include "lib/base/sized.h"

#include "lib/base/error.h"

#include <stdlib.h>
#include <string.h>

/* The length of a function's name as programs write it. */
static int
public_length (const char *function)
{
    static const char *const suffixes[] = { "_sized", "_at" };
    size_t length = strlen (function);
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        size_t cut = strlen (suffixes[i]);
        if (length > cut && !strcmp (function + length - cut, suffixes[i]))
            return (int) (length - cut);
    }
    return (int) length;
}

/* Of an expression such as "options->grad_scaler", the last name. */
static const char *
last_name (const char *what)
{
    const char *name = what;
    for (; *what; what++)
        if (*what == '.' || *what == '>')
            name = what + 1;
    return name;
}

static bool
is_zero (const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bytes[i])
            return false;
    return true;
}

/* 0 is what a binding for another language passes by mistake: all fields would be ignored silently. */
static enum accel_status
check (const char *function, const char *what, const void *given, size_t size, size_t known, struct accel_error *err)
{
    if (!size)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "%.*s: the size of '%s' is 0: pass the size of the struct",
                           public_length (function), function, last_name (what));
    if (size > known && !is_zero ((const unsigned char *) given + known, size - known))
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED,
                           "%.*s: '%s' sets a field that libaccel " PACKAGE_VERSION " does not have (%zu bytes, but "
                           "only %zu are known): the program was compiled for a newer libaccel; install that, or do "
                           "not set the field",
                           public_length (function), function, last_name (what), size, known);
    return ACCEL_OK;
}

const void *
sized_read (const char *function, const char *what, const void *given, size_t size, void *room, size_t known,
            enum accel_status *status, struct accel_error *err)
{
    *status = given ? check (function, what, given, size, known, err) : ACCEL_OK;
    if (!given || *status)
        return NULL;
    if (size >= known)
        return given;
    memset (room, 0, known);
    return memcpy (room, given, size);
}

void *
sized_array (const char *function, const char *what, const void *given, size_t size, size_t known, size_t count,
             enum accel_status *status, struct accel_error *err)
{
    *status = ACCEL_OK;
    if (!given || !count || size == known)
        return NULL;
    const char *from = given;
    for (size_t i = 0; i < count && !*status; i++)
        *status = check (function, what, from + i * size, size, known, err);
    if (*status)
        return NULL;
    char *copy = calloc (count, known);
    if (!copy) {
        *status = accel_fail (err, ACCEL_ERR_NOMEM, "%.*s: cannot allocate memory for %zu elements of '%s'",
                              public_length (function), function, count, last_name (what));
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        memcpy (copy + i * known, from + i * size, size < known ? size : known);
    return copy;
}

void
sized_write (void *into, size_t size, const void *from, size_t known)
{
    size_t common = size < known ? size : known;
    memcpy (into, from, common);
    memset ((char *) into + common, 0, size - common);
}
