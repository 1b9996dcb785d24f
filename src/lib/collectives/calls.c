/* SPDX-License-Identifier: Apache-2.0 */
/* The public collectives on buffers, and shared memory: what is in accel/comm.h up to Accelerate's names. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/comm/comm_object.h"
#include "lib/comm/links.h"
#include "lib/memory/memory.h"
#include "lib/state/state_object.h"

enum { PER_THREAD = 2 }; /* cudaStreamPerThread, and DLPack's number for it */

struct accel_comm *
accel_world (struct accel *acc)
{
    return acc ? acc->world : NULL;
}

int
accel_comm_rank (const struct accel_comm *comm)
{
    return comm ? comm->rank : 0;
}

int
accel_comm_size (const struct accel_comm *comm)
{
    return comm ? comm->size : 1;
}

const char *
accel_comm_engine (const struct accel_comm *comm)
{
    return comm ? comm_engine_name (comm) : "";
}

static enum accel_status
check_stream (const struct accel_comm *comm, void *stream, struct accel_error *err)
{
    const struct memory *memory = memory_of (comm->device);
    if (comm_why_gone (comm))
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_comm_set_stream: %s", comm_why_gone (comm));
    if (!memory || !memory->order || !comm_link_for (comm, comm->device))
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED,
                           "accel_comm_set_stream: this job computes on %s, which has no streams: pass NULL",
                           tensor_device_name (comm->device));
    if ((uintptr_t) stream == UINTPTR_MAX || (uintptr_t) stream == PER_THREAD)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_comm_set_stream: %d is not one stream: name the one that the "
                           "program's work runs on", (int) (intptr_t) stream);
    return memory->order (comm->device, stream, stream, err);
}

enum accel_status
accel_comm_set_stream (struct accel_comm *comm, void *stream, struct accel_error *err)
{
    if (!comm)
        return accel_fail_null (err, __func__, "comm");
    enum accel_status status = stream ? check_stream (comm, stream, err) : ACCEL_OK;
    if (!status)
        comm->stream = stream;
    return status;
}

enum accel_status
accel_comm_set_timeout (struct accel_comm *comm, uint32_t timeout_ms, struct accel_error *err)
{
    const char *gone = comm ? comm_why_gone (comm) : NULL;
    if (!comm)
        return accel_fail_null (err, __func__, "comm");
    if (gone || !timeout_ms)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: %s", __func__, gone ? gone : "the timeout is 0");
    return comm_set_timeout (comm, timeout_ms, err);
}

enum accel_status
accel_alloc (struct accel *acc, size_t size_bytes, void **memory, struct accel_error *err)
{
    if (!memory)
        return accel_fail_null (err, __func__, "memory");
    *memory = NULL;
    if (!acc)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_alloc: the job is NULL");
    return comm_alloc (acc->world, (DLDevice){ .device_type = kDLCPU }, memory, size_bytes, err);
}

void
accel_free (struct accel *acc, void *memory)
{
    if (acc && memory)
        comm_free (acc->world, (DLDevice){ .device_type = kDLCPU }, memory);
}

enum accel_status
accel_comm_barrier_at (const char *file, int line, struct accel_comm *comm, struct accel_error *err)
{
    return comm_barrier (comm, SITE (BARRIER), err);
}

enum accel_status
accel_comm_all_reduce_at (const char *file, int line, struct accel_comm *comm, const void *send, void *recv,
                          size_t count, enum accel_dtype dtype, enum accel_op op, struct accel_error *err)
{
    struct comm_site site = *SITE (ALL_REDUCE);
    enum accel_status status = comm_place (&site, comm, send, recv, err);
    return status ? status : comm_all_reduce (comm, &site, send, recv, count, dtype, op, err);
}

enum accel_status
accel_comm_all_gather_at (const char *file, int line, struct accel_comm *comm, const void *send, void *recv,
                          size_t count, enum accel_dtype dtype, struct accel_error *err)
{
    struct comm_site site = *SITE (ALL_GATHER);
    enum accel_status status = comm_place (&site, comm, send, recv, err);
    return status ? status : comm_all_gather (comm, &site, send, recv, count, dtype, err);
}

enum accel_status
accel_comm_broadcast_at (const char *file, int line, struct accel_comm *comm, void *buffer, size_t count,
                         enum accel_dtype dtype, int root, struct accel_error *err)
{
    struct comm_site site = *SITE (BROADCAST_BUFFER);
    enum accel_status status = comm_place (&site, comm, NULL, buffer, err);
    return status ? status : comm_broadcast (comm, &site, buffer, count, dtype, root, err);
}

enum accel_status
accel_comm_reduce_scatter_at (const char *file, int line, struct accel_comm *comm, const void *send, void *recv,
                              size_t count, enum accel_dtype dtype, enum accel_op op, struct accel_error *err)
{
    struct comm_site site = *SITE (REDUCE_SCATTER);
    enum accel_status status = comm_place (&site, comm, send, recv, err);
    return status ? status : comm_reduce_scatter (comm, &site, send, recv, count, dtype, op, err);
}

enum accel_status
accel_comm_all_to_all_at (const char *file, int line, struct accel_comm *comm, const void *send, void *recv,
                          size_t count, enum accel_dtype dtype, struct accel_error *err)
{
    struct comm_site site = *SITE (ALL_TO_ALL);
    enum accel_status status = comm_place (&site, comm, send, recv, err);
    return status ? status : comm_all_to_all (comm, &site, send, recv, count, dtype, err);
}

enum accel_status
accel_comm_send_at (const char *file, int line, struct accel_comm *comm, const void *send, size_t count,
                    enum accel_dtype dtype, int to, struct accel_error *err)
{
    struct comm_site site = *SITE (SEND);
    enum accel_status status = comm_place (&site, comm, send, NULL, err);
    return status ? status : comm_send (comm, &site, send, count, dtype, to, err);
}

enum accel_status
accel_comm_recv_at (const char *file, int line, struct accel_comm *comm, void *recv, size_t count,
                    enum accel_dtype dtype, int from, struct accel_error *err)
{
    struct comm_site site = *SITE (RECV);
    enum accel_status status = comm_place (&site, comm, NULL, recv, err);
    return status ? status : comm_recv (comm, &site, recv, count, dtype, from, err);
}
