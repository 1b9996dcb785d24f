/* SPDX-License-Identifier: Apache-2.0 */
/* The first values of a model: all ranks get those of rank 0; between hosts, nothing is sent if they are the same. */
#include <config.h>

#include "lib/comm/comm_private.h"
#include "lib/state/state_object.h"
#include "tests/ranks.h"
#include "tests/slow.h"
#include "tests/tap.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { RANKS = 3, ELEMENTS = 1037 };

/* In shared memory, because ranks are processes. */
static struct plan {
    bool is_one_host;
    int different; /* this rank has something else; 0: none does */
    int tensor;    /* 0: a parameter, 1: a buffer */
    uint32_t bits; /* of the last element there */
    bool is_sent;
} *plan;

typedef enum accel_status broadcast_function (struct accel_comm *comm, const struct comm_site *site, void *data,
                                              size_t count, enum accel_dtype dtype, int root, struct accel_error *err);
broadcast_function __real_comm_broadcast, __wrap_comm_broadcast;
static int sent;

enum accel_status
__wrap_comm_broadcast (struct accel_comm *comm, const struct comm_site *site, void *data, size_t count,
                       enum accel_dtype dtype, int root, struct accel_error *err)
{
    sent += count == ELEMENTS * sizeof (float);
    return __real_comm_broadcast (comm, site, data, count, dtype, root, err);
}

static void
act (struct accel *acc)
{
    static float values[2][ELEMENTS], wanted[2][ELEMENTS];
    struct accel_error err = { 0 };
    struct accel_model *model;
    const int64_t shape[] = { ELEMENTS };
    DLTensor tensors[2], grad;
    for (int t = 0; t < 2; t++) {
        for (int i = 0; i < ELEMENTS; i++)
            values[t][i] = wanted[t][i] = (float) (i * 7 % 13) + (float) t;
        tensors[t] = (DLTensor){ .data = values[t], .device = { kDLCPU, 0 }, .ndim = 1, .shape = (int64_t *) shape,
                                 .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
    }
    grad = tensors[0];
    grad.data = NULL;
    if (plan->different && accel_process_index (acc) == plan->different)
        memcpy (&values[plan->tensor][ELEMENTS - 1], &plan->bits, sizeof plan->bits);
    acc->identity.local_world_size = plan->is_one_host ? RANKS : 1;
    const struct accel_parameter parameters[] = { { "weights", &tensors[0], &grad }, { "buffer", &tensors[1], NULL } };
    rank_must (accel_model_create (&model, parameters, 2, &err), &err);
    sent = 0;
    rank_must (accel_prepare (acc, &err, model), &err);
    right (sent == (plan->is_sent ? 2 : 0), "%d tensors were sent", sent);
    right (!memcmp (values, wanted, sizeof values), "other values than rank 0 has");
    accel_model_destroy (model);
}

/* What has not been touched gets pages if steps will write it, which the comparison reads; what is not trained gets the
 * page of zeros.  @return bytes of pages that the process has */
static size_t
resident_bytes (void)
{
    unsigned long all = 0, resident = 0;
    FILE *file = fopen ("/proc/self/statm", "r");
    right (file && fscanf (file, "%lu %lu", &all, &resident) == 2, "no /proc/self/statm");
    if (file)
        fclose (file);
    return resident * (size_t) sysconf (_SC_PAGESIZE);
}

/* @return whether the kernel can get pages for memory, which Linux before 5.14 refuses */
static bool
can_populate (void)
{
    size_t bytes = (size_t) sysconf (_SC_PAGESIZE);
    void *page = mmap (NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool can = page != MAP_FAILED && !madvise (page, bytes, MADV_POPULATE_WRITE);
    if (page != MAP_FAILED)
        munmap (page, bytes);
    return can;
}

static void
act_untouched (struct accel *acc)
{
    enum { BYTES = 16 << 20, COUNT = BYTES / sizeof (float) };
    struct accel_error err = { 0 };
    struct accel_model *model;
    int64_t shape[] = { COUNT };
    float *values[2], gradient;
    DLTensor tensors[2], grad;
    for (int t = 0; t < 2; t++) {
        values[t] = mmap (NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        tensors[t] = (DLTensor){ .data = values[t], .device = { kDLCPU, 0 }, .ndim = 1, .shape = shape,
                                 .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
    }
    grad = tensors[0];
    grad.data = &gradient; /* no memory for it: only the comparison is of interest */
    acc->identity.local_world_size = 1;
    const struct accel_parameter parameters[] = { { "weights", &tensors[0], &grad }, { "buffer", &tensors[1], NULL } };
    rank_must (accel_model_create (&model, parameters, 2, &err), &err);
    size_t before = resident_bytes ();
    rank_must (accel_prepare (acc, &err, model), &err);
    size_t more = resident_bytes () - before;
    right (more >= BYTES - BYTES / 100 && more < 2 * (size_t) BYTES, "%zu KiB of pages", more >> 10);
    right (values[0][0] == 0 && values[0][COUNT - 1] == 0, "other values than rank 0 has");
    accel_model_destroy (model);
    for (int t = 0; t < 2; t++)
        munmap (values[t], BYTES);
}

int
main (void)
{
    static const struct {
        const char *what;
        struct plan plan;
    } rows[] = {
        { "hosts with the same values send none", { false, 0, 0, 0, false } },
        { "on one host, they are always sent", { true, 0, 0, 0, true } },
        { "an element of one rank is another", { false, 1, 0, 0x40000000, true } },
        { "a bit of the last rank's is another", { false, 2, 0, 0x00000001, true } },
        { "an element of its buffer is no number", { false, 2, 1, 0x7fc00001, true } },
    };
    plan = mmap (NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        *plan = rows[i].plan;
        as_ranks (RANKS, rows[i].what, act);
    }
    if (IS_SLOW)
        skip ("that sanitizer keeps something of all memory that is read");
    else if (can_populate ())
        as_ranks (RANKS, "what the comparison reads before steps write it gets pages", act_untouched);
    else
        skip ("the kernel has no MADV_POPULATE_WRITE");
    return done_testing ();
}
