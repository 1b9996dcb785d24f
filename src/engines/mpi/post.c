/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that MPI has: sent, received, and those that it may deliver at any time. */
#include <config.h>

#include "engines/mpi/mpi_private.h"

#include <stdlib.h>
#include <string.h>

/* @return where the next request goes, or NULL after a failure */
static MPI_Request *
next_request (void)
{
    struct world *world = &mpi_world;
    if (world->request_count < world->request_room)
        return &world->requests[world->request_count];
    size_t room = world->request_room ? 2 * (size_t) world->request_room : 64;
    MPI_Request *requests = realloc (world->requests, room * sizeof *requests);
    world->requests = requests ? requests : world->requests;
    struct note *notes = realloc (world->notes, room * sizeof *notes);
    world->notes = notes ? notes : world->notes;
    int *indices = realloc (world->indices, room * sizeof *indices);
    world->indices = indices ? indices : world->indices;
    if (requests && notes && indices) {
        world->request_room = (int) room;
        return &requests[world->request_count];
    }
    world_check (MPI_ERR_NO_MEM, "memory for requests");
    return NULL;
}

static void
note_request (struct flight *flight, int rank, struct block *block, bool receives, bool is_data)
{
    struct leg *leg = &flight->legs[rank];
    block->left++;
    leg->left++;
    mpi_world.notes[mpi_world.request_count++]
        = (struct note){ .flight = flight, .block_left = &block->left, .leg_left = &leg->left, .receives = receives,
                         .is_data = is_data };
}

static void
send_one (struct flight *flight, int rank, struct block *block, const void *at, size_t bytes, int tag)
{
    MPI_Request *request = next_request ();
    if (request && world_check (MPI_Isend (at, (int) bytes, MPI_BYTE, flight->team->peers[rank], tag, mpi_world.comm,
                                           request), "MPI_Isend"))
        note_request (flight, rank, block, false, tag != TAG_CONTROL);
}

void
post_control (struct flight *flight, int rank, const void *message, size_t bytes)
{
    send_one (flight, rank, flight->window, message, bytes, TAG_CONTROL);
}

void
post_last_words (int peer, const void *message, size_t bytes)
{
    MPI_Request request;
    if (MPI_Isend (message, (int) bytes, MPI_BYTE, peer, TAG_CONTROL, mpi_world.comm, &request) == MPI_SUCCESS)
        MPI_Request_free (&request);
}

char *
parcel_take (size_t bytes)
{
    struct world *world = &mpi_world;
    int done = 1, next = (world->parcel + 1) % PARCELS;
    if (!world->parcels)
        world->parcels = calloc (PARCELS, sizeof *world->parcels);
    if (!world->parcels || bytes > CONTROL_BYTES)
        return NULL;
    struct parcel *parcel = &world->parcels[next];
    if (parcel->count
        && (!world_check (MPI_Testall (parcel->count, parcel->requests, &done, MPI_STATUSES_IGNORE), "MPI_Testall")
            || !done))
        return NULL;
    world->parcel = next;
    parcel->count = 0;
    return parcel->bytes;
}

void
parcel_send (int peer, size_t bytes)
{
    struct parcel *parcel = &mpi_world.parcels[mpi_world.parcel];
    if (world_check (MPI_Isend (parcel->bytes, (int) bytes, MPI_BYTE, peer, TAG_CONTROL, mpi_world.comm,
                                &parcel->requests[parcel->count]), "MPI_Isend"))
        parcel->count++;
}

void
post_send (struct flight *flight, int rank, struct block *block, const void *at, size_t bytes, int tag)
{
    for (const char *from = at; bytes && !*mpi_world.error;) {
        size_t now = bytes < MESSAGE_BYTES ? bytes : MESSAGE_BYTES;
        send_one (flight, rank, block, from, now, tag);
        from += now;
        bytes -= now;
    }
}

void
post_recv (struct flight *flight, int rank, struct block *block, void *at, size_t bytes, int tag)
{
    for (char *to = at; bytes && !*mpi_world.error;) {
        size_t now = bytes < MESSAGE_BYTES ? bytes : MESSAGE_BYTES;
        MPI_Request *request = next_request ();
        if (request && world_check (MPI_Irecv (to, (int) now, MPI_BYTE, flight->team->peers[rank], tag, mpi_world.comm,
                                               request), "MPI_Irecv"))
            note_request (flight, rank, block, true, true);
        to += now;
        bytes -= now;
    }
}

void
post_test (void)
{
    struct world *world = &mpi_world;
    int done = 0, kept = 0;
    if (!world->request_count
        || !world_check (MPI_Testsome (world->request_count, world->requests, &done, world->indices,
                                       MPI_STATUSES_IGNORE), "MPI_Testsome")
        || done == MPI_UNDEFINED || !done)
        return;
    for (int i = 0; i < done; i++) {
        const struct note *note = &world->notes[world->indices[i]];
        --*note->block_left;
        --*note->leg_left;
        if (note->is_data && note->flight->team)
            note->flight->team->moved = true;
    }
    for (int i = 0; i < world->request_count; i++)
        if (world->requests[i] != MPI_REQUEST_NULL) {
            world->requests[kept] = world->requests[i];
            world->notes[kept++] = world->notes[i];
        }
    world->request_count = kept;
}

void
post_cancel (const struct flight *flight)
{
    for (int i = 0; i < mpi_world.request_count; i++)
        if (mpi_world.notes[i].flight == flight && mpi_world.notes[i].receives)
            MPI_Cancel (&mpi_world.requests[i]);
}

/* ---- control messages ---- */

static bool
receive_next (int slot)
{
    return world_check (MPI_Irecv (mpi_world.ring_bytes + (size_t) slot * mpi_world.control_most,
                                   (int) mpi_world.control_most, MPI_BYTE, MPI_ANY_SOURCE, TAG_CONTROL, mpi_world.comm,
                                   &mpi_world.ring[slot]), "MPI_Irecv");
}

bool
ring_open (void)
{
    size_t bundle = mpi_host.boards ? sizeof (struct header) + (size_t) mpi_host.most * mpi_host.slot_bytes : 0;
    free (mpi_world.ring_bytes);
    mpi_world.control_most = bundle > CONTROL_BYTES ? bundle : CONTROL_BYTES;
    mpi_world.ring_bytes = calloc (RING, mpi_world.control_most);
    if (!mpi_world.ring_bytes) {
        world_check (MPI_ERR_NO_MEM, "memory for messages");
        return false;
    }
    mpi_world.ring_head = 0;
    for (int i = 0; i < RING; i++)
        mpi_world.ring[i] = MPI_REQUEST_NULL;
    for (int i = 0; i < RING; i++)
        if (!receive_next (i))
            return false;
    return true;
}

/* A message that has come in the meantime belongs to nobody any more. */
void
ring_close (void)
{
    for (int i = 0; i < RING; i++)
        if (mpi_world.ring[i] != MPI_REQUEST_NULL) {
            MPI_Cancel (&mpi_world.ring[i]);
            MPI_Wait (&mpi_world.ring[i], MPI_STATUS_IGNORE);
        }
}

/* MPI fills the slots in the order in which they were posted, so messages of a rank stay in order. */
struct message *
ring_next (void)
{
    struct world *world = &mpi_world;
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
