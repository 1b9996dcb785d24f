/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that belong together; see coalesce.h. */
#include <config.h>

#include "lib/comm/coalesce.h"

#include "lib/comm/wait.h"

/* A call that could not be started has left NULL. */
static void
wait_for (struct comm_coalesced *coalesced, bool receives)
{
    struct accel_error why;
    for (int i = 0; i < coalesced->count; i++) {
        struct accel_work *work = coalesced->works[i];
        if (!work || (work->call.kind == ACCEL_ENGINE_RECV) != receives)
            continue;
        coalesced->works[i] = NULL;
        enum accel_status status = accel_work_wait (work, &why);
        if (status && !coalesced->status) {
            coalesced->status = status;
            coalesced->why = why;
        }
    }
}

/* Receives first: a rank that waits for a send then has received everything, so ranks that send to each other do not
 * look as if none of them were receiving. */
static void
finish (struct comm_coalesced *coalesced)
{
    if (!coalesced->open)
        return;
    coalesced->open = false;
    work_group_end (coalesced->comm);
    wait_for (coalesced, true);
    wait_for (coalesced, false);
    coalesced->count = 0;
}

void
comm_coalesce_begin (struct comm_coalesced *coalesced, struct accel_comm *comm)
{
    bool starts = comm && comm->size > 1 && comm->links->engine->start && !comm->has_group
                  && !work_is_own_thread (comm);
    coalesced->comm = starts ? comm : NULL;
    coalesced->open = false;
    coalesced->count = 0;
    coalesced->status = ACCEL_OK;
}

/* A blocking call must not find the group open. */
const struct comm_site *
comm_coalesce_site (struct comm_coalesced *coalesced, const struct comm_site *site)
{
    bool starts = coalesced->comm && comm_is_for_host (site);
    if (!starts || coalesced->count == COMM_COALESCE_MAX)
        finish (coalesced);
    if (!starts)
        return site;
    if (!coalesced->open && coalesced->comm->links->engine->coalesce_begin)
        work_group_begin (coalesced->comm);
    coalesced->open = true;
    struct accel_work **work = &coalesced->works[coalesced->count++];
    *work = NULL;
    coalesced->site = *site;
    coalesced->site.work = work;
    return &coalesced->site;
}

enum accel_status
comm_coalesce_end (struct comm_coalesced *coalesced, enum accel_status status, struct accel_error *err)
{
    if (!coalesced->comm)
        return status;
    finish (coalesced);
    if (!status && coalesced->status && err)
        *err = coalesced->why;
    return status ? status : coalesced->status;
}
