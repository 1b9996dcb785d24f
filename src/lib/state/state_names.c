/* SPDX-License-Identifier: Apache-2.0 */
/* Values of state dicts by names that are put together; see state_dict.h. */
#include <config.h>

#include "lib/state/state_dict.h"

#include "lib/base/error.h"
#include "util/cleanup.h"
#include "util/text.h"

#include <stdarg.h>

/* Print the name from the arguments that follow `format` of the function; NULL: no memory. */
#define PRINT_NAME(name)                      \
    do {                                      \
        va_list args;                         \
        va_start (args, format);              \
        (name) = text_vprintf (format, args); \
        va_end (args);                        \
    } while (0)

void
state_dict_set_tensor (struct accel_state_dict *state, const DLTensor *tensor, const char *format, ...)
{
    AUTO_FREE char *name = NULL;
    PRINT_NAME (name);
    state_dict_add_tensor (state, name, tensor);
}

void
state_dict_set_stretch (struct accel_state_dict *state, const DLTensor *tensor, size_t from, size_t end,
                        const char *format, ...)
{
    AUTO_FREE char *name = NULL;
    PRINT_NAME (name);
    state_dict_add_stretch (state, name, tensor, from, end);
}

void
state_dict_set_double (struct accel_state_dict *state, double value, const char *format, ...)
{
    AUTO_FREE char *name = NULL;
    PRINT_NAME (name);
    accel_state_dict_set_double (state, name, value);
}

void
state_dict_set_uint64 (struct accel_state_dict *state, uint64_t value, const char *format, ...)
{
    AUTO_FREE char *name = NULL;
    PRINT_NAME (name);
    state_dict_add_uint64 (state, name, value);
}

void
state_dict_set_bool (struct accel_state_dict *state, bool value, const char *format, ...)
{
    AUTO_FREE char *name = NULL;
    PRINT_NAME (name);
    state_dict_add_bool (state, name, value);
}

enum accel_status
state_dict_get_tensor (const struct accel_state_dict *state, DLTensor *into, struct accel_error *err,
                       const char *format, ...)
{
    AUTO_FREE char *name = NULL;
    PRINT_NAME (name);
    return name ? accel_state_dict_get_tensor (state, name, into, err) : accel_fail_nomem (err);
}

enum accel_status
state_dict_get_stretch (const struct accel_state_dict *state, const DLTensor *into, size_t from, size_t end,
                        struct accel_error *err, const char *format, ...)
{
    AUTO_FREE char *name = NULL;
    PRINT_NAME (name);
    return name ? state_dict_read_stretch (state, name, into, from, end, err) : accel_fail_nomem (err);
}

enum accel_status
state_dict_get_double (const struct accel_state_dict *state, double *value, struct accel_error *err,
                       const char *format, ...)
{
    AUTO_FREE char *name = NULL;
    PRINT_NAME (name);
    return name ? accel_state_dict_get_double (state, name, value, err) : accel_fail_nomem (err);
}

enum accel_status
state_dict_get_uint64 (const struct accel_state_dict *state, uint64_t *value, struct accel_error *err,
                       const char *format, ...)
{
    AUTO_FREE char *name = NULL;
    PRINT_NAME (name);
    return name ? state_dict_read_uint64 (state, name, value, err) : accel_fail_nomem (err);
}

enum accel_status
state_dict_get_bool (const struct accel_state_dict *state, bool *value, struct accel_error *err, const char *format,
                     ...)
{
    AUTO_FREE char *name = NULL;
    PRINT_NAME (name);
    return name ? state_dict_read_bool (state, name, value, err) : accel_fail_nomem (err);
}
