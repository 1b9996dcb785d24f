/* SPDX-License-Identifier: Apache-2.0 */
/* Splits the launcher in two; see guardian.h. */
#include <config.h>

#include "launch/process/guardian.h"

#include "launch/process/process.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/io.h"
#include "util/procfs.h"

#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

enum { SLICE_MS = 250, STATUS_SLICE_MS = 2, STATUS_SLICES = 250 };

/* The supervisor has a name of its own, so that who kills launchers by name (pkill -9 -f "accelerate launch") leaves it
 * to clean up.  The words of the command line are no longer needed: the plan has copies. */
static void
change_title (void)
{
    static const char title[] = "accel-job";
    struct procfs_stat stat;
    prctl (PR_SET_NAME, title);
    if (!procfs_read_stat (getpid (), &stat) || !stat.arg_start || stat.arg_end < stat.arg_start + sizeof title)
        return;
    char *words = (char *) stat.arg_start;
    memset (words, 0, stat.arg_end - stat.arg_start);
    memcpy (words, title, sizeof title);
}

/* The ranks stop, so do we, and the shell sees it.  Where no shell could continue us, because we lead the session (as
 * the first process of a container, say), all continue; our group, in which the rank at the terminal is, first. */
static void
stop_self (void)
{
    if (getsid (getppid ()) == getsid (0))
        raise (SIGSTOP);
    else
        kill (0, SIGCONT); /* reaches us too, and so the other ranks */
}

/* The shell writes where the status line is: the supervisor, which hears of the same signal, erases it before. */
static void
wait_for_erased_status (const struct guardian *guardian)
{
    const struct timespec slice = { .tv_nsec = STATUS_SLICE_MS * 1000000 };
    for (int i = 0; guardian->status_is_seen && atomic_load (guardian->status_is_seen) && i < STATUS_SLICES; i++)
        nanosleep (&slice, NULL);
}

/* What a supervisor that was killed has left on the terminal. */
static void
erase_status (const struct guardian *guardian)
{
    if (guardian->status_is_seen && atomic_load (guardian->status_is_seen))
        guardian_say (guardian, GUARDIAN_ERASE_STATUS, false);
}

static void
pass_on (const struct guardian *guardian, pid_t supervisor, const siginfo_t *info)
{
    bool of_failure = info->si_code == SI_QUEUE && info->si_value.sival_int == GUARDIAN_SIGNAL_OF_FAILURE;
    union sigval value = { .sival_int = info->si_code == SI_KERNEL ? GUARDIAN_SIGNAL_OF_TERMINAL
                           : of_failure ? GUARDIAN_SIGNAL_OF_FAILURE : GUARDIAN_SIGNAL_SENT };
    sigqueue (supervisor, info->si_signo, value);
    if (info->si_signo == SIGTSTP) {
        wait_for_erased_status (guardian);
        stop_self ();
    }
}

/* @return whether a signal has come; a supervisor that is stopped is waited for in slices, so that the time in which we
 * are stopped, too, does not count */
static bool
wait_for_signal (const struct guardian *guardian, siginfo_t *info, int64_t *left_ms)
{
    const struct timespec slice = { .tv_nsec = SLICE_MS * 1000000 };
    if (*left_ms == INT64_MAX)
        return sigwaitinfo (&guardian->signals, info) > 0;
    int64_t begin_ms = clock_ms ();
    bool has_come = sigtimedwait (&guardian->signals, info, &slice) > 0;
    int64_t took_ms = clock_ms () - begin_ms;
    *left_ms -= took_ms < SLICE_MS ? took_ms : SLICE_MS;
    return has_come;
}

/* Wait for the supervisor.  It never stops itself; if another process stops it, the ranks are not watched.  After a
 * signal that ends the job, it is continued whenever it has stopped.  SIGCONT is not sent ahead: a stop may still be
 * under way, and a supervisor at its end would be freed from who traces it, the leak sanitizer, which then waits for
 * ever.
 * @return its wait status  @param[out] was_stopped  for too long, and was killed */
static int
wait_and_pass_on (const struct guardian *guardian, pid_t supervisor, int64_t limit_ms, bool *was_stopped)
{
    bool is_ending = false;
    *was_stopped = false;
    for (int64_t left_ms = INT64_MAX;;) {
        int status;
        siginfo_t info;
        pid_t changed = waitpid (supervisor, &status, WNOHANG | WUNTRACED | WCONTINUED);
        if (changed == supervisor && !WIFSTOPPED (status) && !WIFCONTINUED (status))
            return status;
        if (changed == supervisor)
            left_ms = WIFSTOPPED (status) ? limit_ms : INT64_MAX;
        if (changed < 0 && errno != EINTR)
            return SIGKILL; /* another process has waited for it: cannot be */
        if (left_ms <= 0) {
            *was_stopped = true;
            kill (supervisor, SIGKILL);
            left_ms = INT64_MAX;
        }
        if (is_ending && left_ms != INT64_MAX)
            kill (supervisor, SIGCONT);
        if (!wait_for_signal (guardian, &info, &left_ms) || info.si_signo == SIGCHLD)
            continue;
        pass_on (guardian, supervisor, &info);
        is_ending |= signals_end_job (info.si_signo);
    }
}

bool
guardian_lives (const struct guardian *guardian)
{
    struct pollfd fd = { .fd = guardian->pidfd, .events = POLLIN };
    return poll (&fd, 1, 0) == 0;
}

int
guardian_death_signal (const struct guardian *guardian)
{
    int status = 0;
    bool is_known = procfs_wait_status (guardian->pid, guardian->pidfd, &status);
    return is_known && WIFSIGNALED (status) ? WTERMSIG (status) : 0;
}

static bool
wait_until_writable (const struct guardian *guardian, int signals)
{
    struct pollfd fds[] = { { .fd = 2, .events = POLLOUT }, { .fd = guardian->pidfd, .events = POLLIN },
                            { .fd = signals, .events = POLLIN } };
    while (poll (fds, 3, -1) < 0)
        if (errno != EINTR)
            return false;
    return fds[0].revents;
}

bool
guardian_say (const struct guardian *guardian, const char *text, bool patient)
{
    sigset_t ends;
    signals_ending (&ends);
    AUTO_CLOSE int signals = patient ? signalfd (-1, &ends, SFD_CLOEXEC) : -1;
    AUTO_CLOSE int own = io_open_without_waiting (2);
    size_t left = strlen (text);
    while (left) {
        struct pollfd ready = { .fd = 2, .events = POLLOUT };
        if (poll (&ready, 1, 0) != 1 && (!patient || !wait_until_writable (guardian, signals)))
            return false;
        ssize_t put = write (own >= 0 ? own : 2, text, left < PIPE_BUF ? left : PIPE_BUF);
        if (put < 0 && errno != EINTR && errno != EAGAIN)
            return false;
        if (put > 0) {
            text += put;
            left -= (size_t) put;
        }
    }
    return true;
}

/* The supervisor was killed, by us if it had been stopped for @stopped_ms.  The ranks are below us. */
static int
fail_killed (int status, int64_t stopped_ms, struct fail *fail)
{
    const char *rest = descendants_kill (DESCENDANTS_KILL_MS) ? "" : "; could not kill all processes of the job";
    if (stopped_ms)
        return fail_set (fail, FAIL_GENERAL, "the process that supervises the ranks was stopped for %lld s, as by "
                         "SIGSTOP, and was killed%s", (long long) stopped_ms / 1000, rest);
    return fail_set (fail, status_of_wait (status), "the process that supervises the ranks was killed by signal %d%s",
                     WTERMSIG (status), rest);
}

int
guardian_split (struct guardian *guardian, int64_t stopped_ms, struct fail *fail)
{
    bool was_stopped;
    *guardian = (struct guardian){ .pid = getpid (), .group = getpgrp (), .pidfd = -1 };
    guardian->pidfd = (int) syscall (SYS_pidfd_open, guardian->pid, 0);
    if (guardian->pidfd < 0)
        return fail_set (fail, FAIL_GENERAL, "cannot watch processes: pidfd_open: %s (requires Linux 5.3 or newer)",
                         strerror (errno));
    void *shared = mmap (NULL, sizeof (_Atomic int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    guardian->status_is_seen = shared == MAP_FAILED ? NULL : shared;
    signals_block (&guardian->signals, &guardian->old_mask);
    prctl (PR_SET_CHILD_SUBREAPER, 1); /* not inherited */
    fflush (stdout);
    pid_t supervisor = fork ();
    if (supervisor < 0) {
        status_fail_start (errno, fail);
        close (guardian->pidfd);
        guardian->pidfd = -1;
        return -1;
    }
    if (supervisor == 0) {
        /* Signals of the terminal reach only the guardian, which tells us once. */
        setpgid (0, 0);
        prctl (PR_SET_CHILD_SUBREAPER, 1);
        change_title ();
        return GUARDIAN_IS_SUPERVISOR;
    }
    close (guardian->pidfd);
    guardian->pidfd = -1;
    int status = wait_and_pass_on (guardian, supervisor, stopped_ms, &was_stopped);
    if (WIFSIGNALED (status))
        erase_status (guardian);
    if (WIFSIGNALED (status))
        return fail_killed (status, was_stopped ? stopped_ms : 0, fail);
    guardian->status = status_of_wait (status);
    return GUARDIAN_IS_OVER;
}
