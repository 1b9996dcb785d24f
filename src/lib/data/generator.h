/* SPDX-License-Identifier: Apache-2.0 */
/* The generator's state, for owners that hold one by value. */
#ifndef LIB_DATA_GENERATOR_H
#define LIB_DATA_GENERATOR_H

#include <accel/random.h>

enum { GENERATOR_WORDS = 624 };

struct accel_generator {
    uint64_t seed;
    int next; /* index of the next word; GENERATOR_WORDS: draw a new set first */
    uint32_t words[GENERATOR_WORDS];
};

void generator_init (struct accel_generator *generator, uint64_t seed);

#endif
