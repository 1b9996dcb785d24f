/* SPDX-License-Identifier: Apache-2.0 */
/* The module accel_device_cuda.so: struct memory for tensors on NVIDIA GPUs.  What is queued on a GPU goes to the
 * stream on which the program's own work runs, so that both have one order.
 *
 * Functions of the table have no way to return an error: the first of a GPU is kept until something is read from it. */
#include <config.h>

#include "cuda/cublas.h"
#include "cuda/gpu.h"
#include "cuda/kernels.h"
#include "cuda/tables.h"
#include "lib/memory/device.h"
#include "lib/memory/lists.h"
#include "lib/memory/memory.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_GPUS = 64,
    STAGES = 2,            /* pieces of pinned memory, one of which is filled while the other is copied */
    STAGE_BYTES = 1 << 20,
    PLACE = CUDA_SCRATCH / 2, /* where in scratch memory kernels leave numbers for the host */
};

struct stage {
    char *memory;
    cudaEvent_t copied;
};

static struct gpu {
    pthread_mutex_t lock;
    bool is_ready;
    cudaError_t error; /* the first */
    const char *call;  /* what had it */
    char *scratch;
    struct stage stages[STAGES];
    unsigned next_stage;
    _Atomic (cudaStream_t) stream; /* the program's */
    cudaEvent_t ordered; /* what has been queued, where the next operation is on another stream */
    unsigned long last;  /* the number of the thread that queued it, if each thread has a stream */
    struct cublas cublas;
} gpus[MOST_GPUS];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static const struct device_helpers *helper;

/* An error of cuBLAS, which `call` says. */
static const cudaError_t NOT_CUDA = (cudaError_t) INT_MAX;
/* The default stream; and the one that each thread has of its own (cudaStreamLegacy, cudaStreamPerThread). */
static cudaStream_t const LEGACY = (cudaStream_t) (uintptr_t) 1, PER_THREAD = (cudaStream_t) (uintptr_t) 2;

/* The driver's cuDevicePrimaryCtxGetState(); NULL: there is none. */
static int (*context_state) (int device, unsigned *flags, int *active);

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

/* @return whether all is well so far */
static bool
note (struct gpu *gpu, cudaError_t error, const char *call)
{
    if (error && !gpu->error) {
        gpu->error = error;
        gpu->call = call;
    }
    return !error;
}
#define NOTE(gpu, function, ...) note (gpu, function (__VA_ARGS__), #function)

/* ---- a call on a GPU, which leaves the thread's present device as it was ---- */

struct visit {
    struct gpu *gpu; /* locked; NULL: nothing can be done on it, because of: */
    cudaError_t error;
    const char *call;
    cudaStream_t stream;
    int before, now;
};

/* Setting a device makes a context there, which costs memory and which exclusive GPUs refuse to a second process.  So
 * a thread whose device has none yet stays on this one. */
static void
restore (const struct visit *visit)
{
    unsigned flags;
    int active;
    if (visit->before == visit->now)
        return;
    if (!context_state || context_state (visit->before, &flags, &active) || active)
        cudaSetDevice (visit->before);
}

static void
prepare (struct gpu *gpu)
{
    NOTE (gpu, cudaMalloc, (void **) &gpu->scratch, CUDA_SCRATCH);
    for (int i = 0; i < STAGES; i++) {
        NOTE (gpu, cudaHostAlloc, (void **) &gpu->stages[i].memory, STAGE_BYTES, cudaHostAllocDefault);
        NOTE (gpu, cudaEventCreateWithFlags, &gpu->stages[i].copied, cudaEventDisableTiming);
    }
    NOTE (gpu, cudaEventCreateWithFlags, &gpu->ordered, cudaEventDisableTiming);
    gpu->is_ready = true;
}

/* Threads with a stream each work on one device one after the other: what they share there has one order. */
static void
follow (struct gpu *gpu)
{
    if (gpu->last != own_number ())
        NOTE (gpu, cudaStreamWaitEvent, PER_THREAD, gpu->ordered, 0);
    gpu->last = own_number ();
}

/* CUDA keeps the last error by thread, not by GPU: what is there at the beginning is none of this GPU's. */
static struct visit
enter (DLDevice device)
{
    struct visit visit = { .now = device.device_id };
    if (device.device_id < 0 || device.device_id >= MOST_GPUS)
        return visit;
    pthread_once (&once, begin);
    struct gpu *gpu = &gpus[device.device_id];
    pthread_mutex_lock (&gpu->lock);
    cudaGetLastError (); /* of others */
    bool moves = !gpu->error && NOTE (gpu, cudaGetDevice, &visit.before) && visit.before != visit.now;
    if (moves)
        NOTE (gpu, cudaSetDevice, visit.now);
    if (!gpu->error && !gpu->is_ready)
        prepare (gpu);
    if (!gpu->error && gpu->stream == PER_THREAD)
        follow (gpu);
    if (!gpu->error) {
        visit.gpu = gpu;
        visit.stream = gpu->stream;
        return visit;
    }
    visit.error = gpu->error;
    visit.call = gpu->call;
    if (moves)
        restore (&visit);
    cudaGetLastError (); /* nor is it another one's */
    pthread_mutex_unlock (&gpu->lock);
    return visit;
}

static void
leave (struct visit *visit)
{
    if (!visit->gpu)
        return;
    NOTE (visit->gpu, cudaGetLastError); /* of launches */
    if (visit->gpu->stream == PER_THREAD && !visit->gpu->error)
        NOTE (visit->gpu, cudaEventRecord, visit->gpu->ordered, PER_THREAD);
    restore (visit);
    pthread_mutex_unlock (&visit->gpu->lock);
}
#define VISIT(device)                                                             \
    __attribute__ ((cleanup (leave))) struct visit visit = enter (device); \
    struct gpu *gpu = visit.gpu;                                                  \
    __attribute__ ((unused)) cudaStream_t const stream = visit.stream

static enum accel_status
fail_of (const struct visit *visit, DLDevice device, struct accel_error *err)
{
    if (device.device_id < 0 || device.device_id >= MOST_GPUS)
        return helper->fail (err, ACCEL_ERR_INVALID, "cuda:%d does not exist", (int) device.device_id);
    cudaError_t error = visit->gpu ? visit->gpu->error : visit->error;
    if (error == NOT_CUDA)
        return helper->fail (err, ACCEL_ERR_SYSTEM, "cuda:%d: %s", (int) device.device_id,
                             visit->gpu ? visit->gpu->call : visit->call);
    enum accel_status status = error == cudaErrorMemoryAllocation ? ACCEL_ERR_NOMEM : ACCEL_ERR_SYSTEM;
    return helper->fail (err, status, "cuda:%d: %s: %s (%s)", (int) device.device_id,
                         visit->gpu ? visit->gpu->call : visit->call, cudaGetErrorString (error),
                         cudaGetErrorName (error));
}

/* After calls without the lock, because they may wait for all that runs on the GPU, also for a collective whose other
 * ranks have died: threads that would notice that must not wait for the lock. */
static void
lock_again (struct gpu *gpu)
{
    pthread_mutex_lock (&gpu->lock);
    if (!gpu->error && gpu->stream == PER_THREAD)
        follow (gpu);
}

bool
gpu_call (DLDevice device, bool may_wait, gpu_calls *calls, void *user)
{
    const char *name = NULL;
    VISIT (device);
    if (gpu && may_wait)
        pthread_mutex_unlock (&gpu->lock);
    cudaError_t error = gpu ? calls (user, stream, &name) : cudaSuccess;
    if (gpu && may_wait)
        lock_again (gpu);
    return gpu && note (gpu, error, name);
}

/* ---- memory ---- */

/* In whole words, so that an atomic operation on a byte has one. */
static void *
create (DLDevice device, size_t bytes, bool zeroed)
{
    VISIT (device);
    void *memory = NULL;
    size_t whole = bytes / 16 * 16 + 16;
    if (!gpu || whole < bytes)
        return NULL;
    pthread_mutex_unlock (&gpu->lock);
    cudaError_t error = cudaMalloc (&memory, whole);
    lock_again (gpu);
    if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError (); /* the caller is told, and may go on */
        return NULL;
    }
    if (note (gpu, error, "cudaMalloc") && zeroed)
        NOTE (gpu, cudaMemsetAsync, memory, 0, whole, gpu->stream);
    return memory;
}

static void
destroy (DLDevice device, void *memory)
{
    VISIT (device);
    if (!gpu || !memory)
        return;
    pthread_mutex_unlock (&gpu->lock);
    cudaError_t error = cudaFree (memory);
    lock_again (gpu);
    note (gpu, error, "cudaFree");
}

static void
copy (DLDevice device, void *to, const void *from, size_t bytes)
{
    VISIT (device);
    if (gpu && bytes)
        NOTE (gpu, cudaMemcpyAsync, to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}

static void
zero (DLDevice device, void *to, size_t bytes)
{
    VISIT (device);
    if (gpu && bytes)
        NOTE (gpu, cudaMemsetAsync, to, 0, bytes, stream);
}

static struct stage *
take_stage (struct gpu *gpu)
{
    struct stage *stage = &gpu->stages[gpu->next_stage++ % STAGES];
    NOTE (gpu, cudaEventSynchronize, stage->copied);
    return stage;
}

/* Through pinned memory: one piece is on its way while the host copies the one before.  @return whether all is well */
static bool
read_pieces (struct gpu *gpu, char *to, const char *from, size_t bytes)
{
    cudaStream_t const stream = gpu->stream;
    const struct stage *former = NULL;
    for (size_t at = 0; at < bytes || former; at += STAGE_BYTES) {
        struct stage *stage = at < bytes ? take_stage (gpu) : NULL;
        if (stage) {
            size_t some = bytes - at < STAGE_BYTES ? bytes - at : STAGE_BYTES;
            NOTE (gpu, cudaMemcpyAsync, stage->memory, from + at, some, cudaMemcpyDeviceToHost, stream);
            NOTE (gpu, cudaEventRecord, stage->copied, stream);
        }
        if (former && stage)
            NOTE (gpu, cudaEventSynchronize, former->copied);
        else if (former)
            NOTE (gpu, cudaStreamSynchronize, stream);
        if (!note (gpu, cudaGetLastError (), "a kernel") || gpu->error)
            return false;
        size_t before = at - STAGE_BYTES;
        if (former)
            memcpy (to + before, former->memory, bytes - before < STAGE_BYTES ? bytes - before : STAGE_BYTES);
        former = stage;
    }
    return true;
}

static enum accel_status
read_bytes (DLDevice device, void *to, const void *from, size_t bytes, struct accel_error *err)
{
    VISIT (device);
    if (!gpu || !read_pieces (gpu, to, from, bytes))
        return fail_of (&visit, device, err);
    return ACCEL_OK;
}

/* The host's memory may be used again at once. */
static void
write_bytes (DLDevice device, void *to, const void *from, size_t bytes)
{
    VISIT (device);
    for (size_t at = 0; gpu && !gpu->error && at < bytes; at += STAGE_BYTES) {
        size_t some = bytes - at < STAGE_BYTES ? bytes - at : STAGE_BYTES;
        struct stage *stage = take_stage (gpu);
        memcpy (stage->memory, (const char *) from + at, some);
        NOTE (gpu, cudaMemcpyAsync, (char *) to + at, stage->memory, some, cudaMemcpyHostToDevice, stream);
        NOTE (gpu, cudaEventRecord, stage->copied, stream);
    }
}

/* Strides in elements; those of a contiguous tensor if it has none. */
static void
strides_of (const DLTensor *tensor, int64_t *strides)
{
    int64_t next = 1;
    for (int i = tensor->ndim; i-- > 0;) {
        strides[i] = tensor->strides ? tensor->strides[i] : next;
        next *= tensor->shape[i];
    }
}

static void
copy_tensor (const DLTensor *to, const DLTensor *from)
{
    struct cuda_layout layout = { .ndim = from->ndim };
    size_t bytes = from->dtype.bits / 8, count = 1;
    for (int i = 0; i < from->ndim; i++) {
        layout.shape[i] = from->shape[i];
        count *= (size_t) from->shape[i];
    }
    if (!count)
        return;
    if (!to->strides && !from->strides) {
        copy (from->device, memory_data (to), memory_data (from), count * bytes);
        return;
    }
    strides_of (to, layout.to);
    strides_of (from, layout.from);
    VISIT (from->device);
    if (gpu)
        cuda_copy_layout (memory_data (to), memory_data (from), &layout, bytes, stream);
}

/* Also of a GPU that does not exist, on which nothing can be queued.  Where each thread has a stream, that of this one
 * now comes after what libaccel has queued on others, and what libaccel queues on others comes after it.  Without the
 * lock otherwise: whoever has it may be waiting for the GPU. */
static void *
stream_of (DLDevice device)
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

/* What has been queued comes before what is queued on the new stream.  The second record is refused if the stream is
 * another GPU's.  None of these errors is one of the GPU: the former stream stays. */
static enum accel_status
set_stream (DLDevice device, void *given, struct accel_error *err)
{
    cudaStream_t next = given ? given : LEGACY;
    VISIT (device);
    if (!gpu)
        return fail_of (&visit, device, err);
    if (next == stream)
        return ACCEL_OK;
    cudaError_t error = cudaEventRecord (gpu->ordered, stream);
    if (!error)
        error = cudaStreamWaitEvent (next, gpu->ordered, 0);
    if (!error)
        error = cudaEventRecord (gpu->ordered, next);
    if (!error) {
        gpu->stream = next;
        gpu->last = own_number ();
        return ACCEL_OK;
    }
    cudaGetLastError ();
    return helper->fail (err, ACCEL_ERR_SYSTEM, "cuda:%d: the stream cannot be used: %s (%s)", (int) device.device_id,
                         cudaGetErrorString (error), cudaGetErrorName (error));
}

/* ---- what training computes ---- */

static void
scale (DLDevice device, void *values, enum accel_dtype dtype, size_t count, double factor)
{
    VISIT (device);
    if (gpu)
        cuda_scale (values, dtype, count, factor, stream);
}

static void
clamp (DLDevice device, void *values, enum accel_dtype dtype, size_t count, float limit)
{
    VISIT (device);
    if (gpu)
        cuda_clamp (values, dtype, count, limit, stream);
}

static void
add (DLDevice device, float *target, const float *source, size_t count)
{
    VISIT (device);
    if (gpu)
        cuda_add (target, source, count, stream);
}

static void
unscale (DLDevice device, void *values, enum accel_dtype dtype, size_t count, float factor, uint8_t *found)
{
    VISIT (device);
    if (gpu)
        cuda_unscale (values, dtype, count, factor, found, stream);
}

static void
norm (DLDevice device, const void *values, enum accel_dtype dtype, size_t count, float factor, double p, float *result)
{
    VISIT (device);
    if (gpu)
        cuda_norm (values, dtype, count, factor, p, result, gpu->scratch, stream);
}

static size_t
find_nonfinite (DLDevice device, const void *values, enum accel_dtype dtype, size_t count, float *value)
{
    struct cuda_place place;
    VISIT (device);
    if (!gpu)
        return SIZE_MAX;
    cuda_find_nonfinite (values, dtype, count, (struct cuda_place *) (void *) (gpu->scratch + PLACE), stream);
    if (!read_pieces (gpu, (char *) &place, gpu->scratch + PLACE, sizeof place) || place.index >= count)
        return SIZE_MAX;
    *value = place.value;
    return (size_t) place.index;
}

static void
update (DLDevice device, const struct memory_update *given)
{
    struct cuda_update made = {
        .rule = given->rule,
        .numbers = *given->numbers,
        .parameter = given->parameter,
        .grad = given->grad,
        .grad_dtype = given->grad_dtype,
        .factor = given->factor,
        .narrow = given->narrow,
        .narrow_dtype = given->narrow_dtype,
        .count = given->count,
    };
    memcpy (made.state, given->state, sizeof made.state);
    VISIT (device);
    if (gpu)
        cuda_update (&made, stream);
}

static void
widen (DLDevice device, float *to, const void *from, enum accel_dtype dtype, size_t count, float factor)
{
    VISIT (device);
    if (gpu)
        cuda_widen (to, from, dtype, count, factor, stream);
}

static void
narrow (DLDevice device, void *to, enum accel_dtype dtype, const float *from, size_t count)
{
    VISIT (device);
    if (gpu)
        cuda_narrow (to, dtype, from, count, 1, false, stream);
}

static float
narrow_scaled (DLDevice device, void *to, enum accel_dtype dtype, const float *from, size_t count)
{
    unsigned bits;
    VISIT (device);
    if (!gpu)
        return 1;
    unsigned *largest = (unsigned *) (void *) (gpu->scratch + PLACE);
    NOTE (gpu, cudaMemsetAsync, largest, 0, sizeof *largest, stream);
    cuda_largest (from, count, largest, stream);
    if (!read_pieces (gpu, (char *) &bits, (const char *) largest, sizeof bits))
        return 1;
    float scaled_by = cuda_scale_of (bits, dtype);
    cuda_narrow (to, dtype, from, count, 1 / scaled_by, true, stream);
    return scaled_by;
}

static void
convert (DLDevice device, void *to, enum accel_dtype to_dtype, const void *from, enum accel_dtype from_dtype,
         size_t count, float divisor)
{
    VISIT (device);
    if (gpu)
        cuda_convert (to, to_dtype, from, from_dtype, count, divisor, stream);
}

static void
multiply (DLDevice device, float *p, const float *values, const float *q, size_t n, size_t m, size_t rank)
{
    VISIT (device);
    if (gpu)
        cuda_multiply (p, values, q, n, m, rank, stream);
}

static void
multiply_transposed (DLDevice device, float *q, const float *values, const float *p, size_t n, size_t m, size_t rank)
{
    VISIT (device);
    if (gpu)
        cuda_multiply_transposed (q, values, p, n, m, rank, stream);
}

static void
expand (DLDevice device, float *values, float *error, const float *p, const float *q, size_t n, size_t m, size_t rank)
{
    VISIT (device);
    if (gpu)
        cuda_expand (values, error, p, q, n, m, rank, stream);
}

static void
orthogonalise (DLDevice device, float *columns, size_t rows, size_t rank, size_t j, bool *good)
{
    unsigned answer = 0;
    VISIT (device);
    if (gpu) {
        unsigned *place = (unsigned *) (void *) (gpu->scratch + PLACE);
        cuda_orthogonalise (columns, rows, rank, j, place, stream);
        if (good && !read_pieces (gpu, (char *) &answer, (const char *) place, sizeof answer))
            answer = 0;
    }
    if (good)
        *good = answer;
}

/* ---- products by cuBLAS ---- */

static enum accel_status
open_products (DLDevice device, struct accel_error *err)
{
    VISIT (device);
    if (!gpu)
        return fail_of (&visit, device, err);
    const char *reason = cublas_open (&gpu->cublas);
    return reason ? helper->fail (err, ACCEL_ERR_UNSUPPORTED, "cuda:%d: cannot use cuBLAS: %s",
                                  (int) device.device_id, reason)
                  : ACCEL_OK;
}

/* cuBLAS counts in int. */
static bool
multiply_by_cublas (DLDevice device, bool transposed, float *result, const float *values, const float *right, size_t n,
                    size_t m, size_t rank)
{
    if (!n || !m || !rank || n > INT_MAX || m > INT_MAX || rank > INT_MAX)
        return false;
    VISIT (device);
    if (!gpu)
        return true;
    const char *failed = cublas_multiply (&gpu->cublas, transposed, result, values, right, n, m, rank, stream);
    if (failed)
        note (gpu, NOT_CUDA, failed);
    return true;
}

static bool
products_multiply (DLDevice device, float *p, const float *values, const float *q, size_t n, size_t m, size_t rank)
{
    return multiply_by_cublas (device, false, p, values, q, n, m, rank);
}

static bool
products_multiply_transposed (DLDevice device, float *q, const float *values, const float *p, size_t n, size_t m,
                              size_t rank)
{
    return multiply_by_cublas (device, true, q, values, p, n, m, rank);
}

static const struct memory_products products_cuda = {
    .open = open_products,
    .multiply = products_multiply,
    .multiply_transposed = products_multiply_transposed,
};

/* ---- many arrays at once ---- */

/* @return NULL: the list cannot be had at once, or, if the GPU has failed, not at all */
static const struct cuda_table *
have_table (struct gpu *gpu, struct memory_list *list, cudaStream_t stream)
{
    cudaError_t error;
    const char *call = "";
    const struct cuda_table *table = tables_have (list, stream, &error, &call);
    note (gpu, error, call);
    return table;
}

/* What a function for a list begins with: a table, or its end. */
#define VISIT_LIST(device, list)                                                \
    tables_make_room (device, list);                                            \
    VISIT (device);                                                             \
    const struct cuda_table *table = gpu ? have_table (gpu, list, stream) : NULL; \
    if (!table)                                                                 \
        return !gpu || gpu->error

static bool
list_zero (DLDevice device, struct memory_list *list)
{
    VISIT_LIST (device, list);
    cuda_list_zero (table, stream);
    return true;
}

static bool
list_unscale (DLDevice device, struct memory_list *list, float factor, uint8_t *found)
{
    VISIT_LIST (device, list);
    cuda_list_unscale (table, factor, found, stream);
    return true;
}

static bool
list_norm (DLDevice device, struct memory_list *list, float factor, double p, float *results)
{
    VISIT_LIST (device, list);
    return cuda_list_norm (table, factor, p, results, stream);
}

static bool
list_scale (DLDevice device, struct memory_list *list, float factor, const float *place, bool only_float32)
{
    VISIT_LIST (device, list);
    cuda_list_scale (table, factor, place, only_float32, stream);
    return true;
}

static bool
list_clamp (DLDevice device, struct memory_list *list, float limit, float half_limit)
{
    VISIT_LIST (device, list);
    cuda_list_clamp (table, limit, half_limit, stream);
    return true;
}

static bool
same_numbers (const struct rule_numbers *a, const struct rule_numbers *b)
{
    return !memcmp (a, b, offsetof (struct rule_numbers, nesterov)) && a->nesterov == b->nesterov;
}

/* Neighbours with the same numbers are one launch. */
static bool
list_update (DLDevice device, struct memory_list *list, const struct memory_rule *rules, float factor)
{
    VISIT_LIST (device, list);
    for (size_t i = 0, end; i < list->count; i = end) {
        const struct memory_rule *rule = &rules[list->items[i].group];
        for (end = i + 1; end < list->count; end++) {
            const struct memory_rule *other = &rules[list->items[end].group];
            if (other != rule && (other->rule != rule->rule || !same_numbers (other->numbers, rule->numbers)))
                break;
        }
        cuda_list_update (table, (unsigned) i, (unsigned) (end - i), rule->rule, rule->numbers, factor, stream);
    }
    return true;
}

static bool
list_narrow (DLDevice device, struct memory_list *list)
{
    VISIT_LIST (device, list);
    cuda_list_narrow (table, stream);
    return true;
}

static bool
list_narrow_scaled (DLDevice device, struct memory_list *list, float *scales)
{
    VISIT_LIST (device, list);
    cuda_list_narrow_scaled (table, scales, stream);
    return true;
}

static void
clip_factor (DLDevice device, const float *norms, size_t count, double p, float most, float *factor)
{
    VISIT (device);
    if (gpu)
        cuda_clip_factor (norms, count, p, most, factor, stream);
}

static const struct memory_lists lists_cuda = {
    .release = tables_release,
    .zero = list_zero,
    .unscale = list_unscale,
    .norm = list_norm,
    .scale = list_scale,
    .clamp = list_clamp,
    .update = list_update,
    .narrow = list_narrow,
    .narrow_scaled = list_narrow_scaled,
    .clip_factor = clip_factor,
};

static const struct memory memory_cuda = {
    .create = create,
    .destroy = destroy,
    .copy = copy,
    .zero = zero,
    .read = read_bytes,
    .write = write_bytes,
    .copy_tensor = copy_tensor,
    .stream = stream_of,
    .set_stream = set_stream,
    .lanes = &lanes_cuda,
    .scale = scale,
    .clamp = clamp,
    .add = add,
    .unscale = unscale,
    .norm = norm,
    .find_nonfinite = find_nonfinite,
    .update = update,
    .widen = widen,
    .narrow = narrow,
    .narrow_scaled = narrow_scaled,
    .convert = convert,
    .multiply = multiply,
    .multiply_transposed = multiply_transposed,
    .expand = expand,
    .orthogonalise = orthogonalise,
    .lists = &lists_cuda,
    .products = &products_cuda,
};

/* ---- which GPU ---- */

/* CUDA has sorted out CUDA_VISIBLE_DEVICES: indices, UUIDs and MIG instances.  What is left counts from 0; more ranks
 * than GPUs share them. */
static enum accel_status
choose (const struct device_helpers *helpers, int local_rank, int *device, struct accel_error *err)
{
    const char *visible = getenv ("CUDA_VISIBLE_DEVICES");
    int count = 0;
    if (!helper) /* the first call is the only one that no other can overlap */
        helper = helpers;
    cudaError_t error = cudaGetDeviceCount (&count);
    if (error || count < 1) {
        cudaGetLastError ();
        return helpers->fail (err, ACCEL_ERR_UNSUPPORTED, "no GPU can be used: %s%s%.80s",
                              error ? cudaGetErrorString (error) : "none is visible",
                              visible ? "; CUDA_VISIBLE_DEVICES=" : "", visible ? visible : "");
    }
    *device = local_rank % count;
    return ACCEL_OK;
}

__attribute__ ((visibility ("default"))) extern const struct device_module accel_device;
const struct device_module accel_device = {
    .release = PACKAGE_VERSION,
    .memory_size = sizeof (struct memory),
    .memory = &memory_cuda,
    .choose = choose,
};
