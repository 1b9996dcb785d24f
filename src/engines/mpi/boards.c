/* SPDX-License-Identifier: Apache-2.0 */
/* Control messages of the world on several hosts.
 *
 * Each rank writes what it calls, and small data, on a board in the memory of its host, where the other ranks of the
 * host read it.  The last one to write sends all of the host's messages in one bundle: a small one to each rank of the
 * other hosts, so that none waits for another one there, and a large one to their postmen only, which write it on
 * boards for the others.  Nobody has to be in a call of the library to send what others have written.  Where the engine
 * may have no thread, a postman would have to be in a call to pass it on, so a large one goes to each rank as well.
 *
 * A postman may be late itself.  So after a while, each rank sends its message to the other ranks of the other hosts,
 * too.  If a rank of the sender's host is late, another one sends what there is to all ranks; from then on, each sends
 * its own.  So all hosts know who is missing.
 *
 * Other messages go from rank to rank by MPI, and may overtake bundles.  So each says how many of the other kind come
 * before it. */
#include <config.h>

#include "engines/mpi/mpi_private.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define LATE (UINT64_C (1) << 31) /* in a gate, above the ranks that have come */

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
               || call->kind == ACCEL_ENGINE_ALL_GATHER || call->kind == ACCEL_ENGINE_BROADCAST
               || (call->kind == ACCEL_ENGINE_REDUCE_SCATTER && tiers_serve (team, call)));
}

static char *
slot_of (int rank, uint64_t serial)
{
    size_t slot = (size_t) rank * BOARD_SLOTS + (size_t) (serial % BOARD_SLOTS);
    return (char *) mpi_host.boards + mpi_host.boards_head + slot * mpi_host.slot_bytes;
}

/* Messages of a rank of another host that are in the memory of this one. */
static _Atomic uint64_t *
arrived_of (int rank)
{
    return (_Atomic uint64_t *) (void *) mpi_host.boards + BOARD_SLOTS + rank;
}

/* @return local rank, or -1: it is on another host */
static int
local_of (int rank)
{
    return places_local (mpi_host.places, rank);
}

static int
rank_of (int local)
{
    return places_rank (mpi_host.places, mpi_host.places->here, local);
}

/* Of the ranks of each other host. */
enum receivers { TO_POSTMEN, TO_OTHERS, TO_ALL };

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
            const char *slot = slot_of (rank_of (i), flight->serial);
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

static bool
is_receiver (int peer, enum receivers who)
{
    return who == TO_ALL || mpi_host.processes[peer].is_postman == (who == TO_POSTMEN);
}

/* Send a bundle to other hosts.  What MPI does not send at once is a part of the call, which ends when it has gone. */
static void
send_bundle (struct flight *flight, uint64_t mask, enum receivers who)
{
    size_t bytes = pack (flight, mask, NULL);
    who = bytes <= CONTROL_BYTES || !mpi_host.has_postmen ? TO_ALL : who;
    char *parcel = parcel_take (bytes), *bundle = parcel ? parcel : (flight->control = malloc (bytes));
    if (!bundle) {
        world_check (MPI_ERR_NO_MEM, "memory for messages");
        return;
    }
    pack (flight, mask, bundle);
    for (int i = 1; i < flight->team->size; i++) {
        int rank = (flight->team->rank + i) % flight->team->size, peer = flight->team->peers[rank];
        if (local_of (rank) >= 0 || !is_receiver (peer, who))
            continue;
        if (parcel)
            parcel_send (peer, bytes);
        else
            post_control (flight, rank, bundle, bytes);
    }
}

/* What others wrote for a call has been read here, and what this rank wrote has been sent. */
static void
mark_seen (const struct team *team)
{
    uint64_t seen = atomic_load_explicit (&mpi_host.marks[mpi_host.rank].written, memory_order_relaxed);
    for (int i = 0; i < mpi_host.size; i++)
        if (i != mpi_host.rank && team->matched[rank_of (i)] < seen)
            seen = team->matched[rank_of (i)];
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

static size_t
own_data (const struct flight *flight)
{
    const struct leg *leg = &flight->legs[(flight->team->rank + 1) % flight->team->size]; /* all get the same */
    return leg->out_bytes <= mpi_host.board_inline ? leg->out_bytes : 0;
}

static void
write_own (const struct flight *flight, char *to)
{
    const struct team *team = flight->team;
    size_t data = own_data (flight);
    struct header header = flight_header (flight, data);
    header.collectives = flight->serial;
    memcpy (to, &header, sizeof header);
    memcpy (to + sizeof header, flight->pairs, (size_t) team->size * sizeof *flight->pairs);
    if (data)
        memcpy (to + data_at (), flight->legs[(team->rank + 1) % team->size].out, data);
}

static void
write_down (struct flight *flight)
{
    const struct team *team = flight->team;
    write_own (flight, slot_of (team->rank, flight->serial));
    uint64_t own = bit_of (mpi_host.rank), before = pass_gate (flight->serial, own);
    atomic_store_explicit (&mpi_host.marks[mpi_host.rank].written, flight->serial + 1, memory_order_release);
    flight->is_posted = true;
    flight->posted_ms = now_ms ();
    if (before & LATE)
        send_bundle (flight, own, TO_ALL);
    else if ((before | own) == all_here ())
        send_bundle (flight, all_here (), TO_POSTMEN);
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

/* The slot on the board may have another message by now.  @return whether MPI took it */
static bool
send_own (const struct flight *flight)
{
    const struct team *team = flight->team;
    size_t entry = round_up (data_at () + own_data (flight), sizeof (uint64_t)), bytes = sizeof (struct header) + entry;
    struct header header = { .session = mpi_world.session, .called = { .kind = BUNDLE }, .rank = team->rank,
                             .inline_bytes = (uint32_t) entry };
    char *parcel = parcel_take (bytes);
    if (!parcel)
        return false;
    memset (parcel, 0, bytes);
    memcpy (parcel, &header, sizeof header);
    write_own (flight, parcel + sizeof header);
    for (int i = 0; i < team->size; i++)
        if (local_of (i) < 0 && is_receiver (team->peers[i], TO_OTHERS))
            parcel_send (team->peers[i], bytes);
    return true;
}

static void
flush (struct flight *flight)
{
    uint64_t before = pass_gate (flight->serial, LATE);
    flight->is_flushed = true;
    if ((before & all_here ()) == all_here ())
        flight->is_flushed = send_own (flight);
    else if (!(before & LATE))
        send_bundle (flight, before, TO_ALL);
}

void
boards_flush (struct team *team)
{
    int64_t late = now_ms () - SLICE_MS;
    for (struct flight *flight = team->first; flight && (!flight->is_posted || flight->posted_ms <= late);
         flight = flight->next)
        if (flight->is_posted && !flight->over && flight->missing && !flight->is_flushed)
            flush (flight);
}

bool
boards_have (const struct team *team, int rank)
{
    int local = local_of (rank);
    const _Atomic uint64_t *written = local < 0 ? arrived_of (rank) : &mpi_host.marks[local].written;
    return rank != team->rank && atomic_load_explicit (written, memory_order_acquire) > team->matched[rank];
}

/* A postman reads on the boards alone, so that nothing is lost for the others. */
bool
boards_peek (const struct team *team, int rank, const struct header **header, const char **data)
{
    const struct message *first = team->bundled[rank].first;
    const char *entry = NULL;
    uint32_t pairs;
    if (boards_have (team, rank))
        entry = slot_of (rank, team->matched[rank]);
    else if (team->direct && team->direct->rank == rank && team->direct->collectives == team->matched[rank])
        entry = (const char *) team->direct;
    else if (!mpi_host.is_postman && first && first->header.collectives == team->matched[rank])
        entry = (const char *) &first->header;
    if (!entry)
        return false;
    memcpy (&pairs, entry + sizeof (struct header) + (size_t) team->rank * sizeof pairs, sizeof pairs);
    *header = (const struct header *) (const void *) entry;
    *data = entry + data_at ();
    return pairs == team->pairs_from[rank];
}

static void
drop_first (struct queue *queue)
{
    struct message *message = queue->first;
    queue->first = message->next;
    free (message);
}

/* Now and then: it takes a look at all ranks. */
static void
mark_read (const struct team *team)
{
    uint64_t read = UINT64_MAX;
    for (int i = 0; i < team->size; i++)
        if (local_of (i) < 0 && team->matched[i] < read)
            read = team->matched[i];
    atomic_store_explicit (&mpi_host.marks[mpi_host.rank].read, read, memory_order_release);
}

void
boards_take (struct team *team, int rank)
{
    struct queue *queue = &team->bundled[rank];
    team->matched[rank]++;
    if (local_of (rank) >= 0) {
        mark_seen (team);
        return;
    }
    while (!mpi_host.is_postman && queue->first && queue->first->header.collectives < team->matched[rank])
        drop_first (queue);
    if (team->matched[rank] % (BOARD_SLOTS / 2) == 0)
        mark_read (team);
}

/* ---- what comes from other hosts ---- */

/* Bundles of a host may come from different ranks, in any order. */
static bool
enqueue (struct team *team, const struct header *entry)
{
    struct message **at = &team->bundled[entry->rank].first, *message;
    message = malloc (offsetof (struct message, header) + entry_bytes (entry));
    if (!message)
        return world_check (MPI_ERR_NO_MEM, "memory for messages");
    memcpy ((char *) message + offsetof (struct message, header), entry, entry_bytes (entry));
    while (*at && (*at)->header.collectives < message->header.collectives)
        at = &(*at)->next;
    message->next = *at;
    *at = message;
    return true;
}

/* If it is the next one, and all ranks of this host have read what was there. */
static bool
publish (const struct header *entry)
{
    _Atomic uint64_t *arrived = arrived_of (entry->rank);
    uint64_t serial = entry->collectives;
    uint64_t next = atomic_load_explicit (arrived, memory_order_relaxed);
    if (serial != next)
        return serial < next;
    for (int i = 0; i < mpi_host.size; i++)
        if (atomic_load_explicit (&mpi_host.marks[i].read, memory_order_acquire) + BOARD_SLOTS <= serial)
            return false;
    memcpy (slot_of (entry->rank, serial), entry, entry_bytes (entry));
    atomic_store_explicit (arrived, serial + 1, memory_order_release);
    return true;
}

void
boards_publish (struct team *team)
{
    for (int i = 0; i < team->size && mpi_host.is_postman; i++)
        while (team->bundled[i].first && publish (&team->bundled[i].first->header))
            drop_first (&team->bundled[i]);
}

bool
boards_unpack (struct team *team, const struct message *bundle, size_t *at, int *rank)
{
    if (*at + data_at () > bundle->header.inline_bytes)
        return false;
    const struct header *entry = (const struct header *) (const void *) (bundle->data + *at);
    size_t bytes = entry_bytes (entry);
    if (entry->rank < 0 || entry->rank >= team->size || local_of (entry->rank) >= 0
        || bytes > mpi_host.slot_bytes || *at + bytes > bundle->header.inline_bytes) {
        world_check (MPI_ERR_TRUNCATE, "a bundle of messages");
        return false;
    }
    *rank = entry->rank;
    *at += bytes;
    if (!mpi_host.is_postman)
        team->direct = entry;
    else if (team->bundled[entry->rank].first || !publish (entry))
        return enqueue (team, entry);
    return true;
}

void
boards_keep (struct team *team)
{
    const struct header *entry = team->direct;
    team->direct = NULL;
    if (entry && entry->collectives >= team->matched[entry->rank])
        enqueue (team, entry);
}
