/* SPDX-License-Identifier: Apache-2.0 */
/* What Open MPI leaves behind on a host if its processes are killed: its session folder, and the memory that ranks have
 * shared. */
#ifndef HOSTS_MPI_OMPI_SESSION_H
#define HOSTS_MPI_OMPI_SESSION_H

#include "util/strbuf.h"

#include <stdint.h>
#include <sys/types.h>

/** What one mpirun uses on this host.  All 0: nothing is known. */
struct ompi_session {
    char *folder;
    dev_t device; /* of the folder: another one may have its name later */
    ino_t inode;
    uint32_t job; /* its number in the names of shared memory */
};

/** Take it from the variables, NAME=VALUE, of a process that @p comm, process @p pid, has started; nothing if that does
 * not belong to Open MPI, or the variables belong to another job. */
void ompi_session_read (struct ompi_session *session, int64_t pid, const char *comm, const struct strlist *variables);

/** Remove what is left, once the processes that used it have ended: only what this user's Open MPI has created, and
 * only if the folder is still the one that was read. */
void ompi_session_remove (const struct ompi_session *session);

/** Remove the folder of mpirun, whose process @p pid has ended. */
void ompi_session_remove_of (pid_t pid);

void ompi_session_release (struct ompi_session *session);

#endif
