/* SPDX-License-Identifier: Apache-2.0 */
/* The CRC of TensorBoard's records: Castagnoli's polynomial, reflected 0x82f63b78, as in RFC 3720. */
#ifndef LIB_TRACK_CRC32C_H
#define LIB_TRACK_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/** Thread-safe. */
uint32_t crc32c (const void *bytes, size_t length);

#endif
