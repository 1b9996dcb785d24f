/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays of floats: multiplied, clamped, looked at and converted. */
#include "cuda/elements.h"
#include "cuda/portable.h"
#include "lib/base/tensor.h"
#include "lib/kernels/floats_element.h"

__global__ void
scale_kernel (void *__restrict__ values, enum accel_dtype dtype, size_t count, float factor)
{
    change_floats (WHOLE_GRID, values, dtype, count, [=] (float value) { return value * factor; });
}

__global__ void
scale_double_kernel (double *__restrict__ values, size_t count, double factor)
{
    constexpr unsigned N = PACKED<double>, U = IN_FLIGHT<N>;
    for_packs<N, U> (WHOLE_GRID, count, is_packed (values, sizeof *values, N), [&] (auto some, size_t i) {
        pack<double, N> each[some.count];
        UNROLL for (unsigned u = 0; u < some.count; u++)
            each[u] = pack_load<N> (values, i + u * PACK_STEP<N>);
        UNROLL for (unsigned u = 0; u < some.count; u++) {
            UNROLL for (unsigned k = 0; k < N; k++)
                each[u].at[k] *= factor;
            pack_store (values, i + u * PACK_STEP<N>, each[u]);
        }
    }, [&] (size_t i) { values[i] *= factor; });
}

__global__ void
clamp_kernel (void *__restrict__ values, enum accel_dtype dtype, size_t count, float limit)
{
    change_floats (WHOLE_GRID, values, dtype, count, [=] (float value) { return float_clamp (value, limit); });
}

__global__ void
add_kernel (float *__restrict__ target, const float *__restrict__ source, size_t count)
{
    constexpr unsigned N = PACKED<float>, U = IN_FLIGHT<N>;
    bool packed = is_packed (target, sizeof *target, N) && is_packed (source, sizeof *source, N);
    for_packs<N, U> (WHOLE_GRID, count, packed, [&] (auto some, size_t i) {
        pack<float, N> into[some.count], from[some.count];
        UNROLL for (unsigned u = 0; u < some.count; u++) {
            into[u] = pack_load<N> (target, i + u * PACK_STEP<N>);
            from[u] = pack_load<N> (source, i + u * PACK_STEP<N>);
        }
        UNROLL for (unsigned u = 0; u < some.count; u++) {
            UNROLL for (unsigned k = 0; k < N; k++)
                into[u].at[k] += from[u].at[k];
            pack_store (target, i + u * PACK_STEP<N>, into[u]);
        }
    }, [&] (size_t i) { target[i] += source[i]; });
}

/* One atomic for each block that has found something: word is where the byte of bit is. */
__device__ static inline void
tell_found (bool found, unsigned *word, unsigned bit)
{
    SHARED (unsigned, any, [1]);
    if (threadIdx.x == 0)
        any[0] = 0;
    __syncthreads ();
    if (found)
        atomicOr (&any[0], 1U);
    __syncthreads ();
    if (threadIdx.x == 0 && any[0])
        atomicOr (word, bit);
}

__global__ void
unscale_kernel (float *__restrict__ values, size_t count, float factor, unsigned *__restrict__ word, unsigned bit)
{
    bool found = false;
    change_each<float_FLOAT32, float_FLOAT32> (WHOLE_GRID, values, values, count, [&] (float value) {
        found |= float_is_nonfinite (value) != 0;
        return value * factor;
    });
    tell_found (found, word, bit);
}

__global__ void
look_kernel (const uint16_t *__restrict__ values, size_t count, uint16_t mask, unsigned *__restrict__ word,
             unsigned bit)
{
    bool found = false;
    look_at_each (WHOLE_GRID, values, count,
                  [&] (size_t, uint16_t value) { found |= half_is_nonfinite (value, mask) != 0; });
    tell_found (found, word, bit);
}

__global__ void
find_kernel (const void *__restrict__ values, enum accel_dtype dtype, size_t count, struct cuda_place *place)
{
    unsigned long long first = ~0ULL;
    with_float (dtype, [&] (auto f) {
        typedef typename decltype (f)::type type;
        look_at_each (WHOLE_GRID, (const type *) values, count, [&] (size_t i, type value) {
            if (float_is_nonfinite (f.widen (value)) && i < first)
                first = i;
        });
    });
    if (first != ~0ULL)
        atomicMin (&place->index, first);
}

__global__ void
value_kernel (const void *__restrict__ values, enum accel_dtype dtype, struct cuda_place *place)
{
    if (blockIdx.x == 0 && threadIdx.x == 0 && place->index != ~0ULL)
        place->value = element_load (values, dtype, place->index);
}

__global__ void
widen_kernel (float *__restrict__ to, const void *__restrict__ from, enum accel_dtype dtype, size_t count,
              float factor)
{
    with_float (dtype, [&] (auto f) {
        typedef decltype (f) type;
        change_each<float_FLOAT32, type> (WHOLE_GRID, to, (const typename type::type *) from, count,
                                          [=] (float value) { return factor == 1 ? value : value * factor; });
    });
}

__global__ void
narrow_kernel (void *__restrict__ to, enum accel_dtype dtype, const float *__restrict__ from, size_t count,
               float factor, float limit)
{
    narrow_floats (WHOLE_GRID, to, dtype, from, count,
                   [=] (float value) { return float_clamp (factor == 1 ? value : value * factor, limit); });
}

__global__ void
largest_kernel (const float *__restrict__ values, size_t count, unsigned *__restrict__ bits)
{
    SHARED (unsigned, block, [1]);
    unsigned most = 0;
    if (threadIdx.x == 0)
        block[0] = 0;
    __syncthreads ();
    look_at_each (WHOLE_GRID, values, count, [&] (size_t, float value) {
        unsigned size = bits_of (value) & 0x7fffffffU;
        most = size > most ? size : most;
    });
    atomicMax (&block[0], most);
    __syncthreads ();
    if (threadIdx.x == 0)
        atomicMax (bits, block[0]);
}

/* Rounded before they are divided. */
template <unsigned N, unsigned U> __device__ static inline void
divide_rounded (float (&values)[U][N], enum accel_dtype dtype, float divisor)
{
    with_float (dtype, [&] (auto f) {
        UNROLL for (unsigned u = 0; u < U; u++)
            UNROLL for (unsigned k = 0; k < N; k++)
                values[u][k] = f.widen (f.narrow (values[u][k])) / divisor;
    });
}

/* In place, too: each thread reads its elements before it writes them. */
__global__ void
convert_kernel (void *to, enum accel_dtype to_dtype, const void *from, enum accel_dtype from_dtype, size_t count,
                float divisor)
{
    constexpr unsigned N = PACKED<float>, U = IN_FLIGHT<N>;
    bool packed = is_packed (to, element_bytes (to_dtype), N) && is_packed (from, element_bytes (from_dtype), N);
    for_packs<N, U> (WHOLE_GRID, count, packed, [&] (auto some, size_t i) {
        float values[some.count][N];
        load_floats (values, from, from_dtype, i);
        if (divisor != 1)
            divide_rounded (values, to_dtype, divisor);
        store_floats (to, to_dtype, i, values);
    }, [&] (size_t i) {
        float value[1][1] = { { element_load (from, from_dtype, i) } };
        if (divisor != 1)
            divide_rounded (value, to_dtype, divisor);
        element_store (to, to_dtype, i, value[0][0]);
    });
}

extern "C" void
cuda_scale (void *values, enum accel_dtype dtype, size_t count, double factor, void *stream)
{
    if (!count)
        return;
    if (dtype == ACCEL_FLOAT64)
        LAUNCH (scale_double_kernel, cuda_blocks (count), stream, (double *) values, count, factor);
    else
        LAUNCH (scale_kernel, cuda_blocks (count), stream, values, dtype, count, (float) factor);
}

extern "C" void
cuda_clamp (void *values, enum accel_dtype dtype, size_t count, float limit, void *stream)
{
    if (count)
        LAUNCH (clamp_kernel, cuda_blocks (count), stream, values, dtype, count, limit);
}

extern "C" void
cuda_add (float *target, const float *source, size_t count, void *stream)
{
    if (count)
        LAUNCH (add_kernel, cuda_blocks (count), stream, target, source, count);
}

extern "C" void
cuda_unscale (void *values, enum accel_dtype dtype, size_t count, float factor, uint8_t *found, void *stream)
{
    unsigned place = (unsigned) ((uintptr_t) found & 3), bit = 1U << 8 * place; /* GPUs are little-endian */
    unsigned *word = (unsigned *) (void *) (found - place);
    if (!count)
        return;
    if (dtype == ACCEL_FLOAT32)
        LAUNCH (unscale_kernel, cuda_blocks (count), stream, (float *) values, count, factor, word, bit);
    else
        LAUNCH (look_kernel, cuda_blocks (count), stream, (const uint16_t *) values, count,
                element_infinity (dtype), word, bit);
}

extern "C" void
cuda_find_nonfinite (const void *values, enum accel_dtype dtype, size_t count, struct cuda_place *place, void *stream)
{
    cudaMemsetAsync (place, 0xff, sizeof *place, (cudaStream_t) stream);
    if (!count)
        return;
    LAUNCH (find_kernel, cuda_blocks (count), stream, values, dtype, count, place);
    LAUNCH (value_kernel, 1, stream, values, dtype, place);
}

extern "C" void
cuda_widen (float *to, const void *from, enum accel_dtype dtype, size_t count, float factor, void *stream)
{
    if (count)
        LAUNCH (widen_kernel, cuda_blocks (count), stream, to, from, dtype, count, factor);
}

extern "C" void
cuda_narrow (void *to, enum accel_dtype dtype, const float *from, size_t count, float factor, bool saturate,
             void *stream)
{
    float limit = saturate ? dtype_limit (dtype) : INFINITY;
    if (count)
        LAUNCH (narrow_kernel, cuda_blocks (count), stream, to, dtype, from, count, factor, limit);
}

extern "C" void
cuda_largest (const float *values, size_t count, unsigned *bits, void *stream)
{
    if (count)
        LAUNCH (largest_kernel, cuda_blocks (count), stream, values, count, bits);
}

extern "C" float
cuda_scale_of (unsigned largest_bits, enum accel_dtype dtype)
{
    return scale_of_largest (float_of (largest_bits), dtype_limit (dtype));
}

extern "C" void
cuda_convert (void *to, enum accel_dtype to_dtype, const void *from, enum accel_dtype from_dtype, size_t count,
              float divisor, void *stream)
{
    if (!count)
        return;
    if (to_dtype != from_dtype || divisor != 1)
        LAUNCH (convert_kernel, cuda_blocks (count), stream, to, to_dtype, from, from_dtype, count, divisor);
    else if (to != from)
        cudaMemcpyAsync (to, from, count * tensor_dtype_bytes (to_dtype), cudaMemcpyDeviceToDevice,
                         (cudaStream_t) stream);
}

/* ---- which GPUs ---- */

#ifndef __CUDA_ARCH_LIST__ /* a compiler for the host */
#define __CUDA_ARCH_LIST__ 800, 860, 890, 900, 1000, 1200
#endif

/* Code is for the minor numbers of one major number from its own on; newer GPUs take the PTX of the last. */
extern "C" bool
cuda_has_kernels (int major, int minor)
{
    static const int compiled[] = { __CUDA_ARCH_LIST__ };
    int wanted = 100 * major + 10 * minor, last = 0;
    for (int one : compiled) {
        if (one / 100 == major && one <= wanted)
            return true;
        last = one > last ? one : last;
    }
    return last <= wanted;
}
