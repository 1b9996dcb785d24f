/* SPDX-License-Identifier: Apache-2.0 */
/* The host's memory: the C library's, and the kernels of the best instruction set. */
#include <config.h>

#include "lib/memory/memory.h"

#include "lib/base/tensor.h"
#include "lib/kernels/floats.h"
#include "lib/kernels/matrix.h"
#include "lib/kernels/reduce.h"
#include "util/memory.h"

#include <stdlib.h>
#include <string.h>

static void *
create (DLDevice device, size_t bytes, bool zeroed)
{
    (void) device;
    return zeroed ? memory_create_zeroed (bytes) : memory_create (bytes);
}

static void *
create_sparse (DLDevice device, size_t bytes)
{
    (void) device;
    return memory_create_sparse (bytes);
}

static void
destroy (DLDevice device, void *memory)
{
    (void) device;
    free (memory);
}

static void
copy (DLDevice device, void *to, const void *from, size_t bytes)
{
    (void) device;
    memory_copy (to, from, bytes);
}

static void
zero (DLDevice device, void *to, size_t bytes)
{
    (void) device;
    if (bytes) /* else there may be no address */
        memset (to, 0, bytes);
}

static void
copy_unless (DLDevice device, void *to, const void *from, size_t bytes, const uint8_t *flag)
{
    if (!*flag && from)
        copy (device, to, from, bytes);
    else if (!*flag)
        zero (device, to, bytes);
}

static enum accel_status
read_bytes (DLDevice device, void *to, const void *from, size_t bytes, struct accel_error *err)
{
    (void) device, (void) err;
    memory_copy (to, from, bytes);
    return ACCEL_OK;
}

static void
scale (DLDevice device, void *values, enum accel_dtype dtype, size_t count, double factor)
{
    (void) device;
    reduce_scale (values, dtype, count, factor);
}

static void
clamp (DLDevice device, void *values, enum accel_dtype dtype, size_t count, float limit)
{
    (void) device;
    floats_clamp (values, dtype, count, limit);
}

static void
add (DLDevice device, float *target, const float *source, size_t count)
{
    (void) device;
    floats_add (target, source, count);
}

static void
unscale (DLDevice device, void *values, enum accel_dtype dtype, size_t count, float factor, uint8_t *found)
{
    (void) device;
    *found |= (uint8_t) floats_unscale (values, dtype, count, factor);
}

static void
norm (DLDevice device, const void *values, enum accel_dtype dtype, size_t count, float factor, double p,
      float *result)
{
    (void) device;
    *result = floats_norm (values, dtype, count, factor, p);
}

static size_t
find_nonfinite (DLDevice device, const void *values, enum accel_dtype dtype, size_t count, float *value)
{
    (void) device;
    return floats_find_nonfinite (values, dtype, count, value);
}

/* In blocks where gradients or parameters are converted, so that what is between the loops stays in the first-level
 * cache. */
static void
run_update (DLDevice device, const struct memory_update *update)
{
    (void) device;
    rule_loop *loop = rules_best ()->loops[update->rule];
    enum accel_dtype dtype = update->grad_dtype;
    float block[FLOATS_BLOCK], *state[RULE_STATES];
    memcpy (state, update->state, sizeof state);
    if (dtype == ACCEL_FLOAT32 && !update->narrow) {
        loop (update->numbers, update->parameter, update->grad, state, update->count);
        return;
    }
    for (size_t at = 0; at < update->count; at += FLOATS_BLOCK) {
        size_t some = update->count - at < FLOATS_BLOCK ? update->count - at : FLOATS_BLOCK;
        const float *grad = block;
        for (size_t j = 0; j < RULE_STATES; j++)
            state[j] = update->state[j] ? update->state[j] + at : NULL;
        if (dtype == ACCEL_FLOAT32)
            grad = (const float *) update->grad + at;
        else
            floats_widen (block, (const uint16_t *) update->grad + at, dtype, some);
        if (dtype != ACCEL_FLOAT32 && update->factor != 1)
            floats_multiply (block, some, update->factor);
        loop (update->numbers, update->parameter + at, grad, state, some);
        if (update->narrow)
            floats_narrow ((uint16_t *) update->narrow + at, update->narrow_dtype, update->parameter + at, some);
    }
}

static void
widen (DLDevice device, float *to, const void *from, enum accel_dtype dtype, size_t count, float factor)
{
    (void) device;
    floats_widen (to, from, dtype, count);
    if (factor != 1)
        floats_multiply (to, count, factor);
}

static void
narrow (DLDevice device, void *to, enum accel_dtype dtype, const float *from, size_t count)
{
    (void) device;
    floats_narrow (to, dtype, from, count);
}

static float
narrow_scaled (DLDevice device, void *to, enum accel_dtype dtype, const float *from, size_t count)
{
    (void) device;
    return floats_narrow_scaled (to, dtype, from, count);
}

static void
convert (DLDevice device, void *to, enum accel_dtype to_dtype, const void *from, enum accel_dtype from_dtype,
         size_t count, float divisor)
{
    (void) device;
    floats_convert (to, to_dtype, from, from_dtype, count, divisor);
}

static void
multiply (DLDevice device, float *p, const float *values, const float *q, size_t n, size_t m, size_t rank)
{
    (void) device;
    matrix_multiply (p, values, q, n, m, rank);
}

static void
multiply_transposed (DLDevice device, float *q, const float *values, const float *p, size_t n, size_t m, size_t rank)
{
    (void) device;
    matrix_multiply_transposed (q, values, p, n, m, rank);
}

static void
expand (DLDevice device, float *values, float *error, const float *p, const float *q, size_t n, size_t m, size_t rank)
{
    (void) device;
    matrix_expand (values, error, p, q, n, m, rank);
}

static void
orthogonalise (DLDevice device, float *columns, size_t rows, size_t rank, size_t j, const uint64_t *seed)
{
    (void) device;
    matrix_orthogonalise (columns, rows, rank, j, seed);
}

static void
find_largest (DLDevice device, const struct vocabulary_rows *rows)
{
    (void) device;
    vocabulary_find_largest (rows);
}

static void
add_up (DLDevice device, const struct vocabulary_rows *rows)
{
    (void) device;
    vocabulary_add_up (rows);
}

static void
finish (DLDevice device, const struct vocabulary_rows *rows)
{
    (void) device;
    vocabulary_finish (rows);
}

static void
look_up (DLDevice device, const struct vocabulary_tokens *tokens)
{
    (void) device;
    vocabulary_look_up (tokens);
}

static void
add_back (DLDevice device, const struct vocabulary_tokens *tokens)
{
    (void) device;
    vocabulary_add_back (tokens);
}

static const struct memory_vocabulary vocabulary_host = {
    .find_largest = find_largest,
    .add_up = add_up,
    .finish = finish,
    .look_up = look_up,
    .add_back = add_back,
};

const struct memory memory_host = {
    .host = true,
    .threads = true,
    .create = create,
    .create_sparse = create_sparse,
    .destroy = destroy,
    .copy = copy,
    .zero = zero,
    .read = read_bytes,
    .write = copy,
    .copy_unless = copy_unless,
    .copy_tensor = tensor_copy,
    .scale = scale,
    .clamp = clamp,
    .add = add,
    .unscale = unscale,
    .norm = norm,
    .find_nonfinite = find_nonfinite,
    .update = run_update,
    .widen = widen,
    .narrow = narrow,
    .narrow_scaled = narrow_scaled,
    .convert = convert,
    .multiply = multiply,
    .multiply_transposed = multiply_transposed,
    .expand = expand,
    .orthogonalise = orthogonalise,
    .vocabulary = &vocabulary_host,
};
