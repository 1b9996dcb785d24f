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

static struct jobseg_slot *
slot_of (const struct watch_source *source, int rank)
{
    return jobseg_slot (&source->segment, rank);
}

/* Process ids mean something only within one namespace: ranks in containers of their own are watched by the launcher
 * alone. */
static bool
same_space (const struct watch_source *source, const struct jobseg_slot *slot)
{
    uint32_t space = atomic_load (&slot->pid_space);
    return space && space == atomic_load (&source->own->pid_space);
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
follow (struct watch_source *source, int rank)
{
    struct jobseg_slot *slot = slot_of (source, rank);
    struct watch_peer *peer = &source->peers[rank];
    pid_t pid = atomic_load (&slot->pid);
    if (rank == source->rank || peer->pid == pid || !same_space (source, slot))
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

bool
watch_source_has_failed (const struct watch_source *source, int rank)
{
    return atomic_load (&slot_of (source, rank)->failed_generation) == source->generation;
}

/* What a rank that has opened again said when it gave up.  It may give up once more while we read. */
static bool
describe_failure (struct watch_source *source, int rank, char *text, size_t size)
{
    const struct jobseg_slot *slot = slot_of (source, rank);
    if (!watch_source_has_failed (source, rank))
        return false;
    snprintf (text, size, "gave up: %.*s", (int) sizeof slot->reason, slot->reason);
    jobseg_fence_reads ();
    return watch_source_has_failed (source, rank);
}

/* Only the kernel knows. */
static bool
is_dead (struct watch_source *source, int rank, char *text, size_t size)
{
    pthread_mutex_lock (&source->lock);
    follow (source, rank);
    bool ended = has_ended (&source->peers[rank]);
    if (ended)
        describe_end (slot_of (source, rank), &source->peers[rank], text, size);
    pthread_mutex_unlock (&source->lock);
    return ended;
}

bool
watch_source_is_gone (struct watch_source *source, int rank, char *text, size_t size)
{
    struct jobseg_slot *slot = slot_of (source, rank);
    uint32_t generation = atomic_load (&slot->generation), state = atomic_load (&slot->state);
    if (rank == source->rank)
        return false;
    if (generation == source->generation && (state == JOBSEG_LEFT || state == JOBSEG_FAILED)) {
        jobseg_describe (slot, text, size);
        return true;
    }
    if (generation != source->generation && describe_failure (source, rank, text, size))
        return true;
    if (atomic_load (&slot->exited)) {
        jobseg_describe_exit (atomic_load (&slot->wait_status), text, size);
        return true;
    }
    /* Joining, an older generation is a rank still on its way; later a newer one has left us for its next program. */
    if (generation != source->generation) {
        snprintf (text, size, "has left the job and opened it again");
        return generation - source->generation < UINT32_MAX / 2;
    }
    return is_dead (source, rank, text, size);
}

void
watch_source_follow (struct watch_source *source, int rank)
{
    pthread_mutex_lock (&source->lock);
    follow (source, rank);
    pthread_mutex_unlock (&source->lock);
}

struct watch_source *
watch_source_create (const struct jobseg *segment, int rank, int size, uint32_t generation)
{
    struct watch_source *source = calloc (1, sizeof *source + (size_t) size * sizeof *source->peers);
    if (!source)
        return NULL;
    *source = (struct watch_source){ .segment = *segment, .generation = generation, .rank = rank, .size = size,
                                     .own = jobseg_slot (segment, rank), .lock = PTHREAD_MUTEX_INITIALIZER };
    for (int i = 0; i < size; i++)
        source->peers[i].pidfd = -1;
    return source;
}

void
watch_source_destroy (struct watch_source *source)
{
    for (int rank = 0; source && rank < source->size; rank++)
        forget (&source->peers[rank]);
    free (source);
}
