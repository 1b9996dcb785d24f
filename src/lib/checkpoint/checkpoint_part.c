/* SPDX-License-Identifier: Apache-2.0 */
/* Project configuration, hooks and registered objects; see checkpoint_part.h. */
#include <config.h>

#include "lib/checkpoint/checkpoint_part.h"

#include "files/checkpoints.h"
#include "lib/base/error.h"
#include "lib/base/sized.h"
#include "lib/checkpoint/folder.h"
#include "lib/state/state_object.h"
#include "util/array.h"
#include "util/cleanup.h"
#include "util/envnames.h"
#include "util/parse.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void
forget_project (struct checkpoint_part *its)
{
    free ((char *) its->project.project_dir);
    free ((char *) its->project.logging_dir);
}

static void
close_checkpoint (struct part *part)
{
    struct checkpoint_part *its = (struct checkpoint_part *) (void *) part;
    if (its->flight)
        its->close_flight (its->flight);
    its->flight = NULL;
    snapshot_release (&its->snapshot);
    project_lock_release (&its->lock);
    forget_project (its);
    free (its->load_result);
    free (its->latest);
    free (its->objects);
    free (its->hooks);
}

/* The copy that a save in flight writes is needed. */
static void
release_checkpoint (struct part *part)
{
    struct checkpoint_part *its = (struct checkpoint_part *) (void *) part;
    if (!its->flight)
        snapshot_release (&its->snapshot);
}

const struct part_kind part_checkpoint = { .size_bytes = sizeof (struct checkpoint_part),
                                           .release = release_checkpoint, .close = close_checkpoint };

static enum accel_status
configure (struct checkpoint_part *its, const struct accel_project_configuration *given, struct accel_error *err)
{
    const char *logs = given->logging_dir ? given->logging_dir : given->project_dir;
    char *project_dir = given->project_dir ? strdup (given->project_dir) : NULL;
    char *logging_dir = logs ? strdup (logs) : NULL;
    if ((given->project_dir && !project_dir) || (logs && !logging_dir)) {
        free (project_dir);
        free (logging_dir);
        return accel_fail_nomem (err);
    }
    forget_project (its);
    its->project = *given;
    its->project.project_dir = project_dir;
    its->project.logging_dir = logging_dir;
    return ACCEL_OK;
}

enum accel_status
accel_set_project_configuration_sized (size_t configuration_size, struct accel *acc,
                                       const struct accel_project_configuration *configuration,
                                       struct accel_error *err)
{
    struct accel_project_configuration room;
    enum accel_status status;
    if (!acc || !configuration)
        return accel_fail_null (err, "accel_set_project_configuration", acc ? "configuration" : "acc");
    configuration = SIZED (configuration, configuration_size, room, &status, err);
    if (status)
        return status;
    if (configuration->automatic_checkpoint_naming && (!configuration->project_dir || !*configuration->project_dir))
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "accel_set_project_configuration: automatic_checkpoint_naming needs project_dir");
    if (configuration->state_dict_type > ACCEL_STATE_DICT_SHARDED)
        return accel_fail (err, ACCEL_ERR_INVALID, "invalid value for 'state_dict_type'");
    return configure (checkpoint_of (acc), configuration, err);
}

const struct accel_project_configuration *
accel_get_project_configuration (const struct accel *acc)
{
    return acc ? &checkpoint_of (acc)->project : NULL;
}

const char *
accel_checkpoint_path (const struct accel *acc)
{
    return acc ? checkpoint_of (acc)->latest : NULL;
}

enum accel_status
accel_register_for_checkpointing_sized (size_t object_size, struct accel *acc,
                                        const struct accel_checkpoint_object *object, struct accel_error *err)
{
    struct accel_checkpoint_object room;
    enum accel_status status;
    if (!acc || !object)
        return accel_fail_null (err, "accel_register_for_checkpointing", acc ? "object" : "acc");
    object = SIZED (object, object_size, room, &status, err);
    if (status)
        return status;
    if (!object->save || !object->load)
        return accel_fail_null (err, "accel_register_for_checkpointing", object->save ? "load" : "save");
    struct checkpoint_part *its = checkpoint_of (acc);
    if (!array_room (&its->objects, its->object_count, sizeof *its->objects))
        return accel_fail_nomem (err);
    its->objects[its->object_count++] = *object;
    return ACCEL_OK;
}

enum accel_status
accel_register_state_hook (struct accel *acc, enum accel_state_event event, accel_state_hook hook, void *user,
                           uint64_t *handle, struct accel_error *err)
{
    if (!acc || !hook)
        return accel_fail_null (err, __func__, acc ? "hook" : "acc");
    if (event != ACCEL_BEFORE_SAVE && event != ACCEL_BEFORE_LOAD)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: invalid accel_state_event %d", __func__, (int) event);
    struct checkpoint_part *its = checkpoint_of (acc);
    if (!array_room (&its->hooks, its->hook_count, sizeof *its->hooks))
        return accel_fail_nomem (err);
    const struct state_hook made = { .hook = hook, .user = user, .handle = ++its->handles, .event = event };
    its->hooks[its->hook_count++] = made;
    if (handle)
        *handle = made.handle;
    return ACCEL_OK;
}

void
accel_remove_state_hook (struct accel *acc, uint64_t handle)
{
    struct checkpoint_part *its = acc ? checkpoint_of (acc) : NULL;
    for (size_t i = 0; its && i < its->hook_count; i++)
        if (its->hooks[i].handle == handle) {
            its->hook_count--;
            memmove (&its->hooks[i], &its->hooks[i + 1], (its->hook_count - i) * sizeof *its->hooks);
            return;
        }
}

enum accel_status
checkpoint_lock_project (struct checkpoint_part *part, struct accel_error *err)
{
    AUTO_FREE char *path = NULL;
    if (part->project.read_only)
        return ACCEL_OK;
    if (asprintf (&path, "%s/" CHECKPOINTS_FOLDER "/", part->project.project_dir) < 0)
        return path = NULL, accel_fail_nomem (err);
    enum accel_status status = checkpoint_folder_make_parents (path, err);
    path[strlen (path) - 1] = '\0';
    return status ? status : project_lock_take (&part->lock, path, err);
}

/* PyTorch's names, or their numbers. */
bool
checkpoint_is_sharded (const struct checkpoint_part *part)
{
    static const char *const sharded[] = { "SHARDED_STATE_DICT", "3", "LOCAL_STATE_DICT", "2" };
    const char *type = getenv (ENV_FSDP_STATE_DICT), *is_used = getenv (ENV_USE_FSDP);
    bool is_asked = false, is_on;
    if (part->project.state_dict_type != ACCEL_STATE_DICT_DEFAULT)
        return part->project.state_dict_type == ACCEL_STATE_DICT_SHARDED;
    for (size_t i = 0; type && i < sizeof sharded / sizeof *sharded; i++)
        is_asked = is_asked || !strcasecmp (type, sharded[i]);
    return is_asked && is_used && parse_bool (is_used, &is_on) == PARSE_OK && is_on;
}

/* Hooks are in the order of their handles, and may remove themselves and others while they run. */
static const struct state_hook *
next_hook (const struct checkpoint_part *part, uint64_t after)
{
    for (size_t i = 0; i < part->hook_count; i++)
        if (part->hooks[i].handle > after)
            return &part->hooks[i];
    return NULL;
}

enum accel_status
checkpoint_run_hooks (const struct checkpoint_part *part, enum accel_state_event event, const char *folder,
                      bool *with_models, struct accel_error *err)
{
    *with_models = true;
    uint64_t last = 0;
    for (const struct state_hook *next; (next = next_hook (part, last));) {
        const struct state_hook hook = *next;
        struct accel_error cause = { 0 };
        last = hook.handle;
        if (hook.event != event)
            continue;
        enum accel_status status = hook.hook (hook.user, folder, with_models, &cause);
        if (status)
            return accel_fail (err, ACCEL_ERR_CALLBACK, "the hook before %s the state: %s",
                               event == ACCEL_BEFORE_SAVE ? "saving" : "loading",
                               *cause.text ? cause.text : accel_status_string (status));
    }
    return ACCEL_OK;
}
