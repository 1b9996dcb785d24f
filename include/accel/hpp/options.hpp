/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the C API with a setter for each field, because C++17 has no designated initialisers:
 *
 *   loader_options ().batch_size (32).shuffle (true)
 *
 * A field keeps the meaning that the C header gives it; 0 is its default, and ACCEL_ZERO is 0.  To read a field, name
 * the C struct: options.accel_loader_options::batch_size.  tests/lint/headers.sh compares the fields.
 *
 * Optimizers have .group (param_group), which adds a group, in place of `groups` and `group_count`.  The C struct in
 * them points to the groups: it is valid as long as the object that it is a part of. */
#ifndef ACCEL_HPP_OPTIONS_HPP
#define ACCEL_HPP_OPTIONS_HPP

#include <accel/hpp/groups.hpp>

namespace accelerate {

#define ACCEL_OPTIONS_(name, c_struct) \
    using self_type = name;            \
    using c_type = c_struct;           \
    name () noexcept : c_struct () {}
#define ACCEL_SET_(field)                                      \
    self_type &field (decltype (c_type::field) value) noexcept \
    {                                                          \
        c_type::field = value;                                 \
        return *this;                                          \
    }

/* Of an optimizer: 0 means 0. */
#define ACCEL_SET_NUMBER_(field)                \
    self_type &field (double value) noexcept    \
    {                                           \
        c_type::field = accel_exactly (value);  \
        return *this;                           \
    }
/* A choice with a default: true or false. */
#define ACCEL_SET_FLAG_(field)                                   \
    self_type &field (bool value = true) noexcept                \
    {                                                            \
        c_type::field = value ? ACCEL_YES : ACCEL_NO;  \
        return *this;                                            \
    }

/* `groups` and `group_count`. */
#define ACCEL_SET_GROUPS_                             \
    self_type &group (param_group one)                \
    {                                                 \
        groups_.add<c_type> (*this, std::move (one)); \
        return *this;                                 \
    }                                                 \
    self_type &groups (std::vector<param_group> all)  \
    {                                                 \
        groups_.set<c_type> (*this, std::move (all)); \
        return *this;                                 \
    }                                                 \
                                                      \
  private:                                            \
    detail::shared_groups groups_;

struct open_options : accel_options {
    ACCEL_OPTIONS_ (open_options, accel_options)
    ACCEL_SET_ (cpu) ACCEL_SET_ (engine) ACCEL_SET_ (timeout_ms)
    ACCEL_SET_ (gradient_accumulation_steps)
    ACCEL_SET_ (gradient_accumulation_plugin) ACCEL_SET_ (mixed_precision) ACCEL_SET_ (split_batches)
    ACCEL_SET_ (grad_scaler) ACCEL_SET_ (check_gradients) ACCEL_SET_FLAG_ (device_placement)
    ACCEL_SET_ (total_batch_size) ACCEL_SET_ (log_with) ACCEL_SET_ (stack_signal) ACCEL_SET_ (catch_signals)
    ACCEL_SET_ (tp_size)
};

struct safetensors_options : accel_safetensors_options {
    ACCEL_OPTIONS_ (safetensors_options, accel_safetensors_options)
    ACCEL_SET_ (in_memory) ACCEL_SET_ (follow_links)
};

struct save_model_options : accel_save_model_options {
    ACCEL_OPTIONS_ (save_model_options, accel_save_model_options)
    ACCEL_SET_ (max_shard_size) ACCEL_SET_ (max_shard_bytes) ACCEL_SET_ (precision) ACCEL_SET_ (dtype)
};

struct load_model_options : accel_load_model_options {
    ACCEL_OPTIONS_ (load_model_options, accel_load_model_options)
    ACCEL_SET_FLAG_ (strict) ACCEL_SET_ (follow_links)
};

struct gradient_accumulation : accel_gradient_accumulation {
    ACCEL_OPTIONS_ (gradient_accumulation, accel_gradient_accumulation)
    ACCEL_SET_ (num_steps) ACCEL_SET_FLAG_ (sync_with_dataloader)
    ACCEL_SET_ (sync_each_batch)
};

struct grad_scaler : accel_grad_scaler {
    ACCEL_OPTIONS_ (grad_scaler, accel_grad_scaler)
    ACCEL_SET_ (init_scale) ACCEL_SET_ (growth_factor) ACCEL_SET_ (backoff_factor)
    ACCEL_SET_ (growth_interval) ACCEL_SET_FLAG_ (enabled)
    ACCEL_SET_FLAG_ (on_device)
};

struct tracker_options : accel_tracker_options {
    ACCEL_OPTIONS_ (tracker_options, accel_tracker_options)
    ACCEL_SET_ (run_name) ACCEL_SET_ (trackers) ACCEL_SET_ (tracker_count) ACCEL_SET_ (queue_bytes)
    ACCEL_SET_FLAG_ (throughput) ACCEL_SET_ (finish_timeout_ms) ACCEL_SET_ (tokens_per_step)
    ACCEL_SET_ (flops_per_step) ACCEL_SET_ (peak_flops) ACCEL_SET_ (print_steps)
};

struct choice_options : accel_choice_options {
    ACCEL_OPTIONS_ (choice_options, accel_choice_options)
    ACCEL_SET_NUMBER_ (temperature) ACCEL_SET_ (top_k) ACCEL_SET_ (top_p)
};

struct project_configuration : accel_project_configuration {
    ACCEL_OPTIONS_ (project_configuration, accel_project_configuration)
    ACCEL_SET_ (project_dir) ACCEL_SET_ (logging_dir) ACCEL_SET_ (automatic_checkpoint_naming)
    ACCEL_SET_ (total_limit) ACCEL_SET_ (iteration) ACCEL_SET_ (read_only)
    ACCEL_SET_ (memory_checkpoint_every)
    ACCEL_SET_ (state_dict_type)
};

struct loader_options : accel_loader_options {
    ACCEL_OPTIONS_ (loader_options, accel_loader_options)
    ACCEL_SET_ (batch_size) ACCEL_SET_FLAG_ (split_batches)
    ACCEL_SET_ (drop_last) ACCEL_SET_FLAG_ (even_batches)
    ACCEL_SET_FLAG_ (dispatch_batches) ACCEL_SET_ (shuffle) ACCEL_SET_ (seed) ACCEL_SET_ (random_sampler)
    ACCEL_SET_ (generator) ACCEL_SET_ (sampler) ACCEL_SET_ (batch_sampler) ACCEL_SET_ (collate)
    ACCEL_SET_ (collate_user) ACCEL_SET_ (workers) ACCEL_SET_ (prefetch) ACCEL_SET_ (timeout_ms)
    ACCEL_SET_ (synchronize_rng) ACCEL_SET_ (reader)
    ACCEL_SET_FLAG_ (device_placement) ACCEL_SET_ (non_blocking)
    ACCEL_SET_ (restart_on_other_data)
};

struct sampler_options : accel_sampler_options {
    ACCEL_OPTIONS_ (sampler_options, accel_sampler_options)
    ACCEL_SET_ (replacement) ACCEL_SET_ (num_samples) ACCEL_SET_ (generator) ACCEL_SET_ (weights) ACCEL_SET_ (indices)
    ACCEL_SET_ (replicas) ACCEL_SET_ (rank) ACCEL_SET_FLAG_ (shuffle) ACCEL_SET_ (drop_last) ACCEL_SET_ (seed)
};

struct tokens_options : accel_tokens_options {
    ACCEL_OPTIONS_ (tokens_options, accel_tokens_options)
    ACCEL_SET_ (format) ACCEL_SET_ (sequence_length) ACCEL_SET_ (stride) ACCEL_SET_ (header_bytes)
    ACCEL_SET_ (labels) ACCEL_SET_ (int64) ACCEL_SET_ (mapped) ACCEL_SET_ (across_files)
    ACCEL_SET_ (open_files) ACCEL_SET_ (vocab_size)
};

struct csv_field : accel_csv_field {
    ACCEL_OPTIONS_ (csv_field, accel_csv_field)
    ACCEL_SET_ (field) ACCEL_SET_ (column) ACCEL_SET_ (header) ACCEL_SET_ (scale) ACCEL_SET_ (min)
    ACCEL_SET_ (max)
};

struct csv_options : accel_csv_options {
    ACCEL_OPTIONS_ (csv_options, accel_csv_options)
    ACCEL_SET_ (header) ACCEL_SET_ (separator) ACCEL_SET_ (fields) ACCEL_SET_ (field_count) ACCEL_SET_ (dtype)
    ACCEL_SET_ (label_column)
};

struct idx_options : accel_idx_options {
    ACCEL_OPTIONS_ (idx_options, accel_idx_options)
    ACCEL_SET_ (image_name) ACCEL_SET_ (label_name) ACCEL_SET_ (scale)
};

struct parameter_array : accel_array {
    ACCEL_OPTIONS_ (parameter_array, accel_array)
    ACCEL_SET_ (data) ACCEL_SET_ (grad) ACCEL_SET_ (count) ACCEL_SET_ (dtype) ACCEL_SET_ (grad_dtype)
};

struct struct_layout : accel_struct_layout {
    ACCEL_OPTIONS_ (struct_layout, accel_struct_layout)
    ACCEL_SET_ (stride_bytes) ACCEL_SET_ (name) ACCEL_SET_ (name_inline) ACCEL_SET_ (data) ACCEL_SET_ (grad)
    ACCEL_SET_ (shape) ACCEL_SET_ (dim_bytes) ACCEL_SET_ (ndim) ACCEL_SET_ (dims) ACCEL_SET_ (dtype)
    ACCEL_SET_ (grad_dtype)
};

struct ddp_options : accel_ddp_options {
    ACCEL_OPTIONS_ (ddp_options, accel_ddp_options)
    ACCEL_SET_ (bucket_cap_mb) ACCEL_SET_ (find_unused_parameters) ACCEL_SET_ (broadcast_buffers)
    ACCEL_SET_ (overlap) ACCEL_SET_ (comm_hook) ACCEL_SET_ (matrix_approximation_rank) ACCEL_SET_ (start_iter)
    ACCEL_SET_ (min_compression_rate) ACCEL_SET_FLAG_ (use_error_feedback) ACCEL_SET_FLAG_ (warm_start)
    ACCEL_SET_ (use_cublas)
};

struct sharding_options : accel_sharding_options {
    ACCEL_OPTIONS_ (sharding_options, accel_sharding_options)
    ACCEL_SET_ (strategy) ACCEL_SET_ (min_num_params) ACCEL_SET_ (share_parameters) ACCEL_SET_ (group_size)
    ACCEL_SET_ (prefetch_layers) ACCEL_SET_ (max_live_params) ACCEL_SET_ (offload_optimizer_device)
    ACCEL_SET_ (offload_param_device) ACCEL_SET_ (offload_optimizer_nvme_path) ACCEL_SET_ (offload_param_nvme_path)
};

struct segment_options : accel_segment_options {
    ACCEL_OPTIONS_ (segment_options, accel_segment_options)
    ACCEL_SET_ (forward) ACCEL_SET_ (user) ACCEL_SET_ (generator) ACCEL_SET_FLAG_ (preserve_rng_state)
    ACCEL_SET_ (activations) ACCEL_SET_ (activation_bytes)
};

struct optimizer_options : accel_optimizer_options {
    ACCEL_OPTIONS_ (optimizer_options, accel_optimizer_options)
    ACCEL_SET_NUMBER_ (lr) ACCEL_SET_NUMBER_ (weight_decay) ACCEL_SET_NUMBER_ (beta1) ACCEL_SET_NUMBER_ (beta2)
    ACCEL_SET_NUMBER_ (eps) ACCEL_SET_NUMBER_ (momentum) ACCEL_SET_NUMBER_ (dampening) ACCEL_SET_NUMBER_ (alpha)
    ACCEL_SET_NUMBER_ (lr_decay) ACCEL_SET_NUMBER_ (initial_accumulator_value) ACCEL_SET_FLAG_ (nesterov)
    ACCEL_SET_FLAG_ (amsgrad) ACCEL_SET_FLAG_ (centered) ACCEL_SET_FLAG_ (maximize) ACCEL_SET_GROUPS_
    ACCEL_SET_FLAG_ (capturable) ACCEL_SET_ (threads)
};

struct scheduler_options : accel_scheduler_options {
    ACCEL_OPTIONS_ (scheduler_options, accel_scheduler_options)
    ACCEL_SET_ (schedule) ACCEL_SET_ (warmup_steps) ACCEL_SET_ (warmup_from_one) ACCEL_SET_ (total_steps)
    ACCEL_SET_ (cycles) ACCEL_SET_ (final_fraction) ACCEL_SET_ (stable_steps) ACCEL_SET_ (decay_steps)
    ACCEL_SET_ (warmup_shape) ACCEL_SET_ (decay_shape) ACCEL_SET_ (step_size) ACCEL_SET_ (gamma) ACCEL_SET_ (power)
    ACCEL_SET_ (max_lr) ACCEL_SET_ (pct_start) ACCEL_SET_ (div_factor) ACCEL_SET_ (final_div_factor) ACCEL_SET_ (linear)
    ACCEL_SET_ (three_phase) ACCEL_SET_FLAG_ (cycle_momentum) ACCEL_SET_ (base_momentum) ACCEL_SET_ (max_momentum)
    ACCEL_SET_ (lambda) ACCEL_SET_ (user) ACCEL_SET_FLAG_ (step_with_optimizer) ACCEL_SET_ (split_batches)
    ACCEL_SET_ (group)
};

struct outlier_options : accel_outlier_options {
    ACCEL_OPTIONS_ (outlier_options, accel_outlier_options)
    ACCEL_SET_ (window) ACCEL_SET_ (loss_zscore) ACCEL_SET_ (norm_zscore) ACCEL_SET_ (skip_steps)
};

struct clip_options : accel_clip_options {
    ACCEL_OPTIONS_ (clip_options, accel_clip_options)
    ACCEL_SET_NUMBER_ (norm_type) ACCEL_SET_ (error_if_nonfinite) ACCEL_SET_ (others) ACCEL_SET_ (other_count)
};

struct send_options : accel_send_options {
    ACCEL_OPTIONS_ (send_options, accel_send_options)
    ACCEL_SET_ (skip_keys) ACCEL_SET_ (skip_key_count) ACCEL_SET_ (non_blocking)
};

struct profile_options : accel_profile_options {
    ACCEL_OPTIONS_ (profile_options, accel_profile_options)
    ACCEL_SET_ (path) ACCEL_SET_ (max_events)
};

#undef ACCEL_OPTIONS_
#undef ACCEL_SET_
#undef ACCEL_SET_NUMBER_
#undef ACCEL_SET_FLAG_
#undef ACCEL_SET_GROUPS_

} // namespace accelerate

#endif
