/* SPDX-License-Identifier: Apache-2.0 */
/* hold PROCESS MS: kills the process by SIGKILL and keeps its end, but not that of its connections, from its parent for
 * so long, as a debugger can: a busy machine does it by chance.  Exits with 77 where that is not permitted. */
#include <config.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <unistd.h>

int
main (int argc, char **argv)
{
    pid_t pid = argc == 3 ? atoi (argv[1]) : 0;
    if (pid <= 0)
        return 2;
    if (ptrace (PTRACE_SEIZE, pid, NULL, NULL)) {
        perror ("ptrace");
        return 77;
    }
    if (kill (pid, SIGKILL)) {
        perror ("kill");
        return 1;
    }
    usleep ((useconds_t) atoi (argv[2]) * 1000);
    return 0;
}
