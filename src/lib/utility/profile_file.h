/* SPDX-License-Identifier: Apache-2.0 */
/* The recordings of all processes, and their file. */
#ifndef LIB_UTILITY_PROFILE_FILE_H
#define LIB_UTILITY_PROFILE_FILE_H

#include <accel/utility.h>

enum { PROFILE_NAME = 48, PROFILE_NAMES = 256 };

enum profile_kind { PROFILE_CALL, PROFILE_SPAN, PROFILE_STEP };

/** What happened, as it is recorded and as it travels to rank 0. */
struct profile_event {
    uint64_t begin_ns, end_ns; /* CLOCK_MONOTONIC */
    uint64_t number;           /* of a call: how many came before it; of a step: its own */
    uint64_t count;            /* of a call: elements */
    uint32_t line;
    uint8_t name; /* in `names`; of a call: the file */
    uint8_t kind;
    uint8_t call; /* enum jobseg_call */
    uint8_t dtype;
};

struct profile_names {
    uint32_t count;
    char text[PROFILE_NAMES][PROFILE_NAME]; /* the last one is for all that found no place */
};

/** What rank 0 has of one process. */
struct profile_part {
    const struct profile_event *events; /* [count], in the order of their ends */
    size_t count;
    uint64_t dropped;
    const struct profile_names *names;
};

/** Write the recordings of @p ranks processes to @p path. */
enum accel_status profile_write (const char *path, const struct profile_part *parts, int ranks,
                                 struct accel_error *err);

#endif
