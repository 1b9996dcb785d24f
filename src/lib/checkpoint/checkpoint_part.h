/* SPDX-License-Identifier: Apache-2.0 */
/* What each job has for checkpoints: the project configuration, hooks, and the objects that the program registered. */
#ifndef LIB_CHECKPOINT_PART_H
#define LIB_CHECKPOINT_PART_H

#include <accel/checkpoint.h>
#include <accel/model_file.h>

#include "lib/checkpoint/io_progress.h"
#include "lib/checkpoint/project_lock.h"
#include "lib/checkpoint/snapshot.h"
#include "lib/state/part.h"

struct save_in_flight;

struct state_hook {
    accel_state_hook hook;
    void *user;
    uint64_t handle;
    enum accel_state_event event;
};

struct checkpoint_part {
    struct part part;
    struct accel_project_configuration project; /* whose folders are ours */
    struct accel_load_result *load_result; /* of the latest accel_load_model(); NULL: none */
    char *latest; /* path of the checkpoint that was saved or loaded last */
    struct accel_checkpoint_object *objects; /* [object_count] */
    size_t object_count;
    struct state_hook *hooks; /* [hook_count] */
    size_t hook_count;
    uint64_t handles; /* given out so far */
    struct project_lock lock; /* of rank 0, from the first load or save with automatic naming on */
    unsigned agreed;  /* enum jobseg_failure, of what checkpoint_agree() has returned last; 0: all went well */
    io_progress_show show; /* prints how far a save or a load is; NULL: nothing does */
    struct snapshot snapshot; /* memory for asynchronous saves */
    struct save_in_flight *flight; /* NULL: none */
    void (*close_flight) (struct save_in_flight *flight); /* accel_close(): let it come to its end, and free it */
};

extern const struct part_kind part_checkpoint;

static inline struct checkpoint_part *
checkpoint_of (const struct accel *acc)
{
    return (struct checkpoint_part *) (void *) part_find (acc, &part_checkpoint);
}

/** @return what shows the saves and loads of this rank; NULL: nothing does. */
static inline io_progress_show
checkpoint_show (const struct accel *acc)
{
    return accel_is_main_process (acc) ? checkpoint_of (acc)->show : NULL;
}

/** Rank 0, with automatic naming: keep other jobs from saving to the project, from now on.  Does nothing for a job that
 * only reads.
 *
 * @retval ACCEL_ERR_INVALID  another job is saving to it
 * @retval ACCEL_ERR_SYSTEM   its folder cannot be created or written to */
enum accel_status checkpoint_lock_project (struct checkpoint_part *part, struct accel_error *err);

/** @return whether each rank saves its share of models and optimizers; see accel_project_configuration */
bool checkpoint_is_sharded (const struct checkpoint_part *part);

/** Run the hooks for a save or a load of @p folder. */
enum accel_status checkpoint_run_hooks (const struct checkpoint_part *part, enum accel_state_event event,
                                        const char *folder, bool *with_models, struct accel_error *err);

#endif
