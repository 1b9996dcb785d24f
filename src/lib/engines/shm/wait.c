/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for a rank's step: spin, yield, then sleep in a futex in slices, looking between them whether peers live. */
#include <config.h>

#include "lib/engines/shm/shm_private.h"

#include <stddef.h>
#include <sched.h>
#include <unistd.h>

enum { SPINS = 8000, SPINS_CROWDED = 100, YIELDS = 20, SLEEP_EVERY = 16 };

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
