/* SPDX-License-Identifier: Apache-2.0 */
/* A program in the foreground; see process.h. */
#include <config.h>

#include "launch/process/process.h"

#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* @return 0, or an errno */
static int
start (char *const *argv, const sigset_t *mask, pid_t *pid)
{
    posix_spawnattr_t attributes;
    int error = posix_spawnattr_init (&attributes);
    if (error)
        return error;
    error = posix_spawnattr_setflags (&attributes, POSIX_SPAWN_SETSIGMASK);
    if (!error)
        error = posix_spawnattr_setsigmask (&attributes, mask);
    if (!error)
        error = posix_spawnp (pid, argv[0], NULL, &attributes, argv, environ);
    posix_spawnattr_destroy (&attributes);
    return error;
}

/* A terminal sends its signals to all of the foreground, so the program has got them already. */
static void
pass_on (pid_t pid, const siginfo_t *info)
{
    if (info->si_code != SI_KERNEL)
        kill (pid, info->si_signo);
    if (info->si_signo == SIGTSTP) /* Ctrl-Z stops both, or the shell would wait for us */
        raise (SIGSTOP);
}

int
foreground_run (char *const *argv, struct fail *fail)
{
    sigset_t wanted, old;
    pid_t pid = 0;
    int wait_status = 0;
    signals_block (&wanted, &old);
    int error = start (argv, &old, &pid);
    if (error) {
        sigprocmask (SIG_SETMASK, &old, NULL);
        return fail_set (fail, status_of_exec (error), "cannot execute %s: %s", argv[0], strerror (error));
    }
    while (waitpid (pid, &wait_status, WNOHANG) == 0) {
        siginfo_t info;
        if (sigwaitinfo (&wanted, &info) > 0 && info.si_signo != SIGCHLD)
            pass_on (pid, &info);
    }
    sigprocmask (SIG_SETMASK, &old, NULL);
    return status_of_wait (wait_status);
}
