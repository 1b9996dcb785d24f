/* SPDX-License-Identifier: Apache-2.0 */
/* The progress line: on a terminal only, after a second, and removed at the end. */
#include <config.h>

#include "cli/progress.h"
#include "tests/tap.h"
#include "util/clock.h"
#include "util/printable.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* What was written to the terminal until now. */
static const char *
written (int controller)
{
    static char text[4096];
    fflush (stderr);
    ssize_t length = read (controller, text, sizeof text - 1);
    text[length > 0 ? length : 0] = '\0';
    return text;
}

static void
test_bytes (void)
{
    static const struct {
        uint64_t bytes;
        const char *wanted;
    } cases[] = { { 0, "0 B" }, { 999, "999 B" }, { 1000, "1.0 KB" }, { 1234567, "1.2 MB" }, { 999999, "1.0 MB" },
                  { UINT64_C (5000000000), "5.0 GB" }, { UINT64_MAX, "18.4 EB" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        AUTO_STRBUF struct strbuf out = { 0 };
        bytes_add (&out, cases[i].bytes);
        is_text (out.text, cases[i].wanted, cases[i].wanted);
    }
}

int
main (void)
{
    int controller = posix_openpt (O_RDWR | O_NOCTTY | O_NONBLOCK), kept = dup (STDERR_FILENO);
    test_bytes ();
    if (controller < 0 || grantpt (controller) || unlockpt (controller)) {
        skip ("no terminals here");
        return done_testing ();
    }
    int terminal = open (ptsname (controller), O_RDWR | O_NOCTTY);
    dup2 (terminal, STDERR_FILENO);
    struct progress progress = { .verb = "merging", .total = 2000 };
    progress_add (&progress, 500);
    is_text (written (controller), "", "nothing in the first second");
    progress.started -= 20000;
    progress_add (&progress, 500);
    const char *text = written (controller);
    ok (strstr (text, "merging  50 %  1.0 KB of 2.0 KB") && strstr (text, "20 s left"), "then a line");
    diag ("%s", text + (*text == '\r'));
    progress_end (&progress);
    is_text (written (controller), "\r\33[K", "removed at the end");
    dup2 (kept, STDERR_FILENO);
    return done_testing ();
}
