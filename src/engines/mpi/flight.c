/* SPDX-License-Identifier: Apache-2.0 */
/* One call: what it sends to each rank and gets from it. */
#include <config.h>

#include "engines/mpi/mpi_private.h"

#include <stdlib.h>
#include <string.h>

static size_t
row_of (const struct accel_engine_call *call)
{
    return call->count * call->element_bytes;
}

/* What this rank sends to rank @i, and where what comes from there goes. */
static void
set_leg (struct flight *flight, int i)
{
    const struct accel_engine_call *call = flight->call;
    struct leg *leg = &flight->legs[i];
    size_t row = row_of (call), at = (size_t) i * row, own = (size_t) flight->team->rank * row;
    char *recv = call->recv;
    const char *send = call->send;
    leg->is_used = i != flight->team->rank && (!call_is_pair (call) || i == call->root);
    if (!leg->is_used || !row || flight->blocks || flight->tiers.is_on)
        return;
    switch ((int) call->kind) {
    case ACCEL_ENGINE_ALL_REDUCE: leg->out = send, leg->in = flight->rows + at; break;
    case ACCEL_ENGINE_REDUCE_SCATTER: leg->out = send + at, leg->in = flight->rows + at; break;
    case ACCEL_ENGINE_ALL_GATHER: leg->out = recv + own, leg->in = recv + at; break;
    case ACCEL_ENGINE_ALL_TO_ALL: leg->out = send + at, leg->in = recv + at; break;
    case ACCEL_ENGINE_BROADCAST:
        leg->out = call->root == flight->team->rank ? recv : NULL;
        leg->in = call->root == i ? recv : NULL;
        break;
    case ACCEL_ENGINE_SEND: leg->out = send; break;
    case ACCEL_ENGINE_RECV: leg->in = recv; break;
    default: break;
    }
    leg->out_bytes = leg->out ? row : 0;
    leg->in_bytes = leg->in ? row : 0;
}

/* Of all rows that are sent. */
static size_t
send_bytes (const struct flight *flight)
{
    const struct accel_engine_call *call = flight->call;
    bool each = call->kind == ACCEL_ENGINE_ALL_TO_ALL || call->kind == ACCEL_ENGINE_REDUCE_SCATTER;
    return row_of (call) * (each ? (size_t) flight->team->size : 1);
}

static size_t
inline_of (const struct flight *flight, size_t bytes)
{
    return bytes <= (flight->is_boarded ? mpi_host.board_inline : INLINE_BYTES) ? bytes : 0;
}

static size_t
flight_bytes (size_t size)
{
    return sizeof (struct flight)
           + size * (sizeof (struct leg) + sizeof *((struct flight *) NULL)->sources + sizeof (uint32_t));
}

/* Kept from call to call: to get as much from the kernel each time, and return it, would take as long as to send it. */
static bool
take_rows (struct flight *flight)
{
    if (mpi_world.spare_bytes < flight->rows_bytes) {
        flight->rows = malloc (flight->rows_bytes);
        return flight->rows;
    }
    flight->rows = mpi_world.spare;
    flight->rows_bytes = mpi_world.spare_bytes;
    mpi_world.spare = NULL;
    mpi_world.spare_bytes = 0;
    return true;
}

static void
give_rows (struct flight *flight)
{
    if (!flight->rows || flight->rows_bytes <= mpi_world.spare_bytes) {
        free (flight->rows);
        return;
    }
    free (mpi_world.spare);
    mpi_world.spare = flight->rows;
    mpi_world.spare_bytes = flight->rows_bytes;
}

/* So is one call. */
static struct flight *
take_flight (size_t bytes)
{
    struct flight *flight = mpi_world.spare_flight;
    if (!flight || mpi_world.spare_flight_bytes != bytes)
        return calloc (1, bytes);
    mpi_world.spare_flight = NULL;
    return memset (flight, 0, bytes);
}

static void
give_flight (struct flight *flight)
{
    size_t size = (size_t) flight->team->size;
    free (mpi_world.spare_flight);
    mpi_world.spare_flight = flight;
    mpi_world.spare_flight_bytes = flight_bytes (size);
}

/* Ranks of which the messages differ get a control message each. */
static bool
allocate (struct flight *flight)
{
    const struct accel_engine_call *call = flight->call;
    size_t size = (size_t) flight->team->size, row = row_of (call);
    bool each = call->kind == ACCEL_ENGINE_ALL_TO_ALL || call->kind == ACCEL_ENGINE_REDUCE_SCATTER;
    size_t control = sizeof (struct header) + inline_of (flight, row);
    if (!flight->is_boarded && !(flight->control = malloc (each ? size * control : control)))
        return false;
    bool is_spread = spread_serve (flight->team, call), is_tiered = tiers_serve (flight->team, call);
    if (is_spread || is_tiered)
        share_prepare (flight->team);
    if (is_spread)
        spread_plan (flight);
    if (!call_reduces (call))
        return true;
    if (is_tiered)
        tiers_plan (flight);
    else if (size > 1 && !inline_of (flight, row) && row)
        blocks_plan (flight);
    else
        flight->rows_bytes = size > 1 ? size * row + 1 : 1;
    return take_rows (flight);
}

struct flight *
flight_create (struct team *team, const struct accel_engine_call *call)
{
    size_t size = (size_t) team->size;
    struct flight *flight = take_flight (flight_bytes (size));
    bool pair = call_is_pair (call);
    share_collect ();
    if (!flight)
        return NULL;
    flight->team = team;
    flight->call = call;
    flight->mine = (struct called){ .count = call->count, .kind = (int32_t) call->kind, .root = pair ? 0 : call->root,
                                    .dtype = (int16_t) call->dtype, .op = pair ? 0 : (int16_t) call->op,
                                    .public_call = pair ? 0 : call->public_call, .form = pair ? 0 : call->form,
                                    .number = call->number };
    flight->sources = (const void **) (void *) (flight->legs + size);
    flight->pairs = (uint32_t *) (void *) (flight->sources + size);
    flight->is_boarded = boards_serve (team, call);
    if (!allocate (flight)) {
        flight_destroy (flight);
        return NULL;
    }
    memcpy (flight->pairs, team->pairs_to, size * sizeof *flight->pairs);
    flight->serial = team->boarded;
    team->boarded += flight->is_boarded;
    flight->legs[team->rank].send_at = arena_offset (call->send, send_bytes (flight));
    flight->legs[team->rank].recv_at = arena_offset (call->recv, row_of (call));
    flight->legs[team->rank].shared_at = team->shared_at;
    flight->tag = mpi_world.next_tag;
    mpi_world.next_tag = flight->tag + 2 < mpi_world.last_tag ? flight->tag + 2 : TAG_FIRST;
    for (int i = 0; i < team->size; i++) {
        set_leg (flight, i);
        flight->missing += flight->legs[i].is_used;
    }
    return flight;
}

/* What this rank sends to itself. */
static void
copy_own (const struct flight *flight)
{
    const struct accel_engine_call *call = flight->call;
    size_t row = row_of (call), own = (size_t) flight->team->rank * row;
    if (!row)
        return;
    if (call->kind == ACCEL_ENGINE_ALL_GATHER)
        memmove ((char *) call->recv + own, call->send, row);
    if (call->kind == ACCEL_ENGINE_ALL_TO_ALL)
        memcpy ((char *) call->recv + own, (const char *) call->send + own, row);
}

static void
send_control (struct flight *flight, int rank, bool each, size_t data)
{
    size_t bytes = sizeof (struct header) + data;
    char *control = flight->control + (each ? (size_t) rank * bytes : 0);
    struct header header = flight_header (flight, data);
    memcpy (control, &header, sizeof header);
    if (data)
        memcpy (control + sizeof header, flight->legs[rank].out, data);
    post_control (flight, rank, control, bytes);
    flight->team->pairs_to[rank]++;
}

static void
send_to (struct flight *flight, int rank, bool each)
{
    const struct leg *leg = &flight->legs[rank];
    size_t data = inline_of (flight, leg->out_bytes);
    if (!flight->is_boarded)
        send_control (flight, rank, each, data);
    if (!data)
        post_send (flight, rank, flight->window, leg->out, leg->out_bytes, flight->tag);
}

/* MPI must not see a buffer change that it is sending from, so the shared one is written before the first message. */
void
flight_begin (struct flight *flight)
{
    const struct accel_engine_call *call = flight->call;
    bool each = call->kind == ACCEL_ENGINE_ALL_TO_ALL || call->kind == ACCEL_ENGINE_REDUCE_SCATTER;
    copy_own (flight);
    for (int i = 1; i < flight->team->size; i++) { /* not all to rank 0 first */
        int rank = (flight->team->rank + i) % flight->team->size;
        if (flight->legs[rank].is_used)
            send_to (flight, rank, each);
    }
}

/* Of two ranks, one sends and the other receives. */
static bool
is_expected (const struct flight *flight, int rank, const struct header *theirs)
{
    struct called mine = flight->mine;
    if (call_is_pair (flight->call))
        mine.kind = mine.kind == ACCEL_ENGINE_SEND ? ACCEL_ENGINE_RECV : ACCEL_ENGINE_SEND;
    return !memcmp (&mine, &theirs->called, sizeof mine)
           && theirs->inline_bytes == inline_of (flight, flight->legs[rank].in_bytes);
}

void
flight_meet (struct flight *flight, int rank, const struct header *header, const char *data)
{
    struct leg *leg = &flight->legs[rank];
    if (flight->over)
        return;
    if (!is_expected (flight, rank, header)) {
        leg->differs = true;
        leg->is_other = !call_is_pair (flight->call) && header->called.kind < ACCEL_ENGINE_SEND;
        return;
    }
    leg->has_come = true;
    leg->tag = header->tag;
    leg->send_at = header->send_at;
    leg->recv_at = header->recv_at;
    leg->shared_at = header->shared_at;
    flight->missing--;
    mpi_world.has_all = mpi_world.has_all || !flight->missing;
    if (flight->blocks)
        blocks_meet (flight, rank);
    else if (header->inline_bytes)
        memcpy (leg->in, data, leg->in_bytes);
    else
        post_recv (flight, rank, flight->window, leg->in, leg->in_bytes, leg->tag);
}

static void
reduce_rows (struct flight *flight)
{
    const struct accel_engine_call *call = flight->call;
    size_t row = row_of (call), own = (size_t) flight->team->rank * row;
    for (int i = 0; i < flight->team->size; i++)
        flight->sources[i] = i != flight->team->rank                    ? flight->rows + (size_t) i * row
                             : call->kind == ACCEL_ENGINE_REDUCE_SCATTER ? (const char *) call->send + own
                                                                         : call->send;
    call->helpers->reduce (call->dtype, call->op, flight->sources, flight->team->size, call->recv, call->count);
}

/* All have come to a large reduction of a group, but one of them has no memory for it: it goes from rank to rank. */
static void
go_direct (struct flight *flight)
{
    flight->tiers.is_on = false;
    give_rows (flight);
    blocks_plan (flight);
    if (!take_rows (flight))
        world_check (MPI_ERR_NO_MEM, "memory for a reduction");
    flight->team->moved = true;
}

/* After a failure of MPI, what was not posted would look as if it had arrived. */
void
flight_advance (struct flight *flight)
{
    if (flight->over || *mpi_world.error)
        return;
    bool in_parts = flight->blocks || flight->tiers.is_on;
    bool complete = flight->tiers.is_on ? tiers_advance (flight)
                    : flight->blocks    ? blocks_advance (flight)
                                        : !flight->window->left;
    if (flight->tiers.is_on && flight->tiers.is_direct && call_reduces (flight->call))
        go_direct (flight);
    if (!complete || flight->missing || flight->is_boarded != flight->is_posted)
        return;
    if (call_reduces (flight->call) && !in_parts && flight->call->count)
        reduce_rows (flight);
    flight->over = true;
}

bool
flight_awaits (const struct flight *flight, int rank)
{
    const struct leg *leg = &flight->legs[rank];
    return leg->is_used && (!leg->has_come || leg->left || tiers_await (flight, rank));
}

/* MPI may still send what a failed call has begun. */
static bool
is_ghost (const struct flight *flight)
{
    for (int i = 0; flight->team && i < flight->team->size; i++)
        if (flight->legs[i].left)
            return true;
    return false;
}

void
flight_destroy (struct flight *flight)
{
    if (is_ghost (flight)) {
        mpi_world.is_stuck = true;
        flight->team = NULL;
        flight->next = mpi_world.ghosts;
        mpi_world.ghosts = flight;
        return;
    }
    give_rows (flight);
    free (flight->control);
    give_flight (flight);
}
