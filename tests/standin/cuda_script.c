/* SPDX-License-Identifier: Apache-2.0 */
/* What each function for tensors on GPUs asks of CUDA, and, of each of these calls, what follows if it fails: the calls
 * after it, the error that the program gets, and what is left.  devices.sh compares that with the file `cuda_calls`.
 * Each line is made by a process of its own, in which nothing has happened on a GPU before. */
#include <config.h>

#include "files/error.h"
#include "lib/memory/device.h"
#include "lib/memory/lists.h"
#include "lib/memory/memory.h"
#include "tests/standin/cuda/standin.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 256, THINGS = 64, WORDS = 8192 };

#define HUGE_SIZE ((size_t) INT_MAX + 1)

extern const struct device_module accel_device;
static const DLDevice gpu = { .device_type = kDLCUDA, .device_id = 1 }, other = { .device_type = kDLCUDA };
static struct accel_error err;
static const struct device_helpers helpers = { .fail = accel_fail };

/* ---- what is said ---- */

/* Of the process of a line. */
static struct line {
    char said[WORDS], end[1024];
    int calls;
} *line;
static char whole[WORDS]; /* what is said if nothing fails */
static bool is_silent = true;
static int fails_at; /* the call that fails, from 1; 0: none does */
static cudaError_t failure;

__attribute__ ((format (printf, 1, 2))) static void
say (const char *format, ...)
{
    size_t length = strlen (line->said);
    va_list args;
    va_start (args, format);
    if (!is_silent)
        vsnprintf (line->said + length, sizeof line->said - length, format, args);
    va_end (args);
}

/* What was made, and what the program has: names of addresses. */
static struct {
    const char *at;
    size_t bytes;
    char name[12];
} things[THINGS];
static int thing_count, kinds[128];

static void
note (char kind, const void *at, size_t bytes)
{
    if (thing_count == THINGS)
        abort ();
    things[thing_count].at = at;
    things[thing_count].bytes = bytes;
    snprintf (things[thing_count++].name, sizeof things->name, "%c%d", kind, kinds[(int) kind]++);
}

/* The latest one, because addresses are given out again. */
static const char *
name_of (const void *address)
{
    static char names[4][40];
    static unsigned turn;
    char *name = names[turn++ % 4];
    const char *at = address;
    if ((uintptr_t) address <= 2)
        return snprintf (name, sizeof *names, "%d", (int) (uintptr_t) address), name;
    for (int i = thing_count; i-- > 0;)
        if (at >= things[i].at && at < things[i].at + things[i].bytes) {
            size_t beyond = (size_t) (at - things[i].at);
            snprintf (name, sizeof *names, beyond ? "%s+%zu" : "%s", things[i].name, beyond);
            return name;
        }
    return "host";
}

/* ---- locks ---- */

static _Thread_local int locks_held;

int __real_pthread_mutex_lock (pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock (pthread_mutex_t *mutex);
#pragma GCC visibility push(default) /* the linker has libraries call what is wrapped, too */
int __wrap_pthread_mutex_lock (pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock (pthread_mutex_t *mutex);

int
__wrap_pthread_mutex_lock (pthread_mutex_t *mutex)
{
    locks_held++;
    say ("( ");
    return __real_pthread_mutex_lock (mutex);
}

int
__wrap_pthread_mutex_unlock (pthread_mutex_t *mutex)
{
    if (!locks_held--)
        say ("not locked: ");
    say (") ");
    return __real_pthread_mutex_unlock (mutex);
}

/* ---- libraries ---- */

static bool lacks_libraries, has_driver;

void *__real_dlopen (const char *name, int flags);
void *__wrap_dlopen (const char *name, int flags);

void *
__wrap_dlopen (const char *name, int flags)
{
    char missing[64];
    snprintf (missing, sizeof missing, "no-%s", name);
    say ("dlopen %s %d; ", name, flags & (RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL));
    return __real_dlopen (has_driver ? NULL : lacks_libraries ? missing : name, has_driver ? RTLD_NOW : flags);
}

void *__real_dlsym (void *library, const char *name);
void *__wrap_dlsym (void *library, const char *name);

/* The driver's functions, of which the second one is missing. */
void *
__wrap_dlsym (void *library, const char *name)
{
    if (!has_driver)
        return __real_dlsym (library, name);
    say ("dlsym %s; ", name);
    return strcmp (name, "cuDevicePrimaryCtxGetState") ? NULL : (void *) (uintptr_t) standin_context_state;
}

/* ---- CUDA ---- */

/* What each function begins with fails in few lines only. */
static bool fails_to_begin;

static bool
fails (const char *name)
{
    static const char *const begins[] = { "GetDevice", "SetDevice", "StreamIsCapturing" };
    for (size_t i = 0; !fails_to_begin && i < sizeof begins / sizeof *begins; i++)
        if (!strcmp (name, begins[i]))
            return false;
    if (is_silent || ++line->calls != fails_at)
        return false;
    *line->said = '\0';
    say ("%s fails: ", name);
    call_fail (failure);
    return true;
}

static cudaStream_t made_stream, next_stream; /* the second is set as soon as memory is allocated */

static void
note_memory (const void *at, size_t size)
{
    cudaStream_t next = next_stream;
    next_stream = NULL;
    note ('m', at, size);
    if (next)
        accel_device.memory->set_stream (gpu, next, &err);
}

#define CUDA_CALLS(X)                                                                                        \
    X (SetDevice, (int device), (device), say (" %d", device), (void) 0)                                     \
    X (GetDevice, (int *device), (device), (void) 0, (void) 0)                                               \
    X (GetDeviceCount, (int *count), (count), (void) 0, (void) 0)                                            \
    X (DriverGetVersion, (int *version), (version), (void) 0, (void) 0)                                      \
    X (DeviceGetAttribute, (int *value, enum cudaDeviceAttr attribute, int device), (value, attribute, device), \
       say (" %d %d", (int) attribute, device), (void) 0)                                                    \
    X (DeviceSynchronize, (void), (), (void) 0, (void) 0)                                                    \
    X (DeviceGetDefaultMemPool, (cudaMemPool_t *pool, int device), (pool, device), say (" %d", device), (void) 0) \
    X (MemPoolGetAttribute, (cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value),               \
       (pool, attribute, value), (void) 0, (void) 0)                                                         \
    X (MemPoolSetAttribute, (cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value),               \
       (pool, attribute, value), say (" %llu", (unsigned long long) *(uint64_t *) value), (void) 0)          \
    X (MemPoolSetAccess, (cudaMemPool_t pool, const struct cudaMemAccessDesc *access, size_t count),         \
       (pool, access, count), say (" %d %d", access->location.id, (int) access->flags), (void) 0)            \
    X (MemPoolTrimTo, (cudaMemPool_t pool, size_t bytes), (pool, bytes), say (" %zu", bytes), (void) 0)      \
    X (MallocFromPoolAsync, (void **memory, size_t bytes, cudaMemPool_t pool, cudaStream_t stream),          \
       (memory, bytes, pool, stream), say (" %zu %s", bytes, name_of (stream)), note_memory (*memory, bytes)) \
    X (FreeAsync, (void *memory, cudaStream_t stream), (memory, stream),                                     \
       say (" %s %s", name_of (memory), name_of (stream)), (void) 0)                                         \
    X (Malloc, (void **memory, size_t bytes), (memory, bytes), say (" %zu", bytes), note ('m', *memory, bytes)) \
    X (Free, (void *memory), (memory), say (" %s", name_of (memory)), (void) 0)                              \
    X (HostAlloc, (void **memory, size_t bytes, unsigned flags), (memory, bytes, flags),                     \
       say (" %zu %u", bytes, flags), note ('h', *memory, bytes))                                            \
    X (FreeHost, (void *memory), (memory), say (" %s", name_of (memory)), (void) 0)                          \
    X (MemsetAsync, (void *to, int byte, size_t bytes, cudaStream_t stream), (to, byte, bytes, stream),      \
       say (" %s %d %zu %s", name_of (to), byte, bytes, name_of (stream)), (void) 0)                         \
    X (MemcpyAsync, (void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream), \
       (to, from, bytes, kind, stream),                                                                      \
       say (" %s %s %zu %d %s", name_of (to), name_of (from), bytes, (int) kind, name_of (stream)), (void) 0) \
    X (MemcpyPeerAsync,                                                                                      \
       (void *to, int to_device, const void *from, int from_device, size_t bytes, cudaStream_t stream),      \
       (to, to_device, from, from_device, bytes, stream),                                                    \
       say (" %s %d %s %d %zu %s", name_of (to), to_device, name_of (from), from_device, bytes, name_of (stream)), \
       (void) 0)                                                                                             \
    X (DeviceCanAccessPeer, (int *can, int device, int peer), (can, device, peer), say (" %d %d", device, peer), \
       (void) 0)                                                                                             \
    X (DeviceEnablePeerAccess, (int peer, unsigned flags), (peer, flags), say (" %d %u", peer, flags), (void) 0) \
    X (PointerGetAttributes, (struct cudaPointerAttributes *about, const void *address), (about, address),   \
       say (" %s", name_of (address)), (void) 0)                                                             \
    X (StreamCreateWithFlags, (cudaStream_t *stream, unsigned flags), (stream, flags), say (" %u", flags),   \
       note ('s', *stream, 1))                                                                               \
    X (StreamDestroy, (cudaStream_t stream), (stream), say (" %s", name_of (stream)), (void) 0)              \
    X (StreamSynchronize, (cudaStream_t stream), (stream), say (" %s", name_of (stream)), (void) 0)          \
    X (StreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned flags), (stream, event, flags),    \
       say (" %s %s %u", name_of (stream), name_of (event), flags), (void) 0)                                \
    X (EventCreateWithFlags, (cudaEvent_t *event, unsigned flags), (event, flags), say (" %u", flags),       \
       note ('e', *event, 1))                                                                                \
    X (EventDestroy, (cudaEvent_t event), (event), say (" %s", name_of (event)), (void) 0)                   \
    X (EventRecord, (cudaEvent_t event, cudaStream_t stream), (event, stream),                               \
       say (" %s %s", name_of (event), name_of (stream)), (void) 0)                                          \
    X (EventSynchronize, (cudaEvent_t event), (event), say (" %s", name_of (event)), (void) 0)
#define X(name, parameters, arguments, words, result)          \
    cudaError_t __real_cuda##name parameters;                  \
    cudaError_t __wrap_cuda##name parameters;                  \
    cudaError_t __wrap_cuda##name parameters                   \
    {                                                          \
        if (fails (#name))                                     \
            return failure;                                    \
        say ("%s", #name);                                     \
        words;                                                 \
        cudaError_t error = __real_cuda##name arguments;       \
        if (error)                                             \
            say (" error %d", (int) error);                    \
        else                                                   \
            result;                                            \
        say ("; ");                                            \
        return error;                                          \
    }
CUDA_CALLS (X)
#undef X

cudaError_t __real_cudaStreamIsCapturing (cudaStream_t stream, enum cudaStreamCaptureStatus *status);
cudaError_t __wrap_cudaStreamIsCapturing (cudaStream_t stream, enum cudaStreamCaptureStatus *status);

/* What it leaves after an error says nothing. */
cudaError_t
__wrap_cudaStreamIsCapturing (cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    *status = cudaStreamCaptureStatusActive;
    if (fails ("StreamIsCapturing"))
        return failure;
    say ("StreamIsCapturing %s; ", name_of (stream));
    return __real_cudaStreamIsCapturing (stream, status);
}

/* ---- what is done ---- */

static char *a, *b, *there; /* on the GPU, and on the other one */
static char bytes[3 << 20];

static void
do_begin (const struct memory *memory)
{
    memory->zero (gpu, NULL, 0);
}

static void
do_create (const struct memory *memory)
{
    void *made = memory->create (gpu, 100, true), *second = memory->create (gpu, 96, false);
    say ("[%s %s] ", made ? "m" : "-", second ? "m" : "-");
    memory->destroy (gpu, made);
    memory->destroy (gpu, second);
}

static void
do_copy (const struct memory *memory)
{
    memory->copy (gpu, a, b, 8);
    memory->zero (gpu, b, 16);
    memory->copy (gpu, a, b, 0);
    memory->zero (gpu, b, 0);
}

/* Three pieces, of which the last one is smaller. */
static void
do_read (const struct memory *memory)
{
    enum accel_status status = memory->read (gpu, bytes, a, sizeof bytes - 5, &err);
    say ("[%d %s] ", (int) status, err.text);
    status = memory->read (gpu, bytes, a, 1 << 20, &err); /* one piece */
    say ("[%d] ", (int) status);
}

static void
do_write (const struct memory *memory)
{
    memory->write (gpu, a, bytes, sizeof bytes - 5);
}

static void
do_copy_from (const struct memory *memory)
{
    strcpy (err.text, "as before");
    enum accel_status status = memory->copy_from (gpu, a, other, there, 64, &err);
    say ("[%d %s] ", (int) status, err.text);
    status = memory->copy_from ((DLDevice){ kDLCUDA, 64 }, a, other, there, 64, &err);
    say ("[%d %s] ", (int) status, err.text);
}

static void
do_stream (const struct memory *memory)
{
    enum accel_status status = memory->set_stream (gpu, made_stream, &err);
    say ("[%d %s] ", (int) status, err.text);
    err.text[0] = '\0';
    status = memory->order (gpu, NULL, made_stream, &err);
    say ("[%d %s] ", (int) status, err.text);
    memory->zero (gpu, a, 16);
}

/* As by another thread, for the lock is not held meanwhile. */
static void
do_stream_meanwhile (const struct memory *memory)
{
    next_stream = made_stream;
    memory->destroy (gpu, memory->create (gpu, 16, true));
}

/* While a stream is captured: what is freed waits, and only what the thread has permitted is queued. */
static void
do_capture (const struct memory *memory)
{
    memory->set_stream (gpu, made_stream, &err);
    void *first = memory->create (gpu, 16, false), *second = memory->create (gpu, 16, false);
    cudaSetDevice (1);
    standin_capture (made_stream, true);
    memory->destroy (gpu, first);
    memory->zero (gpu, a, 16);
    enum accel_status status = memory->read (gpu, NULL, NULL, 0, &err);
    say ("[%d %s] ", (int) status, err.text);
    say ("[%d] ", memory->live->permit_capture (gpu, true));
    memory->zero (gpu, a, 16);
    say ("[%d] ", memory->live->permit_capture (gpu, false));
    status = memory->order (gpu, NULL, made_stream, &err);
    say ("[%d %s] ", (int) status, err.text);
    standin_capture (made_stream, false);
    cudaSetDevice (0);
    memory->destroy (gpu, second);
}

static void *
zero_in_thread (void *unused)
{
    accel_device.memory->zero (gpu, a, 16);
    return unused;
}

/* The thread's own stream, and another one's. */
static void
do_threads (const struct memory *memory)
{
    enum accel_status status = memory->set_stream (gpu, (void *) 2, &err);
    say ("[%d %s] ", (int) status, err.text);
    memory->zero (gpu, a, 16);
    memory->destroy (gpu, memory->create (gpu, 16, false));
    say ("[%s] ", name_of (memory->stream (gpu)));
    pthread_t thread;
    if (pthread_create (&thread, NULL, zero_in_thread, NULL) || pthread_join (thread, NULL))
        abort ();
}

static void
do_copies (const struct memory *memory)
{
    const struct memory_copy_streams *its = memory->copy_streams;
    void *pinned = its->pin (gpu, 32);
    if (!pinned)
        say ("[-] ");
    its->unpin (gpu, pinned);
}

static void
do_copy_stream (const struct memory *memory)
{
    const struct memory_copy_streams *its = memory->copy_streams;
    struct memory_copy_stream *opened = its->open (gpu);
    if (!opened) {
        say ("[-] ");
        return;
    }
    its->begin (opened);
    its->copy (opened, a, bytes, 0);
    its->copy (opened, a, bytes, 32);
    its->fetch (opened, bytes, a, 0);
    its->fetch (opened, bytes, a, 32);
    its->end (opened, 0);
    its->follow (opened, 0);
    its->wait (opened, 0);
    its->close (opened);
}

/* Made once; what is asked for afterwards is queued there. */
static void
do_side_stream (const struct memory *memory)
{
    void *made[2] = { NULL, NULL };
    for (int i = 0; i < 2; i++) {
        enum accel_status status = memory->side_stream (gpu, &made[i], &err);
        say ("[%d %s] ", (int) status, status ? err.text : "");
    }
    if (!made[1])
        return;
    say ("[%d] ", made[0] && made[0] != made[1]);
    memory->order (gpu, memory->stream (gpu), made[1], &err);
    memory->use_side_stream (gpu, true);
    memory->zero (gpu, a, 16);
    memory->zero (other, there, 16); /* which has none */
    memory->use_side_stream (gpu, false);
    memory->zero (gpu, b, 16);
}

static void
do_lists (const struct memory *memory)
{
    struct memory_list list;
    if (!memory_list_create (&list, 2))
        abort ();
    for (size_t i = 0; i < 2; i++) {
        list.items[i] = (struct memory_item){ .data = i ? b : a, .count = COUNT / 4, .dtype = ACCEL_FLOAT32 };
        list.count = i + 1;
        bool is_done = memory->lists->zero (gpu, &list);
        say ("[%d] ", is_done);
    }
    say ("[%d] ", memory->lists->zero (gpu, &list));
    memory_list_destroy (&list, memory, gpu);
}

static void
do_numbers (const struct memory *memory)
{
    float value = 0;
    size_t index = memory->find_nonfinite (gpu, a, ACCEL_FLOAT32, 16, &value);
    say ("[%d %d] ", (int) index, (int) value);
    value = memory->narrow_scaled (gpu, b, ACCEL_FLOAT8_E4M3FN, (float *) (void *) a, 16);
    say ("[%d] ", (int) value);
    const uint64_t seed = 5;
    memory->orthogonalise (gpu, (float *) (void *) a, 4, 2, 0, &seed);
}

static void
do_products (const struct memory *memory)
{
    float *x = (float *) (void *) a, *y = (float *) (void *) b;
    enum accel_status status = memory->products->open (gpu, &err);
    say ("[%d %s] ", (int) status, err.text);
    if (status)
        return;
    say ("[%d] ", memory->products->multiply (gpu, x, x + 64, y, 4, 3, 2));
    say ("[%d] ", memory->products->multiply_transposed (gpu, y, x + 64, x, 4, 3, 2));
    setenv ("STANDIN_FAIL", "cublasCreate_v2:1:3", true);
    say ("[%d] ", (int) memory->products->open (gpu, &err)); /* which it is already */
    const size_t sizes[][3] = { { 0, 3, 2 }, { 4, 0, 2 }, { 4, 3, 0 }, { HUGE_SIZE, 3, 2 }, { 4, HUGE_SIZE, 2 },
                                { 4, 3, HUGE_SIZE } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        say ("[%d] ", memory->products->multiply (gpu, x, x + 64, y, sizes[i][0], sizes[i][1], sizes[i][2]));
}

static void
do_without_library (const struct memory *memory)
{
    lacks_libraries = true;
    do_products (memory);
}

static void
do_owns (const struct memory *memory)
{
    DLDevice device = { .device_id = -1 };
    bool owns = memory->owns (a + 1, &device);
    say ("[%d %d] ", owns, (int) device.device_id);
    say ("[%d] ", memory->owns (bytes, &device));
}

/* A thread whose device has no context takes one that has. */
static void *
ask (void *owned)
{
    DLDevice device = { .device_id = -1 };
    bool owns = accel_device.memory->owns (owned, &device);
    say ("[%d %d] ", owns, (int) device.device_id);
    return NULL;
}

static void
do_contexts (const struct memory *memory)
{
    pthread_t thread;
    has_driver = true;
    void *made = memory->create (gpu, 16, false);
    if (pthread_create (&thread, NULL, ask, made) || pthread_join (thread, NULL))
        abort ();
    memory->destroy (gpu, made);
    if (pthread_create (&thread, NULL, ask, bytes) || pthread_join (thread, NULL))
        abort ();
}

static void
do_choose (const struct memory *memory)
{
    int device = -1;
    (void) memory;
    enum accel_status status = accel_device.choose (&helpers, 3, &device, &err);
    say ("[%d %d %s] ", (int) status, device, err.text);
}

/* An error that the program has not looked at, while the GPU has none, or the one that a call has. */
static void
do_own (const struct memory *memory)
{
    DLDevice device;
    void *made = memory->create (gpu, 16, false);
    for (int i = 0; i < 4; i++) {
        if (i == 0)
            memory->zero (gpu, a, 16);
        call_fail (cudaErrorInvalidConfiguration);
        if (i == 0)
            memory->zero (gpu, b, 16);
        else if (i == 1)
            memory->destroy (gpu, made);
        else if (i == 2)
            memory->owns (bytes, &device);
        else
            do_choose (memory);
        enum accel_status status = memory->read (gpu, NULL, NULL, 0, &err);
        say ("[%d %s] ", (int) status, err.text);
    }
}

static const struct {
    const char *name;
    void (*run) (const struct memory *memory);
    bool is_first;    /* nothing has been done on the GPU before */
    bool begins;      /* also what it begins with fails */
    const char *set;  /* a variable */
    cudaError_t error; /* that its calls have */
} uses[] = {
    { "begin", do_begin, true, true, NULL, cudaErrorMemoryAllocation },
    { "begin without pools", do_begin, true, false, "STANDIN_NO_POOLS", cudaErrorIllegalAddress },
    { "create", do_create, false, false, NULL, cudaErrorMemoryAllocation },
    { "create, other errors", do_create, false, false, NULL, cudaErrorIllegalAddress },
    { "create without pools", do_create, false, false, "STANDIN_NO_POOLS", cudaErrorMemoryAllocation },
    { "create without pools, other errors", do_create, false, false, "STANDIN_NO_POOLS", cudaErrorIllegalAddress },
    { "copy", do_copy, false, true, NULL, cudaErrorMemoryAllocation },
    { "read", do_read, false, false, NULL, cudaErrorIllegalAddress },
    { "write", do_write, false, false, NULL, cudaErrorMemoryAllocation },
    { "copy_from", do_copy_from, false, false, NULL, cudaErrorMemoryAllocation },
    { "stream", do_stream, false, true, NULL, cudaErrorMemoryAllocation },
    { "stream set meanwhile", do_stream_meanwhile, false, false, NULL, cudaErrorMemoryAllocation },
    { "capture", do_capture, false, false, NULL, cudaErrorMemoryAllocation },
    { "threads", do_threads, false, true, NULL, cudaErrorIllegalAddress },
    { "pin", do_copies, false, false, NULL, cudaErrorMemoryAllocation },
    { "pin, other errors", do_copies, false, false, NULL, cudaErrorIllegalAddress },
    { "copy stream", do_copy_stream, false, false, NULL, cudaErrorMemoryAllocation },
    { "side stream", do_side_stream, false, false, NULL, cudaErrorMemoryAllocation },
    { "side stream, other errors", do_side_stream, false, false, NULL, cudaErrorIllegalAddress },
    { "lists", do_lists, false, false, NULL, cudaErrorMemoryAllocation },
    { "lists, other errors", do_lists, false, false, NULL, cudaErrorIllegalAddress },
    { "numbers", do_numbers, false, false, NULL, cudaErrorIllegalAddress },
    { "products", do_products, false, false, NULL, cudaErrorMemoryAllocation },
    { "products without cuBLAS", do_without_library, false, false, NULL, cudaErrorMemoryAllocation },
    { "owns", do_owns, false, true, NULL, cudaErrorIllegalAddress },
    { "contexts", do_contexts, true, false, NULL, cudaErrorIllegalAddress },
    { "choose", do_choose, false, false, NULL, cudaErrorIllegalAddress },
    { "own errors", do_own, false, false, NULL, cudaErrorMemoryAllocation },
    { "own errors, others for ever", do_own, false, false, NULL, cudaErrorIllegalAddress },
};

/* ---- each of them ---- */

static void
prepare (const struct memory *memory)
{
    int device;
    accel_device.choose (&helpers, 0, &device, &err);
    a = memory->create (gpu, sizeof bytes, true);
    b = memory->create (gpu, sizeof bytes, true);
    there = memory->create (other, 64, true);
    memory->read (gpu, bytes, a, 1, &err);
    cudaSetDevice (1);
    cudaStreamCreateWithFlags (&made_stream, cudaStreamNonBlocking);
    cudaSetDevice (0);
    note ('a', a, sizeof bytes);
    note ('b', b, sizeof bytes);
    note ('c', there, 64);
}

/* In a process of its own. */
static void
run (size_t use, int turn)
{
    const struct memory *memory = accel_device.memory;
    struct standin_counts before, after;
    int device;
    if (uses[use].set)
        setenv (uses[use].set, "yes", true);
    if (uses[use].is_first)
        accel_device.choose (&helpers, 0, &device, &err);
    else
        prepare (memory);
    standin_count (&before);
    err = (struct accel_error){ .text = "" };
    failure = uses[use].error;
    fails_to_begin = uses[use].begins;
    fails_at = turn;
    is_silent = false;
    uses[use].run (memory);
    is_silent = true;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    int error = (int) cudaPeekAtLastError ();
    enum accel_status status = memory->read (gpu, bytes, NULL, 0, &err);
    standin_count (&after);
    cudaThreadExchangeStreamCaptureMode (&mode);
    __real_cudaGetDevice (&device);
    snprintf (line->end, sizeof line->end, "= %s (%d left, device %d, locks %d, mode %d, error %d)",
              status ? err.text : "well", (int) (after.resources - before.resources), device, locks_held, (int) mode,
              error);
}

/* Without the end that is the same as if nothing fails. */
static void
print (const char *name, int turn)
{
    static const char good[] = " (0 left, device 0, locks 0, mode 0, error 0)";
    size_t length = strlen (line->said), same = 0, all = strlen (whole), end = strlen (line->end);
    while (turn && same < length && same < all && line->said[length - same - 1] == whole[all - same - 1])
        same++;
    while (same && (line->said[length - same - 1] != ' ' || line->said[length - same] == ' '))
        same--;
    if (!turn)
        memcpy (whole, line->said, sizeof whole);
    if (end > sizeof good && !strcmp (line->end + end - (sizeof good - 1), good))
        line->end[end - (sizeof good - 1)] = '\0';
    printf ("%s: %.*s%s%s\n", name, (int) (length - same), line->said, same > 4 ? "... " : line->said + length - same,
            line->end);
}

/* @return how many calls there were */
static int
run_apart (size_t use, int turn)
{
    int status = -1;
    memset (line, 0, sizeof *line);
    pid_t child = fork ();
    if (!child) {
        run (use, turn);
        _exit (0);
    }
    if (child < 0 || waitpid (child, &status, 0) != child || status)
        strcpy (line->end, "= the process has died");
    print (uses[use].name, turn);
    return line->calls;
}

int
main (void)
{
    setenv ("STANDIN_DEVICES", "2", true);
    line = mmap (NULL, sizeof *line, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (line == MAP_FAILED)
        return 1;
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        int count = run_apart (i, 0);
        for (int turn = 1; turn <= count; turn++)
            run_apart (i, turn);
    }
    return 0;
}
