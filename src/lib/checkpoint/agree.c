/* SPDX-License-Identifier: Apache-2.0 */
/* One result for all ranks; see agree.h. */
#include <config.h>

#include "lib/checkpoint/agree.h"

#include "lib/base/error.h"

#include <accel/state.h>

#include <string.h>

/* First the number of the lowest rank that failed; only if there is one, its error. */
enum accel_status
checkpoint_agree (struct accel *acc, const struct comm_site *site, enum accel_status status, struct accel_error *err)
{
    int size = accel_num_processes (acc), rank = accel_process_index (acc);
    int64_t failed = status ? rank : size, lowest;
    struct accel_error theirs = { 0 }, problem = { 0 };
    if (size == 1)
        return status;
    enum accel_status sent
        = comm_all_reduce (accel_world (acc), site, &failed, &lowest, 1, ACCEL_INT64, ACCEL_MIN, &problem);
    if (!sent && lowest == size)
        return ACCEL_OK;
    if (!sent && lowest == rank)
        theirs = *err;
    if (!sent)
        sent = comm_broadcast (accel_world (acc), site, &theirs, sizeof theirs, ACCEL_UINT8, (int) lowest, &problem);
    if (!sent) {
        *err = theirs;
        return lowest == rank ? status : accel_fail_in (err, theirs.code, "rank %d", (int) lowest);
    }
    if (!status) /* a peer is gone: this rank's own failure, if it has one, says more */
        *err = problem;
    return status ? status : sent;
}
