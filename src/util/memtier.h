/* SPDX-License-Identifier: Apache-2.0 */
/* The memory tier: memory of a host that outlives the ranks of a job, for their checkpoints.
 *
 * It is one sparse memfd, which the launcher makes for as many starts of the ranks as there will be, and which ranks
 * open as /proc/PID/fd/N of it, like the job segment.  So it has no name, and is gone with its last process, whichever
 * process is killed.  It begins with a table.  Each rank of the host has two buffers behind it and writes to them in
 * turn, so that a rank that is killed while it writes leaves the one that it wrote before. */
#ifndef UTIL_MEMTIER_H
#define UTIL_MEMTIER_H

#include "util/fail.h"
#include "util/jobseg.h"

#include <stdatomic.h>
#include <stdint.h>

enum {
    MEMTIER_BUFFERS = 2,
    MEMTIER_ENTRIES = MEMTIER_BUFFERS * JOBSEG_MAX_LOCAL,
    MEMTIER_COPIES = 1 << 16, /* of what other hosts have, by rank, while a state is loaded */
};

/** What is in a buffer. */
struct memtier_entry {
    _Atomic uint64_t sequence; /* of its save, counted from 1 in each start of the ranks; 0: incomplete */
    uint64_t restarts;         /* which start that was */
    uint64_t step;             /* that optimizers had taken */
    uint64_t index_at, index_bytes, index_checksum; /* of what says what is where, in the buffer */
    uint32_t rank, processes;  /* who saved it, of how many */
};

struct memtier_header {
    uint64_t magic;
    uint32_t version;
    uint32_t entry_count;  /* of those that were ever in use */
    uint64_t restarts;     /* of the job so far */
    char job_id[40];       /* of the present start */
    char limit_file[512];  /* of the control group that limits the memory of the job; empty: none does */
    struct memtier_entry entries[MEMTIER_ENTRIES]; /* two of each local rank */
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

/** @return where the buffer of entry @p index begins in the file; from MEMTIER_ENTRIES on, the copies. */
static inline uint64_t
memtier_place (size_t index)
{
    return ((uint64_t) index + 1) << 40;
}

/** Write or read all of it at @p at.  @return 0, or -1 with errno  @{ */
int memtier_write (const struct memtier *memtier, const void *bytes, size_t length, uint64_t at);
int memtier_read (const struct memtier *memtier, void *bytes, size_t length, uint64_t at);
/** @} */

/** Give the pages of a buffer back. */
void memtier_clear (const struct memtier *memtier, uint64_t at, uint64_t length);

/** Accepts MEMTIER_NONE. */
void memtier_release (struct memtier *memtier);

#endif
