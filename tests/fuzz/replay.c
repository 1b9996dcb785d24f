/* SPDX-License-Identifier: Apache-2.0 */
/* The fuzzers' corpus without a fuzzer: every file of the folder that has this program's name, or those given. */
#include <config.h>

#include "tests/fuzz/target.h"
#include "tests/tap.h"
#include "util/io.h"

#include <dirent.h>

static bool
replay (const char *path)
{
    AUTO_FREE char *text = NULL;
    size_t length;
    struct fail fail = { 0 };
    if (io_read_file (path, 1 << 20, &text, &length, &fail))
        return false;
    LLVMFuzzerTestOneInput ((const uint8_t *) text, length); /* ends the process where something is wrong */
    return true;
}

int
main (int argc, char **argv)
{
    const char *srcdir = getenv ("srcdir"), *name = strstr (argv[0], "replay_");
    char folder[4096], path[8192];
    for (int i = 1; i < argc; i++)
        ok (replay (argv[i]), "%s", argv[i]);
    if (argc > 1)
        return done_testing ();
    snprintf (folder, sizeof folder, "%s/tests/fuzz/corpus/%s", srcdir ? srcdir : ".", name ? name + 7 : "");
    DIR *files = opendir (folder);
    if (!ok (files != NULL, "%s", folder))
        return done_testing ();
    for (struct dirent *file; (file = readdir (files));) {
        snprintf (path, sizeof path, "%s/%s", folder, file->d_name);
        if (file->d_name[0] != '.')
            ok (replay (path), "%s", file->d_name);
    }
    closedir (files);
    return done_testing ();
}
