/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a program whose all-reduces are so large that engine mpi runs them through the memory of each host.
 * Every result is compared with a reduction in the order of ranks, bit for bit; buffers are of accel_alloc() on some
 * ranks, and of the program on others.
 *
 *   tiers calls    one after the other: every element type and operation, lengths around the pieces, in place and not
 *   tiers flights  several in flight, waited for in different orders
 *   tiers opens    the job is opened and closed again */
#include <accel/accel.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 16, FLIGHTS = 11 }; /* more than a board holds */

static struct accel *acc;
static struct accel_comm *world;
static struct accel_error err;
static int rank, size, failures, calls;

static void
must (enum accel_status status, const char *what)
{
    if (!status)
        return;
    fprintf (stderr, "rank %d: %s: %s\n", rank, what, err.text);
    exit (1);
}

/* The same on all ranks, of which each knows what the others have. */
static uint32_t
random_of (uint32_t seed)
{
    seed = (seed ^ seed >> 16) * 0x7feb352du;
    seed = (seed ^ seed >> 15) * 0x846ca68bu;
    return seed ^ seed >> 16;
}

static double
number_of (int of_rank, size_t i, uint32_t seed, enum accel_dtype dtype)
{
    uint32_t bits = random_of ((uint32_t) i * 2654435761u ^ (uint32_t) of_rank << 24 ^ seed);
    return dtype == ACCEL_BOOL ? bits & 1 : dtype > ACCEL_BFLOAT16 ? bits % 3 + 1 : (double) (int32_t) bits / 65536.0;
}

static void
put (void *buffer, size_t i, enum accel_dtype dtype, double value)
{
    switch ((int) dtype) {
    case ACCEL_FLOAT32: ((float *) buffer)[i] = (float) value; break;
    case ACCEL_FLOAT64: ((double *) buffer)[i] = value; break;
    case ACCEL_INT32: ((int32_t *) buffer)[i] = (int32_t) value; break;
    case ACCEL_INT64: ((int64_t *) buffer)[i] = (int64_t) value; break;
    default: ((int8_t *) buffer)[i] = (int8_t) value; break;
    }
}

/* Rounded after each step. */
static double
combine (double a, double b, enum accel_dtype dtype, enum accel_op op)
{
    double result = op == ACCEL_MIN    ? (a < b ? a : b)
                    : op == ACCEL_MAX  ? (a > b ? a : b)
                    : op == ACCEL_PROD ? a * b
                                       : a + b;
    if (dtype == ACCEL_BOOL)
        result = op == ACCEL_SUM || op == ACCEL_MAX ? a != 0 || b != 0 : a != 0 && b != 0;
    return dtype == ACCEL_FLOAT32 ? (float) result : result;
}

static double
expected_of (size_t i, uint32_t seed, enum accel_dtype dtype, enum accel_op op)
{
    double sum = dtype == ACCEL_FLOAT32 ? (float) number_of (0, i, seed, dtype) : number_of (0, i, seed, dtype);
    for (int r = 1; r < size; r++)
        sum = combine (sum, dtype == ACCEL_FLOAT32 ? (float) number_of (r, i, seed, dtype)
                                                   : number_of (r, i, seed, dtype), dtype, op);
    if (op == ACCEL_AVG)
        sum = dtype == ACCEL_FLOAT32 ? (float) sum / (float) size : sum / size;
    return sum;
}

/* ---- one call ---- */

struct call {
    enum accel_dtype dtype;
    enum accel_op op;
    size_t count;
    bool in_place;
    uint32_t seed;
    void *send, *recv;
    bool own[2];
    struct accel_work *work;
};

static void *
get_buffer (size_t bytes, bool own)
{
    void *memory = NULL;
    if (own)
        must (accel_alloc (acc, &memory, bytes, &err), "accel_alloc");
    else
        memory = malloc (bytes);
    return memory;
}

static void
give_buffer (void *memory, bool own)
{
    if (own)
        accel_free (acc, memory);
    else
        free (memory);
}

static void
fill (struct call *call)
{
    size_t bytes = call->count * accel_dtype_bytes (call->dtype);
    call->own[0] = random_of (call->seed ^ (uint32_t) rank) & 4;
    call->own[1] = random_of (call->seed ^ (uint32_t) rank) & 8;
    call->send = get_buffer (bytes, call->own[0]);
    call->recv = call->in_place ? call->send : get_buffer (bytes, call->own[1]);
    for (size_t i = 0; i < call->count; i++)
        put (call->send, i, call->dtype, number_of (rank, i, call->seed, call->dtype));
}

static void
check (struct call *call)
{
    size_t unit = accel_dtype_bytes (call->dtype);
    unsigned char wanted[8], sent[8];
    for (size_t i = 0; i < call->count; i++) {
        put (wanted, 0, call->dtype, expected_of (i, call->seed, call->dtype, call->op));
        put (sent, 0, call->dtype, number_of (rank, i, call->seed, call->dtype));
        bool good = !memcmp ((char *) call->recv + i * unit, wanted, unit)
                    && (call->in_place || !memcmp ((char *) call->send + i * unit, sent, unit));
        if (good)
            continue;
        fprintf (stderr, "rank %d: WRONG: %s, operation %d, %zu of %zu\n", rank, accel_dtype_name (call->dtype),
                 (int) call->op, i, call->count);
        failures++;
        break;
    }
    calls++;
    if (!call->in_place)
        give_buffer (call->recv, call->own[1]);
    give_buffer (call->send, call->own[0]);
}

static void
one_by_one (void)
{
    static const enum accel_dtype dtypes[] = { ACCEL_FLOAT32, ACCEL_FLOAT64, ACCEL_INT32, ACCEL_INT64, ACCEL_BOOL };
    static const size_t bytes[] = { 256 << 10, (256 << 10) + 8, (1 << 20) - 64, (1 << 20) + 72, (2 << 20) + 8 };
    for (uint32_t i = 0; i < 2 * sizeof bytes / sizeof *bytes * sizeof dtypes / sizeof *dtypes; i++) {
        struct call call = { .dtype = dtypes[i % 5], .op = (enum accel_op) (i % ACCEL_OP_COUNT), .seed = i,
                             .in_place = i & 1 };
        if (call.op == ACCEL_AVG && call.dtype > ACCEL_BFLOAT16)
            call.op = ACCEL_SUM;
        call.count = bytes[i / 5 % 5] / accel_dtype_bytes (call.dtype);
        fill (&call);
        must (accel_comm_all_reduce (world, call.send, call.recv, call.count, call.dtype, call.op, &err), "all-reduce");
        check (&call);
    }
}

/* Small ones, which go another way, are among them. */
static void
in_flight (void)
{
    for (uint32_t round = 0; round < 3; round++) {
        struct call flights[FLIGHTS];
        for (uint32_t i = 0; i < FLIGHTS; i++) {
            uint32_t number = random_of (round * FLIGHTS + i);
            flights[i] = (struct call){ .dtype = ACCEL_FLOAT32, .op = i & 1 ? ACCEL_SUM : ACCEL_AVG, .seed = number,
                                        .in_place = number & 1 };
            flights[i].count = number % 4 == 2 ? number % 1000 + 1 : (256 << 10) + number % (1 << 18);
            fill (&flights[i]);
            must (accel_comm_all_reduce_start (world, flights[i].send, flights[i].recv, flights[i].count,
                                               ACCEL_FLOAT32, flights[i].op, &flights[i].work, &err), "start");
        }
        for (uint32_t i = 0; i < FLIGHTS; i++) {
            struct call *call = &flights[(i * 2 + (uint32_t) rank) % FLIGHTS];
            must (accel_work_wait (call->work, &err), "wait");
            check (call);
        }
    }
}

int
main (int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    int rounds = !strcmp (how, "opens") ? 3 : 1;
    char engine[64] = "";
    while (rounds--) {
        must (accel_open (&acc, NULL, &err), "accel_open");
        world = accel_world (acc);
        rank = accel_comm_rank (world);
        size = accel_comm_size (world);
        snprintf (engine, sizeof engine, "%s", accel_comm_engine (world));
        if (strcmp (how, "calls"))
            in_flight ();
        else
            one_by_one ();
        accel_close (acc);
    }
    if (rank == 0)
        printf ("%s, %d ranks: %d all-reduces\n", engine, size, calls);
    return failures ? 1 : 0;
}
