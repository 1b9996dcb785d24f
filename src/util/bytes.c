/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of bytes; see bytes.h. */
#include <config.h>

#include "util/bytes.h"

void
bytes_add (struct strbuf *out, uint64_t bytes)
{
    static const char *const units[] = { "B", "KB", "MB", "GB", "TB", "PB", "EB" };
    double size = (double) bytes;
    size_t unit = 0;
    for (; size >= 999.95 && unit + 1 < sizeof units / sizeof *units; unit++)
        size /= 1000;
    strbuf_printf (out, unit ? "%.1f %s" : "%.0f %s", size, units[unit]);
}
