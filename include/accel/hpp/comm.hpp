/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of processes, and collectives on spans. */
#ifndef ACCEL_HPP_COMM_HPP
#define ACCEL_HPP_COMM_HPP

#include <accel/hpp/base.hpp>

#include <array>
#include <vector>

namespace accelerate {

class group;

/** A collective that was started (accel/work.h).  Its buffers must outlive it: the destructor waits. */
class work {
  public:
    explicit work (accel_work *raw) noexcept : own_ (raw) {}
    accel_work *get () const noexcept { return own_.get (); }

    /** Wait until it is over; once. */
    void
    wait ()
    {
        detail::attempt call;
        call (accel_work_wait (own_.release (), call.err ()));
    }

    /** The same on the host, also on a GPU. */
    void
    synchronize ()
    {
        detail::attempt call;
        call (accel_work_synchronize (own_.release (), call.err ()));
    }

    /** Whether it is over. */
    bool
    done () const
    {
        bool done = false;
        detail::attempt call;
        call (accel_work_test (own_.get (), &done, call.err ()));
        return done;
    }

  private:
    struct waiter {
        void
        operator() (accel_work *raw) const noexcept
        {
            if (accel_work_wait (raw, nullptr))
                return; /* call wait() for the error */
        }
    };
    std::unique_ptr<accel_work, waiter> own_;
};

using group_id = std::array<unsigned char, ACCEL_GROUP_ID_BYTES>;

/** A communicator that this object does not own: the world, or a dimension of a mesh. */
class communicator {
  public:
    explicit communicator (accel_comm *raw) noexcept : raw_ (raw) {}
    accel_comm *get () const noexcept { return raw_; }

    int rank () const noexcept { return accel_comm_rank (raw_); }
    int size () const noexcept { return accel_comm_size (raw_); }
    const char *engine () const noexcept { return accel_comm_engine (raw_); }

    /** For buffers on the GPU: a CUDA stream of the program; nullptr: the device's. */
    void
    set_stream (void *stream)
    {
        detail::attempt call;
        call (accel_comm_set_stream (raw_, stream, call.err ()));
    }

    /** The longest wait for peers, from the next call on. */
    void
    set_timeout (uint32_t timeout_ms)
    {
        detail::attempt call;
        call (accel_comm_set_timeout (raw_, timeout_ms, call.err ()));
    }

    void
    barrier (site at = site::here ())
    {
        detail::attempt call;
        call (accel_comm_barrier_at (at.file, at.line, raw_, call.err ()));
    }

    /** Reduce element by element, in place or into @p recv.  @{ */
    template <class T>
    void
    all_reduce (span<T> values, accel_op op = ACCEL_SUM, site at = site::here ())
    {
        detail::attempt call;
        call (accel_comm_all_reduce_at (at.file, at.line, raw_, values.data (), values.data (), values.size (),
                                        dtype_of<T>, op, call.err ()));
    }
    template <class T>
    void
    all_reduce (span<const T> send, span<T> recv, accel_op op = ACCEL_SUM, site at = site::here ())
    {
        match (send.size (), recv.size ());
        detail::attempt call;
        call (accel_comm_all_reduce_at (at.file, at.line, raw_, send.data (), recv.data (), send.size (), dtype_of<T>,
                                        op, call.err ()));
    }
    /** @} */

    /** A row of @p recv from each rank. */
    template <class T>
    void
    all_gather (span<const T> send, span<T> recv, site at = site::here ())
    {
        match (send.size () * rows (), recv.size ());
        detail::attempt call;
        call (accel_comm_all_gather_at (at.file, at.line, raw_, send.data (), recv.data (), send.size (), dtype_of<T>,
                                        call.err ()));
    }
    template <class T>
    void
    broadcast (span<T> values, int root = 0, site at = site::here ())
    {
        detail::attempt call;
        call (accel_comm_broadcast_at (at.file, at.line, raw_, values.data (), values.size (), dtype_of<T>, root,
                                       call.err ()));
    }
    /** Reduce rows, and leave each rank its own. */
    template <class T>
    void
    reduce_scatter (span<const T> send, span<T> recv, accel_op op = ACCEL_SUM, site at = site::here ())
    {
        match (send.size (), recv.size () * rows ());
        detail::attempt call;
        call (accel_comm_reduce_scatter_at (at.file, at.line, raw_, send.data (), recv.data (), recv.size (),
                                            dtype_of<T>, op, call.err ()));
    }
    /** Exchange rows. */
    template <class T>
    void
    all_to_all (span<const T> send, span<T> recv, site at = site::here ())
    {
        match (send.size (), recv.size ());
        match (send.size () % rows (), 0);
        detail::attempt call;
        call (accel_comm_all_to_all_at (at.file, at.line, raw_, send.data (), recv.data (), send.size () / rows (),
                                        dtype_of<T>, call.err ()));
    }
    template <class T>
    void
    send (span<const T> values, int to, site at = site::here ())
    {
        detail::attempt call;
        call (accel_comm_send_at (at.file, at.line, raw_, values.data (), values.size (), dtype_of<T>, to,
                                  call.err ()));
    }
    template <class T>
    void
    recv (span<T> values, int from, site at = site::here ())
    {
        detail::attempt call;
        call (accel_comm_recv_at (at.file, at.line, raw_, values.data (), values.size (), dtype_of<T>, from,
                                  call.err ()));
    }

    /** The same without blocking; the work has to be waited for.  @{ */
    [[nodiscard]] work
    barrier_start (site at = site::here ())
    {
        return start ([&] (accel_work **to, accel_error *err) {
            return accel_comm_barrier_start_at (at.file, at.line, to, raw_, err);
        });
    }
    template <class T>
    [[nodiscard]] work
    all_reduce_start (span<T> values, accel_op op = ACCEL_SUM, site at = site::here ())
    {
        return start ([&] (accel_work **to, accel_error *err) {
            return accel_comm_all_reduce_start_at (at.file, at.line, to, raw_, values.data (), values.data (),
                                                   values.size (), dtype_of<T>, op, err);
        });
    }
    template <class T>
    [[nodiscard]] work
    all_reduce_start (span<const T> send, span<T> recv, accel_op op = ACCEL_SUM, site at = site::here ())
    {
        match (send.size (), recv.size ());
        return start ([&] (accel_work **to, accel_error *err) {
            return accel_comm_all_reduce_start_at (at.file, at.line, to, raw_, send.data (), recv.data (), send.size (),
                                                   dtype_of<T>, op, err);
        });
    }
    template <class T>
    [[nodiscard]] work
    all_gather_start (span<const T> send, span<T> recv, site at = site::here ())
    {
        match (send.size () * rows (), recv.size ());
        return start ([&] (accel_work **to, accel_error *err) {
            return accel_comm_all_gather_start_at (at.file, at.line, to, raw_, send.data (), recv.data (), send.size (),
                                                   dtype_of<T>, err);
        });
    }
    template <class T>
    [[nodiscard]] work
    broadcast_start (span<T> values, int root = 0, site at = site::here ())
    {
        return start ([&] (accel_work **to, accel_error *err) {
            return accel_comm_broadcast_start_at (at.file, at.line, to, raw_, values.data (), values.size (),
                                                  dtype_of<T>, root, err);
        });
    }
    template <class T>
    [[nodiscard]] work
    reduce_scatter_start (span<const T> send, span<T> recv, accel_op op = ACCEL_SUM, site at = site::here ())
    {
        match (send.size (), recv.size () * rows ());
        return start ([&] (accel_work **to, accel_error *err) {
            return accel_comm_reduce_scatter_start_at (at.file, at.line, to, raw_, send.data (), recv.data (),
                                                       recv.size (), dtype_of<T>, op, err);
        });
    }
    template <class T>
    [[nodiscard]] work
    all_to_all_start (span<const T> send, span<T> recv, site at = site::here ())
    {
        match (send.size (), recv.size ());
        match (send.size () % rows (), 0);
        return start ([&] (accel_work **to, accel_error *err) {
            return accel_comm_all_to_all_start_at (at.file, at.line, to, raw_, send.data (), recv.data (),
                                                   send.size () / rows (), dtype_of<T>, err);
        });
    }
    /** @} */

    /** What is started between these two begins at the end, as one.  @{ */
    void
    group_begin ()
    {
        detail::attempt call;
        call (accel_group_begin (raw_, call.err ()));
    }
    void
    group_end ()
    {
        detail::attempt call;
        call (accel_group_end (raw_, call.err ()));
    }
    /** @} */

    /** Processes of one colour make a group; those of a negative colour get an empty one. */
    group split (int colour, int key = 0, site at = site::here ());

    /** An id for a group of @p size processes, to be brought to the others of them. */
    group_id
    get_id (int size)
    {
        group_id id;
        detail::attempt call;
        call (accel_comm_get_id (raw_, size, id.data (), call.err ()));
        return id;
    }
    /** The group of @p id, which only its members make: rank i of it is @p ranks[i] here. */
    group from_id (const group_id &id, span<const int> ranks);

    /** Give up: what is in flight fails, here and on the other processes. */
    void
    abort (const char *reason = nullptr)
    {
        accel_comm_abort (raw_, reason);
    }

  private:
    template <class F>
    static work
    start (F &&begin)
    {
        accel_work *raw = nullptr;
        detail::attempt call;
        call (begin (&raw, call.err ()));
        return work (raw);
    }
    std::size_t rows () const noexcept { return std::size_t (size ()); }
    static void
    match (std::size_t one, std::size_t other)
    {
        if (one != other)
            throw error (ACCEL_ERR_INVALID, "the sizes of the two spans do not match");
    }

    accel_comm *raw_;
};

/** A group of processes of its own. */
class group : public communicator {
  public:
    explicit group (accel_comm *raw) noexcept : communicator (raw), own_ (raw) {}
    explicit operator bool () const noexcept { return get () != nullptr; }

  private:
    detail::handle<accel_comm, accel_comm_destroy> own_;
};

inline group
communicator::split (int colour, int key, site at)
{
    accel_comm *raw = nullptr;
    detail::attempt call;
    call (accel_comm_split_at (at.file, at.line, &raw, raw_, colour, key, call.err ()));
    return group (raw);
}

inline group
communicator::from_id (const group_id &id, span<const int> ranks)
{
    accel_comm *raw = nullptr;
    detail::attempt call;
    call (accel_comm_from_id (&raw, raw_, id.data (), ranks.data (), int (ranks.size ()), call.err ()));
    return group (raw);
}

/** All processes in a grid of named dimensions. */
class mesh {
  public:
    mesh (accel *acc, span<const char *const> names, span<const int> sizes, site at = site::here ())
    {
        if (names.size () != sizes.size ())
            throw error (ACCEL_ERR_INVALID, "a mesh has not as many names as sizes");
        accel_mesh *raw = nullptr;
        detail::attempt call;
        call (accel_mesh_create_at (at.file, at.line, &raw, acc, names.data (), sizes.data (), int (names.size ()),
                                    call.err ()));
        own_.reset (raw);
    }
    accel_mesh *get () const noexcept { return own_.get (); }
    /** The processes that differ from this one in dimension @p name only. */
    communicator
    operator[] (const char *name) const
    {
        accel_comm *found = accel_mesh_comm (get (), name);
        if (!found)
            throw error (ACCEL_ERR_INVALID, std::string ("the mesh has no dimension '") + name + "'");
        return communicator (found);
    }

  private:
    detail::handle<accel_mesh, accel_mesh_destroy> own_;
};

/** @p comm: those that divide tensors, accel_mesh_comm (accel_device_mesh (acc), "tp"); nullptr: this process alone.
 *  @{ */
inline void
parallel_gather (accel_comm *comm, const DLTensor &from, const DLTensor &to, int dim, site at = site::here ())
{
    detail::attempt call;
    call (accel_parallel_gather_at (at.file, at.line, comm, &from, &to, dim, call.err ()));
}
inline void
parallel_scatter (const accel_comm *comm, const DLTensor &from, const DLTensor &to, int dim)
{
    detail::attempt call;
    call (accel_parallel_scatter (comm, &from, &to, dim, call.err ()));
}
/** @param logits  [rows, columns], become gradients times @p scale */
inline void
parallel_cross_entropy (accel_comm *comm, span<const std::int32_t> labels, float scale, span<float> logits,
                        span<float> losses, site at = site::here ())
{
    std::size_t rows = labels.size (), columns = rows ? logits.size () / rows : 0;
    if (losses.size () != rows || logits.size () != rows * columns)
        throw error (ACCEL_ERR_INVALID, "losses, logits and labels do not have as many rows");
    detail::attempt call;
    call (accel_parallel_cross_entropy_at (at.file, at.line, comm, labels.data (), rows, columns, scale, logits.data (),
                                           losses.data (), call.err ()));
}
/** @param weight  [rows, width], or its gradient  @param y  [tokens, width], or its gradient  @{ */
inline void
parallel_embedding (accel_comm *comm, span<const float> weight, std::size_t width, span<const std::int32_t> tokens,
                    span<float> y, site at = site::here ())
{
    if (!width || weight.size () % width || y.size () != tokens.size () * width)
        throw error (ACCEL_ERR_INVALID, "embeddings, tokens and weights do not fit together");
    detail::attempt call;
    call (accel_parallel_embedding_at (at.file, at.line, comm, weight.data (), weight.size () / width, width,
                                       tokens.data (), tokens.size (), y.data (), call.err ()));
}
inline void
parallel_embedding_backward (accel_comm *comm, std::size_t width, span<const std::int32_t> tokens,
                             span<const float> dy, span<float> grad, site at = site::here ())
{
    if (!width || grad.size () % width || dy.size () != tokens.size () * width)
        throw error (ACCEL_ERR_INVALID, "embeddings, tokens and gradients do not fit together");
    detail::attempt call;
    call (accel_parallel_embedding_backward_at (at.file, at.line, comm, grad.size () / width, width, tokens.data (),
                                                tokens.size (), dy.data (), grad.data (), call.err ()));
}
/** @} */
/** @param x, y  of the sizes that accel/parallel_linear.h says  @param dx  may be nullptr  @{ */
inline void
parallel_linear (const accel_parallel_linear &layer, const float *x, float *y, std::size_t rows,
                 site at = site::here ())
{
    detail::attempt call;
    call (accel_parallel_linear_at (at.file, at.line, &layer, x, y, rows, call.err ()));
}
inline void
parallel_linear_backward (const accel_parallel_linear &layer, const float *x, const float *dy, float *dx,
                          std::size_t rows, site at = site::here ())
{
    detail::attempt call;
    call (accel_parallel_linear_backward_at (at.file, at.line, &layer, x, dy, dx, rows, call.err ()));
}
/** @} */
/** @} */

/** Memory that every process of the host has mapped: collectives on it copy nothing. */
template <class T> class shared_array {
  public:
    shared_array (accel *acc, std::size_t size) : acc_ (acc), size_ (size)
    {
        static_assert (std::is_trivially_copyable_v<T>, "elements must be plain bytes");
        if (size > SIZE_MAX / sizeof (T))
            throw std::bad_alloc ();
        void *memory = nullptr;
        detail::attempt call;
        call (accel_alloc (acc, size * sizeof (T), &memory, call.err ()));
        data_ = static_cast<T *> (memory);
    }
    ~shared_array () { accel_free (acc_, data_); }
    shared_array (shared_array &&from) noexcept
        : acc_ (from.acc_), data_ (std::exchange (from.data_, nullptr)), size_ (std::exchange (from.size_, 0))
    {
    }
    shared_array &
    operator= (shared_array &&from) noexcept
    {
        std::swap (acc_, from.acc_);
        std::swap (data_, from.data_);
        std::swap (size_, from.size_);
        return *this;
    }

    T *data () const noexcept { return data_; }
    std::size_t size () const noexcept { return size_; }
    T *begin () const noexcept { return data_; }
    T *end () const noexcept { return data_ + size_; }
    T &operator[] (std::size_t index) const { return data_[index]; }

  private:
    accel *acc_;
    T *data_ = nullptr;
    std::size_t size_;
};

} // namespace accelerate

#endif
