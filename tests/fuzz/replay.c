/* SPDX-License-Identifier: Apache-2.0 */
/* The fuzzers' corpus without a fuzzer: all inputs in the file of this program's name (corpus.py), or given files. */
#include <config.h>

#include "tests/fuzz/target.h"
#include "tests/tap.h"
#include "util/io.h"

/* What ends the process is wrong.  A copy ends where memory does, so that sanitizers see what reads too far. */
static void
replay (const char *name, const char *bytes, size_t length)
{
    AUTO_FREE uint8_t *copy = malloc (length ? length : 1);
    must (copy != NULL);
    memcpy (copy, bytes, length);
    LLVMFuzzerTestOneInput (copy, length);
    ok (true, "%s", name);
}

/* In place.  @return how many bytes the escaped @p text means */
static size_t
unescape (char *text)
{
    size_t length = 0;
    for (const char *at = text; *at; at++) {
        if (*at != '\\') {
            text[length++] = *at;
        } else if (*++at == 'x') {
            const char digits[] = { at[1], at[2], '\0' };
            text[length++] = (char) strtoul (digits, NULL, 16);
            at += 2;
        } else {
            text[length++] = *at == 'n' ? '\n' : *at == 't' ? '\t' : *at == 'r' ? '\r' : *at;
        }
    }
    return length;
}

static void
replay_all (char *corpus)
{
    for (char *line; (line = strsep (&corpus, "\n")) && *line;) {
        const char *name = strsep (&line, " ");
        must (line != NULL);
        replay (name, line, unescape (line));
    }
}

int
main (int argc, char **argv)
{
    const char *srcdir = getenv ("srcdir"), *name = strstr (argv[0], "replay_");
    char path[4096];
    snprintf (path, sizeof path, "%s/tests/fuzz/corpus/%s", srcdir ? srcdir : ".", name ? name + 7 : "");
    for (int i = argc > 1 ? 1 : 0; i < argc; i++) {
        AUTO_FREE char *text = NULL;
        size_t length;
        struct fail fail = { 0 };
        if (io_read_file (argc > 1 ? argv[i] : path, 1 << 20, &text, &length, &fail))
            ok (false, "%s", fail.text);
        else if (!length)
            ok (false, "%s: is empty", argc > 1 ? argv[i] : path);
        else if (argc > 1)
            replay (argv[i], text, length);
        else
            replay_all (text);
    }
    return done_testing ();
}
