/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives that were started: many in flight, waited for in an order of each rank's own, between blocking calls and
 * beside those of groups. */
#include <config.h>

#include "tests/conformance/conformance.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FLIGHTS = 12, MOST = 40000, ROUNDS = 30 };
enum kind { ALL_REDUCE, ALL_GATHER, BROADCAST, REDUCE_SCATTER, ALL_TO_ALL, BARRIER, KINDS };

/* One collective in flight; numbers are whole, so that they say where they are from. */
struct flight {
    enum kind kind;
    size_t count;
    int root;
    int64_t base;
    int64_t *send, *recv;
    struct accel_work *work;
};

/* What rank @rank sends as element @i. */
static int64_t
element (const struct flight *flight, int rank, size_t i)
{
    return flight->base + rank * 1000003 + (int64_t) i * 7;
}

static void
start (struct rank *self, struct accel_comm *comm, struct flight *f)
{
    struct accel_error err;
    enum accel_status status = ACCEL_OK;
    size_t rows = (size_t) accel_comm_size (comm);
    int rank = accel_comm_rank (comm);
    for (size_t i = 0; i < f->count * rows; i++) {
        f->send[i] = element (f, rank, i);
        f->recv[i] = f->kind == BROADCAST && rank == f->root ? f->send[i] : -1;
    }
    switch (f->kind) {
    case ALL_REDUCE:
        status = accel_comm_all_reduce_start (&f->work, comm, f->send, f->recv, f->count, ACCEL_INT64, ACCEL_SUM, &err);
        break;
    case ALL_GATHER:
        status = accel_comm_all_gather_start (&f->work, comm, f->send, f->recv, f->count, ACCEL_INT64, &err);
        break;
    case BROADCAST:
        status = accel_comm_broadcast_start (&f->work, comm, f->recv, f->count, ACCEL_INT64, f->root, &err);
        break;
    case REDUCE_SCATTER:
        status = accel_comm_reduce_scatter_start (&f->work, comm, f->send, f->recv, f->count, ACCEL_INT64, ACCEL_MAX,
                                                  &err);
        break;
    case ALL_TO_ALL:
        status = accel_comm_all_to_all_start (&f->work, comm, f->send, f->recv, f->count, ACCEL_INT64, &err);
        break;
    default: status = accel_comm_barrier_start (&f->work, comm, &err); break;
    }
    must (self, status, &err, "start");
    self->calls++;
}

static int64_t
wanted (const struct flight *f, int rank, int size, size_t at)
{
    int from = (int) (at / f->count);
    size_t column = at % f->count;
    switch (f->kind) {
    case ALL_REDUCE: return size * element (f, 0, at) + (int64_t) size * (size - 1) / 2 * 1000003;
    case ALL_GATHER: return element (f, from, column);
    case BROADCAST: return element (f, f->root, at);
    case REDUCE_SCATTER: return element (f, size - 1, (size_t) rank * f->count + at);
    default: return element (f, from, (size_t) rank * f->count + column);
    }
}

static void
finish (struct rank *self, struct accel_comm *comm, struct flight *f, bool polls)
{
    struct accel_error err;
    int rank = accel_comm_rank (comm), size = accel_comm_size (comm);
    bool gathers = f->kind == ALL_GATHER || f->kind == ALL_TO_ALL, done = !polls;
    size_t elements = f->kind == BARRIER ? 0 : gathers ? f->count * (size_t) size : f->count;
    while (!done) {
        must (self, accel_work_test (f->work, &done, &err), &err, "accel_work_test");
        nanosleep (&(struct timespec){ .tv_nsec = 20000 }, NULL);
    }
    must (self, accel_work_wait (f->work, &err), &err, "accel_work_wait");
    f->work = NULL;
    for (size_t i = 0; i < elements; i++)
        if (f->recv[i] != wanted (f, rank, size, i))
            fail (self, "started: kind %d of %zu: element %zu is %lld, wanted %lld", (int) f->kind, f->count, i,
                  (long long) f->recv[i], (long long) wanted (f, rank, size, i));
    if (f->kind != BARRIER && f->kind != BROADCAST && f->count && f->send[0] != element (f, rank, 0))
        fail (self, "a started call wrote to its input");
}

static void
block (struct rank *self, struct accel_comm *comm)
{
    struct accel_error err;
    int64_t sum = accel_comm_rank (comm) + 1, size = accel_comm_size (comm);
    must (self, accel_comm_all_reduce (comm, &sum, &sum, 1, ACCEL_INT64, ACCEL_SUM, &err), &err, "a blocking call");
    if (sum != size * (size + 1) / 2)
        fail (self, "a blocking call among started ones: %lld", (long long) sum);
    self->calls++;
}

static void
draw (struct flight *f, uint64_t *common, int size)
{
    uint64_t drawn = next_random (common);
    f->kind = (enum kind) (drawn % KINDS);
    f->root = (int) ((drawn >> 8) % (uint64_t) size);
    f->base = (int64_t) (drawn >> 20 & 0xffff);
    f->count = (size_t) ((drawn >> 40) % (drawn >> 36 & 3 ? 300 : MOST)) / (size_t) size;
}

/* A round: start some, call some, wait for some; or start all as a group, and meanwhile wait for those before it.
 * @common is alike on all ranks, @own is not. */
static void
fly (struct rank *self, struct accel_comm *comm, struct flight *flights, uint64_t *common, uint64_t *own)
{
    struct accel_error err;
    int size = accel_comm_size (comm);
    bool grouped = next_random (common) % 2 == 0;
    if (grouped)
        must (self, accel_group_begin (comm, &err), &err, "accel_group_begin");
    for (int i = 0; i < FLIGHTS; i++) {
        struct flight *f = &flights[i];
        if (f->work)
            finish (self, comm, f, next_random (own) % 3 == 0);
        draw (f, common, size);
        start (self, comm, f);
        if (grouped)
            continue;
        if (next_random (common) % 5 == 0)
            block (self, comm);
        if (next_random (own) % 4 == 0) {
            struct flight *other = &flights[next_random (own) % FLIGHTS];
            if (other->work)
                finish (self, comm, other, false);
        }
    }
    if (grouped)
        must (self, accel_group_end (comm, &err), &err, "accel_group_end");
}

static void
land (struct rank *self, struct accel_comm *comm, struct flight *flights, uint64_t *own)
{
    size_t first = (size_t) (next_random (own) % FLIGHTS);
    for (size_t i = 0; i < FLIGHTS; i++)
        if (flights[(first + i) % FLIGHTS].work)
            finish (self, comm, &flights[(first + i) % FLIGHTS], false);
}

/* Memory that comes and goes meanwhile. */
static void
take (struct rank *self, struct flight *flights, bool shared)
{
    size_t bytes = MOST * sizeof (int64_t);
    struct accel_error err;
    for (int i = 0; i < FLIGHTS; i++) {
        void *send = malloc (bytes), *recv = NULL;
        if (shared)
            must (self, accel_alloc (self->acc, bytes, &recv, &err), &err, "accel_alloc");
        else
            recv = malloc (bytes);
        if (!send || !recv)
            fail (self, "out of memory");
        flights[i] = (struct flight){ .send = send, .recv = recv };
    }
}

static void
release (struct rank *self, struct flight *flights, bool shared)
{
    for (int i = 0; i < FLIGHTS; i++) {
        free (flights[i].send);
        if (shared)
            accel_free (self->acc, flights[i].recv);
        else
            free (flights[i].recv);
    }
}

/* The world's work does not hold up that of a group: this rank's part of the world's comes last. */
static void
cross (struct rank *self, struct accel_comm *group)
{
    struct accel_error err;
    struct accel_work *work[2];
    int64_t sums[2] = { 1, 1 };
    must (self, accel_comm_all_reduce_start (&work[0], self->comm, &sums[0], &sums[0], 1, ACCEL_INT64, ACCEL_SUM, &err),
          &err, "start in the world");
    block (self, group);
    must (self, accel_comm_all_reduce_start (&work[1], group, &sums[1], &sums[1], 1, ACCEL_INT64, ACCEL_SUM, &err),
          &err, "start in a group");
    for (int i = 1; i >= 0; i--)
        must (self, accel_work_wait (work[i], &err), &err, "wait");
    if (sums[0] != self->size || sums[1] != accel_comm_size (group))
        fail (self, "started in the world and a group: %lld and %lld", (long long) sums[0], (long long) sums[1]);
}

static void
refuse (struct rank *self)
{
    int64_t number = 0;
    struct accel_comm *comm = self->comm;
    struct accel_error err;
    struct accel_work *work = (void *) 1;
    bool done;
    must_refuse (self, accel_comm_barrier_start (NULL, comm, &err), &err, "start", "work is NULL");
    must_refuse (self, accel_comm_barrier_start (&work, NULL, &err), &err, "start", "accel_comm_barrier_start at ");
    if (work)
        fail (self, "a start that failed left a work");
    must_refuse (self, accel_comm_broadcast_start (&work, comm, &number, 1, ACCEL_INT64, -1, &err), &err, "start",
                 "negative");
    must_refuse (self, accel_comm_all_to_all_start (&work, comm, &number, &number, 1, ACCEL_INT64, &err), &err, "start",
                 "in place");
    must_refuse (self, accel_comm_all_reduce_start (&work, comm, NULL, &number, 1, ACCEL_INT64, ACCEL_SUM, &err), &err,
                 "start", "NULL");
    must_refuse (self, accel_work_wait (NULL, &err), &err, "wait", "NULL");
    must_refuse (self, accel_work_test (NULL, &done, &err), &err, "test", "NULL");
    must (self, accel_comm_barrier_start (&work, comm, &err), &err, "start");
    must_refuse (self, accel_work_test (work, NULL, &err), &err, "test", "done is NULL");
    must (self, accel_work_wait (work, &err), &err, "wait");
    must_refuse (self, accel_work_wait (work, &err), &err, "wait", "waited for before");
}

void
suite_work (struct rank *self)
{
    uint64_t common = 5, own = (uint64_t) self->rank * 31 + 1, groups = (uint64_t) (self->rank % 2) + 9;
    struct flight world[FLIGHTS], part[FLIGHTS];
    struct accel_comm *group;
    struct accel_error err;
    refuse (self);
    must (self, accel_comm_split (&group, self->comm, self->rank % 2, -self->rank, &err), &err, "split");
    for (int shared = 0; shared < 2; shared++) {
        take (self, world, shared);
        take (self, part, !shared);
        for (int i = 0; i < ROUNDS; i++) {
            fly (self, self->comm, world, &common, &own);
            fly (self, group, part, &groups, &own);
            cross (self, group);
        }
        land (self, self->comm, world, &own);
        land (self, group, part, &own);
        release (self, world, shared);
        release (self, part, !shared);
    }
    accel_comm_destroy (group);
}
