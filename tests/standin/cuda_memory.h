/* SPDX-License-Identifier: Apache-2.0 */
/* In the place of tests/engines/standin_memory.h: the same tests on a GPU, which here is the stand-in. */
#ifndef TESTS_STANDIN_CUDA_MEMORY_H
#define TESTS_STANDIN_CUDA_MEMORY_H

#include "lib/memory/memory.h"

#include "tests/tap.h"

#include <stdlib.h>

/* Each rank has its GPU. */
static inline DLDevice
standin_device_of_rank (void)
{
    const char *rank = getenv ("LOCAL_RANK");
    return (DLDevice){ .device_type = kDLCUDA, .device_id = rank ? (int32_t) strtol (rank, NULL, 10) : 0 };
}
#define standin_device standin_device_of_rank ()
/** What messages call it. */
#define device_kind "cuda"
#define memory_standin (*memory_of (standin_device))

/* Sanitizers find what is not freed. */
static const size_t standin_live = 0;
static const unsigned long long standin_operations = 1000;

#endif
