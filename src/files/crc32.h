/* SPDX-License-Identifier: Apache-2.0 */
/* The CRC of zip archives: polynomial 0xedb88320 (reflected), as in ISO 3309. */
#ifndef FILES_CRC32_H
#define FILES_CRC32_H

#include <stddef.h>
#include <stdint.h>

/** @return @p crc, 0 at first, with @p length more bytes.  Thread-safe. */
uint32_t crc32_add (uint32_t crc, const void *bytes, size_t length);

#endif
