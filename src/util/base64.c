/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as text; see base64.h. */
#include <config.h>

#include "util/base64.h"

#include <stdint.h>
#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void
base64_add (struct strbuf *out, const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    while (length) {
        size_t taken = length < 3 ? length : 3;
        uint32_t bits = (uint32_t) at[0] << 16 | (taken > 1 ? (uint32_t) at[1] << 8 : 0) | (taken > 2 ? at[2] : 0);
        char four[4];
        for (size_t i = 0; i < 4; i++)
            four[i] = i <= taken ? digits[bits >> (18 - 6 * i) & 63] : '=';
        strbuf_add_bytes (out, four, sizeof four);
        at += taken;
        length -= taken;
    }
}

bool
base64_decode (struct strbuf *out, const char *text, size_t length)
{
    if (length % 4)
        return false;
    for (size_t at = 0; at < length; at += 4) {
        bool is_last = at + 4 == length;
        size_t padding = !is_last || text[at + 3] != '=' ? 0 : text[at + 2] == '=' ? 2 : 1;
        uint32_t bits = 0;
        for (size_t i = 0; i < 4; i++) {
            const char *digit = i < 4 - padding ? memchr (digits, text[at + i], 64) : digits;
            if (!digit)
                return false;
            bits = bits << 6 | (uint32_t) (digit - digits);
        }
        if (bits & ((1U << 8 * padding) - 1)) /* bits that belong to no byte: there would be several texts of it */
            return false;
        const unsigned char three[] = { (unsigned char) (bits >> 16), (unsigned char) (bits >> 8),
                                        (unsigned char) bits };
        strbuf_add_bytes (out, three, 3 - padding);
    }
    return true;
}
