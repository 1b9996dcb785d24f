/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes that tell different content apart: FNV-1a (G. Fowler, L. C. Noll, K.-P. Vo), 64 bits.  They go to files and to
 * other processes, so they must not change. */
#ifndef UTIL_HASH_H
#define UTIL_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_START UINT64_C (0xcbf29ce484222325)

/** @return @p hash with one more byte, or, if that is enough, with up to 64 bits at once. */
static inline uint64_t
hash_word (uint64_t hash, uint64_t word)
{
    return (hash ^ word) * UINT64_C (0x100000001b3);
}

/** @return @p hash, HASH_START at first, with @p length more bytes. */
static inline uint64_t
hash_bytes (uint64_t hash, const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < length; i++)
        hash = hash_word (hash, at[i]);
    return hash;
}

#endif
