/* SPDX-License-Identifier: Apache-2.0 */
/* Programs with a mistake each in how they use NCCL, which the stand-in has to find; rank 1 of two makes it.
 * usage: planted_nccl MISTAKE, or "none" for the same without */
#include <config.h>

#include <nccl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 3000 };

static const char *mistake;
static int rank;

static bool
is (const char *name)
{
    return rank == 1 && !strcmp (mistake, name);
}

static void
must (int code, const char *what)
{
    if (!code)
        return;
    fprintf (stderr, "%s: %d\n", what, code);
    exit (2);
}
#define MUST(call) must ((int) (call), #call)

static void
settle (ncclComm_t comm)
{
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) {
        MUST (ncclCommGetAsyncError (comm, &state));
        usleep (50);
    }
    MUST (state);
}

static void
go_on (ncclComm_t comm, ncclResult_t result)
{
    if (result != ncclInProgress)
        MUST (result);
    if (!is ("busy"))
        settle (comm);
}

static void
call_all (ncclComm_t comm, float *numbers, cudaStream_t stream)
{
    size_t count = is ("counts") ? COUNT - 1 : is ("beyond") ? COUNT + 1 : COUNT;
    ncclDataType_t type = is ("types") ? ncclInt32 : ncclFloat32;
    go_on (comm, ncclAllReduce (is ("host") ? (void *) &count : numbers, numbers, count, type,
                                is ("operations") ? ncclMax : ncclSum, comm, stream));
    go_on (comm, ncclBroadcast (numbers, numbers, 10, ncclFloat32, is ("roots"), comm, stream));
    go_on (comm, ncclReduce (numbers, numbers, COUNT, ncclFloat32, ncclSum, 1, comm, stream));
    MUST (ncclGroupStart ());
    ncclSend (numbers, 10, ncclFloat32, !rank, comm, stream);
    ncclRecv (is ("apart") ? numbers : numbers + 100, is ("message") ? 9 : 10, ncclFloat32, !rank, comm, stream);
    go_on (comm, ncclGroupEnd ());
    if (is ("kinds"))
        go_on (comm, ncclReduce (numbers, numbers, 10, ncclFloat32, ncclSum, 0, comm, stream));
    else
        go_on (comm, ncclBroadcast (numbers, numbers, 10, ncclFloat32, 0, comm, stream));
}

/* One call on each of two communicators, the second one behind the first on the GPU as well. */
static void
call_both (ncclComm_t comm, ncclComm_t other, float *numbers, cudaStream_t stream, cudaStream_t beside)
{
    bool turns = is ("opposite");
    cudaStream_t streams[] = { turns ? beside : stream, turns ? stream : beside };
    ncclComm_t comms[] = { turns ? other : comm, turns ? comm : other };
    cudaEvent_t event;
    MUST (cudaEventCreateWithFlags (&event, cudaEventDisableTiming));
    for (int i = 0; i < 2; i++) {
        if (!is ("unordered"))
            MUST (cudaStreamWaitEvent (streams[i], event, 0));
        float *part = numbers + (comms[i] == other ? COUNT / 2 : 0);
        go_on (comms[i], ncclAllReduce (part, part, COUNT / 2, ncclFloat32, ncclMax, comms[i], streams[i]));
        MUST (cudaEventRecord (event, streams[i]));
    }
    MUST (cudaStreamSynchronize (streams[0]));
    MUST (cudaStreamSynchronize (streams[1]));
    MUST (cudaEventDestroy (event));
}

static void
use_two (ncclComm_t comm, float *numbers, cudaStream_t stream)
{
    ncclComm_t other;
    cudaStream_t beside;
    MUST (cudaStreamCreateWithFlags (&beside, cudaStreamNonBlocking));
    go_on (comm, ncclCommSplit (comm, 0, rank, &other, NULL));
    settle (comm);
    settle (other);
    call_both (comm, other, numbers, stream, beside);
    go_on (other, ncclCommFinalize (other));
    MUST (ncclCommDestroy (other));
    MUST (cudaStreamDestroy (beside));
}

static bool
check (const float *numbers)
{
    float host[COUNT], twice = rank ? 2 : 1; /* rank 1 is the root of the reduction */
    MUST (cudaMemcpyAsync (host, numbers, sizeof host, cudaMemcpyDeviceToHost, NULL));
    MUST (cudaStreamSynchronize (NULL));
    for (int i = 200; i < COUNT; i++)
        if (host[i] != twice * 3 * (float) i)
            return false;
    return host[105] == (rank ? 3 : 6) * 5;
}

static int
run (const ncclUniqueId *id)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm;
    cudaStream_t stream;
    float host[COUNT], *numbers;
    void *handle;
    config.blocking = 0;
    MUST (cudaSetDevice (rank));
    MUST (cudaMalloc ((void **) &numbers, sizeof host));
    MUST (cudaStreamCreateWithFlags (&stream, cudaStreamNonBlocking));
    for (int i = 0; i < COUNT; i++)
        host[i] = (float) (rank + 1) * (float) i;
    if (is ("magic"))
        config.magic = 0;
    ncclResult_t result = ncclCommInitRankConfig (&comm, 2, *id, rank, &config);
    go_on (comm, result);
    MUST (cudaMemcpyAsync (numbers, host, sizeof host, cudaMemcpyHostToDevice, NULL));
    if (!is ("no-event"))
        MUST (cudaStreamSynchronize (NULL));
    MUST (ncclCommRegister (comm, numbers, sizeof host, &handle));
    call_all (comm, numbers, stream);
    MUST (cudaStreamSynchronize (stream));
    bool right = check (numbers);
    use_two (comm, numbers, stream);
    if (!is ("registered"))
        MUST (ncclCommDeregister (comm, handle));
    go_on (comm, ncclCommFinalize (comm));
    MUST (ncclCommDestroy (comm));
    if (is ("destroyed"))
        ncclCommGetAsyncError (comm, &result);
    if (is ("group"))
        ncclGroupEnd ();
    return !right;
}

/* If one rank is ended, the other would wait for it. */
int
main (int argc, char **argv)
{
    ncclUniqueId id;
    pid_t ranks[2];
    int status = 0;
    mistake = argc > 1 ? argv[1] : "none";
    setenv ("STANDIN_DEVICES", "2", 1);
    MUST (ncclGetUniqueId (&id));
    for (rank = 0; rank < 2; rank++) {
        ranks[rank] = fork ();
        if (!ranks[rank])
            exit (run (&id));
    }
    for (int ended = 0; ended < 2 && !status; ended++)
        waitpid (-1, &status, 0);
    if (status) {
        kill (ranks[0], SIGKILL);
        kill (ranks[1], SIGKILL);
    }
    printf ("%s: %s\n", mistake, status ? "wrong" : "right");
    return WIFSIGNALED (status) ? 128 + WTERMSIG (status) : WEXITSTATUS (status);
}
