/* SPDX-License-Identifier: Apache-2.0 */
/* Paths that begin with ~, if no shell has replaced it: in variables, files, and after the = of an option. */
#ifndef UTIL_HOME_H
#define UTIL_HOME_H

#include "util/strbuf.h"

/** Append @p path with the user's home folder in place of a leading "~" or "~/".  Other users' and variables stay. */
void home_add (struct strbuf *out, const char *path);

#endif
