/* SPDX-License-Identifier: Apache-2.0 */
/* What objects of the program put into checkpoints, and get from them. */
#ifndef ACCEL_HPP_STATEDICT_HPP
#define ACCEL_HPP_STATEDICT_HPP

#include <accel/hpp/base.hpp>

#include <functional>

namespace accelerate {

/** A state dict that is being saved.  What is wrong with a value fails the save. */
class state_dict {
  public:
    explicit state_dict (accel_state_dict *raw) noexcept : raw_ (raw) {}
    accel_state_dict *get () const noexcept { return raw_; }

    void set_int64 (const char *name, std::int64_t value) { accel_state_dict_set_int64 (raw_, name, value); }
    void set_double (const char *name, double value) { accel_state_dict_set_double (raw_, name, value); }
    void
    set_text (const char *name, const std::string &text)
    {
        accel_state_dict_set_text (raw_, name, text.c_str ());
    }
    /** @p tensor must stay as it is until the save has ended. */
    void set_tensor (const char *name, const DLTensor &tensor) { accel_state_dict_set_tensor (raw_, name, &tensor); }
    void
    set_bytes (const char *name, span<const unsigned char> bytes)
    {
        accel_state_dict_set_bytes (raw_, name, bytes.data (), bytes.size ());
    }

  private:
    accel_state_dict *raw_;
};

/** A state dict that is being loaded. */
class saved_state_dict {
  public:
    explicit saved_state_dict (const accel_state_dict *raw) noexcept : raw_ (raw) {}
    const accel_state_dict *get () const noexcept { return raw_; }

    bool has (const char *name) const noexcept { return accel_state_dict_has (raw_, name); }
    std::int64_t get_int64 (const char *name) const { return value<std::int64_t> (accel_state_dict_get_int64, name); }
    double get_double (const char *name) const { return value<double> (accel_state_dict_get_double, name); }
    std::string get_text (const char *name) const { return value<const char *> (accel_state_dict_get_text, name); }
    void
    get_tensor (const char *name, DLTensor &into) const
    {
        detail::attempt call;
        call (accel_state_dict_get_tensor (raw_, name, &into, call.err ()));
    }
    void
    get_bytes (const char *name, span<unsigned char> bytes) const
    {
        detail::attempt call;
        call (accel_state_dict_get_bytes (raw_, name, bytes.data (), bytes.size (), call.err ()));
    }
    std::size_t tensor_count (const char *name) const noexcept { return accel_state_dict_tensor_count (raw_, name); }

  private:
    template <class T, class F>
    T
    value (F &&function, const char *name) const
    {
        T result {};
        detail::attempt call;
        call (function (raw_, name, &result, call.err ()));
        return result;
    }

    const accel_state_dict *raw_;
};

/** An object of the program, for accelerator::register_for_checkpointing(). */
struct checkpoint_object {
    std::function<void (state_dict state)> save;
    std::function<void (saved_state_dict state)> load;
};

/** A hook before saves or loads of the state, see accel_state_hook. */
using state_hook = std::function<void (const char *folder, bool &with_models)>;

} // namespace accelerate

#endif
