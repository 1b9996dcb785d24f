/* SPDX-License-Identifier: Apache-2.0 */
/* accel_gather_for_metrics(): a gather that knows where the active loader's data end. */
#include <config.h>

#include "lib/comm/tensors.h"
#include "lib/comm/verify.h"
#include "lib/error.h"
#include "lib/state/state_private.h"

#include <accel/loader.h>

enum accel_status
accel_gather_for_metrics_at (const char *file, int line, struct accel *acc, const DLTensor *tensor,
                             struct accel_tensor *out, struct accel_error *err)
{
    struct comm_site site = { file, line, JOBSEG_CALL_GATHER_FOR_METRICS };
    if (!acc || !tensor || !out)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_gather_for_metrics: %s is NULL",
                           !acc ? "acc" : !tensor ? "tensor" : "out");
    enum accel_dtype dtype;
    enum accel_status status = comm_check_tensor (&site, tensor, &dtype, err);
    if (!status)
        status = comm_verify_tensor (acc, &site, tensor, err);
    if (!status)
        status = comm_gather_tensor (acc, &site, tensor, out, err);
    const struct accel_loader *loader = state_active_loader (acc);
    if (status || !loader || !accel_loader_end_of_dataloader (loader))
        return status;
    int64_t remainder = (int64_t) accel_loader_remainder (loader);
    if (remainder && out->shape[0] > remainder)
        out->shape[0] = remainder;
    return ACCEL_OK;
}
