/* SPDX-License-Identifier: Apache-2.0 */
/* On a terminal, equal lines that several ranks write at about the same time are shown once: "[0-7] line".
 *
 * Whole lines wait in a queue for OUTPUT_COLLAPSE_MS, or until all ranks have written them.  A rank's lines stay in
 * their order; nothing is dropped.  What is not a whole line, such as a question or a progress bar, and what a rank
 * writes in bulk, is passed on at once, after all that waits. */
#ifndef LAUNCH_OUTPUT_COLLAPSE_H
#define LAUNCH_OUTPUT_COLLAPSE_H

#include "launch/output/output.h"

enum {
    OUTPUT_COLLAPSE_MS = 100,
    OUTPUT_COLLAPSE_LINES = 128,         /* that wait at most */
    OUTPUT_COLLAPSE_LINE_BYTES = 4096,   /* of a line that may wait */
    OUTPUT_COLLAPSE_BURST = 64 * 1024,   /* a stream that has written more without a pause does not wait */
};

struct output_collapse;

/** @return NULL without memory.  @param first_rank  of the @p ranks that write there */
struct output_collapse *output_collapse_create (struct output_sink *sink, int first_rank, int ranks);

/** Accepts NULL. */
void output_collapse_destroy (struct output_collapse *collapse);

/** Take a line of @p stream, without its end.  Of the stream are used: local_rank, prefix, read_ms, burst.
 * @return false if it does not wait: the line is long, or one of many; the queue is full, and the sink takes nothing
 *  now; or there is no memory */
bool output_collapse_add (struct output_collapse *collapse, struct output_stream *stream, const char *line,
                          size_t length);

/** Pass on lines that have waited until @p before_ms or longer; INT64_MAX: all.
 * @param by  the stream that owns the sink; NULL: none
 * @return false if the sink does not take all of them now */
bool output_collapse_pass_on (struct output_collapse *collapse, const struct output_stream *by, int64_t before_ms);

/** @return when the next line has waited long enough; INT64_MAX: none waits */
int64_t output_collapse_due (const struct output_collapse *collapse);

/** @return how many bytes wait */
uint64_t output_collapse_left (const struct output_collapse *collapse);

#endif
