/* SPDX-License-Identifier: Apache-2.0 */
/* accel_load_state(): rank 0 finds the checkpoint, the ranks divide its files among themselves to compare checksums,
 * and then each restores what it has.  If the launcher has started the ranks again, what they have in memory comes
 * first: it is forgotten when something newer is on the disk. */
#include <config.h>

#include <accel/utility.h>

#include "files/checkpoints.h"
#include "lib/base/error.h"
#include "lib/checkpoint/agree.h"
#include "lib/checkpoint/files.h"
#include "lib/checkpoint/folder.h"
#include "lib/checkpoint/items.h"
#include "lib/checkpoint/memory_tier.h"
#include "lib/checkpoint/python_state.h"
#include "lib/checkpoint/save.h"
#include "util/cleanup.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* What rank 0 has found. */
struct found {
    char place[PATH_MAX];
    uint64_t next;      /* automatic naming: the number of the next checkpoint */
    bool verified;
    bool is_python; /* a folder of Hugging Face Accelerate */
    bool asks_memory; /* if that has nothing, `failure` is the result */
    struct accel_error failure; /* why `place` is none */
};

struct load {
    struct accel *acc;
    struct checkpoint_part *part;
    const struct comm_site *site;
    struct found found;
    struct memory_state memory; /* that is loaded instead of files, if it has processes */
    struct manifest manifest;
    bool with_models;
    bool is_locked_out; /* rank 0: another job saves to the project */
};

/* The number after the highest, of complete checkpoints and others, so that the next save replaces none. */
static enum accel_status
find_next_number (const char *folder, uint64_t *next, struct accel_error *err)
{
    struct checkpoint_list list;
    enum accel_status status = checkpoint_list_read (&list, folder, err);
    *next = 0;
    for (size_t i = 0; !status && i < list.count; i++) {
        uint64_t number = checkpoint_number (list.entries[i].name);
        if (number != UINT64_MAX && number >= *next)
            *next = number + 1;
    }
    checkpoint_list_release (&list);
    return status;
}

static enum accel_status
find_newest (struct load *load, const char *folder, struct accel_error *err)
{
    AUTO_STRLIST struct strlist passed = { 0 };
    AUTO_FREE char *path = NULL;
    struct io_progress progress;
    io_progress_begin (&progress, checkpoint_show (load->acc), IO_PROGRESS_CHECK, folder, 0);
    enum accel_status status = checkpoint_find_newest (&path, folder, &passed, err);
    io_progress_end (&progress, status);
    if (status)
        return status;
    for (size_t i = 0; i < passed.count; i++)
        accel_logger_log (load->acc, ACCEL_LOG_WARNING, "accel_load_state passes over a checkpoint: %s",
                          passed.items[i]);
    if (!path && passed.count)
        return accel_fail (err, ACCEL_ERR_FORMAT, "no usable checkpoint in %s: %s", folder, passed.items[0]);
    if (!path) /* programs ask for this status, to start from the beginning */
        return accel_fail (err, ACCEL_ERR_NOT_FOUND, "no checkpoint in %s", folder);
    load->found.verified = true;
    return realpath (path, load->found.place) ? ACCEL_OK : accel_fail_errno (err, "%s", path);
}

static enum accel_status
find (struct load *load, const char *input_dir, struct accel_error *err)
{
    struct checkpoint_part *part = load->part;
    AUTO_FREE char *folder = NULL;
    load->found.next = part->project.iteration;
    if (input_dir && !*input_dir)
        input_dir = NULL;
    if (!input_dir && !part->project.automatic_checkpoint_naming)
        return accel_fail (err, ACCEL_ERR_INVALID, "input_dir is needed, because automatic naming is not set");
    if (!part->project.automatic_checkpoint_naming)
        return checkpoint_folder_find (load->found.place, input_dir, err);
    enum accel_status status = checkpoint_lock_project (part, err);
    load->is_locked_out = status && status != ACCEL_ERR_SYSTEM; /* if this job cannot save, no other is in its way */
    if (load->is_locked_out)
        return status;
    if (asprintf (&folder, "%s/" CHECKPOINTS_FOLDER, part->project.project_dir) < 0)
        return folder = NULL, accel_fail_nomem (err);
    status = find_next_number (folder, &load->found.next, err);
    if (status)
        return status;
    return input_dir ? checkpoint_folder_find (load->found.place, input_dir, err) : find_newest (load, folder, err);
}

/* If there may be something in memory, it is no failure yet that the disk has nothing; but that another job saves to
 * the project is. */
static enum accel_status
find_anywhere (struct load *load, const char *input_dir, struct accel_error *err)
{
    struct found *found = &load->found;
    found->asks_memory = memory_state_is_possible (load->acc);
    enum accel_status status = find (load, input_dir, err);
    if (!status || !found->asks_memory || load->is_locked_out)
        return status;
    found->failure = *err;
    found->failure.code = status;
    *found->place = '\0';
    return ACCEL_OK;
}

/* The ranks divide the files among themselves. */
static enum accel_status
verify (struct load *load, struct accel_error *err)
{
    if (load->memory.processes)
        return memory_state_list (&load->memory, accel_num_processes (load->acc), &load->manifest, err);
    enum accel_status status = manifest_read (&load->manifest, load->found.place, err);
    size_t size = (size_t) accel_num_processes (load->acc), rank = (size_t) accel_process_index (load->acc);
    struct io_progress progress;
    uint64_t bytes = 0;
    if (status || load->found.verified)
        return status;
    for (size_t i = rank; i < load->manifest.count; i += size)
        bytes += load->manifest.files[i].bytes;
    io_progress_begin (&progress, checkpoint_show (load->acc), IO_PROGRESS_CHECK, load->found.place, bytes);
    for (size_t i = rank; !status && i < load->manifest.count; i += size)
        status = manifest_check_file (&load->manifest.files[i], load->found.place, err);
    io_progress_end (&progress, status);
    return status;
}

static size_t
count_custom (const struct manifest *manifest)
{
    size_t count = 0;
    for (char name[64];; count++) {
        snprintf (name, sizeof name, CUSTOM_FILE "_%zu" CHECKPOINT_VALUES, count);
        bool found = manifest_find_file (manifest, name);
        snprintf (name, sizeof name, CUSTOM_FILE "_%zu" CHECKPOINT_TENSORS, count);
        if (!found && !manifest_find_file (manifest, name))
            return count;
    }
}

/* Whether the files that all ranks saved of a part of each rank are the same. */
static bool
all_equal (const struct manifest *manifest, const char *stem)
{
    char name[128];
    const struct manifest_file *first = NULL;
    for (uint64_t i = 0; i < manifest->processes; i++) {
        snprintf (name, sizeof name, "%s_%llu" CHECKPOINT_TENSORS, stem, (unsigned long long) i);
        const struct manifest_file *file = manifest_find_file (manifest, name);
        if (!file)
            return false;
        first = first ? first : file;
        if (file->count != first->count || file->checksum != first->checksum)
            return false;
        for (size_t t = 0; t < file->count; t++)
            if (file->tensors[t].checksum != first->tensors[t].checksum)
                return false;
    }
    return first != NULL;
}

/* A rank that did not exist then continues what all ranks had in common, if that is so. */
static const char *
name_of (const struct load *load, const struct checkpoint_item *item, char *room, size_t size)
{
    if (!item->part || !item->part->kind->of_each_rank
        || (uint64_t) accel_process_index (load->acc) < load->manifest.processes
        || !all_equal (&load->manifest, item->part->kind->file))
        return item->name;
    snprintf (room, size, "%s_0", item->part->kind->file);
    return room;
}

/* How many ranks saved this part: those from rank 0 on that have a file. */
static size_t
count_ranks (const struct manifest *manifest, const char *stem)
{
    char name[128];
    size_t count = 0;
    do
        snprintf (name, sizeof name, "%s_%zu", stem, count);
    while (checkpoint_bytes (manifest, name) && ++count);
    return count;
}

static enum accel_status
read_state (const struct load *load, const char *name, struct accel_state_dict *state, bool *found,
            struct accel_error *err)
{
    return load->memory.processes ? memory_state_read (&load->memory, name, state, found, err)
                                  : checkpoint_read (state, load->found.place, name, &load->manifest, found, err);
}

/* A part of each rank, from what all ranks saved. */
static enum accel_status
load_resharded (const struct load *load, const struct checkpoint_item *item, struct accel_error *err)
{
    const struct part_kind *kind = item->part->kind;
    size_t count = count_ranks (&load->manifest, kind->file);
    enum accel_status status = ACCEL_OK;
    bool found;
    if (count && count != load->manifest.processes)
        return accel_fail (err, ACCEL_ERR_FORMAT, "the checkpoint has %s of %zu ranks, but %llu processes saved it",
                           kind->file, count, (unsigned long long) load->manifest.processes);
    AUTO_FREE struct accel_state_dict *states = calloc (count + 1, sizeof *states);
    if (!states)
        return accel_fail_nomem (err);
    for (size_t i = 0; i < count; i++)
        state_dict_init (&states[i]);
    for (size_t i = 0; !status && i < count; i++) {
        char name[128];
        snprintf (name, sizeof name, "%s_%zu", kind->file, i);
        status = read_state (load, name, &states[i], &found, err);
    }
    if (!status)
        status = kind->reshard (item->part, states, count, err);
    for (size_t i = 0; i < count; i++)
        state_dict_release (&states[i]);
    return status ? accel_fail_in (err, status, "%s", kind->file) : ACCEL_OK;
}

static bool
is_resharded (const struct load *load, const struct checkpoint_item *item)
{
    return item->part && item->part->kind->of_each_rank && item->part->kind->reshard
           && load->manifest.processes != (uint64_t) accel_num_processes (load->acc);
}

static enum accel_status
load_item (const struct load *load, const struct checkpoint_item *item, struct accel_error *err)
{
    char room[128];
    bool found = false;
    struct accel_state_dict state;
    if (is_resharded (load, item))
        return load_resharded (load, item, err);
    state_dict_init (&state);
    enum accel_status status = read_state (load, name_of (load, item, room, sizeof room), &state, &found, err);
    if (!status)
        status = checkpoint_item_load (item, found ? &state : NULL, err);
    state_dict_release (&state);
    return status;
}

static enum accel_status
fail_custom (const struct load *load, size_t custom, struct accel_error *err)
{
    return accel_fail (err, ACCEL_ERR_INVALID, "the checkpoint has %zu registered objects, but %zu are registered now",
                       custom, load->part->object_count);
}

static enum accel_status
load_items (const struct load *load, struct accel_error *err)
{
    struct checkpoint_items items;
    size_t custom = count_custom (&load->manifest);
    if (custom != load->part->object_count)
        return fail_custom (load, custom, err);
    struct io_progress progress;
    uint64_t bytes = 0;
    enum accel_status status = checkpoint_items_make (&items, load->acc, load->with_models, err);
    for (size_t i = 0; !status && i < items.count; i++)
        bytes += checkpoint_bytes (&load->manifest, items.items[i].name);
    io_progress_begin (&progress, checkpoint_show (load->acc), IO_PROGRESS_LOAD,
                       load->memory.processes ? "checkpoint in memory" : load->found.place, bytes);
    for (size_t i = 0; !status && i < items.count; i++)
        status = load_item (load, &items.items[i], err);
    io_progress_end (&progress, status);
    checkpoint_items_release (&items);
    return status;
}

/* Tensors of other types mean most often that the program, or its launch, has lost a flag. */
static enum accel_status
explain_precision (const struct load *load, enum accel_status status, struct accel_error *err)
{
    const char *saved = load->manifest.mixed_precision, *now = accel_mixed_precision (load->acc);
    struct accel_error cause = *err;
    if (status != ACCEL_ERR_FORMAT || !saved || !strcmp (saved, now))
        return status;
    return accel_fail (err, status, "%.300s; it was saved with mixed_precision %s, but this job has %s: set it in "
                       "accel_options, or launch with --mixed_precision %s", cause.text, saved, now, saved);
}

/* What is not restored is said once, for rank 0; what could make the training another one is an error. */
static enum accel_status
load_python (const struct load *load, struct accel_error *err)
{
    AUTO_STRLIST struct strlist left_out = { 0 };
    AUTO_STRBUF struct strbuf text = { 0 };
    struct checkpoint_items items;
    size_t custom = python_state_count_custom (load->found.place);
    if (custom != load->part->object_count)
        return fail_custom (load, custom, err);
    enum accel_status status = checkpoint_items_make (&items, load->acc, load->with_models, err);
    for (size_t i = 0; !status && i < items.count; i++)
        status = python_state_load (load->found.place, &items.items[i], &left_out, err);
    checkpoint_items_release (&items);
    for (size_t i = 0; i < left_out.count; i++)
        strbuf_printf (&text, "%s%s", i ? "; " : "", left_out.items[i]);
    if (!status && left_out.count)
        accel_logger_log (load->acc, ACCEL_LOG_WARNING,
                          "accel_load_state: %s was saved by Hugging Face Accelerate; not restored: %s",
                          load->found.place, text.text ? text.text : "some of it");
    return status;
}

/* Agree on what is loaded.  Collective. */
static enum accel_status
find_together (struct load *load, const char *input_dir, struct accel_error *err)
{
    struct accel *acc = load->acc;
    struct found *found = &load->found;
    enum accel_status status = accel_is_main_process (acc) ? find_anywhere (load, input_dir, err) : ACCEL_OK;
    found->is_python = !status && *found->place && checkpoint_is_python (found->place);
    status = checkpoint_agree (acc, load->site, status, err);
    if (!status)
        status = comm_broadcast (accel_world (acc), load->site, found, sizeof *found, ACCEL_UINT8, 0, err);
    if (!status && found->asks_memory)
        status = memory_state_find (&load->memory, acc, load->site, err);
    if (status)
        return status;
    if (load->memory.processes)
        found->is_python = false;
    else if (found->failure.code) { /* the same on all ranks, but only rank 0 was at fault */
        bool is_main = accel_is_main_process (acc);
        *err = found->failure;
        return checkpoint_agree (acc, load->site, is_main ? found->failure.code : ACCEL_OK, err);
    }
    return found->is_python ? ACCEL_OK : checkpoint_agree (acc, load->site, verify (load, err), err);
}

/* From now on, what was loaded is the latest, and what is older or newer in memory does not count. */
static enum accel_status
note_loaded (struct load *load, struct accel_error *err)
{
    struct checkpoint_part *part = load->part;
    char *latest = load->memory.processes ? NULL : strdup (load->found.place);
    enum accel_status status = latest || load->memory.processes ? ACCEL_OK : accel_fail_nomem (err);
    status = checkpoint_agree (load->acc, load->site, status, err);
    if (status) {
        free (latest);
        return status;
    }
    if (load->memory.processes) {
        memory_state_keep (&load->memory, load->acc);
        accel_logger_log (load->acc, ACCEL_LOG_INFO, "accel_load_state: continuing from memory, after step %llu",
                          (unsigned long long) load->memory.shares->step);
    } else {
        memory_tier_forget (load->acc);
        free (part->latest);
        part->latest = latest;
    }
    part->project.iteration = load->found.next;
    return ACCEL_OK;
}

static enum accel_status
load_state (struct load *load, const char *input_dir, struct accel_error *err)
{
    enum accel_status status = find_together (load, input_dir, err);
    if (status)
        return status;
    load->with_models = true;
    if (!load->memory.processes) /* hooks have folders */
        status = checkpoint_run_hooks (load->part, ACCEL_BEFORE_LOAD, load->found.place, &load->with_models, err);
    if (!status)
        status = load->found.is_python ? load_python (load, err)
                                       : explain_precision (load, load_items (load, err), err);
    status = checkpoint_agree (load->acc, load->site, status, err);
    return status ? status : note_loaded (load, err);
}

enum accel_status
accel_load_state_at (const char *file, int line, struct accel *acc, const char *input_dir, struct accel_error *err)
{
    const struct comm_site site = { .file = file, .line = line, .call = JOBSEG_CALL_LOAD_STATE };
    struct accel_error own = { 0 };
    if (!acc)
        return accel_fail_null (err, "accel_load_state", "acc");
    struct load load = { .acc = acc, .part = checkpoint_of (acc), .site = &site };
    uint64_t entered = checkpoint_enter (acc, &site);
    enum accel_status status = save_finish (acc, &site, &own);
    if (!status)
        status = load_state (&load, input_dir, &own);
    memory_tier_of (acc)->is_asked = true;
    memory_state_release (&load.memory);
    manifest_release (&load.manifest);
    return checkpoint_leave (acc, &site, entered, status, &own, err);
}
