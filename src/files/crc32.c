/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32, eight bytes at a time; see crc32.h.
 * Source: M. E. Kounavis, F. L. Berry: A Systematic Approach to Building High Performance Software-Based CRC
 * Generators, 2005 ("slicing by 8").  zlib has one, but linking it would make each start of the command slower. */
#include <config.h>

#include "files/crc32.h"

#include <pthread.h>

static uint32_t tables[8][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void
fill_tables (void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C (0xedb88320) : 0);
        tables[0][byte] = crc;
    }
    for (int i = 1; i < 8; i++)
        for (int byte = 0; byte < 256; byte++)
            tables[i][byte] = tables[i - 1][byte] >> 8 ^ tables[0][tables[i - 1][byte] & 0xff];
}

uint32_t
crc32_add (uint32_t crc, const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    pthread_once (&once, fill_tables);
    crc = ~crc;
    for (; length >= 8; at += 8, length -= 8) {
        crc ^= at[0] | (uint32_t) at[1] << 8 | (uint32_t) at[2] << 16 | (uint32_t) at[3] << 24;
        crc = tables[7][crc & 0xff] ^ tables[6][crc >> 8 & 0xff] ^ tables[5][crc >> 16 & 0xff] ^ tables[4][crc >> 24]
              ^ tables[3][at[4]] ^ tables[2][at[5]] ^ tables[1][at[6]] ^ tables[0][at[7]];
    }
    for (; length; at++, length--)
        crc = crc >> 8 ^ tables[0][(crc ^ *at) & 0xff];
    return ~crc;
}
