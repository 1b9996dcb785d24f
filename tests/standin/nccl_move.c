/* SPDX-License-Identifier: Apache-2.0 */
/* What calls do, on the thread of the streams: pieces go through memory that all ranks share.  A rank that has not come
 * lets the others stall, as on a card: for ever, unless they abort. */
#include <config.h>

#include "tests/standin/nccl_standin.h"

#include <stdlib.h>
#include <string.h>

size_t
nccl_width (ncclDataType_t type)
{
    switch ((int) type) {
    case ncclInt8:
    case ncclUint8: return 1;
    case ncclFloat16:
    case NCCL_BFLOAT16: return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64: return 8;
    default: return 0;
    }
}

static size_t
row_of (const struct nccl_call *call)
{
    return call->asked.count * nccl_width ((ncclDataType_t) call->asked.type);
}

size_t
nccl_reads (const struct nccl_call *call)
{
    bool leads = call->comm->rank == call->asked.root;
    switch ((enum nccl_kind) call->asked.kind) {
    case NCCL_BROADCAST: return leads ? row_of (call) : 0;
    case NCCL_REDUCE_SCATTER: return row_of (call) * (size_t) call->comm->count;
    case NCCL_RECV: return 0;
    default: return row_of (call);
    }
}

size_t
nccl_writes (const struct nccl_call *call)
{
    bool leads = call->comm->rank == call->asked.root;
    switch ((enum nccl_kind) call->asked.kind) {
    case NCCL_ALL_GATHER: return row_of (call) * (size_t) call->comm->count;
    case NCCL_REDUCE: return leads ? row_of (call) : 0;
    case NCCL_SEND: return 0;
    default: return row_of (call);
    }
}

/* The same on all ranks. */
static size_t
most_bytes (const struct nccl_call *call)
{
    size_t reads = nccl_reads (call), writes = nccl_writes (call);
    return reads > writes ? reads : writes;
}

/* ---- collectives ---- */

static void
compare (const struct nccl_call *call)
{
    struct ncclComm *comm = call->comm;
    for (int rank = 0; rank < comm->count; rank++) {
        const struct nccl_asked *theirs = &comm->shared->places[rank].asked;
        if (memcmp (theirs, &call->asked, sizeof *theirs))
            standin_report (&call->site, NULL,
                            "%s of rank %d: count %llu, type %d, operation %d, root %d, but rank %d: kind %d, count "
                            "%llu, type %d, operation %d, root %d", call->name, comm->rank,
                            (unsigned long long) call->asked.count, call->asked.type, call->asked.op, call->asked.root,
                            rank, theirs->kind, (unsigned long long) theirs->count, theirs->type, theirs->op,
                            theirs->root);
    }
}

/* Bytes of what a rank gives, from the piece's first on. */
static size_t
piece_of (size_t bytes, size_t piece, size_t *at)
{
    *at = piece * NCCL_CHUNK;
    return *at >= bytes ? 0 : bytes - *at < NCCL_CHUNK ? bytes - *at : NCCL_CHUNK;
}

static void
write_piece (const struct nccl_call *call, struct nccl_place *place)
{
    size_t at, bytes = piece_of (nccl_reads (call), call->piece, &at);
    place->asked = call->asked;
    place->began_ns = standin_began_ns ();
    if (bytes)
        memcpy (place->data, call->send + at, bytes);
}

/* A collective, or a group of them, begins when the last rank is there. */
static void
end_together (const struct ncclComm *comm, size_t bytes)
{
    int64_t last = 0;
    for (int rank = 0; rank < comm->count; rank++)
        last = comm->shared->places[rank].began_ns > last ? comm->shared->places[rank].began_ns : last;
    standin_ended_ns (last + standin_collective_ns (bytes));
}

/* What of a piece belongs to the row of this rank. */
static void
read_rows (const struct nccl_call *call, const void *const *given, size_t at, size_t bytes)
{
    const struct ncclComm *comm = call->comm;
    size_t row = row_of (call), width = nccl_width ((ncclDataType_t) call->asked.type);
    size_t first = (size_t) comm->rank * row, from = at > first ? at : first;
    size_t end = at + bytes < first + row ? at + bytes : first + row;
    const void *sources[NCCL_RANKS];
    if (from >= end)
        return;
    for (int rank = 0; rank < comm->count; rank++)
        sources[rank] = (const char *) given[rank] + (from - at);
    nccl_reduce ((ncclDataType_t) call->asked.type, (ncclRedOp_t) call->asked.op, sources, comm->count,
                 call->recv + (from - first), (end - from) / width);
}

static void
read_piece (const struct nccl_call *call)
{
    const struct ncclComm *comm = call->comm;
    struct nccl_place *places = comm->shared->places;
    const void *given[NCCL_RANKS];
    bool scatters = call->asked.kind == NCCL_REDUCE_SCATTER;
    size_t at, row = row_of (call), width = nccl_width ((ncclDataType_t) call->asked.type);
    size_t bytes = piece_of (scatters ? row * (size_t) comm->count : row, call->piece, &at);
    for (int rank = 0; rank < comm->count; rank++)
        given[rank] = places[rank].data;
    switch ((enum nccl_kind) call->asked.kind) {
    case NCCL_REDUCE:
        if (comm->rank != call->asked.root)
            break; /* fall through */
    case NCCL_ALL_REDUCE:
        nccl_reduce ((ncclDataType_t) call->asked.type, (ncclRedOp_t) call->asked.op, given, comm->count,
                     call->recv + at, bytes / width);
        break;
    case NCCL_BROADCAST: memmove (call->recv + at, given[call->asked.root], bytes); break;
    case NCCL_ALL_GATHER:
        for (int rank = 0; rank < comm->count; rank++)
            memmove (call->recv + (size_t) rank * row + at, given[rank], bytes);
        break;
    case NCCL_REDUCE_SCATTER: read_rows (call, given, at, bytes); break;
    default: break;
    }
}

/* A piece is written when all have read the one before, and read when all have written it.
 * @p bytes: of all calls of the batch */
static enum standin_progress
collect (struct nccl_call *call, size_t bytes)
{
    struct ncclComm *comm = call->comm;
    struct nccl_place *places = comm->shared->places;
    if (comm->turn != call->turn)
        return STANDIN_STALLED;
    if (!call->is_written) {
        for (int rank = 0; rank < comm->count; rank++)
            if (atomic_load (&places[rank].read) < comm->pieces)
                return STANDIN_STALLED;
        write_piece (call, &places[comm->rank]);
        atomic_store (&places[comm->rank].written, comm->pieces + 1);
        call->is_written = true;
    }
    for (int rank = 0; rank < comm->count; rank++)
        if (atomic_load (&places[rank].written) <= comm->pieces)
            return STANDIN_STALLED;
    compare (call);
    read_piece (call);
    end_together (comm, bytes);
    atomic_store (&places[comm->rank].read, ++comm->pieces);
    call->is_written = false;
    if (++call->piece < call->pieces)
        return STANDIN_MOVED;
    comm->turn++;
    return STANDIN_OVER;
}

/* ---- messages ---- */

static enum standin_progress
send (struct nccl_call *call)
{
    struct ncclComm *comm = call->comm;
    int peer = call->asked.root;
    struct nccl_place *copy_stream = &comm->shared->copy_streams[comm->rank][peer];
    size_t at, bytes = piece_of (row_of (call), call->piece, &at);
    uint64_t written = atomic_load (&copy_stream->written);
    if (comm->sent[peer] != call->turn || atomic_load (&copy_stream->read) != written)
        return STANDIN_STALLED;
    if (call->piece == call->pieces) { /* and all has been read */
        comm->sent[peer]++;
        return STANDIN_OVER;
    }
    copy_stream->asked = call->asked;
    if (bytes)
        memcpy (copy_stream->data, call->send + at, bytes);
    call->piece++;
    atomic_store (&copy_stream->written, written + 1);
    return STANDIN_MOVED;
}

static enum standin_progress
receive (struct nccl_call *call)
{
    struct ncclComm *comm = call->comm;
    int peer = call->asked.root;
    struct nccl_place *copy_stream = &comm->shared->copy_streams[peer][comm->rank];
    size_t at, bytes = piece_of (row_of (call), call->piece, &at);
    uint64_t read = atomic_load (&copy_stream->read);
    if (comm->received[peer] != call->turn || atomic_load (&copy_stream->written) == read)
        return STANDIN_STALLED;
    if (copy_stream->asked.count != call->asked.count || copy_stream->asked.type != call->asked.type)
        standin_report (&call->site, NULL, "ncclRecv of rank %d: count %llu, type %d, but rank %d sends count %llu, "
                        "type %d", comm->rank, (unsigned long long) call->asked.count, call->asked.type, peer,
                        (unsigned long long) copy_stream->asked.count, copy_stream->asked.type);
    if (bytes)
        memcpy (call->recv + at, copy_stream->data, bytes);
    atomic_store (&copy_stream->read, read + 1);
    if (++call->piece < call->pieces)
        return STANDIN_MOVED;
    comm->received[peer]++;
    return STANDIN_OVER;
}

/* ---- all ---- */

static enum standin_progress
advance (struct nccl_call *call, size_t bytes)
{
    enum standin_progress progress, before = STANDIN_STALLED;
    if (call->comm->aborted)
        return STANDIN_OVER;
    do {
        progress = call->asked.kind == NCCL_SEND   ? send (call)
                   : call->asked.kind == NCCL_RECV ? receive (call)
                                                   : collect (call, bytes);
        if (progress != STANDIN_STALLED)
            before = progress;
    } while (progress == STANDIN_MOVED);
    return before;
}

/* From the first that is random. */
enum standin_progress
nccl_move (void *closure)
{
    struct nccl_batch *batch = closure;
    unsigned over = 0;
    size_t bytes = 0;
    enum standin_progress progress = STANDIN_STALLED;
    pthread_mutex_lock (&nccl_lock);
    for (unsigned i = 0; i < batch->count; i++)
        bytes += most_bytes (&batch->calls[i]);
    for (unsigned i = 0, first = nccl_random (batch->count); i < batch->count; i++) {
        struct nccl_call *call = &batch->calls[(first + i) % batch->count];
        enum standin_progress now = call->over ? STANDIN_OVER : advance (call, bytes);
        if (!call->over && now != STANDIN_STALLED)
            progress = STANDIN_MOVED;
        call->over = now == STANDIN_OVER;
        over += call->over;
    }
    if (over == batch->count) {
        batch->calls[0].comm->in_flight--;
        free (batch);
        progress = STANDIN_OVER;
    }
    pthread_mutex_unlock (&nccl_lock);
    return progress;
}
