/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that the host does not know: how many steps there were, and the scale of losses, with one block each, beside
 * which the rest of a step is long; and marks, on which copies depend. */
#include "cuda/elements.h"
#include "cuda/kernels.h"
#include "cuda/portable.h"
#include "lib/kernels/rules_element.h"
#include "lib/kernels/scaler_element.h"

__global__ void
begin_step_kernel (struct rule_steps *__restrict__ steps, struct rule_group *__restrict__ groups, unsigned group_count,
                   const uint8_t *__restrict__ found)
{
    const uint64_t count = steps->count + 1;
    const bool skips = found && *found;
    for (unsigned g = threadIdx.x; g < group_count && !skips; g += CUDA_BLOCK) {
        struct rule_numbers numbers = groups[g].fixed;
        rule_begin (&numbers, &groups[g].pace, count);
        groups[g].numbers = numbers;
    }
    __syncthreads ();
    if (threadIdx.x)
        return;
    steps->was_skipped = skips;
    if (!skips)
        steps->count = count;
}

__global__ void
note_scale_kernel (const struct scaler_values *__restrict__ scaler, float *__restrict__ scale,
                   float *__restrict__ inverse)
{
    if (threadIdx.x)
        return;
    *scale = scaler->scale;
    *inverse = scaler_inverse_of (scaler->scale);
}

__global__ void
note_found_kernel (struct scaler_values *__restrict__ scaler, const uint8_t *__restrict__ found, bool last,
                   struct scaler_factors factors)
{
    if (threadIdx.x)
        return;
    scaler->found_inf |= *found;
    if (last) {
        scaler_change (scaler, &factors, (int) scaler->found_inf);
        scaler->found_inf = 0;
    }
}

/* In packs of words where both arrays begin at a multiple of a pack. */
__global__ void
copy_unless_kernel (uint8_t *__restrict__ to, const uint8_t *__restrict__ from, size_t bytes,
                    const uint8_t *__restrict__ flag)
{
    constexpr unsigned N = PACKED<uint32_t>, U = IN_FLIGHT<N>;
    uint32_t *into = (uint32_t *) to;
    const uint32_t *out = (const uint32_t *) from;
    bool packed = is_packed (to, 1, sizeof *into * N) && is_packed (from, 1, sizeof *out * N);
    size_t words = packed ? bytes / sizeof *into : 0, done = words * sizeof *into;
    if (*flag)
        return;
    for_packs<N, U> (WHOLE_GRID, words, true, [&] (auto some, size_t i) {
        pack<uint32_t, N> in[some.count] = {};
        UNROLL for (unsigned u = 0; from && u < some.count; u++)
            in[u] = pack_load<N> (out, i + u * PACK_STEP<N>);
        UNROLL for (unsigned u = 0; u < some.count; u++)
            pack_store (into, i + u * PACK_STEP<N>, in[u]);
    }, [&] (size_t i) { into[i] = from ? out[i] : 0; });
    FOR_EACH (i, bytes - done)
        to[done + i] = from ? from[done + i] : 0;
}

extern "C" void
cuda_copy_unless (void *to, const void *from, size_t bytes, const uint8_t *flag, void *stream)
{
    LAUNCH (copy_unless_kernel, cuda_blocks (bytes / sizeof (uint32_t) + 1), stream, (uint8_t *) to,
            (const uint8_t *) from, bytes, flag);
}

extern "C" void
cuda_begin_step (struct rule_steps *steps, struct rule_group *groups, size_t count, const uint8_t *found, void *stream)
{
    LAUNCH (begin_step_kernel, 1, stream, steps, groups, (unsigned) count, found);
}

extern "C" void
cuda_note_scale (const struct scaler_values *scaler, float *scale, float *inverse, void *stream)
{
    LAUNCH (note_scale_kernel, 1, stream, scaler, scale, inverse);
}

extern "C" void
cuda_note_found (struct scaler_values *scaler, const uint8_t *found, bool last, const struct scaler_factors *factors,
                 void *stream)
{
    LAUNCH (note_found_kernel, 1, stream, scaler, found, last, *factors);
}
