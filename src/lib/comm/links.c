/* SPDX-License-Identifier: Apache-2.0 */
/* Engines beside the host's: one for each other kind of memory that this build has code for.  A tensor's device decides
 * which one runs a call.  Calls of a communicator have one order, whichever engines run them. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/base/tensor.h"
#include "lib/comm/comm_object.h"
#include "lib/comm/links.h"
#include "lib/memory/memory.h"
#include "util/cleanup.h"
#include "util/engine_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Which engine serves which memory, as people write it: "cpu:shm,cuda:nccl". */
struct served {
    char text[JOBSEG_BLOB];
};

static void
add_served (struct served *served, const char *kind, const struct accel_engine *engine)
{
    size_t length = strlen (served->text);
    snprintf (served->text + length, sizeof served->text - length, "%s%s:%s", length ? "," : "", kind, engine->name);
}

/* NULL: the host's engine serves @device too, or none does. */
static const struct comm_link *
find (const struct accel_comm *comm, DLDevice device)
{
    for (int i = 0; i < comm->link_count; i++)
        if (comm->links[i].devices & ACCEL_ENGINE_BIT (device.device_type))
            return &comm->links[i];
    return NULL;
}

static bool
add_link (struct accel_comm *comm, const struct accel_engine *engine, uint64_t bit, bool named)
{
    for (int i = 0; i < comm->link_count; i++)
        if (comm->links[i].engine == engine) {
            comm->links[i].devices |= bit;
            comm->links[i].is_named |= named;
            return true;
        }
    if (comm->link_count == COMM_LINKS)
        return false;
    comm->links[comm->link_count++] = (struct comm_link){ .engine = engine, .devices = bit, .is_named = named };
    return true;
}

/* Keep @why without the name of the call. */
static void
note_refusal (struct accel_comm *comm, const struct accel_error *why)
{
    static const char call[] = "accel_open: ";
    bool has_call = !strncmp (why->text, call, sizeof call - 1);
    snprintf (comm->refusal, sizeof comm->refusal, "%s", why->text + (has_call ? sizeof call - 1 : 0));
}

/* The host's engine, if it can, or the best one; or the one that was named.  Without any, calls on tensors there are
 * refused. */
static enum accel_status
choose_for (struct accel_comm *comm, const struct accel_engine *host, struct engine_job *job, DLDeviceType type,
            struct accel_error *err)
{
    char name[ENGINE_NAME_MOST + 1];
    const char *kind = tensor_device_name ((DLDevice){ .device_type = type });
    bool named = engine_named (job->engines, kind, name);
    const struct accel_engine *engine = host;
    if (!(host->devices & ACCEL_ENGINE_BIT (type)) || (named && strcmp (name, host->name))) {
        job->engine = named ? name : NULL;
        job->memory = type;
        struct accel_error why;
        enum accel_status status = engine_choose (&engine, job, named ? err : &why);
        if (status && !named)
            note_refusal (comm, &why);
        if (status)
            return named ? status : ACCEL_OK;
    }
    if (engine == host)
        comm->devices |= ACCEL_ENGINE_BIT (type);
    else if (!add_link (comm, engine, ACCEL_ENGINE_BIT (type), named))
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "accel_open: a job can have engines for at most %d kinds of "
                           "memory beside the host's", COMM_LINKS);
    return ACCEL_OK;
}

enum accel_status
comm_choose_links (struct accel_comm *comm, const struct accel_engine *host, struct engine_job *job,
                   struct accel_error *err)
{
    const char *host_name = job->engine;
    enum accel_status status = ACCEL_OK;
    for (int type = 0; !status && type < MEMORY_KINDS; type++)
        if (memory_table (type) && !memory_table (type)->host)
            status = choose_for (comm, host, job, (DLDeviceType) type, err);
    job->engine = host_name;
    job->memory = kDLCPU;
    return status;
}

/* A rank that waits for an engine that others do not have would wait for ever. */
enum accel_status
comm_compare_links (struct accel_comm *comm, const struct accel_engine *host, struct accel_error *err)
{
    struct served mine = { "" };
    if (comm->size == 1)
        return ACCEL_OK;
    add_served (&mine, "cpu", host);
    for (int type = 0; type < MEMORY_KINDS; type++) {
        const DLDevice device = { .device_type = (DLDeviceType) type };
        const struct comm_link *link = find (comm, device);
        if (link || (comm->devices & ACCEL_ENGINE_BIT (type)))
            add_served (&mine, tensor_device_name (device), link ? link->engine : host);
    }
    AUTO_FREE struct served *all = calloc ((size_t) comm->size, sizeof *all);
    if (!all)
        return accel_fail (err, ACCEL_ERR_NOMEM, "accel_open: out of memory");
    const struct accel_engine_helpers *helpers = &comm->watch.helpers;
    enum accel_status status = helpers->exchange (helpers->context, &mine, all, sizeof mine, err);
    for (int rank = 1; !status && rank < comm->size; rank++)
        if (strncmp (all[rank].text, all[0].text, sizeof all->text))
            status = accel_fail (err, ACCEL_ERR_INVALID,
                                 "accel_open: engines differ: rank 0 has %.100s, but rank %d has %.100s", all[0].text,
                                 rank, all[rank].text);
    return status;
}

/* An engine that was not named, and that cannot connect these ranks, which all of them find, is left out. */
static enum accel_status
open_link (struct accel_comm *comm, struct comm_link *link, struct engine_job *job, struct accel_error *err)
{
    struct accel_error why;
    comm->watch.engine = link->engine;
    enum accel_status status = link->engine->open (&link->transport, engine_job_show (job), &why);
    link->is_open = !status;
    if (status == ACCEL_ERR_UNSUPPORTED && !link->is_named)
        note_refusal (comm, &why);
    else if (status && err)
        *err = why;
    return status;
}

enum accel_status
comm_open_links (struct accel_comm *comm, struct engine_job *job, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (int i = 0; !status && i < comm->link_count; i++) {
        status = open_link (comm, &comm->links[i], job, err);
        if (status == ACCEL_ERR_UNSUPPORTED && !comm->links[i].is_named) {
            comm->links[i--] = comm->links[--comm->link_count];
            status = ACCEL_OK;
        }
    }
    comm->watch.engine = comm->engine;
    return status;
}

void
comm_close_links (struct accel_comm *comm)
{
    while (comm->link_count) {
        struct comm_link *link = &comm->links[--comm->link_count];
        if (link->is_open)
            link->engine->close (link->transport);
    }
}

void
comm_give_up_links (struct accel_comm *comm, const char *reason)
{
    for (int i = 0; i < comm->link_count; i++)
        if (comm->links[i].is_open && comm->links[i].engine->give_up)
            comm->links[i].engine->give_up (comm->links[i].transport, reason);
}

const struct accel_engine *
comm_engine_for (const struct accel_comm *comm, DLDevice device)
{
    const struct comm_link *link = find (comm, device);
    if (link)
        return link->engine;
    return comm->devices & ACCEL_ENGINE_BIT (device.device_type) ? comm->engine : NULL;
}

struct comm_route
comm_route_to (const struct accel_comm *comm, DLDevice device)
{
    const struct comm_link *link = find (comm, device);
    return link ? (struct comm_route){ link->engine, link->transport }
                : (struct comm_route){ comm->engine, comm->transport };
}

void
comm_set_device (struct accel_engine_call *call)
{
    call->device = engine_site (call)->device;
    const struct memory *memory = memory_of (call->device);
    call->stream = memory->stream ? memory->stream (call->device) : NULL;
}

void
comm_watch_route (struct accel_comm *comm, struct comm_route route)
{
    comm->watch.engine = route.engine;
    comm->watch.transport = route.transport;
}

/* Calls of one communicator run one after the other, so the watch can ask the engine of this one. */
enum accel_status
comm_run_link (struct accel_comm *comm, struct accel_engine_call *call, struct accel_error *err)
{
    struct comm_route route = comm_route_to (comm, engine_site (call)->device);
    comm_set_device (call);
    comm_watch_route (comm, route);
    enum accel_status status = route.engine->run (route.transport, call, err);
    comm_watch_route (comm, comm_route_to (comm, (DLDevice){ 0 }));
    return status;
}

enum accel_status
comm_make_group (struct accel_comm *comm, int size, int64_t *group_ids, struct accel_error *err)
{
    enum accel_status status = comm->engine->make_group (comm->transport, size, &group_ids[0], err);
    for (int i = 0; !status && i < comm->link_count; i++)
        status = comm->links[i].engine->make_group (comm->links[i].transport, size, &group_ids[1 + i], err);
    return status;
}

enum accel_status
comm_split_group (const struct accel_comm *comm, const int64_t *group_ids, int rank, bool *splits,
                  struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    *splits = comm->engine->split;
    if (*splits)
        status = comm->engine->split (comm->transport, group_ids ? group_ids[0] : -1, rank, err);
    for (int i = 0; !status && i < comm->link_count; i++) {
        const struct comm_link *link = &comm->links[i];
        *splits = *splits || link->engine->split;
        if (link->engine->split)
            status = link->engine->split (link->transport, group_ids ? group_ids[1 + i] : -1, rank, err);
    }
    return status;
}

enum accel_status
comm_join_group (struct accel_comm *group, const int *ranks, const int64_t *group_ids, struct accel_error *err)
{
    const struct accel_comm *parent = group->parent;
    enum accel_status status = parent->engine->join_group (parent->transport, ranks, group->size, group->rank,
                                                           group_ids[0], &group->transport, err);
    if (status)
        return status;
    group->engine = parent->engine;
    group->devices = parent->devices;
    group->device = parent->device;
    for (int i = 0; !status && i < parent->link_count; i++) {
        struct comm_link *link = &group->links[group->link_count++];
        *link = parent->links[i];
        link->is_open = false;
        status = link->engine->join_group (parent->links[i].transport, ranks, group->size, group->rank,
                                           group_ids[1 + i], &link->transport, err);

        link->is_open = !status;
    }
    return status;
}
