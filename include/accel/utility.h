/* SPDX-License-Identifier: Apache-2.0 */
/* Around a training loop: the batch size that fits into memory, log lines, a progress bar, a trace of the time. */
#ifndef ACCEL_UTILITY_H
#define ACCEL_UTILITY_H

#include <accel/base.h>
#include <accel/state.h>

ACCEL_BEGIN_DECLS

/**
 * What is tried with a batch size, such as a whole training.
 *
 * @return ACCEL_ERR_NOMEM (any text) to be tried with less; what else it returns ends the search
 */
typedef enum accel_status (*accel_batch_function) (size_t batch_size, void *user, struct accel_error *err);

/**
 * Call @p function with batch sizes that shrink to nine tenths, rounded down, until one fits into memory.
 *
 * Collective where @p acc is not NULL: all processes try the same sizes, and less if memory was short on any of them.
 * @p function may only fail for want of memory where no other process waits for it in a collective.  Where @p acc is
 * NULL this process decides alone.
 *
 * @param[in,out] batch_size  the first size to try, 0 for 128; on success the one that worked, for the next search
 * @retval ACCEL_ERR_NOMEM     not even a batch of 1 fits
 * @retval ACCEL_ERR_CALLBACK  the function failed on another process; where it failed here, its own status
 */
#define accel_find_executable_batch_size(...) accel_find_executable_batch_size_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_find_executable_batch_size_at (const char *file, int line, struct accel *acc, size_t *batch_size,
                                     accel_batch_function function, void *user, struct accel_error *err);

/** How important a line is, with Python's numbers. */
enum accel_log_level {
    ACCEL_LOG_DEBUG = 10,
    ACCEL_LOG_INFO = 20,
    ACCEL_LOG_WARNING = 30,
    ACCEL_LOG_ERROR = 40,
    ACCEL_LOG_CRITICAL = 50,
};

/**
 * Drop lines below @p level, in this process, from now on.  Before, the variable ACCELERATE_LOG_LEVEL decides (debug,
 * info, warning, error or critical; accel_open() refuses other words), else ACCEL_LOG_WARNING.  Any thread.
 */
ACCEL_API void accel_set_log_level (enum accel_log_level level);

/** @return the level below which lines are dropped.  Any thread. */
ACCEL_API enum accel_log_level accel_log_level (void);

/** Write "LEVEL: [RANK r] text" to standard error, on rank 0 only; one write, so that lines do not mix.  Any thread. */
ACCEL_API void accel_log (const struct accel *acc, enum accel_log_level level, const char *format, ...)
    ACCEL_PRINTF (3, 4);

/** The same on every process that calls it. */
ACCEL_API void accel_log_everywhere (const struct accel *acc, enum accel_log_level level, const char *format, ...)
    ACCEL_PRINTF (3, 4);

/** accel_log() with ACCEL_LOG_WARNING, once per text and process. */
ACCEL_API void accel_log_warning_once (const struct accel *acc, const char *format, ...) ACCEL_PRINTF (2, 3);

/**
 * The same on every process, one after the other in the order of ranks.
 *
 * Collective, whatever the processes' levels are.
 */
#define accel_log_in_order(...) accel_log_in_order_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API enum accel_status
accel_log_in_order_at (const char *file, int line, struct accel *acc, struct accel_error *err,
                       enum accel_log_level level, const char *format, ...) ACCEL_PRINTF (6, 7);

/** A line on standard error that says how far a loop is; seen on local rank 0 of each host only. */
struct accel_progress;

/**
 * Begin a progress bar.  On a terminal it is redrawn at most ten times a second; elsewhere it is a line every five
 * seconds.
 *
 * @param total  how many steps there will be, 0: unknown
 * @param text   what stands before it, copied; may be NULL
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_progress_create (struct accel_progress **progress, const struct accel *acc, uint64_t total, const char *text,
                       struct accel_error *err);

/** Count @p steps more.  Accepts NULL. */
ACCEL_API void accel_progress_update (struct accel_progress *progress, uint64_t steps);

/** Show the last state, end the line, free.  Accepts NULL, preserves errno. */
ACCEL_API void accel_progress_close (struct accel_progress *progress);

/** How to profile; every field may be 0. */
struct accel_profile_options {
    const char *path;  /**< the file to write; NULL: "profile.json" */
    size_t max_events; /**< kept per process, 40 bytes each; 0: 65536.  Later ones are counted, and dropped. */
};

/**
 * Record what this job does from now on: its collectives, how long each waited for the last process to come, the
 * program's steps and spans.
 *
 * Collective.  Costs two readings of a clock per collective; while nothing is recorded, one comparison.
 *
 * @param options  may be NULL; the path counts on rank 0
 * @retval ACCEL_ERR_INVALID  a profile is being recorded already
 */
#define accel_profile_start(...) accel_profile_start_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_profile_start_at (const char *file, int line, struct accel *acc, const struct accel_profile_options *options,
                        struct accel_error *err);

/** Begin a span of the program's own, inside the one that is open, up to 32 deep.  @param name  47 bytes are copied */
ACCEL_API void accel_profile_begin (struct accel *acc, const char *name);

/** End the span begun last.  Does nothing where none is open, or nothing is recorded. */
ACCEL_API void accel_profile_end (struct accel *acc);

/** End a step, which began with the end of the one before, or accel_profile_start().  Does nothing without either. */
ACCEL_API void accel_profile_step (struct accel *acc);

/**
 * Stop recording; rank 0 writes what all processes recorded into one file, whole or not at all: a JSON array of
 * Chrome's trace events, which Perfetto and chrome://tracing open.  pid is the rank; thread 1 has calls, spans and
 * waits, thread 2 steps.  All processes get the same result.
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
