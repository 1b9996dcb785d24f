/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of this host: slots in the job segment, and the kernel's word on whether their processes live. */
#include <config.h>

#include "lib/comm/watch/watch_object.h"

#include "util/procfs.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The source is the first member. */
static struct watch_local *
local_of (struct watch_source *source)
{
    return (struct watch_local *) (void *) source;
}

static struct jobseg_slot *
slot_of (struct watch_local *local, int rank)
{
    return jobseg_slot (&local->segment, rank);
}

/* Process ids mean something only within one namespace: ranks in containers of their own are watched by the launcher
 * alone. */
static bool
same_space (const struct watch_local *local, const struct jobseg_slot *slot)
{
    uint32_t space = atomic_load (&slot->pid_space);
    return space && space == atomic_load (&local->source.own->pid_space);
}

/* A program that closes all descriptors closes ours, and may have opened others by the same numbers since. */
static bool
is_pidfd (int fd)
{
    return !syscall (SYS_pidfd_send_signal, fd, 0, NULL, 0) || (errno != EBADF && errno != EINVAL);
}

static void
forget (struct watch_peer *peer)
{
    if (peer->pidfd >= 0 && is_pidfd (peer->pidfd))
        close (peer->pidfd);
    peer->pidfd = -1;
}

/* A rank may be another process than last time. */
static void
follow (struct watch_local *local, int rank)
{
    struct jobseg_slot *slot = slot_of (local, rank);
    struct watch_peer *peer = &local->peers[rank];
    pid_t pid = atomic_load (&slot->pid);
    if (rank == local->rank || peer->pid == pid || !same_space (local, slot))
        return;
    forget (peer);
    peer->pid = pid;
    peer->pidfd = (int) syscall (SYS_pidfd_open, pid, 0);
}

static bool
has_ended (struct watch_peer *peer)
{
    if (!peer->pid)
        return false;
    struct pollfd poll_fd = { .fd = peer->pidfd, .events = POLLIN };
    if (peer->pidfd >= 0 && poll (&poll_fd, 1, 0) == 1) {
        if (is_pidfd (peer->pidfd))
            return true;
        peer->pidfd = -1;
    }
    return peer->pidfd < 0 && kill (peer->pid, 0) && errno == ESRCH;
}

static void
describe_end (const struct jobseg_slot *slot, const struct watch_peer *peer, char *text, size_t size)
{
    struct procfs_stat stat;
    /* The launcher learns it at the same moment; give it the time to write it down. */
    for (int i = 0; i < 100 && !atomic_load (&slot->exited); i++) {
        if (procfs_read_stat (peer->pid, &stat) && stat.state == 'Z') {
            jobseg_describe_exit (stat.exit_code, text, size);
            return;
        }
        nanosleep (&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
    if (atomic_load (&slot->exited))
        jobseg_describe_exit (atomic_load (&slot->wait_status), text, size);
    else
        snprintf (text, size, "ended (process %d)", (int) peer->pid);
}

static const struct jobseg_slot *
local_slot (struct watch_source *source, int rank)
{
    return slot_of (local_of (source), rank);
}

static bool
has_failed (struct watch_source *source, int rank)
{
    struct watch_local *local = local_of (source);
    return atomic_load (&slot_of (local, rank)->failed_generation) == local->generation;
}

/* What a rank that has opened again said when it gave up.  It may give up once more while we read. */
static bool
describe_failure (struct watch_source *source, int rank, char *text, size_t size)
{
    const struct jobseg_slot *slot = local_slot (source, rank);
    if (!has_failed (source, rank))
        return false;
    snprintf (text, size, "gave up: %.*s", (int) sizeof slot->reason, slot->reason);
    jobseg_fence_reads ();
    return has_failed (source, rank);
}

/* Only the kernel knows. */
static bool
is_dead (struct watch_local *local, int rank, char *text, size_t size)
{
    pthread_mutex_lock (&local->lock);
    follow (local, rank);
    bool ended = has_ended (&local->peers[rank]);
    if (ended)
        describe_end (slot_of (local, rank), &local->peers[rank], text, size);
    pthread_mutex_unlock (&local->lock);
    return ended;
}

static bool
is_gone (struct watch_source *source, int rank, char *text, size_t size)
{
    struct watch_local *local = local_of (source);
    struct jobseg_slot *slot = slot_of (local, rank);
    uint32_t generation = atomic_load (&slot->generation), state = atomic_load (&slot->state);
    if (rank == local->rank)
        return false;
    if (generation == local->generation && (state == JOBSEG_LEFT || state == JOBSEG_FAILED)) {
        jobseg_describe (slot, text, size);
        return true;
    }
    if (generation != local->generation && describe_failure (source, rank, text, size))
        return true;
    if (atomic_load (&slot->exited)) {
        jobseg_describe_exit (atomic_load (&slot->wait_status), text, size);
        return true;
    }
    /* Joining, an older generation is a rank still on its way; later a newer one has left us for its next program. */
    if (generation != local->generation) {
        snprintf (text, size, "has left the job and opened it again");
        return generation - local->generation < UINT32_MAX / 2;
    }
    return is_dead (local, rank, text, size);
}

void
watch_local_follow (struct watch_source *source, int rank)
{
    struct watch_local *local = local_of (source);
    pthread_mutex_lock (&local->lock);
    follow (local, rank);
    pthread_mutex_unlock (&local->lock);
}

struct watch_source *
watch_local_create (const struct jobseg *segment, int rank, int size, uint32_t generation)
{
    struct watch_local *local = calloc (1, sizeof *local + (size_t) size * sizeof *local->peers);
    if (!local)
        return NULL;
    *local = (struct watch_local){
        .source = { .slot = local_slot, .is_gone = is_gone, .has_failed = has_failed },
        .segment = *segment, .generation = generation, .rank = rank, .size = size,
        .lock = PTHREAD_MUTEX_INITIALIZER,
    };
    local->source.own = slot_of (local, rank);
    for (int i = 0; i < size; i++)
        local->peers[i].pidfd = -1;
    return &local->source;
}

void
watch_local_destroy (struct watch_source *source)
{
    struct watch_local *local = source ? local_of (source) : NULL;
    for (int rank = 0; local && rank < local->size; rank++)
        forget (&local->peers[rank]);
    free (local);
}
