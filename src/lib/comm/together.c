/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that belong together; see together.h. */
#include <config.h>

#include "lib/comm/together.h"

#include "lib/comm/work.h"

/* A call that could not be started has left NULL. */
static void
wait_for (struct comm_together *together, bool receives)
{
    struct accel_error why;
    for (int i = 0; i < together->count; i++) {
        struct accel_work *work = together->works[i];
        if (!work || (work->call.kind == ACCEL_ENGINE_RECV) != receives)
            continue;
        together->works[i] = NULL;
        enum accel_status status = accel_work_wait (work, &why);
        if (status && !together->status) {
            together->status = status;
            together->why = why;
        }
    }
}

/* Receives first: a rank that waits for a send then has received everything, so ranks that send to each other do not
 * look as if none of them were receiving. */
static void
finish (struct comm_together *together)
{
    if (!together->open)
        return;
    together->open = false;
    work_group_end (together->comm);
    wait_for (together, true);
    wait_for (together, false);
    together->count = 0;
}

void
comm_together_begin (struct comm_together *together, struct accel_comm *comm)
{
    bool starts = comm && comm->size > 1 && comm->engine->start && !work_serves (comm);
    together->comm = starts ? comm : NULL;
    together->open = false;
    together->count = 0;
    together->status = ACCEL_OK;
}

/* A blocking call must not find the group open. */
const struct comm_site *
comm_together_site (struct comm_together *together, const struct comm_site *site)
{
    bool starts = together->comm && comm_is_for_host (site);
    if (!starts || together->count == COMM_TOGETHER)
        finish (together);
    if (!starts)
        return site;
    if (!together->open)
        work_group_begin (together->comm);
    together->open = true;
    struct accel_work **work = &together->works[together->count++];
    *work = NULL;
    together->site = *site;
    together->site.work = work;
    return &together->site;
}

enum accel_status
comm_together_end (struct comm_together *together, enum accel_status status, struct accel_error *err)
{
    if (!together->comm)
        return status;
    finish (together);
    if (!status && together->status && err)
        *err = together->why;
    return status ? status : together->status;
}
