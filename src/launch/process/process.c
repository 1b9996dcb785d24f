/* SPDX-License-Identifier: Apache-2.0 */
/* Exit statuses, as the shells have them, and the table of signals; see process.h. */
#include <config.h>

#include "launch/process/process.h"

#include "util/fail.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>

/* What is not named here is 126: the program exists and cannot be executed. */
static const struct {
    int error, status;
    const char *hint;
} exec_errors[] = {
    { ENOENT, FAIL_NOT_FOUND, "; the program, or the interpreter it names, does not exist" },
    { ENOTDIR, FAIL_NOT_FOUND, "" },
    { EACCES, FAIL_CANNOT_EXECUTE, "; try chmod +x, or check whether its file system is mounted noexec" },
    { ENOEXEC, FAIL_CANNOT_EXECUTE, "; it is built for another architecture, or is damaged" },
    { E2BIG, FAIL_CANNOT_EXECUTE, "; its arguments and environment together are too long" },
    { ETXTBSY, FAIL_CANNOT_EXECUTE, "; another process has it open for writing" },
    { EAGAIN, FAIL_GENERAL, "; too many processes: raise the limit (ulimit -u)" },
    { EMFILE, FAIL_GENERAL, "; raise the limit (ulimit -n)" },
    { ENFILE, FAIL_GENERAL, "; raise the system's limit (sysctl fs.file-max)" },
    { ENOMEM, FAIL_GENERAL, "" },
};

int
status_of_wait (int wait_status)
{
    return WIFSIGNALED (wait_status) ? status_of_signal (WTERMSIG (wait_status)) : WEXITSTATUS (wait_status);
}

int
status_of_exec (int error)
{
    for (size_t i = 0; i < sizeof exec_errors / sizeof *exec_errors; i++)
        if (exec_errors[i].error == error)
            return exec_errors[i].status;
    return FAIL_CANNOT_EXECUTE;
}

int
status_of_signal (int signal)
{
    return FAIL_BY_SIGNAL + signal;
}

bool
status_may_follow (int wait_status)
{
    return WIFEXITED (wait_status) || WTERMSIG (wait_status) == SIGABRT || WTERMSIG (wait_status) == SIGPIPE;
}

const char *
status_exec_hint (int error)
{
    for (size_t i = 0; i < sizeof exec_errors / sizeof *exec_errors; i++)
        if (exec_errors[i].error == error)
            return exec_errors[i].hint;
    return "";
}

int
status_fail_start (int error, struct fail *fail)
{
    return fail_set (fail, FAIL_GENERAL, "cannot start a process: %s%s", strerror (error), status_exec_hint (error));
}

/* What users, terminals and schedulers send. */
static const struct {
    int signal;
    bool ends;
} forwarded[] = {
    { SIGINT, true },   { SIGTERM, true },  { SIGHUP, true },   { SIGQUIT, true },  { SIGUSR1, false },
    { SIGUSR2, false }, { SIGCONT, false }, { SIGTSTP, false }, { SIGXCPU, false }, { SIGALRM, false },
    { SIGWINCH, false },
    { SIGABRT, true }, /* of systemd's watchdog; abort() ends us all the same */
};
enum { FORWARDED_COUNT = sizeof forwarded / sizeof *forwarded };

void
signals_block (sigset_t *wanted, sigset_t *old)
{
    sigemptyset (wanted);
    for (int i = 0; i < FORWARDED_COUNT; i++) {
        struct sigaction action;
        if (sigaction (forwarded[i].signal, NULL, &action) || action.sa_handler != SIG_IGN)
            sigaddset (wanted, forwarded[i].signal);
    }
    signal (SIGCHLD, SIG_DFL); /* ignored, it would take the statuses of our children away */
    sigaddset (wanted, SIGCHLD);
    sigset_t blocked = *wanted;
    /* Blocked is as good as ignored here, and the ranks, who get the old mask, do not inherit it. */
    sigaddset (&blocked, SIGPIPE);
    sigaddset (&blocked, SIGTTOU);
    sigaddset (&blocked, SIGXFSZ); /* the write fails: that is enough */
    sigprocmask (SIG_BLOCK, &blocked, old);
}

bool
signals_end_job (int signal)
{
    for (int i = 0; i < FORWARDED_COUNT; i++)
        if (forwarded[i].signal == signal)
            return forwarded[i].ends;
    return false;
}

void
signals_ending (sigset_t *set)
{
    sigemptyset (set);
    for (int i = 0; i < FORWARDED_COUNT; i++)
        if (forwarded[i].ends)
            sigaddset (set, forwarded[i].signal);
}
