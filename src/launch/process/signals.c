/* SPDX-License-Identifier: Apache-2.0 */
/* The table of signals; see process.h. */
#include <config.h>

#include "launch/process/process.h"

#include <stddef.h>

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
