/* SPDX-License-Identifier: Apache-2.0 */
/* accel_gather_for_metrics(), of a tensor or of a tree: a gather that knows where the active loader's data end. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/collectives/tensors.h"
#include "lib/collectives/verify.h"
#include "lib/data/active.h"

#include <accel/collectives.h>
#include <accel/loader.h>
#include <accel/parallel.h>

/* Gathered rows that are not repetitions; 0: all. */
static size_t
rows_to_keep (const struct accel *acc)
{
    const struct accel_loader *loader = loader_active (acc);
    return accel_loader_end_of_dataloader (loader) ? accel_loader_remainder (loader) : 0;
}

/* The processes of a row have the same samples. */
static enum accel_status
check_grid (const struct accel *acc, const struct comm_site *site, struct accel_error *err)
{
    if (!accel_device_mesh (acc))
        return ACCEL_OK;
    return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "%s: with tp_size above 1, samples would be gathered more than "
                       "once: gather over the dimension dp of accel_device_mesh", jobseg_call_name (site->call));
}

enum accel_status
accel_tree_gather_for_metrics_at (const char *file, int line, struct accel_tree **gathered, struct accel *acc,
                                  const struct accel_tree *tree, struct accel_error *err)
{
    struct comm_site site = { file, line, JOBSEG_CALL_TREE_GATHER_FOR_METRICS };
    struct accel_tree *all;
    if (!gathered)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_tree_gather_for_metrics: gathered is NULL");
    enum accel_status status = check_grid (acc, &site, err);
    if (!status)
        status = comm_gather_tree (acc, &site, gathered, tree, err);
    size_t rows = status ? 0 : rows_to_keep (acc);
    if (!rows)
        return status;
    all = *gathered;
    status = accel_tree_slice (gathered, all, 0, rows, err);
    accel_tree_destroy (all);
    return status;
}

enum accel_status
accel_gather_for_metrics_at (const char *file, int line, struct accel_tensor *out, struct accel *acc,
                             const DLTensor *tensor, struct accel_error *err)
{
    struct comm_site site = { file, line, JOBSEG_CALL_GATHER_FOR_METRICS };
    if (!acc || !tensor || !out)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_gather_for_metrics: %s is NULL",
                           !acc ? "acc" : !tensor ? "tensor" : "out");
    enum accel_status status = check_grid (acc, &site, err);
    if (!status)
        status = comm_verify_tensor (acc, &site, tensor, err);
    if (!status)
        status = comm_gather_tensor (acc, &site, tensor, out, err);
    int64_t rows = status ? 0 : (int64_t) rows_to_keep (acc);
    if (rows && out->shape[0] > rows)
        out->shape[0] = rows;
    return status;
}
