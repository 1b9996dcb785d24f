/* SPDX-License-Identifier: Apache-2.0 */
/* Cross-entropy of logits that are divided among processes: what Megatron-LM calls vocabulary-parallel. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/collectives/tensors.h"
#include "lib/memory/memory.h"

#include <accel/parallel.h>

/* Once for all rows: small code counts more than fast code. */
#define SMALL __attribute__ ((cold))

/* An array of the program's, and the same on the device where it is needed. */
struct array {
    DLDevice from, to;
    void *own, *there;
    size_t bytes;
};

static DLDevice
locate (const void *address)
{
    DLDevice device = memory_locate (address);
    return device.device_type ? device : (DLDevice){ .device_type = kDLCPU };
}

/* @param is_read  it has values already */
SMALL static enum accel_status
place (struct array *array, const void *own, size_t bytes, DLDevice to, bool is_read, struct accel_error *err)
{
    DLDevice from = locate (own);
    *array = (struct array){ from, to, (void *) (uintptr_t) own, (void *) (uintptr_t) own, bytes };
    if (memory_is_same (from, to))
        return ACCEL_OK;
    const struct memory *memory = memory_of (to);
    if (!memory->host && !memory_of (from)->host)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_parallel_cross_entropy: arrays are on two devices");
    array->there = memory->create (to, bytes, false);
    if (!array->there)
        return memory_fail (to, err, "accel_parallel_cross_entropy: cannot allocate %zu bytes", bytes);
    if (memory->host && is_read)
        return memory_of (from)->read (from, array->there, own, bytes, err);
    if (is_read)
        memory->write (to, array->there, own, bytes);
    return ACCEL_OK;
}

/* @param is_changed  copy what is there to where the program has it */
SMALL static enum accel_status
take_back (const struct array *array, bool is_changed, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    if (array->there == array->own)
        return ACCEL_OK;
    const struct memory *memory = memory_of (array->to);
    if (is_changed && memory->host) {
        memory_of (array->from)->write (array->from, array->own, array->there, array->bytes);
        status = memory_check (array->from, err); /* a write has no outcome of its own */
    } else if (is_changed) {
        status = memory->read (array->to, array->own, array->there, array->bytes, err);
    }
    memory->destroy (array->to, array->there);
    return status;
}

static enum accel_status
check_labels (const int32_t *labels, size_t count, int64_t classes, struct accel_error *err)
{
    for (size_t r = 0; r < count; r++)
        if (labels[r] >= classes)
            return accel_fail (err, ACCEL_ERR_INVALID, "accel_parallel_cross_entropy: label %d of row %zu, but there "
                               "are %lld classes", labels[r], r, (long long) classes);
    return ACCEL_OK;
}

SMALL static enum accel_status
compute (const struct comm_site *site, struct accel_comm *comm, DLDevice device, struct vocabulary_rows *rows,
         struct accel_error *err)
{
    const struct memory *memory = memory_of (device);
    const struct memory_vocabulary *vocabulary = memory->vocabulary;
    struct comm_site there = comm_site_on (site, device);
    enum accel_status status = ACCEL_OK;
    rows->sums = memory->create (device, rows->count * sizeof *rows->sums, false);
    if (!rows->sums) {
        if (comm)
            comm_give_up (comm, "cannot allocate memory for losses");
        return memory_fail (device, err, "accel_parallel_cross_entropy: cannot allocate memory for losses");
    }
    vocabulary->find_largest (device, rows);
    if (comm)
        status = comm_all_reduce (comm, &there, rows->losses, rows->losses, rows->count, ACCEL_FLOAT32, ACCEL_MAX, err);
    if (!status)
        vocabulary->add_up (device, rows);
    if (comm && !status)
        status = comm_all_reduce (comm, &there, rows->sums, rows->sums, 2 * rows->count, ACCEL_FLOAT32, ACCEL_SUM, err);
    if (!status)
        vocabulary->finish (device, rows);
    memory->destroy (device, rows->sums);
    return status;
}

/* Where the logits are, without a wait of the host, unless it has labels or losses: then it sees all labels before
 * anything is sent. */
SMALL enum accel_status
accel_parallel_cross_entropy_at (const char *file, int line, struct accel_comm *comm, const int32_t *labels,
                                 size_t rows, size_t columns, float scale, float *logits, float *losses,
                                 struct accel_error *err)
{
    enum { LABELS, LOSSES, SEEN, ARRAYS };
    const struct comm_site *site = SITE (PARALLEL_CROSS_ENTROPY);
    const DLDevice device = locate (logits), host = { .device_type = kDLCPU };
    const int64_t own = (int64_t) columns, rank = comm ? accel_comm_rank (comm) : 0;
    const int64_t all = own * (comm ? accel_comm_size (comm) : 1);
    struct array arrays[ARRAYS] = { { .bytes = 0 } };
    bool is_seen = false;
    if (rows && (!losses || !logits || !labels))
        return accel_fail_null (err, "accel_parallel_cross_entropy",
                                !losses ? "losses" : !logits ? "logits" : "labels");
    enum accel_status status = place (&arrays[LABELS], labels, rows * sizeof *labels, device, true, err);
    if (!status)
        status = place (&arrays[LOSSES], losses, rows * sizeof *losses, device, false, err);
    if (!status)
        is_seen = memory_of (device)->host || memory_of (arrays[LABELS].from)->host
                  || memory_of (arrays[LOSSES].from)->host;
    if (is_seen)
        status = place (&arrays[SEEN], labels, rows * sizeof *labels, host, true, err);
    if (status && comm)
        comm_give_up (comm, "cannot copy labels");
    else if (!status && is_seen)
        status = check_labels (arrays[SEEN].there, rows, all, err);
    struct vocabulary_rows all_rows = { { rank * own, own, all }, rows, arrays[LABELS].there, logits,
                                        arrays[LOSSES].there, NULL, scale };
    if (!status)
        status = compute (site, comm, device, &all_rows, err);
    for (int i = 0; i < ARRAYS; i++) {
        enum accel_status taken = take_back (&arrays[i], i == LOSSES && !status, err);
        status = status ? status : taken;
    }
    return status ? status : memory_check (device, err);
}
