/* SPDX-License-Identifier: Apache-2.0 */
/* What a communicator asks of its engine besides moving data: memory, groups, and whether it can do something. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/base/tensor.h"
#include "lib/comm/comm_object.h"
#include "lib/comm/links.h"
#include "lib/memory/memory.h"

const char *
comm_engine_name (const struct accel_comm *comm)
{
    return comm->engine->name;
}

/* The engine for memory on @device, if it has some that is better than other; all 0: none has. */
static struct comm_route
find_allocator (const struct accel_comm *comm, DLDevice device)
{
    bool is_own = device.device_type == comm->device.device_type && device.device_id == comm->device.device_id;
    struct comm_route route = comm_route_to (comm, device);
    bool has_some = is_own && route.engine != comm->engine && route.engine->alloc;
    return has_some ? route : (struct comm_route){ NULL, NULL };
}

enum accel_status
comm_alloc (struct accel_comm *comm, DLDevice device, void **memory, size_t bytes, struct accel_error *err)
{
    const struct memory *kind = memory_of (device);
    if (kind->host && comm->engine->alloc)
        return comm->engine->alloc (comm->transport, memory, bytes, err);
    struct comm_route route = find_allocator (comm, device);
    if (route.engine)
        return route.engine->alloc (route.transport, memory, bytes, err);
    *memory = kind->create (device, bytes, true);
    return *memory ? ACCEL_OK : memory_fail (device, err, "accel_alloc: cannot allocate %zu bytes", bytes);
}

void
comm_free (struct accel_comm *comm, DLDevice device, void *memory)
{
    const struct memory *kind = memory_of (device);
    struct comm_route route = find_allocator (comm, device);
    if (kind->host && comm->engine->free)
        comm->engine->free (comm->transport, memory);
    else if (route.engine && memory)
        route.engine->free (route.transport, memory);
    else
        kind->destroy (device, memory);
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

static inline enum accel_status
check_call (const struct accel_engine *engine, const struct accel_engine_call *call, struct accel_error *err)
{
    bool reduces = call->kind == ACCEL_ENGINE_ALL_REDUCE || call->kind == ACCEL_ENGINE_REDUCE_SCATTER;
    if (!(engine->kinds & ACCEL_ENGINE_BIT (call->kind)))
        return comm_fail (call->site, ACCEL_ERR_UNSUPPORTED, err, "engine %s does not support %s", engine->name,
                          kind_name (call->kind));
    if (reduces && !(engine->reduces & ACCEL_ENGINE_BIT (call->dtype)))
        return comm_fail (call->site, ACCEL_ERR_UNSUPPORTED, err, "engine %s cannot reduce %s", engine->name,
                          accel_dtype_name (call->dtype));
    return ACCEL_OK;
}

__attribute__ ((cold, noinline)) static enum accel_status
check_link (const struct accel_comm *comm, const struct accel_engine_call *call, struct accel_error *err)
{
    DLDevice device = engine_site (call)->device;
    const struct accel_engine *engine = comm_engine_for (comm, device);
    const char *kind = tensor_device_name (device);
    if (engine && engine != comm->engine && device.device_type == comm->device.device_type
        && device.device_id != comm->device.device_id)
        return comm_fail (call->site, ACCEL_ERR_INVALID, err,
                          "the tensor is on %s:%d, but rank %d computes on %s:%d, which accel_device() returns", kind,
                          (int) device.device_id, watch_world_rank (&comm->watch, comm->rank), kind,
                          (int) comm->device.device_id);
    if (engine)
        return check_call (engine, call, err);
    const struct accel_comm *world = comm;
    while (world->parent)
        world = world->parent;
    return comm_fail (call->site, ACCEL_ERR_UNSUPPORTED, err,
                      "the tensor of rank %d is on %s:%d, but this job has no engine for %s memory, only %s for the "
                      "host's%s%s",
                      watch_world_rank (&comm->watch, comm->rank), kind, (int) device.device_id, kind,
                      comm->engine->name, *world->refusal ? ": " : "", world->refusal);
}

enum accel_status
comm_check_engine (const struct accel_comm *comm, const struct accel_engine_call *call, struct accel_error *err)
{
    return comm_is_for_host (engine_site (call)) ? check_call (comm->engine, call, err) : check_link (comm, call, err);
}
