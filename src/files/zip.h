/* SPDX-License-Identifier: Apache-2.0 */
/* Reading zip archives whose entries are stored uncompressed, as torch.save writes them, also with zip64 sizes.  An
 * archive may be a part of a file: PyTorch's distributed checkpoints have many in one.
 * Source of the format: PKWARE's APPNOTE.TXT, version 6.3.10. */
#ifndef FILES_ZIP_H
#define FILES_ZIP_H

#include "files/source.h"

#include <stddef.h>
#include <stdint.h>

enum { ZIP_MAX_ENTRIES = 1 << 20, ZIP_MAX_DIRECTORY = 1 << 28 /* bytes */ };

struct zip_entry {
    char *name;     /* UTF-8 without control characters; may contain '/' */
    uint64_t begin; /* of its bytes in the file */
    uint64_t size;
    uint32_t crc;
};

struct zip {
    struct zip_entry *entries; /* [count], in the order of their bytes; no overlaps, and no name twice */
    size_t count;
};

/**
 * Read the directory of the archive that fills bytes @p begin to @p end of @p source, and check it: bounds, overlaps,
 * names, and that each entry agrees with the header before its bytes.  Compressed and encrypted entries are refused.
 */
enum accel_status zip_read (struct zip *zip, const struct source *source, uint64_t begin, uint64_t end,
                            struct accel_error *err);

/** @return the entry of this name, NULL if there is none. */
const struct zip_entry *zip_find (const struct zip *zip, const char *name);

/**
 * Read all bytes of an entry into @p into, and compare its CRC.
 *
 * @param into  [entry->size]
 */
enum accel_status zip_read_entry (const struct zip_entry *entry, const struct source *source, void *into,
                                  struct accel_error *err);

/** Free what zip_read() made; also after it failed. */
void zip_release (struct zip *zip);

/** The CRC of zip archives: polynomial 0xedb88320 (reflected), as in ISO 3309.
 *  @return @p crc, 0 at first, with @p length more bytes.  Thread-safe. */
uint32_t crc32_add (uint32_t crc, const void *bytes, size_t length);

#endif
