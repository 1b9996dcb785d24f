/* SPDX-License-Identifier: Apache-2.0 */
/* Large all-reduces and reduce-scatters on several hosts, and within one.
 *
 * The buffer is cut into pieces, which the ranks of a host carry in turns.  Hosts form a chain in the order of ranks:
 * on the first one, the carrier of a piece reduces it over its host, and sends it to the carrier on the next host,
 * which continues with the ranks there.  On the last host the piece is complete, and goes all the way back, or, in a
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
 * Calls of a communicator come one after the other; pieces are counted through all of them, so that counters only
 * grow. */
#include <config.h>

#include "engines/mpi/hier.h"

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
rows_of (const struct operation *operation)
{
    return is_scatter (operation->call) ? (size_t) operation->comm->size : 1;
}


bool
hier_reduce_supports (const struct communicator *comm, const struct accel_engine_call *call)
{
    const struct topology *topology = comm->topology;
    if (!topology || !call_reduces (call) || (is_float (call) && !topology->is_sorted))
        return false;


    if (is_scatter (call))
        return topology->saves_scatter && call->count >= (size_t) SCATTER_LEAST / call->element_bytes;
    size_t links = topology->hosts > 1 ? (size_t) topology->hosts - 1 : 1;
    return call->count >= (size_t) HIER_REDUCE_LEAST / call->element_bytes * links;
}

void
hier_reduce_plan (struct operation *operation)
{
    const struct accel_engine_call *call = operation->call;
    struct hier_reduce *hier = &operation->hier;
    size_t bytes = call->count * call->element_bytes / (is_scatter (call) ? 1 : HIER_REDUCE_PARTS) / LINE * LINE;
    bool is_near = (mpi.host.is_near || operation->topology->hosts == 1)
                   && rows_of (operation) * call->count * call->element_bytes >= HIER_REDUCE_NEAR_LEAST;
    size_t most = is_near ? HIER_REDUCE_PIECE_NEAR : HIER_REDUCE_PIECE;
    most = is_half (call) ? most / 2 : most; /* between hosts, they have 4 bytes */
    bytes = bytes > most ? most : bytes < HIER_REDUCE_PIECE_LEAST ? HIER_REDUCE_PIECE_LEAST : bytes;
    hier->piece = bytes / call->element_bytes;
    hier->pieces = (call->count + hier->piece - 1) / hier->piece * rows_of (operation);
    hier->is_on = true;
    operation->rows_bytes = (size_t) (is_scatter (call) ? 2 : 1) * HIER_REDUCE_WINDOW * HIER_REDUCE_PIECE;
}

/* ---- where things are ---- */

/* The rank whose row of a reduce-scatter piece @k is of. */
static int
owner_of (const struct operation *operation, size_t k)
{
    return (int) (k % rows_of (operation));
}

/* The rank of a host that carries piece @k. */
static int
carrier_on (const struct operation *operation, int host, size_t k)
{
    return carrier_of (operation, host, k, is_scatter (operation->call) ? owner_of (operation, k) : -1);
}

static int
carrier_here (const struct operation *operation, size_t k)
{
    return carrier_on (operation, operation->topology->here, k);
}

/* The @i-th of the pieces that this rank carries. */
static size_t
piece_of (const struct operation *operation, size_t i)
{
    return operation->hier.carried[i % HIER_REDUCE_WINDOW];
}

/* Where it begins, in its row. */
static size_t
begin_of (const struct operation *operation, size_t k)
{
    return k / rows_of (operation) * operation->hier.piece;
}

static size_t
count_of (const struct operation *operation, size_t k)
{
    size_t left = operation->call->count - begin_of (operation, k);
    return left < operation->hier.piece ? left : operation->hier.piece;
}

static size_t
bytes_of (const struct operation *operation, size_t k)
{
    return count_of (operation, k) * operation->call->element_bytes;
}

/* Of what goes from host to host until all is reduced. */
static size_t
row_bytes (const struct operation *operation, size_t k)
{
    return count_of (operation, k) * (is_half (operation->call) ? sizeof (float) : operation->call->element_bytes);
}

static size_t
offset_of (const struct operation *operation, size_t k)
{
    size_t row = (size_t) owner_of (operation, k) * operation->call->count;
    return (row + begin_of (operation, k)) * operation->call->element_bytes;
}

/* Places for what a rank of this host gives, then for what it gets. */
static unsigned char *
stage_of (const struct operation *operation, int local, size_t slot)
{
    return operation->topology->stages[local] + slot * HIER_REDUCE_PIECE;
}

static const struct transfer *
transfer_of (const struct operation *operation, int local)
{
    return &operation->transfers[topology_rank (operation->topology, operation->topology->here, local)];
}

static const unsigned char *
source_of (const struct operation *operation, int local, size_t k)
{
    const struct transfer *transfer = transfer_of (operation, local);
    if (local == operation->topology->rank)
        return (const unsigned char *) operation->call->send + offset_of (operation, k);
    return transfer->send_at != FOREIGN ? mpi.host.arenas + transfer->send_at + offset_of (operation, k)
                                   : stage_of (operation, local, k % HIER_REDUCE_STAGED);
}

/* Where its carrier @local has piece @k of an all-reduce when it is complete. */
static unsigned char *
result_of (const struct operation *operation, int local, size_t k)
{
    const struct topology *topology = operation->topology;
    const struct transfer *transfer = transfer_of (operation, local);
    if (topology->size == 1 || (local == topology->rank && transfer->recv_at != FOREIGN))
        return (unsigned char *) operation->call->recv + offset_of (operation, k);
    return transfer->recv_at != FOREIGN
               ? mpi.host.arenas + transfer->recv_at + offset_of (operation, k)
               : stage_of (operation, local, HIER_REDUCE_STAGED + k / (size_t) topology->size % HIER_REDUCE_WINDOW);
}

static struct block *
slot_of (struct operation *operation, size_t i)
{
    return &operation->window[i % HIER_REDUCE_WINDOW];
}

static char *
row_of (const struct operation *operation, size_t i)
{
    return operation->rows + i % HIER_REDUCE_WINDOW * HIER_REDUCE_PIECE;
}

/* ---- between hosts ---- */

static bool
is_first_host (const struct operation *operation)
{
    return !operation->topology->here;
}

static bool
is_last_host (const struct operation *operation)
{
    return operation->topology->here == operation->topology->hosts - 1;
}

static int
above (const struct operation *operation, size_t k)
{
    return carrier_on (operation, operation->topology->here + 1, k);
}

static int
below (const struct operation *operation, size_t k)
{
    return carrier_on (operation, operation->topology->here - 1, k);
}

/* Whether piece @k comes back to host @host, or passes it. */
static bool
returns_to (const struct operation *operation, int host, size_t k)
{
    return host >= 0
           && (!is_scatter (operation->call) || operation->topology->host_of[owner_of (operation, k)] <= host);
}

static bool
is_quiet (struct operation *operation, size_t i)
{
    return !slot_of (operation, i)->left && !*mpi.world.error;
}

static void
begin_piece (struct operation *operation)
{
    struct hier_reduce *hier = &operation->hier;
    size_t i = hier->begun++, k = hier->next;
    hier->carried[i % HIER_REDUCE_WINDOW] = k;
    if (is_first_host (operation))
        return;
    int from = below (operation, k);
    post_recv (operation, from, slot_of (operation, i), row_of (operation, i), row_bytes (operation, k),
               operation->transfers[from].tag);
}

static bool
all_have_staged (const struct operation *operation, size_t k)
{
    for (int local = 0; local < operation->topology->size; local++)
        if (!has_reached (operation, &operation->topology->counters[local]->staged, k))
            return false;
    return true;
}

/* The stage for its result is free. */
static bool
has_stage (const struct operation *operation, size_t i, size_t k)
{
    return is_scatter (operation->call) || i < HIER_REDUCE_WINDOW
           || all_have_taken (operation, k - (size_t) HIER_REDUCE_WINDOW * (size_t) operation->topology->size);
}

static bool
can_reduce (struct operation *operation)
{
    size_t i = operation->hier.reduced, k = piece_of (operation, i);
    return i < operation->hier.begun && is_quiet (operation, i) && all_have_staged (operation, k)
           && has_stage (operation, i, k);
}

static void
divide (const struct operation *operation, void *values, size_t count)
{
    float *singles = values;
    double *doubles = values;
    for (size_t i = 0; i < count; i++)
        if (operation->call->dtype == ACCEL_FLOAT64)
            doubles[i] /= (double) operation->comm->size;
        else
            singles[i] /= (float) operation->comm->size;
}

/* Elements @begin to @begin + @count of piece @k, 16-bit floats.  @row has what lower hosts have, and gets the sum.
 * @param result  NULL: it is not complete */
static void
reduce_wide (const struct operation *operation, size_t k, size_t begin, size_t count, float *row, void *result)
{
    const struct accel_engine_call *call = operation->call;
    enum accel_op op = call->op == ACCEL_AVG ? ACCEL_SUM : call->op;
    float next[WIDE];
    const void *pair[] = { row, next };
    for (int local = 0; local < operation->topology->size; local++) {
        bool is_first = !local && is_first_host (operation);
        call->helpers->widen (is_first ? row : next, source_of (operation, local, k) + begin * call->element_bytes,
                              call->dtype, count);
        if (!is_first)
            call->helpers->reduce (ACCEL_FLOAT32, op, pair, 2, row, count);
    }
    if (!result)
        return;
    if (call->op == ACCEL_AVG)
        divide (operation, row, count);
    call->helpers->narrow ((char *) result + begin * call->element_bytes, call->dtype, row, count);
}

static void
reduce_halves (const struct operation *operation, size_t k, float *row, void *result)
{
    size_t count = count_of (operation, k);
    for (size_t done = 0; done < count; done += WIDE)
        reduce_wide (operation, k, done, count - done < WIDE ? count - done : WIDE, row + done, result);
}

static void
reduce_wholes (const struct operation *operation, size_t k, void *row, void *target, bool is_last)
{
    const struct accel_engine_call *call = operation->call;
    enum accel_op op = call->op == ACCEL_AVG ? ACCEL_SUM : call->op;
    size_t count = count_of (operation, k);
    int sources = 0;
    if (!is_first_host (operation))
        operation->sources[sources++] = row;
    for (int local = 0; local < operation->topology->size; local++)
        operation->sources[sources++] = source_of (operation, local, k);
    call->helpers->reduce (call->dtype, op, operation->sources, sources, target, count);
    if (is_last && call->op == ACCEL_AVG)
        divide (operation, target, count);
}

/* Where this rank has the @i-th piece that it carries when it is complete.  Parts of other ranks' rows pass. */
static void *
own_result (const struct operation *operation, size_t i)
{
    size_t k = piece_of (operation, i);
    if (!is_scatter (operation->call))
        return result_of (operation, operation->topology->rank, k);
    if (owner_of (operation, k) != operation->comm->rank)
        return row_of (operation, i) + (size_t) HIER_REDUCE_WINDOW * HIER_REDUCE_PIECE;
    return (char *) operation->call->recv + begin_of (operation, k) * operation->call->element_bytes;
}

/* In place, the result takes the place of what this rank, its only reader, has read. */
static void
reduce_piece (struct operation *operation)
{
    size_t i = operation->hier.reduced++, k = piece_of (operation, i);
    bool is_last = is_last_host (operation);
    void *result = own_result (operation, i), *row = row_of (operation, i);
    if (is_half (operation->call))
        reduce_halves (operation, k, row, is_last ? result : NULL);
    else
        reduce_wholes (operation, k, row, is_last ? result : row, is_last);
    operation->comm->moved = true;
    if (is_scatter (operation->call))
        set_counter (operation, &own_counters (operation)->done, k + 1);
    if (is_last)
        return;
    int next = above (operation, k);
    post_send (operation, next, slot_of (operation, i), row, row_bytes (operation, k), operation->tag);
    if (returns_to (operation, operation->topology->here, k))
        post_recv (operation, next, slot_of (operation, i), result, bytes_of (operation, k),
                   operation->transfers[next].tag + 1);
}

static void
return_piece (struct operation *operation)
{
    size_t i = operation->hier.returned++, k = piece_of (operation, i);
    if (!is_scatter (operation->call))
        set_counter (operation, &own_counters (operation)->done, k + 1);
    if (returns_to (operation, operation->topology->here - 1, k))
        post_send (operation, below (operation, k), slot_of (operation, i), own_result (operation, i),
                   bytes_of (operation, k), operation->tag + 1);
}

static void
carry (struct operation *operation)
{
    struct hier_reduce *hier = &operation->hier;
    for (; hier->next < hier->pieces && hier->begun - hier->finished < HIER_REDUCE_WINDOW; hier->next++)
        if (carrier_here (operation, hier->next) == operation->comm->rank)
            begin_piece (operation);
    if (can_reduce (operation))
        reduce_piece (operation);
    while (hier->returned < hier->reduced && is_quiet (operation, hier->returned))
        return_piece (operation);
    while (hier->finished < hier->returned && is_quiet (operation, hier->finished))
        hier->finished++;
}

/* ---- within the host ---- */

static bool
is_done (const struct operation *operation, size_t k)
{
    const struct topology *topology = operation->topology;
    const struct counters *carrier = topology->counters[topology->local_rank_of[carrier_here (operation, k)]];
    return has_reached (operation, &carrier->done, k);

}

/* Give: all at once, if the others can read the buffer. */
static void
stage (struct operation *operation)
{
    struct hier_reduce *hier = &operation->hier;
    size_t k = hier->staged;
    if (k == hier->pieces)
        return;
    if (operation->transfers[operation->comm->rank].send_at != FOREIGN || operation->topology->size == 1) {
        hier->staged = hier->pieces;
    } else {
        if (k >= HIER_REDUCE_STAGED && !is_done (operation, k - HIER_REDUCE_STAGED))
            return;
        if (carrier_here (operation, k) != operation->comm->rank)
            memcpy (stage_of (operation, operation->topology->rank, k % HIER_REDUCE_STAGED),
                    (const char *) operation->call->send + offset_of (operation, k), bytes_of (operation, k));
        hier->staged++;
    }
    set_counter (operation, &own_counters (operation)->staged, hier->staged);
}

static void
set_taken (struct operation *operation, size_t pieces)
{
    operation->hier.taken = pieces;
    set_counter (operation, &own_counters (operation)->taken, pieces);
}

/* Get.  Of a reduce-scatter, the carrier has what it gets, and says when it needs nothing of the others any more. */
static void
take (struct operation *operation)
{
    struct hier_reduce *hier = &operation->hier;
    size_t k = hier->taken;
    if (k == hier->pieces)
        return;
    if (is_scatter (operation->call)) {
        if (hier->next == hier->pieces && hier->reduced == hier->begun)
            set_taken (operation, hier->pieces);
        return;
    }
    if (!is_done (operation, k))
        return;
    const struct topology *topology = operation->topology;
    const void *from = result_of (operation, topology->local_rank_of[carrier_here (operation, k)], k);
    char *to = (char *) operation->call->recv + offset_of (operation, k);
    if (from != to)
        memcpy (to, from, bytes_of (operation, k));
    set_taken (operation, k + 1);
}

static bool
advance (struct operation *operation)
{
    const struct hier_reduce *hier = &operation->hier;
    stage (operation);
    carry (operation);
    take (operation);
    return hier->taken == hier->pieces && hier->next == hier->pieces && hier->finished == hier->begun
           && all_have_taken (operation, hier->pieces - 1);
}

/* Pieces are numbered in the order of calls, once it is known which of them have pieces. */
static bool
number_pieces (struct operation *operation)
{
    struct hier_reduce *hier = &operation->hier;
    bool is_reduced = call_reduces (operation->call);
    for (const struct operation *before = operation->comm->first; before != operation; before = before->next)
        if (before->hier.is_on && !before->hier.is_planned)
            return false;
    hier->is_planned = true;
    hier->is_direct = !group_memory_find (operation) || (!is_reduced && !hier_bcast_is_possible (operation));
    hier->base = operation->topology->planned;
    if (hier->is_direct && !is_reduced)
        hier_bcast_fall_back (operation);
    else if (!hier->is_direct)
        operation->topology->planned += hier->pieces;
    return true;
}

/* Before asking whether what was read may have changed.  ThreadSanitizer does not know fences, and GCC warns of that;
 * it sees one process, so it has nothing to say about what ranks share. */
static void
fence_reads (void)
{
#ifdef __SANITIZE_THREAD__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"
#endif
    atomic_thread_fence (memory_order_acquire);
#ifdef __SANITIZE_THREAD__
#pragma GCC diagnostic pop
#endif
}

/* Whether the call has failed on another rank of this host, whose buffer may be freed, and was read all the same. */
static bool
is_broken (const struct operation *operation)
{
    const struct topology *topology = operation->topology;
    uint64_t end = operation->hier.base + operation->hier.pieces;
    fence_reads ();
    for (int local = 0; local < topology->size; local++) {
        uint64_t broken = atomic_load_explicit (&topology->counters[local]->broken, memory_order_acquire);
        if (broken && broken - 1 < end)
            return true;
    }
    return false;
}

void
hier_reduce_fail (const struct communicator *comm)
{
    const struct topology *topology = comm->topology;
    struct counters *own = topology ? topology->counters[topology->rank] : NULL;
    if (own && !atomic_load (&own->broken))
        atomic_store (&own->broken, topology->finished + 1);
}

bool
hier_reduce_advance (struct operation *operation)
{
    struct hier_reduce *hier = &operation->hier;
    if (operation->missing || (!hier->is_planned && !number_pieces (operation)))
        return false;
    if (hier->is_direct)
        return !call_reduces (operation->call) && !operation->window->left;
    if (hier->base != operation->topology->finished)
        return false;
    bool complete = call_reduces (operation->call) ? advance (operation) : hier_bcast_advance (operation);
    complete = complete && !operation->window->left && !is_broken (operation);
    if (complete)
        operation->topology->finished += hier->pieces;
    return complete;
}

bool
hier_reduce_awaits (const struct operation *operation, int rank)
{
    const struct hier_reduce *hier = &operation->hier;
    if (!hier->is_planned || hier->is_direct)
        return false;
    int local = topology_local_rank (operation->topology, rank);
    return local >= 0 && !has_reached (operation, &operation->topology->counters[local]->taken, hier->pieces - 1);
}
