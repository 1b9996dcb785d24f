/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files where something is in the way: limits, names that are in use, links, pipes.  What could not be written
 * leaves the old file as it was, and nothing beside it. */
#include <config.h>

#include "tests/scratch.h"
#include "tests/tap.h"
#include "util/cleanup.h"
#include "util/io.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static bool
holds (const char *path, const char *wanted)
{
    AUTO_FREE char *text = NULL;
    return !io_read_file (path, 1000, &text, NULL, NULL) && !strcmp (text, wanted);
}

/* The part that fits is written first, so only the second write() fails. */
static void
test_size_limit (void)
{
    char large[500];
    struct fail fail = { 0 };
    struct rlimit old, small;
    sigset_t pending;
    memset (large, 'x', sizeof large);
    ok (!io_write_file ("limited", "old", 3, 0600, &fail), "a file %s", fail.text);
    getrlimit (RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = 100;
    signal (SIGXFSZ, SIG_DFL);
    ok (!setrlimit (RLIMIT_FSIZE, &small), "files may have 100 bytes");
    int result = io_write_file ("limited", large, sizeof large, 0600, &fail);
    sigpending (&pending);
    setrlimit (RLIMIT_FSIZE, &old);
    ok (result && strstr (fail.text, "limited: cannot write: File too large"), "500 do not fit: %s", fail.text);
    ok (!sigismember (&pending, SIGXFSZ), "the signal has gone, too");
    ok (holds ("limited", "old") && scratch_count (NULL) == 1, "the old file stays, and nothing beside it");
    unlink ("limited");
}

static void
test_taken_names (void)
{
    struct fail fail = { 0 };
    char taken[64];
    snprintf (taken, sizeof taken, "file.%d.0", (int) getpid ());
    int fd = open (taken, O_CREAT | O_WRONLY, 0600);
    close (fd);
    ok (fd >= 0 && !io_write_file ("file", "new", 3, 0600, &fail) && holds ("file", "new"),
        "a name that is in use is skipped %s", fail.text);
    ok (holds (taken, "") && scratch_count (NULL) == 2, "and what has it stays");
    unlink (taken);
    unlink ("file");
}

static void
test_links (void)
{
    struct fail fail = { 0 };
    struct stat info;
    ok (!io_write_file ("target", "old", 3, 0640, &fail) && !symlink ("target", "link"), "a link");
    ok (!io_write_file ("link", "new", 3, 0600, &fail) && holds ("target", "new"), "what it leads to is written");
    ok (!lstat ("link", &info) && S_ISLNK (info.st_mode), "it stays a link");
    unlink ("link");
    unlink ("target");
}

/* A device would do as well, but a test that goes wrong must not replace /dev/null. */
static void
test_pipes (void)
{
    struct fail fail = { 0 };
    struct stat info;
    AUTO_FREE char *text = NULL;
    size_t length = 1;
    ok (!mkfifo ("pipe", 0600), "a pipe");
    ok (io_write_file ("pipe", "x", 1, 0600, &fail) && strstr (fail.text, "pipe: is a device or other special file"),
        "%s", fail.text);
    ok (io_check_writable ("pipe", &fail) && !stat ("pipe", &info) && S_ISFIFO (info.st_mode), "it stays one");
    alarm (900);
    ok (!io_read_file ("pipe", 10, &text, &length, &fail) && !length, "no writer is waited for");
    alarm (0);
    unlink ("pipe");
}

static void
test_parents (void)
{
    struct fail fail = { 0 };
    ok (!io_make_parents ("a/b/c", &fail) && !io_make_parents ("a/b/c", &fail), "folders that are there are no error");
    ok (!io_write_file ("a/b/c", "x", 1, 0600, &fail) && io_make_parents ("a/b/c/d", &fail) == 0
            && io_write_file ("a/b/c/d", "x", 1, 0600, &fail),
        "a file in the place of a folder: %s", fail.text);
    ok (io_make_parents ("a/b/c/d/e", &fail) && strstr (fail.text, "a/b/c/d: cannot create directory"), "%s",
        fail.text);
    unlink ("a/b/c");
    rmdir ("a/b");
    rmdir ("a");
}

int
main (void)
{
    scratch_enter ();
    test_size_limit ();
    test_taken_names ();
    test_links ();
    test_pipes ();
    test_parents ();
    ok (!scratch_count (NULL), "nothing is left");
    return done_testing ();
}
