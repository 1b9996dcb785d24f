/* SPDX-License-Identifier: Apache-2.0 */
/* Writing messages of Protocol Buffers, version 3: what is 0 or empty is left out, unless it is of a oneof. */
#ifndef LIB_TRACK_PROTOBUF_H
#define LIB_TRACK_PROTOBUF_H

#include "util/strbuf.h"

#include <stdint.h>

/** The lowest @p bytes bytes of @p value, the lowest first. */
void pb_little (struct strbuf *out, uint64_t value, int bytes);

void pb_int (struct strbuf *out, unsigned field, int64_t value);
void pb_double (struct strbuf *out, unsigned field, double value);

/** A double or float of a oneof.  @{ */
void pb_one_double (struct strbuf *out, unsigned field, double value);
void pb_one_float (struct strbuf *out, unsigned field, float value);
/** @} */

void pb_bytes (struct strbuf *out, unsigned field, const void *bytes, size_t length);
void pb_text (struct strbuf *out, unsigned field, const char *text);

/** A message within a message, a packed list, or bytes that are made in place.
 *  @return for pb_end(), when its content was added */
size_t pb_begin (struct strbuf *out, unsigned field);
void pb_end (struct strbuf *out, size_t begin);

#endif
