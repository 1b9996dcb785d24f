/* SPDX-License-Identifier: Apache-2.0 */
/* Trackers: where the numbers, texts, images and histograms of a run are written while it runs. */
#ifndef ACCEL_TRACKER_H
#define ACCEL_TRACKER_H

#include <accel/base.h>
#include <accel/state.h>

ACCEL_BEGIN_DECLS

/** What a value is. */
enum accel_value_kind {
    ACCEL_NUMBER,
    ACCEL_TEXT,
    ACCEL_IMAGE,
    ACCEL_HISTOGRAM,
};

/** A value with its name.  Fields that its kind does not use are ignored. */
struct accel_value {
    const char *key;            /**< its name, UTF-8; "train/loss" is in TensorBoard's group "train" */
    enum accel_value_kind kind; /**< 0: ACCEL_NUMBER */
    uint32_t width;             /**< of an image, pixels */
    uint32_t height;            /**< of an image, pixels */
    uint32_t channels;          /**< of an image: 1 (grey), 3 (RGB) or 4 (RGBA); 0: `data` is a file in PNG */
    double number;              /**< the number, which may be infinite or NaN */
    const char *text;           /**< the text, UTF-8 */
    const void *data;           /**< of an image: bytes, [height][width][channels]; of a histogram: float[count] */
    size_t count;               /**< of a histogram: samples; of a file in PNG: bytes */
};

/** What a tracker learns when it starts.  Valid during the call. */
struct accel_tracker_run {
    const char *project_name;
    const char *run_name;    /**< NULL: none was given */
    const char *logging_dir; /**< of the project configuration; NULL: there is none */
};

/**
 * A tracker of the program.  All functions but `start` are called from a thread of the library, one at a time, on rank
 * 0; they may not call the library with the job.  A function that is NULL is not called.
 *
 * A call that fails is repeated later, after one second, then after up to a minute: it must not have taken a part of
 * what it was given.  The first failure in a row is a warning.
 */
struct accel_tracker_calls {
    const char *name; /**< for accel_get_tracker(); not that of another tracker of the job */
    void *user;       /**< the functions' first argument */
    /** accel_init_trackers(), which fails with this.  In the thread that calls it. */
    enum accel_status (*start) (void *user, const struct accel_tracker_run *run, struct accel_error *err);
    /** The configuration of the run, once, before all values. */
    enum accel_status (*store_init_configuration) (void *user, const struct accel_value *values, size_t count,
                                                   struct accel_error *err);
    /** What one accel_log() was given.  @param time  seconds since 1970, of the call */
    enum accel_status (*log) (void *user, const struct accel_value *values, size_t count, int64_t step, double time,
                              struct accel_error *err);
    /** All that was logged so far has been passed on: write what is still in memory. */
    enum accel_status (*flush) (void *user, struct accel_error *err);
    /** The last call, whether all was written or not: free what belongs to the tracker. */
    void (*finish) (void *user);
};

/** How to track; every field may be 0. */
struct accel_tracker_options {
    const char *run_name; /**< a folder of its own, or MLflow's name of the run; NULL: none */
    const struct accel_tracker_calls *trackers; /**< [tracker_count] the program's own, besides those of log_with */
    size_t tracker_count;                       /**< their number */
    size_t queue_bytes; /**< memory for what is not written yet; 0: 64 MiB.  What does not fit is counted and lost */
    /**
     * Add steps_per_second (and the two below) to what accel_log() gets, at most once a second: yes unless ACCEL_NO.
     */
    enum accel_flag throughput;
    uint32_t finish_timeout_ms; /**< longest wait at the end for what is not written yet; 0: 10000 */
    double tokens_per_step;     /**< of all processes: adds tokens_per_second; 0: not known */
    double flops_per_step;      /**< floating-point operations of all processes; 0: not known */
    double peak_flops;          /**< per second, of all devices together; with flops_per_step, adds mfu; 0: not known */
    /** How many steps the run has: accel_log() also prints its numbers on a line of standard output, with the tokens
     *  per second, the MFU and the time left, as far as they are known.  0: nothing is printed */
    uint64_t print_steps;
};

/**
 * Start the trackers that accel_options.log_with names and those of @p options.  Only rank 0 has trackers: on other
 * ranks the call does nothing.  Former trackers are finished.
 *
 * @param project_name  a folder in logging_dir, MLflow's experiment
 * @param config        [count] hyper-parameters, stored once: numbers and texts; may be NULL
 * @param options       may be NULL
 * @retval ACCEL_ERR_INVALID      a tracker needs a logging_dir, and there is none; two trackers have one name
 * @retval ACCEL_ERR_SYSTEM       a file cannot be created
 * @retval ACCEL_ERR_UNSUPPORTED  a tracker is not installed
 */
#define accel_init_trackers(...)                                         \
    accel_init_trackers_sized (sizeof (struct accel_tracker_options), \
                               sizeof (struct accel_tracker_calls), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_init_trackers_sized (size_t options_size, size_t tracker_size, struct accel *acc, const char *project_name,
                           const struct accel_value *config, size_t count,
                           const struct accel_tracker_options *options, struct accel_error *err);

/**
 * Log values to all trackers.  They are copied, and written by a thread: the call waits for no disk and no server,
 * whose failures are warnings of the log.  What could not be written is kept, and written later.
 *
 * Does nothing on ranks but 0, before accel_init_trackers(), after accel_end_training(), and in a process that fork()
 * has made.
 *
 * @param step  negative: the one after the highest so far
 * @retval ACCEL_ERR_INVALID  a value has no key, or lacks what its kind needs
 */
ACCEL_API enum accel_status
accel_log (struct accel *acc, const struct accel_value *values, size_t count, int64_t step, struct accel_error *err);

/** accel_log() of one number. */
ACCEL_API enum accel_status
accel_log_number (struct accel *acc, const char *key, double number, int64_t step, struct accel_error *err);

/** One of the trackers of a job, owned by it until accel_end_training() or the next accel_init_trackers(). */
struct accel_tracker;

/**
 * Find a tracker by its name.
 *
 * @param[out] tracker  NULL on ranks but 0, which accel_tracker_log() accepts
 * @retval ACCEL_ERR_INVALID  there are trackers, but none of this name
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_get_tracker (struct accel_tracker **tracker, struct accel *acc, const char *name, struct accel_error *err);

/** accel_log() to one tracker.  @param tracker  NULL: does nothing */
ACCEL_API enum accel_status
accel_tracker_log (struct accel_tracker *tracker, const struct accel_value *values, size_t count, int64_t step,
                   struct accel_error *err);

ACCEL_END_DECLS

#endif
