/* SPDX-License-Identifier: Apache-2.0 */
/* `accel_selftest --links TIMEOUT_MS [gpu]`, which `accelerate test --hosts` starts once on each host: how fast the
 * engine is between each two ranks, or between their GPUs.  Rank 0 writes a line for each: "link FIRST SECOND
 * ROUND_TRIP_NS TO FROM", with bytes per second.
 *
 * In each round every rank has another partner, and a group with it.  The lower rank leads: it announces each
 * transfer and measures it.  Messages on the host are broadcasts of one of the two, because a group has no other
 * way to send them; between GPUs, tensors are sent. */
#include <config.h>

#include "selftest/selftest.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    FIRST_BYTES = 64 * 1024, MOST_BYTES = 64 * 1024 * 1024, /* of one transfer */
    TRIPS = 41,
    RESULTS = 4, /* numbers that each rank reports after a round: partner, round trip, there, back */
};

static const double enough_ns = 50e6;     /* a transfer that takes so long says enough */
static const double enough_trips_ns = 3e8; /* of all round trips */
static const double most_ns = 1e9;        /* of all transfers in one direction */

struct pair {
    struct accel_comm *group;
    unsigned char *bytes;     /* [MOST_BYTES] */
    struct accel_tree *there; /* the same on the GPU; NULL: messages are on the host */
    int partner;
    bool leads;
};

static double
now_ns (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec * 1e9 + (double) now.tv_nsec;
}

/* The partner of rank @i in round @round: one rank stays where it is, the others move around it, as in tournaments.
 * @return @size or more: it has none */
static int
partner_of (int i, int round, int size)
{
    int turning = size + size % 2 - 1;
    for (int j = 0; i == turning && j < turning; j++)
        if ((round + turning - j) % turning == j)
            return j;
    int partner = (round + turning - i) % turning;
    return partner == i ? turning : partner;
}

static bool
send_between_gpus (struct self *self, const struct pair *pair, size_t count, bool sends)
{
    int64_t shape[] = { (int64_t) count };
    DLTensor part = *accel_tree_tensor (pair->there);
    part.shape = shape;
    return sends ? CALL (self, accel_send (self->acc, &part, pair->partner, &self->err))
                 : CALL (self, accel_recv (self->acc, &part, pair->partner, &self->err));
}

/* @from  0: the leader */
static bool
send_to_other (struct self *self, struct pair *pair, size_t count, int from)
{
    if (pair->there)
        return send_between_gpus (self, pair, count, (from == 0) == pair->leads);
    return CALL (self, accel_comm_broadcast (pair->group, pair->bytes, count, ACCEL_UINT8, from, &self->err));
}

/* What the leader says next; the other one gets it.  0: this was the last. */
static bool
announce (struct self *self, struct pair *pair, int64_t *count)
{
    return CALL (self, accel_comm_broadcast (pair->group, count, 1, ACCEL_INT64, 0, &self->err));
}

static int
by_size (const void *a, const void *b)
{
    double one = *(const double *) a, two = *(const double *) b;
    return one < two ? -1 : one > two;
}

/* @return the median, in nanoseconds */
static double
measure_trips (struct self *self, struct pair *pair)
{
    double trips[TRIPS], begin = now_ns ();
    size_t done = 0;
    int64_t next = 1;
    while (next) { /* at most TRIPS times on both sides, because the leader says how often */
        double sent = now_ns ();
        if (done == TRIPS || !send_to_other (self, pair, 1, 0) || !send_to_other (self, pair, 1, 1))
            return 0;
        trips[done++] = now_ns () - sent;
        next = done < TRIPS && now_ns () - begin < enough_trips_ns;
        if (!announce (self, pair, &next))
            return 0;
    }
    qsort (trips, done, sizeof *trips, by_size);
    return trips[done / 2];
}

/* Transfers of growing size from rank @from of the pair.  @return bytes per second of the best */
static double
measure_rate (struct self *self, struct pair *pair, int from, double trip_ns)
{
    double best = 0, begin = now_ns ();
    for (int64_t count = FIRST_BYTES;;) {
        double sent = now_ns ();
        if (!announce (self, pair, &count) || !count)
            return best;
        if (!send_to_other (self, pair, (size_t) count, from) || (from == 0 && !send_to_other (self, pair, 1, 1)))
            return 0;
        double took = now_ns () - sent;
        took = took > trip_ns ? took - trip_ns / 2 : took; /* the way of the announcement, or of the answer */
        double rate = (double) count / took * 1e9;
        best = rate > best ? rate : best;
        count *= 4;
        if (took >= enough_ns || count > MOST_BYTES || now_ns () - begin + 5 * took > most_ns)
            count = 0;
    }
}

static void
measure_pair (struct self *self, struct pair *pair, double results[RESULTS])
{
    results[1] = measure_trips (self, pair);
    results[2] = *self->why ? 0 : measure_rate (self, pair, 0, results[1]);
    results[3] = *self->why ? 0 : measure_rate (self, pair, 1, results[1]);
}

/* Rank 0 writes what the leaders have measured. */
static void
report_round (struct self *self, const double *results, double *all)
{
    if (!CALL (self, accel_comm_all_gather (self->world, results, all, RESULTS, ACCEL_FLOAT64, &self->err))
        || self->rank)
        return;
    for (int i = 0; i < self->size; i++) {
        const double *row = all + RESULTS * i;
        if (row[0] > i) /* the leader's row */
            printf ("link %d %.0f %.0f %.0f %.0f\n", i, row[0], row[1], row[2], row[3]);
    }
    fflush (stdout);
}

static void
run_round (struct self *self, struct pair *pair, int round, double *all)
{
    int partner = partner_of (self->rank, round, self->size);
    bool has_partner = partner < self->size;
    int colour = !has_partner ? -1 : partner < self->rank ? partner : self->rank;
    double results[RESULTS] = { has_partner ? partner : -1 };
    pair->partner = partner;
    pair->leads = partner > self->rank;
    if (!CALL (self, accel_comm_split (&pair->group, self->world, colour, self->rank, &self->err)))
        return;
    if (has_partner)
        measure_pair (self, pair, results);
    accel_comm_destroy (pair->group);
    if (!*self->why)
        report_round (self, results, all);
}

/* @return whether there is memory for messages on the GPU */
static bool
prepare_gpu (struct self *self, struct pair *pair)
{
    struct accel_tensor tensor;
    const int64_t shape[] = { MOST_BYTES };
    if (accel_device (self->acc).device_type != kDLCUDA)
        return wrong (self, "libaccel cannot use a GPU on this host");
    if (!CALL (self, accel_tensor_init (&tensor, ACCEL_UINT8, 1, shape, &self->err)))
        return false;
    tensor.dl.data = pair->bytes;
    struct accel_tree *leaf = NULL;
    if (CALL (self, accel_tree_borrow_tensor (&leaf, &tensor.dl, &self->err)))
        CALL (self, accel_send_to_device (&pair->there, leaf, accel_device (self->acc), NULL, &self->err));
    accel_tree_destroy (leaf);
    return pair->there;
}

static void
measure (struct self *self, bool on_gpus)
{
    struct pair pair = { .bytes = calloc (1, MOST_BYTES) };
    double *all = calloc ((size_t) self->size, RESULTS * sizeof *all);
    int rounds = self->size + self->size % 2 - 1;
    if (!pair.bytes || !all)
        wrong (self, "out of memory");
    else if (on_gpus)
        prepare_gpu (self, &pair);
    for (int round = 0; !*self->why && round < rounds; round++)
        run_round (self, &pair, round, all);
    accel_tree_destroy (pair.there);
    free (pair.bytes);
    free (all);
}

static void
measure_links (struct self *self)
{
    measure (self, false);
}

static void
measure_gpu_links (struct self *self)
{
    measure (self, true);
}

const struct step links_steps[] = {
    { "links", measure_links },
    { NULL, NULL },
};

const struct step gpu_links_steps[] = {
    { "links between GPUs", measure_gpu_links },
    { NULL, NULL },
};
