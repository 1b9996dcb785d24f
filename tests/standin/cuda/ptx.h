/* SPDX-License-Identifier: Apache-2.0 */
/* What the code of ptx2c.py calls besides fibers.h. */
#ifndef TESTS_STANDIN_PTX_H
#define TESTS_STANDIN_PTX_H

#include <stddef.h>
#include <stdint.h>

/** Where @p bytes at an address of the device really are; ends the program with a report if they are not there. */
void *ptx_at (uint64_t address, size_t bytes);

/** End the program: there is no shared memory at @p offset. */
__attribute__ ((noreturn)) void ptx_bad_shared (uint32_t offset);

#endif
