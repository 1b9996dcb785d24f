/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs of a process, and a call on one of them.  Functions of struct memory have no way to return an error: the
 * first of a GPU is kept, and meanwhile nothing is done there.  An error that may pass, for want of memory or of the
 * program's own work, is kept until it has been told; any other for ever. */
#include <config.h>

#include "cuda/gpu.h"

#include "cuda/kernels.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_GPUS = 64 };

static struct gpu gpus[MOST_GPUS];
static pthread_once_t once = PTHREAD_ONCE_INIT;
const struct device_helpers *gpu_helper;
/* The default stream; and the one that each thread has of its own (cudaStreamLegacy, cudaStreamPerThread). */
static cudaStream_t const LEGACY = (cudaStream_t) (uintptr_t) 1, PER_THREAD = (cudaStream_t) (uintptr_t) 2;

/* The driver's cuDevicePrimaryCtxGetState(); NULL: there is none. */
static int (*context_state) (int device, unsigned *flags, int *active);
/* The driver's cuPointerGetAttributes(), likewise. */
static int (*pointer_attributes) (unsigned count, const int *attributes, void **values, unsigned long long address);

static void
begin (void)
{
    for (int i = 0; i < MOST_GPUS; i++) {
        pthread_mutex_init (&gpus[i].lock, NULL);
        gpus[i].stream = LEGACY;
    }
    void *driver = dlopen ("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD); /* the runtime has loaded it */
    if (driver)
        *(void **) &context_state = dlsym (driver, "cuDevicePrimaryCtxGetState");
    if (driver)
        *(void **) &pointer_attributes = dlsym (driver, "cuPointerGetAttributes");
}

/* A number that no other thread gets, also after this one; a pthread_t is given out again. */
static unsigned long
own_number (void)
{
    static atomic_ulong given;
    static _Thread_local unsigned long own;
    if (!own)
        own = ++given;
    return own;
}

bool
gpu_note (struct gpu *gpu, cudaError_t error, const char *call)
{
    if (error && !gpu->error) {
        gpu->error = error;
        gpu->call = call;
        gpu->may_pass = error == cudaErrorMemoryAllocation;
    }
    return !error;
}

/* Also where the driver cannot say. */
static bool
has_context (int device)
{
    unsigned flags;
    int active;
    return !context_state || context_state (device, &flags, &active) || active;
}

/* To exchange modes may make a context on the present device, so the GPU is that one first. */
static void
relax (struct visit *visit)
{
    cudaThreadExchangeStreamCaptureMode (&visit->capture_mode);
    visit->is_relaxed = true;
}

/* Setting a device makes a context there, which costs memory and which exclusive GPUs refuse to a second process.  So
 * a thread whose device has none yet stays on this one. */
static void
restore (struct visit *visit)
{
    if (visit->is_relaxed)
        cudaThreadExchangeStreamCaptureMode (&visit->capture_mode);
    if (visit->before != visit->now && has_context (visit->before))
        cudaSetDevice (visit->before);
}

static bool
have_event (struct gpu *gpu, cudaEvent_t *event)
{
    return *event || NOTE (gpu, cudaEventCreateWithFlags, event, cudaEventDisableTiming);
}

/* Freed memory stays with the pool up to a limit, so that to allocate the same again costs next to nothing; the program
 * may have set a higher one.  Without pools, cudaMalloc() does. */
static void
find_pool (struct gpu *gpu, int device)
{
    int has_pools = 0;
    uint64_t kept = 0, least = GPU_POOL_BYTES;
    cudaMemPool_t pool = NULL;
    if (!cudaDeviceGetAttribute (&has_pools, cudaDevAttrMemoryPoolsSupported, device) && has_pools
        && !cudaDeviceGetDefaultMemPool (&pool, device))
        gpu->pool = pool;
    if (gpu->pool && !cudaMemPoolGetAttribute (pool, cudaMemPoolAttrReleaseThreshold, &kept) && kept < least)
        cudaMemPoolSetAttribute (pool, cudaMemPoolAttrReleaseThreshold, &least);
    cudaGetLastError ();
}

/* What is there already is of an earlier try, for which there was too little memory. */
static void
prepare (struct gpu *gpu)
{
    find_pool (gpu, (int) (gpu - gpus));
    bool good = gpu->scratch || NOTE (gpu, cudaMalloc, (void **) &gpu->scratch, CUDA_SCRATCH);
    for (int i = 0; good && i < GPU_STAGES; i++) {
        struct gpu_stage *stage = &gpu->stages[i];
        good = (stage->memory
                || NOTE (gpu, cudaHostAlloc, (void **) &stage->memory, GPU_STAGE_BYTES, cudaHostAllocDefault))
               && have_event (gpu, &stage->copied);
    }
    gpu->is_ready = good && have_event (gpu, &gpu->ordered);
}

#define OWN "the program's own CUDA work failed before this call"

/* The program's, which another one has replaced as the thread's last error. */
static _Thread_local cudaError_t replaced;

void
gpu_take_away (cudaError_t earlier)
{
    if (cudaPeekAtLastError () == earlier)
        return;
    cudaGetLastError ();
    if (!replaced)
        replaced = earlier;
}

/* What a launch of the program complained of shows nowhere else: its data is not what it takes it for.  Some of CUDA's
 * errors only say how things are, and one that is for ever is the last one after each call. */
static void
note_own (struct gpu *gpu, cudaError_t error)
{
    bool is_state = error == cudaErrorNotReady || error == cudaErrorPeerAccessAlreadyEnabled
                    || error == cudaErrorHostMemoryAlreadyRegistered;
    if (is_state || (error == gpu->error && (!gpu->may_pass || !strcmp (gpu->call, OWN))))
        return;
    if (gpu->error)
        gpu->own = gpu->own ? gpu->own : error;
    else if (!gpu_note (gpu, error, OWN))
        gpu->may_pass = true;
}

static void
note_earlier (struct gpu *gpu)
{
    note_own (gpu, replaced);
    replaced = cudaSuccess;
    note_own (gpu, cudaGetLastError ());
}

static _Thread_local bool permits_capture;

#define CAPTURED "a stream is being captured into a CUDA graph, and libaccel's work cannot be part of one"

/* What is queued on a stream that is being captured becomes part of a CUDA graph, and happens when that is launched:
 * with numbers of now, and in memory that may be gone by then. */
static void
refuse_capture (struct gpu *gpu, bool in_graph)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaError_t error = cudaStreamIsCapturing (gpu->stream, &status);
    bool may = in_graph && permits_capture && gpu->is_ready && gpu->stream != PER_THREAD;
    if (!error && (status == cudaStreamCaptureStatusNone || (may && status == cudaStreamCaptureStatusActive)))
        return;
    cudaGetLastError ();
    gpu_note (gpu, error ? error : cudaErrorStreamCaptureUnsupported, CAPTURED);
    gpu->may_pass = true;
}

/* Threads with a stream each work on one device one after the other: what they share there has one order. */
static void
follow (struct gpu *gpu)
{
    if (gpu->last != own_number ())
        NOTE (gpu, cudaStreamWaitEvent, PER_THREAD, gpu->ordered, 0);
    gpu->last = own_number ();
}

static struct visit
here (DLDevice device)
{
    return (struct visit){ .before = device.device_id, .now = device.device_id,
                           .capture_mode = cudaStreamCaptureModeRelaxed };
}

static _Thread_local const struct gpu *aside; /* on whose side stream this thread is */

/* CUDA keeps the last error by thread, not by GPU: an error at the beginning is the program's. */
struct visit
visit_begin (DLDevice device, bool in_graph)
{
    struct visit visit = here (device);
    if (device.device_id < 0 || device.device_id >= MOST_GPUS)
        return visit;
    pthread_once (&once, begin);
    struct gpu *gpu = &gpus[device.device_id];
    pthread_mutex_lock (&gpu->lock);
    note_earlier (gpu);
    if (!gpu->error && NOTE (gpu, cudaGetDevice, &visit.before) && visit.before != visit.now)
        NOTE (gpu, cudaSetDevice, visit.now);
    if (!gpu->error) {
        relax (&visit);
        refuse_capture (gpu, in_graph);
    }
    if (!gpu->error && !gpu->is_ready)
        prepare (gpu);
    if (!gpu->error && gpu->stream == PER_THREAD)
        follow (gpu);
    if (!gpu->error) {
        visit.gpu = gpu;
        visit.stream = aside == gpu ? gpu->side_stream : gpu->stream;
        visit.scratch = aside == gpu ? gpu->side_scratch : gpu->scratch;
        return visit;
    }
    visit.error = gpu->error;
    visit.call = gpu->call;
    restore (&visit);
    cudaGetLastError (); /* nor is it another one's */
    pthread_mutex_unlock (&gpu->lock);
    return visit;
}

void
visit_end (struct visit *visit)
{
    if (!visit->gpu)
        return;
    gpu_note (visit->gpu, cudaGetLastError (), "a kernel");
    if (visit->gpu->stream == PER_THREAD && !visit->gpu->error)
        NOTE (visit->gpu, cudaEventRecord, visit->gpu->ordered, PER_THREAD);
    restore (visit);
    pthread_mutex_unlock (&visit->gpu->lock);
}

/* It has been told: the GPU may be tried again.  @return the program's own, which is told, too */
static cudaError_t
forget (struct gpu *gpu, cudaError_t error)
{
    cudaError_t own = gpu->own;
    gpu->own = cudaSuccess;
    if (gpu->may_pass && gpu->error == error)
        gpu->error = cudaSuccess;
    return own;
}

bool
gpu_permit_capture (DLDevice device, bool permits)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    permits_capture = permits;
    if (!permits)
        return false;
    VISIT_IN_GRAPH (device);
    return gpu && !cudaStreamIsCapturing (stream, &status) && status == cudaStreamCaptureStatusActive;
}

enum accel_status
visit_fail (const struct visit *visit, DLDevice device, struct accel_error *err)
{
    if (device.device_id < 0 || device.device_id >= MOST_GPUS)
        return gpu_helper->fail (err, ACCEL_ERR_INVALID, "cuda:%d does not exist", (int) device.device_id);
    struct gpu *gpu = &gpus[device.device_id];
    cudaError_t error = visit->gpu ? gpu->error : visit->error, own;
    const char *call = visit->gpu ? gpu->call : visit->call;
    if (visit->gpu) {
        cudaGetLastError (); /* else the end of the visit would note it again */
        own = forget (gpu, error);
    } else {
        pthread_mutex_lock (&gpu->lock);
        own = forget (gpu, error);
        pthread_mutex_unlock (&gpu->lock);
    }
    const char *also = own ? "; and " OWN ": " : "", *why = own ? cudaGetErrorString (own) : "";
    if (error == NOT_CUDA)
        return gpu_helper->fail (err, ACCEL_ERR_SYSTEM, "cuda:%d: %s%s%s", (int) device.device_id, call, also, why);
    return gpu_helper->fail (err, error == cudaErrorMemoryAllocation ? ACCEL_ERR_NOMEM : ACCEL_ERR_SYSTEM,
                             "cuda:%d: %s: %s (%s)%s%s", (int) device.device_id, call, cudaGetErrorString (error),
                             cudaGetErrorName (error), also, why);
}

/* After calls without the lock, because they may wait for all that runs on the GPU, also for a collective whose other
 * ranks have died: threads that would notice that must not wait for the lock. */
void
gpu_lock_again (struct gpu *gpu)
{
    pthread_mutex_lock (&gpu->lock);
    if (!gpu->error && gpu->stream == PER_THREAD)
        follow (gpu);
}

bool
gpu_call (DLDevice device, gpu_calls *calls, void *user)
{
    const char *name = NULL;
    VISIT (device);
    if (!gpu)
        return false;
    pthread_mutex_unlock (&gpu->lock);
    cudaError_t error = calls (user, stream, &name);
    gpu_lock_again (gpu);
    return gpu_note (gpu, error, name);
}

/* ---- streams ---- */

/* Also of a GPU that does not exist, on which nothing can be queued.  Where each thread has a stream, that of this one
 * now comes after what libaccel has queued on others, and what libaccel queues on others comes after it.  Without the
 * lock otherwise: the thread that has it may be waiting for the GPU. */
void *
gpu_stream (DLDevice device)
{
    if (device.device_id < 0 || device.device_id >= MOST_GPUS)
        return LEGACY;
    pthread_once (&once, begin);
    cudaStream_t now = gpus[device.device_id].stream;
    if (now != PER_THREAD)
        return now;
    VISIT (device);
    return gpu ? stream : now;
}

/* A record is refused if the stream is another GPU's.  None of these errors is one of the GPU. */
static enum accel_status
order (struct gpu *gpu, cudaStream_t before, cudaStream_t after, struct accel_error *err)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaError_t error = cudaStreamIsCapturing (before, &status);
    if (!error && status == cudaStreamCaptureStatusNone && after != before)
        error = cudaStreamIsCapturing (after, &status);
    if (!error && status != cudaStreamCaptureStatusNone)
        return gpu_helper->fail (err, ACCEL_ERR_SYSTEM, "cuda:%d: " CAPTURED, (int) (gpu - gpus));
    if (!error)
        error = cudaEventRecord (gpu->ordered, before);
    if (!error && after != before)
        error = cudaStreamWaitEvent (after, gpu->ordered, 0);
    if (!error && after != before)
        error = cudaEventRecord (gpu->ordered, after);
    if (!error)
        return ACCEL_OK;
    cudaGetLastError ();
    return gpu_helper->fail (err, ACCEL_ERR_SYSTEM, "cuda:%d: the stream cannot be used: %s (%s)", (int) (gpu - gpus),
                             cudaGetErrorString (error), cudaGetErrorName (error));
}

/* What has been queued comes before what is queued on the new stream; after an error, the former one stays. */
enum accel_status
gpu_set_stream (DLDevice device, void *given, struct accel_error *err)
{
    cudaStream_t next = given ? given : LEGACY;
    VISIT (device);
    if (!gpu)
        return visit_fail (&visit, device, err);
    if (next == stream)
        return ACCEL_OK;
    enum accel_status status = order (gpu, stream, next, err);
    if (!status) {
        gpu->stream = next;
        gpu->last = own_number ();
    }
    return status;
}

/* The event is free: where threads have a stream each, it is recorded again when this visit ends. */
enum accel_status
gpu_order (DLDevice device, void *before, void *after, struct accel_error *err)
{
    VISIT (device);
    return gpu ? order (gpu, before, after, err) : visit_fail (&visit, device, err);
}

/* The GPU keeps both, like other scratch memory; what is there already is of an earlier try. */
static cudaError_t
make_side_stream (void *user, cudaStream_t stream, const char **call)
{
    struct gpu *gpu = &gpus[((const DLDevice *) user)->device_id];
    cudaError_t error = cudaSuccess;
    (void) stream;
    if (!gpu->side_scratch)
        TRY (cudaMalloc, (void **) &gpu->side_scratch, CUDA_SCRATCH);
    if (!gpu->side_stream)
        TRY (cudaStreamCreateWithFlags, &gpu->side_stream, cudaStreamNonBlocking);
    return error;
}

enum accel_status
gpu_side_stream (DLDevice device, void **made, struct accel_error *err)
{
    gpu_call (device, make_side_stream, &device);
    VISIT (device);
    *made = gpu ? gpu->side_stream : NULL;
    return *made ? ACCEL_OK : visit_fail (&visit, device, err);
}

void
gpu_use_side_stream (DLDevice device, bool uses)
{
    aside = uses ? &gpus[device.device_id] : NULL;
}

/* ---- addresses ---- */

/* To ask makes a context on the thread's device: that is one that has one already.  @return whether there is any */
static bool
visit_context (void)
{
    int present, count = 0, device = 0;
    if (cudaGetDevice (&present))
        return false;
    if (has_context (present))
        return true;
    if (cudaGetDeviceCount (&count))
        return false;
    while (device < count && !has_context (device))
        device++;
    return device < count && !cudaSetDevice (device);
}

/* One call, which makes no context, knows no captures, and leaves the runtime's last error as it is.
 * @return whether it is on a GPU; -1: unknown */
static int
ask_driver (const void *address, DLDevice *device)
{
    /* CU_POINTER_ATTRIBUTE_MEMORY_TYPE, _IS_MANAGED and _DEVICE_ORDINAL; CU_MEMORYTYPE_DEVICE */
    static const int attributes[] = { 2, 8, 9 };
    enum { ON_DEVICE = 2 };
    unsigned type = 0, managed = 0;
    int ordinal = 0;
    void *values[] = { &type, &managed, &ordinal };
    if (!pointer_attributes || pointer_attributes (3, attributes, values, (uintptr_t) address))
        return -1;
    *device = (DLDevice){ .device_type = kDLCUDA, .device_id = ordinal };
    return type == ON_DEVICE || managed;
}

/* Memory that CUDA moves between the host and a GPU is the GPU's.  The program's own last error stays. */
bool
gpu_owns (const void *address, DLDevice *device)
{
    pthread_once (&once, begin);
    int answer = ask_driver (address, device);
    if (answer >= 0)
        return answer;
    struct cudaPointerAttributes about = { .type = cudaMemoryTypeUnregistered };
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaError_t earlier = cudaPeekAtLastError ();
    bool known = visit_context ();
    if (known) {
        cudaThreadExchangeStreamCaptureMode (&mode);
        known = !cudaPointerGetAttributes (&about, address)
                && (about.type == cudaMemoryTypeDevice || about.type == cudaMemoryTypeManaged);
        cudaThreadExchangeStreamCaptureMode (&mode);
    }
    gpu_take_away (earlier);
    *device = (DLDevice){ .device_type = kDLCUDA, .device_id = about.device };
    return known;
}

/* ---- memory ---- */

/* Memory that waits to be freed. */
struct gpu_late {
    struct gpu_late *next;
    void *memory;
};

static bool
is_captured (cudaStream_t stream)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    return !cudaStreamIsCapturing (stream, &status) && status != cudaStreamCaptureStatusNone;
}

/* With the lock, in the order of the stream; if that is being captured, later.  Without memory, never. */
static cudaError_t
free_in_order (struct gpu *gpu, void *memory)
{
    struct gpu_late *late;
    if (is_captured (gpu->stream)) {
        late = malloc (sizeof *late);
        if (!late)
            return cudaErrorMemoryAllocation;
        *late = (struct gpu_late){ .next = gpu->late, .memory = memory };
        gpu->late = late;
        return cudaSuccess;
    }
    if (gpu->stream == PER_THREAD)
        follow (gpu);
    cudaError_t error = cudaFreeAsync (memory, gpu->stream);
    while (!error && gpu->late) {
        late = gpu->late;
        gpu->late = late->next;
        error = cudaFreeAsync (late->memory, gpu->stream);
        free (late);
    }
    return error || gpu->stream != PER_THREAD ? error : cudaEventRecord (gpu->ordered, PER_THREAD);
}

/* If there is too little, the pool first gives back what it keeps, also what is freed on the stream by then. */
static cudaError_t
allocate (const struct gpu *gpu, void **memory, size_t bytes, cudaStream_t stream)
{
    if (!gpu->pool)
        return cudaMalloc (memory, bytes);
    cudaError_t error = cudaMallocFromPoolAsync (memory, bytes, gpu->pool, stream);
    if (error != cudaErrorMemoryAllocation)
        return error;
    cudaGetLastError ();
    error = cudaStreamSynchronize (stream);
    if (!error)
        error = cudaMemPoolTrimTo (gpu->pool, 0);
    return error ? error : cudaMallocFromPoolAsync (memory, bytes, gpu->pool, stream);
}

/* Without the lock, as above.  Another thread may set another stream meanwhile. */
void *
gpu_allocate (const struct visit *visit, size_t bytes)
{
    struct gpu *gpu = visit->gpu;
    void *memory = NULL;
    pthread_mutex_unlock (&gpu->lock);
    cudaError_t error = allocate (gpu, &memory, bytes, visit->stream);
    gpu_lock_again (gpu);
    if (!error && gpu->pool && gpu->stream != visit->stream)
        order (gpu, visit->stream, gpu->stream, NULL);
    if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError (); /* the caller gets the error, and may continue */
        return NULL;
    }
    return gpu_note (gpu, error, gpu->pool ? "cudaMallocFromPoolAsync" : "cudaMalloc") ? memory : NULL;
}

/* After an error, streams may have been left without the order that they should have. */
static void
settle (struct gpu *gpu)
{
    pthread_mutex_lock (&gpu->lock);
    bool is_settled = !gpu->error;
    pthread_mutex_unlock (&gpu->lock);
    if (!is_settled)
        cudaDeviceSynchronize ();
}

/* What waits for the GPU, without the lock, as above.  What is pending there, or a capture, is no reason to keep the
 * memory. */
void
gpu_free (DLDevice device, void *memory)
{
    struct visit visit = here (device);
    cudaError_t earlier = cudaPeekAtLastError ();
    if (!memory || device.device_id < 0 || device.device_id >= MOST_GPUS)
        return;
    struct gpu *gpu = &gpus[device.device_id];
    cudaError_t error = cudaGetDevice (&visit.before);
    if (!error && visit.before != visit.now)
        error = cudaSetDevice (visit.now);
    if (!error)
        relax (&visit);
    if (!error && gpu->pool)
        settle (gpu);
    else if (!error)
        error = cudaFree (memory);
    pthread_mutex_lock (&gpu->lock);
    if (!error && gpu->pool)
        error = free_in_order (gpu, memory);
    gpu_note (gpu, error, gpu->pool ? "cudaFreeAsync" : "cudaFree");
    pthread_mutex_unlock (&gpu->lock);
    restore (&visit);
    gpu_take_away (earlier);
}
