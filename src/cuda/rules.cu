/* SPDX-License-Identifier: Apache-2.0 */
/* A step of an optimizer over a stretch of one parameter, in one pass: the gradient is widened and unscaled, parameter
 * and states change, and the parameter is written in its smaller type. */
#include "cuda/elements.h"
#include "cuda/portable.h"
#include "cuda/step.h"

/* What is the same for all elements. */
struct step {
    struct rule_numbers numbers;
    enum accel_dtype grad_dtype, narrow_dtype;
    float factor;
};

template <enum rule RULE> __global__ void
update_kernel (struct step step, float *__restrict__ parameter, const void *__restrict__ grad,
               float *__restrict__ state0, float *__restrict__ state1, float *__restrict__ state2,
               void *__restrict__ narrow, size_t count)
{
    step_each<RULE> (WHOLE_GRID, step.numbers, step.factor,
                     { parameter, grad, state0, state1, state2, narrow, step.grad_dtype, step.narrow_dtype, count });
}

template <enum rule RULE> static void
launch_update (const struct cuda_update *u, void *stream)
{
    struct step step = { u->numbers, u->grad_dtype, u->narrow_dtype, u->factor };
    LAUNCH (update_kernel<RULE>, cuda_blocks (u->count), stream, step, u->parameter, u->grad, u->state[0], u->state[1],
            u->state[2], u->narrow, u->count);
}

#define LAUNCH_ROW(NAME, name, states) launch_update<RULE_##NAME>,

extern "C" void
cuda_update (const struct cuda_update *update, void *stream)
{
    static void (*const launch[RULE_COUNT]) (const struct cuda_update *, void *)
        = { RULES (LAUNCH_ROW) };
    if (update->count)
        launch[update->rule] (update, stream);
}
