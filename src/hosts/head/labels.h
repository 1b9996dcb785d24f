/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks' lines on a terminal of the head.  On each host, the launcher writes a mark where a rank's label belongs
 * (launch/output/terminal.h).  The head puts the label there, and shows equal lines of several ranks once, on whichever
 * hosts those are (launch/output/collapse.h). */
#ifndef HOSTS_HEAD_LABELS_H
#define HOSTS_HEAD_LABELS_H

#include "launch/output/collapse.h"
#include "util/fail.h"

enum { LABELS_STREAMS = 2 };

struct labels {
    struct output_stream *ranks; /* [count]; of each, what output_collapse_add() uses */
    int count;
    /* Of standard output and standard error, the same twice if both are one file; NULL: without marks. */
    struct output_collapse *collapses[LABELS_STREAMS];
};

/** What has been read of a line that a host's launcher writes.  All zero is the beginning of one. */
struct labels_line {
    enum { LABELS_BEGIN, LABELS_RETURN, LABELS_MARK, LABELS_TEXT } state;
    int rank;             /* whose line it is, from 1; 0: the launcher's own */
    bool is_whole;        /* nothing of it has been put */
    bool lacks_label;     /* nor its label */
    struct output_line line; /* where it is for the sink */
};

/** Begin a start of @p world_size ranks, whose launchers write marks for those of @p sink_of that are terminals.
 *  @return 0, or -1 with @p fail set */
int labels_begin (struct labels *labels, struct output_sink *const sink_of[LABELS_STREAMS], int world_size,
                  struct fail *fail);

/** Pass on the first piece of @p text, at most a line.
 *  @param which    of the launcher's streams, one with a queue
 *  @param is_part  the rest of the line is on its way
 *  @return its bytes; 0: the sink does not take it now */
size_t labels_put (struct labels *labels, int which, struct labels_line *line, struct output_sink *sink,
                   const char *text, size_t length, bool is_part);

/** Pass on lines that have waited until @p before_ms or longer; INT64_MAX: all.  @return whether the sinks took them */
bool labels_pass_on (struct labels *labels, int64_t before_ms);

/** @return when the next line has waited long enough for one of @p sink_of that has room; INT64_MAX: none waits */
int64_t labels_due (const struct labels *labels, struct output_sink *const sink_of[LABELS_STREAMS]);

void labels_release (struct labels *labels);

#endif
