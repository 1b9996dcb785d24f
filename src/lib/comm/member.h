/* SPDX-License-Identifier: Apache-2.0 */
/* Being a member of a group, however its members found each other. */
#ifndef LIB_COMM_MEMBER_H
#define LIB_COMM_MEMBER_H

#include "lib/comm/comm_object.h"

struct comm_members {
    const int *ranks; /* [count], in the parent */
    int count;
    int index;        /* of this rank */
    uint64_t id;      /* of the communicator: the same on all members, not 0 */
};

/** Make this process's communicator of a group of @p parent; does not wait.
 *  @param group_ids  [parent->link_count], from comm_make_group() on one of the members */
enum accel_status comm_join (struct accel_comm **group, struct accel_comm *parent, const struct comm_members *members,
                             const int64_t *group_ids, struct accel_error *err);

#endif
