/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives on device buffers, on each of several ranks: groups of starts (accel_group_begin()), communicators with
 * streams of their own (accel_comm_set_stream()), several communicators in one order, and pointers of the wrong kind.
 * The stand-in ends the program where an order is missing, even if the result happens to be right.
 * usage: groups; or groups cpu WORDS, in a job that computes on CPUs, which errors about a GPU's memory say with WORDS.
 * STANDIN_LIBCUDA is a driver to load; without it, the runtime has one. */
#include <config.h>

#include "tests/standin/numbers.h"

#include <accel/train.h>

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS = 5, COUNT = 700, ROUNDS = 4 };

static int devices;

/* The stand-in counts them, NCCL does not: 0. */
static unsigned long
launches_of_nccl (void)
{
    void *library = dlopen ("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
    unsigned long (*batches) (void) = NULL;
    if (library)
        *(void **) &batches = dlsym (library, "standin_nccl_batches");
    return batches ? batches () : 0;
}

static cudaStream_t
make_stream (void)
{
    cudaStream_t stream;
    CUDA (cudaStreamCreateWithFlags (&stream, cudaStreamNonBlocking));
    return stream;
}

/* A graph that is thrown away. */
static void
end_capture (cudaStream_t stream)
{
    cudaGraph_t graph;
    CUDA (cudaStreamEndCapture (stream, &graph));
    CUDA (cudaGraphDestroy (graph));
}

static float
sum_of_ranks (void)
{
    return (float) (size * (size + 1) / 2);
}

static void
wait_all (struct accel_work *const *works, int count)
{
    for (int i = 0; i < count; i++)
        MUST (accel_work_wait (works[i], &err));
}

/* As an optimizer with divided states uses NCCL: gradients are reduced to this rank's row, in place, the row is
 * changed, and all rows are gathered, in place. */
static void
divide (void)
{
    float *grads[TENSORS], *values[TENSORS];
    struct accel_work *works[TENSORS];
    size_t whole = (size_t) size * COUNT, row = (size_t) rank * COUNT;
    bool right = true;
    for (int i = 0; i < TENSORS; i++) {
        grads[i] = make (whole, (float) (rank + 1));
        values[i] = make (whole, -1);
    }
    unsigned long before = launches_of_nccl ();
    MUST (accel_group_begin (world, &err));
    for (int i = 0; i < TENSORS; i++)
        MUST (accel_comm_reduce_scatter_start (&works[i], world, grads[i], grads[i] + row, COUNT, ACCEL_FLOAT32,
                                               ACCEL_SUM, &err));
    MUST (accel_group_end (world, &err));
    wait_all (works, TENSORS);
    for (int i = 0; i < TENSORS; i++)
        memory->copy (device, values[i] + row, grads[i] + row, COUNT * sizeof (float));
    MUST (accel_group_begin (world, &err));
    for (int i = 0; i < TENSORS; i++)
        MUST (accel_comm_all_gather_start (&works[i], world, values[i] + row, values[i], COUNT, ACCEL_FLOAT32, &err));
    MUST (accel_group_end (world, &err));
    wait_all (works, TENSORS);
    for (int i = 0; i < TENSORS; i++) {
        right = take (values[i], whole, sum_of_ranks ()) && right;
        memory->destroy (device, grads[i]);
    }
    ok (right && (size == 1 || !before || launches_of_nccl () - before == 2),
        "%d gradients and parameters, in place: %lu launches of NCCL's", TENSORS, launches_of_nccl () - before);
}

/* All kinds, and the host's memory among them, whose engine is another. */
static void
mix (void)
{
    int64_t number = 1;
    float *a = make (COUNT, (float) (rank + 1)), *b = make (COUNT, (float) rank);
    float *c = make ((size_t) size * COUNT, (float) rank), *d = make ((size_t) size * COUNT, -1);
    struct accel_work *works[5];
    for (int i = 0; i < ROUNDS; i++) {
        MUST (accel_group_begin (world, &err));
        MUST (accel_comm_broadcast_start (&works[0], world, b, COUNT, ACCEL_FLOAT32, size - 1, &err));
        MUST (accel_comm_all_to_all_start (&works[1], world, c, d, COUNT, ACCEL_FLOAT32, &err));
        MUST (accel_comm_all_reduce_start (&works[2], world, &number, &number, 1, ACCEL_INT64, ACCEL_SUM, &err));
        MUST (accel_comm_barrier_start (&works[3], world, &err));
        MUST (accel_comm_all_reduce_start (&works[4], world, a, a, COUNT, ACCEL_FLOAT32, ACCEL_MAX, &err));
        MUST (accel_group_end (world, &err));
        wait_all (works, 5);
    }
    int64_t wanted = 1;
    for (int i = 0; i < ROUNDS; i++)
        wanted *= size;
    float *rows = make (COUNT, 0);
    memory->copy (device, rows, d + (size_t) (size - 1) * COUNT, COUNT * sizeof *rows);
    memory->destroy (device, d);
    memory->destroy (device, c);
    bool right = take (a, COUNT, (float) size) && take (b, COUNT, (float) (size - 1));
    ok (take (rows, COUNT, (float) (size - 1)) && right && number == wanted, "host memory among that of the GPU: %lld",
        (long long) number);
}

/* @comm works on @stream, beside the device's stream, on which libaccel works meanwhile. */
static void
sum_on (struct accel_comm *comm, cudaStream_t stream, float *values, float *copied, float *beside)
{
    struct accel_work *works[2];
    CUDA (cudaMemsetAsync (values, 0, COUNT * sizeof *values, stream));
    MUST (accel_comm_all_reduce (comm, values, copied, COUNT, ACCEL_FLOAT32, ACCEL_SUM, &err));
    CUDA (cudaMemsetAsync (copied, 0, COUNT * sizeof *copied, stream));
    CUDA (cudaMemsetAsync (values, 0x40, COUNT * sizeof *values, stream)); /* 3.0039 */
    memory->scale (device, beside, ACCEL_FLOAT32, COUNT, 1);
    MUST (accel_comm_all_reduce_start (&works[0], comm, values, values, COUNT, ACCEL_FLOAT32, ACCEL_AVG, &err));
    MUST (accel_work_wait (works[0], &err));
    MUST (accel_group_begin (comm, &err));
    MUST (accel_comm_all_reduce_start (&works[0], comm, values, values, COUNT / 2, ACCEL_FLOAT32, ACCEL_MIN, &err));
    MUST (accel_comm_all_reduce_start (&works[1], comm, values + COUNT / 2, values + COUNT / 2, COUNT / 2,
                                       ACCEL_FLOAT32, ACCEL_MIN, &err));
    CUDA (cudaMemcpyAsync (copied, values, COUNT / 2 * sizeof *values, cudaMemcpyDeviceToDevice, stream));
    MUST (accel_group_end (comm, &err));
    wait_all (works, 2);
    CUDA (cudaMemcpyAsync (copied, values, COUNT * sizeof *values, cudaMemcpyDeviceToDevice, stream));
}

/* In one group, each with the stream of its start. */
static void
on_two (cudaStream_t stream, cudaStream_t next, float *values, float *copied)
{
    struct accel_work *works[2];
    CUDA (cudaMemsetAsync (values, 0x40, COUNT * sizeof *values, stream));
    CUDA (cudaMemsetAsync (copied, 0x40, COUNT * sizeof *copied, next));
    MUST (accel_group_begin (world, &err));
    MUST (accel_comm_set_stream (world, stream, &err));
    MUST (accel_comm_all_reduce_start (&works[0], world, values, values, COUNT, ACCEL_FLOAT32, ACCEL_MAX, &err));
    MUST (accel_comm_set_stream (world, next, &err));
    MUST (accel_comm_all_reduce_start (&works[1], world, copied, copied, COUNT, ACCEL_FLOAT32, ACCEL_MAX, &err));
    MUST (accel_group_end (world, &err));
    wait_all (works, 2);
    CUDA (cudaMemsetAsync (values, 0x40, COUNT * sizeof *values, stream));
    CUDA (cudaMemsetAsync (copied, 0x40, COUNT * sizeof *copied, next));
    CUDA (cudaStreamSynchronize (stream));
    CUDA (cudaStreamSynchronize (next));
}

static void
own_streams (void)
{
    cudaStream_t stream = make_stream (), next = make_stream ();
    float *values = make (COUNT, 1), *copied = make (COUNT, 1), *beside = make (COUNT, 1), out[COUNT];
    CUDA (cudaStreamSynchronize ((cudaStream_t) accel_get_stream (device)));
    MUST (accel_comm_set_stream (world, stream, &err));
    for (int i = 0; i < ROUNDS; i++)
        sum_on (world, stream, values, copied, beside);
    CUDA (cudaStreamSynchronize (stream));
    CUDA (cudaMemcpyAsync (out, copied, sizeof out, cudaMemcpyDeviceToHost, stream));
    CUDA (cudaStreamSynchronize (stream));
    ok (out[0] > 3 && out[0] < 3.01F && out[COUNT - 1] > 3, "a communicator with a stream: %g", (double) out[0]);
    on_two (stream, next, values, copied);
    MUST (accel_comm_set_stream (world, next, &err));
    sum_on (world, next, values, copied, beside);
    CUDA (cudaStreamSynchronize (next));
    MUST (accel_comm_set_stream (world, (void *) 1, &err));
    sum_on (world, (cudaStream_t) 1, values, copied, beside);
    MUST (accel_comm_set_stream (world, NULL, &err));
    MUST (accel_comm_all_reduce (world, values, values, COUNT, ACCEL_FLOAT32, ACCEL_MIN, &err));
    ok (take (values, COUNT, 3), "another one, the default one, and the device's again");
    memory->destroy (device, copied);
    memory->destroy (device, beside);
    cudaStreamDestroy (stream);
    cudaStreamDestroy (next);
}

/* Tensors, and groups of processes, stay on the device's stream. */
static void
others_stay (void)
{
    cudaStream_t stream = make_stream ();
    struct accel_comm *part;
    int64_t shape[] = { COUNT };
    float *values = make (COUNT, 1);
    struct accel_tensor tensor = { .owned_bytes = 0 };
    MUST (accel_comm_set_stream (world, stream, &err));
    MUST (accel_comm_split (&part, world, 0, rank, &err));
    MUST (accel_comm_all_reduce (part, values, values, COUNT, ACCEL_FLOAT32, ACCEL_SUM, &err));
    MUST (accel_tensor_init (&tensor, ACCEL_FLOAT32, 1, shape, &err));
    tensor.dl.device = device;
    tensor.dl.data = values;
    MUST (accel_reduce (acc, &tensor.dl, ACCEL_SUM, 2, &err));
    ok (take (values, COUNT, (float) (2 * size * size)), "tensors and groups stay on the device's stream");
    accel_comm_destroy (part);
    MUST (accel_comm_set_stream (world, NULL, &err));
    cudaStreamDestroy (stream);
}

static void
refuse_streams (void)
{
    static const char on_captured[] = "a stream is being captured into a CUDA graph";
    cudaStream_t stream = make_stream (), foreign;
    struct accel_work *work;
    float *values = make (COUNT, 1);
    int other = (device.device_id + 1) % devices;
    CUDA (cudaSetDevice (other));
    foreign = make_stream ();
    CUDA (cudaSetDevice (device.device_id));
    MUST (accel_comm_set_stream (world, stream, &err));
    ok (devices == 1
            || (accel_comm_set_stream (world, foreign, &err) == ACCEL_ERR_SYSTEM
                && strstr (err.text, "the stream cannot be used: invalid resource handle")),
        "another GPU's: %s", err.text);
    ok (accel_comm_set_stream (world, (void *) 2, &err) == ACCEL_ERR_INVALID && strstr (err.text, "2 is not one stream")
            && accel_comm_set_stream (world, (void *) UINTPTR_MAX, &err) == ACCEL_ERR_INVALID
            && strstr (err.text, "-1 is not one stream"), "cudaStreamPerThread and -1: %s", err.text);
    CUDA (cudaStreamSynchronize ((cudaStream_t) accel_get_stream (device)));
    MUST (accel_comm_all_reduce_start (&work, world, values, values, COUNT, ACCEL_FLOAT32, ACCEL_SUM, &err));
    CUDA (cudaStreamBeginCapture (stream, cudaStreamCaptureModeThreadLocal));
    ok (accel_comm_all_reduce (world, values, values, COUNT, ACCEL_FLOAT32, ACCEL_SUM, &err) == ACCEL_ERR_SYSTEM
            && strstr (err.text, on_captured) && strstr (err.text, "accel_comm_all_reduce at "),
        "a captured stream: %s", err.text);
    ok (size == 1 || (accel_work_wait (work, &err) == ACCEL_ERR_SYSTEM && strstr (err.text, on_captured)),
        "a wait there: %s", err.text);
    ok (accel_comm_set_stream (world, stream, &err) == ACCEL_ERR_SYSTEM && strstr (err.text, on_captured), "%s",
        err.text);
    end_capture (stream);
    MUST (accel_work_wait (work, &err));
    MUST (accel_comm_all_reduce (world, values, values, COUNT, ACCEL_FLOAT32, ACCEL_SUM, &err));
    CUDA (cudaStreamSynchronize (stream));
    MUST (accel_comm_set_stream (world, NULL, &err));
    ok (take (values, COUNT, (float) (size * size)), "what was refused was not done");
    cudaStreamDestroy (stream);
    CUDA (cudaSetDevice (other));
    cudaStreamDestroy (foreign);
    CUDA (cudaSetDevice (device.device_id));
}

/* A capture begins between the starts of a group and its end. */
static void
end_in_capture (void)
{
    cudaStream_t stream = make_stream ();
    struct accel_work *work;
    float *values;
    MUST (accel_set_stream (device, stream, &err));
    values = make (COUNT, 1);
    MUST (accel_group_begin (world, &err));
    MUST (accel_comm_all_reduce_start (&work, world, values, values, COUNT, ACCEL_FLOAT32, ACCEL_SUM, &err));
    CUDA (cudaStreamBeginCapture (stream, cudaStreamCaptureModeThreadLocal));
    ok (accel_group_end (world, &err) == ACCEL_ERR_SYSTEM && strstr (err.text, "is being captured"),
        "a group ends in a capture: %s", err.text);
    end_capture (stream);
    MUST (accel_group_end (world, &err));
    MUST (accel_work_wait (work, &err));
    ok (take (values, COUNT, (float) size), "it ends later");
    MUST (accel_set_stream (device, NULL, &err));
    cudaStreamDestroy (stream);
}

/* Two communicators of the same ranks, and the world, in turn, started and blocking, each on a stream of its own. */
static void
several (void)
{
    struct accel_comm *comms[3] = { world };
    cudaStream_t streams[3];
    float *values[3];
    struct accel_work *works[3];
    bool right = true;
    for (int i = 0; i < 3; i++) {
        if (i)
            MUST (accel_comm_split (&comms[i], world, 0, i == 1 ? rank : -rank, &err));
        streams[i] = make_stream ();
        values[i] = make (COUNT, 1);
        MUST (accel_comm_set_stream (comms[i], streams[i], &err));
    }
    CUDA (cudaStreamSynchronize ((cudaStream_t) accel_get_stream (device)));
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 3; i++)
            MUST (accel_comm_all_reduce_start (&works[i], comms[i], values[i], values[i], COUNT, ACCEL_FLOAT32,
                                               ACCEL_MAX, &err));
        for (int i = 3; i-- > 0;)
            MUST (accel_work_wait (works[i], &err));
        int which = round % 3;
        float *its = values[which];
        MUST (accel_comm_all_reduce (comms[which], its, its, COUNT, ACCEL_FLOAT32, ACCEL_MIN, &err));
        CUDA (cudaMemsetAsync (its, 0x40, COUNT * sizeof (float), streams[which]));
    }
    for (int i = 0; i < 3; i++) {
        CUDA (cudaStreamSynchronize (streams[i]));
        MUST (accel_comm_set_stream (comms[i], NULL, &err));
        right = take (values[i], COUNT, 3) && right;
        cudaStreamDestroy (streams[i]);
        if (i)
            accel_comm_destroy (comms[i]);
    }
    ok (right, "three communicators in one order");
}

static enum accel_status refused_with = ACCEL_ERR_INVALID;

static bool
refuses (const void *send, void *recv, const char *words)
{
    struct accel_work *work;
    bool right = true;
    for (int starts = 0; starts < 2; starts++) {
        enum accel_status status
            = starts ? accel_comm_all_reduce_start (&work, world, send, recv, 10, ACCEL_FLOAT32, ACCEL_SUM, &err)
                     : accel_comm_all_reduce (world, send, recv, 10, ACCEL_FLOAT32, ACCEL_SUM, &err);
        right = right && status == refused_with && strstr (err.text, words);
    }
    return right;
}

/* The first three are refused, pinned memory is the host's. */
static void
wrong_pointers (void)
{
    float *own = make (COUNT, 1), *foreign, *pinned, *managed, host[COUNT] = { 1 };
    const DLDevice other = { .device_type = kDLCUDA, .device_id = (device.device_id + 1) % devices };
    foreign = memory_of (other)->create (other, COUNT * sizeof *foreign, true);
    CUDA (cudaHostAlloc ((void **) &pinned, COUNT * sizeof *pinned, cudaHostAllocDefault));
    for (int i = 0; i < COUNT; i++)
        pinned[i] = 1;
    ok (refuses (host, own, "send is in host memory, but recv is on cuda:")
            && refuses (own, host, ", but recv is in host memory: both have to be in the same memory"),
        "one buffer of the host's: %s", err.text);
    ok (devices == 1 || refuses (own, foreign, "both have to be in the same memory"), "one of another GPU's: %s",
        err.text);
    ok (size == 1 || devices == 1 || refuses (foreign, foreign, "computes on cuda:"),
        "both of another GPU's: %s", err.text);
    MUST (accel_comm_all_reduce (world, pinned, host, COUNT, ACCEL_FLOAT32, ACCEL_SUM, &err));
    MUST (accel_comm_all_reduce (world, host, pinned, COUNT, ACCEL_FLOAT32, ACCEL_SUM, &err));
    ok (pinned[COUNT - 1] > (float) (size * size) - 0.5F, "pinned memory: %g", (double) pinned[COUNT - 1]);
    CUDA (cudaMallocManaged ((void **) &managed, COUNT * sizeof *managed, cudaMemAttachGlobal));
    for (int i = 0; i < COUNT; i++)
        managed[i] = 1;
    MUST (accel_comm_all_reduce (world, managed, managed, COUNT, ACCEL_FLOAT32, ACCEL_SUM, &err));
    MUST (accel_comm_all_reduce (world, managed, own, COUNT, ACCEL_FLOAT32, ACCEL_MIN, &err));
    CUDA (cudaStreamSynchronize ((cudaStream_t) accel_get_stream (device)));
    ok (managed[COUNT - 1] > (float) size - 0.5F && refuses (managed, host, ", but recv is in host memory"),
        "managed memory is the GPU's: %g", (double) managed[COUNT - 1]);
    ok (take (own, COUNT, (float) size), "what was refused was not done");
    CUDA (cudaFree (managed));
    memory_of (other)->destroy (other, foreign);
    CUDA (cudaFreeHost (pinned));
}

static bool
refuses_messages (const float *send, float *recv)
{
    bool right = accel_comm_send (world, send, 1, ACCEL_FLOAT32, 0, &err) == refused_with
                 && strstr (err.text, "send is on cuda:0");
    right = accel_comm_recv (world, recv, 1, ACCEL_FLOAT32, 0, &err) == refused_with && right;
    return accel_comm_broadcast (world, recv, 1, ACCEL_FLOAT32, 0, &err) == refused_with && right
           && strstr (err.text, "recv is on cuda:0");
}

/* A program that uses its GPU, in a job that computes on CPUs: the driver may come after the job. */
static int
compute_on_cpus (const char *words)
{
    float *own, *pinned, host[COUNT] = { 1 };
    const char *driver = getenv ("STANDIN_LIBCUDA");
    open_job ();
    ok (device.device_type == kDLCPU, "the CPU computes");
    MUST (accel_comm_all_reduce (world, host, host, COUNT, ACCEL_FLOAT32, ACCEL_MAX, &err));
    CUDA (cudaMalloc ((void **) &own, COUNT * sizeof *own));
    CUDA (cudaHostAlloc ((void **) &pinned, COUNT * sizeof *pinned, cudaHostAllocDefault));
    if (driver && !dlopen (driver, RTLD_NOW))
        must (ACCEL_ERR_SYSTEM, driver);
    refused_with = ACCEL_ERR_UNSUPPORTED;
    ok (refuses (own, own, "send is on cuda:0, but this program computes on CPUs (") && strstr (err.text, words)
            && refuses (own + 10, host, "send is on cuda:0") && refuses (host, own, "recv is on cuda:0"),
        "a GPU's memory is refused: %s", err.text);
    ok (refuses_messages (own, own + 1), "also in messages");
    pinned[COUNT - 1] = 1;
    MUST (accel_comm_all_reduce (world, pinned, host, COUNT, ACCEL_FLOAT32, ACCEL_SUM, &err));
    MUST (accel_comm_all_reduce (world, host, pinned, COUNT, ACCEL_FLOAT32, ACCEL_MAX, &err));
    ok (pinned[COUNT - 1] > (float) size - 0.5F, "pinned memory is not: %g", (double) pinned[COUNT - 1]);
    CUDA (cudaFreeHost (pinned));
    CUDA (cudaFree (own));
    accel_close (acc);
    return done_testing ();
}

/* Buckets are memory of the engine's, which is zeroed for a stream that waits for no other. */
static void
make_buckets (void)
{
    int64_t shape[] = { COUNT };
    struct accel_tensor data;
    struct accel_model *model;
    DLTensor grad;
    float zeros[COUNT] = { 0 }, values[COUNT];
    cudaStream_t stream = make_stream ();
    MUST (memory_allocate (&data, ACCEL_FLOAT32, 1, shape, device, &err));
    data.dl.shape = data.shape;
    memory->zero (device, data.dl.data, sizeof zeros);
    grad = data.dl;
    grad.data = NULL;
    const struct accel_parameter parameter = { "w", &data.dl, &grad };
    MUST (accel_model_create (&model, &parameter, 1, &err));
    MUST (accel_set_stream (device, stream, &err));
    MUST (accel_prepare (acc, &err, model));
    MUST (memory->read (device, values, grad.data, sizeof values, &err));
    ok (!memcmp (values, zeros, sizeof zeros), "buckets are zero");
    accel_model_destroy (model);
    accel_tensor_release (&data);
    MUST (accel_set_stream (device, NULL, &err));
    cudaStreamDestroy (stream);
}

int
main (int argc, char **argv)
{
    if (argc > 2)
        return compute_on_cpus (argv[2]);
    open_job ();
    CUDA (cudaGetDeviceCount (&devices));
    divide ();
    mix ();
    own_streams ();
    others_stay ();
    refuse_streams ();
    end_in_capture ();
    several ();
    wrong_pointers ();
    make_buckets ();
    accel_close (acc);
    return done_testing ();
}
