/* SPDX-License-Identifier: Apache-2.0 */
/* One result for all ranks; see agree.h. */
#include <config.h>

#include "lib/checkpoint/agree.h"

#include "lib/base/error.h"
#include "lib/checkpoint/checkpoint_part.h"
#include "lib/state/state_object.h"

#include <accel/state.h>

#include <string.h>

/* First the number of the lowest rank that failed; only if there is one, its error. */
enum accel_status
checkpoint_agree (struct accel *acc, const struct comm_site *site, enum accel_status status, struct accel_error *err)
{
    int size = accel_num_processes (acc), rank = accel_process_index (acc);
    int64_t failed = status ? rank : size, lowest;
    struct accel_error theirs = { 0 }, problem = { 0 };
    unsigned *agreed = &checkpoint_of (acc)->agreed;
    *agreed = status && size == 1 ? JOBSEG_FAILURE | JOBSEG_FAILURE_OWN : 0;
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
        *agreed = JOBSEG_FAILURE | (lowest == rank ? JOBSEG_FAILURE_OWN : 0);
        *err = theirs;
        return lowest == rank ? status : accel_fail_in (err, theirs.code, "rank %d", (int) lowest);
    }
    if (!status) /* a peer is gone: this rank's own failure, if it has one, says more */
        *err = problem;
    return status ? status : sent;
}

uint64_t
checkpoint_enter (struct accel *acc, const struct comm_site *site)
{
    checkpoint_of (acc)->agreed = 0;
    return comm_note_begin (acc->world, site, 0);
}

enum accel_status
checkpoint_leave (struct accel *acc, const struct comm_site *site, uint64_t entered, enum accel_status status,
                  const struct accel_error *own, struct accel_error *err)
{
    unsigned agreed = checkpoint_of (acc)->agreed;
    comm_note_end (acc->world, entered);
    if (!status)
        return ACCEL_OK;
    struct accel_error full = *own, ignored;
    comm_fail_in (site, status, &full);
    if (agreed)
        comm_note_failure (acc->world, agreed, 1, full.text);
    if (agreed && !comm_barrier (acc->world, site, &ignored)) /* otherwise a rank is gone */
        comm_note_failure (acc->world, agreed, 0, full.text);
    if (err)
        *err = full;
    return status;
}
