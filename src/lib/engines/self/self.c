/* SPDX-License-Identifier: Apache-2.0 */
/* Engine "self": one process.  Every collective is a copy from the send to the receive buffer; a reduction goes
 * through the same kernels as everywhere, so that booleans become 0 and 1 here too. */
#include <config.h>

#include "lib/engines/engine.h"

#include "lib/base/error.h"
#include "lib/kernels/reduce.h"
#include "lib/memory/memory.h"
#include "util/memory.h"
#include "util/procfs.h"

#include <signal.h>
#include <string.h>

static enum accel_status
self_probe (const struct accel_engine_job *job, struct accel_error *err)
{
    if (job->world_size != 1)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "connects one process only, but this job has %d",
                           job->world_size);
    return ACCEL_OK;
}

/* A second program of the job (a child of the rank, say) leaves the slot to the first. */
static bool
is_taken (const struct jobseg_slot *slot)
{
    pid_t pid = atomic_load (&slot->pid);
    return atomic_load (&slot->state) == JOBSEG_READY && pid > 0 && !kill (pid, 0);
}

/* The transport is the slot in which our launcher reads what this rank does; NULL: there is none. */
static enum accel_status
self_open (void **transport, struct accel_engine_job *base, struct accel_error *err)
{
    struct engine_job *job = engine_job_of (base);
    struct jobseg_slot *slot = job->segment.header ? jobseg_slot (&job->segment, base->local_rank) : NULL;
    (void) err;
    if (slot && is_taken (slot)) {
        slot = NULL;
        jobseg_detach (&job->segment);
    }
    if (slot) {
        atomic_store (&slot->pid, getpid ());
        atomic_store (&slot->pid_space, procfs_pid_space ());
        atomic_store (&slot->generation, atomic_load (&slot->generation) + 1);
        atomic_store (&slot->state, JOBSEG_READY);
    }
    *transport = slot;
    return ACCEL_OK;
}

static bool
is_own (const struct jobseg_slot *slot)
{
    return slot && atomic_load (&slot->pid) == getpid ();
}

static void
self_close (void *transport)
{
    struct jobseg_slot *slot = transport;
    if (is_own (slot))
        atomic_store (&slot->state, JOBSEG_LEFT);
}

static void
self_give_up (void *transport, const char *reason)
{
    struct jobseg_slot *slot = transport;
    if (!is_own (slot))
        return;
    strncpy (slot->reason, reason, sizeof slot->reason - 1);
    atomic_store (&slot->state, JOBSEG_FAILED);
}

static enum accel_status
self_make_group (void *transport, int size, int64_t *group_id, struct accel_error *err)
{
    (void) transport, (void) size, (void) err;
    *group_id = 0;
    return ACCEL_OK;
}

/* Without a slot, which is the world's. */
static enum accel_status
self_join_group (void *transport, const int *ranks, int size, int rank, int64_t group_id, void **group,
                 struct accel_error *err)
{
    (void) transport, (void) ranks, (void) size, (void) rank, (void) group_id, (void) err;
    *group = NULL;
    return ACCEL_OK;
}

enum { BLOCK = 1024 };

/* In other memory than the host's.  Of one source, a reduction makes booleans 0 or 1, and else a copy. */
__attribute__ ((cold, noinline)) static enum accel_status
run_on_device (const struct accel_engine_call *call, struct accel_error *err)
{
    const struct reduction reduction = { .dtype = call->dtype, .op = call->op, .sources = 1, .targets = 1 };
    const struct memory *memory = memory_of (call->device);
    bool reduces = call->kind == ACCEL_ENGINE_ALL_REDUCE || call->kind == ACCEL_ENGINE_REDUCE_SCATTER;
    if (call->kind == ACCEL_ENGINE_BARRIER || call->kind == ACCEL_ENGINE_BROADCAST)
        return ACCEL_OK;
    for (size_t at = 0; reduces && call->dtype == ACCEL_BOOL && at < call->count; at += BLOCK) {
        uint8_t block[BLOCK];
        const void *source = block;
        void *target = block;
        size_t some = call->count - at < BLOCK ? call->count - at : BLOCK;
        enum accel_status status = memory->read (call->device, block, memory_at (call->send, at, 1), some, err);
        if (status)
            return status;
        reduce_run (&reduction, &source, &target, some);
        memory->write (call->device, memory_at (call->recv, at, 1), block, some);
    }
    if ((!reduces || call->dtype != ACCEL_BOOL) && call->send != call->recv && call->count)
        memory->copy (call->device, call->recv, call->send, call->count * call->element_bytes);
    return ACCEL_OK;
}

static enum accel_status
self_run (void *transport, const struct accel_engine_call *call, struct accel_error *err)
{
    (void) transport;
    if ((unsigned) call->kind >= ACCEL_ENGINE_SEND)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "engine self: unknown kind of collective %d", (int) call->kind);
    if (call->device.device_type != kDLCPU)
        return run_on_device (call, err);
    if (call->kind == ACCEL_ENGINE_ALL_REDUCE || call->kind == ACCEL_ENGINE_REDUCE_SCATTER)
        reduce_run (&(struct reduction){ .dtype = call->dtype, .op = call->op, .sources = 1, .targets = 1 },
                    &call->send, &call->recv, call->count);
    else if ((call->kind == ACCEL_ENGINE_ALL_GATHER || call->kind == ACCEL_ENGINE_ALL_TO_ALL)
             && call->send != call->recv && call->count)
        memory_copy (call->recv, call->send, call->count * call->element_bytes);
    return ACCEL_OK;
}

const struct accel_engine engine_self = {
    .abi = ACCEL_ENGINE_ABI,
    .size = sizeof (struct accel_engine),
    .name = "self",
    .kinds = ACCEL_ENGINE_BITS (ACCEL_ENGINE_SEND), /* no other rank is there to send to */
    .reduces = ACCEL_ENGINE_BITS (ACCEL_DTYPE_COUNT),
    .devices = ACCEL_ENGINE_BITS (MEMORY_KINDS), /* by the table of each */
    .flags = ACCEL_ENGINE_SINGLE_PROCESS,
    .probe = self_probe,
    .open = self_open,
    .close = self_close,
    .give_up = self_give_up,
    .make_group = self_make_group,
    .join_group = self_join_group,
    .run = self_run,
};
