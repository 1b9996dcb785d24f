/* SPDX-License-Identifier: Apache-2.0 */
/* Lines on standard error that are redrawn if it is a terminal. */
#ifndef LIB_UTILITY_TERMINAL_H
#define LIB_UTILITY_TERMINAL_H

#include "util/strbuf.h"

/** @return how many characters a line on standard error may have: what wraps cannot be drawn over. */
size_t terminal_columns (bool terminal);

/** Write @p line over the one before it, cut to the columns that there are; elsewhere than on a terminal, below it.
 *  @param last  no other is written over it */
void terminal_draw (const struct strbuf *line, bool terminal, bool last);

#endif
