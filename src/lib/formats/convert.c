/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of one type as elements of another; see convert.h. */
#include <config.h>

#include "lib/formats/convert.h"

#include "lib/kernels/dtypes.h"
#include "lib/kernels/floats.h"

#include <string.h>

static bool
same (DLDataType a, DLDataType b)
{
    return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

size_t
convert_element_bytes (DLDataType type)
{
    return (size_t) type.bits * type.lanes / 8;
}

bool
convert_can (DLDataType to, DLDataType from)
{
    return same (to, from)
           || (dtype_is_float (accel_dtype_from_dl (to)) && dtype_is_float (accel_dtype_from_dl (from)));
}

static void
widen (float *block, const void *elements, enum accel_dtype from, size_t count)
{
    if (from != ACCEL_FLOAT64) {
        floats_widen (block, elements, from, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        double value;
        memcpy (&value, (const char *) elements + i * sizeof value, sizeof value);
        block[i] = (float) value;
    }
}

static void
narrow (void *into, enum accel_dtype to, const float *block, size_t count)
{
    if (to != ACCEL_FLOAT64) {
        floats_narrow (into, to, block, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        double value = (double) block[i];
        memcpy ((char *) into + i * sizeof value, &value, sizeof value);
    }
}

void
convert_elements (void *into, DLDataType to, const void *elements, DLDataType from, size_t count)
{
    size_t to_bytes = convert_element_bytes (to), from_bytes = convert_element_bytes (from);
    if (same (to, from)) {
        memmove (into, elements, count * to_bytes);
        return;
    }
    for (size_t i = 0; i < count; i += FLOATS_BLOCK) {
        float block[FLOATS_BLOCK];
        size_t some = count - i < FLOATS_BLOCK ? count - i : FLOATS_BLOCK;
        widen (block, (const char *) elements + i * from_bytes, accel_dtype_from_dl (from), some);
        narrow ((char *) into + i * to_bytes, accel_dtype_from_dl (to), block, some);
    }
}
