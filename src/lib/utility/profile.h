/* SPDX-License-Identifier: Apache-2.0 */
/* A recording of one process, which observes its collectives. */
#ifndef LIB_UTILITY_PROFILE_H
#define LIB_UTILITY_PROFILE_H

#include "lib/comm/comm_object.h"
#include "lib/utility/profile_file.h"

#include <accel/utility.h>

enum { PROFILE_DEPTH = 32 };

struct profile {
    struct comm_observer observer;
    struct profile_event *events; /* [most] */
    size_t count, most;
    uint64_t dropped, calls, steps;
    uint64_t step_begin_ns;
    size_t depth; /* spans open; those from PROFILE_DEPTH on are not kept */
    struct {
        uint64_t begin_ns;
        uint8_t name;
    } open[PROFILE_DEPTH];
    char *path;
    struct profile_names names;
};

/** @return whether @p acc, which may be NULL, is being recorded. */
bool profile_is_recording (struct accel *acc);

#endif
