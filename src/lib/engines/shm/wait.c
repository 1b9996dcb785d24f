/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for a rank's step: spin, yield, then sleep in a futex in slices, looking between them whether peers live. */
#include <config.h>

#include "lib/engines/shm/shm_private.h"

#include "lib/base/error.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SPINS = 8000, SPINS_CROWDED = 100, YIELDS = 20, SLEEP_EVERY = 16 };

/* Not the _PRIVATE kind: the word is shared between processes. */
void
shm_futex_wait (_Atomic uint32_t *word, uint32_t value, int64_t limit_ms)
{
    struct timespec limit = { .tv_sec = (time_t) (limit_ms / 1000), .tv_nsec = (long) (limit_ms % 1000) * 1000000 };
    syscall (SYS_futex, word, FUTEX_WAIT, value, &limit, NULL, 0);
}

void
shm_futex_wake (_Atomic uint32_t *word)
{
    syscall (SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Sleepers are noted post by post: those of the next step may come before those of this one are woken. */
void
shm_wake (struct shm_block *block, uint32_t parity)
{
    atomic_store (&block->sleepers[parity], 0);
    shm_futex_wake (&block->posts[parity].step);
}

static inline void
relax (void)
{
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause ();
#elif defined __aarch64__
    __asm__ volatile ("yield");
#endif
}

static bool
has_come (const struct shm_post *post, uint32_t step)
{
    return atomic_load_explicit (&post->step, memory_order_acquire) == step;
}

/* Look at every rank that is missing, the dead before those that only despaired because of them. */
static enum accel_status
look_at_peers (struct shm *shm, const struct accel_engine_call *call, struct accel_error *err)
{
    char why[ACCEL_ERROR_TEXT_SIZE], did[160], site[160];
    for (int despaired = 0; despaired < 2; despaired++)
        for (int rank = 0; rank < shm->size; rank++) {
            struct jobseg_slot *slot = shm_slot (shm, rank);
            struct shm_post *post = shm_post_of (shm, rank);
            if (has_come (post, shm->step) || shm_has_failed (shm, rank) != despaired
                || !shm_is_gone (shm, rank, why, sizeof why) || has_come (post, shm->step))
                continue;
            shm_describe_site (call->site, site, sizeof site);
            if (atomic_load (&slot->state) != JOBSEG_READY)
                return accel_fail (err, ACCEL_ERR_PEER, "rank %d %s; rank %d is waiting for it in %s",
                                   shm_name (shm, rank), why, shm->local_rank, site);
            jobseg_describe (slot, did, sizeof did);
            return accel_fail (err, ACCEL_ERR_PEER, "rank %d %s, %s; rank %d is waiting for it in %s",
                               shm_name (shm, rank), why, did, shm->local_rank, site);
        }
    return ACCEL_OK;
}

enum accel_status
shm_blame (struct shm *shm, const struct accel_engine_call *call, struct accel_error *err)
{
    char why[ACCEL_ERROR_TEXT_SIZE] = "", site[160];
    int rank = 0;
    while (rank < shm->size
           && (!shm_has_failed (shm, rank) || !shm_is_gone (shm, rank, why, sizeof why)))
        rank++;
    shm_describe_site (call->site, site, sizeof site);
    if (rank == shm->size)
        return accel_fail (err, ACCEL_ERR_PEER, "another rank gave up while rank %d was in %s", shm->local_rank,
                           site);
    return accel_fail (err, ACCEL_ERR_PEER, "rank %d %s; meanwhile rank %d was in %s", shm_name (shm, rank), why,
                       shm->local_rank, site);
}

static enum accel_status
time_is_out (struct shm *shm, const struct accel_engine_call *call, struct accel_error *err)
{
    char site[160], did[160], missing[ACCEL_ERROR_TEXT_SIZE] = "";
    size_t length = 0;
    for (int rank = 0; rank < shm->size && length < sizeof missing; rank++)
        if (!has_come (shm_post_of (shm, rank), shm->step)) {
            jobseg_describe (shm_slot (shm, rank), did, sizeof did);
            length += (size_t) snprintf (missing + length, sizeof missing - length, "%srank %d (%s)",
                                         length ? ", " : "", shm_name (shm, rank), did);
        }
    shm_describe_site (call->site, site, sizeof site);
    return accel_fail (err, ACCEL_ERR_TIMEOUT, "rank %d timed out after %u ms in %s, waiting for %s",
                       shm->local_rank, shm->timeout_ms, site, missing);
}

static void
sleep_on (struct shm *shm, int rank, struct shm_post *post, int64_t limit_ms)
{
    atomic_store (&shm->blocks[rank].sleepers[shm->step & 1], 1);
    uint32_t seen = atomic_load (&post->step);
    if (seen != shm->step)
        shm_futex_wait (&post->step, seen, limit_ms);
}

/* Spinning is the fastest way to wait for a rank on another processor and the slowest for one on this, which it keeps
 * from running.  Ranks that yield to each other stay on one processor though another may be idle; one that wakes up
 * goes there, so now and then we sleep at once. */
static bool
spin (struct shm *shm, int rank, const struct shm_post *post)
{
    bool here = atomic_load_explicit (&shm->blocks[rank].processor, memory_order_relaxed) == sched_getcpu ();
    int spins = here ? 0 : shm->crowded ? SPINS_CROWDED : SPINS;
    for (int i = 0; i < spins; i++) {
        if (has_come (post, shm->step))
            return true;
        relax ();
    }
    if (here && !shm->crowded && ++shm->yielded % SLEEP_EVERY == 0)
        return false;
    for (int i = 0; i < YIELDS; i++) {
        sched_yield ();
        if (has_come (post, shm->step))
            return true;
    }
    return false;
}

/* Ranks that came already are compared too, so that a disagreement is not hidden behind a third rank's long
 * computation. */
enum accel_status
shm_wait_for (struct shm *shm, int rank, const struct accel_engine_call *call, int64_t *deadline_ms,
              struct accel_error *err)
{
    struct shm_post *post = shm_post_of (shm, rank);
    if (spin (shm, rank, post))
        return ACCEL_OK;
    int64_t now = clock_ms ();
    if (!*deadline_ms)
        *deadline_ms = now + shm->timeout_ms;
    while (!has_come (post, shm->step)) {
        enum accel_status status = shm->described ? shm_compare (shm, err) : ACCEL_OK;
        if (!status)
            status = look_at_peers (shm, call, err);
        if (status || has_come (post, shm->step))
            return status;
        if (now >= *deadline_ms)
            return time_is_out (shm, call, err);
        sleep_on (shm, rank, post, *deadline_ms - now < SHM_SLICE_MS ? *deadline_ms - now : SHM_SLICE_MS);
        jobseg_beat (shm->slot);
        now = clock_ms ();
    }
    return ACCEL_OK;
}
