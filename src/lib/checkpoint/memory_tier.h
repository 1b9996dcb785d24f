/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints in memory of the launcher's host, which outlives the ranks: each rank copies its part of the state there
 * every few steps, and accel_load_state() finds it when the launcher has started the ranks again.
 *
 * Saves use no collectives.  Each rank saves after the same steps and counts its saves; a state is used if all ranks
 * have completed the save of this number.  Ranks that average gradients are at most one save apart, and each keeps its
 * latest two, so there always is one that all have.  If a host is gone, what another one has copied has to be as new as
 * what the others still have: so ranks leave the saves that the hosts agree on (`kept` of the tier's header).  Nothing
 * is loaded whose checksums are wrong.  If there is no whole state, the disk has to do.  Of a sharded model, each rank
 * saves its share.  Other models and optimizers are the same on all ranks: rank 0 saves them, and so does the first
 * rank of each other host, for the ranks there to read after a restart; if its checksum is not that of rank 0, they get
 * them from rank 0. */
#ifndef LIB_CHECKPOINT_MEMORY_TIER_H
#define LIB_CHECKPOINT_MEMORY_TIER_H

#include "files/manifest.h"
#include "lib/comm/comm_private.h"
#include "lib/state/part.h"
#include "lib/state/state_dict.h"
#include "util/memtier.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

/** What this rank knows of its memory tier. */
struct memory_tier {
    struct part part;
    struct memtier memtier;
    pid_t process;       /* whose it is: not that of a fork */
    bool is_looked_for;  /* `memtier` is what the environment has */
    bool is_off;         /* nothing is saved any more: the reason was logged */
    bool lacks_common;   /* there is no room for what all ranks have in common: the reason was logged */
    bool is_asked;       /* training has begun: the state to continue from was loaded, or there is none */
    uint64_t every;      /* as the launcher says; 0: never */
    uint64_t steps;      /* since the latest save */
    uint64_t sequence;   /* of the latest save in this start of the ranks; 0: none */
    uint64_t latest;     /* memtier_number() of the latest save, or of what was loaded; 0: neither */
    uint64_t room;       /* bytes that each buffer has or gets without asking again */
    struct {             /* of what this rank has saved last, in a thread */
        pthread_t thread;
        bool is_running;
        atomic_bool stops;
        const struct memtier_entry *entry;
        uint64_t number; /* memtier_number() of what is undamaged there; 0: it is not known */
    } check;
};

extern const struct part_kind part_memory_tier;

static inline struct memory_tier *
memory_tier_of (const struct accel *acc)
{
    return (struct memory_tier *) (void *) part_find (acc, &part_memory_tier);
}

/** Something newer is on the disk, or was loaded from there: forget what ranks have saved in memory so far, also copies
 *  of it that are on their way. */
void memory_tier_forget (const struct accel *acc);

/** One rank's part of a state in memory. */
struct memory_share {
    uint64_t restarts, sequence, step, index_at, index_bytes, index_checksum, common_bytes, common_checksum, checksum;
    uint32_t rank, processes; /* that saved it */
    uint64_t begin;           /* in the file */
    uint64_t has_common;      /* not only a hole of this size */
};

/** A state in memory that is complete.  All zero: none. */
struct memory_state {
    const struct memtier *memtier;
    struct memory_share *shares; /* [processes], by rank */
    uint32_t processes;
    char **indexes;   /* [processes] */
    uint64_t common;  /* where what all ranks have in common begins, in the file; rank 0's index has it */
    bool has_copies;  /* of what other hosts have, which end with memory_state_release() */
};

/** accel_open(), before processes meet, for which they mostly wait: begin to compare checksums of what this rank has
 *  saved last before it was started again. */
void memory_tier_begin_check (const struct accel *acc);
void memory_tier_end_check (struct memory_tier *memory);

/** @return whether accel_load_state() looks in memory: the ranks were started again, and nothing was loaded yet. */
bool memory_state_is_possible (const struct accel *acc);

/** Find the newest state that is complete on all hosts together, and get the shares that this host lacks from the
 *  others.  Collective.  @param[out] state  for memory_state_release(), also after a failure */
enum accel_status memory_state_find (struct memory_state *state, struct accel *acc, const struct comm_site *site,
                                     struct accel_error *err);

/** List what it has as if it were files.  @param size  of the job that loads */
enum accel_status memory_state_list (const struct memory_state *state, int size, struct manifest *manifest,
                                     struct accel_error *err);

/** Fill the empty @p dict with what has this @p name.  @param[out] found  whether there is such an item */
enum accel_status memory_state_read (const struct memory_state *state, const char *name, struct accel_state_dict *dict,
                                     bool *found, struct accel_error *err);

/** It was loaded: it stays until the next save is complete. */
void memory_state_keep (const struct memory_state *state, const struct accel *acc);

/** When no rank of this host needs it any more. */
void memory_state_release (struct memory_state *state);

#endif
