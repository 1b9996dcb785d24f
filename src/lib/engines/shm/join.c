/* SPDX-License-Identifier: Apache-2.0 */
/* Joining: all local ranks meet in one generation, then local rank 0 lays out the memory and lets the others in.
 *
 * A generation is one round of accel_open().  A rank's script may run several programs one after the other; each joins
 * the generation after the one that was ready last, which is the same number for all, since nobody can have left a
 * generation that was never ready. */
#include <config.h>

#include "lib/engines/shm/shm_private.h"

#include "lib/base/error.h"
#include "util/procfs.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static bool
has_joined (const struct shm *shm, int rank)
{
    const struct jobseg_slot *slot = jobseg_slot (&shm->segment, rank);
    uint32_t state = atomic_load (&slot->state);
    return (state == JOBSEG_JOINING || state == JOBSEG_READY) && atomic_load (&slot->generation) == shm->generation;
}

/* A slot in use by another living process is that of a second rank with the same number.  By this process: it has
 * become this program by exec() without leaving, and its peers will hear that it has opened again. */
static enum accel_status
claim_slot (struct shm *shm, struct accel_error *err)
{
    struct jobseg_slot *slot = shm->slot;
    uint32_t state = atomic_load (&slot->state);
    pid_t pid = atomic_load (&slot->pid);
    bool active = state == JOBSEG_JOINING || state == JOBSEG_READY;
    if (active && pid != getpid () && atomic_load (&slot->pid_space) == procfs_pid_space () && !kill (pid, 0))
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_open: processes %d and %d are both rank %d", (int) pid,
                           (int) getpid (), shm->rank);
    shm->generation = atomic_load (&shm->segment.header->ready_generation) + 1;
    /* The old state goes first: with the new generation it would say that this rank has left that one. */
    atomic_store (&slot->state, JOBSEG_EMPTY);
    atomic_store (&slot->pid, getpid ());
    atomic_store (&slot->pid_space, procfs_pid_space ());
    if (atomic_load (&slot->failed_generation) == shm->generation) /* it gave up before all had joined */
        atomic_store (&slot->failed_generation, 0);
    atomic_store (&slot->generation, shm->generation);
    atomic_store (&slot->state, JOBSEG_JOINING);
    shm_futex_wake (&slot->state);
    return ACCEL_OK;
}

static enum accel_status
list_missing (const struct shm *shm, struct accel_error *err)
{
    char missing[ACCEL_ERROR_TEXT_SIZE] = "", did[160];
    size_t length = 0;
    for (int rank = 0; rank < shm->size && length < sizeof missing; rank++)
        if (!has_joined (shm, rank)) {
            jobseg_describe (jobseg_slot (&shm->segment, rank), did, sizeof did);
            length += (size_t) snprintf (missing + length, sizeof missing - length, "%srank %d (%s)",
                                         length ? ", " : "", rank, did);
        }
    return accel_fail (err, ACCEL_ERR_TIMEOUT, "accel_open: rank %d timed out after %u ms, waiting for %s",
                       shm->rank, shm->timeout_ms, length ? missing : "rank 0 to let it in");
}

/* The dead first, then those that gave up because of them. */
static enum accel_status
look_for_dead (struct shm *shm, struct accel_error *err)
{
    char why[ACCEL_ERROR_TEXT_SIZE];
    for (int despaired = 0; despaired < 2; despaired++)
        for (int rank = 0; rank < shm->size; rank++) {
            if (shm_has_failed (shm, rank) == despaired && shm_is_gone (shm, rank, why, sizeof why))
                return accel_fail (err, ACCEL_ERR_PEER, "accel_open: rank %d %s before all ranks had joined", rank,
                                   why);
        }
    return ACCEL_OK;
}

/* One wait of local rank 0: for a client of the rendezvous, or for the next slot to change. */
static enum accel_status
await_slot (struct shm *shm, const struct engine_job *job, int listener, int rank, struct accel_error *err)
{
    struct jobseg_slot *slot = jobseg_slot (&shm->segment, rank);
    uint32_t state = atomic_load (&slot->state);
    if (listener >= 0)
        return shm_rendezvous_serve (job, listener, 1, err);
    if (!has_joined (shm, rank))
        shm_futex_wait (&slot->state, state, SHM_SLICE_MS);
    return ACCEL_OK;
}

static enum accel_status
lead (struct shm *shm, const struct engine_job *job, int listener, struct accel_error *err)
{
    int64_t deadline = clock_ms () + shm->timeout_ms;
    for (int rank = 0; rank < shm->size;) {
        if (has_joined (shm, rank)) {
            shm_watch (shm, rank++);
            continue;
        }
        enum accel_status status = look_for_dead (shm, err);
        if (status)
            return status;
        if (clock_ms () >= deadline)
            return list_missing (shm, err);
        jobseg_beat (shm->slot);
        status = await_slot (shm, job, listener, rank, err);
        if (status)
            return status;
    }
    enum accel_status status = shm_lay_out (shm, err);
    if (status)
        return status;
    atomic_store (&shm->segment.header->ready_generation, shm->generation);
    shm_futex_wake (&shm->segment.header->ready_generation);
    return ACCEL_OK;
}

static enum accel_status
follow (struct shm *shm, struct accel_error *err)
{
    _Atomic uint32_t *ready = &shm->segment.header->ready_generation;
    int64_t deadline = clock_ms () + shm->timeout_ms;
    uint32_t seen;
    while ((seen = atomic_load (ready)) != shm->generation) {
        enum accel_status status = look_for_dead (shm, err);
        if (status)
            return atomic_load (ready) == shm->generation ? ACCEL_OK : status;
        if (clock_ms () >= deadline)
            return list_missing (shm, err);
        jobseg_beat (shm->slot);
        shm_futex_wait (ready, seen, SHM_SLICE_MS);
    }
    return ACCEL_OK;
}

enum accel_status
shm_join (struct shm *shm, struct engine_job *job, int listener, struct accel_error *err)
{
    enum accel_status status = claim_slot (shm, err);
    if (status)
        return status;
    struct accel_error mine;
    status = shm->rank == 0 ? lead (shm, job, listener, &mine) : follow (shm, &mine);
    if (!status)
        status = shm_map (shm, &mine);
    if (status) {
        shm_leave (shm, JOBSEG_FAILED, mine.text);
        if (err)
            *err = mine;
        return status;
    }
    for (int rank = 0; rank < shm->size; rank++)
        shm_watch (shm, rank);
    atomic_store (&shm->slot->state, JOBSEG_READY);
    return ACCEL_OK;
}

static void *
map (const struct shm *shm, size_t from, size_t to)
{
    return mmap (NULL, to - from, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, shm->segment.fd, (off_t) from);
}

enum accel_status
shm_map (struct shm *shm, struct accel_error *err)
{
    shm_read_layout (shm);
    const struct shm_layout *layout = &shm->layout;
    void *control = map (shm, layout->blocks, layout->arenas), *arenas = map (shm, layout->arenas, layout->end);
    if (control != MAP_FAILED) {
        shm->blocks = control;
        shm->stages = (unsigned char *) control + (layout->stages - layout->blocks);
    }
    if (arenas != MAP_FAILED)
        shm->arenas = arenas;
    if (control == MAP_FAILED || arenas == MAP_FAILED)
        return accel_fail_errno (err, "accel_open: cannot map %zu bytes of shared memory (check ulimit -v)",
                                 layout->end - layout->blocks);
    /* Terabytes of holes in a core file help nobody; huge pages are a wish. */
    madvise (arenas, layout->end - layout->arenas, MADV_DONTDUMP);
    madvise (arenas, layout->end - layout->arenas, MADV_HUGEPAGE);
    return ACCEL_OK;
}

void
shm_unmap (struct shm *shm)
{
    const struct shm_layout *layout = &shm->layout;
    if (shm->blocks)
        munmap (shm->blocks, layout->arenas - layout->blocks);
    /* Memory that was not freed may still be written to: by a thread that never came back from a program's function. */
    if (shm->arenas && !shm->arena.count)
        munmap (shm->arenas, layout->end - layout->arenas);
}
