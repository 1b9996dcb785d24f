/* SPDX-License-Identifier: Apache-2.0 */
/* mpirun or srun as a process of the head; see mpi.h. */
#include <config.h>

#include "hosts/mpi/mpi.h"

#include "hosts/net/wire.h"
#include "launch/process/process.h"
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
    END_MS = 2000,     /* for it to end, after its MPI proxies have */
    LAST_READS = 64,   /* after its end */
};

static const char cut[] = " (the rest was dropped)\n";

/* How Open MPI 4.1 says what made it end (help-orterun.txt, help-errmgr-base.txt, help-mpi-api.txt). */
static const char aborted[] = "MPI_ABORT was invoked";
static const char *const causes[] = {
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

/* mpirun starts processes of ssh, which outlive it if a host does not answer.  So it has a parent that ends all of
 * them when it ends, or the head does, or asks for it. */
static _Noreturn void
run_guard (const struct strlist *argv, bool is_open_mpi, int out, pid_t head)
{
    sigset_t waited, none;
    int status = 0, null = open ("/dev/null", O_RDONLY | O_CLOEXEC), number = 0;
    dup2 (null, 0);
    dup2 (out, 1);
    dup2 (out, 2);
    close_range (3, ~0U, 0); /* an agent ends when no process can write to it any more */
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
    descendants_kill (DESCENDANTS_KILL_MS);
    if (pid > 0 && is_open_mpi)
        ompi_session_remove_of (pid);
    if (pid > 0 && (WIFSIGNALED (status) || number == SIGTERM))
        end_by (WIFSIGNALED (status) ? WTERMSIG (status) : SIGTERM);
    _exit (pid > 0 ? WEXITSTATUS (status) : FAIL_GENERAL);
}

int
mpi_launcher_start (struct mpi_launcher *launcher, const struct hosts *hosts, const char *name, int64_t attempt,
                    struct fail *fail)
{
    AUTO_STRLIST struct strlist argv = { 0 };
    int ends[2];
    pid_t head = getpid ();
    starter_add_mpi_proxies (&hosts->starter, &hosts->list, hosts->program, name, attempt, &argv);
    if (argv.failed)
        return fail_nomem (fail);
    if (pipe_make (ends, fail))
        return -1;
    launcher->pid = fork ();
    if (launcher->pid == 0)
        run_guard (&argv, hosts->starter.mpi == STARTER_MPI_OPEN, ends[1], head);
    close (ends[1]);
    launcher->attempt = attempt;
    launcher->out = ends[0];
    fcntl (launcher->out, F_SETFL, O_NONBLOCK);
    if (launcher->pid > 0)
        return 0;
    launcher->pid = 0;
    return status_fail_start (errno, fail);
}

/* Output that is not taken is dropped up to the end of a line. */
static void
keep (struct mpi_launcher *launcher, const char *bytes, size_t length)
{
    if (launcher->said.length >= SAID_BYTES) {
        if (!launcher->is_cut)
            strbuf_add (&launcher->said, cut);
        launcher->is_cut = true;
        return;
    }
    const char *end = launcher->is_cut ? memchr (bytes, '\n', length) : NULL;
    size_t dropped = end ? (size_t) (end + 1 - bytes) : launcher->is_cut ? length : 0;
    launcher->is_cut = launcher->is_cut && !end;
    strbuf_add_bytes (&launcher->said, bytes + dropped, length - dropped);
}

/* Only whole lines are read, so none of these is missed between two reads. */
static void
note_failures (struct mpi_launcher *launcher)
{
    for (size_t i = 0; launcher->said.length && i < sizeof causes / sizeof *causes; i++)
        if (memmem (launcher->said.text, launcher->said.length, causes[i], strlen (causes[i])))
            launcher->names_cause = true;
    if (launcher->said.length && memmem (launcher->said.text, launcher->said.length, aborted, sizeof aborted - 1))
        launcher->has_abort = true;
}

void
mpi_launcher_read (struct mpi_launcher *launcher)
{
    char bytes[1024];
    ssize_t got = read (launcher->out, bytes, sizeof bytes);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        close (launcher->out);
        launcher->out = -1;
        return;
    }
    keep (launcher, bytes, (size_t) got);
    note_failures (launcher);
}

void
mpi_launcher_read_all (struct mpi_launcher *launcher)
{
    for (int reads = 0; launcher->out >= 0 && reads < LAST_READS; reads++)
        mpi_launcher_read (launcher);
}

void
mpi_launcher_reap (struct mpi_launcher *launcher)
{
    int status;
    if (!launcher->pid || waitpid (launcher->pid, &status, WNOHANG) != launcher->pid)
        return;
    launcher->pid = 0;
    launcher->wait_status = launcher->end_requested ? 0 : status;
    mpi_launcher_read_all (launcher);
}

bool
mpi_launcher_take_line (struct mpi_launcher *launcher, struct strbuf *line)
{
    const char *text = launcher->said.text;
    const char *end = launcher->said.length ? memchr (text, '\n', launcher->said.length) : NULL;
    size_t length = end ? (size_t) (end - text) : launcher->said.length;
    if (!end && (launcher->said.length < SAID_BYTES && (launcher->out >= 0 || !length)))
        return false;
    strbuf_truncate (line, 0);
    strbuf_add_bytes (line, text, length);
    strbuf_drop (&launcher->said, end ? length + 1 : length);
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
refuses_root (const struct mpi_launcher *launcher)
{
    return launcher->said.text && strstr (launcher->said.text, "run as root");
}

int
mpi_launcher_fail (const struct mpi_launcher *launcher, const struct hosts *hosts, const char *what, struct fail *fail)
{
    AUTO_STRBUF struct strbuf line = { 0 }, shown = { 0 };
    const char *at = launcher->said.text ? launcher->said.text : "";
    if (refuses_root (launcher))
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
mpi_launcher_hurry (struct mpi_launcher *launcher)
{
    if (launcher->pid && !launcher->until_ms)
        launcher->until_ms = clock_ms ();
}

bool
mpi_launcher_end (struct mpi_launcher *launcher)
{
    int64_t now = clock_ms ();
    if (launcher->pid && waitpid (launcher->pid, NULL, WNOHANG) == launcher->pid)
        launcher->pid = 0;
    if (!launcher->pid) {
        if (launcher->out >= 0)
            close (launcher->out);
        strbuf_release (&launcher->said);
        *launcher = MPI_LAUNCHER_NONE;
        return true;
    }
    if (!launcher->until_ms)
        launcher->until_ms = now + END_MS;
    else if (now >= launcher->until_ms) {
        kill (launcher->pid, launcher->end_requested ? SIGKILL : SIGTERM);
        launcher->end_requested = true;
        launcher->until_ms = now + DESCENDANTS_KILL_MS;
    }
    return false;
}

void
mpi_launcher_finish (struct mpi_launcher *launcher)
{
    while (!mpi_launcher_end (launcher)) {
        AUTO_CLOSE int pidfd = (int) syscall (SYS_pidfd_open, launcher->pid, 0);
        struct pollfd events[] = { { .fd = pidfd, .events = POLLIN }, { .fd = launcher->out, .events = POLLIN } };
        int64_t left = launcher->until_ms - clock_ms ();
        poll (events, 2, left > 0 ? (int) left : 0);
        if (launcher->out >= 0 && events[1].revents)
            mpi_launcher_read (launcher);
    }
}
