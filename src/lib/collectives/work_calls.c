/* SPDX-License-Identifier: Apache-2.0 */
/* Starting collectives: the blocking calls with a place for the work; see accel/work.h. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/comm/comm_object.h"
#include "lib/comm/work.h"

#define STARTED(public_call) \
    (&(struct comm_site){ .file = file, .line = line, .call = JOBSEG_CALL_##public_call, .work = work })

/* Without a place for the work there is nothing to wait for. */
static enum accel_status
begin (struct comm_site *site, const struct accel_comm *comm, const void *send, const void *recv,
       struct accel_error *err)
{
    if (!site->work)
        return comm_refuse (site, "work is NULL", err);
    *site->work = NULL;
    return comm_place (site, comm, send, recv, err);
}

enum accel_status
accel_comm_barrier_start_at (const char *file, int line, struct accel_work **work, struct accel_comm *comm,
                             struct accel_error *err)
{
    struct comm_site site = *STARTED (BARRIER_START);
    enum accel_status status = begin (&site, comm, NULL, NULL, err);
    return status ? status : comm_barrier (comm, &site, err);
}

enum accel_status
accel_comm_all_reduce_start_at (const char *file, int line, struct accel_work **work, struct accel_comm *comm,
                                const void *send, void *recv, size_t count, enum accel_dtype dtype, enum accel_op op,
                                struct accel_error *err)
{
    struct comm_site site = *STARTED (ALL_REDUCE_START);
    enum accel_status status = begin (&site, comm, send, recv, err);
    return status ? status : comm_all_reduce (comm, &site, send, recv, count, dtype, op, err);
}

enum accel_status
accel_comm_all_gather_start_at (const char *file, int line, struct accel_work **work, struct accel_comm *comm,
                                const void *send, void *recv, size_t count, enum accel_dtype dtype,
                                struct accel_error *err)
{
    struct comm_site site = *STARTED (ALL_GATHER_START);
    enum accel_status status = begin (&site, comm, send, recv, err);
    return status ? status : comm_all_gather (comm, &site, send, recv, count, dtype, err);
}

enum accel_status
accel_comm_broadcast_start_at (const char *file, int line, struct accel_work **work, struct accel_comm *comm,
                               void *buffer, size_t count, enum accel_dtype dtype, int root, struct accel_error *err)
{
    struct comm_site site = *STARTED (BROADCAST_BUFFER_START);
    enum accel_status status = begin (&site, comm, NULL, buffer, err);
    return status ? status : comm_broadcast (comm, &site, buffer, count, dtype, root, err);
}

enum accel_status
accel_comm_reduce_scatter_start_at (const char *file, int line, struct accel_work **work, struct accel_comm *comm,
                                    const void *send, void *recv, size_t count, enum accel_dtype dtype,
                                    enum accel_op op, struct accel_error *err)
{
    struct comm_site site = *STARTED (REDUCE_SCATTER_START);
    enum accel_status status = begin (&site, comm, send, recv, err);
    return status ? status : comm_reduce_scatter (comm, &site, send, recv, count, dtype, op, err);
}

enum accel_status
accel_comm_all_to_all_start_at (const char *file, int line, struct accel_work **work, struct accel_comm *comm,
                                const void *send, void *recv, size_t count, enum accel_dtype dtype,
                                struct accel_error *err)
{
    struct comm_site site = *STARTED (ALL_TO_ALL_START);
    enum accel_status status = begin (&site, comm, send, recv, err);
    return status ? status : comm_all_to_all (comm, &site, send, recv, count, dtype, err);
}

/* ---- groups of starts ---- */

static enum accel_status
check_group (const struct accel_comm *comm, const char *call, bool open, struct accel_error *err)
{
    if (!comm)
        return accel_fail_null (err, call, "comm");
    if (comm_why_gone (comm))
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: %s", call, comm_why_gone (comm));
    if (comm->size > 1 && comm->forks != comm_forks)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: this process is a fork of the one that uses this communicator",
                           call);
    if (open && comm->has_group)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: a group is already open on this communicator: groups are not "
                           "nested, call accel_group_end() first", call);
    if (!open && !comm->has_group)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: no group is open on this communicator: call "
                           "accel_group_begin() first", call);
    return ACCEL_OK;
}

enum accel_status
accel_group_begin (struct accel_comm *comm, struct accel_error *err)
{
    enum accel_status status = check_group (comm, __func__, true, err);
    if (!status)
        work_group_begin (comm);
    return status;
}

enum accel_status
accel_group_end (struct accel_comm *comm, struct accel_error *err)
{
    enum accel_status status = check_group (comm, __func__, false, err);
    if (!status && comm->device.device_type == kDLCUDA) /* a capture may have begun since the starts */
        status = comm_check_stream (comm->device, comm->stream, err);
    if (!status)
        work_group_end (comm);
    return status;
}
