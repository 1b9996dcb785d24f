/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of the conformance test: every collective with every type, operation, size and kind of buffer, compared bit
 * for bit with a serial computation that each rank makes for itself from the inputs of all.  Run by run.sh.
 *
 *   conformance [SEED]    exit status 0 and, on rank 0, one line with the number of cases */
#include <config.h>

#include <accel/accel.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LARGEST = 100003, MOST_RANKS = 16, PAD = 16 };

static struct accel *acc;
static struct accel_comm *world;
static struct accel_error err;
static int rank, size;
static uint64_t seed;
static unsigned cases;
static unsigned char *foreign, *own, *inputs[MOST_RANKS], *wanted;

static void
fail (const char *what, const char *why)
{
    fprintf (stderr, "rank %d of %d, case %u, %s: %s\n", rank, size, cases, what, why);
    exit (1);
}

#define MUST(call)                                                                                                     \
    do {                                                                                                               \
        if (call)                                                                                                      \
            fail (#call, err.text);                                                                                    \
    } while (0)
#define SHALL(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            fail (#condition, "is false");                                                                             \
    } while (0)

/* SplitMix64 (G. L. Steele, D. Lea, C. H. Flood, 2014) of three numbers. */
static uint64_t
mix (uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t z = seed + a * UINT64_C (0x9e3779b97f4a7c15) + b * UINT64_C (0xbf58476d1ce4e5b9) + c + 1;
    z = (z ^ z >> 30) * UINT64_C (0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C (0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* ---- 16-bit floats, slowly and by their definition ---- */

static float
from_half (uint16_t half)
{
    int exponent = half >> 10 & 31, mantissa = half & 1023;
    double value = exponent == 31 ? (mantissa ? NAN : INFINITY)
                   : exponent   ? ldexp (1024 + mantissa, exponent - 25)
                                : ldexp (mantissa, -24);
    return (float) (half & 0x8000 ? -value : value);
}

static uint16_t
to_half (float value)
{
    uint16_t sign = signbit (value) ? 0x8000 : 0;
    double magnitude = fabs ((double) value);
    if (isnan (value))
        return 0x7e00;
    if (magnitude >= 65520)
        return (uint16_t) (sign | 0x7c00);
    if (magnitude < 0x1p-14)
        return (uint16_t) (sign | (uint16_t) rint (magnitude * 0x1p24));
    int exponent;
    double fraction = frexp (magnitude, &exponent);
    return (uint16_t) (sign | ((exponent + 14) * 1024 + (int) rint ((fraction * 2 - 1) * 1024)));
}

static float
from_bfloat (uint16_t bits)
{
    uint32_t wide = (uint32_t) bits << 16;
    float value;
    memcpy (&value, &wide, 4);
    return value;
}

static uint16_t
to_bfloat (float value)
{
    uint32_t bits;
    memcpy (&bits, &value, 4);
    uint32_t high = bits >> 16, low = bits & 0xffff;
    if (isnan (value))
        return 0x7fc0;
    return (uint16_t) (high + (low > 0x8000 || (low == 0x8000 && (high & 1))));
}

/* ---- the serial computation ---- */

static double
operate (enum accel_op op, double a, double b)
{
    switch (op) {
    case ACCEL_MIN: return isnan (a) || isnan (b) ? NAN : b < a ? b : a; /* the first of equals: zeros have signs */
    case ACCEL_MAX: return isnan (a) || isnan (b) ? NAN : b > a ? b : a;
    case ACCEL_PROD: return a * b;
    default: return a + b;
    }
}

/* In float32 throughout: a double product or sum of two floats, rounded once, is the float32 one. */
static float
reduce_floats (enum accel_dtype dtype, enum accel_op op, size_t i)
{
    float sum = 0;
    for (int r = 0; r < size; r++) {
        uint16_t bits;
        float next;
        if (dtype == ACCEL_FLOAT32)
            memcpy (&next, inputs[r] + i * 4, 4);
        else {
            memcpy (&bits, inputs[r] + i * 2, 2);
            next = dtype == ACCEL_FLOAT16 ? from_half (bits) : from_bfloat (bits);
        }
        sum = r ? (float) operate (op, sum, next) : next;
    }
    return op == ACCEL_AVG && size > 1 ? sum / (float) size : sum;
}

static double
reduce_doubles (enum accel_op op, size_t i)
{
    double sum = 0;
    for (int r = 0; r < size; r++) {
        double next;
        memcpy (&next, inputs[r] + i * 8, 8);
        sum = r ? operate (op, sum, next) : next;
    }
    return op == ACCEL_AVG && size > 1 ? sum / size : sum;
}

/* Of any width: sums and products wrap alike, comparisons are made in int64_t. */
static int64_t
read_integer (enum accel_dtype dtype, const unsigned char *at)
{
    int64_t wide;
    int32_t word;
    switch (dtype) {
    case ACCEL_INT8: return (int8_t) *at;
    case ACCEL_INT32: memcpy (&word, at, 4); return word;
    case ACCEL_INT64: memcpy (&wide, at, 8); return wide;
    default: return *at;
    }
}

static int64_t
reduce_integers (enum accel_dtype dtype, enum accel_op op, size_t i)
{
    size_t bytes = accel_dtype_bytes (dtype);
    int64_t sum = 0;
    for (int r = 0; r < size; r++) {
        int64_t next = read_integer (dtype, inputs[r] + i * bytes);
        if (dtype == ACCEL_BOOL) {
            next = next != 0;
            sum = !r ? next : op == ACCEL_SUM || op == ACCEL_MAX ? sum | next : sum & next;
        } else if (!r)
            sum = next;
        else if (op == ACCEL_MIN || op == ACCEL_MAX)
            sum = (op == ACCEL_MIN) == (next < sum) ? next : sum;
        else
            sum = (int64_t) (op == ACCEL_SUM ? (uint64_t) sum + (uint64_t) next : (uint64_t) sum * (uint64_t) next);
    }
    return sum;
}

static void
reduce_serially (enum accel_dtype dtype, enum accel_op op, size_t count)
{
    size_t bytes = accel_dtype_bytes (dtype);
    for (size_t i = 0; i < count; i++) {
        unsigned char *to = wanted + i * bytes;
        if (dtype == ACCEL_FLOAT64) {
            double value = reduce_doubles (op, i);
            memcpy (to, &value, 8);
        } else if (dtype == ACCEL_FLOAT32 || dtype == ACCEL_FLOAT16 || dtype == ACCEL_BFLOAT16) {
            float value = reduce_floats (dtype, op, i);
            uint16_t narrow = dtype == ACCEL_FLOAT16 ? to_half (value) : to_bfloat (value);
            memcpy (to, dtype == ACCEL_FLOAT32 ? (void *) &value : (void *) &narrow, bytes);
        } else {
            int64_t value = reduce_integers (dtype, op, i);
            memcpy (to, &value, bytes); /* little-endian: the low bytes come first */
        }
    }
}

/* ---- inputs and comparison ---- */

/* Random numbers of both signs; among them, in every 61st place, what is special about the type. */
static void
make_element (enum accel_dtype dtype, uint64_t random, unsigned char *to)
{
    static const float specials[] = { NAN, INFINITY, -INFINITY, -0.0F, 1e-40F, 65504, 3e38F, 0 };
    float value = (float) ((double) (int64_t) random * 0x1p-61);
    if (random % 61 == 0)
        value = specials[random / 61 % 8];
    double wide = (double) value * (1 + (double) (random & 0xffff) * 0x1p-40);
    uint16_t narrow = dtype == ACCEL_FLOAT16 ? to_half (value) : to_bfloat (value);
    switch (dtype) {
    case ACCEL_FLOAT32: memcpy (to, &value, 4); return;
    case ACCEL_FLOAT64: memcpy (to, &wide, 8); return;
    case ACCEL_FLOAT16:
    case ACCEL_BFLOAT16: memcpy (to, &narrow, 2); return;
    case ACCEL_BOOL: *to = random % 3; return;
    default: memcpy (to, &random, accel_dtype_bytes (dtype));
    }
}

static void
make_inputs (enum accel_dtype dtype, size_t count)
{
    for (int r = 0; r < size; r++)
        for (size_t i = 0; i < count; i++)
            make_element (dtype, mix (cases, (uint64_t) r, i), inputs[r] + i * accel_dtype_bytes (dtype));
}

static bool
is_nan (enum accel_dtype dtype, const unsigned char *at)
{
    float value;
    double wide;
    uint16_t bits;
    memcpy (&bits, at, 2);
    switch (dtype) {
    case ACCEL_FLOAT32: memcpy (&value, at, 4); return isnan (value);
    case ACCEL_FLOAT64: memcpy (&wide, at, 8); return isnan (wide);
    case ACCEL_FLOAT16: return (bits & 0x7fff) > 0x7c00;
    case ACCEL_BFLOAT16: return (bits & 0x7fff) > 0x7f80;
    default: return false;
    }
}

/* Equal bits; NaNs are all alike. */
static void
compare (const char *call, enum accel_dtype dtype, int op, const unsigned char *got, const unsigned char *right,
         size_t count)
{
    size_t bytes = accel_dtype_bytes (dtype);
    for (size_t i = 0; i < count; i++) {
        const unsigned char *a = got + i * bytes, *b = right + i * bytes;
        if (!memcmp (a, b, bytes) || (is_nan (dtype, a) && is_nan (dtype, b)))
            continue;
        uint64_t one = 0, two = 0;
        memcpy (&one, a, bytes);
        memcpy (&two, b, bytes);
        fprintf (stderr, "rank %d of %d, case %u: %s of %zu %s, op %d: element %zu is %#llx, not %#llx\n", rank, size,
                 cases, call, count, accel_dtype_name (dtype), op, i, (unsigned long long) one,
                 (unsigned long long) two);
        exit (1);
    }
}

/* ---- the cases ---- */

/* Where a case's buffers are: both foreign, both own, or differently on each rank; in place or not; not always aligned
 * to more than an element. */
struct buffers {
    unsigned char *send, *recv;
};

static struct buffers
choose_buffers (unsigned kind, bool in_place, size_t element)
{
    bool is_own = kind == 1 || (kind == 2 && rank % 2);
    unsigned char *base = (is_own ? own : foreign) + (cases % 3) * element;
    size_t half = (size_t) (LARGEST + PAD) * 8;
    struct buffers buffers = { .send = base, .recv = in_place ? base : base + half };
    if (kind == 3 && !in_place) /* sends foreign memory and receives in its own */
        buffers.recv = own + half;
    return buffers;
}

/* Ranks come at different times, now and then. */
static void
dawdle (void)
{
    if (mix (cases, 77, (uint64_t) rank) % 97 == 0)
        usleep ((useconds_t) (mix (cases, 78, (uint64_t) rank) % 3000));
    cases++;
}

static void
try_all_reduce (enum accel_dtype dtype, enum accel_op op, size_t count, unsigned kind)
{
    size_t bytes = accel_dtype_bytes (dtype);
    dawdle ();
    make_inputs (dtype, count);
    struct buffers buffers = choose_buffers (kind, cases % 2, bytes);
    memcpy (buffers.send, inputs[rank], count * bytes);
    MUST (accel_comm_all_reduce (world, buffers.send, buffers.recv, count, dtype, op, &err));
    reduce_serially (dtype, op, count);
    compare ("all_reduce", dtype, op, buffers.recv, wanted, count);
    if (buffers.send != buffers.recv)
        SHALL (!memcmp (buffers.send, inputs[rank], count * bytes));
}

static void
try_reduce_scatter (enum accel_dtype dtype, enum accel_op op, size_t total, unsigned kind)
{
    size_t bytes = accel_dtype_bytes (dtype), count = total / (size_t) size;
    dawdle ();
    make_inputs (dtype, count * (size_t) size);
    struct buffers buffers = choose_buffers (kind, false, bytes);
    if (cases % 2)
        buffers.recv = buffers.send + (size_t) rank * count * bytes;
    memcpy (buffers.send, inputs[rank], count * (size_t) size * bytes);
    MUST (accel_comm_reduce_scatter (world, buffers.send, buffers.recv, count, dtype, op, &err));
    reduce_serially (dtype, op, count * (size_t) size);
    compare ("reduce_scatter", dtype, op, buffers.recv, wanted + (size_t) rank * count * bytes, count);
}

static void
try_all_gather (enum accel_dtype dtype, size_t total, unsigned kind)
{
    size_t bytes = accel_dtype_bytes (dtype), count = total / (size_t) size;
    dawdle ();
    make_inputs (dtype, count);
    struct buffers buffers = choose_buffers (kind, false, bytes);
    if (cases % 2)
        buffers.send = buffers.recv + (size_t) rank * count * bytes;
    memcpy (buffers.send, inputs[rank], count * bytes);
    MUST (accel_comm_all_gather (world, buffers.send, buffers.recv, count, dtype, &err));
    for (int r = 0; r < size; r++)
        compare ("all_gather", dtype, -1, buffers.recv + (size_t) r * count * bytes, inputs[r], count);
}

static void
try_broadcast (enum accel_dtype dtype, size_t count, unsigned kind, int root)
{
    size_t bytes = accel_dtype_bytes (dtype);
    dawdle ();
    make_inputs (dtype, count);
    struct buffers buffers = choose_buffers (kind, true, bytes);
    memcpy (buffers.send, inputs[rank], count * bytes);
    MUST (accel_comm_broadcast (world, buffers.send, count, dtype, root, &err));
    compare ("broadcast", dtype, -1, buffers.send, inputs[root], count);
}

static void
try_size (enum accel_dtype dtype, size_t count)
{
    for (unsigned kind = 0; kind < 4; kind++) {
        for (int op = 0; op < ACCEL_OP_COUNT; op++) {
            bool is_float = dtype == ACCEL_FLOAT32 || dtype == ACCEL_FLOAT64 || dtype == ACCEL_FLOAT16
                            || dtype == ACCEL_BFLOAT16;
            if (op == ACCEL_AVG && !is_float)
                continue;
            if (count > 5000 && op != ACCEL_SUM && (op + (int) kind + (int) dtype) % 4)
                continue; /* the loops are the same; a few of them shall do */
            try_all_reduce (dtype, (enum accel_op) op, count, kind);
            try_reduce_scatter (dtype, (enum accel_op) op, count, kind);
        }
        try_all_gather (dtype, count, kind);
        try_broadcast (dtype, count, kind, (int) (mix (cases, 3, 4) % (uint64_t) size));
        MUST (accel_comm_barrier (world, &err));
    }
}

/* ---- tensors, triggers, who runs what ---- */

static void
try_tensors (void)
{
    struct accel_tensor tensor, all = { 0 };
    int64_t number = rank + 10, shape[] = { 2, 3, 4 };
    double values[24];
    MUST (accel_tensor_init (&tensor, ACCEL_INT64, 0, NULL, &err));
    tensor.dl.data = &number;
    MUST (accel_gather (acc, &tensor.dl, &all, &err));
    SHALL (all.dl.ndim == 1 && all.dl.shape[0] == size);
    for (int r = 0; r < size; r++)
        SHALL (((int64_t *) all.dl.data)[r] == r + 10);
    MUST (accel_broadcast (acc, &tensor.dl, size - 1, &err));
    SHALL (number == size + 9);
    MUST (accel_tensor_init (&tensor, ACCEL_FLOAT64, 3, shape, &err));
    tensor.dl.data = values;
    for (int i = 0; i < 24; i++)
        values[i] = rank + i;
    MUST (accel_gather (acc, &tensor.dl, &all, &err));
    SHALL (all.dl.ndim == 3 && all.dl.shape[0] == 2 * size && all.dl.shape[1] == 3 && all.dl.shape[2] == 4);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < 24; i++)
            SHALL (((double *) all.dl.data)[r * 24 + i] == r + i);
    MUST (accel_reduce (acc, &tensor.dl, ACCEL_MAX, &err));
    SHALL (values[5] == size - 1 + 5);
    shape[1] = 0;
    MUST (accel_tensor_init (&tensor, ACCEL_FLOAT64, 3, shape, &err));
    MUST (accel_gather (acc, &tensor.dl, &all, &err));
    SHALL (all.dl.shape[0] == 2 * size && accel_tensor_count (&all.dl) == 0);
    accel_tensor_release (&all);
    cases += 6;
}

static void
count_up (void *user)
{
    ++*(int64_t *) user;
}

/* How often a task ran on all ranks together. */
static int64_t
total_of (int64_t count)
{
    MUST (accel_comm_all_reduce (world, &count, &count, 1, ACCEL_INT64, ACCEL_SUM, &err));
    return count;
}

static void
try_control (void)
{
    int64_t runs = 0;
    bool fired = true;
    SHALL (accel_on_main_process (acc, count_up, &runs) == (rank == 0 || size == 1));
    SHALL (total_of (runs) == 1);
    runs = 0;
    SHALL (accel_on_last_process (acc, count_up, &runs) == (rank == size - 1));
    accel_on_process (acc, size / 2, count_up, &runs);
    accel_on_local_main_process (acc, count_up, &runs);
    accel_on_local_process (acc, size - 1, count_up, &runs);
    SHALL (total_of (runs) == 4);
    runs = 0;
    MUST (accel_main_process_first (acc, count_up, &runs, &err));
    MUST (accel_local_main_process_first (acc, count_up, &runs, &err));
    SHALL (runs == 2);
    MUST (accel_check_trigger (acc, &fired, &err));
    SHALL (!fired);
    if (rank == size / 2)
        accel_set_trigger (acc);
    MUST (accel_check_trigger (acc, &fired, &err));
    SHALL (fired);
    MUST (accel_check_trigger (acc, &fired, &err));
    SHALL (!fired);
    for (size_t length = 0; length < 20; length++) {
        struct accel_split split = accel_split_between_processes (acc, length, false);
        struct accel_split even = accel_split_between_processes (acc, length, true);
        size_t most = (length + (size_t) size - 1) / (size_t) size;
        SHALL (total_of ((int64_t) (split.end - split.begin)) == (int64_t) length);
        SHALL (!length || size == 1 || even.end - even.begin + even.padding == most);
    }
    cases += 30;
}

/* ---- opening and closing ---- */

static void
open_job (void)
{
    MUST (accel_open (&acc, NULL, &err));
    world = accel_world (acc);
    rank = accel_process_index (acc);
    size = accel_num_processes (acc);
    SHALL (size <= MOST_RANKS && rank == accel_comm_rank (world) && size == accel_comm_size (world));
    SHALL (accel_local_process_index (acc) == rank && accel_local_num_processes (acc) == size);
    SHALL (accel_is_main_process (acc) == (rank == 0) && accel_is_last_process (acc) == (rank == size - 1));
    SHALL (accel_use_distributed (acc) == (size > 1));
    SHALL (accel_distributed_type (acc) == (size > 1 ? ACCEL_DISTRIBUTED_MULTI_CPU : ACCEL_DISTRIBUTED_NO));
}

/* Memory is zero when it comes, also where it was used before; blocks do not overlap. */
static void
try_memory (void)
{
    void *blocks[40] = { 0 };
    for (unsigned i = 0; i < 400; i++) {
        unsigned slot = (unsigned) (mix (i, 5, (uint64_t) rank) % 40);
        size_t bytes = (size_t) (mix (i, 6, (uint64_t) rank) % (i % 7 ? 3000 : 300000));
        if (blocks[slot])
            SHALL (((unsigned char *) blocks[slot])[0] == (unsigned char) (slot + 1));
        accel_free (acc, blocks[slot]);
        MUST (accel_alloc (acc, &blocks[slot], bytes, &err));
        SHALL ((uintptr_t) blocks[slot] % 64 == 0);
        for (size_t j = 0; j < bytes; j++)
            SHALL (((unsigned char *) blocks[slot])[j] == 0);
        memset (blocks[slot], (int) slot + 1, bytes ? bytes : 1);
    }
    for (int i = 0; i < 40; i++)
        accel_free (acc, blocks[i]);
    cases++;
}

static void
try_rounds (int rounds)
{
    for (int i = 0; i < rounds; i++) {
        void *memory;
        accel_close (acc);
        if (mix ((uint64_t) i, 9, (uint64_t) rank) % 5 == 0)
            usleep (1000);
        open_job ();
        MUST (accel_alloc (acc, &memory, 100000, &err));
        SHALL (((unsigned char *) memory)[99999] == 0);
        memset (memory, 1, 100000);
        SHALL (total_of (1) == size);
        if (i % 2)
            accel_free (acc, memory);
        cases++;
    }
}

int
main (int argc, char **argv)
{
    static const size_t sizes[] = { 0, 1, 3, 13, 511, 512, 1024, 1025, 2048, 4097, 16384, 32769, LARGEST };
    void *memory;
    seed = argc > 1 ? strtoull (argv[1], NULL, 10) : 1;
    open_job ();
    size_t most = (size_t) (LARGEST + PAD) * 8;
    foreign = malloc (2 * most);
    wanted = malloc (most);
    MUST (accel_alloc (acc, &memory, 2 * most, &err));
    own = memory;
    for (int r = 0; r < size; r++)
        inputs[r] = malloc (most);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int dtype = 0; dtype < ACCEL_DTYPE_COUNT; dtype++)
            if (size > 4 && i % 2) /* many ranks on few processors: every other size shall do */
                continue;
            else if (sizes[i] < 20000 || dtype == ACCEL_FLOAT32 || dtype == ACCEL_BFLOAT16 || dtype == ACCEL_INT8)
                try_size ((enum accel_dtype) dtype, sizes[i]);
    try_tensors ();
    try_control ();
    accel_free (acc, own);
    try_memory ();
    try_rounds (20);
    accel_print (acc, "%u cases, %d ranks, backend %s\n", cases, size, accel_comm_backend (world));
    accel_close (acc);
    for (int r = 0; r < size; r++)
        free (inputs[r]);
    free (foreign);
    free (wanted);
    return 0;
}
