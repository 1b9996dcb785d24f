/* SPDX-License-Identifier: Apache-2.0 */
/* hold PROCESS freeze: says "frozen", and keeps the process from running until this one ends; SIGCONT does not help.
 *
 * hold PROCESS MS [SIGNAL]: kills the process, by SIGKILL or that signal, and keeps its end, but not that of its
 * connections, from its parent for so long, as a debugger can: a busy machine does it by chance.  Exits with 77 where
 * that is not permitted. */
#include <config.h>

#include "util/clock.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static int
freeze (pid_t pid)
{
    siginfo_t info;
    if (ptrace (PTRACE_INTERRUPT, pid, NULL, NULL) || waitid (P_PID, (id_t) pid, &info, WSTOPPED | __WALL))
        return 1;
    puts ("frozen");
    fflush (stdout);
    for (;;)
        pause ();
}

int
main (int argc, char **argv)
{
    pid_t pid = argc >= 3 ? atoi (argv[1]) : 0;
    int number = argc > 3 ? atoi (argv[3]) : SIGKILL;
    if (pid <= 0)
        return 2;
    if (ptrace (PTRACE_SEIZE, pid, NULL, NULL)) {
        perror ("ptrace");
        return 77;
    }
    if (!strcmp (argv[2], "freeze"))
        return freeze (pid);
    if (kill (pid, number)) {
        perror ("kill");
        return 1;
    }
    for (int64_t until = clock_ms () + atoi (argv[2]); clock_ms () < until;) {
        siginfo_t info = { 0 };
        if (!waitid (P_PID, (id_t) pid, &info, WSTOPPED | WNOHANG | __WALL) && info.si_pid)
            ptrace (PTRACE_CONT, pid, NULL, (void *) (long) (info.si_status & 0x7f));
        usleep (1000);
    }
    return 0;
}
