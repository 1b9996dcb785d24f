/* SPDX-License-Identifier: Apache-2.0 */
/* Images in PNG that a file has in base64. */
#ifndef REPORT_PNG_H
#define REPORT_PNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PNG_SIDE = 4096, PNG_BYTES = 4 << 20 }; /* the largest that is shown: pixels, bytes of the file */

/** Whether @p text is a file in PNG, as its chunks say, and not too large: their checksums and pixels are left to the
 *  browser.  @param[out] width, height  pixels */
bool png_is_valid (const char *text, size_t length, uint32_t *width, uint32_t *height);

#endif
