/* SPDX-License-Identifier: Apache-2.0 */
/* What commands print besides their errors, which are main.c's. */
#ifndef CLI_PRINT_H
#define CLI_PRINT_H

#include "util/fail.h"
#include "util/strbuf.h"

/** Print a text on standard output.  @return 0, or -1 with @p fail if there was no memory for it */
int print_text (const struct strbuf *text, struct fail *fail);

/** Print a line on standard output: @p before, @p name, which may have control characters, and @p after. */
void print_line (const char *before, const char *name, const char *after);

/** The same on standard error, after "accelerate: note: ". */
void print_note (const char *before, const char *name, const char *after);

#endif
