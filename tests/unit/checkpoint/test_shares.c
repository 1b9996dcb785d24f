/* SPDX-License-Identifier: Apache-2.0 */
/* How rank 0 learns, without the communicator, that another rank has written its files, still writes, or has ended. */
#include <config.h>

#include "lib/checkpoint/shares.h"
#include "tests/scratch.h"
#include "tests/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *folder;
static struct accel_error err;

struct other_rank {
    const char *name, *words;
    enum accel_status status;
    bool write, fail, end;
    bool lost;   /* its lock excludes no process */
    bool killed; /* and a child that it has forked lives */
    int failing;  /* how many times reading fails in rank 0 */
};

enum { READ_END, WRITE_END };

ssize_t __real_read (int fd, void *bytes, size_t length);
ssize_t __wrap_read (int fd, void *bytes, size_t length);

static int failing; /* calls of read() */

ssize_t
__wrap_read (int fd, void *bytes, size_t length)
{
    if (failing <= 0)
        return __real_read (fd, bytes, length);
    failing--;
    errno = EIO;
    return -1;
}

static void
need (bool good)
{
    if (!good)
        abort ();
}

static void
say (int end, pid_t pid)
{
    need (write (end, &pid, sizeof pid) == sizeof pid);
}

static pid_t
hear (int end)
{
    pid_t pid = -1;
    need (read (end, &pid, sizeof pid) == sizeof pid);
    return pid;
}

/* Rank 1 of two, in a child of this process: says when it has begun, and again when it has done what it does. */
static void
be_other (const struct other_rank *other, int in, int out)
{
    struct manifest theirs = { 0 };
    int fd = -1;
    pid_t child = 0;
    struct flock none = { .l_type = F_UNLCK, .l_whence = SEEK_SET };
    prctl (PR_SET_PDEATHSIG, SIGKILL);
    need (!share_begin (&fd, folder, 1, &err));
    if (other->lost)
        fcntl (fd, F_SETLK, &none);
    say (out, 0);
    hear (in);
    need (manifest_add_file (&theirs, "a.json", 1, 2) && (!other->write || !share_write (fd, &theirs, &err)));
    if (other->fail)
        share_fail (folder, 1);
    if (other->end)
        share_end (&fd);
    if (other->killed)
        child = fork ();
    if (!other->killed || child)
        say (out, child);
    pause ();
}

/* @return what rank 0 learns.  @files: how many it has taken */
static enum accel_status
gather_one (const struct other_rank *other, size_t *files)
{
    struct manifest manifest = { 0 };
    struct shares shares = { 0 };
    int in[2], out[2];
    enum { TIMEOUT_MS = 40 };
    need (!pipe (in) && !pipe (out));
    fflush (stdout);
    pid_t pid = fork (), child;
    if (!pid)
        be_other (other, in[READ_END], out[WRITE_END]);
    close (in[READ_END]);
    close (out[WRITE_END]);
    hear (out[READ_END]);
    enum accel_status status = shares_begin (&shares, folder, 2, NULL, &err);
    say (in[WRITE_END], 0);
    child = hear (out[READ_END]);
    if (other->killed)
        kill (pid, SIGKILL), waitpid (pid, NULL, 0);
    failing = other->failing;
    if (!status)
        status = shares_gather (&shares, &manifest, TIMEOUT_MS, &err);
    failing = 0;
    *files = manifest.count;
    shares_release (&shares);
    manifest_release (&manifest);
    if (other->killed)
        kill (child, SIGKILL);
    else
        kill (pid, SIGKILL), waitpid (pid, NULL, 0);
    close (in[WRITE_END]);
    close (out[READ_END]);
    unlink (".rank-1");
    return status;
}

static void
test_shares (void)
{
    static const struct other_rank cases[] = {
        { "a rank that is done", "", .write = true, .end = true, .status = ACCEL_OK },
        { "a rank that has written everything and is about to unlock", "", .write = true, .status = ACCEL_OK },
        { "a rank that still writes", "timed out after 40 ms, waiting for rank 1", .status = ACCEL_ERR_TIMEOUT },
        { "a rank that ended without its files", "rank 1 did not write", .end = true, .status = ACCEL_ERR_PEER },
        { "a rank that was killed, and whose child has the file open", "rank 1 did not write", .killed = true,
          .status = ACCEL_ERR_PEER },
        { "a rank that failed", "rank 1 did not write", .fail = true, .end = true, .status = ACCEL_ERR_PEER },
        { "a rank that is done, where locks exclude no process", "", .write = true, .end = true, .lost = true,
          .status = ACCEL_OK },
        { "a rank that may still write, where locks exclude no process", "timed out", .lost = true,
          .status = ACCEL_ERR_TIMEOUT },
        { "a rank that failed, where locks exclude no process", "rank 1 did not write", .fail = true, .end = true,
          .lost = true, .status = ACCEL_ERR_PEER },
        { "a rank that is done, after one failing read", "", .write = true, .end = true, .failing = 1,
          .status = ACCEL_OK },
        { "a rank that is done, after two failing reads", "", .write = true, .end = true, .failing = 2,
          .status = ACCEL_OK },
        { "that it cannot read what another rank has written", "cannot read what rank 1 has written: ", .write = true,
          .end = true, .failing = INT_MAX, .status = ACCEL_ERR_SYSTEM },
        { "why it cannot read", "/.rank-1: Input/output error", .write = true, .end = true, .failing = INT_MAX,
          .status = ACCEL_ERR_SYSTEM },
        { "that it cannot read what a rank that still writes has written", "cannot read what rank 1 has written: ",
          .failing = INT_MAX, .status = ACCEL_ERR_SYSTEM },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t files;
        err.text[0] = '\0';
        enum accel_status status = gather_one (&cases[i], &files);
        ok (status == cases[i].status && files == !status && strstr (err.text, cases[i].words), "rank 0 sees %s",
            cases[i].name);
    }
}

int
main (void)
{
    folder = scratch_enter ();
    test_shares ();
    return done_testing ();
}
