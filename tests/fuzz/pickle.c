/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzer of pickles: of one tensor, and of the metadata of a distributed checkpoint. */
#include <config.h>

#include "tests/fuzz/target.h"

#include "files/dcp.h"
#include "files/torch_tensor.h"

/* What was accepted must be as the header promises: names that are different, chunks that are inside and cover all. */
static void
check_dcp (const struct dcp *dcp)
{
    for (size_t i = 0; i < dcp->count; i++) {
        const struct dcp_tensor *tensor = &dcp->tensors[i];
        uint64_t bytes = 0;
        for (size_t c = 0; c < tensor->chunk_count; c++) {
            uint64_t part = torch_dtype_bytes (tensor->dtype);
            const struct dcp_chunk *chunk = &tensor->chunks[c];
            for (int d = 0; d < tensor->ndim; d++) {
                if (chunk->offsets[d] > tensor->shape[d] || chunk->sizes[d] > tensor->shape[d] - chunk->offsets[d])
                    abort ();
                part *= chunk->sizes[d];
            }
            if (chunk->file >= dcp->files.count || chunk->begin > chunk->end)
                abort ();
            bytes += part;
        }
        if (bytes != tensor->bytes)
            abort ();
    }
    for (size_t i = 0; i < dcp->files.count; i++)
        if (strchr (dcp->files.items[i], '/') || !dcp->files.items[i][0])
            abort ();
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    struct torch_tensor tensor;
    struct dcp dcp;
    struct accel_error err = { 0 };
    AUTO_FREE char *text = malloc (size ? size : 1); /* its own memory: sanitizers see what is read after it */
    if (!text)
        abort ();
    if (size)
        memcpy (text, data, size);
    if (torch_tensor_parse (&tensor, text, size, &err))
        fuzz_check_error (&err);
    memset (&err, 0, sizeof err);
    if (dcp_parse (&dcp, text, size, &err))
        fuzz_check_error (&err);
    else
        check_dcp (&dcp);
    dcp_release (&dcp);
    return 0;
}
