/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers: torch's CPU generator, bit for bit.
 *
 * A generator may be used by one thread at a time; different generators are independent.  Counts are elements, in
 * host memory.  Functions without a status cannot fail.  A generator may be NULL only if its comment allows it:
 * otherwise the call is ACCEL_ERR_INVALID or, if it has no status, draws nothing (and returns 0, or randint's low). */
#ifndef ACCEL_RANDOM_H
#define ACCEL_RANDOM_H

#include <accel/base.h>
#include <accel/state.h>
#include <accel/tensor.h>

ACCEL_BEGIN_DECLS

/** A stream of random numbers, bit for bit that of torch's CPU generator (MT19937). */
struct accel_generator;

/** The seed of a torch.Generator() that has not been seeded. */
#define ACCEL_GENERATOR_DEFAULT_SEED UINT64_C (67280421310721)

/** Size of a generator's state in bytes: what torch.Generator.get_state() returns. */
#define ACCEL_GENERATOR_STATE_BYTES 5056

/**
 * Which of torch's kernels the fill functions follow.  torch chooses them by processor (variable ATEN_CPU_CAPABILITY);
 * libaccel does not, so the numbers depend only on the seed.
 *
 * They differ in the last bits of float32 normals drawn 16 or more at a time, and of normals with a mean and uniforms
 * with bounds of their own, where AVX2 fuses multiplication and addition.
 */
enum accel_random_kernels {
    ACCEL_RANDOM_AVX2,    /**< like torch on x86-64 processors with AVX2, including those with AVX-512; the default */
    ACCEL_RANDOM_PORTABLE /**< like torch with ATEN_CPU_CAPABILITY=default */
};

/** Make a generator.  Only the low 32 bits of the seed affect the numbers, as in torch. */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_generator_create (struct accel_generator **generator, uint64_t seed, struct accel_error *err);

/** Free @p generator.  Accepts NULL.  Not for the default generator. */
ACCEL_API void accel_generator_destroy (struct accel_generator *generator);

/** Restart with @p seed: torch.Generator.manual_seed(), where a negative seed -n is 2^64 - n. */
ACCEL_API void accel_generator_seed (struct accel_generator *generator, uint64_t seed);

/** @return the seed that the stream started with, all 64 bits: torch.Generator.initial_seed(). */
ACCEL_API uint64_t accel_generator_initial_seed (const struct accel_generator *generator);

/**
 * Choose the kernels that the fill functions of @p generator follow; seeding and setting a state do not change the
 * choice.
 */
ACCEL_API void accel_generator_set_kernels (struct accel_generator *generator, enum accel_random_kernels kernels);

/** @return the next 32 random bits. */
ACCEL_API uint32_t accel_generator_next (struct accel_generator *generator);

/** @return the next number in [0, 1) with 24 random bits, as torch draws a float32. */
ACCEL_API float accel_generator_uniform (struct accel_generator *generator);

/**
 * @return the next integer in [low, high): torch.randint(low, high).  If @p high is not greater than @p low, the result
 *         is @p low and nothing is drawn.
 *
 * As in torch 2.15: 32 random bits for ranges of fewer than 2^28 integers, otherwise 64, modulo the size of the range.
 * The resulting bias is part of the stream.
 */
ACCEL_API int64_t accel_generator_randint (struct accel_generator *generator, int64_t low, int64_t high);

/** Fill @p permutation with a permutation of 0 .. count - 1: torch.randperm().  @param permutation  [count] */
ACCEL_API void accel_generator_permutation (struct accel_generator *generator, int64_t *permutation, size_t count);

/**
 * Fill with numbers in [from, to): Tensor.uniform_(from, to); torch.rand() for 0, 1.
 *
 * @param values  [count]
 * @param dtype   ACCEL_FLOAT32, with 24 random bits each, or ACCEL_FLOAT64, with 53
 * @retval ACCEL_ERR_INVALID  from > to, or one of them or their difference is not finite as a @p dtype; nothing was
 *                            drawn
 * @retval ACCEL_ERR_UNSUPPORTED  another @p dtype
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_generator_fill_uniform (struct accel_generator *generator, void *values, size_t count, enum accel_dtype dtype,
                              double from, double to, struct accel_error *err);

/**
 * Fill with normally distributed numbers: Tensor.normal_(mean, std) of a contiguous tensor; torch.randn() for 0, 1.
 *
 * As in torch, fewer than 16 numbers are drawn one by one from pairs of float64, whose second half is kept in the
 * generator's state for the next such call.  16 or more are drawn in blocks of 16, and if their number is not a
 * multiple of 16, the last 16 are drawn again.  So two calls for 8 numbers differ from one call for 16.
 *
 * log(), sin() and cos() are those of the system's C library, like torch's: the numbers equal torch's on a machine with
 * the same C library.  16 or more float32 with ACCEL_RANDOM_AVX2 do not need it.
 *
 * @param values  [count]
 * @param dtype   ACCEL_FLOAT32 or ACCEL_FLOAT64
 * @param std     standard deviation, >= 0
 * @retval ACCEL_ERR_INVALID      @p std is negative or not a number; nothing was drawn
 * @retval ACCEL_ERR_UNSUPPORTED  another @p dtype
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_generator_fill_normal (struct accel_generator *generator, void *values, size_t count, enum accel_dtype dtype,
                             double mean, double std, struct accel_error *err);

/** How accel_generator_choose() draws; 0 is each field's default. */
struct accel_choice_options {
    double temperature; /**< logits are divided by it; 0: 1; ACCEL_ZERO: the largest one is chosen, nothing is drawn */
    uint64_t top_k;     /**< only so many of the largest logits; 0: all */
    double top_p;       /**< of these, only the largest whose probabilities reach this sum, from 0 to 1; 0: all */
};

/**
 * Choose one of @p count classes with the probabilities softmax (logits): the next token of a language model.  The
 * filters are those of transformers, in its order: temperature, top_k, top_p.  Of equal logits, the first ones are
 * kept.  One accel_generator_uniform() is drawn.
 *
 * @param logits       [count]; -INFINITY: never chosen
 * @param[out] chosen  0 <= chosen < count
 * @param options      may be NULL
 * @retval ACCEL_ERR_INVALID  a logit is NaN or INFINITY, or all are -INFINITY; an invalid option; nothing was drawn
 */
#define accel_generator_choose(...) accel_generator_choose_sized (sizeof (struct accel_choice_options), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_generator_choose_sized (size_t options_size, struct accel_generator *generator, const float *logits, size_t count,
                              size_t *chosen, const struct accel_choice_options *options, struct accel_error *err);

/** Write the complete state of @p generator: torch.Generator.get_state(), byte for byte. */
ACCEL_API void
accel_generator_get_state (const struct accel_generator *generator, uint8_t state[ACCEL_GENERATOR_STATE_BYTES]);

/**
 * Continue the stream from @p state, which accel_generator_get_state() or torch.Generator.get_state() returned.
 *
 * @param size_bytes  of @p state; must be ACCEL_GENERATOR_STATE_BYTES
 * @retval ACCEL_ERR_FORMAT  @p state is not a valid state; @p generator is unchanged
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_generator_set_state (struct accel_generator *generator, const uint8_t *state, size_t size_bytes,
                           struct accel_error *err);

/**
 * @return the process's default generator: torch.default_generator.  Until it is seeded, its seed comes from the
 *         system's entropy and thus differs between processes.
 *
 * It is created on the first call, from any thread; it may be used by one thread at a time, and is never destroyed.
 */
ACCEL_API struct accel_generator *accel_default_generator (void);

/**
 * Seed the default generator.  Not collective: call it on every process that should be seeded.
 *
 * @param acc              may be NULL if @p device_specific is false
 * @param device_specific  add the rank to @p seed, so every process has a different stream
 * @retval ACCEL_ERR_INVALID  @p device_specific without @p acc
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_set_seed (const struct accel *acc, uint64_t seed, bool device_specific, struct accel_error *err);

/**
 * Set a generator of all processes to rank 0's state: Accelerate's synchronize_rng_states.  Collective.
 *
 * @param generator  the same one on all ranks; NULL: the default one
 */
#define accel_synchronize_rng_state(...) accel_synchronize_rng_state_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_synchronize_rng_state_at (const char *file, int line, struct accel *acc, struct accel_generator *generator,
                                struct accel_error *err);

ACCEL_END_DECLS

#endif
