/* SPDX-License-Identifier: Apache-2.0 */
/* What a communicator asks of its engine besides moving data: memory, groups, and whether it can do something. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/comm/comm_object.h"
#include "lib/memory/memory.h"

const char *
comm_engine_name (const struct accel_comm *comm)
{
    return comm->engine->name;
}

enum accel_status
comm_alloc (struct accel_comm *comm, DLDevice device, void **memory, size_t bytes, struct accel_error *err)
{
    const struct memory *kind = memory_of (device);
    if (comm->engine->alloc && kind->host)
        return comm->engine->alloc (comm->transport, memory, bytes, err);
    *memory = kind->create (device, bytes, true);
    return *memory ? ACCEL_OK : accel_fail (err, ACCEL_ERR_NOMEM, "accel_alloc: cannot allocate %zu bytes", bytes);
}

void
comm_free (struct accel_comm *comm, DLDevice device, void *memory)
{
    const struct memory *kind = memory_of (device);
    if (comm->engine->free && kind->host)
        comm->engine->free (comm->transport, memory);
    else
        kind->destroy (device, memory);
}

enum accel_status
comm_make_group (struct accel_comm *comm, int size, int64_t *place, struct accel_error *err)
{
    return comm->engine->make_group (comm->transport, size, place, err);
}

enum accel_status
comm_join_group (struct accel_comm *group, const int *ranks, int64_t place, struct accel_error *err)
{
    const struct accel_comm *parent = group->parent;
    enum accel_status status = parent->engine->join_group (parent->transport, ranks, group->size, group->rank, place,
                                                           &group->transport, err);
    if (!status)
        group->engine = parent->engine;
    return status;
}

static const char *
kind_name (enum accel_engine_kind kind)
{
    static const char *const names[] = {
#define X(name, text) text,
        ACCEL_ENGINE_KIND_MAP (X)
#undef X
    };
    return names[kind];
}

enum accel_status
comm_check_engine (const struct accel_comm *comm, const struct accel_engine_call *call, struct accel_error *err)
{
    const struct accel_engine *engine = comm->engine;
    bool reduces = call->kind == ACCEL_ENGINE_ALL_REDUCE || call->kind == ACCEL_ENGINE_REDUCE_SCATTER;
    if (!(engine->kinds & ACCEL_ENGINE_BIT (call->kind)))
        return comm_fail (call->site, ACCEL_ERR_UNSUPPORTED, err, "engine %s does not support %s", engine->name,
                          kind_name (call->kind));
    if (reduces && !(engine->reduces & ACCEL_ENGINE_BIT (call->dtype)))
        return comm_fail (call->site, ACCEL_ERR_UNSUPPORTED, err, "engine %s cannot reduce %s", engine->name,
                          accel_dtype_name (call->dtype));
    return ACCEL_OK;
}
