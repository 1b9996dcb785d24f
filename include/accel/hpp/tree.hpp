/* SPDX-License-Identifier: Apache-2.0 */
/* Trees: tensors and bytes in lists and dicts. */
#ifndef ACCEL_HPP_TREE_HPP
#define ACCEL_HPP_TREE_HPP

#include <accel/hpp/options.hpp>
#include <accel/hpp/tensor.hpp>

#include <string_view>

namespace accelerate {

class tree;

/** A tree, or a part of one, that this object does not own.  Looking up a key or index that does not exist gives an
 * empty node. */
class node {
  public:
    node () noexcept = default;
    node (const accel_tree *raw) noexcept : raw_ (raw) {}

    const accel_tree *get () const noexcept { return raw_; }
    explicit operator bool () const noexcept { return raw_ != nullptr; }

    enum accel_tree_kind kind () const noexcept { return accel_tree_kind (raw_); }
    std::size_t size () const noexcept { return accel_tree_length (raw_); } /**< items of a list or dict */
    template <class I, class = std::enable_if_t<std::is_integral_v<I>>> /* or a literal 0 could be a key too */
    node
    operator[] (I index) const noexcept
    {
        return accel_tree_item (raw_, static_cast<std::size_t> (index));
    }
    node operator[] (const char *key) const noexcept { return accel_tree_get (raw_, key); }
    node operator[] (const std::string &key) const noexcept { return accel_tree_get (raw_, key.c_str ()); }
    const char *key (std::size_t index) const noexcept { return accel_tree_key (raw_, index); }

    /** The tensor of a leaf.  Throws if it is not one. */
    const DLTensor &
    tensor () const
    {
        const DLTensor *found = accel_tree_tensor (raw_);
        if (!found)
            throw error (ACCEL_ERR_INVALID, "this node of a tree is not a tensor");
        return *found;
    }
    template <class T> span<const T> values () const { return detail::values_of<const T> (tensor ()); }

    /** The bytes of a leaf; empty for other kinds. */
    std::string_view
    bytes () const noexcept
    {
        std::size_t size = 0;
        const void *found = accel_tree_bytes (raw_, &size);
        return found ? std::string_view (static_cast<const char *> (found), size) : std::string_view ();
    }

    tree copy () const;
    tree slice (std::size_t begin, std::size_t end) const;
    tree pad (int dim, std::size_t size, double pad_index, bool pad_first = false) const;
    tree pad_input_tensors (std::size_t batch_size, std::size_t num_processes) const;
    tree send_to_device (DLDevice device, const accel_send_options &options = {}) const;
    /** @p function (std::string_view place, node leaf) returns a tree, an empty one to leave the leaf as it is. */
    template <class F> tree map (F &&function) const;

    std::size_t
    find_batch_size () const
    {
        std::size_t size = 0;
        detail::attempt call;
        call (accel_tree_find_batch_size (raw_, &size, call.err ()));
        return size;
    }

  protected:
    const accel_tree *raw_ = nullptr;
};

/** A tree of its own. */
class tree : public node {
  public:
    tree () noexcept = default;
    explicit tree (accel_tree *raw) noexcept : node (raw) {}
    ~tree () { accel_tree_destroy (get ()); }
    tree (tree &&from) noexcept : node (from.release ()) {}
    tree &
    operator= (tree &&from) noexcept
    {
        if (this != &from) {
            accel_tree_destroy (get ());
            raw_ = from.release ();
        }
        return *this;
    }
    tree (const tree &) = delete;
    tree &operator= (const tree &) = delete;

    accel_tree *get () const noexcept { return const_cast<accel_tree *> (raw_); }
    accel_tree *
    release () noexcept
    {
        accel_tree *raw = get ();
        raw_ = nullptr;
        return raw;
    }

    static tree list () { return make (accel_tree_create, ACCEL_TREE_LIST); }
    static tree dict () { return make (accel_tree_create, ACCEL_TREE_DICT); }
    /** A leaf with a view of the program's memory, which must outlive all trees that use it. */
    static tree borrow (const DLTensor &tensor) { return make (accel_tree_borrow_tensor, &tensor); }
    static tree copy_of (const DLTensor &tensor) { return make (accel_tree_copy_tensor, &tensor); }
    /** A leaf with the memory that a function of the library gave to @p tensor. */
    static tree take (accelerate::tensor &&tensor) { return make (accel_tree_take_tensor, tensor.get ()); }
    static tree
    of_bytes (std::string_view bytes)
    {
        return make (accel_tree_create_bytes, bytes.data (), bytes.size ());
    }
    static tree
    concatenate (span<const node> trees, int dim = 0)
    {
        std::vector<const accel_tree *> raw;
        for (node one : trees)
            raw.push_back (one.get ());
        return make (accel_tree_concatenate, raw.data (), raw.size (), dim);
    }

    tree &
    append (tree &&item)
    {
        detail::attempt call;
        call (accel_tree_append (get (), item.get (), call.err ()));
        item.release ();
        return *this;
    }
    tree &
    set (const std::string &key, tree &&item)
    {
        detail::attempt call;
        call (accel_tree_set (get (), key.c_str (), item.get (), call.err ()));
        item.release ();
        return *this;
    }

    /** What a C function that makes a tree makes of @p args. */
    template <class F, class... Args>
    static tree
    make (F function, Args... args)
    {
        accel_tree *raw = nullptr;
        detail::attempt call;
        call (function (&raw, args..., call.err ()));
        return tree (raw);
    }
};

inline tree
node::copy () const
{
    return tree::make (accel_tree_copy, raw_);
}

inline tree
node::slice (std::size_t begin, std::size_t end) const
{
    return tree::make (accel_tree_slice, raw_, begin, end);
}

inline tree
node::pad (int dim, std::size_t size, double pad_index, bool pad_first) const
{
    return tree::make (accel_tree_pad, raw_, dim, size, pad_index, pad_first);
}

inline tree
node::pad_input_tensors (std::size_t batch_size, std::size_t num_processes) const
{
    return tree::make (accel_pad_input_tensors, raw_, batch_size, num_processes);
}

inline tree
node::send_to_device (DLDevice device, const accel_send_options &options) const
{
    return tree::make (ACCEL_CALL_ (accel_send_to_device), raw_, device, &options);
}

template <class F>
tree
node::map (F &&function) const
{
    using call_type = detail::callback<std::remove_reference_t<F>>;
    call_type state { function };
    accel_tree *raw = nullptr;
    detail::attempt call;
    auto each = [] (void *user, const char *place, const accel_tree *leaf, accel_tree **result, accel_error *err) {
        call_type *own = static_cast<call_type *> (user);
        return detail::run (
            err, [&] { *result = tree (own->function (std::string_view (place), node (leaf))).release (); },
            &own->thrown);
    };
    state.check (accel_tree_map (&raw, raw_, each, &state, call.err ()), call);
    return tree (raw);
}

} // namespace accelerate

#endif
