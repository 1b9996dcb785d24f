/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzer of GGUF headers: sums stay in bounds; a prefix of a header is
 * short or wrong, or a header that is understood. */
#include <config.h>

#include "files/gguf.h"
#include "tests/fuzz/target.h"

#include <assert.h>

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    struct accel_error err = { 0 };
    struct gguf gguf;
    bool is_short;
    if (gguf_parse (&gguf, data, size, &is_short, &err)) {
        assert (*err.text && !strchr (err.text, '\n'));
        gguf_release (&gguf);
        return 0;
    }
    assert (!is_short);
    for (size_t i = 0; i < gguf.count; i++)
        assert (*gguf.tensors[i].name && gguf.tensors[i].bytes <= INT64_MAX
                && gguf.tensors[i].offset + gguf.tensors[i].bytes <= gguf.end);
    assert (gguf.end <= INT64_MAX);
    gguf_release (&gguf);
    struct gguf less;
    if (!gguf_parse (&less, data, size / 2, &is_short, &err))
        assert (!is_short);
    gguf_release (&less);
    return 0;
}
