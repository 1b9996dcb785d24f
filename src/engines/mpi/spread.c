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

#include "engines/mpi/mpi_private.h"

#include <string.h>

struct piece {
    int origin; /* the rank whose part it is of */
    size_t at, bytes; /* in the result */
};

static bool
is_gather (const struct flight *flight)
{
    return flight->call->kind == ACCEL_ENGINE_ALL_GATHER;
}

static size_t
parts_of (const struct flight *flight)
{
    return is_gather (flight) ? (size_t) flight->team->size : 1;
}

bool
spread_serve (const struct team *team, const struct accel_engine_call *call)
{
    bool is_kind = call->kind == ACCEL_ENGINE_ALL_GATHER || call->kind == ACCEL_ENGINE_BROADCAST;
    return team->places && is_kind
           && call->count >= (size_t) SPREAD_LEAST / call->element_bytes;
}

void
spread_plan (struct flight *flight)
{
    struct tiers *tiers = &flight->tiers;
    size_t row = flight->call->count * flight->call->element_bytes, bytes = row / TIERS_PARTS / LINE * LINE;
    tiers->piece = bytes > TIERS_PIECE ? TIERS_PIECE : bytes < TIERS_PIECE_LEAST ? TIERS_PIECE_LEAST : bytes;
    tiers->pieces = (row + tiers->piece - 1) / tiers->piece * parts_of (flight);
    tiers->is_on = true;
}

static struct piece
piece_at (const struct flight *flight, size_t q)
{
    size_t row = flight->call->count * flight->call->element_bytes, parts = parts_of (flight);
    size_t begin = q / parts * flight->tiers.piece, left = row - begin;
    int origin = is_gather (flight) ? (int) (q % parts) : flight->call->root;
    return (struct piece){ .origin = origin, .at = begin + (is_gather (flight) ? (size_t) origin * row : 0),
                           .bytes = left < flight->tiers.piece ? left : flight->tiers.piece };
}

/* The rank of a host that sends piece @q, or receives it. */
static int
carrier_on (const struct flight *flight, int host, size_t q)
{
    const struct places *places = flight->team->places;
    int origin = piece_at (flight, q).origin;
    if (places->host_of[origin] == host)
        return origin;
    return places_rank (places, host, (int) (q % (size_t) places_size (places, host)));
}

static int
carrier_here (const struct flight *flight, size_t q)
{
    return carrier_on (flight, flight->team->places->here, q);
}

static bool
is_carried (const struct flight *flight, size_t q)
{
    int rank = flight->team->rank;
    return piece_at (flight, q).origin != rank && carrier_here (flight, q) == rank;
}

static struct block *
slot_of (struct flight *flight, size_t i, bool is_own)
{
    return &flight->window[i % TIERS_WINDOW + (is_own ? TIERS_WINDOW : 0)];
}

static bool
is_quiet (struct flight *flight, size_t i, bool is_own)
{
    return !slot_of (flight, i, is_own)->left && !*mpi_world.error;
}

static void
set_mark (struct flight *flight, _Atomic uint64_t *mark, size_t pieces)
{
    atomic_store_explicit (mark, flight->tiers.base + pieces, memory_order_release);
    flight->team->moved = true;
}

static struct marks *
own_marks (const struct flight *flight)
{
    const struct places *places = flight->team->places;
    return places->marks[places->rank];
}

static bool
has_mark (const struct flight *flight, const _Atomic uint64_t *mark, size_t q)
{
    return atomic_load_explicit (mark, memory_order_acquire) > flight->tiers.base + q;
}

/* ---- between hosts ---- */

static void
send_piece (struct flight *flight, size_t q, bool up, struct block *slot)
{
    const struct places *places = flight->team->places;
    struct piece piece = piece_at (flight, q);
    int host = places->here + (up ? 1 : -1), tag = flight->tag + (piece.origin != flight->team->rank);
    if (host >= 0 && host < places->hosts)
        post_send (flight, carrier_on (flight, host, q), slot, (char *) flight->call->recv + piece.at, piece.bytes,
                   tag);
}

static bool
goes_up (const struct flight *flight, size_t q)
{
    const struct places *places = flight->team->places;
    return places->host_of[piece_at (flight, q).origin] < places->here;
}

static void
receive_piece (struct flight *flight, size_t q, struct block *slot)
{
    struct piece piece = piece_at (flight, q);
    int from = carrier_on (flight, flight->team->places->here + (goes_up (flight, q) ? -1 : 1), q);
    post_recv (flight, from, slot, (char *) flight->call->recv + piece.at, piece.bytes,
               flight->legs[from].tag + (piece.origin != from));
}

static size_t
own_count (const struct flight *flight)
{
    bool has_part = is_gather (flight) || flight->call->root == flight->team->rank;
    return has_part ? flight->tiers.pieces / parts_of (flight) : 0;
}

static void
send_own (struct flight *flight)
{
    struct spread *spread = &flight->spread;
    for (; spread->own < own_count (flight) && spread->own - spread->own_sent < TIERS_WINDOW; spread->own++) {
        size_t q = spread->own * parts_of (flight) + (is_gather (flight) ? (size_t) flight->team->rank : 0);
        send_piece (flight, q, true, slot_of (flight, spread->own, true));
        send_piece (flight, q, false, slot_of (flight, spread->own, true));
    }
    while (spread->own_sent < spread->own && is_quiet (flight, spread->own_sent, true))
        spread->own_sent++;
}

static void
carry (struct flight *flight)
{
    struct spread *spread = &flight->spread;
    for (; spread->next < flight->tiers.pieces && spread->begun - spread->finished < TIERS_WINDOW; spread->next++)
        if (is_carried (flight, spread->next))
            receive_piece (flight, spread->next, slot_of (flight, spread->begun++, false));
    while (spread->passed < spread->begun && is_quiet (flight, spread->passed, false)) {
        while (!is_carried (flight, spread->oldest))
            spread->oldest++;
        size_t q = spread->oldest++;
        set_mark (flight, &own_marks (flight)->done, q + 1);
        send_piece (flight, q, goes_up (flight, q), slot_of (flight, spread->passed++, false));
    }
    while (spread->finished < spread->passed && is_quiet (flight, spread->finished, false))
        spread->finished++;
}

/* ---- within the host ---- */

static bool
is_here (const struct flight *flight, size_t q)
{
    const struct places *places = flight->team->places;
    int carrier = carrier_here (flight, q);
    const struct marks *marks = places->marks[places->place_of[carrier]];
    return has_mark (flight, carrier == piece_at (flight, q).origin ? &marks->staged : &marks->done, q);
}

static void
take (struct flight *flight)
{
    struct tiers *tiers = &flight->tiers;
    size_t before = tiers->taken;
    for (; tiers->taken < tiers->pieces && is_here (flight, tiers->taken); tiers->taken++) {
        struct piece piece = piece_at (flight, tiers->taken);
        int carrier = carrier_here (flight, tiers->taken);
        if (carrier != flight->team->rank)
            memcpy ((char *) flight->call->recv + piece.at,
                    mpi_host.arenas + flight->legs[carrier].recv_at + piece.at, piece.bytes);
    }
    if (tiers->taken != before)
        set_mark (flight, &own_marks (flight)->taken, tiers->taken);
}

static bool
have_all (const struct flight *flight)
{
    const struct places *places = flight->team->places;
    for (int local = 0; local < places->size; local++)
        if (!has_mark (flight, &places->marks[local]->taken, flight->tiers.pieces - 1))
            return false;
    return true;
}

/* ---- all of it ---- */

/* What the ranks of a host share has to be in its arenas on all hosts, or none does it this way. */
bool
spread_can (const struct flight *flight)
{
    for (int i = 0; i < flight->team->size; i++)
        if (flight->legs[i].recv_at == FOREIGN && places_share (flight->team->places, i))
            return false;
    return true;
}

/* From rank to rank. */
void
spread_fall_back (struct flight *flight)
{
    const struct accel_engine_call *call = flight->call;
    int rank = flight->team->rank, size = flight->team->size;
    size_t row = call->count * call->element_bytes;
    char *recv = call->recv;
    for (int i = 1; i < size; i++) {
        int to = (rank + i) % size, from = (rank + size - i) % size;
        if (is_gather (flight) || rank == call->root)
            post_send (flight, to, flight->window, recv + (is_gather (flight) ? (size_t) rank * row : 0), row,
                       flight->tag);
        if (is_gather (flight) || from == call->root)
            post_recv (flight, from, flight->window, recv + (is_gather (flight) ? (size_t) from * row : 0), row,
                       flight->legs[from].tag);
    }
}

bool
spread_advance (struct flight *flight)
{
    const struct spread *spread = &flight->spread;
    const struct tiers *tiers = &flight->tiers;
    if (!tiers->staged) {
        flight->tiers.staged = tiers->pieces;
        set_mark (flight, &own_marks (flight)->staged, tiers->pieces);
    }
    send_own (flight);
    carry (flight);
    take (flight);
    return tiers->taken == tiers->pieces && spread->own_sent == own_count (flight) && spread->next == tiers->pieces
           && spread->finished == spread->begun && have_all (flight);
}
