/* SPDX-License-Identifier: Apache-2.0 */
/* In the place of tests/engines/standin_memory.h: the same tests on a GPU, which here is the stand-in. */
#ifndef TESTS_STANDIN_CUDA_MEMORY_H
#define TESTS_STANDIN_CUDA_MEMORY_H

#include "lib/memory/memory.h"

#include "tests/tap.h"

#include <stdlib.h>

static const DLDevice standin_device = { .device_type = kDLCUDA, .device_id = 0 };
#define memory_standin (*memory_of (standin_device))

/* Sanitizers find what is not freed. */
static const size_t standin_live = 0;
static const unsigned long long standin_operations = 1000;

#endif
