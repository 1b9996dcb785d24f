/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-1; see sha1.h. */
#include <config.h>

#include "aws/sha1.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static uint32_t
rotate (uint32_t word, unsigned bits)
{
    return word << bits | word >> (32 - bits);
}

static void
add_block (uint32_t hash[5], const unsigned char *block)
{
    static const uint32_t constants[4] = { 0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6 };
    uint32_t words[80], state[5];
    for (size_t i = 0; i < 16; i++)
        words[i] = (uint32_t) block[4 * i] << 24 | (uint32_t) block[4 * i + 1] << 16 | (uint32_t) block[4 * i + 2] << 8
                   | block[4 * i + 3];
    for (size_t i = 16; i < 80; i++)
        words[i] = rotate (words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
    memcpy (state, hash, sizeof state);
    for (size_t i = 0; i < 80; i++) {
        uint32_t b = state[1], c = state[2], d = state[3];
        uint32_t mix = i < 20 ? (b & c) | (~b & d) : i >= 40 && i < 60 ? (b & c) | (b & d) | (c & d) : b ^ c ^ d;
        uint32_t next = rotate (state[0], 5) + mix + state[4] + constants[i / 20] + words[i];
        memmove (state + 1, state, 4 * sizeof *state);
        state[0] = next;
        state[2] = rotate (b, 30);
    }
    for (size_t i = 0; i < 5; i++)
        hash[i] += state[i];
}

void
sha1_text (const void *bytes, size_t length, char text[SHA1_TEXT])
{
    uint32_t hash[5] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0 };
    const unsigned char *at = bytes;
    unsigned char last[128] = { 0 };
    size_t left = length;
    for (; left >= 64; left -= 64, at += 64)
        add_block (hash, at);
    size_t end = left < 56 ? 64 : 128;
    if (left)
        memcpy (last, at, left);
    last[left] = 0x80;
    for (size_t i = 0; i < 8; i++)
        last[end - 1 - i] = (unsigned char) ((uint64_t) length * 8 >> 8 * i);
    for (size_t done = 0; done < end; done += 64)
        add_block (hash, last + done);
    for (size_t i = 0; i < 5; i++)
        snprintf (text + 8 * i, 9, "%08x", (unsigned) hash[i]);
}
