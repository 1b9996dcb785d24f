/* SPDX-License-Identifier: Apache-2.0 */
/* XXH3; see checksum.h.  The header of libxxhash contains all of its code, so that nothing has to be linked. */
#include <config.h>

#include "files/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

_Static_assert (sizeof (XXH3_state_t) <= CHECKSUM_ROOM, "room for the state of XXH3");
_Static_assert (_Alignof (XXH3_state_t) <= CHECKSUM_ALIGNMENT, "alignment of the state of XXH3");

void
checksum_begin (struct checksum *checksum)
{
    XXH3_64bits_reset ((XXH3_state_t *) (void *) checksum->room);
}

void
checksum_add (struct checksum *checksum, const void *bytes, size_t length)
{
    if (length)
        XXH3_64bits_update ((XXH3_state_t *) (void *) checksum->room, bytes, length);
}

uint64_t
checksum_end (const struct checksum *checksum)
{
    return XXH3_64bits_digest ((const XXH3_state_t *) (const void *) checksum->room);
}

uint64_t
checksum_bytes (const void *bytes, size_t length)
{
    return XXH3_64bits (bytes, length);
}
