/* SPDX-License-Identifier: Apache-2.0 */
/* What the other C++ headers need: errors, call sites, spans, and the way across the C functions. */
#ifndef ACCEL_HPP_BASE_HPP
#define ACCEL_HPP_BASE_HPP

#include <accel/accel.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iterator>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace accelerate {

/** A call that failed. */
class error : public std::runtime_error {
  public:
    explicit error (const accel_error &why)
        : std::runtime_error (why.text), code_ (why.code), sys_errno_ (why.sys_errno)
    {
    }
    error (accel_status code, const std::string &text) : std::runtime_error (text), code_ (code) {}

    accel_status code () const noexcept { return code_; }
    int sys_errno () const noexcept { return sys_errno_; } /**< of the failed system call, or 0 */

  private:
    accel_status code_;
    int sys_errno_ = 0;
};

/** Where a collective was called: default arguments find it, so callers need not pass it. */
struct site {
    const char *file;
    int line;

    static constexpr site
    here (const char *file = __builtin_FILE (), int line = __builtin_LINE ()) noexcept
    {
        return { file, line };
    }
};

/** A view of contiguous elements, as std::span of C++20. */
template <class T> class span {
  public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;

    constexpr span () noexcept = default;
    constexpr span (T *data, std::size_t size) noexcept : data_ (data), size_ (size) {}
    /** From arrays, std::vector, std::array, other spans: what std::data() and std::size() take. */
    template <class C, class E = std::remove_pointer_t<decltype (std::data (std::declval<C &> ()))>,
              class = std::enable_if_t<std::is_convertible_v<E (*)[], T (*)[]>
                                       && !std::is_same_v<std::decay_t<C>, span>>>
    constexpr span (C &&of) : data_ (std::data (of)), size_ (std::size (of))
    {
    }

    constexpr T *data () const noexcept { return data_; }
    constexpr std::size_t size () const noexcept { return size_; }
    constexpr bool empty () const noexcept { return size_ == 0; }
    constexpr T *begin () const noexcept { return data_; }
    constexpr T *end () const noexcept { return data_ + size_; }
    constexpr T &operator[] (std::size_t index) const { return data_[index]; }
    constexpr span subspan (std::size_t from, std::size_t count) const { return { data_ + from, count }; }

  private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

/** The element type of a C++ type: dtype_of<float> is ACCEL_FLOAT32. */
template <class T> struct dtype_of_type;
template <> struct dtype_of_type<float> : std::integral_constant<accel_dtype, ACCEL_FLOAT32> {};
template <> struct dtype_of_type<double> : std::integral_constant<accel_dtype, ACCEL_FLOAT64> {};
template <> struct dtype_of_type<std::int8_t> : std::integral_constant<accel_dtype, ACCEL_INT8> {};
template <> struct dtype_of_type<std::uint8_t> : std::integral_constant<accel_dtype, ACCEL_UINT8> {};
template <> struct dtype_of_type<std::int32_t> : std::integral_constant<accel_dtype, ACCEL_INT32> {};
template <> struct dtype_of_type<std::int64_t> : std::integral_constant<accel_dtype, ACCEL_INT64> {};
template <> struct dtype_of_type<bool> : std::integral_constant<accel_dtype, ACCEL_BOOL> {};
template <class T> inline constexpr accel_dtype dtype_of = dtype_of_type<std::remove_cv_t<T>>::value;

/** End the program as accel_check() does, so that the launcher reports the process that failed first. */
[[noreturn]] inline void
end_program (const std::exception &why)
{
    accel_error err = accel_error ();
    const error *ours = dynamic_cast<const error *> (&why);
    err.code = ours && ours->code () ? ours->code () : ACCEL_ERR_CALLBACK;
    std::strncpy (err.text, why.what (), sizeof err.text - 1);
    accel_check_at (nullptr, 0, err.code, &err);
    std::abort (); /* not reached */
}

/* A function of the C API to pass on: many are macros, which have no address. */
#define ACCEL_CALL_(name) ([] (auto... args) { return name (args...); })

namespace detail {

/** What ends the objects of accel_prepare(). */
inline void *
prepare_end () noexcept
{
    return reinterpret_cast<void *> (UINTPTR_MAX);
}

/** One call of a C function: attempt call; call (accel_thing (..., call.err ())); */
class attempt {
  public:
    attempt () noexcept
    {
        why_.code = ACCEL_OK;
        why_.sys_errno = 0;
        why_.text[0] = '\0';
    }
    accel_error *err () noexcept { return &why_; }
    const accel_error &why () const noexcept { return why_; }
    void
    operator() (accel_status status) const
    {
        if (status)
            throw error (why_);
    }

  private:
    accel_error why_;
};

inline accel_status
fill (accel_error *err, accel_status code, const char *text) noexcept
{
    if (err) {
        err->code = code;
        err->sys_errno = 0;
        std::strncpy (err->text, text, sizeof err->text - 1);
        err->text[sizeof err->text - 1] = '\0';
    }
    return code;
}

/** Run a function of the program that C has called.  Nothing is thrown: what it throws is in @p err and @p thrown. */
template <class F>
accel_status
run (accel_error *err, F &&function, std::exception_ptr *thrown = nullptr) noexcept
{
    try {
        try {
            function ();
            return ACCEL_OK;
        } catch (...) {
            if (thrown)
                *thrown = std::current_exception ();
            throw;
        }
    } catch (const std::bad_alloc &) {
        return fill (err, ACCEL_ERR_NOMEM, "out of memory (std::bad_alloc)");
    } catch (const error &e) {
        return fill (err, e.code () ? e.code () : ACCEL_ERR_CALLBACK, e.what ());
    } catch (const std::exception &e) {
        return fill (err, ACCEL_ERR_CALLBACK, e.what ());
    } catch (...) {
        return fill (err, ACCEL_ERR_CALLBACK, "an exception that is not a std::exception");
    }
}

/** A function of the program for a C function that calls it before it returns. */
template <class F> struct callback {
    F &function;
    std::exception_ptr thrown {};

    /** The original exception, if there was one, or the C function's error. */
    void
    check (accel_status status, const attempt &call) const
    {
        if (status && thrown)
            std::rethrow_exception (thrown);
        call (status);
    }
};

template <auto Destroy> struct deleter {
    template <class T>
    void
    operator() (T *object) const noexcept
    {
        Destroy (object);
    }
};

/** Owns a C object. */
template <class T, auto Destroy> using handle = std::unique_ptr<T, deleter<Destroy>>;

} // namespace detail

} // namespace accelerate

#endif
