/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that are waited for on their stream; see wait.c. */
#ifndef LIB_COMM_WAIT_H
#define LIB_COMM_WAIT_H

#include "lib/comm/work.h"

/** Whether calls at @p site, which is on a device, need not be waited for on the host. */
bool work_can_order (const struct accel_comm *comm, const struct comm_site *site);

/** accel_work_wait() for the library's own: @p work is over and freed also where it may be repeated. */
enum accel_status work_finish (struct accel_work *work, struct accel_error *err);

/** The same where the call was for a stream beside the device's: what is queued on the device's comes after it. */
enum accel_status work_join (struct accel_work *work, struct accel_error *err);

/** Run @p call, which has been checked, at such a site: what is queued on the device from now on comes after it. */
enum accel_status work_run (struct accel_comm *comm, const struct accel_engine_call *call, struct accel_error *err);

#endif
