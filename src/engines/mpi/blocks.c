/* SPDX-License-Identifier: Apache-2.0 */
/* Large reductions.  Rank i owns part i of the result: a row in a reduce-scatter, and 1/size of the vector in an
 * all-reduce.  Block b is piece b of all parts: each rank sends to rank i its piece of part i, rank i reduces what it
 * has got in the order of ranks, and, in an all-reduce, sends the result to all.  A few blocks are in flight, so pieces
 * travel while others are reduced.
 *
 * Messages with one tag from one rank to another arrive in the order of their posts, so both sides post the pieces of
 * each phase in the order of blocks. */
#include <config.h>

#include "engines/mpi/communicators.h"

/* A piece of a part, in elements. */
struct span {
    size_t begin, count;
};

static size_t
size_of (const struct operation *operation)
{
    return (size_t) operation->comm->size;
}

static struct span
span_of (const struct operation *operation, int part, size_t block)
{
    size_t end = ((size_t) part + 1) * operation->stride, begin = end - operation->stride + block * operation->piece;
    end = end < operation->limit ? end : operation->limit;
    size_t count = begin < end ? end - begin : 0;
    return (struct span){ begin, count < operation->piece ? count : operation->piece };
}

static struct block *
slot_of (struct operation *operation, size_t block)
{
    return &operation->window[block % WINDOW];
}

/* Where rank @i's piece of block @block goes. */
static char *
row_of (const struct operation *operation, int i, size_t block)
{
    size_t row = block % WINDOW * size_of (operation) + (size_t) i;
    return operation->rows + row * operation->piece * operation->call->element_bytes;
}

void
blocks_plan (struct operation *operation)
{
    const struct accel_engine_call *call = operation->call;
    size_t size = size_of (operation), bytes = PIECES_BYTES / size;
    bool all = call->kind == ACCEL_ENGINE_ALL_REDUCE;
    bytes = bytes > PIECE_MOST ? PIECE_MOST : bytes < PIECE_LEAST ? PIECE_LEAST : bytes;
    operation->stride = all ? (call->count + size - 1) / size : call->count;
    operation->limit = all ? call->count : size * call->count;
    operation->piece = bytes / call->element_bytes;
    if (operation->piece > operation->stride)
        operation->piece = operation->stride;
    operation->blocks = (operation->stride + operation->piece - 1) / operation->piece;
    operation->rows_bytes = WINDOW * size * operation->piece * call->element_bytes;
}

static void
receive_piece (struct operation *operation, int rank, size_t block)
{
    size_t bytes = span_of (operation, operation->comm->rank, block).count * operation->call->element_bytes;
    post_recv (operation, rank, slot_of (operation, block), row_of (operation, rank, block), bytes,
               operation->transfers[rank].tag);
}

static void
begin_block (struct operation *operation)
{
    size_t block = operation->begun++, element = operation->call->element_bytes;
    for (int i = 1; i < operation->comm->size; i++) {
        int rank = (operation->comm->rank + i) % operation->comm->size;
        struct span span = span_of (operation, rank, block);
        post_send (operation, rank, slot_of (operation, block),
                   (const char *) operation->call->send + span.begin * element, span.count * element, operation->tag);
        if (operation->transfers[rank].has_come)
            receive_piece (operation, rank, block);
        else
            slot_of (operation, block)->unposted++;
    }
}

void
blocks_match (struct operation *operation, int rank)
{
    for (size_t block = operation->finished; block < operation->begun; block++) {
        slot_of (operation, block)->unposted--;
        receive_piece (operation, rank, block);
    }
}

/* In place, the result takes the place of what has been sent: all that has left this rank by then. */
static void
reduce_block (struct operation *operation)
{
    const struct accel_engine_call *call = operation->call;
    size_t block = operation->reduced++, element = call->element_bytes;
    bool all = call->kind == ACCEL_ENGINE_ALL_REDUCE;
    int self = operation->comm->rank, size = operation->comm->size;
    struct span own = span_of (operation, self, block);
    char *target = (char *) call->recv + (all ? own.begin : block * operation->piece) * element;
    for (int i = 0; i < size; i++)
        operation->sources[i] = row_of (operation, i, block);
    operation->sources[self] = (const char *) call->send + own.begin * element;
    if (own.count)
        call->helpers->reduce (call->dtype, call->op, operation->sources, size, target, own.count);
    for (int i = 1; all && i < size; i++) {
        int rank = (self + i) % size;
        struct span theirs = span_of (operation, rank, block);
        post_send (operation, rank, slot_of (operation, block), target, own.count * element, operation->tag + 1);
        post_recv (operation, rank, slot_of (operation, block), (char *) call->recv + theirs.begin * element,
                   theirs.count * element, operation->transfers[rank].tag + 1);
    }
}

static bool
is_quiet (struct operation *operation, size_t block)
{
    const struct block *slot = slot_of (operation, block);
    return !slot->left && !slot->unposted && !*mpi.world.error;
}

bool
blocks_advance (struct operation *operation)
{
    while (operation->reduced < operation->begun && is_quiet (operation, operation->reduced))
        reduce_block (operation);
    while (operation->finished < operation->reduced && is_quiet (operation, operation->finished))
        operation->finished++;
    while (operation->begun < operation->blocks && operation->begun - operation->finished < WINDOW)
        begin_block (operation);
    return operation->finished == operation->blocks;
}
