/* SPDX-License-Identifier: Apache-2.0 */
/* What Python makes of a scalar: Accelerate reads files with PyYAML (YAML 1.1) and writes values into the environment
 * with str(), so `yes` becomes True, 0x10 becomes 16, 1.50 becomes 1.5, and 1e3 stays a text. */
#ifndef CONFIG_TEXT_SCALAR_H
#define CONFIG_TEXT_SCALAR_H

#include "util/strbuf.h"

#include <stdbool.h>

enum scalar_kind {
    SCALAR_TEXT,
    SCALAR_NULL,
    SCALAR_BOOL,
    SCALAR_INT,
    SCALAR_FLOAT,
    SCALAR_DATE, /* of no use in a configuration; kept unchanged */
};

/** What YAML 1.1 reads the bare word @p text as; appends Python's text of it to @p out (which may be NULL). */
enum scalar_kind scalar_read (const char *text, struct strbuf *out);

/** Append Python's repr() of a float: the shortest digits that give the same number, 1.0, 1e-05, inf. */
void scalar_add_float (struct strbuf *out, double value);

#endif
