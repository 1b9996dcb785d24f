/* SPDX-License-Identifier: Apache-2.0 */
/* Engine "standin": moves data in the memory of standin_memory.h, and in no other.  It finds out from the call's stream
 * where that really is, and lets the engine in the file STANDIN_ENGINE do the rest. */
#include <accel/engine.h>

#include "standin_stream.h"

#include <dlfcn.h>
#include <stdlib.h>

static const struct accel_engine *base;

static enum accel_status
standin_probe (const struct accel_engine_job *job, struct accel_error *err)
{
    const char *path = getenv ("STANDIN_ENGINE"), *refused = getenv ("STANDIN_REFUSES");
    if (refused && atoi (refused) == job->rank)
        return job->helpers->fail (err, ACCEL_ERR_UNSUPPORTED, "does not want to");
    void *module = path ? dlopen (path, RTLD_NOW | RTLD_LOCAL) : NULL;
    base = module ? dlsym (module, ACCEL_ENGINE_SYMBOL) : NULL;
    return base ? ACCEL_OK : job->helpers->fail (err, ACCEL_ERR_UNSUPPORTED, "needs STANDIN_ENGINE");
}

static enum accel_status
standin_open (void **transport, struct accel_engine_job *job, struct accel_error *err)
{
    return base->open (transport, job, err);
}

static void
standin_close (void *transport)
{
    base->close (transport);
}

static void
standin_give_up (void *transport, const char *reason)
{
    if (base->give_up)
        base->give_up (transport, reason);
}

static enum accel_status
standin_make_group (void *transport, int size, int64_t *group_id, struct accel_error *err)
{
    return base->make_group (transport, size, group_id, err);
}

static enum accel_status
standin_join_group (void *transport, const int *ranks, int size, int rank, int64_t group_id, void **group,
                    struct accel_error *err)
{
    return base->join_group (transport, ranks, size, rank, group_id, group, err);
}

static enum accel_status
standin_run (void *transport, const struct accel_engine_call *call, struct accel_error *err)
{
    struct accel_engine_call real = *call;
    if (call->device.device_type != kDLExtDev || !call->stream)
        return call->helpers->fail (err, ACCEL_ERR_INVALID, "engine standin got a call that is not for it");
    real.send = call->send ? standin_at (call->stream, call->send) : NULL;
    real.recv = call->recv ? standin_at (call->stream, call->recv) : NULL;
    real.device = (DLDevice){ .device_type = kDLCPU };
    real.stream = NULL;
    return base->run (transport, &real, err);
}

ACCEL_API const struct accel_engine accel_engine = {
    .abi = ACCEL_ENGINE_ABI,
    .size = sizeof (struct accel_engine),
    .name = "standin",
    .kinds = ACCEL_ENGINE_BITS (ACCEL_ENGINE_KIND_COUNT),
    .reduces = ACCEL_ENGINE_BITS (ACCEL_DTYPE_COUNT),
    .devices = ACCEL_ENGINE_BIT (kDLExtDev),
    .probe = standin_probe,
    .open = standin_open,
    .close = standin_close,
    .give_up = standin_give_up,
    .make_group = standin_make_group,
    .join_group = standin_join_group,
    .run = standin_run,
};
