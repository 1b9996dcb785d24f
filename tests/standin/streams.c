/* SPDX-License-Identifier: Apache-2.0 */
/* Programs whose work on a GPU runs on streams of their own: accel_set_stream() orders it with libaccel's.  The
 * stand-in ends the program where an order is missing, even if the result happens to be right.
 * usage: streams [told | untold | change | threads | refused | pool | freed | peers | copies |
 *        aside] */
#include <config.h>

#include "lib/memory/memory.h"
#include "tests/standin/cuda/standin.h"
#include "tests/tap.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

enum { COUNT = 5000, BYTE = 0x3f };

static struct accel_error err;
static const DLDevice gpu = { .device_type = kDLCUDA }, second = { .device_type = kDLCUDA, .device_id = 1 };
static float *x, *y, *result; /* on the GPU */

static struct {
    __typeof__ (&cudaSetDevice) set_device;
    __typeof__ (&cudaStreamCreateWithFlags) create;
    __typeof__ (&cudaStreamDestroy) destroy;
    __typeof__ (&cudaMemsetAsync) set;
    __typeof__ (&cudaMemcpyAsync) copy;
    __typeof__ (&cudaThreadExchangeStreamCaptureMode) exchange;
    __typeof__ (&standin_capture) capture;
    __typeof__ (&standin_count) count;
} cuda;

static void *
symbol (void *module, const char *name)
{
    void *found = module ? dlsym (module, name) : NULL;
    if (found)
        return found;
    printf ("Bail out! %s: not found\n", name);
    exit (1);
}

/* The runtime of the module, which libaccel has loaded. */
static void
begin (void)
{
    char path[4096];
    const struct memory *memory = memory_of (gpu);
    snprintf (path, sizeof path, "%s/accel_device_cuda.so", getenv ("ACCEL_ENGINE_PATH"));
    void *module = dlopen (path, RTLD_NOW | RTLD_NOLOAD);
    *(void **) &cuda.set_device = symbol (module, "cudaSetDevice");
    *(void **) &cuda.create = symbol (module, "cudaStreamCreateWithFlags");
    *(void **) &cuda.destroy = symbol (module, "cudaStreamDestroy");
    *(void **) &cuda.set = symbol (module, "cudaMemsetAsync");
    *(void **) &cuda.copy = symbol (module, "cudaMemcpyAsync");
    *(void **) &cuda.exchange = symbol (module, "cudaThreadExchangeStreamCaptureMode");
    *(void **) &cuda.capture = symbol (module, "standin_capture");
    *(void **) &cuda.count = symbol (module, "standin_count");
    x = memory->create (gpu, COUNT * sizeof *x, true);
    y = memory->create (gpu, COUNT * sizeof *y, true);
    result = memory->create (gpu, sizeof *result, true);
}

static void
end (void)
{
    const struct memory *memory = memory_of (gpu);
    memory->destroy (gpu, x);
    memory->destroy (gpu, y);
    memory->destroy (gpu, result);
}

static cudaStream_t
make_stream (void)
{
    cudaStream_t stream = NULL;
    if (cuda.create (&stream, cudaStreamNonBlocking))
        abort ();
    return stream;
}

static void
must_read (void *to, const void *from)
{
    if (!memory_of (gpu)->read (gpu, to, from, sizeof (float), &err))
        return;
    printf ("Bail out! %s\n", err.text);
    exit (1);
}

/* Work of the program on @p stream, and of libaccel, in turn; each uses what the other wrote. */
static void
queue (cudaStream_t stream)
{
    const struct memory *memory = memory_of (gpu);
    memory->zero (gpu, x, COUNT * sizeof *x);
    cuda.set (x, BYTE, COUNT * sizeof *x, stream);
    memory->scale (gpu, x, ACCEL_FLOAT32, COUNT, 2);
    cuda.copy (y, x, COUNT * sizeof *x, cudaMemcpyDeviceToDevice, stream);
    memory->add (gpu, x, y, COUNT);
    memory->norm (gpu, x, ACCEL_FLOAT32, COUNT, 1, 1, result);
    cuda.copy (y, x, COUNT * sizeof *x, cudaMemcpyDeviceToDevice, stream);
    memory->zero (gpu, x, COUNT * sizeof *x);
}

static bool
work (cudaStream_t stream)
{
    const struct memory *memory = memory_of (gpu);
    float *values = malloc (COUNT * sizeof *values), length = 0, first, sum = 0;
    queue (stream);
    memset (&first, BYTE, sizeof first);
    bool right = !memory->read (gpu, values, y, COUNT * sizeof *y, &err)
                 && !memory->read (gpu, &length, result, sizeof length, &err);
    for (int i = 0; i < COUNT; i++) {
        right = right && values[i] == 4 * first;
        sum += values[i];
    }
    free (values);
    return right && length > 0.999F * sum && length < 1.001F * sum;
}

static void
told (void)
{
    cudaStream_t stream = make_stream ();
    ok (accel_get_stream (gpu) == (void *) 1, "the default stream at the beginning");
    ok (work ((cudaStream_t) 1) && work (NULL), "work on the default stream");
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal;
    cuda.exchange (&mode);
    memory_of (gpu)->zero (gpu, x, sizeof *x);
    cuda.exchange (&mode);
    ok (mode == cudaStreamCaptureModeThreadLocal, "a call leaves the thread its mode of capture: %d", (int) mode);
    ok (!accel_set_stream (gpu, stream, &err) && accel_get_stream (gpu) == (void *) stream, "a stream is set: %s",
        err.text);
    ok (work (stream) && work (stream), "work on it");
    ok (!accel_set_stream (gpu, NULL, &err) && accel_get_stream (gpu) == (void *) 1, "and back");
    ok (work (NULL), "work on the default stream again");
    ok (!accel_set_stream (gpu, (void *) 1, &err) && accel_get_stream (gpu) == (void *) 1, "which has a number, too");
}

static void
untold (void)
{
    cudaStream_t stream = make_stream ();
    printf ("%d\n", work (stream));
}

/* Without a wait between them. */
static void
change (void)
{
    const struct memory *memory = memory_of (gpu);
    cudaStream_t streams[2];
    for (int i = 0; i < 6; i++) {
        streams[i % 2] = make_stream ();
        enum accel_status status = accel_set_stream (gpu, streams[i % 2], &err);
        ok (!status, "stream %d: %s", i, err.text);
        if (i)
            cuda.destroy (streams[(i + 1) % 2]);
        cuda.set (x, i, COUNT * sizeof *x, streams[i % 2]);
        memory->add (gpu, y, x, COUNT);
        memory->norm (gpu, x, ACCEL_FLOAT32, COUNT, 1, 2, result);
    }
    ok (!accel_set_stream (gpu, (void *) 2, &err), "the thread's");
    cuda.set (y, 0, COUNT * sizeof *x, (cudaStream_t) 2);
    ok (!accel_set_stream (gpu, streams[1], &err), "from there to another");
    ok (work (streams[1]), "all is right at the end");
    ok (!accel_set_stream (gpu, NULL, &err), "to the default one");
    cuda.destroy (streams[1]);
    ok (work (NULL), "work on the default one");
}

static void *
work_in_thread (void *unused)
{
    queue ((cudaStream_t) 2);
    return unused;
}

static void
run_thread (void *(*function) (void *))
{
    pthread_t thread;
    if (pthread_create (&thread, NULL, function, NULL) || pthread_join (thread, NULL))
        abort ();
}

/* No thread waits for the GPU before another one continues.  The C library gives the second of two threads that follow
 * each other the first one's pthread_t. */
static void
threads (void)
{
    ok (!accel_set_stream (gpu, (void *) 2, &err) && accel_get_stream (gpu) == (void *) 2, "each thread has a stream");
    for (int i = 0; i < 3; i++) {
        queue ((cudaStream_t) 2);
        run_thread (work_in_thread);
        run_thread (work_in_thread);
    }
    ok (work ((cudaStream_t) 2), "work on the streams of seven threads");
}

/* With two GPUs. */
static void
refused (void)
{
    const DLDevice host = { .device_type = kDLCPU }, other = { .device_type = kDLROCM };
    ok (!accel_set_stream (host, NULL, &err) && !accel_get_stream (host), "host memory needs no stream");
    ok (accel_set_stream (host, (void *) 1, &err) == ACCEL_ERR_INVALID && strstr (err.text, "cpu has no streams"),
        "and has none: %s", err.text);
    ok (accel_set_stream (other, NULL, &err) == ACCEL_ERR_UNSUPPORTED && !accel_get_stream (other)
            && strstr (err.text, "no code for rocm:0"),
        "another maker's GPU: %s", err.text);
    ok (accel_set_stream (gpu, (void *) UINTPTR_MAX, &err) == ACCEL_ERR_INVALID && strstr (err.text, "-1 (no order)"),
        "DLPack's -1: %s", err.text);
    cuda.set_device (1);
    cudaStream_t stream = make_stream ();
    cuda.set_device (0);
    ok (accel_set_stream (gpu, stream, &err) == ACCEL_ERR_SYSTEM && accel_get_stream (gpu) == (void *) 1
            && strstr (err.text, "cuda:0: the stream cannot be used: invalid resource handle"),
        "another GPU's stream: %s", err.text);
    ok (work (NULL), "the former one stays");
    ok (!accel_set_stream (second, stream, &err) && accel_get_stream (second) == (void *) stream
            && accel_get_stream (gpu) == (void *) 1,
        "each GPU has its own");
    DLDevice missing = { .device_type = kDLCUDA, .device_id = 7 }, beyond = { .device_type = kDLCUDA, .device_id = 99 };
    ok (accel_set_stream (missing, NULL, &err) == ACCEL_ERR_SYSTEM && strstr (err.text, "cuda:7"), "%s", err.text);
    ok (accel_set_stream (beyond, NULL, &err) == ACCEL_ERR_INVALID && accel_get_stream (beyond), "%s", err.text);
    setenv ("STANDIN_FAIL", "cudaStreamWaitEvent:1:400", true);
    ok (accel_set_stream (gpu, (void *) 2, &err) == ACCEL_ERR_SYSTEM, "an error: %s", err.text);
    unsetenv ("STANDIN_FAIL");
    ok (accel_get_stream (gpu) == (void *) 1 && work (NULL), "which is not one of the GPU");
}

/* ---- memory of the pool ---- */

static unsigned long
count_allocations (void)
{
    struct standin_counts counts;
    cuda.count (&counts);
    return counts.allocations;
}

/* Memory is freed in the order of the stream, and what is allocated next costs nothing, as long as there is enough: of
 * 1 MB, of which @x, @y and scratch memory have little. */
static void
pool (void)
{
    enum { MOST = 400000, MORE = 600000 };
    const struct memory *memory = memory_of (gpu);
    float one = 0, *made;
    for (int i = 0; i < 5; i++) {
        unsigned long before = count_allocations ();
        made = memory->create (gpu, MOST, true);
        memory->copy (gpu, x, made, COUNT * sizeof *x);
        memory->destroy (gpu, made);
        ok (made && count_allocations () - before == !i, "round %d: %lu allocations", i,
            count_allocations () - before);
        must_read (&one, x);
    }
    made = memory->create (gpu, MORE, false);
    ok (made, "what was freed is given back before there is too little memory");
    ok (!memory->create (gpu, MORE, false) && !memory->read (gpu, &one, x, 0, &err), "too little, which is no error");
    cudaStream_t stream = make_stream ();
    ok (!accel_set_stream (gpu, stream, &err), "another stream: %s", err.text);
    memory->zero (gpu, made, MORE);
    cuda.capture (stream, true);
    memory->destroy (gpu, made);
    cuda.capture (stream, false);
    ok (!memory->create (gpu, MORE, false), "in a capture, memory is not freed");
    memory->destroy (gpu, memory->create (gpu, 1, false));
    made = memory->create (gpu, MORE, true);
    ok (made && work (stream), "but after it");
    memory->destroy (gpu, made);
    ok (!accel_set_stream (gpu, NULL, &err), "and back");
    made = memory->create (gpu, 1, false);
    setenv ("STANDIN_FAIL", "cudaFreeAsync:1:700", true);
    memory->destroy (gpu, made);
    unsetenv ("STANDIN_FAIL");
    ok (memory->read (gpu, &one, x, sizeof one, &err) && strstr (err.text, "cuda:0: cudaFreeAsync: an illegal memory"),
        "an error: %s", err.text);
}

/* ---- two GPUs ---- */

static void
copy_over (DLDevice from, cudaStream_t from_stream, DLDevice to, cudaStream_t to_stream)
{
    const struct memory *memory = memory_of (gpu);
    struct standin_counts before, after;
    float one = 0, byte;
    float *a = memory->create (from, COUNT * sizeof *a, false), *b = memory->create (to, COUNT * sizeof *b, true);
    memset (&byte, BYTE, sizeof byte);
    cuda.set_device (from.device_id);
    cuda.set (a, BYTE, COUNT * sizeof *a, from_stream);
    cuda.count (&before);
    enum accel_status status = memory->copy_from (to, b, from, a, COUNT * sizeof *a, &err);
    cuda.set (a, 0, COUNT * sizeof *a, from_stream);
    memory->destroy (from, a);
    cuda.set_device (to.device_id);
    cuda.copy (b, b + 1, sizeof *b, cudaMemcpyDeviceToDevice, to_stream);
    cuda.count (&after);
    status = status ? status : memory->read (to, &one, b + COUNT - 1, sizeof one, &err);
    ok (!status && !memcmp (&one, &byte, sizeof one) && after.waits == before.waits,
        "from cuda:%d to cuda:%d, without a wait: %g", from.device_id, to.device_id, (double) one);
    memory->destroy (to, b);
    cuda.set_device (0);
}

/* In each direction, on streams of the program's; then an error of each side. */
static void
peers (void)
{
    const struct memory *memory = memory_of (gpu);
    cudaStream_t stream = make_stream ();
    cuda.set_device (1);
    cudaStream_t other = make_stream ();
    cuda.set_device (0);
    ok (!accel_set_stream (gpu, stream, &err) && !accel_set_stream (second, other, &err), "streams: %s", err.text);
    for (int i = 0; i < 2; i++) {
        copy_over (gpu, stream, second, other);
        copy_over (second, other, gpu, stream);
    }
    float *a = memory->create (gpu, sizeof *a, true), *b = memory->create (second, sizeof *b, true);
    setenv ("STANDIN_FAIL", "cudaMemcpyPeerAsync:1:2", true);
    ok (memory->copy_from (second, b, gpu, a, sizeof *a, &err) == ACCEL_ERR_NOMEM
            && strstr (err.text, "cuda:1: cudaMemcpyPeerAsync: out of memory"), "an error: %s", err.text);
    setenv ("STANDIN_FAIL", "cudaEventRecord:2:1", true); /* the first one was counted with the other plan */
    ok (memory->copy_from (second, b, gpu, a, sizeof *a, &err) == ACCEL_ERR_SYSTEM
            && strstr (err.text, "cuda:0: cudaEventRecord: "), "another one: %s", err.text);
    unsetenv ("STANDIN_FAIL");
    memory->destroy (gpu, a);
    memory->destroy (second, b);
}

/* A stream of the program's uses what libaccel frees, and nothing orders them: the stand-in ends the program. */
static void
freed (void)
{
    const struct memory *memory = memory_of (gpu);
    float *made = memory->create (gpu, COUNT * sizeof *x, true), one;
    must_read (&one, made);
    cuda.set (made, BYTE, COUNT * sizeof *x, make_stream ());
    memory->destroy (gpu, made);
}

/* Whether all of x is @value. */
static bool
is_all (float value)
{
    float *values = malloc (COUNT * sizeof *values);
    bool good = values && !memory_of (gpu)->read (gpu, values, x, COUNT * sizeof *x, &err);
    for (int i = 0; good && i < COUNT; i++)
        good = values[i] == value;
    free (values);
    return good;
}

static void
set (float *pinned, float value)
{
    for (int i = 0; i < COUNT; i++)
        pinned[i] = value;
}

/* Copies from pinned memory, which the program writes anew as soon as it may. */
static void
copies (void)
{
    const struct memory *memory = memory_of (gpu);
    const struct memory_copy_streams *calls = memory->copy_streams;
    const size_t bytes = COUNT * sizeof *x;
    float *pinned = calls->pin (gpu, bytes);
    struct memory_copy_stream *stream = calls->open (gpu);
    set (pinned, 5);
    memory->zero (gpu, x, bytes);
    calls->begin (stream);
    calls->copy (stream, x, pinned, bytes);
    calls->copy (stream, y, pinned, 0);
    calls->end (stream, 1);
    calls->follow (stream, 1);
    memory->scale (gpu, x, ACCEL_FLOAT32, COUNT, 2);
    calls->wait (stream, 1);
    set (pinned, 6);
    ok (is_all (10), "a copy comes after what was queued, and before what follows it");
    calls->begin (stream);
    calls->copy (stream, x, pinned, bytes);
    calls->close (stream);
    set (pinned, 7);
    ok (is_all (6), "the end of a stream waits for its copies");
    void *nothing = calls->pin (gpu, 0);
    ok (nothing, "no bytes can be pinned, too");
    calls->unpin (gpu, nothing);
    calls->unpin (gpu, pinned);
    calls->close (NULL);
    calls->unpin (gpu, NULL);
}

/* Kernels beside each other, each with scratch memory. */
static void
aside (void)
{
    static float wanted[COUNT], got[COUNT];
    const struct memory *memory = memory_of (gpu);
    const uint64_t seed = 3;
    void *side = NULL;
    ok (!memory->side_stream (gpu, &side, &err) && side && side != memory->stream (gpu), "a side stream");
    memory->order (gpu, memory->stream (gpu), side, &err);
    memory->use_side_stream (gpu, true);
    memory->orthogonalise (gpu, x, COUNT, 1, 0, &seed);
    memory->use_side_stream (gpu, false);
    memory->norm (gpu, y, ACCEL_FLOAT32, COUNT, 1, 2, result);
    memory->order (gpu, side, memory->stream (gpu), &err);
    memory_host.orthogonalise ((DLDevice){ .device_type = kDLCPU }, wanted, COUNT, 1, 0, &seed);
    ok (!memory->read (gpu, got, x, sizeof got, &err) && !memcmp (got, wanted, sizeof got), "a column is drawn there");
}

int
main (int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run) (void);
    } all[] = { { "told", told }, { "untold", untold }, { "change", change }, { "threads", threads },
                { "refused", refused }, { "pool", pool }, { "freed", freed },
                { "peers", peers }, { "copies", copies }, { "aside", aside } };
    if (!memory_of (gpu)) {
        printf ("Bail out! no GPU\n");
        return 1;
    }
    begin ();
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (argc > 1 && !strcmp (argv[1], all[i].name))
            all[i].run ();
    end ();
    return done_testing ();
}
