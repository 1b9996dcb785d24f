/* SPDX-License-Identifier: Apache-2.0 */
/* "did you mean": the known name nearest to a mistyped one. */
#ifndef UTIL_SUGGEST_H
#define UTIL_SUGGEST_H

#include <stddef.h>

/** Feed names one by one; start with all zero but `wanted`.  '-' and '_' count as equal. */
struct suggest {
    const char *wanted;
    const char *best; /* NULL while nothing is near enough */
    unsigned distance;
};

void suggest_consider (struct suggest *suggest, const char *name);

/** @return " (did you mean 'NAME'?)" in @p space, or "" if nothing is near. */
const char *suggest_text (const struct suggest *suggest, const char *prefix, char *space, size_t size);

#endif
