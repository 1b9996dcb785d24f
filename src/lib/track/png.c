/* SPDX-License-Identifier: Apache-2.0 */
/* PNG; see png.h. */
#include <config.h>

#include "lib/track/png.h"

#include "files/zip.h"

#include <string.h>

static const unsigned char signature[] = { 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n' };

enum { MOST_STORED = 65535 /* bytes of a block that is not compressed */, ADLER = 65521, ADLER_RUN = 5552 };

static void
add_be32 (struct strbuf *out, uint32_t value)
{
    const unsigned char bytes[] = { (unsigned char) (value >> 24), (unsigned char) (value >> 16),
                                    (unsigned char) (value >> 8), (unsigned char) value };
    strbuf_add_bytes (out, bytes, sizeof bytes);
}

/* @param begin  where the chunk's data begins, four bytes after its name */
static void
end_chunk (struct strbuf *out, size_t begin)
{
    if (out->failed)
        return;
    uint32_t length = (uint32_t) (out->length - begin);
    for (int i = 0; i < 4; i++)
        out->text[begin - 8 + (size_t) i] = (char) (length >> (24 - 8 * i));
    add_be32 (out, crc32_add (0, out->text + begin - 4, length + 4));
}

/* @return where its data begins */
static size_t
begin_chunk (struct strbuf *out, const char *name)
{
    add_be32 (out, 0);
    strbuf_add (out, name);
    return out->length;
}

struct adler {
    uint32_t a, b;
};

static void
adler_add (struct adler *sum, const unsigned char *bytes, size_t length)
{
    while (length) { /* as many as fit before the sums overflow */
        size_t run = length < ADLER_RUN ? length : ADLER_RUN;
        for (size_t i = 0; i < run; i++) {
            sum->a += bytes[i];
            sum->b += sum->a;
        }
        sum->a %= ADLER;
        sum->b %= ADLER;
        bytes += run;
        length -= run;
    }
}

/* Blocks of RFC 1951 that are stored.  @param left  bytes of the whole stream that are still to come, these included */
static void
add_stored (struct strbuf *out, struct adler *sum, const unsigned char *bytes, size_t length, uint64_t left)
{
    while (length) {
        size_t run = length < MOST_STORED ? length : MOST_STORED;
        const unsigned char head[] = { run == left, (unsigned char) run, (unsigned char) (run >> 8),
                                       (unsigned char) ~run, (unsigned char) (~run >> 8) };
        strbuf_add_bytes (out, head, sizeof head);
        strbuf_add_bytes (out, bytes, run);
        adler_add (sum, bytes, run);
        bytes += run;
        length -= run;
        left -= run;
    }
}

void
png_add (struct strbuf *out, const struct accel_value *image)
{
    static const unsigned char colours[] = { [1] = 0, [3] = 2, [4] = 6 };
    size_t row = (size_t) image->width * image->channels;
    const unsigned char *pixels = image->data, none = 0 /* the filter of a row */;
    strbuf_add_bytes (out, signature, sizeof signature);
    size_t begin = begin_chunk (out, "IHDR");
    add_be32 (out, image->width);
    add_be32 (out, image->height);
    strbuf_add_bytes (out, (unsigned char[]){ 8, colours[image->channels], 0, 0, 0 }, 5);
    end_chunk (out, begin);
    begin = begin_chunk (out, "IDAT");
    strbuf_add_bytes (out, "\x78\x01", 2); /* RFC 1950: deflate */
    struct adler sum = { .a = 1 };
    uint64_t left = (uint64_t) (row + 1) * image->height;
    for (uint32_t y = 0; y < image->height; y++, left -= row + 1) {
        add_stored (out, &sum, &none, 1, left);
        add_stored (out, &sum, pixels + y * row, row, left - 1);
    }
    add_be32 (out, sum.b << 16 | sum.a);
    end_chunk (out, begin);
    end_chunk (out, begin_chunk (out, "IEND"));
}

static uint32_t
read_be32 (const unsigned char *bytes)
{
    return (uint32_t) bytes[0] << 24 | (uint32_t) bytes[1] << 16 | (uint32_t) bytes[2] << 8 | bytes[3];
}

bool
png_read_size (const struct accel_value *image, uint32_t *width, uint32_t *height)
{
    const unsigned char *bytes = image->data;
    if (image->count < 24 || memcmp (bytes, signature, sizeof signature) != 0)
        return false;
    *width = read_be32 (bytes + 16);
    *height = read_be32 (bytes + 20);
    return true;
}
