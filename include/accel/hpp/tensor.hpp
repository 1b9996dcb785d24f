/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that own their shape, and spans of their elements. */
#ifndef ACCEL_HPP_TENSOR_HPP
#define ACCEL_HPP_TENSOR_HPP

#include <accel/hpp/base.hpp>

#include <vector>

namespace accelerate {

/** Sizes of a tensor, by dimension. */
using shape_type = std::vector<std::int64_t>;

inline shape_type
shape_of (const DLTensor &tensor)
{
    return { tensor.shape, tensor.shape + tensor.ndim };
}

namespace detail {
inline bool
is_contiguous (const DLTensor &tensor) noexcept
{
    std::int64_t expected = 1;
    for (int i = tensor.ndim; tensor.strides && i-- > 0; expected *= tensor.shape[i])
        if (tensor.shape[i] != 1 && tensor.strides[i] != expected)
            return false;
    return true;
}

template <class T>
span<T>
values_of (const DLTensor &tensor)
{
    accel_dtype dtype = accel_dtype_from_dl (tensor.dtype);
    if (dtype != dtype_of<T>)
        throw error (ACCEL_ERR_INVALID, std::string ("the tensor is ") + accel_dtype_name (dtype) + ", not "
                                            + accel_dtype_name (dtype_of<T>));
    if (tensor.device.device_type != kDLCPU || !is_contiguous (tensor))
        throw error (ACCEL_ERR_UNSUPPORTED, "the tensor is not contiguous in host memory");
    return { reinterpret_cast<T *> (static_cast<char *> (tensor.data) + tensor.byte_offset),
             accel_tensor_count (&tensor) };
}
} // namespace detail

/** The elements of a contiguous tensor in host memory.  Throws if they have another type.  @{ */
template <class T>
span<T>
values (DLTensor &tensor)
{
    return detail::values_of<T> (tensor);
}

template <class T>
span<const T>
values (const DLTensor &tensor)
{
    return detail::values_of<const T> (tensor);
}
/** @} */

/** Say on which stream the program's own work on @p device runs. */
inline void
set_stream (DLDevice device, void *stream)
{
    detail::attempt call;
    call (accel_set_stream (device, stream, call.err ()));
}

/** @return the stream in effect; nullptr if @p device has none. */
inline void *
get_stream (DLDevice device) noexcept
{
    return accel_get_stream (device);
}

/** A tensor: empty, a view of the program's memory, or with memory of the library's where a function returns it. */
class tensor {
  public:
    tensor () noexcept = default;

    /** A view of @p elements, which must outlive it.  Without a shape: one dimension. */
    template <class T> explicit tensor (span<T> elements) : tensor (elements, { std::int64_t (elements.size ()) }) {}
    template <class T>
    tensor (span<T> elements, const shape_type &shape) : tensor (dtype_of<T>, shape, elements.data ())
    {
        static_assert (!std::is_const_v<T>, "tensors are not const: the element type must not be");
        if (accel_tensor_count (&own_.dl) != elements.size ())
            throw error (ACCEL_ERR_INVALID, "the shape does not have as many elements as the span");
    }

    /** A view of memory of any type, NULL if the library allocates it. */
    tensor (accel_dtype dtype, const shape_type &shape, void *data = nullptr)
    {
        detail::attempt call;
        call (accel_tensor_init (&own_, dtype, int (shape.size ()), shape.data (), call.err ()));
        own_.dl.data = data;
    }

    ~tensor () { accel_tensor_release (&own_); }
    tensor (tensor &&from) noexcept { take (from); }
    tensor &
    operator= (tensor &&from) noexcept
    {
        if (this != &from) {
            accel_tensor_release (&own_);
            take (from);
        }
        return *this;
    }
    tensor (const tensor &) = delete;
    tensor &operator= (const tensor &) = delete;

    accel_tensor *get () noexcept { return &own_; }
    DLTensor &dl () noexcept { return own_.dl; }
    const DLTensor &dl () const noexcept { return own_.dl; }
    operator DLTensor & () noexcept { return own_.dl; }
    operator const DLTensor & () const noexcept { return own_.dl; }

    accel_dtype dtype () const noexcept { return accel_dtype_from_dl (own_.dl.dtype); }
    shape_type shape () const { return shape_of (own_.dl); }
    std::size_t size () const noexcept { return own_.dl.shape || own_.dl.data ? accel_tensor_count (&own_.dl) : 0; }
    template <class T> span<T> values () { return detail::values_of<T> (own_.dl); }
    template <class T> span<const T> values () const { return detail::values_of<const T> (own_.dl); }

  private:
    /* dl.shape points into the struct. */
    void
    take (tensor &from) noexcept
    {
        own_ = from.own_;
        if (own_.dl.shape)
            own_.dl.shape = own_.shape;
        from.own_ = accel_tensor ();
    }

    accel_tensor own_ {};
};

/** Convert floats of any size into one another; see accel_convert(). */
inline void
convert (const void *from, accel_dtype from_dtype, void *to, accel_dtype to_dtype, std::size_t count)
{
    detail::attempt call;
    call (accel_convert (from, from_dtype, to, to_dtype, count, call.err ()));
}

} // namespace accelerate

#endif
