/* SPDX-License-Identifier: Apache-2.0 */
/* Tables: columns on a terminal, tabs in a pipe. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include "util/strbuf.h"

#include <stdint.h>

enum { TABLE_MAX_COLUMNS = 16 };

/** Start with `columns` and `right`, the rest zero; release `cells`. */
struct table {
    size_t columns;
    unsigned right;       /* bit i: column i is aligned to the right on terminals */
    struct strlist cells; /* row by row */
};

/** Append a cell.  Control characters, tabs included, become escapes. @{ */
void table_add (struct table *table, const char *text);
void table_add_number (struct table *table, uint64_t number);
/** @} */

/** Append the text of all rows. @param is_terminal  else one tab between cells, and the first row, the heading, is left
 *  out */
void table_show (const struct table *table, bool is_terminal, struct strbuf *out);

#endif
