/* SPDX-License-Identifier: Apache-2.0 */
/* accel_end_training(): what is still running comes to its end, on all processes. */
#include <config.h>

#include <accel/accumulate.h>
#include <accel/utility.h>

#include "lib/base/error.h"
#include "lib/checkpoint/agree.h"
#include "lib/checkpoint/save.h"
#include "lib/comm/comm_object.h"
#include "lib/state/prepared.h"
#include "lib/state/state_object.h"
#include "lib/train/reducer/join_round.h"
#include "lib/utility/profile.h"

enum accel_status
accel_end_training_at (const char *file, int line, struct accel *acc, struct accel_error *err)
{
    struct comm_site site = { file, line, JOBSEG_CALL_END_TRAINING };
    if (!acc)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_end_training: acc is NULL");
    if (join_steps (acc))
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "accel_end_training: end accel_join_uneven_inputs with accel_join_end first");
    prepared_stop (acc);
    struct accel_error own = { 0 };
    uint64_t entered = checkpoint_enter (acc, &site);
    enum accel_status status = checkpoint_leave (acc, &site, entered, save_finish (acc, &site, &own), &own, err);
    if (status)
        return status;
    status = profile_is_recording (acc) ? accel_profile_stop_at (file, line, acc, err) : ACCEL_OK;
    return status ? status : comm_barrier (acc->world, &site, err);
}
