/* SPDX-License-Identifier: Apache-2.0 */
/* Whole-state checkpoints: models, optimizers, schedulers, loaders, random numbers, and objects of the program. */
#ifndef ACCEL_CHECKPOINT_H
#define ACCEL_CHECKPOINT_H

#include <accel/base.h>
#include <accel/state.h>
#include <accel/statedict.h>

ACCEL_BEGIN_DECLS

/** How accel_save_state() writes models and optimizers: StateDictType of PyTorch. */
enum accel_state_dict_type {
    ACCEL_STATE_DICT_DEFAULT, /**< with `--use_fsdp`, as FSDP_STATE_DICT_TYPE says; else ACCEL_STATE_DICT_FULL */
    ACCEL_STATE_DICT_FULL,    /**< rank 0 writes them whole, and collects what is divided: accel_sharding(3) */
    ACCEL_STATE_DICT_SHARDED, /**< each rank writes what it has, at the same time, and nothing is collected */
};

/** ProjectConfiguration of Hugging Face Accelerate.  0 is each field's default. */
struct accel_project_configuration {
    const char *project_dir; /**< where checkpoints are put by automatic naming; NULL: there is none */
    const char *logging_dir; /**< NULL: project_dir */
    bool automatic_checkpoint_naming; /**< save to project_dir/checkpoints/checkpoint_<iteration>; from its first load
                               or save to its end, no other job can do that */
    uint64_t total_limit; /**< with automatic naming: keep only this many checkpoints, the one just saved and those with
                               the highest numbers, and the best (accel_note_metric()); others are removed with all
                               that is in them; 0: all */
    uint64_t iteration;   /**< number of the next checkpoint; accel_load_state() sets it too */
    uint64_t read_only;   /**< not 0: this job only loads from the project, also while another one saves to it */
    uint64_t memory_checkpoint_every; /**< under `accelerate launch --max_restarts`: after every so many steps, keep
                               the state in memory, see accel_load_state(); 0: as `--memory_checkpoint_every` says */
    uint64_t state_dict_type; /**< an enum accel_state_dict_type, for the next saves; any of them is loaded */
};

/**
 * Set the project configuration of @p acc, which is empty before.
 *
 * @param configuration  copied; the same on all ranks
 * @retval ACCEL_ERR_INVALID  automatic naming without a project_dir; an unknown state_dict_type
 */
#define accel_set_project_configuration(...)                                                                \
    accel_set_project_configuration_sized (sizeof (struct accel_project_configuration), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_set_project_configuration_sized (size_t configuration_size, struct accel *acc,
                                       const struct accel_project_configuration *configuration,
                                       struct accel_error *err);

/** @return the project configuration, where `iteration` is the number of the next checkpoint; owned by @p acc, NULL if
 *          that is. */
ACCEL_API const struct accel_project_configuration *accel_get_project_configuration (const struct accel *acc);

/**
 * Save everything that was prepared with @p acc, gradient accumulation, the loss scale, the random numbers of each rank
 * and the registered objects.  Collective.
 *
 * The checkpoint is written to a temporary folder beside its place, synced to disk, and renamed.  If a process is
 * killed, the disk is full or the power fails, whatever checkpoint was there before is still there and complete; all
 * ranks return the same result.  Its manifest has a checksum of each tensor.  accel-checkpoint(5) describes the files.
 *
 * A checkpoint at @p output_dir is replaced as a whole.  Any other folder there must be empty; files that others put
 * into a checkpoint are never removed by that, and are an error.
 *
 * @param output_dir  the folder to make; read on rank 0.  With automatic naming it is ignored, and may be NULL
 * @retval ACCEL_ERR_INVALID   no place to save to, or it exists and is not a checkpoint; with automatic naming: it
 *                             exists
 * @retval ACCEL_ERR_SYSTEM    a file cannot be written; `text` names the rank and the file
 * @retval ACCEL_ERR_CALLBACK  a hook or a registered object failed
 */
#define accel_save_state(...) accel_save_state_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_save_state_at (const char *file, int line, struct accel *acc, const char *output_dir, struct accel_error *err);

/**
 * accel_save_state() that does not wait for the disk: copies the state and returns, and a thread writes the copy while
 * training continues.  Collective.
 *
 * The program may change and free everything that was saved as soon as the call returns.  Hooks and callbacks run
 * before it returns.  The files are the same, bit for bit, as those of accel_save_state().  The thread uses no
 * collectives.
 *
 * One save can be in flight.  Every call that saves or loads a whole state first lets it come to its end, and returns
 * its failure if it has failed, without doing anything else; so do accel_save_state_wait() and accel_save_state_test().
 * The messages name the call that started it.  accel_checkpoint_path() and the `iteration` of
 * accel_get_project_configuration() do not know about it before one of these calls.
 *
 * accel_close(), exit() and the return from main() let it come to its end, too.  They can only log a failure;
 * `accelerate launch` then exits with status 1.  To learn it, call accel_save_state_wait() or accel_end_training()
 * before.  If the process is killed or calls _exit(), there is no new checkpoint, and the former one is still complete.
 * A rank that ends early without having written its files makes the save fail; the other ranks write theirs, and wait
 * no longer than the timeout of the job.
 *
 * Memory: a copy of all tensors that this rank writes, which for rank 0 are those of models, optimizers and registered
 * objects.  It is kept for the next save until accel_free_memory() or accel_close().  The first save gets it, unless
 * accel_save_state_reserve() did.  Up to 4 threads copy, on the processors that the calling thread may use.
 *
 * @param output_dir  as for accel_save_state()
 * @retval ACCEL_ERR_NOMEM  no memory for the copy; accel_save_state() needs none
 * @retval other            as for accel_save_state(), as far as it is known before anything is written; or the failure
 *                          of the former save, in which case this one was not started
 */
#define accel_save_state_start(...) accel_save_state_start_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_save_state_start_at (const char *file, int line, struct accel *acc, const char *output_dir,
                           struct accel_error *err);

/**
 * Get the memory that accel_save_state_start() needs for its copy now, so that the first save blocks training for no
 * longer than later ones: to get memory from the kernel takes two to six times as long as the copy.  Not collective,
 * but meant for all ranks: each gets what it will need.
 *
 * Call it after everything was prepared and registered (and loaded), before training begins.  It calls the `save` of
 * registered objects, to know how large they are; hooks do not run, so models count even if a hook leaves them out.  If
 * the state has grown when it is saved, that save gets new memory, as if this call had not been made.  While a save is
 * in flight, it does nothing.
 *
 * @retval ACCEL_ERR_NOMEM     no memory for the copy; accel_save_state() needs none
 * @retval ACCEL_ERR_CALLBACK  the `save` of a registered object failed
 */
ACCEL_API ACCEL_NODISCARD enum accel_status accel_save_state_reserve (struct accel *acc, struct accel_error *err);

/**
 * Wait until the save in flight is over on all ranks.  Collective.
 *
 * @return its result; ACCEL_OK if there is none, or if another call has returned its result
 * @retval ACCEL_ERR_PEER     another rank has ended before its files were written
 * @retval ACCEL_ERR_TIMEOUT  rank 0 was done, and another rank was still writing when the job's timeout had passed;
 *                            or rank 0 wrote for longer than that (accel_save_state_test() has no such limit)
 */
#define accel_save_state_wait(...) accel_save_state_wait_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_save_state_wait_at (const char *file, int line, struct accel *acc, struct accel_error *err);

/**
 * Whether the save in flight is over on all ranks: accel_save_state_wait() that does not wait for disks.  Collective.
 *
 * @param[out] done  the same on all ranks: false: it is still being written; true: it is over, or there is none
 * @return with *done, its result, as accel_save_state_wait(); otherwise whether the question could be asked
 */
#define accel_save_state_test(...) accel_save_state_test_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_save_state_test_at (const char *file, int line, struct accel *acc, bool *done, struct accel_error *err);

/**
 * Restore what accel_save_state() saved; call it after everything was prepared and registered, in the same order as
 * when it was saved.  The number of processes may be another one.  What the checkpoint has of more models, optimizers,
 * schedulers or loaders than are prepared is ignored, like in Accelerate.  Collective.
 *
 * A folder that Hugging Face Accelerate's save_state has written is loaded, too, if @p input_dir names it: models,
 * optimizers, schedulers, the loss scale, torch's random numbers and registered objects.  What is not restored is a
 * warning; see accel_checkpoint(3).
 *
 * All files are compared with the manifest's checksums before anything is changed.  With automatic naming and without
 * @p input_dir, the newest checkpoint of the project that is complete, undamaged and finite is loaded; newer ones that
 * are not are reported as warnings.  The next checkpoint then gets the number after the highest that exists.
 *
 * The default generator of rank r continues that of rank r.  A rank that did not exist when the state was saved
 * continues that of rank 0 if all ranks had the same; otherwise its generator is left as it is.
 *
 * If `accelerate launch --max_restarts` has started the ranks again, and they had saved to memory before
 * (`--memory_checkpoint_every`), the first call loads what they have there, whatever @p input_dir is: no checkpoint of
 * this job is newer.  If memory has nothing that is complete, the disk is looked at.  Hooks do not run then, and
 * accel_checkpoint_path() stays as it was.
 *
 * With `accelerate launch --resume`, the variable ACCEL_RESUME_FROM has the path of the newest complete checkpoint that
 * was found for this start of the program, or is empty: accel_load_state (acc, getenv ("ACCEL_RESUME_FROM"), &err).
 *
 * @param input_dir  the checkpoint's folder; read on rank 0.  NULL or empty: the newest, see above
 * @retval ACCEL_ERR_NOT_FOUND  the project has no checkpoint yet: start from the beginning
 * @retval ACCEL_ERR_INVALID  no checkpoint at @p input_dir; an object was prepared that it lacks, or another number of
 *                            objects is registered; the state cannot be continued with these settings; another job is
 *                            saving to the project (see `read_only`)
 * @retval ACCEL_ERR_FORMAT   a file is damaged, or does not fit its object, such as an optimizer that was created
 *                            without the momentum or amsgrad of the saved one.  If it does not fit, or the state
 *                            cannot be continued, other objects may have been changed already
 */
#define accel_load_state(...) accel_load_state_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_load_state_at (const char *file, int line, struct accel *acc, const char *input_dir, struct accel_error *err);

/** @return the absolute path of the checkpoint that was saved or loaded last; NULL: none; owned by @p acc. */
ACCEL_API const char *accel_checkpoint_path (const struct accel *acc);

/** An object of the program that checkpoints contain.  Callbacks that fail return a status and fill in `err`. */
struct accel_checkpoint_object {
    /** Put the object's state into @p state; called on rank 0 only, for the objects of all ranks. */
    enum accel_status (*save) (void *user, struct accel_state_dict *state, struct accel_error *err);
    /** Restore it from @p state; called on every rank. */
    enum accel_status (*load) (void *user, const struct accel_state_dict *state, struct accel_error *err);
    void *user; /**< the callbacks' first argument */
};

/**
 * Register an object: Accelerate's register_for_checkpointing.  Its files are custom_checkpoint_0, and so on, in the
 * order of registration, which must be the same on all ranks and whenever the state is loaded.
 *
 * @param object  copied; until accel_close()
 * @retval ACCEL_ERR_INVALID  a callback is NULL
 */
#define accel_register_for_checkpointing(...) \
    accel_register_for_checkpointing_sized (sizeof (struct accel_checkpoint_object), __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_register_for_checkpointing_sized (size_t object_size, struct accel *acc,
                                        const struct accel_checkpoint_object *object, struct accel_error *err);

/**
 * Note a number by which checkpoints are compared, such as the loss of an evaluation: the lower the better.  Call it
 * with the same number on all ranks, then save: with automatic naming, the next checkpoint after the lowest number is
 * the best one, which total_limit neither counts nor removes, until one with a lower number is saved.  All this is a
 * part of the state, so a resumed job continues it.  Nothing is sent.
 *
 *   accel_note_metric (acc, loss, &since_best, &err);
 *   accel_save_state (acc, NULL, &err);
 *   if (since_best == patience)
 *       ...                                  end early
 *
 * @param value            NaN is never the best
 * @param[out] since_best  how many numbers have been noted after the best one; 0: this one is the best.  May be NULL
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_note_metric (struct accel *acc, double value, uint64_t *since_best, struct accel_error *err);

/** @return the folder of the best complete checkpoint, or NULL if there is none; owned by @p acc, until the next call.
 *  One that accel_save_state_start() writes is complete when a call about saves has said so, and until the next save,
 *  total_limit also keeps the best one before it. */
ACCEL_API const char *accel_best_checkpoint_path (const struct accel *acc);

/** When a hook runs. */
enum accel_state_event {
    ACCEL_BEFORE_SAVE,
    ACCEL_BEFORE_LOAD,
};

/**
 * A hook, which every rank runs before its state is saved or loaded.
 *
 * @param folder       before a save, the temporary folder that becomes the checkpoint: files that a hook writes there
 *                     belong to the checkpoint.  Their names are UTF-8, and not "manifest.json".  Before a load, the
 *                     checkpoint's folder
 * @param with_models  true; set it to false on all ranks to leave models to the hook: they are not saved, or not loaded
 */
typedef enum accel_status (*accel_state_hook) (void *user, const char *folder, bool *with_models,
                                               struct accel_error *err);

/**
 * Register a hook: Accelerate's register_save_state_pre_hook and register_load_state_pre_hook.  Several run in the
 * order of registration.
 *
 * @param[out] handle  for accel_remove_state_hook(); may be NULL
 */
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_register_state_hook (struct accel *acc, enum accel_state_event event, accel_state_hook hook, void *user,
                           uint64_t *handle, struct accel_error *err);

/** Remove a hook; one that does not exist is ignored. */
ACCEL_API void accel_remove_state_hook (struct accel *acc, uint64_t handle);

ACCEL_END_DECLS

#endif
