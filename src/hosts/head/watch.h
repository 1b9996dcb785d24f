/* SPDX-License-Identifier: Apache-2.0 */
/* The head's segment, in which `accelerate top` and others see the ranks of all hosts.  Whoever looks at it writes a
 * byte into a pipe of the head, which then asks the hosts, at most once a second: nothing is asked while no process
 * watches, and the head has no status line.  A host that has not answered is not asked again, and nothing waits for
 * it. */
#ifndef HOSTS_HEAD_WATCH_H
#define HOSTS_HEAD_WATCH_H

#include "hosts/head/link.h"
#include "hosts/job_spec.h"
#include "util/jobseg.h"

struct head_watch {
    struct jobseg segment;
    int bell[2];       /* a pipe; -1: the job cannot be watched */
    int answers;       /* a file, for stacks; -1: none */
    bool is_wanted;    /* a process has asked */
    bool is_shown;     /* the head's status line shows steps */
    int64_t asked_ms;  /* when the hosts were asked last; 0: not yet */
    uint32_t number;   /* of the question for stacks that was passed on last */
};

#define HEAD_WATCH_NONE { .segment = JOBSEG_NONE, .bell = { -1, -1 }, .answers = -1 }

/** The ranks start.  @return 0, or -1 with @p fail: the job cannot be watched, and runs */
int head_watch_begin (struct head_watch *watch, const struct job_spec *spec, int64_t restarts,
                      const struct hosts *hosts, const struct links *links, struct fail *fail);

/** Ask the hosts, if a process wants it and it is time to. */
void head_watch_turn (struct head_watch *watch, const struct links *links);

/** @return when head_watch_turn() has something to do although nothing happens; INT64_MAX: never */
int64_t head_watch_deadline (const struct head_watch *watch);

/** All ranks have ended. */
void head_watch_end (struct head_watch *watch);

#endif
