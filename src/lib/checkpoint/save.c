/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a save; see save.h. */
#include <config.h>

#include "lib/checkpoint/save.h"

#include <accel/utility.h>

#include "files/checkpoints.h"
#include "lib/base/error.h"
#include "lib/checkpoint/agree.h"
#include "lib/checkpoint/best.h"
#include "lib/checkpoint/files.h"
#include "lib/checkpoint/memory_tier.h"
#include "lib/checkpoint/sharded.h"
#include "lib/state/state_object.h"
#include "lib/train/sharding.h"
#include "lib/train/sharding_layers.h"
#include "lib/train/tensor_parallel.h"
#include "util/cleanup.h"
#include "util/io.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Rank 0 makes the folder. */
static enum accel_status
make_folder (struct save *save, struct checkpoint_part *part, const char *output_dir, struct accel_error *err)
{
    AUTO_FREE char *path = NULL;
    if (!part->project.automatic_checkpoint_naming && (!output_dir || !*output_dir))
        return accel_fail (err, ACCEL_ERR_INVALID, "output_dir is needed, because automatic naming is not set");
    if (!part->project.automatic_checkpoint_naming)
        return checkpoint_folder_begin (&save->folder, output_dir, false, err);
    if (part->project.read_only)
        return accel_fail (err, ACCEL_ERR_INVALID, "the project configuration is read_only");
    enum accel_status status = checkpoint_lock_project (part, err);
    if (status)
        return status;
    if (asprintf (&path, "%s/" CHECKPOINTS_FOLDER "/" CHECKPOINT_PREFIX "%llu", part->project.project_dir,
                  (unsigned long long) part->project.iteration)
        < 0)
        return path = NULL, accel_fail_nomem (err);
    return checkpoint_folder_begin (&save->folder, path, true, err);
}

enum accel_status
save_begin (struct save *save, struct accel *acc, const struct comm_site *site, const char *output_dir,
            struct accel_error *err)
{
    struct checkpoint_part *part = checkpoint_of (acc);
    *save = (struct save){ .rank = accel_process_index (acc), .size = accel_num_processes (acc),
                           .folder = CHECKPOINT_NO_FOLDER, .automatic = part->project.automatic_checkpoint_naming,
                           .total_limit = part->project.total_limit, .step = optimizer_latest_step (acc),
                           .mixed_precision = accel_mixed_precision (acc),
                           .memory_sequence = memory_tier_of (acc)->sequence };
    save->best = (struct best_choice){ .checkpoint = BEST_NONE };
    if (save->automatic)
        save->best = best_begin_save (acc, part->project.iteration);
    enum accel_status status = save->rank ? ACCEL_OK : make_folder (save, part, output_dir, err);
    status = checkpoint_agree (acc, site, status, err);
    if (status)
        return status;
    int lock = save->folder.lock;
    save->folder.is_sharded = checkpoint_is_sharded (part) && !cut_first (acc); /* as rank 0 says */
    status = comm_broadcast (accel_world (acc), site, &save->folder, sizeof save->folder, ACCEL_UINT8, 0, err);
    save->folder.lock = lock;
    if (status)
        return status;
    status = checkpoint_run_hooks (part, ACCEL_BEFORE_SAVE, save->folder.temporary, &save->with_models, err);
    if (!status)
        status = cut_reserve (acc, err);
    status = checkpoint_agree (acc, site, status, err);
    if (!status && !save->folder.is_sharded)
        status = sharding_collect (acc, site, err);
    if (status || !save->folder.is_sharded)
        return status ? status : cut_collect (acc, site, err);
    for (struct accel_model *model = model_first (acc); model; model = model_next (model))
        if (sharding_is_on (model)) {
            sharding_settle_layers (model); /* with what the program has written in a summons */
            masters_need (model);
        }
    return sharding_complete (acc, site, err);
}

static enum accel_status
write_manifest (struct save *save, struct accel_error *err)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    AUTO_FREE char *path = NULL;
    struct timespec now;
    struct fail fail;
    clock_gettime (CLOCK_REALTIME, &now);
    save->manifest.saved_ns = (uint64_t) now.tv_sec * 1000000000 + (uint64_t) now.tv_nsec;
    save->manifest.processes = (uint64_t) save->size;
    save->manifest.library = strdup (accel_version ());
    save->manifest.mixed_precision = strdup (save->mixed_precision);
    if (asprintf (&path, "%s/" MANIFEST_NAME, save->folder.temporary) < 0)
        return path = NULL, accel_fail_nomem (err);
    manifest_write (&save->manifest, &text);
    if (text.failed || !save->manifest.library || !save->manifest.mixed_precision)
        return accel_fail_nomem (err);
    if (io_write_file (path, text.text, text.length, 0666, &fail))
        return accel_fail (err, ACCEL_ERR_SYSTEM, "%s", fail.text);
    return ACCEL_OK;
}

/* A state that nothing can be trained from must not take the place of one that is good, nor push it out. */
static enum accel_status
keep_apart (struct save *save, struct accel_error *err)
{
    if (!save->manifest.nonfinite)
        return ACCEL_OK;
    enum accel_status status = checkpoint_folder_keep_apart (&save->folder, err);
    if (!status)
        snprintf (save->warning, sizeof save->warning,
                  "parameter %s%s after step %llu: the state is kept apart as %.255s, and earlier checkpoints stay",
                  save->manifest.nonfinite, save->folder.is_sharded ? "" : " on rank 0",
                  (unsigned long long) save->step, strrchr (save->folder.place, '/') + 1);
    return status;
}

/* That an old checkpoint cannot be removed does not make this one a failure. */
enum accel_status
save_commit (struct save *save, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    if (save->folder.is_sharded)
        status = sharded_finish (save->folder.temporary, save->size, &save->manifest, err);
    if (!status)
        status = checkpoint_add_others (save->folder.temporary, &save->manifest, err);
    if (!status)
        status = write_manifest (save, err);
    if (!status)
        status = keep_apart (save, err);
    if (!status)
        status = checkpoint_folder_commit (&save->folder, err);
    if (!status && *save->folder.kept && !*save->warning)
        snprintf (save->warning, sizeof save->warning,
                  "files were put into the folder that was replaced, which is kept beside it as %.255s",
                  strrchr (save->folder.kept, '/') + 1);
    struct accel_error cause;
    const uint64_t best[] = { save->best.checkpoint, save->keeps_former ? save->best.former : BEST_NONE };
    if (!status && save->automatic
        && checkpoint_folder_limit (save->folder.place, save->total_limit, best, &cause)
        && !*save->warning)
        snprintf (save->warning, sizeof save->warning, "%s", cause.text);
    return status;
}

/* For those who watch the job, and for the launcher's report.  A state that is kept apart is none to continue from. */
static void
show_saved (const struct save *save, const struct accel *acc)
{
    const char *path = save->folder.place;
    size_t length = strlen (path);
    if (!acc->segment.header || checkpoint_is_apart (path))
        return;
    struct jobseg_slot *slot = jobseg_slot (&acc->segment, acc->identity.local_rank);
    size_t skip = length < sizeof slot->saved_path ? 0 : length - sizeof slot->saved_path + 1;
    memcpy (slot->saved_path, path + skip, length - skip + 1);
    atomic_store (&slot->saved_step, 1 + (save->step ? save->step : atomic_load (&slot->progress.step)));
    atomic_fetch_add (&slot->saves, 1);
}

/* Rank 0 alone knows whether the state is kept apart. */
enum accel_status
save_note (struct save *save, struct accel *acc, const struct comm_site *site, struct accel_error *err)
{
    struct checkpoint_part *part = checkpoint_of (acc);
    if (*save->warning)
        accel_logger_log (acc, ACCEL_LOG_WARNING, "accel_save_state: %s", save->warning);
    enum accel_status status
        = comm_broadcast (accel_world (acc), site, save->folder.place, sizeof save->folder.place, ACCEL_UINT8, 0, err);
    char *latest = status ? NULL : strdup (save->folder.place);
    if (!status && !latest)
        status = accel_fail_nomem (err);
    if (status)
        return status;
    if (checkpoint_is_apart (save->folder.place))
        best_cancel_save (acc, save->best);
    free (part->latest);
    part->latest = latest;
    part->project.iteration++;
    if (save->memory_sequence == memory_tier_of (acc)->sequence) /* nothing in memory is as new */
        memory_tier_forget (acc);
    show_saved (save, acc);
    return ACCEL_OK;
}

void
save_end (struct save *save)
{
    if (save->rank)
        *save->folder.temporary = '\0'; /* it is rank 0's */
    checkpoint_folder_end (&save->folder);
    manifest_release (&save->manifest);
}
