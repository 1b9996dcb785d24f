/* SPDX-License-Identifier: Apache-2.0 */
/* Steps: groups of processes by colour, and of a mesh; what tensor parallelism sends within them. */
#include <config.h>

#include "selftest/selftest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP_TIMEOUT_MS = 60000 };

/* The sum of the ranks that @comm has. */
static long long
sum_of (struct self *self, struct accel_comm *comm)
{
    int64_t sum = self->rank;
    CALL (self, accel_comm_all_reduce (comm, &sum, &sum, 1, ACCEL_INT64, ACCEL_SUM, &self->err));
    return sum;
}

/* Even and odd ranks. */
static void
check_split (struct self *self)
{
    struct accel_comm *group = NULL;
    long long wanted = 0;
    for (int r = self->rank % 2; r < self->size; r += 2)
        wanted += r;
    if (!CALL (self, accel_comm_split (&group, self->world, self->rank % 2, self->rank, &self->err)))
        return;
    enum accel_status status = accel_comm_set_timeout (group, GROUP_TIMEOUT_MS, &self->err);
    if (status != ACCEL_ERR_UNSUPPORTED)
        went_well (self, status, "accel_comm_set_timeout");
    expect (self, "the rank in a group", self->rank / 2, accel_comm_rank (group));
    expect (self, "the sum of a group", wanted, sum_of (self, group));
    accel_comm_destroy (group);
}

/* Two columns if there is an even number of processes. */
static void
check_mesh (struct self *self)
{
    static const char *const names[] = { "dp", "tp" };
    int columns = self->size % 2 ? 1 : 2, sizes[] = { self->size / columns, columns };
    struct accel_mesh *mesh = NULL;
    long long column = 0;
    for (int r = self->rank % columns; r < self->size; r += columns)
        column += r;
    if (!CALL (self, accel_mesh_create (&mesh, self->acc, names, sizes, 2, &self->err)))
        return;
    expect (self, "the sum along dp", column, sum_of (self, accel_mesh_comm (mesh, "dp")));
    long long row = columns == 1 ? self->rank : self->rank / 2 * 4 + 1;
    if (!*self->why)
        expect (self, "the sum along tp", row, sum_of (self, accel_mesh_comm (mesh, "tp")));
    accel_mesh_destroy (mesh);
}

/* Even and odd ranks again; the first of each brings the id to the others.  An engine that makes groups with all ranks
 * only has no ids on any of them. */
static void
check_invited (struct self *self)
{
    struct accel_comm *group = NULL, *by_colour = NULL;
    unsigned char id[ACCEL_GROUP_ID_BYTES];
    int *ranks = calloc ((size_t) self->size, sizeof *ranks), count = 0;
    long long wanted = 0;
    for (int r = self->rank % 2; ranks && r < self->size; r += 2) {
        wanted += r;
        ranks[count++] = r;
    }
    if (!ranks || !CALL (self, accel_comm_split (&by_colour, self->world, self->rank % 2, self->rank, &self->err))) {
        free (ranks);
        return;
    }
    enum accel_status status = accel_comm_get_id (self->world, count, id, &self->err);
    if (status != ACCEL_ERR_UNSUPPORTED) {
        went_well (self, status, "accel_comm_get_id");
        CALL (self, accel_comm_broadcast (by_colour, id, sizeof id, ACCEL_UINT8, 0, &self->err));
        if (CALL (self, accel_comm_from_id (&group, self->world, id, ranks, count, &self->err)))
            expect (self, "the sum of an invited group", wanted, sum_of (self, group));
    }
    accel_comm_destroy (group);
    accel_comm_destroy (by_colour);
    free (ranks);
}

/* Parts of a matrix, two columns of each process, and losses of equal logits, one class of each. */
static void
check_parallel (struct self *self)
{
    struct accel_comm *world = accel_world (self->acc);
    struct accel_tensor part = { 0 }, whole = { 0 };
    float loss = 0, logit = 0;
    const int32_t label = 0;
    if (!CALL (self, accel_tensor_init (&part, ACCEL_FLOAT32, 2, (int64_t[]){ 2, 2 }, &self->err))
        || !CALL (self, accel_tensor_init (&whole, ACCEL_FLOAT32, 2, (int64_t[]){ 2, 2 * self->size }, &self->err)))
        return;
    float own[4] = { [0 ... 3] = (float) self->rank }, back[4] = { 0 };
    whole.dl.data = calloc (4 * (size_t) self->size, sizeof (float));
    part.dl.data = own;
    if (CALL (self, accel_parallel_gather (world, &part.dl, &whole.dl, 1, &self->err)))
        for (int i = 0; i < 4 * self->size; i++)
            expect_near (self, "accel_parallel_gather", i % (2 * self->size) / 2,
                         (double) ((float *) whole.dl.data)[i], 0);
    part.dl.data = back;
    if (CALL (self, accel_parallel_scatter (world, &whole.dl, &part.dl, 1, &self->err)))
        expect (self, "accel_parallel_scatter", 0, memcmp (own, back, sizeof own));
    free (whole.dl.data);
    if (!CALL (self, accel_parallel_cross_entropy (world, &label, 1, 1, 1, &logit, &loss, &self->err)))
        return;
    expect_near (self, "accel_parallel_cross_entropy", log (self->size), (double) loss, 1e-6);
    expect_near (self, "a gradient of it", 1.0 / self->size - (self->rank == 0), (double) logit, 1e-6);
}

/* A layer of one unit for each process, whose weight is its rank + 1, for one row; and a table of one row for each. */
static void
check_layers (struct self *self)
{
    const float weight = (float) self->rank + 1, x = 2, dy = 1;
    const int32_t token = self->size - 1;
    float grad = 0, y = 0, dx = 0, part, *whole = calloc ((size_t) self->size, sizeof *whole);
    const double sum = self->size * (self->size + 1) / 2.0;
    struct accel_parallel_linear layer = { .comm = accel_world (self->acc), .in = 1, .out = 1, .weight = &weight,
                                           .grad = &grad, .room = &part, .gather_output = true,
                                           .input_is_parallel = true };
    if (CALL (self, accel_parallel_linear (&layer, &x, whole, 1, &self->err)))
        for (int i = 0; i < self->size; i++)
            expect_near (self, "a column-parallel layer", 2 * (i + 1), (double) whole[i], 0);
    layer.gather_output = false;
    if (CALL (self, accel_parallel_linear_backward (&layer, &x, &dy, &dx, 1, &self->err))) {
        expect_near (self, "the gradient of its input", sum, (double) dx, 0);
        expect_near (self, "the gradient of its weight", 2, (double) grad, 0);
    }
    layer.kind = ACCEL_ROW_PARALLEL;
    if (CALL (self, accel_parallel_linear (&layer, &x, &y, 1, &self->err)))
        expect_near (self, "a row-parallel layer", 2 * sum, (double) y, 0);
    if (CALL (self, accel_parallel_embedding (layer.comm, &weight, 1, 1, &token, 1, &y, &self->err)))
        expect_near (self, "an embedding", self->size, (double) y, 0);
    grad = 0;
    if (CALL (self, accel_parallel_embedding_backward (layer.comm, 1, 1, &token, 1, &dy, &grad, &self->err)))
        expect_near (self, "the gradient of its row", self->rank == token ? 1 : 0, (double) grad, 0);
    free (whole);
}

const struct step group_steps[] = {
    { "groups by colour", check_split },
    { "groups by id", check_invited },
    { "groups of a mesh", check_mesh },
    { "tensor parallelism", check_parallel },
    { "layers of tensor parallelism", check_layers },
    { NULL, NULL },
};
