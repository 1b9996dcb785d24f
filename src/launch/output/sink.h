/* SPDX-License-Identifier: Apache-2.0 */
/* Where the ranks' lines go: our stdout or stderr, through a buffer of fixed size.  When its reader is slow the buffer
 * fills up and takes no more; nothing that it has taken is dropped while a process reads. */
#ifndef LAUNCH_OUTPUT_SINK_H
#define LAUNCH_OUTPUT_SINK_H

#include "util/fail.h"
#include "util/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { OUTPUT_SINK_BYTES = 64 * 1024 };

/** After a piece of a line that is too long, where another rank's line follows. */
#define OUTPUT_CUT_MARK " [accelerate: long line, continued below]"

struct output_stream;

/** A line that a stream puts in pieces. */
struct output_line {
    bool is_cut; /* it was too long, and a piece of it has been passed on */
    bool has_return; /* a carriage return: a progress bar, which draws over itself */
    bool continues; /* its rest is on its way: others wait for it */
};

/** A line at the bottom of a terminal, after all output.  What is put next erases it. */
struct output_status {
    bool is_put;          /* nothing was put after it */
    pid_t group;          /* draw and erase only while this process group has the terminal */
    _Atomic int *is_seen; /* 1 while it is what the terminal shows last; NULL: not asked for */
    uint64_t bytes;       /* put so far for such lines, and to erase them */
};

struct output_sink {
    int fd;
    int own_fd;        /* the same, which never makes us wait; -1 if there is none */
    const char *name;  /* for people: "standard error" */
    bool is_terminal;
    bool may_block;    /* a pipe, socket or terminal: ask before writing */
    bool broken;       /* takes nothing any more */
    int error;         /* why, unless its reader has merely gone away; 0 */
    char *ring;        /* [OUTPUT_SINK_BYTES] */
    size_t first, count;
    uint64_t written;  /* bytes ever */
    uint64_t lost;     /* bytes that were put here and not written, because of `error` */
    struct output_status status;
    const struct output_stream *owner;      /* has put a part of what must stay together; the others wait */
    const struct output_line *unfinished; /* whose end is still missing at the end of the output; NULL: none */
};

/** Allocate the buffer, so that no later lack of memory can lose a line. */
int output_sink_init (struct output_sink *sink, int fd, const char *name, struct fail *fail);

/** Make the sinks of our stdout and stderr.
 *  @param[out] sink_of  the same one twice if both are one file: lines stay whole there */
int output_sinks_init (struct output_sink sinks[2], struct output_sink *sink_of[2], struct fail *fail);

/** Whether our stdout and stderr are one file. */
bool output_is_one_file (void);

/** The number of bytes that it has ever taken, status lines left out. */
uint64_t output_sink_position (const struct output_sink *sink);

/** Whether it holds so much that ranks should wait. */
bool output_sink_is_full (const struct output_sink *sink);
bool output_sink_is_empty (const struct output_sink *sink);

/** Write what can be written without waiting. */
void output_sink_drain (struct output_sink *sink);

/** @return how many of @p bytes it has taken, from their beginning */
size_t output_sink_put (struct output_sink *sink, const char *bytes, size_t length);

/** The same for few bytes that must stay together.  @return false if there is no room: nothing was accepted */
bool output_sink_put_whole (struct output_sink *sink, const char *bytes, size_t length);

/** Begin a new line after an unfinished one, unless that is @p line.  @return false if there is no room, or its rest is
 * on its way */
bool output_sink_end_foreign_line (struct output_sink *sink, const struct output_line *line);

/** Put a line of our own.  @return false if it cannot be taken now: try again later */
bool output_sink_say (struct output_sink *sink, const char *line);

/** Show @p text, which fits into a line of the terminal, below all output.  @return false if it cannot be shown now */
bool output_sink_show_status (struct output_sink *sink, const char *text);

/** Erase the status line, if there is one.  @return false if it cannot be erased now */
bool output_sink_erase_status (struct output_sink *sink);

/** Put the lines of @p text, as far as the sink takes them now; those are removed from it. */
void output_sink_say_lines (struct output_sink *sink, struct strbuf *text);

void output_sink_release (struct output_sink *sink);

/* logfile.c: one file of a rank's output.  What cannot be written is counted, and reported in the file once
 * it can be written again: a full disk costs lines of the file, never the job. */

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

void logfile_release (struct logfile *file);

#endif
