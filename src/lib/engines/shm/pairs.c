/* SPDX-License-Identifier: Apache-2.0 */
/* Send and receive between two ranks of the shm engine: no step of the group is taken, no other rank takes part.
 *
 * Each rank has one mail: its only message on the way, for a send ends when the receiver has taken all of it.  `full`
 * says which message it is (a count) and for whom (the rank, in the low bits); `taken` becomes equal to it once the
 * receiver has copied.  Only the rank that a message is for may take it, so it stands still for that rank.
 *
 * The bytes lie in the sender's arena, or travel piece by piece through that of its two stage pieces which it fills
 * next: all ranks have read what was there, and the sender fills it in a collective only after this send has ended. */
#include <config.h>

#include "lib/engines/shm/shm_private.h"

#include "lib/base/error.h"
#include "util/memory.h"

enum { RANK_BITS = 13, RANK_MASK = (1 << RANK_BITS) - 1, SPINS = 4000, SPINS_CROWDED = 100, YIELDS = 20 };
_Static_assert ((int) JOBSEG_MAX_LOCAL <= (int) RANK_MASK, "a rank fits into a mail's word");

static struct shm_mail *
mail_of (const struct shm *shm, int rank)
{
    return &shm->blocks[rank].mail;
}

/* Whether rank @from has a message on the way, and for whom. */
static bool
on_the_way (const struct shm *shm, int from, uint32_t *word)
{
    const struct shm_mail *mail = mail_of (shm, from);
    *word = atomic_load (&mail->full);
    return *word != atomic_load (&mail->taken);
}

/* Whether what this call waits for has happened. */
static bool
is_ready (const struct shm *shm, const struct accel_engine_call *call)
{
    uint32_t word;
    if (call->kind == ACCEL_ENGINE_SEND)
        return !on_the_way (shm, shm->rank, &word);
    return on_the_way (shm, call->root, &word) && (word & RANK_MASK) == (uint32_t) shm->rank;
}

/* Whether senders wait for each other in a circle that this rank is in.  @trace is the messages on the way there. */
static bool
leads_back (const struct shm *shm, uint64_t *trace)
{
    int rank = shm->rank;
    *trace = 0;
    for (int i = 0; i < shm->size; i++) {
        uint32_t word;
        if (!on_the_way (shm, rank, &word))
            return false;
        *trace = *trace * 31 + word;
        rank = (int) (word & RANK_MASK);
        if (rank == shm->rank)
            return true;
    }
    return false;
}

/* A rank with a message on the way is in its send.  What was there at both looks was there between them, all of it. */
static bool
is_circle (const struct shm *shm)
{
    uint64_t first, second;
    return leads_back (shm, &first) && leads_back (shm, &second) && first == second;
}

/* Whether it is certain that this wait is in vain.  A partner that is found elsewhere may have done its part before. */
static enum accel_status
look (struct shm *shm, const struct accel_engine_call *call, struct accel_error *err)
{
    int partner = call->root;
    char why[ACCEL_ERROR_TEXT_SIZE], site[160];
    const struct jobseg_slot *slot = shm_slot (shm, partner);
    const struct shm_post *next = &shm->blocks[partner].posts[(shm->step + 1) & 1];
    shm_describe_site (call->site, site, sizeof site);
    if (shm_is_gone (shm, partner, why, sizeof why) && !is_ready (shm, call))
        return accel_fail (err, ACCEL_ERR_PEER, "rank %d %s; rank %d is waiting for it in %s",
                           shm_name (shm, partner), why, shm->local_rank, site);
    if (atomic_load (&next->step) == shm->step + 1 && !is_ready (shm, call)) {
        jobseg_describe (slot, why, sizeof why);
        return accel_fail (err, ACCEL_ERR_PEER,
                           "rank %d is waiting for all ranks, %s, while rank %d is waiting for it in %s",
                           shm_name (shm, partner), why, shm->local_rank, site);
    }
    if (call->kind == ACCEL_ENGINE_SEND && is_circle (shm)) {
        jobseg_describe (slot, why, sizeof why);
        return accel_fail (err, ACCEL_ERR_PEER,
                           "ranks are sending in a cycle and none is receiving: rank %d in %s to rank %d, which is %s",
                           shm->local_rank, site, shm_name (shm, partner), why);
    }
    return ACCEL_OK;
}

static enum accel_status
time_is_out (struct shm *shm, const struct accel_engine_call *call, struct accel_error *err)
{
    char site[160], did[160];
    shm_describe_site (call->site, site, sizeof site);
    jobseg_describe (shm_slot (shm, call->root), did, sizeof did);
    return accel_fail (err, ACCEL_ERR_TIMEOUT, "rank %d timed out after %u ms in %s, waiting for rank %d (%s)",
                       shm->local_rank, shm->timeout_ms, site, shm_name (shm, call->root), did);
}

static bool
spin (const struct shm *shm, const struct accel_engine_call *call)
{
    int spins = shm->crowded ? SPINS_CROWDED : SPINS;
    for (int i = 0; i < spins; i++)
        if (is_ready (shm, call))
            return true;
    for (int i = 0; i < YIELDS; i++) {
        sched_yield ();
        if (is_ready (shm, call))
            return true;
    }
    return false;
}

static enum accel_status
await (struct shm *shm, const struct accel_engine_call *call, struct accel_error *err)
{
    bool sends = call->kind == ACCEL_ENGINE_SEND;
    struct shm_mail *mail = mail_of (shm, sends ? shm->rank : call->root);
    _Atomic uint32_t *word = sends ? &mail->taken : &mail->full;
    _Atomic uint32_t *sleepers = sends ? &mail->sender_sleeps : &mail->receivers_sleep;
    if (spin (shm, call))
        return ACCEL_OK;
    int64_t now = clock_ms (), deadline_ms = now + shm->timeout_ms;
    while (!is_ready (shm, call)) {
        enum accel_status status = look (shm, call, err);
        if (!status && now >= deadline_ms && !is_ready (shm, call))
            status = time_is_out (shm, call, err);
        if (status)
            return status;
        /* The word, then whether it is time: who changes it later sees the sleeper, as in wait.c. */
        atomic_store (sleepers, 1);
        uint32_t seen = atomic_load (word);
        if (!is_ready (shm, call))
            shm_futex_wait (word, seen, SHM_SLICE_MS);
        jobseg_beat (shm->slot);
        now = clock_ms ();
    }
    return ACCEL_OK;
}

static void
publish (_Atomic uint32_t *word, _Atomic uint32_t *sleepers, uint32_t value)
{
    atomic_exchange (word, value);
    if (atomic_exchange (sleepers, 0))
        shm_futex_wake (word);
}

enum accel_status
shm_send (struct shm *shm, const struct accel_engine_call *call, struct accel_error *err)
{
    struct shm_mail *mail = mail_of (shm, shm->rank);
    size_t bytes = call->count * call->element_bytes, done = 0;
    size_t piece = (size_t) (shm_piece_of (shm, shm->rank) - shm->stages);
    enum accel_status status;
    mail->count = call->count;
    mail->dtype = (uint8_t) call->dtype;
    mail->arena = shm_offset (shm, call->send, bytes);
    mail->piece = piece;
    do {
        size_t part = bytes;
        if (mail->arena == SHM_FOREIGN) {
            part = bytes - done < SHM_PIECE ? bytes - done : SHM_PIECE;
            if (part)
                memory_copy (shm->stages + piece, (const char *) call->send + done, part);
        }
        shm->mails++;
        publish (&mail->full, &mail->receivers_sleep, shm->mails << RANK_BITS | (uint32_t) call->root);
        status = await (shm, call, err);
        done += part;
    } while (!status && done < bytes);
    return status;
}

/* Both sides count the same: pieces are cut from the same number of bytes. */
static enum accel_status
compare (struct shm *shm, const struct shm_mail *mail, const struct accel_engine_call *call, struct accel_error *err)
{
    char there[160], here[160];
    if (mail->count == call->count && mail->dtype == call->dtype)
        return ACCEL_OK;
    jobseg_describe (shm_slot (shm, call->root), there, sizeof there); /* it waits in the call that sends */
    shm_describe_site (call->site, here, sizeof here);
    return accel_fail (err, ACCEL_ERR_PEER,
                       "rank %d sends %s x %llu %s, rank %d expects %s x %llu in %s",
                       shm_name (shm, call->root), accel_dtype_name (mail->dtype), (unsigned long long) mail->count,
                       there, shm->local_rank,
                       accel_dtype_name (call->dtype), (unsigned long long) call->count, here);
}

/* A sender that has given up while this rank copied may have changed what was there. */
static enum accel_status
check_sender (struct shm *shm, const struct accel_engine_call *call, struct accel_error *err)
{
    char why[ACCEL_ERROR_TEXT_SIZE], site[160];
    shm_fence_reads ();
    if (!shm_has_failed (shm, call->root) || !shm_is_gone (shm, call->root, why, sizeof why))
        return ACCEL_OK;
    shm_describe_site (call->site, site, sizeof site);
    return accel_fail (err, ACCEL_ERR_PEER, "rank %d %s; meanwhile rank %d was in %s",
                       shm_name (shm, call->root), why, shm->local_rank, site);
}

enum accel_status
shm_recv (struct shm *shm, const struct accel_engine_call *call, struct accel_error *err)
{
    struct shm_mail *mail = mail_of (shm, call->root);
    size_t bytes = call->count * call->element_bytes, done = 0;
    enum accel_status status;
    do {
        status = await (shm, call, err);
        if (!status)
            status = compare (shm, mail, call, err);
        if (status)
            break;
        bool direct = mail->arena != SHM_FOREIGN;
        size_t part = direct || bytes - done < SHM_PIECE ? bytes - done : SHM_PIECE;
        if (part)
            memory_copy ((char *) call->recv + done,
                         direct ? shm->arenas + mail->arena : shm->stages + mail->piece, part);
        done += part;
        status = check_sender (shm, call, err);
        if (status)
            break;
        publish (&mail->taken, &mail->sender_sleeps, atomic_load (&mail->full));
    } while (done < bytes);
    return status;
}
