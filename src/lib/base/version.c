/* SPDX-License-Identifier: Apache-2.0 */
/* The library's version and the words for its status codes. */
#include <config.h>

#include <accel/base.h>

const char *
accel_version (void)
{
    return PACKAGE_VERSION;
}

const char *
accel_status_string (enum accel_status status)
{
    switch (status) {
#define X(name, value, text) \
    case ACCEL_##name: return text;
        ACCEL_STATUS_MAP (X)
#undef X
    }
    return "unknown status";
}
