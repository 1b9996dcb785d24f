/* SPDX-License-Identifier: Apache-2.0 */
/* The module accel_device_cuda.so: struct memory for tensors on NVIDIA GPUs.  What is queued on a GPU goes to the
 * stream on which the program's own work runs, so that both have one order. */
#include <config.h>

#include "cuda/cublas.h"
#include "cuda/gpu.h"
#include "cuda/kernels.h"
#include "cuda/tables.h"
#include "lib/memory/device.h"
#include "lib/memory/lists.h"
#include "lib/memory/memory.h"

#include <cuda_runtime_api.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { PLACE = CUDA_SCRATCH / 2 }; /* where in scratch memory kernels leave numbers for the host */

/* ---- memory ---- */

/* In whole words, so that an atomic operation on a byte has one. */
static void *
create (DLDevice device, size_t bytes, bool zeroed)
{
    VISIT (device);
    size_t whole = bytes / 16 * 16 + 16;
    void *memory = gpu && whole > bytes ? gpu_allocate (&visit, whole) : NULL;
    if (memory && zeroed)
        NOTE (gpu, cudaMemsetAsync, memory, 0, whole, gpu->stream);
    return memory;
}

static void
copy (DLDevice device, void *to, const void *from, size_t bytes)
{
    VISIT_IN_GRAPH (device);
    if (gpu && bytes)
        NOTE (gpu, cudaMemcpyAsync, to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}

static void
zero (DLDevice device, void *to, size_t bytes)
{
    VISIT_IN_GRAPH (device);
    if (gpu && bytes)
        NOTE (gpu, cudaMemsetAsync, to, 0, bytes, stream);
}

static void
copy_unless (DLDevice device, void *to, const void *from, size_t bytes, const uint8_t *flag)
{
    VISIT (device);
    if (gpu && bytes)
        cuda_copy_unless (to, from, bytes, flag, stream);
}

static struct gpu_stage *
take_stage (struct gpu *gpu)
{
    struct gpu_stage *stage = &gpu->stages[gpu->next_stage++ % GPU_STAGES];
    NOTE (gpu, cudaEventSynchronize, stage->copied);
    return stage;
}

/* Through pinned memory: one piece is on its way while the host copies the one before.  @return whether all is well */
static bool
read_pieces (struct gpu *gpu, char *to, const char *from, size_t bytes)
{
    cudaStream_t const stream = gpu->stream;
    const struct gpu_stage *former = NULL;
    for (size_t at = 0; at < bytes || former; at += GPU_STAGE_BYTES) {
        struct gpu_stage *stage = at < bytes ? take_stage (gpu) : NULL;
        if (stage) {
            size_t some = bytes - at < GPU_STAGE_BYTES ? bytes - at : GPU_STAGE_BYTES;
            NOTE (gpu, cudaMemcpyAsync, stage->memory, from + at, some, cudaMemcpyDeviceToHost, stream);
            NOTE (gpu, cudaEventRecord, stage->copied, stream);
        }
        if (former && stage)
            NOTE (gpu, cudaEventSynchronize, former->copied);
        else if (former)
            NOTE (gpu, cudaStreamSynchronize, stream);
        if (!gpu_note (gpu, cudaGetLastError (), "a kernel") || gpu->error)
            return false;
        size_t before = at - GPU_STAGE_BYTES;
        if (former)
            memcpy (to + before, former->memory, bytes - before < GPU_STAGE_BYTES ? bytes - before : GPU_STAGE_BYTES);
        former = stage;
    }
    return true;
}

static enum accel_status
read_bytes (DLDevice device, void *to, const void *from, size_t bytes, struct accel_error *err)
{
    VISIT_AS (device, !bytes); /* only to ask for an error */
    if (!gpu || !read_pieces (gpu, to, from, bytes))
        return visit_fail (&visit, device, err);
    return ACCEL_OK;
}

/* The host's memory may be used again at once. */
static void
write_bytes (DLDevice device, void *to, const void *from, size_t bytes)
{
    VISIT (device);
    for (size_t at = 0; gpu && !gpu->error && at < bytes; at += GPU_STAGE_BYTES) {
        size_t some = bytes - at < GPU_STAGE_BYTES ? bytes - at : GPU_STAGE_BYTES;
        struct gpu_stage *stage = take_stage (gpu);
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
        cuda_norm (values, dtype, count, factor, p, result, visit.scratch, stream);
}

static size_t
find_nonfinite (DLDevice device, const void *values, enum accel_dtype dtype, size_t count, float *value)
{
    struct cuda_place place;
    VISIT (device);
    if (!gpu)
        return SIZE_MAX;
    cuda_find_nonfinite (values, dtype, count, (struct cuda_place *) (void *) (visit.scratch + PLACE), stream);
    if (!read_pieces (gpu, (char *) &place, visit.scratch + PLACE, sizeof place) || place.index >= count)
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
    unsigned *largest = (unsigned *) (void *) (visit.scratch + PLACE);
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
orthogonalise (DLDevice device, float *columns, size_t rows, size_t rank, size_t j, const uint64_t *seed)
{
    VISIT (device);
    if (gpu)
        cuda_orthogonalise (columns, rows, rank, j, seed, visit.scratch, stream);
}

/* ---- products by cuBLAS ---- */

static enum accel_status
open_products (DLDevice device, struct accel_error *err)
{
    VISIT (device);
    if (!gpu)
        return visit_fail (&visit, device, err);
    const char *reason = cublas_open (&gpu->cublas);
    return reason ? gpu_helper->fail (err, ACCEL_ERR_UNSUPPORTED, "cuda:%d: cannot use cuBLAS: %s",
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
        gpu_note (gpu, NOT_CUDA, failed);
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
    gpu_note (gpu, error, call);
    return table;
}

/* What a function for a list begins with: a table, or its end. */
#define VISIT_LIST(device, list)                                                \
    tables_make_room (device, list);                                            \
    VISIT_IN_GRAPH (device);                                                    \
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
list_unscale (DLDevice device, struct memory_list *list, struct memory_factor factor, uint8_t *found)
{
    VISIT_LIST (device, list);
    cuda_list_unscale (table, factor.value, factor.place, found, stream);
    return true;
}

static bool
list_norm (DLDevice device, struct memory_list *list, struct memory_factor factor, double p, float *results)
{
    VISIT_LIST (device, list);
    return cuda_list_norm (table, factor.value, factor.place, p, results, stream);
}

static bool
list_scale (DLDevice device, struct memory_list *list, struct memory_factor factor, bool only_float32)
{
    VISIT_LIST (device, list);
    cuda_list_scale (table, factor.value, factor.place, only_float32, stream);
    return true;
}

static bool
list_clamp (DLDevice device, struct memory_list *list, float limit, struct memory_factor half_divisor)
{
    VISIT_LIST (device, list);
    cuda_list_clamp (table, limit, half_divisor.value, half_divisor.place, stream);
    return true;
}

/* Neighbours with the same numbers are one launch, if the host knows the numbers. */
static bool
list_update (DLDevice device, struct memory_list *list, const struct memory_rule *rules, struct memory_factor factor,
             const struct rule_steps *steps)
{
    VISIT_LIST (device, list);
    for (size_t i = 0, end; i < list->count; i = end) {
        const struct memory_rule *rule = &rules[list->items[i].group];
        for (end = i + 1; end < list->count; end++) {
            const struct memory_rule *other = &rules[list->items[end].group];
            if (other != rule
                && (steps || other->rule != rule->rule || !rule_numbers_equal (other->numbers, rule->numbers)))
                break;
        }
        const struct cuda_list_step step = {
            .numbers = steps ? NULL : rule->numbers,
            .live = steps ? rule->numbers : NULL,
            .factor = factor.value,
            .place = factor.place,
            .skip = steps ? &steps->was_skipped : NULL,
        };
        cuda_list_update (table, (unsigned) i, (unsigned) (end - i), rule->rule, &step, stream);
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
clip_factor (DLDevice device, const float *norms, size_t count, double p, float most, float *factor, float *pending)
{
    VISIT_IN_GRAPH (device);
    if (gpu)
        cuda_clip_factor (norms, count, p, most, factor, pending, stream);
}

/* ---- numbers that only the GPU knows ---- */

static void
begin_step (DLDevice device, struct rule_steps *steps, struct rule_group *groups, size_t count, const uint8_t *found)
{
    VISIT_IN_GRAPH (device);
    if (gpu)
        cuda_begin_step (steps, groups, count, found, stream);
}

static void
note_scale (DLDevice device, const struct scaler_values *scaler, float *scale, float *inverse)
{
    VISIT_IN_GRAPH (device);
    if (gpu)
        cuda_note_scale (scaler, scale, inverse, stream);
}

static void
note_found (DLDevice device, struct scaler_values *scaler, const uint8_t *found, bool last,
            const struct scaler_factors *factors)
{
    VISIT_IN_GRAPH (device);
    if (gpu)
        cuda_note_found (scaler, found, last, factors, stream);
}

/* ---- a vocabulary that is divided ---- */

static void
find_largest (DLDevice device, const struct vocabulary_rows *rows)
{
    VISIT_IN_GRAPH (device);
    if (gpu)
        cuda_vocabulary_find_largest (rows, stream);
}

static void
add_up (DLDevice device, const struct vocabulary_rows *rows)
{
    VISIT_IN_GRAPH (device);
    if (gpu)
        cuda_vocabulary_add_up (rows, stream);
}

static void
finish (DLDevice device, const struct vocabulary_rows *rows)
{
    VISIT_IN_GRAPH (device);
    if (gpu)
        cuda_vocabulary_finish (rows, stream);
}

static void
look_up (DLDevice device, const struct vocabulary_tokens *tokens)
{
    VISIT_IN_GRAPH (device);
    if (gpu)
        cuda_vocabulary_look_up (tokens, stream);
}

static void
add_back (DLDevice device, const struct vocabulary_tokens *tokens)
{
    VISIT_IN_GRAPH (device);
    if (gpu)
        cuda_vocabulary_add_back (tokens, stream);
}

static const struct memory_vocabulary vocabulary_cuda = {
    .find_largest = find_largest,
    .add_up = add_up,
    .finish = finish,
    .look_up = look_up,
    .add_back = add_back,
};

static const struct memory_live live_cuda = {
    .begin_step = begin_step,
    .note_scale = note_scale,
    .note_found = note_found,
    .permit_capture = gpu_permit_capture,
};

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
    .destroy = gpu_free,
    .copy = copy,
    .zero = zero,
    .read = read_bytes,
    .write = write_bytes,
    .copy_unless = copy_unless,
    .copy_tensor = copy_tensor,
    .stream = gpu_stream,
    .copy_from = gpu_copy_from,
    .set_stream = gpu_set_stream,
    .order = gpu_order,
    .side_stream = gpu_side_stream,
    .use_side_stream = gpu_use_side_stream,
    .owns = gpu_owns,
    .copy_streams = &copy_streams_cuda,
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
    .live = &live_cuda,
    .products = &products_cuda,
    .vocabulary = &vocabulary_cuda,
};

/* ---- which GPU ---- */

/* Whether the machine just has no GPU, or no driver, or hides them.  Any other error is one that users should know. */
static bool
is_absence (cudaError_t error)
{
    int driver = 0;
    return !error || error == cudaErrorNoDevice
           || (error == cudaErrorInsufficientDriver && !cudaDriverGetVersion (&driver) && !driver);
}

static enum accel_status
check_kernels (int device, struct accel_error *err)
{
    int major, minor;
    cudaError_t earlier = cudaPeekAtLastError ();
    if (cudaDeviceGetAttribute (&major, cudaDevAttrComputeCapabilityMajor, device)
        || cudaDeviceGetAttribute (&minor, cudaDevAttrComputeCapabilityMinor, device)) {
        gpu_take_away (earlier); /* the first call on the device has that error, too */
        return ACCEL_OK;
    }
    if (cuda_has_kernels (major, minor))
        return ACCEL_OK;
    return gpu_helper->fail (err, ACCEL_ERR_SYSTEM,
                             "accel_device_cuda.so was not compiled for cuda:%d, whose compute capability is %d.%d: "
                             "configure libaccel with CUDA_ARCHITECTURES=%d%d, or choose other GPUs with "
                             "CUDA_VISIBLE_DEVICES",
                             device, major, minor, major, minor);
}

/* CUDA has sorted out CUDA_VISIBLE_DEVICES: indices, UUIDs and MIG instances.  What is left counts from 0; more ranks
 * than GPUs share them. */
static enum accel_status
choose (const struct device_helpers *helpers, int local_rank, int *device, struct accel_error *err)
{
    const char *visible = getenv ("CUDA_VISIBLE_DEVICES");
    int count = 0;
    if (!gpu_helper) /* the first call is the only one that no other can overlap */
        gpu_helper = helpers;
    cudaError_t earlier = cudaPeekAtLastError (), error = cudaGetDeviceCount (&count);
    if (error || count < 1) {
        bool absent = is_absence (error), has_own = earlier && earlier != error;
        gpu_take_away (earlier);
        return helpers->fail (err, absent ? ACCEL_ERR_UNSUPPORTED : ACCEL_ERR_SYSTEM,
                              "no GPU can be used: %s%s%.80s%s%s",
                              error ? cudaGetErrorString (error) : "none is visible",
                              visible ? "; CUDA_VISIBLE_DEVICES=" : "", visible ? visible : "",
                              has_own ? "; before, the program's own CUDA work failed: " : "",
                              has_own ? cudaGetErrorString (earlier) : "");
    }
    *device = local_rank % count;
    return check_kernels (*device, err);
}

__attribute__ ((visibility ("default"))) extern const struct device_module accel_device;
const struct device_module accel_device = {
    .release = PACKAGE_VERSION,
    .memory_size = sizeof (struct memory),
    .memory = &memory_cuda,
    .choose = choose,
};
