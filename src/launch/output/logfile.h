/* SPDX-License-Identifier: Apache-2.0 */
/* One file of a rank's output.  What cannot be written is counted, and reported in the file once it can be written
 * again: a full disk costs lines of the file, never the job. */
#ifndef LAUNCH_OUTPUT_LOGFILE_H
#define LAUNCH_OUTPUT_LOGFILE_H

#include "util/fail.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct logfile {
    int fd;        /* -1: none */
    char *path;
    uint64_t size; /* bytes written */
    uint64_t lost; /* bytes since the last one that was written */
    int error;     /* the first failure, 0 while there is none */
};

/** Make a new file; takes @p path, which was allocated. */
int logfile_open (struct logfile *file, char *path, struct fail *fail);

/** @return whether all of @p bytes are in the file; else as many as could be, and the rest is left to the caller */
bool logfile_write (struct logfile *file, const char *bytes, size_t length, size_t *written);

/** Read back what was written, from @p offset.  @return the number of bytes; 0 at the end and on errors */
size_t logfile_read (const struct logfile *file, uint64_t offset, char *bytes, size_t size);

void logfile_close (struct logfile *file);
void logfile_release (struct logfile *file);

#endif
