/* SPDX-License-Identifier: Apache-2.0 */
/* Models, optimizers and schedulers. */
#ifndef ACCEL_HPP_TRAIN_HPP
#define ACCEL_HPP_TRAIN_HPP

#include <accel/hpp/data.hpp>
#include <accel/hpp/options.hpp>

namespace accelerate {

/** A parameter in the table of a model. */
struct parameter_row {
    const char *name;
    shape_type shape;
    std::size_t offset = 0; /**< elements from the beginning of the array; 0: right after the row before */
    bool frozen = false;    /**< not trained */
};

/** Named parameters and their gradients. */
class model {
  public:
    /**
     * One array of all parameters.  By default the library finds the memory, of parameters now and of gradients in
     * accelerator::prepare(); or @p array is the program's, see accel_model_from_array().
     */
    explicit model (const std::vector<parameter_row> &rows, const accel_array &array = {})
    {
        std::vector<accel_array_row> c (rows.size ());
        for (std::size_t i = 0; i < rows.size (); i++) {
            if (rows[i].shape.size () > ACCEL_MAX_DIMS)
                throw error (ACCEL_ERR_INVALID, std::string ("'") + rows[i].name + "' has too many dimensions");
            c[i].name = rows[i].name;
            for (std::int64_t size : rows[i].shape)
                c[i].shape[c[i].ndim++] = size;
            c[i].offset = rows[i].offset;
            c[i].frozen = rows[i].frozen;
        }
        make (ACCEL_CALL_ (accel_model_from_array), &array, c.data (), c.size ());
    }

    /** Tensors of the program, which must outlive the model. */
    explicit model (span<const accel_parameter> parameters)
    {
        make (ACCEL_CALL_ (accel_model_create), parameters.data (), parameters.size ());
    }

    /** The program's own structs, see accel_model_from_structs(). */
    template <class S>
    static model
    from_structs (span<S> structs, const accel_struct_layout &layout)
    {
        model result;
        result.make (ACCEL_CALL_ (accel_model_from_structs), static_cast<const void *> (structs.data ()),
                     structs.size (), &layout);
        return result;
    }

    accel_model *get () const noexcept { return own_.get (); }

    std::size_t size () const noexcept { return accel_model_parameter_count (get ()); } /**< parameters */
    template <class I, class = std::enable_if_t<std::is_integral_v<I>>> /* or a literal 0 could be a name too */
    const accel_parameter &
    operator[] (I index) const
    {
        return found (accel_model_parameter (get (), static_cast<std::size_t> (index)));
    }
    const accel_parameter &
    operator[] (const char *name) const
    {
        return found (accel_model_get_parameter (get (), name), name);
    }
    /** Elements of a parameter, and of its gradient, whose memory may come with accelerator::prepare() only.  @{ */
    template <class T, class Key> span<T> data (Key key) const { return detail::values_of<T> (*(*this)[key].data); }
    template <class T, class Key>
    span<T>
    grad (Key key) const
    {
        const DLTensor *grad = (*this)[key].grad;
        if (!grad || !grad->data)
            throw error (ACCEL_ERR_INVALID, std::string ("the gradient of '") + (*this)[key].name
                                                + "' has no memory: it is not trained, or not prepared yet");
        return detail::values_of<T> (*grad);
    }
    /** @} */

    void
    set_ddp (const accel_ddp_options &options)
    {
        detail::attempt call;
        call (accel_model_set_ddp (get (), &options, call.err ()));
    }
    void
    set_sharding (const accel_sharding_options &options)
    {
        detail::attempt call;
        call (accel_model_set_sharding (get (), &options, call.err ()));
    }
    accel_sharding sharding () const noexcept { return accel_model_sharding (get ()); }
    /** Keep this process's parts of parameters, see accel_device_mesh(). */
    void
    set_tensor_parallel (const accel *acc, span<const accel_partition> rows)
    {
        detail::attempt call;
        call (accel_model_set_tensor_parallel (get (), acc, rows.data (), rows.size (), call.err ()));
    }
    /** Give parameters their first values, before accelerator::prepare(). */
    void
    initialize (span<const accel_initializer> rows, generator_ref from)
    {
        detail::attempt call;
        call (accel_model_initialize (get (), rows.data (), rows.size (), from.get (), call.err ()));
    }
    /** Positions of parameters that are read from now on, or no longer.  @{ */
    void
    layer_begin (span<const std::size_t> parameters, site at = site::here ())
    {
        detail::attempt call;
        call (accel_layer_begin_at (at.file, at.line, get (), parameters.data (), parameters.size (), call.err ()));
    }
    void
    layer_end (span<const std::size_t> parameters)
    {
        detail::attempt call;
        call (accel_layer_end (get (), parameters.data (), parameters.size (), call.err ()));
    }
    /** @} */
    void
    summon_full_params (site at = site::here ())
    {
        detail::attempt call;
        call (accel_summon_full_params_at (at.file, at.line, get (), call.err ()));
    }
    void
    summon_full_params_end ()
    {
        detail::attempt call;
        call (accel_summon_full_params_end (get (), call.err ()));
    }
    /** How accelerator::save_model() and load_model() name and lay out the parameters. */
    void
    set_file_names (span<const accel_file_name> rows)
    {
        detail::attempt call;
        call (accel_model_set_file_names (get (), rows.data (), rows.size (), call.err ()));
    }
    /** Within a backward pass: this gradient is complete. */
    void
    grad_ready (std::size_t index)
    {
        detail::attempt call;
        call (accel_grad_ready (get (), index, call.err ()));
    }

    DLTensor *master (std::size_t index) noexcept { return accel_model_master (get (), index); }
    void widen () noexcept { accel_model_widen (get ()); }
    void narrow () noexcept { accel_model_narrow (get ()); }
    float scale (std::size_t index) const noexcept { return accel_model_scale (get (), index); }

    /** Scale all gradients so that their norm is at most @p max_norm.  @return the norm before */
    float
    clip_grad_norm (double max_norm, const accel_clip_options &options = {}, site at = site::here ())
    {
        float norm = 0;
        detail::attempt call;
        call (accel_clip_grad_norm_at (at.file, at.line, sizeof options, get (), max_norm, &norm, &options,
                                       call.err ()));
        return norm;
    }
    void
    clip_grad_value (double clip_value, site at = site::here ())
    {
        detail::attempt call;
        call (accel_clip_grad_value_at (at.file, at.line, get (), clip_value, call.err ()));
    }

  private:
    model () = default;
    template <class F, class... Args>
    void
    make (F function, Args... args)
    {
        accel_model *raw = nullptr;
        detail::attempt call;
        call (function (&raw, args..., call.err ()));
        own_.reset (raw);
    }
    static const accel_parameter &
    found (const accel_parameter *parameter, const char *name = nullptr)
    {
        if (parameter)
            return *parameter;
        throw error (ACCEL_ERR_INVALID, name ? std::string ("the model has no parameter '") + name + "'"
                                             : std::string ("the model does not have that many parameters"));
    }

    detail::handle<accel_model, accel_model_destroy> own_;
};

/** A part of a forward pass that is computed again in the backward pass: activation checkpointing.  @p options need no
 * function. */
class segment {
  public:
    explicit segment (std::function<void ()> forward, accel_segment_options options = segment_options ())
        : body_ (std::make_unique<body> (body { std::move (forward), nullptr }))
    {
        accel_segment *raw = nullptr;
        detail::attempt call;
        options.user = body_.get ();
        options.forward = [] (void *user, accel_error *err) {
            body *own = static_cast<body *> (user);
            return detail::run (err, own->function, &own->thrown);
        };
        call (accel_segment_create (&raw, &options, call.err ()));
        own_.reset (raw);
    }

    accel_segment *get () const noexcept { return own_.get (); }

    void forward () { run (accel_segment_forward); }
    void recompute () { run (accel_segment_recompute); }
    void end () noexcept { accel_segment_end (get ()); }

  private:
    struct body {
        std::function<void ()> function;
        std::exception_ptr thrown;
    };

    template <class F>
    void
    run (F function)
    {
        detail::attempt call;
        body_->thrown = nullptr;
        const accel_status status = function (get (), call.err ());
        if (status && body_->thrown)
            std::rethrow_exception (body_->thrown);
        call (status);
    }

    std::unique_ptr<body> body_;
    detail::handle<accel_segment, accel_segment_destroy> own_;
};

/** An optimizer of the program's own; functions may be empty but for step. */
struct custom_optimizer {
    double lr;
    std::vector<const char *> state_names;
    std::function<void (const accel_update &)> step;
    std::function<void (const accel_update &)> init;
    std::function<shape_type (const accel_parameter &, std::size_t state)> shape;
    std::vector<param_group> groups {};
};

/** Changes parameters by their gradients. */
class optimizer {
  public:
    optimizer (model &of, accel_optimizer_kind kind, const accel_optimizer_options &options = optimizer_options ())
    {
        make (ACCEL_CALL_ (accel_optimizer_create), of, kind, &options);
    }

    static optimizer
    custom (model &of, custom_optimizer functions)
    {
        auto own = std::make_unique<custom_optimizer> (std::move (functions));
        const detail::group_array groups (std::move (own->groups));
        accel_custom_optimizer c = accel_custom_optimizer ();
        c.groups = groups.data ();
        c.group_count = groups.size ();
        c.lr = accel_exactly (own->lr);
        c.state_names = own->state_names.data ();
        c.state_count = own->state_names.size ();
        c.shape = own->shape ? shape_c : nullptr;
        c.init = own->init ? init_c : nullptr;
        c.step = own->step ? step_c : nullptr;
        c.destroy = [] (void *user) { delete static_cast<custom_optimizer *> (user); };
        c.user = own.release (); /* the library calls destroy, whatever happens */
        optimizer result;
        result.make (ACCEL_CALL_ (accel_optimizer_create_custom), of, &c);
        return result;
    }

    accel_optimizer *get () const noexcept { return own_.get (); }

    void
    step (site at = site::here ())
    {
        detail::attempt call;
        call (accel_optimizer_step_at (at.file, at.line, get (), call.err ()));
    }
    void
    zero_grad ()
    {
        detail::attempt call;
        call (accel_optimizer_zero_grad (get (), call.err ()));
    }
    double lr () const noexcept { return accel_optimizer_lr (get ()); }
    void
    set_lr (double lr)
    {
        detail::attempt call;
        call (accel_optimizer_set_lr (get (), lr, call.err ()));
    }
    bool step_was_skipped () const noexcept { return accel_optimizer_step_was_skipped (get ()); }
    std::uint64_t step_count () const noexcept { return accel_optimizer_step_count (get ()); }
    void set_step_count (std::uint64_t steps) noexcept { accel_optimizer_set_step_count (get (), steps); }
    /** NULL after the last one. */
    const char *state_name (std::size_t state) const noexcept { return accel_optimizer_state_name (get (), state); }
    /** The state of a parameter; empty if there is none of that name. */
    span<float>
    state (std::size_t parameter, const char *name)
    {
        DLTensor *found = accel_optimizer_state_tensor (get (), parameter, name);
        return found ? detail::values_of<float> (*found) : span<float> ();
    }

    std::size_t group_count () const noexcept { return accel_optimizer_group_count (get ()); }
    /** @return the position of the group, or ACCEL_NO_GROUP */
    std::size_t find_group (const char *name) const noexcept { return accel_optimizer_find_group (get (), name); }
    /** The numbers of a group, by name or position.  set_group() changes those that were set in @p numbers.
     *  All throw if there is no such group.  @{ */
    template <class Key>
    accel_param_group
    group (Key key) const
    {
        accel_param_group result;
        detail::attempt call;
        call (accel_optimizer_get_group (get (), position (key), &result, call.err ()));
        return result;
    }
    template <class Key>
    void
    set_group (Key key, const param_group &numbers)
    {
        detail::attempt call;
        call (accel_optimizer_set_group (get (), position (key), &numbers.numbers (), call.err ()));
    }
    /** @} */

  private:
    std::size_t
    position (const char *name) const
    {
        std::size_t found = find_group (name);
        if (found == ACCEL_NO_GROUP)
            throw error (ACCEL_ERR_INVALID, std::string ("the optimizer has no parameter group '") + name + "'");
        return found;
    }
    std::size_t position (const std::string &name) const { return position (name.c_str ()); }
    template <class I, class = std::enable_if_t<std::is_integral_v<I>>>
    std::size_t
    position (I group) const
    {
        if (static_cast<std::size_t> (group) >= group_count ())
            throw error (ACCEL_ERR_INVALID, "the optimizer does not have that many parameter groups");
        return static_cast<std::size_t> (group);
    }
    template <class F, class... Args>
    void
    make (F function, model &of, Args... args)
    {
        accel_optimizer *raw = nullptr;
        detail::attempt call;
        call (function (&raw, of.get (), args..., call.err ()));
        own_.reset (raw);
    }
    static accel_status
    shape_c (void *user, const accel_parameter *parameter, std::size_t state, int *ndim, std::int64_t *shape,
             accel_error *err)
    {
        return detail::run (err, [&] {
            shape_type sizes = static_cast<custom_optimizer *> (user)->shape (*parameter, state);
            if (sizes.size () > ACCEL_STATE_DIMS)
                throw error (ACCEL_ERR_INVALID, "too many dimensions");
            *ndim = 0;
            for (std::int64_t size : sizes)
                shape[(*ndim)++] = size;
        });
    }
    static accel_status
    init_c (void *user, const accel_update *update, accel_error *err)
    {
        return detail::run (err, [&] { static_cast<custom_optimizer *> (user)->init (*update); });
    }
    static accel_status
    step_c (void *user, const accel_update *update, accel_error *err)
    {
        return detail::run (err, [&] { static_cast<custom_optimizer *> (user)->step (*update); });
    }
    optimizer () = default;

    detail::handle<accel_optimizer, accel_optimizer_destroy> own_;
};

/** Changes the learning rate of an optimizer from step to step. */
class scheduler {
  public:
    scheduler (optimizer &of, const accel_scheduler_options &options)
    {
        make (ACCEL_CALL_ (accel_scheduler_create), of, &options);
    }

    /** The base learning rate times what @p factor says of each step; it must not throw. */
    static scheduler
    lambda (optimizer &of, std::function<double (std::uint64_t step)> factor, accel_scheduler_options options = {})
    {
        scheduler result;
        result.factor_ = std::make_unique<std::function<double (std::uint64_t)>> (std::move (factor));
        options.schedule = ACCEL_SCHEDULE_LAMBDA;
        options.user = result.factor_.get ();
        options.lambda = [] (void *user, std::uint64_t step) noexcept {
            return (*static_cast<std::function<double (std::uint64_t)> *> (user)) (step);
        };
        result.make (ACCEL_CALL_ (accel_scheduler_create), of, &std::as_const (options));
        return result;
    }

    /** Schedule 0 begins in step 0, schedule i in step milestones[i - 1]. */
    static scheduler
    sequential (optimizer &of, const std::vector<accel_scheduler_options> &parts,
                const std::vector<std::uint64_t> &milestones)
    {
        if (parts.size () != milestones.size () + 1)
            throw error (ACCEL_ERR_INVALID, "a sequence of schedules needs one milestone between every two of them");
        return made (ACCEL_CALL_ (accel_scheduler_create_sequential), of, parts.data (), parts.size (),
                     milestones.data ());
    }
    /** Base times the factors of several schedules. */
    static scheduler
    chained (optimizer &of, const std::vector<accel_scheduler_options> &parts)
    {
        return made (ACCEL_CALL_ (accel_scheduler_create_chained), of, parts.data (), parts.size ());
    }

    accel_scheduler *get () const noexcept { return own_.get (); }

    void
    step ()
    {
        detail::attempt call;
        call (accel_scheduler_step (get (), call.err ()));
    }
    double lr () const noexcept { return accel_scheduler_lr (get ()); }

    /** Everything needed to resume: one state for each schedule and group that it changes.  @{ */
    std::vector<accel_scheduler_state>
    states () const
    {
        std::vector<accel_scheduler_state> result (accel_scheduler_state_count (get ()));
        accel_scheduler_get_state (get (), result.data ());
        return result;
    }
    void
    set_state (span<const accel_scheduler_state> states)
    {
        detail::attempt call;
        call (accel_scheduler_set_state (get (), states.data (), states.size (), call.err ()));
    }
    /** @} */

  private:
    scheduler () = default;
    template <class F, class... Args>
    void
    make (F function, optimizer &of, Args... args)
    {
        accel_scheduler *raw = nullptr;
        detail::attempt call;
        call (function (&raw, of.get (), args..., call.err ()));
        own_.reset (raw);
    }
    template <class F, class... Args>
    static scheduler
    made (F function, optimizer &of, Args... args)
    {
        scheduler result;
        result.make (function, of, args...);
        return result;
    }

    std::unique_ptr<std::function<double (std::uint64_t)>> factor_;
    detail::handle<accel_scheduler, accel_scheduler_destroy> own_;
};

} // namespace accelerate

#endif
