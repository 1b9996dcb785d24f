/* SPDX-License-Identifier: Apache-2.0 */
/* Which of several hosts was the first to fail: one rule for a head with its agents (head/outcome.c) and for launchers
 * that were started by hand (peers/coordinator.c). */
#ifndef HOSTS_ROOT_CAUSE_H
#define HOSTS_ROOT_CAUSE_H

#include "hosts/net/wire.h"

#include <stdbool.h>

/** How a host's part of a job ended, or that a process of MPI has ended there although ranks needed it. */
struct failure {
    int64_t failed_ns;  /* one clock for all hosts; 0: it has not failed */
    bool is_mpi;        /* it is a process of MPI */
    bool was_killed;    /* a daemon of MPI was, by a signal: no other process of MPI does that to it */
    bool has_lost_mpi;  /* the rank that failed says, or its status does, that it has lost a process of MPI */
    bool is_lost;       /* the host or the connection to it is; then the fields below say nothing */
    enum wire_end end;  /* WIRE_END_STOPPED: a user has sent a signal to its launcher */
    int status;
    const char *report; /* "accelerate: rank 3 ...\n..."; may be NULL */
};

/** @return the number of the host that failed first; or of the process of MPI, if all failures of ranks are due to it;
 * @p count: none has failed */
size_t root_cause_find (const struct failure *all, size_t count);

/** Append a line for each host that failed at nearly the same time as @p all[@p cause] and so may have been first;
 * nothing if there is no doubt. */
void root_cause_add_simultaneous (const struct failure *all, size_t count, size_t cause, struct strbuf *out);

/** Of two processes of MPI that have ended, whether @p other may have been first: it is not known that a user has
 * killed only @p first, and they have ended at nearly the same time. */
bool root_cause_may_be_first (const struct failure *first, const struct failure *other);

/** @return @p report without "accelerate: " */
const char *root_cause_text (const char *report);

/** What a job on several machines has come to; `text`, `json` and `status` are those of the machine that is
 * to blame. */
struct job_outcome {
    bool is_known;   /* otherwise this machine's part is all that is known */
    bool is_ours;    /* this machine is to blame */
    enum wire_end end;
    int machine, status;
    char *text, *also, *json; /* may be NULL; also: lines about others that may have been first */
};

#endif
