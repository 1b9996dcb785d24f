/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of checkpoints in memory (util/memtier.h) on the next host: after a host is gone, the job continues from them.
 *
 * The hosts of a job are a ring, in which each has a connection to the next one, encrypted by a key of this start of
 * the ranks.  A process of the agent, which no rank waits for, sends what its ranks have saved and writes what it gets
 * from the host before.  The first host names a save for each round; all ranks leave that save, and the one of the
 * round before, as they are until it is copied everywhere.  So once there was a round, there always is a save of which
 * all hosts have both the original and a copy.
 *
 * If a connection of the ring breaks, all its processes end, one after the other, and their agents start them again. */
#ifndef HOSTS_AGENT_COPIES_H
#define HOSTS_AGENT_COPIES_H

#include "util/fail.h"
#include "util/memtier.h"
#include "util/strbuf.h"

#include <stdbool.h>
#include <sys/types.h>

/** The next host. */
struct copies_next {
    char *name; /* as the user named it */
    char *key;  /* that all hosts share */
    struct strlist addresses;
    int port;   /* 0: there is no other host; what is left of an earlier start of the ranks is released */
    bool is_first;  /* this host is the first of the ring */
    uint64_t first; /* save of this start of the ranks, by memtier_number() */
};

struct copies {
    int listener; /* for the host before; -1: none */
    int port;
    pid_t pid;    /* of the process that copies; 0: none */
    struct copies_next next; /* that it was started with */
};

#define COPIES_NONE { .listener = -1 }

/** Listen for the host before.  @return 0, or -1 with @p fail set */
int copies_listen (struct copies *copies, struct fail *fail);

/** Start to copy what @p memtier has and gets, in a process that ends with this one.
 *  @param memtier  NULL: nothing is copied
 *  @param next  taken over, also by a failure
 *  @return 0, or -1 with @p fail */
int copies_start (struct copies *copies, const struct memtier *memtier, struct copies_next *next, struct fail *fail);

/** If that process has ended because the ring has broken, start it again. */
void copies_keep (struct copies *copies, const struct memtier *memtier);

/** End that process. */
void copies_stop (struct copies *copies);

/** The same, and listen no more. */
void copies_release (struct copies *copies);

#endif
