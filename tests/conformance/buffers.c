/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives on buffers, compared with the serial reference: all types, operations and counts, memory of the program
 * and of accel_alloc() in all combinations, in place and out of place. */
#include <config.h>

#include "tests/conformance/conformance.h"
#include "tests/slow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* As in the shm engine: bytes that travel in a post, and of a stage piece. */
enum { INLINE = 4096, PIECE = 256 << 10 };
/* Three pieces: the third lies where the first one did. */
enum { LARGEST = 2 * PIECE + 8192, SLACK = 1024, GUARD = 64, HUGE_BYTES = 9 << 20 };

/* RING: every rank sends to the next and receives from the one before. */
enum kind { ALL_REDUCE, ALL_GATHER, BROADCAST, REDUCE_SCATTER, ALL_TO_ALL, RING, KINDS };
static const char *const kind_names[]
    = { "all_reduce", "all_gather", "broadcast", "reduce_scatter", "all_to_all", "send and recv" };

enum place { FOREIGN, SHARED, SHARED_ON_ODD_RANKS, SHARED_SEND, SHARED_RECV, ANYWHERE, PLACES };
static const char *const place_names[]
    = { "foreign", "shared", "shared on odd ranks", "send shared", "recv shared", "anywhere" };

struct test {
    enum kind kind;
    enum accel_dtype dtype;
    enum accel_op op;
    size_t count;
    enum place place;
    bool in_place;
    int root;
    unsigned seed; /* where in the inputs; equal on all ranks */
};

/* Inputs of all ranks by dtype, made on first use, and this rank's memory. */
static unsigned char *inputs[ACCEL_DTYPE_COUNT];
static unsigned char *foreign[2], *shared[2], *wanted;
static size_t capacity;
static struct test wanted_for; /* what `wanted` was computed for; count 0: nothing */

static void
make_buffers (struct rank *self)
{
    struct accel_error err;
    capacity = (size_t) self->size * LARGEST + 2 * GUARD + 64;
    wanted = malloc (capacity);
    wanted_for.count = 0;
    for (int i = 0; i < 2; i++) {
        void *memory;
        must (self, accel_alloc (self->acc, capacity, &memory, &err), &err, "accel_alloc");
        shared[i] = memory;
        foreign[i] = malloc (capacity);
        if (!foreign[i] || !wanted)
            fail (self, "out of memory");
    }
}

static void
free_buffers (struct rank *self)
{
    for (int i = 0; i < 2; i++) {
        free (foreign[i]);
        accel_free (self->acc, shared[i]);
    }
    free (wanted);
    for (int i = 0; i < ACCEL_DTYPE_COUNT; i++) {
        free (inputs[i]);
        inputs[i] = NULL;
    }
}

static const unsigned char *
input (struct rank *self, const struct test *test, int rank)
{
    size_t unit = accel_dtype_bytes (test->dtype), each = LARGEST + SLACK * unit;
    if (!inputs[test->dtype]) {
        inputs[test->dtype] = malloc (each * (size_t) self->size);
        if (!inputs[test->dtype])
            fail (self, "out of memory");
        for (int r = 0; r < self->size; r++)
            reference_input (inputs[test->dtype] + each * (size_t) r, test->dtype, r, each / unit);
    }
    return inputs[test->dtype] + each * (size_t) rank + test->seed % SLACK * unit;
}

static bool
is_shared (const struct rank *self, const struct test *test, int side)
{
    switch (test->place) {
    case SHARED: return true;
    case SHARED_ON_ODD_RANKS: return self->rank & 1;
    case SHARED_SEND: return side == 0;
    case SHARED_RECV: return side == 1;
    case ANYWHERE: return (test->seed * 2654435761u >> (self->rank * 2 + side) % 31) & 1;
    default: return false;
    }
}

/* Not aligned to more than an element. */
static unsigned char *
buffer (const struct rank *self, const struct test *test, int side)
{
    size_t skew = test->seed % 3 * accel_dtype_bytes (test->dtype);
    return (is_shared (self, test, side) ? shared[side] : foreign[side]) + GUARD + skew;
}

static void
complain (const struct rank *self, const struct test *test, const char *what)
{
    fail (self, "%s of %zu %s, op %d, root %d, seed %u, memory %s, %s: %s", kind_names[test->kind], test->count,
          accel_dtype_name (test->dtype), (int) test->op, test->root, test->seed, place_names[test->place],
          test->in_place ? "in place" : "out of place", what);
}

/* Whether each rank sends a row to every rank. */
static bool
sends_rows (enum kind kind)
{
    return kind == REDUCE_SCATTER || kind == ALL_TO_ALL;
}

static void
compute_wanted (struct rank *self, const struct test *test)
{
    size_t row = test->count * accel_dtype_bytes (test->dtype);
    const void *sources[64];
    struct test key = *test;
    key.place = FOREIGN;
    key.in_place = false;
    if (test->count && !memcmp (&key, &wanted_for, sizeof key))
        return;
    wanted_for = key;
    for (int r = 0; r < self->size; r++)
        sources[r] = input (self, test, r) + (sends_rows (test->kind) ? (size_t) self->rank * row : 0);
    if (test->kind == ALL_REDUCE || test->kind == REDUCE_SCATTER)
        reference_reduce (wanted, test->dtype, test->op, sources, self->size, test->count);
    else if (test->kind == ALL_GATHER || test->kind == ALL_TO_ALL)
        for (int r = 0; r < self->size; r++)
            memcpy (wanted + (size_t) r * row, sources[r], row);
    else
        memcpy (wanted, sources[test->kind == RING ? (self->rank + self->size - 1) % self->size : test->root], row);
}

/* FNV-1a over words would miss no change; NaNs are told apart too. */
static void
add_to_hash (struct rank *self, const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        self->hash = (self->hash ^ bytes[i]) * UINT64_C (0x100000001b3);
}

/* One rank must receive first. */
static enum accel_status
go_round (struct rank *self, const struct test *test, const void *send, void *recv, struct accel_error *err)
{
    int next = (self->rank + 1) % self->size, last = (self->rank + self->size - 1) % self->size;
    enum accel_status status = ACCEL_OK;
    if (self->size == 1) {
        if (test->count)
            memcpy (recv, send, test->count * accel_dtype_bytes (test->dtype));
        return ACCEL_OK;
    }
    for (int step = 0; !status && step < 2; step++)
        status = (self->rank + step) % 2
                     ? accel_comm_recv (self->comm, recv, test->count, test->dtype, last, err)
                     : accel_comm_send (self->comm, send, test->count, test->dtype, next, err);
    return status;
}

/* The same without blocking; waiting for it at once leaves nothing to chance.  @return false where there is no start */
static bool
call_started (struct rank *self, const struct test *test, const void *send, void *recv, enum accel_status *status,
              struct accel_error *err)
{
    struct accel_comm *comm = self->comm;
    enum accel_dtype dtype = test->dtype;
    struct accel_work *work;
    size_t count = test->count;
    switch (test->kind) {
    case ALL_REDUCE:
        *status = accel_comm_all_reduce_start (&work, comm, send, recv, count, dtype, test->op, err);
        break;
    case ALL_GATHER: *status = accel_comm_all_gather_start (&work, comm, send, recv, count, dtype, err); break;
    case ALL_TO_ALL: *status = accel_comm_all_to_all_start (&work, comm, send, recv, count, dtype, err); break;
    case BROADCAST: *status = accel_comm_broadcast_start (&work, comm, recv, count, dtype, test->root, err); break;
    case REDUCE_SCATTER:
        *status = accel_comm_reduce_scatter_start (&work, comm, send, recv, count, dtype, test->op, err);
        break;
    default: return false;
    }
    if (!*status)
        *status = accel_work_wait (work, err);
    return true;
}

static enum accel_status
call (struct rank *self, const struct test *test, const void *send, void *recv, struct accel_error *err)
{
    enum accel_status status;
    self->calls++;
    if (test->seed % 3 == 2 && call_started (self, test, send, recv, &status, err))
        return status;
    switch (test->kind) {
    case ALL_REDUCE: return accel_comm_all_reduce (self->comm, send, recv, test->count, test->dtype, test->op, err);
    case ALL_GATHER: return accel_comm_all_gather (self->comm, send, recv, test->count, test->dtype, err);
    case ALL_TO_ALL: return accel_comm_all_to_all (self->comm, send, recv, test->count, test->dtype, err);
    case RING: return go_round (self, test, send, recv, err);
    case BROADCAST: return accel_comm_broadcast (self->comm, recv, test->count, test->dtype, test->root, err);
    default: return accel_comm_reduce_scatter (self->comm, send, recv, test->count, test->dtype, test->op, err);
    }
}

static bool
is_filled (const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != 0xa5)
            return false;
    return true;
}

/* Where the buffers of a test are; sizes in bytes. */
struct setting {
    unsigned char *send, *recv, *all;
    size_t send_bytes, recv_bytes, all_bytes;
};

static struct setting
lay_out (const struct rank *self, const struct test *test)
{
    size_t row = test->count * accel_dtype_bytes (test->dtype), rows = row * (size_t) self->size;
    struct setting set = { .send_bytes = sends_rows (test->kind) ? rows : row,
                           .recv_bytes = test->kind == ALL_GATHER || test->kind == ALL_TO_ALL ? rows : row };
    bool apart = test->kind == ALL_TO_ALL || test->kind == RING;
    bool one = !apart && (test->in_place || test->kind == BROADCAST);
    set.send = buffer (self, test, 0);
    set.recv = one ? set.send : buffer (self, test, 1);
    set.all = set.recv;
    set.all_bytes = one && set.send_bytes > set.recv_bytes ? set.send_bytes : set.recv_bytes;
    if (one && test->kind == ALL_GATHER)
        set.send += (size_t) self->rank * row;
    if (one && test->kind == REDUCE_SCATTER)
        set.recv += (size_t) self->rank * row;
    return set;
}

static void
run (struct rank *self, const struct test *test)
{
    struct accel_error err;
    struct setting set = lay_out (self, test);
    size_t unit = accel_dtype_bytes (test->dtype);
    const unsigned char *mine = input (self, test, self->rank);
    memset (set.all - GUARD, 0xa5, set.all_bytes + 2 * GUARD);
    if (test->kind != BROADCAST || test->root == self->rank)
        memcpy (set.send, mine, set.send_bytes);
    if (call (self, test, set.send, set.recv, &err))
        complain (self, test, err.text);
    compute_wanted (self, test);
    size_t elements = set.recv_bytes / unit, at = reference_compare (test->dtype, set.recv, wanted, elements);
    if (at < elements) {
        char text[128];
        uint64_t got = 0, want = 0;
        memcpy (&got, set.recv + at * unit, unit);
        memcpy (&want, wanted + at * unit, unit);
        snprintf (text, sizeof text, "element %zu is 0x%llx, wanted 0x%llx", at, (unsigned long long) got,
                  (unsigned long long) want);
        complain (self, test, text);
    }
    if (!is_filled (set.all - GUARD, GUARD) || !is_filled (set.all + set.all_bytes, GUARD))
        complain (self, test, "wrote outside its buffer");
    if (set.send != set.all && !test->in_place && memcmp (set.send, mine, set.send_bytes))
        complain (self, test, "wrote to its input");
    if (test->kind < REDUCE_SCATTER && set.recv_bytes <= INLINE)
        add_to_hash (self, set.recv, set.recv_bytes);
}

/* Rank by rank the same bits, NaNs included. */
static void
compare_hashes (struct rank *self)
{
    struct accel_error err;
    uint64_t all[64];
    must (self, accel_comm_all_gather (self->comm, &self->hash, all, 1, ACCEL_INT64, &err), &err, "the hashes");
    for (int r = 0; r < self->size; r++)
        if (all[r] != self->hash)
            fail (self, "results differ from those of rank %d", r);
}

static bool
is_defined (enum accel_dtype dtype, enum accel_op op)
{
    return op != ACCEL_AVG || dtype <= ACCEL_BFLOAT16;
}

/* CONFORMANCE_EVERY=N: whether what comes next is one of N - 1 of N counts that are left out: the same on all ranks,
 * and others if there are more ranks. */
static bool
is_left_out (const struct rank *self)
{
    static unsigned number;
    const char *every = getenv ("CONFORMANCE_EVERY");
    return every && (number++ + (unsigned) self->size) % (unsigned) atoi (every);
}

void
suite_types (struct rank *self)
{
    struct test test = { .count = 0 };
    make_buffers (self);
    for (int dtype = 0; dtype <= ACCEL_BOOL; dtype++) {
        size_t unit = accel_dtype_bytes ((enum accel_dtype) dtype), fits = INLINE / unit, rows = (size_t) self->size;
        size_t counts[] = { 0, 1, 3, 255, fits / rows, fits / rows + 1, fits - 1, fits, fits + 1, 4099 };
        test.dtype = (enum accel_dtype) dtype;
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            test.count = counts[c];
            for (int op = 0; op < ACCEL_OP_COUNT; op++)
                for (int kind = 0; kind < KINDS; kind++) {
                    bool reduces = kind == ALL_REDUCE || kind == REDUCE_SCATTER;
                    if ((reduces && !is_defined (test.dtype, (enum accel_op) op)) || (!reduces && op))
                        continue;
                    test.kind = (enum kind) kind;
                    test.op = (enum accel_op) op;
                    test.seed++;
                    test.place = (enum place) (test.seed % PLACES);
                    test.in_place = test.seed / PLACES & 1;
                    for (test.root = 0; test.root < (kind == BROADCAST ? self->size : 1); test.root++)
                        if (!is_left_out (self))
                            run (self, &test);
                }
        }
    }
    compare_hashes (self);
    free_buffers (self);
}

void
suite_sizes (struct rank *self)
{
    static const enum accel_dtype dtypes[] = { ACCEL_FLOAT32, ACCEL_BFLOAT16, ACCEL_INT8, ACCEL_FLOAT64 };
    static const enum accel_op ops[] = { ACCEL_SUM, ACCEL_AVG, ACCEL_SUM, ACCEL_MIN };
    struct test test = { .count = 0 };
    make_buffers (self);
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
            size_t unit = accel_dtype_bytes (dtypes[d]), piece = PIECE / unit;
            if (IS_SLOW && d != (size_t) kind % (sizeof dtypes / sizeof *dtypes))
                continue;
            if (sends_rows ((enum kind) kind))
                piece /= (size_t) self->size;
            size_t counts[] = { 1, INLINE / unit + 1, piece / 16 + 1, piece / 4 - 3, piece - 1, piece, piece + 1,
                                2 * piece, 2 * piece + 77 };
            test.kind = (enum kind) kind;
            test.dtype = dtypes[d];
            test.op = kind == ALL_REDUCE || kind == REDUCE_SCATTER ? ops[d] : ACCEL_SUM;
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
                test.count = counts[c];
                test.seed++;
                test.root = kind == BROADCAST ? (int) (test.seed % (unsigned) self->size) : 0;
                if (is_left_out (self))
                    continue;
                for (int variant = 0; variant < 2 * PLACES; variant++) {
                    test.place = (enum place) (variant / 2);
                    test.in_place = variant & 1;
                    run (self, &test);
                }
            }
        }
    compare_hashes (self);
    free_buffers (self);
}

/* Inputs repeat themselves, after a number of elements that has no divisor in common with pieces. */
enum { PERIOD = 262139 };

static size_t
at_most (size_t count, size_t most)
{
    return count < most ? count : most;
}

static unsigned char *
make_large (struct rank *self, enum accel_dtype dtype, int rank, size_t count)
{
    size_t unit = accel_dtype_bytes (dtype);
    unsigned char *made = malloc (count * unit);
    if (!made)
        fail (self, "out of memory");
    reference_input (made, dtype, rank, at_most (count, PERIOD));
    for (size_t at = PERIOD; at < count; at += PERIOD)
        memcpy (made + at * unit, made, at_most (count - at, PERIOD) * unit);
    return made;
}

/* More than caches hold, which is reason enough to go about it in another way. */
static void
run_large (struct rank *self, enum accel_dtype dtype, enum accel_op op, bool in_place, unsigned char *memory[2])
{
    size_t unit = accel_dtype_bytes (dtype), count = (HUGE_BYTES - 2 * GUARD) / unit - 3;
    const void *sources[64];
    unsigned char *made[64], *send = memory[0] + GUARD + unit, *recv = in_place ? send : memory[1] + GUARD;
    struct accel_error err;
    for (int r = 0; r < self->size; r++)
        sources[r] = made[r] = make_large (self, dtype, r, count);
    memset (recv - GUARD, 0xa5, count * unit + 2 * GUARD);
    memcpy (send, made[self->rank], count * unit);
    must (self, accel_comm_all_reduce (self->comm, send, recv, count, dtype, op, &err), &err, "large all_reduce");
    self->calls++;
    if (!is_filled (recv - GUARD, GUARD) || !is_filled (recv + count * unit, GUARD))
        fail (self, "large all_reduce wrote outside its buffer");
    if (!in_place && memcmp (send, made[self->rank], count * unit))
        fail (self, "large all_reduce wrote to its input");
    reference_reduce (made[0], dtype, op, sources, self->size, at_most (count, PERIOD));
    for (size_t begin = 0; begin < count; begin += PERIOD) {
        size_t some = at_most (count - begin, PERIOD);
        size_t at = reference_compare (dtype, recv + begin * unit, made[0], some);
        if (at < some)
            fail (self, "large all_reduce of %s: element %zu of %zu is wrong", accel_dtype_name (dtype), begin + at,
                  count);
    }
    for (int r = 0; r < self->size; r++)
        free (made[r]);
}

void
suite_large (struct rank *self)
{
    static const struct {
        enum accel_dtype dtype;
        enum accel_op op;
        bool shared, in_place;
    } rows[] = {
        { ACCEL_FLOAT32, ACCEL_AVG, true, true },
        { ACCEL_FLOAT64, ACCEL_SUM, true, false },
        { ACCEL_BFLOAT16, ACCEL_SUM, true, true },
        { ACCEL_FLOAT32, ACCEL_SUM, false, false },
    };
    unsigned char *memory[2][2];
    struct accel_error err;
    for (int i = 0; i < 2; i++) {
        void *shared_memory;
        must (self, accel_alloc (self->acc, HUGE_BYTES, &shared_memory, &err), &err, "accel_alloc");
        memory[1][i] = shared_memory;
        memory[0][i] = malloc (HUGE_BYTES);
        if (!memory[0][i])
            fail (self, "out of memory");
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        run_large (self, rows[i].dtype, rows[i].op, rows[i].in_place, memory[rows[i].shared]);
    for (int i = 0; i < 2; i++) {
        accel_free (self->acc, memory[1][i]);
        free (memory[0][i]);
    }
}

static void
dawdle (uint64_t *random)
{
    uint64_t drawn = next_random (random);
    if (drawn % 8 == 0)
        nanosleep (&(struct timespec){ .tv_nsec = (long) (drawn >> 8) % 300000 }, NULL);
    else if (drawn % 8 == 1)
        for (volatile uint64_t i = drawn >> 8 & 0xffff; i; i--)
            ;
}

/* Memory that comes and goes in another order on each rank, but always zeroed. */
static void
churn (struct rank *self, unsigned char **block, uint64_t *random)
{
    struct accel_error err;
    uint64_t drawn = next_random (random);
    size_t bytes = (size_t) 1 << drawn % 19;
    void *memory;
    accel_free (self->acc, *block);
    must (self, accel_alloc (self->acc, bytes, &memory, &err), &err, "accel_alloc");
    *block = memory;
    for (size_t i = 0; i < bytes; i++)
        if ((*block)[i])
            fail (self, "accel_alloc(%zu): byte %zu is not zero", bytes, i);
    memset (memory, 0xff, bytes);
}

static void
check_trigger (struct rank *self, uint64_t drawn)
{
    struct accel_error err;
    bool fired, wanted_fired = drawn >> 10 & 1;
    if (wanted_fired && (int) ((drawn >> 11) % (uint64_t) self->size) == self->rank)
        accel_set_trigger (self->acc);
    must (self, accel_check_trigger (self->acc, &fired, &err), &err, "accel_check_trigger");
    if (fired != wanted_fired)
        fail (self, "accel_check_trigger: %d, wanted %d", fired, wanted_fired);
}

static size_t
draw_count (uint64_t *common, enum kind kind, int size, size_t unit)
{
    uint64_t drawn = next_random (common);
    size_t limit = drawn % 16 == 0 ? LARGEST : drawn % 4 == 0 ? 3 * INLINE : 64;
    size_t count = (drawn >> 8) % (limit / unit);
    return sends_rows (kind) ? count / (size_t) size : count;
}

void
suite_mixture (struct rank *self)
{
    const char *text = getenv ("CONFORMANCE_SEED");
    uint64_t common = text ? strtoull (text, NULL, 10) : 1, own = common * 977 + (uint64_t) self->rank;
    unsigned char *blocks[8] = { NULL };
    struct accel_error err;
    make_buffers (self);
    for (int i = 0; i < 250; i++) {
        uint64_t drawn = next_random (&common);
        struct test test = { .kind = (enum kind) (drawn % KINDS), .dtype = (enum accel_dtype) ((drawn >> 8) % 9),
                             .op = (enum accel_op) ((drawn >> 16) % 5), .place = (enum place) ((drawn >> 24) % PLACES),
                             .in_place = drawn >> 32 & 1, .root = (int) (drawn >> 40) % self->size,
                             .seed = (unsigned) (drawn >> 33) };
        if (!is_defined (test.dtype, test.op))
            test.op = ACCEL_MAX;
        test.count = draw_count (&common, test.kind, self->size, accel_dtype_bytes (test.dtype));
        dawdle (&own);
        if (next_random (&own) % 4 == 0)
            churn (self, &blocks[next_random (&own) % 8], &own);
        if (drawn >> 57 == 0)
            check_trigger (self, drawn);
        else if (drawn >> 57 < 10)
            must (self, accel_comm_barrier (self->comm, &err), &err, "barrier");
        else
            run (self, &test);
    }
    compare_hashes (self);
    for (int i = 0; i < 8; i++)
        accel_free (self->acc, blocks[i]);
    free_buffers (self);
}
