/* SPDX-License-Identifier: Apache-2.0 */
/* What Open MPI leaves behind on a host if its processes are killed: its session folder, and the memory that ranks have
 * shared. */
#ifndef HOSTS_SESSION_H
#define HOSTS_SESSION_H

#include "util/strbuf.h"

#include <stdint.h>
#include <sys/types.h>

/** What one mpirun uses on this host.  All 0: nothing is known. */
struct session {
    char *folder;
    uint32_t job; /* its number in the names of shared memory; 0: not known */
};

/** Take it from the variables, NAME=VALUE, of a process that Open MPI has started. */
void session_read (struct session *session, const struct strlist *variables);

/** Remove what is left, once the processes that used it have ended: only what this user's Open MPI has created. */
void session_remove (const struct session *session);

/** Remove the folder of mpirun, whose process @p pid has ended. */
void session_remove_of (pid_t pid);

void session_release (struct session *session);

#endif
