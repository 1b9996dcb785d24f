/* SPDX-License-Identifier: Apache-2.0 */
/* Steps: every collective, on buffers and on tensors, against the same arithmetic done by one process.
 *
 * At each element all ranks but three have the operation's neutral value, so that results are small whole numbers,
 * exact in every type and for any number of processes. */
#include <config.h>

#include "selftest/selftest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const size_t counts[] = { 0, 1, 1001 };
enum { COUNT_COUNT = 3, MANY = 200000 };

static const char *const op_names[] = {
#define X(name, text) text,
    ACCEL_OP_MAP (X)
#undef X
};

/* What rank @rank has at element @i. */
static double
input (const struct self *self, enum accel_op op, enum accel_dtype dtype, int rank, size_t i)
{
    int place = (int) (((size_t) rank + i) % (size_t) self->size);
    double neutral = op == ACCEL_PROD ? 1 : op == ACCEL_MIN ? 2 : 0;
    double value = place < 3 ? (double) (((size_t) place + i % 7) % 3) : neutral;
    return dtype == ACCEL_BOOL ? value != 0 : value;
}

static double
reduced (const struct self *self, enum accel_op op, enum accel_dtype dtype, size_t i)
{
    double result = input (self, op, dtype, 0, i);
    for (int r = 1; r < self->size; r++) {
        double value = input (self, op, dtype, r, i);
        switch (op) {
        case ACCEL_SUM:
        case ACCEL_AVG: result += value; break;
        case ACCEL_PROD: result *= value; break;
        case ACCEL_MIN: result = value < result ? value : result; break;
        default: result = value > result ? value : result; break;
        }
    }
    if (dtype == ACCEL_BOOL)
        return result != 0;
    return op == ACCEL_AVG ? result / self->size : result;
}

/* Only a mean is not a whole number: it may be rounded to the type's precision. */
static double
tolerance_of (enum accel_op op, enum accel_dtype dtype)
{
    if (op != ACCEL_AVG)
        return 0;
    return dtype == ACCEL_BFLOAT16 ? 0.02 : dtype == ACCEL_FLOAT16 ? 0.002 : 1e-6;
}

static bool
is_defined (enum accel_op op, enum accel_dtype dtype)
{
    return op != ACCEL_AVG || dtype <= ACCEL_BFLOAT16;
}

/* Compare elements of a result, which begin at element @first of the whole. */
static bool
check_reduced (struct self *self, enum accel_op op, enum accel_dtype dtype, const void *got, size_t first, size_t count)
{
    char what[96];
    for (size_t i = 0; i < count; i++) {
        snprintf (what, sizeof what, "%s of %s, element %zu of %zu", op_names[op], accel_dtype_name (dtype), i, count);
        if (!expect_near (self, what, reduced (self, op, dtype, first + i), get_value (dtype, got, i),
                          tolerance_of (op, dtype)))
            return false;
    }
    return true;
}

static void
fill (const struct self *self, enum accel_op op, enum accel_dtype dtype, void *array, size_t count)
{
    for (size_t i = 0; i < count; i++)
        put_value (dtype, array, i, input (self, op, dtype, self->rank, i));
}

/* Buffers of a step, large enough for any type. */
struct buffers {
    void *send, *recv;
};

static bool
take_buffers (struct self *self, struct buffers *buffers, size_t elements)
{
    buffers->send = calloc (elements + 1, 8);
    buffers->recv = calloc (elements + 1, 8);
    return (buffers->send && buffers->recv) || wrong (self, "out of memory");
}

static void
release_buffers (struct buffers *buffers)
{
    free (buffers->send);
    free (buffers->recv);
}

static void
all_reduce_once (struct self *self, const struct buffers *b, enum accel_op op, enum accel_dtype dtype, size_t count)
{
    fill (self, op, dtype, b->send, count);
    if (!CALL (self, accel_comm_all_reduce (self->world, b->send, b->recv, count, dtype, op, &self->err))
        || !check_reduced (self, op, dtype, b->recv, 0, count))
        return;
    if (CALL (self, accel_comm_all_reduce (self->world, b->send, b->send, count, dtype, op, &self->err)))
        check_reduced (self, op, dtype, b->send, 0, count); /* in place */
}

static void
check_all_reduce (struct self *self)
{
    struct buffers buffers;
    if (take_buffers (self, &buffers, MANY)) {
        for (int dtype = 0; dtype <= ACCEL_BOOL; dtype++)
            for (int op = 0; op < ACCEL_OP_COUNT; op++)
                for (int i = 0; i < COUNT_COUNT && !*self->why; i++)
                    if (is_defined ((enum accel_op) op, (enum accel_dtype) dtype))
                        all_reduce_once (self, &buffers, (enum accel_op) op, (enum accel_dtype) dtype, counts[i]);
        if (!*self->why)
            all_reduce_once (self, &buffers, ACCEL_SUM, ACCEL_FLOAT32, MANY);
    }
    release_buffers (&buffers);
}

static void
check_shared_memory (struct self *self)
{
    void *memory;
    if (!CALL (self, accel_alloc (self->acc, MANY * sizeof (float), &memory, &self->err)))
        return;
    for (size_t i = 0; i < MANY; i++)
        if (!expect (self, "new memory is zero", 0, (long long) get_value (ACCEL_FLOAT32, memory, i)))
            break;
    fill (self, ACCEL_SUM, ACCEL_FLOAT32, memory, MANY);
    if (CALL (self, accel_comm_all_reduce (self->world, memory, memory, MANY, ACCEL_FLOAT32, ACCEL_SUM, &self->err)))
        check_reduced (self, ACCEL_SUM, ACCEL_FLOAT32, memory, 0, MANY);
    accel_free (self->acc, memory);
}

static void
check_reduce_scatter (struct self *self)
{
    struct buffers buffers;
    size_t ranks = (size_t) self->size, mine = (size_t) self->rank;
    if (take_buffers (self, &buffers, 1001 * ranks))
        for (int dtype = 0; dtype <= ACCEL_BOOL; dtype++)
            for (int op = 0; op < ACCEL_OP_COUNT; op++)
                for (int i = 0; i < COUNT_COUNT && !*self->why; i++) {
                    enum accel_dtype type = (enum accel_dtype) dtype;
                    enum accel_op how = (enum accel_op) op;
                    if (!is_defined (how, type))
                        continue;
                    fill (self, how, type, buffers.send, counts[i] * ranks);
                    if (CALL (self, accel_comm_reduce_scatter (self->world, buffers.send, buffers.recv, counts[i], type,
                                                               how, &self->err)))
                        check_reduced (self, how, type, buffers.recv, mine * counts[i], counts[i]);
                }
    release_buffers (&buffers);
}

/* Element @i of rank @rank if nothing is added up: neighbours' differ, and all types hold it. */
static double
piece (int rank, size_t i)
{
    return (double) (((size_t) rank * 31 + i * 7) % 101);
}

static void
check_all_gather (struct self *self)
{
    struct buffers b;
    for (int dtype = 0; dtype <= ACCEL_BOOL && !*self->why; dtype++) {
        enum accel_dtype type = (enum accel_dtype) dtype;
        size_t count = 257;
        if (take_buffers (self, &b, count * (size_t) self->size)) {
            for (size_t i = 0; i < count; i++)
                put_value (type, b.send, i, piece (self->rank, i));
            CALL (self, accel_comm_all_gather (self->world, b.send, b.recv, count, type, &self->err));
            for (size_t i = 0; i < count * (size_t) self->size && !*self->why; i++) {
                put_value (type, b.send, 0, piece ((int) (i / count), i % count));
                double wanted = get_value (type, b.send, 0), got = get_value (type, b.recv, i);
                expect_near (self, accel_dtype_name (type), wanted, got, 0);
            }
        }
        release_buffers (&b);
    }
}

static void
check_all_to_all (struct self *self)
{
    struct buffers b;
    size_t count = 129, ranks = (size_t) self->size;
    if (take_buffers (self, &b, count * ranks)) {
        int64_t *send = b.send, *recv = b.recv;
        for (size_t i = 0; i < count * ranks; i++)
            send[i] = (int64_t) piece (self->rank, i);
        CALL (self, accel_comm_all_to_all (self->world, send, recv, count, ACCEL_INT64, &self->err));
        for (size_t i = 0; i < count * ranks && !*self->why; i++)
            expect (self, "an element of another rank's row",
                    (long long) piece ((int) (i / count), (size_t) self->rank * count + i % count), recv[i]);
    }
    release_buffers (&b);
}

enum { FLIGHTS = 6, ROW = 129 };

/* One of every kind, with results one after the other in @recv. */
static bool
start_all (struct self *self, const int64_t *send, int64_t *recv, struct accel_work **work)
{
    struct accel_comm *world = self->world;
    int64_t *gathered = recv + 3, *swapped = gathered + (size_t) self->size * ROW;
    recv[2] = send[0];
    enum accel_dtype type = ACCEL_INT64;
    int last = self->size - 1;
    return CALL (self, accel_comm_all_reduce_start (work++, world, send, recv, 1, type, ACCEL_SUM, &self->err))
           && CALL (self, accel_comm_reduce_scatter_start (work++, world, send, recv + 1, 1, type, ACCEL_MAX,
                                                           &self->err))
           && CALL (self, accel_comm_broadcast_start (work++, world, recv + 2, 1, type, last, &self->err))
           && CALL (self, accel_comm_all_gather_start (work++, world, send, gathered, ROW, type, &self->err))
           && CALL (self, accel_comm_all_to_all_start (work++, world, send, swapped, ROW, type, &self->err))
           && CALL (self, accel_comm_barrier_start (work, world, &self->err));
}

static void
compare_all (struct self *self, const int64_t *recv)
{
    size_t ranks = (size_t) self->size;
    const int64_t *gathered = recv + 3, *swapped = gathered + ranks * ROW;
    long long sum = 0, most = 0;
    for (int r = 0; r < self->size; r++) {
        long long number = (long long) piece (r, (size_t) self->rank);
        sum += (long long) piece (r, 0);
        most = number > most ? number : most;
    }
    expect (self, "the sum", sum, recv[0]);
    expect (self, "the maximum", most, recv[1]);
    expect (self, "the last rank's", (long long) piece (self->size - 1, 0), recv[2]);
    for (size_t i = 0; i < ROW * ranks && !*self->why; i++) {
        int from = (int) (i / ROW);
        expect (self, "an element gathered", (long long) piece (from, i % ROW), gathered[i]);
        expect (self, "an element exchanged", (long long) piece (from, (size_t) self->rank * ROW + i % ROW),
                swapped[i]);
    }
}

static bool
start_group (struct self *self, const int64_t *send, int64_t *recv, struct accel_work **work)
{
    if (!CALL (self, accel_group_begin (self->world, &self->err)))
        return false;
    bool good = start_all (self, send, recv, work);
    return CALL (self, accel_group_end (self->world, &self->err)) && good;
}

/* All in flight at once, one by one or as a group, and the last is waited for first. */
static void
check_flights (struct self *self, bool is_group)
{
    struct accel_work *work[FLIGHTS] = { NULL };
    struct buffers b;
    bool done = false;
    size_t elements = (size_t) self->size * ROW;
    if (take_buffers (self, &b, 3 + 2 * elements)) {
        int64_t *send = b.send;
        for (size_t i = 0; i < elements; i++)
            send[i] = (int64_t) piece (self->rank, i);
        bool good = is_group ? start_group (self, send, b.recv, work) : start_all (self, send, b.recv, work);
        for (int i = FLIGHTS - 1; i >= 0; i--) {
            if (i == 0 && good && CALL (self, accel_work_test (work[i], &done, &self->err)))
                expect (self, "whether the first of all is over", true, done);
            if (work[i] && !CALL (self, accel_work_wait (work[i], &self->err)))
                good = false;
        }
        if (good)
            compare_all (self, b.recv);
    }
    release_buffers (&b);
}

static void
check_work (struct self *self)
{
    check_flights (self, false);
    if (!*self->why)
        check_flights (self, true);
}

/* From each rank to the next, and from the last to the first. */
static void
check_send_recv (struct self *self)
{
    enum { FEW = 1001, LARGE = 100000 };
    struct buffers b;
    int next = (self->rank + 1) % self->size, last = (self->rank + self->size - 1) % self->size;
    if (take_buffers (self, &b, LARGE)) {
        int64_t *send = b.send, *recv = b.recv;
        for (size_t i = 0; i < LARGE; i++)
            send[i] = (int64_t) piece (self->rank, i);
        for (size_t count = FEW; self->size > 1 && !*self->why && count <= LARGE; count += LARGE - FEW) {
            for (int step = 0; step < 2 && !*self->why; step++)
                if ((self->rank + step) % 2)
                    CALL (self, accel_comm_recv (self->world, recv, count, ACCEL_INT64, last, &self->err));
                else
                    CALL (self, accel_comm_send (self->world, send, count, ACCEL_INT64, next, &self->err));
            for (size_t i = 0; i < count && !*self->why; i++)
                expect (self, "an element from the previous rank", (long long) piece (last, i), recv[i]);
        }
    }
    release_buffers (&b);
}

static void
check_broadcast (struct self *self)
{
    int64_t values[129];
    for (int root = 0; root < self->size && !*self->why; root++) {
        for (size_t i = 0; i < 129; i++)
            values[i] = self->rank == root ? (int64_t) piece (root, i) : -1;
        CALL (self, accel_comm_broadcast (self->world, values, 129, ACCEL_INT64, root, &self->err));
        for (size_t i = 0; i < 129 && !*self->why; i++)
            expect (self, "an element from the root", (long long) piece (root, i), values[i]);
    }
}

/* Ranks come one after the other; none may leave before the last has come. */
static void
check_barrier (struct self *self)
{
    struct timespec now, wait = { 0, 1000000L * (self->rank % 20) };
    double times[2];
    nanosleep (&wait, NULL);
    clock_gettime (CLOCK_MONOTONIC, &now);
    times[0] = (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
    if (!CALL (self, accel_wait_for_everyone (self->acc, &self->err)))
        return;
    clock_gettime (CLOCK_MONOTONIC, &now);
    times[1] = -((double) now.tv_sec + 1e-9 * (double) now.tv_nsec);
    /* The clock is one per host. */
    if (CALL (self, accel_comm_all_reduce (self->world, times, times, 2, ACCEL_FLOAT64, ACCEL_MAX, &self->err))
        && accel_local_num_processes (self->acc) == self->size && -times[1] < times[0])
        wrong (self, "a rank left the barrier %.6f s before the last one arrived", times[0] + times[1]);
}

static void
check_gather (struct self *self)
{
    static const int64_t shape[] = { 2, 3 };
    float data[6];
    struct accel_tensor tensor, out = { 0 };
    for (int ndim = 0; ndim <= 2 && !*self->why; ndim += 2) {
        if (!CALL (self, accel_tensor_init (&tensor, ACCEL_FLOAT32, ndim, shape, &self->err)))
            break;
        size_t each = accel_tensor_count (&tensor.dl);
        tensor.dl.data = data;
        for (size_t i = 0; i < each; i++)
            data[i] = (float) piece (self->rank, i);
        if (!CALL (self, accel_gather (&out, self->acc, &tensor.dl, &self->err)))
            break;
        expect (self, "rows", (ndim ? 2 : 1) * self->size, out.dl.shape[0]);
        for (size_t i = 0; i < each * (size_t) self->size && !*self->why; i++)
            expect (self, "an element", (long long) piece ((int) (i / each), i % each),
                    (long long) ((const float *) out.dl.data)[i]);
    }
    accel_tensor_release (&out);
}

/* Parts of a tensor whose rows say where they come from; and the whole of it once round all ranks. */
static void
check_parts (struct self *self)
{
    int64_t rows = 2 * (int64_t) self->size, shape[] = { rows, 1 };
    float *data = calloc ((size_t) rows, sizeof *data);
    struct accel_tensor tensor, out = { 0 };
    bool good = data && CALL (self, accel_tensor_init (&tensor, ACCEL_FLOAT32, 2, shape, &self->err));
    tensor.dl.data = data;
    for (int64_t i = 0; good && i < rows; i++)
        data[i] = (float) piece (self->rank, (size_t) i);
    good = good && CALL (self, accel_all_to_all (&out, self->acc, &tensor.dl, &self->err));
    for (int64_t i = 0; good && i < rows; i++)
        expect (self, "a row of another rank", (long long) piece ((int) (i / 2), (size_t) (2 * self->rank + i % 2)),
                (long long) ((const float *) out.dl.data)[i]);
    good = good && CALL (self, accel_reduce_scatter (&out, self->acc, &tensor.dl, ACCEL_MAX, &self->err));
    if (good)
        expect (self, "rows of a part", 2, out.dl.shape[0]);
    int next = (self->rank + 1) % self->size, last = (self->rank + self->size - 1) % self->size;
    if (good && self->size > 1 && self->rank)
        good = CALL (self, accel_recv (self->acc, &tensor.dl, last, &self->err));
    if (good && self->size > 1)
        good = CALL (self, accel_send (self->acc, &tensor.dl, next, &self->err));
    if (good && self->size > 1 && !self->rank)
        good = CALL (self, accel_recv (self->acc, &tensor.dl, last, &self->err));
    for (int64_t i = 0; good && i < rows; i++)
        expect (self, "a row of rank 0", (long long) piece (0, (size_t) i), (long long) data[i]);
    accel_tensor_release (&out);
    free (data);
}

static void
check_tensor_calls (struct self *self)
{
    static const int64_t shape[] = { 50 };
    float data[50];
    struct accel_tensor tensor;
    if (!CALL (self, accel_tensor_init (&tensor, ACCEL_FLOAT32, 1, shape, &self->err)))
        return;
    tensor.dl.data = data;
    fill (self, ACCEL_AVG, ACCEL_FLOAT32, data, 50);
    if (!CALL (self, accel_reduce (self->acc, &tensor.dl, ACCEL_AVG, 1, &self->err))
        || !check_reduced (self, ACCEL_AVG, ACCEL_FLOAT32, data, 0, 50))
        return;
    fill (self, ACCEL_MAX, ACCEL_FLOAT32, data, 50);
    if (!CALL (self, accel_reduce (self->acc, &tensor.dl, ACCEL_MAX, 0.5, &self->err)))
        return;
    for (size_t i = 0; i < 50; i++)
        data[i] *= 2;
    if (!check_reduced (self, ACCEL_MAX, ACCEL_FLOAT32, data, 0, 50))
        return;
    for (size_t i = 0; i < 50; i++)
        data[i] = (float) piece (self->rank, i);
    if (CALL (self, accel_broadcast (self->acc, &tensor.dl, self->size - 1, &self->err)))
        for (size_t i = 0; i < 50; i++)
            expect (self, "an element from the last rank", (long long) piece (self->size - 1, i), (long long) data[i]);
}

static void
note_time (void *user)
{
    clock_gettime (CLOCK_MONOTONIC, user);
}

/* On one host the clock shows that the first one was first. */
static void
check_order (struct self *self, const struct timespec *ticket, const char *call)
{
    double when = (double) ticket->tv_sec + 1e-9 * (double) ticket->tv_nsec, first = when;
    if (CALL (self, accel_comm_broadcast (self->world, &first, 1, ACCEL_FLOAT64, 0, &self->err)) && when < first
        && accel_local_num_processes (self->acc) == self->size)
        wrong (self, "%s: ran %.6f s before rank 0", call, first - when);
}

static void
check_first (struct self *self)
{
    struct timespec ticket;
    if (CALL (self, accel_main_process_first (self->acc, note_time, &ticket, &self->err)))
        check_order (self, &ticket, "accel_main_process_first");
    if (CALL (self, accel_local_main_process_first (self->acc, note_time, &ticket, &self->err)))
        check_order (self, &ticket, "accel_local_main_process_first");
}

static void
check_trigger (struct self *self)
{
    bool fired = true;
    CALL (self, accel_check_trigger (self->acc, &fired, &self->err));
    expect (self, "a trigger that no rank set", 0, fired);
    if (self->rank == self->size - 1)
        accel_set_trigger (self->acc);
    if (!*self->why)
        CALL (self, accel_check_trigger (self->acc, &fired, &self->err));
    expect (self, "a trigger set by the last rank", 1, fired);
    if (!*self->why)
        CALL (self, accel_check_trigger (self->acc, &fired, &self->err));
    expect (self, "a trigger that has already been read", 0, fired);
}

/* Nothing has asked for a checkpoint, unless somebody has just done so: then all ranks know it. */
static void
check_requests (struct self *self)
{
    bool answer = false;
    double least, most;
    for (int round = 0; round < 3; round++) {
        if (!CALL (self, accel_should_save (self->acc, &answer, &self->err)))
            return;
        least = most = answer;
        if (CALL (self, accel_reduce_number (self->acc, &least, ACCEL_MIN, &self->err))
            && CALL (self, accel_reduce_number (self->acc, &most, ACCEL_MAX, &self->err)))
            expect_near (self, "whether to save", least, most, 0);
        if (!CALL (self, accel_should_stop (self->acc, &answer, &self->err)))
            return;
        least = most = answer;
        if (CALL (self, accel_reduce_number (self->acc, &least, ACCEL_MIN, &self->err))
            && CALL (self, accel_reduce_number (self->acc, &most, ACCEL_MAX, &self->err)))
            expect_near (self, "whether to stop", least, most, 0);
    }
}

/* Every rank seeds its generators in its own way, and has rank 0's stream afterwards. */
static void
check_random (struct self *self)
{
    struct accel_generator *own = NULL, *first = NULL;
    if (!CALL (self, accel_generator_create (&own, 7 + (uint64_t) self->rank, &self->err))
        || !CALL (self, accel_generator_create (&first, 7, &self->err)))
        goto done;
    for (int round = 0; round < 2; round++) {
        if (!CALL (self, accel_set_seed (self->acc, 3, true, &self->err))
            || !CALL (self, accel_synchronize_rng_state (self->acc, NULL, &self->err))
            || !CALL (self, accel_synchronize_rng_state (self->acc, own, &self->err))
            || !expect (self, "the next number from a generator", accel_generator_next (first),
                        accel_generator_next (own)))
            goto done;
        accel_generator_seed (own, 8 + (uint64_t) self->rank);
        accel_generator_seed (first, 8);
        if (!CALL (self, accel_synchronize_rng_state (self->acc, own, &self->err))
            || !expect (self, "the next number after another seed", accel_generator_next (first),
                        accel_generator_next (own)))
            goto done;
        accel_generator_seed (first, 3);
        if (!expect (self, "the next number from the default generator", accel_generator_next (first),
                     accel_generator_next (accel_default_generator ())))
            goto done;
        accel_generator_seed (own, 7 + (uint64_t) self->rank);
        accel_generator_seed (first, 7);
    }
done:
    accel_generator_destroy (own);
    accel_generator_destroy (first);
}

static void
check_number (struct self *self)
{
    double number = self->rank + 1;
    if (CALL (self, accel_reduce_number (self->acc, &number, ACCEL_MAX, &self->err)))
        expect_near (self, "the maximum of all numbers", self->size, number, 0);
}

const struct step comm_steps[] = {
    { "wait for everyone", check_barrier },
    { "all-reduce", check_all_reduce },
    { "all-reduce, shared memory", check_shared_memory },
    { "reduce-scatter", check_reduce_scatter },
    { "all-gather", check_all_gather },
    { "all-to-all", check_all_to_all },
    { "work in flight", check_work },
    { "parts of tensors", check_parts },
    { "send and receive", check_send_recv },
    { "broadcast", check_broadcast },
    { "gather", check_gather },
    { "tensors, reduce, broadcast", check_tensor_calls },
    { "reduce a number", check_number },
    { "main process first", check_first },
    { "trigger", check_trigger },
    { "requests to save and to stop", check_requests },
    { "random numbers", check_random },
    { NULL, NULL },
};
