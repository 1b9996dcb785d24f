/* SPDX-License-Identifier: Apache-2.0 */
/* The inner loops of reductions, compiled once per instruction set; see kernels_body.h. */
#ifndef LIB_COMM_KERNELS_H
#define LIB_COMM_KERNELS_H

#include <accel/comm.h>

/** target = a op b; `target` may be `a` or `b`.  SUM serves AVG too. */
typedef void kernel_combine (void *target, const void *a, const void *b, size_t count);

/** 16-bit floats to float32, and back with rounding to nearest even. */
typedef void kernel_widen (float *target, const uint16_t *source, size_t count);
typedef void kernel_narrow (uint16_t *target, const float *source, size_t count);

struct kernels {
    const char *name;
    kernel_combine *combine[ACCEL_DTYPE_COUNT][ACCEL_OP_COUNT]; /* NULL: not defined, or by way of float32 */
    kernel_widen *widen[ACCEL_DTYPE_COUNT];
    kernel_narrow *narrow[ACCEL_DTYPE_COUNT];
    void (*divide_f32) (float *values, size_t count, float divisor);
    void (*divide_f64) (double *values, size_t count, double divisor);
    void (*to_bool) (uint8_t *target, const uint8_t *source, size_t count);
};

extern const struct kernels kernels_base;
#if defined __x86_64__
extern const struct kernels kernels_avx2;
extern const struct kernels kernels_avx512;
#endif

/** @return the best that this processor can run. */
const struct kernels *kernels_choose (void);

#endif
