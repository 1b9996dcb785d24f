/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that are processes of MPI, and of this launcher.  MPI_Init() finds the others through variables, which mpirun
 * or srun gives to the processes that it starts; the launcher watches processes that it starts itself.  So mpirun
 * starts an MPI proxy for each rank, which passes its variables to the agent of its host; the rank starts with them,
 * and to the servers of MPI it is the MPI proxy's child.  The MPI proxy waits until the launcher of its host has
 * ended. */
#ifndef HOSTS_MPI_MPI_H
#define HOSTS_MPI_MPI_H

#include "hosts/list/hosts.h"
#include "launch/plan/plan.h"
#include "util/fail.h"
#include "util/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ompi_session.c: what Open MPI leaves behind on a host if its processes are killed: its session folder, and the memory
 * that ranks have shared. */

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

/* ompi_transports.c */

/** Add a variable that keeps Open MPI from loading transports for devices that this host lacks, which would take
 *  100 ms each, to the variables of the rank that this process is started for.  Nothing is added if another MPI has
 *  started it, the user has chosen transports by that variable, or by a list in a file of parameters, or the host
 *  has a file that overrides variables.
 *  @param daemon  the process of MPI that has started this one  @param[in,out] variables  NAME=VALUE */
void ompi_transports_exclude (pid_t daemon, struct strlist *variables);

/* proxy.c: both sides of the socket between MPI proxies and agents. */

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
    int64_t pid, attempt;
    int fd;   /* a pidfd */
    int rank; /* of the MPI proxy; -1: a daemon */
    char name[16];
    struct ompi_session session;
};

/** Those of a host.  MPI_PROXIES_NONE is an empty set. */
struct mpi_proxies {
    int listener; /* -1: none */
    int64_t attempt;       /* the latest that was asked for; those of later ones wait for it */
    struct mpi_proxy *all; /* in the order of attempts, and of their ranks */
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

/** Release those of attempts before @p attempt, whose turn it is.  @return how many it has */
int mpi_proxies_of (struct mpi_proxies *proxies, int64_t attempt);

/** How a process that ranks need has ended. */
struct mpi_proxy_end {
    bool is_daemon;
    bool is_of_attempt; /* that has its turn; otherwise ranks that run do not need it */
    int status;     /* 0: not known */
    char text[160]; /* which one, and how */
};

/** Take the next such end.  @return false if there is none */
bool mpi_proxies_take_end (struct mpi_proxies *proxies, struct mpi_proxy_end *end);

/** Close the connections of this attempt here; copies in other processes stay. */
void mpi_proxies_forget (struct mpi_proxies *proxies);

/** Whether there are @p expected ones of this attempt, one for each rank: one that has come may have ended since.
 *  @return 0, also if MPI is not used, or -1 with @p fail */
int mpi_proxies_check (const struct mpi_proxies *proxies, int expected, struct fail *fail);

/** Add the variables of this attempt to the processes of @p plan, in the order of their ranks.
 *  @return 0, or -1 with @p fail */
int mpi_proxies_apply (const struct mpi_proxies *proxies, struct plan *plan, struct fail *fail);

/** End the processes of MPI that have started them and do not end by themselves, as when they cannot reach mpirun, and
 * remove what those that were killed leave behind.  The ranks have ended. */
void mpi_proxies_end_daemons (struct mpi_proxies *proxies);

void mpi_proxies_release (struct mpi_proxies *proxies);

/* launcher.c: the head's mpirun or srun, which starts the MPI proxies of all ranks.  It neither watches the ranks nor
 * ends them, so nothing depends on what it notices.  But ranks that use Open MPI end if it does. */

/** MPI_LAUNCHER_NONE is one that does not run. */
struct mpi_launcher {
    pid_t pid;          /* 0: none, or it has ended */
    int64_t attempt;    /* of its MPI proxies */
    bool was_standby;   /* started before it was needed, so that another one can take its place */
    int out;            /* what it says; -1: none */
    struct strbuf said; /* output that was not taken yet */
    bool is_cut;        /* the rest of a line is dropped, because the output is not taken */
    bool names_cause;   /* Open MPI: it has said that a rank or a daemon made it end */
    bool has_abort;     /* a rank has called MPI_Abort(), as it says: it ends all processes of MPI because of that */
    int wait_status;    /* if it has ended by itself; 0 otherwise */
    int64_t until_ms;   /* it is ended by force then; 0: it may run */
    bool end_requested; /* to end */
};

#define MPI_LAUNCHER_NONE ((struct mpi_launcher){ .out = -1 })

/** Start the MPI proxies of @p attempt; @p launcher has ended, or is MPI_LAUNCHER_NONE.
 *  @return 0, or -1 with @p fail set */
int mpi_launcher_start (struct mpi_launcher *launcher, const struct hosts *hosts, const char *name, int64_t attempt,
                        struct fail *fail);

/** Take what it says. */
void mpi_launcher_read (struct mpi_launcher *launcher);

/** Take all that it has said so far. */
void mpi_launcher_read_all (struct mpi_launcher *launcher);

/** Wait for it, if it has ended, and take the rest of what it has said. */
void mpi_launcher_reap (struct mpi_launcher *launcher);

/** Take a line of what it has said, without the newline.  @return false if there is none yet */
bool mpi_launcher_take_line (struct mpi_launcher *launcher, struct strbuf *line);

/** It has not done what it should, as @p what says: set @p fail with that and what it has said. */
int mpi_launcher_fail (const struct mpi_launcher *launcher, const struct hosts *hosts, const char *what,
                       struct fail *fail);

/** The job has failed, after which mpirun would take seconds to end: give it no time. */
void mpi_launcher_hurry (struct mpi_launcher *launcher);

/** Give it a moment to end, and then end it, without waiting: call this again at `until_ms`, or when it has ended.  Its
 * MPI proxies end with the launchers of their hosts.  @return whether it has ended */
bool mpi_launcher_end (struct mpi_launcher *launcher);

/** The same, and wait for it. */
void mpi_launcher_finish (struct mpi_launcher *launcher);

#endif
