/* SPDX-License-Identifier: Apache-2.0 */
/* Loss scaling against torch's GradScaler on the CPU: every decision, scale and unscaled gradient to the bit. */
#include <config.h>

#include "lib/kernels/floats.h"
#include "lib/train/scaler.h"
#include "tests/golden/golden.h"
#include "tests/tap.h"

#include <math.h>

static bool
same_bits (float got, uint32_t wanted)
{
    uint32_t bits;
    memcpy (&bits, &got, sizeof bits);
    return bits == wanted;
}

static void
test_case (struct golden *golden)
{
    struct accel_grad_scaler options = { .init_scale = golden_double (golden) };
    options.growth_factor = golden_double (golden);
    options.backoff_factor = golden_double (golden);
    options.growth_interval = (uint32_t) golden_number (golden);
    struct scaler scaler;
    struct accel_error err = { 0 };
    if (scaler_init (&scaler, &options, &err)) {
        ok (false, "%s", err.text);
        return;
    }
    const char *word;
    int steps = 0, wrong = 0;
    for (; *(word = golden_word (golden)); steps++) {
        bool finite = *word == 'f';
        float gradients[] = { 1.5F, -3, finite ? 0.3F : *word == 'i' ? -INFINITY : NAN };
        float inverse = scaler_inverse_of (scaler.now.scale);
        bool found = floats_unscale (gradients, ACCEL_FLOAT32, 3, inverse), good = found == !finite;
        for (int i = 0; i < 2; i++)
            good = same_bits (gradients[i], golden_bits (golden)) && good;
        scaler_update (&scaler, found);
        good = same_bits (scaler_scale (&scaler), golden_bits (golden)) && good;
        good = scaler.now.growth_tracker == golden_number (golden) && good;
        if (!good && !wrong++)
            diag ("step %d: scale %a, tracker %u", steps, (double) scaler.now.scale, scaler.now.growth_tracker);
    }
    ok (steps && !wrong, "scale %g, times %g after %u, times %g: %d steps", options.init_scale, options.growth_factor,
        options.growth_interval, options.backoff_factor, steps);
}

/* What is not finite is found wherever it stands. */
static void
test_places (void)
{
    static const struct accel_grad_scaler options = SCALER_DEFAULTS;
    struct scaler scaler;
    float gradients[67], bad[] = { NAN, -NAN, INFINITY, -INFINITY };
    bool good = !scaler_init (&scaler, &options, NULL) && scaler_scale (&scaler) == 65536;
    for (int place = -1; place < 67; place++) {
        for (int i = 0; i < 67; i++)
            gradients[i] = i % 2 ? 3.4e38F : -1e-38F;
        if (place >= 0)
            gradients[place] = bad[place % 4];
        float inverse = scaler_inverse_of (scaler.now.scale);
        good = good && floats_unscale (gradients, ACCEL_FLOAT32, 67, inverse) == (place >= 0);
    }
    ok (good, "infinity and NaN are found at every place");
    for (int i = 0; i < 1999; i++)
        scaler_update (&scaler, false);
    ok (scaler_scale (&scaler) == 65536 && scaler.now.growth_tracker == 1999, "1999 good steps");
    scaler_update (&scaler, false);
    ok (scaler_scale (&scaler) == 131072 && scaler.now.growth_tracker == 0, "the scale grows with the next");
}

static void
test_options (void)
{
    static const struct accel_grad_scaler refused[] = {
        { 0, 2, 0.5, 1, false },   { -1, 2, 0.5, 1, false },        { INFINITY, 2, 0.5, 1, false },
        { NAN, 2, 0.5, 1, false }, { 1e39, 2, 0.5, 1, false },      { 1, 1, 0.5, 1, false },
        { 1, NAN, 0.5, 1, false }, { 1, INFINITY, 0.5, 1, false },  { 1, 2, 1, 1, false },
        { 1, 2, 0, 1, false },     { 1, 2, NAN, 1, false },         { 1, 2, 0.5, 0, false },
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct scaler scaler;
        struct accel_error err = { 0 };
        ok (scaler_init (&scaler, &refused[i], &err) == ACCEL_ERR_INVALID, "refused: %s", err.text);
    }
    struct accel_grad_scaler options = SCALER_DEFAULTS;
    struct scaler scaler;
    options.enabled = ACCEL_NO;
    ok (!scaler_init (&scaler, &options, NULL) && scaler_scale (&scaler) == 1, "disabled: scale 1");
    scaler_update (&scaler, true);
    ok (scaler.now.scale == 65536, "disabled: nothing changes");
}

int
main (void)
{
    struct golden golden;
    golden_find (&golden, "scaler.txt");
    while (golden_next (&golden))
        test_case (&golden);
    test_places ();
    test_options ();
    return done_testing ();
}
