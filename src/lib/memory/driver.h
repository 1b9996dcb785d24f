/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of GPUs in a program that uses them, while libaccel has no code for them: its job computes on CPUs, or the
 * module is not installed. */
#ifndef LIB_MEMORY_DRIVER_H
#define LIB_MEMORY_DRIVER_H

#include <accel/tensor.h>

/** @return whether the driver, if the program has loaded it by now, says that the processor cannot read @p address.
 *          Without the driver, it takes some 20 ns.
 *  @param[out] device  which GPU has it */
bool driver_owns (const void *address, DLDevice *device);

#endif
