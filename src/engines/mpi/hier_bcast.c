/* SPDX-License-Identifier: Apache-2.0 */
/* Large broadcasts and all-gathers on several hosts, where the result goes to memory of accel_alloc() on all hosts.
 *
 * Each part of the result, which is one rank's, is cut into pieces.  Its rank sends a piece up and down the chain of
 * hosts.  On another host, one rank carries it: it receives the piece where it belongs, and passes it on to the next
 * host.  So it crosses each link once, however many ranks a host has, and they carry pieces in turns.  The other ranks
 * of the host copy it from there.
 *
 * Messages from one rank to another have one tag if the piece is the sender's, and another one if it passes it on:
 * those of each kind are sent in the order of pieces. */
#include <config.h>

#include "engines/mpi/hier.h"

#include <string.h>

struct piece {
    int origin; /* the rank whose part it is of */
    size_t at, bytes; /* in the result */
};

static bool
is_gather (const struct operation *operation)
{
    return operation->call->kind == ACCEL_ENGINE_ALL_GATHER;
}

static size_t
parts_of (const struct operation *operation)
{
    return is_gather (operation) ? (size_t) operation->comm->size : 1;
}

bool
hier_bcast_supports (const struct communicator *comm, const struct accel_engine_call *call)
{
    bool is_kind = call->kind == ACCEL_ENGINE_ALL_GATHER || call->kind == ACCEL_ENGINE_BROADCAST;
    return comm->topology && is_kind && call->count >= (size_t) HIER_BCAST_LEAST / call->element_bytes;
}

void
hier_bcast_plan (struct operation *operation)
{
    struct hier_reduce *hier = &operation->hier;
    size_t row = operation->call->count * operation->call->element_bytes, bytes = row / HIER_REDUCE_PARTS / LINE * LINE;
    hier->piece = bytes > HIER_REDUCE_PIECE         ? HIER_REDUCE_PIECE
                  : bytes < HIER_REDUCE_PIECE_LEAST ? HIER_REDUCE_PIECE_LEAST
                                                    : bytes;
    hier->pieces = (row + hier->piece - 1) / hier->piece * parts_of (operation);
    hier->is_on = true;
}

static struct piece
piece_at (const struct operation *operation, size_t q)
{
    size_t row = operation->call->count * operation->call->element_bytes, parts = parts_of (operation);
    size_t begin = q / parts * operation->hier.piece, left = row - begin;
    int origin = is_gather (operation) ? (int) (q % parts) : operation->call->root;
    return (struct piece){ .origin = origin, .at = begin + (is_gather (operation) ? (size_t) origin * row : 0),
                           .bytes = left < operation->hier.piece ? left : operation->hier.piece };
}

/* The rank of a host that sends piece @q, or receives it. */
static int
carrier_on (const struct operation *operation, int host, size_t q)
{
    return carrier_of (operation, host, q, piece_at (operation, q).origin);
}

static int
carrier_here (const struct operation *operation, size_t q)
{
    return carrier_on (operation, operation->topology->here, q);
}

static bool
is_carried (const struct operation *operation, size_t q)
{
    int rank = operation->comm->rank;
    return piece_at (operation, q).origin != rank && carrier_here (operation, q) == rank;
}

static struct block *
slot_of (struct operation *operation, size_t i, bool is_own)
{
    return &operation->window[i % HIER_REDUCE_WINDOW + (is_own ? HIER_REDUCE_WINDOW : 0)];
}

static bool
is_quiet (struct operation *operation, size_t i, bool is_own)
{
    return !slot_of (operation, i, is_own)->left && !*mpi.world.error;
}

/* ---- between hosts ---- */

static void
send_piece (struct operation *operation, size_t q, bool up, struct block *slot)
{
    const struct topology *topology = operation->topology;
    struct piece piece = piece_at (operation, q);
    int host = topology->here + (up ? 1 : -1), tag = operation->tag + (piece.origin != operation->comm->rank);
    if (host >= 0 && host < topology->hosts)
        post_send (operation, carrier_on (operation, host, q), slot, (char *) operation->call->recv + piece.at,
                   piece.bytes, tag);
}

static bool
goes_up (const struct operation *operation, size_t q)
{
    return operation->topology->host_of[piece_at (operation, q).origin] < operation->topology->here;
}

static void
receive_piece (struct operation *operation, size_t q, struct block *slot)
{
    struct piece piece = piece_at (operation, q);
    int from = carrier_on (operation, operation->topology->here + (goes_up (operation, q) ? -1 : 1), q);
    post_recv (operation, from, slot, (char *) operation->call->recv + piece.at, piece.bytes,
               operation->transfers[from].tag + (piece.origin != from));
}

static size_t
own_count (const struct operation *operation)
{
    bool has_part = is_gather (operation) || operation->call->root == operation->comm->rank;
    return has_part ? operation->hier.pieces / parts_of (operation) : 0;
}

static void
send_own (struct operation *operation)
{
    struct hier_bcast *bcast = &operation->bcast;
    for (; bcast->own < own_count (operation) && bcast->own - bcast->own_sent < HIER_REDUCE_WINDOW; bcast->own++) {
        size_t q = bcast->own * parts_of (operation) + (is_gather (operation) ? (size_t) operation->comm->rank : 0);
        send_piece (operation, q, true, slot_of (operation, bcast->own, true));
        send_piece (operation, q, false, slot_of (operation, bcast->own, true));
    }
    while (bcast->own_sent < bcast->own && is_quiet (operation, bcast->own_sent, true))
        bcast->own_sent++;
}

static void
carry (struct operation *operation)
{
    struct hier_bcast *bcast = &operation->bcast;
    for (; bcast->next < operation->hier.pieces && bcast->begun - bcast->finished < HIER_REDUCE_WINDOW; bcast->next++)
        if (is_carried (operation, bcast->next))
            receive_piece (operation, bcast->next, slot_of (operation, bcast->begun++, false));
    while (bcast->passed < bcast->begun && is_quiet (operation, bcast->passed, false)) {
        while (!is_carried (operation, bcast->oldest))
            bcast->oldest++;
        size_t q = bcast->oldest++;
        set_counter (operation, &own_counters (operation)->done, q + 1);
        send_piece (operation, q, goes_up (operation, q), slot_of (operation, bcast->passed++, false));
    }
    while (bcast->finished < bcast->passed && is_quiet (operation, bcast->finished, false))
        bcast->finished++;
}

/* ---- within the host ---- */

static bool
is_here (const struct operation *operation, size_t q)
{
    int carrier = carrier_here (operation, q);
    const struct counters *counters = operation->topology->counters[operation->topology->local_rank_of[carrier]];
    return has_reached (operation, carrier == piece_at (operation, q).origin ? &counters->staged : &counters->done, q);
}

static void
take (struct operation *operation)
{
    struct hier_reduce *hier = &operation->hier;
    size_t before = hier->taken;
    for (; hier->taken < hier->pieces && is_here (operation, hier->taken); hier->taken++) {
        struct piece piece = piece_at (operation, hier->taken);
        int carrier = carrier_here (operation, hier->taken);
        if (carrier != operation->comm->rank)
            memcpy ((char *) operation->call->recv + piece.at,
                    mpi.host.arenas + operation->transfers[carrier].recv_at + piece.at, piece.bytes);
    }
    if (hier->taken != before)
        set_counter (operation, &own_counters (operation)->taken, hier->taken);
}

/* ---- all of it ---- */

/* What the ranks of a host share has to be in its arenas on all hosts, or none does it this way. */
bool
hier_bcast_is_possible (const struct operation *operation)
{
    for (int i = 0; i < operation->comm->size; i++)
        if (operation->transfers[i].recv_at == FOREIGN && topology_shares (operation->topology, i))
            return false;
    return true;
}

/* From rank to rank. */
void
hier_bcast_fall_back (struct operation *operation)
{
    const struct accel_engine_call *call = operation->call;
    int rank = operation->comm->rank, size = operation->comm->size;
    size_t row = call->count * call->element_bytes;
    char *recv = call->recv;
    for (int i = 1; i < size; i++) {
        int to = (rank + i) % size, from = (rank + size - i) % size;
        if (is_gather (operation) || rank == call->root)
            post_send (operation, to, operation->window, recv + (is_gather (operation) ? (size_t) rank * row : 0), row,
                       operation->tag);
        if (is_gather (operation) || from == call->root)
            post_recv (operation, from, operation->window, recv + (is_gather (operation) ? (size_t) from * row : 0),
                       row, operation->transfers[from].tag);
    }
}

bool
hier_bcast_advance (struct operation *operation)
{
    const struct hier_bcast *bcast = &operation->bcast;
    const struct hier_reduce *hier = &operation->hier;
    if (!hier->staged) {
        operation->hier.staged = hier->pieces;
        set_counter (operation, &own_counters (operation)->staged, hier->pieces);
    }
    send_own (operation);
    carry (operation);
    take (operation);
    return hier->taken == hier->pieces && bcast->own_sent == own_count (operation) && bcast->next == hier->pieces
           && bcast->finished == bcast->begun && all_have_taken (operation, hier->pieces - 1);
}
