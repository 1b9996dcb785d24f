/* SPDX-License-Identifier: Apache-2.0 */
/* The collectives of the shm engine.  Four ways to move data, chosen alike on all ranks from what all have posted:
 *
 *   inline   few bytes lie in the posts: one step and it is done
 *   direct   all buffers are in arenas: step, work straight on the peers' memory, step
 *   staged   otherwise, piece by piece through the stages: copy a piece in, step, read the peers' pieces
 *   divided  large all-reduces of many ranks: copy a piece in, step, reduce a share of it, step, read the peers' shares
 *
 * A stage has two pieces, used in turn.  A rank that fills one again has seen the step after the last reading of it. */
#include <config.h>

#include "lib/engines/shm/shm_private.h"

#include "lib/base/error.h"
#include "lib/kernels/reduce.h"
#include "util/memory.h"

/* Publish what this rank calls, wait for all and compare.  @inline_bytes of @payload travel with it. */
static enum accel_status
begin (struct shm *shm, const struct accel_engine_call *call, const void *payload, size_t inline_bytes,
       size_t send_bytes, size_t recv_bytes, struct accel_error *err)
{
    struct shm_post *post = shm_next_post (shm);
    post->count = call->count;
    post->kind = (uint8_t) call->kind;
    post->call = (uint8_t) call->public_call;
    post->dtype = (uint8_t) call->dtype;
    post->op = (uint8_t) call->op;
    post->root = call->root;
    post->form = call->form;
    post->small_pieces = shm->small_pieces;
    if (inline_bytes)
        memcpy (post->payload, payload, inline_bytes);
    if ((send_bytes | recv_bytes) > SHM_INLINE) { /* no rank looks for what travels in the post */
        post->send = shm_offset (shm, call->send, send_bytes);
        post->recv = shm_offset (shm, call->recv, recv_bytes);
    }
    shm_publish (shm, post);
    enum accel_status status = shm_wait (shm, call, err);
    return status ? status : shm_compare (shm, call, err);
}

/* A rank that has called for this alone knows that pieces have to pass through the stages. */
static bool
is_foreign (uint64_t send, uint64_t recv)
{
    return send == SHM_FOREIGN || recv == SHM_FOREIGN;
}

static bool
all_send_shared (const struct shm *shm)
{
    for (int rank = 0; rank < shm->size; rank++)
        if (shm_post_of (shm, rank)->send == SHM_FOREIGN)
            return false;
    return true;
}

static bool
all_recv_shared (const struct shm *shm)
{
    for (int rank = 0; rank < shm->size; rank++)
        if (shm_post_of (shm, rank)->recv == SHM_FOREIGN)
            return false;
    return true;
}

/* Rank @rank's share of @count elements, in units that keep ranks off each other's cache lines. */
static void
share (size_t count, int rank, int size, size_t *begin_at, size_t *end_at)
{
    size_t unit = 256, units = (count + unit - 1) / unit;
    size_t first = units * (size_t) rank / (size_t) size * unit;
    size_t last = units * ((size_t) rank + 1) / (size_t) size * unit;
    *begin_at = first < count ? first : count;
    *end_at = last < count ? last : count;
}

/* What all ranks read and write together, of @bytes each. */
static bool
is_beyond_caches (const struct shm *shm, size_t bytes)
{
    return 2 * (size_t) shm->size * bytes > SHM_CACHED;
}

static struct reduction
reduction_of (const struct shm *shm, const struct accel_engine_call *call, int targets)
{
    return (struct reduction){
        .dtype = call->dtype, .op = call->op, .sources = shm->size, .targets = targets,
        .beyond_caches = is_beyond_caches (shm, call->count * call->element_bytes),
    };
}

static void
reduce_payloads (struct shm *shm, const struct accel_engine_call *call, size_t offset_bytes)
{
    struct reduction reduction = reduction_of (shm, call, 1);
    for (int rank = 0; rank < shm->size; rank++)
        shm->sources[rank] = shm_post_of (shm, rank)->payload + offset_bytes;
    reduce_run (&reduction, shm->sources, &call->recv, call->count);
}

static enum accel_status
all_reduce_direct (struct shm *shm, const struct accel_engine_call *call, struct accel_error *err)
{
    struct reduction reduction = reduction_of (shm, call, shm->size);
    size_t from, to;
    share (call->count, shm->rank, shm->size, &from, &to);
    for (int rank = 0; rank < shm->size; rank++) {
        const struct shm_post *post = shm_post_of (shm, rank);
        shm->sources[rank] = shm->arenas + post->send + from * call->element_bytes;
        shm->targets[rank] = shm->arenas + post->recv + from * call->element_bytes;
    }
    reduce_run (&reduction, shm->sources, shm->targets, to - from);
    return shm_sync (shm, call, err);
}

/* Small pieces are an eighth of the buffer, because nothing is reduced while the first one is copied.  Large ones are
 * halved if buffers do not fit into the caches, to leave room there; elsewhere that only costs steps. */
static size_t
piece_bytes (const struct shm *shm, bool small, size_t bytes)
{
    if (!small)
        return is_beyond_caches (shm, bytes) ? SHM_PIECE / 2 : SHM_PIECE;
    size_t piece = bytes / 8 / SHM_PIECE_LEAST * SHM_PIECE_LEAST;
    return piece < SHM_PIECE_LEAST ? SHM_PIECE_LEAST : piece > SHM_PIECE_SMALL ? SHM_PIECE_SMALL : piece;
}

static size_t
least (size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The first piece has come with the first step.  While a piece is reduced the next one is copied into the stage. */
static enum accel_status
all_reduce_staged (struct shm *shm, const struct accel_engine_call *call, size_t piece, struct accel_error *err)
{
    struct reduction reduction = reduction_of (shm, call, 1);
    reduction.private_targets = true;
    const char *send = call->send;
    size_t bytes = call->count * call->element_bytes, part;
    for (size_t done = 0; done < bytes; done += part) {
        enum accel_status status = done ? shm_sync (shm, call, err) : ACCEL_OK;
        if (status)
            return status;
        for (int rank = 0; rank < shm->size; rank++)
            shm->sources[rank] = shm_piece_of (shm, rank);
        shm->sources[shm->rank] = send + done; /* its own cache has it */
        reduction.taken = shm->size == 2 ? shm->sources[!shm->rank] : NULL;
        void *target = (char *) call->recv + done;
        part = least (bytes - done, piece);
        shm->pieces++;
        reduction.ahead_to = shm_piece_of (shm, shm->rank);
        reduction.ahead_from = send + done + part;
        reduction.ahead_bytes = least (bytes - done - part, piece);
        reduce_run (&reduction, shm->sources, &target, part / call->element_bytes);
    }
    return ACCEL_OK;
}

/* A rank's own share stays where its cache has it. */
static void
fill_divided (struct shm *shm, const struct accel_engine_call *call, size_t done)
{
    size_t unit = call->element_bytes, part = least (call->count - done, SHM_PIECE_DIVIDED / unit), from, to;
    const char *send = (const char *) call->send + done * unit;
    unsigned char *in = shm_piece_of (shm, shm->rank);
    share (part, shm->rank, shm->size, &from, &to);
    reduce_copy (in, send, from * unit);
    reduce_copy (in + to * unit, send + to * unit, (part - to) * unit);
}

/* With N ranks, each reads and writes about 5 bytes for each of the buffer, and N + 3 if each reduced all.  One piece
 * of a stage holds what goes in, and the first comes with the first step; the other one holds what comes out. */
static enum accel_status
all_reduce_divided (struct shm *shm, const struct accel_engine_call *call, struct accel_error *err)
{
    struct reduction reduction = reduction_of (shm, call, 2);
    reduction.beyond_caches = false; /* all read the results at once */
    size_t unit = call->element_bytes, part, from, to;
    for (size_t done = 0; done < call->count; done += part, shm->pieces += 2) {
        char *recv = (char *) call->recv + done * unit;
        if (done)
            fill_divided (shm, call, done);
        enum accel_status status = done ? shm_sync (shm, call, err) : ACCEL_OK;
        if (status)
            return status;
        part = least (call->count - done, SHM_PIECE_DIVIDED / unit);
        share (part, shm->rank, shm->size, &from, &to);
        for (int rank = 0; rank < shm->size; rank++)
            shm->sources[rank] = shm_piece_of (shm, rank) + from * unit;
        shm->sources[shm->rank] = (const char *) call->send + (done + from) * unit;
        void *targets[] = { shm_other_piece_of (shm, shm->rank) + from * unit, recv + from * unit };
        reduce_run (&reduction, shm->sources, targets, to - from);
        status = shm_sync (shm, call, err);
        if (status)
            return status;
        for (int i = 1; i < shm->size; i++) {
            int rank = (shm->rank + i) % shm->size;
            share (part, rank, shm->size, &from, &to);
            reduce_copy (recv + from * unit, shm_other_piece_of (shm, rank) + from * unit, (to - from) * unit);
        }
    }
    return ACCEL_OK;
}

static bool
is_divided (const struct shm *shm, size_t bytes)
{
    return shm->size >= SHM_MANY && bytes > SHM_PIECE;
}

static void
fill_first (struct shm *shm, const struct accel_engine_call *call, size_t piece)
{
    size_t bytes = call->count * call->element_bytes;
    if (is_divided (shm, bytes))
        fill_divided (shm, call, 0);
    else
        reduce_copy (shm_piece_of (shm, shm->rank), call->send, least (bytes, piece));
}

/* Whether each rank has copied its first piece before the first step, for it knew that it would have to. */
static bool
have_filled (const struct shm *shm)
{
    for (int rank = 0; rank < shm->size; rank++) {
        const struct shm_post *post = shm_post_of (shm, rank);
        if (!is_foreign (post->send, post->recv) || post->small_pieces != shm->small_pieces)
            return false;
    }
    return true;
}

static enum accel_status
all_reduce_foreign (struct shm *shm, const struct accel_engine_call *call, size_t bytes, struct accel_error *err)
{
    size_t piece = piece_bytes (shm, shm_post_of (shm, 0)->small_pieces, bytes); /* the next step's posts do not say */
    enum accel_status status = ACCEL_OK;
    if (!have_filled (shm)) {
        fill_first (shm, call, piece);
        status = shm_sync (shm, call, err);
    }
    if (status)
        return status;
    return is_divided (shm, bytes) ? all_reduce_divided (shm, call, err) : all_reduce_staged (shm, call, piece, err);
}

static enum accel_status
all_reduce (struct shm *shm, const struct accel_engine_call *call, struct accel_error *err)
{
    size_t bytes = call->count * call->element_bytes;
    bool fits = bytes <= SHM_INLINE;
    if (!fits && is_foreign (shm_offset (shm, call->send, bytes), shm_offset (shm, call->recv, bytes)))
        fill_first (shm, call, piece_bytes (shm, shm->small_pieces, bytes));
    enum accel_status status = begin (shm, call, call->send, fits ? bytes : 0, bytes, bytes, err);
    if (status)
        return status;
    if (fits) {
        reduce_payloads (shm, call, 0);
        return ACCEL_OK;
    }
    return all_send_shared (shm) && all_recv_shared (shm) ? all_reduce_direct (shm, call, err)
                                                          : all_reduce_foreign (shm, call, bytes, err);
}

static void
copy (void *to, const void *from, size_t bytes)
{
    if (bytes && to != from)
        memory_copy (to, from, bytes);
}

static enum accel_status
all_gather_direct (struct shm *shm, const struct accel_engine_call *call, size_t bytes, struct accel_error *err)
{
    /* Each begins with its neighbour, so that not all read the same memory at once. */
    for (int i = 0; i < shm->size; i++) {
        int rank = (shm->rank + i) % shm->size;
        const void *from = rank == shm->rank ? call->send : shm->arenas + shm_post_of (shm, rank)->send;
        copy ((char *) call->recv + (size_t) rank * bytes, from, bytes);
    }
    return shm_sync (shm, call, err);
}

static enum accel_status
all_gather_staged (struct shm *shm, const struct accel_engine_call *call, size_t bytes, struct accel_error *err)
{
    copy ((char *) call->recv + (size_t) shm->rank * bytes, call->send, bytes);
    for (size_t done = 0; done < bytes; done += SHM_PIECE, shm->pieces++) {
        size_t part = bytes - done < SHM_PIECE ? bytes - done : SHM_PIECE;
        memory_copy (shm_piece_of (shm, shm->rank), (const char *) call->send + done, part);
        enum accel_status status = shm_sync (shm, call, err);
        if (status)
            return status;
        for (int rank = 0; rank < shm->size; rank++)
            if (rank != shm->rank)
                memory_copy ((char *) call->recv + (size_t) rank * bytes + done, shm_piece_of (shm, rank), part);
    }
    return ACCEL_OK;
}

static enum accel_status
all_gather (struct shm *shm, const struct accel_engine_call *call, struct accel_error *err)
{
    size_t bytes = call->count * call->element_bytes, small = bytes <= SHM_INLINE ? bytes : 0;
    enum accel_status status = begin (shm, call, call->send, small, bytes, bytes * (size_t) shm->size, err);
    if (status)
        return status;
    if (bytes <= SHM_INLINE) {
        for (int rank = 0; rank < shm->size; rank++)
            copy ((char *) call->recv + (size_t) rank * bytes, shm_post_of (shm, rank)->payload, bytes);
        return ACCEL_OK;
    }
    return all_send_shared (shm) ? all_gather_direct (shm, call, bytes, err)
                                 : all_gather_staged (shm, call, bytes, err);
}

static enum accel_status
broadcast_staged (struct shm *shm, const struct accel_engine_call *call, size_t bytes, struct accel_error *err)
{
    bool root = shm->rank == call->root;
    for (size_t done = 0; done < bytes; done += SHM_PIECE, shm->pieces++) {
        size_t part = bytes - done < SHM_PIECE ? bytes - done : SHM_PIECE;
        char *here = (char *) call->recv + done;
        if (root)
            memory_copy (shm_piece_of (shm, shm->rank), here, part);
        enum accel_status status = shm_sync (shm, call, err);
        if (status)
            return status;
        if (!root)
            memory_copy (here, shm_piece_of (shm, call->root), part);
    }
    return ACCEL_OK;
}

static enum accel_status
broadcast (struct shm *shm, const struct accel_engine_call *call, struct accel_error *err)
{
    bool root = shm->rank == call->root;
    size_t bytes = call->count * call->element_bytes, small = root && bytes <= SHM_INLINE ? bytes : 0;
    enum accel_status status = begin (shm, call, call->recv, small, 0, bytes, err);
    if (status)
        return status;
    const struct shm_post *post = shm_post_of (shm, call->root);
    if (bytes <= SHM_INLINE) {
        if (!root)
            copy (call->recv, post->payload, bytes);
        return ACCEL_OK;
    }
    if (post->recv == SHM_FOREIGN)
        return broadcast_staged (shm, call, bytes, err);
    if (!root)
        memory_copy (call->recv, shm->arenas + post->recv, bytes);
    return shm_sync (shm, call, err);
}

static enum accel_status
reduce_scatter_direct (struct shm *shm, const struct accel_engine_call *call, size_t row, struct accel_error *err)
{
    struct reduction reduction = reduction_of (shm, call, 1);
    for (int rank = 0; rank < shm->size; rank++)
        shm->sources[rank] = shm->arenas + shm_post_of (shm, rank)->send + (size_t) shm->rank * row;
    reduce_run (&reduction, shm->sources, &call->recv, call->count);
    return shm_sync (shm, call, err);
}

/* A piece holds the same columns of every row, so that all ranks have work in each step. */
static enum accel_status
reduce_scatter_staged (struct shm *shm, const struct accel_engine_call *call, size_t row, struct accel_error *err)
{
    struct reduction reduction = reduction_of (shm, call, 1);
    reduction.private_targets = true;
    size_t unit = call->element_bytes, columns = SHM_PIECE / unit / (size_t) shm->size;
    for (size_t done = 0; done < call->count; done += columns, shm->pieces++) {
        size_t part = call->count - done < columns ? call->count - done : columns;
        for (int r = 0; r < shm->size; r++)
            if (r != shm->rank)
                memory_copy (shm_piece_of (shm, shm->rank) + (size_t) r * columns * unit,
                             (const char *) call->send + (size_t) r * row + done * unit, part * unit);
        enum accel_status status = shm_sync (shm, call, err);
        if (status)
            return status;
        for (int rank = 0; rank < shm->size; rank++)
            shm->sources[rank] = shm_piece_of (shm, rank) + (size_t) shm->rank * columns * unit;
        shm->sources[shm->rank] = (const char *) call->send + (size_t) shm->rank * row + done * unit;
        void *target = (char *) call->recv + done * unit;
        reduce_run (&reduction, shm->sources, &target, part);
    }
    return ACCEL_OK;
}

static enum accel_status
reduce_scatter (struct shm *shm, const struct accel_engine_call *call, struct accel_error *err)
{
    size_t row = call->count * call->element_bytes, bytes = row * (size_t) shm->size;
    enum accel_status status
        = begin (shm, call, call->send, bytes <= SHM_INLINE ? bytes : 0, bytes, row, err);
    if (status)
        return status;
    if (bytes <= SHM_INLINE) {
        reduce_payloads (shm, call, (size_t) shm->rank * row);
        return ACCEL_OK;
    }
    return all_send_shared (shm) ? reduce_scatter_direct (shm, call, row, err)
                                 : reduce_scatter_staged (shm, call, row, err);
}

/* As a reduce-scatter, without the arithmetic: of each rank's rows every rank reads its own. */
static enum accel_status
all_to_all_staged (struct shm *shm, const struct accel_engine_call *call, size_t row, struct accel_error *err)
{
    size_t columns = SHM_PIECE / (size_t) shm->size, mine = (size_t) shm->rank * columns;
    for (size_t done = 0; done < row; done += columns, shm->pieces++) {
        size_t part = row - done < columns ? row - done : columns;
        for (int r = 0; r < shm->size; r++)
            memory_copy (shm_piece_of (shm, shm->rank) + (size_t) r * columns,
                    (const char *) call->send + (size_t) r * row + done, part);
        enum accel_status status = shm_sync (shm, call, err);
        if (status)
            return status;
        for (int r = 0; r < shm->size; r++)
            memory_copy ((char *) call->recv + (size_t) r * row + done, shm_piece_of (shm, r) + mine, part);
    }
    return ACCEL_OK;
}

static enum accel_status
all_to_all (struct shm *shm, const struct accel_engine_call *call, struct accel_error *err)
{
    size_t row = call->count * call->element_bytes, bytes = row * (size_t) shm->size, mine = (size_t) shm->rank * row;
    enum accel_status status = begin (shm, call, call->send, bytes <= SHM_INLINE ? bytes : 0, bytes, bytes, err);
    if (status || !bytes)
        return status;
    bool small = bytes <= SHM_INLINE;
    if (!small && !all_send_shared (shm))
        return all_to_all_staged (shm, call, row, err);
    for (int i = 0; i < shm->size; i++) {
        /* Each rank begins with itself, so that not all read one rank's memory at once. */
        int rank = (shm->rank + i) % shm->size;
        const struct shm_post *post = shm_post_of (shm, rank);
        const unsigned char *from = small ? post->payload : shm->arenas + post->send;
        memory_copy ((char *) call->recv + (size_t) rank * row, from + mine, row);
    }
    return small ? ACCEL_OK : shm_sync (shm, call, err);
}

enum accel_status
shm_run (void *transport, const struct accel_engine_call *call, struct accel_error *err)
{
    struct shm *shm = transport;
    switch (call->kind) {
    case ACCEL_ENGINE_BARRIER: return begin (shm, call, NULL, 0, 0, 0, err);
    case ACCEL_ENGINE_ALL_REDUCE: return all_reduce (shm, call, err);
    case ACCEL_ENGINE_ALL_GATHER: return all_gather (shm, call, err);
    case ACCEL_ENGINE_BROADCAST: return broadcast (shm, call, err);
    case ACCEL_ENGINE_REDUCE_SCATTER: return reduce_scatter (shm, call, err);
    case ACCEL_ENGINE_ALL_TO_ALL: return all_to_all (shm, call, err);
    case ACCEL_ENGINE_SEND: return shm_send (shm, call, err);
    case ACCEL_ENGINE_RECV: return shm_recv (shm, call, err);
    case ACCEL_ENGINE_KIND_COUNT: break;
    }
    return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "engine shm: unknown kind of collective %d", (int) call->kind);
}
