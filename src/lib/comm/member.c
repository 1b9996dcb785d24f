/* SPDX-License-Identifier: Apache-2.0 */
/* Being a member of a group; see member.h. */
#include <config.h>

#include "lib/comm/member.h"

#include "lib/base/error.h"
#include "lib/comm/links.h"

enum accel_status
comm_join (struct accel_comm **group, struct accel_comm *parent, const struct comm_members *members,
           const int64_t *group_ids, struct accel_error *err)
{
    struct accel_comm *made = comm_create (parent, members->index, members->count);
    if (!made)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a group");
    made->id = members->id;
    made->ledger = parent->ledger;
    enum accel_status status = comm_join_group (made, members->ranks, group_ids, err);
    if (!status && !comm_watch (made, members->ranks, parent->watch.timeout_ms))
        status = accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a group");
    if (status)
        comm_close (made);
    else
        *group = made;
    return status;
}
