/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for a rank's step: spin, yield, then sleep in a futex in slices, looking between them whether peers live.
 *
 * A processor that yields to a rank is back as soon as that has to wait.  One that yields to another program is back
 * when the time slice of that has passed, milliseconds later; and a thread that has slept goes before such programs
 * when it is woken.  So who was away for that long sleeps at once the next times, and then tries again. */
#include <config.h>

#include "lib/engines/shm/shm_private.h"

#include <stddef.h>
#include <sched.h>
#include <unistd.h>

enum { SPINS = 8000, YIELDS = 20, SLEEP_EVERY = 16, AWAY_NS = 1000000 };

bool
shm_yield (struct shm *shm)
{
    struct shm_sleeps *sleeps = &shm->sleeps;
    if (sleeps->left) {
        sleeps->left--;
        return false;
    }
    int64_t began_ns = clock_ns ();
    sched_yield ();
    bool is_away = clock_ns () - began_ns > AWAY_NS;
    sleeps->left = is_away ? SHM_SLEEPS << sleeps->doublings : 0;
    if (is_away && sleeps->doublings < SHM_SLEEP_DOUBLINGS)
        sleeps->doublings++;
    else if (!is_away && sleeps->doublings)
        sleeps->doublings--;
    return !is_away;
}

/* Sleepers are noted post by post: those of the next step may come before those of this one are woken. */
void
shm_wake (struct shm_block *block, uint32_t parity)
{
    atomic_store (&block->sleepers[parity], 0);
    futex_wake (&block->posts[parity].step);
}

void
shm_wake_all (struct shm *shm, bool failed)
{
    if (!shm->blocks || getpid () != shm->pid)
        return;
    if (failed)
        atomic_store (&shm->blocks->failed, 1);
    for (int parity = 0; parity < 2; parity++)
        futex_wake (&shm->blocks[shm->rank].posts[parity].step);
}

static bool
has_come (const struct shm_post *post, uint32_t step)
{
    return atomic_load_explicit (&post->step, memory_order_acquire) == step;
}

bool
shm_awaits (void *transport, int rank)
{
    const struct shm *shm = transport;
    return !has_come (shm_post_of (shm, rank), shm->step);
}

static bool
agree (const struct shm_post *a, const struct shm_post *b)
{
    return a->count == b->count && a->form == b->form && !memcmp (&a->kind, &b->kind, 8);
}

/* Faster than reading ledgers, which have the words for what differs. */
enum accel_status
shm_compare (const struct shm *shm, const struct accel_engine_call *call, struct accel_error *err)
{
    _Static_assert (offsetof (struct shm_post, root) - offsetof (struct shm_post, kind) == 4, "compared as 8 bytes");
    const struct shm_post *first = shm_post_of (shm, 0);
    for (int rank = 1; rank < shm->size; rank++)
        if (!agree (first, shm_post_of (shm, rank)))
            return call->helpers->mismatch (call->helpers->context, call, 0, rank, err);
    return ACCEL_OK;
}

static void
sleep_on (struct shm *shm, int rank, struct shm_post *post, int64_t limit_ms)
{
    atomic_store (&shm->blocks[rank].sleepers[shm->step & 1], 1);
    uint32_t seen = atomic_load (&post->step);
    if (seen != shm->step)
        futex_wait (&post->step, seen, limit_ms);
}

/* Spinning is the fastest way to wait for a rank on another processor and the slowest for one on this, which it keeps
 * from running.  Ranks that yield to each other stay on one processor though another may be idle; one that wakes up
 * goes there, so now and then we sleep at once. */
static bool
spin (struct shm *shm, int rank, const struct shm_post *post)
{
    bool here = atomic_load_explicit (&shm->blocks[rank].processor, memory_order_relaxed) == sched_getcpu ();
    int spins = here ? 0 : shm_is_crowded (shm) ? SHM_SPINS_CROWDED : SPINS;
    for (int i = 0; i < spins; i++) {
        if (has_come (post, shm->step))
            return true;
        relax ();
    }
    if (here && !shm->crowded && ++shm->yielded % SLEEP_EVERY == 0)
        return false;
    for (int i = 0; i < YIELDS && shm_yield (shm); i++)
        if (has_come (post, shm->step))
            return true;
    return false;
}

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
        const struct accel_engine_helpers *helpers = call->helpers;
        enum accel_status status = helpers->look (helpers->context, call, err);
        if (status || has_come (post, shm->step))
            return status;
        if (shm_has_failed (shm, shm->rank)) /* this process has given up, on another thread */
            return helpers->peer_failed (helpers->context, call, shm->rank, err);
        if (now >= *deadline_ms)
            return helpers->timed_out (helpers->context, call, err);
        sleep_on (shm, rank, post, *deadline_ms - now < SHM_SLICE_MS ? *deadline_ms - now : SHM_SLICE_MS);
        now = clock_ms ();
    }
    return ACCEL_OK;
}
