/* SPDX-License-Identifier: Apache-2.0 */
/* Groups by colour and by the dimensions of a mesh: who is in them, and that they do not disturb each other. */
#include <config.h>

#include "tests/conformance/conformance.h"

#include <stdlib.h>
#include <string.h>

enum { LARGE = 300000 };

/* All kinds of calls on @comm, whose rank i is @ranks[i] in the world. */
static void
use (struct rank *self, struct accel_comm *comm, const int *ranks, int size, int turn)
{
    int64_t all[64], one = self->rank + turn, sum = one, wanted = 0;
    struct accel_error err;
    int rank = accel_comm_rank (comm), next = (rank + 1) % size, last = (rank + size - 1) % size;
    int32_t *large = malloc (LARGE * sizeof *large);
    if (accel_comm_size (comm) != size || ranks[rank] != self->rank)
        fail (self, "a group: rank %d of %d", rank, accel_comm_size (comm));
    must (self, accel_comm_all_reduce (comm, &sum, &sum, 1, ACCEL_INT64, ACCEL_SUM, &err), &err, "sum");
    must (self, accel_comm_all_gather (comm, &one, all, 1, ACCEL_INT64, &err), &err, "gather");
    for (int r = 0; r < size; r++) {
        wanted += ranks[r] + turn;
        if (all[r] != ranks[r] + turn)
            fail (self, "a group: rank %d has %lld", r, (long long) all[r]);
    }
    if (sum != wanted)
        fail (self, "a group: the sum is %lld, wanted %lld", (long long) sum, (long long) wanted);
    for (int root = 0; root < size; root++) {
        for (int i = 0; i < LARGE; i++)
            large[i] = rank == root ? self->rank * 1000 + i % 1000 : -1;
        must (self, accel_comm_broadcast (comm, large, LARGE, ACCEL_INT32, root, &err), &err, "broadcast");
        for (int i = 0; i < LARGE; i++)
            if (large[i] != ranks[root] * 1000 + i % 1000)
                fail (self, "a group: element %d of rank %d's is %d", i, root, (int) large[i]);
    }
    for (int step = 0; size > 1 && step < 2; step++)
        if ((rank + step) % 2)
            must (self, accel_comm_recv (comm, &sum, 1, ACCEL_INT64, last, &err), &err, "recv");
        else
            must (self, accel_comm_send (comm, &one, 1, ACCEL_INT64, next, &err), &err, "send");
    if (size > 1 && sum != ranks[last] + turn)
        fail (self, "a group: received %lld", (long long) sum);
    free (large);
}

/* By the remainder of the rank, in the opposite order; and groups of these groups, of one rank each. */
static void
check_colours (struct rank *self, int colours)
{
    struct accel_comm *group, *alone, *none;
    struct accel_error err;
    int ranks[64], size = 0;
    for (int r = self->size - 1; r >= 0; r--)
        if (r % colours == self->rank % colours)
            ranks[size++] = r;
    must (self, accel_comm_split (&group, self->comm, self->rank % colours, -self->rank, &err), &err, "split");
    must (self, accel_comm_split (&alone, group, accel_comm_rank (group), 0, &err), &err, "split of a group");
    must (self, accel_comm_split (&none, self->comm, self->rank ? -1 : 3, 0, &err), &err, "split of one");
    if (!none != (self->rank != 0))
        fail (self, "accel_comm_split with a negative colour");
    for (int turn = 0; turn < 3; turn++) {
        /* Groups are not in step. */
        for (int i = 0; i <= self->rank % colours; i++)
            use (self, group, ranks, size, turn * 10 + i);
        use (self, alone, &self->rank, 1, turn);
        must (self, accel_comm_barrier (self->comm, &err), &err, "the world");
    }
    accel_comm_destroy (none);
    accel_comm_destroy (alone);
    accel_comm_destroy (group);
}

static void
check_mesh (struct rank *self, int rows, int columns)
{
    static const char *const names[] = { "dp", "tp" };
    int sizes[] = { rows, columns }, ranks[64];
    struct accel_mesh *mesh;
    struct accel_error err;
    must (self, accel_mesh_create (&mesh, self->acc, names, sizes, 2, &err), &err, "mesh");
    for (int i = 0; i < rows; i++)
        ranks[i] = i * columns + self->rank % columns;
    use (self, accel_mesh_comm (mesh, "dp"), ranks, rows, 1);
    for (int i = 0; i < columns; i++)
        ranks[i] = self->rank / columns * columns + i;
    use (self, accel_mesh_comm (mesh, "tp"), ranks, columns, 2);
    if (accel_mesh_comm (mesh, "pp") || accel_mesh_comm (mesh, NULL) || accel_mesh_comm (NULL, "dp"))
        fail (self, "accel_mesh_comm of no dimension");
    accel_mesh_destroy (mesh);
}

/* Groups that their members alone make: of the first two ranks, of each rank with the last one, and of one rank.  The
 * first brings the id to the others, which ranks outside take no part in. */
static void
check_invited (struct rank *self)
{
    struct accel_error err;
    for (int first = 0; first < self->size; first++) {
        int ranks[] = { first, self->size - 1 }, size = first == self->size - 1 ? 1 : 2;
        unsigned char id[ACCEL_GROUP_ID_BYTES];
        struct accel_comm *group, *second;
        if (self->rank != first && self->rank != self->size - 1)
            continue;
        if (self->rank == first)
            must (self, accel_comm_get_id (self->comm, size, id, &err), &err, "id");
        if (size == 2 && self->rank == first)
            must (self, accel_comm_send (self->comm, id, sizeof id, ACCEL_UINT8, self->size - 1, &err), &err, "send");
        else if (size == 2)
            must (self, accel_comm_recv (self->comm, id, sizeof id, ACCEL_UINT8, first, &err), &err, "recv");
        must_refuse (self, accel_comm_from_id (&group, self->comm, id, ranks, 3, &err), &err, "from_id", "size is 3");
        ranks[0] = -1;
        must_refuse (self, accel_comm_from_id (&group, self->comm, id, ranks, size, &err), &err, "from_id",
                     "ranks must be");
        ranks[0] = first;
        must (self, accel_comm_from_id (&group, self->comm, id, ranks, size, &err), &err, "from_id");
        use (self, group, ranks, size, first);
        int own = accel_comm_rank (group);
        must (self, accel_comm_get_id (group, 1, id, &err), &err, "id in a group");
        must_refuse (self, accel_comm_from_id (&second, self->comm, id, &self->rank, 1, &err), &err, "from_id",
                     "not an id");
        must (self, accel_comm_from_id (&second, group, id, &own, 1, &err), &err, "from_id in a group");
        use (self, second, &self->rank, 1, 3);
        accel_comm_destroy (second);
        accel_comm_destroy (group);
    }
    unsigned char nothing[ACCEL_GROUP_ID_BYTES] = { 0 };
    struct accel_comm *group;
    must_refuse (self, accel_comm_from_id (&group, self->comm, nothing, &self->rank, 1, &err), &err, "from_id",
                 "not an id");
    must_refuse (self, accel_comm_get_id (self->comm, self->size + 1, nothing, &err), &err, "get_id", "must be");
    must_refuse (self, accel_comm_get_id (NULL, 1, nothing, &err), &err, "get_id", "NULL");
}

static void
refuse (struct rank *self)
{
    static const char *const twice[] = { "a", "a" }, *const empty[] = { "" }, *const good[] = { "dp", "tp" };
    int sizes[] = { self->size, 1 }, wrong[] = { self->size + 1, 1 }, zero[] = { 0, self->size };
    struct accel_mesh *mesh;
    struct accel_comm *group;
    struct accel *acc = self->acc;
    struct accel_error err;
    must_refuse (self, accel_comm_split (&group, NULL, 0, 0, &err), &err, "split", "NULL");
    must_refuse (self, accel_mesh_create (&mesh, acc, twice, sizes, 2, &err), &err, "mesh", "same name");
    must_refuse (self, accel_mesh_create (&mesh, acc, empty, sizes, 1, &err), &err, "mesh", "empty");
    must_refuse (self, accel_mesh_create (&mesh, acc, good, wrong, 2, &err), &err, "mesh", "but the job has");
    must_refuse (self, accel_mesh_create (&mesh, acc, good, zero, 2, &err), &err, "mesh", "not positive");
    must_refuse (self, accel_mesh_create (&mesh, acc, good, sizes, 0, &err), &err, "mesh", "dimensions");
    must_refuse (self, accel_mesh_create (&mesh, NULL, good, sizes, 2, &err), &err, "mesh", "NULL");
    accel_comm_destroy (self->comm);
    accel_comm_destroy (NULL);
    accel_mesh_destroy (NULL);
}

void
suite_groups (struct rank *self)
{
    for (int colours = 1; colours < 4; colours++)
        check_colours (self, colours);
    for (int rows = 1; rows <= self->size; rows++)
        if (self->size % rows == 0)
            check_mesh (self, rows, self->size / rows);
    check_invited (self);
    refuse (self);
}
