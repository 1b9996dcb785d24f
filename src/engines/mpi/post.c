/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that MPI has: sent, received, and those that it may deliver at any time. */
#include <config.h>

#include "engines/mpi/communicators.h"

#include <stdlib.h>
#include <string.h>

/* @return where the next request goes, or NULL after a failure */
static MPI_Request *
next_request (void)
{
    struct world *world = &mpi.world;
    if (world->request_count < world->request_room)
        return &world->requests[world->request_count];
    size_t room = world->request_room ? 2 * (size_t) world->request_room : 64;
    MPI_Request *requests = realloc (world->requests, room * sizeof *requests);
    world->requests = requests ? requests : world->requests;
    struct posted *posted = realloc (world->posted, room * sizeof *posted);
    world->posted = posted ? posted : world->posted;
    int *indices = realloc (world->indices, room * sizeof *indices);
    world->indices = indices ? indices : world->indices;
    if (requests && posted && indices) {
        world->request_room = (int) room;
        return &requests[world->request_count];
    }
    world_check (MPI_ERR_NO_MEM, "memory for requests");
    return NULL;
}

static void
note_request (struct operation *operation, int rank, struct block *block, bool receives, bool is_data)
{
    struct transfer *transfer = &operation->transfers[rank];
    block->left++;
    transfer->left++;
    mpi.world.posted[mpi.world.request_count++]
        = (struct posted){ .operation = operation, .block_left = &block->left, .transfer_left = &transfer->left,
                           .receives = receives, .is_data = is_data };
}

static void
send_one (struct operation *operation, int rank, struct block *block, const void *at, size_t bytes, int tag)
{
    MPI_Request *request = next_request ();
    if (request && world_check (MPI_Isend (at, (int) bytes, MPI_BYTE, operation->comm->peers[rank], tag, mpi.world.comm,
                                           request), "MPI_Isend"))
        note_request (operation, rank, block, false, tag != TAG_CONTROL);
}

void
post_control (struct operation *operation, int rank, const void *message, size_t bytes)
{
    send_one (operation, rank, operation->window, message, bytes, TAG_CONTROL);
}

void
post_final (int peer, const void *message, size_t bytes)
{
    MPI_Request request;
    if (MPI_Isend (message, (int) bytes, MPI_BYTE, peer, TAG_CONTROL, mpi.world.comm, &request) == MPI_SUCCESS)
        MPI_Request_free (&request);
}

char *
bundle_take (size_t bytes)
{
    struct world *world = &mpi.world;
    int done = 1, next = (world->bundle + 1) % BUNDLES;
    if (!world->bundles)
        world->bundles = calloc (BUNDLES, sizeof *world->bundles);
    if (!world->bundles || bytes > CONTROL_BYTES)
        return NULL;
    struct bundle *bundle = &world->bundles[next];
    if (bundle->count
        && (!world_check (MPI_Testall (bundle->count, bundle->requests, &done, MPI_STATUSES_IGNORE), "MPI_Testall")
            || !done))
        return NULL;
    world->bundle = next;
    bundle->count = 0;
    return bundle->bytes;
}

void
bundle_send (int peer, size_t bytes)
{
    struct bundle *bundle = &mpi.world.bundles[mpi.world.bundle];
    if (world_check (MPI_Isend (bundle->bytes, (int) bytes, MPI_BYTE, peer, TAG_CONTROL, mpi.world.comm,
                                &bundle->requests[bundle->count]), "MPI_Isend"))
        bundle->count++;
}

void
post_send (struct operation *operation, int rank, struct block *block, const void *at, size_t bytes, int tag)
{
    for (const char *from = at; bytes && !*mpi.world.error;) {
        size_t now = bytes < MESSAGE_BYTES ? bytes : MESSAGE_BYTES;
        send_one (operation, rank, block, from, now, tag);
        from += now;
        bytes -= now;
    }
}

void
post_recv (struct operation *operation, int rank, struct block *block, void *at, size_t bytes, int tag)
{
    for (char *to = at; bytes && !*mpi.world.error;) {
        size_t now = bytes < MESSAGE_BYTES ? bytes : MESSAGE_BYTES;
        MPI_Request *request = next_request ();
        if (request && world_check (MPI_Irecv (to, (int) now, MPI_BYTE, operation->comm->peers[rank], tag,
                                               mpi.world.comm, request), "MPI_Irecv"))
            note_request (operation, rank, block, true, true);
        to += now;
        bytes -= now;
    }
}

void
post_test (void)
{
    struct world *world = &mpi.world;
    int done = 0, kept = 0;
    if (!world->request_count
        || !world_check (MPI_Testsome (world->request_count, world->requests, &done, world->indices,
                                       MPI_STATUSES_IGNORE), "MPI_Testsome")
        || done == MPI_UNDEFINED || !done)
        return;
    for (int i = 0; i < done; i++) {
        const struct posted *note = &world->posted[world->indices[i]];
        --*note->block_left;
        --*note->transfer_left;
        if (note->is_data && note->operation->comm)
            note->operation->comm->moved = true;
    }
    for (int i = 0; i < world->request_count; i++)
        if (world->requests[i] != MPI_REQUEST_NULL) {
            world->requests[kept] = world->requests[i];
            world->posted[kept++] = world->posted[i];
        }
    world->request_count = kept;
}

void
post_cancel (const struct operation *operation)
{
    for (int i = 0; i < mpi.world.request_count; i++)
        if (mpi.world.posted[i].operation == operation && mpi.world.posted[i].receives)
            MPI_Cancel (&mpi.world.requests[i]);
}

/* ---- control messages ---- */

static bool
receive_next (int slot)
{
    return world_check (MPI_Irecv (mpi.world.ring_bytes + (size_t) slot * mpi.world.control_most,
                                   (int) mpi.world.control_most, MPI_BYTE, MPI_ANY_SOURCE, TAG_CONTROL, mpi.world.comm,
                                   &mpi.world.ring[slot]), "MPI_Irecv");
}

bool
ring_open (void)
{
    size_t bundle = mpi.host.outboxes ? sizeof (struct header) + (size_t) mpi.host.most * mpi.host.slot_bytes : 0;
    free (mpi.world.ring_bytes);
    mpi.world.control_most = bundle > CONTROL_BYTES ? bundle : CONTROL_BYTES;
    mpi.world.ring_bytes = calloc (RING, mpi.world.control_most);
    if (!mpi.world.ring_bytes) {
        world_check (MPI_ERR_NO_MEM, "memory for messages");
        return false;
    }
    mpi.world.ring_head = 0;
    for (int i = 0; i < RING; i++)
        mpi.world.ring[i] = MPI_REQUEST_NULL;
    for (int i = 0; i < RING; i++)
        if (!receive_next (i))
            return false;
    return true;
}

/* A message that has come in the meantime has no receiver any more. */
void
ring_close (void)
{
    for (int i = 0; i < RING; i++)
        if (mpi.world.ring[i] != MPI_REQUEST_NULL) {
            MPI_Cancel (&mpi.world.ring[i]);
            MPI_Wait (&mpi.world.ring[i], MPI_STATUS_IGNORE);
        }
}

/* MPI fills the slots in the order in which they were posted, so messages of a rank stay in order. */
struct message *
ring_next (void)
{
    struct world *world = &mpi.world;
    MPI_Status status;
    int has_come = 0, bytes = 0;
    if (!world->session || *world->error
        || !world_check (MPI_Test (&world->ring[world->ring_head], &has_come, &status), "MPI_Test") || !has_come)
        return NULL;
    const char *from = world->ring_bytes + (size_t) world->ring_head * world->control_most;
    MPI_Get_count (&status, MPI_BYTE, &bytes);
    size_t size = (size_t) bytes, data = size - sizeof (struct header);
    struct message *message = size < sizeof (struct header) ? NULL : malloc (sizeof *message + data);
    if (!message) {
        world_check (MPI_ERR_NO_MEM, "memory for messages");
        return NULL;
    }
    message->next = NULL;
    message->from = status.MPI_SOURCE;
    memcpy (&message->header, from, sizeof message->header);
    memcpy (message->data, from + sizeof message->header, data);
    if (message->header.inline_bytes != data)
        world_check (MPI_ERR_TRUNCATE, "a message");
    if (receive_next (world->ring_head) && !*world->error) {
        world->ring_head = (world->ring_head + 1) % RING;
        return message;
    }
    free (message);
    return NULL;
}
