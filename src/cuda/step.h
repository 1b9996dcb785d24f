/* SPDX-License-Identifier: Apache-2.0 */
/* A step of any rule: of one element, and of all of an array. */
#ifndef CUDA_STEP_H
#define CUDA_STEP_H

#include "cuda/elements.h"
#include "lib/kernels/rules_element.h"

/* Arrays that a step goes through; states that the rule does not have, and narrow, may be NULL. */
struct step_arrays {
    float *parameter;
    const void *grad;
    float *state0, *state1, *state2;
    void *narrow;
    enum accel_dtype grad_dtype, narrow_dtype;
    size_t count;
};

#define RULE_STATES_OF(NAME, name, states) states,
constexpr unsigned STATES_OF_RULE[RULE_COUNT] = { RULES (RULE_STATES_OF) };
#undef RULE_STATES_OF

/* @return the parameter after it */
template <enum rule RULE> __device__ static inline float
rule_step (const struct rule_numbers n, float value, float g, float *state0, float *state1, float *state2, size_t i)
{
#define RULE_CASE(NAME, name, states)                                                                                  \
    if (RULE == RULE_##NAME)                                                                                           \
        return RULE_CALL_##states (name, n, value, g, state0, state1, state2, i);
    RULES (RULE_CASE)
#undef RULE_CASE
    return value;
}

/* U packs at once, of all arrays. */
template <enum rule RULE, unsigned U> __device__ static inline void
step_packs (const struct rule_numbers &n, float factor, const struct step_arrays &a, size_t i)
{
    constexpr unsigned N = PACKED<float>, STATES = STATES_OF_RULE[RULE];
    float values[U][N], grads[U][N], state0[U][N], state1[U][N], state2[U][N];
    load_floats (values, a.parameter, ACCEL_FLOAT32, i);
    if (STATES > 0)
        load_floats (state0, a.state0, ACCEL_FLOAT32, i);
    if (STATES > 1)
        load_floats (state1, a.state1, ACCEL_FLOAT32, i);
    if (STATES > 2)
        load_floats (state2, a.state2, ACCEL_FLOAT32, i);
    load_floats (grads, a.grad, a.grad_dtype, i);
    UNROLL for (unsigned u = 0; u < U; u++)
        UNROLL for (unsigned k = 0; k < N; k++) {
            float g = a.grad_dtype != ACCEL_FLOAT32 && factor != 1 ? grads[u][k] * factor : grads[u][k];
            values[u][k] = rule_step<RULE> (n, values[u][k], g, state0[u], state1[u], state2[u], k);
        }
    store_floats (a.parameter, ACCEL_FLOAT32, i, values);
    if (STATES > 0)
        store_floats (a.state0, ACCEL_FLOAT32, i, state0);
    if (STATES > 1)
        store_floats (a.state1, ACCEL_FLOAT32, i, state1);
    if (STATES > 2)
        store_floats (a.state2, ACCEL_FLOAT32, i, state2);
    if (a.narrow)
        store_floats (a.narrow, a.narrow_dtype, i, values);
}

template <enum rule RULE> __device__ static inline void
step_one (const struct rule_numbers &n, float factor, const struct step_arrays &a, size_t i)
{
    float g = element_load (a.grad, a.grad_dtype, i);
    if (a.grad_dtype != ACCEL_FLOAT32 && factor != 1)
        g *= factor;
    float value = rule_step<RULE> (n, a.parameter[i], g, a.state0, a.state1, a.state2, i);
    a.parameter[i] = value;
    if (a.narrow)
        element_store (a.narrow, a.narrow_dtype, i, value);
}

/* @param factor  of gradients, unless they are float32 */
template <enum rule RULE> __device__ static inline void
step_each (struct team team, const struct rule_numbers &n, float factor, const struct step_arrays &a)
{
    constexpr unsigned N = PACKED<float>, STATES = STATES_OF_RULE[RULE], U = STATES > 1 ? 1 : 2;
    bool packed = is_packed (a.parameter, sizeof (float), N) && is_packed (a.grad, element_bytes (a.grad_dtype), N)
                  && is_packed (a.narrow, element_bytes (a.narrow_dtype), N)
                  && (STATES < 1 || is_packed (a.state0, sizeof (float), N))
                  && (STATES < 2 || is_packed (a.state1, sizeof (float), N))
                  && (STATES < 3 || is_packed (a.state2, sizeof (float), N));
    for_packs<N, U> (
        team, a.count, packed, [&] (auto some, size_t i) { step_packs<RULE, some.count> (n, factor, a, i); },
        [&] (size_t i) { step_one<RULE> (n, factor, a, i); });
}

#endif
