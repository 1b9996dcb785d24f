/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines that messages show. */
#ifndef UTIL_SHELL_WORD_H
#define UTIL_SHELL_WORD_H

#include "util/strbuf.h"

/** Append a word as one would type it in a shell: in quotes only if it needs them. */
void shell_word_add (struct strbuf *out, const char *word);

#endif
