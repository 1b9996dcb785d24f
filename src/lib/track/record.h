/* SPDX-License-Identifier: Apache-2.0 */
/* What one call of accel_log() was given, copied: one piece of memory on its way to the trackers. */
#ifndef LIB_TRACK_RECORD_H
#define LIB_TRACK_RECORD_H

#include <accel/tracker.h>

#include <stdatomic.h>

struct record {
    struct record *_Atomic next; /* logged after it */
    size_t bytes;                /* of the record */
    uint32_t targets;            /* bit i: for tracker i */
    bool is_config;
    int64_t step;
    double time;
    size_t count;
    struct accel_value values[]; /* [count], then what they point to */
};

/** Refuse values that lack what their kind needs.  @param function  for messages */
enum accel_status record_check (const char *function, const struct accel_value *values, size_t count,
                                struct accel_error *err);

/** Copy @p values, which record_check() has seen, and @p more.  @return for free(); NULL: out of memory */
struct record *record_make (const struct accel_value *values, size_t count, const struct accel_value *more,
                            size_t more_count);

/** @return how many bytes of `data` a value has. */
size_t record_data_bytes (const struct accel_value *value);

#endif
