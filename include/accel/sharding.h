/* SPDX-License-Identifier: Apache-2.0 */
/* Sharding: what training keeps is divided among the processes. */
#ifndef ACCEL_SHARDING_H
#define ACCEL_SHARDING_H

#include <accel/train.h>

ACCEL_BEGIN_DECLS

/** How much is divided: the stages of ZeRO (S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion
 *  Parameter Models", 2020). */
enum accel_sharding {
    ACCEL_SHARDING_DEFAULT,   /**< what the launcher was asked for: --use_deepspeed, --use_fsdp; else none */
    ACCEL_SHARDING_NONE,      /**< stage 0: each process has everything */
    ACCEL_SHARDING_OPTIMIZER, /**< stage 1: the states of optimizers, and the float32 masters of smaller parameters */
    ACCEL_SHARDING_SHARD_GRAD_OP, /**< stage 2: averaged gradients, too */
    ACCEL_SHARDING_FULL_SHARD,    /**< stage 3: parameters, too, for programs that call accel_layer_begin() */
    ACCEL_SHARDING_HYBRID_SHARD,  /**< stage 3 within groups of processes, which have replicas of each other's model */
    ACCEL_SHARDING_HYBRID_SHARD_ZERO2, /**< stage 2 within groups */
};

/** Where training keeps what it does not need all the time: DeepSpeed's words. */
enum accel_offload {
    ACCEL_OFFLOAD_DEFAULT, /**< what the launcher was asked for; else ACCEL_OFFLOAD_NONE */
    ACCEL_OFFLOAD_NONE,    /**< where the model is */
    ACCEL_OFFLOAD_CPU,     /**< in host memory: of a model that is there already, nothing is done */
    ACCEL_OFFLOAD_NVME,    /**< in a file on a disk, of any kind */
};

/** See accel_model_set_sharding(); equal on all ranks, but for the folders.  A number that is 0 may also be in
 *  DeepSpeed's configuration file. */
struct accel_sharding_options {
    enum accel_sharding strategy; /**< 0: ACCEL_SHARDING_DEFAULT */
    uint64_t min_num_params;      /**< smaller parameters (elements) are not divided; 0: 1024 for each process */
    bool share_parameters;        /**< one copy of the parameters for all processes of a host, if all of them, or of a
                                       group, are on one: see below; false: if the launcher was asked for it */
    uint64_t group_size; /**< hybrid strategies: processes of a group, which have consecutive ranks, or rows of the grid
                              of tensor parallelism; 0: the launcher's dp_shard_size, else those of a host, of which all
                              must have as many */
    uint64_t prefetch_layers; /**< stage 3: so many layers are gathered ahead; 0: 1, if there is a CPU for it (`overlap`
                                   of accel_ddp_options) and the launcher was not asked for none; ACCEL_NONE: none */
    uint64_t max_live_params; /**< stage 3: layers are not gathered ahead if this process would have more elements of
                                   whole parameters then; 0: any number */
    enum accel_offload offload_optimizer_device; /**< for states of optimizers and float32 masters, with or without a
                                                      strategy: see below */
    enum accel_offload offload_param_device; /**< stage 3 without share_parameters: for the parameters, too */
    const char *offload_optimizer_nvme_path; /**< a folder for the files, of each process; copied.  NULL: the
                                                  launcher's, or none, which ACCEL_OFFLOAD_NVME needs */
    const char *offload_param_nvme_path;     /**< the same for parameters */
};

/**
 * Divide what optimizers keep of @p model among the processes, or, with tensor parallelism (parallel.h), among those
 * that have the same parts of tensors.  Each parameter is cut into one chunk for each process;
 * small parameters, and what is left over, all processes keep.  accel_optimizer_step() then is collective: each process
 * updates its chunks and gets the others'.  Losses and parameters have the same bits as without sharding.
 *
 * With ACCEL_SHARDING_SHARD_GRAD_OP, gradients have averages in this process's chunks, and 0 in the others', after a
 * backward pass; their memory takes room while they are written, until their bucket is averaged.  Clipping is
 * collective.  Without norms, and with one average for each step, bits are the same if processes share memory; else
 * sums may be rounded differently.
 *
 * Call it before accel_prepare(), and best before accel_optimizer_create(), which then takes no memory for the chunks
 * of others.  Without it, the model has ACCEL_SHARDING_DEFAULT; on a GPU, at most stage 1 of that.
 *
 * With `share_parameters`, accel_prepare() moves the trained parameters to memory that all processes have in common,
 * and no process has another copy: `data` of their tensors changes, and a process must not write to them outside of
 * accel_optimizer_step() and loads, which write the same values in all processes.  The program's memory stays its own,
 * must stay valid and writable, holds nothing meanwhile, and gets the values back in accel_unwrap_model(),
 * accel_free_memory(), accel_close() or accel_model_destroy().  Where processes have no memory in common, they have
 * copies as without it.
 *
 * With ACCEL_OFFLOAD_NVME, accel_prepare() moves what this process has of states, masters or parameters to files, whose
 * room is reserved.  Bits stay the same, and so do addresses, except those of parameters, which move as with
 * `share_parameters`.  Pages are read when they are used, and given back by steps and by accel_layer_end(); so the
 * memory that a step needs does not grow with the model.  Files have no names: they go with the process.  A disk that
 * fails while it is written is an error of accel_optimizer_step(); while it is read, SIGBUS.
 *
 * With `offload_optimizer_device`, states and masters of a model that accel_prepare() puts on a GPU stay in host
 * memory, or in files, as those of a model on the host do, and the host takes its steps: gradients come there and
 * parameters go back piece by piece, while it computes.  With `offload_param_device`, so does this process's part of
 * divided parameters, which goes to the GPU where a layer is gathered.
 *
 * Of the tensors of accel_optimizer_state_tensor() only this process's chunks have values, and accel_model_master() is
 * NULL for parameters whose master is divided.  accel_save_state() collects the states on rank 0 while it runs, unless
 * each process writes its share (`state_dict_type` of accel_project_configuration), and accel_save_model() the masters
 * if it is to save them.  Checkpoints are loaded by any number of processes, with sharding or without.
 *
 * A model that accel_prepare() puts on a GPU can have any strategy.  There is room for this process's chunks only then:
 * accel_optimizer_state_tensor() is NULL for what is cut, unless it is offloaded, and so is `data` of tensors: of
 * divided parameters outside of layers, of divided gradients outside of backward passes.  Addresses change with each
 * accel_layer_begin(); a program that calls this function, also with ACCEL_SHARDING_DEFAULT, follows them.  A sharded
 * model shares no tensor with another model, has no 8-bit parameters, and cannot be used with the program's own
 * optimizers, local SGD, accel_join_uneven_inputs() and CUDA graphs of steps.  Nor can one that the program has put on
 * a GPU.
 *
 * accel_prepare() then also returns ACCEL_ERR_SYSTEM on all processes if one of them cannot have its file: a folder
 * that is missing, or a disk that is full.
 *
 * @param options  copied
 * @retval ACCEL_ERR_INVALID  an invalid value, or the model is already prepared, or has been with sharding
 */
#define accel_model_set_sharding(...)                                                                            \
    accel_model_set_sharding_sized (sizeof (struct accel_sharding_options), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_model_set_sharding_sized (size_t options_size, struct accel_model *model,
                                const struct accel_sharding_options *options, struct accel_error *err);

/**
 * With ACCEL_SHARDING_FULL_SHARD and ACCEL_SHARDING_HYBRID_SHARD: the program is going to read some parameters, as a
 * layer does in a forward or backward pass.  They are gathered, and are whole until the call of accel_layer_end() for
 * the same parameters; one can be in several layers.  From the first call on, parameters that are in no layer that has
 * begun have values in this process's chunks only, and their other memory takes no room; before, they are whole.  On a
 * GPU, `data` of their tensors is NULL then, from accel_prepare() on, and may be another address in each layer.  In a
 * backward pass, divided gradients of these parameters have addresses there until they are averaged.
 * Without these strategies, and with `share_parameters` on one host, parameters are whole anyway, so that a program can
 * always call them; only gradients of ACCEL_SHARDING_SHARD_GRAD_OP on a GPU depend on calls in backward passes: if one
 * pass has such calls, all that follow have them.
 *
 * If layers come in the order of the step before, those that come next are gathered while the program computes.
 *
 * accel_layer_begin() is collective, and may be called in a backward pass.  accel_layer_end() waits for no other
 * process, but all call it at the same place among these calls, as they gather again what has ended.
 *
 * @param parameters  [count] positions in the model; others than trained ones are ignored
 * @retval ACCEL_ERR_INVALID  an invalid position
 */
#define accel_layer_begin(...) accel_layer_begin_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_layer_begin_at (const char *file, int line, struct accel_model *model, const size_t *parameters, size_t count,
                      struct accel_error *err);

/**
 * The program reads the parameters of a layer that has begun no longer.
 *
 * @retval ACCEL_ERR_INVALID  an invalid position, or that of a parameter that is in no layer that has begun
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_layer_end (struct accel_model *model, const size_t *parameters, size_t count, struct accel_error *err);

/**
 * All parameters of @p model are whole, until the call of accel_summon_full_params_end(): FSDP's summon_full_params.
 * What all processes write to them alike stays; optimizers' masters of smaller parameters do not see it before
 * accel_model_widen().  Calls may be nested.  Collective; accel_summon_full_params_end() waits for no other process,
 * but all call it, at the same place.
 */
#define accel_summon_full_params(...) accel_summon_full_params_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_summon_full_params_at (const char *file, int line, struct accel_model *model, struct accel_error *err);

/** End the innermost accel_summon_full_params().  Without one: ACCEL_ERR_INVALID. */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_summon_full_params_end (struct accel_model *model, struct accel_error *err);

/** @return how @p model has been divided by accel_prepare(); ACCEL_SHARDING_NONE before, and with one process. */
ACCEL_API enum accel_sharding accel_model_sharding (const struct accel_model *model);

ACCEL_END_DECLS

#endif
