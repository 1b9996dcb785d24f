/* SPDX-License-Identifier: Apache-2.0 */
/* 16- and 8-bit floats against torch's casts: all numbers of each type to float32, and back all of them, the middles
 * between neighbours, the float32 on either side of both, and 60000 or more others, of both signs. */
#include <config.h>

#include "lib/kernels/dtypes.h"
#include "lib/kernels/floats.h"
#include "lib/kernels/floats_element.h"
#include "tests/golden/golden.h"
#include "tests/tap.h"

#include <math.h>

static const struct type {
    const char *name;
    enum accel_dtype dtype;
    int width; /* bits */
} types[] = {
    { "float16", ACCEL_FLOAT16, 16 },
    { "bfloat16", ACCEL_BFLOAT16, 16 },
    { "e4m3", ACCEL_FLOAT8_E4M3FN, 8 },
    { "e5m2", ACCEL_FLOAT8_E5M2, 8 },
};

enum { MOST = 65536, PROBES = 1 << 20, STRIDE = 0x12345 };

static float floats[MOST], probes[PROBES];
static uint32_t narrow[PROBES];

union numbers {
    uint8_t small[PROBES];
    uint16_t wide[PROBES];
};

static void
put (const struct type *type, union numbers *numbers, size_t i, uint32_t bits)
{
    if (type->width == 8)
        numbers->small[i] = (uint8_t) bits;
    else
        numbers->wide[i] = (uint16_t) bits;
}

static uint32_t
get (const struct type *type, const union numbers *numbers, size_t i)
{
    return type->width == 8 ? numbers->small[i] : numbers->wide[i];
}

/* All numbers of the type as float32: floats[2^width]. */
static size_t
widen_all (const struct type *type)
{
    static union numbers all;
    size_t count = (size_t) 1 << type->width;
    for (size_t i = 0; i < count; i++)
        put (type, &all, i, (uint32_t) i);
    floats_widen (floats, &all, type->dtype, count);
    return count;
}

/* @saturate: numbers that are too large become the largest, not infinite, as in floats_narrow_scaled(). */
static void
narrow_probes (const struct type *type, const float *from, size_t count, bool saturate)
{
    static union numbers made;
    static float clamped[PROBES];
    float limit = saturate && dtype_is_scaled (type->dtype) ? dtype_limit (type->dtype) : INFINITY;
    for (size_t i = 0; i < count; i++)
        clamped[i] = float_clamp (from[i], limit);
    floats_narrow (&made, type->dtype, clamped, count);
    for (size_t i = 0; i < count; i++)
        narrow[i] = get (type, &made, i);
}

static size_t
add_neighbours (size_t count, uint32_t bits)
{
    probes[count++] = float_of (bits ? bits - 1 : 0);
    probes[count++] = float_of (bits);
    probes[count++] = float_of (bits + 1);
    return count;
}

/* The same as in make_train_goldens.py. */
static size_t
make_probes (const struct type *type)
{
    static const uint32_t others[] = { 0x7f7fffff, 0x7f800000, 0x00000001, 0x007fffff, 0x33000000 };
    size_t all = widen_all (type) / 2, finite = 0, count = 0;
    while (finite < all && isfinite (floats[finite]))
        finite++;
    for (size_t i = 0; i < finite; i++)
        count = add_neighbours (count, bits_of (floats[i]));
    for (size_t i = 1; i < finite; i++)
        count = add_neighbours (count, bits_of ((float) (((double) floats[i] + (double) floats[i - 1]) / 2)));
    double last = (double) floats[finite - 1], step = last - (double) floats[finite - 2];
    count = add_neighbours (count, bits_of ((float) (last + step / 2)));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        probes[count++] = float_of (others[i]);
    for (uint32_t bits = 0; bits < 0x7f800000; bits += STRIDE)
        probes[count++] = float_of (bits);
    for (size_t i = 0; i < count; i++)
        probes[count + i] = -probes[i];
    return 2 * count;
}

static void
test_golden (struct golden *golden)
{
    bool back = !strcmp (golden_word (golden), "to");
    const char *name = golden_word (golden);
    const struct type *type = types;
    while (strcmp (type->name, name) != 0)
        type++;
    uint64_t sum = 0;
    if (!back) {
        size_t count = widen_all (type);
        for (size_t i = 0; i < count; i++)
            sum = golden_checksum (sum, isnan (floats[i]) ? 0x7fc00000 : bits_of (floats[i]));
        ok (sum == golden_number (golden), "%zu numbers of %s as torch's", count, name);
        return;
    }
    bool saturate = golden_number (golden);
    size_t count = make_probes (type);
    ok (count == golden_number (golden), "%zu probes of %s", count, name);
    narrow_probes (type, probes, count, saturate);
    for (size_t i = 0; i < count; i++)
        sum = golden_checksum (sum, narrow[i]);
    ok (sum == golden_number (golden), "are rounded as torch rounds them");
}

/* Every number comes back as it was, and NaN as NaN; one by one as in arrays. */
static void
test_round_trip (const struct type *type)
{
    static union numbers one;
    size_t count = widen_all (type);
    int wrong = 0, alone = 0;
    for (int saturate = 0; saturate < 2; saturate++) {
        narrow_probes (type, floats, count, saturate);
        for (size_t i = 0; i < count; i++)
            if (isnan (floats[i])) {
                float again;
                put (type, &one, 0, narrow[i]);
                floats_widen (&again, &one, type->dtype, 1);
                wrong += !isnan (again) || !signbit (again) != !signbit (floats[i]);
            } else if (!(saturate && isinf (floats[i]) && type->width == 8))
                wrong += narrow[i] != i;
        for (size_t i = 0; !saturate && i < count; i += type->width == 8 ? 1 : 37) {
            floats_narrow (&one, type->dtype, &floats[i], 1);
            alone += get (type, &one, 0) != narrow[i];
        }
    }
    ok (!wrong, "%s: every number comes back", type->name);
    ok (!alone, "%s: the same alone as in an array", type->name);
}

/* What does not fit: E4M3 always saturates, as torch's does, and E5M2 where it has been clamped. */
static void
test_overflow (void)
{
    static const struct {
        float value;
        uint8_t e4m3, e5m2, e5m2_saturated;
    } cases[] = {
        { 448, 0x7e, 0x5f, 0x5f },
        { 464, 0x7e, 0x5f, 0x5f }, /* the middle to what would be 480: to even */
        { 464.0001F, 0x7e, 0x5f, 0x5f },
        { -480, 0xfe, 0xe0, 0xe0 },
        { 57344, 0x7e, 0x7b, 0x7b },
        { 61439, 0x7e, 0x7b, 0x7b },
        { 61440, 0x7e, 0x7c, 0x7b },
        { -3e38F, 0xfe, 0xfc, 0xfb },
        { INFINITY, 0x7e, 0x7c, 0x7b },
        { -INFINITY, 0xfe, 0xfc, 0xfb },
        { NAN, 0x7f, 0x7f, 0x7f },
        { 0x1p-10F, 0x00, 0x14, 0x14 },
        { 0x1.1p-10F, 0x01, 0x14, 0x14 },
        { 0x1p-17F, 0x00, 0x00, 0x00 },
        { -0.0F, 0x80, 0x80, 0x80 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t got[4];
        for (int j = 0; j < 4; j++) {
            enum accel_dtype dtype = j < 2 ? ACCEL_FLOAT8_E4M3FN : ACCEL_FLOAT8_E5M2;
            float value = j % 2 ? float_clamp (cases[i].value, dtype_limit (dtype)) : cases[i].value;
            floats_narrow (&got[j], dtype, &value, 1);
        }
        bool good = got[0] == cases[i].e4m3 && got[1] == cases[i].e4m3 && got[2] == cases[i].e5m2
                    && got[3] == cases[i].e5m2_saturated;
        ok (good, "%a in 8 bits", (double) cases[i].value);
        if (!good)
            diag ("got %02x %02x %02x %02x", got[0], got[1], got[2], got[3]);
    }
}

int
main (void)
{
    struct golden golden;
    golden_find (&golden, "half.txt");
    while (golden_next (&golden))
        test_golden (&golden);
#define X(...) +1
    ok (sizeof types / sizeof *types == NARROW_FLOATS (X), "a row for every narrow float");
#undef X
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        test_round_trip (&types[i]);
    test_overflow ();
    return done_testing ();
}
