/* SPDX-License-Identifier: Apache-2.0 */
/* Large all-reduces on several hosts.
 *
 * The buffer is cut into pieces, which the ranks of a host carry in turns.  Hosts form a chain in the order of ranks:
 * on the first one, the carrier of a piece reduces it over its host, and sends it to the carrier on the next host,
 * which goes on with the ranks there.  On the last host the piece is complete, and goes all the way back.  So it is
 * reduced in the order of ranks, with the bits of engine shm, and crosses each link twice, once in each direction.
 * Several pieces are on the way, so that links and processors work at the same time.
 *
 * Within a host, a carrier reads the buffers of the other ranks, and they read its result, if the buffers are in the
 * arenas.  Others pass through stages.
 *
 * Reductions come one after the other; pieces are counted through all of them, so that marks only grow. */
#include <config.h>

#include "engines/mpi/mpi_private.h"

#include <string.h>

enum { WIDE = 1024 }; /* 16-bit floats that are in float32 at once */

/* 16-bit floats are reduced in float32, and rounded once, on the last host. */
static bool
is_half (const struct accel_engine_call *call)
{
    return call->dtype == ACCEL_FLOAT16 || call->dtype == ACCEL_BFLOAT16;
}

bool
tiers_serve (const struct team *team, const struct accel_engine_call *call)
{
    return mpi_host.marks && !team->place && call->kind == ACCEL_ENGINE_ALL_REDUCE
           && (!is_half (call) || world_can_widen (call->helpers))
           && call->count >= (size_t) TIERS_LEAST / call->element_bytes * (size_t) (mpi_host.hosts - 1);
}

void
tiers_plan (struct flight *flight)
{
    const struct accel_engine_call *call = flight->call;
    struct tiers *tiers = &flight->tiers;
    size_t bytes = call->count * call->element_bytes / TIERS_PARTS / 64 * 64, size = (size_t) mpi_host.size;
    bool is_near = mpi_host.is_near && call->count * call->element_bytes >= TIERS_NEAR_LEAST;
    size_t most = is_near ? TIERS_PIECE_NEAR : TIERS_PIECE;
    most = is_half (call) ? most / 2 : most; /* between hosts, they have 4 bytes */
    bytes = bytes > most ? most : bytes < TIERS_PIECE_LEAST ? TIERS_PIECE_LEAST : bytes;
    tiers->piece = bytes / call->element_bytes;
    tiers->pieces = (call->count + tiers->piece - 1) / tiers->piece;
    tiers->carried = (tiers->pieces + size - 1 - (size_t) mpi_host.rank) / size;
    tiers->is_on = true;
    flight->rows_bytes = (size_t) TIERS_WINDOW * TIERS_PIECE;
}

/* ---- where things are ---- */

static struct marks *
own_marks (void)
{
    return &mpi_host.marks[mpi_host.rank];
}

static uint64_t
read_mark (const _Atomic uint64_t *mark)
{
    return atomic_load_explicit (mark, memory_order_acquire);
}

static void
set_mark (struct flight *flight, _Atomic uint64_t *mark, uint64_t value)
{
    atomic_store_explicit (mark, value, memory_order_release);
    flight->team->moved = true;
}

/* The rank of a host of @size that carries piece @k. */
static int
carrier_of (size_t k, int size)
{
    return (int) (k % (size_t) size);
}

/* The @i-th of the pieces that this rank carries. */
static size_t
piece_of (size_t i)
{
    return i * (size_t) mpi_host.size + (size_t) mpi_host.rank;
}

static size_t
count_of (const struct flight *flight, size_t k)
{
    size_t begin = k * flight->tiers.piece, left = flight->call->count - begin;
    return left < flight->tiers.piece ? left : flight->tiers.piece;
}

static size_t
bytes_of (const struct flight *flight, size_t k)
{
    return count_of (flight, k) * flight->call->element_bytes;
}

/* Of what goes from host to host until all is reduced. */
static size_t
row_bytes (const struct flight *flight, size_t k)
{
    return count_of (flight, k) * (is_half (flight->call) ? sizeof (float) : flight->call->element_bytes);
}

static size_t
offset_of (const struct flight *flight, size_t k)
{
    return k * flight->tiers.piece * flight->call->element_bytes;
}

/* Places for what a rank of this host gives, then for what it gets. */
static unsigned char *
stage_of (int local, size_t slot)
{
    return mpi_host.stages + ((size_t) local * (TIERS_STAGED + TIERS_WINDOW) + slot) * TIERS_PIECE;
}

static const unsigned char *
source_of (const struct flight *flight, int local, size_t k)
{
    const struct leg *leg = &flight->legs[mpi_host.first + local];
    if (local == mpi_host.rank)
        return (const unsigned char *) flight->call->send + offset_of (flight, k);
    return leg->send_at != FOREIGN ? mpi_host.arenas + leg->send_at + offset_of (flight, k)
                                   : stage_of (local, k % TIERS_STAGED);
}

/* Where its carrier @local has piece @k when it is complete. */
static unsigned char *
result_of (const struct flight *flight, int local, size_t k)
{
    const struct leg *leg = &flight->legs[mpi_host.first + local];
    if (mpi_host.size == 1 || (local == mpi_host.rank && leg->recv_at != FOREIGN))
        return (unsigned char *) flight->call->recv + offset_of (flight, k);
    return leg->recv_at != FOREIGN ? mpi_host.arenas + leg->recv_at + offset_of (flight, k)
                                   : stage_of (local, TIERS_STAGED + k / (size_t) mpi_host.size % TIERS_WINDOW);
}

static struct block *
slot_of (struct flight *flight, size_t i)
{
    return &flight->window[i % TIERS_WINDOW];
}

static char *
row_of (const struct flight *flight, size_t i)
{
    return flight->rows + i % TIERS_WINDOW * TIERS_PIECE;
}

/* ---- between hosts ---- */

static int
above (size_t k)
{
    return mpi_host.above + carrier_of (k, mpi_host.above_size);
}

static int
below (size_t k)
{
    return mpi_host.below + carrier_of (k, mpi_host.below_size);
}

static bool
is_quiet (struct flight *flight, size_t i)
{
    return !slot_of (flight, i)->left && !*mpi_world.error;
}

static void
begin_piece (struct flight *flight)
{
    size_t i = flight->tiers.begun++, k = piece_of (i);
    if (mpi_host.below >= 0)
        post_recv (flight, below (k), slot_of (flight, i), row_of (flight, i), row_bytes (flight, k),
                   flight->legs[below (k)].tag);
}

/* Whether the other ranks of this host have got as far as @mark says. */
static bool
have_all (const struct flight *flight, bool taken, size_t k)
{
    for (int local = 0; local < mpi_host.size; local++) {
        const struct marks *marks = &mpi_host.marks[local];
        if (read_mark (taken ? &marks->taken : &marks->staged) <= flight->tiers.base + k)
            return false;
    }
    return true;
}

static bool
can_reduce (struct flight *flight)
{
    size_t i = flight->tiers.reduced, k = piece_of (i);
    return i < flight->tiers.begun && is_quiet (flight, i) && have_all (flight, false, k)
           && (i < TIERS_WINDOW || have_all (flight, true, piece_of (i - TIERS_WINDOW)));
}

static void
divide (const struct flight *flight, void *values, size_t count)
{
    float *singles = values;
    double *doubles = values;
    for (size_t i = 0; i < count; i++)
        if (flight->call->dtype == ACCEL_FLOAT64)
            doubles[i] /= (double) flight->team->size;
        else
            singles[i] /= (float) flight->team->size;
}

/* Elements @begin to @begin + @count of piece @k, 16-bit floats.  @row has what lower hosts have, and gets the sum.
 * @param result  NULL: it is not complete */
static void
reduce_wide (const struct flight *flight, size_t k, size_t begin, size_t count, float *row, void *result)
{
    const struct accel_engine_call *call = flight->call;
    enum accel_op op = call->op == ACCEL_AVG ? ACCEL_SUM : call->op;
    float next[WIDE];
    const void *pair[] = { row, next };
    for (int local = 0; local < mpi_host.size; local++) {
        bool is_first = !local && mpi_host.below < 0;
        call->helpers->widen (is_first ? row : next, source_of (flight, local, k) + begin * call->element_bytes,
                              call->dtype, count);
        if (!is_first)
            call->helpers->reduce (ACCEL_FLOAT32, op, pair, 2, row, count);
    }
    if (!result)
        return;
    if (call->op == ACCEL_AVG)
        divide (flight, row, count);
    call->helpers->narrow ((char *) result + begin * call->element_bytes, call->dtype, row, count);
}

static void
reduce_halves (const struct flight *flight, size_t k, float *row, void *result)
{
    size_t count = count_of (flight, k);
    for (size_t done = 0; done < count; done += WIDE)
        reduce_wide (flight, k, done, count - done < WIDE ? count - done : WIDE, row + done, result);
}

static void
reduce_wholes (const struct flight *flight, size_t k, void *row, void *target, bool is_last)
{
    const struct accel_engine_call *call = flight->call;
    enum accel_op op = call->op == ACCEL_AVG ? ACCEL_SUM : call->op;
    size_t count = count_of (flight, k);
    int sources = 0;
    if (mpi_host.below >= 0)
        flight->sources[sources++] = row;
    for (int local = 0; local < mpi_host.size; local++)
        flight->sources[sources++] = source_of (flight, local, k);
    call->helpers->reduce (call->dtype, op, flight->sources, sources, target, count);
    if (is_last && call->op == ACCEL_AVG)
        divide (flight, target, count);
}

/* In place, the result takes the place of what this rank, its only reader, has read. */
static void
reduce_piece (struct flight *flight)
{
    size_t i = flight->tiers.reduced++, k = piece_of (i);
    bool is_last = mpi_host.above < 0;
    void *result = result_of (flight, mpi_host.rank, k), *row = row_of (flight, i);
    if (is_half (flight->call))
        reduce_halves (flight, k, row, is_last ? result : NULL);
    else
        reduce_wholes (flight, k, row, is_last ? result : row, is_last);
    flight->team->moved = true;
    if (is_last)
        return;
    post_send (flight, above (k), slot_of (flight, i), row, row_bytes (flight, k), flight->tag);
    post_recv (flight, above (k), slot_of (flight, i), result, bytes_of (flight, k), flight->legs[above (k)].tag + 1);
}

static void
return_piece (struct flight *flight)
{
    size_t i = flight->tiers.returned++, k = piece_of (i);
    set_mark (flight, &own_marks ()->done, flight->tiers.base + k + 1);
    if (mpi_host.below >= 0)
        post_send (flight, below (k), slot_of (flight, i), result_of (flight, mpi_host.rank, k),
                   bytes_of (flight, k), flight->tag + 1);
}

static void
carry (struct flight *flight)
{
    struct tiers *tiers = &flight->tiers;
    while (tiers->begun < tiers->carried && tiers->begun - tiers->finished < TIERS_WINDOW)
        begin_piece (flight);
    if (can_reduce (flight))
        reduce_piece (flight);
    while (tiers->returned < tiers->reduced && is_quiet (flight, tiers->returned))
        return_piece (flight);
    while (tiers->finished < tiers->returned && is_quiet (flight, tiers->finished))
        tiers->finished++;
}

/* ---- within the host ---- */

static bool
is_done (const struct flight *flight, size_t k)
{
    return read_mark (&mpi_host.marks[carrier_of (k, mpi_host.size)].done) > flight->tiers.base + k;
}

/* Give: all at once, if the others can read the buffer. */
static void
stage (struct flight *flight)
{
    struct tiers *tiers = &flight->tiers;
    size_t k = tiers->staged;
    if (k == tiers->pieces)
        return;
    if (flight->legs[flight->team->rank].send_at != FOREIGN || mpi_host.size == 1) {
        tiers->staged = tiers->pieces;
    } else {
        if (k >= TIERS_STAGED && !is_done (flight, k - TIERS_STAGED))
            return;
        if (carrier_of (k, mpi_host.size) != mpi_host.rank)
            memcpy (stage_of (mpi_host.rank, k % TIERS_STAGED),
                    (const char *) flight->call->send + offset_of (flight, k), bytes_of (flight, k));
        tiers->staged++;
    }
    set_mark (flight, &own_marks ()->staged, tiers->base + tiers->staged);
}

/* Get. */
static void
take (struct flight *flight)
{
    struct tiers *tiers = &flight->tiers;
    size_t k = tiers->taken;
    if (k == tiers->pieces || !is_done (flight, k))
        return;
    const void *from = result_of (flight, carrier_of (k, mpi_host.size), k);
    char *to = (char *) flight->call->recv + offset_of (flight, k);
    if (from != to)
        memcpy (to, from, bytes_of (flight, k));
    tiers->taken++;
    set_mark (flight, &own_marks ()->taken, tiers->base + tiers->taken);
}

/* Pieces are numbered in the order of calls, once it is known which of them have pieces. */
static bool
number_pieces (struct flight *flight)
{
    struct tiers *tiers = &flight->tiers;
    bool is_reduced = call_reduces (flight->call);
    for (const struct flight *before = flight->team->first; before != flight; before = before->next)
        if (before->tiers.is_on && !before->tiers.is_planned)
            return false;
    tiers->is_planned = true;
    tiers->is_direct = !is_reduced && !spread_can (flight);
    tiers->base = mpi_host.planned;
    if (tiers->is_direct)
        spread_fall_back (flight);
    else
        mpi_host.planned += tiers->pieces;
    return true;
}

bool
tiers_advance (struct flight *flight)
{
    struct tiers *tiers = &flight->tiers;
    if (flight->missing || (!tiers->is_planned && !number_pieces (flight)))
        return false;
    if (tiers->is_direct)
        return !flight->window->left;
    if (tiers->base != mpi_host.finished)
        return false;
    if (!call_reduces (flight->call)) {
        if (!spread_advance (flight) || flight->window->left)
            return false;
        mpi_host.finished += tiers->pieces;
        return true;
    }
    stage (flight);
    carry (flight);
    take (flight);
    if (tiers->taken < tiers->pieces || tiers->finished < tiers->carried || flight->window->left
        || !have_all (flight, true, tiers->pieces - 1))
        return false;
    mpi_host.finished += tiers->pieces;
    return true;
}

bool
tiers_await (const struct flight *flight, int rank)
{
    const struct tiers *tiers = &flight->tiers;
    int local = rank - mpi_host.first;
    return tiers->is_planned && !tiers->is_direct && local >= 0 && local < mpi_host.size
           && read_mark (&mpi_host.marks[local].taken) < tiers->base + tiers->pieces;
}
