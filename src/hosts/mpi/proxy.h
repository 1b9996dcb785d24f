/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that are processes of MPI, and of this launcher.  MPI_Init() finds the others through variables, which mpirun
 * or srun gives to the processes that it starts; the launcher watches processes that it starts itself.  So mpirun
 * starts an MPI proxy for each rank, which passes its variables to the agent of its host; the rank starts with them,
 * and to the servers of MPI it is the MPI proxy's child.  The MPI proxy waits until the launcher of its host has
 * ended. */
#ifndef HOSTS_MPI_PROXY_H
#define HOSTS_MPI_PROXY_H

#include "hosts/mpi/ompi_session.h"
#include "launch/plan/plan.h"
#include "util/fail.h"
#include "util/strbuf.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MPI_PROXY_NAME_BYTES = 48 }; /* with the terminating 0 */

/** A name at which MPI proxies find the agent of their host; others may know it. */
int mpi_proxy_make_name (char name[MPI_PROXY_NAME_BYTES], struct fail *fail);

/** Be an MPI proxy: pass on what MPI has given to this process, and wait.
 *  @param attempt  a number, of this start of the ranks  @return the exit status, or -1 with @p fail */
int mpi_proxy_run (const char *name, const char *attempt, struct fail *fail);

/** An MPI proxy, as the agent sees it. */
struct mpi_proxy {
    int fd;        /* its connection; it ends when all copies are closed */
    int rank;      /* of MPI */
    int passed_fd; /* PMI_FD; -1: none */
    int64_t attempt;
    struct strlist variables; /* NAME=VALUE */
};

/** Take what an MPI proxy has sent, which may be anything.
 *  @param[out] parent  the process of MPI that has started it  @return false if no MPI proxy sends that */
bool mpi_proxy_read (struct mpi_proxy *proxy, int64_t *parent, const char *bytes, size_t length);

/** A process that ranks need if they use MPI: one of MPI that has started MPI proxies, or an MPI proxy. */
struct mpi_proxy_process {
    int64_t pid;
    int fd;   /* a pidfd */
    int rank; /* of the MPI proxy; -1: a daemon */
    char name[16];
    struct ompi_session session;
};

/** Those of a host.  MPI_PROXIES_NONE is an empty set. */
struct mpi_proxies {
    int listener; /* -1: none */
    struct mpi_proxy *all;
    int count;
    struct mpi_proxy_process *processes;
    int process_count;
    int ends; /* becomes readable when one of them has ended; -1: none is watched */
};

#define MPI_PROXIES_NONE ((struct mpi_proxies){ .listener = -1, .ends = -1 })

/** Listen at @p name. */
int mpi_proxies_listen (struct mpi_proxies *proxies, const char *name, struct fail *fail);

/** Take those that have come. */
void mpi_proxies_accept (struct mpi_proxies *proxies);

/** Let go those of other attempts.  @return how many are left */
int mpi_proxies_of (struct mpi_proxies *proxies, int64_t attempt);

/** How a process that ranks need has ended. */
struct mpi_proxy_end {
    bool is_daemon;
    int status;     /* 0: not known */
    char text[160]; /* which one, and how */
};

/** Take the next such end.  @return false if there is none */
bool mpi_proxies_take_end (struct mpi_proxies *proxies, struct mpi_proxy_end *end);

/** Close the connections here; copies in other processes stay. */
void mpi_proxies_forget (struct mpi_proxies *proxies);

/** Add the variables to the processes of @p plan, in the order of their ranks.
 *  @return 0, or -1 with @p fail */
int mpi_proxies_apply (const struct mpi_proxies *proxies, struct plan *plan, struct fail *fail);

/** End the processes of MPI that have started them and do not end by themselves, as when they cannot reach mpirun, and
 * remove what those that were killed leave behind.  The ranks have ended. */
void mpi_proxies_end_daemons (struct mpi_proxies *proxies);

void mpi_proxies_release (struct mpi_proxies *proxies);

#endif
