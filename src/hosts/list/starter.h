/* SPDX-License-Identifier: Apache-2.0 */
/* What starts the agents on the hosts, and what connects ranks that are processes of MPI. */
#ifndef HOSTS_LIST_STARTER_H
#define HOSTS_LIST_STARTER_H

#include "config/values.h"
#include "hosts/list/hostlist.h"
#include "util/fail.h"

/** What starts an agent on each host. */
enum starter_agents {
    STARTER_SSH,
    STARTER_SRUN,
};

/** What gives each rank the variables with which MPI_Init() finds the others; see mpi/mpi.h. */
enum starter_mpi {
    STARTER_MPI_NONE,
    STARTER_MPI_OPEN,  /* Open MPI's mpirun */
    STARTER_MPI_HYDRA, /* MPICH's, or one that takes the same options */
    STARTER_MPI_SRUN,
};

/** All zero: SSH, and no MPI. */
struct starter {
    enum starter_agents agents;
    enum starter_mpi mpi;
    char *mpirun; /* path */
};

/** Decide from the settings, and from where this process runs.  @param list  the hosts
 *  @param[out] starter  for starter_release(), also after a failure */
int starter_choose (struct starter *starter, const struct config *config, const struct hostlist *list,
                    struct fail *fail);

/**
 * Append the command that starts an agent on another host.
 *
 * @param program  to execute there
 * @param batch    SSH must not ask for anything
 */
void starter_add_agent (const struct starter *starter, const char *host, const char *program, bool batch,
                        struct strlist *argv);

/**
 * Append the command that starts an MPI proxy for each rank, with the ranks in their order.
 *
 * @param list     after hostlist_divide()
 * @param program  to execute on all hosts
 * @param name, attempt  arguments of the MPI proxies
 */
void starter_add_mpi_proxies (const struct starter *starter, const struct hostlist *list, const char *program,
                              const char *name, int64_t attempt, struct strlist *argv);

/** How messages call what starts the MPI proxies. */
const char *starter_mpi_name (const struct starter *starter);

/** In a process that is going to execute srun: remove what the user's own variables would change about it. */
void starter_clean_environment (void);

void starter_release (struct starter *starter);

#endif
