/* SPDX-License-Identifier: Apache-2.0 */
/* Waits for the launcher's end and sweeps up; see warden.h. */
#include <config.h>

#include "launch/warden.h"

#include "launch/sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    SWEEP_PAUSE_MS = 5,
    SWEEP_ROUNDS = 6000, /* 30 s: longer only for processes that even SIGKILL does not end */
    SWEEP_QUIET_ROUNDS = 3,
};

/* A warden is no launcher to ps and to pkill -f, so that who kills launchers by name does not kill it too. */
static void
change_title (void)
{
    static const char title[] = "accel-warden";
    char text[1024];
    prctl (PR_SET_NAME, title);
    int fd = open ("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read (fd, text, sizeof text - 1);
    if (fd >= 0)
        close (fd);
    if (length <= 0)
        return;
    text[length] = '\0';
    char *field = strrchr (text, ')');
    for (int i = 2; field && i < 48; i++) /* the name is field 2, the addresses of the arguments are 48 and 49 */
        field = strchr (field + 1, ' ');
    unsigned long start, end;
    if (!field || sscanf (field, " %lu %lu", &start, &end) != 2 || end - start < sizeof title)
        return;
    char *words = (char *) start;
    memset (words, 0, end - start);
    memcpy (words, title, sizeof title);
}

/* Several quiet rounds, because a process may be born behind the back of one pass over /proc. */
static void
sweep_up (const struct warden *warden, const char *id)
{
    struct timespec pause = { .tv_nsec = SWEEP_PAUSE_MS * 1000000L };
    struct sweep sweep = { .mark = id, .groups = warden->groups, .group_count = warden->count };
    for (int round = 0, quiet = 0; round < SWEEP_ROUNDS && quiet < SWEEP_QUIET_ROUNDS; round++) {
        quiet = sweep_signal (&sweep, SIGKILL) == 0 ? quiet + 1 : 0;
        nanosleep (&pause, NULL);
    }
}

/* Nothing of ours may stay open in it: a reader at the other end of a pipe waits for our end, not for the warden's. */
static void
keep_only (int fd)
{
    int null = open ("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < 3 && null >= 0; i++)
        if (i != fd)
            dup2 (null, i);
    if (fd > 3)
        close_range (3, (unsigned) fd - 1, 0);
    close_range (fd > 2 ? (unsigned) fd + 1 : 3, ~0U, 0);
}

static void
serve (const struct warden *warden, const char *id, int launcher)
{
    sigset_t all;
    sigfillset (&all);
    sigprocmask (SIG_SETMASK, &all, NULL);
    setsid ();
    keep_only (launcher);
    if (chdir ("/"))
        _exit (1);
    change_title ();
    struct pollfd ended = { .fd = launcher, .events = POLLIN };
    while (poll (&ended, 1, -1) < 1)
        ;
    sweep_up (warden, id);
    _exit (0);
}

struct warden *
warden_start (int ranks, const char *id, struct fail *fail)
{
    struct warden *warden = NULL;
    size_t bytes = sizeof *warden + (size_t) ranks * sizeof warden->groups[0];
    int launcher = (int) syscall (SYS_pidfd_open, getpid (), 0);
    if (launcher < 0) {
        fail_set (fail, FAIL_GENERAL, "cannot watch processes: pidfd_open: %s (Linux 5.3 or newer is needed)",
                  strerror (errno));
        return NULL;
    }
    warden = mmap (NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (warden == MAP_FAILED) {
        close (launcher);
        fail_nomem (fail);
        return NULL;
    }
    warden->count = ranks;
    warden->bytes = bytes;
    /* A child without an exit signal: waiting for any child does not see it, so "no child is left" stays a plain
     * question.  All arguments are 0, so their order, which differs between machines, does not matter. */
    long pid = syscall (SYS_clone, 0, 0, 0, 0, 0);
    if (pid == 0)
        serve (warden, id, launcher);
    int saved = errno;
    close (launcher);
    if (pid < 0) {
        munmap (warden, bytes);
        fail_set (fail, FAIL_GENERAL, "cannot start a process: %s%s", strerror (saved),
                  saved == EAGAIN ? " (see ulimit -u)" : "");
        return NULL;
    }
    warden->pid = (pid_t) pid;
    return warden;
}

void
warden_dismiss (struct warden *warden)
{
    if (!warden)
        return;
    kill (warden->pid, SIGKILL);
    while (waitpid (warden->pid, NULL, __WCLONE) < 0 && errno == EINTR)
        ;
    munmap (warden, warden->bytes);
}
