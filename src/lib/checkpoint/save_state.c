/* SPDX-License-Identifier: Apache-2.0 */
/* accel_save_state(): each rank writes its files to a temporary folder, rank 0 adds the manifest and puts the folder in
 * its place.  After each step all ranks agree on its result, so that all of them fail, or none. */
#include <config.h>

#include <accel/collectives.h>

#include "lib/base/error.h"
#include "lib/checkpoint/agree.h"
#include "lib/checkpoint/collected.h"
#include "lib/checkpoint/save.h"
#include "lib/collectives/objects.h"
#include "lib/train/sharding.h"
#include "lib/train/tensor_parallel.h"

static enum accel_status
write_items (struct save *save, struct accel *acc, struct accel_error *err)
{
    struct collected collected;
    struct io_progress progress;
    enum collected_who who = save->folder.is_sharded ? COLLECTED_SHARES : COLLECTED_MAIN;
    enum accel_status status = collected_make (&collected, acc, save->with_models, who, err);
    io_progress_begin (&progress, checkpoint_show (acc), IO_PROGRESS_SAVE, save->folder.place, collected.bytes);
    if (!status)
        status = collected_write (&collected, save->folder.temporary, &save->manifest, err);
    io_progress_end (&progress, status);
    collected_release (&collected);
    return status;
}

/* Rank 0 gets the other ranks' lists of files. */
static enum accel_status
gather_manifests (struct save *save, struct accel *acc, const struct comm_site *site, struct accel_error *err)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    struct accel_object_list all = { 0 };
    if (save->rank)
        manifest_write (&save->manifest, &text);
    const struct accel_object mine = { text.text, text.length };
    enum accel_status status
        = text.failed ? accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for the manifest") : ACCEL_OK;
    status = checkpoint_agree (acc, site, status, err);
    if (!status)
        status = comm_gather_objects (accel_world (acc), site, &mine, 1, &all, err);
    for (size_t i = 1; !status && !save->rank && i < all.count; i++)
        status = manifest_take_text (&save->manifest, all.items[i].data, all.items[i].size_bytes, err);
    accel_object_list_release (&all);
    return status;
}

static enum accel_status
save_state (struct save *save, struct accel *acc, const struct comm_site *site, const char *output_dir,
            struct accel_error *err)
{
    enum accel_status status = save_begin (save, acc, site, output_dir, err);
    if (status)
        return status;
    status = checkpoint_agree (acc, site, write_items (save, acc, err), err);
    if (!status)
        status = checkpoint_agree (acc, site, gather_manifests (save, acc, site, err), err);
    if (status)
        return status;
    status = save->rank ? ACCEL_OK : save_commit (save, err);
    status = checkpoint_agree (acc, site, status, err);
    return status ? status : save_note (save, acc, site, err);
}

enum accel_status
accel_save_state_at (const char *file, int line, struct accel *acc, const char *output_dir, struct accel_error *err)
{
    const struct comm_site site = { .file = file, .line = line, .call = JOBSEG_CALL_SAVE_STATE };
    struct accel_error own = { 0 };
    struct save save = { .folder = CHECKPOINT_NO_FOLDER };
    if (!acc)
        return accel_fail_null (err, "accel_save_state", "acc");
    uint64_t entered = checkpoint_enter (acc, &site);
    enum accel_status status = save_finish (acc, &site, &own);
    if (!status)
        status = save_state (&save, acc, &site, output_dir, &own);
    if (status)
        best_cancel_save (acc, save.best);
    cut_end_collect (acc);
    sharding_end_collect (acc);
    save_end (&save);
    return checkpoint_leave (acc, &site, entered, status, &own, err);
}
