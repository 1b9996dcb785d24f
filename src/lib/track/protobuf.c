/* SPDX-License-Identifier: Apache-2.0 */
/* Protocol Buffers; see protobuf.h and protobuf.dev/programming-guides/encoding. */
#include <config.h>

#include "lib/track/protobuf.h"

#include <string.h>

enum wire { VARINT, FIXED64, LENGTH, FIXED32 = 5 };

enum { MOST_VARINT = 10 /* bytes */ };

static size_t
encode (unsigned char *bytes, uint64_t value)
{
    size_t count = 0;
    for (; value > 127; value >>= 7)
        bytes[count++] = (unsigned char) (value | 128);
    bytes[count++] = (unsigned char) value;
    return count;
}

static void
add_varint (struct strbuf *out, uint64_t value)
{
    unsigned char bytes[MOST_VARINT];
    strbuf_add_bytes (out, bytes, encode (bytes, value));
}

static void
add_tag (struct strbuf *out, unsigned field, enum wire wire)
{
    add_varint (out, field << 3 | wire);
}

void
pb_little (struct strbuf *out, uint64_t value, int count)
{
    unsigned char bytes[8];
    for (int i = 0; i < count; i++)
        bytes[i] = (unsigned char) (value >> 8 * i);
    strbuf_add_bytes (out, bytes, (size_t) count);
}

void
pb_int (struct strbuf *out, unsigned field, int64_t value)
{
    if (!value)
        return;
    add_tag (out, field, VARINT);
    add_varint (out, (uint64_t) value);
}

void
pb_one_double (struct strbuf *out, unsigned field, double value)
{
    uint64_t bits;
    memcpy (&bits, &value, sizeof bits);
    add_tag (out, field, FIXED64);
    pb_little (out, bits, 8);
}

void
pb_double (struct strbuf *out, unsigned field, double value)
{
    if (value != 0)
        pb_one_double (out, field, value);
}

void
pb_one_float (struct strbuf *out, unsigned field, float value)
{
    uint32_t bits;
    memcpy (&bits, &value, sizeof bits);
    add_tag (out, field, FIXED32);
    pb_little (out, bits, 4);
}

void
pb_bytes (struct strbuf *out, unsigned field, const void *bytes, size_t length)
{
    add_tag (out, field, LENGTH);
    add_varint (out, length);
    strbuf_add_bytes (out, bytes, length);
}

void
pb_text (struct strbuf *out, unsigned field, const char *text)
{
    pb_bytes (out, field, text, strlen (text));
}

/* Most are shorter than 128 bytes, whose length takes one: others are moved. */
size_t
pb_begin (struct strbuf *out, unsigned field)
{
    add_tag (out, field, LENGTH);
    strbuf_add_char (out, 0);
    return out->length;
}

void
pb_end (struct strbuf *out, size_t begin)
{
    unsigned char bytes[MOST_VARINT];
    size_t length = out->length - begin, count = encode (bytes, length);
    for (size_t i = 1; i < count; i++)
        strbuf_add_char (out, 0);
    if (out->failed)
        return;
    if (count > 1)
        memmove (out->text + begin - 1 + count, out->text + begin, length);
    memcpy (out->text + begin - 1, bytes, count);
}
