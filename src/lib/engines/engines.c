/* SPDX-License-Identifier: Apache-2.0 */
/* Which engines there are, and which one connects a job. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/base/tensor.h"
#include "lib/engines/engine.h"
#include "util/engine_files.h"
#include "util/envnames.h"
#include "util/strbuf.h"
#include "util/suggest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct accel_engine *const built_in[] = {
#define X(name) &engine_##name,
    ENGINE_BUILT_IN_MAP (X)
#undef X
};
enum { BUILT_IN = sizeof built_in / sizeof *built_in };

/* The engine that is looked for. */
struct choice {
    const struct accel_engine_job *job;
    DLDeviceType memory;
    const char *name; /* the only one to try, or NULL */
    char reasons[ACCEL_ERROR_TEXT_SIZE]; /* why those that were tried cannot connect it, with one sentence each */
    size_t length;
};

static void
add_reason (struct choice *choice, const char *name, const char *why)
{
    size_t room = sizeof choice->reasons - choice->length;
    int length = snprintf (choice->reasons + choice->length, room, "%s%s %s", choice->length ? "; " : "", name, why);
    choice->length += length < 0 ? 0 : (size_t) length < room ? (size_t) length : room - 1;
}

static bool
can_connect (const struct accel_engine *engine, struct choice *choice)
{
    struct accel_error why = { 0 };
    const struct accel_engine_job *job = choice->job;
    bool is_alone = (engine->flags & ACCEL_ENGINE_SINGLE_PROCESS) && job->world_size > 1;
    if (!choice->name && choice->memory != kDLCPU
        && (is_alone || !(engine->devices & ACCEL_ENGINE_BIT (choice->memory))))
        return false; /* it is not expected to */
    bool wanted = !engine->probe || !engine->probe (job, &why);
    if (wanted && job->local_world_size != job->world_size && !(engine->flags & ACCEL_ENGINE_MULTI_HOST))
        accel_fail (&why, ACCEL_ERR_UNSUPPORTED, "connects processes on one host only, but this host has %d of %d",
                    job->local_world_size, job->world_size);
    else if (wanted && !(engine->devices & ACCEL_ENGINE_BIT (choice->memory)))
        accel_fail (&why, ACCEL_ERR_UNSUPPORTED, "does not move data in %s memory",
                    tensor_device_name ((DLDevice){ .device_type = choice->memory }));
    else if (wanted)
        return true;
    add_reason (choice, engine->name, why.text);
    return false;
}

/* The same of a module, which must be loaded to be asked. */
static bool
is_usable (const struct engine_file *file, const struct accel_engine **engine, struct choice *choice)
{
    struct accel_error why = { 0 };
    if (!engine_load (engine, file, &why))
        return can_connect (*engine, choice);
    add_reason (choice, file->name, why.text);
    return false;
}

static enum accel_status
fail_unknown (const char *name, const struct engine_files *files, struct accel_error *err)
{
    struct suggest suggest = { .wanted = name };
    char space[80], known[ACCEL_ERROR_TEXT_SIZE / 2] = "";
    size_t count = BUILT_IN + files->count, length = 0;
    for (size_t i = 0; i < count && length < sizeof known; i++) {
        const char *next = i < BUILT_IN ? built_in[i]->name : files->items[i - BUILT_IN].name;
        suggest_consider (&suggest, next);
        length += (size_t) snprintf (known + length, sizeof known - length, "%s%s",
                                     !i ? "" : i + 1 == count ? " and " : ", ", next);
    }
    return accel_fail (err, ACCEL_ERR_UNSUPPORTED,
                       "accel_open: unknown engine '%.40s'%s: there are %s; modules are found in %s and in %s", name,
                       suggest_text (&suggest, "", space, sizeof space), known, ENV_ENGINE_PATH, ENGINE_FOLDER);
}

enum accel_status
engine_choose (const struct accel_engine **engine, const struct engine_job *job, DLDeviceType memory,
               struct accel_error *err)
{
    char name[ENGINE_NAME_MOST + 1];
    const char *kind = tensor_device_name ((DLDevice){ .device_type = memory });
    struct choice choice = { .job = &job->base, .memory = memory,
                             .name = engine_named (job->engines, kind, name) ? name : NULL };
    bool known = false;
    for (int i = 0; i < BUILT_IN; i++) {
        *engine = built_in[i];
        if (choice.name && strcmp (choice.name, (*engine)->name))
            continue;
        known = true;
        if (can_connect (*engine, &choice))
            return ACCEL_OK;
    }
    AUTO_ENGINE_FILES struct engine_files files = { 0 };
    if (!known || !choice.name)
        engine_files_find (&files);
    if (files.failed)
        return accel_fail (err, ACCEL_ERR_NOMEM, "accel_open: out of memory");
    for (size_t i = 0; i < files.count; i++) {
        if (choice.name && strcmp (choice.name, files.items[i].name))
            continue;
        known = true;
        if (is_usable (&files.items[i], engine, &choice))
            return ACCEL_OK;
    }
    if (!known)
        return fail_unknown (choice.name, &files, err);
    if (!choice.length)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "accel_open: no engine for %s memory is installed", kind);
    if (memory == kDLCPU && job->base.local_world_size != job->base.world_size && getenv ("NCCL_COMM_ID"))
        add_reason (&choice, "NCCL_COMM_ID",
                    "connects GPUs only, but host tensors and the control of a job on several hosts need an engine "
                    "for host memory: mpi");
    return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "accel_open: no engine can connect this job: %s", choice.reasons);
}
