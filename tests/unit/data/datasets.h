/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of data sets share: files in a folder of their own, and looking for words in errors. */
#ifndef TESTS_UNIT_DATASETS_H
#define TESTS_UNIT_DATASETS_H

#include "tests/must.h"
#include "tests/scratch.h"
#include "tests/tap.h"

#include <accel/dataset.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* A file of this test, which is written anew by each case. */
__attribute__ ((unused)) static const char *
write_file (const char *name, const void *bytes, size_t length)
{
    static char paths[4][SCRATCH_SIZE + 64];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    snprintf (path, sizeof *paths, "%s/%s", scratch_folder (), name);
    /* Removed, not emptied: file systems write out at once what replaces the contents of a file. */
    unlink (path);
    int fd = open (path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || write (fd, bytes, length) != (ssize_t) length || close (fd)) {
        printf ("Bail out! cannot write %s\n", path);
        exit (99);
    }
    return path;
}

/* A data set of one file or pattern. */
__attribute__ ((unused)) static enum accel_status
open_tokens (struct accel_dataset **set, const char *path, const struct accel_tokens_options *options)
{
    return accel_dataset_open_tokens (set, &path, 1, options, &err);
}

/* Whether an open failed with these words.  By its address, as the set is written by another argument. */
__attribute__ ((unused)) static void
is_refused (const char *name, enum accel_status status, struct accel_dataset **set, const char *words)
{
    bool good = status && status == err.code && !*set && strstr (err.text, words);
    ok (good, "%s: %s", name, words);
    if (!good)
        diag ("status %d: %s", status, status ? err.text : "(opened)");
    accel_dataset_close (status ? NULL : *set);
}

#endif
