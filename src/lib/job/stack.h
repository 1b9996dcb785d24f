/* SPDX-License-Identifier: Apache-2.0 */
/* A process shows where it is: on a signal it writes its stack into its slot of the job segment, for `accelerate
 * stacks` and the launcher's warnings.  No permission to trace it is needed, and it need not be stopped. */
#ifndef LIB_JOB_STACK_H
#define LIB_JOB_STACK_H

#include <accel/base.h>

#include "util/jobseg.h"

/**
 * From now on the calling thread shows its stack in @p slot.
 *
 * A signal that this program uses is never taken: neither one with a handler, nor one that is ignored or blocked.
 *
 * @param number  of the signal; 0: the highest real-time signal that is free, if there is one; negative: none
 * @retval ACCEL_ERR_INVALID  @p number is not that of a real-time signal, or the program uses it
 */
enum accel_status stack_show (struct jobseg_slot *slot, int64_t number, struct accel_error *err);

/** No longer: @p slot will be gone.  NULL, or a slot in which nothing is shown, changes nothing. */
void stack_hide (struct jobseg_slot *slot);

#endif
