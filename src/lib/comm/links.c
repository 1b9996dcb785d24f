/* SPDX-License-Identifier: Apache-2.0 */
/* What a communicator asks of its engines besides moving data: which one serves what, memory, and groups.  There is one
 * for host memory, and one for each other kind of memory that this build has code for; a tensor's device decides which
 * one runs a call.  Calls of a communicator have one order, whichever engines run them. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/base/tensor.h"
#include "lib/comm/comm_object.h"
#include "lib/comm/links.h"
#include "lib/memory/device.h"
#include "lib/memory/driver.h"
#include "lib/memory/memory.h"
#include "util/cleanup.h"
#include "util/engine_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- choice ---- */

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
choose_for (struct accel_comm *comm, const struct engine_job *job, DLDeviceType type, struct accel_error *err)
{
    char name[ENGINE_NAME_MOST + 1];
    const char *kind = tensor_device_name ((DLDevice){ .device_type = type });
    bool named = engine_named (job->engines, kind, name);
    const struct accel_engine *engine = comm->links->engine;
    if (!(engine->devices & ACCEL_ENGINE_BIT (type)) || (named && strcmp (name, engine->name))) {
        struct accel_error why;
        enum accel_status status = engine_choose (&engine, job, type, named ? err : &why);
        if (status && !named)
            note_refusal (comm, &why);
        if (status)
            return named ? status : ACCEL_OK;
    }
    if (!add_link (comm, engine, ACCEL_ENGINE_BIT (type), named))
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "accel_open: a job can have engines for at most %d kinds of "
                           "memory beside the host's", COMM_LINKS - 1);
    return ACCEL_OK;
}

enum accel_status
comm_choose_links (struct accel_comm *comm, const struct accel_engine *host, const struct engine_job *job,
                   struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    add_link (comm, host, ACCEL_ENGINE_BIT (0), true); /* what sites in host memory have */
    for (int type = 0; !status && type < MEMORY_KINDS; type++)
        if (memory_table (type) && !memory_table (type)->host)
            status = choose_for (comm, job, (DLDeviceType) type, err);
    return status;
}

/* A rank that waits for an engine that others do not have would wait for ever. */
enum accel_status
comm_compare_links (struct accel_comm *comm, struct accel_error *err)
{
    struct served mine = { "" };
    if (comm->size == 1)
        return ACCEL_OK;
    add_served (&mine, "cpu", comm->links->engine);
    for (int type = kDLCPU; type < MEMORY_KINDS; type++) {
        const DLDevice device = { .device_type = (DLDeviceType) type };
        const struct comm_link *link = comm_link_for (comm, device);
        if (link)
            add_served (&mine, tensor_device_name (device), link->engine);
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

/* ---- opening and closing ---- */

enum accel_status
comm_open_link (struct accel_comm *comm, struct comm_link *link, struct engine_job *job, struct accel_error *err)
{
    comm_watch_link (comm, link);
    enum accel_status status = link->engine->open (&link->transport, &job->base, err);
    link->is_open = !status;
    comm_watch_link (comm, comm->links);
    return status;
}

/* An engine that was not named, and that cannot connect these ranks, which all of them find, is left out. */
enum accel_status
comm_open_links (struct accel_comm *comm, struct engine_job *job, struct accel_error *err)
{
    struct accel_error why;
    for (int i = 1; i < comm->link_count; i++) {
        enum accel_status status = comm_open_link (comm, &comm->links[i], job, &why);
        if (status == ACCEL_ERR_UNSUPPORTED && !comm->links[i].is_named) {
            note_refusal (comm, &why);
            comm->links[i--] = comm->links[--comm->link_count];
        } else if (status) {
            if (err)
                *err = why;
            return status;
        }
    }
    return ACCEL_OK;
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

enum accel_status
comm_set_timeout (struct accel_comm *comm, uint32_t timeout_ms, struct accel_error *err)
{
    for (int i = 0; i < comm->link_count; i++) {
        const struct accel_engine *engine = comm->links[i].engine;
        if (!engine->set_timeout && !(engine->flags & ACCEL_ENGINE_SINGLE_PROCESS))
            return accel_fail (err, ACCEL_ERR_UNSUPPORTED,
                               "accel_comm_set_timeout: engine %s cannot change it: pass timeout_ms to accel_open",
                               engine->name);
    }
    for (int i = 0; i < comm->link_count; i++)
        if (comm->links[i].is_open && comm->links[i].engine->set_timeout)
            comm->links[i].engine->set_timeout (comm->links[i].transport, timeout_ms);
    comm->watch.timeout_ms = timeout_ms;
    return ACCEL_OK;
}

/* ---- calls ---- */

const char *
comm_engine_name (const struct accel_comm *comm)
{
    return comm->links->engine->name;
}

const struct comm_link *
comm_link_for (const struct accel_comm *comm, DLDevice device)
{
    for (int i = 0; i < comm->link_count; i++)
        if (comm->links[i].devices & ACCEL_ENGINE_BIT (device.device_type))
            return &comm->links[i];
    return NULL;
}

static const struct accel_engine *
engine_of (const struct watch *watch, DLDevice device, void **transport)
{
    const struct comm_link *link = comm_link_for (comm_of_watch (watch), device);
    *transport = link ? link->transport : NULL;
    return link ? link->engine : NULL;
}

void
comm_watch_link (struct accel_comm *comm, const struct comm_link *link)
{
    comm->watch.engine = link->engine;
    comm->watch.transport = link->transport;
    comm->watch.engine_of = engine_of;
}

static void
name_place (DLDevice device, char *text, size_t size)
{
    if (device.device_type)
        snprintf (text, size, "on %s:%d", tensor_device_name (device), (int) device.device_id);
    else
        snprintf (text, size, "in host memory");
}

static const char *
name_of (const struct comm_site *site, bool is_recv)
{
    return site->names ? site->names[is_recv] : is_recv ? "recv" : "send";
}

enum accel_status
comm_place_on_device (struct comm_site *site, const struct accel_comm *comm, const void *send, const void *recv,
                      struct accel_error *err)
{
    DLDevice from = memory_locate (send), to = recv == send ? from : memory_locate (recv);
    char sent[40], received[40];
    site->device = recv ? to : from;
    site->stream = comm && !comm_is_for_host (site) ? comm->stream : NULL;
    if (!send || !recv || (from.device_type == to.device_type && from.device_id == to.device_id))
        return ACCEL_OK;
    name_place (from, sent, sizeof sent);
    name_place (to, received, sizeof received);
    return comm_fail (site, ACCEL_ERR_INVALID, err, "%s is %s, but %s is %s: both have to be in the same memory",
                      name_of (site, false), sent, name_of (site, true), received);
}

__attribute__ ((cold, noinline)) static enum accel_status
refuse_place (const struct comm_site *site, const char *name, DLDevice device, struct accel_error *err)
{
    const char *why = device_refusal ();
    return comm_fail (site, ACCEL_ERR_UNSUPPORTED, err,
                      "%s is on %s:%d, but this program computes on CPUs (%s): pass a buffer in host memory", name,
                      tensor_device_name (device), (int) device.device_id,
                      *why ? why : "as --cpu, ACCELERATE_USE_CPU or its options ask for");
}

enum accel_status
comm_place_on_host (const struct comm_site *site, const void *send, const void *recv, struct accel_error *err)
{
    /* Addresses of the host's: what was there in the last call is still there in a loop, so asking takes no time. */
    static const void *last_send, *last_recv;
    DLDevice device;
    if (send == __atomic_load_n (&last_send, __ATOMIC_RELAXED)
        && recv == __atomic_load_n (&last_recv, __ATOMIC_RELAXED))
        return ACCEL_OK;
    if (driver_owns (send, &device))
        return refuse_place (site, name_of (site, false), device, err);
    if (recv != send && driver_owns (recv, &device))
        return refuse_place (site, name_of (site, true), device, err);
    __atomic_store_n (&last_send, send, __ATOMIC_RELAXED);
    __atomic_store_n (&last_recv, recv, __ATOMIC_RELAXED);
    return ACCEL_OK;
}

void *
comm_stream_of (DLDevice device, void *stream)
{
    const struct memory *memory = memory_of (device);
    return stream || !memory || !memory->stream ? stream : memory->stream (device);
}

enum accel_status
comm_check_stream (DLDevice device, void *stream, struct accel_error *err)
{
    enum accel_status status = memory_check (device, err);
    return status || !stream ? status : memory_of (device)->order (device, stream, stream, err);
}

void
comm_set_device (struct accel_engine_call *call)
{
    call->device = engine_site (call)->device;
    call->stream = comm_stream_of (call->device, engine_site (call)->stream);
}

/* An engine that has only the table of the device's memory works on the device's stream. */
enum accel_status
comm_run_link (struct accel_comm *comm, struct accel_engine_call *call, struct accel_error *err)
{
    const struct comm_site *site = engine_site (call);
    const struct comm_link *link = comm_link_for (comm, site->device);
    comm_set_device (call);
    if (!site->stream)
        return link->engine->run (link->transport, call, err);
    const struct memory *memory = memory_of (site->device);
    void *own = comm_stream_of (site->device, NULL);
    enum accel_status status = memory->order (site->device, site->stream, own, err);
    if (!status)
        status = link->engine->run (link->transport, call, err);
    return status ? status : memory->order (site->device, own, site->stream, err);
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
    const struct comm_link *link = comm_link_for (comm, device);
    const char *kind = tensor_device_name (device);
    if (link && link != comm->links && device.device_type == comm->device.device_type
        && device.device_id != comm->device.device_id)
        return comm_fail (call->site, ACCEL_ERR_INVALID, err,
                          "the tensor is on %s:%d, but rank %d computes on %s:%d, which accel_device() returns", kind,
                          (int) device.device_id, watch_world_rank (&comm->watch, comm->rank), kind,
                          (int) comm->device.device_id);
    if (link)
        return check_call (link->engine, call, err);
    const struct accel_comm *world = comm;
    while (world->parent)
        world = world->parent;
    return comm_fail (call->site, ACCEL_ERR_UNSUPPORTED, err,
                      "the tensor of rank %d is on %s:%d, but this job has no engine for %s memory, only %s for the "
                      "host's%s%s",
                      watch_world_rank (&comm->watch, comm->rank), kind, (int) device.device_id, kind,
                      comm->links->engine->name, *world->refusal ? ": " : "", world->refusal);
}

enum accel_status
comm_check_engine (const struct accel_comm *comm, const struct accel_engine_call *call, struct accel_error *err)
{
    const struct comm_site *site = engine_site (call);
    if (comm_is_for_host (site))
        return check_call (comm->links->engine, call, err);
    enum accel_status status = check_link (comm, call, err);
    if (!status && (status = comm_check_stream (site->device, site->stream, err)))
        comm_fail_in (site, status, err);
    return status;
}

/* ---- memory ---- */

/* The engine for memory on @device, if it has some that is better than other; NULL: none has. */
static const struct comm_link *
find_allocator (const struct accel_comm *comm, DLDevice device)
{
    if (memory_of (device)->host)
        return comm->links->engine->alloc ? comm->links : NULL;
    bool is_own = device.device_type == comm->device.device_type && device.device_id == comm->device.device_id;
    const struct comm_link *link = is_own ? comm_link_for (comm, device) : NULL;
    return link && link != comm->links && link->engine->alloc ? link : NULL;
}

enum accel_status
comm_alloc (struct accel_comm *comm, DLDevice device, void **memory, size_t bytes, struct accel_error *err)
{
    const struct comm_link *link = find_allocator (comm, device);
    if (link)
        return link->engine->alloc (link->transport, memory, bytes, err);
    *memory = memory_of (device)->create (device, bytes, true);
    return *memory ? ACCEL_OK : memory_fail (device, err, "accel_alloc: cannot allocate %zu bytes", bytes);
}

void
comm_free (struct accel_comm *comm, DLDevice device, void *memory)
{
    const struct comm_link *link = find_allocator (comm, device);
    if (link && (memory || link == comm->links))
        link->engine->free (link->transport, memory);
    else
        memory_of (device)->destroy (device, memory);
}

/* ---- groups ---- */

enum accel_status
comm_make_group (struct accel_comm *comm, int size, int64_t *group_ids, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (int i = 0; !status && i < comm->link_count; i++)
        status = comm->links[i].engine->make_group (comm->links[i].transport, size, &group_ids[i], err);
    return status;
}

enum accel_status
comm_split_group (const struct accel_comm *comm, const int64_t *group_ids, int rank, bool *splits,
                  struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    *splits = false;
    for (int i = 0; !status && i < comm->link_count; i++) {
        const struct comm_link *link = &comm->links[i];
        *splits = *splits || link->engine->split;
        if (link->engine->split)
            status = link->engine->split (link->transport, group_ids ? group_ids[i] : -1, rank, err);
    }
    return status;
}

enum accel_status
comm_join_group (struct accel_comm *group, const int *ranks, const int64_t *group_ids, struct accel_error *err)
{
    const struct accel_comm *parent = group->parent;
    enum accel_status status = ACCEL_OK;
    group->device = parent->device;
    for (int i = 0; !status && i < parent->link_count; i++) {
        struct comm_link *link = &group->links[group->link_count++];
        *link = parent->links[i];
        link->is_open = false;
        status = link->engine->join_group (parent->links[i].transport, ranks, group->size, group->rank, group_ids[i],
                                           &link->transport, err);
        link->is_open = !status;
    }
    return status;
}
