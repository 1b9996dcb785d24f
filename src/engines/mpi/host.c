/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that the ranks of a host share.  The first of them makes it, and the others open it through its /proc
 * entry.
 *
 * Whether ranks are on one host is for the launcher to say: their numbers on the host follow each other, and have the
 * order of their numbers in the job.  What else it can be is left to MPI alone. */
#include <config.h>

#include "engines/mpi/communicators.h"
#include "engines/mpi/topology.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, HUGE_PAGE = 2 << 20 };
#define ARENA_LEAST ((size_t) 64 << 20)
#define ARENAS_MOST ((size_t) 16 << 40) /* of a host: an eighth of the address space of x86-64 */

struct mpi_state mpi = {
    .world = { .lock = PTHREAD_MUTEX_INITIALIZER, .level = MPI_THREAD_SERIALIZED },
    .host = { .fd = -1 },
    .init = { .lock = PTHREAD_MUTEX_INITIALIZER },
    .progress = { .wake = PTHREAD_COND_INITIALIZER },
    .detector = { .stop = -1 },
};

/* What the memory begins with. */
struct memory_header {
    uint64_t token;
    uint64_t arena_bytes;
};

static struct memory_header *
memory_header (void)
{
    return (struct memory_header *) (void *) mpi.host.memory;
}

/* ---- outboxes ---- */

static bool
outbox_fits (int most, int world_size)
{
    return most <= OUTBOX_HOST && world_size <= OUTBOX_RANKS;
}

static size_t
inline_most (int world_size)
{
    size_t bytes = (size_t) OUTBOX_INLINE_ALL / (size_t) world_size / LINE * LINE;
    return bytes < OUTBOX_INLINE ? bytes : OUTBOX_INLINE;
}

static size_t
slot_bytes (int world_size)
{
    size_t before = sizeof (struct header) + (size_t) world_size * sizeof (uint32_t);
    return round_up (before + inline_most (world_size) + sizeof (uint64_t), LINE);
}

static size_t
outbox_head (int world_size)
{
    return round_up ((OUTBOX_SLOTS + (size_t) world_size) * sizeof (uint64_t), LINE);
}

static size_t
outbox_bytes (int world_size)
{
    return outbox_head (world_size) + (size_t) world_size * OUTBOX_SLOTS * slot_bytes (world_size);
}

static void
close_gates (unsigned char *outboxes, int world_size)
{
    _Atomic uint64_t *gates = (void *) outboxes, *arrived = gates + OUTBOX_SLOTS;
    for (size_t i = 0; i < OUTBOX_SLOTS; i++)
        gates[i] = outbox_gate (OUTBOX_FIRST - 1);
    for (int i = 0; i < world_size; i++)
        arrived[i] = OUTBOX_FIRST;
}

/* ---- the memory ---- */

static size_t
outbox_at (size_t size)
{
    return PAGE + size * sizeof (struct counters) + size * STAGE_BYTES;
}

static size_t
arenas_at (size_t size, int world_size)
{
    size_t outboxes = outbox_fits ((int) size, world_size) ? outbox_bytes (world_size) : 0;
    return round_up (outbox_at (size) + outboxes, HUGE_PAGE);
}

static bool
map (size_t bytes)
{
    void *memory = mmap (NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, mpi.host.fd, 0);
    if (memory == MAP_FAILED)
        return false;
    madvise (memory, bytes, MADV_DONTDUMP);
    madvise (memory, bytes, MADV_HUGEPAGE);
    mpi.host.memory = memory;
    mpi.host.bytes = bytes;
    return true;
}

/* To exceed the limit would end the process by SIGXFSZ. */
static bool
may_be_written (size_t bytes)
{
    struct rlimit limit;
    return !getrlimit (RLIMIT_FSIZE, &limit) && (limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur);
}

/* The limit on address space counts these bytes, though they have no memory. */
static bool
may_be_mapped (size_t bytes)
{
    struct rlimit limit;
    return getrlimit (RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur / 2;
}

/* A signal makes fallocate() undo and fail. */
static bool
fill (size_t bytes)
{
    int result;
    do
        result = fallocate (mpi.host.fd, 0, 0, (off_t) bytes);
    while (result && errno == EINTR);
    return !result;
}

/* Arenas are sparse: each has room for all memory of this host, unless there are very many ranks, or limits. */
static bool
make_memory (size_t size, int world_size, uint64_t token)
{
    size_t memory = (size_t) sysconf (_SC_PHYS_PAGES) * (size_t) sysconf (_SC_PAGESIZE), arena = ARENA_LEAST;
    while (arena < memory && arena * 2 <= ARENAS_MOST / size)
        arena *= 2;
    mpi.host.fd = memfd_create ("accel-mpi", MFD_CLOEXEC);
    if (mpi.host.fd < 0)
        return false;
    for (; arena >= ARENA_LEAST; arena /= 2) {
        size_t bytes = arenas_at (size, world_size) + size * arena;
        if (!may_be_written (bytes) || !may_be_mapped (bytes) || ftruncate (mpi.host.fd, (off_t) bytes) || !map (bytes))
            continue;
        if (!fill (arenas_at (size, world_size)))
            return false;
        *memory_header () = (struct memory_header){ .token = token, .arena_bytes = arena };
        if (outbox_fits ((int) size, world_size))
            close_gates (mpi.host.memory + outbox_at (size), world_size);
        return true;
    }
    return false;
}

/* Processes of one namespace see each other's files. */
static uint64_t
identify_machine (void)
{
    char text[256] = "";
    struct stat space = { 0 };
    uint64_t hash = UINT64_C (14695981039346656037);
    FILE *file = fopen ("/proc/sys/kernel/random/boot_id", "re");
    if (!file || stat ("/proc/self/ns/pid", &space) || !fgets (text, sizeof text, file))
        getrandom (text, sizeof text - 1, 0); /* a name that no other job has */
    if (file)
        fclose (file);
    snprintf (text + 64, sizeof text - 64, "%llu", (unsigned long long) space.st_ino);
    for (size_t i = 0; i < sizeof text; i++)
        hash = (hash ^ (unsigned char) text[i]) * UINT64_C (1099511628211);
    return hash;
}

void
host_prepare (const struct accel_engine_job *job, struct host_info *own)
{
    *own = (struct host_info){ .machine = identify_machine (), .rank = job->local_rank, .size = job->local_world_size,
                               .pid = (int32_t) getpid (), .fd = -1 };
    if (job->local_rank || job->local_world_size == 1 || job->local_world_size == job->world_size
        || getrandom (&own->token, sizeof own->token, 0) != sizeof own->token)
        return;
    if (make_memory ((size_t) job->local_world_size, job->world_size, own->token))
        own->fd = mpi.host.fd;
    else
        host_close ();
}

static bool
attach (const struct host_info *first)
{
    char path[64];
    struct stat file;
    snprintf (path, sizeof path, "/proc/%d/fd/%d", first->pid, first->fd);
    mpi.host.fd = open (path, O_RDWR | O_CLOEXEC);
    return mpi.host.fd >= 0 && !fstat (mpi.host.fd, &file) && map ((size_t) file.st_size)
           && memory_header ()->token == first->token;
}

/* Which host rank @i is on: the first one that lacks a rank with its number there.  If all ranks are on one machine,
 * and only believe to be on several hosts, these are distinguished, too.
 * @param counts  [i], at the first rank of each host: ranks that were found
 * @return the first rank there, or -1 */
static int
find_first (const struct host_info *all, const int *counts, int i)
{
    for (int first = 0; first < i && all[i].rank; first++)
        if (counts[first] == all[i].rank && all[first].machine == all[i].machine && all[first].size == all[i].size)
            return first;
    return all[i].rank ? -1 : i;
}

/* @param[out] labels  [world_size] the first rank on the host of each  @return whether each host has all its ranks */
static bool
find_hosts (const struct host_info *all, int world_size, int *labels, int *counts)
{
    for (int i = 0; i < world_size; i++) {
        labels[i] = find_first (all, counts, i);
        if (labels[i] < 0)
            return false;
        counts[labels[i]]++;
    }
    for (int i = 0; i < world_size; i++)
        if (!all[i].rank && (counts[i] != all[i].size || (all[i].size > 1 && all[i].fd < 0)))
            return false;
    return true;
}

static struct topology *
find_topology (const struct accel_engine_job *job, const struct host_info *all)
{
    int *labels = calloc (2 * (size_t) job->world_size, sizeof *labels);
    struct topology *topology = NULL;
    if (labels && find_hosts (all, job->world_size, labels, labels + job->world_size))
        topology = topology_create (labels, job->world_size, job->rank);
    free (labels);
    return topology;
}

/* To be seen when they end: ranks of this host; if hosts are not known, those of this machine. */
static bool
watch (const struct accel_engine_job *job, const struct host_info *all, const int *peers)
{
    struct host *host = &mpi.host;
    const struct topology *topology = host->topology;
    host->processes = calloc ((size_t) job->world_size, sizeof *host->processes);
    host->world_size = host->processes ? job->world_size : 0;
    for (int i = 0; i < host->world_size; i++) {
        int number = topology ? topology->host_of[i] : 0;
        bool is_near = i != job->rank && all[i].machine == all[job->rank].machine;
        bool is_here = is_near && (!topology || number == topology->here);
        host->has_forwarders = host->has_forwarders && all[i].has_threads;
        host->processes[peers[i]]
            = (struct process){ .rank = i, .pid = all[i].pid, .host = number,
                                .is_forwarder = all[i].rank == number % all[i].size,
                                .fd = is_here ? (int) syscall (SYS_pidfd_open, all[i].pid, 0) : -1 };
    }
    return host->processes;
}

const struct process *
host_find_ended (int peer)
{
    if (!mpi.host.processes || mpi.host.processes[peer].has_ended)
        return mpi.host.processes ? &mpi.host.processes[peer] : NULL;
    if (mpi.host.processes[peer].fd < 0)
        return NULL;
    struct pollfd process = { .fd = mpi.host.processes[peer].fd, .events = POLLIN };
    return poll (&process, 1, 0) == 1 ? &mpi.host.processes[peer] : NULL;
}

void
host_note_ended (int rank)
{
    for (int i = 0; i < mpi.host.world_size; i++)
        if (mpi.host.processes[i].rank == rank)
            mpi.host.processes[i].has_ended = true;
}

bool
host_attach (const struct accel_engine_job *job, const struct host_info *all, const int *peers)
{
    struct host *host = &mpi.host;
    host->is_near = host->has_forwarders = true;
    host->topology = find_topology (job, all);
    if (!watch (job, all, peers) || !host->topology || !topology_shares_any (host->topology))
        return false;
    for (int i = 0; i < job->world_size; i++) {
        host->is_near = host->is_near && all[i].machine == all->machine;
        host->most = all[i].size > host->most ? all[i].size : host->most;
    }
    host->size = host->topology->size;
    host->rank = host->topology->rank;
    if (host->size == 1 && outbox_fits (host->most, job->world_size)) {
        if (!(host->outboxes = calloc (1, outbox_bytes (job->world_size))))
            return false;
        close_gates (host->outboxes, job->world_size);
    }
    host->is_forwarder = host->processes[peers[job->rank]].is_forwarder;
    return host->size == 1 || !host->rank || attach (&all[topology_rank (host->topology, host->topology->here, 0)]);
}

void
host_settle (void)
{
    struct host *host = &mpi.host;
    size_t size = (size_t) host->size;
    host->counters = &host->topology->alone;
    host->counters->read = OUTBOX_FIRST;
    host->outbox_inline = inline_most (host->world_size);
    host->slot_bytes = slot_bytes (host->world_size);
    host->outbox_head = outbox_head (host->world_size);
    if (size == 1)
        return;
    host->arena_bytes = memory_header ()->arena_bytes;

    host->counters = (struct counters *) (void *) (host->memory + PAGE);
    for (size_t i = 0; i < size; i++) {
        host->topology->counters[i] = &host->counters[i];
        host->topology->stages[i] = host->memory + PAGE + size * sizeof *host->counters + i * STAGE_BYTES;
    }
    if (outbox_fits (host->most, host->world_size))
        host->outboxes = host->memory + outbox_at (size);
    struct counters *own = &host->counters[host->rank];
    own->written = own->seen = own->read = OUTBOX_FIRST;
    host->arenas = host->memory + arenas_at (size, host->world_size);
    host->pid = (int) getpid ();
}

/* Memory that was not freed may still be written to. */
void
host_unshare (void)
{
    struct host *host = &mpi.host;
    if (host->memory && !host->extent_count)
        munmap (host->memory, host->bytes);
    if (host->fd >= 0)
        close (host->fd);
    if (host->size == 1)
        free (host->outboxes);
    free (host->extents);
    topology_destroy (host->topology);
    *host = (struct host){ .fd = -1, .processes = host->processes, .world_size = host->world_size };
}

void
host_close (void)
{
    struct host *host = &mpi.host;
    host_unshare ();
    for (int i = 0; i < host->world_size; i++)
        if (host->processes[i].fd >= 0)
            close (host->processes[i].fd);
    free (host->processes);
    *host = (struct host){ .fd = -1 };
}
