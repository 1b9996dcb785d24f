/* SPDX-License-Identifier: Apache-2.0 */
/* Control messages of the world on several hosts.
 *
 * Each rank writes what it calls, and small data, on a board in the memory of its host, where the other ranks of the
 * host read it.  The last one to write sends all of the host's messages in one bundle to each rank of the other hosts:
 * as many messages of MPI as there are ranks elsewhere, instead of as many for each rank, and nobody has to be in a
 * call of the library to pass on what others have written.  Where a rank is late, another one sends what there is
 * after a while, so that all hosts know who is missing; from then on, each sends its own.
 *
 * Other messages go from rank to rank by MPI, and may overtake bundles.  So each says how many of the other kind come
 * before it. */
#include <config.h>

#include "engines/mpi/mpi_private.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define LATE (UINT64_C (1) << 31) /* in a gate, above the ranks that have come */

static size_t
round_up (size_t value, size_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* Where small data is in a message: after the header, and what the sender has sent to each rank by MPI. */
static size_t
data_at (void)
{
    return round_up (sizeof (struct header) + (size_t) mpi_host.world_size * sizeof (uint32_t), sizeof (uint64_t));
}

static size_t
entry_bytes (const struct header *header)
{
    return round_up (data_at () + header->inline_bytes, sizeof (uint64_t));
}

bool
boards_serve (const struct team *team, const struct accel_engine_call *call)
{
    return mpi_host.boards && !team->place
           && (call->kind == ACCEL_ENGINE_BARRIER || call->kind == ACCEL_ENGINE_ALL_REDUCE
               || call->kind == ACCEL_ENGINE_ALL_GATHER || call->kind == ACCEL_ENGINE_BROADCAST);
}

static char *
slot_of (int local, uint64_t serial)
{
    size_t slot = (size_t) local * BOARD_SLOTS + (size_t) (serial % BOARD_SLOTS);
    return (char *) mpi_host.boards + BOARD_SLOTS * sizeof (uint64_t) + slot * mpi_host.slot_bytes;
}

/* @return local rank, or -1: it is on another host */
static int
local_of (int rank)
{
    int local = rank - mpi_host.first;
    return local >= 0 && local < mpi_host.size ? local : -1;
}

static uint64_t
bit_of (int local)
{
    return UINT64_C (1) << local;
}

static uint64_t
all_here (void)
{
    return bit_of (mpi_host.size) - 1;
}

/* Add @bits to the gate of a call.  A later call may have it already, whose bits must stay: then all ranks have come.
 * @return what was there */
static uint64_t
pass_gate (uint64_t serial, uint64_t bits)
{
    _Atomic uint64_t *gate = (_Atomic uint64_t *) (void *) mpi_host.boards + serial % BOARD_SLOTS;
    uint64_t own = board_gate (serial), was = atomic_load (gate), before;
    do {
        int32_t newer = (int32_t) ((uint32_t) (was >> 32) - (uint32_t) (own >> 32)); /* tags start anew at 0 */
        if (newer > 0)
            return all_here ();
        before = newer ? own : was;
    } while (!atomic_compare_exchange_weak (gate, &was, before | bits));
    return before & UINT32_MAX;
}

/* What the ranks of @mask have written.  @return its size; @to may be NULL */
static size_t
pack (const struct flight *flight, uint64_t mask, char *to)
{
    struct header header = { .session = mpi_world.session, .called = { .kind = BUNDLE }, .rank = flight->team->rank };
    size_t bytes = sizeof header;
    for (int i = 0; i < mpi_host.size; i++)
        if (mask & bit_of (i)) {
            const char *slot = slot_of (i, flight->serial);
            size_t entry = entry_bytes ((const struct header *) (const void *) slot);
            if (to)
                memcpy (to + bytes, slot, entry);
            bytes += entry;
        }
    header.inline_bytes = (uint32_t) (bytes - sizeof header);
    if (to)
        memcpy (to, &header, sizeof header);
    return bytes;
}

/* Send it to all other hosts.  What MPI does not send at once is a part of the call, which ends when it has gone. */
static void
send_bundle (struct flight *flight, uint64_t mask)
{
    size_t bytes = pack (flight, mask, NULL);
    char *parcel = parcel_take (bytes), *bundle = parcel ? parcel : (flight->control = malloc (bytes));
    flight->is_sent = true;
    if (!bundle) {
        world_check (MPI_ERR_NO_MEM, "memory for messages");
        return;
    }
    pack (flight, mask, bundle);
    for (int i = mpi_host.size; i < flight->team->size; i++) {
        int rank = (mpi_host.first + i) % flight->team->size;
        if (parcel)
            parcel_send (flight->team->peers[rank], bytes);
        else
            post_control (flight, rank, bundle, bytes);
    }
}

/* What others wrote for a call has been read here, and what this rank wrote has been sent. */
static void
mark_seen (const struct team *team)
{
    uint64_t seen = atomic_load_explicit (&mpi_host.marks[mpi_host.rank].written, memory_order_relaxed);
    for (int i = mpi_host.first; i < mpi_host.first + mpi_host.size; i++)
        if (i != team->rank && team->matched[i] < seen)
            seen = team->matched[i];
    atomic_store_explicit (&mpi_host.marks[mpi_host.rank].seen, seen, memory_order_release);
}

/* No rank of the host needs what is in the slot, or its gate, any more. */
static bool
is_free (uint64_t serial)
{
    for (int i = 0; i < mpi_host.size; i++)
        if (i != mpi_host.rank
            && atomic_load_explicit (&mpi_host.marks[i].seen, memory_order_acquire) + BOARD_SLOTS <= serial)
            return false;
    return true;
}

static void
write_down (struct flight *flight)
{
    const struct team *team = flight->team;
    const struct leg *leg = &flight->legs[(team->rank + 1) % team->size]; /* all get the same */
    size_t data = leg->out_bytes <= mpi_host.board_inline ? leg->out_bytes : 0;
    char *slot = slot_of (mpi_host.rank, flight->serial);
    struct header header = flight_header (flight, data);
    header.collectives = flight->serial;
    memcpy (slot, &header, sizeof header);
    memcpy (slot + sizeof header, flight->pairs, (size_t) team->size * sizeof *flight->pairs);
    if (data)
        memcpy (slot + data_at (), leg->out, data);
    uint64_t own = bit_of (mpi_host.rank), before = pass_gate (flight->serial, own);
    atomic_store_explicit (&mpi_host.marks[mpi_host.rank].written, flight->serial + 1, memory_order_release);
    flight->is_posted = true;
    flight->posted_ms = now_ms ();
    if (before & LATE)
        send_bundle (flight, own);
    else if ((before | own) == all_here ())
        send_bundle (flight, all_here ());
    mark_seen (team);
}

void
boards_post (struct team *team)
{
    for (struct flight *flight = team->first; flight; flight = flight->next)
        if (flight->is_boarded && !flight->is_posted && !flight->over) {
            if (!is_free (flight->serial))
                return;
            write_down (flight);
        }
}

void
boards_flush (struct team *team)
{
    int64_t late = now_ms () - SLICE_MS;
    for (struct flight *flight = team->first; flight && (!flight->is_posted || flight->posted_ms <= late);
         flight = flight->next)
        if (flight->is_posted && !flight->over && flight->missing && !flight->is_sent && !flight->is_flushed) {
            uint64_t before = pass_gate (flight->serial, LATE);
            flight->is_flushed = true;
            if (!(before & LATE) && before != all_here ())
                send_bundle (flight, before);
        }
}

bool
boards_have (const struct team *team, int rank)
{
    int local = local_of (rank);
    return local >= 0 && rank != team->rank
           && atomic_load_explicit (&mpi_host.marks[local].written, memory_order_acquire) > team->matched[rank];
}

bool
boards_peek (const struct team *team, int rank, const struct header **header, const char **data)
{
    int local = local_of (rank);
    const struct message *first = team->bundled[rank].first;
    const char *entry = NULL;
    uint32_t pairs;
    if (boards_have (team, rank))
        entry = slot_of (local, team->matched[rank]);
    else if (local < 0 && first && first->header.collectives == team->matched[rank])
        entry = (const char *) &first->header;
    if (!entry)
        return false;
    memcpy (&pairs, entry + sizeof (struct header) + (size_t) team->rank * sizeof pairs, sizeof pairs);
    *header = (const struct header *) (const void *) entry;
    *data = entry + data_at ();
    return pairs == team->pairs_from[rank];
}

void
boards_take (struct team *team, int rank)
{
    struct queue *queue = &team->bundled[rank];
    team->matched[rank]++;
    if (local_of (rank) < 0) {
        struct message *message = queue->first;
        queue->first = message->next;
        free (message);
        return;
    }
    mark_seen (team);
}

/* Bundles of a host may come from different ranks, in any order. */
static void
enqueue (struct queue *queue, struct message *message)
{
    struct message **at = &queue->first;
    while (*at && (*at)->header.collectives < message->header.collectives)
        at = &(*at)->next;
    message->next = *at;
    *at = message;
}

bool
boards_unpack (struct team *team, const struct message *bundle, size_t *at, int *rank)
{
    struct header header;
    if (*at + data_at () > bundle->header.inline_bytes)
        return false;
    memcpy (&header, bundle->data + *at, sizeof header);
    size_t bytes = entry_bytes (&header);
    if (header.rank < 0 || header.rank >= team->size || *at + bytes > bundle->header.inline_bytes) {
        world_check (MPI_ERR_TRUNCATE, "a bundle of messages");
        return false;
    }
    struct message *message = malloc (offsetof (struct message, header) + bytes);
    if (!message) {
        world_check (MPI_ERR_NO_MEM, "memory for messages");
        return false;
    }
    message->from = bundle->from;
    memcpy ((char *) message + offsetof (struct message, header), bundle->data + *at, bytes);
    enqueue (&team->bundled[header.rank], message);
    *rank = header.rank;
    *at += bytes;
    return true;
}
