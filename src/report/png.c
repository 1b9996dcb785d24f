/* SPDX-License-Identifier: Apache-2.0 */
/* PNG as a sequence of chunks; see png.h.  Each has its length, a name of four letters, data, and a checksum. */
#include <config.h>

#include "report/png.h"

#include "util/base64.h"

#include <string.h>

enum { SIGNATURE = 8, CHUNK = 12 /* bytes of a chunk without data */, HEADER = 13 /* data of IHDR */ };

static uint32_t
read_be32 (const char *text)
{
    const unsigned char *bytes = (const unsigned char *) text;
    return (uint32_t) bytes[0] << 24 | (uint32_t) bytes[1] << 16 | (uint32_t) bytes[2] << 8 | bytes[3];
}

/* From IHDR to IEND, which ends the file, with IDAT between them. */
static bool
are_chunks_valid (const char *bytes, size_t length)
{
    bool has_pixels = false;
    for (size_t at = 0; length - at >= CHUNK;) {
        size_t size = read_be32 (bytes + at);
        const char *name = bytes + at + 4;
        if (size > length - at - CHUNK || (at == 0) != !memcmp (name, "IHDR", 4) || (at == 0 && size != HEADER))
            return false;
        at += CHUNK + size;
        if (!memcmp (name, "IEND", 4))
            return has_pixels && size == 0 && at == length;
        has_pixels = has_pixels || !memcmp (name, "IDAT", 4);
    }
    return false;
}

bool
png_is_valid (const char *text, size_t length, uint32_t *width, uint32_t *height)
{
    static const char signature[] = "\x89PNG\r\n\x1a\n";
    AUTO_STRBUF struct strbuf file = { 0 };
    if (length / 4 * 3 > PNG_BYTES || !base64_decode (&file, text, length) || file.failed
        || file.length < SIGNATURE + CHUNK + HEADER || memcmp (file.text, signature, SIGNATURE) != 0
        || !are_chunks_valid (file.text + SIGNATURE, file.length - SIGNATURE))
        return false;
    *width = read_be32 (file.text + SIGNATURE + 8);
    *height = read_be32 (file.text + SIGNATURE + 12);
    return *width && *height && *width <= PNG_SIDE && *height <= PNG_SIDE;
}
