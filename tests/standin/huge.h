/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays of more elements than 32 bits count.  On the stand-in, a few blocks of the many that such an array has (far):
 * its memory is the host's, which kernels can use, and of which only what they use is ever touched.  On a card, all of
 * it (huge). */
#ifndef TESTS_STANDIN_HUGE_H
#define TESTS_STANDIN_HUGE_H

#include "cuda/kernels.h"
#include "lib/kernels/bits.h"
#include "lib/kernels/floats.h"
#include "lib/memory/memory.h"
#include "tests/tap.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

/* ---- a few blocks ---- */

enum { FAR_BLOCKS = 3, FAR_REST = 1003 /* elements after whole tiles */ };

/* The blocks of a launch are the array's first, which also have what is left after whole tiles, or its last. */
struct far {
    size_t count, tile; /* elements of arrays, and of a block at once */
    bool last;
};
struct far_array {
    char *memory, *wanted; /* wanted: the first elements, and the last, so many each */
    enum accel_dtype dtype;
    size_t each, count, window;
};

/* @return whether there is so much memory */
static bool
far_make (struct far_array *a, const struct far *far, enum accel_dtype dtype)
{
    size_t each = accel_dtype_bytes (dtype), window = (FAR_BLOCKS + 1) * far->tile;
    float *values = calloc (2 * window, sizeof *values);
    *a = (struct far_array){ NULL, calloc (2 * window, each), dtype, each, far->count, window };
    if (cudaHostAlloc ((void **) &a->memory, far->count * each, cudaHostAllocDefault)) {
        cudaGetLastError ();
        a->memory = NULL;
    }
    for (size_t i = 0; i < 2 * window; i++)
        values[i] = (float) (i % 13 % 8);
    floats_narrow (a->wanted, dtype, values, 2 * window);
    if (a->memory) {
        memcpy (a->memory, a->wanted, window * each);
        memcpy (a->memory + (far->count - window) * each, a->wanted + window * each, window * each);
    }
    free (values);
    return a->memory;
}

/* @return the wanted elements of one of the two parts that the launch has, and in @p count how many they are */
static char *
far_part (const struct far_array *a, const struct far *far, int part, size_t *count)
{
    size_t after = 2 * a->window - FAR_REST, tiles = FAR_BLOCKS * far->tile;
    *count = part ? (far->last ? 0 : FAR_REST) : tiles;
    return a->wanted + a->each * (part ? after : far->last ? after - tiles : 0);
}

/* @return whether the array is as wanted at both ends */
static bool
far_drop (struct far_array *a)
{
    size_t bytes = a->window * a->each;
    bool same = a->memory && !memcmp (a->memory, a->wanted, bytes)
                && !memcmp (a->memory + a->count * a->each - bytes, a->wanted + bytes, bytes);
    cudaFreeHost (a->memory);
    free (a->wanted);
    return same;
}

/* A table of one item.  The device's has all blocks, and the host knows of those that are launched. */
static bool
far_table (struct cuda_table *table, struct cuda_item *item, const struct far *far, cudaStream_t stream)
{
    unsigned blocks = (unsigned) (far->count / far->tile);
    struct cuda_item *device;
    struct cuda_item given = *item;
    given.count = item->count = far->count;
    given.first = far->last ? FAR_BLOCKS - blocks : 0; /* below 0: block 0 of the launch is a later one of the array */
    given.blocks = blocks;
    item->blocks = FAR_BLOCKS;
    bool made = !cudaMalloc ((void **) &device, sizeof given + FAR_BLOCKS * sizeof (double))
                && !cudaMemcpyAsync (device, &given, sizeof given, cudaMemcpyHostToDevice, stream)
                && !cudaStreamSynchronize (stream);
    *table = (struct cuda_table){ device, item, (double *) (void *) (device + 1), 1, FAR_BLOCKS };
    return made;
}

static bool
far_table_end (struct cuda_table *table, cudaStream_t stream)
{
    bool done = !cudaStreamSynchronize (stream);
    return !cudaFree ((void *) table->items) && done;
}

static void
far_scale_and_norm (const struct far *far, cudaStream_t stream)
{
    struct far_array a;
    struct cuda_table table;
    double sums[FAR_BLOCKS] = { 0 }, wanted = 0;
    bool done = far_make (&a, far, ACCEL_FLOAT8_E4M3FN);
    struct cuda_item item = { .data = a.memory, .dtype = a.dtype };
    done = done && far_table (&table, &item, far, stream);
    if (!done) {
        skip ("there is no memory for %zu elements", far->count);
        far_drop (&a);
        return;
    }
    cuda_list_scale (&table, 0.5F, NULL, false, stream);
    table.count = 0; /* only sums of blocks, no norm of the few */
    cuda_list_norm (&table, 1, NULL, 1, NULL, stream);
    done = !cudaMemcpyAsync (sums, table.sums, sizeof sums, cudaMemcpyDeviceToHost, stream);
    done = far_table_end (&table, stream) && done;
    for (int part = 0; part < 2; part++) {
        size_t count;
        char *values = far_part (&a, far, part, &count);
        for (size_t i = 0; i < count; i++) {
            float value;
            floats_widen (&value, values + i, a.dtype, 1);
            value *= 0.5F;
            floats_narrow (values + i, a.dtype, &value, 1);
            wanted += (double) value;
        }
    }
    ok (done && far_drop (&a) && sums[0] + sums[1] + sums[2] == wanted, "scaled, and a norm: %s blocks of %zu elements",
        far->last ? "last" : "first", far->count);
}

static void
far_update (const struct far *far, cudaStream_t stream)
{
    const struct rule_numbers numbers
        = { .sign = 1, .decay = 0.25F, .minus_size = -0.5F, .momentum = 0.5F, .fresh = 1 };
    struct far_array parameter, state, grad, narrow;
    struct cuda_table table;
    bool made = far_make (&parameter, far, ACCEL_FLOAT32);
    made = far_make (&state, far, ACCEL_FLOAT32) && made;
    made = far_make (&grad, far, ACCEL_BFLOAT16) && made;
    made = far_make (&narrow, far, ACCEL_FLOAT16) && made;
    struct cuda_item item = { .data = parameter.memory, .grad = grad.memory, .narrow = narrow.memory,
                              .state = { (float *) (void *) state.memory }, .grad_dtype = grad.dtype,
                              .narrow_dtype = narrow.dtype };
    made = made && far_table (&table, &item, far, stream);
    if (made) {
        const struct cuda_list_step step = { .numbers = &numbers, .factor = 0.5F };
        cuda_list_update (&table, 0, 1, RULE_SGD_MOMENTUM, &step, stream);
        made = far_table_end (&table, stream);
    }
    for (int part = 0; part < 2; part++) {
        size_t count;
        struct memory_update update = { .rule = RULE_SGD_MOMENTUM, .numbers = &numbers, .factor = 0.5F,
                                        .grad_dtype = grad.dtype, .narrow_dtype = narrow.dtype };
        update.parameter = (float *) (void *) far_part (&parameter, far, part, &count);
        update.state[0] = (float *) (void *) far_part (&state, far, part, &count);
        update.grad = far_part (&grad, far, part, &count);
        update.narrow = far_part (&narrow, far, part, &count);
        update.count = count;
        memory_host.update ((DLDevice){ .device_type = kDLCPU }, &update);
    }
    bool same = far_drop (&parameter);
    same = far_drop (&state) && same;
    same = far_drop (&grad) && same;
    same = far_drop (&narrow) && same;
    if (!made)
        skip ("there is no memory for %zu elements in four arrays", far->count);
    else
        ok (same, "a step: %s blocks of %zu elements", far->last ? "last" : "first", far->count);
}

/* Rows of a table of embeddings, the first, the last, and the one that 32 bits would take for it. */
static void
far_rows (cudaStream_t stream)
{
    enum { WIDTH = 1024, ALIAS = 4, TOKENS = 3 };
    const int64_t rows = ((int64_t) 1 << 32) / WIDTH + ALIAS + 1;
    const int32_t chosen[TOKENS] = { 0, (int32_t) (rows - 1), ALIAS };
    float *table = NULL, *values = NULL;
    if (cudaHostAlloc ((void **) &table, (size_t) rows * WIDTH * sizeof *table, cudaHostAllocDefault)
        || cudaHostAlloc ((void **) &values, (TOKENS * WIDTH + TOKENS) * sizeof *values, cudaHostAllocDefault)) {
        cudaGetLastError ();
        skip ("there is no memory for a table of %lld rows of %d", (long long) rows, (int) WIDTH);
        cudaFreeHost (table);
        return;
    }
    int32_t *tokens = (int32_t *) (void *) (values + TOKENS * WIDTH);
    memcpy (tokens, chosen, sizeof chosen);
    for (int i = 0; i < TOKENS * WIDTH; i++)
        table[(size_t) chosen[i / WIDTH] * WIDTH + (size_t) i % WIDTH] = (float) (i / WIDTH + 1);
    const struct vocabulary_tokens all = { { 0, rows, rows }, TOKENS, WIDTH, tokens, table, values };
    cuda_vocabulary_look_up (&all, stream);
    cuda_vocabulary_add_back (&all, stream);
    bool same = !cudaStreamSynchronize (stream);
    for (int i = 0; i < TOKENS * WIDTH; i++)
        same &= values[i] == (float) (i / WIDTH + 1)
                && table[(size_t) chosen[i / WIDTH] * WIDTH + (size_t) i % WIDTH] == 2 * values[i];
    ok (same, "rows of a table of %lld, and their gradients", (long long) rows);
    cudaFreeHost (table);
    cudaFreeHost (values);
}

static void
far_blocks (cudaStream_t stream)
{
    for (int last = 0; last < 2; last++) {
        far_scale_and_norm (&(struct far){ ((size_t) 1 << 32) + 7 * 4096 + FAR_REST, 4096, last }, stream);
        far_update (&(struct far){ ((size_t) 1 << 32) + 7 * 2048 + FAR_REST, 2048, last }, stream);
    }
    far_rows (stream);
}

/* ---- all of it ---- */

/* The sum of all magnitudes, which is exact for small whole numbers, as blocks have left it. */
static double
huge_sum (const void *values, enum accel_dtype dtype, size_t count, double *scratch, cudaStream_t stream)
{
    static double sums[CUDA_SCRATCH / sizeof (double)];
    double sum = 0;
    cuda_norm (values, dtype, count, 1, 1, (float *) (void *) ((char *) scratch + CUDA_SCRATCH / 2), scratch, stream);
    if (cudaMemcpyAsync (sums, scratch, CUDA_SCRATCH / 2, cudaMemcpyDeviceToHost, stream)
        || cudaStreamSynchronize (stream))
        return -1;
    for (unsigned i = 0; i < cuda_item_blocks (count); i++)
        sum += sums[i];
    return sum;
}

/* Ones, each of which is to be visited once: doubled, converted, and the last of them made NaN and found. */
static void
huge_of (enum accel_dtype dtype, enum accel_dtype other, size_t count, double *scratch, cudaStream_t stream)
{
    const float one = 1, nan = float_of (0x7fc00000);
    const char *name = accel_dtype_name (dtype);
    size_t each = accel_dtype_bytes (dtype), pattern = 0;
    struct cuda_place *place = NULL, found;
    char *values = NULL, *to = NULL;
    floats_narrow (&pattern, dtype, &one, 1);
    if (cudaMalloc ((void **) &values, count * each) || cudaMalloc ((void **) &to, count * each)
        || cudaMalloc ((void **) &place, sizeof *place)) {
        cudaGetLastError ();
        skip ("the GPU has no memory for twice %zu of %s", count, name);
    } else {
        cudaMemsetAsync (values, 0, count * each, stream);
        for (size_t done = 1; done <= count; done *= 2) { /* ones: the first, and copies of what is there */
            if (done == 1)
                cudaMemcpyAsync (values, &pattern, each, cudaMemcpyHostToDevice, stream);
            size_t some = count - done < done ? count - done : done;
            cudaMemcpyAsync (values + done * each, values, some * each, cudaMemcpyDeviceToDevice, stream);
        }
        ok (huge_sum (values, dtype, count, scratch, stream) == (double) count, "a norm of %zu of %s", count, name);
        cuda_scale (values, dtype, count, 2, stream);
        ok (huge_sum (values, dtype, count, scratch, stream) == 2 * (double) count, "%zu of %s scaled", count, name);
        cuda_convert (to, other, values, dtype, count, 1, stream);
        ok (huge_sum (to, other, count, scratch, stream) == 2 * (double) count, "%zu of %s converted", count, name);
        floats_narrow (&pattern, dtype, &nan, 1);
        cudaMemcpyAsync (values + (count - 1) * each, &pattern, each, cudaMemcpyHostToDevice, stream);
        cuda_find_nonfinite (values, dtype, count, place, stream);
        cudaMemcpyAsync (&found, place, sizeof found, cudaMemcpyDeviceToHost, stream);
        ok (!cudaStreamSynchronize (stream) && found.index == count - 1, "the last of %zu of %s is found", count, name);
    }
    cudaFree (values);
    cudaFree (to);
    cudaFree (place);
}

/* A step of SGD that makes 1 of every parameter. */
static void
huge_step (size_t count, double *scratch, cudaStream_t stream)
{
    struct cuda_update update = { .rule = RULE_SGD, .numbers = { .sign = 1, .minus_size = 1 }, .count = count,
                                  .grad_dtype = ACCEL_FLOAT8_E4M3FN, .narrow_dtype = ACCEL_FLOAT32, .factor = 1 };
    void *grad = NULL;
    if (cudaMalloc ((void **) &update.parameter, count * 4) || cudaMalloc (&grad, count)) {
        cudaGetLastError ();
        skip ("the GPU has no memory for a step of %zu elements", count);
    } else {
        cudaMemsetAsync (update.parameter, 0, count * 4, stream);
        cudaMemsetAsync (grad, 0x38, count, stream); /* 1 */
        update.grad = grad;
        cuda_update (&update, stream);
        ok (huge_sum (update.parameter, ACCEL_FLOAT32, count, scratch, stream) == (double) count,
            "a step of %zu elements", count);
    }
    cudaFree (update.parameter);
    cudaFree (grad);
}

/* Losses of logits that are all 0, with labels of another process: sums are the number of columns, gradients 1. */
static void
huge_losses (size_t count, double *scratch, cudaStream_t stream)
{
    enum { COLUMNS = 1024 };
    struct vocabulary_rows rows = { .vocabulary = { COLUMNS, COLUMNS, 2 * COLUMNS }, .scale = COLUMNS };
    char *memory = NULL;
    rows.count = count / COLUMNS;
    size_t made = rows.count * COLUMNS;
    if (cudaMalloc ((void **) &memory, (made + 4 * rows.count) * sizeof (float))) {
        cudaGetLastError ();
        skip ("the GPU has no memory for losses of %zu logits", count);
        return;
    }
    rows.logits = (float *) (void *) memory;
    rows.sums = (struct vocabulary_sums *) (void *) (rows.logits + made);
    rows.losses = (float *) (void *) (rows.sums + rows.count);
    rows.labels = (const int32_t *) (const void *) (rows.losses + rows.count);
    cudaMemsetAsync (memory, 0, (made + 4 * rows.count) * sizeof (float), stream);
    cuda_vocabulary_find_largest (&rows, stream);
    cuda_vocabulary_add_up (&rows, stream);
    cuda_vocabulary_finish (&rows, stream);
    ok (huge_sum (rows.logits, ACCEL_FLOAT32, made, scratch, stream) == (double) made, "losses of %zu logits", made);
    cudaFree (memory);
}

/* 4 to 11 GiB for 2^31 elements. */
static void
huge (size_t count, double *scratch, cudaStream_t stream)
{
    huge_of (ACCEL_FLOAT8_E4M3FN, ACCEL_FLOAT8_E5M2, count, scratch, stream);
    huge_of (ACCEL_BFLOAT16, ACCEL_FLOAT16, count, scratch, stream);
    huge_step (count, scratch, stream);
    huge_losses (count, scratch, stream);
}

#endif
