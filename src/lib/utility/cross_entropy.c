/* SPDX-License-Identifier: Apache-2.0 */
/* Cross-entropy of logits that are divided among processes: what Megatron-LM calls vocabulary-parallel. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/collectives/tensors.h"
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

enum accel_status
accel_parallel_cross_entropy_at (const char *file, int line, struct accel_comm *comm, const int32_t *labels,
                                 size_t rows, size_t columns, float scale, float *logits, float *losses,
                                 struct accel_error *err)
{
    const struct comm_site *site = SITE (PARALLEL_CROSS_ENTROPY);
    int64_t size = comm ? accel_comm_size (comm) : 1, classes = (int64_t) columns * size;
    int64_t first = comm ? accel_comm_rank (comm) * (int64_t) columns : 0;
    enum accel_status status = ACCEL_OK;
    if (rows && (!losses || !logits || !labels))
        return accel_fail_null (err, "accel_parallel_cross_entropy",
                                !losses ? "losses" : !logits ? "logits" : "labels");
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
