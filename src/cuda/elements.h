/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of arrays of any type of float, by the functions that the processor's loops use: one by one, or in packs
 * that lie together and are one access to memory.  All threads of a kernel take the same branch.
 *
 * Accesses of neighbours have to be neighbours, too, or memory moves bytes for nothing.  So packs of arrays that one
 * kernel goes through together have the same number of elements: 16 bytes of the widest type, fewer of the others. */
#ifndef CUDA_ELEMENTS_H
#define CUDA_ELEMENTS_H

#include "cuda/kernels.h"
#include "cuda/portable.h"
#include "lib/kernels/dtypes.h"
#include "lib/kernels/half_element.h"

/* ---- types of floats ---- */

/* Each has the type of its bits, and its functions. */
struct float_FLOAT32 {
    typedef float type;
    ELEMENT float
    widen (float value)
    {
        return value;
    }
    ELEMENT float
    narrow (float value)
    {
        return value;
    }
};
#define X(name, bits, widened, narrowed, limit) \
    struct float_##name {                       \
        typedef bits type;                      \
        ELEMENT float                           \
        widen (bits value)                      \
        {                                       \
            return widened (value);             \
        }                                       \
        ELEMENT bits                            \
        narrow (float value)                    \
        {                                       \
            return narrowed (value);            \
        }                                       \
    };
NARROW_FLOATS (X)
#undef X

/* Call @p what with the type of @p dtype: a branch before a loop instead of many in it. */
template <class WHAT> __device__ static inline void
with_float (enum accel_dtype dtype, WHAT what)
{
    if (dtype == ACCEL_FLOAT32)
        return what (float_FLOAT32 ());
#define X(name, bits, widened, narrowed, limit) \
    if (dtype == ACCEL_##name)                  \
        return what (float_##name ());
    NARROW_FLOATS (X)
#undef X
}

ELEMENT size_t
element_bytes (enum accel_dtype dtype)
{
#define X(name, bits, widened, narrowed, limit) dtype == ACCEL_##name ? sizeof (bits) :
    return NARROW_FLOATS (X) sizeof (float);
#undef X
}

/* ---- one by one ---- */

__device__ static inline float
element_load (const void *values, enum accel_dtype dtype, size_t i)
{
    float value = 0;
    with_float (dtype, [&] (auto f) { value = f.widen (((const typename decltype (f)::type *) values)[i]); });
    return value;
}

__device__ static inline void
element_store (void *values, enum accel_dtype dtype, size_t i, float value)
{
    with_float (dtype, [&] (auto f) { ((typename decltype (f)::type *) values)[i] = f.narrow (value); });
}

/* @return the bits of infinity in a 16-bit type, which are all those of the exponent. */
ELEMENT uint16_t
element_infinity (enum accel_dtype dtype)
{
#define X(name, bits, widened, narrowed, limit) dtype == ACCEL_##name ? narrowed (float_of (0x7f800000U)) :
    return (uint16_t) (NARROW_FLOATS (X) 0);
#undef X
}

/* ---- in packs ---- */

template <class T, unsigned N> struct alignas (sizeof (T) * N) pack {
    T at[N];
};

/* Elements of a pack that is 16 bytes of the wider type. */
template <class A, class B = A> constexpr unsigned PACKED = 16 / (sizeof (A) > sizeof (B) ? sizeof (A) : sizeof (B));

/* Whether packs of @p count elements can begin where the array does; NULL: there is none. */
ELEMENT bool
is_packed (const void *values, size_t bytes, unsigned count)
{
    return (uintptr_t) values % (bytes * count) == 0;
}

template <unsigned N, class T> __device__ static inline pack<T, N>
pack_load (const T *values, size_t i)
{
    return *(const pack<T, N> *) ALIGNED (values + i, sizeof (pack<T, N>));
}

template <class T, unsigned N> __device__ static inline void
pack_store (T *values, size_t i, const pack<T, N> &from)
{
    *(pack<T, N> *) ALIGNED (values + i, sizeof from) = from;
}

/* The blocks of a launch that go through an array together, and which this one is. */
struct team {
    size_t block, blocks;
};
#define WHOLE_GRID ((struct team){ blockIdx.x, gridDim.x })

template <unsigned COUNT> struct packs {
    static constexpr unsigned count = COUNT;
};

/* The block's threads have packs next to each other; the next ones of each thread begin so many elements later. */
template <unsigned N> constexpr size_t PACK_STEP = (size_t) CUDA_BLOCK * N;

/* Go through an array in packs of N elements: many (packs<COUNT>, i) for COUNT packs at i, i + PACK_STEP<N> and so on,
 * U at once as long as there are so many, then one; and one (i) for elements without a pack, which are all elements if
 * not @p packed.  Which thread has which depends on @p count, the team and @p packed only. */
template <unsigned N, unsigned U, class MANY, class ONE> __device__ static inline void
for_packs (struct team team, size_t count, bool packed, MANY many, ONE one)
{
    const size_t step = PACK_STEP<N>, tile = step * U, tiles = packed && U > 1 ? count / tile : 0;
    const size_t all = packed ? count / N * N : 0;
    for (size_t at = team.block; at < tiles; at += team.blocks)
        many (packs<U> (), at * tile + threadIdx.x * N);
    for (size_t i = tiles * tile + (team.block * CUDA_BLOCK + threadIdx.x) * N; i < all; i += team.blocks * step)
        many (packs<1> (), i);
    for (size_t i = all + team.block * CUDA_BLOCK + threadIdx.x; i < count; i += team.blocks * CUDA_BLOCK)
        one (i);
}

/* ---- arrays as floats ---- */

/* Packs of N elements that a thread loads before it uses the first: 64 bytes of float32, 32 of 16-bit floats. */
template <unsigned N> constexpr unsigned IN_FLIGHT = CUDA_ELEMENTS_EACH / N;

/* to[i] = change (from[i]), where @p change is a function of a float; @p to may be @p from. */
template <class TO, class FROM, class CHANGE> __device__ static inline void
change_each (struct team team, typename TO::type *to, const typename FROM::type *from, size_t count, CHANGE change)
{
    typedef typename TO::type to_type;
    typedef typename FROM::type from_type;
    constexpr unsigned N = PACKED<to_type, from_type>;
    bool packed = is_packed (to, sizeof *to, N) && is_packed (from, sizeof *from, N);
    for_packs<N, IN_FLIGHT<N>> (team, count, packed, [&] (auto some, size_t i) {
        pack<from_type, N> in[some.count];
        UNROLL for (unsigned u = 0; u < some.count; u++)
            in[u] = pack_load<N> (from, i + u * PACK_STEP<N>);
        UNROLL for (unsigned u = 0; u < some.count; u++) {
            pack<to_type, N> out;
            UNROLL for (unsigned k = 0; k < N; k++)
                out.at[k] = TO::narrow (change (FROM::widen (in[u].at[k])));
            pack_store (to, i + u * PACK_STEP<N>, out);
        }
    }, [&] (size_t i) { to[i] = TO::narrow (change (FROM::widen (from[i]))); });
}

/* The same in place, in any type. */
template <class CHANGE> __device__ static inline void
change_floats (struct team team, void *values, enum accel_dtype dtype, size_t count, CHANGE change)
{
    with_float (dtype, [&] (auto f) {
        typedef decltype (f) type;
        change_each<type, type> (team, (typename type::type *) values, (typename type::type *) values, count, change);
    });
}

/* From float32 to any type. */
template <class CHANGE> __device__ static inline void
narrow_floats (struct team team, void *to, enum accel_dtype dtype, const float *from, size_t count, CHANGE change)
{
    with_float (dtype, [&] (auto f) {
        typedef decltype (f) type;
        change_each<type, float_FLOAT32> (team, (typename type::type *) to, from, count, change);
    });
}

/* Call look (i, value) for the values of an array, as they lie there. */
template <class T, class LOOK> __device__ static inline void
look_at_each (struct team team, const T *values, size_t count, LOOK look)
{
    constexpr unsigned N = PACKED<T>;
    for_packs<N, IN_FLIGHT<N>> (team, count, is_packed (values, sizeof *values, N), [&] (auto some, size_t i) {
        pack<T, N> in[some.count];
        UNROLL for (unsigned u = 0; u < some.count; u++)
            in[u] = pack_load<N> (values, i + u * PACK_STEP<N>);
        UNROLL for (unsigned u = 0; u < some.count; u++)
            UNROLL for (unsigned k = 0; k < N; k++)
                look (i + u * PACK_STEP<N> + k, in[u].at[k]);
    }, [&] (size_t i) { look (i, values[i]); });
}

/* Packs whose type is known at run time only, U of them, as floats: a branch for all.  @{ */
template <unsigned N, unsigned U> __device__ static inline void
load_floats (float (&out)[U][N], const void *values, enum accel_dtype dtype, size_t i)
{
    with_float (dtype, [&] (auto f) {
        typedef typename decltype (f)::type type;
        pack<type, N> in[U];
        UNROLL for (unsigned u = 0; u < U; u++)
            in[u] = pack_load<N> ((const type *) values, i + u * PACK_STEP<N>);
        UNROLL for (unsigned u = 0; u < U; u++)
            UNROLL for (unsigned k = 0; k < N; k++)
                out[u][k] = f.widen (in[u].at[k]);
    });
}

template <unsigned N, unsigned U> __device__ static inline void
store_floats (void *values, enum accel_dtype dtype, size_t i, const float (&in)[U][N])
{
    with_float (dtype, [&] (auto f) {
        typedef typename decltype (f)::type type;
        UNROLL for (unsigned u = 0; u < U; u++) {
            pack<type, N> out;
            UNROLL for (unsigned k = 0; k < N; k++)
                out.at[k] = f.narrow (in[u][k]);
            pack_store ((type *) values, i + u * PACK_STEP<N>, out);
        }
    });
}
/* @} */

#endif
