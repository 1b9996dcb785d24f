/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that are shown to others must not hand over who may log in where. */
#ifndef UTIL_CREDENTIALS_H
#define UTIL_CREDENTIALS_H

#include "util/strbuf.h"

/** Append @p text with "***" for what stands between "://" and "@" of each address in it. */
void text_hide_credentials (const char *text, struct strbuf *out);

#endif
