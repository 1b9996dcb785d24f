/* SPDX-License-Identifier: Apache-2.0 */
/* The memory tier: memory of a host that outlives the ranks of a job, for their checkpoints.
 *
 * It is one sparse memfd, which the launcher makes for as many starts of the ranks as there will be, and which ranks
 * open as /proc/PID/fd/N of it, like the job segment.  So it has no name, and is gone with its last process, whichever
 * process is killed.  It begins with a table.  Each rank of the host has two buffers behind it and writes to them in
 * turn, so that a rank that is killed while it writes leaves the one that it wrote before.
 *
 * If another host keeps copies (hosts/agent/copies.h), each rank has two more, for saves that the hosts have agreed to
 * keep: the newest of which all have copies, and the one that is being copied.  The file then also has the copies that
 * this host keeps of the ranks of the host before it, two of each.
 *
 * A buffer begins with what all ranks have in common, if its rank has saved that: models and optimizers that are not
 * divided.  Besides rank 0, the first rank of each other host does so, and hosts compare it by its checksum.  So it
 * does not cross the network, neither for a copy, which then has a hole there, nor when ranks are started again. */
#ifndef UTIL_MEMTIER_H
#define UTIL_MEMTIER_H

#include "util/fail.h"
#include "util/jobseg.h"

#include <stdatomic.h>
#include <stdint.h>

enum {
    MEMTIER_BUFFERS = 4,        /* of each rank, at most */
    MEMTIER_BUFFERS_ALONE = 2,  /* if no other host has copies */
    MEMTIER_COPY_BUFFERS = 2,   /* of each rank of the host before this one */
    MEMTIER_OWN = MEMTIER_BUFFERS * JOBSEG_MAX_LOCAL,
    MEMTIER_ENTRIES = MEMTIER_OWN + MEMTIER_COPY_BUFFERS * JOBSEG_MAX_LOCAL,
    MEMTIER_LOADED = 1 << 16, /* what other hosts have, by rank, while a state is loaded */
};

/** What is in a buffer. */
struct memtier_entry {
    _Atomic uint64_t sequence; /* of its save, counted from 1 in each start of the ranks; 0: incomplete */
    uint64_t restarts;         /* which start that was */
    uint64_t step;             /* that optimizers had taken */
    uint64_t index_at, index_bytes, index_checksum; /* of what says what is where, in the buffer */
    uint64_t common_bytes, common_checksum; /* of what all ranks have in common, at the beginning */
    uint64_t checksum;         /* of the bytes between that and the index */
    uint32_t rank, processes;  /* who saved it, of how many */
    _Atomic uint32_t has_common; /* 0: there is a hole instead */
};

struct memtier_header {
    uint64_t magic;
    uint32_t version;
    uint32_t entry_count;  /* of local ranks, those that were ever in use */
    uint32_t copy_count;   /* the same of copies */
    uint32_t rank_count;   /* local ranks of the present start */
    uint64_t restarts;     /* of the job so far */
    char job_id[40];       /* of the present start */
    char limit_file[512];  /* of the control group that limits the memory of the job; empty: none does */
    _Atomic uint32_t buffers; /* of each rank: MEMTIER_BUFFERS or MEMTIER_BUFFERS_ALONE */
    _Atomic uint32_t saves;   /* completed here, ever; a futex for those who wait for the next */
    _Atomic uint64_t kept[2]; /* by memtier_number(); 0: none.  Ranks leave these as they are: the newest save of which
                               * all hosts have copies, or which was loaded; and the one that is being copied */
    _Atomic uint64_t forgotten; /* this save and older ones do not count: the disk is newer */
    struct memtier_entry entries[MEMTIER_ENTRIES]; /* of local ranks; from MEMTIER_OWN on, copies */
};

struct memtier {
    int fd; /* -1: none */
    struct memtier_header *header;
};

#define MEMTIER_NONE { .fd = -1 }

/** Make an empty one, which has no pages but for the table's.  @return 0 or -1 */
int memtier_create (struct memtier *memtier, struct fail *fail);

/** Before the ranks are started, for the @p restarts-th time again. */
void memtier_begin (const struct memtier *memtier, int local_world_size, int64_t restarts, const char *job_id,
                    const char *limit_file);

/** Open the one at @p path, if it is of @p job_id.  @return 0 or -1 */
int memtier_attach (struct memtier *memtier, const char *path, const char *job_id, struct fail *fail);

/** @return a number that grows from save to save, also over starts of the ranks. */
static inline uint64_t
memtier_number (uint64_t restarts, uint64_t sequence)
{
    return restarts << 40 | sequence;
}

/** @return that of what @p entry has; 0: nothing complete */
static inline uint64_t
memtier_number_of (const struct memtier_entry *entry)
{
    uint64_t sequence = atomic_load (&entry->sequence);
    return sequence ? memtier_number (entry->restarts, sequence) : 0;
}

/** @return whether @p a and @p b have the same in common; then the bytes are the same, too */
static inline bool
memtier_has_same (const struct memtier_entry *a, const struct memtier_entry *b)
{
    return a->common_bytes == b->common_bytes && a->common_checksum == b->common_checksum;
}

/** @return where the buffer of entry @p index begins in the file; from MEMTIER_ENTRIES on, that of a rank elsewhere. */
static inline uint64_t
memtier_place (size_t index)
{
    return ((uint64_t) index + 1) << 40;
}

/** Write or read all of it at @p at.  @return 0, or -1 with errno  @{ */
int memtier_write (const struct memtier *memtier, const void *bytes, size_t length, uint64_t at);
int memtier_read (const struct memtier *memtier, void *bytes, size_t length, uint64_t at);
/** @} */

/** The control group of the job may limit it: there is how much, and how much is used; "": it does not. */
void memtier_limit (const struct memtier *memtier, const char *limit_file);

/** @return how many bytes may still be put into memory.  @param[out] source  what limits them, for people */
uint64_t memtier_free_bytes (const struct memtier *memtier, const char **source);

/** Give the pages of a buffer back. */
void memtier_clear (const struct memtier *memtier, uint64_t at, uint64_t length);

/** Accepts MEMTIER_NONE. */
void memtier_release (struct memtier *memtier);

#endif
