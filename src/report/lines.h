/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of a file, one after the other, however large the file is. */
#ifndef REPORT_LINES_H
#define REPORT_LINES_H

#include "util/fail.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LINE_BYTES = 16 << 20 }; /* longer lines are passed over */

/** Between lines_open() and lines_close(). */
struct lines {
    int fd;
    const char *path;
    char *buffer; /* [room + 1] */
    size_t room, begin, end;
    bool at_end;
    uint64_t number;  /* of the line that was read last, from 1 */
    bool is_whole;    /* it ended in a newline; the last one of a file may not */
    bool is_too_long; /* it is empty then */
};

/** Regular files only.  @param path  must outlive @p lines */
int lines_open (struct lines *lines, const char *path, struct fail *fail);

/** @param[out] line  terminated, without the newline, until the next call; it may have characters 0
 *  @return 1; 0: there is none; -1 with @p fail */
int lines_next (struct lines *lines, char **line, size_t *length, struct fail *fail);
void lines_close (struct lines *lines);

#endif
