/* SPDX-License-Identifier: Apache-2.0 */
/* Calls under the original's names, control of who runs what, memory, and arguments that must be refused. */
#include <config.h>

#include "tests/conformance/conformance.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- tensors ---- */

/* Element i of rank r's tensor. */
static float
value (int rank, size_t i)
{
    return (float) (rank * 1000) + (float) i;
}

static void
describe (struct rank *self, struct accel_tensor *tensor, float *data, int ndim, const int64_t *shape)
{
    struct accel_error err;
    must (self, accel_tensor_init (tensor, ACCEL_FLOAT32, ndim, shape, &err), &err, "accel_tensor_init");
    tensor->dl.data = data;
    for (size_t i = 0; i < accel_tensor_count (&tensor->dl); i++)
        data[i] = value (self->rank, i);
}

static void
check_gathered (struct rank *self, const struct accel_tensor *tensor, const struct accel_tensor *out)
{
    const float *data = out->dl.data;
    size_t each = accel_tensor_count (&tensor->dl);
    if (out->dl.ndim != (tensor->dl.ndim ? tensor->dl.ndim : 1) || out->dl.strides || out->dl.byte_offset
        || out->dl.shape[0] != (tensor->dl.ndim ? tensor->dl.shape[0] : 1) * self->size)
        fail (self, "accel_gather: wrong shape");
    for (int d = 1; d < tensor->dl.ndim; d++)
        if (out->dl.shape[d] != tensor->dl.shape[d])
            fail (self, "accel_gather: wrong size of dimension %d", d);
    for (int r = 0; r < self->size; r++)
        for (size_t i = 0; i < each; i++)
            if (data[(size_t) r * each + i] != value (r, i))
                fail (self, "accel_gather: element %zu of rank %d is %g", i, r, (double) data[(size_t) r * each + i]);
}

static void
check_reduced (struct rank *self, struct accel_tensor *tensor, float *data)
{
    struct accel_error err;
    must (self, accel_reduce (self->acc, &tensor->dl, ACCEL_SUM, 1, &err), &err, "accel_reduce");
    for (size_t i = 0; i < accel_tensor_count (&tensor->dl); i++) {
        float sum = 0;
        for (int r = 0; r < self->size; r++)
            sum += value (r, i);
        if (data[i] != sum)
            fail (self, "accel_reduce: element %zu is %g, wanted %g", i, (double) data[i], (double) sum);
    }
}

static void
check_broadcast (struct rank *self, struct accel_tensor *tensor, float *data, int root)
{
    struct accel_error err;
    for (size_t i = 0; i < accel_tensor_count (&tensor->dl); i++)
        data[i] = value (self->rank, i);
    must (self, accel_broadcast (self->acc, &tensor->dl, root, &err), &err, "accel_broadcast");
    for (size_t i = 0; i < accel_tensor_count (&tensor->dl); i++)
        if (data[i] != value (root, i))
            fail (self, "accel_broadcast from %d: element %zu is %g", root, i, (double) data[i]);
}

/* Redundant strides, with any value for a dimension of size 1, and data that begin at an offset. */
static void
check_views (struct rank *self)
{
    static const int64_t shape[] = { 2, 1, 3 }, empty_shape[] = { 0, 5 };
    int64_t strides[] = { 3, 77, 1 }, empty_strides[] = { 1, 9 };
    struct accel_tensor tensor, empty, out = { .owned_bytes = 0 };
    struct accel_error err;
    float data[8];
    describe (self, &tensor, data + 2, 3, shape);
    tensor.dl.data = data;
    tensor.dl.byte_offset = 2 * sizeof *data;
    tensor.dl.strides = strides;
    must (self, accel_gather (&out, self->acc, &tensor.dl, &err), &err, "accel_gather of a view");
    check_gathered (self, &tensor, &out);
    check_reduced (self, &tensor, data + 2);
    describe (self, &empty, NULL, 2, empty_shape);
    empty.dl.strides = empty_strides;
    must (self, accel_gather (&out, self->acc, &empty.dl, &err), &err, "accel_gather of nothing, with strides");
    accel_tensor_release (&out);
}

/* A matrix transposed, and every second element from the end: 0, 1, 2 ... in the order of the view. */
static void
check_strided (struct rank *self)
{
    static const int64_t shape[] = { 3, 4 }, rows[] = { 5 };
    int64_t turned[] = { 1, 3 }, backwards[] = { -2 };
    struct accel_tensor tensor, out = { .owned_bytes = 0 };
    struct accel_error err;
    float data[12], scratch[12];
    describe (self, &tensor, scratch, 2, shape);
    tensor.dl.strides = turned;
    tensor.dl.data = data;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 4; j++)
            data[i + 3 * j] = value (self->rank, (size_t) (i * 4 + j));
    must (self, accel_gather (&out, self->acc, &tensor.dl, &err), &err, "accel_gather of a transposed matrix");
    check_gathered (self, &tensor, &out);
    must (self, accel_reduce (self->acc, &tensor.dl, ACCEL_SUM, 0.5, &err), &err, "accel_reduce");
    for (int i = 0; i < 12; i++) {
        float sum = 0;
        for (int r = 0; r < self->size; r++)
            sum += value (r, (size_t) i);
        if (data[i / 4 + 3 * (i % 4)] != sum * 0.5f)
            fail (self, "accel_reduce of a transposed matrix: element %d is wrong", i);
    }
    for (int i = 0; i < 12; i++)
        data[i] = -1;
    describe (self, &tensor, scratch, 1, rows);
    tensor.dl.strides = backwards;
    tensor.dl.data = data + 8;
    for (int i = 0; i < 5; i++)
        data[8 - 2 * i] = value (self->rank, (size_t) i);
    must (self, accel_broadcast (self->acc, &tensor.dl, self->size - 1, &err), &err, "accel_broadcast backwards");
    for (int i = 0; i < 5; i++)
        if (data[8 - 2 * i] != value (self->size - 1, (size_t) i) || data[2 * i + 1] != -1)
            fail (self, "accel_broadcast backwards: element %d is wrong", i);
    accel_tensor_release (&out);
}

/* 16-bit types too, with one rounding. */
static void
check_scale (struct rank *self)
{
    static const uint16_t one[] = { [ACCEL_FLOAT16] = 0x3c00, [ACCEL_BFLOAT16] = 0x3f80 },
                          quarter[] = { [ACCEL_FLOAT16] = 0x3400, [ACCEL_BFLOAT16] = 0x3e80 };
    const int64_t length = 3;
    struct accel_error err;
    struct accel_tensor tensor;
    double wide[] = { 1, 1, 1 };
    for (int d = ACCEL_FLOAT16; d <= ACCEL_BFLOAT16; d++) {
        uint16_t narrow[] = { one[d], one[d], one[d] };
        must (self, accel_tensor_init (&tensor, (enum accel_dtype) d, 1, &length, &err), &err, "accel_tensor_init");
        tensor.dl.data = narrow;
        must (self, accel_reduce (self->acc, &tensor.dl, ACCEL_MAX, 0.25, &err), &err, "accel_reduce");
        if (narrow[0] != quarter[d] || narrow[2] != quarter[d])
            fail (self, "accel_reduce of %s: %x", accel_dtype_name ((enum accel_dtype) d), narrow[0]);
    }
    must (self, accel_tensor_init (&tensor, ACCEL_FLOAT64, 1, &length, &err), &err, "accel_tensor_init");
    tensor.dl.data = wide;
    must (self, accel_reduce (self->acc, &tensor.dl, ACCEL_AVG, 0.1, &err), &err, "accel_reduce");
    if (wide[2] != 0.1)
        fail (self, "accel_reduce of float64: %g", wide[2]);
}

void
suite_tensors (struct rank *self)
{
    static const struct {
        int ndim;
        int64_t shape[3];
    } shapes[] = { { 0, { 0 } }, { 1, { 0 } }, { 2, { 0, 3 } }, { 2, { 3, 0 } },
                   { 1, { 5 } }, { 3, { 2, 3, 4 } }, { 3, { 40, 30, 50 } }, { 1, { 1 } } };
    struct accel_tensor tensor, out = { .owned_bytes = 0 };
    struct accel_error err;
    float *data = malloc (60000 * sizeof *data);
    const void *memory = NULL;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        describe (self, &tensor, data, shapes[s].ndim, shapes[s].shape);
        must (self, accel_gather (&out, self->acc, &tensor.dl, &err), &err, "accel_gather");
        check_gathered (self, &tensor, &out);
        check_reduced (self, &tensor, data);
        for (int root = 0; root < self->size; root++)
            check_broadcast (self, &tensor, data, root);
        if (s == 6)
            memory = out.dl.data;
        if (s == 7 && memory != out.dl.data)
            fail (self, "accel_gather did not use the memory of an earlier output again");
    }
    accel_tensor_release (&out);
    check_views (self);
    check_strided (self);
    check_scale (self);
    free (data);
}

/* ---- control ---- */

static int64_t
now_ns (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * 1000000000 + now.tv_nsec;
}

struct span {
    int64_t begin, end, position;
};

static void
take_time (void *user)
{
    struct span *span = user;
    span->begin = now_ns ();
    nanosleep (&(struct timespec){ .tv_nsec = 3000000 }, NULL);
    span->end = now_ns ();
}

/* On several hosts, the launcher says what is local, or Open MPI; @or is right on one. */
static int
local_value (const char *name, const char *of_mpi, int or)
{
    const char *text = getenv (name) ? getenv (name) : getenv (of_mpi);
    return text ? atoi (text) : or;
}

static int
local_rank (const struct rank *self)
{
    return local_value ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", self->rank);
}

static int
local_size (const struct rank *self)
{
    return local_value ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", self->size);
}

/* @position: this rank's, among those of which the first goes first. */
static void
check_first (struct rank *self, int position,
             enum accel_status (*call) (const char *file, int line, struct accel *acc, accel_task task, void *user,
                                        struct accel_error *err))
{
    struct accel_error err;
    struct span span = { .position = position }, all[64];
    must (self, call (__FILE__, __LINE__, self->acc, take_time, &span, &err), &err, "main process first");
    must (self, accel_comm_all_gather (self->comm, &span, all, 3, ACCEL_INT64, &err), &err, "all_gather");
    int found[64] = { 0 };
    for (int r = 0; r < self->size; r++) {
        int first = 0; /* ranks of other hosts may be in between */
        while (first < r && (all[first].position || found[first] != all[r].position))
            first++;
        found[first]++;
        if (first != r && all[r].begin < all[first].end)
            fail (self, "rank %d began before rank %d had ended", r, first);
    }
}

static void
check_state (struct rank *self)
{
    struct accel *acc = self->acc;
    bool several = self->size > 1;
    int local = local_rank (self), locals = local_size (self);
    const char *named = getenv ("ACCEL_ENGINE"), *engine = named && *named ? named
                                                           : locals < self->size ? "mpi"
                                                           : several             ? "shm"
                                                                                 : "self";
    if (accel_num_processes (acc) != self->size || accel_process_index (acc) != self->rank
        || accel_local_process_index (acc) != local || accel_local_num_processes (acc) != locals
        || accel_is_main_process (acc) != (self->rank == 0) || accel_is_local_main_process (acc) != (local == 0)
        || accel_is_last_process (acc) != (self->rank == self->size - 1))
        fail (self, "accel_open: wrong ranks or sizes");
    if (strcmp (accel_distributed_type (acc), several ? "MULTI_CPU" : "NO")
        || strcmp (accel_mixed_precision (acc), "no") || accel_device (acc).device_type != kDLCPU
        || strcmp (accel_comm_engine (self->comm), engine)
        || strcmp (accel_version (), PACKAGE_VERSION))
        fail (self, "accel_open: wrong type, precision, device or engine");
}

static void
check_split (struct rank *self)
{
    /* Of 3 processes, as the original does it: begin and end of each, padding of each. */
    static const struct {
        size_t length, bounds[6], padding[3];
    } rows[] = {
        { 0, { 0, 0, 0, 0, 0, 0 }, { 0, 0, 0 } },  { 1, { 0, 1, 1, 1, 1, 1 }, { 0, 1, 1 } },
        { 2, { 0, 1, 1, 2, 2, 2 }, { 0, 0, 1 } },  { 3, { 0, 1, 1, 2, 2, 3 }, { 0, 0, 0 } },
        { 5, { 0, 2, 2, 4, 4, 5 }, { 0, 0, 1 } },  { 7, { 0, 3, 3, 5, 5, 7 }, { 0, 1, 1 } },
        { 9, { 0, 3, 3, 6, 6, 9 }, { 0, 0, 0 } },
    };
    for (size_t i = 0; self->size == 3 && i < sizeof rows / sizeof *rows; i++)
        for (int padded = 0; padded < 2; padded++) {
            struct accel_split split = accel_split_between_processes (self->acc, rows[i].length, padded);
            const size_t *bounds = rows[i].bounds + 2 * self->rank;
            if (split.begin != bounds[0] || split.end != bounds[1]
                || split.padding != (padded ? rows[i].padding[self->rank] : 0))
                fail (self, "accel_split_between_processes (%zu): [%zu, %zu) + %zu", rows[i].length, split.begin,
                      split.end, split.padding);
        }
    /* Whatever the number of processes: in order, nothing lost, all equally long where they are padded. */
    struct accel_error err;
    for (size_t length = 0; length < 40; length++) {
        struct accel_split split = accel_split_between_processes (self->acc, length, true);
        int64_t mine[3] = { (int64_t) split.begin, (int64_t) split.end, (int64_t) split.padding }, all[64][3], at = 0;
        must (self, accel_comm_all_gather (self->comm, mine, all, 3, ACCEL_INT64, &err), &err, "all_gather");
        for (int r = 0; r < self->size; at = all[r++][1])
            if (all[r][0] != at || all[r][1] - at + all[r][2] != all[0][1] + all[0][2])
                fail (self, "accel_split_between_processes (%zu): rank %d has [%lld, %lld) + %lld", length, r,
                      (long long) all[r][0], (long long) all[r][1], (long long) all[r][2]);
        if (at != (int64_t) length)
            fail (self, "accel_split_between_processes (%zu): ends at %lld", length, (long long) at);
    }
}

static void
check_number (struct rank *self)
{
    static const double wanted_of_3[] = { [ACCEL_SUM] = 6.75, [ACCEL_AVG] = 2.25, [ACCEL_MIN] = 1.25,
                                          [ACCEL_MAX] = 3.25, [ACCEL_PROD] = 1.25 * 2.25 * 3.25 };
    struct accel_error err;
    for (int op = 0; op < ACCEL_OP_COUNT; op++) {
        double number = 1.25 + self->rank, other = 7;
        must (self, accel_reduce_number (self->acc, &number, (enum accel_op) op, &err), &err, "accel_reduce_number");
        if (self->size == 3 && number != wanted_of_3[op])
            fail (self, "accel_reduce_number, operation %d: %g", op, number);
        if (accel_reduce_number (NULL, &other, (enum accel_op) op, &err) != ACCEL_ERR_INVALID || other != 7)
            fail (self, "accel_reduce_number without a job: %g", other);
    }
    double exact = self->rank == 0 ? 0x1p53 - 64 : 1;
    must (self, accel_reduce_number (self->acc, &exact, ACCEL_SUM, &err), &err, "accel_reduce_number");
    if (exact != 0x1p53 - 65 + self->size)
        fail (self, "accel_reduce_number of whole numbers: %.17g", exact);
}

void
suite_control (struct rank *self)
{
    struct accel_error err;
    bool fired;
    check_state (self);
    check_split (self);
    check_first (self, self->rank, accel_main_process_first_at);
    check_first (self, local_rank (self), accel_local_main_process_first_at);
    for (int r = -1; r < self->size; r++) {
        /* Two ranks at once are one event. */
        if (self->rank == r || (r >= 0 && self->rank == 0))
            accel_set_trigger (self->acc);
        for (int again = 0; again < 2; again++) {
            must (self, accel_check_trigger (self->acc, &fired, &err), &err, "accel_check_trigger");
            if (fired != (r >= 0 && !again))
                fail (self, "accel_check_trigger %d of rank %d: %d", again, r, fired);
        }
    }
    check_number (self);
    must (self, accel_wait_for_everyone (self->acc, &err), &err, "accel_wait_for_everyone");
    accel_print (self->acc, "printed by local rank %d\n", self->rank);
}

/* ---- memory ---- */

void
suite_memory (struct rank *self)
{
    static const size_t sizes[] = { 0, 1, 63, 64, 65, 4096, 65535, 65536, 65537, 1 << 20, (2 << 20) + 1, 5 << 20 };
    enum { COUNT = sizeof sizes / sizeof *sizes };
    struct accel_error err;
    unsigned char *blocks[COUNT];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < COUNT; i++) {
            void *memory;
            must (self, accel_alloc (self->acc, sizes[i], &memory, &err), &err, "accel_alloc");
            blocks[i] = memory;
            if ((uintptr_t) memory % 64)
                fail (self, "accel_alloc (%zu) is not aligned", sizes[i]);
            for (size_t b = 0; b < sizes[i]; b++)
                if (blocks[i][b])
                    fail (self, "accel_alloc (%zu): byte %zu is not zero", sizes[i], b);
            memset (memory, i + 1, sizes[i]);
        }
        for (int i = 0; i < COUNT; i++) {
            int at = (i * 5 + round) % COUNT;
            for (size_t b = 0; b < sizes[at]; b++)
                if (blocks[at][b] != at + 1)
                    fail (self, "block %zu: byte %zu is another's", sizes[at], b);
            accel_free (self->acc, blocks[at]);
        }
    }
    accel_free (self->acc, NULL);
    void *none = blocks;
    enum accel_status status = accel_alloc (self->acc, SIZE_MAX - 100, &none, &err);
    if (status != ACCEL_ERR_NOMEM || none)
        fail (self, "accel_alloc of everything: status %d", (int) status);
}

/* ---- arguments ---- */

static void
refuse_buffers (struct rank *self)
{
    struct accel_error err;
    struct accel_comm *comm = self->comm;
    const enum accel_dtype f32 = ACCEL_FLOAT32, no_dtype = (enum accel_dtype) 99, bad = (enum accel_dtype) -1;
    const enum accel_op no_op = (enum accel_op) 99;
    float a[64] = { 0 }, b[64 * 64];
    int size = self->size;
#define REFUSED(call, words) must_refuse (self, call, &err, #call, words)
    REFUSED (accel_comm_all_reduce (comm, NULL, a, 4, f32, ACCEL_SUM, &err), "NULL");
    REFUSED (accel_comm_all_reduce (comm, a, NULL, 4, f32, ACCEL_SUM, &err), "NULL");
    REFUSED (accel_comm_all_gather (comm, NULL, b, 4, f32, &err), "NULL");
    REFUSED (accel_comm_all_gather (comm, a, NULL, 4, f32, &err), "NULL");
    REFUSED (accel_comm_broadcast (comm, NULL, 4, f32, 0, &err), "NULL");
    REFUSED (accel_comm_reduce_scatter (comm, NULL, a, 4, f32, ACCEL_SUM, &err), "NULL");
    REFUSED (accel_comm_reduce_scatter (comm, b, NULL, 4, f32, ACCEL_SUM, &err), "NULL");
    REFUSED (accel_comm_all_to_all (comm, a, a, 1, f32, &err), "in place");
    REFUSED (accel_comm_all_to_all (comm, NULL, b, 4, f32, &err), "NULL");
    REFUSED (accel_comm_send (comm, a, 4, f32, self->rank, &err), "to itself");
    REFUSED (accel_comm_recv (comm, a, 4, f32, self->rank, &err), "to itself");
    REFUSED (accel_comm_send (comm, a, 4, f32, size, &err), "no rank");
    REFUSED (accel_comm_recv (comm, a, 4, f32, -1, &err), "negative");
    if (size > 1) {
        REFUSED (accel_comm_send (comm, NULL, 4, f32, (self->rank + 1) % size, &err), "NULL");
        REFUSED (accel_comm_recv (comm, NULL, 4, f32, (self->rank + 1) % size, &err), "NULL");
        REFUSED (accel_comm_send (comm, a, 4, bad, (self->rank + 1) % size, &err), "invalid ");
    }
    REFUSED (accel_comm_all_reduce (comm, a, a, 4, no_dtype, ACCEL_SUM, &err), "calls.c:");
    REFUSED (accel_comm_all_gather (comm, a, b, 4, bad, &err), "invalid ");
    REFUSED (accel_comm_broadcast (comm, a, 4, ACCEL_DTYPE_COUNT, 0, &err), "invalid ");
    REFUSED (accel_comm_reduce_scatter (comm, b, a, 4, no_dtype, ACCEL_SUM, &err), "invalid ");
    REFUSED (accel_comm_all_reduce (comm, a, a, 4, f32, no_op, &err), "invalid ");
    REFUSED (accel_comm_reduce_scatter (comm, b, a, 4, f32, ACCEL_OP_COUNT, &err), "invalid ");
    for (int dtype = ACCEL_INT8; dtype < ACCEL_DTYPE_COUNT; dtype++) {
        REFUSED (accel_comm_all_reduce (comm, a, a, 4, (enum accel_dtype) dtype, ACCEL_AVG, &err), "average");
        REFUSED (accel_comm_reduce_scatter (comm, b, a, 4, (enum accel_dtype) dtype, ACCEL_AVG, &err), "average");
    }
    REFUSED (accel_comm_broadcast (comm, a, 4, f32, -1, &err), "root");
    REFUSED (accel_comm_broadcast (comm, a, 4, f32, size, &err), "no rank");
    REFUSED (accel_comm_broadcast (comm, a, 0, f32, size, &err), "no rank");
    REFUSED (accel_comm_all_reduce (comm, a, a, SIZE_MAX / 4 + 2, f32, ACCEL_SUM, &err), "overflows");
    REFUSED (accel_comm_all_gather (comm, a, b, SIZE_MAX / 4 / (size_t) size + 1, f32, &err), "overflows");
    REFUSED (accel_comm_broadcast (comm, a, SIZE_MAX, f32, 0, &err), "overflows");
    REFUSED (accel_comm_reduce_scatter (comm, b, a, SIZE_MAX / 8 / (size_t) size + 1, f32, ACCEL_SUM, &err), "size");
    /* And without a place for the error. */
    if (accel_comm_broadcast (comm, NULL, 4, f32, 0, NULL) != ACCEL_ERR_INVALID)
        fail (self, "no status without an error object");
}

static void
refuse_tensors (struct rank *self)
{
    static const int64_t shape[] = { 2, 3 };
    struct accel *acc = self->acc;
    struct accel_error err;
    struct accel_tensor good, bad, out = { .owned_bytes = 0 };
    int64_t strides[] = { 0, 1 };
    float data[6];
    describe (self, &good, data, 2, shape);
#define BAD(change, words)                                                                                           \
    do {                                                                                                             \
        describe (self, &bad, data, 2, shape);                                                                       \
        change;                                                                                                      \
        REFUSED (accel_gather (&out, acc, &bad.dl, &err), words);                                                    \
        REFUSED (accel_reduce (acc, &bad.dl, ACCEL_SUM, 1, &err), words);                                            \
        REFUSED (accel_broadcast (acc, &bad.dl, 0, &err), words);                                                    \
    } while (0)
    describe (self, &bad, data, 2, shape);
    bad.dl.device.device_type = kDLCUDA;
    if (accel_gather (&out, acc, &bad.dl, &err) != ACCEL_ERR_UNSUPPORTED || !strstr (err.text, "no code for cuda"))
        fail (self, "accel_gather of a tensor on a GPU: %s", err.text);
    BAD (bad.dl.dtype.lanes = 2, "element type");
    BAD (bad.dl.dtype.bits = 24, "element type");
    BAD (bad.dl.ndim = -1, "ndim");
    BAD (bad.dl.ndim = ACCEL_MAX_DIMS + 1, "ndim");
    BAD (bad.shape[1] = -3, "negative");
    BAD (bad.dl.data = NULL, "NULL");
    BAD (bad.shape[0] = bad.shape[1] = (int64_t) 1 << 62, "overflows");
#undef BAD
    describe (self, &bad, data, 2, shape);
    bad.dl.strides = strides;
    REFUSED (accel_reduce (acc, &bad.dl, ACCEL_SUM, 1, &err), "stride 0");
    REFUSED (accel_broadcast (acc, &bad.dl, 0, &err), "stride 0");
    describe (self, &bad, data, 2, shape);
    bad.dl.dtype = accel_dtype_to_dl (ACCEL_INT32);
    REFUSED (accel_reduce (acc, &bad.dl, ACCEL_SUM, 0.5, &err), "floating-point");
    REFUSED (accel_gather (&out, acc, NULL, &err), "NULL");
    REFUSED (accel_gather (NULL, acc, &good.dl, &err), "NULL");
    REFUSED (accel_reduce (acc, NULL, ACCEL_SUM, 1, &err), "NULL");
    REFUSED (accel_broadcast (acc, NULL, 0, &err), "NULL");
    REFUSED (accel_reduce (acc, &good.dl, (enum accel_op) 77, 1, &err), "invalid ");
    REFUSED (accel_broadcast (acc, &good.dl, self->size, &err), "no rank");
    REFUSED (accel_broadcast (acc, &good.dl, -2, &err), "root");
    struct accel_tensor theirs = good;
    REFUSED (accel_gather (&theirs, acc, &good.dl, &err), "does not own");
    REFUSED (accel_main_process_first (acc, NULL, NULL, &err), "NULL");
    REFUSED (accel_reduce_number (acc, NULL, ACCEL_SUM, &err), "NULL");
#undef REFUSED
    accel_tensor_release (&out);
}

void
suite_arguments (struct rank *self)
{
    struct accel_error err;
    int32_t sum = 1;
    refuse_buffers (self);
    refuse_tensors (self);
    /* Nothing was sent and nothing is broken. */
    must (self, accel_comm_all_reduce (self->comm, &sum, &sum, 1, ACCEL_INT32, ACCEL_SUM, &err), &err, "afterwards");
    if (sum != self->size)
        fail (self, "afterwards the sum is %d", (int) sum);
    /* Buffers of no elements may be NULL. */
    must (self, accel_comm_all_reduce (self->comm, NULL, NULL, 0, ACCEL_INT32, ACCEL_SUM, &err), &err, "no elements");
    must (self, accel_comm_all_gather (self->comm, NULL, NULL, 0, ACCEL_INT32, &err), &err, "no elements");
    must (self, accel_comm_broadcast (self->comm, NULL, 0, ACCEL_INT32, 0, &err), &err, "no elements");
    must (self, accel_comm_reduce_scatter (self->comm, NULL, NULL, 0, ACCEL_FLOAT16, ACCEL_AVG, &err), &err,
          "no elements");
}
