/* SPDX-License-Identifier: Apache-2.0 */
/* Finding every process of a job in /proc, whoever started it and whatever session it is in, and ending it. */
#ifndef LAUNCH_SWEEP_H
#define LAUNCH_SWEEP_H

#include <stdbool.h>
#include <sys/types.h>

/** What makes a process one of the job; each is optional, and descendants always belong to it. */
struct sweep {
    pid_t root;        /* descendants of this process, itself not; 0: none */
    pid_t spared;      /* neither this one nor its descendants; 0: none */
    const char *mark;  /* a text in the value of ACCEL_JOB_ID in its environment; NULL: none */
    const volatile pid_t *groups; /* process groups */
    int group_count;
};

/** Send @p signal to all of them; 0 only counts.  @return how many there are, zombies left out; -1 without /proc */
int sweep_signal (const struct sweep *sweep, int signal);

#endif
