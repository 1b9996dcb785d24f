/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of a CUDA block as fibers of one thread of the operating system, in a random order. */
#ifndef TESTS_STANDIN_FIBERS_H
#define TESTS_STANDIN_FIBERS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fiber_dim {
    unsigned x, y, z;
};
struct fiber_self {
    struct fiber_dim tid, ctaid, ntid, nctaid;
};

/** The running CUDA thread. */
extern struct fiber_self *fiber_self;

/** Call @p body with @p argument once for each thread of the grid, on one thread at a time.  Aborts with a message if
 *  threads of a block miss a barrier. */
void fiber_launch (const char *name, struct fiber_dim grid, struct fiber_dim block, void (*body) (void *),
                   void *argument);

/** __syncthreads(). */
void fiber_barrier (void);

/** A __shared__ variable: the same address for all threads of a block, and fresh for each, with all bits set. */
void *fiber_shared (const void *key, size_t bytes);

/** Where the order comes from. */
void fiber_seed (uint64_t seed);
unsigned fiber_random (unsigned below);

#ifdef __cplusplus
}
#endif

#endif
