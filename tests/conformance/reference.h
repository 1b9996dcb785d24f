/* SPDX-License-Identifier: Apache-2.0 */
/* What collectives must give, computed serially and without any code of the library: inputs that every rank can make of
 * every other, reductions in rank order, 16-bit floats in float32 with one rounding at the end. */
#ifndef TESTS_REFERENCE_H
#define TESTS_REFERENCE_H

#include <accel/comm.h>

/** One step of a generator of random numbers; any state will do. */
uint64_t next_random (uint64_t *state);

/** Fill @p target with what rank @p rank has: any bits for integers, special values among the floats. */
void reference_input (void *target, enum accel_dtype dtype, int rank, size_t count);

void reference_reduce (void *target, enum accel_dtype dtype, enum accel_op op, const void *const *sources, int ranks,
                       size_t count);

/** @return the first element that differs, or @p count; one NaN is as good as another. */
size_t reference_compare (enum accel_dtype dtype, const void *got, const void *wanted, size_t count);

#endif
