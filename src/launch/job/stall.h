/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that wait in vain: which ones keep the others waiting, and where all of them are. */
#ifndef LAUNCH_JOB_STALL_H
#define LAUNCH_JOB_STALL_H

#include "launch/job/job.h"
#include "launch/process/process.h"
#include "launch/stacks/stacks.h"

/** What a rank that makes no progress does. */
enum stall_work { STALL_IDLE, STALL_COMPUTES, STALL_USES_FILES, STALL_USES_GPU };

/** What is being said: whole stacks, but in the first note one line for each place. */
enum stall_kind { STALL_WARNING, STALL_NOTE, STALL_LATE_NOTE };

/** What is known of a rank since the last look.  All zero at first. */
struct stall_rank {
    uint64_t seen;    /* changes whenever the rank makes progress */
    int64_t since_ms; /* CLOCK_MONOTONIC: when that was first seen */
    bool is_waiting;  /* in a call, for other ranks */
    bool is_stopped;  /* by a signal */
    enum stall_work work; /* the latest that was not idleness */
    int idle_looks;   /* one after the other at which it had hardly worked since the one before */
    bool is_on_gpu;   /* its stack has shown that it waits for a GPU, and it has made no progress since */
    uint64_t cpu_ns, delayed_ns; /* of it and its descendants, when we last looked */
    struct process_thread first; /* its first thread, then */
    struct process_thread ran;   /* the same, and the time, at the last look before which it had run */
    int64_t ran_ms;
    bool polls;       /* that thread looks for something again and again, and sleeps in between */
    uint64_t moved_bytes; /* by reads and writes of all its threads, then */
    int64_t looked_ms; /* when that was */
};

/** {0} is one that has seen nothing. */
struct stall {
    struct stall_rank *ranks; /* [job->count] */
    int64_t look_ms;  /* when to look next; INT64_MAX: never again */
    int64_t looked_ms;
    int64_t warn_ms;  /* when to warn, again if need be; 0: nothing stalls */
    int64_t pause_ms; /* until the warning after that */
    bool is_noted;    /* that ranks compute while others wait */
    enum stall_kind kind; /* of the latest, or of the one that is being written */
    struct stacks stacks;     /* those that `names` is about */
    struct stack_names names; /* pid 0: nothing is being written */
    int64_t names_until_ms;
    struct strbuf text;       /* lines that have not been printed */
};

/** Whether the rank is in a call, and waits there for other ranks: it gives signs of life. */
bool stall_is_waiting (const struct jobseg_slot *slot);

/** Look at the ranks of @p job if it is time to.  Never waits for longer than STACKS_WAIT_MS, and that only before a
 *  warning or a note.  @return when to call it again; INT64_MAX: never */
int64_t stall_serve (struct stall *stall, struct job *job);

/** No more warnings; one that is being written is given up. */
void stall_end (struct stall *stall);

#endif
