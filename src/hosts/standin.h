/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that are processes of MPI, and of this launcher.  MPI_Init() finds the others through variables, which mpirun
 * or srun gives to the processes that it starts; the launcher watches processes that it starts itself.  So mpirun
 * starts a stand-in for each rank, which passes its variables to the agent of its host; the rank starts with them, and
 * to the servers of MPI it is the stand-in's child.  The stand-in waits until the launcher of its host has ended. */
#ifndef HOSTS_STANDIN_H
#define HOSTS_STANDIN_H

#include "hosts/session.h"
#include "launch/plan.h"
#include "util/fail.h"
#include "util/strbuf.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STANDIN_NAME_BYTES = 48 }; /* with the terminating 0 */

/** A name at which stand-ins find the agent of their host; others may know it. */
int standin_make_name (char name[STANDIN_NAME_BYTES], struct fail *fail);

/** Be a stand-in: pass on what MPI has given to this process, and wait.
 *  @param attempt  a number, of this start of the ranks  @return the exit status, or -1 with @p fail */
int standin_run (const char *name, const char *attempt, struct fail *fail);

/** A stand-in, as the agent sees it. */
struct standin {
    int fd;        /* its connection; it ends when all copies are closed */
    int rank;      /* of MPI */
    int passed_fd; /* PMI_FD; -1: none */
    int64_t attempt;
    struct strlist variables; /* NAME=VALUE */
};

/** Take what a stand-in has sent, which may be anything.
 *  @param[out] parent  the process of MPI that has started it  @return false if no stand-in sends that */
bool standin_read (struct standin *standin, int64_t *parent, const char *bytes, size_t length);

/** A process that ranks need if they use MPI: one of MPI that has started stand-ins, or a stand-in. */
struct standin_process {
    int64_t pid;
    int fd;   /* a pidfd */
    int rank; /* of the stand-in; -1: a daemon */
    char name[16];
    struct session session;
};

/** Those of a host.  STANDINS_NONE is an empty set. */
struct standins {
    int listener; /* -1: none */
    struct standin *all;
    int count;
    struct standin_process *processes;
    int process_count;
    int ends; /* becomes readable when one of them has ended; -1: none is watched */
};

#define STANDINS_NONE ((struct standins){ .listener = -1, .ends = -1 })

/** Listen at @p name. */
int standins_listen (struct standins *standins, const char *name, struct fail *fail);

/** Take those that have come. */
void standins_accept (struct standins *standins);

/** Let go those of other attempts.  @return how many are left */
int standins_of (struct standins *standins, int64_t attempt);

/** How a process that ranks need has ended. */
struct standin_end {
    bool is_daemon;
    int status;     /* 0: not known */
    char text[160]; /* which one, and how */
};

/** Take the next such end.  @return false if there is none */
bool standins_take_end (struct standins *standins, struct standin_end *end);

/** Close the connections here; copies in other processes stay. */
void standins_forget (struct standins *standins);

/** Add the variables to the processes of @p plan, in the order of their ranks.
 *  @return 0, or -1 with @p fail */
int standins_apply (const struct standins *standins, struct plan *plan, struct fail *fail);

/** End the processes of MPI that have started them and do not end by themselves, as when they cannot reach mpirun, and
 * remove what those that were killed leave behind.  The ranks have ended. */
void standins_end_daemons (struct standins *standins);

void standins_release (struct standins *standins);

#endif
