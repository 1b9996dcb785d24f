/* SPDX-License-Identifier: Apache-2.0 */
/* Sums in the order of ranks, so that results can be compared bit by bit with those of the processor. */
#include <config.h>

#include "tests/standin/nccl_standin.h"

#include "lib/kernels/half_element.h"

#include <math.h>
#include <string.h>

#define COMBINE(name, type, wide)                                          \
    static type combine_##name (type x, type y, ncclRedOp_t op)           \
    {                                                                      \
        switch ((int) op) {                                                \
        case ncclProd: return (type) ((wide) x * (wide) y);                \
        case ncclMax: return y > x || y != y ? y : x;                      \
        case ncclMin: return y < x || y != y ? y : x;                      \
        default: return (type) ((wide) x + (wide) y);                      \
        }                                                                  \
    }
COMBINE (i8, int8_t, uint32_t)
COMBINE (u8, uint8_t, uint32_t)
COMBINE (i32, int32_t, uint32_t)
COMBINE (u32, uint32_t, uint32_t)
COMBINE (i64, int64_t, uint64_t)
COMBINE (u64, uint64_t, uint64_t)
COMBINE (f32, float, float)
COMBINE (f64, double, double)

#define EACH(type, name, end)                                                  \
    for (size_t i = 0; i < count; i++) {                                       \
        type x = ((const type *) sources[0])[i];                               \
        for (int s = 1; s < n; s++)                                            \
            x = combine_##name (x, ((const type *) sources[s])[i], op);        \
        ((type *) target)[i] = (type) (end);                                   \
    }                                                                          \
    break

/* An average divides at the end. */
static void
reduce_halves (bool brain, ncclRedOp_t op, const void *const *sources, int n, uint16_t *target, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float x = 0;
        for (int s = 0; s < n; s++) {
            uint16_t bits = ((const uint16_t *) sources[s])[i];
            float y = brain ? float_of_bf16 (bits) : float_of_half (bits);
            x = s ? combine_f32 (x, y, op) : y;
        }
        if (op == ncclAvg)
            x /= (float) n;
        target[i] = brain ? bf16_of_float (x) : half_of_float (x);
    }
}

void
nccl_reduce (ncclDataType_t type, ncclRedOp_t op, const void *const *sources, int n, void *target, size_t count)
{
    switch ((int) type) {
    case ncclInt8: EACH (int8_t, i8, x);
    case ncclUint8: EACH (uint8_t, u8, x);
    case ncclInt32: EACH (int32_t, i32, x);
    case ncclUint32: EACH (uint32_t, u32, x);
    case ncclInt64: EACH (int64_t, i64, x);
    case ncclUint64: EACH (uint64_t, u64, x);
    case ncclFloat32: EACH (float, f32, op == ncclAvg ? x / (float) n : x);
    case ncclFloat64: EACH (double, f64, op == ncclAvg ? x / (double) n : x);
    case ncclFloat16: reduce_halves (false, op, sources, n, target, count); break;
    case NCCL_BFLOAT16: reduce_halves (true, op, sources, n, target, count); break;
    default: standin_report (NULL, NULL, "%d is not a type that can be reduced", (int) type);
    }
}
