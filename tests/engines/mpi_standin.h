/* SPDX-License-Identifier: Apache-2.0 */
/* An MPI that only takes notes, and does what a test tells it to: the engine alone, without other ranks. */
#ifndef TESTS_ENGINES_MPI_STANDIN_H
#define TESTS_ENGINES_MPI_STANDIN_H

#include <mpi.h>
#include <string.h>

enum { POSTS = 255 };

static struct {
    int polls; /* calls of MPI_Testsome() */
    void (*poll) (int number); /* what happens in one; it may set `done` */
    int done;  /* the request that has ended, or -1 */
    int count; /* sent and received */
    struct {
        int peer;
        bool is_receive, is_cancelled, is_awaited;
    } posts[POSTS];
    int init_code, connected; /* processes */
    bool is_running;
} standin = { .done = -1, .is_running = true };

static int
take_post (int peer, bool is_receive, MPI_Request *request)
{
    standin.posts[standin.count].peer = peer;
    standin.posts[standin.count].is_receive = is_receive;
    memset (request, 0, sizeof *request);
    *(unsigned char *) request = (unsigned char) ++standin.count;
    return MPI_SUCCESS;
}

static int
post_of (const MPI_Request *request)
{
    return *(const unsigned char *) request - 1;
}

int
MPI_Isend (const void *at, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request *request)
{
    (void) at, (void) count, (void) type, (void) tag, (void) comm;
    return take_post (peer, false, request);
}

int
MPI_Irecv (void *at, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request *request)
{
    (void) at, (void) count, (void) type, (void) tag, (void) comm;
    return take_post (peer, true, request);
}

int
MPI_Testsome (int count, MPI_Request *requests, int *done, int *indices, MPI_Status *statuses)
{
    (void) count, (void) statuses;
    standin.done = -1;
    if (standin.poll)
        standin.poll (++standin.polls);
    *done = standin.done >= 0;
    if (*done) {
        *indices = standin.done;
        requests[standin.done] = MPI_REQUEST_NULL;
    }
    return MPI_SUCCESS;
}

int
MPI_Cancel (MPI_Request *request)
{
    standin.posts[post_of (request)].is_cancelled = true;
    return MPI_SUCCESS;
}

int
MPI_Wait (MPI_Request *request, MPI_Status *status)
{
    (void) status;
    standin.posts[post_of (request)].is_awaited = true;
    *request = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}

int
MPI_Request_free (MPI_Request *request)
{
    *request = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}

int
MPI_Error_string (int code, char *text, int *length)
{
    *length = snprintf (text, MPI_MAX_ERROR_STRING, "error %d", code);
    return MPI_SUCCESS;
}

int
MPI_Initialized (int *is_running)
{
    *is_running = standin.is_running;
    return MPI_SUCCESS;
}

int
MPI_Finalized (int *is_over)
{
    *is_over = 0;
    return MPI_SUCCESS;
}

int
MPI_Query_thread (int *level)
{
    *level = MPI_THREAD_SERIALIZED;
    return MPI_SUCCESS;
}

int
MPI_Init_thread (int *count, char ***arguments, int wanted, int *level)
{
    (void) count, (void) arguments;
    *level = wanted;
    return standin.init_code;
}

int
MPI_Comm_size (MPI_Comm comm, int *size)
{
    (void) comm;
    *size = standin.connected;
    return MPI_SUCCESS;
}

int
MPI_Get_library_version (char *version, int *length)
{
    *length = snprintf (version, MPI_MAX_LIBRARY_VERSION_STRING, "Stand-in 1.2, package: none");
    return MPI_SUCCESS;
}

#endif
