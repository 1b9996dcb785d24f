/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a job, the state of this process, and running functions on some processes only. */
#ifndef ACCEL_STATE_H
#define ACCEL_STATE_H

#include <accel/base.h>
#include <accel/tensor.h>

ACCEL_BEGIN_DECLS

/** GradientAccumulationPlugin of Hugging Face Accelerate.  0 is each field's default. */
struct accel_gradient_accumulation {
    uint32_t num_steps;      /**< backward passes per step; 0: 1 */
    enum accel_flag sync_with_dataloader; /**< begin to count again after a loader's last batch: yes unless ACCEL_NO */
    bool sync_each_batch;    /**< average in each backward pass, although optimizers wait: less memory, more time */
};

/** How the loss scale changes in fp16: torch's GradScaler.  0 means its default, ACCEL_ZERO is refused. */
struct accel_grad_scaler {
    double init_scale;        /**< 65536 */
    double growth_factor;     /**< 2 */
    double backoff_factor;    /**< 0.5: after a step whose gradients were infinite or NaN, which is skipped */
    uint32_t growth_interval; /**< 2000: steps without one before the scale grows */
    enum accel_flag enabled;  /**< yes unless ACCEL_NO: no scaling */
    /**
     * ACCEL_YES, on a GPU: the scale stays there, and a step decides there whether it is skipped, so the host waits for
     * neither.  The program's kernels multiply the gradients of the loss by accel_loss_scale_on_device(), which is not
     * in the `scale` that accel_backward() passes on.  Not the default: with `scale` alone, gradients would be too
     * small.  Without a GPU, nothing changes.
     */
    enum accel_flag on_device;
};

/** How to open; a field that is 0 comes from the environment, or else has its default. */
struct accel_options {
    bool cpu;            /**< use the CPU even if there is an accelerator (variable ACCELERATE_USE_CPU) */
    const char *engine; /**< by name, see accel_engine(3); NULL: the best one that works (variable ACCEL_ENGINE) */
    uint32_t timeout_ms; /**< longest wait for peers; 0: 1800000, 30 minutes (variable ACCEL_TIMEOUT_MS) */
    /** Backward passes per step; 0: 1.  Overridden by the variable ACCELERATE_GRADIENT_ACCUMULATION_STEPS. */
    uint32_t gradient_accumulation_steps;
    /** The same with all options; overrides the variable.  Copied; may be NULL. */
    const struct accel_gradient_accumulation *gradient_accumulation_plugin;
    const char *mixed_precision; /**< "no", "fp16", "bf16", "fp8"; NULL: variable ACCELERATE_MIXED_PRECISION, or "no" */
    bool split_batches; /**< of every loader that is prepared, unless its own split_batches is ACCEL_NO */
    const struct accel_grad_scaler *grad_scaler; /**< copied; NULL: its defaults.  Used under fp16 */
    /**
     * For debugging: fail a backward pass whose gradients are infinite or NaN on any rank, before they are averaged.
     * The message, on every rank, names the parameter, the element and the rank.  Also set by the variable
     * ACCEL_CHECK_GRADIENTS.  Reads all gradients once.  No effect in fp16, where the scaler skips such steps.
     */
    bool check_gradients;
    enum accel_flag device_placement; /**< copy models and batches to accel_device(): yes unless ACCEL_NO */
    /**
     * Samples per step of all processes together: gradient_accumulation_steps is total_batch_size divided by
     * accel_loader_total_batch_size() of the loader that accel_accumulate() finds running, or, before, of the first one
     * that was prepared.  0: not used.  Overridden by the variable ACCELERATE_TOTAL_BATCH_SIZE.
     */
    size_t total_batch_size;
    /** Trackers for accel_init_trackers(), separated by commas: "csv", "jsonl", "mlflow", "tensorboard", or "all";
     *  NULL: none. */
    const char *log_with;
    /**
     * The real-time signal on which this process shows its stack to accelerate stacks and the launcher's warnings;
     * 0: the highest one that is free; -1: none.  The handler is not removed: a late signal must not end the process.
     */
    int64_t stack_signal;
    /**
     * 1: SIGTERM and SIGUSR1 to this process are requests from accel_open() on, for programs that call
     * accel_should_save() or accel_should_stop() later, once they have loaded their data.  0: from that call on.
     */
    uint64_t catch_signals;
    /**
     * Processes that divide tensors among themselves, see accel_device_mesh(); the others of the job divide data.
     * 0: 1, or PARALLELISM_CONFIG_TP_SIZE if ACCELERATE_USE_PARALLELISM_CONFIG is true.  Its other sizes count in any
     * case, and have to fit the number of processes.
     */
    uint64_t tp_size;
};

/** A process's membership of its job: state, communicator, and everything that was prepared with it. */
struct accel;

/**
 * Join the job described by the environment: the variables of accelerate launch, torchrun, mpirun or srun.  Without any
 * of them, the job is this one process.
 *
 * Collective.  Waits until all processes have called it.
 *
 * @param[out] acc     the new object; leave the job with accel_close()
 * @param options      may be NULL
 * @retval ACCEL_ERR_INVALID      a variable is malformed or contradicts another (`text` names it), or both a
 *                                gradient_accumulation_plugin and gradient_accumulation_steps other than 1 are set
 * @retval ACCEL_ERR_UNSUPPORTED  no engine can connect these processes; `text` gives the reason for each one tried
 * @retval ACCEL_ERR_TIMEOUT      a process did not arrive; `text` lists the missing ranks
 * @retval ACCEL_ERR_PEER         a process died before all had arrived
 */
#define accel_open(...)                                                                           \
    accel_open_sized (sizeof (struct accel_options), sizeof (struct accel_gradient_accumulation), \
                      sizeof (struct accel_grad_scaler), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_open_sized (size_t options_size, size_t accumulation_size, size_t scaler_size, struct accel **acc,
                  const struct accel_options *options, struct accel_error *err);

/**
 * Leave the job and free @p acc.  Does not wait; peers that wait for this process are notified that it left.  Prepared
 * objects are released: loaders end their pass, gradients allocated by accel_prepare() lose their memory, and models
 * that it placed on a GPU go back to host memory, unless the GPU has failed.  Destroy these objects before or after
 * this call; before it, what only the model needs is not copied.  Accepts NULL, preserves errno.
 */
ACCEL_API void accel_close (struct accel *acc);

/* The functions below accept NULL, which accel_open() stores on failure, as a job of this process alone.  Collectives
 * refuse it with ACCEL_ERR_INVALID. */

/** @return Accelerate's name of the set-up: "NO" for one process, "MULTI_CPU" or, on GPUs, "MULTI_GPU"; static. */
ACCEL_API const char *accel_distributed_type (const struct accel *acc);

/** @return the device this process computes on: a GPU (kDLCUDA), by its local rank, if libaccel has the code for it and
 *  one is visible, unless accel_options.cpu or ACCELERATE_USE_CPU says otherwise; else the CPU.  In a job of several
 *  processes it is the CPU, too, unless an engine connects GPUs.  Data in host memory is still processed on the CPU. */
ACCEL_API DLDevice accel_device (const struct accel *acc);

/** @return the world size, >= 1. */
ACCEL_API int accel_num_processes (const struct accel *acc);

/** @return this process's rank, 0 <= rank < accel_num_processes(). */
ACCEL_API int accel_process_index (const struct accel *acc);

/** @return this process's rank among those of its host. */
ACCEL_API int accel_local_process_index (const struct accel *acc);

/** @return the number of this job's processes on this host, >= 1. */
ACCEL_API int accel_local_num_processes (const struct accel *acc);

/** @return whether this is rank 0. */
ACCEL_API bool accel_is_main_process (const struct accel *acc);

/** @return whether this is local rank 0 of its host. */
ACCEL_API bool accel_is_local_main_process (const struct accel *acc);

/** @return whether this is the highest rank. */
ACCEL_API bool accel_is_last_process (const struct accel *acc);

/** @return "no", "fp16", "bf16" or "fp8", as given to accel_open() or by its variable; static. */
ACCEL_API const char *accel_mixed_precision (const struct accel *acc);

/** A task that one process runs for all.  @param user  the caller's argument. */
typedef void (*accel_task) (void *user);

/** printf() to standard output, on local rank 0 of each host only; one write, so that lines of hosts do not mix. */
ACCEL_API void accel_print (const struct accel *acc, const char *format, ...) ACCEL_PRINTF (2, 3);

/**
 * This process's part in accel_split_between_processes(): indices [begin, end), then the last index `padding` times.
 */
struct accel_split {
    size_t begin;
    size_t end;
    size_t padding; /**< how often index length - 1 is repeated; 0 unless requested, or if the input is empty */
};

/**
 * Determine which of @p length items belong to this process.  Items are distributed in rank order; the first `length
 * mod P` ranks get one more.  Needs no communication.
 *
 * @param apply_padding  repeat the last item so that every process has the same number
 */
ACCEL_API struct accel_split accel_split_between_processes (const struct accel *acc, size_t length, bool apply_padding);

/** Raise this process's flag, which accel_check_trigger() detects on every process. */
ACCEL_API void accel_set_trigger (struct accel *acc);

ACCEL_END_DECLS

#endif
