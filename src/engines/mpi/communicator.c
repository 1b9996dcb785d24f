/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators: which control message belongs to which call, and what will never end. */
#include <config.h>

#include "engines/mpi/communicators.h"
#include "engines/mpi/topology.h"

#include <stdlib.h>
#include <string.h>

enum {
    MISMATCHES = 3, /* looks after which it is not the ledgers that will say what ranks disagree about */
    FAILED_LOOKS = 2, /* looks in a row that say that a call waits in vain, until it is believed */
    PROBES = 64,  /* times that MPI is asked after each */
};

struct communicator *
comm_create (int size, int rank, int64_t group, uint32_t timeout_ms)
{
    struct communicator *comm;
    size_t ranks = (size_t) size, each = 2 * sizeof *comm->queues + sizeof *comm->matched + 2 * sizeof *comm->pairs_to
                                         + sizeof *comm->peers;
    comm = calloc (1, sizeof *comm + ranks * each);
    if (!comm)
        return NULL;
    *comm = (struct communicator){ .size = size, .rank = rank, .group = group, .timeout_ms = timeout_ms,
                                   .gave_up_rank = -1, .outbox_calls = OUTBOX_FIRST, .shared_at = FOREIGN };
    comm->queues = (struct queue *) (void *) (comm + 1);
    comm->bundled = comm->queues + ranks;
    comm->matched = (uint64_t *) (void *) (comm->bundled + ranks);
    comm->pairs_to = (uint32_t *) (void *) (comm->matched + ranks);
    comm->pairs_from = comm->pairs_to + ranks;
    comm->peers = (int *) (void *) (comm->pairs_from + ranks);
    for (int i = 0; i < size; i++) {
        comm->queues[i].last = &comm->queues[i].first;
        comm->matched[i] = OUTBOX_FIRST;
    }
    return comm;
}

static void
empty (struct queue *queue)
{
    while (queue->first) {
        struct message *message = queue->first;
        queue->first = message->next;
        free (message);
    }
}

void
comm_destroy (struct communicator *comm)
{
    struct communicator **at = &mpi.world.comms;
    while (*at && *at != comm)
        at = &(*at)->next;
    if (*at)
        *at = comm->next;
    for (int i = 0; i < comm->size; i++) {
        empty (&comm->queues[i]);
        empty (&comm->bundled[i]);
    }
    if (comm->group && comm->topology) {
        group_memory_leave (comm);
        topology_destroy (comm->topology);
    }
    free (comm);
}

void
comm_forget_unexpected (void)
{
    while (mpi.world.unexpected) {
        struct message *message = mpi.world.unexpected;
        mpi.world.unexpected = message->next;
        free (message);
    }
}

static void
keep_unexpected (struct message *message)
{
    struct message **at = &mpi.world.unexpected;
    while (*at)
        at = &(*at)->next;
    *at = message;
}

/* Find the calls to which the control messages of @rank belong.  What comes after one that differs belongs to none. */
static void
match (struct communicator *comm, int rank)
{
    bool has_outbox = mpi.host.outboxes && !comm->group;
    struct queue *queue = &comm->queues[rank];
    const struct header *header;
    const char *data;
    for (struct operation *operation = comm->first; operation; operation = operation->next) {
        struct transfer *transfer = &operation->transfers[rank];
        struct message *message = queue->first;
        if (transfer->differs)
            return;
        if (!transfer->is_used || transfer->has_come)
            continue;
        if (has_outbox && outbox_peek (comm, rank, &header, &data)) {
            operation_match (operation, rank, header, data);
            outbox_take (comm, rank);
            continue;
        }
        if (!message || (has_outbox && message->header.collectives != comm->matched[rank]))
            return;
        queue->first = message->next;
        if (!queue->first)
            queue->last = &queue->first;
        comm->pairs_from[rank]++;
        operation_match (operation, rank, &message->header, message->data);
        free (message);
    }
}

static void
unpack (struct communicator *comm, const struct message *bundle)
{
    size_t at = 0;
    int rank;
    while (outbox_unpack (comm, bundle, &at, &rank)) {
        match (comm, rank);
        outbox_keep (comm);
    }
}

/* Takes @message. */
static void
deliver (struct message *message)
{
    const struct header *header = &message->header;
    struct communicator *comm = mpi.world.comms;
    while (comm && comm->group != header->group)
        comm = comm->next;
    if (header->session == mpi.world.session && header->signature.kind == ENDED) {
        host_note_ended ((int) header->ended - 1);
        free (message);
    } else if (header->session != mpi.world.session
               || (comm
                   && (header->rank < 0 || header->rank >= comm->size
                       || comm->peers[header->rank] != message->from))) {
        free (message);
    } else if (!comm) {
        keep_unexpected (message);
    } else if (header->signature.kind == BUNDLE) {
        unpack (comm, message);
        free (message);
    } else if (header->signature.kind == GAVE_UP) {
        size_t length = header->inline_bytes < REASON_BYTES ? header->inline_bytes : REASON_BYTES - 1;
        if (comm->gave_up_rank < 0) {
            memcpy (comm->its_reason, message->data, length);
            comm->gave_up_rank = header->signature.root;
        }
        comm->queues[header->rank].is_final = true;
        if (!comm->group && header->ended && header->ended <= (uint32_t) comm->size)
            comm->queues[header->ended - 1].is_final = true;
        free (message);
    } else {
        *comm->queues[header->rank].last = message;
        comm->queues[header->rank].last = &message->next;
        match (comm, header->rank);
    }
}

void
comm_add (struct communicator *comm)
{
    struct message *message = mpi.world.unexpected, **last = &mpi.world.unexpected;
    comm->next = mpi.world.comms;
    mpi.world.comms = comm;
    mpi.world.unexpected = NULL;
    while (message) {
        struct message *next = message->next;
        message->next = NULL;
        if (message->header.group == comm->group) {
            deliver (message);
        } else {
            *last = message;
            last = &message->next;
        }
        message = next;
    }
}

struct operation *
comm_oldest (const struct communicator *comm)
{
    struct operation *operation = comm->first;
    while (operation && operation->over)
        operation = operation->next;
    return operation;
}

void
comm_fail (struct communicator *comm, enum accel_status status, const struct accel_error *err)
{
    for (struct operation *operation = comm->first; operation; operation = operation->next)
        if (!operation->over) {
            if (!comm->has_failed)
                hier_reduce_fail (comm);
            comm->has_failed = operation->over = true;
            operation->status = status;
            operation->error = *err;
            post_cancel (operation);
        }
}

void
comm_start (struct communicator *comm, struct operation *operation)
{
    struct operation **end = &comm->first;
    while (*end)
        end = &(*end)->next;
    *end = operation;
    operation_begin (operation);
    outbox_post (comm);
    for (int i = 0; i < comm->size; i++)
        match (comm, i);
    operation_advance (operation);
    if (!operation->over)
        comm_progress_all ();
}

/* ---- progress ---- */

/* Asked once more than there are messages, MPI may leave the processor to others; not when a call has all it needs. */
static void
poll_mpi (void)
{
    struct message *message;
    mpi.world.has_all = false;
    post_test ();
    while (!mpi.world.has_all && (message = ring_next ()))
        deliver (message);
}

static void
progress_outbox (struct communicator *comm)
{
    outbox_post (comm);
    outbox_publish (comm);
    for (int i = 0; i < comm->size; i++)
        if (outbox_has (comm, i))
            match (comm, i);
}

/* @return whether data was moved, or a call ended */
static bool
progress (struct communicator *comm)
{
    static const struct accel_error gave_up = { .code = ACCEL_ERR_PEER, .text = "engine mpi: this process gave up" };
    const struct operation *oldest = comm_oldest (comm);
    if (atomic_load (&comm->gave_up)) {
        comm_send_gave_up (comm);
        comm_fail (comm, ACCEL_ERR_PEER, &gave_up);
    }
    if (mpi.host.outboxes && !comm->group && oldest)
        progress_outbox (comm);
    for (struct operation *operation = comm->first; operation; operation = operation->next)
        operation_advance (operation);
    bool moved = comm->moved || oldest != comm_oldest (comm);
    comm->moved = false;
    if (moved)
        comm->waited_ms = comm->mismatches = comm->failed_looks = 0;
    return moved;
}

/* MPI keeps the message until the process ends. */
void
comm_send_gave_up (struct communicator *comm)
{
    size_t length = strlen (comm->reason);
    struct header header = { .session = mpi.world.session, .group = comm->group, .rank = comm->rank,
                             .signature = { .kind = GAVE_UP,
                                            .root = mpi.world.rank }, .inline_bytes = (uint32_t) length,
                             .ended = mpi.world.ended };
    char *message = comm->has_sent_gave_up || *mpi.world.error ? NULL : malloc (sizeof header + length);
    comm->has_sent_gave_up = true;
    if (!message)
        return;
    memcpy (message, &header, sizeof header);
    memcpy (message + sizeof header, comm->reason, length);
    for (int i = 0; i < comm->size; i++)
        if (i != comm->rank && !host_find_ended (comm->peers[i]))
            post_final (comm->peers[i], message, sizeof header + length);
}

/* Another collective is reported at once; of messages, look() knows more, if it can see the other rank's ledger. */
static enum accel_status
check_mismatch (struct communicator *comm, const struct operation *operation, struct accel_error *err)
{
    const struct accel_engine_helpers *helpers = operation->call->helpers;
    bool has_looked = ++comm->mismatches > MISMATCHES;
    for (int i = 0; i < comm->size; i++)
        if (operation->transfers[i].differs && (operation->transfers[i].is_other || has_looked))
            return helpers->mismatch (helpers->context, operation->call, comm->rank, i, err);
    return ACCEL_OK;
}

/* A rank that gives up, in whatever group, is not a member of the world any more; but only the world hears of it. */
static enum accel_status
find_failed_in_world (const struct communicator *comm, const struct operation *operation,
                      struct accel_error *err)
{
    const struct accel_engine_helpers *helpers = operation->call->helpers;
    const struct communicator *world = mpi.world.comms;
    while (world && world->group)
        world = world->next;
    if (!world || world == comm || world->gave_up_rank < 0)
        return ACCEL_OK;
    for (int i = 0; i < comm->size; i++)
        for (int k = 0; k < world->size && operation_awaits (operation, i); k++)
            if (world->queues[k].is_final && world->peers[k] == comm->peers[i])
                return helpers->fail (err, ACCEL_ERR_PEER, "rank %d gave up: %s", world->gave_up_rank,
                                      world->its_reason);
    return ACCEL_OK;
}

/* A rank that has ended, as this host knows, or any that has given up.  Other hosts will hear of the former from this
 * rank, too. */
static enum accel_status
find_failed_rank (const struct communicator *comm, const struct operation *operation, struct accel_error *err)
{
    const struct accel_engine_helpers *helpers = operation->call->helpers;
    struct accel_error where;
    for (int i = 0; i < comm->size; i++) {
        const struct process *ended = operation_awaits (operation, i) ? host_find_ended (comm->peers[i]) : NULL;
        if (!ended)
            continue;
        mpi.world.ended = (uint32_t) ended->rank + 1;
        helpers->peer_failed (helpers->context, operation->call, i, &where); /* "rank 1 gave up; meanwhile ..." */
        return helpers->fail (err, ACCEL_ERR_PEER, "rank %d ended (process %d)%s", ended->rank, ended->pid,
                              where.text + strcspn (where.text, ";"));
    }
    if (comm->gave_up_rank < 0)
        return find_failed_in_world (comm, operation, err);
    return helpers->fail (err, ACCEL_ERR_PEER, "rank %d gave up: %s", comm->gave_up_rank, comm->its_reason);
}

static enum accel_status
look (struct communicator *comm, const struct operation *oldest, struct accel_error *err)
{
    const struct accel_engine_helpers *helpers = oldest->call->helpers;
    enum accel_status status = helpers->look (helpers->context, oldest->call, err);
    if (!status)
        status = find_failed_rank (comm, oldest, err);
    if (!status)
        status = check_mismatch (comm, oldest, err);
    if (!status && *mpi.world.error)
        status = world_fail (helpers, err);
    if (!status && comm->waited_ms >= comm->timeout_ms)
        status = helpers->timed_out (helpers->context, oldest->call, err);
    return status;
}

/* A rank that is past this call has done its part, which MPI may hand over in small portions, or late. */
static bool
progresses_after_all (struct communicator *comm)
{
    for (int i = 0; i < PROBES; i++) {
        poll_mpi ();
        if (progress (comm))
            return true;
    }
    return false;
}

/* Time runs for the oldest call, and not while the program computes. */
static void
check_oldest (struct communicator *comm, bool moved)
{
    struct operation *oldest = comm_oldest (comm);
    struct accel_error err;
    int64_t now = now_ms (), passed = now - comm->seen_ms;
    comm->waited_ms += passed < PAUSE_MS ? passed : PAUSE_MS;
    if (oldest != comm->oldest || moved)
        comm->waited_ms = comm->mismatches = comm->failed_looks = 0;
    comm->seen_ms = now;
    comm->oldest = oldest;
    if (!oldest || (now < comm->looked_ms + SLICE_MS && !*mpi.world.error))
        return;
    comm->looked_ms = now;
    outbox_flush (comm);
    enum accel_status status = look (comm, oldest, &err);
    comm->failed_looks = status ? comm->failed_looks + 1 : 0;
    if (status && !progresses_after_all (comm) && comm->failed_looks == FAILED_LOOKS)
        comm_fail (comm, status, &err);
}

bool
comm_poll_all (void)
{
    bool any = false;
    poll_mpi ();
    for (struct communicator *comm = mpi.world.comms; comm; comm = comm->next)
        any = progress (comm) || any;
    for (struct communicator *comm = mpi.world.comms; comm && !any; comm = comm->next)
        outbox_flush (comm);
    return any;
}

bool
comm_progress_all (void)
{
    bool moved = false;
    if (mpi.world.session && !world_may_call ())
        return false;
    poll_mpi ();
    for (struct communicator *comm = mpi.world.comms; comm; comm = comm->next) {
        bool here = progress (comm);
        moved = moved || here;
        check_oldest (comm, here);
    }
    return moved;
}
