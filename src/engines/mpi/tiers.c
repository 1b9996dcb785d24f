/* SPDX-License-Identifier: Apache-2.0 */
/* Large all-reduces and reduce-scatters on several hosts, and within one.
 *
 * The buffer is cut into pieces, which the ranks of a host carry in turns.  Hosts form a chain in the order of ranks:
 * on the first one, the carrier of a piece reduces it over its host, and sends it to the carrier on the next host,
 * which goes on with the ranks there.  On the last host the piece is complete, and goes all the way back, or, in a
 * reduce-scatter, to the host of the rank whose row it is of; that rank carries it there.  So it is reduced in the
 * order of ranks, with the bits of engine shm, and crosses each link twice at most, once in each direction.  Several
 * pieces are on the way, so that links and processors work at the same time.
 *
 * If other ranks are between those of a host, the order of hosts is another one, in which only integers and booleans
 * have the same sum.
 *
 * Within a host, a carrier reads the buffers of the other ranks, and they read its result, if the buffers are in the
 * arenas.  Others pass through stages.
 *
 * Calls of a communicator come one after the other; pieces are counted through all of them, so that marks only grow. */
#include <config.h>

#include "engines/mpi/mpi_private.h"

#include <string.h>

enum { WIDE = 1024 }; /* 16-bit floats that are in float32 at once */

static bool
is_float (const struct accel_engine_call *call)
{
#define X(name, code, bits, text) \
    || (call->dtype == ACCEL_##name && ((int) (code) == kDLFloat || (int) (code) == kDLBfloat))
    return false ACCEL_DTYPE_MAP (X);
#undef X
}

/* 16-bit floats are reduced in float32, and rounded once, on the last host. */
static bool
is_half (const struct accel_engine_call *call)
{
    return is_float (call) && call->element_bytes == sizeof (uint16_t);
}

static bool
is_scatter (const struct accel_engine_call *call)
{
    return call->kind == ACCEL_ENGINE_REDUCE_SCATTER;
}

static size_t
rows_of (const struct flight *flight)
{
    return is_scatter (flight->call) ? (size_t) flight->team->size : 1;
}

/* Whether the result has the same bits, whatever the order. */
static bool
has_any_order (const struct accel_engine_call *call)
{
    return !is_float (call);
}

bool
tiers_serve (const struct team *team, const struct accel_engine_call *call)
{
    const struct places *places = team->places;
    if (!places || !call_reduces (call) || !(places->is_sorted || has_any_order (call))
        || (is_half (call) && !world_can_widen (call->helpers)))
        return false;
    if (is_scatter (call))
        return places->saves_scatter && call->count >= (size_t) SCATTER_LEAST / call->element_bytes;
    size_t links = places->hosts > 1 ? (size_t) places->hosts - 1 : 1;
    return call->count >= (size_t) TIERS_LEAST / call->element_bytes * links;
}

void
tiers_plan (struct flight *flight)
{
    const struct accel_engine_call *call = flight->call;
    struct tiers *tiers = &flight->tiers;
    size_t bytes = call->count * call->element_bytes / (is_scatter (call) ? 1 : TIERS_PARTS) / LINE * LINE;
    bool is_near = (mpi_host.is_near || flight->team->places->hosts == 1)
                   && rows_of (flight) * call->count * call->element_bytes >= TIERS_NEAR_LEAST;
    size_t most = is_near ? TIERS_PIECE_NEAR : TIERS_PIECE;
    most = is_half (call) ? most / 2 : most; /* between hosts, they have 4 bytes */
    bytes = bytes > most ? most : bytes < TIERS_PIECE_LEAST ? TIERS_PIECE_LEAST : bytes;
    tiers->piece = bytes / call->element_bytes;
    tiers->pieces = (call->count + tiers->piece - 1) / tiers->piece * rows_of (flight);
    tiers->is_on = true;
    flight->rows_bytes = (size_t) (is_scatter (call) ? 2 : 1) * TIERS_WINDOW * TIERS_PIECE;
}

/* ---- where things are ---- */

static const struct places *
places_of (const struct flight *flight)
{
    return flight->team->places;
}

static struct marks *
own_marks (const struct flight *flight)
{
    return places_of (flight)->marks[places_of (flight)->rank];
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

/* The rank whose row of a reduce-scatter piece @k is of. */
static int
owner_of (const struct flight *flight, size_t k)
{
    return (int) (k % rows_of (flight));
}

/* The rank of a host that carries piece @k. */
static int
carrier_on (const struct flight *flight, int host, size_t k)
{
    const struct places *places = places_of (flight);
    int owner = owner_of (flight, k);
    if (is_scatter (flight->call) && places->host_of[owner] == host)
        return owner;
    return places_rank (places, host, (int) (k % (size_t) places_size (places, host)));
}

static int
carrier_here (const struct flight *flight, size_t k)
{
    return carrier_on (flight, places_of (flight)->here, k);
}

/* The @i-th of the pieces that this rank carries. */
static size_t
piece_of (const struct flight *flight, size_t i)
{
    return flight->tiers.carried[i % TIERS_WINDOW];
}

/* Where it begins, in its row. */
static size_t
begin_of (const struct flight *flight, size_t k)
{
    return k / rows_of (flight) * flight->tiers.piece;
}

static size_t
count_of (const struct flight *flight, size_t k)
{
    size_t left = flight->call->count - begin_of (flight, k);
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
    size_t row = (size_t) owner_of (flight, k) * flight->call->count;
    return (row + begin_of (flight, k)) * flight->call->element_bytes;
}

/* Places for what a rank of this host gives, then for what it gets. */
static unsigned char *
stage_of (const struct flight *flight, int local, size_t slot)
{
    return places_of (flight)->stages[local] + slot * TIERS_PIECE;
}

static const struct leg *
leg_of (const struct flight *flight, int local)
{
    return &flight->legs[places_rank (places_of (flight), places_of (flight)->here, local)];
}

static const unsigned char *
source_of (const struct flight *flight, int local, size_t k)
{
    const struct leg *leg = leg_of (flight, local);
    if (local == places_of (flight)->rank)
        return (const unsigned char *) flight->call->send + offset_of (flight, k);
    return leg->send_at != FOREIGN ? mpi_host.arenas + leg->send_at + offset_of (flight, k)
                                   : stage_of (flight, local, k % TIERS_STAGED);
}

/* Where its carrier @local has piece @k of an all-reduce when it is complete. */
static unsigned char *
result_of (const struct flight *flight, int local, size_t k)
{
    const struct places *places = places_of (flight);
    const struct leg *leg = leg_of (flight, local);
    if (places->size == 1 || (local == places->rank && leg->recv_at != FOREIGN))
        return (unsigned char *) flight->call->recv + offset_of (flight, k);
    return leg->recv_at != FOREIGN
               ? mpi_host.arenas + leg->recv_at + offset_of (flight, k)
               : stage_of (flight, local, TIERS_STAGED + k / (size_t) places->size % TIERS_WINDOW);
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

static bool
is_first_host (const struct flight *flight)
{
    return !places_of (flight)->here;
}

static bool
is_last_host (const struct flight *flight)
{
    return places_of (flight)->here == places_of (flight)->hosts - 1;
}

static int
above (const struct flight *flight, size_t k)
{
    return carrier_on (flight, places_of (flight)->here + 1, k);
}

static int
below (const struct flight *flight, size_t k)
{
    return carrier_on (flight, places_of (flight)->here - 1, k);
}

/* Whether piece @k comes back to host @host, or passes it. */
static bool
returns_to (const struct flight *flight, int host, size_t k)
{
    return host >= 0 && (!is_scatter (flight->call) || places_of (flight)->host_of[owner_of (flight, k)] <= host);
}

static bool
is_quiet (struct flight *flight, size_t i)
{
    return !slot_of (flight, i)->left && !*mpi_world.error;
}

static void
begin_piece (struct flight *flight)
{
    struct tiers *tiers = &flight->tiers;
    size_t i = tiers->begun++, k = tiers->next;
    tiers->carried[i % TIERS_WINDOW] = k;
    if (!is_first_host (flight))
        post_recv (flight, below (flight, k), slot_of (flight, i), row_of (flight, i), row_bytes (flight, k),
                   flight->legs[below (flight, k)].tag);
}

/* Whether the other ranks of this host have got as far as @mark says. */
static bool
have_all (const struct flight *flight, bool taken, size_t k)
{
    for (int local = 0; local < places_of (flight)->size; local++) {
        const struct marks *marks = places_of (flight)->marks[local];
        if (read_mark (taken ? &marks->taken : &marks->staged) <= flight->tiers.base + k)
            return false;
    }
    return true;
}

/* The stage for its result is free. */
static bool
has_stage (const struct flight *flight, size_t i, size_t k)
{
    return is_scatter (flight->call) || i < TIERS_WINDOW
           || have_all (flight, true, k - (size_t) TIERS_WINDOW * (size_t) places_of (flight)->size);
}

static bool
can_reduce (struct flight *flight)
{
    size_t i = flight->tiers.reduced, k = piece_of (flight, i);
    return i < flight->tiers.begun && is_quiet (flight, i) && have_all (flight, false, k) && has_stage (flight, i, k);
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
    for (int local = 0; local < places_of (flight)->size; local++) {
        bool is_first = !local && is_first_host (flight);
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
    if (!is_first_host (flight))
        flight->sources[sources++] = row;
    for (int local = 0; local < places_of (flight)->size; local++)
        flight->sources[sources++] = source_of (flight, local, k);
    call->helpers->reduce (call->dtype, op, flight->sources, sources, target, count);
    if (is_last && call->op == ACCEL_AVG)
        divide (flight, target, count);
}

/* Where this rank has the @i-th piece that it carries when it is complete.  What is of another rank's row passes. */
static void *
own_result (const struct flight *flight, size_t i)
{
    size_t k = piece_of (flight, i);
    if (!is_scatter (flight->call))
        return result_of (flight, places_of (flight)->rank, k);
    if (owner_of (flight, k) != flight->team->rank)
        return row_of (flight, i) + (size_t) TIERS_WINDOW * TIERS_PIECE;
    return (char *) flight->call->recv + begin_of (flight, k) * flight->call->element_bytes;
}

/* In place, the result takes the place of what this rank, its only reader, has read. */
static void
reduce_piece (struct flight *flight)
{
    size_t i = flight->tiers.reduced++, k = piece_of (flight, i);
    bool is_last = is_last_host (flight);
    void *result = own_result (flight, i), *row = row_of (flight, i);
    if (is_half (flight->call))
        reduce_halves (flight, k, row, is_last ? result : NULL);
    else
        reduce_wholes (flight, k, row, is_last ? result : row, is_last);
    flight->team->moved = true;
    if (is_scatter (flight->call))
        set_mark (flight, &own_marks (flight)->done, flight->tiers.base + k + 1);
    if (is_last)
        return;
    int next = above (flight, k);
    post_send (flight, next, slot_of (flight, i), row, row_bytes (flight, k), flight->tag);
    if (returns_to (flight, places_of (flight)->here, k))
        post_recv (flight, next, slot_of (flight, i), result, bytes_of (flight, k), flight->legs[next].tag + 1);
}

static void
return_piece (struct flight *flight)
{
    size_t i = flight->tiers.returned++, k = piece_of (flight, i);
    if (!is_scatter (flight->call))
        set_mark (flight, &own_marks (flight)->done, flight->tiers.base + k + 1);
    if (returns_to (flight, places_of (flight)->here - 1, k))
        post_send (flight, below (flight, k), slot_of (flight, i), own_result (flight, i), bytes_of (flight, k),
                   flight->tag + 1);
}

static void
carry (struct flight *flight)
{
    struct tiers *tiers = &flight->tiers;
    for (; tiers->next < tiers->pieces && tiers->begun - tiers->finished < TIERS_WINDOW; tiers->next++)
        if (carrier_here (flight, tiers->next) == flight->team->rank)
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
    const struct places *places = places_of (flight);
    return read_mark (&places->marks[places->place_of[carrier_here (flight, k)]]->done) > flight->tiers.base + k;
}

/* Give: all at once, if the others can read the buffer. */
static void
stage (struct flight *flight)
{
    struct tiers *tiers = &flight->tiers;
    size_t k = tiers->staged;
    if (k == tiers->pieces)
        return;
    if (flight->legs[flight->team->rank].send_at != FOREIGN || places_of (flight)->size == 1) {
        tiers->staged = tiers->pieces;
    } else {
        if (k >= TIERS_STAGED && !is_done (flight, k - TIERS_STAGED))
            return;
        if (carrier_here (flight, k) != flight->team->rank)
            memcpy (stage_of (flight, places_of (flight)->rank, k % TIERS_STAGED),
                    (const char *) flight->call->send + offset_of (flight, k), bytes_of (flight, k));
        tiers->staged++;
    }
    set_mark (flight, &own_marks (flight)->staged, tiers->base + tiers->staged);
}

static void
set_taken (struct flight *flight, size_t pieces)
{
    flight->tiers.taken = pieces;
    set_mark (flight, &own_marks (flight)->taken, flight->tiers.base + pieces);
}

/* Get.  Of a reduce-scatter, the carrier has what it gets, and says when it needs nothing of the others any more. */
static void
take (struct flight *flight)
{
    struct tiers *tiers = &flight->tiers;
    size_t k = tiers->taken;
    if (k == tiers->pieces)
        return;
    if (is_scatter (flight->call)) {
        if (tiers->next == tiers->pieces && tiers->reduced == tiers->begun)
            set_taken (flight, tiers->pieces);
        return;
    }
    if (!is_done (flight, k))
        return;
    const struct places *places = places_of (flight);
    const void *from = result_of (flight, places->place_of[carrier_here (flight, k)], k);
    char *to = (char *) flight->call->recv + offset_of (flight, k);
    if (from != to)
        memcpy (to, from, bytes_of (flight, k));
    set_taken (flight, k + 1);
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
    tiers->is_direct = !share_find (flight) || (!is_reduced && !spread_can (flight));
    tiers->base = flight->team->places->planned;
    if (tiers->is_direct && !is_reduced)
        spread_fall_back (flight);
    else if (!tiers->is_direct)
        flight->team->places->planned += tiers->pieces;
    return true;
}

/* Whether the call has failed on another rank of this host, whose buffer may be freed, and was read all the same. */
static bool
is_broken (const struct flight *flight)
{
    const struct places *places = places_of (flight);
    uint64_t end = flight->tiers.base + flight->tiers.pieces;
    atomic_thread_fence (memory_order_acquire);
    for (int local = 0; local < places->size; local++) {
        uint64_t broken = read_mark (&places->marks[local]->broken);
        if (broken && broken - 1 < end)
            return true;
    }
    return false;
}

void
tiers_fail (const struct team *team)
{
    const struct places *places = team->places;
    struct marks *own = places ? places->marks[places->rank] : NULL;
    if (own && !read_mark (&own->broken))
        atomic_store (&own->broken, places->finished + 1);
}

bool
tiers_advance (struct flight *flight)
{
    struct tiers *tiers = &flight->tiers;
    if (flight->missing || (!tiers->is_planned && !number_pieces (flight)))
        return false;
    if (tiers->is_direct)
        return !call_reduces (flight->call) && !flight->window->left;
    if (tiers->base != flight->team->places->finished)
        return false;
    if (!call_reduces (flight->call)) {
        if (!spread_advance (flight) || flight->window->left || is_broken (flight))
            return false;
        flight->team->places->finished += tiers->pieces;
        return true;
    }
    stage (flight);
    carry (flight);
    take (flight);
    if (tiers->taken < tiers->pieces || tiers->next < tiers->pieces || tiers->finished < tiers->begun
        || flight->window->left || !have_all (flight, true, tiers->pieces - 1) || is_broken (flight))
        return false;
    flight->team->places->finished += tiers->pieces;
    return true;
}

bool
tiers_await (const struct flight *flight, int rank)
{
    const struct tiers *tiers = &flight->tiers;
    if (!tiers->is_planned || tiers->is_direct)
        return false;
    int local = places_local (places_of (flight), rank);
    return local >= 0 && read_mark (&places_of (flight)->marks[local]->taken) < tiers->base + tiers->pieces;
}
