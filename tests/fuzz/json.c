/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzer of configuration files in JSON. */
#include <config.h>

#include "tests/fuzz/target.h"

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    fuzz_file (data, size, true);
    return 0;
}
