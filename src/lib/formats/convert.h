/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of one type as elements of another. */
#ifndef LIB_FORMATS_CONVERT_H
#define LIB_FORMATS_CONVERT_H

#include <accel/tensor.h>

/** @return whether elements of type @p from can become elements of type @p to: the same type, or both are floats. */
bool convert_can (DLDataType to, DLDataType from);

/** Convert @p count elements; rounded to the nearest, float8_e4m3fn saturated, as by torch.  convert_can() holds, and
 *  memory of different types does not overlap. */
void convert_elements (void *into, DLDataType to, const void *elements, DLDataType from, size_t count);

/** @return the size of an element in bytes; types of less than a byte count as 0. */
size_t convert_element_bytes (DLDataType type);

#endif
