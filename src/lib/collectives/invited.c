/* SPDX-License-Identifier: Apache-2.0 */
/* Groups that only their members make, with an id that the program brings from one of them to the others; and giving
 * up.  See accel/group.h. */
#include <config.h>

#include <accel/group.h>

#include "lib/base/error.h"
#include "lib/comm/comm_private.h"
#include "lib/comm/links.h"
#include "lib/comm/lock.h"
#include "lib/comm/member.h"
#include "util/hash.h"

#include <string.h>

#define ID_MAGIC UINT64_C (0x64492e6c65636361)

/* What is in an id.  Processes of other builds are not members of this job. */
struct id {
    uint64_t magic;
    uint64_t parent;     /* its id */
    uint32_t generation; /* of the job */
    uint32_t size;       /* of the group */
    int64_t group_ids[COMM_LINKS];
    uint64_t hash; /* of all before */
};

_Static_assert (sizeof (struct id) == ACCEL_GROUP_ID_BYTES, "an id has the size that programs know");

static uint64_t
hash_of (const struct id *id)
{
    return hash_bytes (HASH_START, id, offsetof (struct id, hash)) | 1;
}

/* Some engines need ranks that are not members. */
static enum accel_status
check_parent (struct accel_comm *comm, const char *call, struct accel_error *err)
{
    const char *gone = comm ? comm_why_gone (comm) : NULL;
    if (!comm)
        return accel_fail_null (err, call, "comm");
    if (gone)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: %s", call, gone);
    if (comm->forks != comm_forks)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: this process is a fork of the one that uses this communicator",
                           call);
    for (int i = 0; i < comm->link_count; i++)
        if (comm->links[i].engine->split)
            return accel_fail (err, ACCEL_ERR_UNSUPPORTED,
                               "%s: engine %s makes groups with all ranks: use accel_comm_split", call,
                               comm->links[i].engine->name);
    return ACCEL_OK;
}

enum accel_status
accel_comm_get_id (struct accel_comm *comm, int size, unsigned char *id, struct accel_error *err)
{
    enum accel_status status = check_parent (comm, __func__, err);
    if (status)
        return status;
    if (!id)
        return accel_fail_null (err, __func__, "id");
    if (size < 1 || size > comm->size)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: size is %d, but must be from 1 to %d", __func__, size,
                           comm->size);
    struct id made = {
        .magic = ID_MAGIC, .parent = comm->id, .generation = comm->watch.generation, .size = (uint32_t) size,
    };
    status = comm_make_group (comm, size, made.group_ids, err);
    if (status)
        return status;
    made.hash = hash_of (&made);
    memcpy (id, &made, sizeof made);
    return ACCEL_OK;
}

/* @return the index of this rank among @ranks; -1: it is not there, or one of them is not a rank, or twice */
static int
find_self (const struct accel_comm *comm, const int *ranks, int size)
{
    int index = -1;
    for (int i = 0; i < size; i++) {
        if (ranks[i] < 0 || ranks[i] >= comm->size)
            return -1;
        for (int other = 0; other < i; other++)
            if (ranks[i] == ranks[other])
                return -1;
        if (ranks[i] == comm->rank)
            index = i;
    }
    return index;
}

enum accel_status
accel_comm_from_id (struct accel_comm **group, struct accel_comm *comm, const unsigned char *id, const int *ranks,
                    int size, struct accel_error *err)
{
    struct id given;
    if (!group)
        return accel_fail_null (err, __func__, "group");
    *group = NULL;
    enum accel_status status = check_parent (comm, __func__, err);
    if (status)
        return status;
    if (!id || !ranks)
        return accel_fail_null (err, __func__, id ? "ranks" : "id");
    memcpy (&given, id, sizeof given);
    if (given.magic != ID_MAGIC || given.hash != hash_of (&given) || given.parent != comm->id
        || given.generation != comm->watch.generation)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: not an id from accel_comm_get_id on this communicator",
                           __func__);
    if (size < 1 || given.size != (uint32_t) size)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: size is %d, but the id is for a group of %u", __func__, size,
                           given.size);
    int index = find_self (comm, ranks, size);
    if (index < 0)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "%s: ranks must be distinct, from 0 to %d, and include this process's, which is %d",
                           __func__, comm->size - 1, comm->rank);
    const struct comm_members members = { .ranks = ranks, .count = size, .index = index, .id = given.hash };
    ledger_share (comm->ledger); /* threads may use different groups at the same time */
    return comm_join (group, comm, &members, given.group_ids, err);
}

void
accel_comm_abort (struct accel_comm *comm, const char *reason)
{
    if (comm && !comm_why_gone (comm))
        comm_give_up (comm, reason && *reason ? reason : "the program called accel_comm_abort");
}
