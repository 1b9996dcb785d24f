/* SPDX-License-Identifier: Apache-2.0 */
/* Around a training loop: finding a batch size that fits into memory, log lines, a progress bar, a profiler. */
#ifndef ACCEL_UTILITY_H
#define ACCEL_UTILITY_H

#include <accel/base.h>
#include <accel/state.h>

ACCEL_BEGIN_DECLS

/**
 * A function to try with a batch size, such as a complete training.
 *
 * @return ACCEL_ERR_NOMEM (with any text) to be tried with a smaller size; any other status ends the search
 */
typedef enum accel_status (*accel_batch_function) (size_t batch_size, void *user, struct accel_error *err);

/**
 * Call @p function with batch sizes that shrink to nine tenths, rounded down, until one fits into memory.
 *
 * Collective if @p acc is not NULL: all processes try the same sizes, and a smaller one if any of them ran out of
 * memory.  @p function may run out of memory only at a point where no other process waits for it in a collective.  If
 * @p acc is NULL, this process decides alone.
 *
 * @param[in,out] batch_size  the first size to try, 0 for 128; on success the one that worked, for the next search
 * @retval ACCEL_ERR_NOMEM     not even a batch of 1 fits
 * @retval ACCEL_ERR_CALLBACK  the function failed on another process; if it failed here, its own status is returned
 */
#define accel_find_executable_batch_size(...) accel_find_executable_batch_size_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_find_executable_batch_size_at (const char *file, int line, struct accel *acc, size_t *batch_size,
                                     accel_batch_function function, void *user, struct accel_error *err);

/** Log levels, with Python's numbers; and what can be added to the level of a line. */
enum accel_log_level {
    ACCEL_LOG_DEBUG = 10,
    ACCEL_LOG_INFO = 20,
    ACCEL_LOG_WARNING = 30,
    ACCEL_LOG_ERROR = 40,
    ACCEL_LOG_CRITICAL = 50,
    ACCEL_LOG_EVERYWHERE = 64, /**< from each process that makes the call, not only from rank 0 */
    ACCEL_LOG_ONCE = 128,      /**< only the first line with this text, of each process */
};

/**
 * From now on, drop lines below @p level in this process; 0 changes nothing.  Until then, the variable
 * ACCELERATE_LOG_LEVEL decides (debug, info, warning, error or critical; accel_open() refuses other words), otherwise
 * ACCEL_LOG_WARNING.  Any thread.
 *
 * @return the level before
 */
ACCEL_API int accel_set_log_level (int level);

/**
 * Write "LEVEL: [RANK r] text" to standard error, on rank 0 only; one write, so that lines do not mix.  Any thread.
 *
 * @param level  an accel_log_level, to which others can be added: ACCEL_LOG_WARNING | ACCEL_LOG_ONCE
 */
ACCEL_API void accel_logger_log (const struct accel *acc, int level, const char *format, ...) ACCEL_PRINTF (3, 4);

/**
 * The same on every process, one after the other in the order of ranks.
 *
 * Collective, whatever the processes' levels are.
 */
#define accel_logger_log_in_order(...) accel_logger_log_in_order_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API enum accel_status
accel_logger_log_in_order_at (const char *file, int line, struct accel *acc, struct accel_error *err,
                              int level, const char *format, ...) ACCEL_PRINTF (6, 7);

/** A line on standard error that shows the progress of a loop, on local rank 0 of each host only. */
struct accel_progress;

/**
 * Start a progress bar.  On a terminal, it is redrawn at most ten times a second; elsewhere, a line is written every
 * five seconds.
 *
 * @param total  number of steps, 0: unknown
 * @param text   shown before the bar, copied; may be NULL
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_progress_create (struct accel_progress **progress, const struct accel *acc, uint64_t total, const char *text,
                       struct accel_error *err);

/** Add @p steps.  Accepts NULL. */
ACCEL_API void accel_progress_update (struct accel_progress *progress, uint64_t steps);

/** Show the last state, end the line, free.  Accepts NULL, preserves errno. */
ACCEL_API void accel_progress_close (struct accel_progress *progress);

/** How to profile; every field may be 0. */
struct accel_profile_options {
    const char *path;  /**< the file to write; NULL: "profile.json" */
    size_t max_events; /**< kept per process, 40 bytes each; 0: 65536.  Further events are counted but dropped. */
};

/**
 * From now on, record this job's collectives, how long each waited for the last process to arrive, and the program's
 * steps and spans.
 *
 * Collective.  Costs two clock readings per collective; while nothing is recorded, one comparison.
 *
 * @param options  may be NULL; rank 0's path is used
 * @retval ACCEL_ERR_INVALID  a profile is already being recorded
 */
#define accel_profile_start(...) accel_profile_start_at (ACCEL_HERE, sizeof (struct accel_profile_options), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_profile_start_at (const char *file, int line, size_t options_size, struct accel *acc,
                        const struct accel_profile_options *options, struct accel_error *err);

/** Begin a span of the program, inside the open one, up to 32 deep.  @param name  47 bytes are copied */
ACCEL_API void accel_profile_begin (struct accel *acc, const char *name);

/** End the innermost span.  Does nothing if none is open, or nothing is recorded. */
ACCEL_API void accel_profile_end (struct accel *acc);

/**
 * End a step, which began at the end of the previous one, or at accel_profile_start().  Does nothing if nothing is
 * recorded.
 */
ACCEL_API void accel_profile_step (struct accel *acc);

/**
 * Stop recording.  Rank 0 writes the recordings of all processes into one file, atomically: a JSON array of Chrome's
 * trace events, which Perfetto and chrome://tracing open.  pid is the rank; thread 1 has calls, spans and waits, thread
 * 2 steps.  All processes get the same result.
 *
 * Collective.
 *
 * @retval ACCEL_ERR_INVALID  nothing is being recorded
 * @retval ACCEL_ERR_SYSTEM   the file cannot be written
 */
#define accel_profile_stop(...) accel_profile_stop_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_profile_stop_at (const char *file, int line, struct accel *acc, struct accel_error *err);

ACCEL_END_DECLS

#endif
