/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers, samplers, data sets, and loaders that a range-for goes through. */
#ifndef ACCEL_HPP_DATA_HPP
#define ACCEL_HPP_DATA_HPP

#include <accel/hpp/tree.hpp>

#include <array>
#include <functional>
#include <limits>

namespace accelerate {

/** A generator that this object does not own, such as the process's own.  Also a standard random bit generator. */
class generator_ref {
  public:
    using result_type = std::uint32_t;
    using state_type = std::array<std::uint8_t, ACCEL_GENERATOR_STATE_BYTES>;

    explicit generator_ref (accel_generator *raw) noexcept : raw_ (raw) {}
    accel_generator *get () const noexcept { return raw_; }

    static constexpr result_type min () noexcept { return 0; }
    static constexpr result_type max () noexcept { return std::numeric_limits<result_type>::max (); }
    result_type operator() () noexcept { return accel_generator_next (raw_); }

    void seed (std::uint64_t seed) noexcept { accel_generator_seed (raw_, seed); }
    std::uint64_t initial_seed () const noexcept { return accel_generator_initial_seed (raw_); }
    void set_kernels (accel_random_kernels kernels) noexcept { accel_generator_set_kernels (raw_, kernels); }
    float uniform () noexcept { return accel_generator_uniform (raw_); }
    std::int64_t
    randint (std::int64_t low, std::int64_t high) noexcept
    {
        return accel_generator_randint (raw_, low, high);
    }
    /** @return the class drawn */
    std::size_t
    choose (span<const float> logits, const accel_choice_options &options = {})
    {
        std::size_t result = 0;
        detail::attempt call;
        call (ACCEL_CALL_ (accel_generator_choose) (raw_, logits.data (), logits.size (), &result, &options,
                                                    call.err ()));
        return result;
    }
    std::vector<std::int64_t>
    permutation (std::size_t count)
    {
        std::vector<std::int64_t> result (count);
        accel_generator_permutation (raw_, result.data (), count);
        return result;
    }

    void
    fill_uniform (span<float> values, double from = 0, double to = 1)
    {
        must (accel_generator_fill_uniform, values, ACCEL_FLOAT32, from, to);
    }
    void
    fill_uniform (span<double> values, double from = 0, double to = 1)
    {
        must (accel_generator_fill_uniform, values, ACCEL_FLOAT64, from, to);
    }
    void
    fill_normal (span<float> values, double mean = 0, double std = 1)
    {
        must (accel_generator_fill_normal, values, ACCEL_FLOAT32, mean, std);
    }
    void
    fill_normal (span<double> values, double mean = 0, double std = 1)
    {
        must (accel_generator_fill_normal, values, ACCEL_FLOAT64, mean, std);
    }

    state_type
    state () const noexcept
    {
        state_type result;
        accel_generator_get_state (raw_, result.data ());
        return result;
    }
    void
    set_state (span<const std::uint8_t> state)
    {
        detail::attempt call;
        call (accel_generator_set_state (raw_, state.data (), state.size (), call.err ()));
    }

  private:
    template <class F, class T>
    void
    must (F fill, span<T> values, accel_dtype dtype, double first, double second)
    {
        detail::attempt call;
        call (fill (raw_, values.data (), values.size (), dtype, first, second, call.err ()));
    }

    accel_generator *raw_;
};

/** torch.default_generator. */
inline generator_ref
default_generator () noexcept
{
    return generator_ref (accel_default_generator ());
}

/** A generator of its own. */
class generator : public generator_ref {
  public:
    explicit generator (std::uint64_t seed = ACCEL_GENERATOR_DEFAULT_SEED) : generator (make (seed)) {}

  private:
    using handle = detail::handle<accel_generator, accel_generator_destroy>;
    explicit generator (handle own) noexcept : generator_ref (own.get ()), own_ (std::move (own)) {}
    static handle
    make (std::uint64_t seed)
    {
        accel_generator *raw = nullptr;
        detail::attempt call;
        call (accel_generator_create (&raw, seed, call.err ()));
        return handle (raw);
    }

    handle own_;
};

class dataset;

/** The order of an epoch. */
class sampler {
  public:
    sampler (accel_sampler_kind kind, std::size_t size, const accel_sampler_options &options = {})
        : sampler (make (ACCEL_CALL_ (accel_sampler_create), kind, size, &options))
    {
    }
    /** The order of llm.c's trainer over token files. */
    static sampler llmc (const dataset &files, const accel_sampler_options &options = {});
    /** A pass has @p length indices, from @p next (); @p start (epoch), which may be empty, begins it. */
    static sampler
    custom (std::size_t length, std::function<std::int64_t ()> next, std::function<void (std::uint64_t)> start = {})
    {
        auto own = std::make_unique<functions> (functions { std::move (next), std::move (start) });
        accel_sampler_calls calls = accel_sampler_calls ();
        calls.length = length;
        calls.user = own.get ();
        calls.next = [] (void *user, std::int64_t *index, accel_error *err) {
            return detail::run (err, [&] { *index = static_cast<functions *> (user)->next (); });
        };
        calls.start = [] (void *user, std::uint64_t epoch, accel_error *err) {
            functions *f = static_cast<functions *> (user);
            return detail::run (err, [&] { f->start ? f->start (epoch) : void (); });
        };
        sampler result = make (ACCEL_CALL_ (accel_sampler_create_custom), &calls);
        result.functions_ = std::move (own);
        return result;
    }

    accel_sampler *get () const noexcept { return own_.get (); }
    std::size_t size () const noexcept { return accel_sampler_length (get ()); }
    void set_epoch (std::uint64_t epoch) noexcept { accel_sampler_set_epoch (get (), epoch); }
    std::vector<std::int64_t>
    draw ()
    {
        std::vector<std::int64_t> indices (size ());
        detail::attempt call;
        call (accel_sampler_draw (get (), indices.data (), call.err ()));
        return indices;
    }

  private:
    struct functions {
        std::function<std::int64_t ()> next;
        std::function<void (std::uint64_t)> start;
    };
    template <class F, class... Args>
    static sampler
    make (F function, Args... args)
    {
        sampler result;
        accel_sampler *raw = nullptr;
        detail::attempt call;
        call (function (&raw, args..., call.err ()));
        result.own_.reset (raw);
        return result;
    }
    sampler () = default;

    std::unique_ptr<functions> functions_; /* before own_: destroyed after it */
    detail::handle<accel_sampler, accel_sampler_destroy> own_;
};

/** One part of a sample. */
inline accel_field
field (const char *name, accel_dtype dtype, const shape_type &shape = {})
{
    accel_field result = accel_field ();
    if (shape.size () >= ACCEL_MAX_DIMS)
        throw error (ACCEL_ERR_INVALID, std::string ("field '") + name + "' has too many dimensions");
    result.name = name;
    result.dtype = dtype;
    for (std::int64_t size : shape)
        result.shape[result.ndim++] = size;
    return result;
}

/** Samples by index. */
class dataset {
  public:
    /** Reads sample @p index into memory of each field, in their order; called by several threads at once. */
    using read_function = std::function<void (std::size_t index, void *const *into)>;

    /** Samples that the program reads.  Names of fields must outlive the data set. */
    dataset (std::vector<accel_field> fields, std::size_t size, read_function read)
    {
        auto own = std::make_unique<functions> (functions { std::move (fields), std::move (read), accel_dataset () });
        accel_dataset &set = own->set;
        set.size = size;
        set.fields = own->fields.data ();
        set.field_count = own->fields.size ();
        set.user = own.get ();
        set.read = [] (void *user, std::size_t index, void *const *into, accel_error *err) {
            return detail::run (err, [&] { static_cast<functions *> (user)->read (index, into); });
        };
        raw_ = &set;
        functions_ = std::move (own);
    }

    /** Row i of each array is sample i's.  The arrays must outlive the data set. */
    static dataset
    from_arrays (span<const accel_field> fields, span<const void *const> arrays, std::size_t size)
    {
        if (fields.size () != arrays.size ())
            throw error (ACCEL_ERR_INVALID, "there are not as many arrays as fields");
        return make (accel_dataset_from_arrays, fields.data (), arrays.data (), fields.size (), size);
    }
    /** The samples from @p first on; *this must outlive them. */
    dataset
    subset (std::size_t first, std::size_t size) const
    {
        return make (ACCEL_CALL_ (accel_dataset_subset), get (), first, size);
    }
    /** @param paths  files, or glob(7) patterns */
    static dataset
    open_tokens (const std::vector<std::string> &paths, const accel_tokens_options &options)
    {
        std::vector<const char *> raw;
        for (const std::string &path : paths)
            raw.push_back (path.c_str ());
        return make (ACCEL_CALL_ (accel_dataset_open_tokens), raw.data (), raw.size (), &options);
    }
    static dataset
    open_tokens (const std::string &path, const accel_tokens_options &options)
    {
        return open_tokens (std::vector<std::string> { path }, options);
    }
    static dataset
    open_csv (const std::string &path, const accel_csv_options &options = {})
    {
        return make (ACCEL_CALL_ (accel_dataset_open_csv), path.c_str (), &options);
    }
    /** @param labels  a second file; empty: there is none */
    static dataset
    open_idx (const std::string &images, const std::string &labels = {}, const accel_idx_options &options = {})
    {
        return make (ACCEL_CALL_ (accel_dataset_open_idx), images.c_str (),
                     labels.empty () ? nullptr : labels.c_str (), &options);
    }
    /** @param names  of the tensors; none: all of the file */
    static dataset
    open_safetensors (const std::string &path, span<const char *const> names = {})
    {
        return make (accel_dataset_open_safetensors, path.c_str (), names.data (), names.size ());
    }

    const accel_dataset *get () const noexcept { return raw_; }
    std::size_t size () const noexcept { return raw_->size; }
    span<const accel_field> fields () const noexcept { return { raw_->fields, raw_->field_count }; }
    void
    read (std::size_t index, void *const *into) const
    {
        detail::attempt call;
        call (raw_->read (raw_->user, index, into, call.err ()));
    }

  private:
    struct functions {
        std::vector<accel_field> fields;
        read_function read;
        accel_dataset set;
    };
    template <class F, class... Args>
    static dataset
    make (F function, Args... args)
    {
        dataset result;
        accel_dataset *raw = nullptr;
        detail::attempt call;
        call (function (&raw, args..., call.err ()));
        result.own_.reset (raw);
        result.raw_ = raw;
        return result;
    }
    dataset () = default;

    std::unique_ptr<functions> functions_;
    detail::handle<accel_dataset, accel_dataset_close> own_;
    const accel_dataset *raw_ = nullptr;
};

inline sampler
sampler::llmc (const dataset &files, const accel_sampler_options &options)
{
    return make (ACCEL_CALL_ (accel_sampler_create_llmc), files.get (), &options);
}

/** Samples one after the other; 0 and empty functions mean what they do in struct accel_dataset. */
struct iterable_dataset {
    std::vector<accel_field> fields;
    std::function<bool (void *const *into)> next; /**< false: there are no more samples */
    std::function<void (std::uint64_t epoch)> start;
    std::function<void (std::uint64_t count)> skip;
    std::size_t size = 0;
};

/** A batch, which belongs to its loader and is valid until the next one. */
class batch {
  public:
    explicit batch (const accel_batch *raw) noexcept : raw_ (raw) {}
    const accel_batch *get () const noexcept { return raw_; }

    std::size_t size () const noexcept { return accel_batch_size (raw_); } /**< samples */
    const DLTensor &
    operator[] (const char *name) const
    {
        const DLTensor *found = accel_batch_tensor (raw_, name);
        if (!found) { /* it fails, with "did you mean" */
            void *none;
            detail::attempt call;
            call (accel_batch_data (raw_, name, ACCEL_FLOAT32, &none, call.err ()));
        }
        return *found;
    }
    template <class T>
    span<const T>
    values (const char *name) const
    {
        return detail::values_of<const T> ((*this)[name]);
    }
    span<const std::int64_t> indices () const noexcept { return { accel_batch_indices (raw_), size () }; }
    /** A dict of the fields, whose memory is the batch's. */
    accelerate::tree tree () const { return accelerate::tree::make (accel_batch_tree, raw_); }

  private:
    const accel_batch *raw_;
};

/** A batch that a collate function fills. */
class collated_batch {
  public:
    explicit collated_batch (accel_batch *raw) noexcept : raw_ (raw) {}
    accel_batch *get () const noexcept { return raw_; }
    /** Memory for field @p name in that shape, not cleared. */
    void *
    resize (const char *name, const shape_type &shape)
    {
        void *memory = nullptr;
        detail::attempt call;
        call (accel_batch_resize (raw_, name, int (shape.size ()), shape.data (), &memory, call.err ()));
        return memory;
    }
    template <class T>
    span<T>
    resize (const char *name, const shape_type &shape)
    {
        resize (name, shape);
        return detail::values_of<T> (*accel_batch_tensor (raw_, name));
    }

  private:
    accel_batch *raw_;
};

/** Data in batches; after accelerator::prepare() this process's share of them. */
class loader {
  public:
    using collate_function = std::function<void (span<const std::int64_t> indices, collated_batch &batch)>;

    explicit loader (const dataset &from, const accel_loader_options &options = {}, collate_function collate = {})
        : functions_ (std::make_unique<functions> ())
    {
        accel_loader_options own = options;
        if (collate) {
            functions_->collate = std::move (collate);
            own.collate = collate_c;
            own.collate_user = functions_.get ();
        }
        accel_loader *raw = nullptr;
        detail::attempt call;
        call (accel_loader_create (&raw, from.get (), &own, call.err ()));
        own_.reset (raw);
    }

    explicit loader (iterable_dataset from, const accel_loader_options &options = {})
        : functions_ (std::make_unique<functions> ())
    {
        functions_->source = std::move (from);
        const iterable_dataset &source = functions_->source;
        accel_dataset c = accel_dataset ();
        c.fields = source.fields.data ();
        c.field_count = source.fields.size ();
        c.size = source.size;
        c.user = functions_.get ();
        c.next = next_c;
        c.start = source.start ? start_c : nullptr;
        c.skip = source.skip ? skip_c : nullptr;
        functions_->c = c;
        accel_loader *raw = nullptr;
        detail::attempt call;
        call (accel_loader_create (&raw, &functions_->c, &options, call.err ()));
        own_.reset (raw);
    }

    loader (loader &&) noexcept = default;
    loader &
    operator= (loader &&from) noexcept
    {
        own_ = std::move (from.own_); /* first: its threads call the functions */
        functions_ = std::move (from.functions_);
        return *this;
    }

    accel_loader *get () const noexcept { return own_.get (); }

    struct sentinel {};

    /** One pass.  Leaving the loop early ends it, as leaving Python's does: the next pass is of the next epoch. */
    class iterator {
      public:
        using iterator_category = std::input_iterator_tag;
        using value_type = batch;
        using difference_type = std::ptrdiff_t;
        using pointer = const batch *;
        using reference = const batch &;

        /* By way of a complete object, whose destructor ends a pass that cannot read its first batch. */
        iterator (loader &of, site at) : iterator (&of, at) { advance (); }
        iterator (iterator &&from) noexcept
            : of_ (std::exchange (from.of_, nullptr)), at_ (from.at_), now_ (from.now_)
        {
        }
        iterator (const iterator &) = delete;
        iterator &operator= (iterator &&) = delete;
        ~iterator ()
        {
            if (of_)
                accel_loader_end (of_->get ());
        }

        reference operator* () const noexcept { return now_; }
        pointer operator->() const noexcept { return &now_; }
        iterator &
        operator++ ()
        {
            advance ();
            return *this;
        }
        friend bool operator!= (const iterator &i, sentinel) noexcept { return i.of_ != nullptr; }
        friend bool operator== (const iterator &i, sentinel) noexcept { return i.of_ == nullptr; }

      private:
        iterator (loader *of, site at) noexcept : of_ (of), at_ (at) {}
        void
        advance ()
        {
            if (!of_->next (now_, at_))
                of_ = nullptr;
        }

        loader *of_;
        site at_;
        batch now_ { nullptr };
    };

    iterator begin (site at = site::here ()) { return iterator (*this, at); }
    sentinel end () noexcept { return {}; }

    /** accel_loader_next(): for programs that continue a pass, or ask again after an error.  @return whether there
     *  is a batch */
    bool
    next (batch &now, site at = site::here ())
    {
        const accel_batch *raw = nullptr;
        detail::attempt call;
        bool found = accel_loader_next_at (at.file, at.line, get (), &raw, call.err ());
        now = batch (raw);
        if (!found)
            call (call.why ().code);
        return found;
    }
    void end_pass () noexcept { accel_loader_end (get ()); }

    std::size_t size () const noexcept { return accel_loader_length (get ()); } /**< batches of an epoch */
    std::size_t total_batch_size () const noexcept { return accel_loader_total_batch_size (get ()); }
    std::uint64_t epoch () const noexcept { return accel_loader_epoch (get ()); }
    void set_epoch (std::uint64_t epoch) noexcept { accel_loader_set_epoch (get (), epoch); }
    bool end_of_dataloader () const noexcept { return accel_loader_end_of_dataloader (get ()); }
    std::size_t remainder () const noexcept { return accel_loader_remainder (get ()); }
    void
    skip_first_batches (std::size_t batches)
    {
        detail::attempt call;
        call (accel_skip_first_batches (get (), batches, call.err ()));
    }
    accel_loader_state
    state () const
    {
        accel_loader_state result;
        detail::attempt call;
        call (accel_loader_get_state (get (), &result, call.err ()));
        return result;
    }
    void
    set_state (const accel_loader_state &state)
    {
        detail::attempt call;
        call (accel_loader_set_state (get (), &state, call.err ()));
    }

  private:
    struct functions {
        collate_function collate;
        iterable_dataset source;
        accel_dataset c {};
    };
    static accel_status
    collate_c (void *user, const std::int64_t *indices, std::size_t count, accel_batch *raw, accel_error *err)
    {
        return detail::run (err, [&] {
            collated_batch batch (raw);
            static_cast<functions *> (user)->collate ({ indices, count }, batch);
        });
    }
    static accel_status
    next_c (void *user, void *const *into, bool *end, accel_error *err)
    {
        return detail::run (err, [&] { *end = !static_cast<functions *> (user)->source.next (into); });
    }
    static accel_status
    start_c (void *user, std::uint64_t epoch, accel_error *err)
    {
        return detail::run (err, [&] { static_cast<functions *> (user)->source.start (epoch); });
    }
    static accel_status
    skip_c (void *user, std::uint64_t count, accel_error *err)
    {
        return detail::run (err, [&] { static_cast<functions *> (user)->source.skip (count); });
    }

    std::unique_ptr<functions> functions_;
    detail::handle<accel_loader, accel_loader_destroy> own_;
};

} // namespace accelerate

#endif
