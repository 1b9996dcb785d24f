/* SPDX-License-Identifier: Apache-2.0 */
/* mpirun or srun as a process of the head; see lender.h. */
#include <config.h>

#include "hosts/lender.h"

#include "launch/signals.h"
#include "launch/status.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/printable.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum {
    SAID_BYTES = 4096, /* that are kept, at most */
    SHOWN_BYTES = 600, /* in a message */
    END_MS = 2000,     /* for it to end, after its stand-ins have */
};

/* A session of its own: ^C and the terminal are the head's. */
static _Noreturn void
run_child (const struct strlist *argv, int out, pid_t head)
{
    sigset_t none;
    int null = open ("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2 (null, 0);
    dup2 (out, 1);
    dup2 (out, 2);
    setsid ();
    sigemptyset (&none);
    sigprocmask (SIG_SETMASK, &none, NULL);
    prctl (PR_SET_PDEATHSIG, SIGKILL);
    if (getppid () != head)
        _exit (FAIL_GENERAL);
    starter_clean_environment ();
    execvp (argv->items[0], argv->items);
    dprintf (2, "cannot execute %s: %s\n", argv->items[0], strerror (errno));
    _exit (status_of_exec (errno));
}

int
lender_start (struct lender *lender, const struct hosts *hosts, const char *name, int64_t attempt, struct fail *fail)
{
    AUTO_STRLIST struct strlist argv = { 0 };
    int ends[2];
    pid_t head = getpid ();
    lender_finish (lender);
    starter_add_standins (&hosts->starter, &hosts->list, hosts->program, name, attempt, &argv);
    if (argv.failed)
        return fail_nomem (fail);
    if (pipe2 (ends, O_CLOEXEC))
        return fail_set (fail, FAIL_GENERAL, "cannot make a pipe: %s", strerror (errno));
    lender->pid = fork ();
    if (lender->pid == 0)
        run_child (&argv, ends[1], head);
    close (ends[1]);
    lender->out = ends[0];
    fcntl (lender->out, F_SETFL, O_NONBLOCK);
    if (lender->pid > 0)
        return 0;
    lender->pid = 0;
    return fail_set (fail, FAIL_GENERAL, "cannot start a process: %s%s", strerror (errno), status_exec_hint (errno));
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
    if (lender->said.length < SAID_BYTES)
        strbuf_add_bytes (&lender->said, bytes, (size_t) got);
}

/* Lines of nothing but dashes are how Open MPI frames its messages. */
static bool
is_empty (const char *line, size_t length)
{
    return strspn (line, "- \t\r") >= length;
}

int
lender_fail (const struct lender *lender, const struct hosts *hosts, const char *what, struct fail *fail)
{
    AUTO_STRBUF struct strbuf line = { 0 }, shown = { 0 };
    const char *at = lender->said.text ? lender->said.text : "";
    for (size_t length; *at; at += length + (at[length] == '\n')) {
        length = strcspn (at, "\n");
        if (!is_empty (at, length)) {
            strbuf_add (&line, line.length ? " " : "");
            strbuf_add_bytes (&line, at, length);
        }
    }
    printable_add (&shown, line.text ? line.text : "");
    return fail_set (fail, FAIL_GENERAL, "%s %s%s%.*s", starter_mpi_name (&hosts->starter), what,
                     shown.length ? ": " : "", SHOWN_BYTES, shown.text ? shown.text : "");
}

void
lender_finish (struct lender *lender)
{
    int64_t until = clock_ms () + END_MS;
    while (lender->pid && waitpid (lender->pid, NULL, WNOHANG) == 0) {
        AUTO_CLOSE int pidfd = (int) syscall (SYS_pidfd_open, lender->pid, 0);
        struct pollfd events[] = { { .fd = pidfd, .events = POLLIN }, { .fd = lender->out, .events = POLLIN } };
        int64_t now = clock_ms ();
        if (now >= until)
            kill (-lender->pid, SIGKILL);
        poll (events, 2, now < until ? (int) (until - now) : 100);
        if (lender->out >= 0 && events[1].revents)
            lender_read (lender);
    }
    lender->pid = 0;
    if (lender->out >= 0)
        close (lender->out);
    lender->out = -1;
    strbuf_release (&lender->said);
}
