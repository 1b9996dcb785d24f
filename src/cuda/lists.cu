/* SPDX-License-Identifier: Apache-2.0 */
/* Many arrays in one launch.  A table in device memory has all of them; each has as many blocks as it would have in a
 * launch of its own, and the blocks of a launch go through these.  So sums have the same order, and results the same
 * bits. */
#include "cuda/norms.h"
#include "cuda/step.h"

/* Blocks of a launch; they go through those of the table.  Tests have fewer. */
#ifndef CUDA_MOST_LISTED
#define CUDA_MOST_LISTED (1U << 15)
#endif

struct range {
    unsigned items, begin, end; /* items of the table; blocks of it */
};

/* The item that block @p block is of: the last that begins at it or before. */
__device__ static inline struct cuda_item
item_of (const struct cuda_item *items, unsigned count, unsigned block)
{
    unsigned low = 0, high = count;
    while (high - low > 1) {
        unsigned middle = low + (high - low) / 2;
        if (items[middle].first <= block)
            low = middle;
        else
            high = middle;
    }
    return items[low];
}

/* @param place  where a factor is; NULL: it is @factor */
__device__ static inline float
factor_of (float factor, const float *place)
{
    return place ? *place : factor;
}

#define FOR_EACH_BLOCK(block, range) \
    for (unsigned block = (range).begin + blockIdx.x; block < (range).end; block += gridDim.x)
#define TEAM_OF(block, item) ((struct team){ (block) - (item).first, (item).blocks })

__global__ void
list_zero_kernel (const struct cuda_item *__restrict__ items, struct range range)
{
    FOR_EACH_BLOCK (block, range) {
        const struct cuda_item item = item_of (items, range.items, block);
        change_floats (TEAM_OF (block, item), REACH (item.data), item.dtype, item.count, [] (float) { return 0.0F; });
    }
}

__global__ void
list_unscale_kernel (const struct cuda_item *__restrict__ items, struct range range, float factor,
                     const float *__restrict__ place, unsigned *__restrict__ word, unsigned bit)
{
    SHARED (unsigned, any, [1]);
    bool found = false;
    factor = factor_of (factor, place);
    if (threadIdx.x == 0)
        any[0] = 0;
    FOR_EACH_BLOCK (block, range) {
        const struct cuda_item item = item_of (items, range.items, block);
        const struct team team = TEAM_OF (block, item);
        if (item.dtype == ACCEL_FLOAT32) {
            float *values = (float *) REACH (item.data);
            change_each<float_FLOAT32, float_FLOAT32> (team, values, values, item.count, [&] (float value) {
                found |= float_is_nonfinite (value) != 0;
                return value * factor;
            });
        } else {
            const uint16_t *values = (const uint16_t *) REACH (item.data);
            uint16_t mask = element_infinity (item.dtype);
            look_at_each (team, values, item.count,
                          [&] (size_t, uint16_t value) { found |= half_is_nonfinite (value, mask) != 0; });
        }
    }
    __syncthreads ();
    if (found)
        atomicOr (&any[0], 1U);
    __syncthreads ();
    if (threadIdx.x == 0 && any[0])
        atomicOr (word, bit);
}

template <enum norm_kind KIND> __global__ void
list_norm_kernel (const struct cuda_item *__restrict__ items, struct range range, float factor,
                  const float *__restrict__ place, double p, double *__restrict__ sums)
{
    factor = factor_of (factor, place);
    FOR_EACH_BLOCK (block, range) {
        const struct cuda_item item = item_of (items, range.items, block);
        const void *values = REACH (item.data);
        double sum = norm_of_block<KIND> (
            norm_of_thread<KIND> (TEAM_OF (block, item), values, item.dtype, item.count, factor, p));
        if (threadIdx.x == 0)
            sums[block] = sum;
        __syncthreads ();
    }
}

/* A block for each item. */
template <enum norm_kind KIND> __global__ void
list_norm_end_kernel (const struct cuda_item *__restrict__ items, unsigned count, const double *__restrict__ sums,
                      float factor, const float *__restrict__ place, double p, float *__restrict__ results)
{
    factor = factor_of (factor, place);
    for (unsigned at = blockIdx.x; at < count; at += gridDim.x) {
        const struct cuda_item item = items[at];
        double sum = 0;
        for (unsigned i = threadIdx.x; i < item.blocks; i += CUDA_BLOCK)
            sum = norm_both<KIND> (sum, sums[item.first + i]);
        sum = norm_of_block<KIND> (sum);
        if (threadIdx.x == 0 && item.count == 1) {
            float value = element_load (REACH (item.data), item.dtype, 0);
            results[at] = norm_of_one (item.dtype != ACCEL_FLOAT32 ? value * factor : value, p);
        } else if (threadIdx.x == 0) {
            results[at] = KIND == NORM_TWO     ? norm_of_sum (sum, 2)
                          : KIND == NORM_POWER ? float_root (sum, p)
                                               : (float) sum;
        }
        __syncthreads ();
    }
}

__global__ void
list_scale_kernel (const struct cuda_item *__restrict__ items, struct range range, float factor,
                   const float *__restrict__ place, bool only_float32)
{
    factor = factor_of (factor, place);
    FOR_EACH_BLOCK (block, range) {
        const struct cuda_item item = item_of (items, range.items, block);
        if (item.dtype != ACCEL_FLOAT32 && only_float32)
            continue;
        change_floats (TEAM_OF (block, item), REACH (item.data), item.dtype, item.count,
                       [=] (float value) { return value * factor; });
    }
}

__global__ void
list_clamp_kernel (const struct cuda_item *__restrict__ items, struct range range, float limit, float divisor,
                   const float *__restrict__ place)
{
    float half_limit = limit / factor_of (divisor, place);
    FOR_EACH_BLOCK (block, range) {
        const struct cuda_item item = item_of (items, range.items, block);
        float most = item.dtype == ACCEL_FLOAT32 ? limit : half_limit;
        change_floats (TEAM_OF (block, item), REACH (item.data), item.dtype, item.count,
                       [=] (float value) { return float_clamp (value, most); });
    }
}

/* What is the same for all elements of a group. */
struct list_step {
    struct rule_numbers numbers;
    float factor;
};

template <enum rule RULE> __global__ void
list_update_kernel (const struct cuda_item *__restrict__ items, struct range range, struct list_step step,
                    const struct rule_numbers *__restrict__ live, const float *__restrict__ place,
                    const uint32_t *__restrict__ skip)
{
    const struct rule_numbers n = live ? *live : step.numbers;
    step.factor = factor_of (step.factor, place);
    if (skip && *skip)
        return;
    FOR_EACH_BLOCK (block, range) {
        const struct cuda_item item = item_of (items, range.items, block);
        const struct step_arrays arrays
            = { (float *) REACH (item.data), REACH (item.grad),      REACH (item.state[0]),
                REACH (item.state[1]),       REACH (item.state[2]),  REACH (item.narrow),
                item.grad_dtype,             item.narrow_dtype,      item.count };
        step_each<RULE> (TEAM_OF (block, item), n, step.factor, arrays);
    }
}

__global__ void
list_narrow_kernel (const struct cuda_item *__restrict__ items, struct range range)
{
    FOR_EACH_BLOCK (block, range) {
        const struct cuda_item item = item_of (items, range.items, block);
        const float *values = (const float *) REACH (item.data);
        narrow_floats (TEAM_OF (block, item), REACH (item.narrow), item.narrow_dtype, values, item.count,
                       [] (float value) { return value; });
    }
}

/* @param bits  [items] of the largest magnitudes, 0 before; the scales' place, which they get at the end */
__global__ void
list_largest_kernel (const struct cuda_item *__restrict__ items, struct range range, unsigned *__restrict__ bits)
{
    SHARED (unsigned, most, [1]);
    FOR_EACH_BLOCK (block, range) {
        const struct cuda_item item = item_of (items, range.items, block);
        const float *values = (const float *) REACH (item.data);
        unsigned mine = 0;
        if (threadIdx.x == 0)
            most[0] = 0;
        __syncthreads ();
        look_at_each (TEAM_OF (block, item), values, item.count, [&] (size_t, float value) {
            unsigned each = bits_of (value) & 0x7fffffffU;
            mine = each > mine ? each : mine;
        });
        atomicMax (&most[0], mine);
        __syncthreads ();
        if (threadIdx.x == 0)
            atomicMax (&bits[item.index], most[0]);
        __syncthreads ();
    }
}

__device__ static inline float
scale_of_item (const struct cuda_item &item, unsigned bits)
{
    return scale_of_largest (float_of (bits), dtype_limit (item.narrow_dtype));
}

__global__ void
list_narrow_scaled_kernel (const struct cuda_item *__restrict__ items, struct range range,
                           const unsigned *__restrict__ bits)
{
    FOR_EACH_BLOCK (block, range) {
        const struct cuda_item item = item_of (items, range.items, block);
        const float *values = (const float *) REACH (item.data);
        float factor = 1 / scale_of_item (item, bits[item.index]), limit = dtype_limit (item.narrow_dtype);
        narrow_floats (TEAM_OF (block, item), REACH (item.narrow), item.narrow_dtype, values, item.count,
                       [=] (float value) { return float_clamp (factor == 1 ? value : value * factor, limit); });
    }
}

/* From bits to scales, in their place. */
__global__ void
list_scales_kernel (const struct cuda_item *__restrict__ items, unsigned count, unsigned *__restrict__ bits)
{
    FOR_EACH (i, count)
        bits[i] = bits_of (scale_of_item (items[i], bits[i]));
}

/* The norm of norms, one after the other as if they stood in an array, and the factor that clipping multiplies with;
 * one block. */
__global__ void
clip_factor_kernel (const float *__restrict__ norms, unsigned count, double p, float most,
                    float *__restrict__ factor, float *__restrict__ pending)
{
    SHARED (float, some, [CUDA_BLOCK]);
    double sum = 0;
    float largest = 0;
    for (unsigned at = 0; at < count; at += CUDA_BLOCK) {
        __syncthreads ();
        some[threadIdx.x] = at + threadIdx.x < count ? norms[at + threadIdx.x] : 0;
        __syncthreads ();
        for (unsigned t = 0; threadIdx.x == 0 && t < CUDA_BLOCK && at + t < count; t++) {
            sum += (double) some[t] * (double) some[t];
            largest = largest != largest || some[t] <= largest ? largest : some[t];
        }
    }
    if (threadIdx.x)
        return;
    float total = isinf (p) ? largest : norm_of_sum (sum, 2);
    if (count == 1)
        total = norm_of_one (norms[0], p);
    float result = 1.0F / (total + 1e-6F) * most;
    result = result > 1 ? 1 : result;
    *factor = result;
    if (pending)
        *pending *= result;
}

/* ---- launches ---- */

extern "C" unsigned
cuda_item_blocks (size_t count)
{
    return cuda_blocks (count);
}

static unsigned
blocks_of (struct range range)
{
    unsigned blocks = range.end - range.begin;
    return blocks < CUDA_MOST_LISTED ? blocks : CUDA_MOST_LISTED;
}

static struct range
whole (const struct cuda_table *table)
{
    return (struct range){ table->count, 0, table->blocks };
}

/* Pointers in the table, for the stand-in; on a card, nothing. */
#define USE_DATA(table, kernel, stream, type)                                                      \
    for (unsigned item = 0; CHECKS_USES && item < (table)->count; item++)                          \
        if ((table)->host[item].count)                                                             \
    USES (kernel, stream, (type) (table)->host[item].data)
#define USE_NARROW(table, kernel, stream)                                                          \
    for (unsigned item = 0; CHECKS_USES && item < (table)->count; item++)                          \
        if ((table)->host[item].count)                                                             \
    USES (kernel, stream, (table)->host[item].narrow)

extern "C" void
cuda_list_zero (const struct cuda_table *table, void *stream)
{
    USE_DATA (table, list_zero_kernel, stream, void *);
    if (table->blocks)
        LAUNCH (list_zero_kernel, blocks_of (whole (table)), stream, table->items, whole (table));
}

extern "C" void
cuda_list_unscale (const struct cuda_table *table, float factor, const float *place, uint8_t *found, void *stream)
{
    unsigned byte = (unsigned) ((uintptr_t) found & 3), bit = 1U << 8 * byte;
    unsigned *word = (unsigned *) (void *) (found - byte);
    USE_DATA (table, list_unscale_kernel, stream, void *);
    if (table->blocks)
        LAUNCH (list_unscale_kernel, blocks_of (whole (table)), stream, table->items, whole (table), factor, place,
                word, bit);
}

template <enum norm_kind KIND> static void
launch_norm (const struct cuda_table *table, float factor, const float *place, double p, float *results, void *stream)
{
    USE_DATA (table, list_norm_kernel, stream, const void *);
    if (table->blocks)
        LAUNCH (list_norm_kernel<KIND>, blocks_of (whole (table)), stream, table->items, whole (table), factor,
                place, p, table->sums);
    if (table->count)
        LAUNCH (list_norm_end_kernel<KIND>, blocks_of ((struct range){ 0, 0, table->count }), stream, table->items,
                table->count, (const double *) table->sums, factor, place, p, results);
}

/* Other norms have pow(), and kernels of their own. */
extern "C" bool
cuda_list_norm (const struct cuda_table *table, float factor, const float *place, double p, float *results,
                void *stream)
{
    if (isinf (p))
        launch_norm<NORM_LARGEST> (table, factor, place, p, results, stream);
    else if (p == 2)
        launch_norm<NORM_TWO> (table, factor, place, p, results, stream);
    else if (p == 1)
        launch_norm<NORM_ONE> (table, factor, place, p, results, stream);
    else if (p == 0)
        launch_norm<NORM_ZERO> (table, factor, place, p, results, stream);
    else
        return false;
    return true;
}

extern "C" void
cuda_list_scale (const struct cuda_table *table, float factor, const float *place, bool only_float32, void *stream)
{
    USE_DATA (table, list_scale_kernel, stream, void *);
    if (table->blocks)
        LAUNCH (list_scale_kernel, blocks_of (whole (table)), stream, table->items, whole (table), factor, place,
                only_float32);
}

extern "C" void
cuda_list_clamp (const struct cuda_table *table, float limit, float half_divisor, const float *place, void *stream)
{
    USE_DATA (table, list_clamp_kernel, stream, void *);
    if (table->blocks)
        LAUNCH (list_clamp_kernel, blocks_of (whole (table)), stream, table->items, whole (table), limit, half_divisor,
                place);
}

template <enum rule RULE> static void
launch_list_update (const struct cuda_table *table, struct range range, const struct cuda_list_step *given,
                    void *stream)
{
    struct list_step step = { {}, given->factor };
    if (given->numbers)
        step.numbers = *given->numbers;
    LAUNCH (list_update_kernel<RULE>, blocks_of (range), stream, table->items, range, step, given->live, given->place,
            given->skip);
}

#define LAUNCH_LIST_ROW(NAME, name, states) launch_list_update<RULE_##NAME>,

extern "C" void
cuda_list_update (const struct cuda_table *table, unsigned first, unsigned count, enum rule rule,
                  const struct cuda_list_step *step, void *stream)
{
    static void (*const launch[RULE_COUNT]) (const struct cuda_table *, struct range, const struct cuda_list_step *,
                                             void *)
        = { RULES (LAUNCH_LIST_ROW) };
    const struct cuda_item *items = table->host + first, *last = items + count - 1;
    for (unsigned i = 0; CHECKS_USES && i < count; i++)
        if (items[i].count) {
            USES (list_update_kernel, stream, items[i].data);
            USES (list_update_kernel, stream, items[i].grad);
            USES (list_update_kernel, stream, items[i].narrow);
            for (unsigned j = 0; j < RULE_STATES; j++)
                USES (list_update_kernel, stream, items[i].state[j]);
        }
    struct range range = { table->count, items->first, last->first + last->blocks };
    if (range.begin < range.end)
        launch[rule] (table, range, step, stream);
}

extern "C" void
cuda_list_narrow (const struct cuda_table *table, void *stream)
{
    USE_DATA (table, list_narrow_kernel, stream, const void *);
    USE_NARROW (table, list_narrow_kernel, stream);
    if (table->blocks)
        LAUNCH (list_narrow_kernel, blocks_of (whole (table)), stream, table->items, whole (table));
}

extern "C" void
cuda_list_narrow_scaled (const struct cuda_table *table, float *scales, void *stream)
{
    unsigned *bits = (unsigned *) (void *) scales;
    USE_DATA (table, list_largest_kernel, stream, const void *);
    USE_NARROW (table, list_narrow_scaled_kernel, stream);
    if (!table->count)
        return;
    cudaMemsetAsync (bits, 0, table->count * sizeof *bits, (cudaStream_t) stream);
    if (table->blocks) {
        LAUNCH (list_largest_kernel, blocks_of (whole (table)), stream, table->items, whole (table), bits);
        LAUNCH (list_narrow_scaled_kernel, blocks_of (whole (table)), stream, table->items, whole (table),
                (const unsigned *) bits);
    }
    LAUNCH (list_scales_kernel, cuda_blocks (table->count), stream, table->items, table->count, bits);
}

extern "C" void
cuda_clip_factor (const float *norms, size_t count, double p, float most, float *factor, float *pending, void *stream)
{
    LAUNCH (clip_factor_kernel, 1, stream, norms, (unsigned) count, p, most, factor, pending);
}
