/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of a communicator's ranks, by colour or by the dimensions of a mesh; see accel/group.h. */
#include <config.h>

#include <accel/group.h>

#include "lib/base/error.h"
#include "lib/collectives/tensors.h"
#include "lib/comm/comm_object.h"
#include "lib/comm/links.h"
#include "lib/comm/member.h"
#include "util/cleanup.h"
#include "util/hash.h"

#include <stdlib.h>
#include <string.h>

/* What a rank says of itself. */
struct choice {
    int64_t colour, key;
};

/* The ranks of one colour, in the order of the new group. */
struct members {
    int *ranks; /* [count], in the parent */
    int count;
    int index; /* of this rank */
};

static bool
comes_before (const struct choice *choices, int a, int b)
{
    return choices[a].key != choices[b].key ? choices[a].key < choices[b].key : a < b;
}

/* Insertion: groups are small, or keys in order. */
static void
collect (const struct accel_comm *comm, const struct choice *choices, struct members *members)
{
    for (int r = 0; r < comm->size; r++) {
        if (choices[r].colour != choices[comm->rank].colour)
            continue;
        int at = members->count++;
        for (; at && comes_before (choices, r, members->ranks[at - 1]); at--)
            members->ranks[at] = members->ranks[at - 1];
        members->ranks[at] = r;
    }
    while (members->ranks[members->index] != comm->rank)
        members->index++;
}

/* All members know the parent, which of its calls made the group, and who comes first in it. */
static uint64_t
id_of_group (const struct accel_comm *parent, const struct members *members)
{
    uint64_t hash = hash_word (HASH_START, parent->id);
    hash = hash_word (hash, parent->calls);
    return hash_word (hash, (uint64_t) members->ranks[0]) | 1;
}

static enum accel_status
join (struct accel_comm *comm, const struct comm_site *site, const struct members *members, const int64_t *group_ids,
      struct accel_comm **group, struct accel_error *err)
{
    const struct comm_members all = {
        .ranks = members->ranks, .count = members->count, .index = members->index, .id = id_of_group (comm, members),
    };
    enum accel_status status = comm_join (group, comm, &all, group_ids, err);
    return status == ACCEL_ERR_NOMEM ? comm_no_memory (site, err) : status;
}

/* An engine may wait for ranks that are in no group, which the watch of a group does not know: so all must have come
 * before any continues. */
static enum accel_status
split_links (struct accel_comm *comm, const struct comm_site *site, const int64_t *group_ids, int rank,
             struct accel_error *err)
{
    bool splits;
    struct accel_error why;
    enum accel_status status = comm_split_group (comm, group_ids, rank, &splits, &why);
    if (status) {
        comm_give_up (comm, why.text);
        return accel_fail (err, status, "%s", why.text);
    }
    return splits ? comm_barrier (comm, site, err) : ACCEL_OK;
}

/* The first of each group finds the place where it meets, and tells all. */
static enum accel_status
meet (struct accel_comm *comm, const struct comm_site *site, const struct members *members, bool leads,
      struct accel_comm **group, struct accel_error *err)
{
    size_t count = (size_t) comm->link_count;
    AUTO_FREE int64_t *group_ids = calloc ((size_t) comm->size * count, sizeof *group_ids);
    int64_t own[COMM_LINKS] = { -1 };
    if (!group_ids) {
        comm_give_up (comm, "cannot allocate memory for a group");
        return comm_no_memory (site, err);
    }
    if (leads && comm_make_group (comm, members->count, own, err))
        own[0] = -1;
    enum accel_status status = comm_all_gather (comm, site, own, group_ids, count, ACCEL_INT64, err);
    if (status)
        return status;
    const int64_t *theirs = members->count ? &group_ids[(size_t) members->ranks[0] * count] : NULL;
    bool has_id = theirs && theirs[0] >= 0;
    status = split_links (comm, site, has_id ? theirs : NULL, members->index, err);
    if (status || !theirs)
        return status;
    status = has_id ? join (comm, site, members, theirs, group, err) : comm_no_memory (site, err);
    if (status && has_id)
        comm_give_up (comm, "cannot allocate memory for a group");
    return status;
}

static enum accel_status
split (struct accel_comm *comm, const struct comm_site *site, int colour, int key, struct accel_comm **group,
       struct accel_error *err)
{
    struct choice own = { .colour = colour, .key = key };
    struct members members = { 0 };
    if (!group)
        return comm_refuse (site, "group is NULL", err);
    *group = NULL;
    if (!comm)
        return comm_refuse (site, "the communicator is NULL", err);
    AUTO_FREE struct choice *choices = calloc ((size_t) comm->size, sizeof *choices);
    AUTO_FREE int *ranks = calloc ((size_t) comm->size, sizeof *ranks);
    if (!choices || !ranks)
        return comm_no_memory (site, err);
    enum accel_status status = comm_all_gather (comm, site, &own, choices, 2, ACCEL_INT64, err);
    if (status)
        return status;
    members.ranks = ranks;
    if (colour >= 0)
        collect (comm, choices, &members);
    return meet (comm, site, &members, members.count && !members.index, group, err);
}

enum accel_status
accel_comm_split_at (const char *file, int line, struct accel_comm **group, struct accel_comm *comm, int colour,
                     int key, struct accel_error *err)
{
    return split (comm, SITE (SPLIT), colour, key, group, err);
}

void
accel_comm_destroy (struct accel_comm *comm)
{
    if (comm && comm->parent)
        comm_close (comm);
}

/* ---- meshes ---- */

struct accel_mesh {
    int ndim;
    struct {
        char name[ACCEL_MESH_NAME_SIZE];
        struct accel_comm *comm;
    } dims[ACCEL_MAX_DIMS];
};

static enum accel_status
check_mesh (struct accel *acc, const struct comm_site *site, const char *const *names, const int *sizes, int ndim,
            struct accel_error *err)
{
    int64_t product = 1;
    if (!acc || !names || !sizes)
        return comm_refuse (site, "acc, names or sizes is NULL", err);
    if (ndim < 1 || ndim > ACCEL_MAX_DIMS)
        return comm_refuse (site, "a mesh must have 1 to ACCEL_MAX_DIMS dimensions", err);
    for (int d = 0; d < ndim; d++) {
        if (!names[d] || !*names[d] || strlen (names[d]) >= ACCEL_MESH_NAME_SIZE)
            return comm_refuse (site, "a dimension's name is empty or too long", err);
        for (int other = 0; other < d; other++)
            if (!strcmp (names[d], names[other]))
                return comm_refuse (site, "two dimensions have the same name", err);
        if (sizes[d] < 1 || __builtin_mul_overflow (product, (int64_t) sizes[d], &product))
            return comm_refuse (site, "a dimension's size is not positive, or too large", err);
    }
    if (product != accel_num_processes (acc))
        return comm_fail (site, ACCEL_ERR_INVALID, err, "the mesh has %lld processes, but the job has %d",
                          (long long) product, accel_num_processes (acc));
    return ACCEL_OK;
}

/* Row by row: the last dimension's neighbours have neighbouring ranks.  The group along a dimension is of those that
 * differ in its coordinate only, so its colour is the rank with that coordinate set to 0. */
enum accel_status
accel_mesh_create_at (const char *file, int line, struct accel_mesh **mesh, struct accel *acc, const char *const *names,
                      const int *sizes, int ndim, struct accel_error *err)
{
    const struct comm_site *site = SITE (MESH_CREATE);
    if (!mesh)
        return comm_refuse (site, "mesh is NULL", err);
    *mesh = NULL;
    enum accel_status status = check_mesh (acc, site, names, sizes, ndim, err);
    if (status)
        return status;
    struct accel_mesh *made = calloc (1, sizeof *made);
    if (!made)
        return comm_no_memory (site, err);
    made->ndim = ndim;
    int rank = accel_process_index (acc), stride = 1;
    for (int d = ndim - 1; !status && d >= 0; d--) {
        int coordinate = rank / stride % sizes[d];
        strcpy (made->dims[d].name, names[d]);
        status = split (accel_world (acc), site, rank - coordinate * stride, coordinate, &made->dims[d].comm, err);
        stride *= sizes[d];
    }
    if (status)
        accel_mesh_destroy (made);
    else
        *mesh = made;
    return status;
}

struct accel_comm *
accel_mesh_comm (const struct accel_mesh *mesh, const char *name)
{
    for (int d = 0; mesh && name && d < mesh->ndim; d++)
        if (!strcmp (mesh->dims[d].name, name))
            return mesh->dims[d].comm;
    return NULL;
}

void
accel_mesh_destroy (struct accel_mesh *mesh)
{
    for (int d = 0; mesh && d < mesh->ndim; d++)
        accel_comm_destroy (mesh->dims[d].comm);
    free (mesh);
}
