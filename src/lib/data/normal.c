/* SPDX-License-Identifier: Apache-2.0 */
/* The Box-Muller transform of float32 as torch computes it, 16 numbers at a time.
 *
 * torch's AVX2 kernels use polynomials for log, sin and cos: those of S. Moshier's Cephes library (single/logf.c,
 * sinf.c), as G. Garberoglio's avx_mathfun.h arranges them for vectors.  Written here for one number, with the same
 * order of operations.  GCC, which torch is built with, fuses a product with the sum that it is used in where the
 * processor can; where it does is found by comparing bits with torch 2.15, and written out with fmaf (). */
#include <config.h>

#include "lib/data/normal.h"

#include "lib/kernels/bits.h"

#include <math.h>

/* What is not written as fmaf () must round twice, whatever the processor could do. */
#if defined __GNUC__ && !defined __clang__
#define OPTIMIZED optimize ("O3", "fp-contract=off")
#define VECTORISED __attribute__ ((OPTIMIZED))
#define ROLLED _Pragma ("GCC unroll 1") /* else GCC takes the loop apart before it looks for vectors */
#define VECTORISED_FUSED __attribute__ ((OPTIMIZED, target ("avx2,fma")))
#else
#pragma STDC FP_CONTRACT OFF
#define VECTORISED
#define ROLLED
#define VECTORISED_FUSED __attribute__ ((target ("avx2,fma")))
#endif

#define INLINED __attribute__ ((always_inline)) static inline

enum { COPY_STREAMS = 8 };

/* ln x for a normal number 0 < x <= 1: x = m * 2^e, sqrt(1/2) <= m < sqrt(2), and a polynomial in m - 1. */
VECTORISED INLINED float
log_polynomial (float x)
{
    uint32_t bits = bits_of (x);
    float exponent = (float) ((int32_t) (bits >> 23) - 127) + 1.0F;
    float mantissa = float_of ((bits & UINT32_C (0x807fffff)) | UINT32_C (0x3f000000));
    uint32_t low = -(uint32_t) (mantissa < 0.707106781186547524F); /* a mask */
    exponent -= float_of (low & bits_of (1.0F));
    mantissa = (mantissa - 1.0F) + float_of (low & bits_of (mantissa));
    float square = mantissa * mantissa;
    float sum = 7.0376836292E-2F;
    sum = fmaf (sum, mantissa, -1.1514610310E-1F);
    sum = fmaf (sum, mantissa, 1.1676998740E-1F);
    sum = fmaf (sum, mantissa, -1.2420140846E-1F);
    sum = fmaf (sum, mantissa, 1.4249322787E-1F);
    sum = fmaf (sum, mantissa, -1.6668057665E-1F);
    sum = fmaf (sum, mantissa, 2.0000714765E-1F);
    sum = fmaf (sum, mantissa, -2.4999993993E-1F);
    sum = fmaf (sum, mantissa, 3.3333331174E-1F);
    sum = fmaf (sum * mantissa, square, exponent * -2.12194440e-4F);
    sum = fmaf (-square, 0.5F, sum);
    return fmaf (exponent, 0.693359375F, mantissa + sum);
}

/* Sine and cosine of 0 <= x < 2 pi: x less a multiple of pi / 2, taken off in three parts, and two polynomials. */
VECTORISED INLINED void
sin_cos_polynomial (float x, float *sine, float *cosine)
{
    int32_t octant = ((int32_t) (x * 1.27323954473516F) + 1) & ~1;
    float turns = (float) octant;
    uint32_t sine_sign = (uint32_t) (octant & 4) << 29, cosine_sign = (uint32_t) (~(octant - 2) & 4) << 29;
    x = fmaf (turns, -0.78515625F, x);
    x = fmaf (turns, -2.4187564849853515625e-4F, x);
    x = fmaf (turns, -3.77489497744594108e-8F, x);
    float square = x * x;
    float even = fmaf (2.443315711809948E-005F, square, -1.388731625493765E-003F);
    even = fmaf (even, square, 4.166664568298827E-002F);
    even = fmaf (even * square, square, -(square * 0.5F)) + 1.0F;
    float odd = fmaf (-1.9515295891E-4F, square, 8.3321608736E-3F);
    odd = fmaf (odd, square, -1.6666654611E-1F);
    odd = fmaf (odd * square, x, x);
    uint32_t swapped = -((uint32_t) octant >> 1 & 1), differ = (bits_of (even) ^ bits_of (odd)) & swapped;
    *sine = float_of (bits_of (odd) ^ differ ^ sine_sign);
    *cosine = float_of (bits_of (even) ^ differ ^ cosine_sign);
}

/* The loop over roots is separate: a root may set errno, and no loop with one becomes vectors. */
VECTORISED INLINED void
transform (float *restrict values, float mean, float std)
{
    float radii[COPY_STREAMS], sines[COPY_STREAMS], cosines[COPY_STREAMS];
    ROLLED
    for (int i = 0; i < COPY_STREAMS; i++) {
        radii[i] = -2.0F * log_polynomial (1.0F - values[i]);
        sin_cos_polynomial (6.283185307179586F * values[COPY_STREAMS + i], &sines[i], &cosines[i]);
    }
    for (int i = 0; i < COPY_STREAMS; i++)
        radii[i] = sqrtf (radii[i]);
    for (int i = 0; i < COPY_STREAMS; i++) {
        values[i] = fmaf (radii[i] * cosines[i], std, mean);
        values[COPY_STREAMS + i] = fmaf (radii[i] * sines[i], std, mean);
    }
}

VECTORISED void
normal_16_avx2_plain (float *values, float mean, float std)
{
    transform (values, mean, std);
}

#if defined __x86_64__
/* The same with the processor's own fused operations, where fmaf () is not a call. */
VECTORISED_FUSED static void
transform_fused (float *values, float mean, float std)
{
    transform (values, mean, std);
}
#endif

void
normal_16_avx2 (float *values, float mean, float std)
{
#if defined __x86_64__
    if (__builtin_cpu_supports ("avx2") && __builtin_cpu_supports ("fma")) {
        transform_fused (values, mean, std);
        return;
    }
#endif
    normal_16_avx2_plain (values, mean, std);
}

VECTORISED void
normal_16_portable (float *values, float mean, float std)
{
    for (int i = 0; i < COPY_STREAMS; i++) {
        float radius = sqrtf (-2.0F * logf (1.0F - values[i]));
        float theta = (float) (6.283185307179586 * (double) values[COPY_STREAMS + i]);
        values[i] = fmaf (radius * cosf (theta), std, mean);
        values[COPY_STREAMS + i] = fmaf (radius * sinf (theta), std, mean);
    }
}
