/* SPDX-License-Identifier: Apache-2.0 */
/* Safetensors files, and the names that did not match when a model was loaded. */
#ifndef ACCEL_HPP_FILES_HPP
#define ACCEL_HPP_FILES_HPP

#include <accel/hpp/base.hpp>
#include <accel/hpp/options.hpp>

#include <vector>

namespace accelerate {

/** A safetensors file or a sharded set that is open. */
class safetensors {
  public:
    explicit safetensors (const std::string &path, const accel_safetensors_options &options = {})
    {
        accel_safetensors *raw = nullptr;
        detail::attempt call;
        call (accel_safetensors_open (&raw, path.c_str (), &options, call.err ()));
        own_.reset (raw);
    }
    accel_safetensors *get () const noexcept { return own_.get (); }

    std::size_t size () const noexcept { return accel_safetensors_count (get ()); }
    /** @param index  less than size () */
    const accel_safetensors_info &
    operator[] (std::size_t index) const noexcept
    {
        return *accel_safetensors_get (get (), index);
    }
    std::size_t
    find (const std::string &name) const
    {
        std::size_t index = 0;
        detail::attempt call;
        call (accel_safetensors_find (get (), name.c_str (), &index, call.err ()));
        return index;
    }
    /** @return nullptr if there is none */
    const char *
    metadata (const std::string &key) const noexcept
    {
        const char *each, *value = nullptr;
        for (std::size_t i = 0; (each = metadata_key (i, &value)) != nullptr; i++)
            if (each == key)
                return value;
        return nullptr;
    }
    /** @return nullptr after the last */
    const char *
    metadata_key (std::size_t index, const char **value = nullptr) const noexcept
    {
        return accel_safetensors_metadata (get (), index, value);
    }
    /** Valid as long as this object. */
    DLTensor
    view (std::size_t index)
    {
        DLTensor result;
        detail::attempt call;
        call (accel_safetensors_view (get (), index, &result, call.err ()));
        return result;
    }
    void
    read (std::size_t index, const DLTensor &into) const
    {
        detail::attempt call;
        call (accel_safetensors_read (get (), index, nullptr, nullptr, &into, call.err ()));
    }
    /** Indices begin[i] to end[i] - 1 of each dimension i. */
    void
    read (std::size_t index, const std::vector<std::int64_t> &begin, const std::vector<std::int64_t> &end,
          const DLTensor &into) const
    {
        detail::attempt call;
        call (accel_safetensors_read (get (), index, begin.data (), end.data (), &into, call.err ()));
    }

  private:
    detail::handle<accel_safetensors, accel_safetensors_close> own_;
};

/** Writes a file piece by piece.  Without commit(), the destructor removes it. */
class safetensors_writer {
  public:
    safetensors_writer (const std::string &path, span<const accel_safetensors_tensor> tensors,
                        const char *const *metadata = nullptr)
    {
        accel_safetensors_writer *raw = nullptr;
        detail::attempt call;
        call (accel_safetensors_writer_create (&raw, path.c_str (), tensors.data (), tensors.size (), metadata,
                                               call.err ()));
        own_.reset (raw);
    }
    accel_safetensors_writer *get () const noexcept { return own_.get (); }

    void
    write (std::size_t index, const void *data, std::size_t data_bytes)
    {
        detail::attempt call;
        call (accel_safetensors_writer_write (get (), index, data, data_bytes, call.err ()));
    }
    void
    commit ()
    {
        detail::attempt call;
        call (accel_safetensors_writer_commit (get (), call.err ()));
    }

  private:
    detail::handle<accel_safetensors_writer, accel_safetensors_writer_destroy> own_;
};

/** Write a file of tensors that are in memory. */
inline void
save_safetensors (const std::string &path, span<const accel_safetensors_tensor> tensors,
                  const char *const *metadata = nullptr)
{
    detail::attempt call;
    call (accel_safetensors_save (path.c_str (), tensors.data (), tensors.size (), metadata, call.err ()));
}

/** Names that were only in the model, or only in the file. */
struct load_result {
    std::vector<std::string> missing;
    std::vector<std::string> unexpected;
};

} // namespace accelerate

#endif
