/* SPDX-License-Identifier: Apache-2.0 */
/* The head's mpirun or srun, which starts the stand-ins of all ranks; see standin.h.  It neither watches the ranks nor
 * ends them, so nothing depends on what it notices.  But ranks that use Open MPI end if it does. */
#ifndef HOSTS_LENDER_H
#define HOSTS_LENDER_H

#include "hosts/hosts.h"

#include <sys/types.h>

/** LENDER_NONE is one that does not run. */
struct lender {
    pid_t pid;          /* 0: none, or it has ended */
    int out;            /* what it says; -1: none */
    struct strbuf said; /* that nobody has taken yet */
    bool is_cut;        /* the rest of a line is dropped, because nobody takes what is said */
    bool blames_other;  /* Open MPI: it has said that a rank or a daemon made it end */
    bool has_abort;     /* a rank has called MPI_Abort(), as it says: it ends all processes of MPI because of that */
    int wait_status;    /* if it has ended by itself; 0 otherwise */
    int64_t until_ms;   /* it is ended by force then; 0: it may run */
    bool was_told;      /* to end */
};

#define LENDER_NONE ((struct lender){ .out = -1 })

/** Start the stand-ins of this attempt; the lender of an earlier one has ended.  @return 0, or -1 with @p fail set */
int lender_start (struct lender *lender, const struct hosts *hosts, const char *name, int64_t attempt,
                  struct fail *fail);

/** Take what it says. */
void lender_read (struct lender *lender);

/** Take all that it has said so far. */
void lender_read_all (struct lender *lender);

/** Wait for it, if it has ended, and take the rest of what it has said. */
void lender_reap (struct lender *lender);

/** Take a line of what it has said, without the newline.  @return false if there is none yet */
bool lender_take_line (struct lender *lender, struct strbuf *line);

/** It has not done what it should, as @p what says: set @p fail with that and what it has said. */
int lender_fail (const struct lender *lender, const struct hosts *hosts, const char *what, struct fail *fail);

/** The job has failed, after which mpirun would take seconds to end: give it no time. */
void lender_hurry (struct lender *lender);

/** Give it a moment to end, and then end it, without waiting: call this again at `until_ms`, or when it has ended.  Its
 * stand-ins end with the launchers of their hosts.  @return whether it has ended */
bool lender_end (struct lender *lender);

/** The same, and wait for it. */
void lender_finish (struct lender *lender);

#endif
