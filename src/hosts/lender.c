/* SPDX-License-Identifier: Apache-2.0 */
/* mpirun or srun as a process of the head; see lender.h. */
#include <config.h>

#include "hosts/lender.h"

#include "hosts/session.h"
#include "launch/signals.h"
#include "launch/status.h"
#include "launch/sweep.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/printable.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    SAID_BYTES = 4096, /* that are kept, at most */
    SHOWN_BYTES = 600, /* in a message */
    END_MS = 2000,     /* for it to end, after its stand-ins have */
    LAST_READS = 64,   /* after its end */
};

static const char cut[] = " (the rest was dropped)\n";

/* How Open MPI 4.1 says what made it end (help-orterun.txt, help-errmgr-base.txt, help-mpi-api.txt). */
static const char aborted[] = "MPI_ABORT was invoked";
static const char *const blames[] = {
    "has exited due to", "exiting improperly", "noticed that process rank", "noticed that the job aborted",
    "exited on signal", "non-zero status", aborted, "terminated normally, but",
    "lost communication with a remote daemon", "daemon has unexpectedly failed", "critical communication path was lost",
    "failed to receive scheduled heartbeat",
};

static _Noreturn void
run_starter (const struct strlist *argv, pid_t guard, const sigset_t *mask)
{
    prctl (PR_SET_PDEATHSIG, SIGKILL);
    if (getppid () != guard)
        _exit (FAIL_GENERAL);
    sigprocmask (SIG_SETMASK, mask, NULL);
    starter_clean_environment ();
    execvp (argv->items[0], argv->items);
    dprintf (2, "cannot execute %s: %s\n", argv->items[0], strerror (errno));
    _exit (status_of_exec (errno));
}

/* As mpirun has, so that the head sees what has killed it. */
static _Noreturn void
end_by (int number)
{
    struct rlimit none = { 0 };
    sigset_t all;
    setrlimit (RLIMIT_CORE, &none);
    prctl (PR_SET_DUMPABLE, 0); /* the limit means nothing to a program that takes cores */
    signal (number, SIG_DFL);
    sigfillset (&all);
    sigprocmask (SIG_UNBLOCK, &all, NULL);
    raise (number);
    _exit (status_of_signal (number));
}

/* mpirun starts processes of ssh, which outlive it where a host does not answer.  So it has a parent that ends all of
 * them when it ends, or the head does, or says so. */
static _Noreturn void
run_guard (const struct strlist *argv, bool is_open_mpi, int out, pid_t head)
{
    sigset_t waited, none;
    int status = 0, null = open ("/dev/null", O_RDONLY | O_CLOEXEC), number = 0;
    dup2 (null, 0);
    dup2 (out, 1);
    dup2 (out, 2);
    close_range (3, ~0U, 0); /* an agent ends when nobody can write to it any more */
    setsid (); /* ^C and the terminal are the head's */
    sigemptyset (&none);
    sigemptyset (&waited);
    sigaddset (&waited, SIGTERM);
    sigaddset (&waited, SIGCHLD);
    sigprocmask (SIG_SETMASK, &waited, NULL);
    prctl (PR_SET_CHILD_SUBREAPER, 1);
    prctl (PR_SET_PDEATHSIG, SIGTERM);
    pid_t guard = getpid (), pid = getppid () == head ? fork () : -1;
    if (pid == 0)
        run_starter (argv, guard, &none);
    while (pid > 0 && number != SIGTERM && waitpid (pid, &status, WNOHANG) == 0)
        sigwait (&waited, &number);
    sweep_kill (SWEEP_KILL_MS);
    if (pid > 0 && is_open_mpi)
        session_remove_of (pid);
    if (pid > 0 && (WIFSIGNALED (status) || number == SIGTERM))
        end_by (WIFSIGNALED (status) ? WTERMSIG (status) : SIGTERM);
    _exit (pid > 0 ? WEXITSTATUS (status) : FAIL_GENERAL);
}

int
lender_start (struct lender *lender, const struct hosts *hosts, const char *name, int64_t attempt, struct fail *fail)
{
    AUTO_STRLIST struct strlist argv = { 0 };
    int ends[2];
    pid_t head = getpid ();
    starter_add_standins (&hosts->starter, &hosts->list, hosts->program, name, attempt, &argv);
    if (argv.failed)
        return fail_nomem (fail);
    if (pipe2 (ends, O_CLOEXEC))
        return fail_set (fail, FAIL_GENERAL, "cannot make a pipe: %s", strerror (errno));
    lender->pid = fork ();
    if (lender->pid == 0)
        run_guard (&argv, hosts->starter.mpi == STARTER_MPI_OPEN, ends[1], head);
    close (ends[1]);
    lender->out = ends[0];
    fcntl (lender->out, F_SETFL, O_NONBLOCK);
    if (lender->pid > 0)
        return 0;
    lender->pid = 0;
    return fail_set (fail, FAIL_GENERAL, "cannot start a process: %s%s", strerror (errno), status_exec_hint (errno));
}

/* What nobody takes is dropped up to the end of a line. */
static void
keep (struct lender *lender, const char *bytes, size_t length)
{
    if (lender->said.length >= SAID_BYTES) {
        if (!lender->is_cut)
            strbuf_add (&lender->said, cut);
        lender->is_cut = true;
        return;
    }
    const char *end = lender->is_cut ? memchr (bytes, '\n', length) : NULL;
    size_t dropped = end ? (size_t) (end + 1 - bytes) : lender->is_cut ? length : 0;
    lender->is_cut = lender->is_cut && !end;
    strbuf_add_bytes (&lender->said, bytes + dropped, length - dropped);
}

/* Only whole lines are taken, so none of these is missed between two reads. */
static void
note_blames (struct lender *lender)
{
    for (size_t i = 0; lender->said.length && i < sizeof blames / sizeof *blames; i++)
        if (memmem (lender->said.text, lender->said.length, blames[i], strlen (blames[i])))
            lender->blames_other = true;
    if (lender->said.length && memmem (lender->said.text, lender->said.length, aborted, sizeof aborted - 1))
        lender->has_abort = true;
}

void
lender_read (struct lender *lender)
{
    char bytes[1024];
    ssize_t got = read (lender->out, bytes, sizeof bytes);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        close (lender->out);
        lender->out = -1;
        return;
    }
    keep (lender, bytes, (size_t) got);
    note_blames (lender);
}

void
lender_read_all (struct lender *lender)
{
    for (int reads = 0; lender->out >= 0 && reads < LAST_READS; reads++)
        lender_read (lender);
}

void
lender_reap (struct lender *lender)
{
    int status;
    if (!lender->pid || waitpid (lender->pid, &status, WNOHANG) != lender->pid)
        return;
    lender->pid = 0;
    lender->wait_status = lender->was_told ? 0 : status;
    lender_read_all (lender);
}

bool
lender_take_line (struct lender *lender, struct strbuf *line)
{
    const char *text = lender->said.text;
    const char *end = lender->said.length ? memchr (text, '\n', lender->said.length) : NULL;
    size_t length = end ? (size_t) (end - text) : lender->said.length;
    if (!end && (lender->said.length < SAID_BYTES && (lender->out >= 0 || !length)))
        return false;
    strbuf_truncate (line, 0);
    strbuf_add_bytes (line, text, length);
    size_t used = end ? length + 1 : length, rest = lender->said.length - used;
    memmove (lender->said.text, lender->said.text + used, rest);
    strbuf_truncate (&lender->said, rest);
    return true;
}

/* Lines of nothing but dashes are how Open MPI frames its messages. */
static bool
is_empty (const char *line, size_t length)
{
    return strspn (line, "- \t\r") >= length;
}

/* Open MPI explains that at length, and recommends an option that we do not pass on. */
static bool
refuses_root (const struct lender *lender)
{
    return lender->said.text && strstr (lender->said.text, "run as root");
}

int
lender_fail (const struct lender *lender, const struct hosts *hosts, const char *what, struct fail *fail)
{
    AUTO_STRBUF struct strbuf line = { 0 }, shown = { 0 };
    const char *at = lender->said.text ? lender->said.text : "";
    if (refuses_root (lender))
        return fail_set (fail, FAIL_GENERAL, "%s starts no processes as root: run as another user, or set "
                         "OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 (--mpi no starts the ranks "
                         "without it)", starter_mpi_name (&hosts->starter));
    for (size_t length; *at; at += length + (at[length] == '\n')) {
        length = strcspn (at, "\n");
        if (!is_empty (at, length)) {
            strbuf_add (&line, line.length ? " " : "");
            strbuf_add_bytes (&line, at, length);
        }
    }
    printable_add (&shown, line.text ? line.text : "");
    return fail_set (fail, FAIL_GENERAL, "%s %s (--mpi no starts the ranks without it)%s%.*s",
                     starter_mpi_name (&hosts->starter), what, shown.length ? ": " : "", SHOWN_BYTES,
                     shown.text ? shown.text : "");
}

void
lender_hurry (struct lender *lender)
{
    if (lender->pid && !lender->until_ms)
        lender->until_ms = clock_ms ();
}

bool
lender_end (struct lender *lender)
{
    int64_t now = clock_ms ();
    if (lender->pid && waitpid (lender->pid, NULL, WNOHANG) == lender->pid)
        lender->pid = 0;
    if (!lender->pid) {
        if (lender->out >= 0)
            close (lender->out);
        strbuf_release (&lender->said);
        *lender = LENDER_NONE;
        return true;
    }
    if (!lender->until_ms)
        lender->until_ms = now + END_MS;
    else if (now >= lender->until_ms) {
        kill (lender->pid, lender->was_told ? SIGKILL : SIGTERM);
        lender->was_told = true;
        lender->until_ms = now + SWEEP_KILL_MS;
    }
    return false;
}

void
lender_finish (struct lender *lender)
{
    while (!lender_end (lender)) {
        AUTO_CLOSE int pidfd = (int) syscall (SYS_pidfd_open, lender->pid, 0);
        struct pollfd events[] = { { .fd = pidfd, .events = POLLIN }, { .fd = lender->out, .events = POLLIN } };
        int64_t left = lender->until_ms - clock_ms ();
        poll (events, 2, left > 0 ? (int) left : 0);
        if (lender->out >= 0 && events[1].revents)
            lender_read (lender);
    }
}
