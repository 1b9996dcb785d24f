/* SPDX-License-Identifier: Apache-2.0 */
/* What each kind of operation costs on the stand-in's clocks, as STANDIN_COSTS says: a table.
 * usage: costs [WORDS]  WORDS: only a fill, with these costs */
#include <config.h>

#include "cuda/kernels.h"
#include "tests/standin/cuda/standin.h"
#include "tests/tap.h"

#include <nccl.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 12000, FLOATS = BYTES / 4, MANY = 10 };

static float *one, *two, *far, *pinned; /* of BYTES each; far: of the other device */
static cudaStream_t stream, other;
static cudaEvent_t event;
static cudaGraphExec_t graph;
static ncclComm_t comm;

static void
must (int code, const char *what)
{
    if (!code)
        return;
    printf ("Bail out! %s: %d\n", what, code);
    exit (2);
}
#define MUST(call) must ((int) (call), #call)

static void
from_host (void)
{
    MUST (cudaMemcpyAsync (one, pinned, BYTES, cudaMemcpyHostToDevice, stream));
}

static void
to_host (void)
{
    MUST (cudaMemcpyAsync (pinned, one, BYTES, cudaMemcpyDeviceToHost, stream));
}

static void
within (void)
{
    MUST (cudaMemcpyAsync (two, one, BYTES, cudaMemcpyDeviceToDevice, stream));
}

static void
to_peer (void)
{
    MUST (cudaMemcpyPeerAsync (far, 1, one, 0, BYTES, stream));
}

static void
fill (void)
{
    MUST (cudaMemsetAsync (one, 0, BYTES, stream));
}

static void
add (void)
{
    cuda_add (one, two, FLOATS, stream);
}

static void
add_itself (void)
{
    cuda_add (one, one, FLOATS, stream);
}

static void
add_often (void)
{
    for (int i = 0; i < MANY; i++)
        add ();
}

static void
add_apart (void)
{
    add ();
    cuda_scale (pinned, ACCEL_FLOAT32, FLOATS, 2, other);
}

static void
add_behind (void)
{
    add ();
    MUST (cudaEventRecord (event, stream));
    MUST (cudaStreamWaitEvent (other, event, 0));
    cuda_add (one, two, FLOATS, other);
}

static void
replay (void)
{
    MUST (cudaGraphLaunch (graph, stream));
}

static void
reduce (void)
{
    MUST (ncclAllReduce (one, one, FLOATS, ncclFloat32, ncclSum, comm, stream));
}

static void
reduce_both (void)
{
    MUST (ncclGroupStart ());
    MUST (ncclAllReduce (one, one, FLOATS, ncclFloat32, ncclSum, comm, stream));
    MUST (ncclAllReduce (two, two, FLOATS, ncclFloat32, ncclSum, comm, stream));
    MUST (ncclGroupEnd ());
}

/* When the host has queued it, and when the device has done it. */
static const struct row {
    const char *name, *costs;
    void (*act) (void);
    int64_t queued_ns, done_ns;
} rows[] = {
    { "nothing costs anything", "", add_often, 0, 0 },
    { "a copy from the host", "launch=300 copy=20 host=25 memory=7 peer=9", from_host, 300, 300 + 20 + BYTES / 25 },
    { "a copy to the host", "launch=300 copy=20 host=25 memory=7 peer=9", to_host, 300, 300 + 20 + BYTES / 25 },
    { "a copy within a GPU", "launch=300 copy=20 host=25 memory=7 peer=9", within, 300, 300 + 20 + BYTES / 7 },
    { "a copy between GPUs", "launch=300 copy=20 host=25 memory=7 peer=9", to_peer, 300, 300 + 20 + BYTES / 9 },
    { "a fill", "launch=300 copy=20 host=25 memory=7", fill, 300, 300 + 20 + BYTES / 7 },
    { "a launch alone", "launch=300", add, 300, 300 },
    { "a kernel with a fixed cost", "kernel=4000 copy=1", add, 0, 4000 },
    { "a kernel by the bytes that it uses", "kernel=4000 memory=5", add, 0, 4000 + 2 * BYTES / 5 },
    { "... of which each allocation counts once", "kernel=4000 memory=5", add_itself, 0, 4000 + BYTES / 5 },
    { "a kernel by name", "kernel=4000 kernel:add=60 kernel:scale=7", add, 0, 60 },
    { "kernels that are longer than launches", "launch=300 kernel=4000", add_often, MANY * 300, 300 + MANY * 4000 },
    { "kernels that are shorter than launches", "launch=300 kernel=40", add_often, MANY * 300, MANY * 300 + 40 },
    { "kernels on two streams", "launch=300 kernel=4000", add_apart, 600, 600 + 4000 },
    { "the same kernels as a graph: one launch", "launch=300 kernel=40", replay, 300, 300 + MANY * 40 },
    { "a kernel behind an event of another stream", "launch=300 kernel=4000", add_behind, 600, 300 + 2 * 4000 },
    { "a collective", "launch=300 collective=900", reduce, 300, 300 + 900 },
    { "a collective by bytes", "launch=300 collective=900 network=3", reduce, 300, 300 + 900 + BYTES / 3 },
    { "a group of collectives", "launch=300 collective=900 network=3", reduce_both, 300, 300 + 900 + 2 * BYTES / 3 },
};

static void
open_all (void)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    MUST (cudaSetDevice (1));
    MUST (cudaMalloc ((void **) &far, BYTES));
    MUST (cudaSetDevice (0));
    MUST (cudaMalloc ((void **) &one, BYTES));
    MUST (cudaMalloc ((void **) &two, BYTES));
    MUST (cudaHostAlloc ((void **) &pinned, BYTES, 0));
    memset (pinned, 0, BYTES);
    MUST (cudaStreamCreateWithFlags (&stream, cudaStreamNonBlocking));
    MUST (cudaStreamCreateWithFlags (&other, cudaStreamNonBlocking));
    MUST (cudaEventCreateWithFlags (&event, cudaEventDisableTiming));
    MUST (ncclGetUniqueId (&id));
    MUST (ncclCommInitRankConfig (&comm, 1, id, 0, &config));
}

static void
capture (void)
{
    cudaGraph_t captured_graph;
    MUST (cudaStreamBeginCapture (stream, cudaStreamCaptureModeRelaxed));
    add_often ();
    MUST (cudaStreamEndCapture (stream, &captured_graph));
    MUST (cudaGraphInstantiate (&graph, captured_graph, 0));
}

int
main (int argc, char **argv)
{
    setenv ("STANDIN_DEVICES", "2", true);
    setenv ("STANDIN_COSTS", argc > 1 ? argv[1] : "", true);
    open_all ();
    fill ();
    MUST (cudaMemsetAsync (two, 0, BYTES, stream));
    reduce (); /* connects */
    MUST (cudaDeviceSynchronize ());
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        setenv ("STANDIN_COSTS", row->costs, true);
        if (row->act == replay)
            capture ();
        MUST (cudaDeviceSynchronize ());
        int64_t begin = standin_host_ns (0);
        row->act ();
        int64_t queued = standin_host_ns (0) - begin;
        MUST (cudaDeviceSynchronize ());
        int64_t done = standin_host_ns (0) - begin;
        ok (queued == row->queued_ns && done == row->done_ns, "%s: %lld ns until it is queued, not %lld; %lld until it"
            " is done, not %lld", row->name, (long long) queued, (long long) row->queued_ns, (long long) done,
            (long long) row->done_ns);
    }
    MUST (ncclCommDestroy (comm));
    return done_testing ();
}
