/* SPDX-License-Identifier: Apache-2.0 */
/* The modes of mixed precision, which the command and the library share.  HACKING.md tells how to add one. */
#ifndef UTIL_PRECISIONS_H
#define UTIL_PRECISIONS_H

/**
 * Name, the accel_dtype that is computed in, whether losses are scaled, and in training the bytes of a weight and of a
 * gradient.  The first is the default.
 */
#define PRECISION_MAP(X)                \
    X ("no", FLOAT32, false, 4, 4)      \
    X ("fp16", FLOAT16, true, 2, 2)     \
    X ("bf16", BFLOAT16, false, 2, 2)   \
    X ("fp8", BFLOAT16, false, 1, 2)

#endif
