/* SPDX-License-Identifier: Apache-2.0 */
/* Control messages of the world on several hosts.
 *
 * Each rank writes what it calls, and small data, in an outbox in the memory of its host, where the other ranks of the
 * host read it.  The last one to write sends all of the host's messages in one bundle: a small one to each rank of the
 * other hosts, so that none waits for another one there, and a large one to their forwarders only, which write it on
 * outboxes for the others.  No rank has to be in a call of the library to send what others have written.  Where the
 * engine may have no thread, a forwarder would have to be in a call to pass it on, so a large one goes to each rank as
 * well.
 *
 * A forwarder may be late itself.  So after a while, each rank sends its message to the other ranks of the other hosts,
 * too.  If a rank of the sender's host is late, another one sends what there is to all ranks; from then on, each sends
 * its own.  So all hosts know who is missing.
 *
 * Other messages go from rank to rank by MPI, and may overtake bundles.  So each says how many of the other kind come
 * before it. */
#include <config.h>

#include "engines/mpi/communicators.h"
#include "engines/mpi/topology.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define LATE (UINT64_C (1) << 31) /* in a gate, above the ranks that have come */

/* Where small data is in a message: after the header, and what the sender has sent to each rank by MPI. */
static size_t
data_at (void)
{
    return round_up (sizeof (struct header) + (size_t) mpi.host.world_size * sizeof (uint32_t), sizeof (uint64_t));
}

static size_t
entry_bytes (const struct header *header)
{
    return round_up (data_at () + header->inline_bytes, sizeof (uint64_t));
}

bool
outbox_supports (const struct communicator *comm, const struct accel_engine_call *call)
{
    return mpi.host.outboxes && !comm->group
           && (call->kind == ACCEL_ENGINE_BARRIER || call->kind == ACCEL_ENGINE_ALL_REDUCE
               || call->kind == ACCEL_ENGINE_ALL_GATHER || call->kind == ACCEL_ENGINE_BROADCAST
               || (call->kind == ACCEL_ENGINE_REDUCE_SCATTER && hier_reduce_supports (comm, call)));
}

static char *
slot_of (int rank, uint64_t serial)
{
    size_t slot = (size_t) rank * OUTBOX_SLOTS + (size_t) (serial % OUTBOX_SLOTS);
    return (char *) mpi.host.outboxes + mpi.host.outbox_head + slot * mpi.host.slot_bytes;
}

/* Messages of a rank of another host that are in the memory of this one. */
static _Atomic uint64_t *
arrived_of (int rank)
{
    return (_Atomic uint64_t *) (void *) mpi.host.outboxes + OUTBOX_SLOTS + rank;
}

/* @return local rank, or -1: it is on another host */
static int
local_of (int rank)
{
    return topology_local_rank (mpi.host.topology, rank);
}

static int
rank_of (int local)
{
    return topology_rank (mpi.host.topology, mpi.host.topology->here, local);
}

/* Of the ranks of each other host. */
enum receivers { TO_FORWARDERS, TO_OTHERS, TO_ALL };

static uint64_t
bit_of (int local)
{
    return UINT64_C (1) << local;
}

static uint64_t
all_here (void)
{
    return bit_of (mpi.host.size) - 1;
}

/* Add @bits to the gate of a call.  A later call may have it already, whose bits must stay: then all ranks have come.
 * @return what was there */
static uint64_t
pass_gate (uint64_t serial, uint64_t bits)
{
    _Atomic uint64_t *gate = (_Atomic uint64_t *) (void *) mpi.host.outboxes + serial % OUTBOX_SLOTS;
    uint64_t own = outbox_gate (serial), was = atomic_load (gate), before;
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
pack (const struct operation *operation, uint64_t mask, char *to)
{
    struct header header = { .session = mpi.world.session, .signature = { .kind = BUNDLE },
                             .rank = operation->comm->rank };
    size_t bytes = sizeof header;
    for (int i = 0; i < mpi.host.size; i++)
        if (mask & bit_of (i)) {
            const char *slot = slot_of (rank_of (i), operation->serial);
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
    return who == TO_ALL || mpi.host.processes[peer].is_forwarder == (who == TO_FORWARDERS);
}

/* Send a bundle to other hosts.  What MPI does not send at once is a part of the call, which ends when it has gone. */
static void
send_bundle (struct operation *operation, uint64_t mask, enum receivers who)
{
    size_t bytes = pack (operation, mask, NULL);
    who = bytes <= CONTROL_BYTES || !mpi.host.has_forwarders ? TO_ALL : who;
    char *memory = bundle_take (bytes), *bundle = memory ? memory : (operation->control = malloc (bytes));
    if (!bundle) {
        world_check (MPI_ERR_NO_MEM, "memory for messages");
        return;
    }
    pack (operation, mask, bundle);
    for (int i = 1; i < operation->comm->size; i++) {
        int rank = (operation->comm->rank + i) % operation->comm->size, peer = operation->comm->peers[rank];
        if (local_of (rank) >= 0 || !is_receiver (peer, who))
            continue;
        if (memory)
            bundle_send (peer, bytes);
        else
            post_control (operation, rank, bundle, bytes);
    }
}

/* What others wrote for a call has been read here, and what this rank wrote has been sent. */
static void
mark_seen (const struct communicator *comm)
{
    uint64_t seen = atomic_load_explicit (&mpi.host.counters[mpi.host.rank].written, memory_order_relaxed);
    for (int i = 0; i < mpi.host.size; i++)
        if (i != mpi.host.rank && comm->matched[rank_of (i)] < seen)
            seen = comm->matched[rank_of (i)];
    atomic_store_explicit (&mpi.host.counters[mpi.host.rank].seen, seen, memory_order_release);
}

/* No rank of the host needs what is in the slot, or its gate, any more. */
static bool
is_free (uint64_t serial)
{
    for (int i = 0; i < mpi.host.size; i++)
        if (i != mpi.host.rank
            && atomic_load_explicit (&mpi.host.counters[i].seen, memory_order_acquire) + OUTBOX_SLOTS <= serial)
            return false;
    return true;
}

static size_t
own_data (const struct operation *operation)
{
    int next = (operation->comm->rank + 1) % operation->comm->size; /* all get the same */
    const struct transfer *transfer = &operation->transfers[next];
    return transfer->out_bytes <= mpi.host.outbox_inline ? transfer->out_bytes : 0;
}

static void
write_own (const struct operation *operation, char *to)
{
    const struct communicator *comm = operation->comm;
    size_t data = own_data (operation);
    struct header header = operation_header (operation, data);
    header.collectives = operation->serial;
    memcpy (to, &header, sizeof header);
    memcpy (to + sizeof header, operation->pairs, (size_t) comm->size * sizeof *operation->pairs);
    if (data)
        memcpy (to + data_at (), operation->transfers[(comm->rank + 1) % comm->size].out, data);
}

static void
write_down (struct operation *operation)
{
    const struct communicator *comm = operation->comm;
    write_own (operation, slot_of (comm->rank, operation->serial));
    uint64_t own = bit_of (mpi.host.rank), before = pass_gate (operation->serial, own);
    atomic_store_explicit (&mpi.host.counters[mpi.host.rank].written, operation->serial + 1, memory_order_release);
    operation->is_posted = true;
    operation->posted_ms = now_ms ();
    if (before & LATE)
        send_bundle (operation, own, TO_ALL);
    else if ((before | own) == all_here ())
        send_bundle (operation, all_here (), TO_FORWARDERS);
    mark_seen (comm);
}

void
outbox_post (struct communicator *comm)
{
    for (struct operation *operation = comm->first; operation; operation = operation->next)
        if (operation->goes_by_outbox && !operation->is_posted && !operation->over) {
            if (!is_free (operation->serial))
                return;
            write_down (operation);
        }
}

/* The slot in the outbox may have another message by now.  @return whether MPI took it */
static bool
send_own (const struct operation *operation)
{
    const struct communicator *comm = operation->comm;
    size_t entry = round_up (data_at () + own_data (operation),
                             sizeof (uint64_t)), bytes = sizeof (struct header) + entry;
    struct header header = { .session = mpi.world.session, .signature = { .kind = BUNDLE }, .rank = comm->rank,
                             .inline_bytes = (uint32_t) entry };
    char *bundle = bundle_take (bytes);
    if (!bundle)
        return false;
    memset (bundle, 0, bytes);
    memcpy (bundle, &header, sizeof header);
    write_own (operation, bundle + sizeof header);
    for (int i = 0; i < comm->size; i++)
        if (local_of (i) < 0 && is_receiver (comm->peers[i], TO_OTHERS))
            bundle_send (comm->peers[i], bytes);
    return true;
}

static void
flush (struct operation *operation)
{
    uint64_t before = pass_gate (operation->serial, LATE);
    operation->is_flushed = true;
    if ((before & all_here ()) == all_here ())
        operation->is_flushed = send_own (operation);
    else if (!(before & LATE))
        send_bundle (operation, before, TO_ALL);
}

void
outbox_flush (struct communicator *comm)
{
    int64_t late = now_ms () - SLICE_MS;
    for (struct operation *operation = comm->first; operation && (!operation->is_posted
                                                                  || operation->posted_ms <= late);
         operation = operation->next)
        if (operation->is_posted && !operation->over && operation->missing && !operation->is_flushed)
            flush (operation);
}

bool
outbox_has (const struct communicator *comm, int rank)
{
    int local = local_of (rank);
    const _Atomic uint64_t *written = local < 0 ? arrived_of (rank) : &mpi.host.counters[local].written;
    return rank != comm->rank && atomic_load_explicit (written, memory_order_acquire) > comm->matched[rank];
}

/* A forwarder reads in the outboxes alone, so that nothing is lost for the others. */
bool
outbox_peek (const struct communicator *comm, int rank, const struct header **header, const char **data)
{
    const struct message *first = comm->bundled[rank].first;
    const char *entry = NULL;
    uint32_t pairs;
    if (outbox_has (comm, rank))
        entry = slot_of (rank, comm->matched[rank]);
    else if (comm->direct && comm->direct->rank == rank && comm->direct->collectives == comm->matched[rank])
        entry = (const char *) comm->direct;
    else if (!mpi.host.is_forwarder && first && first->header.collectives == comm->matched[rank])
        entry = (const char *) &first->header;
    if (!entry)
        return false;
    memcpy (&pairs, entry + sizeof (struct header) + (size_t) comm->rank * sizeof pairs, sizeof pairs);
    *header = (const struct header *) (const void *) entry;
    *data = entry + data_at ();
    return pairs == comm->pairs_from[rank];
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
mark_read (const struct communicator *comm)
{
    uint64_t read = UINT64_MAX;
    for (int i = 0; i < comm->size; i++)
        if (local_of (i) < 0 && comm->matched[i] < read)
            read = comm->matched[i];
    atomic_store_explicit (&mpi.host.counters[mpi.host.rank].read, read, memory_order_release);
}

void
outbox_take (struct communicator *comm, int rank)
{
    struct queue *queue = &comm->bundled[rank];
    comm->matched[rank]++;
    if (local_of (rank) >= 0) {
        mark_seen (comm);
        return;
    }
    while (!mpi.host.is_forwarder && queue->first && queue->first->header.collectives < comm->matched[rank])
        drop_first (queue);
    if (comm->matched[rank] % (OUTBOX_SLOTS / 2) == 0)
        mark_read (comm);
}

/* ---- what comes from other hosts ---- */

/* Bundles of a host may come from different ranks, in any order. */
static bool
enqueue (struct communicator *comm, const struct header *entry)
{
    struct message **at = &comm->bundled[entry->rank].first, *message;
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
    for (int i = 0; i < mpi.host.size; i++)
        if (atomic_load_explicit (&mpi.host.counters[i].read, memory_order_acquire) + OUTBOX_SLOTS <= serial)
            return false;
    memcpy (slot_of (entry->rank, serial), entry, entry_bytes (entry));
    atomic_store_explicit (arrived, serial + 1, memory_order_release);
    return true;
}

void
outbox_publish (struct communicator *comm)
{
    for (int i = 0; i < comm->size && mpi.host.is_forwarder; i++)
        while (comm->bundled[i].first && publish (&comm->bundled[i].first->header))
            drop_first (&comm->bundled[i]);
}

bool
outbox_unpack (struct communicator *comm, const struct message *bundle, size_t *at, int *rank)
{
    if (*at + data_at () > bundle->header.inline_bytes)
        return false;
    const struct header *entry = (const struct header *) (const void *) (bundle->data + *at);
    size_t bytes = entry_bytes (entry);
    if (entry->rank < 0 || entry->rank >= comm->size || local_of (entry->rank) >= 0
        || bytes > mpi.host.slot_bytes || *at + bytes > bundle->header.inline_bytes) {
        world_check (MPI_ERR_TRUNCATE, "a bundle of messages");
        return false;
    }
    *rank = entry->rank;
    *at += bytes;
    if (!mpi.host.is_forwarder)
        comm->direct = entry;
    else if (comm->bundled[entry->rank].first || !publish (entry))
        return enqueue (comm, entry);
    return true;
}

void
outbox_keep (struct communicator *comm)
{
    const struct header *entry = comm->direct;
    comm->direct = NULL;
    if (entry && entry->collectives >= comm->matched[entry->rank])
        enqueue (comm, entry);
}
