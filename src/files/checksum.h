/* SPDX-License-Identifier: Apache-2.0 */
/* XXH3-64 (Yann Collet, https://xxhash.com): the checksum of checkpoints.  It detects damage, not intent. */
#ifndef FILES_CHECKSUM_H
#define FILES_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

enum { CHECKSUM_ROOM = 640, CHECKSUM_ALIGNMENT = 64, CHECKSUM_DIGITS = 16 };

/** A checksum of bytes that come in pieces. */
struct checksum {
    _Alignas (CHECKSUM_ALIGNMENT) unsigned char room[CHECKSUM_ROOM];
};

void checksum_begin (struct checksum *checksum);
void checksum_add (struct checksum *checksum, const void *bytes, size_t length);

/** @return the checksum of what was added so far. */
uint64_t checksum_end (const struct checksum *checksum);

/** @return the checksum of @p length bytes. */
uint64_t checksum_bytes (const void *bytes, size_t length);

#endif
