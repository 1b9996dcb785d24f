/* SPDX-License-Identifier: Apache-2.0 */
/* Parameter groups: some parameters of a model with numbers of their own. */
#ifndef ACCEL_HPP_GROUPS_HPP
#define ACCEL_HPP_GROUPS_HPP

#include <accel/accel.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace accelerate {

/**
 * A parameter group, see struct accel_param_group:
 *
 *   optimizer_options ().lr (0.1).group (param_group ("flat").match ("*.bias,ln_*").weight_decay (0))
 *
 * It owns its strings and lists.  Only what has been set differs from the optimizer's options, and 0 means 0:
 * ACCEL_ZERO is not needed.
 */
class param_group {
  public:
    explicit param_group (std::string name = {}) : name_ (std::move (name)) {}

    param_group &
    name (std::string name)
    {
        name_ = std::move (name);
        return *this;
    }
    /** Parameters by patterns, separated by commas; several calls add up. */
    param_group &
    match (const std::string &patterns)
    {
        match_ += (match_.empty () ? "" : ",") + patterns;
        return *this;
    }
    /** Parameters by name. */
    param_group &
    parameters (std::vector<std::string> names)
    {
        parameters_ = std::move (names);
        return *this;
    }
    /** Parameters by position in the model. */
    param_group &
    indices (std::vector<std::size_t> positions)
    {
        indices_ = std::move (positions);
        return *this;
    }
    /** Only parameters with at least so many dimensions. */
    param_group &
    min_ndim (std::uint64_t dimensions) noexcept
    {
        numbers_.min_ndim = dimensions;
        return *this;
    }
    param_group &
    skip (bool value = true) noexcept
    {
        numbers_.skip = value;
        return *this;
    }
#define ACCEL_NUMBER_(field)                    \
    param_group &field (double value) noexcept  \
    {                                           \
        numbers_.field = accel_exactly (value); \
        return *this;                           \
    }
#define ACCEL_FLAG_(field)                                       \
    param_group &field (bool value = true) noexcept              \
    {                                                            \
        numbers_.field = value ? ACCEL_YES : ACCEL_NO; \
        return *this;                                            \
    }
    ACCEL_NUMBER_ (lr) ACCEL_NUMBER_ (weight_decay) ACCEL_NUMBER_ (beta1) ACCEL_NUMBER_ (beta2) ACCEL_NUMBER_ (eps)
    ACCEL_NUMBER_ (momentum) ACCEL_NUMBER_ (dampening) ACCEL_NUMBER_ (alpha) ACCEL_NUMBER_ (lr_decay)
    ACCEL_NUMBER_ (initial_accumulator_value)
    ACCEL_FLAG_ (nesterov) ACCEL_FLAG_ (amsgrad) ACCEL_FLAG_ (centered) ACCEL_FLAG_ (maximize)
#undef ACCEL_NUMBER_
#undef ACCEL_FLAG_

    /** The C struct, without name and lists. */
    const accel_param_group &numbers () const noexcept { return numbers_; }

    /** The C struct, valid until this object changes.  @param[out] names  memory for its array of names */
    accel_param_group
    c_struct (std::vector<const char *> &names) const
    {
        accel_param_group c = numbers_;
        names.clear ();
        for (const std::string &one : parameters_)
            names.push_back (one.c_str ());
        c.name = name_.empty () ? nullptr : name_.c_str ();
        c.match = match_.empty () ? nullptr : match_.c_str ();
        c.parameters = names.data ();
        c.parameter_count = names.size ();
        c.indices = indices_.data ();
        c.index_count = indices_.size ();
        return c;
    }

  private:
    std::string name_, match_;
    std::vector<std::string> parameters_;
    std::vector<std::size_t> indices_;
    accel_param_group numbers_ {};
};

namespace detail {

/** Groups, and the C array of them. */
class group_array {
  public:
    explicit group_array (std::vector<param_group> groups)
        : groups_ (std::move (groups)), names_ (groups_.size ())
    {
        for (std::size_t i = 0; i < groups_.size (); i++)
            c_.push_back (groups_[i].c_struct (names_[i]));
    }
    group_array (const group_array &) = delete;
    group_array &operator= (const group_array &) = delete;

    const std::vector<param_group> &groups () const noexcept { return groups_; }
    const accel_param_group *data () const noexcept { return c_.data (); }
    std::size_t size () const noexcept { return c_.size (); }

  private:
    std::vector<param_group> groups_;
    std::vector<std::vector<const char *>> names_;
    std::vector<accel_param_group> c_;
};

/**
 * The groups of an optimizer's options.  Copies share one array, which never changes, so that the pointers in copies of
 * the C struct stay valid.  (Not movable: a moved-from object would keep pointers to an array that it does not own.)
 */
class shared_groups {
  public:
    shared_groups () noexcept = default;
    shared_groups (const shared_groups &) noexcept = default;
    shared_groups &operator= (const shared_groups &) noexcept = default;

    template <class Options>
    void
    add (Options &to, param_group &&one)
    {
        std::vector<param_group> all = array_ ? array_->groups () : std::vector<param_group> ();
        all.push_back (std::move (one));
        set (to, std::move (all));
    }
    template <class Options>
    void
    set (Options &to, std::vector<param_group> &&all)
    {
        array_ = std::make_shared<const group_array> (std::move (all));
        to.groups = array_->data ();
        to.group_count = array_->size ();
    }

  private:
    std::shared_ptr<const group_array> array_;
};

} // namespace detail

} // namespace accelerate

#endif
