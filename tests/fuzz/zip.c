/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzer of zip archives with tensors of torch.save. */
#include <config.h>

#include "tests/fuzz/target.h"

#include "files/torch_tensor.h"
#include "files/zip.h"

#include <sys/mman.h>

/* Entries are inside, in order, and do not overlap; each can be read, or is damaged. */
static void
check_zip (const struct zip *zip, const struct source *source)
{
    uint64_t end = 0;
    struct accel_error err = { 0 };
    for (size_t i = 0; i < zip->count; i++) {
        const struct zip_entry *entry = &zip->entries[i];
        if (entry->begin < end || entry->begin > source->size || entry->size > source->size - entry->begin)
            abort ();
        end = entry->begin + entry->size;
        AUTO_FREE char *bytes = malloc (entry->size + 1);
        if (!bytes)
            abort ();
        if (zip_read_entry (entry, source, bytes, &err))
            fuzz_check_error (&err);
    }
}

static void
read_file (const struct source *source)
{
    struct zip zip;
    struct accel_error err = { 0 };
    float array[12];
    const uint64_t shape[] = { 3, 4 }, offsets[] = { 1, 1 }, sizes[] = { 2, 3 };
    const struct torch_place place = { 2, shape, offsets, sizes };
    if (zip_read (&zip, source, 0, source->size, &err))
        fuzz_check_error (&err);
    else
        check_zip (&zip, source);
    zip_release (&zip);
    memset (&err, 0, sizeof err);
    if (torch_tensor_read (source, 0, source->size, SAFETENSORS_F32, &place, array, &err))
        fuzz_check_error (&err);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    struct source source;
    char path[64];
    int fd = memfd_create ("archive", MFD_CLOEXEC);
    if (fd < 0 || write (fd, data, size) != (ssize_t) size)
        abort ();
    snprintf (path, sizeof path, "/proc/self/fd/%d", fd);
    if (source_open (&source, path, NULL))
        abort ();
    read_file (&source);
    source_close (&source);
    close (fd);
    return 0;
}
