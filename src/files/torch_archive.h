/* SPDX-License-Identifier: Apache-2.0 */
/* A whole file of torch.save: a value, in which there may be tensors. */
#ifndef FILES_TORCH_ARCHIVE_H
#define FILES_TORCH_ARCHIVE_H

#include "files/torch_tensor.h"

struct torch_archive {
    struct source source;
    struct zip zip;
    bool *is_checked; /* [zip.count]: the CRC of an entry was compared */
    const struct zip_entry *entry; /* of the pickle */
    char *text;
    struct pickle pickle; /* its root is what was saved */
};

#define TORCH_ARCHIVE_NONE { .source = SOURCE_CLOSED }

/** Open @p path and read the pickle, as data.  A missing file is ACCEL_ERR_SYSTEM with `sys_errno` ENOENT.
 *  @param[out] archive  for torch_archive_close(), also after a failure */
enum accel_status torch_archive_open (struct torch_archive *archive, const char *path, struct accel_error *err);

/**
 * Find the elements of a tensor, and compare their CRC.
 *
 * @param value       torch_is_tensor(); one that is not contiguous is ACCEL_ERR_UNSUPPORTED
 * @param[out] begin  of its elements in the file, in row-major order
 */
enum accel_status torch_archive_find (struct torch_archive *archive, const struct pickle_value *value,
                                      struct torch_tensor *tensor, uint64_t *begin, struct accel_error *err);

void torch_archive_close (struct torch_archive *archive);

#endif
