/* SPDX-License-Identifier: Apache-2.0 */
/* accel_save_state(): each rank writes its files to a temporary folder, rank 0 adds the manifest and puts the folder in
 * its place.  After each step all ranks agree on its result, so that all of them fail, or none. */
#include <config.h>

#include <accel/collectives.h>
#include <accel/utility.h>

#include "files/checkpoints.h"
#include "lib/base/error.h"
#include "lib/checkpoint/agree.h"
#include "lib/checkpoint/files.h"
#include "lib/checkpoint/folder.h"
#include "lib/checkpoint/items.h"
#include "lib/collectives/objects.h"
#include "util/cleanup.h"
#include "util/io.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* One save. */
struct save {
    struct accel *acc;
    struct checkpoint_part *part;
    const struct comm_site *site;
    struct checkpoint_folder folder;
    struct manifest manifest; /* of the files of this rank; then on rank 0 of all */
    bool without_models;
};

static enum accel_status
no_memory (struct accel_error *err)
{
    return accel_fail (err, ACCEL_ERR_NOMEM, "out of memory");
}

/* Rank 0 makes the folder. */
static enum accel_status
make_folder (struct save *save, const char *output_dir, struct accel_error *err)
{
    const struct checkpoint_part *part = save->part;
    AUTO_FREE char *path = NULL;
    if (!part->automatic_naming && (!output_dir || !*output_dir))
        return accel_fail (err, ACCEL_ERR_INVALID, "output_dir is needed, because automatic naming is not set");
    if (!part->automatic_naming)
        return checkpoint_folder_begin (&save->folder, output_dir, false, err);
    if (asprintf (&path, "%s/" CHECKPOINTS_FOLDER "/" CHECKPOINT_PREFIX "%llu", part->project_dir,
                  (unsigned long long) part->iteration)
        < 0)
        return path = NULL, no_memory (err);
    return checkpoint_folder_begin (&save->folder, path, true, err);
}

static enum accel_status
begin (struct save *save, const char *output_dir, struct accel_error *err)
{
    enum accel_status status
        = accel_is_main_process (save->acc) ? make_folder (save, output_dir, err) : ACCEL_OK;
    status = checkpoint_agree (save->acc, save->site, status, err);
    if (status)
        return status;
    int lock = save->folder.lock;
    status = comm_broadcast (accel_world (save->acc), save->site, &save->folder, sizeof save->folder, ACCEL_UINT8, 0,
                             err);
    save->folder.lock = lock;
    if (status)
        return status;
    status = checkpoint_run_hooks (save->part, true, save->folder.temporary, &save->without_models, err);
    return checkpoint_agree (save->acc, save->site, status, err);
}

static enum accel_status
write_item (struct save *save, const struct checkpoint_item *item, struct accel_error *err)
{
    struct accel_state_dict state;
    state_dict_init (&state);
    enum accel_status status = checkpoint_item_save (item, &state, err);
    if (!status)
        status = checkpoint_write (&state, save->folder.temporary, item->name, !item->part, &save->manifest, err);
    state_dict_release (&state);
    return status;
}

static enum accel_status
write_items (struct save *save, struct accel_error *err)
{
    struct checkpoint_items items;
    struct meter meter;
    enum accel_status status = checkpoint_items_make (&items, save->acc, save->without_models, err);
    meter_begin (&meter, checkpoint_show (save->acc), METER_SAVE, save->folder.place, 0);
    for (size_t i = 0; !status && i < items.count; i++)
        if (items.items[i].mine)
            status = write_item (save, &items.items[i], err);
    meter_end (&meter, status);
    checkpoint_items_release (&items);
    return status;
}

/* Rank 0 gets the other ranks' lists of files. */
static enum accel_status
gather_manifests (struct save *save, struct accel_error *err)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    struct accel_object_list all = { 0 };
    int rank = accel_process_index (save->acc);
    if (rank)
        manifest_write (&save->manifest, &text);
    const struct accel_object mine = { text.text, text.length };
    enum accel_status status = checkpoint_agree (save->acc, save->site, text.failed ? no_memory (err) : ACCEL_OK, err);
    if (!status)
        status = comm_gather_objects (accel_world (save->acc), save->site, &mine, 1, &all, err);
    for (size_t i = 1; !status && !rank && i < all.count; i++) {
        struct manifest other;
        status = manifest_parse (&other, all.items[i].data, all.items[i].size_bytes, err);
        if (!status && !manifest_take_files (&save->manifest, &other))
            status = no_memory (err);
        manifest_release (&other);
    }
    accel_object_list_release (&all);
    return status;
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
    save->manifest.processes = (uint64_t) accel_num_processes (save->acc);
    save->manifest.library = strdup (accel_version ());
    if (asprintf (&path, "%s/" MANIFEST_NAME, save->folder.temporary) < 0)
        return path = NULL, no_memory (err);
    manifest_write (&save->manifest, &text);
    if (text.failed || !save->manifest.library)
        return no_memory (err);
    if (io_write_file (path, text.text, text.length, 0666, &fail))
        return accel_fail (err, ACCEL_ERR_SYSTEM, "%s", fail.text);
    return ACCEL_OK;
}

/* Rank 0's last steps.  That an old checkpoint cannot be removed is no reason to call this one a failure. */
static enum accel_status
commit (struct save *save, struct accel_error *err)
{
    enum accel_status status = checkpoint_add_others (save->folder.temporary, &save->manifest, err);
    if (!status)
        status = write_manifest (save, err);
    if (!status)
        status = checkpoint_folder_commit (&save->folder, err);
    struct accel_error cause;
    if (!status && save->part->automatic_naming
        && checkpoint_folder_limit (save->folder.place, save->part->total_limit, &cause))
        accel_log (save->acc, ACCEL_LOG_WARNING, "accel_save_state: %s", cause.text);
    return status;
}

static enum accel_status
save_state (struct save *save, const char *output_dir, struct accel_error *err)
{
    struct accel *acc = save->acc;
    enum accel_status status = begin (save, output_dir, err);
    if (status)
        return status;
    status = checkpoint_agree (acc, save->site, write_items (save, err), err);
    if (!status)
        status = checkpoint_agree (acc, save->site, gather_manifests (save, err), err);
    if (status)
        return status;
    status = accel_is_main_process (acc) ? commit (save, err) : ACCEL_OK;
    status = checkpoint_agree (acc, save->site, status, err);
    char *latest = status ? NULL : strdup (save->folder.place);
    if (status || !latest)
        return status ? status : no_memory (err);
    free (save->part->latest);
    save->part->latest = latest;
    save->part->iteration++;
    return ACCEL_OK;
}

enum accel_status
accel_save_state_at (const char *file, int line, struct accel *acc, const char *output_dir, struct accel_error *err)
{
    const struct comm_site site = { .file = file, .line = line, .call = JOBSEG_CALL_SAVE_STATE };
    struct accel_error own = { 0 };
    if (!acc)
        return accel_fail_null (err, "accel_save_state", "acc");
    struct save save
        = { .acc = acc, .part = checkpoint_of (acc), .site = &site, .folder = CHECKPOINT_NO_FOLDER };
    enum accel_status status = save_state (&save, output_dir, &own);
    if (!accel_is_main_process (acc))
        *save.folder.temporary = '\0'; /* it is rank 0's */
    checkpoint_folder_end (&save.folder);
    manifest_release (&save.manifest);
    if (status && err) {
        *err = own;
        return comm_fail_in (&site, status, err);
    }
    return status;
}
