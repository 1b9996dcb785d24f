/* SPDX-License-Identifier: Apache-2.0 */
/* Comparisons, and small numbers in every element type; see selftest.h. */
#include <config.h>

#include "selftest/selftest.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool
wrong (struct self *self, const char *format, ...)
{
    if (*self->why)
        return false;
    va_list args;
    va_start (args, format);
    vsnprintf (self->why, sizeof self->why, format, args);
    va_end (args);
    return false;
}

bool
went_well (struct self *self, enum accel_status status, const char *call)
{
    if (!status)
        return true;
    return wrong (self, "%.*s: %s (%s)", (int) strcspn (call, " ("), call, self->err.text,
                  accel_status_string (status));
}

bool
expect (struct self *self, const char *what, long long expected, long long got)
{
    return expected == got || wrong (self, "%s: expected %lld, got %lld", what, expected, got);
}

bool
expect_text (struct self *self, const char *what, const char *expected, const char *got)
{
    if (got && !strcmp (expected, got))
        return true;
    return wrong (self, "%s: expected '%s', got '%s'", what, expected, got ? got : "nothing");
}

bool
expect_near (struct self *self, const char *what, double expected, double got, double tolerance)
{
    return fabs (expected - got) <= tolerance || wrong (self, "%s: expected %.9g, got %.9g", what, expected, got);
}

/* float32 to float16 and back, for numbers that both hold. */
static uint16_t
half_of (float value)
{
    uint32_t bits;
    memcpy (&bits, &value, sizeof bits);
    if (value == 0) /* NOLINT: exactly 0 */
        return 0;
    return (uint16_t) ((bits >> 16 & 0x8000) | (((bits >> 23 & 0xff) - 112) << 10) | (bits >> 13 & 0x3ff));
}

static float
float_of_half (uint16_t half)
{
    int exponent = half >> 10 & 0x1f;
    float magnitude = exponent ? ldexpf (1 + (float) (half & 0x3ff) / 1024, exponent - 15)
                               : ldexpf ((float) (half & 0x3ff), -24);
    return half & 0x8000 ? -magnitude : magnitude;
}

void
put_value (enum accel_dtype dtype, void *array, size_t index, double value)
{
    float single = (float) value;
    uint32_t bits;
    memcpy (&bits, &single, sizeof bits);
    switch (dtype) {
    case ACCEL_FLOAT32: ((float *) array)[index] = single; break;
    case ACCEL_FLOAT64: ((double *) array)[index] = value; break;
    case ACCEL_FLOAT16: ((uint16_t *) array)[index] = half_of (single); break;
    case ACCEL_BFLOAT16: ((uint16_t *) array)[index] = (uint16_t) (bits >> 16); break;
    case ACCEL_INT8: ((int8_t *) array)[index] = (int8_t) value; break;
    case ACCEL_UINT8: ((uint8_t *) array)[index] = (uint8_t) value; break;
    case ACCEL_INT32: ((int32_t *) array)[index] = (int32_t) value; break;
    case ACCEL_INT64: ((int64_t *) array)[index] = (int64_t) value; break;
    case ACCEL_BOOL: ((uint8_t *) array)[index] = value != 0; break;
    default: break;
    }
}

double
get_value (enum accel_dtype dtype, const void *array, size_t index)
{
    uint32_t bits;
    float single;
    switch (dtype) {
    case ACCEL_FLOAT32: return (double) ((const float *) array)[index];
    case ACCEL_FLOAT64: return ((const double *) array)[index];
    case ACCEL_FLOAT16: return (double) float_of_half (((const uint16_t *) array)[index]);
    case ACCEL_BFLOAT16:
        bits = (uint32_t) ((const uint16_t *) array)[index] << 16;
        memcpy (&single, &bits, sizeof single);
        return (double) single;
    case ACCEL_INT8: return ((const int8_t *) array)[index];
    case ACCEL_UINT8:
    case ACCEL_BOOL: return ((const uint8_t *) array)[index];
    case ACCEL_INT32: return ((const int32_t *) array)[index];
    case ACCEL_INT64: return (double) ((const int64_t *) array)[index];
    default: return NAN;
    }
}
