/* SPDX-License-Identifier: Apache-2.0 */
/* Send and receive between two ranks of the shm engine: no step of the group is used, no other rank takes part.
 *
 * Each rank has one mail: its only message on the way, for a send ends when the receiver has taken all of it.  `full`
 * says which message it is (a count) and for whom (the rank, in the low bits); `taken` becomes equal to it once the
 * receiver has copied.  Only the rank that a message is for may take it, so it does not change for that rank.
 *
 * The bytes lie in the sender's arena, or travel piece by piece through that of its two stage pieces which it fills
 * next: all ranks have read what was there, and the sender fills it in a collective only after this send has ended. */
#include <config.h>

#include "lib/engines/shm/shm_private.h"

#include "util/memory.h"

enum { RANK_BITS = 13, RANK_MASK = (1 << RANK_BITS) - 1, SPINS = 4000, YIELDS = 20 };
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

static bool
spin (struct shm *shm, const struct accel_engine_call *call)
{
    int spins = shm_is_crowded (shm) ? SHM_SPINS_CROWDED : SPINS;
    for (int i = 0; i < spins; i++)
        if (is_ready (shm, call))
            return true;
    for (int i = 0; i < YIELDS && shm_yield (shm); i++)
        if (is_ready (shm, call))
            return true;
    return false;
}

static enum accel_status
await (struct shm *shm, const struct accel_engine_call *call, struct accel_error *err)
{
    const struct accel_engine_helpers *helpers = call->helpers;
    bool sends = call->kind == ACCEL_ENGINE_SEND;
    struct shm_mail *mail = mail_of (shm, sends ? shm->rank : call->root);
    _Atomic uint32_t *word = sends ? &mail->taken : &mail->full;
    _Atomic uint32_t *sleepers = sends ? &mail->sender_sleeps : &mail->receivers_sleep;
    if (spin (shm, call))
        return ACCEL_OK;
    int64_t now = clock_ms (), deadline_ms = now + shm->timeout_ms;
    while (!is_ready (shm, call)) {
        enum accel_status status = helpers->look (helpers->context, call, err);
        if (!status && now >= deadline_ms)
            status = helpers->timed_out (helpers->context, call, err);
        if (status)
            return is_ready (shm, call) ? ACCEL_OK : status;
        /* The word, then whether it is time: who changes it later sees the sleeper, as in wait.c. */
        atomic_store (sleepers, 1);
        uint32_t seen = atomic_load (word);
        if (!is_ready (shm, call))
            futex_wait (word, seen, SHM_SLICE_MS);
        now = clock_ms ();
    }
    return ACCEL_OK;
}

static void
publish (_Atomic uint32_t *word, _Atomic uint32_t *sleepers, uint32_t value)
{
    atomic_exchange (word, value);
    if (atomic_exchange (sleepers, 0))
        futex_wake (word);
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

/* A sender that has given up while this rank copied may have changed what was there. */
static enum accel_status
check_sender (const struct shm *shm, const struct accel_engine_call *call, struct accel_error *err)
{
    jobseg_fence_reads ();
    return shm_has_failed (shm, call->root) ? call->helpers->peer_failed (call->helpers->context, call, call->root, err)
                                            : ACCEL_OK;
}

enum accel_status
shm_recv (struct shm *shm, const struct accel_engine_call *call, struct accel_error *err)
{
    struct shm_mail *mail = mail_of (shm, call->root);
    size_t bytes = call->count * call->element_bytes, done = 0;
    enum accel_status status;
    do {
        status = await (shm, call, err);
        /* Both sides count the same: pieces are cut from the same number of bytes. */
        if (!status && (mail->count != call->count || mail->dtype != call->dtype))
            status = call->helpers->mismatch (call->helpers->context, call, shm->rank, call->root, err);
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
