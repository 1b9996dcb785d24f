/* SPDX-License-Identifier: Apache-2.0 */
/* How large the chunks are in which sharding divides a parameter among processes; the command estimates with it. */
#ifndef UTIL_CHUNK_H
#define UTIL_CHUNK_H

#include "util/memory.h"

#include <stdint.h>

/** Whole cache lines of float32 states; chunks smaller than a page of them would save nothing.
 *  @param count  elements of the parameter
 *  @return elements of each process's chunk; what is left over, all processes have; 0: it is not divided */
static inline uint64_t
chunk_size (uint64_t count, uint64_t processes)
{
    enum { LINE = MEMORY_ALIGNMENT / sizeof (float), LEAST = 1024 };
    uint64_t chunk = processes < 2 ? 0 : count / processes / LINE * LINE;
    return chunk < LEAST ? 0 : chunk;
}

#endif
