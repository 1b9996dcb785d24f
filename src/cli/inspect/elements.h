/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of all types of safetensors as numbers. */
#ifndef CLI_ELEMENTS_H
#define CLI_ELEMENTS_H

#include "files/safetensors.h"

/** @return whether elements of this type can be read as numbers: not those of less than a byte. */
bool elements_are_numbers (enum safetensors_dtype dtype);

/**
 * Convert @p count elements.  Integers beyond 2^53 are rounded.
 *
 * @param numbers  [count], of complex types [2 * count]: real and imaginary parts
 */
void elements_read (enum safetensors_dtype dtype, const void *bytes, size_t count, double *numbers);

/** @return numbers per element: 2 of complex types, otherwise 1. */
size_t elements_width (enum safetensors_dtype dtype);

#endif
