/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of engine nccl, without libaccel around them and with a job of one rank: what accel/engine.h allows and
 * libaccel does not do, and failures: memory that ends at each allocation, a job that was given up.
 * usage: nccl_table [fails | unborn | contexts] */
#include <config.h>

#include "lib/base/error.h"
#include "tests/standin/cuda/standin.h"
#include "tests/tap.h"
#pragma GCC visibility push(default) /* the stand-ins, compiled with a sanitizer, refer to them, too */
#include "tests/allocators.h"
#pragma GCC visibility pop

#include <accel/engine.h>

#include <cuda_runtime_api.h>
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

enum { COUNT = 1000 };

extern const struct accel_engine accel_engine;
static const struct accel_engine *const engine = &accel_engine;
static struct accel_error err;

static void
must (int status, const char *what)
{
    if (!status)
        return;
    printf ("Bail out! %s: %d: %s\n", what, status, err.text);
    exit (1);
}
#define MUST(call) must ((int) (call), #call)

static enum accel_status
look (void *context, const struct accel_engine_call *call, struct accel_error *why)
{
    return (void) context, (void) call, (void) why, ACCEL_OK;
}

static const struct accel_engine_helpers helpers = { .size = sizeof helpers, .fail = accel_fail, .look = look };

/* @param gpu  -1: the rank computes on the processor */
static enum accel_status
try_to_open (void **transport, int local_rank, int gpu)
{
    struct accel_engine_job job = {
        .size = sizeof job,
        .world_size = 1,
        .local_rank = local_rank,
        .local_world_size = local_rank + 1,
        .timeout_ms = 60000,
        .helpers = &helpers,
        .device = { .device_type = gpu < 0 ? kDLCPU : kDLCUDA, .device_id = gpu < 0 ? 0 : gpu },

    };
    enum accel_status status = engine->probe (&job, &err);
    return status ? status : engine->open (transport, &job, &err);
}

static void *
open_job (int local_rank, int gpu)
{
    void *transport = NULL;
    err.text[0] = '\0';
    MUST (try_to_open (&transport, local_rank, gpu));
    return transport;
}

static struct accel_engine_call
sum_of (float *memory, int gpu)
{
    return (struct accel_engine_call){
        .helpers = &helpers, .send = memory, .recv = memory, .count = COUNT, .element_bytes = sizeof (float),
        .kind = ACCEL_ENGINE_ALL_REDUCE, .dtype = ACCEL_FLOAT32, .op = ACCEL_SUM, .root = -1,
        .device = { .device_type = kDLCUDA, .device_id = gpu }, .stream = (void *) 1,
    };
}

static void
test_gpu (int local_rank, int gpu, int wanted)
{
    void *transport = open_job (local_rank, gpu), *memory;
    MUST (cudaSetDevice (wanted));
    MUST (cudaMalloc (&memory, COUNT * sizeof (float)));
    struct accel_engine_call call = sum_of (memory, wanted);
    ok (!engine->run (transport, &call, &err), "local rank %d, told %d, has cuda:%d: %s", local_rank, gpu, wanted,
        err.text);
    MUST (cudaFree (memory));
    engine->close (transport);
}

/* With a driver that knows which GPUs have a context. */
static void
test_contexts (void)
{
    unsigned flags;
    int active = 1, device = -1;
    void *driver = dlopen (getenv ("STANDIN_LIBCUDA"), RTLD_NOW), *transport = driver ? open_job (0, 2) : NULL;
    MUST (!transport);
    MUST (cudaGetDevice (&device));
    MUST (standin_context_state (0, &flags, &active));
    ok (device == 2 && !active, "a thread without a context stays on the GPU of the rank: %d", device);
    MUST (cudaSetDevice (1));
    ok (!engine->awaits (transport, 0) && !cudaGetDevice (&device) && device == 1,
        "one with a context goes back to it");
    engine->close (transport);
}

/* A thread that works on another GPU, and has not looked at an error of its own. */
static void
test_thread (void)
{
    void *transport = open_job (0, 2), *memory;
    int device = -1;
    MUST (cudaSetDevice (2));
    MUST (cudaMalloc (&memory, COUNT * sizeof (float)));
    const struct accel_engine_call call = sum_of (memory, 2);
    MUST (cudaSetDevice (1));
    MUST (engine->run (transport, &call, &err));
    MUST (cudaGetDevice (&device));
    ok (device == 1 && !cudaPeekAtLastError (), "a call leaves the thread its GPU: %d", device);
    cudaSetDevice (99);
    bool awaits = engine->awaits (transport, 1);
    cudaError_t error = cudaGetLastError ();
    ok (!awaits && error == cudaErrorInvalidDevice, "and its error: %d", (int) error);
    MUST (cudaFree (memory));
    engine->close (transport);
}

static int
count_threads (void)
{
    int count = 0;
    DIR *folder = opendir ("/proc/self/task");
    while (folder && readdir (folder))
        count++;
    if (folder)
        closedir (folder);
    return count;
}

/* What has been started reaches NCCL without further calls. */
static void
test_progress (void)
{
    int threads = count_threads ();
    enum { STARTS = 12 }; /* most of which wait for those before them */
    void *transport = open_job (0, 0), *memory, *works[STARTS];
    void *library = dlopen ("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
    unsigned long (*count) (void) = NULL;
    *(void **) &count = library ? dlsym (library, "standin_nccl_batches") : NULL;
    MUST (!count);
    MUST (cudaSetDevice (0));
    MUST (cudaMalloc (&memory, COUNT * sizeof (float)));
    const struct accel_engine_call call = sum_of (memory, 0);
    unsigned long before = count ();
    for (int i = 0; i < STARTS; i++)
        MUST (engine->start (transport, &call, &works[i], &err));
    for (int i = 0; i < 5000 && count () < before + STARTS; i++)
        usleep (1000);
    ok (count () == before + STARTS, "calls move on while the program is elsewhere");
    for (int i = 0; i < STARTS; i++)
        MUST (engine->wait (transport, works[i], &err));
    MUST (cudaFree (memory));
    engine->close (transport);
    for (int i = 0; i < 5000 && count_threads () != threads; i++)
        usleep (1000);
    ok (count_threads () == threads, "the thread that does it ends with the job");
    dlclose (library);
}

static void
test_memory (void)
{
    void *transport = open_job (0, 0), *memory = NULL;
    unsigned char bytes[COUNT];
    size_t wrong = 0;
    MUST (cudaSetDevice (0));
    MUST (engine->alloc (transport, &memory, COUNT, &err));
    memset (bytes, 1, sizeof bytes);
    MUST (cudaMemcpyAsync (bytes, memory, sizeof bytes, cudaMemcpyDeviceToHost, (cudaStream_t) 1));
    MUST (cudaStreamSynchronize ((cudaStream_t) 1));
    for (size_t i = 0; i < sizeof bytes; i++)
        wrong += bytes[i] != 0;
    ok (!wrong, "memory is zeroed: %zu bytes are not", wrong);
    engine->free (transport, memory);
    engine->close (transport);
}

/* Given back in another order; one is left to the end of the job. */
static void
test_buffers (void)
{
    static const int order[] = { 1, 0, 3 };
    void *transport = open_job (0, 0), *memory[4];
    const size_t size = 1 << 20, least = size * sizeof memory / sizeof *memory;
    char limit[32];
    snprintf (limit, sizeof limit, "%zu", least + size / 2);
    setenv ("STANDIN_BYTES", limit, true);
    for (int i = 0; i < 4; i++)
        MUST (engine->alloc (transport, &memory[i], size, &err));
    for (int i = 0; i < 3; i++)
        engine->free (transport, memory[order[i]]);
    engine->free (transport, limit); /* which is not its memory */
    for (int i = 0; i < 3; i++)
        MUST (engine->alloc (transport, &memory[order[i]], size, &err));
    ok (engine->alloc (transport, &memory[0], size, &err) == ACCEL_ERR_NOMEM, "memory is given back: %s", err.text);
    unsetenv ("STANDIN_BYTES");
    engine->close (transport);
}

/* What allocates fails, and says why. */
static void
test_refusals (void)
{
    static const struct {
        const char *variable, *value;
        size_t bytes;
        enum accel_status status;
        const char *words;
    } cases[] = {
        { "STANDIN_BYTES", "0", COUNT, ACCEL_ERR_NOMEM,
          "accel_alloc: cannot allocate 1000 bytes on cuda:0: out of memory" },
        { "STANDIN_FAIL", "cudaMemsetAsync:2:700", COUNT, ACCEL_ERR_SYSTEM,
          "accel_alloc: cannot allocate 1000 bytes on cuda:0: an illegal memory access was encountered" },
        { "STANDIN_BYTES", "8000000000", SIZE_MAX, ACCEL_ERR_NOMEM, "accel_alloc: out of memory" },
    };
    const struct accel_engine_job job = { .size = sizeof job, .world_size = 1, .helpers = &helpers };
    setenv ("STANDIN_FAIL", "cudaGetDeviceCount:1:999", true);
    ok (engine->probe (&job, &err) == ACCEL_ERR_UNSUPPORTED && !cudaPeekAtLastError (), "no GPU: %s", err.text);
    unsetenv ("STANDIN_FAIL");
    void *transport = open_job (0, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        void *memory = transport;
        err.text[0] = '\0';
        setenv (cases[i].variable, cases[i].value, true);
        enum accel_status status = engine->alloc (transport, &memory, cases[i].bytes, &err);
        unsetenv (cases[i].variable);
        ok (status == cases[i].status && !memory && !strcmp (err.text, cases[i].words) && !cudaPeekAtLastError (),
            "%s=%s: %d: %s", cases[i].variable, cases[i].value, (int) status, err.text);
    }
    engine->close (transport);
}

static void
test_groups (void)
{
    const int ranks[] = { 0 };
    void *transport = open_job (0, 0), *groups[3] = { NULL };
    ok (engine->join_group (transport, ranks, 1, 0, 0, &groups[0], &err) == ACCEL_ERR_INVALID && !groups[0],
        "a group that was not made: %s", err.text);
    MUST (engine->split (transport, -1, 0, &err));
    for (int64_t group_id = 0; group_id < 3; group_id++)
        MUST (engine->split (transport, group_id, 0, &err));
    for (int64_t group_id = 0; group_id < 3; group_id++)
        MUST (engine->join_group (transport, ranks, 1, 0, group_id, &groups[group_id], &err));
    bool good = ok (groups[0] != groups[1] && groups[1] != groups[2] && groups[0] != groups[2],
                    "groups that are made before any is joined are three");
    for (int i = 0; good && i < 3; i++)
        engine->close (groups[i]);
    if (good)
        engine->close (transport);
}

/* Calls that NCCL has not got yet, and those that come later. */
static void
test_giving_up (void)
{
    static const char words[] = "this process gave up: it is late";
    void *transport = open_job (0, 0), *memory, *work;
    MUST (cudaSetDevice (0));
    MUST (cudaMalloc (&memory, COUNT * sizeof (float)));
    const struct accel_engine_call call = sum_of (memory, 0);
    engine->coalesce_begin (transport);
    MUST (engine->start (transport, &call, &work, &err));
    ok (engine->awaits (transport, 1) && !engine->awaits (transport, 0), "a call awaits the other ranks");
    engine->give_up (transport, "it is late");
    engine->coalesce_end (transport);
    if (ok (engine->test (transport, work), "a job that was given up has nothing in flight"))
        ok (engine->wait (transport, work, &err) == ACCEL_ERR_PEER && !strcmp (err.text, words), "%s", err.text);
    err.text[0] = '\0';
    ok (engine->run (transport, &call, &err) == ACCEL_ERR_PEER && !strcmp (err.text, words), "a call: %s", err.text);
    for (int64_t group_id = -1; group_id < 1; group_id++) {
        err.text[0] = '\0';
        ok (engine->split (transport, group_id, 0, &err) == ACCEL_ERR_PEER && !strcmp (err.text, words), "a split: %s",
            err.text);
    }
    MUST (cudaFree (memory));
    engine->close (transport);
}

static volatile sig_atomic_t handled;

static void
handle (int number)
{
    handled = number;
}

/* The engine's thread, which begins while NCCL connects ranks or makes a group, takes no signal; CUDA's, which is there
 * already, inherited that. */
static void
split_and_signal (void *transport, const struct accel_engine_call *call)
{
    sigset_t set, before;
    sigemptyset (&set);
    sigaddset (&set, SIGUSR1);
    MUST (cudaMemsetAsync (call->recv, 0, 1, (cudaStream_t) 1));
    MUST (cudaStreamSynchronize ((cudaStream_t) 1));
    pthread_sigmask (SIG_UNBLOCK, &set, NULL);
    MUST (engine->run (transport, call, &err));
    MUST (engine->split (transport, 0, 0, &err));
    pthread_sigmask (SIG_BLOCK, &set, &before);
    signal (SIGUSR1, handle);
    kill (getpid (), SIGUSR1);
    usleep (20000);
    ok (!handled && !sigismember (&before, SIGUSR1), "the program's signals are for its own threads");
    pthread_sigmask (SIG_UNBLOCK, &set, NULL);
    ok (handled == SIGUSR1, "which get them");
}

/* With STANDIN_NO_SPLIT: groups that NCCL is still making are closed, one that was joined, and one that was not. */
static void
test_unborn (void)
{
    const int ranks[] = { 0 };
    void *transport = open_job (0, 0), *group, *memory;
    MUST (cudaSetDevice (0));
    MUST (cudaMalloc (&memory, COUNT * sizeof (float)));
    const struct accel_engine_call call = sum_of (memory, 0);
    split_and_signal (transport, &call);
    MUST (engine->join_group (transport, ranks, 1, 0, 0, &group, &err));
    engine->close (group);
    ok (engine->run (transport, &call, &err) == ACCEL_ERR_PEER
            && !strcmp (err.text, "a group was closed while NCCL was making it"),
        "a call after a group was closed: %s", err.text);
    engine->close (transport);
    transport = open_job (0, 0);
    MUST (engine->split (transport, 0, 0, &err));
    engine->close (transport);
    ok (true, "a job is closed before its group was joined");
    MUST (cudaFree (memory));
}

/* A job that does everything.  @return its first error */
static enum accel_status
live (void)
{
    const int ranks[] = { 0 };
    void *transport = NULL, *group = NULL, *memory = NULL, *works[2] = { NULL };
    enum accel_status status = try_to_open (&transport, 0, 0);
    if (!status)
        status = engine->alloc (transport, &memory, COUNT * sizeof (float), &err);
    if (!status)
        status = engine->split (transport, 0, 0, &err);
    if (!status)
        status = engine->join_group (transport, ranks, 1, 0, 0, &group, &err);
    const struct accel_engine_call call = sum_of (memory, 0);
    if (!status)
        status = engine->run (group, &call, &err);
    for (int i = 0; i < 2 && !status; i++)
        status = engine->start (transport, &call, &works[i], &err);
    for (int i = 0; i < 2; i++)
        if (works[i] && engine->wait (transport, works[i], status ? NULL : &err))
            status = status ? status : err.code;
    if (memory)
        engine->free (transport, memory);
    if (group)
        engine->close (group);
    if (transport)
        engine->close (transport);
    return status;
}

/* One allocation later fails each time, until all succeed. */
static void
test_want (void)
{
    enum accel_status status;
    long turn = 0;
    do {
        calls_left = turn++;
        err = (struct accel_error){ .text = "as before" };
        status = live ();
        calls_left = -1;
    } while (status == ACCEL_ERR_NOMEM && strstr (err.text, "out of memory") && turn < 100);
    ok (!status && turn > 8 && !strcmp (err.text, "as before"), "%ld allocations fail one after the other: %d: %s",
        turn - 1, (int) status, err.text);
}

int
main (int argc, char **argv)
{
    if (argc > 1 && !strcmp (argv[1], "fails")) {
        test_giving_up ();
        if (!tap_failed) /* else it would hang */
            test_want ();
        return done_testing ();
    }
    if (argc > 1 && !strcmp (argv[1], "contexts")) {
        test_contexts ();
        return done_testing ();
    }
    if (argc > 1 && !strcmp (argv[1], "unborn")) {
        sigset_t set;
        sigemptyset (&set);
        sigaddset (&set, SIGUSR1);
        pthread_sigmask (SIG_BLOCK, &set, NULL); /* CUDA's threads inherit that */
        test_unborn ();
        return done_testing ();
    }
    test_gpu (0, 2, 2);
    test_gpu (6, -1, 2);
    test_thread ();
    test_progress ();
    test_memory ();
    test_buffers ();
    test_groups ();
    test_refusals ();
    return done_testing ();
}
