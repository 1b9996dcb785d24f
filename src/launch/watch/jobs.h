/* SPDX-License-Identifier: Apache-2.0 */
/* The running jobs of this user on this host, for commands that watch them or ask something of them.
 *
 * A job is found by its segment, which has no name: in /proc, the processes of this user are looked through for one
 * that holds it.  Of a job that `accelerate launch` has started that is the supervisor; of one that mpirun or torchrun
 * has started, its ranks.  The head of a job on several hosts has a segment for the ranks of all of them, which takes
 * the place of what this host's part has; it shows what the hosts have said, and asks them only for those who watch.
 * Whatever is found may be a stranger's, so texts are cut off and numbers checked. */
#ifndef LAUNCH_WATCH_JOBS_H
#define LAUNCH_WATCH_JOBS_H

#include "util/fail.h"
#include "util/jobseg.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/** A job, as it was when it was found. */
struct watch_job {
    struct jobseg segment; /* for reading and for requests; its memory, which may be much, lives as long as this */
    uint64_t inode;   /* of the segment: one job, one attempt */
    pid_t holder;     /* the supervisor or head, or the first rank of a job that no launcher of ours has started */
    int holder_fd;    /* which of its descriptors is the segment */
    int hosts;        /* how many, if the holder is the head of a job on several; 0: its ranks run on this host */
    bool is_supervised; /* a launcher of ours has started it */
    pid_t launcher;   /* who passes signals on to all ranks, guardian or head; 0: there is none, or it has ended */
    int rank_count;   /* on this host, or all of a head; jobseg_slot (&segment, i) has rank first_rank + i */
    int first_rank;
    int world_size;   /* on all hosts */
    int64_t started_s; /* seconds since the epoch */
    uint32_t restarts; /* before this attempt */
    char id[40];
    char program[128]; /* with arguments, cut off */
};

/** {0} is an empty one. */
struct watch_jobs {
    struct watch_job *jobs; /* in the order of `holder` */
    size_t count;
    int foreign; /* segments that were left out, because they are from another release or damaged */
};

/** Find all.  @return 0, or -1 if /proc cannot be read or memory runs out */
int watch_jobs_find (struct watch_jobs *jobs, struct fail *fail);

/** Unmap all of them. */
void watch_jobs_release (struct watch_jobs *jobs);

/**
 * The job that the user means.
 *
 * @param word  the beginning of an id, or the launcher's process; NULL: the only one there is
 * @return one of @p jobs, or NULL with @p fail, which names the jobs that there are
 */
struct watch_job *watch_jobs_choose (const struct watch_jobs *jobs, const char *word, struct fail *fail);

/** Find the one that the user means, and no other.  @param[out] job  to be released, also after a failure */
int watch_job_find (struct watch_job *job, const char *word, struct fail *fail);

/**
 * Send @p signal to the launcher of @p job, which passes it on to all ranks.
 *
 * @return a descriptor that becomes readable when the launcher has ended, or -1 with @p fail: it has ended before, or
 *         another launcher has started the ranks, whose process is named
 */
int watch_job_signal (const struct watch_job *job, int signal, struct fail *fail);

/** The job whose supervisor is @p supervisor.  @param[out] job  to be released, also after a failure
 *  @return 0, or -1: it has none, or memory runs out */
int watch_job_of (struct watch_job *job, pid_t supervisor);

/** If @p job is that of a head: have it ask the hosts what their ranks do, at most once a second.  Does not wait. */
void watch_job_ask (const struct watch_job *job);

enum { WATCH_JOB_WAIT_MS = 2000 }; /* for hosts, before commands do without what these would say */

/** The same, and wait until all of them have answered since, or @p wait_ms are over. */
void watch_job_await (const struct watch_job *job, int wait_ms);

/** Unmap it.  Accepts {.segment = JOBSEG_NONE}. */
void watch_job_release (struct watch_job *job);

#endif
