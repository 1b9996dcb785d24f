/* SPDX-License-Identifier: Apache-2.0 */
/* Folders of torch.distributed.checkpoint: those that PyTorch wrote give the tensors that Accelerate merged from them. */
#include <config.h>

#include "files/dcp.h"
#include "files/safetensors.h"
#include "tests/tap.h"

#include <stdlib.h>

static const char *
golden (const char *name, const char *suffix)
{
    static char path[4096];
    const char *srcdir = getenv ("srcdir");
    snprintf (path, sizeof path, "%s/tests/golden/dcp/%s%s", srcdir ? srcdir : ".", name, suffix);
    return path;
}

/* @return whether it is the same as that of the merged file */
static bool
same_tensor (struct dcp_folder *folder, size_t index, const struct safetensors *merged, const struct source *source,
             uint64_t data)
{
    const struct dcp_tensor *tensor = &folder->dcp.tensors[index];
    const struct safetensors_tensor *wanted = safetensors_find (merged, tensor->name);
    struct accel_error err = { 0 };
    if (!wanted || wanted->dtype != tensor->dtype || wanted->ndim != (size_t) tensor->ndim
        || wanted->end - wanted->begin != tensor->bytes)
        return false;
    for (int i = 0; i < tensor->ndim; i++)
        if ((uint64_t) wanted->shape[i] != tensor->shape[i])
            return false;
    char *got = malloc (tensor->bytes + 1), *bytes = malloc (tensor->bytes + 1);
    memset (got, 0x55, tensor->bytes + 1);
    bool same = !dcp_read_tensor (folder, index, got, &err)
                && !source_read (source, data + wanted->begin, bytes, tensor->bytes, &err)
                && !memcmp (got, bytes, tensor->bytes) && got[tensor->bytes] == 0x55;
    if (err.code)
        diag ("%s", err.text);
    free (got);
    free (bytes);
    return same;
}

static void
test_golden (const char *name)
{
    struct dcp_folder folder;
    struct source source;
    struct safetensors merged;
    struct accel_error err = { 0 };
    uint64_t data;
    if (!ok (!source_open (&source, golden (name, ".safetensors"), &err)
             && !safetensors_read (&merged, &source, &data, &err), "%s: what Accelerate made", name)) {
        diag ("%s", err.text);
        return;
    }
    if (ok (!dcp_open (&folder, golden (name, ""), &err), "%s: metadata", name)) {
        ok (folder.dcp.count == merged.count && !folder.dcp.objects.count, "%s: %zu tensors", name, merged.count);
        for (size_t i = 0; i < folder.dcp.count; i++)
            ok (same_tensor (&folder, i, &merged, &source, data), "%s: %s", name, folder.dcp.tensors[i].name);
    } else
        diag ("%s", err.text);
    ok (dcp_is_folder (golden (name, "")) && !dcp_is_folder (golden (name, ".safetensors")), "%s: a folder", name);
    dcp_close (&folder);
    safetensors_release (&merged);
    source_close (&source);
}

int
main (void)
{
    static const char *const names[] = { "fsdp1", "fsdp2", "dtypes", "layouts", "grid" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        test_golden (names[i]);
    return done_testing ();
}
