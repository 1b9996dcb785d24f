/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of bytes as people read them. */
#ifndef UTIL_BYTES_H
#define UTIL_BYTES_H

#include "util/strbuf.h"

#include <stdint.h>

/** Append a number of bytes in decimal units: "1.2 GB". */
void bytes_add (struct strbuf *out, uint64_t bytes);

#endif
