/* SPDX-License-Identifier: Apache-2.0 */
/* 16- and 8-bit floats against torch's casts: all numbers of each type to float32, and back all of them, the middles
 * between neighbours, the float32 on either side of both, and 60000 or more others, of both signs. */
#include <config.h>

#include "lib/kernels/half.h"
#include "tests/golden/golden.h"
#include "tests/tap.h"

#include <math.h>

/* Both widths, as numbers. */
struct type {
    const char *name;
    int width;
    void (*from16) (uint16_t *, const float *, size_t);
    void (*to16) (float *, const uint16_t *, size_t);
    void (*from8) (uint8_t *, const float *, size_t, bool);
    void (*to8) (float *, const uint8_t *, size_t);
};

static const struct type types[] = {
    { "float16", 16, half_from_floats, half_to_floats, NULL, NULL },
    { "bfloat16", 16, bfloat16_from_floats, bfloat16_to_floats, NULL, NULL },
    { "e4m3", 8, NULL, NULL, e4m3_from_floats, e4m3_to_floats },
    { "e5m2", 8, NULL, NULL, e5m2_from_floats, e5m2_to_floats },
};

enum { MOST = 65536, PROBES = 1 << 20, STRIDE = 0x12345 };

static float floats[MOST], probes[PROBES];
static uint32_t narrow[PROBES];

static float
float_of (uint32_t bits)
{
    float value;
    memcpy (&value, &bits, sizeof value);
    return value;
}

static uint32_t
bits_of (float value)
{
    uint32_t bits;
    memcpy (&bits, &value, sizeof bits);
    return bits;
}

/* All numbers of the type as float32: floats[2^width]. */
static size_t
widen_all (const struct type *type)
{
    static uint16_t wide[MOST];
    static uint8_t small[256];
    size_t count = (size_t) 1 << type->width;
    for (size_t i = 0; i < count; i++)
        type->to16 ? (void) (wide[i] = (uint16_t) i) : (void) (small[i] = (uint8_t) i);
    if (type->to16)
        type->to16 (floats, wide, count);
    else
        type->to8 (floats, small, count);
    return count;
}

static void
narrow_probes (const struct type *type, const float *from, size_t count, bool saturate)
{
    static uint16_t wide[PROBES];
    static uint8_t small[PROBES];
    if (type->from16)
        type->from16 (wide, from, count);
    else
        type->from8 (small, from, count, saturate);
    for (size_t i = 0; i < count; i++)
        narrow[i] = type->from16 ? wide[i] : small[i];
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
    size_t count = widen_all (type);
    int wrong = 0, alone = 0;
    for (int saturate = 0; saturate < 2; saturate++) {
        narrow_probes (type, floats, count, saturate);
        for (size_t i = 0; i < count; i++)
            if (isnan (floats[i])) {
                uint32_t bits = narrow[i];
                float again;
                type->to16 ? type->to16 (&again, &(uint16_t){ (uint16_t) bits }, 1)
                           : type->to8 (&again, &(uint8_t){ (uint8_t) bits }, 1);
                wrong += !isnan (again) || !signbit (again) != !signbit (floats[i]);
            } else if (!(saturate && isinf (floats[i]) && type->width == 8))
                wrong += narrow[i] != i;
        for (size_t i = 0; i < count; i += type->width == 8 ? 1 : 37) {
            uint16_t wide = 0;
            uint8_t small = 0;
            type->from16 ? type->from16 (&wide, &floats[i], 1) : type->from8 (&small, &floats[i], 1, saturate);
            alone += (type->from16 ? wide : small) != narrow[i];
        }
    }
    ok (!wrong, "%s: every number comes back", type->name);
    ok (!alone, "%s: the same alone as in an array", type->name);
}

/* What torch has not: E4M3 without saturation, E5M2 with it. */
static void
test_overflow (void)
{
    static const struct {
        float value;
        uint8_t e4m3, e4m3_saturated, e5m2, e5m2_saturated;
    } cases[] = {
        { 448, 0x7e, 0x7e, 0x5f, 0x5f },
        { 464, 0x7e, 0x7e, 0x5f, 0x5f }, /* the middle to what would be 480: to even */
        { 464.0001F, 0x7f, 0x7e, 0x5f, 0x5f },
        { -480, 0xff, 0xfe, 0xe0, 0xe0 },
        { 57344, 0x7f, 0x7e, 0x7b, 0x7b },
        { 61439, 0x7f, 0x7e, 0x7b, 0x7b },
        { 61440, 0x7f, 0x7e, 0x7c, 0x7b },
        { -3e38F, 0xff, 0xfe, 0xfc, 0xfb },
        { INFINITY, 0x7f, 0x7e, 0x7c, 0x7b },
        { -INFINITY, 0xff, 0xfe, 0xfc, 0xfb },
        { NAN, 0x7f, 0x7f, 0x7f, 0x7f },
        { 0x1p-10F, 0x00, 0x00, 0x14, 0x14 },
        { 0x1.1p-10F, 0x01, 0x01, 0x14, 0x14 },
        { 0x1p-17F, 0x00, 0x00, 0x00, 0x00 },
        { -0.0F, 0x80, 0x80, 0x80, 0x80 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t got[4];
        e4m3_from_floats (&got[0], &cases[i].value, 1, false);
        e4m3_from_floats (&got[1], &cases[i].value, 1, true);
        e5m2_from_floats (&got[2], &cases[i].value, 1, false);
        e5m2_from_floats (&got[3], &cases[i].value, 1, true);
        bool good = got[0] == cases[i].e4m3 && got[1] == cases[i].e4m3_saturated && got[2] == cases[i].e5m2
                    && got[3] == cases[i].e5m2_saturated;
        ok (good, "%a in 8 bits", (double) cases[i].value);
        if (!good)
            diag ("got %02x %02x %02x %02x", got[0], got[1], got[2], got[3]);
    }
}

/* What does not fit, through the function that takes any type: E4M3 is always saturated, as torch's is. */
static void
test_overflow_of_types (void)
{
    static const float large = 1e6F;
    for (int saturate = 0; saturate < 2; saturate++) {
        uint8_t e4m3 = 0, e5m2 = 0;
        floats_narrow (&e4m3, ACCEL_FLOAT8_E4M3FN, &large, 1, saturate);
        floats_narrow (&e5m2, ACCEL_FLOAT8_E5M2, &large, 1, saturate);
        ok (e4m3 == 0x7e && e5m2 == (saturate ? 0x7b : 0x7c), "1e6%s: %02x and %02x", saturate ? ", saturated" : "",
            e4m3, e5m2);
    }
}

int
main (void)
{
    test_overflow_of_types ();
    struct golden golden;
    golden_find (&golden, "half.txt");
    while (golden_next (&golden))
        test_golden (&golden);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        test_round_trip (&types[i]);
    test_overflow ();
    return done_testing ();
}
