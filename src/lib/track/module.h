/* SPDX-License-Identifier: Apache-2.0 */
/* Trackers that need a library which libaccel does not link: modules, accel_tracker_NAME.so, beside engines. */
#ifndef LIB_TRACK_MODULE_H
#define LIB_TRACK_MODULE_H

#include <accel/tracker.h>

/** What modules call of libaccel, which may be linked into the program without being visible to them. */
struct tracker_helpers {
    enum accel_status (*fail) (struct accel_error *err, enum accel_status code, const char *format, ...)
        ACCEL_PRINTF (3, 4);
    void (*log) (const struct accel *acc, int level, const char *format, ...) ACCEL_PRINTF (3, 4);
};

/** What a module defines, under the name accel_tracker_module. */
struct tracker_module {
    const char *release; /* PACKAGE_VERSION */
    size_t calls_size;   /* sizeof (struct accel_tracker_calls) */
    /** `create` of struct tracker_kind. */
    enum accel_status (*create) (const struct tracker_helpers *helpers, struct accel_tracker_calls *calls,
                                 struct accel_error *err);
};

#define TRACKER_SYMBOL "accel_tracker_module"

#endif
