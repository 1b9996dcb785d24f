/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers: torch's CPU generator, bit for bit. */
#ifndef ACCEL_RANDOM_H
#define ACCEL_RANDOM_H

#include <accel/base.h>
#include <accel/state.h>

ACCEL_BEGIN_DECLS

/** A stream of random numbers, bit for bit that of torch's CPU generator (MT19937). */
struct accel_generator;

/** Make a generator; the seed's low 32 bits are what counts, as in torch. */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_generator_create (struct accel_generator **generator, uint64_t seed, struct accel_error *err);

/** Free @p generator.  Accepts NULL. */
ACCEL_API void accel_generator_destroy (struct accel_generator *generator);

/** Start the stream of @p seed. */
ACCEL_API void accel_generator_seed (struct accel_generator *generator, uint64_t seed);

/** @return the next 32 random bits. */
ACCEL_API uint32_t accel_generator_next (struct accel_generator *generator);

/** @return the next number in [0, 1) with 24 random bits, as torch draws a float32. */
ACCEL_API float accel_generator_uniform (struct accel_generator *generator);

/** Fill @p permutation with a permutation of 0 .. count - 1: torch.randperm().  @param permutation  [count] */
ACCEL_API void accel_generator_permutation (struct accel_generator *generator, int64_t *permutation, size_t count);

ACCEL_END_DECLS

#endif
