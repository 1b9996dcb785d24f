/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzer of the headers of safetensors files: what is accepted has no holes, no overlaps and no duplicate names. */
#include <config.h>

#include "files/safetensors.h"
#include "tests/fuzz/target.h"
#include "util/utf8.h"

static void
check_tensor (const struct safetensors *file, size_t index)
{
    const struct safetensors_tensor *tensor = &file->tensors[index];
    uint64_t bits = safetensors_dtype_bits (tensor->dtype);
    for (size_t i = 0; i < tensor->ndim; i++) {
        must (tensor->shape[i] >= 0);
        bits *= (uint64_t) tensor->shape[i];
    }
    must (tensor->begin == (index ? tensor[-1].end : 0) && tensor->end >= tensor->begin);
    must (bits == 8 * (tensor->end - tensor->begin));
    must (utf8_is_valid (tensor->name, strlen (tensor->name)) && safetensors_find (file, tensor->name) == tensor);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    struct safetensors file;
    struct accel_error err = { 0 };
    enum accel_status status = safetensors_parse (&file, (const char *) data, size, &err);
    if (status) {
        must (err.code == status && *err.text && !strchr (err.text, '\n') && !file.tensors && !file.metadata);
        return 0;
    }
    for (size_t i = 0; i < file.count; i++)
        check_tensor (&file, i);
    must (file.data_bytes == (file.count ? file.tensors[file.count - 1].end : 0));
    for (size_t i = 0; i < file.pairs; i++)
        must (file.metadata[i].key && file.metadata[i].value);
    safetensors_release (&file);
    return 0;
}
