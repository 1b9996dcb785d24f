/* SPDX-License-Identifier: Apache-2.0 */
/* Large reductions.  Rank i owns part i of the result: a row in a reduce-scatter, and 1/size of the vector in an
 * all-reduce.  Block b is piece b of all parts: each rank sends to rank i its piece of part i, rank i reduces what it
 * has got in the order of ranks, and, in an all-reduce, sends the result to all.  A few blocks are in flight, so pieces
 * travel while others are reduced.
 *
 * Messages with one tag from one rank to another arrive in the order of their posts, so both sides post the pieces of
 * each phase in the order of blocks. */
#include <config.h>

#include "engines/mpi/mpi_private.h"

/* A piece of a part, in elements. */
struct span {
    size_t begin, count;
};

static size_t
size_of (const struct flight *flight)
{
    return (size_t) flight->team->size;
}

static struct span
span_of (const struct flight *flight, int part, size_t block)
{
    size_t end = ((size_t) part + 1) * flight->stride, begin = end - flight->stride + block * flight->piece;
    end = end < flight->limit ? end : flight->limit;
    size_t count = begin < end ? end - begin : 0;
    return (struct span){ begin, count < flight->piece ? count : flight->piece };
}

static struct block *
slot_of (struct flight *flight, size_t block)
{
    return &flight->window[block % WINDOW];
}

/* Where rank @i's piece of block @block goes. */
static char *
row_of (const struct flight *flight, int i, size_t block)
{
    size_t row = block % WINDOW * size_of (flight) + (size_t) i;
    return flight->rows + row * flight->piece * flight->call->element_bytes;
}

void
blocks_plan (struct flight *flight)
{
    const struct accel_engine_call *call = flight->call;
    size_t size = size_of (flight), bytes = PIECES_BYTES / size;
    bool all = call->kind == ACCEL_ENGINE_ALL_REDUCE;
    bytes = bytes > PIECE_MOST ? PIECE_MOST : bytes < PIECE_LEAST ? PIECE_LEAST : bytes;
    flight->stride = all ? (call->count + size - 1) / size : call->count;
    flight->limit = all ? call->count : size * call->count;
    flight->piece = bytes / call->element_bytes;
    if (flight->piece > flight->stride)
        flight->piece = flight->stride;
    flight->blocks = (flight->stride + flight->piece - 1) / flight->piece;
    flight->rows_bytes = WINDOW * size * flight->piece * call->element_bytes;
}

static void
receive_piece (struct flight *flight, int rank, size_t block)
{
    size_t bytes = span_of (flight, flight->team->rank, block).count * flight->call->element_bytes;
    post_recv (flight, rank, slot_of (flight, block), row_of (flight, rank, block), bytes, flight->legs[rank].tag);
}

static void
begin_block (struct flight *flight)
{
    size_t block = flight->begun++, element = flight->call->element_bytes;
    for (int i = 1; i < flight->team->size; i++) {
        int rank = (flight->team->rank + i) % flight->team->size;
        struct span span = span_of (flight, rank, block);
        post_send (flight, rank, slot_of (flight, block), (const char *) flight->call->send + span.begin * element,
                   span.count * element, flight->tag);
        if (flight->legs[rank].has_come)
            receive_piece (flight, rank, block);
        else
            slot_of (flight, block)->unposted++;
    }
}

void
blocks_meet (struct flight *flight, int rank)
{
    for (size_t block = flight->finished; block < flight->begun; block++) {
        slot_of (flight, block)->unposted--;
        receive_piece (flight, rank, block);
    }
}

/* In place, the result takes the place of what has been sent: all that has left this rank by then. */
static void
reduce_block (struct flight *flight)
{
    const struct accel_engine_call *call = flight->call;
    size_t block = flight->reduced++, element = call->element_bytes;
    bool all = call->kind == ACCEL_ENGINE_ALL_REDUCE;
    int self = flight->team->rank, size = flight->team->size;
    struct span own = span_of (flight, self, block);
    char *target = (char *) call->recv + (all ? own.begin : block * flight->piece) * element;
    for (int i = 0; i < size; i++)
        flight->sources[i] = i == self ? (const char *) call->send + own.begin * element : row_of (flight, i, block);
    if (own.count)
        call->helpers->reduce (call->dtype, call->op, flight->sources, size, target, own.count);
    for (int i = 1; all && i < size; i++) {
        int rank = (self + i) % size;
        struct span theirs = span_of (flight, rank, block);
        post_send (flight, rank, slot_of (flight, block), target, own.count * element, flight->tag + 1);
        post_recv (flight, rank, slot_of (flight, block), (char *) call->recv + theirs.begin * element,
                   theirs.count * element, flight->legs[rank].tag + 1);
    }
}

static bool
is_quiet (struct flight *flight, size_t block)
{
    const struct block *slot = slot_of (flight, block);
    return !slot->left && !slot->unposted && !*mpi_world.error;
}

bool
blocks_advance (struct flight *flight)
{
    while (flight->reduced < flight->begun && is_quiet (flight, flight->reduced))
        reduce_block (flight);
    while (flight->finished < flight->reduced && is_quiet (flight, flight->finished))
        flight->finished++;
    while (flight->begun < flight->blocks && flight->begun - flight->finished < WINDOW)
        begin_block (flight);
    return flight->finished == flight->blocks;
}
