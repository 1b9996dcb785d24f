/* SPDX-License-Identifier: Apache-2.0 */
/* A program that captures a stream into a CUDA graph, on each of two ranks.  What libaccel's threads call ends no
 * capture, which the stand-in would report; calls on a captured stream are refused, and nothing else changes. */
#include <config.h>

#include "lib/memory/memory.h"
#include "tests/must.h"
#include "tests/standin/cuda/standin.h"
#include "tests/tap.h"

#include <unistd.h>

enum { COUNT = 1000 };

static struct accel *acc;
static DLDevice device;
static float *values;

static enum accel_status
sum (void)
{
    return accel_comm_all_reduce (accel_world (acc), values, values, COUNT, ACCEL_FLOAT32, ACCEL_SUM, &err);
}

/* Rank 1 comes late, so the call of rank 0 is in flight meanwhile. */
static void
capture_elsewhere (cudaStream_t stream)
{
    if (accel_process_index (acc) == 1)
        usleep (200000);
    MUST (sum ());
    standin_capture (stream, true);
    usleep (300000);
    ok (accel_comm_all_reduce (accel_world (acc), (int[]){ 1 }, &(int){ 0 }, 1, ACCEL_INT32, ACCEL_SUM, &err)
            == ACCEL_OK,
        "host memory, beside a capture");
    MUST (sum ());
    standin_capture (stream, false);
    ok (cudaStreamSynchronize ((cudaStream_t) accel_get_stream (device)) == cudaSuccess, "a capture of another stream");
}

static void
capture_own (cudaStream_t stream)
{
    static const char words[]
        = "a stream is being captured into a CUDA graph, and libaccel's work cannot be part of one";
    float one = 0, *freed;
    struct accel_work *work;
    MUST (accel_set_stream (device, stream, &err));
    freed = memory_of (device)->create (device, COUNT * sizeof *freed, false);
    MUST (accel_comm_all_reduce_start (&work, accel_world (acc), values, values, COUNT, ACCEL_FLOAT32, ACCEL_MAX,
                                       &err));
    standin_capture (stream, true);
    memory_of (device)->destroy (device, freed);
    ok (accel_work_wait (work, &err) == ACCEL_ERR_SYSTEM && strstr (err.text, words), "a wait there: %s", err.text);
    ok (sum () == ACCEL_ERR_SYSTEM && strstr (err.text, words) && strstr (err.text, "accel_comm_all_reduce at "),
        "a collective on a captured stream: %s", err.text);
    ok (memory_of (device)->read (device, &one, values, sizeof one, &err) == ACCEL_ERR_SYSTEM
            && strstr (err.text, words),
        "a number from there: %s", err.text);
    standin_capture (stream, false);
    MUST (accel_work_wait (work, &err)); /* it was not waited for before */
    MUST (sum ());
    MUST (memory_of (device)->read (device, &one, values, sizeof one, &err));
    ok (one == 16, "what was refused was not done: %g", (double) one); /* three sums, and one before */
}

int
main (void)
{
    const float one = 1;
    cudaStream_t stream;
    MUST (accel_open (&acc, NULL, &err));
    device = accel_device (acc);
    cudaSetDevice (device.device_id);
    values = memory_of (device)->create (device, COUNT * sizeof *values, true);
    memory_of (device)->write (device, values, &one, sizeof one);
    MUST (sum ()); /* NCCL connects */
    if (cudaStreamCreateWithFlags (&stream, cudaStreamNonBlocking))
        must (ACCEL_ERR_SYSTEM, "cudaStreamCreateWithFlags");
    capture_elsewhere (stream);
    capture_own (stream);
    MUST (accel_set_stream (device, NULL, &err));
    memory_of (device)->destroy (device, values);
    accel_close (acc);
    cudaStreamDestroy (stream);
    return done_testing ();
}
