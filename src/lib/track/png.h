/* SPDX-License-Identifier: Apache-2.0 */
/* Pixels as a file in PNG (RFC 2083), not compressed: training does not wait, but neither should the thread be busy. */
#ifndef LIB_TRACK_PNG_H
#define LIB_TRACK_PNG_H

#include "util/strbuf.h"

#include <accel/tracker.h>

/** Append an ACCEL_IMAGE of 1, 3 or 4 channels. */
void png_add (struct strbuf *out, const struct accel_value *image);

/** @return whether @p image, a file, begins as one in PNG; width and height of it are then set. */
bool png_read_size (const struct accel_value *image, uint32_t *width, uint32_t *height);

#endif
