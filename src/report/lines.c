/* SPDX-License-Identifier: Apache-2.0 */
/* Reading lines; see lines.h. */
#include <config.h>

#include "report/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIRST_BYTES = 64 << 10 };

int
lines_open (struct lines *lines, const char *path, struct fail *fail)
{
    struct stat info;
    *lines = (struct lines){ .path = path, .room = FIRST_BYTES };
    lines->fd = open (path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (lines->fd < 0 || fstat (lines->fd, &info)) {
        fail_set (fail, FAIL_GENERAL, "cannot open %s: %s", path, strerror (errno));
        lines_close (lines);
        return -1;
    }
    if (!S_ISREG (info.st_mode)) {
        lines_close (lines);
        return fail_set (fail, FAIL_GENERAL, "cannot read %s: not a regular file", path);
    }
    lines->buffer = malloc (lines->room + 1);
    if (lines->buffer)
        return 0;
    lines_close (lines);
    return fail_nomem (fail);
}

/* Read more, into room that is made if there is none. */
static int
fill (struct lines *lines, struct fail *fail)
{
    if (lines->begin) {
        memmove (lines->buffer, lines->buffer + lines->begin, lines->end - lines->begin);
        lines->end -= lines->begin;
        lines->begin = 0;
    }
    if (lines->end == lines->room) {
        char *larger = realloc (lines->buffer, 2 * lines->room + 1);
        if (!larger)
            return fail_nomem (fail);
        lines->buffer = larger;
        lines->room *= 2;
    }
    ssize_t got;
    do
        got = read (lines->fd, lines->buffer + lines->end, lines->room - lines->end);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return fail_set (fail, FAIL_GENERAL, "cannot read %s: %s", lines->path, strerror (errno));
    lines->at_end = got == 0;
    lines->end += (size_t) got;
    return 0;
}

int
lines_next (struct lines *lines, char **line, size_t *length, struct fail *fail)
{
    size_t searched = 0;
    lines->is_too_long = false;
    for (;;) {
        char *text = lines->buffer + lines->begin;
        size_t there = lines->end - lines->begin;
        char *newline = memchr (text + searched, '\n', there - searched);
        if (newline || (lines->at_end && (there || lines->is_too_long))) {
            *length = newline ? (size_t) (newline - text) : there;
            lines->is_too_long = lines->is_too_long || *length > LINE_BYTES;
            *length = lines->is_too_long ? 0 : *length;
            lines->begin = newline ? (size_t) (newline - lines->buffer) + 1 : lines->end;
            lines->is_whole = newline != NULL;
            lines->number++;
            text[*length] = '\0';
            *line = text;
            return 1;
        }
        if (lines->at_end)
            return 0;
        lines->is_too_long = lines->is_too_long || there > LINE_BYTES;
        if (lines->is_too_long)
            lines->begin = lines->end = 0;
        searched = lines->is_too_long ? 0 : there;
        if (fill (lines, fail))
            return -1;
    }
}

void
lines_close (struct lines *lines)
{
    if (lines->fd >= 0)
        close (lines->fd);
    lines->fd = -1;
    free (lines->buffer);
    lines->buffer = NULL;
}
