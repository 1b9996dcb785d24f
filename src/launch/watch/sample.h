/* SPDX-License-Identifier: Apache-2.0 */
/* One look at a job from outside: what its ranks show in the segment, and what /proc says of their processes. */
#ifndef LAUNCH_WATCH_SAMPLE_H
#define LAUNCH_WATCH_SAMPLE_H

#include "launch/watch/jobs.h"

enum { SAMPLE_SILENCE_MS = 3500 }; /* after which a host that is asked each second does not answer */

/** What is known of a rank. */
struct sample_rank {
    int rank;
    uint64_t now_ns;      /* CLOCK_MONOTONIC when it was so; 0: its host has not said yet */
    pid_t pid;            /* in our namespace, or that of its host; 0: not known */
    char host[JOBSEG_HOST_NAME]; /* of a job on several hosts; "" */
    bool is_remote;       /* its process is on another host */
    bool has_descendants; /* it has not opened, so its process may be a script that has started the program: what that
                           * uses counts, too */
    struct jobseg_gpu gpu; /* that it uses, if it is on another host */
    bool is_silent;       /* its host does not say what it does */
    uint32_t state;       /* enum jobseg_state, or what a stranger has put there */
    bool has_ended;
    int wait_status;      /* of an end, as waitpid() reports it; -1: not known */
    char process_state;   /* as in /proc: 'T' is stopped by a signal; 0: not known */
    uint64_t step;
    uint64_t step_ns;     /* CLOCK_MONOTONIC at the latest change; 0: it shows no steps */
    uint64_t first_step;
    uint64_t first_ns;
    uint64_t waited_ns;   /* in calls that communicate and that are over */
    uint64_t call;        /* the number of the call that it is in; 0: none */
    uint64_t cpu_ns;
    uint64_t memory;      /* bytes that are resident; 0: not known */
    uint32_t value_count;
    struct {
        char name[JOBSEG_VALUE_NAME];
        double value;
    } values[JOBSEG_VALUES];
    char doing[JOBSEG_DOING]; /* in words */
};

struct sample {
    uint64_t now_ns; /* CLOCK_MONOTONIC */
    struct sample_rank *ranks; /* [count] */
    int count;
    uint64_t saved_step;  /* 1 + the step of the latest checkpoint that all ranks have; 0: none */
    uint64_t memory_step; /* the same, of those in memory */
};

/** @return 0, or -1 without memory  @param[out] sample  for sample_release(), also after a failure */
int sample_take (struct sample *sample, const struct watch_job *job, struct fail *fail);
void sample_release (struct sample *sample);

/** @return how many of the ranks have not ended */
int sample_count_alive (const struct sample *sample);

/** Whether @p record is of a message: those are counted for each partner, not for all members of a communicator. */
bool sample_is_message (const struct jobseg_record *record);

enum { AWAITS_NONE = -1, AWAITS_OTHER_HOSTS = -2 };

/**
 * Who waits for whom: a rank is awaited while another one is in a collective that it has not reached.  Reads only the
 * segment: a few microseconds for each ten ranks.
 *
 * @param[out] awaited  [rank_count] whether others wait for it
 * @param[out] awaits   [rank_count] the first rank (of all hosts) that it waits for, AWAITS_NONE or AWAITS_OTHER_HOSTS
 */
void sample_find_awaited (const struct watch_job *job, bool *awaited, int *awaits);

#endif
