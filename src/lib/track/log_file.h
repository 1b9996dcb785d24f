/* SPDX-License-Identifier: Apache-2.0 */
/* A file that trackers append to.  What the disk has no room for stays in memory, also a half of a record, and comes
 * first the next time: the bytes in the file are always a beginning of what was added. */
#ifndef LIB_TRACK_LOG_FILE_H
#define LIB_TRACK_LOG_FILE_H

#include "util/strbuf.h"

#include <accel/tracker.h>

struct log_file {
    int fd; /* -1: none, or the disk was full */
    bool lines;
    const char *header; /* of a file that is empty; NULL: none */
    char *path;
    struct strbuf left; /* to write */
};

/** @return the folder of the files of a run, LOGGING_DIR/PROJECT[/RUN], which may not exist; NULL: out of memory */
char *log_folder (const struct accel_tracker_run *run);

/** Make a struct of @p size bytes that begins with a log file, the rest zeros, the `user` of @p calls, with `flush` and
 * `finish`. */
enum accel_status log_file_create (struct accel_tracker_calls *calls, size_t size, struct accel_error *err);

/**
 * Open FOLDER/NAME for appending, with the folders above it.  If the disk is full, log_file_flush() tries again.
 *
 * @param lines  if its last line was not finished (its writer was killed), remove that
 */
enum accel_status log_file_open (struct log_file *file, const char *folder, const char *name, bool lines,
                                 struct accel_error *err);

/** End what was added to `left` behind its first @p mark bytes.  If there was no memory for it, it is taken back. */
enum accel_status log_file_add (struct log_file *file, size_t mark, struct accel_error *err);

/** Open the file, if that could not be done yet, and write what was added to `left`.  It is not synced: a crash of the
 * machine can lose the last seconds. */
enum accel_status log_file_flush (struct log_file *file, struct accel_error *err);

/** Preserves errno. */
void log_file_close (struct log_file *file);

/** Warn, once for each key, that a tracker cannot write a value. */
void log_warn_unable (const char *tracker, const struct accel_value *value);

/** Append @p number as the shortest text that reads back the same; inf, -inf and nan as Python's
 * float() reads them. */
void log_add_number (struct strbuf *out, double number);

#endif
