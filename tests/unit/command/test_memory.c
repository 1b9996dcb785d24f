/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for arrays, and copies to it from memory and files. */
#include <config.h>

#include "tests/tap.h"
#include "util/cleanup.h"
#include "util/io.h"
#include "util/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Around all lengths at which it does something else, every distance within a page's first lines. */
static void
test_copies (void)
{
    static const size_t lengths[] = { 0, 1, 31, 255, 256, 257, 511, 512, 513, 4095, 4096, 4097, 20001 };
    enum { PAGE = 4096, MOST = 20001 + 2 * PAGE };
    unsigned char *from = memory_create (MOST), *to = memory_create (MOST);
    bool same = from && to, kept = same;
    for (size_t i = 0; same && i < MOST; i++)
        from[i] = (unsigned char) (i % 251);
    for (size_t distance = 0; same && distance < 70; distance++)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            size_t here = ((uintptr_t) from + distance + PAGE - (uintptr_t) to % PAGE) % PAGE + 1, length = lengths[i];
            memset (to, 255, MOST);
            memory_copy (to + here, from + 1, length);
            same = same && !memcmp (to + here, from + 1, length);
            kept = kept && to[here - 1] == 255 && to[here + length] == 255;
        }
    ok (same && kept, "copies at every distance are whole, and no more");
    AUTO_FREE void *large = memory_create (5 << 20);
    ok (large && (uintptr_t) large % (2 << 20) == 0, "large memory begins with a large page");
    AUTO_FREE void *none = memory_create (0);
    ok (none && !memory_create (SIZE_MAX), "no bytes are memory, too many are not");
    free (from);
    free (to);
}

/* A file in memory, whose pages begin as those of memory do. */
static void
test_reads (void)
{
    static const size_t lengths[] = { 0, 1, 4095, 4096, 4097, 16384, 16385, 20001 };
    enum { PAGE = 4096, LENGTH = 20001, MOST = LENGTH + 2 * PAGE };
    unsigned char *bytes = memory_create (MOST), *to = memory_create (MOST);
    AUTO_CLOSE int fd = memfd_create ("test", MFD_CLOEXEC);
    bool same = bytes && to && fd >= 0, kept = same, is_short = false;
    for (size_t i = 0; same && i < MOST; i++)
        bytes[i] = (unsigned char) (i % 251);
    same = same && !io_write_all (fd, bytes, MOST);
    for (size_t distance = 0; same && distance < 70; distance++)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            unsigned char *here = to + PAGE - (uintptr_t) to % PAGE + distance;
            memset (to, 255, MOST);
            for (size_t done = 0, some; same && done < lengths[i]; done += some) {
                ssize_t got = memory_read (fd, here + done, lengths[i] - done, (off_t) done);
                some = got > 0 ? (size_t) got : 0;
                same = some > 0;
                is_short = is_short || (distance == 16 && some < lengths[i]);
            }
            same = same && !memcmp (here, bytes, lengths[i]);
            kept = kept && here[-1] == 255 && here[lengths[i]] == 255;
        }
    ok (same && kept, "reads to every distance from a page are whole, and no more");
    ok (is_short, "those to a bad distance come in parts");
    ok (memory_read (fd, to + 16, PAGE, MOST) == 0 && memory_read (-1, to + 16, PAGE, 0) == -1,
        "the end of a file and failures are those of pread()");
    free (bytes);
    free (to);
}

int
main (void)
{
    test_copies ();
    test_reads ();
    return done_testing ();
}
