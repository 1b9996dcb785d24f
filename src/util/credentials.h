/* SPDX-License-Identifier: Apache-2.0 */
/* Text that is shown to others must not contain credentials. */
#ifndef UTIL_CREDENTIALS_H
#define UTIL_CREDENTIALS_H

#include "util/strbuf.h"

/** Append @p text with "***" for everything between "://" and "@" of each address in it. */
void text_hide_credentials (const char *text, struct strbuf *out);

#endif
