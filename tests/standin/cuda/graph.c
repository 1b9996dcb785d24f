/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA graphs of one stream: what is queued on it during a capture is kept, and queued by each launch. */
#include <config.h>

#include "tests/standin/cuda/standin.h"

#include <stdlib.h>
#include <string.h>

#define API __attribute__ ((visibility ("default")))

struct CUstream_st *captured;

struct CUgraph_st {
    struct operation *head, **tail;
};
static struct CUgraph_st *graph;

struct operation *
graph_add (struct operation *operation)
{
    if (operation->kind == OPERATION_RECORD || operation->kind == OPERATION_WAIT || operation->kind == OPERATION_POLL)
        report (NULL, NULL, "an event or a collective becomes part of a graph");
    *graph->tail = operation;
    graph->tail = &operation->next;
    return operation;
}

static void
capture (cudaStream_t stream, bool begins)
{
    pthread_mutex_lock (&standin_lock);
    if (begins) {
        graph = calloc (1, sizeof *graph);
        if (!graph)
            abort ();
        graph->tail = &graph->head;
    }
    __atomic_store_n (&captured, begins ? stream_of (stream) : NULL, __ATOMIC_RELEASE);
    pthread_mutex_unlock (&standin_lock);
}

/* A graph that is thrown away. */
API void
standin_capture (cudaStream_t stream, bool begins)
{
    capture (stream, begins);
    if (!begins)
        cudaGraphDestroy (graph);
}

API cudaError_t
cudaStreamBeginCapture (cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    (void) mode;
    capture (stream, true);
    return cudaSuccess;
}

API cudaError_t
cudaStreamEndCapture (cudaStream_t stream, cudaGraph_t *made)
{
    capture (stream, false);
    *made = graph;
    return cudaSuccess;
}

API cudaError_t
cudaGraphInstantiate (cudaGraphExec_t *made, cudaGraph_t from, unsigned long long flags)
{
    (void) flags;
    *made = (cudaGraphExec_t) (void *) from;
    return cudaSuccess;
}

API cudaError_t
cudaGraphLaunch (cudaGraphExec_t launched, cudaStream_t handle)
{
    pthread_mutex_lock (&standin_lock);
    struct CUstream_st *stream = stream_of (handle);
    standin_launch ();
    for (const struct operation *each = ((cudaGraph_t) (void *) launched)->head; each; each = each->next) {
        struct operation *again = stream_add (stream, each->kind), *next = again->next;
        *again = *each;
        again->next = next;
        again->issued_ns = host_ns;
        again->closure = each->closure ? malloc (each->closure_bytes + 1) : NULL;
        if (each->closure)
            memcpy (again->closure, each->closure, each->closure_bytes);
    }
    stream_go ();
    pthread_mutex_unlock (&standin_lock);
    return cudaSuccess;
}

API cudaError_t
cudaGraphExecDestroy (cudaGraphExec_t exec)
{
    (void) exec;
    return cudaSuccess;
}

API cudaError_t
cudaGraphDestroy (cudaGraph_t old)
{
    for (struct operation *each = old->head, *next; each; each = next) {
        next = each->next;
        free (each->closure);
        free (each);
    }
    free (old);
    return cudaSuccess;
}
