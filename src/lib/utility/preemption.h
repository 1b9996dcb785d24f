/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to save and to stop, on which all ranks agree; see accel/preemption.h. */
#ifndef LIB_UTILITY_PREEMPTION_H
#define LIB_UTILITY_PREEMPTION_H

#include "lib/state/part.h"

extern const struct part_kind part_preemption;

/** @p acc is connected: a request reaches it from now on. */
void preemption_begin (struct accel *acc);

#endif
