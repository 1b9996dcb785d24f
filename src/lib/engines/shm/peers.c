/* SPDX-License-Identifier: Apache-2.0 */
/* Whether other ranks still live, and how they ended. */
#include <config.h>

#include "lib/engines/shm/shm_private.h"

#include "util/procfs.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>

/* Process ids mean something only within one namespace: ranks in containers of their own are watched by the launcher
 * alone. */
static bool
same_space (const struct shm *shm, const struct jobseg_slot *slot)
{
    uint32_t space = atomic_load (&slot->pid_space);
    return space && space == atomic_load (&shm->slot->pid_space);
}

void
shm_watch (struct shm *shm, int rank)
{
    struct jobseg_slot *slot = shm_slot (shm, rank);
    struct shm_peer *peer = &shm->peers[rank];
    pid_t pid = atomic_load (&slot->pid);
    if (rank == shm->rank || peer->pid == pid || !same_space (shm, slot))
        return;
    if (peer->pidfd >= 0)
        close (peer->pidfd);
    peer->pid = pid;
    peer->pidfd = (int) syscall (SYS_pidfd_open, pid, 0);
}

void
shm_unwatch (struct shm *shm)
{
    for (int rank = 0; rank < shm->size; rank++)
        if (shm->peers[rank].pidfd >= 0)
            close (shm->peers[rank].pidfd);
}

static bool
has_ended (const struct shm_peer *peer)
{
    if (!peer->pid)
        return false;
    if (peer->pidfd < 0)
        return kill (peer->pid, 0) && errno == ESRCH;
    struct pollfd poll_fd = { .fd = peer->pidfd, .events = POLLIN };
    return poll (&poll_fd, 1, 0) == 1;
}

static void
describe_end (struct shm *shm, int rank, char *text, size_t size)
{
    struct jobseg_slot *slot = shm_slot (shm, rank);
    const struct shm_peer *peer = &shm->peers[rank];
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
shm_has_failed (const struct shm *shm, int rank)
{
    return atomic_load (&shm_slot (shm, rank)->failed_generation) == shm->generation;
}

/* What a rank that has opened again said when it gave up.  It may give up once more while we read. */
static bool
describe_failure (const struct shm *shm, int rank, char *text, size_t size)
{
    const struct jobseg_slot *slot = shm_slot (shm, rank);
    if (!shm_has_failed (shm, rank))
        return false;
    snprintf (text, size, "gave up: %.*s", (int) sizeof slot->reason, slot->reason);
    jobseg_fence_reads ();
    return shm_has_failed (shm, rank);
}

bool
shm_is_gone (struct shm *shm, int rank, char *text, size_t size)
{
    struct jobseg_slot *slot = shm_slot (shm, rank);
    uint32_t generation = atomic_load (&slot->generation), state = atomic_load (&slot->state);
    if (rank == shm->rank)
        return false;
    if (generation == shm->generation && (state == JOBSEG_LEFT || state == JOBSEG_FAILED)) {
        jobseg_describe (slot, text, size);
        return true;
    }
    if (generation != shm->generation && describe_failure (shm, rank, text, size))
        return true;
    if (atomic_load (&slot->exited)) {
        jobseg_describe_exit (atomic_load (&slot->wait_status), text, size);
        return true;
    }
    /* Joining, an older generation is a rank still on its way; later a newer one has left us for its next program. */
    if (generation != shm->generation) {
        snprintf (text, size, "has left the job and opened it again");
        return generation - shm->generation < UINT32_MAX / 2;
    }
    shm_watch (shm, rank);
    if (!has_ended (&shm->peers[rank]))
        return false;
    describe_end (shm, rank, text, size);
    return true;
}

void
shm_leave (struct shm *shm, enum jobseg_state state, const char *reason)
{
    struct jobseg_slot *slot = shm->slot;
    if (getpid () != shm->pid)
        return;
    /* Its first reason stays, be it of a group or of the world. */
    if (atomic_load (&slot->state) != JOBSEG_FAILED) {
        if (reason) {
            atomic_store (&slot->failed_generation, 0);
            snprintf (slot->reason, sizeof slot->reason, "%s", reason);
        }
        if (state == JOBSEG_FAILED)
            atomic_store (&slot->failed_generation, shm->generation);
        atomic_store (&slot->state, state);
    }
    if (!shm->blocks)
        return;
    if (state == JOBSEG_FAILED)
        atomic_store (&shm->blocks->failed, 1);
    for (int parity = 0; parity < 2; parity++)
        shm_futex_wake (&shm->blocks[shm->rank].posts[parity].step);
}
