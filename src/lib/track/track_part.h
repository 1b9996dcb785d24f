/* SPDX-License-Identifier: Apache-2.0 */
/* What each job has for trackers: the names of log_with, and what is running. */
#ifndef LIB_TRACK_PART_H
#define LIB_TRACK_PART_H

#include "lib/state/part.h"

extern const struct part_kind part_track;

/** accel_end_training(): let the trackers write what is left, and finish them. */
void track_end (struct accel *acc);

#endif
