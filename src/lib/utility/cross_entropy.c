/* SPDX-License-Identifier: Apache-2.0 */
/* Cross-entropy of logits that are divided among processes: what Megatron-LM calls vocabulary-parallel. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/collectives/tensors.h"
#include "lib/memory/memory.h"
#include "util/cleanup.h"

#include <accel/parallel.h>

#include <math.h>
#include <stdlib.h>

/* What travels: the logits of labels, of those who have them, and sums of exponentials. */
struct row_sums {
    float label, sum;
};

static float
largest (const float *row, size_t columns)
{
    float most = -INFINITY;
    for (size_t c = 0; c < columns; c++)
        most = most >= row[c] ? most : row[c]; /* of a NaN, the sum becomes NaN */
    return most;
}

/* Logits become exponentials. */
static struct row_sums
add_up (float *row, size_t columns, int64_t label, float most)
{
    struct row_sums sums = { 0 };
    double sum = 0;
    if (label >= 0 && label < (int64_t) columns)
        sums.label = row[label] - most;
    for (size_t c = 0; c < columns; c++)
        sum += (double) (row[c] = expf (row[c] - most));
    sums.sum = (float) sum;
    return sums;
}

/* @label: among this process's classes, or outside of them */
static float
finish (float *row, size_t columns, int64_t label, struct row_sums sums, float scale)
{
    for (size_t c = 0; c < columns; c++)
        row[c] *= scale / sums.sum;
    if (label >= 0 && label < (int64_t) columns)
        row[label] -= scale;
    return logf (sums.sum) - sums.label;
}

static enum accel_status
compute (const struct comm_site *site, struct accel_comm *comm, const int32_t *labels, size_t rows, size_t columns,
         float scale, float *logits, float *losses, struct accel_error *err)
{
    int64_t size = comm ? accel_comm_size (comm) : 1, classes = (int64_t) columns * size;
    int64_t first = comm ? accel_comm_rank (comm) * (int64_t) columns : 0;
    enum accel_status status = ACCEL_OK;
    for (size_t r = 0; r < rows; r++)
        if (labels[r] >= classes)
            return accel_fail (err, ACCEL_ERR_INVALID, "accel_parallel_cross_entropy: label %d of row %zu, but there "
                               "are %lld classes", labels[r], r, (long long) classes);
    AUTO_FREE struct row_sums *sums = calloc (rows + 1, sizeof *sums);
    if (!sums) {
        if (comm)
            comm_give_up (comm, "cannot allocate memory for losses");
        return comm_no_memory (site, err);
    }
    for (size_t r = 0; r < rows; r++)
        losses[r] = largest (logits + r * columns, columns);
    if (comm)
        status = comm_all_reduce (comm, site, losses, losses, rows, ACCEL_FLOAT32, ACCEL_MAX, err);
    for (size_t r = 0; r < rows && !status; r++)
        sums[r] = add_up (logits + r * columns, columns, labels[r] - first, losses[r]);
    if (comm && !status)
        status = comm_all_reduce (comm, site, sums, sums, 2 * rows, ACCEL_FLOAT32, ACCEL_SUM, err);
    for (size_t r = 0; r < rows && !status; r++) {
        bool counts = labels[r] >= 0;
        int64_t label = counts ? labels[r] - first : -1;
        float loss = finish (logits + r * columns, columns, label, sums[r], counts ? scale : 0);
        losses[r] = counts ? loss : 0;
    }
    return status;
}

/* An array of the program's, and the same on the host. */
struct array {
    DLDevice device;
    void *own, *host;
    size_t bytes;
};

static enum accel_status
fetch (struct array *array, const void *own, size_t bytes, struct accel_error *err)
{
    *array = (struct array){ .device = memory_locate (own), .own = (void *) (uintptr_t) own, .bytes = bytes };
    array->host = array->own;
    if (!array->device.device_type)
        return ACCEL_OK;
    array->host = malloc (bytes);
    return array->host ? memory_of (array->device)->read (array->device, array->host, own, bytes, err)
                       : accel_fail_nomem (err);
}

/* Give back what is on the host. */
static void
let_go (const struct array *array, bool is_changed)
{
    if (array->host == array->own)
        return;
    if (is_changed)
        memory_of (array->device)->write (array->device, array->own, array->host, array->bytes);
    free (array->host);
}

/* On a GPU, which is where logits are large, the host computes with copies. */
enum accel_status
accel_parallel_cross_entropy_at (const char *file, int line, struct accel_comm *comm, const int32_t *labels,
                                 size_t rows, size_t columns, float scale, float *logits, float *losses,
                                 struct accel_error *err)
{
    const struct comm_site *site = SITE (PARALLEL_CROSS_ENTROPY);
    struct array arrays[3] = { { .bytes = 0 } };
    if (rows && (!losses || !logits || !labels))
        return accel_fail_null (err, "accel_parallel_cross_entropy",
                                !losses ? "losses" : !logits ? "logits" : "labels");
    enum accel_status status = fetch (&arrays[0], labels, rows * sizeof *labels, err);
    if (!status)
        status = fetch (&arrays[1], logits, rows * columns * sizeof *logits, err);
    if (!status)
        status = fetch (&arrays[2], losses, rows * sizeof *losses, err);
    if (status && comm)
        comm_give_up (comm, "cannot copy logits to the host");
    if (!status)
        status = compute (site, comm, arrays[0].host, rows, columns, scale, arrays[1].host, arrays[2].host, err);
    for (int i = 0; i < 3; i++)
        let_go (&arrays[i], i && !status);
    for (int i = 1; i < 3 && !status; i++)
        if (arrays[i].host != arrays[i].own) /* writes have no outcome of their own */
            status = memory_check (arrays[i].device, err);
    return status;
}
