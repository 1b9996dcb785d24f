/* SPDX-License-Identifier: Apache-2.0 */
/* A float and its bits, and how functions of single elements are declared: in headers that C and CUDA both include, so
 * that processors and GPUs compute the same.  They are always inlined, so that loops that are compiled for newer
 * processors become vectors; ELEMENT_CALLED ones, which have branches, are not.  A file that includes them contracts
 * nothing: see arithmetic.h, and nvcc -fmad=false. */
#ifndef LIB_KERNELS_BITS_H
#define LIB_KERNELS_BITS_H

#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define ELEMENT __host__ __device__ __forceinline__ static
#define ELEMENT_CALLED ELEMENT
#else
#define ELEMENT __attribute__ ((always_inline)) static inline
#define ELEMENT_CALLED static inline
#endif

ELEMENT uint32_t
bits_of (float value)
{
    uint32_t bits;
    memcpy (&bits, &value, sizeof bits);
    return bits;
}

ELEMENT float
float_of (uint32_t bits)
{
    float value;
    memcpy (&value, &bits, sizeof value);
    return value;
}

#endif
