/* SPDX-License-Identifier: Apache-2.0 */
/* Who am I among how many: opening, the state of this process, and control of what runs where. */
#ifndef ACCEL_STATE_H
#define ACCEL_STATE_H

#include <accel/base.h>
#include <accel/tensor.h>

ACCEL_BEGIN_DECLS

/** The original's DistributedType, as far as it exists here. */
enum accel_distributed_type {
    ACCEL_DISTRIBUTED_NO,        /**< one process */
    ACCEL_DISTRIBUTED_MULTI_CPU, /**< several processes, computing on CPUs */
};

struct accel_gradient_accumulation;
struct accel_grad_scaler;

/** How to open; every field may be 0, which means what the environment says, or else the default. */
struct accel_options {
    bool cpu;            /**< use the CPU even where there is an accelerator (variable ACCELERATE_USE_CPU) */
    const char *backend; /**< "self", "shm"; NULL: the best that can run (variable ACCEL_BACKEND) */
    uint32_t timeout_ms; /**< longest wait for peers; 0: 1800000, 30 minutes (variable ACCEL_TIMEOUT_MS) */
    /** Backward passes for one step; 0: 1.  The variable ACCELERATE_GRADIENT_ACCUMULATION_STEPS comes before it. */
    uint32_t gradient_accumulation_steps;
    /** The same with all that can be said of it (accel/accumulate.h), and before the variable; copied.  May be NULL. */
    const struct accel_gradient_accumulation *gradient_accumulation_plugin;
    const char *mixed_precision; /**< "no", "fp16", "bf16", "fp8"; NULL: variable ACCELERATE_MIXED_PRECISION, or "no" */
    const struct accel_grad_scaler *grad_scaler; /**< copied; NULL: its defaults.  Used under fp16; precision.h */
    /**
     * Debugging: a backward pass whose gradients are infinite or NaN on some rank fails before they are averaged, and
     * the message names the parameter, the element and the rank, on every rank (also variable ACCEL_CHECK_GRADIENTS).
     * Costs one pass over the gradients.  Has no effect under fp16, whose scaler skips such steps.
     */
    bool check_gradients;
};

/** A process's membership in its job: state, communicator, and all that was prepared with it. */
struct accel;

/**
 * Join the job that the environment describes: accelerate launch's variables, or torchrun's, mpirun's or srun's;
 * without any of them the job is this one process.
 *
 * Collective.  Waits until all processes have called it.
 *
 * @param[out] acc     the new object; leave the job with accel_close()
 * @param options      may be NULL
 * @retval ACCEL_ERR_INVALID      a variable is malformed or contradicts another, `text` names it; or there are both
 *                                a gradient_accumulation_plugin and gradient_accumulation_steps other than 1
 * @retval ACCEL_ERR_UNSUPPORTED  no backend can connect these processes; `text` says why for each one tried
 * @retval ACCEL_ERR_TIMEOUT      somebody did not come; `text` lists the missing ranks
 * @retval ACCEL_ERR_PEER         somebody died before all had come
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_open (struct accel **acc, const struct accel_options *options, struct accel_error *err);

/**
 * Leave the job and free @p acc.  Waits for nobody; peers that wait for this process are told that it left.
 * What is prepared is let go: loaders end their pass, and gradients that accel_prepare() made have no memory any more.
 * Destroy it before or behind this.  Accepts NULL, preserves errno.
 */
ACCEL_API void accel_close (struct accel *acc);

/* What follows takes NULL, which accel_open() leaves where it fails, for a job of this process alone.  Collectives
 * refuse it with ACCEL_ERR_INVALID. */

/** @return the kind of job. */
ACCEL_API enum accel_distributed_type accel_distributed_type (const struct accel *acc);

/** @return the original's word for @p type: "NO", "MULTI_CPU"; static. */
ACCEL_API const char *accel_distributed_type_name (enum accel_distributed_type type);

/** @return the device this process computes on. */
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

/** @return whether there is more than one process. */
ACCEL_API bool accel_use_distributed (const struct accel *acc);

/** @return "no", "fp16", "bf16" or "fp8": as accel_open() was told, or its variable said; static. */
ACCEL_API const char *accel_mixed_precision (const struct accel *acc);

/** A piece of work that one process runs for all.  @param user  what the caller handed in. */
typedef void (*accel_task) (void *user);

/** Run @p task on rank 0 only.  @return whether it ran here. */
ACCEL_API bool accel_on_main_process (const struct accel *acc, accel_task task, void *user);

/** Run @p task on local rank 0 of each host only.  @return whether it ran here. */
ACCEL_API bool accel_on_local_main_process (const struct accel *acc, accel_task task, void *user);

/** Run @p task on the highest rank only.  @return whether it ran here. */
ACCEL_API bool accel_on_last_process (const struct accel *acc, accel_task task, void *user);

/** Run @p task on rank @p process_index only; with one process it always runs.  @return whether it ran here. */
ACCEL_API bool accel_on_process (const struct accel *acc, int process_index, accel_task task, void *user);

/** Run @p task on local rank @p local_process_index of each host; with one process always.  @return whether it ran. */
ACCEL_API bool accel_on_local_process (const struct accel *acc, int local_process_index, accel_task task, void *user);

/** printf() to standard output, on local rank 0 of each host only; one write, so that lines of hosts do not mix. */
ACCEL_API void accel_print (const struct accel *acc, const char *format, ...) ACCEL_PRINTF (2, 3);

/** This process's part in accel_split_between_processes(): indices [begin, end), then `padding` times the last. */
struct accel_split {
    size_t begin;
    size_t end;
    size_t padding; /**< how often index length - 1 follows; 0 unless asked for, or where the input is empty */
};

/**
 * Which of @p length items are this process's: in rank order, the first `length mod P` ranks get one more.
 * Needs no communication.
 *
 * @param apply_padding  fill up with the last item, so that every process has equally many
 */
ACCEL_API struct accel_split accel_split_between_processes (const struct accel *acc, size_t length, bool apply_padding);

/** Raise this process's flag, which accel_check_trigger() will find on every process. */
ACCEL_API void accel_set_trigger (struct accel *acc);

ACCEL_END_DECLS

#endif
