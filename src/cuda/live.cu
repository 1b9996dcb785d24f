/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of a step that the host does not know: how many steps there were, and the scale of losses.  One block each,
 * beside which the rest of a step is long. */
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
