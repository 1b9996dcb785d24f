/* SPDX-License-Identifier: Apache-2.0 */
/* One call: what it sends to each rank and gets from it. */
#include <config.h>

#include "engines/mpi/communicators.h"

#include <stdlib.h>
#include <string.h>

static size_t
row_of (const struct accel_engine_call *call)
{
    return call->count * call->element_bytes;
}

/* What this rank sends to rank @i, and where what comes from there goes. */
static void
set_transfer (struct operation *operation, int i)
{
    const struct accel_engine_call *call = operation->call;
    struct transfer *transfer = &operation->transfers[i];
    size_t row = row_of (call), at = (size_t) i * row, own = (size_t) operation->comm->rank * row;
    char *recv = call->recv;
    const char *send = call->send;
    transfer->is_used = i != operation->comm->rank && (!call_is_pair (call) || i == call->root);
    if (!transfer->is_used || !row || operation->blocks || operation->hier.is_on)
        return;
    switch ((int) call->kind) {
    case ACCEL_ENGINE_ALL_REDUCE: transfer->out = send, transfer->in = operation->rows + at; break;
    case ACCEL_ENGINE_REDUCE_SCATTER: transfer->out = send + at, transfer->in = operation->rows + at; break;
    case ACCEL_ENGINE_ALL_GATHER: transfer->out = recv + own, transfer->in = recv + at; break;
    case ACCEL_ENGINE_ALL_TO_ALL: transfer->out = send + at, transfer->in = recv + at; break;
    case ACCEL_ENGINE_BROADCAST:
        transfer->out = call->root == operation->comm->rank ? recv : NULL;
        transfer->in = call->root == i ? recv : NULL;
        break;
    case ACCEL_ENGINE_SEND: transfer->out = send; break;
    case ACCEL_ENGINE_RECV: transfer->in = recv; break;
    default: break;
    }
    transfer->out_bytes = transfer->out ? row : 0;
    transfer->in_bytes = transfer->in ? row : 0;
}

/* Of all rows that are sent. */
static size_t
send_bytes (const struct operation *operation)
{
    const struct accel_engine_call *call = operation->call;
    bool each = call->kind == ACCEL_ENGINE_ALL_TO_ALL || call->kind == ACCEL_ENGINE_REDUCE_SCATTER;
    return row_of (call) * (each ? (size_t) operation->comm->size : 1);
}

static size_t
inline_of (const struct operation *operation, size_t bytes)
{
    return bytes <= (operation->goes_by_outbox ? mpi.host.outbox_inline : INLINE_BYTES) ? bytes : 0;
}

static size_t
operation_bytes (size_t size)
{
    return sizeof (struct operation)
           + size * (sizeof (struct transfer) + sizeof *((struct operation *) NULL)->sources + sizeof (uint32_t));
}

/* Kept from call to call: to get as much from the kernel each time, and return it, would take as long as to send it. */
static bool
take_rows (struct operation *operation)
{
    if (mpi.world.spare_bytes < operation->rows_bytes) {
        operation->rows = malloc (operation->rows_bytes);
        return operation->rows;
    }
    operation->rows = mpi.world.spare;
    operation->rows_bytes = mpi.world.spare_bytes;
    mpi.world.spare = NULL;
    mpi.world.spare_bytes = 0;
    return true;
}

static void
give_rows (struct operation *operation)
{
    if (!operation->rows || operation->rows_bytes <= mpi.world.spare_bytes) {
        free (operation->rows);
        return;
    }
    free (mpi.world.spare);
    mpi.world.spare = operation->rows;
    mpi.world.spare_bytes = operation->rows_bytes;
}

/* So is one call. */
static struct operation *
take_operation (size_t bytes)
{
    struct operation *operation = mpi.world.spare_operation;
    if (!operation || mpi.world.spare_operation_bytes != bytes)
        return calloc (1, bytes);
    mpi.world.spare_operation = NULL;
    return memset (operation, 0, bytes);
}

static void
give_operation (struct operation *operation)
{
    size_t size = (size_t) operation->comm->size;
    free (mpi.world.spare_operation);
    mpi.world.spare_operation = operation;
    mpi.world.spare_operation_bytes = operation_bytes (size);
}

/* Ranks of which the messages differ get a control message each. */
static bool
allocate (struct operation *operation)
{
    const struct accel_engine_call *call = operation->call;
    size_t size = (size_t) operation->comm->size, row = row_of (call);
    bool each = call->kind == ACCEL_ENGINE_ALL_TO_ALL || call->kind == ACCEL_ENGINE_REDUCE_SCATTER;
    size_t control = sizeof (struct header) + inline_of (operation, row);
    if (!operation->goes_by_outbox && !(operation->control = malloc (each ? size * control : control)))
        return false;
    bool is_hier_bcast = hier_bcast_supports (operation->comm, call);
    bool is_hier_reduce = hier_reduce_supports (operation->comm, call);

    if (is_hier_bcast || is_hier_reduce)
        group_memory_prepare (operation->comm);
    if (is_hier_bcast)
        hier_bcast_plan (operation);
    if (!call_reduces (call))
        return true;
    if (is_hier_reduce)
        hier_reduce_plan (operation);
    else if (size > 1 && !inline_of (operation, row) && row)
        blocks_plan (operation);
    else
        operation->rows_bytes = size > 1 ? size * row + 1 : 1;
    return take_rows (operation);
}

struct operation *
operation_create (struct communicator *comm, const struct accel_engine_call *call)
{
    size_t size = (size_t) comm->size;
    struct operation *operation = take_operation (operation_bytes (size));
    bool pair = call_is_pair (call);
    group_memory_collect ();
    if (!operation)
        return NULL;
    operation->comm = comm;
    operation->topology = comm->topology;
    operation->call = call;
    operation->mine = (struct call_signature){ .count = call->count,
                                               .kind = (int32_t) call->kind,
                                               .root = pair ? 0 : call->root,
                                               .dtype = (int16_t) call->dtype,
                                               .op = pair ? 0 : (int16_t) call->op,
                                               .public_call = pair ? 0 : call->public_call,
                                               .form = pair ? 0 : call->form,
                                               .number = call->number };
    operation->sources = (const void **) (void *) (operation->transfers + size);
    operation->pairs = (uint32_t *) (void *) (operation->sources + size);
    operation->goes_by_outbox = outbox_supports (comm, call);
    if (!allocate (operation)) {
        operation_destroy (operation);
        return NULL;
    }
    memcpy (operation->pairs, comm->pairs_to, size * sizeof *operation->pairs);
    operation->serial = comm->outbox_calls;
    comm->outbox_calls += operation->goes_by_outbox;
    operation->transfers[comm->rank].send_at = arena_offset (call->send, send_bytes (operation));
    operation->transfers[comm->rank].recv_at = arena_offset (call->recv, row_of (call));
    operation->transfers[comm->rank].shared_at = comm->shared_at;
    operation->tag = mpi.world.next_tag;
    mpi.world.next_tag = operation->tag + 2 < mpi.world.last_tag ? operation->tag + 2 : TAG_FIRST;
    for (int i = 0; i < comm->size; i++) {
        set_transfer (operation, i);
        operation->missing += operation->transfers[i].is_used;
    }
    return operation;
}

/* What this rank sends to itself. */
static void
copy_own (const struct operation *operation)
{
    const struct accel_engine_call *call = operation->call;
    size_t row = row_of (call), own = (size_t) operation->comm->rank * row;
    if (!row)
        return;
    if (call->kind == ACCEL_ENGINE_ALL_GATHER)
        memmove ((char *) call->recv + own, call->send, row);
    if (call->kind == ACCEL_ENGINE_ALL_TO_ALL)
        memcpy ((char *) call->recv + own, (const char *) call->send + own, row);
}

static void
send_control (struct operation *operation, int rank, bool each, size_t data)
{
    size_t bytes = sizeof (struct header) + data;
    char *control = operation->control + (each ? (size_t) rank * bytes : 0);
    struct header header = operation_header (operation, data);
    memcpy (control, &header, sizeof header);
    if (data)
        memcpy (control + sizeof header, operation->transfers[rank].out, data);
    post_control (operation, rank, control, bytes);
    operation->comm->pairs_to[rank]++;
}

static void
send_to (struct operation *operation, int rank, bool each)
{
    const struct transfer *transfer = &operation->transfers[rank];
    size_t data = inline_of (operation, transfer->out_bytes);
    if (!operation->goes_by_outbox)
        send_control (operation, rank, each, data);
    if (!data)
        post_send (operation, rank, operation->window, transfer->out, transfer->out_bytes, operation->tag);
}

/* MPI must not see a buffer change that it is sending from, so the shared one is written before the first message. */
void
operation_begin (struct operation *operation)
{
    const struct accel_engine_call *call = operation->call;
    bool each = call->kind == ACCEL_ENGINE_ALL_TO_ALL || call->kind == ACCEL_ENGINE_REDUCE_SCATTER;
    copy_own (operation);
    for (int i = 1; i < operation->comm->size; i++) { /* not all to rank 0 first */
        int rank = (operation->comm->rank + i) % operation->comm->size;
        if (operation->transfers[rank].is_used)
            send_to (operation, rank, each);
    }
}

/* Of two ranks, one sends and the other receives. */
static bool
is_expected (const struct operation *operation, int rank, const struct header *theirs)
{
    struct call_signature mine = operation->mine;
    if (call_is_pair (operation->call))
        mine.kind = mine.kind == ACCEL_ENGINE_SEND ? ACCEL_ENGINE_RECV : ACCEL_ENGINE_SEND;
    return !memcmp (&mine, &theirs->signature, sizeof mine)
           && theirs->inline_bytes == inline_of (operation, operation->transfers[rank].in_bytes);
}

void
operation_match (struct operation *operation, int rank, const struct header *header, const char *data)
{
    struct transfer *transfer = &operation->transfers[rank];
    if (operation->over)
        return;
    if (!is_expected (operation, rank, header)) {
        transfer->differs = true;
        transfer->is_other = !call_is_pair (operation->call) && header->signature.kind < ACCEL_ENGINE_SEND;
        return;
    }
    transfer->has_come = true;
    transfer->tag = header->tag;
    transfer->send_at = header->send_at;
    transfer->recv_at = header->recv_at;
    transfer->shared_at = header->shared_at;
    operation->missing--;
    mpi.world.has_all = mpi.world.has_all || !operation->missing;
    if (operation->blocks)
        blocks_match (operation, rank);
    else if (header->inline_bytes)
        memcpy (transfer->in, data, transfer->in_bytes);
    else
        post_recv (operation, rank, operation->window, transfer->in, transfer->in_bytes, transfer->tag);
}

static void
reduce_rows (struct operation *operation)
{
    const struct accel_engine_call *call = operation->call;
    size_t row = row_of (call), own = (size_t) operation->comm->rank * row;
    for (int i = 0; i < operation->comm->size; i++)
        operation->sources[i] = operation->rows + (size_t) i * row;
    operation->sources[operation->comm->rank]
        = (const char *) call->send + (call->kind == ACCEL_ENGINE_REDUCE_SCATTER ? own : 0);
    call->helpers->reduce (call->dtype, call->op, operation->sources, operation->comm->size, call->recv, call->count);
}

/* All have come to a large reduction of a group, but one of them has no memory for it: it goes from rank to rank. */
static void
go_direct (struct operation *operation)
{
    operation->hier.is_on = false;
    give_rows (operation);
    blocks_plan (operation);
    if (!take_rows (operation))
        world_check (MPI_ERR_NO_MEM, "memory for a reduction");
    operation->comm->moved = true;
}

/* After a failure of MPI, what was not posted would look as if it had arrived. */
void
operation_advance (struct operation *operation)
{
    if (operation->over || *mpi.world.error)
        return;
    bool in_parts = operation->blocks || operation->hier.is_on;
    bool complete = operation->hier.is_on ? hier_reduce_advance (operation)
                    : operation->blocks    ? blocks_advance (operation)
                                        : !operation->window->left;
    if (operation->hier.is_on && operation->hier.is_direct && call_reduces (operation->call))
        go_direct (operation);
    if (!complete || operation->missing || operation->goes_by_outbox != operation->is_posted)
        return;
    if (call_reduces (operation->call) && !in_parts && operation->call->count)
        reduce_rows (operation);
    operation->over = true;
}

bool
operation_awaits (const struct operation *operation, int rank)
{
    const struct transfer *transfer = &operation->transfers[rank];
    return transfer->is_used && (!transfer->has_come || transfer->left || hier_reduce_awaits (operation, rank));
}

/* MPI may still send what a failed call has begun. */
static bool
has_pending_messages (const struct operation *operation)
{
    for (int i = 0; operation->comm && i < operation->comm->size; i++)
        if (operation->transfers[i].left)
            return true;
    return false;
}

void
operation_destroy (struct operation *operation)
{
    if (has_pending_messages (operation)) {
        mpi.world.is_stuck = true;
        operation->comm = NULL;
        operation->next = mpi.world.abandoned;
        mpi.world.abandoned = operation;
        return;
    }
    give_rows (operation);
    free (operation->control);
    give_operation (operation);
}
