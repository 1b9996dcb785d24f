/* SPDX-License-Identifier: Apache-2.0 */
/* Where arrays begin at multiples of packs, kernels load and store all elements in packs (src/cuda/elements.h), and
 * elsewhere none: results are the same, so the stand-in counts the bytes of packs (shim.h). */
#ifndef TESTS_STANDIN_PACKS_H
#define TESTS_STANDIN_PACKS_H

#include "cuda/kernels.h"
#include "tests/tap.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

/* Where kernels are not compiled for the host: no such number. */
extern unsigned long standin_packed __attribute__ ((weak));

enum { PACKS_COUNT = 8208, PACKS_ROOM = 8 * PACKS_COUNT + 64 }; /* elements, of whole packs; bytes of an array */

struct packs {
    cudaStream_t stream;
    size_t late; /* with how many elements an array begins late; 0: aligned */
    char *memory[3 + RULE_STATES];
    struct cuda_item *item; /* on the device */
    double *sums;
};

static void *
packs_array (const struct packs *packs, int array, enum accel_dtype dtype)
{
    return packs->memory[array] + packs->late * accel_dtype_bytes (dtype);
}

/* Since the last call. */
static size_t
packs_bytes (const struct packs *packs)
{
    size_t bytes = cudaStreamSynchronize (packs->stream) ? SIZE_MAX : standin_packed;
    standin_packed = 0;
    return bytes;
}

/* @param each  bytes of each element that are loaded and stored */
static void
packs_tell (const struct packs *packs, const char *call, enum accel_dtype dtype, size_t each)
{
    size_t got = packs_bytes (packs), wanted = packs->late ? 0 : each * PACKS_COUNT;
    ok (got == wanted, "%s of %s, %s: %zu bytes in packs, wanted %zu", call, accel_dtype_name (dtype),
        packs->late ? "late" : "aligned", got, wanted);
}

/* @param call  of a kernel on @p stream */
#define PACKS_TELL(dtype, each, name, call) ((call), packs_tell (packs, name, dtype, each))

static void
packs_of_type (const struct packs *packs, enum accel_dtype type, void *scratch)
{
    void *a = packs_array (packs, 0, type), *stream = packs->stream;
    float *full = packs_array (packs, 1, ACCEL_FLOAT32);
    size_t n = PACKS_COUNT, bytes = accel_dtype_bytes (type), wide = sizeof *full;
    PACKS_TELL (type, 2 * bytes, "scaling", cuda_scale (a, type, n, 0.5, stream));
    PACKS_TELL (type, 2 * bytes, "clamping", cuda_clamp (a, type, n, 1, stream));
    for (double p = 0; p < 3; p++)
        PACKS_TELL (type, bytes, "a norm", cuda_norm (a, type, n, 1, p, scratch, (double *) scratch + 1, stream));
    PACKS_TELL (type, bytes, "a search", cuda_find_nonfinite (a, type, n, scratch, stream));
    PACKS_TELL (type, bytes + wide, "widening", cuda_widen (full, a, type, n, 0.5F, stream));
    PACKS_TELL (type, bytes + wide, "narrowing", cuda_narrow (a, type, full, n, 0.5F, true, stream));
    PACKS_TELL (type, bytes + wide, "a conversion to float32",
                cuda_convert (full, ACCEL_FLOAT32, a, type, n, 3, stream));
    PACKS_TELL (type, bytes + wide, "a conversion", cuda_convert (a, type, full, ACCEL_FLOAT32, n, 3, stream));
    if (bytes > 1) /* gradients, of which those that are not float32 are only looked at */
        PACKS_TELL (type, type == ACCEL_FLOAT32 ? 2 * bytes : bytes, "unscaling",
                    cuda_unscale (a, type, n, 0.5F, (uint8_t *) scratch, stream));
}

/* Of a table of one item with a copy in the type @narrow. */
static void
packs_of_list (const struct packs *packs, enum accel_dtype type, enum accel_dtype narrow, float *scratch)
{
    void *stream = packs->stream;
    size_t bytes = accel_dtype_bytes (type), small = accel_dtype_bytes (narrow), wide = sizeof *scratch;
    struct cuda_item item = { .data = packs_array (packs, 0, type), .count = PACKS_COUNT,
                              .narrow = packs_array (packs, 2, narrow), .dtype = type, .narrow_dtype = narrow,
                              .blocks = cuda_item_blocks (PACKS_COUNT) };
    const struct cuda_table table = { packs->item, &item, packs->sums, 1, item.blocks };
    if (cudaMemcpyAsync (packs->item, &item, sizeof item, cudaMemcpyHostToDevice, stream))
        ok (false, "the table is copied");
    PACKS_TELL (type, 2 * bytes, "zeroing a list", cuda_list_zero (&table, stream));
    PACKS_TELL (type, 2 * bytes, "scaling a list", cuda_list_scale (&table, 0.5F, NULL, false, stream));
    PACKS_TELL (type, 2 * bytes, "clamping a list", cuda_list_clamp (&table, 1, 1, NULL, stream));
    PACKS_TELL (type, bytes, "norms of a list", cuda_list_norm (&table, 1, NULL, 2, scratch, stream));
    if (type != ACCEL_FLOAT32)
        return;
    PACKS_TELL (type, 2 * bytes, "unscaling a list",
                cuda_list_unscale (&table, 0.5F, NULL, (uint8_t *) scratch, stream));
    PACKS_TELL (narrow, wide + small, "narrowing a list", cuda_list_narrow (&table, stream));
    PACKS_TELL (narrow, 2 * wide + small, "narrowing a list with scales",
                cuda_list_narrow_scaled (&table, scratch, stream));
}

/* @param late  the one array that is not aligned; -1: none */
static void
packs_of_update (const struct packs *packs, enum rule rule, enum accel_dtype grad, enum accel_dtype narrow, int late)
{
    static const size_t states[RULE_COUNT] = {
#define X(NAME, name, states) states,
        RULES (X)
#undef X
    };
    const struct rule_numbers numbers = { .sign = 1, .keep = 1, .minus_size = -0.1F, .beta1 = 0.9F, .beta2 = 0.9F };
    struct packs some = *packs;
    struct cuda_update update = { .rule = rule, .numbers = numbers, .grad_dtype = grad, .factor = 1,
                                  .narrow_dtype = narrow, .count = PACKS_COUNT };
    void *arrays[3 + RULE_STATES];
    for (int i = 0; i < 3 + RULE_STATES; i++) {
        some.late = late == i;
        arrays[i] = packs_array (&some, i, i == 1 ? grad : i == 2 ? narrow : ACCEL_FLOAT32);
    }
    update.parameter = arrays[0];
    update.grad = arrays[1];
    update.narrow = arrays[2];
    for (int s = 0; s < RULE_STATES; s++)
        update.state[s] = arrays[3 + s];
    some.late = late >= 0 && late < 3 + (int) states[rule];
    cuda_update (&update, packs->stream);
    packs_tell (&some, "a step", grad,
                (2 + 2 * states[rule]) * sizeof (float) + accel_dtype_bytes (grad) + accel_dtype_bytes (narrow));
}

/* What has no type: sums, copies, and PowerSGD's products, whose rows are packs. */
static void
packs_of_others (const struct packs *packs, float *scratch)
{
    enum { ROWS = 19, COLUMNS = PACKS_COUNT / ROWS / 32 * 32, RANK = 2 };
    void *stream = packs->stream;
    float *a = packs_array (packs, 0, ACCEL_FLOAT32), *b = packs_array (packs, 1, ACCEL_FLOAT32);
    float *p = (float *) (void *) packs->memory[3], *q = (float *) (void *) packs->memory[4];
    PACKS_TELL (ACCEL_FLOAT32, 12, "a sum", cuda_add (a, b, PACKS_COUNT, stream));
    PACKS_TELL (ACCEL_FLOAT32, 4, "the largest", cuda_largest (a, PACKS_COUNT, (unsigned *) (void *) scratch, stream));
    PACKS_TELL (ACCEL_FLOAT64, 16, "scaling", cuda_scale (packs_array (packs, 0, ACCEL_FLOAT64), ACCEL_FLOAT64,
                                                          PACKS_COUNT, 0.5, stream));
    PACKS_TELL (ACCEL_FLOAT32, 8, "a copy",
                cuda_copy_unless (a, b, sizeof *a * PACKS_COUNT, (const uint8_t *) packs->memory[5], stream));
    cuda_multiply (p, a, q, ROWS, COLUMNS, RANK, stream);
    size_t wanted = packs->late ? 0 : sizeof *a * ROWS * COLUMNS, got = packs_bytes (packs);
    ok (got == RANK * wanted, "a product: %zu bytes in packs", got);
    cuda_expand (a, b, p, q, ROWS, COLUMNS, RANK, stream);
    got = packs_bytes (packs);
    ok (got == 3 * wanted, "an expansion: %zu bytes in packs", got);
}

/* @param scratch  of CUDA_SCRATCH bytes */
static void
packs (void *scratch, cudaStream_t stream)
{
    static const enum accel_dtype types[] = { ACCEL_FLOAT32, ACCEL_FLOAT16, ACCEL_BFLOAT16, ACCEL_FLOAT8_E4M3FN,
                                              ACCEL_FLOAT8_E5M2 };
    enum { TYPES = sizeof types / sizeof *types, GRADS = 3, ARRAYS = 3 + RULE_STATES };
    struct packs packs = { .stream = stream };
    if (!&standin_packed)
        return;
    bool good = !cudaMalloc ((void **) &packs.item, sizeof *packs.item)
                && !cudaMalloc ((void **) &packs.sums, CUDA_SCRATCH)
                && !cudaMemsetAsync (scratch, 0, CUDA_SCRATCH, stream);
    for (int i = 0; i < ARRAYS; i++)
        good = good && !cudaMalloc ((void **) &packs.memory[i], PACKS_ROOM)
               && !cudaMemsetAsync (packs.memory[i], 0, PACKS_ROOM, stream);
    ok (good && packs_bytes (&packs) != SIZE_MAX, "memory for arrays of packs");
    for (packs.late = 0; packs.late < 2; packs.late++) {
        for (int type = 0; type < TYPES; type++) {
            packs_of_type (&packs, types[type], scratch);
            if (type < GRADS)
                packs_of_list (&packs, types[type], types[TYPES - 1 - type], scratch);
        }
        packs_of_others (&packs, scratch);
    }
    packs.late = 0;
    for (int rule = 0; rule < RULE_COUNT; rule++)
        for (int late = -1; late < ARRAYS; late++)
            packs_of_update (&packs, (enum rule) rule, types[rule % GRADS], types[(rule + 1) % GRADS], late);
    for (int i = 0; i < ARRAYS; i++)
        cudaFree (packs.memory[i]);
    cudaFree (packs.item);
    cudaFree (packs.sums);
}

#endif
