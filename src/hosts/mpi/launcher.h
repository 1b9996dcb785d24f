/* SPDX-License-Identifier: Apache-2.0 */
/* The head's mpirun or srun, which starts the MPI proxies of all ranks; see proxy.h.  It neither watches the ranks
 * nor ends them, so nothing depends on what it notices.  But ranks that use Open MPI end if it does. */
#ifndef HOSTS_MPI_LAUNCHER_H
#define HOSTS_MPI_LAUNCHER_H

#include "hosts/list/hosts.h"

#include <sys/types.h>

/** MPI_LAUNCHER_NONE is one that does not run. */
struct mpi_launcher {
    pid_t pid;          /* 0: none, or it has ended */
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

/** Start the MPI proxies of this attempt; the MPI launcher of an earlier one has ended.
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
