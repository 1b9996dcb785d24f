/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C, eight bytes at a time ("slicing by 8", M. Kounavis and F. Berry, 2005); see crc32c.h. */
#include <config.h>

#include "lib/track/crc32c.h"

#include <pthread.h>

enum { SLICES = 8 };

static uint32_t table[SLICES][256];

static void
make_table (void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C (0x82f63b78) : 0);
        table[0][i] = crc;
    }
    for (int slice = 1; slice < SLICES; slice++)
        for (int i = 0; i < 256; i++)
            table[slice][i] = table[slice - 1][i] >> 8 ^ table[0][table[slice - 1][i] & 255];
}

uint32_t
crc32c (const void *bytes, size_t length)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const unsigned char *at = bytes;
    uint32_t crc = UINT32_MAX;
    pthread_once (&once, make_table);
    for (; length >= SLICES; length -= SLICES, at += SLICES) {
        crc ^= (uint32_t) at[0] | (uint32_t) at[1] << 8 | (uint32_t) at[2] << 16 | (uint32_t) at[3] << 24;
        crc = table[7][crc & 255] ^ table[6][crc >> 8 & 255] ^ table[5][crc >> 16 & 255] ^ table[4][crc >> 24]
              ^ table[3][at[4]] ^ table[2][at[5]] ^ table[1][at[6]] ^ table[0][at[7]];
    }
    for (; length; length--, at++)
        crc = crc >> 8 ^ table[0][(crc ^ *at) & 255];
    return ~crc;
}
