/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays in the memories of the host and of a GPU, which one function each changes, and which are compared then. */
#ifndef TESTS_STANDIN_TWINS_H
#define TESTS_STANDIN_TWINS_H

#include "lib/kernels/floats.h"
#include "tests/tap.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdlib.h>

static cudaStream_t stream;

static void
must (cudaError_t error, const char *what)
{
    if (!error)
        return;
    printf ("Bail out! %s: %s\n", what, cudaGetErrorString (error));
    exit (1);
}
#define MUST(call) must (call, #call)

/* ---- arrays in both memories ---- */

/* On the device, MARGIN bytes of BEYOND are before and after what the aligned array would have, and not to be changed.
 * What is not aligned begins up to 3 elements later: by @late for all arrays, or another number for each. */
enum { MARGIN = 64, BEYOND = 0x5a, EACH_OTHER = 4 };
struct twin {
    void *host, *device;
    char *whole;
    enum accel_dtype dtype;
    size_t count, late;
};
static int late;

static size_t
bytes_of (const struct twin *twin)
{
    return twin->count * accel_dtype_bytes (twin->dtype);
}

static uint32_t
random_bits (void)
{
    static uint64_t state = 88172645463325252U;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t) (state >> 20);
}

/* Numbers of all sizes, of which @rare is what one in a hundred is instead. */
static void
fill (struct twin *twin, float largest, float rare)
{
    float *values = calloc (twin->count + 1, sizeof *values);
    for (size_t i = 0; i < twin->count; i++) {
        float number = (float) ((int) random_bits () >> 1) / (float) (1 << 30);
        values[i] = random_bits () % 101 ? number * largest : random_bits () % 2 ? rare : number * 1e-41F;
    }
    if (twin->dtype == ACCEL_FLOAT64)
        for (size_t i = 0; i < twin->count; i++)
            ((double *) twin->host)[i] = (double) values[i] * (1 + 1e-12);
    else
        floats_narrow (twin->host, twin->dtype, values, twin->count);
    free (values);
    MUST (cudaMemcpyAsync (twin->device, twin->host, bytes_of (twin), cudaMemcpyHostToDevice, stream));
    MUST (cudaStreamSynchronize (stream));
}

static struct twin
make (enum accel_dtype dtype, size_t count, float largest, float rare)
{
    static size_t made;
    struct twin twin = { .dtype = dtype, .count = count, .host = calloc (count + 1, 8) };
    twin.late = (late == EACH_OTHER ? made++ * 7 % 4 : (size_t) late) * accel_dtype_bytes (dtype);
    MUST (cudaMalloc ((void **) &twin.whole, bytes_of (&twin) + 2 * MARGIN));
    MUST (cudaMemsetAsync (twin.whole, BEYOND, bytes_of (&twin) + 2 * MARGIN, stream));
    twin.device = twin.whole + MARGIN / 2 + twin.late;
    fill (&twin, largest, rare);
    return twin;
}

static void
drop (struct twin *twin)
{
    free (twin->host);
    MUST (cudaFree (twin->whole));
}

static bool
is_nan (const void *values, enum accel_dtype dtype, size_t i)
{
    float value;
    if (dtype == ACCEL_FLOAT64)
        return isnan (((const double *) values)[i]);
    floats_widen (&value, (const char *) values + i * accel_dtype_bytes (dtype), dtype, 1);
    return isnan (value);
}

/* Many comparisons in one: how many there were, and how many were wrong. */
static bool is_many;
static unsigned many, many_wrong;

__attribute__ ((format (printf, 2, 3))) static void
tell (bool right, const char *format, ...)
{
    va_list arguments;
    char what[200];
    va_start (arguments, format);
    vsnprintf (what, sizeof what, format, arguments);
    va_end (arguments);
    many++;
    many_wrong += !right;
    if (!is_many)
        ok (right, "%s", what);
    else if (!right)
        diag ("wrong: %s", what);
}

__attribute__ ((format (printf, 2, 3))) static void
equal (const struct twin *twin, const char *format, ...)
{
    va_list arguments;
    size_t bytes = bytes_of (twin), each = accel_dtype_bytes (twin->dtype), wrong = 0, whole = bytes + 2 * MARGIN;
    size_t before = MARGIN / 2 + twin->late;
    char *read = malloc (whole), *got = read + before, *wanted = twin->host, what[150];
    MUST (cudaMemcpyAsync (read, twin->whole, whole, cudaMemcpyDeviceToHost, stream));
    MUST (cudaStreamSynchronize (stream));
    for (size_t i = 0; i < twin->count; i++)
        if (memcmp (got + i * each, wanted + i * each, each)
            && !(is_nan (got, twin->dtype, i) && is_nan (wanted, twin->dtype, i)) && !wrong++)
            diag ("element %zu of %zu differs", i, twin->count);
    for (size_t i = 0; i < whole; i++)
        if ((i < before || i >= before + bytes) && read[i] != BEYOND && !wrong++)
            diag ("byte %zu of %zu, beyond the array, was changed", i, whole);
    va_start (arguments, format);
    vsnprintf (what, sizeof what, format, arguments);
    va_end (arguments);
    tell (!wrong, "%s, %zu of %s", what, twin->count, accel_dtype_name (twin->dtype));
    free (read);
}

#endif
