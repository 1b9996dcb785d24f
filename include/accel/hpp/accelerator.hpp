/* SPDX-License-Identifier: Apache-2.0 */
/* The job: state, collectives on tensors, trees and objects, preparing and training, and what surrounds a loop. */
#ifndef ACCEL_HPP_ACCELERATOR_HPP
#define ACCEL_HPP_ACCELERATOR_HPP

#include <accel/hpp/comm.hpp>
#include <accel/hpp/files.hpp>
#include <accel/hpp/statedict.hpp>
#include <accel/hpp/train.hpp>

#include <cstdarg>
#include <cstdio>
#include <initializer_list>
#include <utility>
#include <vector>

namespace accelerate {

/** What accelerator::prepare() takes. */
class prepared {
  public:
    prepared (const model &object) noexcept : raw_ (object.get ()) {}
    prepared (const optimizer &object) noexcept : raw_ (object.get ()) {}
    prepared (const loader &object) noexcept : raw_ (object.get ()) {}
    prepared (const scheduler &object) noexcept : raw_ (object.get ()) {}
    void *get () const noexcept { return raw_; }

  private:
    void *raw_;
};

/** One of the trackers of a job; on ranks but 0, one that does nothing. */
class tracker {
  public:
    explicit tracker (accel_tracker *raw) noexcept : raw_ (raw) {}
    accel_tracker *get () const noexcept { return raw_; }
    void
    log (const std::vector<accel_value> &values, std::int64_t step = -1)
    {
        detail::attempt call;
        call (accel_tracker_log (raw_, values.data (), values.size (), step, call.err ()));
    }

  private:
    accel_tracker *raw_;
};

/** A process's membership in its job. */
class accelerator {
  public:
    /** Join the job that the environment describes.  Collective. */
    explicit accelerator (const accel_options &options = {})
    {
        accel *raw = nullptr;
        detail::attempt call;
        call (accel_open (&raw, &options, call.err ()));
        own_.reset (raw);
    }
    accel *get () const noexcept { return own_.get (); }

    /* Who and where. */
    const char *distributed_type () const noexcept { return accel_distributed_type (get ()); }
    DLDevice device () const noexcept { return accel_device (get ()); }
    int num_processes () const noexcept { return accel_num_processes (get ()); }
    int process_index () const noexcept { return accel_process_index (get ()); }
    int local_process_index () const noexcept { return accel_local_process_index (get ()); }
    int local_num_processes () const noexcept { return accel_local_num_processes (get ()); }
    bool is_main_process () const noexcept { return accel_is_main_process (get ()); }
    bool is_local_main_process () const noexcept { return accel_is_local_main_process (get ()); }
    bool is_last_process () const noexcept { return accel_is_last_process (get ()); }
    const char *mixed_precision () const noexcept { return accel_mixed_precision (get ()); }
    /** Whether the launcher asks for segments (accel::segment). */
    bool activation_checkpointing () const noexcept { return accel_activation_checkpointing (get ()); }
    communicator world () const noexcept { return communicator (accel_world (get ())); }
    /** The grid of a job with options ().tp_size (n), for accel_mesh_comm(); nullptr without. */
    const accel_mesh *device_mesh () const noexcept { return accel_device_mesh (get ()); }
    accel_split
    split_between_processes (std::size_t length, bool apply_padding = false) const noexcept
    {
        return accel_split_between_processes (get (), length, apply_padding);
    }

    /** Run @p task () on one process.  @return whether it ran here.  @{ */
    template <class F> bool on_main_process (F &&task) const { return is_main_process () && (task (), true); }
    template <class F>
    bool
    on_local_main_process (F &&task) const
    {
        return is_local_main_process () && (task (), true);
    }
    template <class F> bool on_last_process (F &&task) const { return is_last_process () && (task (), true); }
    template <class F>
    bool
    on_process (int index, F &&task) const
    {
        return (num_processes () == 1 || process_index () == index) && (task (), true);
    }
    template <class F>
    bool
    on_local_process (int index, F &&task) const
    {
        return (num_processes () == 1 || local_process_index () == index) && (task (), true);
    }
    /** @} */

    /** Run @p task () on rank 0 (of each host) first, then on the others.  Where it throws, the wait is left out: the
     * others learn that this process has gone on to something else, or has ended.  @{ */
    template <class F>
    void
    main_process_first (F &&task, site at = site::here ())
    {
        first (is_main_process (), task, at);
    }
    template <class F>
    void
    local_main_process_first (F &&task, site at = site::here ())
    {
        first (is_local_main_process (), task, at);
    }
    /** @} */

    /** printf() on local rank 0 of each host. */
    void
    print (const char *format, ...) const ACCEL_PRINTF (2, 3)
    {
        va_list args;
        va_start (args, format);
        std::string text = formatted (format, args);
        va_end (args);
        accel_print (get (), "%s", text.c_str ());
    }
    /** A line of the log on rank 0; with ACCEL_LOG_EVERYWHERE, on every process that calls it. */
    void
    logger_log (int level, const char *format, ...) const ACCEL_PRINTF (3, 4)
    {
        va_list args;
        va_start (args, format);
        std::string text = formatted (format, args);
        va_end (args);
        accel_logger_log (get (), level, "%s", text.c_str ());
    }
    void
    logger_log_in_order (int level, const std::string &text, site at = site::here ())
    {
        detail::attempt call;
        call (accel_logger_log_in_order_at (at.file, at.line, get (), call.err (), level, "%s", text.c_str ()));
    }

    void wait_for_everyone (site at = site::here ()) { must (at, accel_wait_for_everyone_at); }
    void set_trigger () noexcept { accel_set_trigger (get ()); }
    bool
    check_trigger (site at = site::here ())
    {
        bool fired = false;
        must (at, accel_check_trigger_at, &fired);
        return fired;
    }
    [[nodiscard]] bool
    should_save (site at = site::here ())
    {
        bool save = false;
        must (at, accel_should_save_at, &save);
        return save;
    }
    [[nodiscard]] bool
    should_stop (site at = site::here ())
    {
        bool stop = false;
        must (at, accel_should_stop_at, &stop);
        return stop;
    }

    /* Tensors. */
    tensor
    gather (const DLTensor &of, site at = site::here ())
    {
        return make_tensor (at, accel_gather_at, &of);
    }
    tensor
    gather_for_metrics (const DLTensor &of, site at = site::here ())
    {
        return make_tensor (at, accel_gather_for_metrics_at, &of);
    }
    /** In place. */
    void
    reduce (DLTensor &of, accel_op op = ACCEL_SUM, double scale = 1, site at = site::here ())
    {
        must (at, accel_reduce_at, &of, op, scale);
    }
    /** One number of each process. */
    [[nodiscard]] double
    reduce (double number, accel_op op = ACCEL_SUM, site at = site::here ())
    {
        must (at, accel_reduce_number_at, &number, op);
        return number;
    }
    void broadcast (DLTensor &of, int from = 0, site at = site::here ()) { must (at, accel_broadcast_at, &of, from); }
    tensor
    pad_across_processes (const DLTensor &of, int dim = 0, double pad_index = 0, bool pad_first = false,
                          site at = site::here ())
    {
        return make_tensor (at, accel_pad_across_processes_at, &of, dim, pad_index, pad_first);
    }
    tensor
    reduce_scatter (const DLTensor &of, accel_op op = ACCEL_SUM, site at = site::here ())
    {
        return make_tensor (at, accel_reduce_scatter_at, &of, op);
    }
    tensor
    all_to_all (const DLTensor &of, site at = site::here ())
    {
        return make_tensor (at, accel_all_to_all_at, &of);
    }
    void send (const DLTensor &of, int to, site at = site::here ()) { must (at, accel_send_at, &of, to); }
    void recv (DLTensor &into, int from, site at = site::here ()) { must (at, accel_recv_at, &into, from); }

    /* Trees. */
    tree gather (node of, site at = site::here ()) { return make_tree (at, accel_tree_gather_at, of.get ()); }
    tree
    gather_for_metrics (node of, site at = site::here ())
    {
        return make_tree (at, accel_tree_gather_for_metrics_at, of.get ());
    }
    tree
    reduce (node of, accel_op op = ACCEL_SUM, double scale = 1, site at = site::here ())
    {
        return make_tree (at, accel_tree_reduce_at, of.get (), op, scale);
    }
    void
    broadcast (tree &of, int from = 0, site at = site::here ())
    {
        must (at, accel_tree_broadcast_at, of.get (), from);
    }
    tree
    pad_across_processes (node of, int dim = 0, double pad_index = 0, bool pad_first = false, site at = site::here ())
    {
        return make_tree (at, accel_tree_pad_across_processes_at, of.get (), dim, pad_index, pad_first);
    }
    void send (node of, int to, site at = site::here ()) { must (at, accel_tree_send_at, of.get (), to); }
    tree
    recv_tree (int from, site at = site::here ())
    {
        return make_tree (at, accel_tree_recv_at, from);
    }

    /* Objects: strings of bytes. */
    using objects = std::vector<std::string>;
    objects
    gather_object (const objects &mine, site at = site::here ())
    {
        return make_objects (at, accel_gather_object_at, raw_objects (mine).data (), mine.size ());
    }
    objects
    broadcast_object_list (const objects &mine, int from = 0, site at = site::here ())
    {
        return make_objects (at, accel_broadcast_object_list_at, raw_objects (mine).data (), mine.size (), from);
    }
    /** One for each process. */
    objects
    all_to_all_object (const objects &mine, site at = site::here ())
    {
        if (mine.size () != std::size_t (num_processes ()))
            throw error (ACCEL_ERR_INVALID, "all_to_all_object needs one object for each process");
        return make_objects (at, accel_all_to_all_object_at, raw_objects (mine).data ());
    }
    void
    send_object_list (const objects &mine, int to, site at = site::here ())
    {
        must (at, accel_send_object_list_at, raw_objects (mine).data (), mine.size (), to);
    }
    objects
    recv_object_list (int from, site at = site::here ())
    {
        return make_objects (at, accel_recv_object_list_at, from);
    }

    /* Random numbers. */
    void
    set_seed (std::uint64_t seed, bool device_specific = false)
    {
        detail::attempt call;
        call (accel_set_seed (get (), seed, device_specific, call.err ()));
    }
    void
    synchronize_rng_state (generator_ref of = generator_ref (nullptr), site at = site::here ())
    {
        must (at, accel_synchronize_rng_state_at, of.get ());
    }

    /* Training. */

    /** Make the objects work over all processes: prepare ({ model, optimizer, loader }).  Collective. */
    void
    prepare (std::initializer_list<prepared> all, site at = site::here ())
    {
        /* As many as a C call can be given at a time; NULLs are passed over. */
        for (const prepared *next = all.begin (); next != all.end ();) {
            void *p[8] = {};
            for (std::size_t i = 0; i < 8 && next != all.end (); i++)
                p[i] = (next++)->get ();
            detail::attempt call;
            call (accel_prepare_at (at.file, at.line, get (), call.err (), p[0], p[1], p[2], p[3], p[4], p[5], p[6],
                                    p[7], detail::prepare_end ()));
        }
    }
    void
    unwrap_model (model &of)
    {
        detail::attempt call;
        call (accel_unwrap_model (get (), of.get (), call.err ()));
    }
    void
    free_memory ()
    {
        detail::attempt call;
        call (accel_free_memory (get (), call.err ()));
    }

    /** Run the program's backward pass, @p pass (float scale), and average the gradients.  Collective. */
    template <class F>
    void
    backward (model &of, float loss, F &&pass, site at = site::here ())
    {
        using call_type = detail::callback<std::remove_reference_t<F>>;
        call_type state { pass };
        auto run = [] (void *user, float scale, accel_error *err) {
            call_type *own = static_cast<call_type *> (user);
            return detail::run (err, [&] { own->function (scale); }, &own->thrown);
        };
        detail::attempt call;
        state.check (accel_backward_at (at.file, at.line, get (), of.get (), loss, run, &state, call.err ()), call);
    }
    /** What backward() passes to @p pass. */
    float loss_scale () const noexcept { return accel_loss_scale (get ()); }
    const float *loss_scale_on_device () const noexcept { return accel_loss_scale_on_device (get ()); }
    void average_gradients (model &of, site at = site::here ()) { must (at, accel_average_gradients_at, of.get ()); }

    /** Begin the next of several backward passes for one step: of all models, or of up to four. */
    void
    accumulate (std::initializer_list<std::reference_wrapper<model>> models = {})
    {
        void *p[4] = {};
        std::size_t count = 0;
        if (models.size () > 4)
            throw error (ACCEL_ERR_INVALID, "accumulate() takes up to four models; use accel_accumulate() for more");
        for (model &of : models)
            p[count++] = of.get ();
        detail::attempt call;
        void *end = detail::prepare_end ();
        call (count == 0   ? accel_accumulate_models (get (), call.err (), end)
              : count == 1 ? accel_accumulate_models (get (), call.err (), p[0], end)
              : count == 2 ? accel_accumulate_models (get (), call.err (), p[0], p[1], end)
              : count == 3 ? accel_accumulate_models (get (), call.err (), p[0], p[1], p[2], end)
                           : accel_accumulate_models (get (), call.err (), p[0], p[1], p[2], p[3], end));
    }
    std::uint32_t gradient_accumulation_steps () const noexcept { return accel_gradient_accumulation_steps (get ()); }
    void
    set_gradient_accumulation_steps (std::uint32_t steps)
    {
        detail::attempt call;
        call (accel_set_gradient_accumulation_steps (get (), steps, call.err ()));
    }
    bool sync_gradients () const noexcept { return accel_sync_gradients (get ()); }
    void set_sync_gradients (bool sync) noexcept { accel_set_sync_gradients (get (), sync); }
    void
    trigger_sync_in_backward (model &of)
    {
        detail::attempt call;
        call (accel_trigger_sync_in_backward (get (), of.get (), call.err ()));
    }
    /** Find losses and norms of gradients that jump. */
    void
    outlier_watch (const outlier_options &options = {})
    {
        detail::attempt call;
        call (accel_outlier_watch (get (), &options, call.err ()));
    }
    /** @return the mean loss of all processes */
    double
    outlier_loss (double loss, site at = site::here ())
    {
        double mean = 0;
        must (at, accel_outlier_loss_at, loss, &mean);
        return mean;
    }
    std::uint64_t
    outlier_count (accel_outlier kind) const noexcept
    {
        std::uint64_t count = 0;
        accel_outlier_get (get (), kind, &count, nullptr);
        return count;
    }
    double
    outlier_zscore (accel_outlier kind) const noexcept
    {
        double zscore = 0;
        accel_outlier_get (get (), kind, nullptr, &zscore);
        return zscore;
    }
    double gradient_clipping () const noexcept { return accel_gradient_clipping (get ()); }
    void unscale_gradients (site at = site::here ()) { unscale (at, nullptr); }
    void unscale_gradients (optimizer &of, site at = site::here ()) { unscale (at, of.get ()); }
    accel_dtype autocast () const noexcept { return accel_autocast (get ()); }
    /** @return false if there is no scaler */
    bool scaler_state (accel_scaler_state &state) const noexcept { return accel_scaler_get_state (get (), &state); }
    void
    set_scaler_state (const accel_scaler_state &state)
    {
        detail::attempt call;
        call (accel_scaler_set_state (get (), &state, call.err ()));
    }

    /** Run @p loop (), in which processes may make different numbers of steps; join at its end.  Collective. */
    template <class F>
    void
    join_uneven_inputs (F &&loop, accel_flag even_batches = ACCEL_DEFAULT, site at = site::here ())
    {
        detail::attempt call;
        call (accel_join_uneven_inputs (get (), even_batches, call.err ()));
        loop ();
        must (at, accel_join_end_at);
    }

    /* Trackers. */
    void
    init_trackers (const std::string &project_name, const std::vector<accel_value> &config = {},
                   const accel_tracker_options &options = {})
    {
        detail::attempt call;
        call (accel_init_trackers (get (), project_name.c_str (), config.data (), config.size (), &options,
                                   call.err ()));
    }
    /** To all trackers.  @param step  negative: the next one */
    void
    log (const std::vector<accel_value> &values, std::int64_t step = -1)
    {
        detail::attempt call;
        call (accel_log (get (), values.data (), values.size (), step, call.err ()));
    }
    void
    log (const std::string &key, double number, std::int64_t step = -1)
    {
        detail::attempt call;
        call (accel_log_number (get (), key.c_str (), number, step, call.err ()));
    }
    /** A tracker, owned by the job. */
    tracker
    get_tracker (const std::string &name) const
    {
        accel_tracker *raw = nullptr;
        detail::attempt call;
        call (accel_get_tracker (&raw, get (), name.c_str (), call.err ()));
        return tracker (raw);
    }
    void end_training (site at = site::here ()) { must (at, accel_end_training_at); }

    /* Models in files. */
    void
    save_model (model &of, const std::string &directory, const accel_save_model_options &options = {},
                site at = site::here ())
    {
        detail::attempt call;
        call (accel_save_model_at (at.file, at.line, sizeof options, get (), of.get (), directory.c_str (), &options,
                                   call.err ()));
    }
    load_result
    load_model (model &of, const std::string &path, const accel_load_model_options &options = {},
                site at = site::here ())
    {
        const accel_load_result *raw = nullptr;
        detail::attempt call;
        call (accel_load_model_at (at.file, at.line, sizeof options, get (), of.get (), path.c_str (), &raw, &options,
                                   call.err ()));
        return { { raw->missing, raw->missing + raw->missing_count },
                 { raw->unexpected, raw->unexpected + raw->unexpected_count } };
    }

    /* Checkpoints. */
    void
    set_project_configuration (const accel_project_configuration &configuration)
    {
        detail::attempt call;
        call (accel_set_project_configuration (get (), &configuration, call.err ()));
    }
    const accel_project_configuration &
    get_project_configuration () const noexcept
    {
        return *accel_get_project_configuration (get ());
    }
    /** @param output_dir  nullptr: automatic naming */
    void
    save_state (const char *output_dir = nullptr, site at = site::here ())
    {
        detail::attempt call;
        call (accel_save_state_at (at.file, at.line, get (), output_dir, call.err ()));
    }
    /** @param output_dir  nullptr: automatic naming */
    void
    save_state_start (const char *output_dir = nullptr, site at = site::here ())
    {
        detail::attempt call;
        call (accel_save_state_start_at (at.file, at.line, get (), output_dir, call.err ()));
    }
    void
    save_state_reserve ()
    {
        detail::attempt call;
        call (accel_save_state_reserve (get (), call.err ()));
    }
    void save_state_wait (site at = site::here ()) { must (at, accel_save_state_wait_at); }
    /** @return whether the save in flight is over, or there is none */
    bool
    save_state_test (site at = site::here ())
    {
        bool done = false;
        detail::attempt call;
        call (accel_save_state_test_at (at.file, at.line, get (), &done, call.err ()));
        return done;
    }
    /** @param input_dir  nullptr: automatic naming, the newest complete one */
    void
    load_state (const char *input_dir = nullptr, site at = site::here ())
    {
        detail::attempt call;
        call (accel_load_state_at (at.file, at.line, get (), input_dir, call.err ()));
    }
    const char *checkpoint_path () const noexcept { return accel_checkpoint_path (get ()); }
    /** @return how many numbers were noted since the best */
    std::uint64_t
    note_metric (double value)
    {
        std::uint64_t since_best = 0;
        detail::attempt call;
        call (accel_note_metric (get (), value, &since_best, call.err ()));
        return since_best;
    }
    const char *best_checkpoint_path () const noexcept { return accel_best_checkpoint_path (get ()); }
    void
    register_for_checkpointing (checkpoint_object object)
    {
        auto own = std::make_unique<checkpoint_object> (std::move (object));
        const accel_checkpoint_object c = { save_c, load_c, own.get () };
        detail::attempt call;
        call (accel_register_for_checkpointing (get (), &c, call.err ()));
        objects_.push_back (std::move (own));
    }
    /** @return for remove_state_hook() */
    std::uint64_t
    register_state_hook (accel_state_event event, state_hook hook)
    {
        auto own = std::make_unique<state_hook> (std::move (hook));
        std::uint64_t handle = 0;
        detail::attempt call;
        call (accel_register_state_hook (get (), event, hook_c, own.get (), &handle, call.err ()));
        hooks_.push_back (std::move (own));
        return handle;
    }
    void remove_state_hook (std::uint64_t handle) noexcept { accel_remove_state_hook (get (), handle); }

    /** Call @p function (batch_size) with less and less until it throws no std::bad_alloc.  @return the size */
    template <class F>
    std::size_t
    find_executable_batch_size (F &&function, std::size_t first = 128, site at = site::here ())
    {
        using call_type = detail::callback<std::remove_reference_t<F>>;
        call_type state { function };
        auto run = [] (std::size_t size, void *user, accel_error *err) {
            call_type *own = static_cast<call_type *> (user);
            own->thrown = nullptr;
            return detail::run (err, [&] { own->function (size); }, &own->thrown);
        };
        detail::attempt call;
        state.check (accel_find_executable_batch_size_at (at.file, at.line, get (), &first, run, &state, call.err ()),
                     call);
        return first;
    }

    void
    profile_start (const accel_profile_options &options = {}, site at = site::here ())
    {
        detail::attempt call;
        call (accel_profile_start_at (at.file, at.line, sizeof options, get (), &options, call.err ()));
    }
    void profile_stop (site at = site::here ()) { must (at, accel_profile_stop_at); }
    void profile_step () noexcept { accel_profile_step (get ()); }

  private:
    template <class F, class... Args>
    void
    must (site at, F function, Args... args)
    {
        detail::attempt call;
        call (function (at.file, at.line, get (), args..., call.err ()));
    }
    template <class F, class Result, class... Args>
    void
    make (site at, F function, Result *result, Args... args)
    {
        detail::attempt call;
        call (function (at.file, at.line, result, get (), args..., call.err ()));
    }
    template <class F, class... Args>
    tensor
    make_tensor (site at, F function, Args... args)
    {
        tensor made;
        make (at, function, made.get (), args...);
        return made;
    }
    template <class F, class... Args>
    tree
    make_tree (site at, F function, Args... args)
    {
        accel_tree *made = nullptr;
        make (at, function, &made, args...);
        return tree (made);
    }
    template <class F>
    void
    first (bool goes_first, F &task, site at)
    {
        if (goes_first)
            task ();
        wait_for_everyone (at);
        if (!goes_first)
            task ();
    }
    void
    unscale (site at, accel_optimizer *of)
    {
        must (at, accel_unscale_gradients_at, of);
    }

    static std::vector<accel_object>
    raw_objects (const objects &of)
    {
        std::vector<accel_object> raw;
        for (const std::string &one : of)
            raw.push_back ({ one.data (), one.size () });
        return raw;
    }
    struct object_list : accel_object_list {
        object_list () noexcept : accel_object_list () {}
        ~object_list () { accel_object_list_release (this); }
        object_list (const object_list &) = delete;
        object_list &operator= (const object_list &) = delete;
        objects
        strings () const
        {
            objects result;
            for (std::size_t i = 0; i < count; i++)
                result.emplace_back (static_cast<const char *> (items[i].data), items[i].size_bytes);
            return result;
        }
    };
    template <class F, class... Args>
    objects
    make_objects (site at, F function, Args... args)
    {
        object_list made;
        make (at, function, static_cast<accel_object_list *> (&made), args...);
        return made.strings ();
    }
    static std::string
    formatted (const char *format, va_list args)
    {
        va_list again;
        va_copy (again, args);
        int length = std::vsnprintf (nullptr, 0, format, again);
        va_end (again);
        std::string text (length > 0 ? std::size_t (length) : 0, '\0');
        std::vsnprintf (text.data (), text.size () + 1, format, args);
        return text;
    }

    static accel_status
    save_c (void *user, accel_state_dict *state, accel_error *err)
    {
        return detail::run (err, [&] { static_cast<checkpoint_object *> (user)->save (state_dict (state)); });
    }
    static accel_status
    load_c (void *user, const accel_state_dict *state, accel_error *err)
    {
        return detail::run (err, [&] { static_cast<checkpoint_object *> (user)->load (saved_state_dict (state)); });
    }
    static accel_status
    hook_c (void *user, const char *folder, bool *with_models, accel_error *err)
    {
        return detail::run (err, [&] { (*static_cast<state_hook *> (user)) (folder, *with_models); });
    }
    std::vector<std::unique_ptr<checkpoint_object>> objects_;
    std::vector<std::unique_ptr<state_hook>> hooks_;
    detail::handle<accel, accel_close> own_;
};

} // namespace accelerate

#endif
