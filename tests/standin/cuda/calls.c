/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the CUDA runtime, as strict as CUDA's documentation allows.  STANDIN_FAIL=NAME:N[:ERROR] lets the
 * N-th call of a function fail; STANDIN_SKIP=NAME lets it do nothing; STANDIN_DEVICES is the number of devices (1), of
 * which CUDA_VISIBLE_DEVICES leaves some; STANDIN_BYTES is the memory of each; STANDIN_CAPABILITY is the compute
 * capability of each, separated by commas, of which the last is that of all further ones; STANDIN_DRIVER is the version
 * of the driver; with STANDIN_NO_POOLS, devices have no memory pools; with STANDIN_MALLOC_WAITS, cudaMalloc()
 * waits for all that is queued. */
#include <config.h>

#include "tests/standin/cuda/standin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__ ((visibility ("default")))

static _Thread_local cudaError_t last_error;
static struct CUevent_st *events, *destroyed_events; /* apart: there may be thousands */
static size_t bytes_used[MOST_DEVICES];
/* What is allocated from it is used; what was freed is kept, and is the pool's alone. */
static struct CUmemPoolHandle_st {
    uint64_t kept, threshold;
} pools[MOST_DEVICES];
static bool has_context[MOST_DEVICES];

struct standin_counts call_counts;

API void
standin_count (struct standin_counts *counts)
{
    pthread_mutex_lock (&standin_lock);
    *counts = call_counts;
    pthread_mutex_unlock (&standin_lock);
}

cudaError_t
call_fail (cudaError_t error)
{
    if (error)
        last_error = error;
    return error;
}

cudaError_t
call_injected (const char *name)
{
    static unsigned long calls;
    const char *plan = getenv ("STANDIN_FAIL");
    size_t length = strlen (name);
    if (!plan || strncmp (plan, name, length) || plan[length] != ':')
        return cudaSuccess;
    char *end;
    unsigned long turn = strtoul (plan + length + 1, &end, 10);
    cudaError_t error = *end == ':' ? (cudaError_t) strtoul (end + 1, NULL, 10) : cudaErrorUnknown;
    return __atomic_add_fetch (&calls, 1, __ATOMIC_RELAXED) == turn ? error : cudaSuccess;
}

/* STANDIN_SKIP=NAME: the function does nothing, as if the program had forgotten to call it. */
static bool
is_forgotten (const char *name)
{
    const char *forgotten = getenv ("STANDIN_SKIP");
    return forgotten && !strcmp (forgotten, name);
}

/* A program captures a stream, in the mode in which no thread may call what is unsafe, unless it has said that its own
 * calls matter to no capture.  Strict: every call but those about the present device is unsafe that a thread
 * makes without having said so. */
static _Thread_local enum cudaStreamCaptureMode capture_mode;

static void
check_capture (const char *name)
{
    if (__atomic_load_n (&captured, __ATOMIC_ACQUIRE) && capture_mode != cudaStreamCaptureModeRelaxed
        && strcmp (name, "cudaGetDevice") && strcmp (name, "cudaSetDevice"))
        report (NULL, NULL, "%s() ends the capture of a stream of the program's", name);
}

/* Returns from the calling function if it is to fail, or to do nothing; takes the lock. */
#define BEGIN(name)                                \
    do {                                           \
        cudaError_t error_ = call_injected (name); \
        check_capture (name);                      \
        if (error_ || is_forgotten (name))         \
            return call_fail (error_);             \
        pthread_mutex_lock (&standin_lock);        \
    } while (0)
#define END(error)                                 \
    do {                                           \
        cudaError_t result_ = (error);             \
        pthread_mutex_unlock (&standin_lock);      \
        return call_fail (result_);                \
    } while (0)

/* ---- errors ---- */

API cudaError_t
cudaGetLastError (void)
{
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

API cudaError_t
cudaPeekAtLastError (void)
{
    return last_error;
}

API const char *
cudaGetErrorName (cudaError_t error)
{
    switch ((int) error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorInvalidDeviceFunction: return "cudaErrorInvalidDeviceFunction";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    default: return "cudaErrorUnknown";
    }
}

API const char *
cudaGetErrorString (cudaError_t error)
{
    switch ((int) error) {
    case cudaSuccess: return "no error";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInsufficientDriver: return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorInvalidDeviceFunction: return "invalid device function";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorInvalidResourceHandle: return "invalid resource handle";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    default: return "unknown error";
    }
}

/* The host has waited: pools give back what is above their threshold. */
static void
shrink_pools (void)
{
    for (int i = 0; i < MOST_DEVICES; i++)
        if (pools[i].kept > pools[i].threshold)
            pools[i].kept = pools[i].threshold;
}

/* ---- devices ---- */

/* Words of CUDA_VISIBLE_DEVICES are indices, or names GPU-n and MIG-n, which may be cut where they are clear; the first
 * that names no device ends the list. */
static int
find_devices (int *physical)
{
    const char *present = getenv ("STANDIN_DEVICES"), *visible = getenv ("CUDA_VISIBLE_DEVICES");
    int all = present ? (int) strtol (present, NULL, 10) : 1, count = 0;
    for (int i = 0; i < MOST_DEVICES; i++)
        physical[i] = i;
    if (!visible)
        return all < MOST_DEVICES ? all : MOST_DEVICES;
    while (*visible && count < MOST_DEVICES) {
        bool is_name = !strncmp (visible, "GPU-", 4) || !strncmp (visible, "MIG-", 4);
        char *end;
        long index = strtol (visible + (is_name ? 4 : 0), &end, 10);
        if (end == visible || index < 0 || index >= all)
            break;
        physical[count++] = (int) index;
        visible = end + (*end == ',');
    }
    return count;
}

static int
count_devices (void)
{
    int physical[MOST_DEVICES];
    return find_devices (physical);
}

static void
name_bus (int device, char *bus, size_t size)
{
    int physical[MOST_DEVICES];
    find_devices (physical);
    snprintf (bus, size, "0000:%02x:00.0", 16 + physical[device]);
}

API cudaError_t
cudaDeviceGetPCIBusId (char *id, int size, int device)
{
    BEGIN ("cudaDeviceGetPCIBusId");
    bool good = device >= 0 && device < count_devices ();
    if (good)
        name_bus (device, id, (size_t) size);
    END (good ? cudaSuccess : cudaErrorInvalidDevice);
}

API void
standin_device (int *device, char *bus, size_t size)
{
    *device = present_device;
    if (bus)
        name_bus (present_device, bus, size);
}

API cudaError_t
cudaGetDeviceCount (int *count)
{
    BEGIN ("cudaGetDeviceCount");
    *count = count_devices ();
    END (*count ? cudaSuccess : cudaErrorNoDevice);
}

API cudaError_t
cudaDriverGetVersion (int *version)
{
    const char *given = getenv ("STANDIN_DRIVER");
    BEGIN ("cudaDriverGetVersion");
    *version = given ? (int) strtol (given, NULL, 10) : 13000;
    END (cudaSuccess);
}

API cudaError_t
cudaDeviceGetAttribute (int *value, enum cudaDeviceAttr attribute, int device)
{
    const char *given = getenv ("STANDIN_CAPABILITY"), *next;
    int physical[MOST_DEVICES], major = 12, minor = 0;
    BEGIN ("cudaDeviceGetAttribute");
    bool good = device >= 0 && device < find_devices (physical);
    for (int i = good ? physical[device] : 0; given && i && (next = strchr (given, ',')); i--)
        given = next + 1;
    good = good && (!given || sscanf (given, "%d.%d", &major, &minor) == 2);
    if (attribute == cudaDevAttrComputeCapabilityMajor)
        *value = major;
    else if (attribute == cudaDevAttrComputeCapabilityMinor)
        *value = minor;
    else if (attribute == cudaDevAttrMemoryPoolsSupported)
        *value = !getenv ("STANDIN_NO_POOLS");
    else
        good = false;
    END (good ? cudaSuccess : cudaErrorInvalidValue);
}

API cudaError_t
cudaSetDevice (int device)
{
    BEGIN ("cudaSetDevice");
    bool good = device >= 0 && device < count_devices ();
    if (good) {
        present_device = device;
        has_context[device] = true;
    }
    END (good ? cudaSuccess : cudaErrorInvalidDevice);
}

API cudaError_t
cudaGetDevice (int *device)
{
    BEGIN ("cudaGetDevice");
    *device = present_device;
    END (cudaSuccess);
}

API int
standin_context_state (int device, unsigned *flags, int *active)
{
    pthread_mutex_lock (&standin_lock);
    *flags = 0;
    *active = has_context[device];
    pthread_mutex_unlock (&standin_lock);
    return 0;
}

API cudaError_t
cudaDeviceSynchronize (void)
{
    BEGIN ("cudaDeviceSynchronize");
    call_counts.waits++;
    queue_wait (NULL, NULL);
    shrink_pools ();
    END (cudaSuccess);
}

/* ---- memory ---- */

static size_t
bytes_free (int device)
{
    const char *limit = getenv ("STANDIN_BYTES");
    size_t most = limit ? strtoull (limit, NULL, 10) : (size_t) 8 << 30;
    size_t taken = bytes_used[device] + pools[device].kept;
    return most > taken ? most - taken : 0;
}

/* Of the present device.  @return NULL: @bytes are more than @most */
static struct block *
take (size_t bytes, size_t most)
{
    has_context[present_device] = true;
    struct block *block = bytes <= most ? block_make (bytes, present_device) : NULL;
    if (block)
        bytes_used[present_device] += bytes;
    call_counts.resources += block != NULL;
    return block;
}

API cudaError_t
cudaMalloc (void **memory, size_t bytes)
{
    BEGIN ("cudaMalloc");
    call_counts.allocations++;
    if (getenv ("STANDIN_MALLOC_WAITS"))
        queue_wait (NULL, NULL); /* as CUDA may */
    struct block *block = take (bytes, bytes_free (present_device));
    *memory = block ? block->seen : NULL;
    END (block ? cudaSuccess : cudaErrorMemoryAllocation);
}

API cudaError_t
cudaFree (void *memory)
{
    BEGIN ("cudaFree");
    call_counts.waits++;
    struct block *block = memory ? block_of (memory) : NULL;
    if (memory && (!block || block->seen != memory))
        report (NULL, NULL, "cudaFree() of %p, which cudaMalloc() did not return", memory);
    if (block && (!block->real || block->is_ended))
        report (&block->made, &block->freed, "memory is freed twice; allocated and freed at");
    if (block && block->is_pooled)
        report (&block->made, NULL, "cudaFree() of a pool's memory waits for nothing; allocated at");
    queue_wait (NULL, NULL); /* as CUDA does */
    if (block && block->is_managed)
        block_forget (block);
    else if (block) {
        bytes_used[block->device] -= block->bytes;
        call_counts.resources--;
        block_free (block);
    }
    END (cudaSuccess);
}

API cudaError_t
cudaMallocManaged (void **memory, size_t bytes, unsigned flags)
{
    BEGIN ("cudaMallocManaged");
    struct block *block = flags == cudaMemAttachGlobal ? block_manage (bytes, present_device) : NULL;
    *memory = block ? block->seen : NULL;
    END (block ? cudaSuccess : cudaErrorMemoryAllocation);
}

/* ---- memory pools ---- */

API cudaError_t
cudaDeviceGetDefaultMemPool (cudaMemPool_t *pool, int device)
{
    BEGIN ("cudaDeviceGetDefaultMemPool");
    bool good = device >= 0 && device < count_devices () && !getenv ("STANDIN_NO_POOLS");
    *pool = good ? &pools[device] : NULL;
    END (good ? cudaSuccess : cudaErrorInvalidValue);
}

API cudaError_t
cudaMemPoolGetAttribute (cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
    BEGIN ("cudaMemPoolGetAttribute");
    memcpy (value, &pool->threshold, sizeof pool->threshold);
    END (attribute == cudaMemPoolAttrReleaseThreshold ? cudaSuccess : cudaErrorInvalidValue);
}

API cudaError_t
cudaMemPoolSetAttribute (cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
    BEGIN ("cudaMemPoolSetAttribute");
    memcpy (&pool->threshold, value, sizeof pool->threshold);
    END (attribute == cudaMemPoolAttrReleaseThreshold ? cudaSuccess : cudaErrorInvalidValue);
}

API cudaError_t
cudaMemPoolSetAccess (cudaMemPool_t pool, const struct cudaMemAccessDesc *given, size_t count)
{
    BEGIN ("cudaMemPoolSetAccess");
    bool good = count == 1 && given->location.type == cudaMemLocationTypeDevice && given->location.id >= 0
                && given->location.id < count_devices () && pool != &pools[given->location.id];
    END (good ? cudaSuccess : cudaErrorInvalidDevice);
}

API cudaError_t
cudaMemPoolTrimTo (cudaMemPool_t pool, size_t bytes)
{
    BEGIN ("cudaMemPoolTrimTo");
    pool->kept = pool->kept < bytes ? pool->kept : bytes;
    END (cudaSuccess);
}

/* What the pool keeps is in pieces: of a request that is larger, none of it is used. */
API cudaError_t
cudaMallocFromPoolAsync (void **memory, size_t bytes, cudaMemPool_t pool, cudaStream_t handle)
{
    BEGIN ("cudaMallocFromPoolAsync");
    struct CUstream_st *stream = stream_of (handle);
    if (pool != &pools[present_device] || stream->device != present_device)
        END (cudaErrorInvalidValue);
    bool is_kept = bytes <= pool->kept;
    call_counts.allocations += !is_kept;
    struct block *block = take (bytes, is_kept ? bytes : bytes_free (present_device));
    *memory = block ? block->seen : NULL;
    if (!block)
        END (cudaErrorMemoryAllocation);
    pool->kept -= is_kept ? bytes : 0;
    block->is_pooled = true;
    stream_uses (stream, block, NULL, bytes, true, "cudaMallocFromPoolAsync()");
    stream_add (stream, OPERATION_SPEND);
    stream_go ();
    END (cudaSuccess);
}

/* Whoever uses it has to come before; nothing may use it from now on. */
API cudaError_t
cudaFreeAsync (void *memory, cudaStream_t handle)
{
    BEGIN ("cudaFreeAsync");
    struct CUstream_st *stream = stream_of (handle);
    struct block *block = memory ? block_of (memory) : NULL;
    if (!block || block->seen != memory || !block->is_pooled)
        report (NULL, NULL, "cudaFreeAsync() of %p, which is not of a pool", memory);
    if (stream == captured)
        report (NULL, NULL, "cudaFreeAsync() becomes part of a graph");
    stream_uses (stream, block, NULL, block->bytes, true, "cudaFreeAsync()");
    site_note (&block->freed);
    block->is_ended = true;
    bytes_used[block->device] -= block->bytes;
    call_counts.resources--;
    pools[block->device].kept += block->bytes;
    stream_add (stream, OPERATION_FREE)->freed = block;
    stream_go ();
    END (cudaSuccess);
}

API cudaError_t
cudaHostAlloc (void **memory, size_t bytes, unsigned flags)
{
    (void) flags;
    BEGIN ("cudaHostAlloc");
    call_counts.allocations++;
    queue_wait (NULL, NULL); /* as CUDA may */
    bool good = pinned_make (memory, bytes);
    call_counts.resources += good;
    END (good ? cudaSuccess : cudaErrorMemoryAllocation);
}

API cudaError_t
cudaFreeHost (void *memory)
{
    BEGIN ("cudaFreeHost");
    queue_wait (NULL, NULL);
    if (memory && !pinned_free (memory))
        report (NULL, NULL, "cudaFreeHost() of %p, which cudaHostAlloc() did not return", memory);
    call_counts.resources -= memory != NULL;
    END (cudaSuccess);
}

API cudaError_t
cudaThreadExchangeStreamCaptureMode (enum cudaStreamCaptureMode *mode)
{
    enum cudaStreamCaptureMode before = capture_mode;
    capture_mode = *mode;
    *mode = before;
    pthread_mutex_lock (&standin_lock);
    has_context[present_device] = true;
    pthread_mutex_unlock (&standin_lock);
    return cudaSuccess;
}

API cudaError_t
cudaStreamIsCapturing (cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    BEGIN ("cudaStreamIsCapturing");
    *status = stream_of (stream) == captured ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    END (cudaSuccess);
}

API cudaError_t
cudaPointerGetAttributes (struct cudaPointerAttributes *about, const void *address)
{
    BEGIN ("cudaPointerGetAttributes");
    const struct block *block = block_of (address);
    *about = (struct cudaPointerAttributes){ .type = block && block->is_managed   ? cudaMemoryTypeManaged
                                                     : block                     ? cudaMemoryTypeDevice
                                                     : pinned_has (address, 1) ? cudaMemoryTypeHost
                                                                               : cudaMemoryTypeUnregistered };
    if (block)
        about->device = block->device;
    has_context[present_device] = true;
    END (cudaSuccess);
}

API int
standin_pointer_attributes (unsigned count, const int *attributes, void **values, unsigned long long address)
{
    pthread_mutex_lock (&standin_lock);
    const struct block *block = block_of ((const void *) (uintptr_t) address);
    bool good = count == 3 && attributes[0] == 2 && attributes[1] == 8 && attributes[2] == 9;
    *(unsigned *) values[0] = block ? 2 : 0;
    *(unsigned *) values[1] = block && block->is_managed;
    *(int *) values[2] = block ? block->device : -2;
    pthread_mutex_unlock (&standin_lock);
    return good ? 0 : 1;
}

/* One side of a copy.  @return where it really is */
static void *
side (struct CUstream_st *stream, const void *address, size_t bytes, bool on_device, bool writes)
{
    struct block *block = block_of (address);
    if (on_device != (block != NULL))
        report (NULL, NULL, "a copy %s %p, which is %s", writes ? "to" : "from", address,
                on_device ? "not on the device" : "on the device");
    if (!block)
        return (void *) (uintptr_t) address;
    stream_uses (stream, block, address, bytes, writes, "a copy");
    return real_of (address, bytes);
}

/* Whether an earlier copy of @stream has still to read some of this memory of the host. */
static bool
is_to_be_read (const struct CUstream_st *stream, const char *memory, size_t bytes)
{
    bool found = false;
    for (const struct operation *before = stream->head; before && !found; before = before->next) {
        const char *from = before->from;
        found = before->kind == OPERATION_COPY && from && from < memory + bytes && memory < from + before->bytes;
    }
    return found;
}

/* Memory that is not pinned: CUDA may copy it late, or wait for it.  What is read back is anything until then. */
API cudaError_t
cudaMemcpyAsync (void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t handle)
{
    BEGIN ("cudaMemcpyAsync");
    struct CUstream_st *stream = stream_of (handle);
    bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (!bytes || kind == cudaMemcpyDefault)
        END (bytes ? cudaErrorInvalidValue : cudaSuccess);
    call_counts.copies++;
    standin_launch ();
    const void *real_from = side (stream, from, bytes, from_device, false);
    void *real_to = side (stream, to, bytes, to_device, true);
    bool is_in_use = !to_device && is_to_be_read (stream, to, bytes);
    struct operation *copy = stream_add (stream, OPERATION_COPY);
    copy->to = real_to;
    copy->from = real_from;
    copy->bytes = bytes;
    const void *host = to_device ? from : to;
    bool on_host = !to_device || !from_device;
    copy->cost_ns = copy_ns (on_host ? COST_HOST : COST_MEMORY, bytes);
    if (!to_device && !is_in_use)
        memset (to, 0xa5, bytes);
    stream_go ();
    static unsigned turn;
    if (on_host && !pinned_has (host, bytes) && rand_r (&turn) % 2)
        queue_wait (stream, NULL);
    END (cudaSuccess);
}

/* ---- peers ---- */

API cudaError_t
cudaDeviceCanAccessPeer (int *can, int device, int peer)
{
    BEGIN ("cudaDeviceCanAccessPeer");
    *can = device != peer;
    END (device < count_devices () && peer < count_devices () ? cudaSuccess : cudaErrorInvalidDevice);
}

API cudaError_t
cudaDeviceEnablePeerAccess (int peer, unsigned flags)
{
    static bool enabled[MOST_DEVICES][MOST_DEVICES];
    BEGIN ("cudaDeviceEnablePeerAccess");
    if (flags || peer < 0 || peer >= count_devices () || peer == present_device)
        END (cudaErrorInvalidDevice);
    bool was = enabled[present_device][peer];
    enabled[present_device][peer] = true;
    END (was ? cudaErrorPeerAccessAlreadyEnabled : cudaSuccess);
}

API cudaError_t
cudaMemcpyPeerAsync (void *to, int to_device, const void *from, int from_device, size_t bytes, cudaStream_t handle)
{
    BEGIN ("cudaMemcpyPeerAsync");
    struct CUstream_st *stream = stream_of (handle);
    struct block *source = block_of (from), *target = block_of (to);
    if (!source || !target || (stream->device != to_device && stream->device != from_device))
        report (NULL, NULL, "cudaMemcpyPeerAsync() from %p to %p on a stream of device %d", from, to, stream->device);
    call_counts.copies++;
    standin_launch ();
    stream_reaches (stream, source, from, bytes, false, from_device, "a copy between devices");
    stream_reaches (stream, target, to, bytes, true, to_device, "a copy between devices");
    struct operation *copy = stream_add (stream, OPERATION_COPY);
    copy->from = real_of (from, bytes);
    copy->to = real_of (to, bytes);
    copy->bytes = bytes;
    copy->cost_ns = copy_ns (COST_PEER, bytes);
    stream_go ();
    END (cudaSuccess);
}

API cudaError_t
cudaMemsetAsync (void *to, int byte, size_t bytes, cudaStream_t handle)
{
    BEGIN ("cudaMemsetAsync");
    struct CUstream_st *stream = stream_of (handle);
    if (!bytes)
        END (cudaSuccess);
    call_counts.fills++;
    standin_launch ();
    void *real = side (stream, to, bytes, true, true);
    struct operation *set = stream_add (stream, OPERATION_SET);
    set->to = real;
    set->byte = byte;
    set->bytes = bytes;
    set->cost_ns = copy_ns (COST_MEMORY, bytes);
    stream_go ();
    END (cudaSuccess);
}

/* ---- streams and events ---- */

API cudaError_t
cudaStreamCreateWithFlags (cudaStream_t *stream, unsigned flags)
{
    (void) flags;
    BEGIN ("cudaStreamCreateWithFlags");
    *stream = stream_make (present_device);
    call_counts.resources++;
    END (cudaSuccess);
}

API cudaError_t
cudaStreamDestroy (cudaStream_t stream)
{
    BEGIN ("cudaStreamDestroy");
    stream_destroy (stream_of (stream));
    call_counts.resources--;
    END (cudaSuccess);
}

API cudaError_t
cudaStreamSynchronize (cudaStream_t stream)
{
    BEGIN ("cudaStreamSynchronize");
    call_counts.waits++;
    queue_wait (stream_of (stream), NULL);
    shrink_pools ();
    END (cudaSuccess);
}

static struct CUevent_st *
event_of (cudaEvent_t handle)
{
    for (struct CUevent_st *event = events; event; event = event->next)
        if (event == handle)
            return event;
    for (struct CUevent_st *event = destroyed_events; event; event = event->next)
        if (event == handle)
            report (&event->destroyed, NULL, "an event is used after it was destroyed at");
    report (NULL, NULL, "%p is not an event", (void *) handle);
}

API cudaError_t
cudaEventCreateWithFlags (cudaEvent_t *event, unsigned flags)
{
    (void) flags;
    BEGIN ("cudaEventCreateWithFlags");
    struct CUevent_st *made = calloc (1, sizeof *made);
    if (!made)
        END (cudaErrorMemoryAllocation);
    made->device = present_device;
    made->next = events;
    *event = events = made;
    call_counts.resources++;
    END (cudaSuccess);
}

API cudaError_t
cudaEventDestroy (cudaEvent_t handle)
{
    BEGIN ("cudaEventDestroy");
    struct CUevent_st *event = event_of (handle), **link = &events;
    while (*link != event)
        link = &(*link)->next;
    *link = event->next;
    event->next = destroyed_events;
    destroyed_events = event;
    site_note (&event->destroyed);
    call_counts.resources--;
    END (cudaSuccess);
}

API cudaError_t
cudaEventRecord (cudaEvent_t handle, cudaStream_t stream)
{
    BEGIN ("cudaEventRecord");
    struct CUevent_st *event = event_of (handle);
    struct CUstream_st *on = stream_of (stream);
    if (on->device != event->device)
        END (cudaErrorInvalidResourceHandle);
    struct operation *record = stream_add (on, OPERATION_RECORD);
    record->event = event;
    record->ticket = ++event->recorded;
    if (record->ticket > EVENT_TIMES && !event_is_done (event, record->ticket - EVENT_TIMES))
        report (NULL, NULL, "more than %d records of an event are pending", (int) EVENT_TIMES);
    memcpy (event->clock, on->clock, sizeof event->clock);
    memset (event->looks, 0, sizeof event->looks);
    stream_go ();
    END (cudaSuccess);
}

API cudaError_t
cudaStreamWaitEvent (cudaStream_t stream, cudaEvent_t handle, unsigned flags)
{
    (void) flags;
    BEGIN ("cudaStreamWaitEvent");
    struct CUevent_st *event = event_of (handle);
    struct CUstream_st *on = stream_of (stream);
    struct operation *wait = stream_add (on, OPERATION_WAIT);
    wait->event = event;
    wait->ticket = event->recorded;
    clock_join (on->clock, event->clock);
    stream_go ();
    END (cudaSuccess);
}

API cudaError_t
cudaEventQuery (cudaEvent_t handle)
{
    BEGIN ("cudaEventQuery");
    struct CUevent_st *event = event_of (handle);
    bool over = event_is_done (event, event->recorded) && host_sees (event);
    if (over) {
        clock_join (host_clock, event->clock);
        host_reach (event);
    }
    END (over ? cudaSuccess : cudaErrorNotReady); /* which is not an error, but the last one of the thread */
}

API cudaError_t
cudaEventSynchronize (cudaEvent_t event)
{
    BEGIN ("cudaEventSynchronize");
    call_counts.waits++;
    queue_wait (NULL, event_of (event));
    shrink_pools ();
    END (cudaSuccess);
}
