/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a program whose all-reduces are so large that engine mpi runs them through the memory of each host.
 * Every result is compared with a reduction in the order of ranks, bit for bit: each rank compares a part, and at the
 * end all compare hashes of the whole.  Buffers are of accel_alloc() on some ranks, and of the program on others.
 *
 *   hier_reduce calls one after the other: every element type and operation, lengths around the pieces, in place and
 *   not hier_reduce several several in flight, waited for in different orders hier_reduce scatter reduce-scatters like
 *   the all-reduces of `calls`, then some in flight among all-reduces hier_reduce copies broadcasts and all-gathers, in
 *   flight among all-reduces hier_reduce groups groups of neighbours, of every other rank and of all: what they share,
 *   and calls among the world's; then groups that end late, in a child of fork(), or after their job hier_reduce ahead
 *   small sums: the first rank starts them before the second one, and the last rank is late hier_reduce opens the job
 *   is opened and closed again */
#include <accel/accel.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_RANKS = 16, SEVERAL = 11, AHEAD = 16 /* more than an outbox holds */, MEBI = 1024 /* KiB */ };

static struct accel *acc;
static struct accel_comm *world; /* or a group, of which these are rank and size */
static struct accel_error err;
static int rank, size, failures, calls;
static bool in_group;

static void
must (enum accel_status status, const char *what)
{
    if (!status)
        return;
    fprintf (stderr, "rank %d: %s: %s\n", rank, what, err.text);
    exit (1);
}

static void
open_job (void)
{
    must (accel_open (&acc, NULL, &err), "accel_open");
    world = accel_world (acc);
}

/* The same on all ranks, of which each knows what the others have. */
static uint32_t
random_of (uint32_t seed)
{
    seed = (seed ^ seed >> 16) * 0x7feb352du;
    seed = (seed ^ seed >> 15) * 0x846ca68bu;
    return seed ^ seed >> 16;
}

static uint32_t
bits_of (float x)
{
    uint32_t bits;
    memcpy (&bits, &x, sizeof bits);
    return bits;
}

static float
float_of (uint32_t bits)
{
    float x;
    memcpy (&x, &bits, sizeof x);
    return x;
}

/* To the nearest 16-bit float, and to the even one of two; there are no NaN here. */
static uint16_t
narrowed (float x, enum accel_dtype dtype)
{
    uint32_t bits = bits_of (x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (dtype == ACCEL_BFLOAT16)
        return (uint16_t) ((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    if (magnitude >= 0x477ff000)
        return (uint16_t) (sign | 0x7c00);
    if (magnitude < 0x38800000) /* subnormal: multiples of 2^-24, as the last place of 0.5 is */
        return (uint16_t) (sign | ((bits_of (float_of (magnitude) + 0.5f)) - bits_of (0.5f)));
    return (uint16_t) (sign | ((magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13));
}

static float
widened (uint16_t half, enum accel_dtype dtype)
{
    uint32_t sign = (uint32_t) (half & 0x8000) << 16, magnitude = half & 0x7fff;
    if (dtype == ACCEL_BFLOAT16)
        return float_of ((uint32_t) half << 16);
    if (magnitude >= 0x7c00)
        return float_of (sign | 0x7f800000);
    float value = magnitude < 0x400 ? (float) magnitude / 16777216.0f : float_of ((magnitude << 13) + (112u << 23));
    return sign ? -value : value;
}

static double
number_of (int of_rank, size_t i, uint32_t seed, enum accel_dtype dtype)
{
    uint32_t bits = random_of ((uint32_t) i * 2654435761u ^ (uint32_t) of_rank << 24 ^ seed);
    double value = dtype == ACCEL_BOOL         ? bits & 1
                   : dtype > ACCEL_BFLOAT16    ? bits % 3 + 1
                   : dtype == ACCEL_FLOAT16    ? (double) (int32_t) bits / 4194304.0
                                               : (double) (int32_t) bits / 65536.0;
    return dtype == ACCEL_FLOAT16 || dtype == ACCEL_BFLOAT16 ? widened (narrowed ((float) value, dtype), dtype) : value;
}

static void
put (void *buffer, size_t i, enum accel_dtype dtype, double value)
{
    switch ((int) dtype) {
    case ACCEL_FLOAT32: ((float *) buffer)[i] = (float) value; break;
    case ACCEL_FLOAT16:
    case ACCEL_BFLOAT16: ((uint16_t *) buffer)[i] = narrowed ((float) value, dtype); break;
    case ACCEL_FLOAT64: ((double *) buffer)[i] = value; break;
    case ACCEL_INT32: ((int32_t *) buffer)[i] = (int32_t) value; break;
    case ACCEL_INT64: ((int64_t *) buffer)[i] = (int64_t) value; break;
    default: ((int8_t *) buffer)[i] = (int8_t) value; break;
    }
}

/* 16-bit ones are added in float32, and rounded at the end. */
static bool
is_single (enum accel_dtype dtype)
{
    return dtype == ACCEL_FLOAT32 || dtype == ACCEL_FLOAT16 || dtype == ACCEL_BFLOAT16;
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
    return is_single (dtype) ? (float) result : result;
}

static double
expected_of (size_t i, uint32_t seed, enum accel_dtype dtype, enum accel_op op)
{
    double sum = is_single (dtype) ? (float) number_of (0, i, seed, dtype) : number_of (0, i, seed, dtype);
    for (int r = 1; r < size; r++)
        sum = combine (sum, is_single (dtype) ? (float) number_of (r, i, seed, dtype)
                                              : number_of (r, i, seed, dtype), dtype, op);
    if (op == ACCEL_AVG)
        sum = is_single (dtype) ? (float) sum / (float) size : sum / size;
    return sum;
}

/* ---- one call ---- */

struct call {
    enum accel_dtype dtype;
    enum accel_op op;
    size_t count;
    bool scatters; /* a reduce-scatter, with so many elements in a row */
    bool in_place;
    uint32_t seed;
    void *send, *recv, *sent; /* what `send` had */
    bool own[2];
    struct accel_work *work;
};

enum { PART = 1024 };
static uint64_t hashes; /* of the results of all calls, in any order */

static uint64_t
hash_of (const void *bytes, size_t count, uint64_t hash)
{
    uint64_t word = 0;
    for (const char *at = bytes; count; at += sizeof word) {
        size_t some = count < sizeof word ? count : sizeof word;
        memcpy (&word, at, some);
        hash = (hash ^ word) * UINT64_C (0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
        count -= some;
    }
    return hash;
}

static void *
get_buffer (size_t bytes, bool own)
{
    void *memory = NULL;
    if (own)
        must (accel_alloc (acc, bytes, &memory, &err), "accel_alloc");
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
    size_t row = call->count * accel_dtype_bytes (call->dtype), bytes = row * (call->scatters ? (size_t) size : 1);
    call->own[0] = random_of (call->seed ^ (uint32_t) rank) & 4;
    call->own[1] = random_of (call->seed ^ (uint32_t) rank) & 8;
    call->send = get_buffer (bytes, call->own[0]);
    call->recv = !call->in_place  ? get_buffer (row, call->own[1])
                 : call->scatters ? (char *) call->send + (size_t) rank * row
                                  : call->send;
    for (size_t i = 0; i < call->count * (call->scatters ? (size_t) size : 1); i++)
        put (call->send, i, call->dtype, number_of (rank, i, call->seed, call->dtype));
    call->sent = malloc (bytes);
    memcpy (call->sent, call->send, bytes);
}

/* @return the first wrong element of those that this rank checks: its row, or its parts; @count: there is none */
static size_t
find_wrong (const struct call *call)
{
    size_t unit = accel_dtype_bytes (call->dtype), first = call->scatters ? (size_t) rank * call->count : 0;
    size_t step = call->scatters ? PART : PART * (size_t) size;
    unsigned char wanted[8];
    for (size_t begin = call->scatters ? 0 : PART * (size_t) rank; begin < call->count; begin += step)
        for (size_t i = begin; i < begin + PART && i < call->count; i++) {
            put (wanted, 0, call->dtype, expected_of (first + i, call->seed, call->dtype, call->op));
            if (memcmp ((char *) call->recv + i * unit, wanted, unit))
                return i;
        }
    return call->count;
}

/* What was sent, but for the result if it is there. */
static bool
is_kept (const struct call *call)
{
    size_t row = call->count * accel_dtype_bytes (call->dtype), own = call->scatters ? (size_t) rank * row : 0;
    size_t bytes = row * (call->scatters ? (size_t) size : 1), after = own + row;
    const char *now = call->send, *before = call->sent;
    return call->in_place ? !memcmp (now, before, own) && !memcmp (now + after, before + after, bytes - after)
                          : !memcmp (now, before, bytes);
}

static void
check (struct call *call)
{
    size_t wrong = find_wrong (call);
    bool kept = is_kept (call);
    if (wrong < call->count || !kept) {
        fprintf (stderr, "rank %d: WRONG: %s, operation %d%s, %zu of %zu%s\n", rank, accel_dtype_name (call->dtype),
                 (int) call->op, call->scatters ? ", scattered" : "", wrong, call->count,
                 kept ? "" : ", and what was sent");
        failures++;
    }
    if (!call->scatters)
        hashes += hash_of (call->recv, call->count * accel_dtype_bytes (call->dtype), call->seed + 1);
    free (call->sent);
    calls++;
    if (!call->in_place)
        give_buffer (call->recv, call->own[1]);
    give_buffer (call->send, call->own[0]);
}

static void
compare_hashes (void)
{
    uint64_t all[MOST_RANKS];
    must (accel_comm_all_gather (world, &hashes, all, 1, ACCEL_INT64, &err), "hashes");
    for (int i = 0; i < size; i++)
        if (all[i] != hashes) {
            fprintf (stderr, "rank %d: WRONG: rank %d has other results\n", rank, i);
            failures++;
        }
}

static void
run (struct call *call)
{
    fill (call);
    if (call->scatters)
        must (accel_comm_reduce_scatter (world, call->send, call->recv, call->count, call->dtype, call->op, &err),
              "reduce-scatter");
    else
        must (accel_comm_all_reduce (world, call->send, call->recv, call->count, call->dtype, call->op, &err),
              "all-reduce");
    check (call);
}

/* Rows of a reduce-scatter are shorter. */
static void
one_by_one (bool scatters)
{
    static const enum accel_dtype dtypes[] = { ACCEL_FLOAT32, ACCEL_FLOAT64, ACCEL_INT32, ACCEL_INT64,
                                                ACCEL_BOOL,    ACCEL_FLOAT16, ACCEL_BFLOAT16 };
    static const size_t bytes[] = { 256 << 10, (256 << 10) + 8, (1 << 20) - 64, (1 << 20) + 72, (2 << 20) + 8 };
    for (uint32_t i = 0; i < (scatters ? 1 : 2) * sizeof bytes / sizeof *bytes * sizeof dtypes / sizeof *dtypes; i++) {
        struct call call = { .dtype = dtypes[i % 7], .op = (enum accel_op) (i % ACCEL_OP_COUNT), .seed = i,
                             .in_place = i & 1, .scatters = scatters };
        if (call.op == ACCEL_AVG && call.dtype > ACCEL_BFLOAT16)
            call.op = ACCEL_SUM;
        call.count = bytes[i / 7 % 5] / accel_dtype_bytes (call.dtype) / (scatters ? 3 : 1);
        run (&call);
    }
}

static void
start (struct call *call)
{
    fill (call);
    if (call->scatters)
        must (accel_comm_reduce_scatter_start (&call->work, world, call->send, call->recv, call->count, call->dtype,
                                               call->op, &err), "start");
    else
        must (accel_comm_all_reduce_start (&call->work, world, call->send, call->recv, call->count, call->dtype,
                                           call->op, &err), "start");
}

/* Small ones, which go another way, are among them. */
static void
in_flight (bool some_scatter)
{
    for (uint32_t round = 0; round < (in_group ? 1u : 3u); round++) {
        struct call several[SEVERAL];
        for (uint32_t i = 0; i < SEVERAL; i++) {
            uint32_t number = random_of (round * SEVERAL + i);
            several[i] = (struct call){ .dtype = ACCEL_FLOAT32, .op = i & 1 ? ACCEL_SUM : ACCEL_AVG, .seed = number,
                                        .in_place = number & 1 };
            several[i].count = number % 4 == 2 ? number % 1000 + 1 : (256 << 10) + number % (1 << 18);
            several[i].scatters = some_scatter && i % 3;
            if (several[i].scatters)
                several[i].count = several[i].count / 4 + 1;
            start (&several[i]);
        }
        for (uint32_t i = 0; i < SEVERAL; i++) {
            struct call *call = &several[(i * 2 + (uint32_t) rank) % SEVERAL];
            must (accel_work_wait (call->work, &err), "wait");
            check (call);
        }
    }
}

/* ---- broadcasts and all-gathers ---- */

struct copy {
    size_t count;
    int root; /* -1: an all-gather */
    bool own;
    uint32_t seed, *values;
    struct accel_work *work;
};

static uint32_t
part_of (const struct copy *copy, int of_rank, size_t i)
{
    return random_of ((uint32_t) i * 2654435761u ^ (uint32_t) of_rank << 24 ^ copy->seed);
}

static void
start_copy (struct copy *copy)
{
    size_t parts = copy->root < 0 ? (size_t) size : 1, at = copy->root < 0 ? (size_t) rank * copy->count : 0;
    copy->values = get_buffer (parts * copy->count * sizeof *copy->values, copy->own);
    memset (copy->values, 0, parts * copy->count * sizeof *copy->values);
    for (size_t i = 0; (copy->root < 0 || copy->root == rank) && i < copy->count; i++)
        copy->values[at + i] = part_of (copy, rank, i);
    if (copy->root < 0)
        must (accel_comm_all_gather_start (&copy->work, world, copy->values + at, copy->values, copy->count,
                                           ACCEL_INT32, &err), "all-gather");
    else
        must (accel_comm_broadcast_start (&copy->work, world, copy->values, copy->count, ACCEL_INT32, copy->root,
                                          &err), "broadcast");
}

static void
end_copy (struct copy *copy)
{
    must (accel_work_wait (copy->work, &err), "wait");
    for (int part = 0; part < (copy->root < 0 ? size : 1); part++)
        for (size_t i = 0; i < copy->count; i++)
            if (copy->values[(size_t) part * copy->count + i]
                != part_of (copy, copy->root < 0 ? part : copy->root, i)) {
                fprintf (stderr, "rank %d: WRONG: %s of %zu, element %zu of rank %d\n", rank,
                         copy->root < 0 ? "all-gather" : "broadcast", copy->count, i, part);
                failures++;
                i = copy->count - 1;
            }
    calls++;
    give_buffer (copy->values, copy->own);
}

/* Some go from rank to rank, because one rank's buffer is the program's, or they are small. */
static void
copies (void)
{
    for (uint32_t round = 0; round < (in_group ? 2u : 6u); round++) {
        struct copy copies[SEVERAL - 1];
        struct call sum = { .dtype = ACCEL_FLOAT32, .op = ACCEL_SUM, .seed = round, .count = 100000 };
        for (uint32_t i = 0; i < SEVERAL - 1; i++) {
            uint32_t number = random_of (round * SEVERAL + i);
            copies[i] = (struct copy){ .count = (16 << 10) + number % (200 << 10), .seed = number };
            copies[i].root = (int) (number >> 8) % (2 * size) < size ? (int) (number >> 8) % size : -1;
            copies[i].own = number % 8 || rank != (int) i % size;
            copies[i].count = number % 5 ? copies[i].count : number % 20000 + 1;
            start_copy (&copies[i]);
            if (i == 4)
                start (&sum);
        }
        must (accel_work_wait (sum.work, &err), "wait");
        check (&sum);
        for (uint32_t i = 0; i < SEVERAL - 1; i++)
            end_copy (&copies[(i * 3 + (uint32_t) rank) % (SEVERAL - 1)]);
    }
}

/* A call has the place of the one OUTBOX_SLOTS before it in the outboxes of the first host, while the other one still
 * waits for the last rank, and longer than until the others learn which rank is missing. */
static void
ahead (void)
{
    struct accel_work *works[AHEAD];
    int32_t sums[AHEAD];
    must (accel_comm_barrier (world, &err), "barrier");
    if (rank == size - 1)
        usleep (600000);
    for (int i = 0; i < AHEAD; i++) {
        if (rank == 1 && i == AHEAD / 2)
            usleep (300000);
        sums[i] = i + 1;
        must (accel_comm_all_reduce_start (&works[i], world, &sums[i], &sums[i], 1, ACCEL_INT32, ACCEL_SUM, &err),
              "start");
    }
    for (int i = 0; i < AHEAD; i++, calls++) {
        must (accel_work_wait (works[i], &err), "wait");
        if (sums[i] == (i + 1) * size)
            continue;
        fprintf (stderr, "rank %d: WRONG: sum %d is %d\n", rank, i, (int) sums[i]);
        failures++;
    }
}

/* ---- memory ---- */

/* @return KiB of the memory that this rank shares; 0: none */
static int32_t
measure_shared (void)
{
    char path[300], target[300];
    struct stat file;
    int32_t shared = 0;
    DIR *entries = opendir ("/proc/self/fd");
    for (const struct dirent *entry; entries && (entry = readdir (entries));) {
        snprintf (path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        ssize_t length = readlink (path, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        if (strstr (target, "memfd:accel-mpi") && !stat (path, &file))
            shared = (int32_t) (file.st_blocks / 2);
    }
    closedir (entries);
    return shared;
}

/* @return whether memory of a job that is closed is still mapped */
static bool
is_mapped (void)
{
    char line[500];
    bool found = false;
    FILE *maps = fopen ("/proc/self/maps", "r");
    while (maps && fgets (line, sizeof line, maps))
        found = found || strstr (line, "memfd:accel-mpi");
    fclose (maps);
    return found;
}

static int32_t
sum_of (int32_t number)
{
    must (accel_comm_all_reduce (world, &number, &number, 1, ACCEL_INT32, ACCEL_SUM, &err), "sum");
    return number;
}

/* ---- groups ---- */

static void
enter (struct accel_comm *comm)
{
    world = comm;
    rank = accel_comm_rank (comm);
    size = accel_comm_size (comm);
}

/* A sum of the world is in flight meanwhile.  @return KiB that all ranks see in their memory because of the group */
static int32_t
use_group (int colour, int key)
{
    struct accel_comm *all = world, *group;
    struct call beside = { .dtype = ACCEL_FLOAT32, .op = ACCEL_SUM, .seed = 77, .count = 300000 };
    int32_t before = sum_of (measure_shared ());
    must (accel_comm_split (&group, all, colour, key, &err), "split");
    for (int i = 0; i < 2; i++) {
        uint64_t of_all = hashes;
        start (&beside);
        enter (group);
        in_group = true;
        hashes = 0;
        if (i)
            copies ();
        else
            in_flight (true);
        compare_hashes ();
        enter (all);
        in_group = false;
        hashes = of_all;
        must (accel_work_wait (beside.work, &err), "wait");
        check (&beside);
    }
    int32_t during = sum_of (measure_shared ());
    accel_comm_destroy (group);
    must (accel_comm_barrier (all, &err), "barrier");
    must (accel_comm_barrier (all, &err), "barrier"); /* by now, each rank has begun a call after all have left */
    int32_t after = sum_of (measure_shared ());
    if (after - before >= MEBI * size) { /* what is smaller than 64 KiB keeps its pages */
        fprintf (stderr, "rank %d: WRONG: a group leaves %d KiB behind\n", rank, (int) (after - before));
        failures++;
    }
    return during - before;
}

/* @return the most KiB that a group adds to the memory of a rank */
static int32_t
use_groups (void)
{
    int own = rank;
    int32_t most = 0;
    for (int i = 0; i < 3; i++) {
        int32_t added = use_group (i == 2 ? 0 : i ? own % 2 : own / 2, own);
        most = added > most ? added : most;
    }
    return most;
}

/* @return a group of all that has memory */
static struct accel_comm *
make_group (void)
{
    enum { COUNT = 100000 };
    struct accel_comm *group;
    int32_t *values = calloc (COUNT, sizeof *values);
    must (accel_comm_split (&group, world, 0, rank, &err), "split");
    must (accel_comm_all_reduce (group, values, values, COUNT, ACCEL_INT32, ACCEL_SUM, &err), "sum of a group");
    free (values);
    return group;
}

/* Destroys @group, and does with memory what no other process may see. */
static void
run_child (struct accel_comm *group, unsigned char *memory, size_t bytes)
{
    pid_t child = fork ();
    if (!child) {
        accel_comm_destroy (group);
        accel_free (acc, memory);
        must (accel_alloc (acc, bytes, (void **) &memory, &err), "accel_alloc");
        memset (memory, 2, bytes);
        _exit (0);
    }
    waitpid (child, NULL, 0);
}

/* Rank 0 does so last, but a child of it does before. */
static void
leave_group (void)
{
    enum { BYTES = 1 << 20 };
    struct accel_comm *group = make_group ();
    unsigned char *memory = NULL;
    if (!rank) {
        must (accel_alloc (acc, BYTES, (void **) &memory, &err), "accel_alloc");
        memset (memory, 1, BYTES);
    }
    int32_t during = measure_shared ();
    if (!rank)
        run_child (group, memory, BYTES);
    must (accel_comm_barrier (world, &err), "barrier");
    if (rank)
        accel_comm_destroy (group);
    must (accel_comm_barrier (world, &err), "barrier");
    must (accel_comm_barrier (world, &err), "barrier"); /* those who have left have begun a call since */
    if (rank)
        return;
    if (during - measure_shared () >= MEBI || memory[0] != 1 || memcmp (memory, memory + 1, BYTES - 1)) {
        fprintf (stderr, "rank %d: WRONG: a child of this rank changes its memory or gives back what it reads\n", rank);
        failures++;
    }
    accel_comm_destroy (group);
    accel_free (acc, memory);
}

/* The first group ends in the next job, where its memory has become another buffer; the second one after all jobs. */
static void
outlive_job (void)
{
    enum { BYTES = 8 << 20 };
    struct accel_comm *first, *second;
    unsigned char *memory;
    open_job ();
    first = make_group ();
    accel_close (acc);
    open_job ();
    must (accel_alloc (acc, BYTES, (void **) &memory, &err), "accel_alloc");
    memset (memory, 1, BYTES);
    accel_comm_destroy (first);
    if (!memory[0] || memcmp (memory, memory + 1, BYTES - 1)) {
        fprintf (stderr, "rank %d: WRONG: a group of the job before clears memory of this one\n", rank);
        failures++;
    }
    accel_free (acc, memory);
    second = make_group ();
    accel_close (acc);
    if (is_mapped ()) {
        fprintf (stderr, "rank %d: WRONG: memory of the job is still mapped\n", rank);
        failures++;
    }
    accel_comm_destroy (second);
}

int
main (int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    int rounds = !strcmp (how, "opens") ? 3 : 1;
    int32_t sharers = 0, added = 0;
    char engine[64] = "";
    while (rounds--) {
        open_job ();
        rank = accel_comm_rank (world);
        size = accel_comm_size (world);
        snprintf (engine, sizeof engine, "%s", accel_comm_engine (world));
        if (!strcmp (how, "copies"))
            copies ();
        else if (!strcmp (how, "ahead"))
            ahead ();
        else if (!strcmp (how, "calls"))
            one_by_one (false);
        else if (!strcmp (how, "scatter"))
            one_by_one (true), in_flight (true);
        else if (!strcmp (how, "groups"))
            added = use_groups (), leave_group ();
        else
            in_flight (false);
        if (strcmp (how, "ahead"))
            compare_hashes ();
        sharers = sum_of (measure_shared () > 0);
        accel_close (acc);
    }
    if (!strcmp (how, "groups"))
        outlive_job ();
    if (rank == 0)
        printf ("%s, %d ranks, %d of which share memory: %d calls%s\n", engine, size, (int) sharers, calls,
                added >= MEBI ? ", groups do so, too" : "");
    return failures ? 1 : 0;
}
