/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernels of training compute where numbers are special: NaN, infinity, nearly parallel columns, no change of
 * type, and more numbers than a block has. */
#include <config.h>

#include "lib/kernels/floats.h"
#include "lib/kernels/matrix.h"
#include "lib/kernels/matrix_element.h"
#include "lib/kernels/reduce.h"
#include "lib/kernels/rules.h"
#include "tests/tap.h"

#include <math.h>
#include <string.h>

static void
test_convert (void)
{
    float values[3] = { 2, 3, -5 }, halves[3];
    uint16_t narrow[3], divided[3];
    floats_convert (halves, ACCEL_FLOAT32, values, ACCEL_FLOAT32, 3, 2);
    ok (fabsf (halves[0] - 1) + fabsf (halves[1] - 1.5f) + fabsf (halves[2] + 2.5f) < 1e-6f,
        "what stays float32 is divided: %g %g %g", (double) halves[0], (double) halves[1], (double) halves[2]);
    floats_convert (narrow, ACCEL_BFLOAT16, values, ACCEL_FLOAT32, 3, 1);
    floats_convert (divided, ACCEL_BFLOAT16, narrow, ACCEL_BFLOAT16, 3, 2);
    floats_convert (halves, ACCEL_FLOAT32, divided, ACCEL_BFLOAT16, 3, 1);
    ok (fabsf (halves[0] - 1) + fabsf (halves[1] - 1.5f) + fabsf (halves[2] + 2.5f) < 1e-6f,
        "what stays bfloat16 is divided: %g %g %g", (double) halves[0], (double) halves[1], (double) halves[2]);
}

static void
test_scale (void)
{
    enum { COUNT = 5000 };
    static float values[COUNT];
    static uint16_t narrow[COUNT];
    bool good = true;
    for (int i = 0; i < COUNT; i++)
        values[i] = (float) (i % 100);
    floats_convert (narrow, ACCEL_BFLOAT16, values, ACCEL_FLOAT32, COUNT, 1);
    reduce_scale (narrow, ACCEL_BFLOAT16, COUNT, 2);
    floats_convert (values, ACCEL_FLOAT32, narrow, ACCEL_BFLOAT16, COUNT, 1);
    for (int i = 0; i < COUNT; i++)
        if ((int) values[i] != i % 100 * 2) {
            diag ("number %d: %g", i, (double) values[i]);
            good = false;
            break;
        }
    ok (good, "16-bit floats are scaled once each, in every block");
}

static void
test_defined (void)
{
    bool good = true;
    for (unsigned op = 0; op < ACCEL_OP_COUNT; op++)
        good = good && !reduce_is_defined (ACCEL_FLOAT8_E4M3FN, op) && !reduce_is_defined (ACCEL_FLOAT8_E5M2, op)
               && reduce_is_defined (ACCEL_FLOAT16, op) && reduce_is_defined (ACCEL_INT32, op) == (op != ACCEL_AVG);
    ok (good, "no reductions of 8-bit floats, and no averages of integers");
}

static void
test_orthogonalise (void)
{
    enum { ROWS = 16 };
    float columns[ROWS][2];
    double length = 0, between = 0;
    for (int i = 0; i < ROWS; i++) {
        columns[i][0] = (float) sin (i + 1);
        columns[i][1] = 3000 * columns[i][0] + (float) cos (3 * i);
    }
    for (size_t j = 0; j < 2; j++)
        matrix_orthogonalise (*columns, ROWS, 2, j, NULL);
    for (int i = 0; i < ROWS; i++) {
        length += (double) columns[i][1] * (double) columns[i][1];
        between += (double) columns[i][0] * (double) columns[i][1];
    }
    ok (fabs (length - 1) < 1e-6, "a nearly parallel column gets length 1: %g", length - 1);
    ok (fabs (between) < 2e-7, "a nearly parallel column becomes orthogonal: %g", between);
    columns[3][0] = INFINITY;
    float next = columns[4][0];
    matrix_orthogonalise (*columns, ROWS, 2, 0, NULL);
    ok (isinf (columns[3][0]) && !memcmp (&columns[4][0], &next, sizeof next),
        "an infinite column stays for all to see");
}

/* In place of what is useless come numbers that depend on the seed and the element alone, and are made orthogonal. */
static void
test_drawn (void)
{
    enum { ROWS = 300, WAYS = 4 };
    static const float useless[WAYS] = { 0, INFINITY, NAN }; /* and what is parallel to the column before */
    static float columns[WAYS + 1][ROWS][2];
    double most = 0, sum = 0;
    for (int way = 0; way <= WAYS; way++) {
        const uint64_t seed = way == WAYS ? 6 : 5;
        double length = 0, between = 0;
        for (int i = 0; i < ROWS; i++) {
            columns[way][i][0] = (float) sin (i + 1);
            columns[way][i][1] = way == 3 ? 7 * columns[way][i][0] : i ? 0 : useless[way % WAYS];
        }
        for (size_t j = 0; j < 2; j++)
            matrix_orthogonalise (*columns[way], ROWS, 2, j, &seed);
        for (int i = 0; i < ROWS; i++) {
            length += (double) columns[way][i][1] * (double) columns[way][i][1];
            between += (double) columns[way][i][0] * (double) columns[way][i][1];
        }
        ok (fabs (length - 1) < 1e-5 && fabs (between) < 1e-6, "drawn %d: length 1%+g, product %g", way, length - 1,
            between);
        ok (!memcmp (columns[way], columns[0], sizeof columns[0]) == (way < WAYS), "drawn %d: the seed decides", way);
    }
    for (size_t at = 0; at < 10000; at++) {
        double number = (double) matrix_drawn (77, at);
        most = fabs (number) > most ? fabs (number) : most;
        sum += number;
    }
    ok (most <= 0.5 && most > 0.499 && fabs (sum) < 100, "numbers from -0.5 to 0.5: %g, mean %g", most, sum / 1e4);
}

static void
test_rules (const char *name, const struct rules *rules)
{
    enum { COUNT = 19 }; /* more than a vector, and a rest */
    const struct rule_numbers numbers = {
        .sign = 1, .keep = 1, .minus_size = -0.5f, .beta1 = 0.9f, .weight1 = 0.1f, .beta2 = 0.99f, .weight2 = 0.01f,
        .root = 1, .eps = 1e-8f,
    };
    float parameter[COUNT], grad[COUNT], mean[COUNT], square[COUNT], most[COUNT];
    float *states[RULE_STATES] = { mean, square, most };
    bool stays = true, still = true;
    for (int i = 0; i < COUNT; i++) {
        parameter[i] = grad[i] = 1;
        mean[i] = square[i] = 0;
        most[i] = i % 2 ? NAN : 0;
    }
    rules->loops[RULE_AMSGRAD] (&numbers, parameter, grad, states, COUNT);
    for (int i = 0; i < COUNT; i++)
        stays = stays && !isnan (most[i]) == !(i % 2) && !isnan (parameter[i]) == !(i % 2);
    ok (stays, "%s: a greatest square that is NaN stays so", name);
    for (int i = 0; i < COUNT; i++) {
        parameter[i] = 1;
        grad[i] = mean[i] = (float) (i % 3 - 1);
    }
    rules->loops[RULE_LION] (&numbers, parameter, grad, states, COUNT);
    for (int i = 0; i < COUNT; i++)
        still = still && fabsf (parameter[i] - (1 - 0.5f * (float) (i % 3 - 1))) < 1e-6f;
    ok (still, "%s: a blend of 0 moves nothing", name);
}

int
main (void)
{
    test_convert ();
    test_scale ();
    test_defined ();
    test_orthogonalise ();
    test_drawn ();
    test_rules ("base", &rules_base);
    test_rules ("best", rules_best ());
    return done_testing ();
}
