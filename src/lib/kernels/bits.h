/* SPDX-License-Identifier: Apache-2.0 */
/* A float and its bits.  Always inlined, so that loops that are compiled for newer processors become vectors. */
#ifndef LIB_KERNELS_BITS_H
#define LIB_KERNELS_BITS_H

#include <stdint.h>
#include <string.h>

__attribute__ ((always_inline)) static inline uint32_t
bits_of (float value)
{
    uint32_t bits;
    memcpy (&bits, &value, sizeof bits);
    return bits;
}

__attribute__ ((always_inline)) static inline float
float_of (uint32_t bits)
{
    float value;
    memcpy (&value, &bits, sizeof value);
    return value;
}

#endif
